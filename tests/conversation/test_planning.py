"""Forgetting and remembering with a planning conversation (SPEC 4.2, S1): how it begins, continues and ends."""

from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answering import answered_by
from foldmark import CommandError
from foldmark.core import selections
from foldmark.core.errors import FoldmarkError
from foldmark.core.request import Request
from foldmark.core.wording import WINDOW
from foldmark.log.doctor import examine
from foldmark.operations.effects import Asking
from planning_talk import IN_CHAT, Talk
from sampled import DEEP
from stored import stored


@pytest.fixture(
    params=[False, True] if DEEP else None, ids=["one program", "a program for each step"] if DEEP else None
)
def talk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Talk]:
    """A talk in one program, or with a program for each step: one of the two by the name of the test, in a deep run
    both."""
    restarts = request.param if DEEP else crc32(request.node.name.encode()) % 2 == 0
    with Talk(tmp_path / "log.db", restarts) as talk:
        yield talk


@pytest.fixture(scope="module")
def three_turns(tmp_path_factory: pytest.TempPathFactory) -> tuple[Talk, list[int]]:
    """A closed talk of six messages in three turns, and their ids; the second turn is about tables."""
    with Talk(tmp_path_factory.mktemp("three turns") / "log.db") as talk:
        ids = talk.exchange("Hello", "Hello.")
        ids += talk.exchange("Which tables?", "Two tables.")
        ids += talk.exchange("And the weather?", "Dry.")
    return talk, ids


@pytest.fixture
def history(talk: Talk, three_turns: tuple[Talk, list[int]]) -> list[int]:
    """The ids of the first messages of the talk."""
    talk.go_on_from(three_turns[0])
    return list(three_turns[1])


@pytest.fixture
def tables(history: list[int]) -> str:
    """Criteria that match the second turn."""
    return criteria_of(history)


def criteria_of(history: list[int]) -> str:
    return f"messages {history[2]}-{history[3]}"


def refused(talk: Talk, line: str, *words: str) -> None:
    """Assert that a command fails with a message that contains these words, and that it writes nothing."""
    before = talk.agent.standing().record.head
    with pytest.raises(CommandError) as caught:
        talk.agent.do(line)
    for word in words:
        assert word in str(caught.value)
    assert talk.agent.standing().record.head == before


# From beginning to end


def test_the_planning_conversation_leaves_with_the_filtered_messages(
    talk: Talk, history: list[int], tables: str
) -> None:
    begun = talk.agent.do(f"/forget {tables}", asking=IN_CHAT)
    assert begun.data["answer"] is True
    assert begun.event_id is None
    assert talk.texts[-1] == f"/forget {tables}"
    found = talk.tool(action="preview")
    assert [each["id"] for each in found["matching_messages"]] == history[2:4]
    talk.answers("Should I proceed?")
    talk.says("Yes, proceed")
    planned = [each for each in talk.ids if each not in history]
    assert planned[0] == begun.data["planning"]

    done = talk.tool(action="apply", message_ids=history[2:4], planning_conversation_ids=planned)
    assert done == {
        "filter_event_id": done["filter_event_id"],
        "messages_filtered": 2,
        "context_before": 6,
        "context_after": 4,
    }
    # Planning leaves the context at once; the model, which still has to answer, sees it until the turn ends.
    left = [history[0], history[1], history[4], history[5]]
    assert talk.ids == left
    assert talk.planning is None
    assert talk.sent()[:5] == ["Hello", "Hello.", "And the weather?", "Dry.", f"/forget {tables}"]
    assert '"filter_event_id"' in talk.sent()[-1]
    assert "Which tables?" not in talk.sent()

    talk.answers("Done. I've forgotten those 2 messages.")
    assert talk.ids == left
    assert talk.sent() == ["Hello", "Hello.", "And the weather?", "Dry.", "[Go on.]"]
    after = talk.exchange("What now?", "Go on.")
    assert talk.ids == left + after


def test_the_filter_event_stores_everything(talk: Talk, history: list[int], tables: str) -> None:
    talk.forget(tables)
    first = talk.planning.first if talk.planning else 0
    done = talk.applied()
    event = selections.event(stored(talk.log), done["filter_event_id"])
    assert event is not None
    assert (event.kind, event.actor) == ("filter", "model")
    data = dict(event.data or {})
    assert data["mode"] == "forget"
    assert data["criteria"] == tables
    assert data["planning"] == [first, None]
    assert (data["before"], data["after"]) == (6, 4)
    assert [each[1:] for each in data["ranges"]] == [[history[2], history[4] - 1], [first, 2**63 - 1]]
    receipt = data["receipt"]
    assert receipt["before"]["messages"] - receipt["left"]["messages"] == 4
    assert receipt["returned"] == {"messages": 0, "tokens": 0}
    assert 0 < receipt["left"]["tokens"] < receipt["before"]["tokens"]


