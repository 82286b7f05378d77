"""A large session is read in two halves at a time; nobody can tell from what comes out of it [SPEC 8]."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from session_records import assistant, call, jsonl, result, user
from trim_check import at, compare, trimmed_copy

from foldmark.sessions.places import session_path
from foldmark.sessions.trim import halves as trim_halves
from foldmark.sessions.trim.kind import Piece, TrimError, Wish
from foldmark.sessions.trim.trimming import Trimmed, preview, trim

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ID = "11111111-2222-4333-8444-555555555555"
OLD = "99999999-2222-4333-8444-555555555555"
WISH = Wish(500, ("Read", "Bash"))

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="there is no second processor to be had here"
)


def exchange(number: int, name: str = "Read") -> bytes:
    return jsonl(
        assistant([call(f"c{number}", name)], sessionId=OLD, usage={"input_tokens": 7}),
        user([result(f"c{number}", f"line {number}\n" * 400)], sessionId=OLD, toolUseResult={"x": "y" * number * 9}),
    )


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that were forked; every session is large."""
    fork, seen = os.fork, []

    def forked() -> int:
        process = fork()
        if process:
            seen.append(process)
        return process

    monkeypatch.setattr(os, "fork", forked)
    monkeypatch.setattr(trim_halves, "LARGE", 0)
    return seen


def both(path: Path, wish: Wish, monkeypatch: pytest.MonkeyPatch) -> tuple[Trimmed, bytes]:
    """The session trimmed in halves, which is the same as in one piece."""
    done = trimmed_copy(session_path(path), wish, ID, NOW)
    content = done.session.path.read_bytes()
    seen = preview(session_path(path), wish, NOW)
    done.session.path.unlink()
    with monkeypatch.context() as context:
        context.setattr(trim_halves, "LARGE", 1 << 60)
        alone = trimmed_copy(session_path(path), wish, ID, NOW)
    assert alone == done
    assert alone.session.path.read_bytes() == content
    assert (seen.tally, seen.in_context, seen.lines) == (done.tally, done.in_context, done.lines)
    alone.session.path.unlink()
    assert list(path.parent.iterdir()) == [path]
    return done, content


BOUNDARY = jsonl({"type": "system", "subtype": "compact_boundary"})


@pytest.mark.parametrize(
    "content",
    [
        b"".join(exchange(number, ("Read", "Bash", "Edit")[number % 3]) for number in range(60)),
        b"".join(exchange(number) for number in range(60)).rstrip(b"\n"),
        b"".join(exchange(number) for number in range(10)) + BOUNDARY + b"".join(exchange(n) for n in range(10, 60)),
        b"".join(exchange(number) for number in range(50)) + BOUNDARY + b"".join(exchange(n) for n in range(50, 60)),
        b"\n{torn\n" * 50 + b"".join(exchange(number) for number in range(20)),
        b"".join(exchange(number).replace(b"\n", b"\r\n") for number in range(20)) + b"\x00" * 5000,
        exchange(1) + exchange(2),
        b"null\n" * 2 + b"".join(exchange(number) for number in range(20)) + b"null\n",
    ],
    ids=range(8),
)
@pytest.mark.parametrize("wish", [WISH, Wish(100, ("*",))], ids=["default", "everything"])
def test_it_is_the_same_as_in_one_piece(
    forks: list[int], tmp_path: Path, content: bytes, wish: Wish, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = at(tmp_path, OLD, content)
    done, new = both(path, wish, monkeypatch)
    tools = ("Read", "Bash", "Edit") if wish.tools == ("*",) else wish.tools
    assert compare(content, new, ID, tools, wish.threshold) == done.trimmed_count > 0
    assert len(forks) == 2


@pytest.mark.parametrize("late", [True, False])
def test_a_result_and_its_call_in_different_halves(
    forks: list[int], tmp_path: Path, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = exchange(1000, "Bash").splitlines(keepends=True)
    before, behind = reversed(apart) if late else apart
    content = before + b"".join(exchange(number) for number in range(40)) + behind
    for wish in (WISH, Wish(500, ("*",))):
        done, new = both(at(tmp_path, OLD, content), wish, monkeypatch)
        assert done.tally["Bash"].cut == 1
        assert compare(content, new, ID) == 41


def test_calls_are_not_parted_from_their_results(tmp_path: Path) -> None:
    twice = jsonl(assistant([call("1")]), assistant([call("2")]), user([result("1")]), user([result("2")]))
    path = at(tmp_path, OLD, twice * 200)
    with path.open("rb") as file:
        opened = trim_halves.Opened(Piece(path), file)
        for end in range(20_000, opened.end - 5_000, 517):
            opened.end = end
            middle = trim_halves._middle(opened)
            assert middle is not None
            assert path.read_bytes()[:middle].count(b"\n") % 4 == 0


def test_a_second_process_that_fails_is_no_loss(
    forks: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"".join(exchange(number) for number in range(40))
    monkeypatch.setattr(trim_halves, "_lines", lambda *_: 1 // 0)
    done = trimmed_copy(session_path(at(tmp_path, OLD, content)), WISH, ID, NOW)
    assert compare(content, done.session.path.read_bytes(), ID) == 40
    assert len(forks) == 1


def test_a_failure_leaves_no_second_process(forks: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = os.getpid()
    run = trim_halves.Pass.run

    def failing(self: Any) -> Any:
        if os.getpid() == parent:
            raise KeyboardInterrupt
        return run(self)

    monkeypatch.setattr(trim_halves.Pass, "run", failing)
    path = at(tmp_path, OLD, b"".join(exchange(number) for number in range(40)))
    with pytest.raises(KeyboardInterrupt):
        trim(session_path(path), WISH, ID, NOW)
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(ChildProcessError):
        os.waitpid(forks[0], os.WNOHANG)


def test_a_file_without_records(forks: list[int], tmp_path: Path) -> None:
    path = at(tmp_path, OLD, b"[]\n" * 1000)
    with pytest.raises(TrimError, match="is no session"):
        trim(session_path(path), WISH, ID, NOW)
    path.write_bytes(b"[]\n" * 3000 + exchange(1))
    done = trim(session_path(path), WISH, ID, NOW)
    assert compare(path.read_bytes(), done.session.path.read_bytes(), ID) == 1


def _with_a_thread(run: Callable[[], None]) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        run()
    finally:
        stop.set()
        thread.join()


def test_beside_other_threads_nothing_is_forked(forks: list[int], tmp_path: Path) -> None:
    path = at(tmp_path, OLD, b"".join(exchange(number) for number in range(40)))
    _with_a_thread(lambda: trim(session_path(path), WISH, ID, NOW))  # type: ignore[arg-type,return-value]
    assert forks == []


def test_small_sessions_and_one_endless_line_are_read_in_one_piece(
    forks: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = at(tmp_path, OLD, json.dumps({"x": "y" * (5 << 20)}).encode())
    trimmed_copy(session_path(path), WISH, ID, NOW).session.path.unlink()
    monkeypatch.setattr(trim_halves, "LARGE", path.stat().st_size + 1)
    path.write_bytes(exchange(1) * 100)
    trim(session_path(path), WISH, ID, NOW)
    assert forks == []
