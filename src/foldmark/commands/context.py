"""What changes a context: mark, clear, rewind, fork, undo, drop, restore, summarize, pin [SPEC 3, 4]."""

from shlex import quote

from foldmark.commands.registry import ANYBODY, HUMAN, Call, Command
from foldmark.conversation import Agent, Result, decide, tree
from foldmark.conversation.agent import Receipt
from foldmark.conversation.asking_model import summarized
from foldmark.core.errors import CommandError
from foldmark.core.events import Clear, Drop, Fork, Mark, Rewind, Undo

GENERATIONS, AGENTS = 4, 100
"""How deep models fork, and up to how many living agents of one conversation. A person may fork as often as wanted."""


def _mark(call: Call) -> Result:
    receipt = call.agent.operate(lambda at: decide.mark(at, call.get("NAME")), actor=call.actor)
    assert isinstance(receipt.operation, Mark)
    name = receipt.operation.name
    return result(receipt, f"Checkpoint '{name}' {'moved' if name in receipt.at.fold.marks else 'created'}.", mark=name)


def _clear(call: Call) -> Result:
    if call.get("MARK") is not None:
        return _rewind(call)
    return result(call.agent.operate(lambda _: Clear(), actor=call.actor), "Context cleared.")


def _rewind(call: Call) -> Result:
    receipt = call.agent.operate(lambda at: decide.rewind(at, call.get("MARK")), actor=call.actor)
    assert isinstance(receipt.operation, Rewind)
    nothing = "" if receipt.change.left.messages else " Nothing lay behind it."
    return result(receipt, f"Rewound to '{receipt.operation.mark}'.{nothing}", mark=receipt.operation.mark)


def _fork(call: Call) -> Result:
    mark, child = call.get("MARK"), call.agent.log.new_id()
    if call.actor == "model":
        _check_room(call.agent)
    receipt = call.agent.operate(lambda at: decide.fork(at, mark, child), actor=call.actor)
    assert isinstance(receipt.operation, Fork)
    origin = "" if mark is None else f" (from {mark})"
    waits = not call.agent.log.listeners  # nobody runs agents in this process
    until = f"\nIt waits until `foldmark chat {_typed(call.agent)}` or `supervise` is there to run it." if waits else ""
    return result(receipt, f"Forked. Child: {child[:8]}{origin}{until}", child=child, waits=waits)


def _typed(agent: Agent) -> str:
    """The name of the agent's conversation as a shell takes it."""
    return quote(tree.root(agent).name or agent.id[:8])


def _check_room(agent: Agent) -> None:
    """Models that fork in models that fork would have no end. Raises CommandError."""
    if len(list(tree.ancestors(agent))) >= GENERATIONS:
        raise CommandError(f"agents fork down to generation {GENERATIONS}, which this is; do it yourself")
    family = tree.family(tree.root(agent))
    living = sum(agent.log.store.end(place.agent.id) is None for place in family)
    if living >= AGENTS:
        raise CommandError(f"this conversation has {living} living agents, the most there are; `kill` ends one")


def _undo(call: Call) -> Result:
    return _dropped(call.agent.operate(decide.undo, actor=call.actor))


def _drop(call: Call) -> Result:
    turn = call.number("GID")
    return _dropped(call.agent.operate(lambda at: decide.drop(at, turn), actor=call.actor))


def _dropped(receipt: Receipt) -> Result:
    operation = receipt.operation
    assert isinstance(operation, Drop | Undo)
    return result(
        receipt, f"Turn {operation.turn} left the context.", turn=operation.turn, widened=list(operation.widened)
    )


def _restore(call: Call) -> Result:
    target = call.number("ID")
    receipt = call.agent.operate(lambda at: decide.restore(at, target), actor=call.actor)
    return result(receipt, f"Operation {target} taken back.", target=target)


def _summarize(call: Call) -> Result:
    mark = call.get("MARK")
    # What comes while the model writes is not what it was shown, and stays.
    decided = decide.summary(call.agent.standing(), mark)
    text = summarized(call.agent, decided.ranges)
    receipt = call.agent.operate(lambda _: decided, actor=call.actor, content=text)
    after = "" if mark is None else f" after '{mark}'"
    return result(receipt, f"A summary takes the place of what stood{after}:\n\n{text}\n", mark=mark, summary=text)


def _pin(call: Call) -> Result:
    turn = call.number("GID")
    receipt = call.agent.operate(lambda at: decide.pin(at, turn), actor=call.actor)
    return result(receipt, f"Turn {turn} is pinned: it stays in the request when the window passes it.", turn=turn)


def _unpin(call: Call) -> Result:
    turn = call.number("GID")
    return result(
        call.agent.operate(lambda at: decide.unpin(at, turn), actor=call.actor), f"Turn {turn} is unpinned.", turn=turn
    )


def result(receipt: Receipt, text: str, **own: object) -> Result:
    """The answer to an operation: what the receipt says, and what is the operation's own."""
    return Result(text, receipt.event_id, {**receipt.data(), **own})


CONTEXT = (
    Command("mark", "[NAME]", "Set a checkpoint here; an existing NAME moves.", _mark, ANYBODY),
    Command("clear", "[MARK]", "Empty the context, or rewind it to MARK.", _clear, ANYBODY, interrupts=True),
    Command("rewind", "[MARK]", "Go back to MARK, by default the newest checkpoint.", _rewind, HUMAN, interrupts=True),
    Command("fork", "[MARK]", "Start a child with this context, or with what lies after MARK.", _fork, ANYBODY),
    Command("undo", "", "Take the newest turn out of the context.", _undo, HUMAN, interrupts=True),
    Command(
        "restore",
        "ID",
        "Take back operation ID: the context is as if it had never been.",
        _restore,
        HUMAN,
        interrupts=True,
    ),
    Command(
        "summarize",
        "[MARK]",
        "Put the model's summary in place of what lies after MARK.",
        _summarize,
        HUMAN,
        interrupts=True,
    ),
    Command("pin", "GID", "Keep a turn in the request when the window passes it.", _pin, HUMAN),
    Command("unpin", "GID", "Take a pin back.", _unpin, HUMAN),
    Command("context drop", "GID", "Take one turn out of the context.", _drop, HUMAN, interrupts=True),
)
