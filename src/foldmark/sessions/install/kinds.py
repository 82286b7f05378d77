"""What every part of an installation has in common: something of ours in a file that may be somebody else's."""

import shlex
from pathlib import Path, PurePath
from typing import NamedTuple, Protocol

from msgspec import Struct

PLAIN = "foldmark"
"""The program by its bare name, found on the PATH: for what goes into version control."""


class Edited(NamedTuple):
    """What becomes of a file's text (None: no file), and what a person should know about it.

    `kept` says that something of somebody else's stands where ours would go. `replaced` is the JSON of a status line
    that gave way to ours.
    """

    text: str | None
    notes: tuple[str, ...] = ()
    kept: bool = False
    replaced: str | None = None


class FileKind(Protocol):
    """How ours gets into one kind of file, and out of it."""

    def put_in(self, text: str | None, ours: bool) -> Edited:
        """The text with ours in it; `ours`: the file is as an installation left it. Raises NotMergeableError."""

    def take_out(self, text: str, replaced: str | None) -> Edited:
        """The text without ours; `replaced`: what ours replaced, as `put_in` told. Raises NotMergeableError."""


class InstallPart(Struct, frozen=True):
    """One file of an installation: its name in the record, where it is, and what is done to it; `mode` if it is new."""

    name: str
    path: Path
    kind: FileKind
    mode: int = 0o644


def shell(program: str) -> str:
    """A program's path as a word of a shell command. Backward slashes would mean something else there."""
    return shlex.quote(PurePath(program).as_posix() if "\\" in program else program)


def runs(command: object, what: str) -> bool:
    """Whether a shell command is Foldmark's own `what` ("hook", "statusline"), wherever Foldmark was installed."""
    if not isinstance(command, str):
        return False
    for posix in (True, False):  # with backward slashes the second reads the path as it is
        try:
            words = shlex.split(command, posix=posix)
        except ValueError:  # quotes that do not end
            return False
        if len(words) > 1 and is_foldmark(words[0]) and words[1] == what:
            return True
    return False


def is_foldmark(program: object) -> bool:
    """Whether this is the path of a `foldmark` script."""
    if not isinstance(program, str):
        return False
    name = program.strip("'\"").replace("\\", "/").rpartition("/")[2]
    return name.lower() in ("foldmark", "foldmark.exe")
