"""`foldmark trim --profile deep`: the parts that it cuts and keeps; nothing else changes [SPEC 8]."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_records import REAL_FILES, SHORT_FILES, assistant, call, jsonl, result, user
from trim_check import at, compare, parsed, trim, trimmed_copy

import forked
from foldmark.core.assembly.superseded import END, WRITES, Exchange, FileUse
from foldmark.core.assembly.superseded import READS as READERS
from foldmark.formats.places import session_path
from foldmark.sessions.doctor import diagnose
from foldmark.sessions.hook.answering import ADVICE
from foldmark.sessions.trim.job import TrimOptions
from foldmark.sessions.trim.stale import ARGUMENTS, FAILED, IDENTICAL, LONG, OTHERS, READS, TODOS, plan
from foldmark.sessions.trim.trimming import TrimResult

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ID = "11111111-2222-4333-8444-555555555555"
OLD = "99999999-2222-4333-8444-555555555555"
DEFAULT = TrimOptions(500, ("Read", "Bash", "Grep", "Glob"))
DEEP = TrimOptions(500, DEFAULT.tools, deep=True, spare=5)
ALL = TrimOptions(500, DEFAULT.tools, deep=True)
POINTER = re.compile(
    r"\.\.\. \[TRIMMED by Foldmark: ([\d,]+) of ([\d,]+) (\w+)\. The whole (result|argument): line (\d+) of (.+)\]\Z"
)
LONG_TEXT = "some text of a file\n" * 100


class TestPlan:
    def of(self, *calls: Exchange, spare: int = 0) -> tuple[dict[str, str], dict[str, str]]:
        done = plan(calls, spare, deep=True)
        return dict(done.results), dict(done.arguments)

    def made(
        self, id: str, name: str, path: str | None = None, span: tuple[int, int] = (0, END), **fields: Any
    ) -> Exchange:
        tool = name.lower()
        how = "read" if tool in READERS else "write" if tool in WRITES else None
        uses = (FileUse(how, path, span),) if path and how else ()
        return Exchange(id=id, tool=tool, uses=uses, **{"digest": id.encode(), "attempt": path or "", **fields})

    @pytest.mark.parametrize("later", ["Read", "Write", "Edit", "MultiEdit", "NotebookEdit"])
    def test_a_file_that_was_read_or_written_again(self, later: str) -> None:
        calls = [self.made("1", "Read", "/a"), self.made("2", "Write", "/a"), self.made("3", "Edit", "/a")]
        results, arguments = self.of(*calls, self.made("4", "Read", "/b"), self.made("5", later, "/a"))
        assert results == {"1": READS}
        assert arguments == {"2": ARGUMENTS, "3": ARGUMENTS}

    def test_a_call_that_failed_makes_nothing_stale(self) -> None:
        assert self.of(self.made("1", "Read", "/a"), self.made("2", "Edit", "/a", failed=True)) == ({}, {})

    def test_a_partial_read_covers_only_that_part(self) -> None:
        one, two = self.made("1", "Read", "/a", span=(1, 9)), self.made("2", "Read", "/a", span=(5, 20))
        whole = self.made("3", "Read", "/a")
        assert self.of(one, two) == ({}, {})
        assert self.of(whole, two) == ({}, {})
        assert self.of(one, self.made("4", "Read", "/a", span=(1, 9))) == ({"1": READS}, {})
        assert self.of(one, whole) == ({"1": READS}, {})
        assert self.of(self.made("5", "Write", "/a"), one) == ({}, {})

    def test_a_read_that_refers_to_an_earlier_one_leaves_it(self) -> None:
        assert self.of(self.made("1", "Read", "/a"), self.made("2", "Read", "/a", void=True)) == ({}, {})

    def test_of_identical_results_the_newest_stays(self) -> None:
        same = [self.made(id, "Bash", digest=b"x") for id in "123"]
        assert self.of(*same, self.made("4", "Bash")) == ({"1": IDENTICAL, "2": IDENTICAL}, {})

    def test_the_newest_todo_list_stays(self) -> None:
        lists = [self.made(id, "TodoWrite") for id in "12"]
        assert self.of(*lists, self.made("3", "TodoWrite", failed=True)) == ({}, {"1": TODOS})

    def test_a_failed_attempt_is_cut_once_a_repetition_succeeded(self) -> None:
        failed = self.made("1", "Edit", "/a", failed=True)
        assert self.of(failed, self.made("2", "Edit", "/b")) == ({}, {})
        assert self.of(failed, self.made("2", "Edit", "/a", failed=True)) == ({}, {})
        assert self.of(failed, self.made("2", "Edit", "/a")) == ({"1": FAILED}, {"1": FAILED})

    def test_results_with_a_persons_words_are_not_cut(self) -> None:
        refused = self.made("1", "Edit", "/a", failed=True, spoken=True)
        asked = self.made("2", "AskUserQuestion", digest=b"x")
        calls = [refused, asked, self.made("3", "AskUserQuestion", digest=b"x"), self.made("4", "Edit", "/a")]
        assert self.of(*calls) == ({}, {})
        assert plan(calls, 0, deep=True).spoken == {"1", "2", "3"}

    def test_the_newest_results_stay_with_their_calls(self) -> None:
        calls = [self.made(str(number), "Write", "/a", digest=b"x") for number in range(5)]
        open_call = Exchange(id="9", tool="write", uses=(FileUse("write", "/a"),))
        done = plan([*calls, open_call], 2, deep=True)
        assert done.whole == {"3", "4"}
        assert set(done.results) == set(done.arguments) == {"0", "1", "2"}
        assert plan(calls, 2, deep=False).whole == {"3", "4"}
        assert len(plan(calls, 9, deep=False).whole) == 5
        assert not plan(calls, 2, deep=False).results

    def test_a_task_that_has_answered(self) -> None:
        assert self.of(self.made("1", "Task"), Exchange(id="2", tool="task")) == ({}, {"1": ARGUMENTS})


class Session:
    """A session that a test builds call by call."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.last: str | None = None

    def add(self, make: Any, content: Any, **fields: Any) -> str:
        uuid = f"u{len(self.records)}"
        self.records.append(make(content, uuid, self.last, sessionId=OLD, **fields))
        self.last = uuid
        return uuid

    def call(self, name: str, content: Any, given: dict[str, Any], *, failed: bool = False, shown: Any = None) -> str:
        id = f"c{len(self.records)}"
        self.add(assistant, [call(id, name, **given)], response=f"m{id}")
        done = result(id, content, is_error=True) if failed else result(id, content)
        self.add(user, [done], **({"toolUseResult": shown} if shown is not None else {}))
        return id

    @property
    def content(self) -> bytes:
        """The session's bytes, as Claude Code writes them."""
        lines = (json.dumps(each, separators=(",", ":"), ensure_ascii=False) for each in self.records)
        return "".join(f"{line}\n" for line in lines).encode()

    def trimmed(self, folder: Path, wish: TrimOptions = ALL) -> tuple[TrimResult, dict[str, Any], dict[str, Any]]:
        """Trim the session and return the report, and the arguments and results by call id."""
        content = self.content
        path = at(folder, OLD, content)
        done = trimmed_copy(session_path(path), wish, ID, NOW)
        new = done.session.path.read_bytes()
        done.session.path.unlink()
        assert compare(content, new, ID, tuple(done.tally), wish.threshold, deep=True) == done.trimmed_count
        given, back = {}, {}
        for line in new.splitlines():
            blocks = (parsed(line) or {})["message"]["content"]
            for block in blocks if isinstance(blocks, list) else []:
                if block["type"] == "tool_use":
                    given[block["id"]] = block["input"]
                elif block["type"] == "tool_result":
                    back[block["tool_use_id"]] = block["content"]
        return done, given, back


