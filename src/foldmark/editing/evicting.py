"""Evict single tool results from requests, and offer stale results for eviction [SPEC 5.7]."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from foldmark.core import selections
from foldmark.core.assembly.eviction import is_longer, placeholder
from foldmark.core.assembly.superseded import STALE, Superseded, exchange, superseded
from foldmark.core.codec import count_tokens
from foldmark.core.errors import CommandError
from foldmark.core.events import Event, Evict
from foldmark.core.ports import Snapshot
from foldmark.core.segments import END, contains, since, until
from foldmark.core.wording import count, listing, one_line
from foldmark.operations.effects import Result
from foldmark.operations.history import ids_named
from foldmark.request.client_requests import NextRequest
from foldmark.request.standing import Standing

if TYPE_CHECKING:
    from foldmark.log.log import Agent


def eviction(moment: Snapshot, at: Standing, wanted: Iterable[int | tuple[int, int]]) -> Evict:
    """Return an eviction of tool results in the context, given by id or by ranges of ids (first, last). A range covers
    the results in it that are not evicted yet and are longer than their placeholder. Raises CommandError for results
    that cannot be evicted."""
    found = set[int]()
    for each in wanted:
        found |= _results_between(moment, at, *each) if isinstance(each, tuple) else {_result(moment, at, each)}
    if not found:
        raise CommandError(f"no tool result was named; {_newest_results(moment, at)}")
    return Evict(tuple(sorted(found)))


def _result(moment: Snapshot, at: Standing, event_id: int) -> int:
    message = next(iter(moment.lookup([event_id])), None) if 0 < event_id < END else None
    if message is None or not contains(at.lineage, message.agent_id, message.id):
        wrong = f"there is no event {event_id} in this conversation"
    elif message.kind == "tool_call":
        results = moment.results([message])
        result = f"its result is {results[0].id}" if results else "it has no result"
        wrong = f"event {event_id} is a tool call, not a tool result; {result}"
    elif message.kind != "tool_result":
        wrong = f"event {event_id} is of kind '{message.kind}', not a tool result"
    elif not contains(at.visible, message.agent_id, message.id) or selections.erased_by(moment, event_id) is not None:
        wrong = f"result {event_id} is not in the context; `/context explain {event_id}` says why"
    elif event_id in at.fold.evicted:
        by = at.fold.evicted[event_id]
        wrong = f"result {event_id} is already evicted" + (f"; `/restore {by}` takes that back" if by else "")
    else:
        return event_id
    raise CommandError(f"{wrong}; {_newest_results(moment, at)}")


def _results_between(moment: Snapshot, at: Standing, first: int, last: int) -> set[int]:
    if first > last:
        raise CommandError(f"the range {first}-{last} is reversed; write {last}-{first}")
    spans = until(since(at.visible, first), last)
    evicted = at.fold.evicted
    found = {each.id for each in moment.select(spans) if is_longer(each) and each.id not in evicted}
    if not found:
        raise CommandError(f"no tool result from {first} to {last} can be evicted; {_newest_results(moment, at)}")
    return found


def _newest_results(moment: Snapshot, at: Standing) -> str:
    """Return the newest results that can be evicted, for an error message."""
    newest = islice(moment.select(at.visible, newest_first=True), 200)
    there_is = [each.id for each in newest if is_longer(each) and each.id not in at.fold.evicted][:6]
    return f"newest results: {listing(reversed(there_is))}" if there_is else "no result can be evicted now"


ABOUT = 60
"""Maximum number of characters of a call's arguments, or of a path, in a line."""


class SentResult(Struct, frozen=True):
    """A tool result of the next request: its event, its call, the tokens that eviction would save, and those of the
    whole exchange (0 if it cannot leave). `superseded` has the reasons why it is not needed any more, if any."""

    result: Event
    call: Event
    tokens: int
    whole: int = 0
    superseded: tuple[Superseded, ...] = ()

    @property
    def stale(self) -> Superseded | None:
        """The later read or write that made the result stale; None if there is none."""
        return next((each for each in self.superseded if each.why == STALE), None)

    def data(self) -> dict[str, Any]:
        """Return the result as JSON."""
        found: dict[str, Any] = {"id": self.result.id, "tool": self.tool, "tokens": self.tokens}
        if self.stale is not None:
            found |= {"path": self.stale.path, "superseded_by": self.stale.by, "how": self.stale.how}
        return found

    @property
    def tool(self) -> str:
        """The name of the tool."""
        return str((self.call.data or {}).get("name", ""))

    @property
    def about(self) -> str:
        """The tool and the file or the beginning of the arguments."""
        path = next((each.path for each in self.superseded if each.path), "")
        about = path or self.call.content
        about = about if len(about) <= ABOUT else f"…{about[-ABOUT:]}" if path else f"{about[:ABOUT]}…"
        return one_line(f"{self.tool} {about}")

    def line(self) -> str:
        """Return `12 · read_file a.py · ~1,200 tokens · read again by call 30`."""
        parts = [str(self.result.id), self.about, f"~{count(self.tokens, 'token')}"]
        return " · ".join([*parts, *map(str, self.superseded[:1])])


