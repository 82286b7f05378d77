"""What the terminal of these tests shows."""

import os
import sys

from terminal import Terminal

PROGRAM = r"""
import sys, time, tty
tty.setraw(1)
for part in sys.argv[1].encode().decode("unicode_escape").encode("latin-1").split(b"|"):
    sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()
    time.sleep(0.02)
"""


def test_what_nobody_sees_is_not_shown_wherever_the_output_was_cut() -> None:
    output = r"one\x1b[?20|04l|\r\r|\ntwo\n|\x1b[?2004h|\r\x1b|[K\x1b[K> \rthree\n\n\r|> end"
    with Terminal(sys.executable, "-c", PROGRAM, output, env=os.environ) as screen:
        assert screen.until("> end") == screen.screen == "one\ntwo\n> \rthree\n\n> end"
        assert screen.end() == 0
