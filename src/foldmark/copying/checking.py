"""Check, without writing, that a store can receive a copy: it is empty, or holds only earlier copies."""

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any

from foldmark.copying.comparing import merged
from foldmark.copying.scope import CopyScope
from foldmark.core.agents import AgentRecord
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.records import CodingSession, CopiedEnd, CopiedMail, CopiedMemo, CopiedSent
from foldmark.core.wording import listing

_AT_ONCE = 500


def check(ours: Snapshot, theirs: Snapshot, names: tuple[str, str], wanted: CopyScope) -> dict[str, AgentRecord]:
    """Raise CommandError unless the other store is empty or holds only earlier copies; return its agents, uuid ->
    record. `names` are the names of the two stores."""
    return _Check(ours, theirs, names, wanted).check()


class _Check:
    def __init__(self, ours: Snapshot, theirs: Snapshot, names: tuple[str, str], wanted: CopyScope) -> None:
        self._ours, self._theirs, self._wanted = ours, theirs, wanted
        self._from, self._to = names
        self._deleted = {end.agent for end in ours.copied(CopiedEnd) if end.deleted is not None}

    def check(self) -> dict[str, AgentRecord]:
        there = {record.id: record for record in self._theirs.agents()}
        records = self._wanted.agents if self._wanted.whole else {each.id: each for each in self._ours.agents()}
        strange = [_label(record) for agent, record in there.items() if agent not in records]
        if strange:
            self._refuse(f"conversations that {self._from} does not have", strange)
        gone_on = [_label(record) for agent, record in there.items() if not _is_behind(record, records[agent])]
        gone = {id for id, *_ in self._ours.erased(list(there))}
        heads = {record.head: record for record in there.values() if record.head}
        gone_on += [_label(heads[id]) for id in self._differing(list(heads), gone)]
        if gone_on:
            self._refuse(f"conversations that went on differently than in {self._from}", dict.fromkeys(gone_on))
        if not self._wanted.whole:
            self._check_names(there)
        if strange := [f"event {id}" for id, *_ in self._theirs.erased(list(there)) if id not in gone]:
            self._refuse("erased events that were not erased here", strange)
        self._check_beside()
        return there

    def _differing(self, heads: list[int], gone: Collection[int]) -> Iterable[int]:
        """Yield the newest events of agents there that differ from those here, except of those that are `gone`."""
        left = iter(heads)
        while some := list(islice(left, _AT_ONCE)):
            here = {event.id: event for event in self._ours.events(some)}
            for event in self._theirs.events(some):
                ours = here.get(event.id)
                if ours != event and (ours is None or event.id not in gone or _identity(ours) != _identity(event)):
                    yield event.id

    def _check_names(self, there: Mapping[str, AgentRecord]) -> None:
        taken = {record.name for agent, record in there.items() if record.name and agent not in self._wanted.agents}
        if both := [record.name for record in self._wanted.agents.values() if record.name in taken]:
            raise CommandError(
                f"{self._to} has other conversations named {listing(both)}, which were renamed in {self._from} since. "
                "Copy the whole database."
            )

    def _check_beside(self) -> None:
        memos = self._ours.numbers().memos
        for mine, other in merged(self._ours.copied(CopiedMail), self._theirs.copied(CopiedMail)):
            if other is not None and (mine is None or _mail(mine) != _mail(other)):
                if mine is None and other.recipient in self._deleted:
                    continue  # unread mail goes with its recipient
                self._refuse("mail of its own", [f"mail {other.id}"])
        for ours, theirs in merged(self._ours.copied(CopiedSent), self._theirs.copied(CopiedSent)):
            if theirs is not None and (ours is None or _sent(ours) != _sent(theirs)):
                if ours is None and theirs.agent in self._deleted:
                    continue
                self._refuse("requests of its own", [f"request {theirs.id}"])
        for memo, memo_there in merged(self._ours.copied(CopiedMemo), self._theirs.copied(CopiedMemo)):
            if memo_there is not None and memo != memo_there and not (memo is None and memo_there.id <= memos):
                self._refuse("memos of its own", [f"memo {memo_there.id}"])
        for here, session in merged(self._ours.copied(CodingSession), self._theirs.copied(CodingSession)):
            if session is not None and (here is None or here.session_id != session.session_id):
                self._refuse("sessions of coding agents of its own", [session.session_id])

    def _refuse(self, what: str, named: Iterable[object]) -> None:
        raise CommandError(
            f"{self._to} has {what}: {listing(named, 5)}. A copy keeps all ids, so these would meet. Nothing was "
            "copied. Name a new database, or one that has nothing but earlier copies."
        )


def _label(record: AgentRecord) -> str:
    return f"'{record.name}'" if record.name else record.id[:8]


def _is_behind(record: AgentRecord, ours: AgentRecord) -> bool:
    made = (record.parent, record.fork_event, record.created_at) == (ours.parent, ours.fork_event, ours.created_at)
    return made and record.head <= ours.head


def _identity(event: Event) -> tuple[Any, ...]:
    """Return the part of an event that erasing leaves."""
    return event.agent_id, event.turn_id, event.kind, event.actor, event.created_at


def _mail(mail: CopiedMail) -> tuple[str, ...]:
    return mail.sender, mail.recipient, mail.actor, mail.sent_at


def _sent(request: CopiedSent) -> tuple[Any, ...]:
    return request.agent, request.event, request.created_at, request.sha256