def test_each_step(tmp_path: Path) -> None:
    session = Session()
    session.add(user, "Do it.")
    todo = [{"content": f"Step {number} of the plan", "status": "pending", "activeForm": "x"} for number in range(9)]
    read = session.call("Read", "short " * 60, {"file_path": "/a"})
    lists = [session.call("TodoWrite", "ok", {"todos": todo}) for _ in range(2)]
    write = session.call("Write", "done", {"file_path": "/a", "content": LONG_TEXT})
    edits = [{"old_string": LONG_TEXT, "new_string": "x", "replace_all": True}]
    edit = session.call("MultiEdit", "done", {"file_path": "/a", "edits": edits})
    failed = session.call("Edit", "<error>" * 70, {"file_path": "/a", "old_string": "y" * 300}, failed=True)
    again = session.call("Edit", "done", {"file_path": "/a", "old_string": LONG_TEXT})
    web = session.call("WebFetch", f"A page: {LONG_TEXT}", {"url": "https://example.org", "prompt": LONG_TEXT})
    same = [session.call("Bash", "same " * 80, {"command": "ls"}) for _ in range(2)]
    bash = session.call("Bash", LONG_TEXT, {"command": LONG_TEXT})
    done, given, back = session.trimmed(tmp_path)
    where = re.escape(str(tmp_path))
    assert re.fullmatch(rf"\n\.\.\. \[TRIMMED by Foldmark: 0 of 360 .* result: line 3 of {where}.*\]", back[read])
    assert given[lists[0]]["todos"][0]["content"].startswith("... [TRIMMED by Foldmark: 0 of 9 entries.")
    assert given[lists[1]]["todos"] == todo
    assert given[write]["content"].startswith(LONG_TEXT[:400])
    assert "of 2,000 characters. The whole argument: line 8 of " in given[write]["content"]
    assert given[edit]["edits"][0].keys() == edits[0].keys()
    assert "TRIMMED" in given[edit]["edits"][0]["old_string"]
    assert given[failed]["old_string"].startswith("\n... [TRIMMED by Foldmark: 0 of 300")
    assert back[failed].startswith("\n... [TRIMMED by Foldmark: 0 of 490")
    assert given[again]["old_string"] == LONG_TEXT
    assert (given[web]["prompt"], given[bash]["command"]) == (LONG_TEXT, LONG_TEXT)
    assert back[web].startswith(f"A page: {LONG_TEXT[:400]}")
    assert back[same[0]].startswith("\n... [TRIMMED")
    assert back[same[1]] == "same " * 80
    assert set(done.steps) == {LONG, OTHERS, READS, ARGUMENTS, IDENTICAL, TODOS, FAILED}
    assert abs(sum(done.steps.values()) - done.tokens_saved) <= len(done.steps)


