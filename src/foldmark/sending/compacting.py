"""Provider-native summaries on request [SPEC 5.7].

The provider gets the request that would go out, as far as it is to be summed up, so that its cache hits and what stays
after the summary continues what was summed up.
"""

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from foldmark.core.answer import Compacted, Stopped
from foldmark.core.config import Config, check_together
from foldmark.core.errors import FoldmarkError
from foldmark.core.events import Summary
from foldmark.core.ports import Snapshot
from foldmark.core.request import COMPACTION, Request
from foldmark.core.segments import Segment, Segments, subtract
from foldmark.operations.provider_summary import form_of, standing_for
from foldmark.request.exchanges import ranges_of
from foldmark.request.standing import Standing, of_kind
from foldmark.sending.sent import record_sent

if TYPE_CHECKING:
    from foldmark.log.log import Agent


class Made(NamedTuple):
    """A summary written by a provider: the operation to record, and its text."""

    operation: Summary
    text: str


def compacted(agent: "Agent", decided: Summary) -> Made | None:
    """Have the provider of the agent's model write a summary that was `decided`; return None if that is not asked for
    (`provider_compaction`), or not possible: it sums up the beginning of the conversation, up to the end of a turn.

    Blocks, and records only the request. Raises CommandError if `provider_editing` is on as well, which the API
    refuses, FoldmarkError if it writes no summary.
    """
    from foldmark.providers.registry import dialect_of
    from foldmark.request.thinking import binding

    with agent.reading() as (moment, at):
        provider, _, model = at.config.model.partition("/")
        dialect = dialect_of(provider, at.given.dialects)
        if not at.config.provider_compaction or not dialect.compacts(model):
            return None
        check_together(at.config)
        system = ranges_of(moment, at, moment.lookup(of_kind(moment, at, "system", at.visible)))
        ranges = subtract(decided.ranges, system)
        kept = moment.bounds(subtract(subtract(at.visible, ranges), system))
        upto = min((segment.first for segment in kept), default=0)
        if decided.mark is not None or not _opens(moment, upto) or not _in_front(moment, at, ranges, upto):
            return None
        request = _request(moment, at, agent, upto)
        if "context_management" in request.body or request.tokens > agent.window:
            return None
    record_sent(agent, request, upto=upto)
    answer = agent.log.compact(request)
    # Only a model that binds thinking knows what its summary stands for.
    pieces = dialect.thinking.bind(lambda: request.body, answer) if binding(at) else answer
    made = next((piece for piece in pieces if isinstance(piece, Compacted)), None)
    if made is None or not made.text.strip():
        why = next((piece.said for piece in pieces if isinstance(piece, Stopped)), "")
        raise FoldmarkError(
            f"{at.config.model} wrote no summary ({why or 'it said nothing'}); nothing was changed. Ask again, or have "
            "Foldmark ask for one: /config set provider_compaction=off"
        )
    form = form_of(agent.log.secrets, made, dialect.reads)
    with agent.log.store.read() as moment:
        summary = standing_for(moment, at, form, ranges)
    return Made(
        replace(summary, state=decided.state, span=decided.span, widened=decided.widened, kept=upto or None), made.text
    )


def _opens(moment: Snapshot, event_id: int) -> bool:
    """Return True if the event is a user message that opened its turn, or there is no event: the end of all."""
    event = moment.event(event_id) if event_id else None
    return not event_id or (event is not None and event.kind == "user" and event.turn_id == event_id)


def _in_front(moment: Snapshot, at: Standing, ranges: Segments, event_id: int) -> bool:
    """Return True if all messages in `ranges` stand in front of an event, except summaries, which are newer than it."""
    summaries = [Segment(at.record.id, each, each) for each in moment.of_kind("summary", ranges)]
    return all(each.last < event_id or not event_id for each in moment.bounds(subtract(ranges, summaries)))


def _request(moment: Snapshot, at: Standing, agent: "Agent", upto: int) -> Request:
    """Return the request that would go out, up to a turn. It includes what the window has cut: otherwise the summary
    would not cover it."""
    from foldmark.request.prepare import prepare

    provider, _, model = at.config.model.partition("/")
    known = agent.log.model_named(at.config.model)

    def made(config: Config, limit: int | None) -> Request:
        return prepare(
            moment,
            at,
            config,
            provider,
            model,
            tools=agent.tools(),
            purpose=COMPACTION,
            limit=limit,
            output=known.answer,
            upto=upto,
        )

    whole = replace(at.config, sliding_context_tokens=0, context_size=0)
    sliding = agent.request().manifest.edge.before == 0 and at.config.sliding_context_tokens
    return made(at.config, known.window - known.answer) if sliding else made(whole, None)
