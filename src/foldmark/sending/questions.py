"""Foldmark's own questions to the agent's model: a judgement, a summary, a state block [SPEC 3, 4].

A provider that can write summaries in its own form is asked for one if the setting says so [SPEC 5.7]. It gets the
next request, cut after the messages to summarize, so that its cache applies and the rest of the conversation continues
from the summary. The turns that the window has passed are summarized when a summary is due [S3, SPEC 5.1].
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from foldmark.core import selections
from foldmark.core.assembly.window import Units
from foldmark.core.config import check_together
from foldmark.core.errors import CommandError, ContextOverflowError, FoldmarkError
from foldmark.core.events import OPENING_KINDS, Event, Pin, Summary
from foldmark.core.ports import Snapshot
from foldmark.core.request import COMPACTION, Compacted, Request, Stopped
from foldmark.core.segments import Segment, Segments, since, subtract, until
from foldmark.log.log import Agent
from foldmark.operations.summaries import SPAN, provider_form, provider_summary, summary
from foldmark.request.exchanges import ranges_of
from foldmark.request.layers import Covered, WindowSummary, summary_in_force, visible_hash
from foldmark.request.sent import quoting
from foldmark.request.standing import Standing, of_kind
from foldmark.sending import models
from foldmark.text.state import parted

SUMMARIZE = (
    "Summarize the conversation above for yourself: your summary takes its place. Keep the goal, decisions and their "
    "reasons, names, paths, numbers, what is finished and what comes next. Write nothing else."
)
REBUILD = (
    "Write a fresh state block for the conversation above, and nothing else:\n### STATE\nGoal: ...\nContext: ...\n"
    "Resolved: ...\nTechnical Anchors: ..."
)


def ask(
    agent: Agent,
    question: str,
    purpose: str,
    segments: Segments | None = (),
    *,
    quoted: Sequence[Event] | None = None,
) -> str:
    """Return the model's complete answer to a question about the visible messages in `segments`, about the window
    (None), or about the `quoted` messages, which then precede the question.

    Blocks, and records only the request. Raises CommandError for a model that cannot be asked, FoldmarkError for an
    empty answer.
    """
    from foldmark.request.prepare import prepare  # takes 20 ms

    name = agent.standing().config.model
    known = agent.log.model_named(name)
    instruction = question if quoted is None else quoting(quoted, question)

    def within(limit: int) -> Request:
        make = partial(prepare, only=segments, purpose=purpose, instruction=instruction, output=known.answer)
        with agent.reading() as (moment, at):
            return make(moment, at, at.config, *at.model, limit=limit)

    def answer(request: Request) -> str:
        agent.record_sent(request, question, quoted)
        return models.complete(request, agent.log.given).strip()

    request = within(known.window - known.answer)
    if segments and request.tokens > known.window:
        raise FoldmarkError(
            f"the request has ~{request.tokens:,} tokens, and {name} takes at most {known.window:,}; nothing was "
            "changed. Summarize less, as in /summarize MARK or /summarize FROM..TO, or choose another model"
        )
    try:
        text = answer(request)
    except ContextOverflowError as error:
        smaller = within(error.within(request.tokens))
        if smaller.tokens >= request.tokens:
            raise
        text = answer(smaller)
    if not text:
        raise FoldmarkError(f"{name} gave an empty answer; nothing was changed")
    return text


def summarized(agent: Agent, segments: Segments) -> str:
    """Return the model's summary of the visible messages in `segments`. Raises the same errors as `ask`."""
    return ask(agent, SUMMARIZE, "summary", segments)


def fresh_state(agent: Agent) -> str:
    """Return a fresh state block for the whole window [S2]. Raises the same errors as `ask`."""
    answer = ask(agent, REBUILD, "state", None)
    block = parted(answer).block
    if block is None:
        raise FoldmarkError(
            f"the model's answer holds no `### STATE` block; the last one is kept. It said: {answer[:80]}"
        )
    return block


class ProviderSummary(NamedTuple):
    """A summary written by a provider: the operation to record, and its text."""

    operation: Summary
    text: str