def test_a_branch_that_was_left_makes_nothing_stale(tmp_path: Path) -> None:
    session = Session()
    begin = session.add(user, "Do it.")
    read = session.call("Read", "short " * 60, {"file_path": "/a"})
    answer = session.last
    session.add(user, "Write it.")
    session.call("Write", "done", {"file_path": "/a", "content": "x"})
    session.last = answer
    session.add(user, "No, only look.")
    _, _, back = session.trimmed(tmp_path)
    assert back[read] == "short " * 60
    session.call("Write", "done", {"file_path": "/a", "content": "x"})
    _, _, back = session.trimmed(tmp_path)
    assert "TRIMMED" in back[read]
    assert begin == "u0"


@pytest.mark.parametrize(
    ("content", "stays"),
    [
        ("The user doesn't want to proceed with this tool use. The user said: " + "no, because " * 80, True),
        ("The file does not exist. " * 40, False),
    ],
)
def test_results_with_a_persons_words_stay(content: str, stays: bool, tmp_path: Path) -> None:
    session = Session()
    refused = session.call("Edit", content, {"file_path": "/a", "old_string": "x"}, failed=True)
    session.call("Edit", "done", {"file_path": "/a", "old_string": "x"})
    asked = session.call("AskUserQuestion", "User has answered: " + "this one, " * 90, {"questions": []})
    _, _, back = session.trimmed(tmp_path)
    assert ("TRIMMED" not in back[refused]) == stays
    assert "TRIMMED" not in back[asked]


