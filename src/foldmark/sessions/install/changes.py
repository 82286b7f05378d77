"""Change a file or run Claude Code, as a step of an installation [SPEC 8: settings are other people's work]."""

import os
import shlex
import stat
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import one_line
from foldmark.sessions.install.locations import exists
from foldmark.sessions.new_file import replaced_file

CLIENT = "claude"
"""The name of the client's program on the PATH."""

_PATIENCE = 120
"""Maximum seconds that a command of Claude Code may take; it takes about one."""

_FAILED, _MAX_WORDS = "✘ ", 400


class InstallError(FoldmarkError):
    """An installation or a removal is not possible; nothing was changed."""


class MidwayError(FoldmarkError):
    """A step of an installation failed after it had begun."""


class FileChange(Struct, frozen=True):
    """A file with its content `before` and `after` a change (None: no file), and its `mode`.

    `file` is its name for the person, `real` its path behind links.
    """

    file: Path
    real: Path
    before: bytes | None
    after: bytes | None
    mode: int

    @property
    def action(self) -> str:
        """What is done to the file: unchanged, created, changed or deleted."""
        if self.before == self.after:
            return "unchanged"
        return "deleted" if self.after is None else "created" if self.before is None else "changed"

    def make(self) -> None:
        """Change the file. Raises OSError, or FoldmarkError, for example if its content is not `before`."""
        if (self.real.read_bytes() if self.real.exists() else None) != self.before:
            raise MidwayError(f"{_name(self.file)} was changed by another program just now")
        if self.after is None:
            self.real.unlink()
            return
        self.real.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(self.real, self.mode) as file:
            file.write(self.after)


class ClientCommand(Struct, frozen=True):
    """A command of Claude Code: the client's path, and the arguments."""

    program: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        """Return the command as a person types it."""
        return shlex.join((CLIENT, *self.words))

    def run(self, environment: Mapping[str, str], accepted: str | None = None) -> None:
        """Run the command. Raises OSError, or MidwayError with the client's own words, unless `accepted` is in them."""
        words = [self.program, *self.words]
        try:
            ran = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                timeout=_PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise MidwayError(f"`{self}` did not end within {_PATIENCE} seconds") from None
        said = one_line(ran.stdout.decode("utf-8", "replace").rpartition(_FAILED)[2].strip())
        if ran.returncode and (accepted is None or accepted not in said):
            raise MidwayError(f"`{self}` failed: {said[:_MAX_WORDS] or f'exit code {ran.returncode}'}")


def look(file: Path, mode: int, inside: Path | None = None) -> FileChange:
    """Return a file as it is, with the same content before and after. `mode` is for a new file.

    Raises InstallError unless it is a regular file that this user may change, and for a link that leads out of the
    folder `inside`.
    """
    real = Path(os.path.realpath(file))
    if inside is not None and not real.is_relative_to(os.path.realpath(inside)):
        raise InstallError(f"{_name(file)} leads out of the project, to {_name(real)}")
    try:
        status = real.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise InstallError(f"{_name(file)} is {kind}")
        content, mode = real.read_bytes(), stat.S_IMODE(status.st_mode)
    except FileNotFoundError:
        if file.is_symlink():
            raise InstallError(f"{_name(file)} is a link to nothing") from None
        content = None
    except OSError as error:
        raise InstallError(f"{_name(file)} cannot be read: {error.strerror or error}") from None
    return FileChange(file, real, content, content, mode)


def refuse_protected(changes: Iterable[FileChange]) -> None:
    """Raise InstallError if this user may not carry out one of the changes."""
    for change in changes:
        folder = next(folder for folder in change.real.parents if exists(folder))
        if not folder.is_dir():
            raise InstallError(f"{_name(folder)} is not a folder")
        for path in (change.real, folder) if change.before is not None else (folder,):
            if not os.access(path, os.W_OK):
                raise InstallError(f"{_name(path)} is write-protected")


def _name(path: object) -> str:
    return one_line(str(path))
