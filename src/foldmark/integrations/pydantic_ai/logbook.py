"""Records the messages of runs in a conversation, each once."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from itertools import chain, groupby, islice
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, SystemPromptPart

from foldmark.core import selections
from foldmark.core.assembly.wire import HINT
from foldmark.core.events import Event, Summary
from foldmark.core.ports import Snapshot, Transaction
from foldmark.integrations.pydantic_ai.messages import Entry, data_of, dump, head_of, is_standing, restore, split
from foldmark.integrations.pydantic_ai.pieces import Fragment, Known, plain
from foldmark.integrations.pydantic_ai.recorded import Recorded, Sought, envelope_in, stamp
from foldmark.log import Agent
from foldmark.operations.summaries import provider_summary
from foldmark.request.exchanges import visible_except
from foldmark.request.standing import Standing
from foldmark.wires.parts import Data


class Logbook:
    """Records the messages of runs in a conversation, and restores the piece of each event."""

    def __init__(self, agent: Agent, run_id: str | None = None) -> None:
        self._agent = agent
        self._recorded = Recorded(agent)
        self._met: dict[int, Known] = {}
        self._pieces: dict[int, Fragment] = {}
        self._run = run_id
        self._joins = False
        self._instructions: dict[Any, int] = {}

    def anew(self) -> "Logbook":
        """Return a new logbook with the same open turn, which reads everything else from the log."""
        return Logbook(self._agent, self._run)

    def record(
        self, transaction: Transaction, messages: Sequence[ModelMessage], run_id: str | None, *, joins: bool = False
    ) -> None:
        """Record the messages of a history of run `run_id` that are not recorded yet. A prompt of another run begins a
        turn, unless that run `joins` one that is still running.

        If the transaction fails, discard this object and continue with `anew`.
        """
        self._joins = joins
        first = next((i for i, message in enumerate(messages) if isinstance(message, ModelRequest)), None)
        met = [self._meet(message) for message in messages]
        new = [
            (i, split(message, opens=i == first))
            for i, message in enumerate(messages)
            # An answer that its provider has paused is recorded once it is complete.
            if met[i] is None and (isinstance(message, ModelRequest) or message.state != "suspended")
        ]
        used = {event for each in met if each for event in each.events}
        sought = [
            Sought(entry, messages[i].run_id, new=i == len(messages) - 1 and messages[i].run_id == run_id is not None)
            for i, entries in new
            for entry in entries
        ]
        at = [i for i, entries in new for _ in entries]
        found = self._find(transaction, sought, used)
        known = iter(found)
        with self._agent.batch() if None in found else nullcontext():
            for i, entries in new:
                there, behind = [next(known) for _ in entries], list[int]()
                if any(entry.kind == "summary" for entry in entries):
                    behind += chain(*(each.events for each in met[i + 1 :] if each))
                    behind += [e for e, entry in zip(found, at, strict=True) if e is not None and entry > i]
                events = self._append(transaction, messages[i], entries, there, behind)
                met[i] = Known(messages[i], tuple(messages[i].parts), tuple(events))
        self._met = {id(each.message): each for each in met if each}

    def pieces(self, moment: Snapshot, events: Iterable[int]) -> list[Fragment]:
        """Return the pieces of events in the order of the log."""
        wanted = list(events)
        self._load(moment, [event for event in wanted if event not in self._pieces])
        return [self._pieces[event] for event in wanted if event in self._pieces]

    def standing(self, moment: Snapshot, at: Standing, messages: Sequence[ModelMessage] = ()) -> list[SystemPromptPart]:
        """Return the system prompt that an agent begins with: that of a recorded history, or the newest."""
        first = next((self._met[id(each)] for each in messages if isinstance(each, ModelRequest)), None)
        given = [piece for piece in self.pieces(moment, first.events if first else ()) if piece.standing]
        pieces = given or self.pieces(moment, (event.id for event in self._recorded.standing(moment, at)))
        return [part for piece in pieces for part in piece.parts]

    def handed(self, made: Iterable[Known]) -> None:
        """Remember messages that were made from pieces, because they will come back."""
        for each in made:
            self._met.setdefault(id(each.message), each)

    def end_turn(self, run_id: str | None, *, interrupted: bool) -> None:
        """End the turn if it belongs to this run. Other runs may share the conversation."""
        if self._run == run_id:
            self._agent.end_turn(interrupted=interrupted)
            self._run = None

    # Recognising

    def _meet(self, message: ModelMessage) -> Known | None:
        met = self._met.get(id(message))
        same = met is not None and met.message is message and list(map(id, met.parts)) == list(map(id, message.parts))
        return met if same else None

    def _find(self, moment: Snapshot, sought: list[Sought], used: set[int]) -> list[int | None]:
        """Return the events as `Recorded.find` does. The system prompt at the beginning is recognized by its text
        alone, because every run repeats it."""
        found = self._recorded.find(moment, sought, used) if sought else []
        front = [i for i, each in enumerate(sought) if each.entry.standing]
        if any(found[i] is None for i in front):
            there = self._recorded.standing(moment, self._agent.standing_in(moment))
            same = [event.content for event in there] == [self._recorded.as_stored(sought[i].entry.text) for i in front]
            for i, event in zip(front, there, strict=False):
                found[i] = event.id if same else None
        return found

    # Appending

    def _append(
        self,
        transaction: Transaction,
        message: ModelMessage,
        entries: Sequence[Entry],
        known: Sequence[int | None],
        behind: Sequence[int],
    ) -> list[int]:
        """Record the entries of a message that are not `known`, and return the events of all its entries. `behind` are
        events of later messages, which a summary in this message does not replace. The system prompt at the beginning
        is kept apart from its message, because it outlives the message."""
        heads = {True: None, False: self._head_of(transaction, known, entries)}
        dumped = dump(message) if None in known else None
        events: list[int] = []
        for place, (entry, event_id) in enumerate(zip(entries, known, strict=True)):
            head = heads[entry.standing]
            if event_id is None:
                data = self._data(message, entry, dumped, head)
                if entry.kind == "summary":
                    after = [each for each in known[place + 1 :] if each is not None]
                    event_id = self._sum_up(entry, data, [*after, *behind])
                else:
                    event_id = self._append_entry(message, entry, data, opens=head is None)
                text = getattr(message, "instructions", None)
                if text and data and text not in self._instructions:
                    self._instructions = {text: event_id}
                event = selections.event(transaction, event_id)
                assert event is not None
                self._pieces[event_id] = plain(event)
            heads[entry.standing] = head = head or event_id
            self._take(transaction, message, entry, event_id, head)
            events.append(event_id)
        return events

    def _head_of(self, moment: Snapshot, known: Sequence[int | None], entries: Sequence[Entry]) -> int | None:
        """Return the first event of a message that is partly recorded already."""
        body = (e for e, entry in zip(known, entries, strict=True) if e is not None and not entry.standing)
        return next((piece.head for piece in self.pieces(moment, islice(body, 1))), None)

    def _data(self, message: ModelMessage, entry: Entry, dumped: Any, head: int | None) -> Data | None:
        if dumped is None:
            return None
        envelope, parts = dumped
        if (text := getattr(message, "instructions", None)) in self._instructions:
            envelope = {**envelope, "instructions": {"as": self._instructions[text]}}
        beside = {"message": envelope} if head is None else {"of": head}
        return data_of(entry, parts, {**beside, "standing": True} if entry.standing else beside)

    def _sum_up(self, entry: Entry, data: Data | None, behind: Sequence[int]) -> int:
        def decision(moment: Snapshot, at: Standing) -> Summary:
            return provider_summary(moment, at, data, visible_except(moment, at, behind))

        time = stamp(entry.time)
        return self._agent.operate(decision, actor="system", content=entry.text, created_at=time).event_id

    def _append_entry(self, message: ModelMessage, entry: Entry, data: Data | None, *, opens: bool) -> int:
        agent, time = self._agent, stamp(entry.time)
        if entry.person and opens and not self._joins and (message.run_id is None or message.run_id != self._run):
            agent.end_turn(created_at=time)
            self._run = message.run_id
        if entry.kind == "tool_call":
            return agent.append_tool_call(entry.name, entry.args, call_id=entry.call_id, created_at=time, data=data)
        if entry.kind == "tool_result":
            return agent.append_tool_result(
                entry.call_id, entry.text, is_error=entry.failed, created_at=time, data=data
            )
        return agent.append(
            entry.kind,
            entry.text,
            created_at=time,
            data=data,
            actor="human" if entry.person else "system" if entry.kind == "user" else None,
            interrupted=entry.kind == "assistant" and message.state == "interrupted",
            verbatim=True,
        )

    # Giving back

    def _take(self, moment: Snapshot, message: ModelMessage, entry: Entry, event_id: int, head: int) -> None:
        """Store an event's parts as they arrived: a changed part was changed on purpose. Exceptions are a result that
        Foldmark has truncated, and a notice in place of a result."""
        (piece,) = self.pieces(moment, [event_id])
        if piece.kind != entry.kind:
            self._pieces[event_id] = piece._replace(head=head, message=message)
        elif not piece.standing and not (entry.kind == "tool_result" and HINT.format(id=event_id) in entry.text):
            parts = tuple(message.parts[index] for index in entry.at)
            self._pieces[event_id] = piece._replace(head=head, message=message, parts=parts, standing=entry.standing)

    def _load(self, moment: Snapshot, missing: Sequence[int]) -> None:
        """Read pieces from the log, message by message."""
        there = {event.id: event for event in moment.events(missing)}
        read = [event for each in missing if (event := there.get(each))]
        for head, events in groupby(read, head_of):
            self._load_message(moment, head, list(events))

    def _load_message(self, moment: Snapshot, head: int, events: Sequence[Event]) -> None:
        envelope = envelope_in(moment, events[0] if events[0].id == head else selections.event(moment, head))
        whole = restore(envelope, events) if envelope else None
        if whole is None:
            self._pieces.update((event.id, plain(event)) for event in events)
            return
        message, parts = whole
        for event, own in zip(events, parts, strict=True):
            standing = is_standing(event)
            self._pieces[event.id] = Fragment(event.id, event.kind, event.answers, head, message, tuple(own), standing)
