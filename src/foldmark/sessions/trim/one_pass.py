"""One pass over a session that is trimmed: line by line, with bounded memory [SPEC 8].

What is appended to a file meanwhile is not looked at, so that two passes see the same lines. What is written has as
many lines as what was read, so that a line's number means the same in both.
"""

import codecs
import os
from collections.abc import Iterator, Sequence
from typing import IO, Any, Protocol

import msgspec
from msgspec import Struct

from foldmark.sessions import spans
from foldmark.sessions.session_file import MAX_LINE, Piece
from foldmark.sessions.trim.kind import LineTrimmer, Tally

LONGEST = MAX_LINE
"""The longest line that is cut, in bytes: what an import reads. Longer ones are passed on in pieces."""

BUFFER = 1 << 20

_SHORT = 64
"""Bytes; a line `null` is shorter."""

_WIDTH = 15
"""Digits that a number in `trim_metadata` has room for, before it is known."""


class Out(Protocol):
    """A file that is written, or nowhere."""

    def write(self, data: bytes, /) -> object: ...
    def tell(self) -> int: ...
    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> object: ...
    def truncate(self) -> object: ...


class Nowhere:
    """Where a preview is written: only the bytes are counted."""

    size = 0

    def write(self, data: bytes, /) -> None:
        self.size += len(data)

    def tell(self) -> int:
        return self.size

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> None:
        pass

    def truncate(self) -> None:
        self.size = 0


class Opened:
    """A stretch of a file: what is appended to it from now on does not belong to it."""

    def __init__(self, piece: Piece, file: IO[bytes]) -> None:
        self.piece, self.file = piece, file
        size = os.fstat(file.fileno()).st_size
        self.end = size if piece.end is None else min(piece.end, size)

    def lines(self) -> Iterator[bytes]:
        """Every line; of one that is too long its beginning, and the file stands behind that."""
        self.file.seek(self.piece.start)
        read, left = self.file.readline, self.end - self.piece.start
        while left > 0 and (raw := read(LONGEST + 1)):
            left -= len(raw)
            yield raw if left >= 0 else raw[:left]
            if len(raw) > LONGEST:
                left = self.end - self.file.tell()


class Passed(Struct):
    """What one pass has found; see `LineTrimmer`. `size` is how many bytes were written; `place` is where in these the
    counts belong, None if there was no record; `count` is how many lines there were, `long` how many of them were too
    long to be held, and `nulls` how many hold `null`."""

    tally: Tally
    size: int
    names: dict[str, str]
    late: bool
    count: int
    place: tuple[int, int] | None
    long: int
    nulls: int


class Pass:
    """One pass over files; the first record gets `metadata`."""

    def __init__(self, files: Sequence[Opened], out: Out, lines: LineTrimmer, metadata: dict[str, Any]) -> None:
        self._files, self._out, self._lines, self._metadata = files, out, lines, metadata
        self._place: tuple[int, int] | None = None

    def run(self) -> Passed:
        """Read all and write all."""
        lines, count, long, nulls = self._lines, 0, 0, 0
        write, change = self._out.write, lines.line
        for opened in self._files:
            if len(self._files) > 1:
                lines.source = opened.piece.path
            number = opened.piece.number - 1
            for raw in opened.lines():
                number += 1
                if len(raw) < _SHORT and unmarked(raw).strip() == b"null":
                    nulls += 1
                if len(raw) > LONGEST:
                    long += 1
                    self._pass_on(opened, raw)
                elif self._place is None:
                    self._first(number, raw, self._metadata)
                else:
                    write(change(number, raw))
            count += number + 1 - opened.piece.number
        return Passed(
            lines.tally,
            self._out.tell(),
            dict(lines.names.found),
            lines.names.late,
            count,
            self._place,
            long,
            nulls,
        )

    def _first(self, number: int, raw: bytes, metadata: dict[str, Any]) -> None:
        """As every line, but the first that is an object gets the metadata."""
        line = unmarked(raw) if number == 1 else raw
        self._out.write(raw[: len(raw) - len(line)])
        line = self._lines.line(number, line)
        found = with_metadata(line, metadata)
        if found:
            line, at = found
            begin = self._out.tell() + at
            self._place = begin + len(_COUNT), begin + len(_COUNT) + _WIDTH + len(_SAVED)
        self._out.write(line)

    def _pass_on(self, opened: Opened, beginning: bytes) -> None:
        """A line too long to be held: its first and last MB are looked at, what lies between is copied."""
        file = opened.file
        end = file.tell()
        begin, piece = end - len(beginning), beginning
        while not piece.endswith(b"\n") and (piece := file.readline(min(BUFFER, opened.end - end))):
            end += len(piece)
        file.seek(end - BUFFER)
        first, last = self._lines.giant(beginning[:BUFFER], file.read(BUFFER))
        self._out.write(first)
        file.seek(begin + BUFFER)
        for at in range(begin + BUFFER, end - BUFFER, BUFFER):
            self._out.write(file.read(min(BUFFER, end - BUFFER - at)))
        self._out.write(last)
        file.seek(end)


def fill(out: Out, place: tuple[int, int], count: int, saved: int) -> None:
    """Put the counts where room was left for them."""
    for at, number in zip(place, (count, saved), strict=True):
        out.seek(at)
        out.write(str(number).encode())
    out.seek(0, os.SEEK_END)


_COUNT = b'"trimmed_count":'
_SAVED = b',"tokens_saved":'
_ROOM = b"0".ljust(_WIDTH)


def unmarked(raw: bytes) -> bytes:
    """A line without the byte order mark in front of it."""
    return raw.removeprefix(codecs.BOM_UTF8)


def with_metadata(line: bytes, metadata: dict[str, Any]) -> tuple[bytes, int] | None:
    """A record with the metadata of a trim, in place of any that it has, and where the counts begin in it; None for
    what is no record."""
    try:
        members = spans.members(line) if spans.is_json(line) else None
    except ValueError:
        members = None
    if members is None:
        return None
    counts = b"%b%b%b%b}" % (_COUNT, _ROOM, _SAVED, _ROOM)
    value = b"%b,%b" % (msgspec.json.encode(metadata)[:-1], counts)
    held = [(begin, end) for key, begin, end in members if key == "trim_metadata"]
    if held:
        begin, end = held[-1]
    else:
        begin = end = line.rindex(b"}")
        value = b'%b"trim_metadata":%b' % (b"," if members else b"", value)
    return spans.edited(line, [(begin, end, value)]), begin + len(value) - len(counts)
