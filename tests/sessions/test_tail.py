"""The filled share of a context, read from the end of a transcript (SPEC 8)."""

from __future__ import annotations

import json
import os
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hook_place import HookPlace, answer, boundary, usage
from hypothesis import given
from hypothesis import strategies as st
from session_records import REAL, REAL_FILES, assistant, jsonl, result, user

from foldmark.sessions.hook import tail

CODEX_FILES = sorted((REAL.parent / "codex").glob("*.jsonl"))
SIDE: dict[str, Any] = {"isSidechain": True}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HookPlace:
    return HookPlace(tmp_path, monkeypatch)


def tokens(path: Path) -> int | None:
    found = tail.share(path)
    return found.tokens if found else None


# -- real files -----------------------------------------------------------------------------------------------


@pytest.mark.skipif(not REAL_FILES, reason="the real sessions are not here")
@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.stem)
def test_real_file(path: Path, place: HookPlace) -> None:
    """A reader that starts at the beginning finds the same answer."""
    expected, model = 0, None
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if isinstance(record, dict) and record.get("type") == "assistant" and record["message"].get("usage"):
            numbers = record["message"]["usage"]
            expected = numbers["input_tokens"] + numbers["output_tokens"]
            expected += numbers.get("cache_creation_input_tokens", 0) + numbers.get("cache_read_input_tokens", 0)
            model = record["message"]["model"]
    found = tail.share(path)
    assert found is not None
    assert (found.tokens, found.model) == (expected, model)
    assert found.window == (1_000_000 if expected > 200_000 else 200_000)
    assert found.percent == int(100 * expected / found.window)


@pytest.mark.skipif(not CODEX_FILES, reason="the real sessions are not here")
@pytest.mark.parametrize("path", CODEX_FILES, ids=lambda path: path.stem)
def test_real_codex_file(path: Path, place: HookPlace) -> None:
    records = map(json.loads, path.read_text().splitlines())
    payloads = [record["payload"] for record in records if record.get("type") == "event_msg"]
    info = [each["info"] for each in payloads if each["type"] == "token_count" and each["info"]][-1]
    used = info["last_token_usage"]
    found = tail.share(path)
    assert found is not None
    assert found.tokens == used["input_tokens"] + used["output_tokens"]
    assert found.window == info["model_context_window"]


# -- which record counts --------------------------------------------------------------------------------------


def test_the_newest_answer_counts(place: HookPlace) -> None:
    assert tokens(place.write(answer(50_000), user("go on"), answer(124_000), user([result("c")]))) == 124_000


@pytest.mark.parametrize(
    "later",
    [
        answer(180_000, **SIDE),
        answer(180_000, model="<synthetic>"),
        answer(180_000, isApiErrorMessage=True),
        assistant("no usage", "a"),
        user("text", toolUseResult={"type": "assistant", "usage": usage(180_000)}),
        {"type": "assistant", "message": None, "usage": {}},
        {"type": "assistant", "message": {"model": "m", "usage": [1]}},
        [answer(180_000)],
        {"type": "progress", "data": {"message": answer(180_000)}},
        boundary(postTokens=9) | SIDE,
        user("summary", isCompactSummary=True, **SIDE),
    ],
    ids=str,
)
def test_records_outside_of_the_main_chain_do_not_count(place: HookPlace, later: Any) -> None:
    assert tokens(place.write(answer(124_000), later)) == 124_000


def test_a_reset_answer_has_no_known_usage(place: HookPlace) -> None:
    """A trimmed copy is in this state before its first answer; earlier answers do not count either."""
    reset = answer(1_107)
    reset["message"]["usage"] = dict.fromkeys(usage(5_000), 0)
    assert tokens(place.write(answer(150_000), reset)) is None
    assert tokens(place.write(answer(150_000), reset, user("go on"), answer(60_000))) == 60_000


def test_the_last_of_several_calls_of_a_model_tells_the_size(place: HookPlace) -> None:
    """The usage is the sum of all calls that a provider made for one answer; a trim resets the sum."""
    calls = [{"type": "message", **usage(77_000)}, {"type": "compaction", **usage(70_000)}]
    calls += [{"type": "message", **usage(80_000)}, {"type": "advisor_message", **usage(9_000)}]
    several = answer(158_000)
    several["message"]["usage"]["iterations"] = calls
    assert tokens(place.write(several)) == 80_000
    for others in ([], [7], None, [{"type": "compaction", **usage(70_000)}]):
        several["message"]["usage"]["iterations"] = others
        assert tokens(place.write(several)) == 158_000
    reset = answer(1_107)
    reset["message"]["usage"] = {**dict.fromkeys(usage(5_000), 0), "iterations": calls}
    assert tokens(place.write(answer(150_000), reset)) is None


def test_invalid_numbers_count_as_0(place: HookPlace) -> None:
    wrong = answer(5_000)
    for value in ("many", -1, 1.5, True, None, 10**30, [1]):
        wrong["message"]["usage"] = usage(5_000, cache_read_input_tokens=value)  # type: ignore[arg-type]
        assert tokens(place.write(wrong)) == 1_107


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([boundary(postTokens=9_000, preTokens=190_000)], 9_000),
        ([boundary(postTokens=9_000), user("So far.", isCompactSummary=True)], 9_000),
        ([boundary(preTokens=190_000), user("So far.", isCompactSummary=True)], None),
        ([boundary(), user("So far.", isCompactSummary=True), answer(30_000)], 30_000),
        ([boundary() | {"compactMetadata": None}], None),
        ([user("So far.", isCompactSummary=True)], None),
        ([user("So far.", isCompactSummary=True), answer(30_000)], 30_000),
    ],
)
def test_a_compaction(place: HookPlace, records: list[Any], expected: int | None) -> None:
    assert tokens(place.write(answer(190_000), *records)) == expected


