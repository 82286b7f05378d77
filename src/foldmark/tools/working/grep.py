"""`grep`: lines that match a regular expression, in a file or in all files below a folder [SPEC 4.1].

Files are opened here. Their bytes go to `matcher.py`, which runs in its own process: a model's expression can take
hours or all memory, and only the end of the process stops it. RE2 could search in this process, but it has no
lookarounds, knows only ASCII in `\\w` and `\\b`, and its worst expressions need a minute for a line of 1 MB, which
cannot be interrupted.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePath
from subprocess import DEVNULL, PIPE, Popen
from threading import Event, Thread, Timer
from typing import IO, Annotated, BinaryIO

from msgspec import Meta, Struct, structs

from foldmark.core.errors import CommandError
from foldmark.core.wording import count, remarks
from foldmark.log import Agent
from foldmark.operations.effects import Asking
from foldmark.sending.interruption import CURRENT
from foldmark.tools.tool import Tool, about
from foldmark.tools.working import matcher
from foldmark.tools.working.files import Pattern, Walk
from foldmark.tools.working.paths import (
    agreed_path,
    binary_kind,
    errors_explained,
    may_hold_secrets,
    opened_file,
    readable,
    working_folder,
)

SECONDS = 10.0
"""Maximum seconds of a search."""
MOST_CHARACTERS = 256 * 1024
"""Maximum characters of one answer."""
MOST_FILE = 16 << 20
"""Maximum bytes of a file that is searched."""


class GrepArguments(Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(min_length=1, max_length=10_000, description="The regular expression")]
    path: Annotated[str, about("A file or folder, the working folder if left out")] = "."
    glob: (
        Annotated[str, Meta(min_length=1, max_length=1000, description="Which files: *.py, src/**/*.{ts,tsx}")] | None
    ) = None
    ignore_case: bool = False
    context: Annotated[int, Meta(ge=0, le=20, description="Lines to show around each match, 0 to 20")] = 0
    limit: Annotated[int, Meta(ge=1, le=1000, description="Matches shown, 100 if left out")] = 100


def _run(agent: Agent, arguments: GrepArguments, asking: Asking) -> str:
    glob = Pattern(arguments.glob, anywhere=True) if arguments.glob else None
    real, folder = agreed_path(agent, "grep", "search", arguments.path, asking), working_folder(agent.log)
    search = _Search(arguments, real, folder, glob)
    with errors_explained(real, folder):
        failed = search.run()
    if search.cut.is_set():
        raise CommandError("the turn was interrupted")
    if search.wrong:
        raise CommandError(f"the pattern is not a regular expression that can be searched for: {search.wrong[:200]}")
    if failed and not search.late.is_set():
        raise CommandError("the search failed, perhaps for lack of memory; try a simpler pattern, or fewer files")
    return "\n".join([*_shown(search.lines, arguments.context), *remarks(search.notes())])


class _Search:
    """One search: its files, opened one after another, the matcher's answers, and the number of skipped files."""

    def __init__(self, arguments: GrepArguments, real: str, folder: str, glob: Pattern | None) -> None:
        self._arguments, self._real, self._folder, self._glob = arguments, real, folder, glob
        self.cut, self.late = Event(), Event()
        self._walk = Walk(real, lambda: self.cut.is_set() or self.late.is_set(), glob.deepest if glob else None)
        self._searched = self._secret = self._large = 0
        self.lines: list[tuple[str, int, bool, str]] = []
        self.wrong, self._full = "", False

    def run(self) -> bool:
        """Hand the files to a matcher until it has enough or the time is up; return True if it ended abnormally.

        Raises OSError if there is nothing at the path, CommandError if that is neither file nor folder, or too large.
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

        def end(why: Event) -> None:
            why.set()
            process.kill()

        reader, timer = Thread(target=self._receive, args=(process.stdout,)), Timer(SECONDS, end, (self.late,))
        timer.daemon = True
        try:
            with CURRENT.get().ended_by(lambda: end(self.cut)):
                reader.start()
                timer.start()
                with suppress(BrokenPipeError), process.stdin as source:
                    self._send(source)
                reader.join()
                return process.wait() != 0
        finally:
            timer.cancel()
            process.kill()
            reader.join()
            process.stdout.close()
            process.wait()

    def notes(self) -> list[str]:
        """Return remarks about everything that was not shown or not searched."""
        found = [] if self.lines else [f"no match in {count(self._searched, 'file')}"]
        if self._full:
            found.append("there may be more; use a narrower pattern, path or glob, or a higher limit")
        elif self.late.is_set():
            found.append(f"the search was ended after {SECONDS:g} seconds; use a simpler pattern or a narrower path")
        elif not self._walk.complete:
            found.append("there is too much to search everything; use a narrower path or glob")
        if self._secret:
            found.append(f"{count(self._secret, 'file')} that may hold secrets not searched")
        if self._large:
            found.append(f"{count(self._large, 'file')} of more than {MOST_FILE >> 20} MB not searched")
        if self._walk.skipped and not self.lines:
            found.append(f"skipped: {', '.join(sorted(self._walk.skipped))}")
        return found

    def _send(self, source: IO[bytes]) -> None:
        limits = {**structs.asdict(self._arguments), "most": MOST_CHARACTERS}
        source.write(json.dumps(limits).encode() + b"\n")
        for name, text in self._files():
            source.write(json.dumps([name, len(text)]).encode() + b"\n")
            source.write(text)

    def _receive(self, answers: IO[bytes]) -> None:
        """Read all answers of the matcher; runs in its own thread."""
        for line in answers:
            with suppress(ValueError):  # the process was killed while it wrote a line
                match json.loads(line):
                    case {"wrong": wrong}:
                        self.wrong = wrong
                    case {"full": _}:
                        self._full = True
                    case [name, number, fits, text]:
                        self.lines.append((name, number, fits, text))

    def _files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name of each file, readable for a model, with its content."""
        try:
            for level in self._walk:
                for entry in level.entries:
                    path = str(PurePath(level.folder.path, entry.name))
                    fits = self._glob is None or self._glob.fits((*level.below, entry.name))
                    if fits and entry.is_file(follow_symlinks=False):
                        if may_hold_secrets(path):
                            self._secret += 1
                            continue
                        with suppress(OSError, CommandError), level.folder.open(entry.name) as file:
                            if (text := self._text(file)) is not None:
                                yield readable(path, self._folder), text
        except NotADirectoryError:
            name = readable(self._real, self._folder)
            with opened_file(self._real) as file:
                text = self._text(file)
            if text is None:
                why = f"is larger than {MOST_FILE >> 20} MB" if self._large else "is not text"
                raise CommandError(f"{name} {why}; bash can run a program that reads it") from None
            yield name, text

    def _text(self, file: BinaryIO) -> bytes | None:
        """Return the bytes of a file; None if the file is not searched."""
        text = file.read(8192)
        if binary_kind(text):
            return None
        text += file.read(MOST_FILE + 1 - len(text))
        if len(text) > MOST_FILE:
            self._large += 1
            return None
        self._searched += 1
        return text


def _shown(lines: list[tuple[str, int, bool, str]], context: int) -> Iterator[str]:
    """Yield lines in grep's format: `path:12:text`, context lines `path-11-text`, `--` between groups."""
    before: tuple[str, int] | None = None
    for name, number, fits, text in lines:
        if context and before not in (None, (name, number - 1)):
            yield "--"
        mark = ":" if fits else "-"
        yield f"{name}{mark}{number}{mark}{text}".replace("\0", "\ufffd")
        before = name, number


GREP = Tool.of(
    "grep",
    "Search files for a regular expression (Python's), line by line. Answers path:line:text. Passes over binary files, "
    ".git, node_modules and the like. Outside of the working folder the person is asked first.",
    GrepArguments,
    _run,
    together=True,
)
