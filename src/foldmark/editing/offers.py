"""Offers to forget or to keep messages, and the answers to them [SPEC 4.2].

All agreement to filters is handled here, for the chat, `foldmark do`, the runtime and the MCP server. A person's `yes`,
`no`, `all but 2` and `only 1 3` are parsed and carried out without a model.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from foldmark.core.agents import Size
from foldmark.core.errors import CommandError, FoldmarkError, ProviderError
from foldmark.core.events import Filter
from foldmark.core.ports import Snapshot
from foldmark.core.segments import contains, intersect, since, subtract, until
from foldmark.core.wording import count, listing, one_line
from foldmark.editing.matching import Candidates, matched
from foldmark.operations import decide
from foldmark.operations.effects import NOBODY, Asking, Effect, Result
from foldmark.operations.history import sized
from foldmark.operations.receipts import Receipt
from foldmark.request.exchanges import closure
from foldmark.request.planning import Planning, RecordedPreview, offer, offered, passed, planning, previewed, talk
from foldmark.request.standing import Standing
from foldmark.text.consent import chosen, is_no, is_yes
from foldmark.text.selection import Candidate, MatchRange, ranges

if TYPE_CHECKING:
    from foldmark.cost.requests import Preview
    from foldmark.log.log import Agent

RANGES = 100
"""Maximum number of ranges that the text of an offer lists."""

CRITERIA = 200
"""Maximum number of characters of the criteria that an offer shows."""


ENDED = "Planning has ended; nothing was forgotten."
"""The reply to a message that ended a planning conversation."""


class Offer(Effect, frozen=True):
    """The effect of a yes. `id` is the event of the preview. `along` are the messages that leave or stay with the
    matches, so that no call is separated from its result. `before` and `after` are the sizes of the context without the
    planning conversation."""

    id: int
    mode: str
    criteria: str
    ids: tuple[int, ...]
    ranges: tuple[MatchRange, ...]
    matched: Size
    along: tuple[int, ...]
    along_tokens: int
    before: Size
    after: Size

    @property
    def forgets(self) -> bool:
        """True if the matches leave; False if all other messages do."""
        return self.mode == "forget"

    def data(self) -> dict[str, Any]:
        """Return the offer as JSON; ranges are numbered from 1."""
        shown = [{"number": number, **to_builtins(each)} for number, each in enumerate(self.ranges, 1)]
        return {
            "offer": self.id,
            "mode": self.mode,
            "criteria": self.criteria,
            "ids": list(self.ids),
            "ranges": shown,
            **self.matched._asdict(),
            "along": {"ids": list(self.along), "tokens": self.along_tokens},
            "before": self.before._asdict(),
            "after": self.after._asdict(),
        }

    def lines(self, most: int = RANGES) -> list[str]:
        """Return lines with the numbered ranges, the closure, and the context before and after."""
        found = [f"  {number}. {_range(each)}" for number, each in enumerate(self.ranges[:most], 1)]
        if more := len(self.ranges) - len(found):
            found.append(f"  … and {count(more, 'more range')}, to message {self.ranges[-1].last}")
        if self.along:
            found.append(
                f"  Also {'forgotten' if self.forgets else 'kept'}, so that no tool call is separated from "
                f"its result: {listing(self.along)} (~{count(self.along_tokens, 'token')})"
            )
        found.append(f"  Context: {sized(self.before)} before, {sized(self.after)} after")
        return found

    @property
    def title(self) -> str:
        """`Forget 4 messages (~62 tokens) about “tables”`."""
        what = f"{sized(self.matched)} {'about' if self.forgets else 'containing'}"
        what = f"{what} “{_short(self.criteria)}”"
        if self.forgets:
            return f"Forget {what}"
        gone = count(self.before.messages - self.after.messages, "message")
        return f"Keep {what}, and forget everything else ({gone})"

    def shown(self, price: Sequence[str]) -> str:
        """Return the text and the question for a person; `price` holds lines about the cost of the next request."""
        count_of = len(self.ranges)
        numbered = "" if count_of < 2 else ", all but 2, only 1" if count_of == 2 else ", all but 2, only 1 3"
        answers = f"Nothing has changed yet. Answer yes, no{numbered}, or say what else to look for."
        told = [*self.lines(), *(f"  {line[0].upper()}{line[1:]}" for line in price)]
        return "\n".join([f"{self.title}?", *told, f"{answers} Any other answer changes nothing."])


def question(moment: Snapshot, at: Standing) -> str:
    """Return the open offer in a few words, for a prompt; empty without an offer. Reads no message."""
    preview = offer(moment, at)
    return "" if preview is None else f"{preview.mode} {count(len(preview.ids), 'message')}?"


def open_offer(moment: Snapshot, at: Standing) -> Offer | None:
    """Return the open offer; None if there is none."""
    preview = offer(moment, at)
    return None if preview is None else described(moment, at, preview)


def standing_offer(agent: "Agent") -> Result:
    """Return the offer to show at the end of a turn of a planning conversation, regardless of the model's answer."""
    with agent.reading() as (moment, at):
        found, open_one = open_offer(moment, at), _open(moment, at)
    if found is not None:
        return _priced(agent, found)
    if open_one.preview is not None and not open_one.preview.ids:
        return Result(nothing(open_one.preview.criteria))
    return Result("Nothing was forgotten: the model has previewed nothing. Say what to look for, or go on.")


