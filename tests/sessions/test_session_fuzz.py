"""Mutated lines for everything that reads sessions: nothing crashes or loses a line, and the hook always exits with 0.

Each part is a set of damaged files, the same in every run: 1,800 lines in all, or 100,000 with FOLDMARK_DEEP=1.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from archive_place import Home
from exported import shown
from hook_place import HookPlace, fed
from session_mutations import LINES, PARTS, Damaged, damaged
from trim_check import preview, trim

import foldmark
from foldmark import cli as entry
from foldmark.formats.chain import plan
from foldmark.formats.claude import records as claude_records
from foldmark.formats.claude.blocks import read_message
from foldmark.formats.codex import records as codex_records
from foldmark.formats.codex.records import read_item
from foldmark.formats.places import kind_in, recognized, session_path
from foldmark.formats.session_file import SessionFile, SessionFileError, SessionRecord
from foldmark.formats.session_format import built_in, format_named
from foldmark.sessions.archive.marker import record_is_marked
from foldmark.sessions.archive.reading import messages_in
from foldmark.sessions.conversion.importing import import_session
from foldmark.sessions.doctor import diagnose
from foldmark.sessions.doctor.repairing import RepairError, repair
from foldmark.sessions.hook import tail
from foldmark.sessions.trim.job import TrimError, TrimOptions
from foldmark.wires.lenient_json import NotJsonError, decode
from sampled import DEEP

MOMENT = datetime(2026, 11, 22, 12, tzinfo=UTC)
NEW = "0199bbbb-9999-7888-8777-666655554444"
PROCESSES = 12 if DEEP else 1
"""Number of files in each part whose hooks also run in separate processes."""

parts = pytest.mark.parametrize("part", range(PARTS))


def lines_of(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def parsed(line: bytes) -> Any:
    """Return the value in a line, or None if Foldmark cannot read it."""
    try:
        return decode(line.removeprefix(b"\xef\xbb\xbf"))
    except NotJsonError:
        return None


@pytest.fixture
def placed(part: int, tmp_path: Path) -> list[tuple[Damaged, Path]]:
    """The files of the part, each where its program would keep it."""
    found = []
    for each in damaged(part):
        folder = tmp_path / (".codex/sessions/2026/11/02" if each.kind == "codex" else ".claude/projects/-garden")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / each.name
        path.write_bytes(each.content)
        found.append((each, path))
    return found


def test_the_files_are_many_and_damaged() -> None:
    files = damaged(0)
    assert sum(each.lines for each in files) == LINES
    assert {each.kind for each in files} == {"claude", "codex"}
    broken = [line for each in files for line in lines_of(each.content) if line.strip() and parsed(line) is None]
    assert LINES / 20 < len(broken) < LINES / 2


def is_wide(each: Damaged) -> bool:
    """Return True if the file passes for UTF-16, so that its lines are not those of its bytes."""
    return each.content.startswith((b"\xff\xfe", b"\xfe\xff"))


# -- parse ----------------------------------------------------------------------------------------------------


@parts
def test_parse(part: int, placed: list[tuple[Damaged, Path]]) -> None:
    """Every line is a record, broken or blank; the plan of an import contains each record exactly once."""
    for each, path in placed:
        lines = lines_of(each.content)
        with SessionFile(path) as file:
            found = list(file.lines())
            assert file.wide or file.line_count == len(lines)
            wide = file.wide
        records = [line for line in found if isinstance(line, SessionRecord)]
        if not wide:
            told = [line.line for line in found]
            assert told == [at for at, line in enumerate(lines, 1) if line.removeprefix(b"\xef\xbb\xbf").strip()]
        for record in records:
            assert read_message(record.value) is not None
            assert read_item(record.value) is not None
            assert isinstance(messages_in(record.value, each.kind), list)
        for index in (claude_records.index, codex_records.index):
            planned = [step.entry.line for turn in plan(index(records)).turns for step in turn.steps]
            assert sorted(planned) == [record.line for record in records]


@parts
def test_import(part: int, placed: list[tuple[Damaged, Path]]) -> None:
    """Every record is imported or kept, and every broken line is reported."""
    for each, path in placed[:: 10 if DEEP else 3]:
        with foldmark.open(":memory:") as log:
            try:
                report = import_session(log, path, "it")
            except SessionFileError as error:
                values = [parsed(line) for line in lines_of(each.content)]
                if "holds no message" in str(error):
                    readings = (read(value) for value in values for read in (read_message, read_item))
                    assert is_wide(each) or not any(reading.parts for reading in readings)
                else:
                    assert is_wide(each) or not any(
                        own.is_record(value) or own.resembles(value) for own in built_in() for value in values
                    )
                assert list(log.agents()) == [], "nothing was written"
                continue
            nonblank = sum(bool(line.removeprefix(b"\xef\xbb\xbf").strip()) for line in lines_of(each.content))
            if not is_wide(each):
                assert sum(report.records.values()) + len(report.broken) == nonblank


# -- trim -----------------------------------------------------------------------------------------------------

_MAY_CHANGE = {
    "claude": (
        r"/sessionId",
        r"/trim_metadata(/.*)?",
        r"/message/usage/.*",
        r"/(isApiErrorMessage|error|errorDetails)",
        r"/message/content/\d+/(text|content(/.*)?)",
        r"/toolUseResult(/.*)?",
    ),
    "codex": (
        r"/trim_metadata(/.*)?",
        r"/payload/(id|session_id|history_base(/.*)?)",
        r"/payload/output(/.*)?",
        r"/payload/info/last_token_usage/.*",
        r"/payload/(item|result|stdout|stderr|aggregated_output|formatted_output|changes|content)\b(/.*)?",
        r"/payload/replacement_history/\d+/output(/.*)?",
    ),
}


def differing(one: Any, other: Any, at: str = "") -> Iterator[str]:
    """Yield the paths at which two values differ; lists of different lengths differ as a whole."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            if key not in one or key not in other:
                yield f"{at}/{key}"
            else:
                yield from differing(one[key], other[key], f"{at}/{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from differing(mine, theirs, f"{at}/{number}")
    elif type(one) is not type(other) or one != other:
        yield at


def deeply(line: bytes) -> Any:
    """Return the value like `parsed`, even if it is nested too deeply for Foldmark's other readers."""
    try:
        return parsed(line) or json.loads(line.decode("utf-8-sig", "replace"))
    except ValueError:
        return None


@parts
def test_trim(part: int, placed: list[tuple[Damaged, Path]]) -> None:
    """A trim keeps the number of lines; a line differs only where a trim may change it."""
    cut = 0
    for each, path in placed:
        session = session_path(path, each.kind)
        new = format_named(session.kind).new_path(session.path, NEW, MOMENT.astimezone())
        try:
            trimmed = trim(session, TrimOptions(500, ("*",)), NEW, MOMENT)
        except (TrimError, SessionFileError):
            assert not new.exists()
            assert not_to_be_trimmed(each), each.number
            continue
        assert path.read_bytes() == each.content
        cut += trimmed.trimmed_count
        written = trimmed.session.path.read_bytes()
        trimmed.session.path.unlink()
        before, after = each.content.split(b"\n"), written.split(b"\n")
        if is_wide(each):
            continue
        assert len(before) == len(after)
        for one, other in zip(before, after, strict=True):
            if one == other:
                continue
            value, changed = deeply(one), deeply(other)
            assert isinstance(value, dict), one
            assert isinstance(changed, dict), other
            for place in differing(value, changed):
                assert any(re.fullmatch(may, place) for may in _MAY_CHANGE[each.kind]), (each.number, place)
    assert cut or not DEEP


@parts
def test_a_deep_trim(part: int, placed: list[tuple[Damaged, Path]]) -> None:
    """A deep trim of a damaged session keeps the number of lines, and a second trim finds nothing."""
    wish = TrimOptions(100, ("Read",), deep=True, spare=1)
    for each, path in placed:
        session = session_path(path, each.kind)
        if not_to_be_trimmed(each):
            continue
        usual = preview(session, TrimOptions(500, ("Read",)), MOMENT)
        deep = preview(session, TrimOptions(500, ("Read",), deep=True), MOMENT)
        assert deep.tokens_saved >= usual.tokens_saved, each.number
        trimmed = trim(session, wish, NEW, MOMENT)
        assert path.read_bytes() == each.content
        assert trimmed.lines == usual.lines
        if trimmed.session == session:
            assert not trimmed.trimmed_count
            continue
        assert preview(trimmed.session, wish, MOMENT).trimmed_count == 0, each.number
        trimmed.session.path.unlink()


def not_to_be_trimmed(each: Damaged) -> bool:
    """Return True if there is no record, Codex would not find the first one, or torn bytes pass for UTF-16."""
    if is_wide(each):
        return True
    lines = [line for line in lines_of(each.content) if line.strip()]
    if each.kind == "claude":
        return not any(isinstance(parsed(line), dict) for line in lines)
    first = parsed(lines[0]) if lines and not each.content.startswith(b"\xef\xbb\xbf") else None
    payload = first.get("payload") if isinstance(first, dict) and first.get("type") == "session_meta" else None
    return not isinstance(payload, dict) or payload.get("history_base") is not None


# -- sync -----------------------------------------------------------------------------------------------------


@parts
def test_sync(part: int, placed: list[tuple[Damaged, Path]], tmp_path: Path) -> None:
    """Every file is archived unchanged, and every readable message is in the index."""
    home = Home(tmp_path)
    report = home.sync()
    assert report.problems == []
    assert report.sessions == len(placed)
    archived = {path.name: path.read_bytes() for path in home.archive.rglob("*.jsonl")}
    found = indexed(home)
    for each, path in placed:
        with SessionFile(path) as file:
            records = [line for line in file.lines() if isinstance(line, SessionRecord)]
        if any(record_is_marked(record.value) for record in records):
            assert not found.get(each.name)
            continue
        assert archived[each.name] == each.content
        messages = {record.line: messages_in(record.value, each.kind) for record in records}
        expected = Counter({line: len(own) for line, own in messages.items() if own})
        missing = expected - found.get(each.name, Counter())
        assert found.get(each.name, Counter()) + missing == expected, each.number
        for line in missing:  # an edit has written it again
            assert any(own == messages[line] for other, own in messages.items() if other < line), each.number
    again = home.sync()
    assert (again.messages, again.new, again.grown, again.apart) == (0, 0, 0, 0)


def indexed(home: Home) -> dict[str, Counter[int]]:
    """Return the number of messages in the index, by file name and line."""
    found: dict[str, Counter[int]] = {}
    db = apsw.Connection(str(home.archive / "index.db"))
    try:
        rows = db.execute("SELECT f.path, m.line FROM messages m JOIN files f ON f.id = m.file")
        for path, line in rows:
            found.setdefault(Path(os.fsdecode(path)).name, Counter())[line] += 1
    finally:
        db.close()
    return found


# -- hook and status line -------------------------------------------------------------------------------------

_EVENTS = ("PostToolUse", "UserPromptSubmit", "SessionStart", "PreCompact", "Stop", "SessionEnd")


def events(each: Damaged, path: Path) -> list[bytes]:
    """Return the input of three hooks for this session: two valid events and a damaged one."""
    name = _EVENTS[each.number % len(_EVENTS)]
    whole = {"session_id": path.stem, "transcript_path": str(path), "cwd": str(path.parent)}
    told = [{**whole, "hook_event_name": name, "source": "resume"}, {**whole, "hook_event_name": "PostToolUse"}]
    given = [json.dumps(event).encode() for event in told]
    piece = each.content[:50]
    at = each.number % len(given[0])
    given.append(given[0][:at] + piece + given[0][at + len(piece) // 2 :])
    return given


@parts
def test_hook_and_statusline(
    part: int, placed: list[tuple[Damaged, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both exit with 0 and print nothing or output that Claude Code reads, in this process and in separate ones."""
    home = tmp_path / "hooks"
    home.mkdir()
    place = HookPlace(home)
    for key, value in place.environment.items():
        monkeypatch.setenv(key, value)
    for number, (each, path) in enumerate(placed):
        share = tail.share(path)
        assert share is None or share.tokens > 0
        for event in events(each, path):
            with fed(event, home) as written:
                assert entry.hook() == 0
            check_answer(written.read_bytes())
            with fed(event, home) as written:
                assert entry.statusline() == 0
            assert written.read_bytes().count(b"\n") == 1
            if number < PROCESSES:
                done = place.ran(event)
                assert (done.returncode, done.stderr) == (0, "")
                check_answer(done.stdout.encode())
                assert place.ran(event, program="statusline").returncode == 0
    known = ("standard input", "JSONDecodeError", "Error: there is no file", "Expecting", "ArchiveError")
    assert [line for line in place.logged if not any(word in line for word in known)] == []


def check_answer(printed: bytes) -> None:
    if printed:
        answer = json.loads(printed)
        assert isinstance(answer["hookSpecificOutput"]["additionalContext"], str)


# -- doctor ---------------------------------------------------------------------------------------------------


@parts
def test_doctor_and_repair(part: int, placed: list[tuple[Damaged, Path]], tmp_path: Path) -> None:
    """Every file is diagnosed; a repaired session has no damage, and shows the same messages."""
    repaired = 0
    for each, path in placed:
        try:
            session = recognized(session_path(path), damaged=True)
        except SessionFileError:  # no record is left in it
            with SessionFile(path) as file:
                assert kind_in(file) is None, each.number
            continue
        for kind in ("claude", "codex"):
            assert diagnose(session_path(path, kind)).lines >= 0
        found, out = diagnose(session), tmp_path / f"{NEW}.jsonl"
        try:
            with foldmark.open(":memory:", settings={}) as log:
                new = repair(log, found, NEW, MOMENT, "1.2.3", out)
        except RepairError:
            assert session.kind == "codex" or not shown(path), each.number
            continue
        except SessionFileError:
            with foldmark.open(":memory:", settings={}) as log, pytest.raises(SessionFileError):
                import_session(log, path)
            continue
        finally:
            assert path.read_bytes() == each.content
        if new is None:
            assert not found.wrong, each.number
            continue
        repaired += 1
        assert new.now.wrong == [], each.number
        assert shown(out) == shown(path), each.number
        out.unlink()
    assert repaired
