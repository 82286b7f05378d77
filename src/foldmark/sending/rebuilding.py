"""Rebuild a sent request from the log, byte for byte [SPEC 5.6].

The same messages pass through the view and the encoder again. The window is not chosen again: that needs sizes, and
erased messages have none.
"""

from collections.abc import Mapping
from hashlib import sha256

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foldmark.core import selections
from foldmark.core.assembly import prompt as prompts
from foldmark.core.assembly.layers import describe_commands, guidelines
from foldmark.core.assembly.sent import QUESTION, MessageSet, SentRequest
from foldmark.core.errors import CommandError, DamagedError
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.request import COMPACTION, Manifest, Part, Request, ToolSpec
from foldmark.core.segments import since
from foldmark.core.wording import listing
from foldmark.log.log import Agent
from foldmark.request.exchanges import read_as, read_by
from foldmark.request.material import Material, ReadOnce
from foldmark.request.planned import Target, thinking_stays
from foldmark.request.planning import shown_while_leaving
from foldmark.request.prepare import on_the_wire, options
from foldmark.request.recorded import newest_requests, numbered_request, sent_plan
from foldmark.request.sent import digests, quoting
from foldmark.request.standing import Standing, once

REDACTED = "[redacted]"
"""Replaces erased content in a rebuilt request."""


class Rebuilt(Struct, frozen=True):
    """A sent request, rebuilt from the current log.

    `verdict` is `identical` (the same bytes), `erased` (content was erased since and replaced by `[redacted]`) or
    `differs`; `said` is the verdict in words, and `on_the_wire` the form that the provider's SDK sends.
    """

    sent: SentRequest
    request: Request
    verdict: str
    said: str
    on_the_wire: str


def rebuilt(agent: "Agent", number: int) -> Rebuilt:
    """Rebuild request `number` of this agent, counted from 1, without writing anything.

    Raises CommandError for a number that is not one of this agent's requests, StoreError.
    """
    with agent.reading() as (moment, _):
        sent = numbered_request(moment, agent.id, number) if isinstance(number, int) else None
        if sent is None:
            newest = [each.number for each in newest_requests(moment, agent.id, 5)]
            available = f"its newest: {listing(newest)}" if newest else "none was sent for it yet"
            raise CommandError(f"there is no request {number} of this agent; {available}")
        # Another agent may have erased something after the request was made and before it was recorded.
        for erased_after in (sent.id, sent.event):
            remake = SentMaterial(moment, agent.stood_at(moment, sent.event), sent, erased_after)
            request = remake.request()
            if remake.is_lossy or sha256(request.bytes).hexdigest() == sent.sha256:
                break
    how = remake.dialect.on_the_wire
    if remake.is_lossy:
        return Rebuilt(sent, request, "erased", remake.losses(), how)
    if sha256(request.bytes).hexdigest() != sent.sha256:
        return Rebuilt(sent, request, "differs", _differences(sent, request), how)
    verdict = f"the same {sent.bytes:,} bytes as were sent, SHA-256 {sent.sha256[:16]}"
    now = guidelines(remake.tools, describe_commands(remake.config.model_commands))
    if remake.guidelines not in (None, now):
        verdict += "; with the guidelines of that time, which differ from the present ones"
    return Rebuilt(sent, request, "identical", verdict, how)


def _differences(sent: SentRequest, request: Request) -> str:
    """Describe how this version of Foldmark encodes the same messages differently."""
    was, now = sent.digests, digests(request.manifest.parts)
    changed = [
        layer for layer in (*was, *(layer for layer in now if layer not in was)) if was.get(layer) != now.get(layer)
    ]
    why = (
        f"other texts in {listing(changed)}"
        if changed
        else f"the same texts, but this version encodes the format of {sent.speaks} differently"
    )
    return f"{len(request.bytes):,} bytes where {sent.bytes:,} were sent: {why}"