def _priced(agent: "Agent", found: Offer) -> Result:
    """Return an offer with the cost of carrying it out."""
    cost = price(agent, found)
    return Result(found.shown(cost.price()), None, {"next": cost.next.data()}, effect=found)


def price(agent: "Agent", found: Offer) -> "Preview":
    """Preview the open offer, compared with the answer no, which also removes the planning conversation."""
    from foldmark.cost.requests import preview as priced  # imports agents

    return priced(
        agent,
        lambda moment, at: _filter(moment, at, found.mode, found.ids, found.criteria),
        instead=_filter,
    )


def described(moment: Snapshot, at: Standing, preview: RecordedPreview, ids: Collection[int] | None = None) -> Offer:
    """Return the offer for a preview, or for only these of its ids."""
    wanted = preview.ids if ids is None else tuple(id for id in preview.ids if id in ids)
    kept = frozenset(wanted)
    parts = [
        (near, near.among(kept.intersection(part))) for part in preview.parts for near in [_near(moment, at, part)]
    ]
    found = [row for _, rows in parts for row in rows]
    said = list(moment.messages(intersect(at.visible, talk(moment, at))))
    inside = {message.id for message in said}
    closed = closure(moment, at, list(moment.lookup(event.id for event in found)))
    along = [m.id for m in closed if m.id not in inside and contains(at.visible, m.agent_id, m.id)]
    tokens = [event.tokens for event in map(moment.event, along) if event is not None]
    now = subtract(at.visible, talk(moment, at))
    gone = _filter(moment, at, preview.mode, wanted, preview.criteria)
    return Offer(
        preview.event_id,
        preview.mode,
        preview.criteria,
        tuple(event.id for event in found),
        tuple(
            each for near, rows in parts for each in ranges(rows, [row.id for row in rows], partial(near.read, moment))
        ),
        Size(len(found), sum(event.tokens for event in found)),
        tuple(along),
        sum(tokens),
        moment.size(now),
        moment.size(subtract(now, gone.ranges)),
    )


# Previews


class FilterMatches(Struct, frozen=True):
    """The messages that a preview searched, and the matches with their ranges; `offer` is the id of its event."""

    planning: Planning
    offer: int
    candidates: Candidates
    matches: Sequence[Candidate]
    ranges: Sequence[MatchRange]


def look(agent: "Agent", criteria: str | None, asking: Asking, *, actor: str, local: bool = False) -> FilterMatches:
    """Find the messages that match these criteria, by default those of the open planning conversation, and record the
    preview. The context does not change.

    The agent's model decides which messages match; with `local`, their words do. Raises CommandError if no planning
    conversation is open, and the errors of `matched`.
    """
    with agent.reading() as (moment, at):
        open_one = _open(moment, at)
        candidates = Candidates(moment, subtract(at.visible, talk(moment, at)))
    criteria = criteria or open_one.criteria
    ids = matched(agent, criteria, open_one.mode, candidates, asking.progress, local=local)
    wanted = frozenset(ids)
    with agent.log.store.read() as moment:
        parts = ranges(candidates.rows, ids, partial(candidates.read, moment))
    data = previewed(open_one, criteria, ids, [part.count for part in parts])
    offer_id = agent.record("command", "preview", data=data, actor=actor)
    return FilterMatches(open_one, offer_id, candidates, candidates.among(wanted), parts)


