"""`Log` and `Agent`: appends, operations and error messages (SPEC 2, 3, 4, 9)."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import foldmark
from cases import case
from foldmark import Agent, CommandError, ConflictError, Log
from foldmark.core import selections
from foldmark.core.events import Clear
from foldmark.core.segments import contains
from foldmark.log.doctor import examine
from stored import stored


@pytest.fixture
def log() -> Iterator[Log]:
    with foldmark.open(":memory:") as log:
        yield log
        assert list(examine(log)) == []


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("default")


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Log, Log]]:
    """Two programs on one database."""
    path = str(tmp_path / "log.db")
    with foldmark.open(path) as one, foldmark.open(path) as other:
        yield one, other
        assert list(examine(one)) == []


def texts(agent: Agent) -> list[str]:
    return [message.content for message in agent.context().messages]


def kinds(agent: Agent) -> list[str]:
    return [message.kind for message in agent.context().messages]


def count(log: Log) -> int:
    """Return the number of events."""
    found = 0
    while selections.event(stored(log), found + 1):
        found += 1
    return found


def refused(log: Log, act: Callable[[], object], *words: str, error: type[Exception] = CommandError) -> None:
    """Assert that a call fails with one line that contains these words, and that it writes nothing."""
    before = count(log), len(log.agents())
    with pytest.raises(error) as caught:
        act()
    assert type(caught.value) is error
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
    assert (count(log), len(log.agents())) == before


# Appending (SPEC 2)


def test_each_kind_has_its_role_and_actor(agent: Agent) -> None:
    for kind in ("user", "assistant", "system", "tool"):
        agent.append(kind, f"a {kind}")
    agent.append_tool_call("read", {"path": "x"}, call_id="c1", dialect="openai")
    agent.append_tool_result("c1", "text", dialect="openai", is_error=True, data={"x": 1})
    found = [(m.kind, m.role, m.actor, m.content, m.data, m.dialect) for m in agent.context().messages]
    assert found == [
        ("user", "user", "human", "a user", None, "openai"),
        ("assistant", "assistant", "model", "a assistant", None, "openai"),
        ("system", "system", "system", "a system", None, "openai"),
        ("tool", "tool", "system", "a tool", None, None),
        ("tool_call", "assistant", "model", '{"path":"x"}', {"call_id": "c1", "name": "read"}, "openai"),
        ("tool_result", "tool", "system", "text", {"x": 1, "call_id": "c1", "is_error": True}, "openai"),
    ]
    call, result = agent.context().messages[-2:]
    assert (result.answers, result.call_id, call.call_id) == (call.id, "c1", "c1")


def test_ids_increase_and_a_turn_is_named_after_its_first_event(log: Log, agent: Agent) -> None:
    other = log.agent("other")
    assert [agent.append("user", "a"), other.append("user", "b"), agent.append("assistant", "c")] == [1, 2, 3]
    assert (agent.open_turn, agent.end_turn(), agent.open_turn) == (1, 4, None)
    assert agent.end_turn() is None
    assert agent.append("system", "s") == 5
    assert agent.append("user", "d") == 6
    assert agent.append("user", "joins") == 7
    assert [m.turn_id for m in agent.context().messages] == [1, 1, None, 6, 6]
    assert other.open_turn == 2


def test_invalid_appends_are_refused(log: Log, agent: Agent) -> None:
    agent.append("user", "hello")
    for kind in ("mark", "tool_call", "tool_result", "summary", "state", "nonsense", ""):
        refused(log, partial(agent.append, kind, "x"), "append takes 'user', 'assistant'", repr(kind))
    for kind in ("user", "mark", "turn_ended", "nonsense"):
        refused(log, partial(agent.record, kind, "x"), "record takes state, scratchpad", repr(kind))
    refused(log, lambda: agent.operate(lambda *_: Clear(), actor="bob"), "human, model, system", "'bob'")


@pytest.mark.parametrize("data", [{"x": object()}, {"x": {None: 1}}, [1], 5])
def test_data_that_is_not_json_is_refused(log: Log, agent: Agent, data: Any) -> None:
    refused(log, lambda: agent.append("user", "x", data=data), "this user cannot be recorded")
    refused(log, lambda: agent.append_tool_call("f", {"x": object()}, call_id="c"), "arguments of f are not JSON")


def test_data_that_is_too_deep_is_refused(log: Log, agent: Agent) -> None:
    """Accepted data can be read again."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    refused(log, lambda: agent.append("user", "x", data=deep), "cannot be recorded")
    refused(log, lambda: agent.append_tool_call("f", deep, call_id="c"), "arguments of f are not JSON")
    shallow: dict[str, Any] = {}
    for _ in range(100):
        shallow = {"a": shallow}
    agent.append("user", "x", data=shallow)
    assert agent.context().messages[-1].data == shallow


