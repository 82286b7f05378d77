"""The record of a sent request, from which it can be rebuilt [SPEC 5.6].

A request is recorded as the ids of its contents, never as the text of messages. Texts that the log does not hold
(settings, tools, guidelines) are kept by their hashes.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

import msgspec
from msgspec import structs

from foldmark.core import selections
from foldmark.core.assembly.sent import OF_AGENT, QUESTION, MessageSet, RequestRecord, owners
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot, Transaction
from foldmark.core.request import ANSWER, COMPACTION, Part, Plan, Request
from foldmark.core.segments import END, since, until
from foldmark.request.layers import memo_texts
from foldmark.request.recorded import SentPlan, newest_plan, number_of
from foldmark.request.standing import Standing, end_of


def record_of(
    transaction: Transaction,
    now: Standing,
    made: Standing,
    request: Request,
    instruction: str | None,
    quoted: Sequence[Event] | None,
    upto: int,
) -> RequestRecord:
    """Return the record of a request that was made for the standing `made` of an agent and is sent `now`, and keep its
    texts. The other arguments and errors are those of `Agent.record_sent`."""
    from foldmark.providers.registry import dialect_of, speaks
    from foldmark.request.exchanges import read_as, read_by
    from foldmark.tokens.models import model_of

    agent_id, given = now.record.id, now.given
    reads = read_as(dialect_of(request.provider, given.dialects).reads)
    at = read_by(transaction, made, reads)
    if (end := end_of(transaction, agent_id)) is not None and end.killer is None:
        raise CommandError(f"{end.sentence}; its model is no longer asked")
    manifest, texts = request.manifest, {"config": msgspec.json.encode(at.config, order="sorted").decode()}
    if request.purpose in (ANSWER, COMPACTION):
        texts["tools"] = msgspec.json.encode(request.tools).decode()
    for part in manifest.parts:
        if part.layer == "guidelines":
            texts["guidelines"] = part.text
    texts |= memo_texts(transaction, manifest.parts)
    if instruction is not None and quoted is None:
        texts["instruction"] = instruction
    if quoted is not None and instruction is not None and now.record.open_turn is not None:
        texts[QUESTION] = instruction
    hashes = {name: _sha256(text) for name, text in texts.items()}
    before = next(iter(selections.recent(transaction, "request", agent_id, END, 1)), None)
    same = owners(before.turn_id, before.data) if before is not None else ()
    kept = {sha for sha, owner in same if owner == OF_AGENT}  # as long as the agent is
    transaction.keep_texts({hashes[name]: text for name, text in texts.items() if hashes[name] not in kept})
    plan, after = _new(manifest.plan, newest_plan(transaction, now), agent_id)
    return RequestRecord(
        number=1 if before is None else number_of(before) + 1,
        event=at.newest,
        provider=request.provider,
        model=request.model,
        speaks=speaks(request.provider, given.dialects),
        sha256=sha256(request.bytes).hexdigest(),
        bytes=len(request.bytes),
        tokens=request.tokens,
        output=model_of(request.provider, request.model, given.models, given.dialects).answer,
        edge=manifest.edge,
        hashes=hashes,
        digests=digests(manifest.parts),
        purpose=request.purpose,
        plan=plan,
        after=after,
        only=_message_set(transaction, at, _messages(request)) if manifest.edge.why == "planning" else None,
        quoted=None if quoted is None else _message_set(transaction, at, [event.id for event in quoted]),
        thoughtless=request.thoughtless,
        cache_ttl=request.cache_ttl,
        upto=upto,
    )


def quoting(messages: Iterable[Event], question: str) -> str:
    """Return a question, preceded by the messages that it is about."""
    from foldmark.text.selection import numbered

    return f"{numbered(messages)}\n\n{question}"


def _new(plan: Plan, before: SentPlan | None, agent_id: str) -> tuple[Plan, tuple[int, ...]]:
    """Return what a plan adds to earlier requests, and their events; all of the plan and no events if it is recorded
    alone."""
    sent = None if before is None else before.request
    if before is None or sent is None or sent.agent != agent_id:
        return plan, ()
    known, has_own = before.plan, bool(sent.plan.later or sent.plan.told)
    after = (*sent.after, sent.id) if has_own else sent.after
    goes_on = structs.replace(plan, later=known.later, told=known.told) == known
    has_all = known.later.items() <= plan.later.items() and known.told.items() <= plan.told.items()
    if not (goes_on and has_all) or len(after) > TOGETHER:
        return plan, ()
    later = {at: layers for at, layers in plan.later.items() if at not in known.later}
    told = {at: family for at, family in plan.told.items() if at not in known.told}
    return structs.replace(plan, later=later, told=told), after


TOGETHER = 16
"""Maximum number of requests that together have the rest of one plan: a whole plan each time would grow with the square
of the number of turns."""


def _messages(request: Request) -> Iterator[int]:
    """Yield the messages of a request, sent or left out."""
    for part in request.manifest.parts:
        if part.layer == "window" and part.event is not None:
            yield part.event
    yield from (left.event for left in request.manifest.left_out)


def _message_set(moment: Snapshot, at: Standing, ids: Iterable[int]) -> MessageSet:
    """Return visible messages as the ranges that contain them, or as ids if the ranges would include others."""
    found = sorted(set(ids))
    if not found:
        return MessageSet()
    ranges = until(since(at.visible, found[0]), found[-1])
    return MessageSet(ranges=ranges) if moment.size(ranges).messages == len(found) else MessageSet(ids=tuple(found))


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