def preview(agent: "Agent", asking: Asking = NOBODY) -> Result:
    """Preview a `/forget` or `/remember` without a conversation with the model, and end the turn.

    The agent's model decides which messages match. If it cannot be asked, their words decide, and the result says so.
    If nothing matches or an error is raised, the planning conversation ends.
    """
    told = ""
    try:
        try:
            found = look(agent, None, asking, actor="human")
        except ProviderError as error:
            told = f"(matched by words: {one_line(str(error))})"
            found = look(agent, None, asking, actor="human", local=True)
    except (FoldmarkError, KeyboardInterrupt):
        _give_up(agent)
        raise
    open_one = found.planning
    data = {"planning": open_one.first, "mode": open_one.mode, "criteria": open_one.criteria}
    if not found.matches:
        _give_up(agent)
        return Result("\n".join([nothing(open_one.criteria), *([told] if told else [])]), None, {**data, "offer": None})
    with agent.batch() as moment:
        offered_now = open_offer(moment, agent.standing_in(moment))
        assert offered_now is not None
        # The model sees it if the conversation continues in a chat.
        agent.append("user", f"[Foldmark: this is what was offered.]\n{offered_now.shown(())}", actor="system")
        agent.end_turn()
    priced = _priced(agent, offered_now)
    text = [priced.text, *([told] if told else []), f"`/agree {offered_now.id}` carries it out."]
    return replace(priced, text="\n".join(text), own={**data, **priced.own, "matched_locally": bool(told)})


def nothing(criteria: str) -> str:
    """Return the message that nothing matches."""
    return f"Nothing matches “{_short(criteria)}”, and nothing has changed. Try other words."


def _give_up(agent: "Agent") -> None:
    with agent.batch():
        cancel(agent)
        agent.end_turn()


# Answers


def answered(agent: "Agent", text: str) -> Result | None:
    """Record a person's answer to the open offer as a separate turn, and carry it out.

    The answer is a yes, a no, or a choice of ranges. For any other text, or without an open offer, record nothing and
    return None.

    Raises CommandError for ranges that were not offered.
    """
    with agent.reading() as (moment, at):
        preview = offer(moment, at)
    if preview is None:
        return None
    numbers = chosen(text, len(preview.parts))
    if numbers is None and not is_yes(text) and not is_no(text):
        return None
    with agent.batch():
        agent.end_turn(interrupted=True)
        agent.append("user", text)
        if numbers is None and is_no(text):
            done = _cancelled(agent, _filter, "human")
        else:
            done = _applied(agent, preview, _ids(preview, numbers), "human")
        agent.end_turn()
    return done


def agree(agent: "Agent", offer_id: int, choice: str | None = None) -> Result:
    """Carry out the offer with this id, or only the ranges that `choice` names ("all but 2").

    Raises CommandError if the offer is not open or the choice is invalid.
    """
    with agent.batch() as moment:
        preview = _offered(moment, agent.standing_in(moment), offer_id)
        agent.end_turn(interrupted=True)
        numbers = chosen(choice, len(preview.parts), len(choice)) if choice is not None else None
        if choice is not None and numbers is None and not is_yes(choice):
            raise CommandError(f"'{one_line(choice[:40])}' names no ranges; write them as in: all but 2, or: only 1 3")
        return _applied(agent, preview, _ids(preview, numbers), "human")


def cancel(agent: "Agent", *, actor: str = "human", reason: str | None = None) -> Result:
    """End the open planning conversation; nothing is forgotten. Raises CommandError if none is open."""

    def decided(moment: Snapshot, at: Standing) -> Filter:
        past = passed(moment, at)  # the message that ended the planning stays, and so do later ones
        return _filter(moment, at) if past is None else decide.ended_before(moment, at, *past)

    return _cancelled(agent, decided, actor, reason)