def test_a_filter_outside_a_turn_is_closed_at_once(talk: Talk, history: list[int], tables: str) -> None:
    """This is the case over MCP, where tool calls open no turn."""
    talk.forget(tables)
    talk.says("yes")
    talk.agent.end_turn()
    first = talk.planning.first if talk.planning else 0
    done = talk.agent.call_tool("filter_context", {"action": "apply"})
    assert '"messages_filtered":2' in done
    assert talk.ids == history[:2] + history[4:]
    event_id = _newest_filter(talk)
    event = selections.event(stored(talk.log), event_id)
    planned = ((event and event.data) or {})["planning"]
    assert planned[0] == first
    assert planned[1] is not None
    assert talk.ids + talk.exchange("More", "text") == talk.ids


def test_two_filters_add_up(talk: Talk, history: list[int], tables: str) -> None:
    talk.forget(tables)
    talk.applied()
    more = talk.exchange("Later", "later.")
    talk.forget(f"messages {history[4]}-{history[5]}")
    assert talk.applied() == {
        "filter_event_id": _newest_filter(talk),
        "messages_filtered": 2,
        "context_before": 6,
        "context_after": 4,
    }
    assert talk.ids == history[:2] + more
    talk.forget(f"messages {history[0]}-{more[0]}", "remember")
    assert talk.applied()["context_after"] == 3
    assert talk.ids == [*history[:2], more[0]]


def _newest_filter(talk: Talk) -> int:
    agent = talk.agent
    return [event.id for event in selections.operations(stored(agent.log), agent.id) if event.kind == "filter"][-1]


def test_restoring_the_filter_returns_the_planning_conversation_without_reopening_it(
    talk: Talk, history: list[int], tables: str
) -> None:
    talk.forget(tables)
    done = talk.applied()
    after = talk.exchange("What now?", "Go on.")
    talk.agent.do(f"/restore {done['filter_event_id']}")
    assert talk.texts[:6] == ["Hello", "Hello.", "Which tables?", "Two tables.", "And the weather?", "Dry."]
    assert "Done." in talk.texts
    assert f"/forget {tables}" in talk.texts
    assert talk.ids[-2:] == after
    assert talk.planning is None
    refused(talk, "/cancel", "no planning conversation is open")
    assert "no planning conversation is open" in talk.tool(action="preview")["error"]


def test_a_filter_restored_twice_hides_no_further_messages(talk: Talk, history: list[int], tables: str) -> None:
    talk.forget(tables)
    done = talk.applied()
    after = talk.exchange("What now?", "Go on.")
    back = talk.agent.do(f"/restore {done['filter_event_id']}").event_id
    talk.agent.do(f"/restore {back}")
    assert talk.ids == history[:2] + history[4:] + after
    assert talk.ids[-2:] == after


# /cancel


def test_cancel_works_outside_of_a_turn(talk: Talk, history: list[int], tables: str) -> None:
    talk.forget(tables)
    result = talk.agent.do("/cancel")
    assert result.text.startswith("Cancelled. Nothing was forgotten")
    assert talk.ids == history
    assert talk.planning is None
    event = selections.event(stored(talk.log), result.event_id or 0)
    assert event is not None
    assert (event.kind, event.actor, (event.data or {})["before"], (event.data or {})["after"]) == (
        *("filter", "human"),
        *(6, 6),
    )
    assert talk.ids + talk.exchange("a", "b") == talk.ids
    refused(talk, "/cancel", "/forget CRITERIA or /remember CRITERIA begins one")


def test_cancel_works_in_an_open_turn(talk: Talk, history: list[int], tables: str) -> None:
    talk.agent.do(f"/remember {tables}", asking=IN_CHAT)
    talk.tool(action="preview")
    result = talk.agent.do("/cancel")
    assert talk.ids == history
    talk.answers("I was about to ask.")
    assert talk.ids == history
    after = talk.exchange("a", "b")
    assert talk.ids == history + after
    talk.agent.do(f"/restore {result.event_id}")
    assert "I was about to ask." in talk.texts
    assert talk.planning is None


