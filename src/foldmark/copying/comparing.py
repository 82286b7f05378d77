"""Compare two stores: the scope of a copy, the check of its target, the differing records, and hashes of everything in
the scope."""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foldmark.core import selections
from foldmark.core.agents import AgentRecord, check_name
from foldmark.core.assembly.sent import owners
from foldmark.core.codec import decode_data
from foldmark.core.errors import CommandError, DamagedError
from foldmark.core.events import ROLES, Event
from foldmark.core.ports import Snapshot
from foldmark.core.records import CopiedEvent, CopiedMemo
from foldmark.core.segments import END, Segment
from foldmark.core.wording import listing

Item = TypeVar("Item")

_AT_ONCE = 500


class OwnContentsError(CommandError):
    """The target of a copy has contents that are not from an earlier copy of the source."""


class CopyScope(Struct, frozen=True):
    """The agents to copy, uuid -> record, oldest first; `all` agents of the source, uuid -> place. `whole` is True for
    the whole database, including memos, which belong to no conversation."""

    agents: dict[str, AgentRecord]
    all: dict[str, int]
    whole: bool


def scope(moment: Snapshot, names: Sequence[str], called: str | None = None) -> CopyScope:
    """Return the conversations with these names or uuids and all their forks; without names, the whole database. Raises
    CommandError for an unknown name, if other conversations have written to these, and unless `called`, a new name, can
    be given to the only named one."""
    if called is not None:
        check_name(called)
        if len(names) != 1:
            raise CommandError("--as gives a name to one conversation: name it with --conversation")
    records = {record.id: record for record in moment.agents()}
    places = {agent: place for place, agent in enumerate(records, 1)}
    if not names:
        return CopyScope(records, places, True)
    roots = dict[str, str]()
    for agent, record in records.items():  # a parent comes before its forks
        roots[agent] = roots.get(record.parent or "", agent)
    by_name = {record.name: record.id for record in records.values() if record.name}
    wanted = set()
    for name in names:
        found = by_name.get(name) or (name.lower() if name.lower() in records else None)
        if found is None:
            available = f"conversations: {listing(by_name)}" if by_name else "it has no conversation"
            raise CommandError(f"there is no conversation '{name}' to copy; {available}")
        wanted.add(roots[found])
    chosen = {agent: record for agent, record in records.items() if roots[agent] in wanted}
    writers = {writer for agent in chosen for writer in _writers(moment, agent)}
    if others := {roots[agent] for agent in writers} - wanted:
        more = " ".join(f"--conversation {records[agent].name or agent}" for agent in sorted(others))
        raise CommandError(f"other conversations have written to these. Copy them as well: {more}")
    return CopyScope(chosen, places, False)


def _writers(moment: Snapshot, agent: str) -> Iterator[str]:
    """Yield the agents that wrote mail to an agent, or killed it."""
    segments = (Segment(agent, 0, END),)
    ids = [id for kind in ("mail", "killed") for id in selections.ids(moment, kind, segments)]
    for event in moment.events(ids):
        yield str((event.data or {}).get("from" if event.kind == "mail" else "by", ""))


def check(ours: Snapshot, theirs: Snapshot, names: tuple[str, str], wanted: CopyScope) -> dict[str, AgentRecord]:
    """Raise CommandError unless the other store is empty or contains only earlier copies. Return its agents, uuid ->
    record. `names` are the names of the two stores."""
    present = {record.id: record for record in theirs.agents()}
    for kind, found in _foreign(ours, theirs, present, names, wanted):
        if found:
            raise OwnContentsError(
                f"{names[1]} has {kind}: {listing(found, 5)}. A copy of a whole database keeps all ids, so these would "
                "collide. Nothing was copied. Bring the conversations that you need, which get new ids: "
                "--conversation NAME. Or name a new database, or one that holds only earlier copies."
            )
    return present


def _foreign(
    ours: Snapshot, theirs: Snapshot, present: Mapping[str, AgentRecord], names: tuple[str, str], wanted: CopyScope
) -> Iterator[tuple[str, Collection[str]]]:
    """Yield each kind of content that the other store must not have, with the names of its items."""
    source, target = names
    records = wanted.agents if wanted.whole else {each.id: each for each in ours.agents()}
    strange = [_label(record) for agent, record in present.items() if agent not in records]
    yield f"conversations that {source} does not have", strange
    gone_on = [_label(record) for agent, record in present.items() if not _is_behind(record, records[agent])]
    gone = {each.id for each in selections.erased(ours, present)}
    heads = {record.last: record for record in present.values() if record.last}
    gone_on += [_label(heads[id]) for id in _differing(ours, theirs, list(heads), gone)]
    yield f"conversations that went on differently than in {source}", dict.fromkeys(gone_on)
    if not wanted.whole:
        taken = {record.name for agent, record in present.items() if record.name and agent not in wanted.agents}
        if both := [record.name for record in wanted.agents.values() if record.name in taken]:
            raise OwnContentsError(
                f"{target} has other conversations named {listing(both)}, which were renamed in {source} since. "
                "Copy the whole database."
            )
    erased = [f"event {each.id}" for each in selections.erased(theirs, present) if each.id not in gone]
    yield "erased events that were not erased here", erased
    yield "memos of its own", list(_own_memos(ours, theirs))


