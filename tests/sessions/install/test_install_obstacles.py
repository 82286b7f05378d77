"""An obstacle to an installation gives one line and leaves every file as it was; uninstalling undoes a killed run."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from install_trees import WANTED, environment, files, places, tree
from msgspec.structs import replace
from unprivileged import bound, obey_modes

from foldmark.core.errors import FoldmarkError
from foldmark.sessions.install.changes import InstallError, MidwayError
from foldmark.sessions.install.locations import project_places
from foldmark.sessions.install.plan import install, plan_install, uninstall
from sampled import DEEP

resource = pytest.importorskip("resource", reason="limits of a process are set")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")

WRITING = {"os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "os.chmod"}


def in_a_child(work: Callable[[], object]) -> str:
    """Do the work in a forked process and return "done", an error's text, or "killed"."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            work()
            told = "done"
        except BaseException as error:
            told = f"{'' if isinstance(error, FoldmarkError) else repr(type(error))}{error}"
        os.write(write, told.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read().decode()
    return told if os.waitpid(child, 0)[1] == 0 else "killed"


def killed_at(number: int, work: Callable[[], object]) -> str:
    """Do the same, but kill the process just before its `number`th change to the file system."""
    left = number

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        made = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
        if event in WRITING or made:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    def watched() -> None:
        sys.addaudithook(watch)
        work()

    return in_a_child(watched)


def fresh(home: Path, source: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(source, home, symlinks=True)


@pytest.mark.parametrize("again", [False, True])
def test_killed_while_installing(home: Path, tmp_path: Path, again: bool) -> None:
    before = files(home)
    source = home.rename(tmp_path / "source")
    for number in range(1, 300, 1 if DEEP else 20):
        fresh(home, source)
        told = killed_at(number, lambda: install(places(home), WANTED, environment(home)))
        if again:
            install(places(home), WANTED, environment(home))
        uninstall(places(home), environment(home))
        assert files(home) == before, number
        if told == "done":
            break
        assert told == "killed"
    assert number > 20


def test_killed_while_uninstalling(home: Path, tmp_path: Path) -> None:
    before = files(home)
    install(places(home), WANTED, environment(home))
    source = home.rename(tmp_path / "source")
    for number in range(1, 200, 1 if DEEP else 7):
        fresh(home, source)
        told = killed_at(number, lambda: uninstall(places(home), environment(home)))
        uninstall(places(home), environment(home))
        assert files(home) == before, number
        if told == "done":
            break
        assert told == "killed"
    assert number > 8


def test_killed_while_the_program_moves(home: Path, tmp_path: Path) -> None:
    before = files(home)
    install(places(home), WANTED, environment(home))
    source = home.rename(tmp_path / "source")
    moved = replace(WANTED, program="/new/foldmark")
    for number in range(1, 200, 1 if DEEP else 10):
        fresh(home, source)
        told = killed_at(number, lambda: install(places(home), moved, environment(home)))
        uninstall(places(home), environment(home))
        assert files(home) == before, number
        if told == "done":
            break
    assert number > 8


def test_a_project_killed_while_installing(home: Path, tmp_path: Path) -> None:
    source, project = tmp_path / "source", tmp_path / "project"
    source.mkdir()
    (source / "CLAUDE.md").write_text("Ours.")
    project.mkdir()
    there = project_places(project, environment(home))
    for number in range(1, 200, 1 if DEEP else 15):
        fresh(project, source)
        told = killed_at(number, lambda: install(there, WANTED, environment(home)))
        uninstall(there, environment(home))
        assert files(project) == files(source), number
        if told == "done":
            break
    assert number > 8


def test_a_write_that_fails_halfway_can_be_taken_back(home: Path) -> None:
    memory = home / ".claude/CLAUDE.md"
    memory.write_bytes(b"x" * 100_000)
    before = files(home)

    def full() -> None:
        sys.dont_write_bytecode = True  # otherwise Python would write truncated bytecode files
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))  # the record fits, in base64
        memory.write_bytes(b"x" * 200_000)
        install(places(home), WANTED, environment(home))

    told = in_a_child(full)
    assert told.startswith(
        f"{home}/.local/share/foldmark/claude/user.json cannot be written: File too large; repeat it, or"
    )
    memory.write_bytes(b"x" * 100_000)
    uninstall(places(home), environment(home))
    assert files(home) == before


