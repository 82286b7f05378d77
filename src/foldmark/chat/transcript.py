"""The last turns of a conversation as the chat shows them again, with the window's rule at its place [SPEC 5.5]."""

import os
import sys
from itertools import islice

from foldmark.chat.keyboard import PROMPT
from foldmark.chat.screen import call_line, result_lines
from foldmark.core.events import ANSWER_KINDS, Event
from foldmark.core.request import Edge
from foldmark.core.turns import Turn, newest_turns
from foldmark.core.wording import count, title
from foldmark.log import Agent
from foldmark.rendering import columns, fitted, harmless
from foldmark.request.usage import Weighed, snapshots

BESIDE = 6
"""Lines of the screen that are left for the greeting, the meter and the prompt."""
RULE_COLUMNS = 80
"""The width of a rule where there is no terminal."""


def last_turns(agent: Agent, edge: Edge) -> str:
    """The newest turns in the context, as many as fit the screen, one at least; empty where there is no terminal."""
    if not sys.stdout.isatty():
        return ""
    room = max(1, os.get_terminal_size().lines - BESIDE)
    with agent.reading() as (moment, at):
        turns = newest_turns(islice(moment.messages(at.visible, newest_first=True), room), room)
        shown: list[str] = []
        for turn in reversed(turns):
            lines = _turn(turn, snapshots(moment, at, turn.messages))
            if shown and len(shown) + len(lines) > room:
                break
            if len(lines) > room:
                above = f"… ({count(len(lines) - room + 1, 'line')} above; /message show {turn.id} shows the turn)"
                lines = [above, *lines[1 - room :]] if room > 1 else lines[-1:]
            begins = edge.before and any(each.id == edge.first for each in turn.messages)
            shown = [*(rule(begun_at(edge, turn)).split("\n") if begins else []), *lines, *shown]
    return "\n".join(shown)


def begun_at(edge: Edge, turn: Turn) -> str:
    """What the rule says: the turn that the window begins with, and how much lies before it."""
    about = title(next((each.content for each in turn.messages if each.content), ""), 30)
    named = f" “{about}”" if about else ""
    return f"the window begins with turn {turn.id or '-'}{named}; {count(edge.before, 'message')} before it"


def moved_to(agent: Agent, edge: Edge) -> str:
    """The rule for a window that has moved."""
    with agent.log.store.read() as moment:
        first = None if edge.first is None else moment.event(edge.first)
    messages = () if first is None else (first,)
    return rule(begun_at(edge, Turn(None if first is None else first.turn_id, messages)))


def rule(text: str) -> str:
    """A line across the whole width that says something, with an empty line on each side."""
    width = columns(sys.stdout) or RULE_COLUMNS
    shown = harmless(f"── {text} ")
    if len(shown) > width:
        shown = f"{shown[: max(0, width - 2)].rstrip()}… "[:width]
    return f"\n{shown}{'─' * (width - len(shown))}\n"


def _turn(turn: Turn, weighed: dict[int, Weighed]) -> list[str]:
    found = []
    for message in turn.messages:
        if text := _message(message):
            beside = weighed.get(message.id) if message.kind in ANSWER_KINDS else None
            found.append(text if beside is None else f"{text} {beside}")
    return fitted("\n".join(found)).split("\n")


def _message(message: Event) -> str:
    text, interrupted = harmless(message.content.strip("\n")), " (interrupted)" if message.interrupted else ""
    match message.kind:
        case "user":
            return f"{PROMPT}{text}" if message.actor == "human" else f"[{message.actor}] {text}"
        case "tool_call":
            return call_line(str((message.data or {}).get("name")), message.content)
        case "tool_result" | "tool":
            return result_lines(message.content)
        case _:
            return f"{text}{interrupted}" if text or interrupted else ""
