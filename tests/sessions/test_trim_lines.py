"""Trimming usual, unusual and invalid lines [SPEC 8]."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_records import assistant, call, result, user
from trim_check import at, compare, parsed, trim, trimmed_copy

from foldmark.formats.places import session_path
from foldmark.formats.session_file import SessionFile, SessionFileError
from foldmark.sessions.trim import trimming
from foldmark.sessions.trim.job import TrimError, TrimOptions
from foldmark.sessions.trim.trimming import TrimResult
from sampled import DEEP

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ID = "11111111-2222-4333-8444-555555555555"
OLD = "99999999-2222-4333-8444-555555555555"
WISH = TrimOptions(500, ("Read", "Bash", "Grep", "Glob"))
LONG = "a long result, " * 200
USAGE = {"input_tokens": 3, "cache": {"five": 12, "none": None}, "service_tier": "standard 3", "each": [1, {"n": 2.5}]}

Run = Callable[..., bytes]


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A function that trims a session of these bytes and returns the new bytes; its `done` is the report."""

    def run(content: bytes, wish: TrimOptions = WISH, new_id: str = ID) -> bytes:
        path = at(tmp_path, OLD, content)
        run.done = done = trimmed_copy(session_path(path), wish, new_id, NOW)  # type: ignore[attr-defined]
        new = done.session.path.read_bytes()
        done.session.path.unlink()
        assert path.read_bytes() == content
        return new

    return run


def done(run: Run) -> TrimResult:
    return run.done  # type: ignore[attr-defined,no-any-return]


def exchange(id: str = "c1", content: Any = LONG, name: str = "Read", **fields: Any) -> bytes:
    return compact(assistant([call(id, name)], sessionId=OLD, usage=USAGE)) + compact(
        user([result(id, content)], sessionId=OLD, **fields)
    )


HEAD = compact({"type": "summary", "summary": "s"})


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" \t",
        b"null",
        b"5",
        b'"text"',
        b"[]",
        b'[{"sessionId":"x"}]',
        b'{"type":"user","sessionId":"x","message":{"role"',
        b'{"sessionId":"x"}{"sessionId":"x"}',
        b'{"sessionId":"x"',
        b"\x00" * 100,
        b'\x00\x00{"sessionId":"x"}',
        b'{"sessionId":"x","a":01}',
        b'{"sessionId":"x","a":"\n"}'.replace(b"\n", b"\x01"),
        b"{\xe2\x80\xa8}",
        b"\xff\xfe{\x00}\x00",
        b'\xef\xbb\xbf{"sessionId":"x"}',
        b'{"sessionId":"x","a":NaN}',
    ],
)
def test_lines_that_are_not_records_stay_unchanged(run: Run, line: bytes) -> None:
    new = run(HEAD + line + b"\n" + exchange())
    assert new.split(b"\n")[1] == line
    assert done(run).trimmed_count == 1


@pytest.mark.parametrize(
    "record",
    [
        {"sessionId": OLD, "message": None},
        {"sessionId": OLD, "message": []},
        {"sessionId": OLD, "message": "text"},
        {"sessionId": OLD, "message": {"content": None, "usage": None}, "type": "assistant"},
        {"sessionId": OLD, "message": {"content": [None, 5, "x", []], "usage": [5]}, "type": "assistant"},
        {"sessionId": OLD, "message": {"content": [{"type": 5}, {"type": "tool_result"}, {"type": "tool_use"}]}},
        {"sessionId": OLD, "message": {"content": [{"type": "tool_result", "tool_use_id": [], "content": LONG}]}},
        {"sessionId": OLD, "message": {"content": {"type": "tool_result"}}, "toolUseResult": LONG},
        {"sessionId": OLD, "type": [], "subtype": 5, "isSidechain": "x", "isApiErrorMessage": 5},
        {"sessionId": OLD, "type": "user", "message": {"content": "\ud800"}},
        {"sessionId": OLD, "\ud800": "\ud800"},
        {"sessionId": None},
        {"sessionId": 5},
        {"sessionId": ""},
        {"sessionId": 'with "quotes" and \\'},
        {"sessionId": "with \u2028 and é"},
        {"a": {"sessionId": OLD}},
        {"sessionId": OLD, "a": {"sessionId": OLD}},
        {"a": {"sessionId": OLD}, "sessionId": OLD},
        {"a": {"sessionId": OLD}, "sessionId": OLD, "b": {"sessionId": OLD}},
        {"a": '"sessionId":"x"', "b": '}"sessionId":"x"{', "sessionId": "x"},
        {"a{": 1, "sessionId": "x", "b}": "}"},
        {},
    ],
)
@pytest.mark.parametrize("style", [{"separators": (",", ":")}, {}, {"separators": (" , ", " : ")}, {"indent": 0}])
def test_odd_records(run: Run, record: Any, style: dict[str, Any]) -> None:
    line = json.dumps(record, **style).replace("\n", "\r").encode() + b"\n"
    content = HEAD + line + exchange()
    new = run(content)
    compare(content, new, ID)
    assert done(run).trimmed_count == 1