def _cancelled(
    agent: "Agent", decision: Callable[[Snapshot, Standing], Filter], actor: str, reason: str | None = None
) -> Result:
    receipt = agent.operate(decision, actor=actor, reason=reason)
    return _result(receipt, "Cancelled. Nothing was forgotten; the planning conversation left the context.")


def applied(agent: "Agent", ids: Collection[int], *, actor: str) -> Receipt:
    """Record the filter of the open planning conversation for these ids of its preview. The planning conversation
    leaves with it."""

    def decided(moment: Snapshot, at: Standing) -> Filter:
        preview = _open(moment, at).preview
        assert preview is not None
        return _filter(moment, at, preview.mode, ids, preview.criteria)

    return agent.operate(decided, actor=actor)


def _applied(agent: "Agent", preview: RecordedPreview, ids: Sequence[int], actor: str) -> Result:
    receipt = applied(agent, ids, actor=actor)
    assert isinstance(receipt.operation, Filter)
    before, after = receipt.operation.before, receipt.operation.after
    about = f"“{_short(preview.criteria)}”"
    if preview.mode == "forget":
        text = f"Done. {count(before - after, 'message')} about {about} left the context."
    else:
        text = f"Done. Context reduced to {count(after, 'message')} containing {about}."
    return _result(receipt, text)


def _result(receipt: Receipt, text: str) -> Result:
    extra = {"widened": list(receipt.operation.widened)} if isinstance(receipt.operation, Filter) else {}
    return Result(text, receipt.event_id, extra, effect=receipt)


def _ids(preview: RecordedPreview, numbers: Sequence[int] | None) -> tuple[int, ...]:
    """Return the ids in these ranges, by default in all."""
    parts = preview.parts
    return preview.ids if numbers is None else tuple(id for number in numbers for id in parts[number - 1])


def _offered(moment: Snapshot, at: Standing, offer_id: int) -> RecordedPreview:
    """Return the preview with an offer's id. Raises CommandError if the offer is not open."""
    preview = offer(moment, at)
    if preview is not None and preview.event_id == offer_id:
        return preview
    if preview is not None:
        raise CommandError(f"offer {offer_id} is not open, but {preview.event_id} is: `/agree {preview.event_id}`")
    over = offered(moment, at) is not None or planning(moment, at) is not None
    why = ": it ended with the person's next message, or when the context changed" if over else ""
    raise CommandError(f"offer {offer_id} is not open{why}. `/forget CRITERIA` or `/remember CRITERIA` makes a new one")


def _open(moment: Snapshot, at: Standing) -> Planning:
    open_one = planning(moment, at)
    if open_one is None:
        if at.fold.leaving is not None and at.fold.closing is not None:
            raise CommandError(
                "the planning conversation has ended, and leaves the context at the end of this turn; "
                f"`/restore {at.fold.closing[0]}` takes its filter back"
            )
        raise CommandError("no planning conversation is open; /forget CRITERIA or /remember CRITERIA begins one")
    return open_one


def _filter(
    moment: Snapshot, at: Standing, mode: str = "forget", ids: Collection[int] = (), criteria: str | None = None
) -> Filter:
    """Return the filter that ends the open planning conversation and removes it from the context. Without ids, it
    removes nothing else."""
    last = None if at.record.open_turn is not None else at.newest  # up to now, or to the end of the open turn
    return decide.filter(moment, at, mode, ids, (_open(moment, at).first, last), criteria)


def _near(moment: Snapshot, at: Standing, part: Sequence[int]) -> Candidates:
    """Return the messages between the first and the last of a range that are still in the context."""
    return Candidates(moment, until(since(at.visible, min(part)), max(part)))


def _range(each: MatchRange) -> str:
    ids = f"{each.first}" if each.first == each.last else f"{each.first}-{each.last}"
    return f"Message {ids}: {each.title} ({count(each.count, 'message')}, ~{count(each.tokens, 'token')})"


def _short(criteria: str) -> str:
    return one_line(" ".join(criteria.split()))[:CRITERIA]
