"""Commands that change a context: checkpoints, operations, evictions and planning conversations [SPEC 3, 4, 5.7].

The planning conversation with the model, and its tool `filter_context`, come between `/forget` or `/remember` and
`/agree` or `/cancel`.
"""

import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from foldmark.commands.history import list_operations
from foldmark.commands.registry import ANYBODY, PREVIEW, CommandCall, command
from foldmark.commands.settings import take_back
from foldmark.core import selections
from foldmark.core.assembly.layers import WAITS, WAITS_FOR_MESSAGE
from foldmark.core.errors import CommandError
from foldmark.core.events import Clear, Drop, Fork, Mark, Operation, Rewind, Summary, Undo
from foldmark.core.ports import Snapshot
from foldmark.editing import answering, offers
from foldmark.editing.evicting import SentResult, evict, eviction, question, stale_results
from foldmark.editing.offer import Offer
from foldmark.editing.suggesting import Suggestion, carried_out, suggest
from foldmark.log import Agent, Result, family
from foldmark.log.listening import wait_for
from foldmark.log.live_session import check_not_compacted, client_session
from foldmark.operations import decide, places, summaries
from foldmark.operations.effects import StartPlanning
from foldmark.operations.history import ids_named, summed_up, words
from foldmark.operations.receipts import Receipt
from foldmark.request.layers import is_delegation
from foldmark.request.planning import opening, planning
from foldmark.request.standing import Standing, end_of
from foldmark.sending.questions import compacted, summarized

Decision = Callable[[Snapshot, Standing], Operation]
"""Makes an operation from an agent's standing."""

GENERATIONS, AGENTS = 4, 100
"""Limits for models: the depth of forks, and the living agents of one conversation. A person may fork without limit."""

SUPERSEDED = "--superseded"

PROMPT_SECONDS = 1.0
"""Maximum seconds that an offer waits for the end of a live session's turn."""

_OPTION = re.compile(r"--[A-Za-z][\w-]*(?:=.*)?")
"""A word that looks like an option."""


@command("mark [NAME]", ANYBODY, reason=True)
def _mark(call: CommandCall) -> Result:
    """Set a checkpoint here; an existing NAME moves."""
    moved = False

    def decision(_: Snapshot, at: Standing) -> Mark:
        nonlocal moved
        mark = decide.mark(at, call.get("NAME"))
        moved = mark.name in at.fold.marks
        return mark

    receipt = _record(call, decision)
    assert isinstance(receipt.operation, Mark)
    name = receipt.operation.name
    return operation_result(receipt, f"Checkpoint '{name}' {'moved' if moved else 'created'}.", mark=name)


@command("clear [MARK|GID] [--preview]", ANYBODY, interrupts=True, reason=True, place="MARK|GID")
def _clear(call: CommandCall) -> Result:
    """Empty the context, or rewind it to MARK or to before turn GID."""
    if call.get("MARK|GID") is not None:
        return _rewind.run(call)
    return _changed(call, lambda *_: Clear(), lambda receipt: operation_result(receipt, "Context cleared."))


@command("rewind [MARK|GID] [--preview]", interrupts=True, reason=True, place="MARK|GID")
def _rewind(call: CommandCall) -> Result:
    """Go back to MARK (by default the newest checkpoint), or to just before turn GID."""

    def said(receipt: Receipt) -> Result:
        done = receipt.operation
        assert isinstance(done, Rewind)
        if done.turn is not None:
            return operation_result(receipt, f"Rewound to the beginning of turn {done.turn}.", turn=done.turn)
        nothing = "" if receipt.change.left.messages else " Nothing came after it."
        return operation_result(receipt, f"Rewound to '{done.mark}'.{nothing}", mark=done.mark)

    def decision(moment: Snapshot, at: Standing) -> Rewind:
        rewind = places.rewind(moment, at, call.get("MARK|GID"))
        check_not_compacted(moment, at, rewind.position)
        return rewind

    return _changed(call, decision, said)