def test_of_two_members_with_one_key_the_last_counts(run: Run) -> None:
    line = (
        b'{"sessionId":"1","sessionId":"2","type":"user","type":"assistant","message":{"usage":{"a":1}},'
        b'"message":{"usage":{"a":1},"usage":{"a":1},"content":[{"type":"tool_result","tool_use_id":"x","content":"'
        + b"n" * 900
        + b'","content":"'
        + b"n" * 900
        + b'","tool_use_id":"c1"}]},"toolUseResult":1,"toolUseResult":2}\n'
    )
    content = HEAD + exchange() + line
    new = run(content)
    compare(content, new, ID)
    assert new.split(b"\n")[3].startswith(
        b'{"sessionId":"1","sessionId":"%b","type":"user","type":"assistant","message":{"usage":{"a":1}},"message":'
        b'{"usage":{"a":1},"usage":{"a":0},"content":[{"type":"tool_result","tool_use_id":"x","content":"%b","content":"%b'
        % (ID.encode(), b"n" * 900, b"n" * 500 + b"\\n... [TRIMMED")
    )


def test_keys_with_escapes(run: Run) -> None:
    text = b"n" * 900
    line = (
        b'{"session\\u0049d":"1","type":"assistant","mess\\u0061ge":{"\\u0075sage":{"a":1},"content":['
        b'{"type":"tool_result","tool_use_id":"\\u0063\\u0031","c\\u006fntent":"%b"}]},"other":{"sessionId":"1",'
        b'"usage":{"a":1},"content":"%b"}}\n' % (text, text)
    )
    content = HEAD + exchange() + line
    compare(content, run(content), ID)
    assert done(run).trimmed_count == 2


def test_the_same_text_elsewhere_in_the_line_stays(run: Run) -> None:
    record = user([result("c1", LONG), {"type": "text", "content": LONG}], sessionId=OLD)
    odd = {"content": LONG, "toolUseResult": LONG, **record, "other": {"toolUseResult": LONG}}
    for separators in ((",", ":"), None):
        content = exchange() + json.dumps(odd, separators=separators).encode() + b"\n"
        compare(content, run(content), ID)
        assert done(run).trimmed_count == 2


def test_two_results_with_the_same_text(run: Run) -> None:
    content = compact(assistant([call("1"), call("2")])) + compact(user([result("1", LONG), result("2", LONG)]))
    new = run(content)
    compare(content, new, ID)
    assert done(run).trimmed_count == 2


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_and_marks_stay(run: Run, ending: bytes, mark: bytes, last: bool) -> None:
    content = mark + exchange().replace(b"\n", ending)
    content = content if last else content.removesuffix(ending)
    new = run(content)
    compare(content.removeprefix(mark), new.removeprefix(mark), ID)
    assert new.startswith(mark)
    assert new.endswith(ending) == last
    assert new.count(ending) == content.count(ending)
    assert done(run).trimmed_count == 1


def test_bytes_that_are_not_utf_8_stay(run: Run) -> None:
    lines = exchange().replace(b'"role":"user"', b'"role":"\xff\xfe"') + b'{"sessionId":"x","a":"\xff"}\n'
    new = run(HEAD + lines)
    assert done(run).trimmed_count == 1
    assert new.split(b"\n")[3] == b'{"sessionId":"%b","a":"\xff"}' % ID.encode()
    assert b'"role":"\xff\xfe"' in new
    torn = run(HEAD + exchange(content="é" * 2000).replace(b"\xc3\xa9\xc3", b"\xc3\xc3", 1))
    assert done(run).trimmed_count == 0
    assert b"\xc3\xc3" in torn


def test_a_result_before_its_call(run: Run) -> None:
    one, two = exchange().splitlines(keepends=True)
    content = two + one + exchange("c2", name="Edit")
    compare(content, run(content), ID)
    assert done(run).trimmed_count == 1


