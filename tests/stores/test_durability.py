"""Acknowledged events survive a power cut (SPEC 2), on a disk that may lose everything that was not synced.

A shim under SQLite records every write, truncation and sync. A power cut keeps the synced content of each file and
nothing or some of the later writes. SQLite's shared memory does not pass through such a shim, so the
connection is exclusive: SQLite then keeps the index of the WAL in its own memory, and all else works as usual.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

import foldmark
from foldmark.core import selections
from foldmark.log.doctor import examine
from sampled import DEEP
from stored import connection

pytestmark = pytest.mark.usefixtures("made_databases")

Write = tuple[int, bytes | None]
"""An offset and the bytes written there; None means that the file was truncated there."""


class Moment(NamedTuple):
    """The synced content of the disk and the pending writes; `acknowledged` appends have returned."""

    acknowledged: int
    synced: dict[str, bytes]
    pending: dict[str, tuple[Write, ...]]


class Disk(apsw.VFS):
    """A disk that SQLite uses like any other, and that records every moment at which the power may fail."""

    def __init__(self) -> None:
        super().__init__("power-cut", "unix", makedefault=True)
        self.synced: dict[str, bytes] = {}
        self.pending: dict[str, list[Write]] = {}
        self.acknowledged: list[int] = []
        self.moments: list[Moment] = []

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "File":  # noqa: N802
        file = File(self, name, flags)
        self.synced.setdefault(file.path, b"")
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.cut()
        super().xDelete(filename, syncdir)
        self.synced.pop(filename, None)
        self.pending.pop(filename, None)

    def note(self, path: str, write: Write) -> None:
        self.cut()
        self.pending.setdefault(path, []).append(write)

    def sync(self, path: str) -> None:
        self.cut()
        self.synced[path] = applied(self.synced[path], self.pending.pop(path, []))

    def cut(self) -> None:
        pending = {path: tuple(writes) for path, writes in self.pending.items()}
        self.moments.append(Moment(len(self.acknowledged), dict(self.synced), pending))


class File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self.disk, self.path = disk, name.filename() if isinstance(name, apsw.URIFilename) else str(name)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self.disk.note(self.path, (offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self.disk.note(self.path, (newsize, None))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self.disk.sync(self.path)


def applied(content: bytes, writes: "list[Write] | tuple[Write, ...]") -> bytes:
    result = bytearray(content)
    for offset, data in writes:
        if data is None:
            del result[offset:]
        else:
            result.extend(bytes(max(0, offset - len(result))))
            result[offset : offset + len(data)] = data
    return bytes(result)


@pytest.fixture
def disk() -> Iterator[Disk]:
    def exclusive(db: apsw.Connection) -> None:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA wal_autocheckpoint = 12")

    disk = Disk()
    apsw.connection_hooks.append(exclusive)
    yield disk
    apsw.connection_hooks.remove(exclusive)
    apsw.set_default_vfs("unix")
    disk.unregister()


def work(disk: Disk, path: Path, prepare: Callable[[apsw.Connection], object] = lambda db: None) -> list[str]:
    """Append, batch and operate on a new database, reopened once in between. Return the contents of the appends."""
    contents = []

    def append(agent: foldmark.Agent, text: str) -> None:
        event_id = agent.append("user", text * 200)
        contents.append(text * 200)
        disk.acknowledged.append(event_id)

    for round in range(2):
        with foldmark.open(str(path)) as log:
            prepare(connection(log))
            agent = log.agent("default")
            for n in range(8):
                append(agent, f"{round}/{n} ")
                if n % 3 == 0:
                    agent.do("/mark M")
                    agent.do("/fork")
            with agent.batch():
                agent.append("user", "batch 1")
                agent.append("user", "batch 2")
    disk.cut()
    return contents


def lay_out(moment: Moment, folder: Path, keep: Callable[[Write], bool]) -> Path:
    """Write the disk after the power cut to ordinary files. Return the path of the database."""
    folder.mkdir()
    for path, synced in moment.synced.items():
        kept = [write for write in moment.pending.get(path, ()) if keep(write)]
        (folder / Path(path).name).write_bytes(applied(synced, kept))
    return folder / "log.db"


def survived(database: Path, disk: Disk, contents: list[str], moment: Moment) -> bool:
    """Return True if every acknowledged event is there; assert that the database is sound."""
    with foldmark.open(str(database)) as log:
        assert list(examine(log)) == []
        batches = [m.content for agent in log.agents() for m in agent.context().messages if m.content[:5] == "batch"]
        assert batches.count("batch 1") == batches.count("batch 2")
        acknowledged = zip(disk.acknowledged, contents[: moment.acknowledged], strict=False)
        with log.store.read() as present:
            found = [(selections.event(present, id), text) for id, text in acknowledged]
        return all(event is not None and event.content == text for event, text in found)


def test_acknowledged_events_survive_a_power_cut_at_any_moment(tmp_path: Path, disk: Disk) -> None:
    """This includes its creation, checkpoints and closing."""
    contents = work(disk, tmp_path / "log.db")
    apsw.set_default_vfs("unix")
    chance = random.Random(1)
    moments = [*disk.moments[:: 4 if DEEP else 16], disk.moments[-1]]
    assert moments[-1].acknowledged == 16
    assert len({moment.acknowledged for moment in moments}) == 17
    kinds: list[Callable[[Write], bool]] = [lambda _: False, lambda _: chance.random() < 0.5]
    for n, moment in enumerate(moments):
        for kind, keep in enumerate(kinds):
            if DEEP or n % 2 == kind:
                assert survived(lay_out(moment, tmp_path / f"{n}-{kind}", keep), disk, contents, moment), moment


def test_a_weaker_level_would_lose_events(tmp_path: Path, disk: Disk) -> None:
    """With synchronous = NORMAL the same cuts lose acknowledged events, so the test above can fail."""
    contents = work(disk, tmp_path / "log.db", lambda db: db.execute("PRAGMA synchronous = NORMAL"))
    apsw.set_default_vfs("unix")
    moments = [moment for moment in disk.moments if moment.acknowledged][::4]
    assert not all(
        survived(lay_out(moment, tmp_path / str(n), lambda _: False), disk, contents, moment)
        for n, moment in enumerate(moments)
    )


def test_the_store_syncs_at_every_commit(tmp_path: Path) -> None:
    """The mode is WAL with synchronous = FULL, also for an existing database."""
    for _ in range(2):
        with foldmark.open(str(tmp_path / "log.db")) as log:
            assert connection(log).pragma("synchronous") == 2
            assert connection(log).pragma("journal_mode") == "wal"
