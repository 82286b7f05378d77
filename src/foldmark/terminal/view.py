"""The chat's view in the application, between the controller's thread and Textual's.

Output is passed as an action that the application runs in its thread. A question is passed as a future that the
application answers; an interrupted turn withdraws its question.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from foldmark.chat.approvals import Approval
from foldmark.chat.controller import runs_at_once
from foldmark.core.ports import Progress
from foldmark.core.request import Edge, Piece, ToolCall
from foldmark.core.wording import count
from foldmark.editing.answering import question
from foldmark.log import Agent, Result
from foldmark.operations.effects import Decision, EditText
from foldmark.runtime.loop import Shown
from foldmark.sending.interruption import CURRENT, Interruption
from foldmark.terminal.chat import ChatScreen
from foldmark.terminal.dialogs import Question, ask
from foldmark.terminal.scrollback.answer import Answer

_T = TypeVar("_T")


class TerminalTurn:
    """The display of a turn while it runs. Its callbacks come from the supervisor's thread and the threads of tools."""

    def __init__(self, chat: ChatScreen, put: "Callable[[Callable[[], object]], None]") -> None:
        self.blank = True
        self._chat, self._put = chat, put
        self._receipted = False

    def shown(self) -> Shown:
        """Return the callbacks that show the turn."""
        return Shown(self._text, self._call, self._piece, self._returned, self._result)

    def operated(self, result: Result) -> None:
        """Show the receipt of an operation that the model made, instead of the call's result."""
        self._receipted = True
        self._put(partial(self._chat.add_result, result))

    def interrupted(self, *, kept: bool) -> None:
        """Report that the turn was interrupted."""
        outcome = "the text so far is kept" if kept else "nothing was sent"
        self._put(partial(self._chat.add_line, f"(interrupted; {outcome})"))

    def _text(self, text: str) -> None:
        if text:
            self.blank = False
            self._stream(lambda answer: answer.add_text(text))

    def _call(self, call: ToolCall) -> None:
        self.blank = self._receipted = False
        self._stream(lambda answer: answer.add_call(call))

    def _piece(self, piece: Piece) -> None:
        self._stream(lambda answer: answer.add_piece(piece))

    def _returned(self, call: ToolCall, text: str) -> None:
        if not self._receipted:
            self._stream(lambda answer: answer.add_returned(call, text))
        self._receipted = False

    def _result(self, result: Result) -> None:
        self.blank = False
        self._put(partial(self._chat.add_result, result))

    def _stream(self, add: Callable[[Answer], None]) -> None:
        self._put(lambda: self._chat.transcript.stream(add))


