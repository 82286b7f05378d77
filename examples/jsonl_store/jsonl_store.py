"""Conversations in a file of JSON lines, one line for each transaction: `foldmark --db jsonl://talks.jsonl chat`.

Foldmark's store in memory answers all questions. This store replays the lines into it, appends a line when it commits,
and reads the lines of other processes at the beginning of each block. So opening a database and its memory grow with
its history, which suits thousands of events, not millions. It needs a POSIX system and a local disk.

The first line says what the file is. Each other line is a list of rows `[checksum, [table, key, value]]`, which replace
earlier rows with the same key (`foldmark.testing.memory.Contents`); a value of null removes one. The checksum is the
CRC-32 of the row's text.

- A line without a line end was not committed: its writer was killed, or is still writing. The next writer cuts it off.
- A transaction that erases something writes the whole database to a new file, which replaces the old one, so that no
  earlier line keeps the text. Other processes notice that the file is another one, and read it from the beginning.
- A row that is not as it was recorded stays in use if it can be read; `foldmark doctor` names it. A line that is no
  JSON makes the database unreadable.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path
from threading import RLock
from time import monotonic
from typing import Any, get_args, get_type_hints
from zlib import crc32

from msgspec import MsgspecError, Raw
from msgspec.json import Decoder, decode, encode

from foldmark import StoreError
from foldmark.core.ports import Clock
from foldmark.testing.memory import (
    Contents,
    MemoryMoment,
    MemoryStore,
    MemoryTransaction,
    Write,
    row_name,
)

HEADER = b'{"foldmark":"jsonl","version":1}\n'

SCHEME = "jsonl://"

_POLL = 0.05
"""Seconds between two looks at the file while a watch waits."""

_WORDS = ("events", "texts", "memos")
"""Tables whose rows hold what people and models wrote, and which change only when it is erased."""

_FOLLOWING = ("logs", "damaged")
"""Tables that are no rows of the file, unless it is written anew with its damage."""


class JsonlStore:
    """The database at jsonl://PATH (see `foldmark.core.ports.Store`). Its writers lock the file PATH.lock."""

    sandbox = None
    vectors = None
    narrowed = False

    def __init__(self, address: str, *, create: bool = True, clock: Clock | None = None) -> None:
        """Open the file, creating it if `create`. Raises StoreError."""
        self._path = Path(os.path.realpath(address.removeprefix(SCHEME)))
        self.address = f"{SCHEME}{self._path}"
        self._memory = MemoryStore(clock=clock, record=self._record)
        self._place = RLock()
        """Held while a thread uses the file or its end."""

        self._file = _opened(self._path, create)
        self._end = 0
        """The end of the last line that was replayed or recorded; 0 if none was."""

        try:
            if create:
                with self._locked():
                    pass
            self._catch_up()
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        """False after `close`."""
        return self._file >= 0

    @contextmanager
    def read(self) -> Iterator[MemoryMoment]:
        self._catch_up()
        with self._memory.read() as moment:
            yield moment

    @contextmanager
    def write(self) -> Iterator[MemoryTransaction]:
        with nullcontext() if self._memory.in_block else self._locked(), self._memory.write() as writing:
            yield writing

    def watch(self) -> "JsonlWatch":
        return JsonlWatch(self, self._memory)

    def forget_erased(self) -> bool:
        return self._memory.forget_erased()

    def damage(self) -> Iterator[str]:
        self._catch_up()
        try:
            with closing(JsonlStore(self.address, create=False)) as anew:  # from the disk, not from memory
                yield from anew._memory.damage()
        except StoreError as error:
            yield str(error)

    def close(self) -> None:
        with self._place:
            self._memory.close()
            if self.is_open:
                os.close(self._file)
            self._file = -1

    # The file

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep all other writers out, with everything of theirs replayed and an unfinished line cut off."""
        lock = _opened(self._path.with_name(f"{self._path.name}.lock"), create=True)
        try:
            with _failing(self._path):
                flock(lock, LOCK_EX)
            with self._place, _failing(self._path):
                self._catch_up()
                if os.fstat(self._file).st_size > self._end:
                    os.ftruncate(self._file, self._end)
                if self._end == 0:
                    self._end = _append(self._file, 0, HEADER)
                    _sync_folder(self._path)
            before = self._end
            try:
                yield
            except BaseException:
                if self._end != before:  # recorded, but interrupted before the store in memory had it
                    self._end = 0
                raise
        finally:
            os.close(lock)

    def _catch_up(self) -> None:
        """Replay what others have committed. Raises StoreError."""
        with self._place, _failing(self._path):
            if not self.is_open:
                raise StoreError("the store is closed")
            if not os.path.samestat(self._path.stat(), os.fstat(self._file)):
                file = _opened(self._path, create=False)
                os.close(self._file)
                self._file, self._end = file, 0
            text, begins = _read(self._file, self._end), self._end == 0
            if begins and not (text.startswith(HEADER) or HEADER.startswith(text)):
                raise StoreError(f"{self._path} is no database of JSON lines that this store can read")
            *lines, _ = text.split(b"\n")
            if lines:
                writes = [each for line in lines[begins:] for each in self._writes(line)]
                if writes or begins:
                    self._memory.apply(writes, anew=begins)
                self._end += text.rindex(b"\n") + 1

    def _writes(self, line: bytes) -> Iterator[Write]:
        try:
            rows = decode(line, type=list[tuple[int, Raw]])
        except MsgspecError as error:
            raise StoreError(f"{self._path}: the line that begins with {line[:60]!r} is no list: {error}") from None
        for sum, row in rows:
            name = f"the row that begins with {bytes(row)[:60]!r}"
            with suppress(MsgspecError, KeyError):
                table, *_ = decode(row, type=tuple[str, Raw, Raw])
                _, key, value = _decoder(table).decode(row)
                name = row_name(table, key)
                yield table, key, value
            if crc32(row) != sum:
                yield "damaged", name, f"{name} is not as it was recorded"

    def _record(self, writes: list[Write], contents: Contents) -> None:
        """Append the writes of a transaction to the file, or replace it if they erase something. Raises StoreError."""
        last = {(table, key): value for table, key, value in writes}
        with self._place, _failing(self._path):
            if any(table in _WORDS and _is_erased(value) for (table, _), value in last.items()):
                self._replace(contents)
            else:
                line = _line((*row, value) for row, value in last.items() if row[0] not in _FOLLOWING)
                self._end = _append(self._file, self._end, line)

    def _replace(self, contents: Contents) -> None:
        """Replace the file by one with these contents."""
        beside = self._path.with_name(f"{self._path.name}.new")
        tables = [each for each in vars(contents) if each not in _FOLLOWING]
        rows = [(table, *row) for table in (*tables, "damaged") for row in getattr(contents, table).items()]
        beside.unlink(missing_ok=True)
        file = _opened(beside, create=True)
        try:
            end = _append(file, 0, HEADER + _line(rows))
            beside.replace(self._path)
        except BaseException:
            os.close(file)
            raise
        os.close(self._file)
        self._file, self._end = file, end
        _sync_folder(self._path)


class JsonlWatch:
    """See `foldmark.core.agents.Watch`."""

    def __init__(self, store: JsonlStore, memory: MemoryStore) -> None:
        store._catch_up()
        self._store, self._watch, self._closed = store, memory.watch(), False

    def wait(self, seconds: float) -> bool:
        until = monotonic() + seconds
        while not self._closed and self._store.is_open:
            with suppress(StoreError):  # the next block raises it
                self._store._catch_up()
            left = until - monotonic()
            if self._watch.wait(min(max(left, 0), _POLL)):
                return True
            if left <= 0:
                break
        return False

    def close(self) -> None:
        self._closed = True
        self._watch.close()


@contextmanager
def _failing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; check the file and its disk, and repeat") from error


def _opened(path: Path, create: bool) -> int:
    """Open a file that only this user may read."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
    except FileNotFoundError:
        why = "no folder for" if create else "no database at"
        raise StoreError(f"there is {why} {path}. `foldmark chat` starts a database; --db names another.") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}") from None


def _read(file: int, start: int) -> bytes:
    parts = []
    while part := os.pread(file, 1 << 20, start):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _append(file: int, end: int, text: bytes) -> int:
    """Write at the end of a file, and wait until the disk has it. Return the new end."""
    at = end
    try:
        while at < end + len(text):
            at += os.pwrite(file, text[at - end :], at)
    except BaseException:
        os.ftruncate(file, end)
        raise
    # If this fails, the line stays: others may have read it already.
    os.fsync(file)
    return at


def _sync_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _line(writes: Any) -> bytes:
    rows = [encode(write) for write in writes]
    return encode([(crc32(row), Raw(row)) for row in rows]) + b"\n"


def _is_erased(value: Any) -> bool:
    return value is None or getattr(value, "redacted", None) is not None


@cache
def _decoder(table: str) -> Decoder[tuple[str, Any, Any]]:
    """Return the decoder of the rows of a table. Raises KeyError."""
    key, value = get_args(get_type_hints(Contents)[table])
    return Decoder(tuple[str, key, value | None])  # type: ignore[valid-type]
