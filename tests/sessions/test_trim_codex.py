"""Trimming Codex rollouts: each shape of output is cut, and nothing else changes [SPEC 8]."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollout_records import (
    ID,
    REAL_FILES,
    call,
    completed,
    event,
    item,
    jsonl,
    meta,
    name,
    output,
    record,
    said,
    tokens,
)
from trim_check import trim

from foldmark.formats.places import session_path
from foldmark.formats.session_file import SessionFile, SessionFileError
from foldmark.sessions.hook import tail
from foldmark.sessions.trim import stale
from foldmark.sessions.trim.codex import CodexLines
from foldmark.sessions.trim.job import TrimOptions
from foldmark.sessions.trim.stale import LONG as LONG_RESULTS
from foldmark.sessions.trim.stale import OTHERS
from sampled import DEEP

NEW = "0199bbbb-9999-7888-8777-666655554444"
TOOLS = ("Read", "Bash", "Grep", "Glob")
LONG = "".join(f"row {number} — «säge»\n" for number in range(400))
HEADED = f"Chunk ID: c0ffee\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n{LONG}"
POINTER = re.compile(
    r"\n?\.\.\. \[TRIMMED by Foldmark: ([\d,]+) of ([\d,]+) (\w+)\. The whole result: line (\d+) of (.+)\]"
)
PICTURE = "data:image/png;base64," + "iVBORw0KGgoA" * 400


class Trimmed:
    """A trimmed rollout: its new lines (`after`) and the line that each comes from (`before`)."""

    def __init__(self, path: Path, new_id: str = NEW, **wish: Any) -> None:
        self.before: list[bytes] = []
        self.after: list[bytes] = []
        wished = TrimOptions(**{"threshold": 500, "tools": TOOLS, **wish})
        known = self._pass(path, CodexLines(wished, path, new_id))
        plan = stale.plan(known.calls(), wished.spare, deep=False)
        self.lines = self._pass(path, CodexLines(wished, path, new_id, plan))
        if self.lines.late:
            self.lines = self._pass(path, CodexLines(wished, path, new_id, plan, known.names))

    @property
    def steps(self) -> set[str]:
        return {step for each in self.lines.cuts for step, size in each.steps if size}

    @property
    def saved(self) -> int:
        """The bytes that the model no longer reads."""
        sent = self.lines.sent()
        return sum(each.bytes for each in self.lines.cuts if each.at in sent)

    def _pass(self, path: Path, lines: CodexLines) -> CodexLines:
        self.before.clear()
        self.after.clear()
        with SessionFile(path) as file:
            pieces = lines.pieces(file, session_path(path, "codex"))
        for piece in pieces:
            lines.source = piece.path
            held = piece.path.read_bytes()[piece.start : piece.end]
            for number, raw in enumerate(re.findall(rb"[^\n]*\n|[^\n]+\Z", held), piece.number):
                lines.at = len(self.before)
                self.before.append(raw)
                self.after.append(lines.line(number, raw))
        return lines

    @property
    def content(self) -> bytes:
        return b"".join(self.after)

    def changed(self) -> list[int]:
        """Return the numbers of the changed lines, from 0."""
        return [index for index, pair in enumerate(zip(self.before, self.after, strict=True)) if pair[0] != pair[1]]

    def payload(self, index: int) -> Any:
        return json.loads(self.after[index])["payload"]


@pytest.fixture
def rollout(tmp_path: Path) -> Any:
    """A function that writes a rollout of a first line and these records, and trims it."""

    def rollout(*records: Any, **wish: Any) -> Trimmed:
        path = tmp_path / name()
        path.write_bytes(jsonl(meta(), *records))
        return Trimmed(path, **wish)

    return rollout


def cut_text(text: str, whole: str, line: int, threshold: int = 500) -> None:
    """Assert that `text` is the beginning of `whole` with a pointer to a line."""
    found = POINTER.search(text)
    assert found, text[-300:]
    assert text[: found.start()] == whole[:threshold]
    assert found.end() == len(text)
    assert [found[1], found[2], found[3]] == [f"{threshold:,}", f"{len(whole):,}", "characters"]
    assert int(found[4]) == line
    assert found[5].endswith(".jsonl")


class TestShapes:
    @pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output", "local_shell_call_output"])
    def test_a_text_keeps_its_header(self, rollout: Any, kind: str) -> None:
        done = rollout(call("c1"), output("c1", HEADED, kind))
        assert done.changed() == [0, 2]
        cut_text(done.payload(2)["output"], HEADED, 3)

    def test_json_inside_of_a_text_stays_json(self, rollout: Any) -> None:
        whole = json.dumps({"output": LONG, "metadata": {"exit_code": 3, "duration_seconds": 0.5}})
        done = rollout(call("c1", "shell"), output("c1", whole))
        inner = json.loads(done.payload(2)["output"])
        cut_text(inner["output"], LONG, 3)
        assert inner["metadata"] == {"exit_code": 3, "duration_seconds": 0.5}

    def test_json_inside_of_a_text_in_another_order(self, rollout: Any) -> None:
        whole = json.dumps({"metadata": {"output": "no"}, "output": LONG, "x": ["output"]}, ensure_ascii=False)
        done = rollout(call("c1", "shell"), output("c1", whole))
        inner = json.loads(done.payload(2)["output"])
        cut_text(inner["output"], LONG, 3)
        assert (inner["metadata"], inner["x"]) == ({"output": "no"}, ["output"])

    @pytest.mark.parametrize(
        "whole",
        [
            json.dumps({"output": 7, "log": LONG}),
            json.dumps({"output": "fine", "log": LONG}),
            '{"output":"' + "never closed " * 100,
            "[" + LONG,
            '{"output":"a","output":5} ' + LONG,
        ],
    )
    def test_an_invalid_json_text_is_cut_as_text(self, rollout: Any, whole: str) -> None:
        done = rollout(call("c1", "shell"), output("c1", whole))
        cut_text(done.payload(2)["output"], whole, 3)

    def test_texts_of_a_list_count_together(self, rollout: Any) -> None:
        header, tail_ = "Script completed\nWall time 0.3 seconds\nOutput:\n", "the end " * 30
        texts = [{"type": "input_text", "text": text} for text in (header, LONG, tail_)]
        done = rollout(call("c1", "exec"), output("c1", texts, "custom_tool_call_output"))
        kept = done.payload(2)["output"]
        assert [each["type"] for each in kept] == ["input_text"] * 2
        assert kept[0]["text"] == header
        joined = "".join(each["text"] for each in kept)
        cut_text(joined, header + LONG + tail_, 3)

    def test_an_image_becomes_a_note(self, rollout: Any) -> None:
        texts = [
            {"type": "input_text", "text": "see"},
            {"type": "input_image", "image_url": PICTURE, "detail": "original"},
        ]
        done = rollout(call("c1", "view_image"), output("c1", texts))
        first, note = done.payload(2)["output"]
        assert first == texts[0]
        assert note["type"] == "input_text"
        assert note["text"].startswith("image/png image\n")
        found = POINTER.search(note["text"])
        assert found
        assert (found[2], found[3], found[4]) == ("3,600", "bytes", "3")

    def test_a_small_image_stays(self, rollout: Any) -> None:
        small = [{"type": "input_image", "image_url": "https://example.org/a.png"}]
        assert rollout(call("c1", "view_image"), output("c1", small)).changed() == [0]

    def test_an_object_with_content(self, rollout: Any) -> None:
        done = rollout(call("c1"), output("c1", {"content": LONG, "success": False}))
        cut_text(done.payload(2)["output"]["content"], LONG, 3)
        assert done.payload(2)["output"]["success"] is False

    @pytest.mark.parametrize(
        "value", [None, 5, [], {}, [LONG], [[LONG]], {"content": None}, {"content": {"text": LONG}}]
    )
    def test_other_shapes_stay(self, rollout: Any, value: Any) -> None:
        assert rollout(call("c1"), output("c1", value)).changed() == [0]

    def test_codex_own_cut_may_be_cut(self, rollout: Any) -> None:
        whole = LONG[:400] + "…24223 tokens truncated…" + LONG
        done = rollout(call("c1"), output("c1", whole))
        cut_text(done.payload(2)["output"], whole, 3)

    def test_an_output_cut_by_another_program_keeps_its_pointer(self, rollout: Any) -> None:
        theirs = (
            f"{LONG[:500]}\n\n[...truncated - original content was 9,000 characters, showing first 500. "
            "See line 7 of /a/rollout.jsonl for full content]"
        )
        assert rollout(call("c1"), output("c1", theirs)).changed() == [0]

    def test_only_what_gets_shorter(self, rollout: Any) -> None:
        assert rollout(call("c1"), output("c1", "x" * 540)).changed() == [0]

    def test_only_over_the_threshold(self, rollout: Any) -> None:
        done = rollout(call("c1"), output("c1", LONG), threshold=len(LONG))
        assert done.changed() == [0]
        done = rollout(call("c1"), output("c1", LONG), threshold=40)
        cut_text(done.payload(2)["output"], LONG, 3, 40)

    def test_only_the_output_of_its_line_changes(self, rollout: Any) -> None:
        line = (
            b'{ "timestamp" : "t", "type":"response_item","payload": {"output":%b , "type":"function_call_output",'
            % (json.dumps(LONG).encode())
        )
        line += b'"call_id":"c1", "odd":"\\u00e4\\/" } , "metadata":{"a":1.50}}\r\n'
        done = rollout(call("c1"), line)
        new = done.after[2]
        begin, end = line.index(b'"output":') + 9, line.index(b' , "type"')
        assert new.startswith(line[:begin])
        assert new.endswith(line[end:])
        cut_text(done.payload(2)["output"], LONG, 3)


class TestTools:
    @pytest.mark.parametrize(
        ("tool", "wished", "cut"),
        [
            ("shell", ("Bash",), True),
            ("exec", ("bash",), True),
            ("write_stdin", ("Bash",), True),
            ("read_file", ("READ",), True),
            ("grep_files", ("Grep",), True),
            ("list_dir", ("Glob",), True),
            ("list_dir", ("Bash",), False),
            ("apply_patch", TOOLS, False),
            ("apply_patch", ("apply_*",), True),
            ("exec_command", ("EXEC_command",), True),
            ("exec_command", ("exec",), False),
            ("made_up", ("*",), True),
        ],
    )
    def test_names(self, rollout: Any, tool: str, wished: tuple[str, ...], cut: bool) -> None:
        done = rollout(call("c1", tool), output("c1", LONG), tools=wished)
        assert (done.changed() == [0, 2]) is cut

    def test_tools_of_servers(self, rollout: Any) -> None:
        records = (call("c1", "list", namespace="mcp__herbs"), output("c1", LONG))
        assert rollout(*records).changed() == [0]
        assert rollout(*records, tools=("mcp__herbs__*",)).changed() == [0, 2]

    def test_a_local_shell_call(self, rollout: Any) -> None:
        shell = item("local_shell_call", call_id="c1", status="completed", action={"type": "exec", "command": ["ls"]})
        assert rollout(shell, output("c1", LONG)).changed() == [0, 2]

    def test_an_output_before_its_call(self, rollout: Any) -> None:
        assert rollout(output("c1", LONG), call("c1")).changed() == [0, 1]

    def test_an_output_without_a_call_stays(self, rollout: Any) -> None:
        assert rollout(output("c1", LONG), call("c2")).changed() == [0]

    def test_what_was_spared_is_counted(self, rollout: Any) -> None:
        done = rollout(
            call("c1"), output("c1", "y" * 2000), output("c1", "short"), call("c2", "wait"), output("c2", "")
        )
        tally = done.lines.tools["exec_command"]
        assert (tally.results, tally.cut, done.lines.cuts[0].characters) == (2, 1, 1500)
        assert done.saved == len(done.before[2]) - len(done.after[2])
        assert done.lines.tools["wait"].results == 1

    def test_no_more_is_counted_than_codex_sends(self, rollout: Any) -> None:
        done = rollout(call("c1"), output("c1", "y" * 2_000_000))
        assert done.saved == 48_000


class TestDisplayCopies:
    def copies(self) -> list[Any]:
        contents = {
            "content": [
                {"type": "text", "text": LONG},
                {"type": "image", "data": "QUJD" * 400, "mimeType": "image/gif"},
            ]
        }
        return [
            completed("CommandExecution", "c1", source="unified_exec_startup", aggregated_output=LONG, exit_code=0),
            completed("CommandExecution", "exec-77", command=["ls"], aggregated_output=LONG, formatted_output=LONG),
            event("exec_command_end", call_id="c1", stdout=LONG, stderr="few", aggregated_output=LONG, exit_code=1),
            completed("McpToolCall", "c2", server="herbs", tool="list", result=contents),
            event(
                "mcp_tool_call_end",
                call_id="c2",
                invocation={"server": "herbs", "tool": "list"},
                result={"Ok": contents},
            ),
            completed("FileChange", "c3", changes={"a": {"content": LONG}}, stdout=LONG, stderr=LONG),
            event("patch_apply_end", call_id="c3", stdout=LONG, stderr="", success=True),
        ]

    def test_copies_are_cut_with_the_output_of_their_tool(self, rollout: Any) -> None:
        done = rollout(call("c1"), *self.copies())
        assert done.changed() == [0, 2, 3, 4]
        cut_text(done.payload(2)["item"]["aggregated_output"], LONG, 3)
        for key in ("aggregated_output", "formatted_output"):
            cut_text(done.payload(3)["item"][key], LONG, 4)
        cut_text(done.payload(4)["stdout"], LONG, 5)
        assert (done.payload(4)["stderr"], done.payload(4)["exit_code"]) == ("few", 1)
        assert done.saved == 0
        assert not done.lines.tools

    def test_members_of_a_copy_may_come_in_any_order(self, rollout: Any) -> None:
        ran = completed("CommandExecution", "c1", stderr=LONG, x=[LONG], formatted_output="few", aggregated_output=LONG)
        done = rollout(ran)
        kept = done.payload(1)["item"]
        cut_text(kept["stderr"], LONG, 2)
        cut_text(kept["aggregated_output"], LONG, 2)
        assert (kept["formatted_output"], kept["x"]) == ("few", [LONG])

    @pytest.mark.parametrize("inner", [None, "z", LONG])
    @pytest.mark.parametrize("key", [b'"stderr":', b'"stderr" :'])
    def test_what_has_the_same_name_inside_stays(self, rollout: Any, inner: str | None, key: bytes) -> None:
        ran = jsonl(completed("CommandExecution", "c1", stderr=LONG)).replace(b'"stderr":', key)
        inside = b'"env":{"stderr":%b},' % json.dumps(inner, ensure_ascii=False).encode() if inner else b'"env":{},'
        kept = rollout(ran.replace(key, inside + key)).payload(1)["item"]
        cut_text(kept["stderr"], LONG, 2)
        assert kept["env"] == ({"stderr": inner} if inner else {})

    def test_a_copy_may_come_before_its_call(self, rollout: Any) -> None:
        ran = completed("CommandExecution", "c1", aggregated_output=LONG)
        assert rollout(ran, output("c1", LONG), call("c1", "made_up"), tools=("made_up",)).changed() == [0, 1, 2]

    def test_copies_of_other_tools_are_cut_as_well(self, rollout: Any) -> None:
        done = rollout(*self.copies(), tools=("mcp__*", "apply_patch"))
        assert done.changed() == [0, 4, 5, 6, 7]
        cut_text(done.payload(4)["item"]["result"]["content"][0]["text"], LONG, 5)
        text, image = done.payload(5)["result"]["Ok"]["content"]
        cut_text(text["text"], LONG, 6)
        assert image["type"] == "text"
        assert image["text"].startswith("image/gif image\n")
        assert done.payload(6)["item"]["changes"] == {"a": {"content": LONG}}

    def test_the_calls_name_takes_precedence_over_the_records(self, rollout: Any) -> None:
        assert rollout(call("c1", "shell"), *self.copies()[:1], tools=("exec_command",)).changed() == [0]

    def test_copies_are_kept_on_request(self, rollout: Any) -> None:
        done = rollout(call("c1"), output("c1", LONG), *self.copies(), tools=("*",), keep_display_copy=True)
        assert done.changed() == [0, 2]
        spaced = json.dumps(self.copies()[0]).encode() + b"\n"
        assert rollout(call("c1"), spaced).changed() == [0, 2]
        assert rollout(call("c1"), spaced, keep_display_copy=True).changed() == [0]

    def test_outputs_of_commands_that_a_person_ran_stay(self, rollout: Any) -> None:
        ran = completed("CommandExecution", "x", source="user_shell", aggregated_output=LONG)
        assert rollout(ran, said(f"<user_shell_command>\n{LONG}\n</user_shell_command>")).changed() == [0]

    @pytest.mark.parametrize("odd", [None, [], "x", {"content": None}, {"content": "x" * 600}, 7])
    def test_odd_results(self, rollout: Any, odd: Any) -> None:
        rollout(completed("McpToolCall", "c2", server=None, tool=3, result=odd), tools=("*",))
        rollout(event("mcp_tool_call_end", call_id="c", invocation=odd, result=odd), tools=("*",))


class TestCompaction:
    def test_outputs_in_the_new_history_are_cut(self, rollout: Any) -> None:
        history = [said("begin")["payload"], call("c1")["payload"], output("c1", LONG)["payload"], "odd", {}]
        done = rollout(
            call("c0"),
            output("c0", LONG),
            record(
                "compacted", {"message": "m", "replacement_history": history, "replacement_history_metadata": [1] * 5}
            ),
        )
        assert done.changed() == [0, 2, 3]
        new = done.payload(3)["replacement_history"]
        assert len(new) == 5
        assert (new[:2], new[3:]) == (history[:2], history[3:])
        cut_text(new[2]["output"], LONG, 4)

    def test_only_what_the_model_still_reads_is_counted(self, rollout: Any) -> None:
        before = (call("c1"), output("c1", LONG), record("compacted", {"message": "m", "replacement_history": []}))
        assert rollout(*before).saved == 0
        assert rollout(*before, call("c2"), output("c2", LONG)).saved > 5000


class TestTokens:
    def test_the_context_is_no_longer_believed_full(self, rollout: Any) -> None:
        done = rollout(tokens(250_000), event("token_count", info=None), tokens(0), said("x"))
        assert done.changed() == [0, 1]
        new, old = done.payload(1), tokens(250_000)["payload"]
        assert set(new["info"]["last_token_usage"].values()) == {0}
        assert new["info"].pop("last_token_usage").keys() == old["info"].pop("last_token_usage").keys()
        assert new == old

    def test_usage_in_another_layout_is_reset(self, rollout: Any) -> None:
        line = jsonl(tokens(250_000)).replace(
            b'"last_token_usage":{', b'"last_token_usage" : { "more" : {"a":5}, "b": -3.5e7,'
        )
        done = rollout(line)
        assert done.payload(1)["info"]["last_token_usage"]["total_tokens"] == 0
        assert done.payload(1)["info"]["last_token_usage"]["b"] == 0
        assert b'"more" : {"a":5}' in done.after[1]

    def test_the_share_is_unknown_after_a_trim(self, rollout: Any, tmp_path: Path) -> None:
        done = rollout(said("x"), tokens(129_200))
        before = tail.share(tmp_path / name())
        assert before
        assert (before.tokens, before.window, before.percent) == (129_200, 258_400, 50)
        copy = tmp_path / name(NEW)
        copy.write_bytes(done.content)
        assert tail.share(copy) is None


class TestDeep:
    def test_the_outputs_of_all_tools(self, rollout: Any) -> None:
        records = call("c1", "made_up"), output("c1", LONG), call("c2"), output("c2", f"{LONG}2")
        done = rollout(*records, deep=True)
        assert done.changed() == [0, 2, 4]
        assert done.steps == {LONG_RESULTS, OTHERS}, "exec_command stands for Bash"
        done = rollout(*records, deep=True, spare=1)
        assert done.changed() == [0, 2]
        assert done.steps == {OTHERS}
        assert rollout(*records, spare=2).changed() == [0]

    def test_nothing_counts_as_repeated(self, rollout: Any) -> None:
        """An output does not say which file it is about, and equal ones are short."""
        same = "the same " * 50
        records = [record for id in ("c1", "c2", "c3") for record in (call(id), output(id, same))]
        done = rollout(*records, deep=True)
        assert done.changed() == [0]
        assert done.steps == set()

    def test_copies_for_the_display_go_with_their_output(self, rollout: Any) -> None:
        copy = event("exec_command_end", call_id="c1", aggregated_output=LONG)
        records = call("c1"), output("c1", LONG), copy
        assert rollout(*records, deep=True).changed() == [0, 2, 3]
        assert rollout(*records, deep=True, spare=1).changed() == [0]

    def test_a_second_time_changes_nothing(self, rollout: Any, tmp_path: Path) -> None:
        records = [record for id in ("c1", "c2", "c3") for record in (call(id), output(id, LONG))]
        done = rollout(*records, deep=True, spare=1)
        assert done.changed() == [0, 2, 4]
        copy = tmp_path / name(NEW)
        copy.write_bytes(done.content)
        assert Trimmed(copy, deep=True, spare=1).content == done.content

    def test_the_history_of_a_fork_counts(self, tmp_path: Path) -> None:
        fork = TestForks().fork(tmp_path)[2]
        assert Trimmed(fork, spare=9).lines.plan.whole == {"p", "m"}


def test_a_long_line_and_a_long_number(rollout: Any) -> None:
    digits = b'"a_number":%b,' % (b"9" * 5000)
    long = jsonl(output("c1", "one line\n" * (2_400_000 if DEEP else 600_000)))
    short = jsonl(output("c1", LONG)).replace(b'"type"', digits + b'"type"', 1)
    assert len(long) > (20 if DEEP else 5) << 20
    for deep in (False, True):
        done = rollout(call("c1"), long, call("c2"), short.replace(b"c1", b"c2"), call("c3"), deep=deep)
        assert done.changed() == [0, 2, 4]
        assert len(done.content) < 20_000
        assert digits in done.after[4]


class TestFirstLine:
    def test_both_ids_of_the_first_line_are_new(self, rollout: Any) -> None:
        done = rollout(said("x"), record("turn_context", {"id": ID}), meta())
        assert done.changed() == [0]
        assert done.before[0].replace(ID.encode(), NEW.encode()) == done.after[0]

    def test_an_older_first_line_has_one_id(self, tmp_path: Path) -> None:
        path = tmp_path / name()
        path.write_bytes(b"\n" + jsonl(record("session_meta", {"id": ID, "instructions": {"id": "no", "text": ID}})))
        done = Trimmed(path)
        assert done.payload(1) == {"id": NEW, "instructions": {"id": "no", "text": ID}}

    @pytest.mark.parametrize(
        "first",
        [
            b"",
            b"\xef\xbb\xbf" + jsonl(meta()),
            b"{torn\n",
            b"[]\n",
            jsonl(said("x")),
            jsonl(record("session_meta", None)),
            b"\n\n",
        ],
    )
    def test_a_rollout_without_a_first_line_is_refused(self, tmp_path: Path, first: bytes) -> None:
        path = tmp_path / name()
        path.write_bytes(first)
        with pytest.raises(SessionFileError, match="session_meta"):
            Trimmed(path)

    def test_a_compressed_rollout_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / f"{name()}.zst"
        path.write_bytes(b"\x28\xb5\x2f\xfd")
        with pytest.raises(SessionFileError, match="zstd -d"):
            Trimmed(path)

    def test_a_trimmed_rollout_is_named_as_codex_names_it(self, tmp_path: Path) -> None:
        path = tmp_path / name()
        path.write_bytes(jsonl(meta(), call("c1"), output("c1", LONG)))
        new = trim(session_path(path), TrimOptions(500, TOOLS), NEW, datetime.now(UTC)).session.path
        assert new.parent == tmp_path
        assert re.fullmatch(rf"rollout-\d{{4}}-\d\d-\d\dT\d\d-\d\d-\d\d-{NEW}\.jsonl", new.name)


@pytest.mark.parametrize(
    "odd",
    [
        b"\n",
        b"\0\0\n",
        b"[]\n",
        b"5\n",
        b'{"type":"response_item"}\n',
        b'{"type":"response_item","payload":null}\n',
        b'{"type":["compacted"],"payload":{"replacement_history":5}}\n',
        b'{"type":"compacted","payload":{"replacement_history":{"a":[1]}}}\n',
        b'{"type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":[5]}}}\n',
        b'{"type":"event_msg","payload":{"type":"token_count","info":7}}\n',
        b'{"type":"response_item","payload":{"type":"function_call","call_id":5,"name":[]}}\n',
        b'{"type":"response_item","payload":{"type":"function_call_output","call_id":{},"output":"'
        + b"x" * 700
        + b'"}}\n',
        b'{"type":"response_item","payload":{"type":["function_call_output"],"call_id":"c1"}}\n',
        jsonl(output("c1", LONG))[:-40],
        jsonl(output("c1", LONG))[:-2] + b"\n",
        jsonl(tokens(5000))[:-2] + b"\n",
        b"\xff\xfe" + jsonl(output("c1", LONG)),
        b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"\n",
    ],
)
def test_lines_that_are_odd_or_torn_stay(rollout: Any, odd: bytes) -> None:
    done = rollout(call("c1"), odd, *([said("x")] if odd.endswith(b"\n") else []))
    assert done.changed() == [0]


def test_a_key_that_comes_twice(rollout: Any) -> None:
    line = jsonl(output("c1", "first")).replace(
        b'"output":"first"', b'"output":"first","output":%b' % json.dumps(LONG).encode()
    )
    cut_text(rollout(call("c1"), line).payload(2)["output"], LONG, 3)


def test_invalid_text_is_cut_or_stays_but_nothing_is_lost(rollout: Any) -> None:
    line = jsonl(output("c1", "A" + LONG)).replace(b'"A', b'"\xff\xfe\\ud800 ')
    done = rollout(call("c1"), line, said("x"))
    assert done.changed() in ([0], [0, 2])
    assert done.after[3] == done.before[3]


class TestForks:
    PARENT, MIDDLE = "0199cccc-0000-7000-8000-000000000001", "0199cccc-0000-7000-8000-000000000002"

    def fork(self, folder: Path) -> tuple[Path, Path, Path]:
        """Write a rollout, a fork of it and a fork of that fork, each with an output, and return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        parent, middle, last = (folder / name(id) for id in (self.PARENT, self.MIDDLE, ID))
        shared = jsonl(meta(self.PARENT), call("p"), output("p", "parent " * 200))
        parent.write_bytes(shared + jsonl(said("not part of the fork")))
        base = {"thread_id": self.PARENT, "end_ordinal_exclusive": 3, "end_byte_offset": len(shared)}
        shared = jsonl(meta(self.MIDDLE, history_base=base), call("m"), output("m", "middle " * 200))
        middle.write_bytes(shared + jsonl(said("nor this")))
        base = {"thread_id": self.MIDDLE, "end_ordinal_exclusive": 5, "end_byte_offset": len(shared)}
        last.write_bytes(jsonl(meta(ID, history_base=base), output("p", "again " * 200), said("mine")))
        return parent, middle, last

    def test_the_copy_has_the_whole_history(self, tmp_path: Path) -> None:
        files = self.fork(tmp_path / "sessions" / "2026" / "11")
        hashes = [hashlib.sha256(path.read_bytes()).digest() for path in files]
        done = Trimmed(files[2])
        assert done.payload(0) == meta(NEW, history_base=None)["payload"]
        assert b"not part" not in done.content
        assert b"nor this" not in done.content
        assert [json.loads(line)["payload"].get("call_id") for line in done.after] == [
            None,
            "p",
            "p",
            "m",
            "m",
            "p",
            None,
        ]
        for index, word, path, line in (
            (2, "parent ", files[0], 3),
            (4, "middle ", files[1], 3),
            (5, "again ", files[2], 2),
        ):
            text = done.payload(index)["output"]
            cut_text(text, word * 200, line)
            assert text.endswith(f"of {path}]")
            whole = path.read_bytes().split(b"\n")[line - 1]
            assert json.loads(whole)["payload"]["output"] == word * 200
        assert hashes == [hashlib.sha256(path.read_bytes()).digest() for path in files]

    def test_the_parent_may_be_elsewhere(self, tmp_path: Path) -> None:
        parent, _, last = self.fork(tmp_path / "sessions" / "2026" / "11")
        other = tmp_path / "archived_sessions"
        other.mkdir()
        parent.rename(other / parent.name)
        assert len(Trimmed(last).after) == 7

    def test_without_its_parent_it_is_refused(self, tmp_path: Path) -> None:
        parent, _, last = self.fork(tmp_path / "sessions")
        parent.unlink()
        with pytest.raises(SessionFileError, match=self.PARENT):
            Trimmed(last)

    def test_a_fork_without_its_own_lines_is_refused(self, tmp_path: Path) -> None:
        _, _, last = self.fork(tmp_path)
        last.write_bytes(last.read_bytes().split(b"\n")[0])
        with pytest.raises(SessionFileError, match="resume it"):
            Trimmed(last)

    @pytest.mark.parametrize("change", ["shorter", "a line less", "a byte less", "a byte more"])
    def test_a_parent_that_changed_is_refused(self, tmp_path: Path, change: str) -> None:
        parent, _, last = self.fork(tmp_path)
        held = parent.read_bytes()
        lines = held.splitlines(keepends=True)
        changed = {
            "shorter": held[:-400],
            "a line less": b"".join(lines[:2]),
            "a byte less": held[:50] + held[51:],
            "a byte more": held[:50] + b"x" + held[50:],
        }
        parent.write_bytes(changed[change])
        with pytest.raises(SessionFileError, match="changed"):
            Trimmed(last)

    def test_a_parent_whose_lines_were_replaced(self, tmp_path: Path) -> None:
        parent, middle, _ = self.fork(tmp_path)
        base = json.loads(middle.read_bytes().split(b"\n")[0])["payload"]["history_base"]
        line = jsonl({"ordinal": 9, **said("late")})
        filled = jsonl(
            meta(self.PARENT), said("x" * (base["end_byte_offset"] - len(jsonl(meta(self.PARENT), said(""), line))))
        )
        parent.write_bytes(filled + line)
        assert parent.stat().st_size == base["end_byte_offset"]
        with pytest.raises(SessionFileError, match="changed"):
            Trimmed(middle)

    @pytest.mark.parametrize(
        "base", [5, "x", {}, {"thread_id": "../../etc", "end_byte_offset": 3}, {"thread_id": ID, "end_byte_offset": 3}]
    )
    def test_an_odd_parent_is_refused(self, tmp_path: Path, base: Any) -> None:
        path = tmp_path / name()
        path.write_bytes(jsonl(meta(history_base=base)))
        with pytest.raises(SessionFileError, match="forked"):
            Trimmed(path)

    def test_forks_that_go_in_a_circle_are_refused(self, tmp_path: Path) -> None:
        one, two, _ = self.fork(tmp_path)
        size = len(self.circling(self.PARENT, self.MIDDLE, 100))
        one.write_bytes(self.circling(self.PARENT, self.MIDDLE, size))
        two.write_bytes(self.circling(self.MIDDLE, self.PARENT, size))
        assert one.stat().st_size == two.stat().st_size == size
        with pytest.raises(SessionFileError, match="forked"):
            Trimmed(two)

    def circling(self, id: str, parent: str, end: int) -> bytes:
        return jsonl(meta(id, history_base={"thread_id": parent, "end_ordinal_exclusive": 3, "end_byte_offset": end}))


