"""Invalid session files: nothing crashes or hangs, readable records are imported, the others are reported."""

from __future__ import annotations

import codecs
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from session_records import REAL_FILES, assistant, call, jsonl, plain_blocks, result, user

import foldmark
from cases import case
from foldmark.core import selections
from foldmark.core.events import Event
from foldmark.formats import session_file
from foldmark.formats.claude.resumption import MISSING
from foldmark.formats.session_file import Broken, SessionFile, SessionFileError, SessionRecord
from foldmark.sessions.conversion.importing import import_session
from foldmark.wires import lenient_json
from sampled import DEEP
from stored import stored

HELLO, BYE = jsonl(user("hello")), jsonl(assistant("bye"))


def all_events(log: foldmark.Log, agent: foldmark.Agent) -> list[Event]:
    """Return all events of a log with a single agent, in which no id is missing."""
    events = [selections.event(stored(log), id) for id in range(1, agent.context().at + 1)]
    assert None not in events
    return [event for event in events if event is not None]


def with_text(json_text: bytes) -> bytes:
    """Return a user record with this JSON as its content."""
    return b'{"type":"user","message":{"content":' + json_text + b"}}\n"


# -- lines ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{oops}\n", "not JSON"),
        (b'{"type":"user"} {"type":"user"}\n', "not JSON"),
        (b"\0" * 5000 + b"\n", "nothing but NUL bytes"),
        (b"\0\0\0" + HELLO, "not JSON"),
        (b'{"type":"us\0er"}\n', "not JSON"),
        (b"[" * 200_000 + b"\n", "nested too deeply"),
        (b"[" * 200_000 + b"]" * 200_000 + b"\n", "nested too deeply"),
        (b'{"a":' * 200_000 + b"1" + b"}" * 200_000 + b"\n", "nested too deeply"),
        (b"[" * 201 + b"]" * 201 + b"\n", "nested too deeply"),
        (b'["\\ud800",' * 300 + b"1" + b"]" * 300 + b"\n", "nested too deeply"),
        (b"\xff\xfe\xfd\n", "not JSON"),
        (b"'single'\n", "not JSON"),
    ],
    ids=range(12),
)
def test_a_broken_line_costs_no_other(line: Any, reason: Any, session: Any) -> None:
    imported = session(HELLO, line, BYE)
    assert imported.said == [("user", "hello"), ("assistant", "bye")]
    ((number, why),) = imported.report.broken
    assert number == 2
    assert why.startswith(reason)
    assert why.isprintable()
    assert len(why) < 100
    assert imported.report.records == {"assistant": 1, "user": 1}
    assert imported.report.lines == 3


def test_nesting_up_to_the_limit_is_kept(session: Any) -> None:
    deep = b'{"type":"x","deep":' + b"[" * 199 + b"]" * 199 + b"}\n"
    imported = session(HELLO, deep, with_text(b'"\\udead"'))
    assert imported.report.broken == []
    assert len(imported.kept) == 1


@pytest.mark.parametrize("cut", [1, 20, -2])
def test_a_torn_last_line(cut: Any, session: Any) -> None:
    imported = session(HELLO, BYE.rstrip()[:cut])
    assert imported.said == [("user", "hello")]
    ((number, why),) = imported.report.broken
    assert number == 2
    assert why.startswith("cut off")


def test_a_missing_final_newline(session: Any) -> None:
    imported = session(HELLO, BYE.rstrip(b"\n"))
    assert imported.said == [("user", "hello"), ("assistant", "bye")]
    assert (imported.report.broken, imported.report.lines) == ([], 2)


def test_line_ends_blank_lines_and_byte_order_marks(session: Any) -> None:
    crlf = HELLO.replace(b"\n", b"\r\n")
    imported = session(codecs.BOM_UTF8, crlf, b"\r\n", b"\n", b" \t \n", b"oops\n", codecs.BOM_UTF8 + BYE)
    assert imported.said == [("user", "hello"), ("assistant", "bye")]
    assert [number for number, _ in imported.report.broken] == [5]
    assert imported.report.lines == 6


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_wide_encodings_with_a_byte_order_mark(encoding: Any, ending: Any, session: Any) -> None:
    lines = [json.dumps(user("Grüße \u2028 🚀 \u0a0a"), ensure_ascii=False), "oops", json.dumps(assistant("bye")), ""]
    imported = session(("\ufeff" + ending.join(lines)).encode(encoding))
    assert imported.said == [("user", "Grüße \u2028 🚀 \u0a0a"), ("assistant", "bye")]
    assert [number for number, _ in imported.report.broken] == [2]


