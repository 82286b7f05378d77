"""Rebuild a sent request from the log, byte for byte [SPEC 5.6].

The same messages pass through the view and the encoder again. The window is not chosen again: that needs sizes, and
erased messages have none.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.assembly.sent import QUESTION, MessageSet, SentRequest, foreign_text_name, memo_text_name
from foldmark.core.errors import CommandError, DamagedError
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.request import Edge, Manifest, Part, Request
from foldmark.core.segments import END
from foldmark.core.wording import listing
from foldmark.request.layers import sent_memo_layers
from foldmark.request.recorded import newest_requests, numbered_request
from foldmark.request.standing import Standing
from foldmark.sending.sent import digests, quoting, truncated

if TYPE_CHECKING:
    from foldmark.core.assembly.window import Unit
    from foldmark.core.config import Config
    from foldmark.core.request import Part
    from foldmark.log.log import Agent

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
    from foldmark.core.assembly.layers import describe_commands, guidelines, identity
    from foldmark.providers.registry import dialect_of

    with agent.reading() as (moment, at):
        sent = numbered_request(moment, agent.id, number) if isinstance(number, int) else None
        if sent is None:
            newest = [each.number for each in newest_requests(moment, agent.id, 5)]
            available = f"its newest: {listing(newest)}" if newest else "none was sent for it yet"
            raise CommandError(f"there is no request {number} of this agent; {available}")
        remake = _Remake(moment, at, sent)
        request = remake.request()
    how = dialect_of(sent.speaks).on_the_wire
    if remake.erased or remake.removed or remake.wordless:
        return Rebuilt(sent, request, "erased", remake.losses(), how)
    if sha256(request.bytes).hexdigest() != sent.sha256:
        return Rebuilt(sent, request, "differs", _differences(sent, request), how)
    verdict = f"the same {sent.bytes:,} bytes as were sent, SHA-256 {sent.sha256[:16]}"
    parent = at.record.parent
    now = guidelines(remake.tools, identity(agent.id, parent) if parent else None, describe_commands(remake.commands))
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
    if sent.truncated != truncated(request.manifest.parts):
        why += "; tool results are cut at other places"
    return f"{len(request.bytes):,} bytes where {sent.bytes:,} were sent: {why}"


class _Remake:
    """Rebuilds one request. `erased` are the events whose content is gone, `removed` the memos that are gone;
    `wordless` is True if the question is gone. `tools` are the names of the tools that were offered, `commands` is the
    setting `model_commands`, `guidelines` the text at that time."""

    def __init__(self, moment: Snapshot, at: Standing, sent: SentRequest) -> None:
        self._moment, self._at, self._sent = moment, at, sent
        self._texts = moment.kept_texts(set(sent.hashes.values()))
        self.erased: set[int] = set()
        self.removed: set[int] = set()
        self.tools: Collection[str] = ()
        self.commands = "all"
        self.guidelines: str | None = None
        self.question = self._kept(QUESTION)
        self.wordless = sent.quoted is not None and (self.question is None or self._is_turn_erased())

    def losses(self) -> str:
        """Describe the parts that can no longer be shown."""
        which = "event" if len(self.erased) == 1 else "events"
        events = [f"the content of {which} {listing(sorted(self.erased), 20)}"] if self.erased else []
        noted = [f"memo {listing(sorted(self.removed))}"] if self.removed else []
        words = ["the question"] if self.wordless else []
        return f"{' and '.join((*events, *noted, *words))} was erased since; {REDACTED} replaces it"

    def request(self) -> Request:
        """Return the rebuilt request."""
        from foldmark.core.assembly import prompt as prompts
        from foldmark.core.assembly.view import view
        from foldmark.core.assembly.window import opened_by
        from foldmark.core.config import config_of
        from foldmark.core.request import COMPACTION, LeftOut, ToolSpec
        from foldmark.providers.registry import dialect_of
        from foldmark.request.layers import children_layer
        from foldmark.request.prepare import on_the_wire, options
        from foldmark.request.windowing import thinking_stays

        sent, hashes = self._sent, self._sent.hashes
        dialect = dialect_of(sent.speaks)
        settings = msgspec.json.decode(self._text("config"))
        config = config_of(settings)
        self.commands = config.model_commands
        config = replace(config, isolation=False) if sent.provider == "offline" else config
        kept = self._text("tools") if "tools" in hashes else "[]"
        self.tools = unique = on_the_wire(msgspec.json.decode(kept, type=list[ToolSpec]))
        system = [self._event(each) for each in sent.layers.get("system", ())]
        window = [event for event in self._messages(sent.window) if event.kind != "system"]
        self.guidelines = self._text("guidelines") if "guidelines" in hashes else None
        layers = self._layers(sent.layers, config, _newest(window, sent.edge), system, self.guidelines)
        families = dict(sent.told)
        lines = {
            at: children_layer(each, lambda e: self._event(e).content, unique, config) for at, each in families.items()
        }
        grown = config.steady and sent.edge.why != "planning"
        layers += [] if grown else lines.pop(0, [])
        later = {at: self._layers(ids, config, opened_by(self._event(at))) for at, ids in sent.later.items()}
        later = {at: [*later.get(at, ()), *lines.get(at, ())] for at in {**later, **lines}}
        asked = options(dialect, sent.model, config, sent.output, sent.purpose)
        asked = replace(asked, cache_ttl=sent.cache_ttl)
        pinned = sorted(map(self._event, sent.pinned), key=lambda event: (event.turn_id or 0, event.id))
        evicted = {event: by for event, by in sent.evicted.items() if event not in self.erased}
        edge = sent.edge
        settled = edge.settled if grown else END
        shown = view(
            [*pinned, *window],
            dialect,
            config,
            edge.first or 0,
            evicted=evicted,
            settled=settled,
            oldest=edge.oldest,
            thoughts=thinking_stays(config, asked),
        )
        prompt = prompts.assemble(layers, shown, self._instruction(), anchors_last=config.steady, later=later)
        prompt = prompts.beginning(prompt, sent.upto) if sent.purpose == COMPACTION else prompt
        body = dialect.encode(sent.model, prompt, tuple(unique.values()), asked)
        body = dialect.thinking.without(body) if sent.thoughtless else body
        known = {left.event for left in prompt.left_out}
        others = [
            LeftOut(event, None, why, "") for why, ids in sent.left_out.items() for event in ids if event not in known
        ]
        return Request(
            provider=sent.provider,
            model=sent.model,
            dialect=dialect.recorded,
            body=body,
            bytes=msgspec.json.encode(body),
            tokens=sent.tokens,
            manifest=Manifest(tuple(map(self._part, prompt.parts)), (*others, *prompt.left_out), sent.edge, families),
            purpose=sent.purpose,
            names={own: tool.name for own, tool in unique.items() if own != tool.name},
            cache_ttl=sent.cache_ttl,
            cache_key=sent.agent,
        )

    def _event(self, event_id: int) -> Event:
        event = self._moment.event(event_id)
        if event is None:
            raise CommandError(f"event {event_id} was sent, but is not in this database")
        return self._without(event) if self._erased_since(event) else event

    def _without(self, event: Event) -> Event:
        self.erased.add(event.id)
        return replace(event, content=REDACTED, data=None)

    def _messages(self, named: MessageSet) -> list[Event]:
        if named.ids:
            return [self._event(each) for each in named.ids]
        gone = map(self._without, filter(self._erased_since, self._moment.tombstones(named.ranges)))
        return sorted((*self._moment.messages(named.ranges), *gone), key=lambda event: event.id)

    def _erased_since(self, event: Event) -> bool:
        """Return True if a message was erased after the request was sent."""
        by = self._moment.erased_by(event.id)
        return by is not None and by.id > self._sent.id

    def _layers(
        self,
        ids: Mapping[str, tuple[int, ...]],
        config: "Config",
        unit: "Unit | None",
        system: "Iterable[Event]" = (),
        guidelines: str | None = None,
    ) -> "list[Part]":
        """Return the layers of these events and memos. Later layers have no system prompt."""
        from foldmark.core.assembly import prompt as prompts

        later = ids is not self._sent.layers
        found = prompts.layers(
            config,
            system,
            guidelines=guidelines,
            state=self._state(ids.get("state", ())),
            scratchpad=self._scratchpad(ids.get("scratchpad", ())),
            memos=sent_memo_layers(unit, [(each, self._memo(each)) for each in ids.get("memos", ())]),
            later=later,
        )
        found += [prompts.summed_up(self._event(each)) for each in ids.get("window_summary", ())]
        return found[1:] if later else found

    def _state(self, ids: Iterable[int]) -> Event | None:
        for event_id in ids:
            event = self._event(event_id)
            carried = (event.data or {}).get("state") if event.kind == "summary" else None
            return event if carried is None else replace(event, content=carried)
        return None

    def _scratchpad(self, ids: Iterable[int]) -> Event | str | None:
        for event_id in ids:
            if event_id:
                return self._event(event_id)
            inherited = self._at.handed_down.get("scratchpad")
            return inherited if isinstance(inherited, str) else None
        return None

    def _memo(self, memo_id: int) -> str:
        name = memo_text_name(memo_id)
        text = self._kept(name) or self._kept(foreign_text_name(name))
        if text is None:
            self.removed.add(memo_id)
        return REDACTED if text is None else text

    def _instruction(self) -> str | None:
        if self._sent.quoted is None:
            return self._text("instruction") if "instruction" in self._sent.hashes else None
        return quoting(self._messages(self._sent.quoted), REDACTED if self.wordless else self.question or REDACTED)

    def _kept(self, name: str) -> str | None:
        """Return a text of the request by its name; None if it has none, or it was erased."""
        return self._texts.get(self._sent.hashes.get(name, ""))

    def _text(self, name: str) -> str:
        """Return a text of the request that is never erased alone. Raises DamagedError if it is missing."""
        text = self._kept(name)
        if text is None:
            hash = self._sent.hashes.get(name, "")
            raise DamagedError(f"the text with the hash {hash[:12]} is missing; run `foldmark doctor`")
        return text

    def _is_turn_erased(self) -> bool:
        return self._sent.turn is not None and self._moment.erased_by(self._sent.turn) is not None

    def _part(self, part: Part) -> Part:
        gone = part.event in self.erased or part.memo in self.removed
        return replace(part, text=REDACTED, detail="erased since", kept=0, of=0) if gone else part


def _newest(window: Sequence[Event], edge: Edge) -> "Unit | None":
    """Return the newest turn that the window had when it was settled."""
    from foldmark.core.assembly.window import Units

    units = Units(reversed([event for event in window if event.id <= (edge.settled or event.id)]))
    return units[0] if units.reach(1) else None