class _Answered(NamedTuple):
    """A call and its result, the tokens that eviction would save and those of both (0 if they cannot leave together),
    and False if the result is evicted."""

    call: Event
    result: Event
    saved: int
    whole: int
    shown: bool


def sent_results(agent: "Agent") -> list[SentResult]:
    """Return the tool results of the next request whose eviction would save tokens, in order."""
    return [each for each in sent_exchanges(agent) if each.tokens > 0]


def sent_exchanges(agent: "Agent") -> list[SentResult]:
    """Return the tool results of the next request that are not evicted, in order. Cost grows with the window, and for a
    live session with the messages that its client sends."""
    with agent.reading() as (moment, at):
        client = NextRequest.of(moment, at)
        found = None if client is None else list(_in_client(moment, at, client))
    if found is None:
        with agent.log.store.read() as moment:
            found = list(_in_request(moment, agent))
    why = superseded(exchange(each.call, each.result, shown=each.shown) for each in found)
    return [
        SentResult(each.result, each.call, each.saved, each.whole, why.get(each.result.id, ()))
        for each in found
        if each.shown
    ]


def _in_request(moment: Snapshot, agent: "Agent") -> Iterator[_Answered]:
    """Yield the exchanges of the next request that Foldmark makes."""
    for part in agent.next_request().manifest.parts:
        if part.kind == "tool_result" and part.event is not None:
            result = selections.event(moment, part.event)
            call = (
                selections.event(moment, result.answers) if result is not None and result.answers is not None else None
            )
            if result is not None and call is not None:
                sent = count_tokens(part.text, None)
                saved = sent - count_tokens(placeholder(result, result.id), None)
                yield _Answered(call, result, saved, sent + call.tokens, part.how != "evicted")


def _in_client(moment: Snapshot, at: Standing, client: NextRequest) -> Iterator[_Answered]:
    """Yield the exchanges of the next request of a live session's agent, with whole results."""
    sizes, calls = client.by_event(), dict[int, Event]()
    for event in moment.select(at.visible):
        if event.kind == "tool_call":
            calls[event.id] = event
        elif event.kind == "tool_result" and event.answers is not None:
            # A client that changes an answer, for example for another model, sends its calls anew.
            call = calls.get(event.answers) or selections.event(moment, event.answers)
            tokens = sizes.get(event.id, event.tokens)
            if call is not None:
                saved = tokens - client.placeholder_tokens(event)
                whole = tokens + sizes.get(call.id, call.tokens) if call.id in calls else 0
                yield _Answered(call, event, saved, whole, event.id not in at.fold.evicted)


def evict(
    agent: "Agent", wanted: Iterable[int | tuple[int, int]], *, actor: str = "human", reason: str | None = None
) -> Result:
    """Record the eviction of these results. The receipt reports the tokens saved. Raises the same errors as
    `eviction`."""
    receipt = agent.operate(lambda moment, at: eviction(moment, at, wanted), actor=actor, reason=reason)
    operation = receipt.operation
    assert isinstance(operation, Evict)
    named = ids_named("result", operation.results)
    text = f"{named[0].upper()}{named[1:]} evicted: a one-line placeholder is sent instead."
    return Result(text, receipt.event_id, {"results": list(operation.results)}, effect=receipt)


def stale_results(agent: "Agent") -> list[SentResult]:
    """Return the results of the next request that a later read or write has made stale."""
    return [each for each in sent_results(agent) if each.stale is not None]


def question(offered: list[SentResult]) -> str:
    """Return the question to a person before stale results are evicted."""
    what, tokens = count(len(offered), "stale result"), sum(each.tokens for each in offered)
    lines = [f"  {each.line()}" for each in offered]
    return "\n".join([*lines, f"Evict {what} (~{count(tokens, 'token')} of the next request)?"])
