"""Sources of a chat's lines: a person at a terminal, or a pipe."""

import os
import re
import select
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress

from foldmark.chat.history import InputHistory
from foldmark.log import Agent
from foldmark.rendering import harmless

PROMPT = "> "
GOES_ON = ". "
"""The prompt for the last line of a pasted text."""

_AT_ONCE = 0.02
"""Maximum seconds until a terminal sends the next part of a paste."""


class TakenError(Exception):
    """The line is no longer needed: a question takes over the prompt, or a question is withdrawn."""


class Prompting:
    """The prompt: `agent` is the recipient of the line unless it is the root agent, and `offer` is the open offer.
    Completion reads the log through `reader`."""

    agent = offer = ""
    reader: Agent | None = None

    def show(self, agent: Agent, offer: str) -> None:
        """Show an agent and its open offer from the next line on."""
        self.agent, self.offer, self.reader = "" if agent.parent is None else agent.id[:8], offer, agent

    @property
    def prompt(self) -> str:
        """The prompt as it is shown."""
        return " ".join(filter(None, (self.agent, self.offer, PROMPT)))


class Typed(Prompting):
    """Lines that a person types, with line editing and a `history`; Ctrl-C clears the line, Ctrl-D ends the input.

    A question from another thread takes over the prompt: `take` stops reading the line, and the text typed so far
    returns to the prompt after the question.
    """

    def __init__(self, history: InputHistory | None = None) -> None:
        self._history = history
        self._reads = ""
        self._taken = self._wakes = self._edits = self._ended = False
        self._rest = b""
        self._completed: list[str] = []

    def __iter__(self) -> Iterator[str]:
        self._prepare()
        while not self._ended:
            try:
                line = self._read(self.prompt, "line")
            except TakenError:
                yield ""  # the caller now asks the question
                continue
            except KeyboardInterrupt:
                print("\n(Ctrl-D or /exit leaves)")
                continue
            except EOFError:
                print()
                return
            if _libedit():
                line = self._pasted(line)
            self._remember(line)
            yield line

    def _pasted(self, line: str) -> str:
        """Return a line together with the lines pasted with it. libedit, used on macOS, cannot tell a paste from
        typing, so lines that arrive together count as one paste. The person first completes an unfinished last line."""
        lines = [line]
        while not self._ended and select.select([sys.stdin], [], [], _AT_ONCE)[0]:
            lines += self.ahead()
            if self._rest:
                with suppress(EOFError, KeyboardInterrupt, TakenError):
                    lines.append(self._read(GOES_ON, "line"))
        return "\n".join(lines)

    def answer(self, question: str) -> str:
        """Read the answer to a question. Text of a line typed so far is set aside. Raises EOFError, and TakenError if
        the question is withdrawn in the meantime."""
        return self._read(question, "answer")

    def take(self) -> None:
        """Free the prompt for a queued action, at once or before the next line is read; called in any thread."""
        self._taken = True
        self._wake("line")

    def withdraw(self) -> None:
        """Stop reading an answer; called in any thread."""
        self._wake("answer")

    def put_back(self, line: str) -> bool:
        """Begin the next line with this text, before what was typed of it meanwhile."""
        self._rest = line.encode(errors="replace") + self._rest
        return True

    def notice(self, text: str) -> bool:
        """Print a line above the prompt; return False if no line is being read. Called in any thread."""
        if self._reads != "line":
            return False
        begun = ""
        with suppress(ImportError):
            import readline

            begun = readline.get_line_buffer()
        print(f"\r\x1b[K{text}\n{self.prompt}{begun}", end="", flush=True)
        return True

    def ahead(self, *, begun: bool = False) -> list[str]:
        """Return the complete lines that were typed while there was no prompt.

        With `begun`, also read an unfinished line: it appears at the next prompt.
        """
        if os.name == "nt":
            return []
        with _unbuffered() if begun else nullcontext():
            return self._ahead()

    def _ahead(self) -> list[str]:
        if not select.select([sys.stdin], [], [], 0)[0]:
            return []
        try:
            read = os.read(sys.stdin.fileno(), 65536)
        except OSError:  # the terminal is gone
            read = b""
        # A Ctrl-D that is typed before the terminal's line mode ends and read afterwards becomes NUL.
        read = read.replace(b"\0", b"\x04")
        self._ended = not read or read.endswith(b"\x04")
        # Lines that were typed before line editing released the terminal end in CR.
        *lines, self._rest = re.split(rb"[\r\n]", (self._rest + read).replace(b"\r\n", b"\n"))
        return [line.decode(errors="replace") for line in lines]

    def _read(self, prompt: str, what: str) -> str:
        self._reads, self._edits = what, False
        try:
            if what == "line" and self._taken:
                self._taken = False
                raise TakenError
            return input(prompt)
        finally:
            self._reads = ""

    def _prepare(self) -> None:
        with suppress(ImportError):  # Windows has no readline
            import readline

            readline.parse_and_bind("set enable-bracketed-paste on")
            readline.parse_and_bind(r'"\C-@": "\C-d"')  # see `_ahead`
            readline.set_startup_hook(self._insert)
            readline.set_completer_delims("")
            readline.set_completer(self._complete)
            readline.parse_and_bind("bind ^I rl_complete" if _libedit() else "tab: complete")
            readline.set_auto_history(False)
            for line in self._history.load() if self._history is not None else ():
                readline.add_history(line)
        with suppress(AttributeError, ValueError):  # Windows lacks this signal, and only the main thread may handle it
            signal.signal(signal.SIGUSR1, self._woken)
            self._wakes = True

    def _complete(self, line: str, number: int) -> str | None:
        """Return the completion with this number, or None; readline asks for 0, 1, 2 … until there is none."""
        if number == 0:
            from foldmark.chat.completion import can_complete, complete
            from foldmark.commands import REGISTRY

            found = complete(REGISTRY, self.reader, line).candidates if self._reads == "line" else ()
            self._completed = [line[: each.first] + each.text for each in found if each.text.isprintable()]
            if not can_complete(line):
                self._completed = [f"{line}\t"]
        return self._completed[number] if number < len(self._completed) else None

    def _remember(self, line: str) -> None:
        if not line.strip():
            return
        with suppress(ImportError):
            import readline

            if readline.get_current_history_length() == 0 or line != readline.get_history_item(
                readline.get_current_history_length()
            ):
                readline.add_history(line)
                if self._history is not None:
                    self._history.add(line)

    def _wake(self, reads: str) -> None:
        main = threading.main_thread().ident
        if self._wakes and self._reads == reads and main is not None:
            signal.pthread_kill(main, signal.SIGUSR1)

    def _woken(self, *_: object) -> None:
        """Stop the main thread from reading: the signal handler of `_wake`. Raises TakenError.

        Two threads may send the signal at the same time; by the second, nothing is being read any more. A line that
        was entered a moment ago is on its way to `_read`, which would lose it: the question comes before the next line.
        This handler does not use `print`, which would fail if the main thread is inside a `print`.
        """
        if self._reads == "line" and self._edits and _releases_terminal():
            return
        reads, self._reads = self._reads, ""
        if not reads:
            return
        if reads == "line":
            self._taken = False
            if self._edits:
                import readline

                self._rest = readline.get_line_buffer().encode()
            os.write(sys.stdout.fileno(), b"\r\x1b[K")
        raise TakenError

    def _insert(self) -> None:
        """Insert at the prompt the unfinished line that was typed while an answer streamed."""
        import readline

        if self._reads != "line":
            return
        self._edits = True
        begun, self._rest = self._rest.decode(errors="replace").rstrip("\x04"), b""
        if begun:
            readline.insert_text(begun)