def test_cancel_without_a_planning_conversation_is_refused(talk: Talk, history: list[int]) -> None:
    refused(talk, "/cancel", "no planning conversation is open", "/forget CRITERIA")
    refused(talk, "/cancel now", "unexpected argument")


# Beginning


@pytest.mark.parametrize("line", ["/forget", "/remember", "/forget   "])
def test_criteria_are_needed(talk: Talk, line: str) -> None:
    refused(talk, line, "CRITERIA is missing")


def test_a_new_planning_conversation_replaces_the_open_one(talk: Talk, history: list[int], tables: str) -> None:
    talk.forget(tables)
    for mode in ("forget", "remember"):
        begun = talk.agent.do(f"/{mode} the weather", asking=IN_CHAT).data["planning"]
        assert talk.planning is not None
        assert (talk.planning.first, talk.planning.mode, talk.planning.preview) == (begun, mode, None)
        assert talk.ids == [*history, begun]
    talk.says("yes")
    assert "nothing was previewed yet" in talk.tool(action="apply")["error"]


def test_a_model_cannot_open_a_planning_conversation(talk: Talk, history: list[int]) -> None:
    for line in ("/forget x", "/remember x", "/cancel"):
        with pytest.raises(CommandError, match="is not for a model"):
            talk.agent.do(line, actor="model")
    assert talk.ids == history


def test_the_criteria_are_recorded_as_typed(talk: Talk, history: list[int]) -> None:
    criteria = 'a "b"  c\n— 你好 \u2028 \x00 DROP TABLE; * OR ^ NEAR(x)'
    talk.agent.do(f"/forget {criteria}", asking=IN_CHAT)
    assert talk.planning is not None
    assert talk.planning.criteria == criteria
    assert talk.texts[-1] == f"/forget {criteria}"
    talk.agent.do("/cancel")
    assert talk.ids == history


def test_lone_surrogates_in_criteria_are_replaced(talk: Talk, history: list[int]) -> None:
    talk.agent.do("/forget a\ud800b", asking=IN_CHAT)
    assert talk.planning is not None
    assert talk.planning.criteria == "a\ufffdb"


def test_a_child_plans_for_itself(talk: Talk, history: list[int], tables: str) -> None:
    child_id = talk.agent.do("/fork").data["child"]
    child = talk.log.agent(child_id)
    child.do(f"/forget {tables}", asking=IN_CHAT)
    assert talk.planning is None
    child = talk.log.agent(child_id)
    child.call_tool("filter_context", {"action": "preview"})
    child.append("user", "ok")
    child.call_tool("filter_context", {"action": "apply"})
    child.end_turn()
    assert [message.id for message in child.context().messages] == history[:2] + history[4:]
    assert talk.ids == history


# Its end


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory, three_turns: tuple[Talk, list[int]]) -> Talk:
    """A closed talk with an open planning conversation of two turns, a mark before it and one inside."""
    closed, ids = three_turns
    with Talk(tmp_path_factory.mktemp("planned") / "log.db", restarts=True) as talk:
        talk.go_on_from(closed)
        talk.agent.do("/mark BEFORE")
        talk.forget(criteria_of(ids))
        talk.agent.do("/mark INSIDE")
        refined(talk, criteria_of(ids))
        assert talk.planning is not None
    return talk


@pytest.fixture
def open_one(talk: Talk, planned: Talk) -> Talk:
    """The talk with a planning conversation of two turns, a mark before it and one inside."""
    talk.go_on_from(planned)
    return talk


def refined(talk: Talk, criteria: str) -> None:
    """Run a turn in which the person says more and the model previews again."""
    talk.says("Those, please")
    talk.tool(action="preview", criteria=criteria)
    talk.answers("Should I proceed?")


def _clear(talk: Talk) -> int | None:
    return talk.agent.do("/clear").event_id


def _behind(talk: Talk) -> int | None:
    return talk.agent.do("/rewind BEFORE").event_id


def _clear_mark(talk: Talk) -> int | None:
    return talk.agent.do("/clear BEFORE", actor="model").event_id


def _drop(talk: Talk) -> int | None:
    first = talk.planning.first if talk.planning else 0
    return talk.agent.do(f"/context drop {first}").event_id


def _undo(talk: Talk) -> int | None:
    talk.agent.do("/undo")
    return talk.agent.do("/undo").event_id


def _filter(talk: Talk) -> int | None:
    first = talk.planning.first if talk.planning else 0
    return talk.agent.apply_filter("forget", [first])


