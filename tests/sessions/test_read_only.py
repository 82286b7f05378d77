"""Searching and listing work with a read-only archive and a read-only database [SPEC 7, 8]."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from archive_place import Home
from session_records import user
from unprivileged import bound, obey_modes

import foldmark
from foldmark.cli.program import run
from foldmark.formats.session_format import SessionPath
from foldmark.sessions.archive.storing import put
from foldmark.sessions.lineage import record_end
from sampled import DEEP

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked"), bound]

COMMANDS = (
    ["search", "schema", "--json"],
    ["sessions", "--json"],
    ["search", "--read", "aa11:1", "--json"],
)


def printed(words: list[str]) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(words)
    return code, out.getvalue(), err.getvalue()


def bound_by_modes(*commands: list[str]) -> list[tuple[int, str, str]]:
    """Return the exit code and the output of each command in a process that is bound by file modes."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            obey_modes()
            told = json.dumps([printed(words) for words in commands])
        except BaseException as error:
            told = json.dumps(repr(error))
        os.write(write, told.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return [(code, out, err) for code, out, err in json.loads(told)]


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home that any user can reach, with a session and its record in its archive, and no open file."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    home = Home(folder / "home")
    home.session("aa11", user("How do we migrate the schema?", "u1", cwd="/p"))
    home.sync()
    (home.folder / "data").mkdir()
    database = home.folder / "data" / "log.db"
    with foldmark.open(str(database)) as log:
        log.agent("talk").append("user", "Another schema")
    ended = SessionPath(Path("/p/aa11.jsonl"), "claude", "aa11")
    record_end(home.archive, ended, None, "2026-03-01T12:00:00.000000Z")
    for name, value in {**home.environment, "FOLDMARK_DB": str(database)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    yield home
    for path in (home.folder, *home.folder.rglob("*")):
        path.chmod(0o755)
    shutil.rmtree(folder)


def protect(folder: Path, *, files: bool) -> None:
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o555)
        elif files:
            path.chmod(0o444)


PROTECTED = [
    (places, files, left)
    for places in (("archive",), ("data",), ("archive", "data"))
    for files in (True, False)
    for left in (True, False)
    if DEEP or places == ("archive",) or (files == left) == (places == ("data",))
]
"""Protected folders, whether their files are protected, too, and whether SQLite's files beside them are left. Only with
the archive these change what is told: the others come in pairs, except in a deep run."""


@pytest.mark.parametrize(("places", "files", "left"), PROTECTED)
def test_a_read_only_archive_is_searched(home: Home, places: tuple[str, ...], files: bool, left: bool) -> None:
    before = [printed(words) for words in COMMANDS]
    assert [code for code, *_ in before] == [0, 0, 0]
    assert "Another schema" in before[0][1]
    assert "migrate" in before[0][1]
    assert '"completed"' in before[1][1]
    for name in places:
        for beside in () if left else (home.folder / name).glob("*.db-*"):
            beside.unlink()
        protect(home.folder / name, files=files)
    after = bound_by_modes(*COMMANDS)
    for words, (_, out, _), (code, told, err) in zip(COMMANDS, before, after, strict=True):
        assert (code, told) == (0, out), err
        cannot_catch_up = "--read" not in words and "archive" in places and (files or not left)
        assert err.startswith("foldmark: the newest archived sessions may be missing: " if cannot_catch_up else "")
        assert err.count("\n") == (1 if cannot_catch_up else 0), err


def test_sessions_that_are_not_indexed_are_reported(home: Home) -> None:
    """The line on standard error is true: newer sessions are missing."""
    printed(COMMANDS[0])
    for beside in home.archive.glob("*.db-*"):
        beside.unlink()
    path = put(home.session("bb22", user("The newest schema", "v1")), home.archive).path
    path.chmod(0o644)
    protect(home.archive, files=True)
    ((code, out, err),) = bound_by_modes(COMMANDS[0])
    assert (code, "migrate" in out, "newest" in out) == (0, True, False)
    assert "the newest archived sessions may be missing" in err
    for path in (home.archive, *home.archive.rglob("*")):
        path.chmod(0o755)
    assert "newest" in printed(COMMANDS[0])[1]


def test_a_read_only_search_sees_concurrent_writes(home: Home) -> None:
    """Another process has the database open, and its newest message is found."""
    printed(COMMANDS[1])
    with foldmark.open(os.environ["FOLDMARK_DB"]) as log:
        log.agent("talk").append("user", "A third schema")
        (home.folder / "data").chmod(0o555)
        ((code, out, err),) = bound_by_modes(COMMANDS[0])
    assert (code, err) == (0, "")
    assert "A third schema" in out