def test_a_torn_wide_file(session: Any) -> None:
    content = codecs.BOM_UTF16_LE + (HELLO + BYE).decode().encode("utf-16-le")
    imported = session(content[:-7])
    assert imported.said == [("user", "hello")]
    assert [number for number, _ in imported.report.broken] == [2]


# -- texts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (b'"caf\xe9 ol\xff"', "caf\ufffd ol\ufffd"),
        (b'"cut \xf0\x9f\x9a"', "cut \ufffd"),
        (b'"half a pair \xed\xa0\x80"', "half a pair \ufffd\ufffd\ufffd"),
        (b'"nul \\u0000 inside"', "nul \0 inside"),
        (b'"\\ud800 \\udc00x\\ud83d"', "\ufffd \ufffdx\ufffd"),
        (b'"whole \\ud83d\\ude80"', "whole 🚀"),
        ('"a\u2028b\u2029c\x85d\x7f"'.encode(), "a\u2028b\u2029c\x85d\x7f"),
        (b'"a\\nb\\r\\nc\\u000bd"', "a\nb\r\nc\x0bd"),
        (b'""', ""),
    ],
    ids=range(9),
)
def test_texts(text: bytes, read: Any, session: Any) -> None:
    imported = session(HELLO, with_text(text), BYE)
    assert imported.said == [("user", "hello"), ("user", read), ("assistant", "bye")]
    assert imported.report.broken == []


def test_lone_surrogates_are_replaced_in_keys_and_values_everywhere(session: Any) -> None:
    line = (
        rb'{"type":"assistant","message":{"id":"\ud800","content":['
        rb'{"type":"tool_use","id":"c\udfff","name":"n\udfff","input":{"k\ud800":["\udfff"]}}]}}' + b"\n"
    )
    other = rb'{"type":"t\ud800","\ud800":{"\udfff":"\ud800"}}' + b"\n"
    imported = session(line, other)
    (asked,) = imported.of("tool_call")
    assert json.loads(asked.content) == {"k\ufffd": ["\ufffd"]}
    assert asked.data == {"response": "\ufffd", "call_id": "c\ufffd", "name": "n\ufffd"}
    assert imported.kept == [{"type": "t\ufffd", "\ufffd": {"\ufffd": "\ufffd"}}]
    assert imported.report.records == {"assistant": 1, "t\ufffd": 1}


def test_numbers_that_python_cannot_hold_become_their_own_text(session: Any) -> None:
    digits = b"9" * 5000
    line = b'{"type":"x","n":[%b,-%b,NaN,Infinity,-Infinity,1e999,%b.5,18446744073709551616,1e2,-0]}\n' % (
        (digits,) * 3
    )
    imported = session(HELLO, line)
    nines = digits.decode()
    texts = [nines, f"-{nines}", "NaN", "Infinity", "-Infinity", "1e999", f"{nines}.5"]
    assert imported.kept == [{"type": "x", "n": [*texts, 2**64, 100.0, 0]}]
    assert imported.report.broken == []


def test_huge_numbers_in_the_arguments_of_a_call(session: Any) -> None:
    line = jsonl(assistant([call("c1", n="HERE")])).replace(b'"HERE"', b"1" * 5000)
    (asked,) = session(HELLO, line).of("tool_call")
    assert json.loads(asked.content) == {"n": "1" * 5000}


def test_of_duplicate_keys_the_last_counts(session: Any) -> None:
    imported = session(HELLO, b'{"type":"x","type":"user","message":{"content":"a","content":"b"}}\n')
    assert imported.said == [("user", "hello"), ("user", "b")]


# -- values ---------------------------------------------------------------------------------------------------


def test_lines_without_an_object_or_a_type_are_counted_and_kept(session: Any) -> None:
    values = [42, [1], "text", None, True, {"silly": "this"}, {"type": None}, {"type": 5}, {"type": {}}, {}]
    imported = session(HELLO, *values)
    assert imported.report.records == {"(no type)": 5, "(not an object)": 5, "user": 1}
    assert imported.kept == values
    assert imported.report.broken == []


def test_an_absurd_type_is_counted_by_its_beginning(session: Any) -> None:
    assert session(HELLO, {"type": "y" * 5000}).report.records == {"user": 1, "y" * 100 + "…": 1}