@command("fork [MARK|GID]", ANYBODY, reason=True)
def _fork(call: CommandCall) -> Result:
    """Make a child with this context, or with what follows MARK or turn GID begins."""
    place, child, log = call.get("MARK|GID"), call.agent.log.new_id(), call.agent.log
    typed, alone = call.actor == "human" and call.asking.in_chat, False
    if call.actor == "model":
        _check_room(call.agent)

    def decision(moment: Snapshot, at: Standing) -> Fork:
        nonlocal alone
        whole = places.fork(moment, at, place, child)
        fork = places.delegated(moment, at, whole) if typed and place is not None else whole
        alone = fork.start != whole.start and moment.size(fork.start) != moment.size(whole.start)
        return fork

    receipt = _record(call, decision)
    fork = receipt.operation
    assert isinstance(fork, Fork)
    with log.store.read() as moment:
        born = selections.event(moment, receipt.event_id)
        has_task = born is not None and is_delegation(moment, born)
    text = f"Forked. Child: {child[:8]}"
    if not fork.is_full:
        text += f" (from {fork.mark if fork.turn is None else fork.place})"
    if alone:
        text += "\nIt gets what you said there, without the answer."
    waits = not has_task or not log.listeners  # no supervisor runs in this process
    if waits:
        text += f"\nIt {_waits(call, child, has_task)}"
    return operation_result(receipt, text, child=child, waits=waits)


def _waits(call: CommandCall, child: str, has_task: bool) -> str:
    """Say what a child waits for, and how to give it that."""
    if has_task:
        return f"{WAITS}: a chat that is open now runs it; otherwise /run {child[:8]} does."
    if call.actor == "model":
        return f"{WAITS_FOR_MESSAGE}: send {child[:8]} MESSAGE."
    goes = f"/switch {child[:8]}" if call.asking.in_chat else f"`foldmark chat {child[:8]}`"
    return f"{WAITS_FOR_MESSAGE}: {goes} goes there."


def _check_room(agent: Agent) -> None:
    """Raise CommandError if a model may not fork any more. Without a limit, forks could fork endlessly."""
    if len(list(family.ancestors(agent))) >= GENERATIONS:
        raise CommandError(f"agents of generation {GENERATIONS} cannot fork; do it yourself")
    with agent.log.store.read() as moment:
        living = sum(end_of(moment, place.agent.id) is None for place in family.tree(family.root(agent)))
    if living >= AGENTS:
        raise CommandError(f"this conversation has {living} living agents, the maximum; `kill` ends one")


@command("undo [--preview]", interrupts=True, reason=True)
def _undo(call: CommandCall) -> Result:
    """Take the newest turn out of the context."""
    return _drop_turns(call, decide.undo)


@command("context drop GID... [--preview]", interrupts=True, reason=True)
def _drop(call: CommandCall) -> Result:
    """Take turns out of the context: ids and ranges, such as 12 14 20-33."""
    wanted = call.numbers("GID")
    return _drop_turns(call, lambda moment, at: decide.drop(moment, at, wanted))


def _drop_turns(call: CommandCall, decision: Callable[[Snapshot, Standing], Drop | Undo]) -> Result:
    def said(receipt: Receipt) -> Result:
        done = receipt.operation
        assert isinstance(done, Drop | Undo)
        named = ids_named("turn", done.turns)
        text = f"{named[0].upper()}{named[1:]} left the context."
        return operation_result(receipt, text, turn=done.turn, turns=list(done.turns), widened=list(done.widened))

    return _changed(call, decision, said)


@command("restore [ID] [--preview]", interrupts=True, reason=True, lists="ID")
def _restore(call: CommandCall) -> Result:
    """Undo operation ID, as if it had never happened; without ID list the operations."""
    if call.get("ID") is None:
        return list_operations.run(call)
    target = call.number("ID")
    if (done := take_back(call, target)) is not None:
        return done
    return _changed(
        call,
        lambda moment, at: decide.restore(moment, at, target, call.agent.past.is_back),
        lambda receipt: operation_result(receipt, f"Operation {target} taken back.", target=target),
    )