@pytest.mark.parametrize("end", [_clear, _behind, _clear_mark, _drop, _undo, _filter])
def test_restoring_an_operation_that_ended_planning_does_not_reopen_it(
    open_one: Talk, end: Callable[[Talk], int | None]
) -> None:
    """Its messages return, but planning stays closed; otherwise a later /cancel would remove everything since."""
    first = open_one.planning.first if open_one.planning else 0
    operation = end(open_one)
    assert not open_one.is_planning()
    assert first not in open_one.ids
    refused(open_one, "/cancel", "no planning conversation is open")
    assert "no planning conversation is open" in open_one.tool(action="apply")["error"]
    open_one.agent.end_turn()
    open_one.agent.do(f"/restore {operation}")
    assert first in open_one.ids
    assert not open_one.is_planning()
    open_one.agent.do("/forget Hello", asking=IN_CHAT)
    reopened = open_one.planning
    assert reopened is not None
    assert reopened.first > first


def test_a_summary_of_everything_ends_planning(open_one: Talk) -> None:
    first = open_one.planning.first if open_one.planning else 0
    summary = open_one.agent.do("/summarize").event_id
    assert open_one.planning is None
    open_one.agent.do(f"/restore {summary}")
    assert first in open_one.ids
    assert open_one.planning is None


def test_erasing_its_first_turn_ends_planning(open_one: Talk) -> None:
    first = open_one.planning.first if open_one.planning else 0
    open_one.tool(action="preview")
    open_one.agent.end_turn()
    open_one.agent.do(f"/message remove {first} --yes")
    assert open_one.planning is None


@pytest.mark.parametrize("line", ["/rewind INSIDE", "/clear INSIDE", "/rewind", "/undo", "/summarize INSIDE"])
def test_an_operation_during_planning_ends_only_the_offer(open_one: Talk, line: str) -> None:
    """The preview that the person saw is outdated; the model may preview again."""
    before = open_one.planning
    assert before is not None
    open_one.agent.do(line)
    assert open_one.planning is not None
    assert open_one.planning.first == before.first
    open_one.says("Yes, proceed")
    assert "the context has changed since the preview; preview again" in open_one.tool(action="apply")["error"]
    assert "filter_event_id" not in open_one.tool(action="preview")
    open_one.answers("Should I proceed?")
    open_one.applied()
    assert not open_one.is_planning()
    assert len(open_one.ids) == 4


def test_a_mark_ends_neither_the_offer_nor_planning(open_one: Talk) -> None:
    before = open_one.planning
    open_one.agent.do("/mark X")
    assert open_one.planning == before
    open_one.applied()
    assert len(open_one.ids) == 4


def test_fork_is_refused_during_planning(talk: Talk, history: list[int], tables: str) -> None:
    talk.agent.do("/mark A")
    talk.agent.do(f"/forget {tables}", asking=IN_CHAT)
    refused(talk, "/fork", "a planning conversation is open", "/cancel")
    refused(talk, "/fork A", "a planning conversation is open")
    talk.tool(action="preview")
    talk.says("ok")
    assert "filter_event_id" in talk.tool(action="apply")
    refused(
        talk, "/fork", "a planning conversation leaves the context at the end of this turn", "wait until it has ended"
    )
    talk.answers("Done.")
    child = talk.agent.do("/fork").data["child"]
    assert [message.id for message in talk.log.agent(child).context().messages] == history[:2] + history[4:]
    assert talk.ids == history[:2] + history[4:]


# Previews and consent that left the context


def test_a_rewound_preview_no_longer_counts(talk: Talk, history: list[int], tables: str) -> None:
    talk.agent.do(f"/forget {tables}", asking=IN_CHAT)
    talk.answers("Shall I look?")
    talk.agent.do("/mark ASKED")
    talk.says("go on")
    talk.tool(action="preview")
    talk.answers("Should I proceed?")
    talk.agent.do("/rewind ASKED")
    talk.says("Yes")
    assert "nothing was previewed yet" in talk.tool(action="apply")["error"]
    assert talk.tool(action="preview")["message_count"] == 2
    talk.says("Yes")
    assert talk.tool(action="apply")["messages_filtered"] == 2


def test_after_a_rewind_an_earlier_preview_is_not_an_offer(talk: Talk, history: list[int], tables: str) -> None:
    talk.forget(tables)
    talk.agent.do("/mark FIRST")
    refined(talk, f"messages {history[4]}")
    talk.agent.do("/rewind FIRST")
    assert "the context has changed since the preview" in talk.applied()["error"]
    assert talk.ids[: len(history)] == history
    assert "Yes, proceed" in talk.texts  # it counts as something else, so it stays