class SentMaterial(Material):
    """What one sent request was made from, as it is still known. `erased` are the events whose content is gone since
    event `erased_after`, `removed` the memos that are gone; `wordless` is True if the question is gone. `tools` are
    those that were offered."""

    def __init__(self, moment: Snapshot, at: Standing, sent: SentRequest, erased_after: int) -> None:
        from foldmark.core.config import config_of
        from foldmark.providers.registry import dialect_of

        self.sent, self.moment, self._erased_after = sent, moment, erased_after
        self._texts = moment.kept_texts(set(sent.hashes.values()))
        self.erased: set[int] = set()
        self.removed: set[int] = set()
        config, dialect = config_of(msgspec.json.decode(self._text("config"))), dialect_of(sent.speaks)
        config = replace(config, isolation=False) if dialect.foreign else config
        specs = msgspec.json.decode(self._text("tools") if "tools" in sent.hashes else "[]", type=list[ToolSpec])
        self.tools = on_the_wire(specs)
        self.options = replace(
            options(dialect, sent.model, config, sent.output, sent.purpose), cache_ttl=sent.cache_ttl
        )
        stays = thinking_stays(config, self.options)
        at = shown_while_leaving(moment, read_by(moment, at, read_as(dialect.reads)))
        super().__init__(moment, at, config, dialect, tools=self.tools, thoughts=stays)
        self.hashes = sent.hashes
        self.question = self._kept(QUESTION)
        self.wordless = sent.quoted is not None and (self.question is None or self._is_turn_erased())

    @property
    def is_lossy(self) -> bool:
        """True if something that was sent is no longer known. It is complete once the request is made."""
        return bool(self.erased or self.removed or self.wordless)

    def losses(self) -> str:
        """Describe the parts that can no longer be shown."""
        which = "event" if len(self.erased) == 1 else "events"
        events = [f"the content of {which} {listing(sorted(self.erased), 20)}"] if self.erased else []
        noted = [f"memo {listing(sorted(self.removed))}"] if self.removed else []
        words = ["the question"] if self.wordless else []
        return f"{' and '.join((*events, *noted, *words))} was erased since; {REDACTED} replaces it"

    def request(self) -> Request:
        """Return the rebuilt request."""
        sent, plan = self.sent, sent_plan(self.moment, self.sent).plan
        prompt = self.prompt(plan, self._instruction())
        prompt = prompts.beginning(prompt, sent.upto) if sent.purpose == COMPACTION else prompt
        tools = tuple(self.tools.values())
        body, data = Target(sent.provider, self.dialect, sent.model, tools, self.options).encoded(prompt)
        if sent.thoughtless:
            body = self.dialect.thinking.without(body)
            data = msgspec.json.encode(body)
        return Request(
            provider=sent.provider,
            model=sent.model,
            dialect=self.dialect.recorded,
            body=body,
            bytes=data,
            tokens=sent.tokens,
            manifest=Manifest(tuple(map(self._part, prompt.parts)), prompt.left_out, sent.edge, plan),
            purpose=sent.purpose,
            names={own: tool.name for own, tool in self.tools.items() if own != tool.name},
            cache_ttl=sent.cache_ttl,
            cache_key=sent.agent,
            event=sent.event,
            tools=tuple(self.tools.values()),
        )

    @once
    def messages(self) -> ReadOnce[Event]:
        """Return the messages that were visible, newest first, erased ones as far as they are known."""
        found = self._messages(self.sent.only or MessageSet(since(self.at.visible, self.sent.plan.first)))
        return ReadOnce(reversed([event for event in found if event.kind != "system"]))

    def _since(self, first: int) -> list[Event]:
        return self._held(first)

    @once
    def system(self) -> list[int]:
        """Return the ids of the visible `system` messages, also of erased ones that were sent."""
        gone = (
            self.as_known(each) for each in selections.tombstones(self.moment, self.at.visible) if each.kind == "system"
        )
        return sorted((*super().system, *(each.id for each in gone if each.id in self.erased)))

    @once
    def pinned(self) -> dict[int, list[Event]]:
        """Return the visible messages of the pinned turns, erased ones that were sent as far as they are known."""
        found, pins = {turn: [*events] for turn, events in super().pinned.items()}, self.sent.plan.pins
        for event in selections.tombstones(self.moment, since(self.at.visible, min(pins))) if pins else ():
            if event.turn_id in pins and (known := self.as_known(event)).id in self.erased:
                found.setdefault(event.turn_id, []).append(known)
        return {turn: sorted(events, key=lambda event: event.id) for turn, events in sorted(found.items())}

    @property
    def evicted(self) -> Mapping[int, int]:
        """The evicted results, without erased ones, which are shown as erased."""
        return {event: by for event, by in super().evicted.items() if event not in self.erased}

    @once
    def guidelines(self) -> str | None:
        """Return the guidelines of that time."""
        return self._text("guidelines") if "guidelines" in self.sent.hashes else None

    def event(self, event_id: int) -> Event | None:
        """Return an event as it is still known. Raises CommandError if it is not in this database."""
        event = super().event(event_id)
        if event is None:
            raise CommandError(f"event {event_id} was sent, but is not in this database")
        return self.as_known(event)

    def as_known(self, event: Event) -> Event:
        """Return an event, without its content if that was erased after the request was sent. A fork keeps the uuids,
        which are all that is sent of it."""
        if event.kind == "fork":
            return event
        by = event.erased_by
        return self._without(event) if by is not None and by > self._erased_after else event

    def memo(self, memo_id: int) -> str | None:
        """Return a memo as it was sent."""
        if (text := super().memo(memo_id)) is None:
            self.removed.add(memo_id)
        return REDACTED if text is None else text

    def _without(self, event: Event) -> Event:
        self.erased.add(event.id)
        return replace(event, content=REDACTED, data=None)

    def _messages(self, named: MessageSet) -> list[Event]:
        if named.ids:
            return [event for each in named.ids if (event := self.event(each)) is not None]
        gone = (
            each
            for each in map(self.as_known, selections.tombstones(self.moment, named.ranges))
            if each.id in self.erased
        )
        return sorted((*self.moment.select(named.ranges), *gone), key=lambda event: event.id)

    def _instruction(self) -> str | None:
        if self.sent.quoted is None:
            return self._text("instruction") if "instruction" in self.sent.hashes else None
        return quoting(self._messages(self.sent.quoted), REDACTED if self.wordless else self.question or REDACTED)

    def _kept(self, name: str) -> str | None:
        """Return a text of the request by its name; None if it has none, or it was erased."""
        return self._texts.get(self.sent.hashes.get(name, ""))

    def _text(self, name: str) -> str:
        """Return a text of the request that is never erased alone. Raises DamagedError if it is missing."""
        text = self._kept(name)
        if text is None:
            hash = self.sent.hashes.get(name, "")
            raise DamagedError(f"the text with the hash {hash[:12]} is missing; run `foldmark doctor`")
        return text

    def _is_turn_erased(self) -> bool:
        return self.sent.turn is not None and selections.erased_by(self.moment, self.sent.turn) is not None

    def _part(self, part: Part) -> Part:
        gone = part.event in self.erased or part.memo in self.removed
        return replace(part, text=REDACTED, detail="erased since", kept=0, of=0) if gone else part