@command("summarize [MARK] [--preview]", interrupts=True, reason=True)
def _summarize(call: CommandCall) -> Result:
    """Replace the messages after MARK, or FROM..TO (marks or ids), with a summary."""

    def decision(moment: Snapshot, at: Standing) -> Summary:
        return summaries.summary(moment, at, call.get("MARK"))

    if call.flag(PREVIEW):
        return preview_of(call, decision, "; the summary itself is not counted")
    # Messages that arrive while the model writes are not part of its input, so they stay.
    with call.agent.reading() as (moment, at):
        decided = decision(moment, at)
    made = compacted(call.agent, decided)
    text = summarized(call.agent, decided.ranges) if made is None else made.text
    receipt = _record(call, lambda *_: decided if made is None else made.operation, content=text)
    return operation_result(
        receipt,
        f"A summary replaces {summed_up(decided)}:\n\n{text}\n",
        mark=decided.mark,
        span=decided.span,
        summary=text,
        widened=list(decided.widened),
    )


@command("pin GID", reason=True)
def _pin(call: CommandCall) -> Result:
    """Keep a turn in the request when the window passes it."""
    turn = call.number("GID")
    receipt = _record(call, lambda moment, at: decide.pin(moment, at, turn))
    text = f"Turn {turn} is pinned: it stays in the request when the window passes it."
    return operation_result(receipt, text, turn=turn)


@command("unpin GID", reason=True)
def _unpin(call: CommandCall) -> Result:
    """Remove a pin."""
    turn = call.number("GID")
    receipt = _record(call, lambda _, at: decide.unpin(at, turn))
    return operation_result(receipt, f"Turn {turn} is unpinned.", turn=turn)


def _changed(call: CommandCall, decision: Decision, said: Callable[[Receipt], Result]) -> Result:
    """Preview the operation if the call has the flag. Otherwise, record it and return the result that `said` makes from
    the receipt."""
    return preview_of(call, decision) if call.flag(PREVIEW) else said(_record(call, decision))


def _record(call: CommandCall, decision: Decision, content: str = "") -> Receipt:
    return call.agent.operate(decision, actor=call.actor, content=content, reason=call.reason)


def preview_of(call: CommandCall, decision: Decision, remark: str = "") -> Result:
    """Return the preview of an operation, as text and JSON."""
    from foldmark.cost.requests import preview  # takes 20 ms, and only previews need it

    found = preview(call.agent, decision, call.actor)
    text = f"Preview: {words(found.outcome.operation)}. Nothing was changed{remark}."
    return Result("\n".join([text, *(f"  {line}" for line in found.lines())]), None, found.data())


def operation_result(receipt: Receipt, text: str, **own: object) -> Result:
    """Return the result of an operation: its receipt, and the operation's own text and JSON."""
    return Result(text, receipt.event_id, own, effect=receipt)


@command("context evict [ID...] [--superseded] [--preview] [--yes]", interrupts=True, reason=True)
def _evict(call: CommandCall) -> Result:
    """Send a placeholder instead of tool results: ids and ranges, or the stale ones."""
    ids, stale = call.get("ID"), call.flag(SUPERSEDED)
    if (ids is None) is not stale:
        raise CommandError(
            f"/context evict takes the ids of tool results, or {SUPERSEDED} for those that a later read or write of "
            "the same file has made stale; `/context show` shows ids"
        )
    if ids is not None:
        return _evict_results(call, call.numbers("ID"), [])
    offered = stale_results(call.agent)
    if not offered:
        text = "No tool result of the next request is stale: no later call has read or written the same file."
        return Result(text, None, {"superseded": []})
    if not call.flag(PREVIEW):
        asked = question(offered)
        if call.asking.confirm is None and not call.flag("--yes"):
            text = f"{asked} Nothing was changed; repeat with --yes to do it, or name some of them by their ids."
            return Result(text, None, {"superseded": [each.data() for each in offered]})
        call.confirm(asked)
    return _evict_results(call, [each.result.id for each in offered], offered)


def _evict_results(call: CommandCall, ids: Sequence[int | tuple[int, int]], offered: list[SentResult]) -> Result:
    if call.flag(PREVIEW):
        found = preview_of(call, lambda moment, at: eviction(moment, at, ids))
        done = replace(found, text="\n".join([found.text, *(f"  {each.line()}" for each in offered)]))
    else:
        done = evict(call.agent, ids, actor=call.actor, reason=call.reason)
    return replace(done, own={**done.own, "superseded": [each.data() for each in offered]}) if offered else done


