"""Turns on a terminal or in a pipe: a running turn as it streams, the newest turns with a rule where the window begins,
and the messages that a live session has recorded [SPEC 5.5, 5.7]. Everything except the text of an answer starts on a
new line."""

import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TextIO

from foldmark.chat.display.operated import line
from foldmark.chat.lines.keyboard import PROMPT
from foldmark.chat.live import fullness, is_live
from foldmark.chat.views import STOPPED, Put, TurnView
from foldmark.core import selections
from foldmark.core.events import ANSWER_KINDS, MESSAGE_KINDS, Event
from foldmark.core.request import Edge, Piece, Stopped, ToolCall, Usage, Waiting
from foldmark.core.segments import contains
from foldmark.core.turns import Turn, naming, newest_turns
from foldmark.core.wording import count, title, told_title
from foldmark.cost.messages import next_messages
from foldmark.log import Agent, Result
from foldmark.operations.history import operations
from foldmark.rendering import Wrapping, columns, fitted, harmless, json_line, result_text
from foldmark.request.planning import talk
from foldmark.request.usage import Weighed, left_out, snapshots
from foldmark.runtime.loop import Shown

CALL_CHARACTERS = 100
"""Maximum number of characters shown of a tool call's arguments."""
RESULT_LINES, RESULT_CHARACTERS = 3, 300
"""Maximum number of lines and characters shown of a tool's result."""
OTHER_LINES = 6
"""Lines of the screen reserved for the greeting, the meter and the prompt."""
RULE_COLUMNS = 80
"""Width of a rule without a terminal, in columns."""


class Screen(TurnView):
    """Prints a turn as it runs. Everything except the text of the answer goes to `notes`, by default to standard output
    as well."""

    def __init__(self, put: Put, notes: TextIO | None = None) -> None:
        shows = Shown(self._text, self._call, self._other, self._returned, self._result)
        super().__init__(put, shows, self._interrupted)
        self._notes = notes
        self._mid_line = False
        self._wrapping = Wrapping(0)

    def end_line(self) -> None:
        """Start a new line unless the current one is empty."""
        if rest := self._wrapping.flush():
            print(rest, end="")
        if self._mid_line:
            print(flush=True)
        self._mid_line, self._wrapping = False, Wrapping(0)

    def line(self, text: str) -> None:
        """Print a text on its own line."""
        self.end_line()
        print(fitted(text, self._notes), file=self._notes, flush=True)

    def _interrupted(self, text: str) -> None:
        # The terminal has just echoed ^C.
        if rest := self._wrapping.flush():
            print(rest, end="")
        print(f"\n{text}", flush=True)
        self._mid_line, self._wrapping = False, Wrapping(0)

    def _text(self, piece: str) -> None:
        if piece:
            if not self._mid_line:
                self._wrapping = Wrapping(columns(sys.stdout))
            self._mid_line = not piece.endswith("\n")  # before a signal may end the program
            print(self._wrapping.feed(harmless(piece)), end="", flush=True)

    def _call(self, call: ToolCall) -> None:
        self.line(call_line(call.name, json_line(call.args)))

    def _returned(self, _: ToolCall, text: str) -> None:
        self.line(result_lines(text))

    def _result(self, result: Result) -> None:
        self.line(result_text(result))

    def _other(self, piece: Piece) -> None:
        match piece:
            case Waiting():
                self.end_line()
                reason = harmless(piece.reason).rstrip(".")
                when = f" in {piece.seconds:.0f} s" if piece.seconds else ""
                print(fitted(f"({reason}; asking again{when})", sys.stderr), file=sys.stderr, flush=True)
            case _ if text := remark(piece):
                self.line(harmless(text))
            case _:
                pass


def remark(piece: Piece) -> str:
    """Return a remark about a piece of an answer for the person; empty if there is none."""
    match piece:
        case Stopped() if piece.why in STOPPED:
            return f"({STOPPED[piece.why]}: {piece.said})"
        case Usage() if omitted := left_out(piece.altered):
            return f"({omitted})"
        case _:
            return ""


def call_line(name: str, arguments: str) -> str:
    """Return a tool call and the beginning of its arguments, on one line."""
    shown = arguments if len(arguments) <= CALL_CHARACTERS else f"{arguments[:CALL_CHARACTERS]}…"
    return f"[{harmless(name)} {shown}]"


