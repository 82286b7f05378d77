"""Detect that the terminal has hung up."""

import select
from collections.abc import Callable
from threading import Thread


def on_hangup(end: Callable[[], object]) -> None:
    """Call `end` in a thread of its own when the terminal of the standard input hangs up.

    A program that was started with SIGHUP ignored, as by nohup, gets no signal then, and Textual reads the end of its
    input again and again.
    """
    poll = select.poll()
    poll.register(0, 0)  # POLLHUP is always reported

    def wait() -> None:
        if any(event & select.POLLHUP for _, event in poll.poll()):
            end()

    Thread(target=wait, name="foldmark-hangup", daemon=True).start()
