"""Where a chat's lines come from: a person at a terminal, or a pipe."""

import os
import re
import select
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress

from foldmark.interfaces.render import harmless

PROMPT = "> "


def prompt(asked: str) -> str:
    """The prompt, behind the question that waits for an answer."""
    return f"{asked} {PROMPT}" if asked else PROMPT


class Typed:
    """Lines that a person types, with line editing; Ctrl-C clears the line, Ctrl-D ends.

    `asked` is a question that stands in front of the prompt.
    """

    def __init__(self) -> None:
        self._at_prompt = self._ended = False
        self._rest = b""
        self.asked = ""

    def __iter__(self) -> Iterator[str]:
        with suppress(ImportError):  # Windows has no readline
            import readline

            readline.parse_and_bind("set enable-bracketed-paste on")
            readline.set_startup_hook(self._insert)
        while not self._ended:
            self._at_prompt = True
            try:
                line = input(prompt(self.asked))
            except KeyboardInterrupt:
                print("\n(Ctrl-D or /exit leaves)")
                continue
            except EOFError:
                print()
                return
            finally:
                self._at_prompt = False
            yield line

    def notice(self, text: str) -> bool:
        """Print a line above the prompt, if that is where the person is; from any thread."""
        if not self._at_prompt:
            return False
        begun = ""
        with suppress(ImportError):
            import readline

            begun = readline.get_line_buffer()
        print(f"\r\x1b[K{text}\n{prompt(self.asked)}{begun}", end="", flush=True)
        return True

    def ahead(self) -> list[str]:
        """The whole lines that were typed while nobody was at the prompt."""
        if os.name == "nt" or not select.select([sys.stdin], [], [], 0)[0]:
            return []
        try:
            read = os.read(sys.stdin.fileno(), 65536)
        except OSError:  # the terminal went away
            read = b""
        self._ended = not read or read.endswith(b"\x04")
        # What was typed before line editing let go of the terminal ends in CR.
        *lines, self._rest = re.split(rb"[\r\n]", (self._rest + read).replace(b"\r\n", b"\n"))
        return [line.decode(errors="replace") for line in lines]

    def _insert(self) -> None:
        """Put the line that was begun while an answer streamed behind the prompt."""
        import readline

        begun, self._rest = self._rest.decode(errors="replace").rstrip("\x04"), b""
        if begun:
            readline.insert_text(begun)


class Lines:
    """Lines that are there already: a script is carried out line by line, and nobody is at a prompt.

    With `shown` each is printed behind the prompt as it is read.
    """

    def __init__(self, lines: Iterable[str], *, shown: bool = False) -> None:
        self._lines, self._shown = lines, shown
        self.asked = ""

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            if self._shown:
                print(f"{prompt(self.asked)}{harmless(line)}", flush=True)
            yield line

    def notice(self, text: str) -> bool:
        """Nobody is at a prompt."""
        return False

    def ahead(self) -> list[str]:
        """Each line waits until the one before is done with."""
        return []


def piped(raw: Iterable[bytes]) -> Lines:
    """Lines of a pipe, shown as they are read. They end at LF; what is not UTF-8 becomes U+FFFD."""
    return Lines(_piped(raw), shown=True)


def _piped(raw: Iterable[bytes]) -> Iterator[str]:
    for each in raw:
        line = each.decode(errors="replace").rstrip("\r\n").removeprefix("\ufeff")
        if line.strip():
            yield line
