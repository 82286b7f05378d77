"""New files are complete or absent (SPEC 8)."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, TypeAlias

import pytest

from foldmark.sessions.new_file import PREFIX, SUFFIX, WriteError, new_file, replaced_file

Writing: TypeAlias = Callable[..., AbstractContextManager[IO[bytes]]]
BOTH = pytest.mark.parametrize("writing", [new_file, replaced_file])


def there(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@BOTH
def test_the_file_appears_when_the_block_ends(writing: Writing, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with writing(path) as file:
        file.write(b"x" * 3_000_000)
        assert not path.exists()
    assert there(tmp_path) == {"a.jsonl": b"x" * 3_000_000}
    assert path.stat().st_mode & 0o777 == 0o600


@BOTH
def test_its_mode(writing: Writing, tmp_path: Path) -> None:
    with writing(tmp_path / "a", mode=0o644) as file:
        file.write(b"1")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


@BOTH
@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_a_block_that_raises_leaves_nothing(writing: Writing, error: type[BaseException], tmp_path: Path) -> None:
    def broken() -> None:
        with writing(tmp_path / "a") as file:
            file.write(b"1")
            raise error

    with pytest.raises(error):
        broken()
    assert there(tmp_path) == {}


def test_a_new_file_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    with pytest.raises(WriteError, match=r"a already exists and was not changed"), new_file(path) as file:
        file.write(b"after")
    assert there(tmp_path) == {"a": b"before"}
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(WriteError, match="already exists"), new_file(tmp_path / "link") as file:
        file.write(b"after")
    assert not (tmp_path / "nowhere").exists()


def test_without_hard_links_a_new_file_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", link)
    path = tmp_path / "a"
    for _ in range(2):
        try:
            with new_file(path) as file:
                file.write(b"1")
        except WriteError as error:
            assert "already exists" in str(error)  # noqa: PT017 - the first time it is not
        path.write_bytes(path.read_bytes() + b"!")
    assert there(tmp_path) == {"a": b"1!!"}


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    path.chmod(0o640)
    with replaced_file(path) as file:
        file.write(b"after")
        file.flush()
        assert path.read_bytes() == b"before"
    assert there(tmp_path) == {"a": b"after"}
    assert path.stat().st_mode & 0o777 == 0o640


@BOTH
def test_system_errors_are_one_line(writing: Writing, tmp_path: Path) -> None:
    for path, said in ((tmp_path / "no" / "a", "No such file"), (tmp_path / ("n" * 300), "")):
        with pytest.raises(WriteError, match=f"cannot be written: .*{said}") as caught, writing(path) as file:
            file.write(b"1")
        assert "\n" not in str(caught.value)
    assert there(tmp_path) == {}


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(WriteError), replaced_file(tmp_path / "a") as file:
        file.write(b"1")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("name", ["new_file", "replaced_file"])
def test_a_process_that_dies_leaves_nothing_that_looks_like_a_session(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom foldmark.sessions import new_file\n"
        f"with new_file.{name}(Path(sys.argv[1])) as file:\n"
        "    file.write(b'x' * 3_000_000)\n    file.flush()\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)])
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(PREFIX)
    assert left.name.endswith(SUFFIX)
    assert not left.match("*.jsonl")


@BOTH
def test_files_of_dead_processes_are_removed_and_files_in_progress_stay(writing: Writing, tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}left{SUFFIX}"
    left.write_bytes(b"x")
    kept = [tmp_path / f"{PREFIX}other", tmp_path / f"other{SUFFIX}"]
    for path in kept:
        path.write_bytes(b"not ours")
    code = (
        "import sys\nfrom pathlib import Path\nfrom foldmark.sessions import new_file\n"
        f"with new_file.{writing.__name__}(Path(sys.argv[1])) as file:\n"
        "    file.write(b'theirs')\n    print('here', flush=True)\n    sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "theirs")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        with new_file(tmp_path / "outer") as outer:
            outer.write(b"1")
            with writing(tmp_path / "inner") as inner:
                inner.write(b"2")
                assert not left.exists()
                assert len(list(tmp_path.glob(f"{PREFIX}*{SUFFIX}"))) == 3
        process.communicate("")
    assert process.returncode == 0
    expected = {"outer": b"1", "inner": b"2", "theirs": b"theirs", **{path.name: b"not ours" for path in kept}}
    assert there(tmp_path) == expected


def test_without_locks_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks here")

    monkeypatch.setattr("fcntl.flock", flock)
    left = tmp_path / f"{PREFIX}left{SUFFIX}"
    left.write_bytes(b"x")
    with new_file(tmp_path / "a") as file:
        file.write(b"1")
    assert there(tmp_path) == {"a": b"1", left.name: b"x"}


def test_a_file_removed_before_its_lock_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open
    names = list[str]()

    def taken(name: Any, flags: int, mode: int = 0o777) -> int:
        descriptor = opened(name, flags, mode)
        if flags & os.O_EXCL:
            names.append(name)
            if len(names) == 1:
                Path(name).unlink()
        return descriptor

    monkeypatch.setattr(os, "open", taken)
    with new_file(tmp_path / "a") as file:
        file.write(b"1")
    assert len(set(names)) == 2
    assert there(tmp_path) == {"a": b"1"}