def test_a_read_that_was_not_needed_refers_to_the_one_before(tmp_path: Path) -> None:
    session = Session()
    read = session.call("Read", "short " * 60, {"file_path": "/a"})
    session.call("Read", "<system-reminder>File unchanged since last read.", {"file_path": "/a"})
    assert session.trimmed(tmp_path)[2][read] == "short " * 60


def test_the_copies_for_the_display_go_too(tmp_path: Path) -> None:
    session = Session()
    shown = {"filePath": "/a", "oldString": "x", "originalFile": LONG_TEXT, "structuredPatch": [{"lines": [LONG_TEXT]}]}
    session.call("Edit", "done", {"file_path": "/a"}, shown=shown)
    session.call("Bash", LONG_TEXT, {}, shown={"stdout": LONG_TEXT})
    content = session.content
    path = at(tmp_path, OLD, content)

    def display(wish: TrimOptions) -> Any:
        done = trimmed_copy(session_path(path), wish, ID, NOW)
        line = done.session.path.read_bytes().splitlines()[1]
        done.session.path.unlink()
        return json.loads(line)["toolUseResult"]

    assert display(DEFAULT) == display(TrimOptions(500, (), deep=True, keep_display_copy=True)) == shown
    left = display(ALL)
    assert {**left, "originalFile": ""} == {**shown, "originalFile": ""}
    assert "TRIMMED by Foldmark" in left["originalFile"]


def test_the_newest_results_in_the_default_profile(tmp_path: Path) -> None:
    session = Session()
    calls = [session.call("Bash", f"{number} {LONG_TEXT}", {}) for number in range(4)]
    back = session.trimmed(tmp_path, TrimOptions(500, ("Bash",), spare=2))[2]
    assert [id for id in calls if "TRIMMED" in back[id]] == calls[:2]


def test_a_later_trim_cuts_the_spared_results(tmp_path: Path) -> None:
    session = Session()
    for number in range(6):
        session.call("Bash", f"{number} {LONG_TEXT}", {})
    path = at(tmp_path, OLD, session.content)
    first = trim(session_path(path), DEEP, ID, NOW)
    assert first.trimmed_count == 1
    assert trim(first.session, DEEP, OLD[:-1] + "5", NOW).trimmed_count == 0
    assert trim(first.session, ALL, OLD[:-1] + "6", NOW).trimmed_count == 5


LOW, URGENT = (
    "Context at 62%. Consider /trim if responses feel degraded.",
    "Context at 90%. Use /trim or /rollover before auto-compaction at 95%.",
)


def attachment(*texts: Any, event: str = "PostToolUse", kind: str = "hook_additional_context") -> dict[str, Any]:
    """Return the record that Claude Code 2.1 makes of hooks' texts for the model."""
    hook = {"hookName": f"{event}:Read", "toolUseID": "c1", "hookEvent": event}
    return {"type": "attachment", "attachment": {"type": kind, "content": list(texts), **hook}}