@pytest.mark.parametrize(
    "created_at", ["", "yesterday", "2026-02-30T00:00:00", "0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-01:00"]
)
def test_a_wrong_time_is_refused(log: Log, agent: Agent, created_at: str) -> None:
    refused(log, lambda: agent.append("user", "x", created_at=created_at), "this user cannot be recorded")


@pytest.mark.parametrize(
    "created_at",
    [
        "2026-03-01T12:00:00+02:00",
        "2026-03-01 10:00",
        "2026-03-01T10:00:00Z",
        datetime(2026, 3, 1, 10),
        datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_any_form_of_a_time_is_stored_in_utc(agent: Agent, created_at: str | datetime) -> None:
    agent.append("user", "x", created_at=created_at)
    agent.append_tool_call("f", {}, call_id="c", created_at=created_at)
    agent.append_tool_result("c", "x", created_at=created_at)
    assert {m.created_at for m in agent.context().messages} == {"2026-03-01T10:00:00.000000Z"}


def test_the_clock_gives_the_time_by_default(log: Log, agent: Agent) -> None:
    before = datetime.now(UTC)
    agent.append("user", "x")
    assert before <= datetime.fromisoformat(agent.context().messages[0].created_at) <= datetime.now(UTC)
    log.clock = lambda: "2026-03-01T10:00:00.000000Z"
    agent.append("user", "x")
    assert agent.context().messages[1].created_at == "2026-03-01T10:00:00.000000Z"


def test_any_text_can_be_stored(agent: Agent) -> None:
    """Lone surrogates become U+FFFD; everything else, including NUL, is read unchanged."""
    for text in ("", "a\0b", "\r\n\t", "é😀\u202e\x1b[0m", "x" * 1_000_000):
        agent.append("user", text)
        assert agent.context().messages[-1].content == text
    agent.append("user", "a\ud800b", data={"\udfff": ["\ud800", {"k": "\udc00"}]})
    message = agent.context().messages[-1]
    assert message.content == "a\ufffdb"
    assert message.data == {"\ufffd": ["\ufffd", {"k": "\ufffd"}]}
    agent.append_tool_call("f", {"x": "\ud800"}, call_id="c\ud800")
    assert json.loads(agent.context().messages[-1].content) == {"x": "\ufffd"}
    agent.append_tool_result("c\ud800", "text \ud800")
    assert agent.context().messages[-1].content == "text \ufffd"
    assert agent.context().messages[-1].answers == agent.context().messages[-2].id


@pytest.mark.parametrize("args", [None, 5, "x", [], {}, {"x": 2**70}, [{"é": 1.5}]])
def test_arguments_are_any_json(agent: Agent, args: Any) -> None:
    agent.append_tool_call("f", args, call_id="c", data={"name": "not this"})
    message = agent.context().messages[0]
    assert json.loads(message.content) == args
    assert message.data == {"name": "f", "call_id": "c"}


def test_an_actor_is_one_of_three(log: Log, agent: Agent) -> None:
    """SPEC 2: `actor` is `human`, `model` or `system`."""
    refused(log, lambda: agent.append("user", "x", actor="bob"), "human, model, system", "bob")
    refused(log, lambda: agent.record("usage", "x", actor="bob"), "human, model, system", "bob")


# Batches and writers (SPEC 2)


def test_a_batch_is_recorded_whole_or_not_at_all(log: Log, agent: Agent) -> None:
    agent.append("user", "before")

    def fail() -> None:
        with agent.batch():
            agent.append("user", "lost")
            agent.append_tool_call("f", {}, call_id="c")
            with agent.batch():  # an inner batch is part of the outer one
                agent.do("/mark LOST")
                agent.do("/fork")
            assert texts(agent) == ["before", "lost", "{}"]
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (texts(agent), agent.context().marks, agent.children) == (["before"], {}, [])
    with agent.batch():
        first = agent.append("user", "kept")
        agent.do("/mark KEPT")
        turns = [agent.open_turn]
        agent.end_turn()
        assert [*turns, agent.open_turn] == [1, None]
    assert first == 2
    assert texts(agent) == ["before", "kept"]
    assert agent.context().marks == {"KEPT": 3}
    assert agent.append("user", "after") == 5


def test_a_refused_append_is_not_part_of_its_batch(agent: Agent) -> None:
    with agent.batch():
        agent.append("user", "one")
        with pytest.raises(CommandError):
            agent.append("user", "two", data={"x": object()})
        with pytest.raises(CommandError):
            agent.do("/rewind NONE")
        agent.append("user", "three")
    assert texts(agent) == ["one", "three"]


def test_a_batch_takes_the_messages_of_several_agents(log: Log, agent: Agent) -> None:
    other = log.agent("other")
    with agent.batch():
        agent.append("user", "one")
        other.append("user", "two")
    assert (texts(agent), texts(other)) == (["one"], ["two"])
    with suppress(ZeroDivisionError), agent.batch():
        agent.append("user", "never")
        other.append("user", "never")
        raise ZeroDivisionError
    agent.append("user", "three")
    other.append("user", "four")
    assert (texts(agent), texts(other)) == (["one", "three"], ["two", "four"])


@pytest.mark.parametrize(
    "write",
    [
        lambda agent: agent.append("user", "x"),
        lambda agent: agent.append_tool_call("f", {}, call_id="c"),
        lambda agent: agent.append_tool_result("c", "x"),
        lambda agent: agent.record("state", "x"),
        lambda agent: agent.end_turn(),
        lambda agent: agent.batch().__enter__(),
        lambda agent: agent.apply_filter("forget", [1]),
        lambda agent: agent.do("/mark X"),
        lambda agent: agent.do("/clear"),
        lambda agent: agent.do("/clear M"),
        lambda agent: agent.do("/rewind"),
        lambda agent: agent.do("/fork"),
        lambda agent: agent.do("/fork M"),
        lambda agent: agent.do("/undo"),
        lambda agent: agent.do("/context drop 1"),
        lambda agent: agent.do("/restore 2"),
    ],
    ids=[
        "append",
        "call",
        "result",
        "state",
        "end",
        "batch",
        "forget",
        "mark",
        "clear",
        "clear_M",
        "rewind",
        "fork",
        "fork_M",
        "undo",
        "drop",
        "restore",
    ],
)
def test_a_writer_that_has_not_read_the_newest_event_is_refused(
    two: tuple[Log, Log], write: Callable[[Agent], object]
) -> None:
    """One agent has one writer at a time; a second one gets a clear error. Reading the context catches up."""
    mine, theirs = two[0].agent("default"), two[1].agent("default")
    mine.append("user", "one")
    mine.do("/mark M")
    theirs.context()
    theirs.append("user", "two")
    refused(two[0], lambda: write(mine), "another writer has appended", "expected 2", error=ConflictError)
    assert texts(mine) == ["one", "two"]  # this reads the context
    mine.append("user", "three")
    refused(two[1], lambda: write(theirs), "expected 3", error=ConflictError)
    assert texts(theirs) == ["one", "two", "three"]


def test_one_log_has_one_object_per_agent(log: Log, agent: Agent) -> None:
    again = log.agent("default")
    assert again is agent
    again.append("user", "one")
    agent.append("user", "two")


# Tool results (SPEC 3)


def call(agent: Agent, call_id: str = "c1") -> int:
    return agent.append_tool_call("f", {}, call_id=call_id)


def test_a_result_whose_call_has_left_becomes_a_notice(agent: Agent) -> None:
    turn = agent.append("user", "go")
    agent.do("/mark M")
    call(agent)
    agent.do("/clear M")
    agent.append_tool_result("c1", "\ud800" + "r" * 5000)
    notice = agent.context().messages[-1]
    assert (notice.kind, notice.actor, notice.turn_id) == ("user", "system", turn)
    assert "c1" in notice.content
    assert notice.content.endswith("\ufffd" + "r" * 999)
    assert "r" * 1000 not in notice.content
    assert kinds(agent) == ["user", "user"]


def test_a_result_whose_call_came_back_is_a_result(agent: Agent) -> None:
    agent.append("user", "go")
    at = call(agent)
    clear = agent.do("/clear")
    agent.do(f"/restore {clear.event_id}")
    agent.append_tool_result("c1", "text")
    assert kinds(agent) == ["user", "tool_call", "tool_result"]
    assert agent.context().messages[-1].answers == at


def test_orphans_and_second_results_are_kept_as_they_are(agent: Agent) -> None:
    agent.append("user", "go")
    agent.append_tool_result("nobody", "orphan")
    at = call(agent)
    agent.append_tool_result("c1", "first")
    agent.append_tool_result("c1", "second")
    assert [(m.content, m.answers) for m in agent.context().messages if m.kind == "tool_result"] == [
        ("orphan", None),
        ("first", at),
        ("second", None),
    ]


def test_a_call_id_may_be_reused(agent: Agent) -> None:
    """A reused id names the newest unanswered call."""
    agent.append("user", "go")
    first = call(agent)
    agent.append_tool_result("c1", "1")
    second, third = call(agent), call(agent)
    agent.append_tool_result("c1", "3")
    agent.append_tool_result("c1", "2")
    answers = [m.answers for m in agent.context().messages if m.kind == "tool_result"]
    assert answers == [first, third, second]


def test_a_child_answers_what_it_inherited(log: Log, agent: Agent) -> None:
    """An interrupted turn leaves a call without its result; the child may still answer it."""
    agent.append("user", "go")
    at = call(agent)
    agent.end_turn(interrupted=True)
    child = log.agent(agent.do("/fork").data["child"])
    child.append_tool_result("c1", "text")
    assert [m.answers for m in child.context().messages][-1] == at
    # A call made after the fork does not belong to the child.
    agent.append("user", "more")
    call(agent, "c2")
    child.append_tool_result("c2", "text")
    assert child.context().messages[-1].answers is None
    assert kinds(child)[-1] == "tool_result"


def interrupted(log: Log) -> tuple[Agent, int, Agent, Agent]:
    """Return a parent, the id of its unanswered last call, and two children that inherited the call."""
    parent = log.agent("default")
    parent.append("user", "go")
    at = call(parent)
    parent.do("/mark M")
    parent.end_turn(interrupted=True)
    first, second = (log.agent(parent.do("/fork").data["child"]) for _ in "ab")
    return parent, at, first, second


def test_l6_each_agent_of_a_family_answers_for_itself(log: Log) -> None:
    """The parent and its children each answer the inherited call without effect on the others."""
    family = interrupted(log)
    for member in (family[0], *family[2:]):
        member.append_tool_result("c1", "mine")
        assert (member.context().messages[-1].kind, member.context().messages[-1].answers) == ("tool_result", family[1])


def test_l6_a_call_of_the_parent_hides_no_inherited_one(log: Log) -> None:
    """If the parent reuses the id after the fork, the child still answers its own call."""
    parent, at, child, _ = interrupted(log)
    parent.append("user", "again")
    call(parent)
    child.append_tool_result("c1", "text")
    assert child.context().messages[-1].answers == at


def test_l6_a_childs_result_does_not_move_the_parents_position(log: Log) -> None:
    """A rewind to M cuts the parent's later messages, whether or not a child has answered the call before M."""
    parent, _, child, _ = interrupted(log)
    parent.append("user", "later")
    parent.end_turn()
    child.append_tool_result("c1", "text")
    parent.append("user", "later still")
    parent.do("/rewind M")
    assert texts(parent) == ["go", "{}"]


def test_l6_a_childs_result_does_not_close_the_parents_exchange(log: Log) -> None:
    """The messages of one agent do not widen a filter of the other."""
    parent, at, child, _ = interrupted(log)
    answer = child.append_tool_result("c1", "text")
    event = selections.event(stored(log), parent.apply_filter("forget", [at]))
    assert event is not None
    assert answer not in (event.data or {}).get("widened", ())
    assert texts(child) == ["go", "{}", "text"]


# Finding agents (SPEC 4, 9)


def test_agents_are_found_by_name_and_uuid(log: Log, agent: Agent) -> None:
    child = log.agent(agent.do("/fork").data["child"])
    assert log.agent(child.id) is child
    assert log.agent(child.id.upper()) is child
    assert log.find("default") is agent
    assert log.find(child.id[:8]) is child
    assert log.find(child.id[:8].upper()) is child
    assert (child.parent, agent.parent, agent.children, child.children) == (agent, None, [child], [])
    assert child == child.id
    assert agent != child
    assert len({agent, log.agent("default"), child}) == 2
    assert [each.id for each in log.agents()] == [agent.id, child.id]
    assert (log.exists("default"), log.exists("other"), log.exists(child.id)) == (True, False, False)
    grandchild = log.agent(child.do("/fork").data["child"])
    assert (grandchild.parent, agent.children) == (child, [child])


def test_unknown_and_ambiguous_names_are_refused(log: Log) -> None:
    numbers = iter(range(20))
    log.new_id = lambda: f"abcdef00-0000-4000-8000-{next(numbers):012}"
    refused(log, lambda: log.find("nobody"), "no conversation or agent 'nobody'", "no conversation yet")
    agent = log.agent("default")
    agent.do("/fork")
    missing = "00000000-0000-4000-8000-000000000000"
    refused(log, lambda: log.agent(missing), f"there is no agent {missing}", "conversations: default")
    refused(log, lambda: log.find(missing), f"'{missing}'", "conversations: default")
    refused(log, lambda: log.find("abcdef00"), "several uuids begin with", agent.id, agent.children[0].id)
    refused(log, lambda: log.find("a"), "several uuids begin with", agent.id, agent.children[0].id)
    refused(log, lambda: log.find("b"), "no conversation or agent 'b'")
    refused(log, lambda: log.find(""), "no conversation or agent ''")
    assert log.find(agent.id[:-1] + "0") is agent


@pytest.mark.parametrize("name", ["", " ", "\n", "a\tb", "\x1b[0m", "x" * 201])
def test_a_name_is_printable_and_not_too_long(log: Log, name: str) -> None:
    refused(log, lambda: log.agent(name), "1 to 200 printable characters")


@pytest.mark.parametrize("name", ["a\ud800b", "\udcff"])
def test_a_name_with_lone_surrogates_is_refused(log: Log, name: str) -> None:
    """The command line produces such a name from bytes that are not UTF-8."""
    refused(log, lambda: log.agent(name), "1 to 200 printable characters")
    refused(log, lambda: log.find(name), "no conversation or agent")


@pytest.mark.parametrize("name", ["with space", "é😀", "/mark", "x" * 200, "123", "%"])
def test_any_printable_name_is_accepted(log: Log, name: str) -> None:
    assert log.agent(name).name == name
    assert log.find(name) is log.agent(name)


def test_creating_is_all_or_nothing(log: Log) -> None:
    def make(fail: bool) -> None:
        with log.creating("new") as agent:
            agent.append("user", "one")
            if fail:
                raise RuntimeError

    with pytest.raises(RuntimeError):
        make(fail=True)
    assert not log.exists("new")
    make(fail=False)
    assert texts(log.agent("new")) == ["one"]
    refused(log, lambda: make(fail=False), "a conversation 'new' already exists")


# The context


@pytest.fixture(scope="module")
def long() -> Iterator[Agent]:
    """A context of three segments and 13 messages, some of them inherited."""
    with foldmark.open(":memory:") as log:
        parent = log.agent("default")
        ids = [parent.append("user", f"p{n}") for n in range(8)]
        parent.apply_filter("forget", ids[2:4])
        child = log.agent(parent.do("/fork").data["child"])
        ids = [child.append("user", f"c{n}") for n in range(9)]
        child.apply_filter("forget", ids[3:5])
        yield child


INDEX = st.none() | st.integers(-16, 16)


@given(INDEX, INDEX, INDEX.filter(lambda step: step != 0))
def test_messages_are_sliced_as_a_list(long: Agent, start: int | None, stop: int | None, step: int | None) -> None:
    messages = long.context().messages
    assert messages[start:stop:step] == list(messages)[start:stop:step]


def test_messages_are_a_sequence(long: Agent) -> None:
    messages = long.context().messages
    everything = list(messages)
    assert [m.content for m in everything] == [
        "p0",
        "p1",
        "p4",
        "p5",
        "p6",
        "p7",
        "c0",
        "c1",
        "c2",
        "c5",
        "c6",
        "c7",
        "c8",
    ]
    assert len(messages) == 13
    assert list(reversed(messages)) == everything[::-1]
    for index in range(-13, 13):
        assert messages[index] == everything[index]
    for index in (13, -14, 99):
        with pytest.raises(IndexError, match=f"message {index} of 13"):
            messages[index]
    with pytest.raises(TypeError, match="integer"):
        messages["1"]  # type: ignore[call-overload]
    assert long.context().turns(-(2**63)) == []
    with pytest.raises(ValueError, match="zero"):
        messages[::0]
    assert everything[3] in messages
    assert messages.index(everything[3]) == 3
    assert messages.count(everything[3]) == 1
    assert bool(messages)


def test_an_empty_context_has_no_messages(agent: Agent) -> None:
    context = agent.context()
    assert (len(context.messages), list(context.messages), context.messages[:], context.segments) == (0, [], [], ())
    assert (context.marks, context.pins, context.state, context.scratchpad) == ({}, (), None, None)
    assert not context.messages
    assert context.size == (0, 0)
    assert context.turns(5) == []


def test_segments_run_from_message_to_message(long: Agent) -> None:
    context = long.context()
    visible = {(m.agent_id, m.id) for m in context.messages}
    assert all(
        (s.agent, s.first) in visible and (s.agent, s.last) in visible and s.first <= s.last for s in context.segments
    )
    assert all(contains(context.segments, *each) for each in visible)
    assert len(context.segments) == 4


def test_the_newest_turns_of_a_context(agent: Agent) -> None:
    for n in range(4):
        agent.append("user", f"q{n}")
        agent.append("assistant", f"a{n}")
        agent.end_turn()
    found = agent.context().turns(2)
    assert [[m.content for m in turn.messages] for turn in found] == [["q2", "a2"], ["q3", "a3"]]
    assert [turn.id for turn in found] == [turn.messages[0].id for turn in found]


def test_a_context_does_not_change_later(agent: Agent) -> None:
    agent.append("user", "one")
    context = agent.context()
    agent.append("user", "two")
    agent.do("/mark M")
    assert [m.content for m in context.messages] == ["one"]
    assert (context.marks, context.at, len(context.messages)) == ({}, 1, 1)


# State and scratchpad (SPEC 3)


def test_the_state_is_the_newest_inside_the_visible_segments(agent: Agent) -> None:
    agent.append("user", "one")
    agent.record("state", "S1")
    agent.end_turn()
    agent.do("/mark M")
    second = agent.append("user", "two")
    agent.record("state", "S2")
    agent.end_turn()
    assert agent.context().state == "S2"
    assert kinds(agent) == ["user", "user"]  # a state is not a message
    rewind = agent.do("/rewind M")
    assert agent.context().state == "S1"
    agent.do(f"/restore {rewind.event_id}")
    assert agent.context().state == "S2"
    agent.apply_filter("forget", [second])  # a state leaves with the message that it follows
    assert agent.context().state == "S1"
    agent.do("/clear")
    assert agent.context().state is None
    agent.record("state", "S3")
    assert agent.context().state == "S3"


def test_a_child_inherits_the_state_with_its_context(log: Log, agent: Agent) -> None:
    agent.append("user", "one")
    agent.record("state", "S1")
    agent.do("/mark M")
    agent.append("user", "two")
    whole = log.agent(agent.do("/fork").data["child"])
    trimmed = log.agent(agent.do("/fork M").data["child"])
    agent.record("state", "S2")
    assert (agent.context().state, whole.context().state, trimmed.context().state) == ("S2", "S1", None)


def test_the_scratchpad_is_the_agents_newest_whatever_is_visible(log: Log, agent: Agent) -> None:
    agent.append("user", "one")
    agent.do("/mark M")
    agent.record("scratchpad", "P1")
    agent.do("/clear M")
    assert agent.context().scratchpad == "P1"
    agent.do("/clear")
    assert agent.context().scratchpad == "P1"
    agent.append("user", "two")
    agent.do("/mark M")
    agent.append("user", "three")
    whole = log.agent(agent.do("/fork").data["child"])
    trimmed = log.agent(agent.do("/fork M").data["child"])
    agent.record("scratchpad", "P2")
    # Only a full fork inherits it, as it was at the time of the fork.
    assert (whole.context().scratchpad, trimmed.context().scratchpad) == ("P1", None)
    whole.record("scratchpad", "mine")
    assert (whole.context().scratchpad, agent.context().scratchpad) == ("mine", "P2")
    agent.record("scratchpad", "")
    assert agent.context().scratchpad == ""


# Commands, marks and receipts (SPEC 3, 4)


def test_marks_are_listed_in_the_order_they_were_set(agent: Agent) -> None:
    assert agent.do("/mark B").text == "Checkpoint 'B' created."
    agent.do("/mark A")
    assert agent.do("/mark").data["mark"] == "mark-1"
    assert agent.do("/mark").text == "Checkpoint 'mark-2' created."
    assert agent.do("/mark B").text == "Checkpoint 'B' moved."
    assert list(agent.context().marks.items()) == [("A", 2), ("mark-1", 3), ("mark-2", 4), ("B", 5)]
    agent.do("/mark a")  # names are case-sensitive
    assert list(agent.context().marks) == ["A", "mark-1", "mark-2", "B", "a"]
    assert list(agent.reader.replay(stored(agent.log)).marks) == ["A", "mark-1", "mark-2", "B", "a"]


WRONG = [
    ("mark", ("a command begins with '/'",)),
    ("", ("a command begins with '/'",)),
    ("/", ("a command begins with '/'",)),
    ("/nothing", ("no command /nothing", "/help lists the commands")),
    ("/clera", ("did you mean /clear?",)),
    ("/clear NONE", ("no mark 'NONE'", "marks: M")),
    ("/fork NONE", ("no mark 'NONE'", "marks: M")),
    ("/rewind m", ("no mark 'm'", "marks: M")),
    ("/mark a b", ("unexpected argument 'b'", "/mark [NAME]")),
    ("/undo 5", ("unexpected argument '5'", "usage: /undo")),
    ("/restore x", ("ID must be a number",)),
    ("/restore 999", ("no event 999", "2 (mark)")),
    ("/restore 1", ("event 1 is a user, not an operation",)),
    ("/restore 3", ("event 3 belongs to another agent",)),
    ("/restore 4", ("a fork cannot be taken back",)),
    ("/context", ("/context needs one of: drop, evict, show",)),
    ("/context drop", ("GID is missing",)),
    ("/context drop 2", ("turn 2 is not in the context", "newest turns: 1")),
    ("/context drop 3", ("turn 3 is not in the context",)),
    ("/help nothing", ("no command /nothing",)),
    ("/mark a\u200bb", ("visible characters without white space",)),
    ("/mark " + "x" * 201, ("1 to 200",)),
    ("/mark \ud800", ("1 to 200",)),
]


def test_a_wrong_command_says_what_there_is_instead(log: Log, agent: Agent) -> None:
    """SPEC 4: a wrong command writes nothing."""
    agent.append("user", "hello")
    agent.do("/mark M")
    log.agent("other").append("user", "there")
    agent.do("/fork")
    for line, words in WRONG:
        with case(line):
            refused(log, lambda: agent.do(line), *words)  # noqa: B023


def test_commands_without_marks_and_turns_say_so(log: Log, agent: Agent) -> None:
    refused(log, lambda: agent.do("/rewind"), "No checkpoint yet. Use /mark.")
    refused(log, lambda: agent.do("/clear M"), "no mark is set yet")
    refused(log, lambda: agent.do("/undo"), "the context is empty")
    refused(log, lambda: agent.do("/context drop 1"), "the context is empty")
    refused(log, lambda: agent.do("/restore 1"), "no operation is in force")


def test_an_invalid_filter_is_refused(log: Log, agent: Agent) -> None:
    agent.append("user", "hello")
    other = log.agent("other").append("user", "there")
    refused(log, lambda: agent.apply_filter("drop", [1]), "'forget' or 'remember'", "'drop'")
    refused(
        log,
        lambda: agent.apply_filter("forget", [1, other, 99, -1, 0, 2**80]),
        "do not belong to this conversation",
        "99",
    )
    refused(log, lambda: agent.apply_filter("forget", [1], planning=(2, 1)), "(2, 1)")
    child = log.agent(agent.do("/fork").data["child"])
    mine = child.append("user", "mine")
    refused(log, lambda: agent.apply_filter("forget", [mine]), "do not belong to this conversation")


def test_planning_ids_must_be_events_of_the_conversation(log: Log, agent: Agent) -> None:
    agent.append("user", "hello")
    refused(log, lambda: agent.apply_filter("forget", [], planning=(2, 2**80)), "planning must be")


@pytest.mark.parametrize("mode", ["forget", "remember"])
@pytest.mark.parametrize("planned", [2, 3])
def test_a_planning_conversation_leaves_with_its_whole_exchanges(agent: Agent, mode: str, planned: int) -> None:
    """SPEC 3: a filter and its planning are widened to whole exchanges; L4: no exchange is split."""
    agent.append("user", "go")
    at = call(agent)
    agent.append_tool_result("c1", "text")
    agent.apply_filter(mode, [at] if mode == "remember" else [], planning=(planned, planned))
    assert kinds(agent) == ([] if mode == "remember" else ["user"])


def test_planning_is_widened_to_invisible_messages(agent: Agent) -> None:
    """Restoring the clear must not return a result whose call the filter removed."""
    agent.append("user", "go")
    at = call(agent)
    agent.append_tool_result("c1", "text")
    clear = agent.do("/clear")
    agent.apply_filter("forget", [], planning=(at, at))
    agent.do(f"/restore {clear.event_id}")
    assert kinds(agent) == ["user"]


def test_a_child_cannot_name_later_messages_of_its_parent(log: Log, agent: Agent) -> None:
    """L6: the child cannot name such a message in a filter."""
    agent.append("user", "hello")
    child = log.agent(agent.do("/fork").data["child"])
    later = agent.append("user", "later")
    refused(log, lambda: child.apply_filter("forget", [later]), "do not belong to this conversation", str(later))


def test_a_model_may_run_its_commands_and_no_others(log: Log, agent: Agent) -> None:
    """SPEC 4: each actor may use only certain commands; the event records the actor."""
    agent.append("user", "hello")
    for line in ("/mark M", "/clear M", "/clear", "/fork"):
        result = agent.do(line, actor="model")
        event = selections.event(stored(log), result.event_id or 0)
        assert event is not None
        assert (event.actor, result.data["actor"]) == ("model", "model")
    for line in ("/rewind", "/undo", "/restore 2", "/context show", "/context drop 1", "/help", "/exit"):
        refused(log, partial(agent.do, line, actor="model"), "is not for a model", "mark", "clear", "fork")
    refused(log, lambda: agent.do("/mark M", actor="bob"), "is not for a bob")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "user",
                "user",
                "assistant",
                "call",
                "answer",
                "end",
                "/mark",
                "/mark_A",
                "/rewind",
                "/clear",
                "/clear_A",
                "/undo",
                "/fork",
                "drop",
                "forget",
                "remember",
                "restore",
                "restore",
                "state",
            ]
        ),
        st.integers(0, 1000),
    ),
    max_size=25,
)


