"""Suggest tool results that are not needed any more, and evict those that a person chooses [SPEC 5.7].

A `command` event records a suggestion. It is open for the person's next message only, and ends when another operation
changes what is sent. Nothing but that event is recorded before the person agrees.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, convert, to_builtins

from foldmark.core import selections
from foldmark.core.assembly.superseded import FAILED, REPEATED, STALE, TODOS
from foldmark.core.errors import CommandError
from foldmark.core.events import CONTEXT_KINDS, Event
from foldmark.core.ports import Snapshot
from foldmark.core.segments import Segment
from foldmark.core.wording import count, one_line
from foldmark.editing.evicting import SentResult, evict, eviction, sent_exchanges
from foldmark.editing.offer import command_end, question_end
from foldmark.operations import decide
from foldmark.operations.effects import NOBODY, Asking, Effect, Result
from foldmark.operations.history import ids_named
from foldmark.request.planning import planning
from foldmark.request.standing import Standing
from foldmark.text.choosing import Choice, chosen
from foldmark.text.consent import Doubt, Look, No, Refinement, Yes, read

if TYPE_CHECKING:
    from foldmark.log.log import Agent

MOST = 100
"""Maximum number of results that are suggested at once, the largest ones."""

_ENDING = frozenset((*CONTEXT_KINDS, "evict", "restore"))
_ORDER = (FAILED, TODOS, STALE, REPEATED)
"""The reasons in the order in which they are named."""


class Suggested(Struct, frozen=True):
    """A result that is not needed any more: its event and its call, the tokens that each request saves without it, and
    these in dollars (None if the price is unknown). `why` is one of `REASONS`. A todo list `leaves` with its call,
    whose arguments hold the list; any other result is evicted."""

    result: int
    call: int
    about: str
    why: str
    because: str
    tokens: int
    dollars: float | None = None
    leaves: bool = False

    @property
    def line(self) -> str:
        """Return `12 · Read a.py · ~1,200 tokens, $0.0004 a request · stale: written by call 30`."""
        return f"{self.result} · {self.about} · {_size(self.tokens, self.dollars)} · {self.why}: {self.because}"


class Suggestion(Effect, frozen=True):
    """A suggestion: the event that recorded it, and the results in the order of their numbers. `asked` is True if
    Foldmark has asked "yes or no?" after an answer in doubt."""

    id: int
    results: tuple[Suggested, ...]
    asked: bool = False

    def data(self) -> dict[str, Any]:
        """Return the suggestion as JSON; results are numbered from 1."""
        rows = [{"number": number, **to_builtins(each)} for number, each in enumerate(self.results, 1)]
        return {"offer": self.id, "suggested": rows, "tokens": sum(each.tokens for each in self.results)}

    @property
    def _what(self) -> str:
        dollars = [each.dollars for each in self.results]
        total = None if None in dollars else sum(each for each in dollars if each is not None)
        return f"{count(len(self.results), 'result')}, {_size(sum(each.tokens for each in self.results), total)}"

    @property
    def _choices(self) -> str:
        return ", all but 2, only 1" if len(self.results) > 1 else ""

    def asked_again(self) -> str:
        """Return the question after an answer in doubt."""
        return (
            "Nothing has changed: that is neither a plain yes nor a plain no.\n"
            f"Take out all of it, {self._what}: yes or no?\nAnswer yes, no{self._choices}."
        )

    def shown(self, price: Sequence[str] = (), *, answers: bool = True) -> str:
        """Return the text and the question for a person; `price` holds lines about the cost of the next request;
        `answers` as in `Asking`."""
        lines = [f"  {number}. {each.line}" for number, each in enumerate(self.results, 1)]
        lines += [f"  {line[0].upper()}{line[1:]}" for line in price]
        end = question_end(self._choices) if answers else command_end(self.id, self._choices)
        return "\n".join([f"Not needed any more: {self._what}. Take them out?", *lines, end])


class Superfluous(NamedTuple):
    """A result in the next request that later calls superseded, and the reason that is named."""

    sent: SentResult
    why: str
    because: str

    @property
    def leaves(self) -> bool:
        """True if the whole exchange leaves: the list is in the arguments of the call."""
        return self.why == TODOS

    @property
    def tokens(self) -> int:
        """The tokens that each request saves."""
        return self.sent.whole if self.leaves else self.sent.tokens


def superfluous(agent: "Agent", wanted: Sequence[str] = _ORDER) -> list[Superfluous]:
    """Return the results of the next request that later calls superseded for one of these reasons, in order, except
    those of the open turn, which the agent is using."""
    open_turn = agent.standing().record.open_turn
    found = []
    for each in sent_exchanges(agent):
        reasons = {reason.why: str(reason) for reason in each.superseded}
        why = next((why for why in _ORDER if why in reasons and why in wanted), None)
        if why is None or (open_turn is not None and each.result.turn_id == open_turn):
            continue
        made = Superfluous(each, why, reasons[why])
        if made.tokens > 0:
            found.append(made)
    return found


def suggest(agent: "Agent", asking: Asking = NOBODY, *, actor: str = "human") -> Result:
    """Suggest results, and record the suggestion. Raises CommandError while a planning conversation is open."""
    from foldmark.cost.requests import preview  # imports agents
    from foldmark.cost.spending import tariff_of

    with agent.reading() as (moment, at):
        if planning(moment, at) is not None:
            raise CommandError("a planning conversation is open; answer its preview, or /cancel it first")
    tariff = tariff_of(agent.log.model_named(agent.standing().config.model))
    each = tariff.read * tariff.input / 1e6 if tariff.input else None
    found = sorted(superfluous(agent), key=lambda one: -one.tokens)
    results = tuple(
        Suggested(
            one.sent.result.id,
            one.sent.call.id,
            one.sent.about,
            one.why,
            one.because,
            one.tokens,
            None if each is None else one.tokens * each,
            one.leaves,
        )
        for one in found[:MOST]
    )
    if not results:
        text = "Nothing to suggest: no result is stale, repeated, or failed and done again, and no todo list is old."
        return Result(text, None, {"offer": None, "suggested": []})
    data = {"name": "suggest", "suggested": to_builtins(results)}
    offer = Suggestion(agent.record("command", "/suggest", data=data, actor=actor), results)
    evicted = [one.result for one in results if not one.leaves]
    price = preview(agent, lambda moment, at: eviction(moment, at, evicted)).price() if evicted else []
    more = [f"({count(len(found) - MOST, 'smaller one')} not shown)"] if len(found) > MOST else []
    return Result("\n".join([offer.shown(price, answers=asking.answers), *more]), effect=offer)


def open_suggestion(moment: Snapshot, at: Standing) -> Suggestion | None:
    """Return the open suggestion; None if there is none."""
    event = at.newest_of.get("command")
    rows = (event.data or {}).get("suggested") if event is not None else None
    if event is None or not rows:
        return None
    if any(each.kind in _ENDING for each in selections.operations(moment, at.record.id, after=event.id)):
        return None
    since = moment.select((Segment(at.record.id, event.id + 1, at.newest),))
    if any(message.kind == "user" and message.actor == "human" for message in since):
        return None
    return Suggestion(event.id, convert(rows, tuple[Suggested, ...]), bool((event.data or {}).get("asked")))


def was_suggested(event: Event | None, event_id: int) -> bool:
    """Return True if this event suggested results."""
    return event is not None and event.id == event_id and bool((event.data or {}).get("suggested"))


def answered(agent: "Agent", suggestion: Suggestion, text: str) -> Result | None:
    """Carry out a person's answer to the open suggestion; None for an ordinary message. Raises CommandError for numbers
    that were not shown."""
    match read(text):
        case Yes(counts) if {*counts} <= {len(suggestion.results)}:
            return carried_out(agent, suggestion, None)
        case Choice() as choice:
            return carried_out(agent, suggestion, _numbers(suggestion, choice))
        case No():
            agent.record("command", "/suggest", data={"name": "suggest", "suggested": []})
            return Result("Nothing was taken out.")
        case Look():
            return Result(suggestion.shown(), effect=suggestion)
        case Yes() | Doubt() | Refinement() if not suggestion.asked:
            data = {"name": "suggest", "suggested": to_builtins(suggestion.results), "asked": True}
            asked = Suggestion(agent.record("command", "/suggest", data=data), suggestion.results, asked=True)
            return Result(asked.asked_again(), effect=asked)
        case _:
            return None


def agree(agent: "Agent", suggestion: Suggestion, choice: str | None) -> Result:
    """Take out the results that `choice` names ("all but 2"), all by default. Raises CommandError if it names none."""
    answer = Yes() if choice is None else read(choice, longest=len(choice))
    if isinstance(answer, Choice):
        return carried_out(agent, suggestion, _numbers(suggestion, answer))
    if answer != Yes():
        named = one_line((choice or "")[:40])
        raise CommandError(f"'{named}' names no numbers; write them as in: all but 2, or: only 1 3")
    return carried_out(agent, suggestion, None)


def _numbers(suggestion: Suggestion, choice: Choice) -> list[int]:
    """Return the numbers of the results that a choice takes out."""
    named = chosen(choice, [(each.result,) for each in suggestion.results])
    found = [number for number, each in enumerate(suggestion.results, 1) if (each.result in named) is choice.kept]
    if not found:
        raise CommandError("that leaves no result; answer no to change nothing. The offer is still open")
    return found


def carried_out(agent: "Agent", suggestion: Suggestion, numbers: Sequence[int] | None) -> Result:
    """Take out the results with these numbers, all by default."""
    results = suggestion.results
    wanted = results if numbers is None else [results[number - 1] for number in numbers]
    gone = [id for each in wanted if each.leaves for id in (each.call, each.result)]
    evicted = [each.result for each in wanted if not each.leaves]
    done: list[Result] = []
    with agent.batch():
        if gone:
            receipt = agent.operate(
                lambda moment, at: decide.filter(moment, at, "forget", gone, None, None), reason=_reason(wanted, True)
            )
            named = ids_named("todo list", [each.result for each in wanted if each.leaves])
            text = f"{named[0].upper()}{named[1:]} left the context."
            done.append(Result(text, receipt.event_id, effect=receipt))
        if evicted:
            done.append(evict(agent, evicted, reason=_reason(wanted, False)))
    if len(done) == 1:
        return done[0]
    left, made = done
    text = f"{left.text} `/restore {left.event_id}` brings them back.\n{made.text}"
    return Result(text, made.event_id, {**made.own, "left": left.data}, effect=made.effect)


def _reason(wanted: Sequence[Suggested], leaves: bool) -> str:
    """Return the reason that is recorded: `suggested: stale, failed`."""
    why = {each.why for each in wanted if each.leaves is leaves}
    return f"suggested: {', '.join(each for each in _ORDER if each in why)}"


def _size(tokens: int, dollars: float | None) -> str:
    if dollars is None:
        return f"~{count(tokens, 'token')} a request"
    return f"~{count(tokens, 'token')}, {f'${dollars:,.4f}' if dollars >= 0.0001 else 'under $0.0001'} a request"
