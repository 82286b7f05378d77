"""An independent check of a trim: it knows nothing about the way Foldmark edits lines."""

from __future__ import annotations

import json
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any

from foldmark.formats.places import session_path
from foldmark.formats.session_file import SessionFile
from foldmark.formats.session_format import SessionPath, format_named
from foldmark.sessions.new_file import mode_beside, new_file
from foldmark.sessions.trim import trimming
from foldmark.sessions.trim.job import TrimOptions
from foldmark.sessions.trim.trimming import TrimResult

TOOLS = ("Read", "Bash", "Grep", "Glob")
POINTER = "... [TRIMMED by Foldmark: "


def parsed(line: bytes) -> Any:
    """Return the JSON object in a line, or None if there is none."""
    try:
        value = json.loads(line.decode().removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def compare(
    old: bytes,
    new: bytes,
    new_id: str,
    tools: tuple[str, ...] = TOOLS,
    threshold: int = 500,
    *,
    deep: bool = False,
) -> int:
    """Assert that only permitted parts differ. Return the number of cut results, plus that of calls with cut arguments.

    Lines that are not JSON objects keep their bytes. In the others every member is the same except the session id, the
    numbers in an answer's usage, the content of a result of these tools, and the metadata. A line in which only the id
    differs has the same bytes otherwise. `deep`: arguments may be cut, and results may be cut to a mere pointer.
    """
    before, after = old.split(b"\n"), new.split(b"\n")
    assert len(before) == len(after)
    names = _names(before)
    first = next((number for number, line in enumerate(before) if parsed(line) is not None), None)
    cut = 0
    for number, (one, other) in enumerate(zip(before, after, strict=True)):
        meant = {each.casefold() for each in tools}
        cut += _compare_line(one, other, new_id, names, meant, threshold, number == first, deep)
    return cut


def _names(lines: list[bytes]) -> dict[str, str | None]:
    names = dict[str, str | None]()
    for line in lines:
        for block in _blocks(parsed(line)):
            if block.get("type") == "tool_use" and isinstance(block.get("id"), str):
                names[block["id"]] = block.get("name")
    return names


def _blocks(record: Any) -> list[dict[str, Any]]:
    message = record.get("message") if record else None
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _compare_line(
    one: bytes,
    other: bytes,
    new_id: str,
    names: dict[str, str | None],
    tools: set[str],
    threshold: int,
    first: bool,
    deep: bool,
) -> int:
    record = parsed(one)
    if record is None:
        assert other == one
        return 0
    found = parsed(other)
    assert found is not None
    expected = deepcopy(record)
    if first:
        metadata = found["trim_metadata"]
        assert set(metadata) >= {"parent_file", "trimmed_at", "threshold", "trimmed_count", "tokens_saved"}
        assert metadata["threshold"] == threshold
        expected["trim_metadata"] = metadata
    if isinstance(record.get("sessionId"), str):
        expected["sessionId"] = new_id
    message = expected.get("message")
    if record.get("type") == "assistant" and isinstance(message, dict) and isinstance(message.get("usage"), dict):
        message["usage"] = _zero(message["usage"])
    cut = 0
    targets = []
    for mine, theirs in zip(_blocks(expected), _blocks(found), strict=True):
        if deep and mine.get("type") == "tool_use" and mine.get("input") != theirs.get("input"):
            _check_arguments(mine["input"], theirs["input"], threshold)
            mine["input"] = theirs["input"]
            cut += 1
        if mine.get("type") != "tool_result":
            continue
        name = names.get(str(mine.get("tool_use_id", "")))
        targets.append(isinstance(name, str) and name.casefold() in tools)
        if targets[-1] and mine.get("content") != theirs.get("content"):
            _check_cut(mine["content"], theirs["content"], threshold, deep)
            mine["content"] = theirs["content"]
            cut += 1
    if targets and all(targets) and "toolUseResult" in expected:
        _check_display(expected["toolUseResult"], found["toolUseResult"], threshold)
        expected["toolUseResult"] = found["toolUseResult"]
    assert found == expected
    assert list(found) == [*record, *(["trim_metadata"] if first and "trim_metadata" not in record else [])]
    if not first:
        _check_bytes(one, other, record, found)
    return cut


def _check_bytes(one: bytes, other: bytes, record: Any, found: Any) -> None:
    """Assert that, if a known JSON style gives the old line from its value, this style also gives the new line."""
    ending = one[len(one.rstrip()) :]
    for separators in ((",", ":"), (", ", ": ")):
        for ascii in (True, False):
            written = (json.dumps(each, separators=separators, ensure_ascii=ascii) for each in (record, found))
            before, after = (each.encode("utf-8", "surrogatepass") + ending for each in written)
            if before == one and (not ascii or other.isascii()):
                assert other == after
                return
    if record == found:
        assert one == other


def _zero(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _zero(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_zero(each) for each in value]
    return 0 if isinstance(value, int | float) and not isinstance(value, bool) else value


def _check_arguments(whole: dict[str, Any], left: dict[str, Any], threshold: int) -> None:
    """Assert that the members are the same; cut texts of some are shorter and say where the whole argument is."""
    assert list(whole) == list(left)
    for key, value in whole.items():
        if key == "edits":
            assert len(value) == len(left[key])
            for one, other in zip(value, left[key], strict=True):
                _check_arguments(one, other, threshold)
        elif key == "todos" and left[key] != value:
            ((content, status, active),) = (each.values() for each in left[key])
            assert content.startswith(f"{POINTER}0 of {len(value)} entries. The whole argument: line ")
            assert (list(left[key][0]), status, active) == (["content", "status", "activeForm"], "completed", "Trimmed")
        elif left[key] != value:
            assert key in ("content", "old_string", "new_string", "new_source", "prompt")
            _check_cut(value, left[key], threshold, True)
            assert ". The whole argument: line " in left[key]


def _check_cut(whole: Any, left: Any, threshold: int, deep: bool = False) -> None:
    """Assert that the rest begins like the whole, is shorter, and says where the whole is."""
    if isinstance(whole, str):
        kept, _, pointer = left.partition(f"\n{POINTER}")
        assert pointer
        assert whole.startswith(kept)
        assert len(left) < len(whole) > (0 if deep and not kept else threshold)
        assert len(kept) <= threshold or kept.startswith("<persisted-output>")
        numbers = pointer.split()
        assert int(numbers[0].replace(",", "")) == len(kept)
        assert int(numbers[2].replace(",", "")) == len(whole)
        return
    assert isinstance(left, list)
    others = [each for each in whole if not isinstance(each, dict) or each.get("type") not in ("text", "image")]
    assert [each for each in left if not isinstance(each, dict) or each.get("type") not in ("text", "image")] == others
    assert len(json.dumps(left)) < len(json.dumps(whole))
    said = "".join(each["text"] for each in whole if isinstance(each, dict) and each.get("type") == "text")
    kept = "".join(
        each["text"].partition(f"\n{POINTER}")[0]
        for each in left
        if isinstance(each, dict) and each.get("type") == "text" and " image\n... [TRIMMED" not in each["text"]
    )
    assert said.startswith(kept)


def _check_display(whole: Any, left: Any, threshold: int) -> None:
    """Assert that the shape is the same; a changed string or list of strings is shorter and has a pointer."""
    if isinstance(whole, dict):
        assert list(whole) == list(left)
        for key in whole:
            _check_display(whole[key], left[key], threshold)
    elif isinstance(whole, list) and len(whole) != len(left):
        assert len(left) < len(whole)
        assert left[:-1] == whole[: len(left) - 1]
        assert left[-1].startswith(POINTER)
    elif isinstance(whole, list):
        for one, other in zip(whole, left, strict=True):
            _check_display(one, other, threshold)
    elif whole != left:
        assert isinstance(whole, str)
        assert POINTER in left
        assert len(left) < len(whole)
        assert whole.startswith(left.partition(f"\n{POINTER}")[0]) or " image\n... [TRIMMED" in left


def at(tmp_path: Path, name: str, content: bytes) -> Path:
    """Write a session file where Claude Code would keep it, and return its path."""
    folder = tmp_path / "projects" / "-work"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.jsonl"
    path.write_bytes(content)
    return path


def trimmed_copy(session: SessionPath, wish: TrimOptions, new_id: str, moment: datetime) -> TrimResult:
    """Write the trimmed session even if nothing is cut, so that its lines can be compared."""
    path = format_named(session.kind).new_path(session.path, new_id, moment.astimezone())
    with SessionFile(session.path) as file, new_file(path, mode_beside(session.path)) as out:
        return trimming.write(session, file, out, wish, session_path(path, session.kind), moment)


def trim(session: SessionPath, wish: TrimOptions, new_id: str, moment: datetime) -> TrimResult:
    """Trim a session, as the command does."""
    with SessionFile(session.path) as file:
        return trimming.trim(session, file, wish, new_id, moment)


def preview(session: SessionPath, wish: TrimOptions, moment: datetime) -> TrimResult:
    """Return the result of a trim without writing it."""
    with SessionFile(session.path) as file:
        return trimming.preview(session, file, wish, moment)
