"""The two halves of a large session at a time, where there is a second processor [SPEC 8].

The second half is read by a process that is forked from this one. What it writes goes into a file without a name,
which is gone if anything is killed, and from there behind what the first half has become. Where it turns out that a
result and its call are in different halves, the whole is read again.
"""

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import IO, Any, NoReturn

import msgspec
from msgspec.structs import replace

from foldmark.sessions.trim.kind import Job, Kind, ToolTally
from foldmark.sessions.trim.one_pass import BUFFER, Nowhere, Opened, Out, Pass, Passed

LARGE = 16 << 20
"""Bytes from which on it is worth the trouble."""

_FAR = 1 << 60
_LOOKED = 200
"""Lines after the middle among which a good place to part them is looked for."""


def in_halves(files: Sequence[Opened], out: Out, kind: Kind, job: Job, metadata: dict[str, Any]) -> Passed | None:
    """As one pass. None, and then nothing is written, for what is better read in one piece."""
    if len(files) != 1 or not kind.in_halves or files[0].end - files[0].piece.start < LARGE or not _second_processor():
        return None
    whole = files[0].piece
    middle = _middle(files[0])
    if middle is None:
        return None
    with ExitStack() as stack:
        begin, end = (
            Opened(each, stack.enter_context(whole.path.open("rb", buffering=BUFFER)))
            for each in (replace(whole, end=middle), replace(whole, start=middle, end=files[0].end))
        )
        if not all(os.path.sameopenfile(each.file.fileno(), files[0].file.fileno()) for each in (begin, end)):
            return None  # another file has the name by now
        told = stack.enter_context(tempfile.TemporaryFile())
        rest = None
        if not isinstance(out, Nowhere):
            rest = stack.enter_context(tempfile.TemporaryFile(buffering=BUFFER, dir=whole.path.parent))
        process = os.fork()
        if not process:
            _second(end, rest or Nowhere(), kind, job, told)
        try:
            first = Pass([begin], out, kind.lines(job), metadata).run()
        except BaseException:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            raise
        _, status = os.waitpid(process, 0)
        told.seek(0)
        if status or first.place is None:
            out.seek(0)
            out.truncate()
            return None
        second = msgspec.json.decode(told.read(), type=Passed)
        if rest is not None:
            _append(rest, out)
    return _together(first, second)


def _second(half: Opened, out: Out, kind: Kind, job: Job, told: IO[bytes]) -> NoReturn:
    """The work of the other process, which ends with it."""
    status = 1
    try:
        number = _lines(half.file.fileno(), half.piece.start)
        lines = kind.lines(job)
        lines.in_context = _FAR  # so that one can see whether it began anew
        done = Pass([Opened(replace(half.piece, number=number + 1), half.file)], out, lines, None).run()
        if not isinstance(out, Nowhere):
            out.flush()  # type: ignore[attr-defined]
        told.write(msgspec.json.encode(done))
        told.flush()
        status = 0
    finally:
        os._exit(status)


def _together(first: Passed, second: Passed) -> Passed:
    """What both halves have found."""
    tally = {**first.tally}
    for tool, each in second.tally.items():
        own = tally.get(tool, ToolTally())
        tally[tool] = ToolTally(
            own.results + each.results,
            own.cut + each.cut,
            own.characters + each.characters,
            own.bytes + each.bytes,
        )
    in_context = second.in_context
    if in_context >= _FAR:  # no compaction in it
        in_context += first.in_context - _FAR
    apart = not first.missed.isdisjoint(second.names) or not second.missed.isdisjoint(first.names)
    return Passed(
        tally,
        in_context,
        {**first.names, **second.names},
        first.late or second.late or apart,
        first.missed | second.missed,
        first.count + second.count,
        first.place,
        first.long + second.long,
        first.nulls + second.nulls,
    )


def _second_processor() -> bool:
    """Whether a process may be forked here, and has a processor of its own."""
    return sys.platform == "linux" and threading.active_count() == 1 and len(os.sched_getaffinity(0)) > 1


def _middle(file: Opened) -> int | None:
    """Where the second half begins: with a line, and with an answer behind a result if there is one near, for then no
    call is parted from its result. None if the lines are too long to be parted."""
    start, end = file.piece.start, file.end
    file.file.seek((start + end) // 2)
    ends: list[int] = []
    before = b""
    for _ in range(_LOOKED):
        line = file.file.readline(BUFFER)
        if not line.endswith(b"\n"):
            break
        if b'"tool_result"' in before and b'"tool_use"' in line:
            return ends[-1]
        ends.append(file.file.tell())
        before = line
    return ends[0] if ends and ends[0] < end else None


def _lines(descriptor: int, end: int) -> int:
    """How many lines lie in front of a place."""
    found = 0
    for at in range(0, end, BUFFER):
        found += os.pread(descriptor, min(BUFFER, end - at), at).count(b"\n")
    return found


def _append(rest: IO[bytes], out: Out) -> None:
    """What one file holds behind what was written to another."""
    rest.seek(0)
    shutil.copyfileobj(rest, out, BUFFER)
