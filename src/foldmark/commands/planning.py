"""`/forget`, `/remember` and `/cancel`: the beginning and the end of a planning conversation [SPEC 4.2].

What lies between is the talk itself, and the model's tool `filter_context`.
"""

from functools import partial

from foldmark.commands.context import result
from foldmark.commands.registry import Call, Command
from foldmark.conversation import Result, decide
from foldmark.conversation.planning import opening, planning
from foldmark.core.errors import CommandError


def _plan(mode: str, call: Call) -> Result:
    agent, criteria = call.agent, call.arguments["CRITERIA"]
    with agent.batch():
        if (open_one := planning(agent.standing())) is not None:
            raise CommandError(
                f"a planning conversation is open since message {open_one.first} (/{open_one.mode} "
                f"{open_one.criteria[:40]}); agree to it, or /cancel first"
            )
        # A turn that a crash left open ends first, and with it a planning conversation that was just closed in it.
        agent.end_turn(interrupted=True)
        first = agent.append("user", f"/{mode} {criteria}", actor=call.actor)
        agent.record("command", f"/{mode} {criteria}", data=opening(first, mode, criteria), actor=call.actor)
    text = f"Planning what to {mode}. Nothing changes before you agree; /cancel ends it."
    return Result(text, None, {"planning": first, "mode": mode, "criteria": criteria, "answer": True})


def _cancel(call: Call) -> Result:
    at = call.agent.standing()
    open_one = planning(at)
    if open_one is None:
        raise CommandError("no planning conversation is open; /forget CRITERIA or /remember CRITERIA begins one")
    last = None if at.record.open_turn is not None else at.newest
    span = (open_one.first, last)
    receipt = call.agent.operate(lambda at: decide.filter(at, "forget", (), span, None), actor=call.actor)
    return result(receipt, "Cancelled. Nothing was forgotten; the planning conversation left the context.")


PLANNING = (
    Command(
        "forget",
        "CRITERIA...",
        "Plan with the model what to forget; you agree first.",
        partial(_plan, "forget"),
        interrupts=True,
    ),
    Command(
        "remember",
        "CRITERIA...",
        "Plan with the model what to keep; all else goes.",
        partial(_plan, "remember"),
        interrupts=True,
    ),
    Command(
        "cancel", "", "End the planning conversation; nothing is forgotten.", _cancel, interrupts=True, at_once=True
    ),
)