def test_a_result_without_a_call(run: Run) -> None:
    content = HEAD + exchange().splitlines(keepends=True)[1]
    assert run(content).count(b"TRIMMED") == 0
    run(content, TrimOptions(500, ("*",)))
    assert {tool: each.cut for tool, each in done(run).tally.items()} == {"(unknown)": 1}


def test_names_and_patterns_of_tools(run: Run) -> None:
    names = ("Read", "mcp__a__b", "mcp__c", "Edit", "[x]")
    content = b"".join(exchange(name, name=name) for name in names)
    for patterns, expected in {
        ("rEAD",): {"Read"},
        ("MCP__*",): {"mcp__a__b", "mcp__c"},
        ("mcp__?", "edit"): {"mcp__c", "Edit"},
        ("[X]",): {"[x]"},
        ("*",): set(names),
        (): set(),
    }.items():
        compare(content, run(content, TrimOptions(500, patterns)), ID, tuple(expected))
        assert set(done(run).tally) == expected
        assert done(run).trimmed_count == len(expected)


def test_the_display_copy(run: Run) -> None:
    shown = {"stdout": LONG, "stderr": LONG[:-1], "isImage": False}
    content = exchange(toolUseResult=shown)
    new = run(content)
    compare(content, new, ID)
    assert new.count(b"TRIMMED") == 3
    assert run(content, TrimOptions(500, ("Read",), keep_display_copy=True)).count(b"TRIMMED") == 1
    assert run(exchange(content="short", toolUseResult=shown)).count(b"TRIMMED") == 2
    assert run(exchange(name="Edit", toolUseResult=shown)).count(b"TRIMMED") == 0


def test_the_display_copy_of_several_results_stays_unless_all_are_meant(run: Run) -> None:
    def both(name: str) -> bytes:
        calls = compact(assistant([call("1"), call("2", name)]))
        return calls + compact(user([result("1", "x"), result("2", "y")], toolUseResult=LONG))

    assert run(both("Bash")).count(b"TRIMMED") == 1
    assert run(both("Edit")).count(b"TRIMMED") == 0


@pytest.mark.parametrize("dumps", [compact, lambda value: json.dumps(value).encode() + b"\n"])
def test_usage_becomes_0_on_answers_alone(run: Run, dumps: Callable[[Any], bytes]) -> None:
    zero = {"input_tokens": 0, "cache": {"five": 0, "none": None}, "service_tier": "standard 3", "each": [0, {"n": 0}]}
    tool = call("c1", "Task", usage=USAGE)
    content = (
        dumps(assistant([tool], usage=USAGE))
        + dumps(user([result("c1")], toolUseResult={"usage": USAGE}))
        + dumps({**user("x", sessionId=OLD), "message": {"usage": USAGE, "content": "x"}})
        + dumps(assistant("x", usage=USAGE))
    )
    new = run(content)
    compare(content, new, ID)
    records = [parsed(line) for line in new.splitlines()]
    assert [records[0]["message"]["usage"], records[3]["message"]["usage"]] == [zero, zero]
    assert records[0]["message"]["content"][0]["input"]["usage"] == USAGE
    assert records[1]["toolUseResult"]["usage"] == records[2]["message"]["usage"] == USAGE


def test_usage_elsewhere_in_an_answer_stays(run: Run) -> None:
    inner = {"role": "assistant", "usage": USAGE, "content": [call("c1", usage=USAGE)]}
    content = compact({"type": "assistant", "message": inner, "sessionId": OLD}) + compact(
        {"usage": USAGE, "type": "assistant", "message": {"content": "x"}, "sessionId": OLD}
    )
    compare(content, run(content), ID)


FULL = {
    **assistant([{"type": "text", "text": "Prompt is too long"}], usage={"input_tokens": 0}, model="<synthetic>"),
    "error": "invalid_request",
    "isApiErrorMessage": True,
}


@pytest.mark.parametrize("style", [{"separators": (",", ":")}, {}])
def test_the_error_of_a_full_context_is_taken_back(run: Run, style: dict[str, Any]) -> None:
    new = run(HEAD + json.dumps(FULL, **style).encode() + b"\n")
    found = parsed(new.split(b"\n")[1])
    assert found["isApiErrorMessage"] is False
    assert found["error"] is None
    assert "too long" not in found["message"]["content"][0]["text"]
    same = ("type", "uuid", "parentUuid", "timestamp")
    assert [found[key] for key in same] == [FULL[key] for key in same]
    assert list(found) == list(FULL)