class TestNewFile:
    def test_a_trimmed_rollout_is_written_next_to_the_original(self, tmp_path: Path) -> None:
        path = tmp_path / "2026" / name()
        path.parent.mkdir()
        path.write_bytes(jsonl(meta(), call("c1"), output("c1", LONG), tokens(250_000)))
        held = path.read_bytes()
        done = trim(session_path(path), TrimOptions(500, TOOLS), NEW, datetime.now(UTC))
        assert path.read_bytes() == held
        assert sorted(path.parent.iterdir()) == sorted([path, done.session.path])
        assert (done.session.id, done.session.kind, done.trimmed_count) == (NEW, "codex", 1)
        records = [json.loads(line) for line in done.session.path.read_bytes().splitlines()]
        metadata = records[0].pop("trim_metadata")
        assert records[0] == meta(NEW)
        assert metadata.pop("trimmed_at")
        saved = done.tokens_saved
        assert metadata == {"parent_file": str(path), "threshold": 500, "trimmed_count": 1, "tokens_saved": saved}
        assert saved == round(done.tally["exec_command"].bytes / 3.2) > 2000

    def test_a_trimmed_fork_has_the_whole_history(self, tmp_path: Path) -> None:
        files = TestForks().fork(tmp_path)
        done = trim(session_path(files[2]), TrimOptions(500, TOOLS), NEW, datetime.now(UTC))
        records = [json.loads(line) for line in done.session.path.read_bytes().splitlines()]
        assert records[0].pop("trim_metadata")["trimmed_count"] == done.trimmed_count == 3
        assert records == [json.loads(line) for line in Trimmed(files[2]).after]