def compacted(agent: Agent, decided: Summary) -> ProviderSummary | None:
    """Have the provider of the agent's model write a summary that was `decided`. Return None if the setting
    `provider_compaction` is off, or if the provider cannot: it can only summarize the beginning of the conversation, up
    to the end of a turn.

    Blocks, and records only the request. Raises CommandError if `provider_editing` is on as well, which the API
    refuses, FoldmarkError if the provider writes no summary.
    """
    from foldmark.providers.registry import dialect_of
    from foldmark.request.prepare import binding, prepare

    with agent.reading() as (moment, at):
        provider, model = at.model
        dialect = dialect_of(provider, at.given.dialects)
        if not at.config.provider_compaction or not dialect.compacts(model):
            return None
        check_together(at.config)
        system = ranges_of(moment, at, moment.lookup(of_kind(moment, at, "system", at.visible)))
        ranges = subtract(decided.ranges, system)
        rest = moment.bounds(subtract(subtract(at.visible, ranges), system))
        upto = min((segment.first for segment in rest), default=0)
        if decided.mark is not None or not _opens(moment, upto) or not _in_front(moment, at, ranges, upto):
            return None
        known = agent.log.model_named(at.config.model)
        # The request includes the messages that the window has cut: the summary has to cover them.
        sliding = at.config.sliding_context_tokens and agent.next_request().manifest.edge.before == 0
        config = at.config if sliding else replace(at.config, sliding_context_tokens=0, context_size=0)
        limit = known.window - known.answer if sliding else None
        make = partial(prepare, tools=agent.tools(), purpose=COMPACTION, output=known.answer, upto=upto)
        request = make(moment, at, config, provider, model, limit=limit)
        if "context_management" in request.body or request.tokens > known.window:
            return None
    agent.record_sent(request, upto=upto)
    answer = models.pieces(request, agent.log.given)
    # Only the summary of a model that binds thinking is bound to the messages that it replaces.
    pieces = dialect.thinking.bind(lambda: request.body, answer) if binding(at) else answer
    written = next((piece for piece in pieces if isinstance(piece, Compacted)), None)
    if written is None or not written.text.strip():
        why = next((piece.said for piece in pieces if isinstance(piece, Stopped)), "")
        raise FoldmarkError(
            f"{at.config.model} wrote no summary ({why or 'empty answer'}); nothing was changed. Ask again, or have "
            "Foldmark ask for one: /config set provider_compaction=off"
        )
    form = provider_form(agent.log.secrets, written, dialect.reads)
    with agent.log.store.read() as moment:
        operation = provider_summary(moment, at, form, ranges)
    kept = {"state": decided.state, "span": decided.span, "widened": decided.widened, "kept": upto or None}
    return ProviderSummary(replace(operation, **kept), written.text)


def _opens(moment: Snapshot, event_id: int) -> bool:
    """Return True if the event is a message of the user's side that opened its turn, or if the id is 0: the end of the
    context."""
    event = selections.event(moment, event_id) if event_id else None
    return not event_id or (event is not None and event.kind in OPENING_KINDS and event.turn_id == event_id)


def _in_front(moment: Snapshot, at: Standing, ranges: Segments, event_id: int) -> bool:
    """Return True if all messages in `ranges` are older than an event, except summaries, whose ids are newer."""
    summaries = [Segment(at.record.id, each, each) for each in selections.ids(moment, "summary", ranges)]
    return all(each.last < event_id or not event_id for each in moment.bounds(subtract(ranges, summaries)))


SHARE = 0.05
"""A new summary is due once the messages that no summary covers reach this share of the budget"""

MESSAGES = 20
"""or this number of messages."""

SUM_UP = (
    "The conversation above no longer fits into your requests. Sum it up for yourself in at most 300 words: your "
    "summary is shown to you in its place. Keep goals, decisions and their reasons, names, paths, numbers, what is "
    "finished and what is open. Write nothing else."
)
BEFORE = "\nYour summary of what came before it follows; write one that covers both.\n\n"


