"""Codex's databases beside its rollouts are compared, never written (SPEC 8)."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import codex_place
import pytest
from codex_place import HISTORY, STATE, CodexHome, RealCodex
from hook_place import PROGRAM
from rollout_records import ID

from foldmark.formats.places import session_path
from foldmark.sessions.doctor import diagnose


@pytest.fixture
def home(tmp_path: Path) -> CodexHome:
    return CodexHome(tmp_path / "codex")


def found(path: Path) -> list[tuple[str, str]]:
    return [(each.weight, each.text) for each in diagnose(session_path(path)).findings]


def test_databases_that_agree_with_the_rollout_give_no_finding(home: CodexHome) -> None:
    before = home.files
    assert found(home.rollout) == []
    assert home.files == before


@pytest.mark.parametrize("left", ["nothing", "log and index", "log alone"])
def test_nothing_is_written_and_nothing_overlooked(home: CodexHome, left: str) -> None:
    """However Codex has left its databases: changes that are only in the write-ahead log count."""
    statement = "UPDATE threads SET archived = 1 WHERE id = ?"
    if left == "nothing":
        home.change(STATE, statement, ID)
    else:
        home.left_open(STATE, statement, ID)
        home.left_open(HISTORY, "UPDATE thread_turns SET status = 'failed' WHERE thread_id = ?", ID)
        assert {f"{STATE}-wal", f"{STATE}-shm", f"{HISTORY}-wal"} <= set(home.files)
    if left == "log alone":
        for name in (STATE, HISTORY):
            (home.folder / f"{name}-shm").unlink()
    before = home.files
    ((weight, text),) = found(home.rollout)
    assert weight == "note"
    assert text == f"the session is archived in Codex's {STATE}; `codex unarchive {ID}` before resuming it"
    assert home.files == before


def test_while_codex_writes(home: CodexHome) -> None:
    with closing(sqlite3.connect(home.folder / STATE)) as codex:
        codex.execute("UPDATE threads SET archived = 1")
        codex.commit()
        codex.execute("BEGIN IMMEDIATE")
        codex.execute("UPDATE threads SET archived = 0")
        before = set(home.files)
        assert [weight for weight, _ in found(home.rollout)] == ["note"]
        assert set(home.files) == before
        codex.commit()
        assert found(home.rollout) == []


def test_a_rollout_that_codex_looks_for_elsewhere(home: CodexHome) -> None:
    moved = home.rollout.parents[1] / "03" / home.rollout.name
    moved.parent.mkdir()
    home.rollout.rename(moved)
    ((weight, text),) = found(moved)
    assert weight == "stops"
    assert text == (
        f"Codex's {STATE} says that the session is in {home.rollout}, where it is not: Codex cannot resume it; "
        "put the file back there"
    )
    home.rollout.write_bytes(moved.read_bytes())
    ((weight, text),) = found(moved)
    assert weight == "loses"
    assert f"names another file for this session, {home.rollout}: Codex goes on with that one" in text
    assert found(home.rollout) == []


@pytest.mark.parametrize("lines", [8, 10])
def test_a_file_that_is_shorter_than_what_was_read(home: CodexHome, lines: int) -> None:
    home.rollout.write_bytes(b"".join(home.lines[:lines]))
    text = next(text for weight, text in found(home.rollout) if weight == "loses")
    assert f"was read from this file up to byte {home.at(11):,}, and the file has {home.at(lines):,}" in text
    assert f"move {HISTORY} away" in text


def test_a_file_that_was_changed_and_has_grown_since(home: CodexHome) -> None:
    lines = [home.lines[0].replace(b"/garden", b"/gardens"), *home.lines[1:], *home.lines[6:11]]
    home.rollout.write_bytes(b"".join(lines))
    texts = [text for weight, text in found(home.rollout) if weight == "loses"]
    assert any(f"the file was changed after Codex's {HISTORY} was made from it (2 turns of 2 stand" in x for x in texts)


def test_lines_that_codex_has_not_read_yet_are_a_note(home: CodexHome) -> None:
    home.change(HISTORY, "UPDATE thread_history_projection_state SET next_rollout_byte_offset = ?", home.at(6))
    home.change(HISTORY, "UPDATE thread_history_projection_state SET next_rollout_ordinal = 6")
    home.change(HISTORY, "DELETE FROM thread_turns WHERE turn_id = 'turn-2'")
    ((weight, text),) = found(home.rollout)
    assert weight == "note"
    assert text.startswith(f"Codex's {HISTORY} lacks the last {home.at(11) - home.at(6):,} bytes of the file")
    home.change(HISTORY, "UPDATE thread_history_projection_state SET next_rollout_ordinal = 5")
    assert [weight for weight, _ in found(home.rollout)] == ["loses"], "another line stands there"


@pytest.mark.parametrize("name", [STATE, HISTORY])
@pytest.mark.parametrize("content", [b"no database", b"", b"SQLite format 3\0" + bytes(4080)])
def test_a_database_that_cannot_be_read(home: CodexHome, name: str, content: bytes) -> None:
    (home.folder / name).write_bytes(content)
    assert {weight for weight, _ in found(home.rollout)} <= {"note"}


@pytest.mark.parametrize("value", ["x'ff00'", "'/a' || char(0) || 'b'", "-5", "9223372036854775807", "''", "1.5"])
def test_values_that_codex_would_not_write(home: CodexHome, value: str) -> None:
    for table, name in (("thread_turns", "rollout_byte_offset"), ("thread_turns", "turn_id")):
        home.change(HISTORY, f"UPDATE {table} SET {name} = {value} WHERE turn_id = 'turn-2'")
        assert "loses" in {weight for weight, _ in found(home.rollout)} or name == "turn_id"
    for column in ("next_rollout_byte_offset", "next_rollout_ordinal"):
        home.change(HISTORY, f"UPDATE thread_history_projection_state SET {column} = {value}")
        found(home.rollout)
    home.change(STATE, f"UPDATE threads SET archived = {value}, rollout_path = {value}")
    assert {weight for weight, _ in found(home.rollout)} & {"stops", "loses", "note"}


def test_a_session_that_the_databases_do_not_know(home: CodexHome) -> None:
    for name, table in ((STATE, "threads"), (HISTORY, "thread_history_projection_state")):
        home.change(name, f"DELETE FROM {table}")
    assert found(home.rollout) == []


# -- the real Codex -------------------------------------------------------------------------------------------


@pytest.fixture
def real(tmp_path: Path) -> Iterator[RealCodex]:
    if codex_place.PROGRAM is None:
        pytest.skip("Codex is not installed: npm install @openai/codex, then name it in TEST_CODEX")
    yield from codex_place.serving(tmp_path)


def foldmark(real: RealCodex, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [PROGRAM, *words], cwd=real.work, env=real.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 or done.stdout else done.stderr


def databases(real: RealCodex) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in real.home.glob("*.sqlite*")}


def length(request: dict[str, object]) -> int:
    return len(json.dumps([each for each in request["input"] if each["type"] == "function_call_output"]))  # type: ignore[attr-defined]


def test_with_codex_itself(real: RealCodex) -> None:
    """Import, doctor, trim and rollover leave the databases as they are; Codex resumes the new sessions and shows them.
    If a rollout is changed or moved under Codex, the doctor's findings come true."""
    real.said("RUN it")
    (first,) = real.rollouts
    id = session_path(first).id
    before = databases(real)
    assert {STATE, HISTORY} <= set(before)
    foldmark(real, "import", str(first))
    assert "it can be resumed without loss" in foldmark(real, "doctor", "--session", str(first))
    trimmed = json.loads(foldmark(real, "trim", str(first), "--json"))
    (real.work / "summary.md").write_text("### Current Task\nx\n")
    rolled = json.loads(foldmark(real, "rollover", str(first), "--summary-file", "summary.md", "--json"))
    assert databases(real) == before

    full = length(real.asked[-1])
    real.said("go on", "resume", trimmed["new_session_id"])
    assert 0 < length(real.asked[-1]) < full / 5
    assert real.shown(trimmed["new_session_id"]) == ["RUN it", "go on"]
    assert real.shown(id) == ["RUN it"]
    real.said("carry on", "resume", rolled["new_session_id"])
    assert rolled["prompt"] in [_text(each) for each in real.asked[-1]["input"]]
    for file in (first, Path(trimmed["file"]), Path(rolled["file"])):
        assert "it can be resumed without loss" in foldmark(real, "doctor", "--session", str(file))

    # A change of the file itself has these effects.
    first.write_bytes(Path(trimmed["file"]).read_bytes().replace(trimmed["new_session_id"].encode(), id.encode()))
    assert "loses  Codex's thread_history_1.sqlite" in foldmark(real, "doctor", "--session", str(first), code=1)
    real.said("unseen", "resume", id)
    assert real.shown(id) == ["RUN it"]
    for path in real.home.glob(f"{HISTORY}*"):
        path.unlink()
    real.said("seen", "resume", id)
    assert real.shown(id)[-2:] == ["unseen", "seen"], "as the doctor advises"
    assert "it can be resumed without loss" in foldmark(real, "doctor", "--session", str(first))

    moved = real.home / "sessions" / "2026" / "01" / "01" / first.name
    moved.parent.mkdir(parents=True)
    first.rename(moved)
    assert "stops  Codex's state_5.sqlite says" in foldmark(real, "doctor", "--session", str(moved), code=1)
    assert "no rollout found" in real.run("exec", "--skip-git-repo-check", "resume", id, "more", code=1)


def _text(item: dict[str, object]) -> str:
    content = item.get("content")
    return content[0].get("text", "") if isinstance(content, list) and content else ""