@pytest.mark.skipif(not REAL_FILES, reason="the real sessions are not here")
@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.stem)
class TestRealRollouts:
    def test_only_the_intended_parts_change(self, path: Path) -> None:
        done = Trimmed(path)
        cut = 0
        for index in done.changed():
            old, new = json.loads(done.before[index]), json.loads(done.after[index])
            if new["payload"].get("type") == "token_count":
                new["payload"]["info"]["last_token_usage"] = old["payload"]["info"]["last_token_usage"]
            elif new["payload"].get("type") == "function_call_output":
                cut += 1
                whole, text = old["payload"]["output"], new["payload"]["output"]
                assert len(done.after[index]) < len(done.before[index])
                if whole.startswith("{"):
                    whole, text = json.loads(whole), json.loads(text)
                    assert whole["metadata"] == text["metadata"]
                    whole, text = whole["output"], text["output"]
                cut_text(text, whole, index + 1)
                new["payload"]["output"] = old["payload"]["output"]
            else:
                assert index == 0
                new = json.loads(done.after[0].replace(NEW.encode(), old["payload"]["id"].encode()))
            assert old == new
        assert cut == sum(tally.cut for tally in done.lines.tools.values()) > 5

    def test_a_second_time_changes_nothing(self, path: Path, tmp_path: Path) -> None:
        done = Trimmed(path)
        copy = tmp_path / name(NEW)
        copy.write_bytes(done.content)
        again = Trimmed(copy)
        assert again.content == done.content
        assert again.saved == 0

    def test_the_share_before_and_after(self, path: Path, tmp_path: Path) -> None:
        counts = [json.loads(line)["payload"] for line in path.read_bytes().splitlines() if b'"token_count"' in line]
        info = [each["info"] for each in counts if each["info"]][-1]
        share = tail.share(path)
        assert share is not None
        assert (share.tokens, share.window) == (info["last_token_usage"]["total_tokens"], info["model_context_window"])
        copy = tmp_path / name(NEW)
        copy.write_bytes(Trimmed(path).content)
        assert tail.share(copy) is None


