"""Offers to forget or to keep messages, and the answers to them [SPEC 4.2].

All agreement to filters is handled here, for the chat, `foldmark do`, the runtime and the MCP server. A person's `yes`,
`no`, `all but 2` and `only 1 3` are carried out without a model; `foldmark.text.consent` has the grammar.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.agents import Size
from foldmark.core.errors import CommandError, FoldmarkError, ProviderError
from foldmark.core.events import Filter
from foldmark.core.ports import Snapshot
from foldmark.core.segments import Segments, contains, intersect, since, subtract, until
from foldmark.core.wording import count, one_line
from foldmark.editing.matching import Candidates, matched
from foldmark.editing.offer import Offer, short
from foldmark.operations import decide
from foldmark.operations.effects import NOBODY, Asking, Result
from foldmark.operations.receipts import Receipt
from foldmark.request.exchanges import closure
from foldmark.request.planning import (
    Planning,
    RecordedPreview,
    offer,
    offered,
    passed,
    planning,
    previewed,
    replies,
    talk,
)
from foldmark.request.standing import Standing, showing
from foldmark.text.choosing import Choice, chosen
from foldmark.text.consent import Answer, Doubt, Look, No, Refinement, Yes, is_look, read
from foldmark.text.selection import Candidate, MatchRange

if TYPE_CHECKING:
    from foldmark.cost.messages import NextMessages
    from foldmark.cost.requests import Preview
    from foldmark.log.log import Agent

FILTER = "filter_context"
"""The model's tool for previews."""

ENDED = "Planning has ended; nothing was forgotten."
"""The reply to a message that ended a planning conversation."""


def question(moment: Snapshot, at: Standing) -> str:
    """Return the open offer in a few words, for a prompt; empty without an offer. Reads no message."""
    preview = offer(moment, at)
    return "" if preview is None else f"{preview.mode} {count(len(preview.ids), 'message')}?"


def open_offer(agent: "Agent", moment: Snapshot, at: Standing) -> Offer | None:
    """Return the open offer; None if there is none."""
    from foldmark.cost.messages import next_messages  # imports agents

    preview = offer(moment, at)
    return None if preview is None else described(moment, at, preview, next_messages(agent, moment, at))


def standing_offer(agent: "Agent") -> Result:
    """Return the offer to show at the end of a turn of a planning conversation, regardless of the model's answer."""
    with agent.reading() as (moment, at):
        found, open_one = open_offer(agent, moment, at), _open(moment, at)
    if found is not None:
        return _priced(agent, found)
    if open_one.preview is not None and not open_one.preview.ids:
        return Result(nothing(open_one.preview.criteria))
    return Result("Nothing was forgotten: the model has previewed nothing. Say what to look for, or go on.")


def _priced(agent: "Agent", found: Offer, *, answers: bool = True) -> Result:
    """Return an offer with the cost of carrying it out; `answers` as in `Asking`."""
    cost = price(agent, found)
    with agent.reading() as (moment, at):
        preview = offered(moment, at)
    planned = preview is not None and not (preview.words or preview.alone)
    model = planned and any(tool.name == FILTER for tool in agent.tools())
    text = found.shown(cost.price(), model=model, answers=answers)
    return Result(text, None, {"next": cost.next.data()}, effect=found)


def price(agent: "Agent", found: Offer) -> "Preview":
    """Preview the open offer, compared with the answer no, which also removes the planning conversation."""
    from foldmark.cost.requests import preview as priced  # imports agents

    with agent.reading() as (moment, at):
        is_alone = _is_alone(moment, at)
    return priced(
        agent,
        lambda moment, at: _filter(moment, at, found.mode, found.ids, found.criteria),
        instead=None if is_alone else _filter,
    )


def described(
    moment: Snapshot,
    at: Standing,
    preview: RecordedPreview,
    coming: "NextMessages",
    ids: Collection[int] | None = None,
) -> Offer:
    """Return the offer for a preview, or for only these of its ids; `coming` are the messages toward the next
    request."""
    wanted = preview.ids if ids is None else tuple(id for id in preview.ids if id in ids)
    kept = frozenset(wanted)
    parts = [
        (near, near.among(kept.intersection(part))) for part in preview.parts for near in [_near(moment, at, part)]
    ]
    found = [row for _, rows in parts for row in rows]
    said = list(moment.select(intersect(at.visible, talk(moment, at))))
    inside = {message.id for message in said}
    closed = closure(moment, at, list(moment.lookup(event.id for event in found)))
    along = [m.id for m in closed if m.id not in inside and contains(at.visible, m.agent_id, m.id)]

    def size(segments: Segments) -> Size:
        return coming.of(showing(moment, at, segments))

    tokens = list(map(coming.tokens, moment.events(along)))
    now = subtract(at.visible, talk(moment, at))
    gone = _filter(moment, at, preview.mode, wanted, preview.criteria)
    return Offer(
        preview.event_id,
        preview.mode,
        preview.criteria,
        tuple(event.id for event in found),
        tuple(
            coming.in_range(rows, each)
            for near, rows in parts
            for each in near.ranges(moment, [row.id for row in rows])
        ),
        Size(len(found), coming.total(found)),
        tuple(along),
        sum(tokens),
        size(now),
        size(subtract(now, gone.ranges)),
    )


