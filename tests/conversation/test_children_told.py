"""The reports to an agent's model about its commands, its children and its mail (SPEC 6)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import foldmark
from answering import answered_by
from foldmark import Agent, Log
from foldmark.sending.questions import ask
from foldmark.sending.rebuilding import rebuilt
from foldmark.stores.snapshot import SqlSnapshot
from planning_talk import IN_CHAT
from sampled import DEEP
from stored import connection

GOAL = "Count the tables of the schema. Report by /send."


@dataclass
class Numbered:
    """Uuids that differ in their first digits."""

    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __call__(self) -> str:
        return f"{next(self.numbers)}0000000-0000-4000-8000-000000000000"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with foldmark.open(tmp_path / "log.db", settings={"model": "openai/gpt-5"}) as log:
        log.new_id = Numbered()
        yield log


@pytest.fixture
def parent(log: Log) -> Agent:
    agent = log.agent("default")
    agent.append("user", "We build a server.")
    agent.append("assistant", "Good.")
    agent.end_turn()
    return agent


def delegate(parent: Agent, goal: str = GOAL, mark: str = "M") -> Agent:
    parent.do(f"/mark {mark}")
    parent.do(f"/note {goal}")
    return parent.log.agent(parent.do(f"/fork {mark}").data["child"])


def line(agent: Agent) -> str:
    return "".join(part.text for part in agent.request().manifest.parts if part.layer == "children")


def told(agent: Agent, children: str, more: str = "") -> None:
    assert line(agent) == f"[Foldmark: Your children: {children}. What a child was given is its task, not yours.{more}]"


GIVEN = "20000000, given “Count the tables of the schema. Report by /send.”"


def test_a_parents_model_reads_the_state_of_its_children(parent: Agent) -> None:
    assert line(parent) == ""
    child = delegate(parent)
    told(parent, f"{GIVEN}, waits to be run")
    assert line(child) == ""
    child.append("assistant", "I begin.")
    told(parent, f"{GIVEN}, is at work")
    child.end_turn()
    told(parent, f"{GIVEN}, is idle")
    child.do("/send 10000000 Twelve.")
    told(parent, f"{GIVEN}, is idle", " Mail has come from 20000000. slash check-mail reads it.")
    parent.do("/check-mail")
    told(parent, f"{GIVEN}, is idle")
    parent.do("/kill 2")
    assert line(parent) == "[Foldmark: Your children: 20000000 killed.]"


def test_the_report_precedes_the_persons_newest_message(parent: Agent) -> None:
    delegate(parent)
    parent.append("user", "What is next?")
    for policy in ("eager", "steady"):
        parent.configure("context_policy", policy)
        system, *messages = parent.request().body["messages"]
        assert "Your children" not in system["content"]
        assert [message["content"] for message in messages][-2:] == [line(parent), "What is next?"]


def test_within_a_turn_the_report_stays_as_it_was_sent(parent: Agent) -> None:
    child = delegate(parent)
    parent.append("user", "What is next?")
    first = parent.request()
    parent.record_sent(first)
    child.append("assistant", "Twelve.")
    child.end_turn()
    child.do("/send 1 Twelve.")
    parent.append_tool_call("read_file", {"path": "x"}, call_id="c1", dialect="openai")
    parent.append_tool_result("c1", "text", dialect="openai")
    parent.do("/fork", actor="model")  # the model knows it from the receipt
    second = parent.request()
    begun = first.body["messages"]
    assert second.body["messages"][: len(begun)] == begun
    assert len(second.body["messages"]) > len(begun)
    parent.do("/fork M")
    assert parent.request().bytes == second.bytes
    parent.configure("context_policy", "eager")
    assert "40000000" in line(parent), "a person's fork is told at once"
    assert "Mail has come" in line(parent)
    parent.configure("context_policy", "steady")
    parent.end_turn()
    parent.append("user", "And now?")
    assert "30000000" in line(parent)
    assert "40000000" in line(parent)


def test_a_summary_within_the_turn_does_not_update_the_report(parent: Agent) -> None:
    child = delegate(parent)
    parent.append("user", "What is next?")
    first = parent.request()
    parent.record_sent(first)
    child.append("assistant", "Twelve.")
    answered_by(lambda _: "A server is built.")
    ask(parent, "Sum up.", "summary", None)
    assert parent.request().bytes == first.bytes


def test_two_requests_are_the_same_and_write_nothing(log: Log, parent: Agent) -> None:
    delegate(parent)
    before = parent.standing()
    assert parent.request() == parent.request()
    assert parent.standing() == before
    statements = list[str]()

    def trace(_: object, sql: str, __: object) -> bool:
        statements.append(sql)
        return True

    connection(log).set_exec_trace(trace)
    parent.request()
    one = len(statements)
    for number in range(12):
        delegate(parent, mark=f"M{number}")
    parent.request()
    statements.clear()
    parent.request()
    assert len(statements) <= one + 60, "it costs the children that are named"


def test_messages_that_left_the_context_are_not_quoted(parent: Agent) -> None:
    delegate(parent)
    parent.do("/rewind M")
    told(parent, "20000000, given what stood after mark 'M', waits to be run")
    parent.do("/fork")
    assert "30000000, given this context, waits for its first message" in line(parent)


def test_the_report_quotes_the_text_with_which_a_model_forked(parent: Agent) -> None:
    parent.append("user", "Have it counted.")
    parent.do("/mark M", actor="model")
    parent.append("assistant", "Count the tables. Report by slash send.")
    parent.append_tool_call("slash", {"command": "fork", "args": "M"}, call_id="c1", dialect="openai")
    parent.append_tool_result("c1", parent.do("/fork M", actor="model").text, dialect="openai")
    parent.end_turn()
    told(parent, "20000000, given “Count the tables. Report by slash send.”, waits to be run")


def test_each_child_is_reported_with_its_own_task(parent: Agent) -> None:
    for task in ("Count the tables.", "Name the columns."):
        parent.append("user", task)
        parent.do("/fork")
    told(
        parent,
        "20000000, given “Count the tables.”, waits for its first message; "
        "30000000, given “Name the columns.”, waits for its first message",
    )


def test_only_the_end_of_a_start_with_many_segments_is_searched(parent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> int:
        sizes = []
        bounds = SqlSnapshot.bounds

        def counted(moment: SqlSnapshot, asked: Any) -> Any:
            sizes.append(len(asked))
            return bounds(moment, asked)

        with monkeypatch.context() as patched:
            patched.setattr(SqlSnapshot, "bounds", counted)
            assert GOAL in line(parent)
        return sum(sizes)

    found = []
    for _ in range(3):
        for _ in range(30 if DEEP else 15):
            turn = parent.append("user", "And this?")
            parent.end_turn()
            parent.append("user", "And that?")
            parent.end_turn()
            parent.do(f"/context drop {turn}")
        parent.append("user", GOAL)
        parent.do("/fork")
        found.append(asked())
        parent.end_turn()
    assert len(parent.context().segments) > (80 if DEEP else 40)
    assert found[2] - found[1] <= found[1] - found[0] <= 8


def test_many_children_are_counted(parent: Agent) -> None:
    for number in range(10):
        delegate(parent, mark=f"M{number}")
    assert line(parent).count("given “") == 8
    assert "; 2 older ones. What" in line(parent)


def test_a_report_is_rebuilt_and_erased(parent: Agent) -> None:
    child = delegate(parent)
    goal = child.context().messages[0]
    parent.append("user", "What is next?")
    sent = parent.record_sent(parent.request()).number
    child.append("assistant", "Done.")
    child.end_turn()
    parent.end_turn()
    assert rebuilt(parent, sent).verdict == "identical"
    parent.do(f"/message remove {goal.turn_id} --yes")
    again = rebuilt(parent, sent)
    assert again.verdict == "erased"
    assert b"Count the tables" not in again.request.bytes
    assert b"Count the tables" not in Path(parent.log.store.address).read_bytes()


def test_mail_is_only_reported_to_a_model_that_can_read_it(parent: Agent) -> None:
    child = delegate(parent)
    parent.do("/send 2 Hurry.")
    assert line(child) == "[Foldmark: Mail has come from 10000000. slash check-mail reads it.]"
    child.configure("model_commands", "send")
    assert line(child) == ""


def test_a_planning_conversation_gets_no_report(parent: Agent) -> None:
    delegate(parent)
    parent.do("/forget tables", asking=IN_CHAT)
    assert line(parent) == ""


def test_the_guidelines_describe_the_commands_of_a_model(log: Log, parent: Agent) -> None:
    def commands() -> str:
        (text,) = [part.text for part in parent.request().manifest.parts if part.layer == "guidelines"]
        (found,) = [line for line in text.splitlines() if line.startswith("The tool slash ")] or [""]
        return found

    spec = next(tool for tool in parent.tools() if tool.name == "slash")
    for name in spec.parameters["properties"]["command"]["enum"]:
        assert name in commands()
    assert commands().endswith("To delegate: mark NAME, say the task, fork NAME.")
    parent.configure("model_commands", "mark, clear")
    assert commands() == (
        "The tool slash takes a command and its args as one text: mark NAME sets a checkpoint; "
        "clear MARK goes back to it and drops what came after (without MARK: everything)."
    )
    parent.configure("model_commands", "none")
    assert commands() == ""
