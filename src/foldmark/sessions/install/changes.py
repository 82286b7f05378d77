"""Change several files together: all of them, or none after an error [SPEC 8: settings are other people's work]."""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import one_line
from foldmark.sessions.file_lock import locked
from foldmark.sessions.install.locations import exists
from foldmark.sessions.new_file import new_file, replaced_file


class InstallError(FoldmarkError):
    """An installation or a removal is not possible. No file was changed, unless the text says so."""


class FileChange(Struct, frozen=True):
    """A file with its content `before` and `after` a change (None: no file), and its `mode`.

    `file` is its name for the person, `real` its path behind links.
    """

    file: Path
    real: Path
    before: bytes | None
    after: bytes | None
    mode: int

    def to(self, after: bytes | None) -> "FileChange":
        """Return the change of this file to another content."""
        return replace(self, after=after)

    def make(self) -> None:
        """Change the file. Raises OSError, or FoldmarkError, for example if its content is not `before`."""
        try:
            content = self.real.read_bytes()
        except FileNotFoundError:
            content = None
        if content != self.before:
            raise InstallError(f"{_name(self.file)} was changed by somebody else just now")
        if self.after is None:
            self.real.unlink()
            return
        with (new_file if self.before is None else replaced_file)(self.real, self.mode) as file:
            file.write(self.after)
            file.flush()
            os.fsync(file.fileno())

    @property
    def inverse(self) -> "FileChange":
        """The change that undoes this one."""
        return replace(self, before=self.after, after=self.before)


class FolderChange(Struct, frozen=True):
    """A folder to make, or with `removed` to remove if it is empty."""

    file: Path
    removed: bool = False

    def make(self) -> None:
        """Make or remove the folder. Raises OSError if it cannot be made."""
        if not self.removed:
            self.file.mkdir(exist_ok=True)
            return
        with suppress(OSError):  # it is not empty: another program uses it
            self.file.rmdir()

    @property
    def inverse(self) -> "FolderChange":
        """The change that undoes this one."""
        return FolderChange(self.file, not self.removed)


InstallStep = FileChange | FolderChange


def look(file: Path, mode: int, inside: Path | None = None) -> FileChange:
    """Return a file as it is, with the same content before and after. `mode` is for a new file.

    Raises InstallError unless it is a regular file that this user may change, and for a link that leads out of the
    folder `inside`.
    """
    real = Path(os.path.realpath(file))
    if inside is not None and not real.is_relative_to(os.path.realpath(inside)):
        raise InstallError(f"{_name(file)} leads out of the project, to {_name(real)}; nothing was changed")
    try:
        status = real.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise InstallError(f"{_name(file)} is {kind}; nothing was changed")
        content = real.read_bytes()
    except FileNotFoundError:
        return FileChange(file, real, None, None, mode)
    except OSError as error:
        raise InstallError(f"cannot read {_name(file)}: {error.strerror or error}; nothing was changed") from None
    if not os.access(real, os.W_OK):
        raise InstallError(f"{_name(file)} is write-protected; nothing was changed")
    return FileChange(file, real, content, content, stat.S_IMODE(status.st_mode))


def carry_out(steps: Sequence[InstallStep]) -> None:
    """Carry out all steps, in order. After an error or an interruption, undo them. Raises InstallError."""
    lost: list[Path] = []
    try:
        with ExitStack() as undo:
            for step in steps:
                step.make()
                undo.callback(_undo, step, lost)
            undo.pop_all()
    except (OSError, FoldmarkError) as error:
        why = f"{error.strerror}: {_name(error.filename)}" if isinstance(error, OSError) else str(error)
        after = f"{', '.join(map(_name, lost))} could not be put back" if lost else "nothing was changed"
        raise InstallError(f"{why}; {after}") from None


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other installations out of a folder during the block. Raises InstallError if another one is running."""
    while not exists(folder) and folder != folder.parent:
        folder = folder.parent
    with ExitStack() as stack:
        with suppress(OSError):  # an unreadable folder, or any folder on Windows
            descriptor = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            if not locked(descriptor):
                raise InstallError("another installation is at work; try again when it is done")
        yield


def _undo(step: InstallStep, lost: list[Path]) -> None:
    try:
        step.inverse.make()
    except (OSError, FoldmarkError):
        lost.append(step.file)


def _name(path: object) -> str:
    return one_line(str(path))