# Previews


class FilterMatches(Struct, frozen=True):
    """The messages that a preview searched, and the matches with their ranges; `offer` is the id of its event."""

    offer: int
    candidates: Candidates
    matches: Sequence[Candidate]
    ranges: Sequence[MatchRange]


def look(agent: "Agent", criteria: str | None, asking: Asking, *, actor: str, local: bool = False) -> FilterMatches:
    """Find the messages that match these criteria, by default those of the open planning conversation or of the offer
    alone, and record the preview. The context does not change.

    The agent's model decides which messages match; with `local`, their words do. Raises CommandError if no planning
    conversation is open, and the errors of `matched`.
    """
    with agent.reading() as (moment, at):
        alone = offered(moment, at) if _is_alone(moment, at) else None
        open_one = None if alone is not None else _open(moment, at)
    of = alone or open_one
    assert of is not None
    return _looked(agent, open_one, of.mode, criteria or of.criteria, asking, actor=actor, local=local)


def _looked(
    agent: "Agent",
    open_one: Planning | None,
    mode: str,
    criteria: str,
    asking: Asking,
    *,
    actor: str = "human",
    local: bool = False,
) -> FilterMatches:
    """Find the messages that match, and record the preview; without a planning conversation, an offer alone."""
    with agent.reading() as (moment, at):
        candidates = Candidates(moment, subtract(at.visible, talk(moment, at)))
    ids = matched(agent, criteria, mode, candidates, asking.progress, local=local)
    wanted = frozenset(ids)
    with agent.log.store.read() as moment:
        parts = candidates.ranges(moment, ids)
    data = previewed(open_one, mode, criteria, ids, [part.count for part in parts], words=local)
    offer_id = agent.record("command", "preview", data=data, actor=actor)
    return FilterMatches(offer_id, candidates, candidates.among(wanted), parts)


def _by_model_or_words(look: Callable[[bool], FilterMatches]) -> tuple[FilterMatches, str]:
    """Return what `look` finds with the agent's model, or with the words of the messages if it cannot be asked, and why
    words decided."""
    try:
        return look(False), ""
    except ProviderError as error:
        return look(True), one_line(str(error))


def offer_alone(agent: "Agent", mode: str, criteria: str, asking: Asking = NOBODY, *, actor: str = "human") -> Result:
    """Offer to forget or to keep the messages that match, without a planning conversation: nothing but the offer is
    recorded. It takes the place of any open offer.

    The agent's model decides which messages match. If it cannot be asked, their words decide, and the result says so.
    """
    end_planning(agent)
    found, why = _by_model_or_words(
        lambda local: _looked(agent, None, mode, criteria, asking, actor=actor, local=local)
    )
    told = [f"(matched by words: {why})"] if why else []
    data = {"mode": mode, "criteria": criteria, "matched_locally": bool(why)}
    if not found.matches:
        return Result("\n".join([nothing(criteria), *told]), None, {**data, "offer": None})
    with agent.reading() as (moment, at):
        offered_now = open_offer(agent, moment, at)
    assert offered_now is not None
    priced = _priced(agent, offered_now, answers=asking.answers)
    return replace(priced, text="\n".join([priced.text, *told]), own={**data, **priced.own})


def previewed_by(agent: "Agent", asking: Asking, why_words: str) -> Result:
    """Preview the open planning conversation by the words of the messages, for the reason `why_words`, and end the
    turn. If nothing matches or an error is raised, the planning conversation ends."""
    with agent.reading() as (moment, at):
        open_one = _open(moment, at)
    told = f"(matched by words: {why_words})"
    try:
        found = look(agent, None, asking, actor="human", local=True)
    except (FoldmarkError, KeyboardInterrupt):
        _give_up(agent)
        raise
    data = {"planning": open_one.first, "mode": open_one.mode, "criteria": open_one.criteria}
    if not found.matches:
        _give_up(agent)
        return Result("\n".join([nothing(open_one.criteria), told]), None, {**data, "offer": None})
    with agent.batch() as moment:
        offered_now = open_offer(agent, moment, agent.standing_in(moment))
        assert offered_now is not None
        # The model sees it if the conversation continues in a chat.
        agent.append("user", f"[Foldmark: this is what was offered.]\n{offered_now.shown(())}", actor="system")
        agent.end_turn()
    priced = _priced(agent, offered_now)
    text = "\n".join([priced.text, told])
    return replace(priced, text=text, own={**data, **priced.own, "matched_locally": True})


