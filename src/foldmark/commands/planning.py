"""`/forget`, `/remember`, `/agree` and `/cancel`: the beginning and the end of a planning conversation [SPEC 4.2].

Between them are the talk itself, and the model's tool `filter_context`.
"""

from functools import partial

from foldmark.commands.registry import Command, CommandCall
from foldmark.editing import offers
from foldmark.log import Result
from foldmark.operations.effects import StartPlanning
from foldmark.request.planning import opening, planning


def _plan(mode: str, call: CommandCall) -> Result:
    agent, criteria = call.agent, call.arguments["CRITERIA"]
    with agent.batch():
        # A turn that a crash left open ends first, and with it a planning conversation that was just closed in it.
        agent.end_turn(interrupted=True)
        with agent.reading() as (moment, at):
            goes_on = planning(moment, at) is not None
        if goes_on:
            offers.cancel(agent, actor=call.actor)
        first = agent.append("user", f"/{mode} {criteria}", actor=call.actor)
        agent.record("command", f"/{mode} {criteria}", data=opening(first, mode, criteria), actor=call.actor)
    text = f"Planning what to {mode}. Nothing changes before you agree; /cancel ends it."
    return Result(text, effect=StartPlanning(first, mode, criteria))


def _agree(call: CommandCall) -> Result:
    return offers.agree(call.agent, call.number("OFFER"), call.get("RANGES"))


def _cancel(call: CommandCall) -> Result:
    return offers.cancel(call.agent, actor=call.actor, reason=call.reason)


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
        "agree",
        "OFFER [RANGES...]",
        "Carry out an offer, or the ranges named (all but 2, only 1 3).",
        _agree,
        interrupts=True,
    ),
    Command(
        "cancel",
        "",
        "End the planning conversation; nothing is forgotten.",
        _cancel,
        interrupts=True,
        reason=True,
        at_once=True,
    ),
)
