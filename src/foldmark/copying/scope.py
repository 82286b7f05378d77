"""The scope of a copy: its agents, checked to be complete."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from foldmark.core.agents import AgentRecord
from foldmark.core.errors import CommandError
from foldmark.core.ports import Snapshot
from foldmark.core.records import CopiedEnd, CopiedMail
from foldmark.core.wording import listing


class CopyScope(Struct, frozen=True):
    """The agents to copy, uuid -> record, oldest first; `all` agents of the source, uuid -> place; and whether that is
    the `whole` database, with what belongs to no conversation."""

    agents: dict[str, AgentRecord]
    all: dict[str, int]
    whole: bool

    @property
    def wanted(self) -> list[str] | None:
        """The uuids to ask for; None for all."""
        return None if self.whole else list(self.agents)


def scope(moment: Snapshot, names: Sequence[str]) -> CopyScope:
    """Return the conversations with these names or uuids with all their forks; the whole database without any. Raises
    CommandError for an unknown name."""
    records = {record.id: record for record in moment.agents()}
    places = {agent: place for place, agent in enumerate(records, 1)}
    if not names:
        return CopyScope(records, places, True)
    roots = _roots(records)
    by_name = {record.name: record.id for record in records.values() if record.name}
    wanted = set()
    for name in names:
        agent = by_name.get(name) or (name.lower() if name.lower() in records else None)
        if agent is None:
            told = f"conversations: {listing(by_name)}" if by_name else "it has no conversation"
            raise CommandError(f"there is no conversation '{name}' to copy; {told}")
        wanted.add(roots[agent])
    chosen = {agent: record for agent, record in records.items() if roots[agent] in wanted}
    _check_complete(moment, chosen, records, roots)
    return CopyScope(chosen, places, False)


def _check_complete(
    moment: Snapshot, chosen: Mapping[str, AgentRecord], records: Mapping[str, AgentRecord], roots: Mapping[str, str]
) -> None:
    """Raise CommandError if the copied agents refer to agents of other conversations."""
    named = {mail.sender for mail in moment.copied(CopiedMail, list(chosen))}
    named |= {end.killed[0] for end in moment.copied(CopiedEnd, list(chosen)) if end.killed is not None}
    others = {roots[agent] for agent in named} - {roots[agent] for agent in chosen}
    if others:
        more = " ".join(f"--conversation {records[agent].name or agent}" for agent in sorted(others))
        raise CommandError(f"other conversations wrote to what is to be copied. Copy them along: {more}")


def _roots(records: Mapping[str, AgentRecord]) -> dict[str, str]:
    """Return the root of each agent."""
    roots = dict[str, str]()
    for agent in records:
        way = [agent]
        while way[-1] not in roots and (parent := records[way[-1]].parent) is not None:
            way.append(parent)
        root = roots.get(way[-1], way[-1])
        roots.update(dict.fromkeys(way, root))
    return roots