class TestReminders:
    def left(self, folder: Path, *records: dict[str, Any]) -> list[Any]:
        session = Session()
        session.add(user, "Do it.")
        session.call("Bash", LONG_TEXT, {})
        for record in records:
            session.records.append({"uuid": f"u{len(session.records)}", "parentUuid": session.last, **record})
            session.last = session.records[-1]["uuid"]
        path = at(folder, OLD, session.content)
        done = trimmed_copy(session_path(path), DEFAULT, ID, NOW)
        new = [parsed(line) for line in done.session.path.read_bytes().splitlines()]
        done.session.path.unlink()
        assert [{**each, "attachment": 0} for each in new[3:]] == [
            {**each, "attachment": 0} for each in session.records[3:]
        ]
        self.count = done.reminders
        assert done.trimmed_count == 1
        return [each["attachment"]["content"] for each in new[3:]]

    def test_reminders_of_the_hook_are_removed(self, tmp_path: Path) -> None:
        others = "Another hook: Context at 62%.", f"{LOW} And more.", f" {LOW}", "é"
        asked = attachment(LOW, event="UserPromptSubmit")
        records = attachment(LOW), asked, attachment(others[0], URGENT, *others[1:], LOW)
        assert self.left(tmp_path, *records) == [[], [], list(others)]
        assert self.count == 3

    def test_every_reminder_that_the_hook_has_is_known(self, tmp_path: Path) -> None:
        texts = [f"Context at {number}%. {advice}" for number, advice in enumerate(ADVICE.values(), 59)]
        assert len(texts) == 3
        assert self.left(tmp_path, attachment(*texts)) == [[]]

    def test_a_text_that_only_resembles_a_reminder_stays(self, tmp_path: Path) -> None:
        records = attachment(LOW, kind="hook_success"), attachment(LOW, event="Stop"), attachment(5, None, [LOW])
        told = attachment(LOW)
        told["attachment"]["content"] = LOW
        assert self.left(tmp_path, *records, told) == [[LOW], [LOW], [5, None, [LOW]], LOW]
        session = Session()
        session.add(user, URGENT)
        id = session.call("Read", URGENT, {"file_path": "/a"})
        assert session.trimmed(tmp_path)[2][id] == URGENT

    def test_reminders_alone_are_no_reason_to_trim(self, tmp_path: Path) -> None:
        path = at(tmp_path, OLD, jsonl(user("x", "u1"), {**attachment(URGENT), "uuid": "u2", "parentUuid": "u1"}))
        done = trim(session_path(path), DEEP, ID, NOW)
        assert (done.trimmed_count, done.reminders, done.session.path) == (0, 1, path)
        assert list(path.parent.iterdir()) == [path]


ATTEMPTS = st.tuples(
    st.sampled_from(["Read", "Write", "Edit", "TodoWrite", "Task", "Bash", "WebFetch"]),
    st.sampled_from(["/a", "/b", "/a\nb"]),
    st.sampled_from(["", "short", "s" * 300, LONG_TEXT, [{"type": "text", "text": LONG_TEXT}], None]),
    st.booleans(),
    st.sampled_from([{}, {"offset": 1}, {"offset": 1, "limit": 9}]),
    st.sampled_from(["x", "y" * 200, LONG_TEXT, 5, [LONG_TEXT]]),
    st.sampled_from([[], [{"content": "y" * 200}], [{"content": "z", "status": "pending"}] * 30, [5, "x", None]]),
)


@given(
    attempts=st.lists(ATTEMPTS, min_size=1, max_size=12), spare=st.integers(0, 5), threshold=st.sampled_from([0, 500])
)
def test_any_calls(tmp_path_factory: pytest.TempPathFactory, attempts: list[Any], spare: int, threshold: int) -> None:
    session = Session()
    session.add(user, "Begin.")
    ids = []
    for name, path, content, failed, part, text, todos in attempts:
        given = {"file_path": path, **part, "content": text, "old_string": text, "edits": [{"new_string": text}]}
        ids.append(session.call(name, content, {**given, "prompt": text, "todos": todos}, failed=failed, shown=content))
    folder = tmp_path_factory.mktemp("any")
    wish = TrimOptions(threshold, DEFAULT.tools, deep=True, spare=spare)
    done, given_after, back = session.trimmed(folder, wish)
    spared = ids[-spare:] if spare else []
    for record in session.records:
        for block in record["message"]["content"]:
            if isinstance(block, dict) and block.get("id") in spared:
                assert given_after[block["id"]] == block["input"]
            elif isinstance(block, dict) and block.get("tool_use_id") in spared:
                assert back[block["tool_use_id"]] == block["content"]
    path = at(folder, OLD, session.content)
    first = trimmed_copy(session_path(path), wish, ID, NOW)
    again = trimmed_copy(first.session, wish, OLD[:-1] + "6", NOW)
    assert again.trimmed_count == 0
    assert (
        again.session.path.read_bytes().replace(OLD[:-1].encode() + b"6", ID.encode()).splitlines()[1:]
        == (first.session.path.read_bytes().splitlines()[1:])
    )
    whole = trimmed_copy(session_path(path), TrimOptions(threshold, DEFAULT.tools, spare=spare), OLD[:-1] + "7", NOW)
    assert done.tokens_saved >= whole.tokens_saved


