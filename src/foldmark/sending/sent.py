"""Record requests, so that they can be rebuilt from the log (`rebuilding.py`) [SPEC 5.6].

A request is recorded as the ids of its contents, never as the text of messages. Texts that the log does not hold
(settings, tools, guidelines) are kept by their hashes.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import sha256

import msgspec
from msgspec import structs

from foldmark.core.assembly.sent import OF_AGENT, QUESTION, MessageSet, RequestRecord, SentRequest, owners
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.request import ANSWER, COMPACTION, Part, Request
from foldmark.core.segments import END, since, until
from foldmark.log.log import Agent
from foldmark.request.layers import memo_texts
from foldmark.request.recorded import number_of
from foldmark.request.standing import Standing


def record_sent(
    agent: Agent,
    request: Request,
    instruction: str | None = None,
    quoted: Sequence[Event] | None = None,
    upto: int = 0,
) -> SentRequest:
    """Record that `request`, just made for this agent, is sent to its model; return it as it is recorded.

    `instruction` is the last message if the log does not contain it. With `quoted`, the messages that precede it
    (`quoting`), it contains a person's words and is erased with the turn. `upto` is as for `prepare`. Raises
    StoreError, and CommandError if the agent was deleted in the meantime.
    """
    from foldmark.providers.registry import dialect_of, speaks
    from foldmark.request.exchanges import read_as, read_by

    with agent.log.store.write() as transaction:
        transaction.keep_texts({})  # from here on nothing that the request needs can be erased by others
        reads = read_as(dialect_of(request.provider, agent.log.given.dialects).reads)
        at = read_by(transaction, agent.standing_in(transaction), reads)
        if (end := transaction.end(agent.id)) is not None and end.killer is None:
            raise CommandError(f"{end.sentence}; its model is no longer asked")
        manifest, texts = request.manifest, {"config": msgspec.json.encode(at.config, order="sorted").decode()}
        if request.purpose in (ANSWER, COMPACTION):
            texts["tools"] = msgspec.json.encode(agent.tools()).decode()
        for part in manifest.parts:
            if part.layer == "guidelines":
                texts["guidelines"] = part.text
        texts |= memo_texts(transaction, manifest.parts)
        if instruction is not None and quoted is None:
            texts["instruction"] = instruction
        if quoted is not None and instruction is not None and at.record.open_turn is not None:
            texts[QUESTION] = instruction
        hashes = {name: _sha256(text) for name, text in texts.items()}
        window, pinned, layers, left_out = _recorded_ids(request)
        before = next(iter(transaction.recent("request", agent.id, END, 1)), None)
        same = owners(before.turn_id, before.data) if before is not None else ()
        kept = {sha for sha, owner in same if owner == OF_AGENT}  # as long as the agent is
        transaction.keep_texts({hashes[name]: text for name, text in texts.items() if hashes[name] not in kept})
        record = RequestRecord(
            number=1 if before is None else number_of(before) + 1,
            event=at.newest,
            provider=request.provider,
            model=request.model,
            speaks=speaks(request.provider, at.given.dialects),
            sha256=sha256(request.bytes).hexdigest(),
            bytes=len(request.bytes),
            tokens=request.tokens,
            output=agent.log.model_named(f"{request.provider}/{request.model}").answer,
            edge=manifest.edge,
            hashes=hashes,
            digests=digests(manifest.parts),
            purpose=request.purpose,
            window=_message_set(transaction, at, window, system=False),
            pinned=tuple(pinned),
            layers=layers,
            truncated=truncated(manifest.parts),
            evicted={
                part.event: at.fold.evicted[part.event] for part in manifest.parts if part.event in at.fold.evicted
            },
            left_out=left_out,
            quoted=None
            if quoted is None
            else _message_set(transaction, at, [event.id for event in quoted], system=True),
            told=manifest.told,
            later=_later_layers(manifest.parts),
            thoughtless=request.thoughtless,
            cache_ttl=request.cache_ttl,
            upto=upto,
        )
        now = agent.log.clock()
        event_id = agent.record_request(record, now)
        turn = at.record.open_turn
        return SentRequest(**structs.asdict(record), id=event_id, agent=agent.id, turn=turn, created_at=now)


def quoting(messages: Iterable[Event], question: str) -> str:
    """Return a question, preceded by the messages that it is about."""
    from foldmark.text.selection import numbered

    return f"{numbered(messages)}\n\n{question}"


def _recorded_ids(
    request: Request,
) -> tuple[list[int], list[int], dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Return the ids of the window's messages and of the pinned ones, sent or left out; of the layers by name; and of
    the messages left out by reason."""
    manifest = request.manifest
    window: list[int] = []
    pinned: list[int] = []
    layers: dict[str, list[int]] = defaultdict(list)
    for part in manifest.parts:
        if part.layer in ("window", "pinned"):
            if part.event is not None:
                (window if part.layer == "window" else pinned).append(part.event)
        elif part.before is not None:
            continue
        elif part.event is not None or part.layer == "scratchpad":
            layers[part.layer].append(part.event or 0)
        elif part.memo is not None:
            layers[part.layer].append(part.memo)
    left_out: dict[str, list[int]] = defaultdict(list)
    for left in manifest.left_out:
        left_out[left.why].append(left.event)
        if left.why != "pins" and left.turn is not None:  # only messages of the system layer have no turn
            (window if left.event >= (manifest.edge.first or 0) else pinned).append(left.event)
    return (
        window,
        pinned,
        {name: tuple(ids) for name, ids in layers.items()},
        {why: tuple(ids) for why, ids in left_out.items()},
    )


def _later_layers(parts: Iterable[Part]) -> dict[int, dict[str, tuple[int, ...]]]:
    """Return the layers before a later message, by its event: the ids of their events or memos by name."""
    found: dict[int, dict[str, tuple[int, ...]]] = defaultdict(dict)
    for part in parts:
        which = part.event if part.event is not None else part.memo
        if part.before is not None and which is not None:
            found[part.before][part.layer] = (*found[part.before].get(part.layer, ()), which)
    return dict(found)


def _message_set(moment: Snapshot, at: Standing, ids: Iterable[int], *, system: bool) -> MessageSet:
    """Return visible messages as the ranges that contain them, or as ids if the ranges would include others. System
    messages count only if `system` is True."""
    found = sorted(set(ids))
    if not found:
        return MessageSet()
    ranges = until(since(at.visible, found[0]), found[-1])
    number = moment.size(ranges).messages - (0 if system else len(moment.of_kind("system", ranges)))
    return MessageSet(ranges=ranges) if number == len(found) else MessageSet(ids=tuple(found))


def truncated(parts: Iterable[Part]) -> dict[int, int]:
    """Return event id -> number of characters kept, for truncated results."""
    return {part.event: part.kept for part in parts if part.event is not None and part.how == "truncated"}


def digests(parts: Iterable[Part]) -> dict[str, str]:
    """Return layer -> SHA-256 of its texts."""
    texts: dict[str, list[str]] = defaultdict(list)
    for part in parts:
        texts[part.layer].append(part.text)
    return {layer: _sha256("\n".join(each)) for layer, each in texts.items()}


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()