def nothing(criteria: str) -> str:
    """Return the message that nothing matches."""
    return f"Nothing matches “{short(criteria)}”, and nothing has changed. Try other words."


def _give_up(agent: "Agent") -> None:
    with agent.batch():
        cancel(agent)
        agent.end_turn()


# Answers


def answered(agent: "Agent", text: str, *, model: bool = False) -> Result | None:
    """Carry out a person's answer to the open offer; in a planning conversation, record it as a separate turn.
    `foldmark.text.consent.ANSWERS` is the grammar.

    A doubtful answer and a question about the offer apply nothing and keep it open: Foldmark asks "yes or no?" once, or
    shows the offer again. With `model`, a model with the tool for previews reads questions and other criteria. For any
    other text, or without an open offer, record nothing and return None.

    Raises CommandError for lines or messages that were not offered.
    """
    with agent.reading() as (moment, at):
        preview = offer(moment, at)
        if preview is None:
            return None
        answer = read(text, preview.mode)
        if isinstance(answer, Yes) and not {*answer.counts} <= {len(preview.ids), len(preview.parts)}:
            answer = Doubt()
        ids = _chosen(moment, at, preview, answer) if isinstance(answer, Choice) else preview.ids
    in_doubt, model = isinstance(answer, Doubt | Refinement), model and not (preview.words or preview.alone)
    if answer is None or (model and isinstance(answer, Look | Refinement)) or (in_doubt and preview.asked):
        return None
    if preview.alone:
        return _answered_alone(agent, preview, answer, ids)
    with agent.batch():
        agent.end_turn(interrupted=True)
        agent.append("user", text)
        if isinstance(answer, No):
            done = _cancelled(agent, _filter, "human")
        elif isinstance(answer, Yes | Choice):
            done = _applied(agent, preview, ids, "human")
        else:
            done = _offered_again(agent, preview, in_doubt=in_doubt)
        agent.end_turn()
    return _priced(agent, done.effect) if isinstance(answer, Look) and isinstance(done.effect, Offer) else done


def _answered_alone(agent: "Agent", preview: RecordedPreview, answer: Answer, ids: Sequence[int]) -> Result:
    """Carry out an answer to an offer alone. The answer itself is not recorded, so the offer stays open."""
    if isinstance(answer, Yes | Choice):
        return _applied(agent, preview, ids, "human")
    if isinstance(answer, No):
        return cancel(agent)
    if not isinstance(answer, Look):
        with agent.batch() as moment:
            _record_again(agent, moment, agent.standing_in(moment), preview, asked=True)
    with agent.reading() as (moment, at):
        found = open_offer(agent, moment, at)
    assert found is not None
    return _priced(agent, found) if isinstance(answer, Look) else Result(found.asked())


def reopen(agent: "Agent") -> None:
    """Record the offer again if a question about it was its only reply: it stays open."""
    with agent.batch() as moment:
        at = agent.standing_in(moment)
        open_one, preview = planning(moment, at), offered(moment, at)
        said = replies(moment, at, open_one.since) if open_one is not None else []
        if preview is not None and len(said) == 1 and is_look(said[0].content):
            _record_again(agent, moment, at, preview, asked=preview.asked)


def consented(agent: "Agent") -> bool:
    """Record that the person has said yes to the open offer, which a model is about to apply. Return False if there is
    no offer alone, so that a message has to say it."""
    with agent.batch() as moment:
        at = agent.standing_in(moment)
        preview = offer(moment, at)
        if preview is None or not preview.alone:
            return False
        _record_again(agent, moment, at, preview, asked=preview.asked, agreed=True)
        return True


def _record_again(
    agent: "Agent", moment: Snapshot, at: Standing, preview: RecordedPreview, *, asked: bool, agreed: bool = False
) -> None:
    runs = [len(part) for part in preview.parts]
    talk = None if preview.alone else _open(moment, at)
    data = previewed(
        talk, preview.mode, preview.criteria, preview.ids, runs, asked=asked, words=preview.words, agreed=agreed
    )
    agent.record("command", "preview", data=data, actor="system")


def _offered_again(agent: "Agent", preview: RecordedPreview, *, in_doubt: bool) -> Result:
    """Record the offer again behind the person's message. Return it, or the question after an answer in doubt."""
    with agent.batch() as moment:
        _record_again(agent, moment, agent.standing_in(moment), preview, asked=preview.asked or in_doubt)
        found = open_offer(agent, moment, agent.standing_in(moment))
        assert found is not None
        text = found.asked() if in_doubt else found.shown(())
        agent.append("user", f"[Foldmark: this is the answer to the person.]\n{text}", actor="system")
    return Result(text, effect=None if in_doubt else found)  # the full screen shows an offer, and not its text