class TerminalView:
    """The controller's view, on the screen `chat`. `put` queues an action for the application's thread, in order,
    without waiting.

    `idle` is True while the controller waits for a line, `leaving` once the chat is to end. Submitted lines wait in two
    places: here until the controller reads them, then in `waiting` until the turn ends. `line` is the line that was
    carried out last.
    """

    def __init__(self, chat: ChatScreen, put: Callable[[Callable[[], object]], None]) -> None:
        self.confirm: Callable[[str], bool] | None = self._agrees
        self.waiting: deque[str] = deque()
        self.idle = self.leaving = False
        self.line = ""
        self._chat, self._put = chat, put
        self._lines: deque[str] = deque()
        self._wakes: SimpleQueue[bool] = SimpleQueue()
        self._work = Interruption()

    # In the application's thread

    def submit(self, line: str) -> None:
        """Accept a line that was typed, or that a screen made from a person's action."""
        waits, self.idle = not self.idle, False
        self._lines.append(line)
        self._wakes.put(False)
        if waits:
            self._show_waiting()

    def take_back(self) -> str | None:
        """Remove and return the newest line that waits; None if none waits."""
        for lines in (self._lines, self.waiting):
            with suppress(IndexError):  # the controller has just read it
                line = lines.pop()
                self._show_waiting()
                return line
        return None

    @property
    def typed(self) -> list[str]:
        """The lines that may not be recorded: the one that was carried out last, those that wait, and the prompt's."""
        return [each for each in (self.line, *self.waiting, *self._lines, self._chat.prompt.editor.whole) if each]

    def leave(self) -> None:
        """End the chat after the submitted lines."""
        self.leaving = True
        self._wakes.put(False)
        self._show_waiting()

    def interrupt(self) -> None:
        """Interrupt the running turn or command, and drop the lines that wait."""
        if dropped := len(self._lines) + len(self.waiting):
            self._lines.clear()
            self.waiting.clear()
            self._show_waiting()
            self.show(f"({count(dropped, 'waiting line')} dropped; ↑ brings back what you typed)")
        self._wakes.put(True)
        self._work.happen()

    def _show_waiting(self) -> None:
        self._put(lambda: self._chat.prompt.show_waiting([*self.waiting, *self._lines], leaving=self.leaving))

    # In the controller's thread

    def begin_work(self) -> None:
        """Begin work that Ctrl-C interrupts."""
        self._work = Interruption()
        CURRENT.set(self._work)

    def __iter__(self) -> Iterator[str]:
        while True:
            try:
                line = self._lines.popleft()
            except IndexError:
                self.idle = not self.leaving
                if self.leaving:
                    return
                self._wakes.get()
                continue
            self.idle = False
            self.show_typed(line)
            yield line

    def lines(self) -> list[str]:
        """Return the lines submitted since the last call."""
        found: list[str] = []
        with suppress(IndexError):
            while True:
                found.append(self._lines.popleft())
        for line in filter(runs_at_once, found):
            self.show_typed(line)
        return [line for line in found if line.strip()]

    def wait(
        self, begin: "Callable[[], Future[Any]]", interrupted: Callable[[], object], look: Callable[[], object]
    ) -> "Future[Any]":
        """Wait in the controller's thread while Textual shows the output of other threads."""
        while True:  # an earlier Ctrl-C must not interrupt this
            try:
                self._wakes.get_nowait()
            except Empty:
                break
        end = begin()
        end.add_done_callback(lambda _: self._wakes.put(False))
        look()
        self._show_waiting()
        while not end.done():
            if self._wakes.get():
                interrupted()
            look()
            self._show_waiting()
        return end

    def show(self, text: str, *, error: bool = False) -> None:
        """Show a text on its own line."""
        self._put(partial(self._chat.add_line, text, error=error))

    def show_result(self, result: Result) -> None:
        """Show the result of a command."""
        self._put(partial(self._chat.add_result, result, typed=True))

    def show_output(self, text: str) -> None:
        """Do nothing: the transcript shows the message."""

    def show_typed(self, line: str) -> None:
        """Show a line that was typed earlier and runs now."""
        self.line = line
        self.begin_work()
        self._show_waiting()
        self._put(lambda: self._chat.transcript.add_typed(line))

    def give_back(self, line: str) -> None:
        """Return a line to the prompt."""
        self._show_waiting()
        self._put(partial(self._chat.give_back, line))

    def show_context(self, agent: Agent, edge: Edge, fullness: str, *, turns: bool) -> None:
        """Show the agent's transcript; the edge of the window and the meter are always visible."""
        if turns:
            self._put(partial(self._chat.attend, agent, ""))

    def show_prompt(self, agent: Agent, offer: str) -> None:
        """Show the agent again: its log may have changed."""
        self._put(partial(self._chat.attend, agent, offer))

    def begin_turn(self) -> TerminalTurn:
        """Begin an answer."""
        self._put(partial(self._chat.show_answering, True))
        return TerminalTurn(self._chat, self._put)

    def end_turn(self) -> None:
        """End the answer."""
        self._put(partial(self._chat.show_answering, False))

    def edit(self, edit: EditText) -> str | None:
        """Let the person edit a text in `$EDITOR`."""
        edited: Future[str] = Future()

        def ask() -> None:
            try:
                edited.set_result(self._chat.edit_text(edit.text))
            except Exception as error:
                edited.set_exception(error)

        self._put(ask)
        text = edited.result()
        if text == edit.text:
            self.show("Nothing was changed.")
            return None
        return f"{edit.command} {text}" if text.strip() else edit.clear

    def drain(self) -> None:
        """Do nothing: Textual shows the output of other threads."""

    def progress(self) -> Progress | None:
        """Return a callback that shows the progress of reading."""
        return lambda done, total: self._put(lambda: self._chat.meter.show_progress(done, total))

    def notify(self, text: str) -> None:
        """Show a notice; called in any thread."""
        self.show(text)

    def follow(self, agent: Agent, events: Sequence[int]) -> None:
        """Show the agent as it now is in the log; called in any thread."""
        with agent.reading() as (moment, at):
            offer = question(moment, at)
        self._put(partial(self._chat.follow, agent, offer))

    def approve(self, approval: Approval) -> Decision:
        """Ask whether a tool may do something; called in the tool's thread."""
        return self._ask(lambda answer: self._chat.approval.announce(approval, answer), "no")

    def _agrees(self, question: str) -> bool:
        return self._ask(lambda answer: ask(self._chat.app, Question(question), answer), False)

    def _ask(self, ask: "Callable[[Future[_T]], None]", otherwise: _T) -> _T:
        """Return the answer, or `otherwise` if the turn is interrupted before there is one."""
        answer: Future[_T] = Future()
        self._put(partial(ask, answer))
        with CURRENT.get().ended_by(answer.cancel):
            try:
                return answer.result()
            except CancelledError:
                return otherwise