@pytest.mark.parametrize(
    "field",
    ["uuid", "parentUuid", "timestamp", "isSidechain", "agentId", "isMeta", "sourceToolUseID", "message", "type"],
)
def test_fields_of_the_wrong_kind(field: Any, session: Any) -> None:
    values: list[Any] = [7, "x", None, [], {}, [[]], True, "NaN", [None], {"a": {}}]
    for value in values:
        with case(value):
            imported = session(HELLO, {**assistant([call("c1")], "a", "b"), field: value}, BYE)
            assert imported.report.broken == []
            assert ("user", "hello") in imported.said
            assert ("assistant", "bye") in imported.said


@pytest.mark.parametrize("field", ["id", "model", "usage", "content", "role"])
def test_message_fields_of_the_wrong_kind(field: Any, session: Any) -> None:
    values: list[Any] = [7, "x", None, [], {}, True, [None], 1.5, -3, 2**70]
    for value in values:
        with case(value):
            record = assistant([call("c1")], usage={"input_tokens": value})
            record["message"][field] = value
            assert session(HELLO, record, BYE).report.broken == []


@pytest.mark.parametrize("value", [7, None, [], {}, True], ids=repr)
@pytest.mark.parametrize("field", ["type", "id", "name", "tool_use_id", "text"])
def test_block_fields_of_the_wrong_kind_keep_the_record(field: Any, value: Any, session: Any) -> None:
    for block in (call("c"), result("c"), {"type": "text", "text": "t"}):
        if field in block:
            for make in (user, assistant):
                imported = session(HELLO, make([{**block, field: value}]))
                assert imported.said == [("user", "hello")]
                assert imported.report.kept == 1


# -- sizes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extra", [1, 100_000])
@pytest.mark.parametrize("last", [False, True])
def test_a_line_over_the_limit_is_skipped(
    extra: Any, last: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_file, "MAX_LINE", 3000)
    monkeypatch.setattr(session_file, "_PIECE", 700)
    fits = jsonl(user("x" * (3000 - len(jsonl(user(""))))))
    assert len(fits) == 3000
    too_long = fits.replace(b"x", b"x" * (1 + extra), 1)
    path = tmp_path / "session.jsonl"
    path.write_bytes(HELLO + fits + (too_long.rstrip(b"\n") if last and extra > 1 else too_long + BYE))
    with SessionFile(path) as file:
        _, whole, skipped, *rest = file.lines()
        assert isinstance(whole, SessionRecord)
        assert isinstance(skipped, Broken)
        assert skipped.line == 3
        assert skipped.reason.startswith("longer than")
        assert [type(line) for line in rest] == ([] if last and extra > 1 else [SessionRecord])
        assert file.line_count == 3 + len(rest)


def test_a_line_without_end_takes_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_file, "MAX_LINE", 1 << 20)
    path = tmp_path / "session.jsonl"
    with path.open("wb") as file:
        file.write(HELLO)
        file.truncate((200 if DEEP else 50) << 20)  # a hole, which reads as NUL bytes
    tracemalloc.start()
    try:
        with SessionFile(path) as session:
            assert [line.line for line in session.lines()] == [1, 2]
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_line_of_many_megabytes_is_imported(session: Any) -> None:
    text = "long \u2028 🚀 " * (2_000_000 if DEEP else 250_000)
    imported = session(HELLO, user(text), BYE)
    assert imported.messages[1].content == text


