"""Run the matcher: files are opened here, and their bytes are handed to a process of its own.

`matcher.py` runs in that process, so that a model's search can be ended: after its time, or with the turn.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from subprocess import DEVNULL, PIPE, Popen
from threading import Event, Thread, Timer
from typing import Any, BinaryIO, NamedTuple

from foldmark.core.errors import CommandError
from foldmark.sending.interruption import CURRENT
from foldmark.tools.working import matcher, opening
from foldmark.tools.working.kinds import binary
from foldmark.tools.working.paths import secret, shown
from foldmark.tools.working.walking import Pattern, Walk

MOST_FILE = 16 << 20
"""Maximum bytes of a file that is searched."""


class MatcherInput:
    """The files to search, opened one after another; their number, and those that were passed over."""

    def __init__(self, real: str, folder: str, glob: Pattern | None, walk: Walk) -> None:
        self.searched, self.secret, self.large, self.walk = 0, 0, 0, walk
        self._real, self._folder, self._glob = real, folder, glob

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Yield names, in a form that a model can use, and contents. Raises OSError if there is nothing at the path,
        CommandError if that is neither file nor folder, or too large."""
        try:
            for level in self.walk:
                for entry in level.entries:
                    path = str(PurePath(level.folder.path, entry.name))
                    fits = self._glob is None or self._glob.fits((*level.below, entry.name))
                    if fits and entry.is_file(follow_symlinks=False):
                        if secret(path):
                            self.secret += 1
                            continue
                        with suppress(OSError, CommandError), level.folder.open(entry.name) as file:
                            if (text := self._text(file)) is not None:
                                yield shown(path, self._folder), text
        except NotADirectoryError:
            yield self._one()

    def _one(self) -> tuple[str, bytes]:
        """Return the file at the path."""
        name = shown(self._real, self._folder)
        with opening.opened_file(self._real) as file:
            text = self._text(file)
        if text is None:
            why = f"is larger than {MOST_FILE >> 20} MB" if self.large else "is no text"
            raise CommandError(f"{name} {why}; a program can look into it, with bash")
        return name, text

    def _text(self, file: BinaryIO) -> bytes | None:
        """Return the bytes of a file, None for one that is passed over."""
        text = file.read(8192)
        if binary(text):
            return None
        text += file.read(MOST_FILE + 1 - len(text))
        if len(text) > MOST_FILE:
            self.large += 1
            return None
        self.searched += 1
        return text


class MatcherOutput(NamedTuple):
    """The matcher's output: lines, the error of the pattern, whether it reached its limits."""

    lines: list[tuple[str, int, bool, str]]
    wrong: list[str]
    full: list[bool]

    def take(self, source: BinaryIO) -> None:
        """Read to the end, in a thread of its own."""
        for line in source:
            with suppress(ValueError):  # it was ended in the middle of a line
                match json.loads(line):
                    case {"wrong": wrong}:
                        self.wrong.append(wrong)
                    case {"full": full}:
                        self.full.append(full)
                    case [name, number, fits, text]:
                        self.lines.append((name, number, fits, text))


def search(
    files: MatcherInput, asked: Mapping[str, Any], found: MatcherOutput, seconds: float, cut: Event, late: Event
) -> bool:
    """Hand the files to a matcher, until it has enough or the time is over; return True if it ended abnormally.

    `asked` is the first line that it reads. `cut` is set when the turn is interrupted, `late` when the time is over.
    Raises as `MatcherInput`.
    """
    try:
        # Not in the terminal's process group: a Ctrl-C there interrupts the turn, which ends it.
        process = Popen(
            [sys.executable or "", "-I", "-S", "-B", "-W", "ignore", str(Path(matcher.__file__))],
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise CommandError(f"no process can be started to search in ({error}); read_file reads") from None
    assert process.stdin is not None
    assert process.stdout is not None
    reader, timer = Thread(target=found.take, args=(process.stdout,)), Timer(seconds, _end, (process, late))
    timer.daemon = True
    try:
        with CURRENT.get().ended_by(lambda: _end(process, cut)):
            reader.start()
            timer.start()
            with suppress(BrokenPipeError), process.stdin:
                _send(process.stdin, asked, files)
            reader.join()
            return process.wait() != 0
    finally:
        timer.cancel()
        process.kill()
        reader.join()
        process.stdout.close()
        process.wait()


def _send(matcher: Any, asked: Mapping[str, Any], files: MatcherInput) -> None:
    matcher.write(json.dumps(asked).encode() + b"\n")
    for name, text in files:
        matcher.write(json.dumps([name, len(text)]).encode() + b"\n")
        matcher.write(text)


def _end(process: "Popen[bytes]", why: Event) -> None:
    why.set()
    process.kill()