def put_a_folder(home: Path) -> None:
    (home / ".claude/settings.json").unlink()
    (home / ".claude/settings.json").mkdir()


def put_a_pipe(home: Path) -> None:
    (home / ".claude/settings.json").unlink()
    os.mkfifo(home / ".claude/settings.json")


def put_a_file_for_a_folder(home: Path) -> None:
    (home / ".local").write_text("no folder")


def put_a_ring(home: Path) -> None:
    (home / ".claude/settings.json").unlink()
    (home / ".claude/settings.json").symlink_to("settings.json")


def put_broken(home: Path) -> None:
    (home / ".claude/settings.json").write_text('{"a": 1,')


def put_comments(home: Path) -> None:
    (home / ".claude/settings.json").write_text('{\n  /* mine */ "a": 1}')


def put_half_a_block(home: Path) -> None:
    (home / ".claude/CLAUDE.md").write_text("<!-- foldmark:begin -->\nno end\n")


def put_a_dead_link(home: Path) -> None:
    (home / ".claude/CLAUDE.md").unlink()
    (home / ".claude/CLAUDE.md").symlink_to("/nowhere/at/all/CLAUDE.md")


@pytest.mark.parametrize(
    ("obstacle", "why"),
    [
        (put_a_folder, "settings.json is a folder"),
        (put_a_pipe, "settings.json is not a regular file"),
        (put_a_file_for_a_folder, "Not a directory"),
        (put_a_ring, "Too many levels of symbolic links"),
        (put_broken, r"settings\.json: it is not JSON"),
        (put_comments, "it is not JSON, which has no comments"),
        (put_half_a_block, "are not one pair"),
        (put_a_dead_link, "CLAUDE.md is a link to nothing"),
    ],
)
def test_obstacles(home: Path, obstacle: Callable[[Path], None], why: str) -> None:
    obstacle(home)
    before = tree(home) if obstacle is not put_a_pipe else {}
    with pytest.raises(InstallError, match=why) as raised:
        install(places(home), WANTED, environment(home))
    assert str(raised.value).endswith("nothing was changed. Correct that, then repeat")
    assert obstacle is put_a_pipe or tree(home) == before


@pytest.fixture
def protected(home: Path) -> Iterator[Path]:
    """A home folder whose modes a test may change."""
    yield home
    for path in home.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)


@pytest.mark.parametrize(
    ("name", "mode", "why"),
    [
        (".claude", 0o555, "claude is write-protected"),
        (".claude", 0o000, "cannot be read: Permission denied"),
        (".claude/CLAUDE.md", 0o444, "is write-protected"),
        (".claude/settings.json", 0o000, "cannot be read: Permission denied"),
        (".", 0o555, "home is write-protected"),
    ],
)
@bound
def test_missing_permissions_change_no_file(protected: Path, name: str, mode: int, why: str) -> None:
    before = tree(protected)
    usual = (protected / name).stat().st_mode
    (protected / name).chmod(mode)

    def work() -> None:
        obey_modes()
        install(places(protected), WANTED, environment(protected))

    told = in_a_child(work)
    (protected / name).chmod(usual)
    assert re.search(why, told)
    assert told.endswith("nothing was changed. Correct that, then repeat")
    assert tree(protected) == before


def test_a_file_that_changes_meanwhile_is_not_overwritten(home: Path) -> None:
    plan = plan_install(places(home), WANTED, environment(home))
    (home / ".claude/CLAUDE.md").write_text("mine")
    with pytest.raises(MidwayError, match=r"CLAUDE\.md was changed by another program just now"):
        plan.changes[-1].make()
    assert (home / ".claude/CLAUDE.md").read_text() == "mine"
