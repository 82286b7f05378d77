"""Importing a session again: new records are appended to the same conversation (SPEC 8)."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID, uuid5

import pytest
from session_records import REAL_FILES, SHORT_FILES, assistant, call, jsonl, result, user

import foldmark
from foldmark.core import selections
from foldmark.core.errors import CommandError
from foldmark.formats import session_file
from foldmark.sessions.conversion import imported as imports
from foldmark.sessions.conversion.chatting import report_text
from foldmark.sessions.conversion.importing import import_session
from foldmark.sessions.conversion.writer import ImportReport
from foldmark.text import tokens
from foldmark.wires.lenient_json import decode
from planning_talk import IN_CHAT
from steps import steps
from stored import stored

real_files = pytest.mark.skipif(not REAL_FILES, reason="the real sessions are not here")

SIDE = {"isSidechain": True}
SESSION = "4f7a4c7c-3a55-4a5c-9d5e-0a4c9a3f2b11"
OTHER = "9d1e7c00-77aa-4a5c-9d5e-0a4c9a3f2b11"


def u(name: str) -> str:
    return str(uuid5(UUID(int=0), name))


def said(*names: str) -> list[dict[str, Any]]:
    """Return a chain of user and model records in turn, each with its name as text and as uuid."""
    made = []
    for at, (parent, name) in enumerate(zip([None, *names], names, strict=False)):
        make = assistant if at % 2 else user
        made.append(make(name, u(name), u(parent) if parent else None))
    return made


def after(parent: str, *names: str) -> list[dict[str, Any]]:
    """Return records like `said`, after an existing record."""
    made = said(*names)
    made[0]["parentUuid"] = u(parent)
    return made


class Place:
    """A session file that a test imports into one log, repeatedly."""

    def __init__(self, log: foldmark.Log, folder: Path) -> None:
        self.log, self.path = log, folder / f"{SESSION}.jsonl"
        self.reports: list[ImportReport] = []

    def write(self, *records: Any) -> ImportReport:
        self.path.write_bytes(jsonl(*records))
        return self.bring()

    def grow(self, *records: Any) -> ImportReport:
        with self.path.open("ab") as file:
            file.write(jsonl(*records))
        return self.bring()

    def bring(self, path: Path | None = None, name: str | None = None) -> ImportReport:
        self.reports.append(import_session(self.log, path or self.path, name))
        return self.reports[-1]

    @property
    def agent(self) -> foldmark.Agent:
        return self.log.agent("claude-4f7a4c7c")

    @property
    def shown(self) -> list[str]:
        return shown(self.agent)


def shown(agent: foldmark.Agent) -> list[str]:
    """Return the contents in the context; for calls and results, their call id."""
    return [event.call_id or event.content for event in agent.context().messages]


@pytest.fixture
def place(log: foldmark.Log, tmp_path: Path) -> Place:
    return Place(log, tmp_path)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the lines that are read as records from now on."""
    numbers: list[int] = []
    original = session_file.SessionFile.lines

    def lines(self: Any, number: int = 0, offset: int = 0) -> Any:
        for found in original(self, number, offset):
            numbers.append(found.line)
            yield found

    monkeypatch.setattr(session_file.SessionFile, "lines", lines)
    return numbers