@given(STEPS)
def test_receipts_equal_a_count_of_the_messages(steps: list[tuple[str, int]]) -> None:
    """L3: receipts come from stored sums; this test counts the messages one by one, after operations in any order."""
    with foldmark.open(":memory:") as log:
        agent, operations = log.agent("default"), [0]
        for n, (step, pick) in enumerate(steps):
            before = {(m.agent_id, m.id): m.tokens for m in agent.context().messages}
            chosen = sorted(id for at, (_, id) in enumerate(before) if pick >> at % 10 & 1)
            try:
                if step in ("user", "assistant"):
                    agent.append(step, "x" * (pick % 50))
                elif step == "call":
                    call(agent, f"c{pick % 3}")
                elif step == "answer":
                    agent.append_tool_result(f"c{pick % 3}", "r" * (pick % 50))
                elif step == "end":
                    agent.end_turn()
                elif step == "state":
                    agent.record("state", str(n))
                elif step in ("forget", "remember"):
                    operations.append(agent.apply_filter(step, chosen))
                    event = selections.event(stored(log), operations[-1])
                    assert event is not None
                    sizes = (event.data or {}).get("before", 0), (event.data or {}).get("after", 0)
                    assert sizes == (len(before), len(agent.context().messages))
                else:
                    turns = [m.turn_id for m in agent.context().messages] or [1]
                    line = {
                        "drop": f"/context drop {turns[pick % len(turns)]}",
                        "restore": f"/restore {operations[pick % len(operations)]}",
                    }.get(step, step.replace("_", " "))
                    data = agent.do(line).data
                    operations.append(agent.context().at)
                    check(data, before, {(m.agent_id, m.id): m.tokens for m in agent.context().messages})
                    if step == "/fork" and pick % 2:
                        agent = agent.children[-1]
            except CommandError:
                assert {(m.agent_id, m.id): m.tokens for m in agent.context().messages} == before
            assert agent.context().size == (
                len(agent.context().messages),
                sum(m.tokens for m in agent.context().messages),
            )
        assert list(examine(log)) == []