def result_lines(text: str) -> str:
    """Return the first lines of a tool's result, indented, with a note about the rest."""
    lines = text.strip("\n").splitlines() or ["(empty)"]
    shown = lines[:RESULT_LINES]
    kept = "\n".join(shown)[:RESULT_CHARACTERS]
    more = count(len(lines) - len(shown), "more line") if len(lines) > len(shown) else ""
    if len(kept) < len("\n".join(shown)):
        more = f"{len(text):,} characters in all"
    rest = [f"… ({more})"] if more else []
    return "\n".join(f"  {harmless(line)}" for line in [*kept.split("\n"), *rest])


def last_turns(agent: Agent, edge: Edge) -> str:
    """Return as many of the newest turns in the context as fit the screen, at least one; empty without a terminal."""
    if not sys.stdout.isatty():
        return ""
    room = max(1, os.get_terminal_size().lines - OTHER_LINES)
    with agent.reading() as (moment, at):
        turns = newest_turns(islice(moment.select(at.visible, newest_first=True), room), room)
        shown: list[str] = []
        size = partial(next_messages(agent, moment, at).inside, moment)
        for turn in reversed(turns):
            lines = _turn(turn, snapshots(moment, at, turn.messages, size))
            if shown and len(shown) + len(lines) > room:
                break
            if len(lines) > room:
                above = f"… ({count(len(lines) - room + 1, 'line')} above; /message show {turn.id} shows the turn)"
                lines = [above, *lines[1 - room :]] if room > 1 else lines[-1:]
            begins = edge.before and any(each.id == edge.first for each in turn.messages)
            shown = [*(rule(begun_at(edge, turn)).split("\n") if begins else []), *lines, *shown]
    return "\n".join(shown)


def begun_at(edge: Edge, turn: Turn) -> str:
    """Return the text of the rule: the first turn of the window, and the number of messages before it."""
    about = title(next((each.content for each in naming(turn.messages) if each.content), ""), 30)
    named = f" “{about}”" if about else ""
    return f"the window begins with turn {turn.id or '-'}{named}; {count(edge.before, 'message')} before it"


def moved_to(agent: Agent, edge: Edge) -> str:
    """Return the rule for a window that has moved."""
    with agent.log.store.read() as moment:
        first = None if edge.first is None else selections.event(moment, edge.first)
    messages = () if first is None else (first,)
    return rule(begun_at(edge, Turn(None if first is None else first.turn_id, messages)))


def rule(text: str) -> str:
    """Return a line across the full width that contains `text`, with an empty line above and below."""
    width = columns(sys.stdout) or RULE_COLUMNS
    shown = harmless(f"── {text} ")
    if len(shown) > width:
        shown = f"{shown[: max(0, width - 2)].rstrip()}… "[:width]
    return f"\n{shown}{'─' * (width - len(shown))}\n"


def _turn(turn: Turn, weighed: dict[int, Weighed]) -> list[str]:
    found = []
    for message in turn.messages:
        if text := message_text(message):
            beside = weighed.get(message.id) if message.kind in ANSWER_KINDS else None
            found.append(text if beside is None else f"{text} {beside}")
    return fitted("\n".join(found)).split("\n")


def message_text(message: Event) -> str:
    """Return a message as it was shown when it arrived; empty for a message without content."""
    text, interrupted = harmless(message.content.strip("\n")), " (interrupted)" if message.interrupted else ""
    match message.kind:
        case "user":
            return f"{PROMPT}{text}" if message.actor == "human" else f"[{message.actor}] {text}"
        case "client":
            return f"[client] {told_title(text, RULE_COLUMNS)}" if text else ""
        case "tool_call":
            return call_line(str((message.data or {}).get("name")), message.content)
        case "tool_result" | "tool":
            return result_lines(message.content)
        case _:
            return f"{text}{interrupted}" if text or interrupted else ""


def news(agent: Agent, events: Sequence[int]) -> Iterator[str]:
    """Yield lines about events of an agent that other programs recorded: the operations, and for a live session also
    the messages, and the meter if a turn has ended. Messages of a planning conversation are omitted because its preview
    shows them."""
    live = is_live(agent)
    with agent.reading() as (moment, at):
        found, planned = moment.events(list(events)), talk(moment, at)
        done = {each.event.id: line(each) for each in operations(moment, at)}
    for event in found:
        if event.id in done:
            yield f"({'' if live else 'elsewhere: '}{done[event.id]})"
        elif live and event.kind in MESSAGE_KINDS and not contains(planned, agent.id, event.id):
            yield from filter(None, [message_text(event)])
    if live and any(event.kind == "turn_ended" for event in found):
        yield fullness(agent)