@pytest.fixture
def reread(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the lines that are read once more from now on."""
    numbers: list[int] = []
    original = session_file.SessionFile.reread

    def again(self: Any, number: int, offset: int) -> Any:
        numbers.append(number)
        return original(self, number, offset)

    monkeypatch.setattr(session_file.SessionFile, "reread", again)
    return numbers


def test_an_unchanged_session_imports_nothing(place: Place) -> None:
    place.write(*said("a", "b", "c", "d"))
    head = place.agent.context().at
    report = place.bring()
    assert (report.again, report.messages, report.lines) == (True, {}, 4)
    assert report_text(report) == "Conversation 'claude-4f7a4c7c': it already has all of this session"
    assert place.agent.context().at == head
    assert len(place.log.agents()) == 1


def test_new_records_of_a_session_are_imported_into_its_conversation(place: Place) -> None:
    place.write(*said("a", "b"))
    report = place.grow(*after("b", "c", "d", "e"))
    assert place.shown == ["a", "b", "c", "d", "e"]
    assert (report.messages, report.turns) == ({"user": 2, "assistant": 1}, 2)
    assert report_text(report) == "Conversation 'claude-4f7a4c7c': imported 3 new messages (2 turns)"
    assert place.grow(*after("e", "e2")).messages == {"user": 1}
    assert place.bring().messages == {}


def test_an_unchanged_session_is_not_read(place: Place, read: Any) -> None:
    place.write(*said(*map(str, range(400))))
    read.clear()
    place.bring()
    assert len(read) < 10, "the program and the session's identity are told by the first lines"


def test_only_new_records_are_read_twice(place: Place, read: Any, reread: list[int]) -> None:
    place.write(*said(*map(str, range(400))))
    assert reread == [*range(1, 401)]
    read.clear()
    reread.clear()
    place.grow(*after("399", "new", "answer"))
    assert [number for number in read if number > 3] == [*range(4, 403)]
    assert reread == [401, 402]
    assert place.shown[-2:] == ["new", "answer"]


def test_the_record_of_an_import_that_read_only_new_lines_is_one(place: Place) -> None:
    """Earlier imports also recorded what decided whether new lines continue the active chain."""
    place.write(*said("a", "b"))
    (event,) = [each for each in place.agent.events(0, 100) if (each.data or {}).get("import")]
    about = {**(event.data or {})["import"], "tips": ["b"], "carried": {"all_side": False}, "open": {"call": [1]}}
    assert imports.import_record({"import": about}) == imports.import_record(event.data) is not None


def test_changes_made_by_a_person_stay(place: Place) -> None:
    place.write(*said("a", "b", "c", "d"))
    agent = place.agent
    agent.do("/mark HERE")
    agent.append("user", "my own")
    agent.append("assistant", "an answer")
    agent.end_turn()
    first = next(iter(agent.context().messages)).turn_id
    agent.do(f"/context drop {first}")
    place.grow(*after("d", "e", "f"))
    assert place.shown == ["c", "d", "my own", "an answer", "e", "f"]
    agent.do("/rewind HERE")
    assert place.shown == ["c", "d"]


def test_another_name_makes_a_second_conversation(place: Place) -> None:
    place.write(*said("a", "b"))
    assert place.bring(name="second").again is False
    place.grow(*after("b", "c"))
    assert place.shown == ["a", "b", "c"]
    assert place.bring(name="second").messages == {"user": 1}
    assert shown(place.log.agent("second")) == ["a", "b", "c"]


def test_a_session_continues_in_the_named_conversation(place: Place) -> None:
    place.path.write_bytes(jsonl(*said("a", "b")))
    place.bring(name="mine")
    report = place.grow(*after("b", "c"))
    assert (report.name, report.again) == ("mine", True)
    assert shown(place.log.agent("mine")) == ["a", "b", "c"]


def test_going_back_in_the_client_leaves_the_old_branch(place: Place) -> None:
    place.write(*said("a", "b", "c", "d"))
    agent = place.agent
    agent.append("user", "my own")
    agent.end_turn()
    report = place.grow(*after("b", "anew", "answer"))
    assert place.shown == ["a", "b", "my own", "anew", "answer"]
    assert report.left == 1
    assert "left the context: the session went back to an earlier point" in report_text(report)
    report = place.grow(*after("d", "on"))
    assert place.shown == ["a", "b", "c", "d", "my own", "on"]
    assert (report.returned, report.left) == (1, 1)
    report = place.grow(*after("answer", "again"))
    assert place.shown == ["a", "b", "my own", "anew", "answer", "again"]


def test_forgotten_messages_stay_forgotten_when_the_session_is_rewound(place: Place) -> None:
    place.write(*said("a", "b", "c", "d"))
    events = {event.content: event.id for event in place.agent.context().messages}
    place.agent.apply_filter("forget", [events["c"], events["d"]])
    report = place.grow(*after("b", "anew"))
    assert place.shown == ["a", "b", "anew"]
    assert report.left == 1
    place.grow(*after("d", "on"))
    assert place.shown == ["a", "b", "on"]


def test_a_torn_last_line_is_read_once_it_is_complete(place: Place) -> None:
    *records, last = said("a", "b", "c")
    whole = jsonl(last)
    report = place.write(*records, whole[:40])
    assert len(report.broken) == 1
    report = place.grow(whole[40:])
    assert (report.messages, report.broken, report.lines) == ({"user": 1}, [], 3)
    assert place.shown == ["a", "b", "c"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_last_line_without_its_end_is_read_once(end: Any, place: Place) -> None:
    *records, last = said("a", "b", "c")
    place.write(*records, jsonl(last)[:-1])
    report = place.grow(end, *after("c", "d"))
    assert (report.messages, report.lines) == ({"user": 1}, 4)
    assert place.shown == ["a", "b", "c", "d"]


def test_an_import_during_a_turn_is_continued(place: Place) -> None:
    """One answer has two calls, and the second has no result yet."""
    calls = [assistant([call(f"c{n}")], u(f"a{n}"), u(p), "m1") for n, p in ((1, "u"), (2, "a1"))]
    results = [user([result(f"c{n}")], u(f"r{n}"), u(f"a{n}")) for n in (1, 2)]
    place.write(user("do", u("u")), *calls, results[0])
    place.grow(results[1], assistant("done", u("end"), u("r2"), "m2"))
    assert place.shown == ["do", "c1", "c2", "c1", "c2", "done"]
    assert [event.answers is None for event in place.agent.context().messages if event.kind == "tool_result"] == [
        False,
        False,
    ]


def test_a_result_whose_call_was_forgotten_stays_out(place: Place) -> None:
    place.write(user("do", u("u")), assistant([call("c1")], u("a"), u("u"), "m1"))
    turn = next(iter(place.agent.context().messages)).turn_id
    place.agent.do(f"/context drop {turn}")
    report = place.grow(user([result("c1")], u("r"), u("a")), assistant("done", u("e"), u("r"), "m2"))
    assert place.shown == ["done"]
    assert report.kept == 1


def test_sidechains_stay_out_of_the_context(place: Place) -> None:
    place.write(*said("a", "b"), user("side", u("s1"), None, agentId="x", **SIDE))
    report = place.grow(assistant("more", u("s2"), u("s1"), agentId="x", **SIDE), *after("b", "c"))
    assert place.shown == ["a", "b", "c"]
    assert (report.dropped, report.messages) == (1, {"assistant": 1, "user": 1})


def test_a_subagents_own_file_grows(place: Place) -> None:
    place.write(*({**record, **SIDE} for record in said("a", "b")))
    place.grow(*({**record, **SIDE} for record in after("b", "c", "d")))
    assert place.shown == ["a", "b", "c", "d"]


def test_a_uuid_that_was_imported_before_is_not_shown_again(place: Place) -> None:
    records = said("a", "b", "c", "d")
    place.write(*records)
    report = place.grow(*records, *after("d", "e"))
    assert place.shown == ["a", "b", "c", "d", "e"]
    assert (report.messages, report.kept) == ({"user": 1}, 4)


def test_a_compaction_replaces_only_imported_messages(place: Place) -> None:
    place.write(*said("a", "b"))
    agent = place.agent
    agent.append("user", "my own")
    agent.end_turn()
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": u("k"), "parentUuid": None}
    summary = user("summary", u("s"), u("k"), isCompactSummary=True)
    place.grow({**boundary, "logicalParentUuid": u("b")}, summary, *after("s", "c"))
    assert place.shown == ["my own", "summary", "c"]
    agent.do(f"/restore {next(event.id for event in agent.context().messages if event.kind == 'summary')}")
    assert place.shown == ["a", "b", "my own", "c"]


def test_a_rewind_before_a_compaction_undoes_it(place: Place) -> None:
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": u("k"), "parentUuid": None}
    summary = user("summary", u("s"), u("k"), isCompactSummary=True)
    place.write(*said("a", "b", "c"), {**boundary, "logicalParentUuid": u("c")}, summary, *after("s", "d"))
    assert place.shown == ["summary", "d"]
    place.grow(*after("b", "anew"))
    assert place.shown == ["a", "b", "anew"]


# -- other files of the same session ---------------------------------------------------------------------------


def test_the_file_of_a_resumed_copy_continues_the_conversation(place: Place, tmp_path: Path) -> None:
    place.write(*said("a", "b", "gone", "too"), {"type": "ai-title", "sessionId": SESSION}, *after("b", "c", "d"))
    copy = tmp_path / f"{OTHER}.jsonl"
    records = [*said("a", "b"), {"type": "ai-title", "sessionId": OTHER}, *after("b", "c", "d"), *after("d", "e", "f")]
    copy.write_bytes(jsonl(*({**record, "sessionId": OTHER} for record in records)))
    report = place.bring(copy)
    assert (report.name, report.messages, report.kept) == ("claude-4f7a4c7c", {"user": 1, "assistant": 1}, 0)
    assert place.shown == ["a", "b", "c", "d", "e", "f"]
    assert place.bring().messages == {}, "the first file is as it was"
    assert place.bring(copy).messages == {}


def test_a_diverged_copy_is_a_separate_conversation(place: Place, tmp_path: Path) -> None:
    place.write(*said("a", "b"))
    copy = tmp_path / f"{OTHER}.jsonl"
    copy.write_bytes(jsonl(*said("a", "b"), *after("b", "other")))
    place.grow(*after("b", "c"))
    report = place.bring(copy)
    assert (report.name, report.again) == ("claude-9d1e7c00", False)
    assert place.shown == ["a", "b", "c"]
    assert shown(place.log.agent(report.name)) == ["a", "b", "other"]


def test_a_cut_session_continues_its_conversation(place: Place) -> None:
    records = [
        user("do", u("u")),
        assistant([call("c")], u("a"), u("u"), "m"),
        user([result("c", "x" * 900)], u("r"), u("a")),
    ]
    place.write(*records)
    records[2]["message"]["content"][0]["content"] = "x [cut]"
    report = place.write(*records, assistant("done", u("e"), u("r"), "n"))
    assert report.messages == {"assistant": 1}
    contents = [event.content for event in place.agent.context().messages]
    assert contents[2:] == ["x" * 900, "done"], "the conversation keeps what was cut"
    assert place.grow(*after("e", "next")).messages == {"user": 1}


def test_a_file_without_the_imported_records_is_refused(place: Place) -> None:
    place.write(*said("a", "b", "c", "d"))
    head = place.agent.context().at
    place.path.write_bytes(jsonl(*said("a", "b", "x")))
    with pytest.raises(CommandError, match=r"does not continue.*'claude-4f7a4c7c': 2 records.*--as NAME"):
        place.bring()
    assert place.agent.context().at == head
    assert place.bring(name="second").messages == {"user": 2, "assistant": 1}


# -- failures --------------------------------------------------------------------------------------------------


def test_an_import_that_is_stopped_changes_nothing_and_can_be_repeated(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(*said("a", "b"))
    head = place.agent.context().at
    place.path.write_bytes(jsonl(*said("a", "b"), *after("b", "c", "d")))

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(imports, "record_import", stop)
        with pytest.raises(KeyboardInterrupt):
            place.bring()
    assert place.agent.context().at == head
    assert place.bring().messages == {"user": 1, "assistant": 1}
    assert place.shown == ["a", "b", "c", "d"]


def test_two_simultaneous_imports_import_each_record_once(tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(jsonl(*said(*map(str, range(200)))))
    reports: list[ImportReport] = []

    def bring() -> None:
        with foldmark.open(tmp_path / "chat.db") as log:
            reports.append(import_session(log, path))

    foldmark.open(tmp_path / "chat.db").close()
    for _ in range(2):
        both = [Thread(target=bring), Thread(target=bring)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        with path.open("ab") as file:
            file.write(jsonl(*after("199", "more")))
    with foldmark.open(tmp_path / "chat.db") as log:
        assert len(shown(log.agent("claude-4f7a4c7c"))) == 201
    assert sorted(sum(report.messages.values()) for report in reports) == [0, 0, 1, 200]


def test_a_planning_conversation_is_not_ended(place: Place) -> None:
    place.write(*said("a", "b"))
    place.agent.do("/forget a", asking=IN_CHAT)
    place.path.write_bytes(jsonl(*said("a", "b"), *after("b", "c")))
    with pytest.raises(CommandError, match="planning conversation"):
        place.bring()
    place.agent.do("/cancel")
    assert place.bring().messages == {"user": 1}


# -- Codex -----------------------------------------------------------------------------------------------------


def codex(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2025-10-01T10:00:00.000Z", "type": kind, "payload": payload}


def message(role: str, text: str) -> dict[str, Any]:
    return codex("response_item", type="message", role=role, content=[{"type": "input_text", "text": text}])


@pytest.fixture
def rollout(place: Place, tmp_path: Path) -> Callable[..., list[str]]:
    """A function that appends records to a rollout, imports it and returns the contents in the context."""
    place.path = tmp_path / f"rollout-2025-10-01T10-00-00-{SESSION}.jsonl"
    place.path.write_bytes(jsonl(codex("session_meta", id=SESSION, cwd="/x")))

    def grow(*records: Any) -> list[str]:
        place.grow(*records)
        return shown(place.log.agent(place.reports[-1].name))

    return grow


def test_a_rollout_grows(rollout: Any, place: Place) -> None:
    assert rollout(message("user", "a"), message("assistant", "b")) == ["a", "b"]
    assert rollout(message("user", "a"), message("assistant", "b")) == ["a", "b", "a", "b"]
    assert rollout() == ["a", "b", "a", "b"]
    assert place.reports[-1].again


def test_a_rollout_that_was_rolled_back(rollout: Any) -> None:
    rollout(message("user", "a"), message("assistant", "b"), message("user", "c"), message("assistant", "d"))
    back = codex("event_msg", type="thread_rolled_back", num_turns=1)
    assert rollout(back, message("user", "anew")) == ["a", "b", "anew"]


def test_a_rollout_that_was_compacted(rollout: Any) -> None:
    rollout(message("user", "a"), message("assistant", "b"))
    kept = message("user", "a")["payload"]
    assert rollout(codex("compacted", message="summary", replacement_history=[kept]), message("user", "c")) == [
        "a",
        "summary",
        "c",
    ]


def test_usage_is_not_counted_twice_across_imports(rollout: Any, place: Place) -> None:
    used = codex(
        "event_msg",
        type="token_count",
        info={"total_token_usage": {"n": 1}, "last_token_usage": {"input_tokens": 5, "output_tokens": 2}},
    )
    rollout(codex("turn_context", model="gpt"), message("user", "a"), message("assistant", "b"), used)
    rollout({**used, "timestamp": "2025-10-01T11:00:00.000Z"}, message("user", "c"))
    agent = place.log.agent(place.reports[-1].name)
    assert len(selections.ids(stored(place.log), "usage", agent.standing().lineage)) == 1


# -- imports in parts ------------------------------------------------------------------------------------------


@real_files
@pytest.mark.parametrize("path", SHORT_FILES, ids=lambda path: path.stem)
def test_a_real_session_imported_in_parts_equals_one_import(path: Path, log: foldmark.Log, tmp_path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    copy = tmp_path / f"{SESSION}.jsonl"
    import_session(log, path, "whole")
    begin = next(at for at, line in enumerate(lines, 1) if json.loads(line).get("type") == "user")
    for end in sorted({begin, *range(begin, len(lines), max(1, len(lines) // 4)), len(lines)}):
        copy.write_bytes(b"".join(lines[:end]))
        import_session(log, copy, "parts")
    whole, parts = (log.agent(name).context().messages for name in ("whole", "parts"))
    assert sorted((e.kind, e.content, str(e.data)) for e in parts) == sorted(
        (e.kind, e.content, str(e.data)) for e in whole
    )


# -- cost ------------------------------------------------------------------------------------------------------


def test_the_work_of_an_import_grows_with_its_new_lines_only(place: Place) -> None:
    """Measured in database steps: each new line costs the same, and imported lines cost nothing."""

    def lines(first: int, last: int) -> list[dict[str, Any]]:
        names = [str(number) for number in range(first, last)]
        return after(str(first - 1), *names) if first else said(*names)

    spent = []
    for end in (200, 400, 800):
        place.path.write_bytes(jsonl(*lines(0, end)))
        spent.append(steps(place.log, partial(place.bring, name=str(end))))
    assert spent[2] - spent[1] < 2.3 * (spent[1] - spent[0])
    assert spent[2] < 800 * 600
    place.write(*lines(0, 1600))
    with place.path.open("ab") as file:
        file.write(jsonl(*lines(1600, 1800)))
    # These limits hold for a known session of any length.
    assert steps(place.log, place.bring) - spent[0] < 42_400
    assert steps(place.log, place.bring) < 1200


def test_a_single_long_line_is_decoded_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = list[int]()

    def counted(line: bytes) -> Any:
        decoded.append(len(line))
        return decode(line)

    monkeypatch.setattr(session_file, "decode", counted)
    place.write(user("x" * 2_000_000, u("a")))
    assert [length for length in decoded if length > 2_000_000] == [decoded[0]]
    assert place.bring().messages == {}


def test_parts_of_names_are_computed_once_for_each_message(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[str]()
    original = tokens.parts_of

    def parts_of(text: str) -> str:
        made.append(text)
        return original(text)

    monkeypatch.setattr(tokens, "parts_of", parts_of)
    place.write(user("call parseHttpResponse", u("a")))
    assert made == ["call parseHttpResponse"]