class DueSummary(NamedTuple):
    """A summary to make: its coverage, the messages to read for it, and the summary that it continues."""

    covered: Covered
    segments: Segments
    earlier: WindowSummary | None


def window_summary_due(agent: Agent) -> DueSummary | None:
    """Return the summary to make now, if the setting is on and the window has passed enough uncovered messages.

    It covers the messages of the previous summary and, of those that the window has passed since, as many of the newest
    turns as fit into half of the model's window. Raises CommandError for a model that cannot be asked, StoreError.
    """
    with agent.reading() as (moment, at):
        edge = agent.next_request().manifest.edge if at.config.window_summary else None
        if edge is None or edge.first is None or edge.why in (None, "planning"):
            return None
        earlier = summary_in_force(moment, at, edge.first, 0, at.newest)
        new = until(at.visible, edge.first - 1)
        if earlier is not None:
            new = since(new, earlier.covered.until + 1)
        size, budget = moment.size(new), at.config.sliding_context_tokens or agent.window
        if size.messages < MESSAGES and size.tokens < SHARE * budget:
            return None
        units, count = _fitting(moment, at, agent, new, earlier)
        if not count:
            return None
        events = units.newest(count)
        turns = [turn for index in range(count) for turn in units[index].turns if turn is not None]
        first, turn, last = events[0].id, min(turns), events[-1].id
        if earlier is not None and not units.reach(count + 1):
            first, turn = earlier.covered.first, earlier.covered.turns[0]
        covered = Covered(first, last, (turn, max(turns)), visible_hash(moment, at.visible, last))
        return DueSummary(covered, since(until(new, last), events[0].id), earlier)


def make_window_summary(agent: Agent, due: DueSummary) -> int | None:
    """Ask the model for the summary, record it and return its event's id; None if it is stale by then. With
    `provider_compaction` the provider writes it if it can: that is an operation, as with `/summarize`, and a pin.

    Blocks, and may run while the agent continues. Raises CommandError for a model that cannot be asked, FoldmarkError
    for an empty answer or an interruption, ConflictError, StoreError.
    """
    covered, earlier = due.covered, due.earlier
    written = None
    with suppress(CommandError):  # conflicting settings: the model is asked as if they were off
        with agent.reading() as (moment, at):
            decided = summary(moment, at, f"{SPAN}{covered.until}")
        written = compacted(agent, decided)
    if written is not None:
        agent.context()  # other processes may have written to the agent in the meantime
        with agent.batch() as moment:
            if visible_hash(moment, agent.standing_in(moment).visible, covered.until) != covered.covers:
                return None
            event_id = agent.operate(lambda *_: written.operation, actor="system", content=written.text).event_id
            # The window passes a summary like any other turn, and as the oldest one it would leave first.
            agent.operate(lambda *_: Pin(event_id), actor="system")
            return event_id
    question = SUM_UP if earlier is None else f"{SUM_UP}{BEFORE}{earlier.event.content}"
    text = ask(agent, question, "summary", due.segments)
    agent.context()
    with agent.batch() as moment:
        at = agent.standing_in(moment)
        if not at.config.window_summary or visible_hash(moment, at.visible, covered.until) != covered.covers:
            return None
        return agent.record("window_summary", text, data=msgspec.to_builtins(covered), actor="model")


def _fitting(
    moment: Snapshot, at: Standing, agent: Agent, new: Segments, earlier: WindowSummary | None
) -> tuple[Units, int]:
    """Return the turns in `new`, newest first, and how many of them fit into half of the model's window.

    The number is at least 1 if there are any turns.
    """
    from foldmark.core.assembly.wire import weigh
    from foldmark.tokens.counting import uncalibrated

    room = agent.window / 2 * uncalibrated(*at.model)
    room -= len(earlier.event.content.encode()) if earlier else 0
    units = Units(event for event in moment.select(new, newest_first=True) if event.kind != "system")
    count = 0
    while units.reach(count + 1):
        room -= sum(map(weigh, units[count].events))
        if count and room < 0:
            break
        count += 1
    return units, count