def test_a_rewound_yes_no_longer_counts(talk: Talk, history: list[int], tables: str) -> None:
    talk.forget(tables)
    talk.agent.do("/mark ASKED")
    talk.says("Yes")
    talk.answers("(interrupted)")
    talk.agent.do("/rewind ASKED")
    assert "the context has changed since the preview" in talk.tool(action="apply")["error"]


def test_rewound_planning_messages_stay_out_for_the_rest_of_the_turn(
    talk: Talk, history: list[int], tables: str
) -> None:
    talk.forget(tables)
    talk.agent.do("/mark IN")
    talk.says("A digression")
    talk.tool(action="preview")
    talk.answers("about nothing.")
    talk.agent.do("/rewind IN")
    refined(talk, tables)
    talk.says("Yes")
    talk.tool(action="apply")
    assert "A digression" not in talk.sent()
    assert "Yes" in talk.sent()
    talk.answers("Done.")
    assert talk.ids == history[:2] + history[4:]


def test_the_model_may_clear_after_its_own_filter(talk: Talk, history: list[int], tables: str) -> None:
    talk.forget(tables)
    talk.says("Yes")
    talk.tool(action="apply")
    talk.agent.do("/clear", actor="model")
    assert talk.ids == []
    assert talk.sent() == ["[The conversation is empty.]"]
    talk.agent.end_turn()
    after = talk.exchange("a", "b")
    assert talk.ids == after


# Clear and rewind end planning in every state, even after its filter was applied in a turn that is still open


@pytest.mark.parametrize("line", ["/rewind BEFORE", "/clear BEFORE", "/clear", "/rewind INSIDE"])
def test_messages_after_a_rewind_in_the_turn_of_the_filter_are_visible(
    talk: Talk, history: list[int], tables: str, line: str
) -> None:
    talk.agent.do("/mark BEFORE")
    talk.forget(tables)
    talk.agent.do("/mark INSIDE")
    talk.says("Yes")
    done = talk.tool(action="apply")
    left = [] if line == "/clear" else history[:2] + history[4:]
    operation = talk.agent.do(line).event_id
    assert talk.ids == left
    assert [text for text in talk.sent() if text not in ("[The conversation is empty.]", "[Go on.]")] == [
        *(() if line == "/clear" else ("Hello", "Hello.", "And the weather?", "Dry."))
    ]
    said = [talk.says("What now?")]  # it joins the open turn
    assert talk.ids == left + said
    assert "What now?" in talk.sent()
    child = talk.agent.do("/fork").data["child"]
    assert [message.id for message in talk.log.agent(child).context().messages] == left + said
    refused(talk, "/cancel", "no planning conversation is open")
    said.append(talk.answers("Go on."))
    said += talk.exchange("And then?", "The end.")
    assert talk.ids == left + said
    # The restore makes it as if it had never happened: planning lasted until the end of the turn.
    talk.agent.do(f"/restore {operation}")
    assert talk.ids == history[:2] + history[4:] + said[2:]
    talk.agent.do(f"/restore {done['filter_event_id']}")
    assert {*history, *said} < {*talk.ids}


def test_a_filter_may_be_restored_in_its_own_turn(talk: Talk, history: list[int], tables: str) -> None:
    talk.forget(tables)
    talk.says("Yes")
    done = talk.tool(action="apply")
    refused(talk, "/cancel", "leaves the context at the end of this turn", f"`/restore {done['filter_event_id']}`")
    talk.agent.do(f"/restore {done['filter_event_id']}")
    talk.agent.do("/fork")
    after = talk.answers("Brought back.")
    assert talk.ids[-1] == after


# Messages about something else [SPEC 4.2]


def test_another_request_ends_planning_with_its_turn(talk: Talk, history: list[int], tables: str) -> None:
    """This happens if a program appends the messages without Foldmark's runtime."""
    talk.forget(tables)
    said = [talk.says("Leave that; we use port 8080"), talk.agent.append("assistant", "Port 8080.")]
    assert talk.planning is not None  # the model may still preview again
    assert "the person has said something else" in talk.tool(action="apply")["error"]
    talk.agent.end_turn()
    assert not talk.is_planning()
    assert talk.ids[: len(history) + 2] == history + said
    assert f"/forget {tables}" not in talk.texts
    yes = talk.says("yes")
    assert "no planning conversation is open" in talk.tool(action="apply")["error"]
    assert yes in talk.ids


