"""The line-by-line chat, on a terminal or a pipe: prints the controller's output and questions."""

import sys
from asyncio import Event
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from foldmark.chat.approvals import Approval
from foldmark.chat.controller import ChatController
from foldmark.chat.conversation import Models, converse
from foldmark.chat.lines.foreground import Foreground
from foldmark.chat.lines.keyboard import ScriptedLines, TakenError, Typed
from foldmark.chat.lines.person import ANSWERS, copied, decides, edited, show_text
from foldmark.chat.lines.screen import Screen, last_turns, moved_to, news
from foldmark.core.ports import Progress
from foldmark.core.request import Edge
from foldmark.log import Agent, Result
from foldmark.operations.effects import CopyText, Decision
from foldmark.rendering import counter, fitted, harmless, result_text
from foldmark.runtime.loop import in_thread


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
    view = LineView(keyboard, ask)
    controller = ChatController(agent, view, opening)

    def typed() -> None:
        if view.look():
            view.executor.call(controller.woken.set)

    code = view.executor.run(converse(controller, models), controller.interrupt, typed)
    if text := controller.farewell:
        print(fitted(harmless(text)))
    return code


class LineView:
    """The controller's view as printed lines. `executor` is the main thread, which owns the terminal: everything else
    is queued for it."""

    waiting: deque[str]
    woken: Event

    def __init__(self, keyboard: Typed | ScriptedLines, ask: Callable[[str], bool] | None) -> None:
        self.executor = Foreground()
        self.confirm = None if ask is None else lambda question: self.executor.ask(partial(ask, question), False)
        self._keyboard, self._lines = keyboard, iter(keyboard)
        self._put = self.executor.put
        self._screen = Screen(self._put)
        self._streaming = self._asked = False
        self._notices: deque[str] = deque()
        self._done: set[int] = set()
        self._edge: int | None = None

    async def next_line(self) -> str | None:
        """Read a line at the prompt."""
        line: str | None = await in_thread(self.executor, lambda: next(self._lines, None))
        if line == "":  # a question has taken the prompt, and may keep a line for the conversation
            await in_thread(self.executor, lambda: None)
        return line

    def show(self, text: str, *, error: bool = False) -> None:
        """Print a text on its own line; errors go to standard error."""
        self._put(partial(self._show, text, error=error))

    def _show(self, text: str, *, error: bool = False) -> None:
        self._screen.end_line()
        stream = sys.stderr if error else sys.stdout
        print(fitted(harmless(text), stream), file=stream, flush=True)

    def show_result(self, result: Result) -> None:
        """Print a result; a long one opens in an editor or a pager. A text to copy goes to a terminal's clipboard."""
        if result.event_id is not None:
            self._done.add(result.event_id)
        self._put(partial(self._show_result, result))

    def _show_result(self, result: Result) -> None:
        if isinstance(result.effect, CopyText) and sys.stdout.isatty():
            self._show(copied(result.effect))
        elif text := result_text(result):
            self._screen.end_line()
            show_text(text)

    def show_output(self, text: str) -> None:
        """Print the output."""
        self.show(text)

    def show_typed(self, line: str, *, waited: bool) -> None:
        """Print a line that has waited after the prompt; the terminal has shown any other."""
        if waited:
            self._put(lambda: print(f"{self._keyboard.prompt}{harmless(line)}", flush=True))

    def give_back(self, line: str) -> None:
        """Put a line that was not sent at the next prompt."""

        def give() -> None:
            where = "it is back at the prompt" if self._keyboard.put_back(line) else f"it was: {line}"
            self._show(f"(not sent; {where})")

        self._put(give)

    def show_context(self, agent: Agent, edge: Edge, fullness: str, *, turns: bool) -> None:
        """Print as many of the newest turns as fit the screen, or the rule if the window has moved, then the meter."""
        if turns:
            shown = last_turns(agent, edge)
        else:
            shown = moved_to(agent, edge) if edge.before and edge.first != self._edge else ""
        self._edge = edge.first
        if shown:
            self._put(partial(print, shown))
        self.show(fullness)

    def show_prompt(self, agent: Agent, offer: str) -> None:
        """Show the agent and the offer in the prompt."""
        self._put(partial(self._keyboard.show, agent, offer))

    def begin_turn(self) -> Screen:
        """Begin a turn with a new `Screen`."""
        screen = Screen(self._put)
        self._put(partial(self._begin_turn, screen))
        return screen

    def _begin_turn(self, screen: Screen) -> None:
        self._screen, self._streaming = screen, True

    def end_turn(self) -> None:
        """End the line and print the notices that waited for the end of the turn."""
        self._put(self._end_turn)

    def _end_turn(self) -> None:
        self._screen.end_line()
        self._streaming = self._asked = False
        while self._notices:
            print(fitted(self._notices.popleft()), flush=True)

    def edit(self, text: str) -> str:
        """Let the person edit a text in `$EDITOR`."""
        return edited(text)

    def look(self) -> bool:
        """While an answer streams, accept the lines typed since the last call, except blank lines and late answers.
        Return True if there are any."""
        typed = self._keyboard.ahead() if self._streaming else []
        lines = [line for line in typed if line.strip() and not self._is_late_answer(line)]
        self.waiting.extend(lines)
        return bool(lines)

    def progress(self) -> Progress | None:
        """Return a counter on standard error."""
        return counter("reading:")

    def notify(self, text: str) -> None:
        """Print a line above the prompt, or after the streaming answer."""
        text = harmless(text)
        if not self._keyboard.notice(fitted(text)):
            self._put(partial(self._print_notice, text))
            self._keyboard.take()  # the prompt may be back, and would first wait for a line

    def _print_notice(self, text: str) -> None:
        if self._streaming:
            self._notices.append(text)
        else:
            print(fitted(text), flush=True)

    def follow(self, agent: Agent, events: Sequence[int]) -> None:
        """Print the new messages of a live session, or what another program has done in the conversation."""
        new = [each for each in events if each not in self._done]
        if lines := [*news(agent, new)]:
            self._put(lambda: self._screen.line("\n".join(lines)))
            self._keyboard.take()

    def approve(self, approval: Approval) -> Decision:
        """Ask in place of the prompt."""

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

        return self.executor.ask(ask, "no", self._keyboard.take, self._keyboard.withdraw)

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