@pytest.mark.parametrize(
    "changes",
    [
        {"isApiErrorMessage": False},
        {"message": {"content": [{"type": "text", "text": "API Error: 529 overloaded"}]}},
        {"message": {"content": "Prompt is too long"}},
        {"message": None},
    ],
)
def test_other_errors_stay(run: Run, changes: dict[str, Any]) -> None:
    line = compact({**FULL, **changes})
    assert run(HEAD + line).split(b"\n")[1] == line.strip()


def test_records_before_a_compaction_or_on_a_side_branch_do_not_count(run: Run) -> None:
    boundary = compact({"type": "system", "subtype": "compact_boundary"})
    summary = compact(user("summary", isCompactSummary=True))
    for between in (boundary, summary, boundary + summary):
        run(exchange() + between + exchange("c2", LONG * 2) + exchange("c3", isSidechain=True))
        found = done(run)
        assert found.trimmed_count == 3
        run(exchange("c2", LONG * 2))
        assert done(run).tokens_saved == found.tokens_saved > 0


def test_metadata_is_in_the_first_record(run: Run) -> None:
    content = b"\n[]\n{torn\n" + b" { } \n" + exchange()
    new = run(content)
    compare(content, new, ID)
    assert new.split(b"\n")[3].startswith(b' { "trim_metadata":{"parent_file":')
    old = b'{"a":1, "trim_metadata" : {"trimmed_count": 9} , "b":2}\n'
    line = run(old + exchange()).split(b"\n")[0]
    assert line.startswith(b'{"a":1, "trim_metadata" : {"parent_file":')
    assert line.endswith(b'} , "b":2}')
    assert json.loads(line)["trim_metadata"]["trimmed_count"] == 1
    twice = run(b'{"trim_metadata":1,"trim_metadata":2}\n' + exchange()).split(b"\n")[0]
    assert twice.startswith(b'{"trim_metadata":1,"trim_metadata":{')
    assert json.loads(twice)["trim_metadata"]["trimmed_count"] == 1


@pytest.mark.parametrize("content", [b"", b"\n", b"text\n", b"[]\nnull\n", b"{torn\n"])
def test_a_file_without_a_record_is_not_a_session(run: Run, tmp_path: Path, content: bytes) -> None:
    with pytest.raises(TrimError, match="is no session: no line of it is a JSON object"):
        run(content)
    assert len(list((tmp_path / "projects" / "-work").iterdir())) == 1


def test_a_missing_file_or_a_folder_is_refused(tmp_path: Path) -> None:
    for name, told in (("missing.jsonl", "there is no file"), ("folder.jsonl", "is a folder")):
        (tmp_path / "folder.jsonl").mkdir(exist_ok=True)
        with pytest.raises(SessionFileError, match=told):
            trim(session_path(tmp_path / name), WISH, ID, NOW)
    assert len(list(tmp_path.iterdir())) == 1


def test_deep_nesting(run: Run) -> None:
    depth = 100_000 if DEEP else 20_000
    deep = b'{"sessionId":"x","a":' + b"[" * depth + b"]" * depth + b"}\n"
    new = run(HEAD + deep + exchange())
    assert new.split(b"\n")[1] == deep.strip().replace(b'"x"', b'"%b"' % ID.encode())
    nested = {"type": "tool_result", "tool_use_id": "c1", "content": json.loads("[" * 90 + "]" * 90)}
    content = exchange() + compact(user([nested], toolUseResult=json.loads("[" * 90 + "]" * 90)))
    compare(content, run(content), ID)


def test_a_line_too_long_to_be_held_is_passed_on_in_pieces(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "LONGEST", 4096)
    filler = "x{y}" * 5000
    for extra in range(7):
        line = compact({"sessionId": OLD, "filler": filler + "é" * extra, "z": "y"})
        content = HEAD + line + exchange(content="short" + LONG[:900])
        new = run(content)
        assert done(run).trimmed_count == 1
        assert new.split(b"\n")[1] + b"\n" == line
        assert run(HEAD + line.strip()).endswith(line.strip())
    with pytest.raises(TrimError):
        run(line)