def _own_memos(ours: Snapshot, theirs: Snapshot) -> Iterator[str]:
    """Yield the memos that were not copied from the source. A memo that the source lacks was removed there, unless its
    id is above that of the source's newest memo."""
    left, newest = list[int](), 0
    for mine, other in merged(ours.copied_memos(), theirs.copied_memos()):
        newest = newest if mine is None else mine.id
        if other is None or other.is_removed:
            continue
        if mine is None:
            left.append(other.id)
        elif other != mine and not mine.is_removed:
            yield f"memo {other.id}"
    yield from (f"memo {id}" for id in left if id > newest)


def _differing(ours: Snapshot, theirs: Snapshot, heads: Sequence[int], gone: Collection[int]) -> Iterator[int]:
    """Yield the newest events of the other store's agents that differ from this store's, unless they are `gone`."""
    for some in parts(heads, _AT_ONCE):
        own = {event.id: event for event in ours.events(some)}
        for event in theirs.events(some):
            mine = own.get(event.id)
            if mine != event and (mine is None or event.id not in gone or _remains(mine) != _remains(event)):
                yield event.id


def _label(record: AgentRecord) -> str:
    return f"'{record.name}'" if record.name else record.id[:8]


def _is_behind(record: AgentRecord, ours: AgentRecord) -> bool:
    same = (record.parent, record.fork_event, record.created_at) == (ours.parent, ours.fork_event, ours.created_at)
    return same and record.last <= ours.last


def _remains(event: Event) -> tuple[Any, ...]:
    """Return the part of an event that erasing leaves."""
    return event.agent_id, event.turn_id, event.kind, event.actor, event.created_at


def parts(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield items in parts of `size`."""
    return (items[at : at + size] for at in range(0, len(items), size))


def merged(
    ours: Iterable[CopiedMemo], theirs: Iterable[CopiedMemo]
) -> Iterator[tuple[CopiedMemo | None, CopiedMemo | None]]:
    """Yield pairs of memos with the same id, in order of ids; None if a side has no such memo. Both inputs are in that
    order."""
    left, right = iter(ours), iter(theirs)
    mine, other = next(left, None), next(right, None)
    while mine is not None or other is not None:
        if other is None or (mine is not None and mine.id < other.id):
            yield mine, None
            mine = next(left, None)
        elif mine is None or other.id < mine.id:
            yield None, other
            other = next(right, None)
        else:
            yield mine, other
            mine, other = next(left, None), next(right, None)


class Compared(NamedTuple):
    """What was read of a store to compare it: the number of events, and the hashes of the texts that requests name:
    those `kept`, and by agent those `erased`."""

    events: int
    kept: set[str]
    erased: dict[str, set[str]]


class Reading:
    """Hashes what is read of a store within a scope: `add` every event of it, in order."""

    def __init__(self, moment: Snapshot, wanted: CopyScope) -> None:
        self._moment, self._wanted, self._events = moment, wanted, 0
        self._hashes = {part: _hash() for part in (*wanted.agents, "memos", "texts")}
        self._needed: dict[str, set[str]] = {agent: set() for agent in wanted.agents}
        self._gone = set[int]()
        for record in moment.agents():
            if record.id in wanted.agents:
                self._hash(record.id, replace(record, tokens=0))  # data with other ids may be longer

    def _hash(self, part: str, value: object) -> None:
        self._hashes[part].update(_ENCODER.encode(value))

    def add(self, event: CopiedEvent) -> CopiedEvent:
        """Add an event, and return it."""
        self._hash(event.agent, event)
        self._events += 1
        if event.redacted is not None:
            self._gone.add(event.id)
        if event.kind == "request":
            self._needed[event.agent].update(texts_of(event, self._gone))
        return event

    def finish(self, other: Compared | None = None) -> tuple[Compared, dict[str, str]]:
        """Read what belongs to no event, and return what was read, and a hash for each agent, the memos and the texts.
        Texts that an `other` store lacks are not part of the hash."""
        for memo in self._moment.copied_memos() if self._wanted.whole else ():
            self._hash("memos", memo)
        kept = set[str]()
        for some in parts(sorted(set().union(*self._needed.values())), _AT_ONCE):
            there = self._moment.kept_texts(some)
            kept |= there.keys()
            wanted = (key for key in some if key in there and (other is None or key in other.kept))
            self._hash("texts", [(key, there[key]) for key in wanted])
        erased = {agent: gone for agent, each in self._needed.items() if (gone := each - kept)}
        return Compared(self._events, kept, erased), {part: hash.hexdigest() for part, hash in self._hashes.items()}


def hash_of(found: Mapping[str, str]) -> str:
    """Return the hash of all parts of `hashes`."""
    return _hash(_ENCODER.encode(list(found.values()))).hexdigest()


_hash = partial(blake2b, digest_size=16)

_ENCODER = msgspec.json.Encoder()


def is_message(event: CopiedEvent) -> bool:
    """Return True if an event counts as a message of its agent."""
    return event.kind in ROLES and event.redacted is None


def texts_of(event: CopiedEvent, gone: Container[int]) -> list[str]:
    """Return the hashes of the texts of a request, without those of turns whose openers are `gone`: the store may have
    them for another conversation. Empty for any other event, and if they can no longer be read."""
    if event.kind != "request":
        return []
    try:
        found = owners(event.turn, decode_data(event.kind, event.data))
        return [sha256 for sha256, owner in found if owner.turn not in gone]
    except DamagedError:
        return []