def agree(agent: "Agent", offer_id: int, choice: str | None = None) -> Result:
    """Carry out the offer with this id, or only the ranges that `choice` names ("all but 2").

    Raises CommandError if the offer is not open or the choice is invalid.
    """
    with agent.batch() as moment:
        at = agent.standing_in(moment)
        preview = _offered(moment, at, offer_id)
        answer = Yes() if choice is None else read(choice, preview.mode, len(choice))
        if choice is not None and not isinstance(answer, Choice) and answer != Yes():
            raise CommandError(f"'{one_line(choice[:40])}' names no ranges; write them as in: all but 2, or: only 1 3")
        ids = _chosen(moment, at, preview, answer) if isinstance(answer, Choice) else preview.ids
        if not preview.alone:
            agent.end_turn(interrupted=True)
        return _applied(agent, preview, ids, "human")


def end_planning(agent: "Agent") -> None:
    """End the open planning conversation, if there is one: another program goes on, and its model is not given the
    messages of one."""
    if "command" not in agent.standing().newest_of:
        return
    with agent.reading() as (moment, at):
        is_planning, is_closing = planning(moment, at) is not None, at.fold.leaving is not None
    if is_planning or is_closing:
        with agent.batch():
            agent.end_turn(interrupted=True)
            with agent.reading() as (moment, at):
                is_planning = planning(moment, at) is not None
            if is_planning:
                cancel(agent, actor="system")


def cancel(agent: "Agent", *, actor: str = "human", reason: str | None = None) -> Result:
    """End the open planning conversation, or the offer alone; nothing is forgotten. Raises CommandError if none is
    open."""
    with agent.reading() as (moment, at):
        alone = offered(moment, at) if _is_alone(moment, at) else None
    if alone is not None:
        agent.record("command", "preview", data=previewed(None, alone.mode, alone.criteria, (), ()), actor=actor)
        return Result("Cancelled. Nothing was forgotten.")

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
    """Record the filter for these ids of the preview that is offered. The planning conversation leaves with it."""

    def decided(moment: Snapshot, at: Standing) -> Filter:
        preview = offered(moment, at)
        assert preview is not None
        return _filter(moment, at, preview.mode, ids, preview.criteria)

    return agent.operate(decided, actor=actor)


def _applied(agent: "Agent", preview: RecordedPreview, ids: Sequence[int], actor: str) -> Result:
    receipt = applied(agent, ids, actor=actor)
    assert isinstance(receipt.operation, Filter)
    before, after = receipt.operation.before, receipt.operation.after
    about = f"“{short(preview.criteria)}”"
    if preview.mode == "forget":
        text = f"Done. {count(before - after, 'message')} about {about} left the context."
    else:
        text = f"Done. Context reduced to {count(after, 'message')} containing {about}."
    return _result(receipt, text)


def _result(receipt: Receipt, text: str) -> Result:
    extra = {"widened": list(receipt.operation.widened)} if isinstance(receipt.operation, Filter) else {}
    return Result(text, receipt.event_id, extra, effect=receipt)


def _chosen(moment: Snapshot, at: Standing, preview: RecordedPreview, choice: Choice) -> tuple[int, ...]:
    """Return the ids that a choice takes of an offer. A message that it leaves out stays out, and with it the others of
    its exchange."""
    named = chosen(choice, preview.parts)
    if not choice.kept and any(each.unit != "line" for each in choice.named):
        named |= {message.id for message in closure(moment, at, list(moment.lookup(named)))}
    found = tuple(id for id in preview.ids if (id in named) is choice.kept)
    if not found:
        raise CommandError("that leaves no range; answer no to change nothing. The offer is still open")
    return found


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


def _is_alone(moment: Snapshot, at: Standing) -> bool:
    """Return True if a person can agree to an offer without a planning conversation."""
    preview = offered(moment, at)
    return preview is not None and preview.alone


def _filter(
    moment: Snapshot, at: Standing, mode: str = "forget", ids: Collection[int] = (), criteria: str | None = None
) -> Filter:
    """Return the filter that ends the open planning conversation and removes it from the context. Without ids, it
    removes nothing else. The filter of an offer alone removes no conversation."""
    if _is_alone(moment, at):
        return decide.filter(moment, at, mode, ids, None, criteria)
    last = None if at.record.open_turn is not None else at.newest  # up to now, or to the end of the open turn
    return decide.filter(moment, at, mode, ids, (_open(moment, at).first, last), criteria)


def _near(moment: Snapshot, at: Standing, part: Sequence[int]) -> Candidates:
    """Return the messages between the first and the last of a range that are still in the context."""
    return Candidates(moment, until(since(at.visible, min(part)), max(part)))
