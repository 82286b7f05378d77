"""A backup shows one moment of a database that is written to meanwhile, and its file is never incomplete."""

from __future__ import annotations

import os
import resource
import signal
import stat
import sys
from pathlib import Path

import pytest

import foldmark
from foldmark.core.errors import StoreError
from foldmark.log.doctor import examine
from foldmark.stores.sqlite import backup


@pytest.fixture
def db(tmp_path: Path) -> str:
    """A closed database of about forty pages."""
    path = str(tmp_path / "log.db")
    with foldmark.open(path) as log:
        for number in range(30):
            log.agent("default").append("user", f"{number} {'text ' * 800}")
    return path


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "_PAGES", 5)


def texts(path: Path | str) -> list[str]:
    with foldmark.open(str(path), create=False) as log:
        return [message.content[:5] for message in log.agent("default").context().messages]


def nothing(done: int, total: int) -> None:
    """Ignore the progress."""


def test_a_backup_is_one_moment_while_others_write(db: str, tmp_path: Path) -> None:
    file, before, told = tmp_path / "backup.db", texts(db), list[tuple[int, int]]()
    with foldmark.open(db) as log:
        agent = log.agent("default")

        def write(done: int, total: int) -> None:
            told.append((done, total))
            agent.append("user", f"later {'text ' * 800}")

        size = backup.back_up(db, file, write)
    assert size == file.stat().st_size
    assert [done for done, _ in told] == sorted({done for done, _ in told}), "it never began anew"
    assert len(told) > 5
    assert told[-1][0] == told[-1][1]
    assert texts(file) == before
    assert texts(db) == before + ["later"] * len(told)
    with foldmark.open(str(file)) as log:
        assert list(examine(log)) == []


def test_only_this_user_may_read_a_backup(db: str, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        backup.back_up(db, tmp_path / "backup.db", nothing)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "backup.db").stat().st_mode) == 0o600


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_backup_leaves_nothing(db: str, tmp_path: Path, error: type[BaseException]) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()

    def stop(done: int, total: int) -> None:
        assert [path.suffix for path in folder.iterdir() if path.suffix != ".part-journal"] == [".part"]
        raise error

    with pytest.raises(error):
        backup.back_up(db, folder / "backup.db", stop)
    assert list(folder.iterdir()) == []


def test_a_killed_backup_leaves_no_file_with_its_name(db: str, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    child = os.fork()
    if child == 0:
        try:
            backup.back_up(db, file, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not file.exists()
    backup.back_up(db, file, nothing)
    assert texts(file) == texts(db)


def test_a_full_disk_leaves_no_backup(db: str, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        sys.dont_write_bytecode = True  # the limit would truncate the files of compiled modules
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        code = 1
        try:
            backup.back_up(db, folder / "backup.db", nothing)
        except StoreError as error:
            code = 0 if "could not be written" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(folder.iterdir()) == []


def test_an_existing_file_stays_unless_it_is_to_be_replaced(db: str, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    file.write_text("mine")
    with pytest.raises(StoreError, match="already exists and was not changed"):
        backup.back_up(db, file, nothing)
    assert file.read_text() == "mine"
    backup.back_up(db, file, nothing, replace=True)
    assert texts(file) == texts(db)


def test_a_file_that_appeared_meanwhile_stays(db: str, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    with pytest.raises(StoreError, match="already exists"):
        backup.back_up(db, file, lambda *_: (file.write_text("mine"), None)[1])
    assert file.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []


def test_a_file_that_is_open_is_not_replaced(db: str, tmp_path: Path) -> None:
    """SQLite would apply its write-ahead log to the new file."""
    file = tmp_path / "backup.db"
    with foldmark.open(str(file)) as log:
        log.agent("default").append("user", "hello")
        with pytest.raises(StoreError, match="-wal exists: a program has"):
            backup.back_up(db, file, nothing, replace=True)
    assert texts(file) == ["hello"]


def test_the_database_is_not_its_own_backup(db: str, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(db)
    for file in (Path(db), link):
        with pytest.raises(StoreError, match="is the database itself"):
            backup.back_up(db, file, nothing, replace=True)


def test_a_backup_without_a_database_is_refused(db: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a text " * 100)
    (tmp_path / "empty").touch()
    for path, says in (
        (":memory:", "has no backup"),
        (str(tmp_path / "missing"), "there is no database"),
        (str(tmp_path / "text"), "is not a Foldmark database"),
        (str(tmp_path / "empty"), "it is empty"),
    ):
        with pytest.raises(StoreError, match=says):
            backup.back_up(path, tmp_path / "backup.db", nothing)
    for file, says in ((tmp_path / "no" / "folder", "there is no folder"), (tmp_path, "is a folder")):
        with pytest.raises(StoreError, match=says):
            backup.back_up(db, file, nothing)
    assert not list(tmp_path.glob("*backup*"))


def test_a_backup_that_is_checked_is_not_written_to(db: str, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    backup.back_up(db, file, nothing)
    before = file.read_bytes()
    with backup.opened(file) as store, store.read() as moment:
        assert moment.agents()
    assert file.read_bytes() == before


def test_a_backup_is_opened_for_reading(db: str, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    backup.back_up(db, file, nothing)
    file.chmod(0o644)
    before, names = file.read_bytes(), sorted(path.name for path in tmp_path.iterdir())
    with backup.opened(file) as store:
        assert list(store.damage()) == []
        with pytest.raises(StoreError, match="read-only"), store.write() as writing:
            writing.save_memo("memo", (), None, "human", "2026-03-01T12:00:00.000000Z")
    assert (file.read_bytes(), sorted(path.name for path in tmp_path.iterdir())) == (before, names)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
