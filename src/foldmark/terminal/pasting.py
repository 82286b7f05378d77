"""Reading of terminal input in which a paste always stays one paste.

Textual reads an escape sequence inside a paste as keys, and a line end after it as Enter, so a pasted text could submit
itself. It also reads Alt+Enter as Enter, which would submit the text instead of beginning a new line. Esc and a letter
that is typed soon after it are Alt and that letter to it, so that both are lost.
"""

import sys
from collections.abc import Iterable

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.events import Paste
from textual.keys import Keys
from textual.message import Message

_SEQUENCE = frozenset("[O")
"""Characters behind Esc in the sequences of keys, which may arrive in two parts."""

_CUT = len(BRACKETED_PASTE_END) - 1
"""Maximum number of characters of an incomplete end marker."""


class PasteParser(XTermParser):
    """Textual's parser, without the text of pastes."""

    _pasted: list[str] | None = None
    _tail = ""
    _escaped = False

    def feed(self, data: str) -> Iterable[Message]:
        """Yield the messages for a piece of input. A paste becomes one message once its end has arrived. Alt and a key
        arrive in one piece, so what arrives after Esc was typed after it."""
        if self._escaped and self._timeout_time is not None and data[:1] not in _SEQUENCE:
            self._timeout_time = 0.0
            yield from self.tick()
        self._escaped = data.endswith("\x1b") and self._pasted is None
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
