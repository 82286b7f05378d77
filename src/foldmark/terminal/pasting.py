"""Reading of terminal input in which a paste always stays one paste.

Textual reads an escape sequence inside a paste as keys, and a line end after it as Enter, so a pasted text could submit
itself. It also reads Alt+Enter as Enter, which would submit the text instead of beginning a new line.
"""

import sys
from collections.abc import Iterable

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.events import Paste
from textual.keys import Keys
from textual.message import Message

_CUT = len(BRACKETED_PASTE_END) - 1
"""Maximum number of characters of an incomplete end marker."""


class PasteParser(XTermParser):
    """Textual's parser, without the text of pastes."""

    _pasted: list[str] | None = None
    _tail = ""

    def feed(self, data: str) -> Iterable[Message]:
        """Yield the messages for a piece of input. A paste becomes one message once its end has arrived."""
        while True:
            if self._pasted is None:
                keys, begin, data = data.partition(BRACKETED_PASTE_START)
                if keys or not begin:
                    yield from super().feed(keys)
                if not begin:
                    return
                self._pasted = []
            text, end, rest = (self._tail + data).partition(BRACKETED_PASTE_END)
            if not end:
                self._pasted.append(text[:-_CUT])
                self._tail = text[-_CUT:]
                return
            yield Paste("".join((*self._pasted, text)).replace("\x00", ""))
            self._pasted, self._tail, data = None, "", rest
            if not data:
                return


def install() -> None:
    """Make all applications read their terminal with this parser."""
    assert isinstance(ANSI_SEQUENCES_KEYS, dict)
    ANSI_SEQUENCES_KEYS["\x1b\r"] = (Keys.ControlJ,)
    if sys.platform != "win32":
        from textual.drivers import linux_driver

        linux_driver.XTermParser = PasteParser  # type: ignore[attr-defined]