def check(data: dict[str, Any], before: dict[tuple[str, int], int], after: dict[tuple[str, int], int]) -> None:
    def size(ids: dict[tuple[str, int], int]) -> dict[str, int]:
        return {"messages": len(ids), "tokens": sum(ids.values())}

    assert data["before"] == size(before)
    assert data["after"] == size(after)
    assert data["left"] == size({id: tokens for id, tokens in before.items() if id not in after})
    assert data["returned"] == size({id: tokens for id, tokens in after.items() if id not in before})


def test_a_receipt_of_a_rewind(agent: Agent) -> None:
    agent.append("user", "a" * 40)
    agent.do("/mark M")
    agent.append("user", "b" * 41)
    result = agent.do("/clear M")
    assert result.text == "Rewound to 'M'."
    assert result.event_id == 4
    assert result.data == {
        "operation": "rewind",
        "actor": "human",
        "reason": None,
        "back": "/restore 4",
        "mark": "M",
        "left": {"messages": 1, "tokens": 11},
        "returned": {"messages": 0, "tokens": 0},
        "before": {"messages": 2, "tokens": 21},
        "after": {"messages": 1, "tokens": 10},
    }
    back = agent.do("/restore 4")
    assert back.data["returned"] == {"messages": 1, "tokens": 11}
    assert json.loads(json.dumps(back.data)) == back.data


@pytest.mark.parametrize(
    "act",
    [
        lambda agent: agent.apply_filter("forget", [1], criteria=5),
        lambda agent: agent.apply_filter("forget", [1], planning=(True, True)),
        lambda agent: agent.apply_filter("forget", [1], planning=5),
        lambda agent: agent.apply_filter("forget", 5),
        lambda agent: agent.apply_filter("forget", [True]),
        lambda agent: agent.do(None),
        lambda agent: agent.at("x"),
        lambda agent: agent.redact("x"),
        lambda agent: agent.call_tool(None, {}),
        lambda agent: agent.request(5),
    ],
)
def test_arguments_of_another_type_are_refused(agent: Agent, act: Callable[[Agent], object]) -> None:
    """Only data that can be read again is recorded."""
    agent.append("user", "hello")
    before = agent.standing().newest
    with pytest.raises(CommandError) as caught:
        act(agent)
    assert "\n" not in str(caught.value)
    assert agent.standing().newest == before
    agent.do("/mark M")
    agent.do("/restore 2")
