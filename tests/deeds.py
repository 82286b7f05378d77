"""Random actions on an agent and its forks, and the contents of its context."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from hypothesis import strategies as st

from foldmark import Agent, CommandError
from foldmark.core import selections
from foldmark.core.events import OPERATION_KINDS
from stored import stored

SAYING = ("say", "say", "say", "say", "tools", "open", "answer", "end", "late", "state", "note", "scratchpad")
OPERATING = (
    *("mark", "mark", "clear", "rewind", "rewind", "fork", "undo", "drop", "drop", "forget", "remember"),
    *("restore", "restore", "restore", "pin", "unpin", "summarize", "span", "evict"),
)
DEEDS = st.lists(
    st.tuples(st.sampled_from((*SAYING, *OPERATING)), st.integers(0, 60), st.integers(0, 2)), min_size=6, max_size=30
)
"""The action, a number that selects its target, and the agent that performs it: the root or a fork."""


class Shown(NamedTuple):
    """The whole contents of a context."""

    messages: tuple[tuple[int, str], ...]
    marks: dict[str, int]
    pins: tuple[int, ...]
    state: str | None
    size: tuple[int, int]
    evicted: tuple[int, ...] = ()


def shown(context: Any) -> Shown:
    """Return the contents of a context. Its size is counted, and must equal the size that it reports."""
    messages = list(context.messages)
    counted = (len(messages), sum(message.tokens for message in messages))
    assert tuple(context.size) == counted
    assert len(context.messages) == len(messages)
    return Shown(
        tuple((message.id, message.content) for message in messages),
        dict(context.marks),
        context.pins,
        context.state,
        counted,
        tuple(sorted(context.evicted)),
    )


def family(root: Agent) -> list[Agent]:
    """Return the agent and its descendants."""
    return [root, *(each for child in root.children for each in family(child))]


def ids(agent: Agent) -> list[int]:
    return [message.id for message in agent.context().messages]


def operations(agent: Agent) -> list[int]:
    """Return the ids of all operations of an agent."""
    found = selections.operations(stored(agent.log), agent.id)
    return [event.id for event in found if event.kind in OPERATION_KINDS]


def do(agent: Agent, deed: str, number: int) -> Any:
    """Do one of `SAYING` or `OPERATING`. Return the `Result` of an operation, None for a message or a refusal."""
    with suppress(CommandError):
        match deed:
            case "say" | "tools" | "open":
                agent.append("user", f"question {number} of {agent.id[:4]}")
                if deed == "tools":
                    agent.append("assistant", "I look.")
                    agent.append_tool_call("read_file", {"path": f"file-{number}"}, call_id=f"c{number}")
                    agent.append_tool_result(f"c{number}", "content " * number)
                if deed != "open":
                    agent.append("assistant", f"answer {number} " * 5)
                    agent.end_turn()
                elif number % 2:
                    agent.append_tool_call("bash", {"command": "ls"}, call_id=f"late{number % 4}")
            case "answer":
                agent.append("assistant", f"more {number}")
            case "late":
                agent.append_tool_result(f"late{number % 4}", "late result")
            case "end":
                agent.end_turn()
            case "state":
                agent.record("state", f"Goal: {number}")
            case "scratchpad":
                agent.do(f"/scratchpad edit pad {number}")
            case "note":
                agent.do(f"/note note {number}")
            case _:
                return operate(agent, deed, number)
    return None


def operate(agent: Agent, deed: str, number: int) -> Any:
    """Do one of `OPERATING`. Raises CommandError."""
    context = agent.context()
    turns = sorted({message.turn_id for message in context.messages if message.turn_id})
    marks, there_are = list(context.marks), operations(agent)
    match deed:
        case "mark":
            return agent.do(f"/mark {'ABC'[number % 3]}")
        case "rewind" | "clear" if marks and (deed == "rewind" or number % 3):
            return agent.do(f"/rewind {marks[number % len(marks)]}")
        case "clear" | "undo":
            return agent.do(f"/{deed}")
        case "fork" if len(family(agent.log.agent("root"))) < 4:
            return agent.do("/fork" if not marks or number % 2 else f"/fork {marks[number % len(marks)]}")
        case "summarize":
            return agent.do("/summarize" if not marks or number % 2 else f"/summarize {marks[number % len(marks)]}")
        case "span" if context.size.messages:
            visible = ids(agent)
            chosen = visible[number % len(visible) :][:4]
            return agent.do(f"/summarize {chosen[0]}..{chosen[-1]}")
        case "drop" | "pin" | "unpin" if turns:
            name = {"drop": "context drop"}.get(deed, deed)
            return agent.do(f"/{name} {turns[number % len(turns)]}")
        case "forget" | "remember" if context.size.messages:
            visible = ids(agent)
            chosen = visible[number % len(visible) :][: 3 if deed == "forget" else 20]
            agent.apply_filter(deed, chosen, criteria="chosen at random")
        case "evict" if results := [m.id for m in context.messages if m.kind == "tool_result"]:
            return agent.do(f"/context evict {results[number % len(results)]}")
        case "restore" if there_are:
            return agent.do(f"/restore {there_are[number % len(there_are)]}")
    return None