def test_codex_after_a_compaction(place: HookPlace) -> None:
    count = {"type": "token_count", "info": {"last_token_usage": {"total_tokens": 90_000}, "model_context_window": 1}}
    event = {"type": "event_msg", "payload": count}
    limits = {"type": "event_msg", "payload": {"type": "token_count", "info": None}}
    assert tokens(place.write(event, limits)) == 90_000
    assert tokens(place.write(event, {"type": "compacted", "payload": {"message": "So far."}})) is None


# -- the window -----------------------------------------------------------------------------------------------


def test_the_window_comes_from_the_best_source(place: HookPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    def window(given: int | None = None) -> int:
        found = tail.share(place.session, given)
        assert found is not None
        return found.window

    place.write(answer(100_000))
    assert window() == 200_000
    place.write(answer(200_001))
    assert window() == 1_000_000, "nothing else can hold that"
    place.write(answer(100_000, model="claude-sonnet-4-5[1M]"))
    assert window() == 1_000_000
    place.write(answer(100_000, model="claude-opus-4-8"))
    assert window() == 1_000_000
    monkeypatch.setenv("CLAUDE_CODE_DISABLE_1M_CONTEXT", "1")
    assert window() == 200_000
    monkeypatch.setenv("FOLDMARK_CONTEXT_WINDOW", "a lot")
    assert window() == 200_000
    monkeypatch.setenv("FOLDMARK_CONTEXT_WINDOW", "128000")
    assert window() == 128_000
    place.remembered().note_window(500_000)
    assert window() == 500_000
    assert window(64_000) == 64_000


def test_large_windows_are_published_as_such() -> None:
    table = json.loads(resources.files("foldmark.tokens").joinpath("models.json").read_text())
    models = table["providers"]["anthropic"]["models"]
    for begin in tail.LARGE:
        assert {each["window"] for name, each in models.items() if name.startswith(begin)} == {tail.LARGE_WINDOW}, begin


def test_the_share_is_rounded_down() -> None:
    assert tail.Share(119_999, 200_000, None).percent == 59
    assert tail.Share(120_000, 200_000, None).percent == 60


# -- hostile files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end", [b"", b"\n", b"\n\n \r\n", b'{"type":"assistant","usage":', b'\xff\xfe"usage"', b"\0" * 70_000]
)
def test_a_torn_end(place: HookPlace, end: bytes) -> None:
    place.session.write_bytes(jsonl(answer(124_000)) + end)
    assert tokens(place.session) == 124_000


def test_no_line_end(place: HookPlace) -> None:
    place.session.write_bytes(jsonl(user("hello"), answer(124_000)).rstrip())
    assert tokens(place.session) == 124_000


def test_nothing_to_read(place: HookPlace) -> None:
    os.mkfifo(place.folder / "pipe")
    for path in ("", "a\0b", "\ud800", str(place.session), str(place.folder), str(place.folder / "pipe"), "/dev/zero"):
        assert tail.share(path) is None
    assert tail.share(place.write()) is None


@pytest.mark.parametrize("size", [1, 1 << 16, (1 << 16) - 1, 3 << 16, 5_000_000, 14_000_000])
def test_long_lines_behind_the_answer(place: HookPlace, size: int) -> None:
    place.write(answer(124_000), user([result("c", "usage compact token_count " * (size // 26 + 1))]), user("go on"))
    assert tokens(place.session) == 124_000


@pytest.mark.parametrize("size", [70_000, 500_000, 1_900_000])
def test_a_long_answer(place: HookPlace, size: int) -> None:
    long = answer(124_000)
    long["message"]["content"] = [{"type": "text", "text": "".join(map(str, range(size // 5)))[:size]}]
    assert tokens(place.write(answer(1_500), long, user("go on"))) == 124_000


def test_many_lines_behind_the_answer(place: HookPlace) -> None:
    place.write(answer(124_000), *[user(f"line {number}") for number in range(3_000)], b"\n" * 1_000_000)
    assert tokens(place.session) == 124_000


@given(st.lists(st.integers(0, 200_000), max_size=4), st.integers(0, 200_000))
def test_wherever_blocks_begin(before: list[int], after: int) -> None:
    """Lines of any length precede and follow the answer; block boundaries do not matter."""
    data = [b"x" * size + b"\n" for size in before]
    text = b"".join([*data, jsonl(answer(99_999)), b"y" * after])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "session.jsonl")
        path.write_bytes(text)
        assert tokens(path) == 99_999


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the system does not say how much is read")
def test_only_the_end_is_read(place: HookPlace) -> None:
    def bytes_read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    found = []
    for size in (1 << 20, 1 << 32):
        with place.session.open("wb") as file:
            file.seek(size)
            file.write(b"\n" + jsonl(answer(124_000)))
        before = bytes_read()
        assert tokens(place.session) == 124_000
        found.append(bytes_read() - before)
    assert max(found) < 100_000
    assert abs(found[0] - found[1]) < 1_000


def test_the_search_for_an_answer_has_a_limit(place: HookPlace) -> None:
    with place.session.open("wb") as file:
        file.write(jsonl(answer(124_000)))
        file.truncate(1 << 32)
    assert tokens(place.session) is None
