"""Commands that change a context: mark, clear, rewind, fork, undo, drop, restore, summarize, pin [SPEC 3, 4]."""

from collections.abc import Callable
from shlex import quote

from foldmark.commands.operations import listed
from foldmark.commands.registry import ANYBODY, HUMAN, PREVIEW, Command, CommandCall
from foldmark.core.errors import CommandError
from foldmark.core.events import Clear, Drop, Fork, Mark, Operation, Restore, Rewind, Summary, Undo
from foldmark.core.ports import Snapshot
from foldmark.log import Agent, Result, family
from foldmark.operations import decide, summaries
from foldmark.operations.history import ids_named, summed_up, words
from foldmark.operations.receipts import Receipt
from foldmark.request.standing import Standing
from foldmark.sending.questions import compacted, summarized

Decision = Callable[[Snapshot, Standing], Operation]
"""Makes an operation from where an agent stands."""

GENERATIONS, AGENTS = 4, 100
"""Limits for models: the depth of forks, and the living agents of one conversation. A person may fork without limit."""


def _mark(call: CommandCall) -> Result:
    moved = False

    def decision(_: Snapshot, at: Standing) -> Mark:
        nonlocal moved
        mark = decide.mark(at, call.get("NAME"))
        moved = mark.name in at.fold.marks
        return mark

    receipt = _recorded(call, decision)
    assert isinstance(receipt.operation, Mark)
    name = receipt.operation.name
    return result(receipt, f"Checkpoint '{name}' {'moved' if moved else 'created'}.", mark=name)


def _clear(call: CommandCall) -> Result:
    if call.get("MARK") is not None:
        return _rewind(call)
    if call.flag(PREVIEW):
        return previewed(call, lambda *_: Clear())
    return result(_recorded(call, lambda *_: Clear()), "Context cleared.")


def _rewind(call: CommandCall) -> Result:
    def decision(moment: Snapshot, at: Standing) -> Rewind:
        return decide.rewind(moment, at, call.get("MARK"))

    if call.flag(PREVIEW):
        return previewed(call, decision)
    receipt = _recorded(call, decision)
    assert isinstance(receipt.operation, Rewind)
    nothing = "" if receipt.change.left.messages else " Nothing lay behind it."
    return result(receipt, f"Rewound to '{receipt.operation.mark}'.{nothing}", mark=receipt.operation.mark)


def _fork(call: CommandCall) -> Result:
    mark, child = call.get("MARK"), call.agent.log.new_id()
    if call.actor == "model":
        _check_room(call.agent)
    receipt = _recorded(call, lambda moment, at: decide.fork(moment, at, mark, child))
    assert isinstance(receipt.operation, Fork)
    origin = "" if mark is None else f" (from {mark})"
    waits = not call.agent.log.listeners  # no supervisor runs in this process
    until = f"\nIt waits until `foldmark chat {_typed(call.agent)}` or `supervise` is there to run it." if waits else ""
    return result(receipt, f"Forked. Child: {child[:8]}{origin}{until}", child=child, waits=waits)


def _typed(agent: Agent) -> str:
    """Return the name of the agent's conversation, quoted for the shell."""
    return quote(family.root(agent).name or agent.id[:8])


def _check_room(agent: Agent) -> None:
    """Raise CommandError if a model may not fork any more: models that fork in models that fork would have no end."""
    if len(list(family.ancestors(agent))) >= GENERATIONS:
        raise CommandError(f"agents fork down to generation {GENERATIONS}, which this is; do it yourself")
    with agent.log.store.read() as moment:
        there = family.tree(family.root(agent))
        living = sum(moment.end(place.agent.id) is None for place in there)
    if living >= AGENTS:
        raise CommandError(f"this conversation has {living} living agents, the most there are; `kill` ends one")


def _undo(call: CommandCall) -> Result:
    return _dropped(call, decide.undo)


def _drop(call: CommandCall) -> Result:
    wanted = call.numbers("GID")
    return _dropped(call, lambda moment, at: decide.drop(moment, at, wanted))


def _dropped(call: CommandCall, decision: Callable[[Snapshot, Standing], Drop | Undo]) -> Result:
    if call.flag(PREVIEW):
        return previewed(call, decision)
    receipt = _recorded(call, decision)
    operation = receipt.operation
    assert isinstance(operation, Drop | Undo)
    named = ids_named("turn", operation.turns)
    return result(
        receipt,
        f"{named[0].upper()}{named[1:]} left the context.",
        turn=operation.turn,
        turns=list(operation.turns),
        widened=list(operation.widened),
    )