@pytest.mark.parametrize("deep", [False, True])
def test_lines_of_many_megabytes_and_numbers_of_5000_digits(run: Run, deep: bool) -> None:
    size = 20 if DEEP else 2
    digits = b'"a_number":%b,' % (b"9" * 5000)
    for text in ('é "quoted"\\' * (75_000 * size), [{"type": "text", "text": LONG * (350 * size)}])[deep:]:
        content = exchange(content=text, toolUseResult=text) + exchange("c2").replace(b'"role"', digits + b'"role"')
        assert len(content) > 2 * size << 20
        new = run(content, TrimOptions(500, WISH.tools, deep=deep))
        assert (done(run).trimmed_count, done(run).long) == (2, 0)
        assert len(new) < 30_000
        assert new.count(digits) == content.count(digits)


def test_lines_appended_meanwhile_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = at(tmp_path, OLD, exchange() * 3 + b'{"sessionId":"%b"}' % OLD.encode())
    before = path.read_bytes()
    opened = SessionFile.raw_lines

    def lines(self: Any, *given: Any) -> Any:
        with path.open("ab") as file:
            file.write(b'{"type":"user"')
        return opened(self, *given)

    monkeypatch.setattr(SessionFile, "raw_lines", lines)
    compare(before, trimmed_copy(session_path(path), WISH, ID, NOW).session.path.read_bytes(), ID)


KEYS = st.sampled_from(["type", "sessionId", "message", "content", "usage", "toolUseResult", "text", "id", 'x"}{é\n'])
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["user", "assistant", "tool_result", "c1", "c2", OLD, LONG, "\n\r\u2028\ud800", "é" * 700, '}"{']),
    st.text(max_size=20),
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))
BLOCKS = st.one_of(
    VALUES,
    st.builds(result, st.sampled_from(["c1", "c2", "c3", ""]), VALUES),
    st.builds(call, st.sampled_from(["c1", "c2", "c3"]), st.sampled_from(["Read", "bash", "Edit"]), usage=VALUES),
    st.builds(lambda text: {"type": "text", "text": text}, st.text(max_size=9)),
)
RECORDS = st.one_of(
    VALUES,
    st.builds(
        lambda build, blocks, usage, shown, session, order: dict(
            sorted({**build(blocks), "toolUseResult": shown, "sessionId": session, "usage": usage}.items(), key=order)
        ),
        st.sampled_from([user, assistant, lambda blocks: assistant(blocks, usage=USAGE)]),
        st.lists(BLOCKS, max_size=4) | VALUES,
        VALUES,
        VALUES,
        st.sampled_from([OLD, "x", 5, None]),
        st.sampled_from([lambda item: item[0], lambda item: item[0][::-1], lambda item: len(item[0])]),
    ),
)
STYLES = st.sampled_from([{"separators": (",", ":")}, {}, {"separators": (" ,\t", " : ")}])
LINES = st.one_of(
    st.builds(lambda record, style: json.dumps(record, **style).encode(), RECORDS, STYLES),
    st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")),
)


@given(
    lines=st.lists(LINES, min_size=1, max_size=6),
    ending=st.sampled_from([b"\n", b"\r\n"]),
    closed=st.booleans(),
    tools=st.sampled_from([("Read", "Bash"), ("*",), ()]),
    threshold=st.sampled_from([500, 20, 0]),
)
@settings(max_examples=settings().max_examples * 2)
def test_any_session(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    ending: bytes,
    closed: bool,
    tools: tuple[str, ...],
    threshold: int,
) -> None:
    content = ending.join([compact({"sessionId": OLD}).strip(), *lines]) + (ending if closed else b"")
    folder = tmp_path_factory.mktemp("any")
    path = at(folder, OLD, content)
    found = trimmed_copy(session_path(path), TrimOptions(threshold, tools), ID, NOW)
    new = found.session.path.read_bytes()
    meant = ("Read", "bash") if tools and tools != ("*",) else (("Read", "bash", "Edit") if tools else ())
    if "(unknown)" not in found.tally:
        assert compare(content, new, ID, meant, threshold) == found.trimmed_count
    assert path.read_bytes() == content
    again = trimmed_copy(found.session, TrimOptions(threshold, tools), OLD[:-1] + "6", NOW)
    assert again.trimmed_count == 0
    last = again.session.path.read_bytes()
    assert last.split(b"\n")[1:] == [
        line if parsed(line) is None else line.replace(b'"%b"' % ID.encode(), b'"%b6"' % OLD[:-1].encode())
        for line in new.split(b"\n")[1:]
    ]