def test_the_first_message_that_is_not_a_yes_ends_planning(talk: Talk, history: list[int], tables: str) -> None:
    """A yes that is not applied also counts for one message only."""
    for first in ("Leave that", "yes"):
        talk.agent.do(f"/forget {tables}", asking=IN_CHAT)
        talk.tool(action="preview")
        talk.answers("Should I proceed?")
        before = talk.ids
        talk.says(first)
        talk.agent.end_turn()
        work = talk.exchange("Port 8080", "Noted.")
        assert talk.planning is None
        kept = ["Port 8080", "Noted."] if first == "yes" else ["Leave that", "Port 8080", "Noted."]
        assert talk.texts[-len(kept) :] == kept
        assert [id for id in before if id in history] == [id for id in talk.ids if id in history]
        assert talk.ids[-2:] == work


def test_cancel_works_in_a_turn_about_something_else(talk: Talk, history: list[int], tables: str) -> None:
    talk.forget(tables)
    said = talk.says("Leave that; we use port 8080")
    talk.agent.do("/cancel")
    assert talk.ids == [*history, said]
    after = talk.answers("Port 8080.")
    assert talk.ids == [*history, said, after]


def test_planning_ends_after_a_crash_in_a_turn_about_something_else(
    talk: Talk, history: list[int], tables: str
) -> None:
    talk.forget(tables)
    said = talk.says("Leave that; we use port 8080")
    talk.reopen()
    talk.agent.do("/forget the weather", asking=IN_CHAT)
    assert talk.planning is not None
    assert talk.ids == [*history, said, talk.planning.first]


def test_restoring_the_end_of_planning_does_not_reopen_it(talk: Talk, history: list[int], tables: str) -> None:
    talk.forget(tables)
    first = talk.planning.first if talk.planning else 0
    said = talk.exchange("Leave that", "Good.")
    ended = _newest_filter(talk)
    talk.agent.do(f"/restore {ended}")
    assert first in talk.ids
    assert talk.ids[-2:] == said
    assert talk.planning is None
    talk.says("yes")
    assert "no planning conversation is open" in talk.tool(action="apply")["error"]


def test_without_planning_the_end_of_a_turn_is_not_an_operation(talk: Talk, history: list[int]) -> None:
    agent = talk.agent
    event = selections.event(stored(agent.log), agent.standing().newest)
    assert event is not None
    assert (event.kind, event.data) == ("turn_ended", None)
    assert selections.operations(stored(agent.log), agent.id) == []


# A crash


def test_the_doctor_finds_no_fault_while_planning_is_being_closed(talk: Talk, history: list[int], tables: str) -> None:
    talk.forget(tables)
    talk.says("Yes")
    talk.tool(action="apply")
    assert list(examine(talk.log)) == []


def test_planning_is_closed_after_a_crash_in_the_turn_of_the_filter(
    talk: Talk, history: list[int], tables: str
) -> None:
    talk.forget(tables)
    talk.says("Yes")
    args = {"action": "apply"}
    talk.agent.append_tool_call("filter_context", args, call_id="c", dialect="openai")
    talk.agent.call_tool("filter_context", args)
    talk.reopen()
    left = history[:2] + history[4:]
    assert talk.ids == left
    assert talk.sent()[4] == f"/forget {tables}"
    talk.agent.end_turn(interrupted=True)
    assert talk.ids == left
    assert talk.planning is None
    assert talk.sent()[-2:] == ["Dry.", "[Go on.]"]
    after = talk.exchange("What now?", "Go on.")
    assert talk.ids == left + after


def test_forgetting_more_after_a_crash_in_the_turn_of_the_filter(talk: Talk, history: list[int], tables: str) -> None:
    """The open turn ends first, so the next planning conversation does not belong to it."""
    talk.forget(tables)
    talk.says("Yes")
    talk.tool(action="apply")
    talk.reopen()
    talk.agent.do(f"/forget messages {history[4]}-{history[5]}", asking=IN_CHAT)
    assert talk.planning is not None
    assert talk.texts[-1].startswith("/forget")
    assert talk.tool(action="preview")["message_count"] == 2
    talk.applied()
    assert talk.ids == history[:2]