@pytest.mark.skipif(not REAL_FILES, reason="the real sessions are not here")
@pytest.mark.parametrize("source", SHORT_FILES, ids=lambda path: path.stem)
class TestReal:
    def trimmed(self, source: Path, folder: Path, wish: TrimOptions = DEEP) -> TrimResult:
        path = folder / source.name
        path.write_bytes(source.read_bytes())
        return trimmed_copy(session_path(path), wish, ID, NOW)

    def test_nothing_else_changes(self, source: Path, tmp_path: Path) -> None:
        old = source.read_bytes()
        done = self.trimmed(source, tmp_path)
        cut = compare(old, done.session.path.read_bytes(), ID, tuple(done.tally), deep=True)
        assert cut == done.trimmed_count
        assert (tmp_path / source.name).read_bytes() == old
        assert done.sizes == (len(old), done.session.path.stat().st_size)

    def test_a_second_time_changes_nothing(self, source: Path, tmp_path: Path) -> None:
        first = self.trimmed(source, tmp_path)
        other = "99999999-2222-4333-8444-555555555555"
        second = trimmed_copy(first.session, DEEP, other, NOW)
        old, new = first.session.path.read_bytes().split(b"\n"), second.session.path.read_bytes().split(b"\n")
        assert second.trimmed_count == 0
        assert [line.replace(ID.encode(), other.encode()) for line in old[1:]] == new[1:]

    def test_every_pointer_leads_to_the_whole(self, source: Path, tmp_path: Path) -> None:
        done = self.trimmed(source, tmp_path)
        old = source.read_bytes().split(b"\n")
        for number, line in enumerate(done.session.path.read_bytes().split(b"\n"), 1):
            whole = [text for text in texts(parsed(old[number - 1])) if isinstance(text, str)]
            for text in texts(parsed(line)):
                if (found := POINTER.search(text)) is None or text in whole:
                    continue
                assert (int(found[5]), found[6]) == (number, str(tmp_path / source.name))
                length, kept = int(found[2].replace(",", "")), text[: found.start()].rstrip("\n")
                if found[3] == "characters":
                    assert any(each.startswith(kept) for each in whole if len(each) == length) or "[{" in line.decode()

    def test_a_deeply_trimmed_session_can_be_resumed(self, source: Path, tmp_path: Path) -> None:
        """The doctor reports the same for both sessions."""
        done = self.trimmed(source, tmp_path)
        old, new = diagnose(session_path(tmp_path / source.name)), diagnose(done.session)
        assert new.sent == old.sent
        assert new.wrong == old.wrong


@pytest.mark.skipif(not REAL_FILES, reason="the real sessions are not here")
def test_the_table_of_kinds() -> None:
    """The script fails if a trim adds tokens to a kind, or if a second trim changes anything."""
    script = Path(__file__).parents[2] / "benchmarks" / "trim_kinds.py"
    file = next(path for path in REAL_FILES if path.stem == "agentcmd-three")
    done = forked.run([sys.executable, script, file], capture_output=True, text=True, check=True)
    head, _, *lines, whole, files = done.stdout.splitlines()
    assert head == "| tokens in 1 sessions | before | default | deep | deep, --spare 5 |"
    assert any(line.startswith("| superseded todo lists (all but the newest) | ") for line in lines)
    before, usual, deepest, _ = (int(number.replace(",", "")) for number in re.findall(r"([\d,]+)(?: \(| \|)", whole))
    assert before > usual > deepest > 0
    assert files.startswith("| files, KB | ")


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in texts(each)]