def test_a_line_of_nothing_but_values_is_refused(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lenient_json.MAX_VALUES == 4_000_000
    most = 4_000_000 if DEEP else 200_000
    monkeypatch.setattr(lenient_json, "MAX_VALUES", most)
    monkeypatch.setattr(lenient_json, "_LONG", 2 * most)
    imported = session(HELLO, b'{"type":"x","bomb":[' + b"{}," * (most + most // 4) + b"0]}\n", BYE)
    assert imported.report.broken == [(2, f"more than {most:,} values in one line")]
    text = jsonl(user("[{},]" * (most // 2)))
    assert session(text).report.broken == [], "brackets inside a text are no values"


def test_memory_does_not_grow_with_the_texts(log: foldmark.Log, tmp_path: Path) -> None:
    peaks = []
    lines = 300 if DEEP else 80
    for size in (10, 100_000):
        path = tmp_path / f"{size}.jsonl"
        with path.open("wb") as file:
            for number in range(lines):
                file.write(jsonl(user("x" * size, f"u{number}", f"u{number - 1}")))
        tracemalloc.start()
        import_session(log, path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 5 << 20, f"{lines // 10} MB of text went through"


def test_very_long_chains_and_many_branches(session: Any) -> None:
    length = 3000 if DEEP else 1200  # more than Python's limit of recursion
    chain = [user(f"t{at}", f"u{at}", f"u{at - 1}") for at in range(length)]
    assert len(session(*chain).shown) == length
    branches = [user("root", "r"), *(user(f"b{at}", f"b{at}", "r") for at in range(300))]
    imported = session(*branches)
    assert imported.shown == ["root", "b299"]
    assert imported.report.dropped == 299


# -- files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"\n \r\n\n", "it is empty"),
        (codecs.BOM_UTF8, "it is empty"),
        (codecs.BOM_UTF16_LE, "it is empty"),
        (b"just text\nand more\n", "no line of it is JSON (line 1: not JSON"),
        (b"\0" * 100_000, "no line of it is JSON (line 1: cut off, without a line end; nothing but NUL bytes"),
        (b'42\n[1]\n"x"\n', "no line of it is a JSON object"),
        (json.dumps(user("pretty"), indent=2).encode(), "no line of it is"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "no line of it is JSON"),
    ],
    ids=range(9),
)
def test_a_file_that_is_not_a_session(content: Any, why: Any, log: foldmark.Log, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(content)
    with pytest.raises(SessionFileError, match="is not a session of Claude Code or Codex: ") as caught:
        import_session(log, path)
    assert why in str(caught.value)
    assert caught.value.exit_code == 1
    assert log.agents() == []


def test_files_that_cannot_be_read(log: foldmark.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    for name, why in {
        "folder.jsonl": "is a folder",
        "pipe.jsonl": "is not a regular file",
        "loop.jsonl": "cannot be read",
        "missing\n.jsonl": r"there is no file .*missing\\n\.jsonl; name a session file",
        "missing.jsonl/x": "there is no file",
        "nul\0.jsonl": "cannot be read",
        "n" * 300: "cannot be read",
    }.items():
        with pytest.raises(SessionFileError, match=why) as caught:
            import_session(log, tmp_path / name)
        assert str(caught.value).isprintable()
    assert log.agents() == []


def test_a_file_without_permission(log: foldmark.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(HELLO)
    path.chmod(0)
    if os.access(path, os.R_OK):  # the superuser may read everything

        def refuse(*_: Any, **__: Any) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SessionFileError, match=r"cannot be read: Permission denied"):
        import_session(log, path)


def test_lines_appended_during_the_reading_are_left_for_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(HELLO + BYE[:20])
    with SessionFile(path) as file:
        with path.open("ab") as other:
            other.write(BYE[20:] + HELLO)
        passes = [list(file.lines()) for _ in range(2)]
    assert passes[0] == passes[1]
    assert [type(line) for line in passes[0]] == [SessionRecord, Broken]


def test_a_file_that_changes_while_it_is_imported(log: foldmark.Log, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    filler = jsonl(user("x" * 2_000_000))  # more than the buffer holds
    path.write_bytes(HELLO + filler + BYE)

    def damage(done: int, total: int) -> None:
        with path.open("r+b") as file:
            file.seek(len(HELLO + filler))
            file.write(b"oops")

    with pytest.raises(SessionFileError, match="changed while it was being read"):
        import_session(log, path, progress=damage)
    assert not log.exists("session") or len(log.agent("session").context().messages) == 0


# -- at random ------------------------------------------------------------------------------------------------

SAMPLES = jsonl(
    user("hello", "u1"),
    assistant(
        [{"type": "text", "text": "caf\u00e9 \ud83d\ude80"}, call("c1", path="/tmp")], "a1", "u1", "m1", usage={"a": 1}
    ),
    user([result("c1", [{"type": "text", "text": "x"}])], "u2", "a1", toolUseResult={"x": "y"}),
    user("side", "s1", None, isSidechain=True, agentId="g"),
    assistant("bye", "a2", "u2", "m2", usage={"input_tokens": 5, "output_tokens": 2}),
    user("again", "u3", "a1"),
    {"type": "summary", "summary": "S", "leafUuid": "a2"},
    42,
)


def small_real_lines() -> list[bytes]:
    """Return lines of the real files that are short enough for useful mutations."""
    return [line + b"\n" for path in REAL_FILES for line in path.read_bytes().split(b"\n") if 0 < len(line) < 1500][:40]


LINES = SAMPLES.splitlines(keepends=True) + small_real_lines()


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Draw lines of sessions, repeated and shuffled, then cut and with changed bytes."""
    content = bytearray(b"".join(draw(st.lists(st.sampled_from(LINES), min_size=1, max_size=8))))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(content)))
        match draw(st.sampled_from(["flip", "cut", "insert", "remove", "double"])):
            case "flip" if at < len(content):
                content[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del content[at:]
            case "insert":
                piece = st.sampled_from(
                    [b"\n", b"\0", b"\\ud800", b"\xff", b'"', b"[", b"}", b"NaN", b"1e999", b"null"]
                )
                content[at:at] = draw(piece)
            case "remove":
                del content[at : at + draw(st.integers(1, 40))]
            case "double":
                content[at:at] = content[at : at + draw(st.integers(1, 400))]
    return bytes(content)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(content=st.one_of(mutated(), mutated().map(lambda each: each.decode("latin-1").encode("utf-16"))))
def test_mutated_sessions_are_imported_or_refused(content: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "mutated.jsonl"
    path.write_bytes(content)
    with foldmark.open(":memory:") as log:
        try:
            report = import_session(log, path)
        except SessionFileError:
            assert log.agents() == []
            return
        agent = log.agent(report.agent_id)
        assert agent.open_turn is None
        assert report.lines >= sum(report.records.values()) + len(report.broken)
        events = all_events(log, agent)
        assert sum(report.messages.values()) == sum(event.role is not None for event in events)
        assert report.kept == sum(event.kind == "record" for event in events)
        for kind, number in report.messages.items():
            assert number == sum(event.kind == kind for event in events)


IDS = st.sampled_from(["a", "b", "c", "d", None])
CALL_IDS = st.sampled_from(["c1", "c2", "c3"])


@st.composite
def tangled(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a record with any parent, on the main chain or in a sidechain: a text, calls, results or progress."""
    fields: dict[str, Any] = draw(
        st.sampled_from([{}, {}, {"isSidechain": True}, {"isSidechain": True, "agentId": "g"}, {"isMeta": True}])
    )
    ids: dict[str, Any] = {"uuid": draw(IDS), "parent": draw(IDS), **fields}
    match draw(st.sampled_from(["prompt", "answer", "call", "result", "other"])):
        case "prompt":
            return user("text", **ids)
        case "answer":
            return assistant("text", response=draw(st.sampled_from(["m1", "m2", None])), **ids)
        case "call":
            return assistant([call(each) for each in draw(st.lists(CALL_IDS, min_size=1, max_size=2))], **ids)
        case "result":
            return user([result(each) for each in draw(st.lists(CALL_IDS, min_size=1, max_size=2))], **ids)
    return {"type": "progress", "uuid": ids["uuid"], "parentUuid": ids["parent"]}


def repeated(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages that repeat the uuid of an earlier message."""
    uuids: set[str] = set()
    found = []
    for record in records:
        if "message" in record and record["uuid"] is not None:
            found += [record] if record["uuid"] in uuids else []
            uuids.add(record["uuid"])
    return found


@given(records=st.lists(tangled(), min_size=1, max_size=14))
def test_however_records_hang_together_each_is_imported_once(
    records: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "tangled.jsonl"
    path.write_bytes(jsonl(*records))
    with foldmark.open(":memory:") as log:
        if all(record["type"] == "progress" for record in records):
            with pytest.raises(SessionFileError, match=r"holds no message|no record of it"):
                import_session(log, path)
            return
        report = import_session(log, path)
        agent = log.agent(report.agent_id)
        events = all_events(log, agent)
        plain = plain_blocks(path.read_bytes())
        kept = [(event.data or {})["record"] for event in events if event.kind == "record"]
        assert all(record in records for record in kept)
        for record in repeated(records):
            kept.remove(record)
        astray = plain["tool_result"] - report.messages.get("tool_result", 0)
        assert sum(record["type"] == "user" for record in kept) <= astray <= 2 * len(kept)
        assert all(report.messages.get(kind, 0) == plain[kind] for kind in ("user", "assistant", "tool_call"))
        shown = len(agent.context().messages)
        for event in events:
            if event.kind in ("drop", "filter"):
                agent.do(f"/restore {event.id}")
        made = sum(event.kind == "tool_result" and event.content == MISSING for event in events)
        assert shown <= len(agent.context().messages) == sum(report.messages.values()) + made
        assert len({event.turn_id for event in events if event.role}) == report.turns
