"""Read session files: JSON Lines, valid or not [SPEC 8].

A session is read as bytes and split only at line feeds, so no text inside a record can end a line. Every line is a
record, broken, or blank, and a bad line does not affect others. Memory is bounded by the longest line.
"""

import codecs
import io
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any, Self

from msgspec import Struct

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import one_line
from foldmark.formats.backwards import lines_backwards
from foldmark.formats.plugins import open_transcript
from foldmark.wires.lenient_json import NotJsonError, decode

MAX_LINE = 256 << 20
"""Maximum bytes of a line, including its line feed. A longer line is skipped and reported as broken."""

NO_TYPE = "(no type)"
NOT_AN_OBJECT = "(not an object)"

_PIECE = 1 << 20
_BUFFER = 1 << 16  # a search reads a few lines of a file, and every seek fills the buffer
_MAX_TYPE = 100
_UTF8_BOM = codecs.BOM_UTF8
_WIDE_BOMS = (  # UTF-32's little-endian mark begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class SessionFileError(FoldmarkError):
    """A file cannot be read as a session: it is missing, not a file, not permitted, or has no record; or another file
    that holds a part of the session is missing or has changed."""


class SessionRecord(Struct, frozen=True):
    """A line that is JSON.

    `line` counts from 1, including blank and broken lines. `offset` is the byte where it begins (see
    `SessionFile.reread`). `type` is the record's type for counting, cut after 100 characters: `NO_TYPE` for an object
    whose type is missing or not text, `NOT_AN_OBJECT` for another JSON value. `value` is the value of the line.
    """

    line: int
    offset: int
    type: str
    value: Any


class Broken(Struct, frozen=True):
    """A line that is not JSON, with a one-line reason."""

    line: int
    reason: str


class Piece(Struct, frozen=True):
    """A part of a file that belongs to a session: the whole lines from byte `start` to byte `end` (None: to the end of
    the file). The first of them is line `number` of the file."""

    path: Path
    start: int = 0
    end: int | None = None
    number: int = 1


class SessionFile:
    """An open session file, and a context manager. Its methods raise SessionFileError for errors of the file.

    Lines appended after opening are not read, so every pass sees the same lines. UTF-16 and UTF-32 with a byte order
    mark are read through a temporary copy in UTF-8. Then `wide` is True, and `size` (in bytes) and offsets refer to
    the copy.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._reading = _FileErrors(self.path)
        self.line_count = 0
        self.whole = (0, 0)
        self._at = -1
        """Where the file is, if that is known."""
        self._newest: tuple[tuple[int, int, int], SessionRecord | Broken | None] = ((0, 0, 0), None)
        with self._reading:
            self.kind: str | None = None
            self._file: IO[bytes]
            if kept := open_transcript(self.path):
                self.kind, self._file = kept
            else:
                _check_regular(self.path)
                self._file = self.path.open("rb", buffering=_BUFFER)
            try:
                own = self._file
                self._file = _as_utf8(own)
                self.wide = self._file is not own
                self.size = self._file.seek(0, os.SEEK_END)
            except BaseException:
                self._file.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def label(self) -> str:
        """The path as one line, for messages."""
        return one_line(str(self.path))

    @property
    def ended(self) -> bool:
        """True if the file ends with a line end, or is empty."""
        return not self.size or self.raw(self.size - 1) == b"\n"

    def lines(self, number: int = 0, offset: int = 0) -> Iterator[SessionRecord | Broken]:
        """Yield every line that is not blank, in order. Afterwards, `line_count` is the total number of lines.

        `whole` is the number of lines before the current one, and its offset. At the end it is the number of lines that
        have a line end, and the offset after the last of them. A later pass can continue there.
        """
        self.whole = (number, offset)
        while offset < self.size:
            self.whole = (number, offset)
            line = self.raw(offset)
            length = len(line)
            if length > MAX_LINE:
                with self._reading:
                    length += self._skip(line, offset)
            if not line:
                break
            number += 1
            if length > MAX_LINE:
                yield Broken(number, f"longer than {MAX_LINE >> 20} MiB")
            elif found := self._parsed(line, number, offset):
                yield found
            offset += length
            if line.endswith(b"\n"):
                self.whole = (number, offset)
        self.line_count = number

    def records(self, most: int | None = None) -> Iterator[SessionRecord]:
        """Yield the records among the first `most` non-blank lines (None: all)."""
        return (found for found in islice(self.lines(), most) if isinstance(found, SessionRecord))

    def backwards(self, most: int) -> Iterator[Any]:
        """Yield the values of the JSON lines in the last `most` bytes of the file, the last one first."""
        for line in lines_backwards(self.part, self.size, most, most):
            with suppress(NotJsonError):
                yield decode(line)

    def part(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` to `end`."""
        with self._reading:
            self._at = -1
            self._file.seek(start)
            return self._file.read(end - start)

    def raw_lines(self, piece: Piece, longest: int) -> Iterator[bytes]:
        """Yield the lines of a piece as they are, in half the time of `raw`. A line of more than `longest` bytes comes
        in parts of so many bytes and one."""
        with self._reading:
            self._at = -1
            self._file.seek(piece.start)
            read, left = self._file.readline, self.end_of(piece) - piece.start
            while left > 0 and (line := read(min(longest + 1, left))):
                left -= len(line)
                yield line

    def end_of(self, piece: Piece) -> int:
        """Return the offset at which a piece of this file ends."""
        return self.size if piece.end is None else min(piece.end, self.size)

    def reread(self, line: int, offset: int, end: int | None = None) -> SessionRecord:
        """Read the record of `line` at `offset` again, up to `end` if it is a part of its line (see `raw`). Raises
        SessionFileError if the file has changed."""
        text = self.raw(offset, end)
        found = self._parsed(text, line, offset)
        if not isinstance(found, SessionRecord):
            raise SessionFileError(f"{self.label} was changed while it was being read; import it again")
        return found

    def digests(self, *ends: int) -> list[str]:
        """Return a digest of the file's bytes up to each of these offsets, which must ascend."""
        from hashlib import blake2b  # only imports need it

        digest = blake2b(digest_size=16)
        found = []
        with self._reading:
            self._at = -1
            at = self._file.seek(0)
            for end in ends:
                while at < end and (piece := self._file.read(min(_PIECE, end - at))):
                    digest.update(piece)
                    at += len(piece)
                found.append(digest.hexdigest())
        return found

    def raw(self, offset: int, end: int | None = None) -> bytes:
        """Return the line at `offset` with its line end, or only the beginning of a line that is too long. `end` is the
        offset before which it ends earlier."""
        with self._reading:
            if offset != self._at:  # one pass after the other reads on where it is
                self._file.seek(offset)
            self._at = -1
            line = self._file.readline(min(MAX_LINE + 1, (self.size if end is None else end) - offset))
            self._at = offset + len(line)
            return line

    def _parsed(self, line: bytes, number: int, offset: int) -> "SessionRecord | Broken | None":
        """Parse a line. The last result is cached, because a file of one long line is read several times."""
        place = (number, offset, len(line))
        if self._newest[0] != place:
            self._newest = place, _parse(line, number, offset)
        return self._newest[1]

    def _skip(self, start: bytes, offset: int) -> int:
        """Return the number of bytes of a line after its `start` at `offset`, reading them in pieces."""
        skipped, self._at = 0, -1
        ended = start.endswith(b"\n")
        while not ended and (left := self.size - offset - len(start) - skipped) > 0:
            piece = self._file.readline(min(_PIECE, left))
            skipped += len(piece)
            ended = not piece or piece.endswith(b"\n")
        return skipped


class _FileErrors:
    """Converts errors of a file into SessionFileError. It is a class because a generator would take a third of a
    read's time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        label = one_line(str(self._path)) if error is not None else ""
        if isinstance(error, FileNotFoundError):
            raise SessionFileError(f"there is no file {label}; name a session file (*.jsonl)") from None
        if isinstance(error, OSError | ValueError):  # ValueError: a NUL in the path
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise SessionFileError(f"{label} cannot be read: {why or error}") from None


def _parse(line: bytes, number: int, offset: int) -> SessionRecord | Broken | None:
    text = line.removeprefix(_UTF8_BOM)  # on any line, because files get concatenated
    if not text or text.isspace():
        return None
    try:
        value = decode(text)
    except NotJsonError as error:
        return Broken(number, str(error) if line.endswith(b"\n") else f"cut off, without a line end; {error}")
    return SessionRecord(number, offset, type_of(value), value)


def type_of(value: Any) -> str:
    """Return the type of a record for counting (see `SessionRecord`)."""
    if not isinstance(value, dict):
        return NOT_AN_OBJECT
    kind = value.get("type")
    if not isinstance(kind, str):
        return NO_TYPE
    return kind if len(kind) <= _MAX_TYPE else f"{kind[:_MAX_TYPE]}…"


def _check_regular(path: Path) -> None:
    """Raise SessionFileError for a file that has no end or cannot be read twice."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise SessionFileError(f"{one_line(str(path))} is a folder; name a session file in it (*.jsonl)")
    if not stat.S_ISREG(mode):
        raise SessionFileError(f"{one_line(str(path))} is not a regular file; write its content to one first")


def _as_utf8(file: IO[bytes]) -> IO[bytes]:
    """Return `file`, or a temporary copy in UTF-8 if it begins with the byte order mark of a wider encoding."""
    start = file.read(4)
    encoding = next((name for mark, name in _WIDE_BOMS if start.startswith(mark)), None)
    if encoding is None:
        return file
    import tempfile  # slow to import and rarely needed

    copy: IO[bytes] = tempfile.TemporaryFile(buffering=_PIECE)  # noqa: SIM115 - it lives as long as the session file
    try:
        file.seek(0)
        with io.TextIOWrapper(file, encoding, "replace", newline="") as text:
            while piece := text.read(_PIECE):
                copy.write(piece.encode())
        copy.flush()
    except BaseException:
        copy.close()
        raise
    return copy
