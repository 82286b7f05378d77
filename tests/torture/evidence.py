"""Compares the reports of writers with the contents of the database."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from looking import events_of
from writers import DONE, REFUSED, TRY, Said

from foldmark import Log
from foldmark.core import selections
from foldmark.core.errors import ConflictError
from foldmark.core.events import METADATA_KINDS, OPERATION_KINDS
from foldmark.log.doctor import examine

_PART = re.compile(r"(\d+\.\d+\.\d+)/(\d+)/(\d+) ")
_MAIL = re.compile(r"^mail (\d+\.\d+\.\d+)$", re.MULTILINE)


class Evidence:
    """What the writers tried, the reported outcomes, and the events in the database."""

    def __init__(self, log: Log, said: Sequence[Said]) -> None:
        self.log, self.said = log, said
        self.tried = {each.key: each for each in said if each.state == TRY}
        self.done = {each.key: each for each in said if each.state == DONE}
        self.refused = {each.key for each in said if each.state == REFUSED}
        with log.store.read() as moment:
            self.events = {record.id: events_of(moment, record.id) for record in moment.agents()}
        self.erased = {e.data["turn"] for each in self.events.values() for e in each if e.kind == "redact" and e.data}
        self.by_id = {event.id: event for each in self.events.values() for event in each}

    def faults(self) -> Iterator[str]:
        """Yield one line for each fault; none if everything acknowledged is in the database, complete and only once."""
        yield from self._lost()
        yield from self._torn()
        yield from self._operations()
        yield from self._metadata()
        yield from self._erasures()
        yield from self._forks()
        yield from self._mail()
        for finding in examine(self.log):
            yield f"doctor: {finding.text}"

    def _lost(self) -> Iterator[str]:
        for key, said in self.done.items():
            if said.what in ("turn", "message", "shared"):
                for event_id, content in said.facts:
                    event = self.by_id.get(event_id)
                    if event is None:
                        yield f"{key}: acknowledged event {event_id} is not there"
                    elif event.content != content and not (event.content == "" and event.turn_id in self.erased):
                        yield f"{key}: event {event_id} holds {event.content!r} instead of {content!r}"
            elif said.what in ("operation", "fork", "erase"):
                event = self.by_id.get(said.facts[0])
                if event is None or event.kind not in OPERATION_KINDS:
                    yield f"{key}: acknowledged operation {said.facts[0]} is not there"
            elif said.what == "metadata":
                event = self.by_id.get(said.facts[0])
                kept = event is not None and (event.data == {"key": key} or event.turn_id in self.erased)
                if event is None or event.kind != "usage" or not kept:
                    yield f"{key}: acknowledged metadata {said.facts[0]} is not there"

    def _metadata(self) -> Iterator[str]:
        """Yield the faults of metadata: it must have been asked for, and recorded once, above everything before it."""
        usages = [event for event in self.by_id.values() if event.kind == "usage"]
        for key, times in Counter((event.data or {}).get("key", "") for event in usages).items():
            if key or not self.erased:
                yield from self._known(key, "usage")
                if times > 1:
                    yield f"{key}: usage was recorded {times} times"
        with self.log.store.read() as moment:
            for record in moment.agents():
                events = self.events[record.id]
                head = max((each.id for each in events if each.kind not in METADATA_KINDS), default=0)
                newest = max((each.id for each in events), default=0)
                if (record.head, record.last) != (head, newest):
                    yield f"agent {record.id}: its row says {record.head} and {record.last}, not {head} and {newest}"

    def _torn(self) -> Iterator[str]:
        """Yield a fault for each turn, appended in one transaction, that is incomplete or was recorded twice."""
        conversations = Counter[str]()
        for events in self.events.values():
            parts: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
            for place, event in enumerate(events):
                if found := _PART.search(event.content):
                    parts[found[1]].append((int(found[2]), int(found[3]), place))
            for key, found_parts in parts.items():
                numbers, whole, last = [part for part, _, _ in found_parts], found_parts[0][1], found_parts[-1][2]
                yield from self._known(key, "message")
                if numbers != list(range(1, whole + 1)):
                    yield f"{key}: of {whole} parts there are {numbers}"
                elif whole > 1 and (last + 1 == len(events) or events[last + 1].kind != "turn_ended"):
                    yield f"{key}: the turn was recorded without its end"
            conversations.update(list(parts))
        yield from (f"{key}: recorded in {times} conversations" for key, times in conversations.items() if times > 1)

    def _operations(self) -> Iterator[str]:
        """Yield the faults of operations. An operation in an erased turn stays but loses its reason."""
        reasons = Counter(
            reason
            for event in self.by_id.values()
            if event.kind in OPERATION_KINDS
            and ((reason := (event.data or {}).get("reason", "")) or event.turn_id not in self.erased)
        )
        for key, times in reasons.items():
            yield from self._known(key, "operation")
            if times > 1:
                yield f"{key}: recorded {times} times"

    def _known(self, key: str, what: str) -> Iterator[str]:
        if key not in self.tried:
            yield f"{key or 'no key'}: there is a {what} that nobody asked for"
        elif key in self.refused:
            yield f"{key}: a {what} was refused, and recorded all the same"

    def _erasures(self) -> Iterator[str]:
        for events in self.events.values():
            for event in events:
                if event.turn_id in self.erased and event.content and event.kind != "redact":
                    yield f"event {event.id} of the erased turn {event.turn_id} still has its content"

    def _forks(self) -> Iterator[str]:
        forked = {e.data["child"] for e in self.by_id.values() if e.kind == "fork" and e.data}
        children = {agent.id for agent in self.log.agents() if agent.parent is not None}
        if forked != children:
            yield f"forks and children differ: {sorted(forked ^ children)}"
        for key, said in self.done.items():
            if said.what == "fork" and said.facts[1] not in children:
                yield f"{key}: acknowledged child {said.facts[1]} is not there"

    def _mail(self) -> Iterator[str]:
        with self.log.store.read() as moment:
            waiting = [mail for agent_id in self.events for mail in selections.unread(moment, agent_id)]
        if waiting:
            yield f"{len(waiting)} mails wait still"
        carried = Counter(
            found for event in self.by_id.values() if event.kind == "user" for found in _MAIL.findall(event.content)
        )
        for key, times in carried.items():
            yield from self._known(key, "mail")
            if times > 1:
                yield f"{key}: mail was delivered {times} times"
        for key, said in self.done.items():
            if said.what == "mail" and not carried[key]:
                yield f"{key}: acknowledged mail {said.facts[0]} was never delivered"


def go_on(log: Log) -> None:
    """Deliver all waiting mail and append to every agent, to show that killed writers block nobody. A server may commit
    what it has of a writer after that is dead: then the agent is read again."""
    for agent in log.agents():
        while True:
            try:
                agent.do("/check-mail")
                agent.append("user", "and on")
                agent.end_turn()
                break
            except ConflictError:
                agent.context()