def _restore(call: CommandCall) -> Result:
    if call.get("ID") is None:
        return listed(call)
    target = call.number("ID")

    def decision(moment: Snapshot, at: Standing) -> Restore:
        return decide.restore(moment, at, target, call.agent.past.is_back)

    if call.flag(PREVIEW):
        return previewed(call, decision)
    receipt = _recorded(call, decision)
    return result(receipt, f"Operation {target} taken back.", target=target)


def _summarize(call: CommandCall) -> Result:
    mark = call.get("MARK")

    def decision(moment: Snapshot, at: Standing) -> Summary:
        return summaries.summary(moment, at, mark)

    if call.flag(PREVIEW):
        return previewed(call, decision, "; the summary itself is not counted")
    # Messages that arrive while the model writes are not part of its input, and stay.
    with call.agent.reading() as (moment, at):
        decided = decision(moment, at)
    made = compacted(call.agent, decided)
    text = summarized(call.agent, decided.ranges) if made is None else made.text
    receipt = _recorded(call, lambda *_: decided if made is None else made.operation, content=text)
    told = f"A summary takes the place of {summed_up(decided)}:\n\n{text}\n"
    return result(receipt, told, mark=decided.mark, span=decided.span, summary=text, widened=list(decided.widened))


def _pin(call: CommandCall) -> Result:
    turn = call.number("GID")
    receipt = _recorded(call, lambda moment, at: decide.pin(moment, at, turn))
    return result(receipt, f"Turn {turn} is pinned: it stays in the request when the window passes it.", turn=turn)


def _unpin(call: CommandCall) -> Result:
    turn = call.number("GID")
    return result(_recorded(call, lambda _, at: decide.unpin(at, turn)), f"Turn {turn} is unpinned.", turn=turn)


def _recorded(call: CommandCall, decision: Decision, content: str = "") -> Receipt:
    return call.agent.operate(decision, actor=call.actor, content=content, reason=call.reason)


def previewed(call: CommandCall, decision: Decision, remark: str = "") -> Result:
    """Return a preview of the operation; nothing is recorded."""
    from foldmark.cost.requests import preview  # takes 20 ms, and only previews need it

    found = preview(call.agent, decision, call.actor)
    text = f"Preview: {words(found.outcome.operation)}. Nothing was changed{remark}."
    return Result("\n".join([text, *(f"  {line}" for line in found.lines())]), None, found.data())


def result(receipt: Receipt, text: str, **own: object) -> Result:
    """Return the answer to an operation: its receipt, and the operation's own text."""
    return Result(text, receipt.event_id, own, effect=receipt)


CONTEXT = (
    Command("mark", "[NAME]", "Set a checkpoint here; an existing NAME moves.", _mark, ANYBODY, reason=True),
    Command(
        "clear",
        "[MARK] [--preview]",
        "Empty the context, or rewind it to MARK.",
        _clear,
        ANYBODY,
        interrupts=True,
        reason=True,
    ),
    Command(
        "rewind",
        "[MARK] [--preview]",
        "Go back to MARK, by default the newest checkpoint.",
        _rewind,
        HUMAN,
        interrupts=True,
        reason=True,
    ),
    Command(
        "fork", "[MARK]", "Start a child with this context, or with what lies after MARK.", _fork, ANYBODY, reason=True
    ),
    Command(
        "undo", "[--preview]", "Take the newest turn out of the context.", _undo, HUMAN, interrupts=True, reason=True
    ),
    Command(
        "restore",
        "[ID] [--preview]",
        "Undo operation ID, as if it had never happened; without ID list the operations.",
        _restore,
        HUMAN,
        interrupts=True,
        reason=True,
        lists="ID",
    ),
    Command(
        "summarize",
        "[MARK] [--preview]",
        "Put a summary in place of what lies after MARK, or of FROM..TO (marks or ids).",
        _summarize,
        HUMAN,
        interrupts=True,
        reason=True,
    ),
    Command("pin", "GID", "Keep a turn in the request when the window passes it.", _pin, HUMAN, reason=True),
    Command("unpin", "GID", "Take a pin back.", _unpin, HUMAN, reason=True),
    Command(
        "context drop",
        "GID... [--preview]",
        "Take turns out of the context: ids and ranges, such as 12 14 20-33.",
        _drop,
        HUMAN,
        interrupts=True,
        reason=True,
    ),
)