def _releases_terminal() -> bool:
    """Return True if line editing, which had the terminal, has released it: the line was entered."""
    import termios

    try:
        return bool(termios.tcgetattr(sys.stdin.fileno())[3] & termios.ICANON)
    except (OSError, ValueError, termios.error):  # the terminal is gone
        return False


def _libedit() -> bool:
    """Return True if lines are edited by libedit, which has no bracketed paste."""
    try:
        import readline
    except ImportError:
        return False
    return "libedit" in (readline.__doc__ or "")


@contextmanager
def _unbuffered() -> Iterator[None]:
    """Make an unfinished line of the terminal readable during the block."""
    import termios
    import tty

    try:
        before = termios.tcgetattr(sys.stdin)
    except termios.error:  # not a terminal
        yield
        return
    tty.setcbreak(sys.stdin, termios.TCSANOW)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


class ScriptedLines(Prompting):
    """Lines that are available from the start: a script runs line by line, without a person at a prompt.

    With `shown`, each line is printed after the prompt as it is read.
    """

    def __init__(self, lines: Iterable[str], *, shown: bool = False) -> None:
        self._lines, self._shown = lines, shown

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            if self._shown:
                print(f"{self.prompt}{harmless(line)}", flush=True)
            yield line

    def put_back(self, line: str) -> bool:
        """Return False: there is no prompt."""
        return False

    def notice(self, text: str) -> bool:
        """Return False: there is no prompt."""
        return False

    def answer(self, question: str) -> str:
        """Read the answer to a question from standard input. Raises EOFError."""
        return input(question)

    def take(self) -> None:
        """Do nothing: there is no prompt to take."""

    def withdraw(self) -> None:
        """Do nothing: no question can be withdrawn."""

    def ahead(self, *, begun: bool = False) -> list[str]:
        """Return no lines: each line waits until the previous one is finished."""
        return []


def piped(raw: Iterable[bytes]) -> ScriptedLines:
    """Return the lines of a pipe, shown as they are read. Lines end at LF; invalid UTF-8 becomes U+FFFD."""
    return ScriptedLines(_piped(raw), shown=True)


def _piped(raw: Iterable[bytes]) -> Iterator[str]:
    for each in raw:
        line = each.decode(errors="replace").rstrip("\r\n").removeprefix("\ufeff")
        if line.strip():
            yield line