@command("suggest [--yes]")
def _suggest(call: CommandCall) -> Result:
    """Offer to take out tool results that later calls superseded."""
    done = suggest(call.agent, call.asking, actor=call.actor)
    return (
        carried_out(call.agent, done.effect, None)
        if call.flag("--yes") and isinstance(done.effect, Suggestion)
        else done
    )


def _wait_for_prompt(agent: Agent, mode: str) -> None:
    """Wait briefly until the agent of a live session waits for a prompt: an offer would not have what the agent still
    says in its open turn. Raises CommandError if the agent is still at work."""
    if client_session(agent) is None:
        return
    if not wait_for(agent.log.store, lambda: agent.open_turn is None, PROMPT_SECONDS):
        raise CommandError(
            "the agent of this session is at work; repeat this when it waits for a prompt, or type "
            f"{agent.log.given.live_sign}{mode} in it"
        )
    agent.context()


def _plan(mode: str, call: CommandCall) -> Result:
    """Begin a planning conversation in a chat, where a model answers; offer at once anywhere else."""
    agent, criteria = call.agent, _criteria(mode, call)
    _wait_for_prompt(agent, mode)
    in_chat = call.asking.in_chat and client_session(agent) is None
    if in_chat and not call.flag("--yes") and not call.flag(PREVIEW):
        return _converse(mode, call, criteria)
    done = offers.offer_alone(agent, mode, criteria, call.asking, actor=call.actor)
    if call.flag("--yes") and not call.flag(PREVIEW) and isinstance(done.effect, Offer):
        return offers.agree(agent, done.effect.id)
    return done


def _criteria(mode: str, call: CommandCall) -> str:
    """Return the criteria. Raises CommandError if they begin or end with an unknown option."""
    criteria = call.arguments["CRITERIA"]
    words = criteria.split()
    for word in (words[0], words[-1]):
        if _OPTION.fullmatch(word):
            raise CommandError(
                f"/{mode} has no option '{word[:40]}', only {PREVIEW} and --yes; as a part of CRITERIA, put it in "
                f'quotes: "{word[:40]}"'
            )
    return criteria


def _converse(mode: str, call: CommandCall, criteria: str) -> Result:
    agent = call.agent
    with agent.batch():
        # First end a turn that a crash left open, and with it a planning conversation that was just closed in it.
        agent.end_turn(interrupted=True)
        with agent.reading() as (moment, at):
            is_planning = planning(moment, at) is not None
        if is_planning:
            offers.cancel(agent, actor=call.actor)
        first = agent.append("user", f"/{mode} {criteria}", actor=call.actor)
        agent.record("command", f"/{mode} {criteria}", data=opening(first, mode, criteria), actor=call.actor)
    text = f"Planning what to {mode}. Nothing changes before you agree; /cancel ends it."
    return Result(text, effect=StartPlanning(first, mode, criteria))


@command("forget CRITERIA... [--preview] [--yes]", interrupts=True)
def _forget(call: CommandCall) -> Result:
    """Forget messages about CRITERIA, after you confirm a preview."""
    return _plan("forget", call)


@command("remember CRITERIA... [--preview] [--yes]", interrupts=True)
def _remember(call: CommandCall) -> Result:
    """Keep only messages about CRITERIA, after you confirm a preview."""
    return _plan("remember", call)


@command("agree OFFER [RANGES...]", interrupts=True)
def _agree(call: CommandCall) -> Result:
    """Carry out an offer, or what is named of it (all but 2, except message 45)."""
    return answering.agree(call.agent, call.number("OFFER"), call.get("RANGES"))


@command("cancel", interrupts=True, reason=True, at_once=True)
def _cancel(call: CommandCall) -> Result:
    """End the planning conversation, or the open offer; nothing is forgotten."""
    return offers.cancel(call.agent, actor=call.actor, reason=call.reason)


CONTEXT = (_mark, _clear, _rewind, _fork, _undo, _restore, _summarize, _pin, _unpin, _drop, _evict, _suggest)
PLANNING = (_forget, _remember, _agree, _cancel)
