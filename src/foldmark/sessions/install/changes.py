"""Several files changed together: all of them, or after an error none [SPEC 8: settings are other people's work]."""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import one_line
from foldmark.sessions.install.where import exists
from foldmark.sessions.new_file import new_file, replaced_file

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class InstallError(FoldmarkError):
    """Something is in the way of an installation or its removal; no file was changed, unless it says so."""


class FoundFile(Struct, frozen=True):
    """A file as it was found: where it really is, behind links; its content (None: there is none); its mode."""

    real: Path
    content: bytes | None
    mode: int


class FileChange(Struct, frozen=True):
    """The file `real` becomes `after` (None: it is deleted); it is called `file` when a person is told of it."""

    file: Path
    real: Path
    before: bytes | None
    after: bytes | None
    mode: int

    def make(self) -> None:
        """Raises OSError, FoldmarkError; also if the file is not as it was found."""
        if _content(self.real) != self.before:
            raise InstallError(f"{_name(self.file)} was changed by somebody else just now")
        if self.after is None:
            self.real.unlink()
            return
        with (new_file if self.before is None else replaced_file)(self.real, self.mode) as file:
            file.write(self.after)
            file.flush()
            os.fsync(file.fileno())

    def take_back(self) -> None:
        """Raises as `make` does."""
        FileChange(self.file, self.real, self.after, self.before, self.mode).make()


class NewFolder(Struct, frozen=True):
    """A folder that is made."""

    file: Path

    def make(self) -> None:
        """Raises OSError."""
        self.file.mkdir()

    def take_back(self) -> None:
        """Unless somebody has put something in."""
        with suppress(OSError):
            self.file.rmdir()


class OldFolder(Struct, frozen=True):
    """A folder that is removed if it is empty."""

    file: Path

    def make(self) -> None:
        """Never raises: what somebody has put in stays."""
        with suppress(OSError):
            self.file.rmdir()

    def take_back(self) -> None:
        """Raises OSError."""
        self.file.mkdir(exist_ok=True)


InstallStep = FileChange | NewFolder | OldFolder


def look(file: Path, mode: int, inside: Path | None = None) -> FoundFile:
    """A file that is to be changed; `mode` is what a new one gets. Raises InstallError for all but a regular file that
    this user may change, and for a link that leads out of the folder `inside`."""
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
        return FoundFile(real, None, mode)
    except OSError as error:
        raise InstallError(f"cannot read {_name(file)}: {error.strerror or error}; nothing was changed") from None
    if not os.access(real, os.W_OK):
        raise InstallError(f"{_name(file)} is write-protected; nothing was changed")
    return FoundFile(real, content, stat.S_IMODE(status.st_mode))


def carry_out(steps: Sequence[InstallStep]) -> None:
    """Make all of the steps, in order. Raises InstallError, and then all is as it was before."""
    lost: list[Path] = []
    try:
        with ExitStack() as undo:
            for step in steps:
                step.make()
                undo.callback(_take_back, step, lost)
            undo.pop_all()
    except (OSError, FoldmarkError) as error:
        told = f"{error.strerror}: {_name(error.filename)}" if isinstance(error, OSError) else str(error)
        after = f"{', '.join(map(_name, lost))} could not be put back" if lost else "nothing was changed"
        raise InstallError(f"{told}; {after}") from None


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """While the block runs no other installation runs that shares this folder. Raises InstallError if one does."""
    while not exists(folder) and folder != folder.parent:
        folder = folder.parent
    with ExitStack() as held:
        if fcntl is not None:
            try:
                descriptor = os.open(folder, os.O_RDONLY)
                held.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InstallError("another installation is at work; try again when it is done") from None
            except OSError:  # a file system that has no locks, a folder that may not be read
                pass
        yield


def _take_back(step: InstallStep, lost: list[Path]) -> None:
    try:
        step.take_back()
    except (OSError, FoldmarkError):
        lost.append(step.file)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _name(path: object) -> str:
    return one_line(str(path))