TEXTS = st.one_of(
    st.text(max_size=120),
    st.integers(0, 900).map(lambda size: 'ab\\"ä\n' * (size // 6)),
    st.integers(200, 900).map(
        lambda size: json.dumps({"output": 'z\n"\\' * (size // 4), "metadata": {"exit_code": 0}})
    ),
    st.just("... [TRIMMED by Foldmark: 5 of 900 characters. The whole result: line 3 of /a.jsonl]"),
)
ITEMS = st.one_of(
    st.builds(lambda text: {"type": "input_text", "text": text}, TEXTS),
    st.builds(
        lambda size: {"type": "input_image", "image_url": "data:image/png;base64," + "QUJD" * size}, st.integers(0, 200)
    ),
    st.sampled_from([{"type": "input_text"}, {"type": "input_image"}, {"type": 5}, 7, "text", None]),
)
OUTPUTS = st.one_of(
    TEXTS, st.lists(ITEMS, max_size=5), st.builds(lambda text: {"content": text, "success": True}, TEXTS)
)


@given(
    outputs=st.lists(OUTPUTS, min_size=1, max_size=4),
    threshold=st.integers(0, 600),
    ascii_only=st.booleans(),
    separators=st.sampled_from([(",", ":"), (", ", ": ")]),
)
def test_any_output(
    tmp_path_factory: Any, outputs: list[Any], threshold: int, ascii_only: bool, separators: tuple[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    path, copy, other = folder / name(), folder / name(NEW), folder / name(TestForks.PARENT)
    held = []
    for number, value in enumerate(outputs):
        shown = value if isinstance(value, str) else LONG
        for each in (
            call(f"c{number}"),
            output(f"c{number}", value),
            completed("CommandExecution", f"c{number}", aggregated_output=shown, stdout=shown),
            tokens(number),
        ):
            written = json.dumps(each, ensure_ascii=ascii_only, separators=separators)
            held.append(written.encode("utf-8", "replace") + b"\n")
    path.write_bytes(jsonl(meta()) + b"".join(held))
    done = Trimmed(path, threshold=threshold)
    for index in done.changed()[1:]:
        old, new = json.loads(done.before[index]), json.loads(done.after[index])
        if old["type"] == "response_item":
            assert len(done.after[index]) < len(done.before[index])
            assert "TRIMMED by Foldmark" in done.after[index].decode()
            new["payload"]["output"] = old["payload"]["output"]
            assert old == new
    copy.write_bytes(done.content)
    assert Trimmed(copy, threshold=threshold).content == done.content
    # With a leading space, a line is no longer in Codex's own form; the result must be the same.
    other.write_bytes(jsonl(meta()) + b"".join(b" " + line for line in held))
    slow = Trimmed(other, threshold=threshold)
    expected = [b" " + line.replace(str(path).encode(), str(other).encode()) for line in done.after[1:]]
    assert slow.after[1:] == expected
    assert slow.lines.tools == done.lines.tools


@given(data=st.data())
def test_any_damage(tmp_path_factory: Any, data: st.DataObject) -> None:
    records = (
        call("c1"),
        output("c1", HEADED),
        tokens(9000),
        completed("CommandExecution", "c1", aggregated_output=LONG),
    )
    damaged = bytearray(jsonl(*records))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    path = tmp_path_factory.mktemp("damage") / name()
    path.write_bytes(jsonl(meta()) + damaged)
    done = Trimmed(path)
    assert b"".join(done.before) == path.read_bytes()
    assert [line.endswith(b"\n") for line in done.after] == [line.endswith(b"\n") for line in done.before]
    assert all(len(new) <= len(old) for old, new in zip(done.before[1:], done.after[1:], strict=True))