def test_forget_closes_a_turn_that_a_crash_left_open(talk: Talk, history: list[int], tables: str) -> None:
    cut = talk.says("What about this?")
    talk.reopen()
    begun = talk.agent.do(f"/forget {tables}", asking=IN_CHAT).data["planning"]
    assert talk.agent.open_turn == begun
    ended = [e for e in stored(talk.log).events(range(cut, begun)) if e.kind == "turn_ended"]
    assert [e.interrupted for e in ended] == [True]
    talk.agent.do("/undo")
    assert talk.ids == [*history, cut]


# High pressure: ephemeral mode, chunks


def _filled(talk: Talk, tokens: int, turns: int = 20) -> list[list[int]]:
    """Append turns of equal size with about `tokens` tokens in total; return the message ids of each."""
    text = "x" * (4 * tokens // turns // 2)
    agent, ids = talk.agent, []
    with agent.batch():
        for number in range(turns):
            ids.append([agent.append("user", f"{number} {text}"[: len(text)]), agent.append("assistant", text)])
            agent.end_turn()
    return ids


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Talk]:
    with Talk(tmp_path / "log.db") as talk:
        talk.agent.do("/system edit Be brief.")
        talk.agent.do("/context budget 0")
        talk.agent.record("scratchpad", "a note")
        yield talk


