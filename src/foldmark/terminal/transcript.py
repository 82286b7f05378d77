"""The conversation on the screen: what the log has of it, and behind it the answer that streams."""

from textual.containers import VerticalScroll
from textual.widgets import Static

from foldmark.chat.screen import call_line, result_lines
from foldmark.core.request import Piece, ToolCall
from foldmark.log import Agent, Result
from foldmark.rendering import harmless, json_line, result_text


class Transcript(VerticalScroll):
    """The conversation; `streaming` while an answer streams."""

    streaming = False

    def attend(self, agent: Agent) -> None:
        """Show the agent as the log has it now."""

    def add_line(self, text: str, *, error: bool = False) -> None:
        """Add a line that is not in the log."""
        self.mount(Static(harmless(text), markup=False, classes="error" if error else "note"))
        self.scroll_end(animate=False)

    def add_result(self, result: Result) -> None:
        """Add the result of a command."""
        if text := result_text(result):
            self.add_line(text)

    def begin_answer(self) -> None:
        """Begin an answer."""
        self.streaming, self._answer, self._text = True, Static(markup=False), ""
        self.mount(self._answer)

    def add_text(self, text: str) -> None:
        """Add streamed text to the answer."""
        self._text += text
        self._answer.update(harmless(self._text))
        self.scroll_end(animate=False)

    def add_call(self, call: ToolCall) -> None:
        """Add a tool call to the answer."""
        self.add_line(call_line(call.name, json_line(call.args)))

    def add_returned(self, call: ToolCall, text: str) -> None:
        """Add the result of a call."""
        self.add_line(result_lines(text))

    def add_piece(self, piece: Piece) -> None:
        """Add another piece of the answer."""

    def end_answer(self) -> None:
        """Show the answer as it was recorded."""
        self.streaming = False
