"""Writing to a terminal that may be gone."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from textual.drivers._writer_thread import WriterThread


class TerminalWriter(WriterThread):
    """Textual's writer, which goes on once its terminal is gone. Textual's own ends then, and the application waits for
    it forever: it outlives the window in which it ran, and never records what had streamed."""

    def run(self) -> None:
        """Write until the end; what cannot be written is dropped."""
        while (text := self._queue.get()) is not None:
            with self._without_the_terminal():
                self._file.write(text)
                if self._queue.empty():
                    self._file.flush()
        with self._without_the_terminal():
            self._file.flush()

    @contextmanager
    def _without_the_terminal(self) -> Iterator[None]:
        """Write to nowhere from the first error on: what is still buffered would fail again, last at the very end of
        the program, whose exit code then says nothing of why it ended."""
        try:
            yield
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._file.fileno())
            os.close(nowhere)


def install() -> None:
    """Make all applications write to their terminal with this writer."""
    if sys.platform == "win32":
        from textual.drivers import windows_driver as driver
    else:
        from textual.drivers import linux_driver as driver
    driver.WriterThread = TerminalWriter  # type: ignore[attr-defined]