def test_from_80_percent_only_the_planning_conversation_is_sent(one: Talk) -> None:
    turns = _filled(one, WINDOW * 80 // 100)
    assert len(one.sent()) == 42  # without planning: the scratchpad, all messages and "[Go on.]"
    one.agent.record("state", "a state")
    one.agent.do(f"/forget messages {turns[0][0]}", asking=IN_CHAT)
    request = one.agent.request("openai", "nameless")
    system, *rest = request.body["messages"]
    assert [message["content"] for message in rest] == [f"/forget messages {turns[0][0]}"]
    assert system["content"].startswith("Be brief.")
    assert "a state" not in system["content"]
    assert "a note" not in system["content"]
    assert request.manifest.edge.why == "planning"
    assert request.manifest.edge.before == 40
    one.tool(action="preview")
    assert len(one.sent()) == 3
    one.answers("Should I proceed?")
    one.says("Yes")
    assert one.sent()[0].startswith("/forget")
    assert one.sent()[-2:] == ["Should I proceed?", "Yes"]
    assert one.tool(action="apply")["messages_filtered"] == 1
    one.answers("Done.")
    assert len(one.ids) == 39
    assert len(one.sent()) == 42  # the first message is now a model's, so a text precedes it


def test_below_80_percent_everything_is_sent(one: Talk) -> None:
    one.agent.configure("tools", "slash, filter_context")
    turns = _filled(one, WINDOW * 79 // 100)
    one.agent.do(f"/forget messages {turns[0][0]}", asking=IN_CHAT)
    assert len(one.sent()) == 42
    one.agent.do("/cancel")
    assert len(one.ids) == 40


SHARES = [(10, 1), (49, 1), (51, 2), (79, 2), (81, 3), (84, 3), (86, 4), (89, 4), (91, 5), (99, 5), (110, 6), (215, 11)]
"""Percent of the window, and the number of chunks by SPEC 4.2."""


@pytest.mark.parametrize(("share", "count"), SHARES)
def test_chunks_by_the_table(one: Talk, share: int, count: int) -> None:
    asked: list[Request] = []
    told: list[tuple[int, int]] = []
    turns = _filled(one, WINDOW * share // 100, 22)
    one.agent.record("state", "a state")
    other = one.log.agent("other").append("user", "elsewhere")
    one.agent.do("/model openai/nameless")
    planned = one.agent.do("/forget the oldest", asking=IN_CHAT).data["planning"]

    def complete(request: Request) -> str:
        # The answer has ids of all sorts for every chunk; only those in the chunk itself may count.
        asked.append(request)
        return (
            f"Those are\n[{turns[0][0]}, {turns[0][1]}, {planned}, {other}, 0, 999999]" if len(asked) == 1 else "[1-9]"
        )

    answered_by(complete)
    found = one.tool(Asking(progress=lambda done, total: told.append((done, total))), action="preview")
    assert len(asked) == count
    read, of = zip(*told, strict=True)
    assert (len(read), read[0], read[-1], set(of)) == (count + 1, 0, len(turns), {len(turns)})
    assert sorted(set(read)) == list(read)
    in_chunks = []
    for request in asked:
        assert (request.provider, request.model, request.purpose) == ("openai", "nameless", "match")
        assert set(request.body) == {"model", "messages"}
        system, question = request.body["messages"]
        assert system == {"role": "system", "content": "Be brief."}
        assert question["role"] == "user"
        lines = question["content"].splitlines()
        ids = [int(line[1 : line.index("]")]) for line in lines if line.startswith("[")]
        assert "the oldest" in question["content"].rpartition(f"[{ids[-1]}]")[2]
        assert any(turn[0] == ids[0] for turn in turns)
        assert any(turn[1] == ids[-1] for turn in turns)
        in_chunks.append(ids)
    assert [id for ids in in_chunks for id in ids] == [id for turn in turns for id in turn]
    assert [each["id"] for each in found["matching_messages"]] == turns[0]
    assert (found["message_count"], found["added"]) == (2, [])


def test_ids_outside_of_their_chunk_are_ignored(one: Talk) -> None:
    turns = _filled(one, WINDOW * 60 // 100, 4)
    one.agent.do("/model openai/nameless")
    one.agent.do("/remember this", asking=IN_CHAT)
    answers = [f"[{turns[3][0]}]", f"[{turns[0][0]}]"]
    answered_by(lambda request: answers.pop(0))
    found = one.tool(action="preview")
    assert answers == []
    assert (found["message_count"], found["matching_messages"], found["everything_else"]) == (0, [], 8)


@pytest.mark.parametrize("answer", ["", "   \n", "I would say 12 or 13, hard to tell.", "{broken 7"])
def test_a_model_that_answers_nonsense_changes_nothing(one: Talk, answer: str) -> None:
    _filled(one, 1000, 2)
    one.agent.do("/model openai/nameless")
    one.agent.do("/forget this", asking=IN_CHAT)
    answered_by(lambda request: answer)
    before = one.agent.standing().record.head
    with pytest.raises(FoldmarkError):
        one.agent.call_tool("filter_context", {"action": "preview"})
    assert one.agent.standing().record.head == before
    assert one.planning is not None
    assert one.planning.preview is None


def test_a_model_that_fails_in_the_second_chunk_changes_nothing(one: Talk) -> None:
    turns = _filled(one, WINDOW * 60 // 100, 4)
    one.agent.do("/model openai/nameless")
    one.agent.do("/forget this", asking=IN_CHAT)
    answers = [f"[{turns[0][0]}]"]

    def complete(request: Request) -> str:
        if not answers:
            raise FoldmarkError("the provider is not there")
        return answers.pop()

    answered_by(complete)
    with pytest.raises(FoldmarkError, match="not there"):
        one.agent.call_tool("filter_context", {"action": "preview"})
    assert one.planning is not None
    assert one.planning.preview is None


# Operations in any order

STEPS = st.lists(
    st.sampled_from(
        [
            *("/forget Hello", "/remember Hello", "/cancel", "/clear", "/mark M", "/rewind M", "/undo", "/fork"),
            *("restore", "preview", "apply", "yes", "no", "answer", "end", "reopen", "message"),
        ]
    ),
    min_size=5,
    max_size=40,
)


@settings(max_examples=settings().max_examples // 3)
@given(steps=STEPS)
def test_planning_stays_sound_in_any_order_of_steps(tmp_path_factory: pytest.TempPathFactory, steps: list[str]) -> None:
    with Talk(tmp_path_factory.mktemp("any") / "log.db") as talk:
        talk.exchange("Hello", "Hello.")
        talk.exchange("Which tables?", "Two tables.")
        closed: set[int] = set()
        for step in steps:
            before = talk.planning
            try:
                _take(talk, step)
            except CommandError:
                assert talk.planning == before
            now = talk.planning
            if before is not None and (now is None or now.first != before.first):
                closed.add(before.first)
            if now is not None:
                assert now.first not in closed
                assert now.first in talk.ids
            talk.sent()
            messages = list(talk.agent.context().messages)
            ids = {message.id for message in messages}
            assert all(message.answers in ids for message in messages if message.kind == "tool_result")
        talk.agent.end_turn()
        after = talk.exchange("What now?", "Go on.")
        assert talk.ids[-2:] == after


def _take(talk: Talk, step: str) -> None:
    match step:
        case "restore":
            talk.agent.do(f"/restore {talk.agent.standing().fold.at}")
        case "preview":
            talk.tool(action="preview")
        case "apply":
            talk.tool(action="apply")
        case "yes" | "no" | "message":
            talk.says(step)
        case "answer":
            talk.answers("Well.")
        case "end":
            talk.agent.end_turn()
        case "reopen":
            talk.reopen()
        case _:
            talk.agent.do(step)
