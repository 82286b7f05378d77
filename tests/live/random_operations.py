"""Random operations on the agent of a live session."""

import random
from collections.abc import Container
from contextlib import suppress

from answering import answered_by
from foldmark.core.errors import CommandError
from foldmark.log import Agent


def operate(agent: Agent, chance: random.Random, what: str, undone: Container[str], *, systems: bool = True) -> None:
    """Do one operation on something random, if there is anything to do it on: forget, restore, evict, drop or summary.
    Operations of the kinds `undone` are restored, those of the system only with `systems`."""
    shown = list(agent.context().messages)
    made = [each for each in agent.events(0, 1000) if each.kind in undone and (systems or each.actor != "system")]
    with suppress(CommandError, IndexError):
        match what:
            case "forget":
                some = chance.sample(shown, min(len(shown), 3))
                agent.apply_filter("forget", [each.id for each in some], planning=None, criteria=None)
            case "restore":
                agent.do(f"/restore {chance.choice(made).id}")
            case "evict":
                agent.do(f"/context evict {chance.choice([each.id for each in shown if each.kind == 'tool_result'])}")
            case "drop":
                agent.do(f"/context drop {chance.choice([each.turn_id for each in shown if each.kind == 'user'])}")
            case "summary":
                answered_by(lambda _: "It was read.")
                agent.do("/summarize")
            case _:
                raise ValueError(what)
