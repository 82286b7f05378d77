"""The line-by-line chat, on a terminal or a pipe: prints the controller's output and questions."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from foldmark.chat.approvals import Approval
from foldmark.chat.controller import ChatController
from foldmark.chat.conversation import Models, converse
from foldmark.chat.lines.foreground import Foreground
from foldmark.chat.lines.keyboard import ScriptedLines, TakenError, Typed
from foldmark.chat.lines.person import ANSWERS, copied, decides, edit_command, show_text
from foldmark.chat.lines.screen import Screen, last_turns, moved_to, news, news_elsewhere
from foldmark.chat.live import is_live
from foldmark.core.ports import Progress
from foldmark.core.request import Edge
from foldmark.log import Agent, Result
from foldmark.operations.effects import Asking, CopyText, Decision, EditText
from foldmark.rendering import counter, fitted, harmless, result_text


def chat(
    agent: Agent,
    models: Models,
    lines: Iterable[str],
    ask: Callable[[str], bool] | None = None,
    opening: str = "",
) -> int:
    """Chat line by line, as `converse` does. `ask` asks the person a command's question; None without a person.
    `opening` is shown first."""
    keyboard = lines if isinstance(lines, Typed | ScriptedLines) else ScriptedLines(lines)
    first = Asking(approve=lambda asked: decides(asked.tool, asked)) if ask else Asking()
    view = LineView(keyboard, ask)
    controller = ChatController(agent, view, opening)
    code = converse(controller, models, keyboard, first)
    if text := controller.farewell:
        view.show(text)
    return code


class LineView:
    """The controller's view as printed lines. Other threads queue their output for the main thread, which owns the
    terminal."""

    def __init__(self, keyboard: Typed | ScriptedLines, confirm: Callable[[str], bool] | None) -> None:
        self.confirm = confirm
        self.waiting: deque[str] = deque()
        self._keyboard, self._front = keyboard, Foreground()
        self._screen = Screen(self._front.put)
        self._streaming = self._asked = False
        self._notices: deque[str] = deque()
        self._done: set[int] = set()
        self._edge: int | None = None

    def show(self, text: str, *, error: bool = False) -> None:
        """Print a text on its own line; errors go to standard error."""
        self._screen.end_line()
        stream = sys.stderr if error else sys.stdout
        print(fitted(harmless(text), stream), file=stream, flush=True)

    def show_result(self, result: Result) -> None:
        """Print a result; a long one opens in an editor or a pager. A text to copy goes to a terminal's clipboard."""
        if isinstance(result.effect, CopyText) and sys.stdout.isatty():
            self.show(copied(result.effect))
            return
        if result.event_id is not None:
            self._done.add(result.event_id)
        if text := result_text(result):
            self._screen.end_line()
            show_text(text)

    def show_output(self, text: str) -> None:
        """Print the output."""
        self.show(text)

    def show_typed(self, line: str) -> None:
        """Print a line after the prompt."""
        print(f"{self._keyboard.prompt}{harmless(line)}", flush=True)

    def give_back(self, line: str) -> None:
        """Put a line that was not sent at the next prompt."""
        where = "it is back at the prompt" if self._keyboard.put_back(line) else f"it was: {line}"
        self.show(f"(not sent; {where})")

    def show_context(self, agent: Agent, edge: Edge, fullness: str, *, turns: bool) -> None:
        """Print as many of the newest turns as fit the screen, or the rule if the window has moved, then the meter."""
        if turns and (shown := last_turns(agent, edge)):
            print(shown)
        elif not turns and edge.before and edge.first != self._edge:
            print(moved_to(agent, edge))
        self._edge = edge.first
        self.show(fullness)

    def show_prompt(self, agent: Agent, offer: str) -> None:
        """Show the agent and the offer in the prompt."""
        self._keyboard.agent, self._keyboard.offer = "" if agent.parent is None else agent.id[:8], offer
        self._keyboard.reader = agent

    def begin_turn(self) -> Screen:
        """Begin a turn with a new `Screen`."""
        self._screen, self._streaming = Screen(self._front.put), True
        return self._screen

    def end_turn(self) -> None:
        """End the line and print the notices that waited for the end of the turn."""
        self._screen.end_line()
        self._streaming = self._asked = False
        while self._notices:
            print(fitted(self._notices.popleft()), flush=True)

    def edit(self, edit: EditText) -> str | None:
        """Let the person edit a text in `$EDITOR`."""
        return edit_command(edit)

    def lines(self) -> list[str]:
        """Return the lines typed since the last call, except blank lines and late answers."""
        return [line for line in self._keyboard.ahead() if line.strip() and not self._is_late_answer(line)]

    def wait(
        self, begin: "Callable[[], Future[Any]]", interrupted: Callable[[], object], look: Callable[[], object]
    ) -> "Future[Any]":
        """Wait in the main thread."""
        return self._front.until(begin, interrupted, look)

    def drain(self) -> None:
        """Show output that other threads have queued."""
        self._front.drain()

    def progress(self) -> Progress | None:
        """Return a counter on standard error."""
        return counter("reading:")

    def notify(self, text: str) -> None:
        """Print a line above the prompt, or after the streaming answer; called in any thread."""
        text = harmless(text)
        if not self._keyboard.notice(fitted(text)):
            self._front.put(partial(self._print_notice, text))
            self._keyboard.take()  # the prompt may be back, and would first wait for a line

    def _print_notice(self, text: str) -> None:
        if self._streaming:
            self._notices.append(text)
        else:
            print(fitted(text), flush=True)

    def follow(self, agent: Agent, events: Sequence[int]) -> None:
        """Print the new messages of a live session, or what another program has done in the conversation; called in any
        thread."""
        self._front.put(partial(self._print_news, agent, events))
        self._keyboard.take()

    def _print_news(self, agent: Agent, events: Sequence[int]) -> None:
        new = [each for each in events if each not in self._done]
        for line in news(agent, new) if is_live(agent) else news_elsewhere(agent, new):
            self._screen.line(line)

    def approve(self, approval: Approval) -> Decision:
        """Ask in the main thread, in place of the prompt; called in the tool's thread."""

        def ask() -> Decision:
            self._screen.end_line()
            self._asked = True
            for line in self._keyboard.ahead(begun=True):
                if line.strip() and not self._is_late_answer(line):
                    self.waiting.append(line)
            try:
                return decides(approval.heading, approval.permission, self._keyboard.answer, self._keep_line)
            except TakenError:
                print("\n(the question is withdrawn: its turn has ended)", flush=True)
                return "no"

        return self._front.ask(ask, "no", self._keyboard.take, self._keyboard.withdraw)

    def _is_late_answer(self, line: str) -> bool:
        """Return True and print a note if a line answers a question of this turn that has closed or has not opened yet.
        Such a line is not text for the conversation."""
        text = line.strip()
        if not (self._asked and text and text.lower() in ANSWERS):
            return False
        self._screen.end_line()
        print(f"(“{harmless(text)}” answers no open question; it is ignored)", flush=True)
        return True

    def _keep_line(self, line: str) -> None:
        print("(this is no answer; it is kept for the conversation)", flush=True)
        self.waiting.append(line)
