"""Reasons, `/operations`, `/marks`, drops of several turns and previews (SPEC 3, 4, 5.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import foldmark
from foldmark import Agent, CommandError, Log
from foldmark.commands import REGISTRY
from foldmark.core import selections
from foldmark.core.events import Clear, Drop
from foldmark.cost.requests import Next, preview, priced
from foldmark.operations import decide
from foldmark.operations.history import newest_restorable
from foldmark.rendering import result_text
from planning_talk import IN_CHAT
from steps import work
from stored import connection, stored

CACHING = "anthropic/claude-sonnet-4-5"
NOW = "2026-03-04T05:06:07.000000Z"


@pytest.fixture
def log() -> Iterator[Log]:
    with foldmark.open(":memory:") as log:
        log.clock = lambda: NOW
        yield log


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("root")


def said(agent: Agent, *texts: str, calls: int = 0) -> list[int]:
    """Append one turn for each text, each with `calls` tool calls; return the ids of the turns."""
    turns = []
    for text in texts:
        turns.append(agent.append("user", text))
        for number in range(calls):
            agent.append_tool_call("f", {}, call_id=f"{text} {number}")
            agent.append_tool_result(f"{text} {number}", "found")
        agent.append("assistant", f"about {text}")
        agent.end_turn()
    return turns


def refused(agent: Agent, line: str, actor: str = "human") -> str:
    """Assert that a line is refused and writes nothing; return the message."""
    before = agent.standing().newest
    with pytest.raises(CommandError) as caught:
        agent.do(line, actor=actor)
    assert agent.standing().newest == before
    return str(caught.value)


def written(log: Log) -> int:
    """Return the number of rows that this connection has changed so far."""
    return int(connection(log).total_changes())


# Reasons


LINES = [
    "/mark N",
    "/mark",
    "/clear",
    "/clear M",
    "/rewind",
    "/rewind M",
    "/fork",
    "/fork M",
    "/undo",
    "/restore 4",
    "/summarize",
    "/summarize M",
    "/pin 1",
    "/unpin 5",
    "/context drop 1",
    "/context drop 1 5-8",
    "/message remove 1 --yes",
]


@pytest.mark.parametrize("line", LINES)
def test_every_operation_takes_a_reason(log: Log, agent: Agent, line: str) -> None:
    said(agent, "one")
    agent.do("/mark M")
    (two,) = said(agent, "two")
    agent.do(f"/pin {two}")
    result = agent.do(f"{line} -- wrong  file -- or not")
    event = selections.event(stored(log), result.event_id or 0)
    assert event is not None
    assert event.reason == result.data["reason"] == "wrong  file -- or not"
    assert " · reason: wrong  file -- or not" in result_text(result)
    assert f"Reason: {event.reason}." in agent.do(f"/context explain {event.id}").text
    assert agent.do(f"/context explain {event.id}").data["did"]["reason"] == event.reason
    assert f"{event.kind} (by a human): {event.reason}" in agent.do(f"/context diff {event.id - 1}").text
    assert agent.do(f"/context diff {event.id - 1}").data["operations"][-1]["reason"] == event.reason
    assert f" · reason: {event.reason}" in agent.do("/operations").text
    assert agent.do("/operations").data["operations"][-1]["reason"] == event.reason


def test_a_list_of_operations_costs_as_much_as_there_are(agent: Agent) -> None:
    taken = []
    for _ in range(3):
        for _ in range(20):
            agent.do("/mark M")
        taken.append(work(lambda: agent.do("/operations")))
    assert taken[2] - taken[1] < 1.2 * (taken[1] - taken[0])


def test_an_event_that_left_is_explained_with_the_reason(agent: Agent) -> None:
    (one,) = said(agent, "one")
    drop = agent.do(f"/context drop {one} -- wrong file").event_id
    explained = agent.do(f"/context explain {one}")
    assert f"drop {drop} (by a human, 2026-03-04T05:06:07Z, reason: wrong file); /restore {drop}" in explained.text
    assert explained.data["because"] == [
        {"id": drop, "operation": "drop", "actor": "human", "reason": "wrong file"},
    ]


def test_a_model_gives_a_reason_through_its_tool(log: Log, agent: Agent) -> None:
    said(agent, "one")
    agent.call_tool("slash", {"command": "mark", "args": "M -- before the risky part"})
    (mark,) = selections.operations(stored(log), agent.id)
    assert (mark.actor, mark.reason) == ("model", "before the risky part")
    assert agent.context().marks == {"M": mark.id}


def test_the_library_gives_a_reason(log: Log, agent: Agent) -> None:
    (one,) = said(agent, "one")
    event = selections.event(stored(log), agent.apply_filter("forget", [one], reason=" off topic "))
    assert event is not None
    assert event.reason == "off topic"
    with pytest.raises(CommandError, match="a reason must be a text, not 5"):
        agent.apply_filter("forget", [one + 1], reason=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/undo --", "the reason is empty; write it after `--`, or leave out `--`"),
        ("/undo --  \t", "the reason is empty; write it after `--`, or leave out `--`"),
        (f"/undo -- {'x' * 501}", "a reason has at most 500 characters, not 501; shorten it"),
        ("/undo because", "unexpected argument 'because'; usage: /undo [--preview] [-- REASON]"),
        ("/context window 3 -- why", "unexpected argument '-- why'; usage: /context window N"),
        ("/operations -- why", "unexpected argument 'why'; usage: /operations [N]"),
    ],
)
def test_wrong_reasons(agent: Agent, line: str, message: str) -> None:
    said(agent, "one")
    assert refused(agent, line) == message


def test_free_text_keeps_its_dashes(agent: Agent) -> None:
    assert selections.event(stored(agent.log), agent.do("/note a -- b").data["message"]).content == "a -- b"  # type: ignore[union-attr]
    assert not any(REGISTRY.commands[name].reason for name in ("note", "send", "forget", "remember", "memo add"))


def test_a_key_in_a_reason_is_not_recorded(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key-0123456789")
    with foldmark.open(tmp_path / "log.db") as log:
        agent = log.agent("root")
        said(agent, "one")
        agent.do("/undo -- it held sk-very-secret-key-0123456789")
        (undo,) = selections.operations(stored(log), agent.id)
        assert undo.reason is not None
        assert undo.reason.startswith("it held ")
        assert "secret-key" not in undo.reason


def test_a_reason_is_erased_with_its_turn(log: Log, agent: Agent) -> None:
    turn = agent.append("user", "one")
    mark = agent.do("/mark M -- says too much").event_id or 0
    agent.end_turn()
    agent.do(f"/message remove {turn} --yes")
    event = selections.event(stored(log), mark)
    assert event is not None
    assert event.reason is None
    assert agent.context().marks == {"M": mark}
    assert list(log.store.damage()) == []


# How to undo


@pytest.mark.parametrize("line", [line for line in LINES if "fork" not in line and "remove" not in line])
def test_every_receipt_ends_with_the_way_back(agent: Agent, line: str) -> None:
    said(agent, "one")
    agent.do("/mark M")
    (two,) = said(agent, "two")
    agent.do(f"/pin {two}")
    before = agent.context()
    result = agent.do(line)
    way_back = result_text(result).splitlines()[-1].rpartition(" · ")[2]
    assert way_back == result.data["back"] == f"/restore {result.event_id}"
    agent.do(way_back)
    after = agent.context()
    assert [m.id for m in after.messages] == [m.id for m in before.messages]
    assert (after.marks, after.pins) == (before.marks, before.pins)


def test_what_nothing_takes_back_has_no_way_back(agent: Agent) -> None:
    (one,) = said(agent, "one")
    for line in ("/fork", f"/message remove {one} --yes"):
        result = agent.do(line)
        assert result.data["back"] is None
        assert "/restore" not in result_text(result)


# Drops of several turns


def test_several_turns_leave_in_one_operation(log: Log, agent: Agent) -> None:
    turns = said(agent, *"abcdefgh")
    result = agent.do(f"/context drop {turns[6]},{turns[0]} {turns[2]}-{turns[4] + 1} {turns[3]}")
    gone = [turns[each] for each in (0, 2, 3, 4, 6)]
    assert result.text == f"Turns {', '.join(map(str, gone))} left the context."
    assert (result.data["turns"], result.data["turn"]) == (gone, gone[0])
    assert result.data["left"]["messages"] == 10
    assert [turn.id for turn in agent.context().turns(9)] == [turns[1], turns[5], turns[7]]
    (event,) = selections.operations(stored(log), agent.id)
    assert (event.data or {})["others"] == gone[1:]
    agent.do(f"/restore {event.id}")
    assert [turn.id for turn in agent.context().turns(9)] == turns


def test_dropping_together_is_dropping_one_by_one(agent: Agent) -> None:
    turns = said(agent, *"abcdef", calls=2)
    with agent.reading() as (moment, at):
        together = decide.drop(moment, at, [turns[1], (turns[3], turns[4])])
        drops = [decide.drop(moment, at, [turns[each]]) for each in (1, 3, 4)]
    agent.operate(lambda *_: together)
    shown = agent.context().segments
    agent.do(f"/restore {agent.standing().newest}")
    for each in drops:
        agent.operate(lambda _, at, each=each: each)  # type: ignore[misc]
    assert agent.context().segments == shown


def test_a_range_takes_what_shows_something(log: Log, agent: Agent) -> None:
    """It skips turns already gone and those of other conversations; a child drops inherited turns for itself only."""
    one, two = said(agent, "one", "two")
    (other,) = said(log.agent("other"), "other")
    (three,) = said(agent, "three")
    agent.do(f"/context drop {two}")
    child = log.agent(agent.do("/fork").data["child"])
    (four,) = said(child, "four")
    assert other < three
    assert child.do(f"/context drop 1-{2**70}").data["turns"] == [one, three, four]
    assert [turn.id for turn in agent.context().turns(9)] == [one, three]
    assert len(child.context().messages) == 0


def test_calls_that_were_answered_elsewhere_go_along(agent: Agent) -> None:
    one = agent.append("user", "look")
    agent.append_tool_call("f", {}, call_id="c")
    (two,) = said(agent, "two")  # joins the turn of the call and ends it
    late = agent.append_tool_result("c", "late")
    agent.end_turn()
    assert two > one
    result = agent.do(f"/context drop {one}")
    assert result.data["widened"] == [late]
    assert len(agent.context().messages) == 0


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("1 99", "turn 99 is not in the context; newest turns: 4, 1"),
        ("1 2", "turn 2 is not in the context; newest turns: 4, 1"),
        ("50-60", "no turn from 50 to 60 is in the context; newest turns: 4, 1"),
        ("4-1", "the range 4-1 is reversed; write 1-4"),
        ("1 x", "GID must be a number, not 'x'; for example /context drop 12"),
        ("1-x", "GID must be a number, not 'x'; for example /context drop 12"),
        ("-4", "GID must be a number, not '-4'; for example /context drop 4"),
        ("1-", "GID must be a number, not '1-'; for example /context drop 1"),
        ("1-2-3", "GID must be a number, not '2-3'; for example /context drop 2"),
        (",", "no turn was named; newest turns: 4, 1"),
    ],
)
def test_wrong_turns(agent: Agent, named: str, message: str) -> None:
    said(agent, "one", "two")
    assert refused(agent, f"/context drop {named}") == message


def statements(log: Log, act: Callable[[], object]) -> int:
    """Return the number of statements that `act` runs."""
    ran: list[str] = []

    def trace(_: object, sql: str, __: object) -> bool:
        ran.append(sql)
        return True

    connection(log).exec_trace = trace
    try:
        act()
    finally:
        connection(log).exec_trace = None
    return len(ran)


def dropped(agent: Agent, wanted: list[tuple[int, int]]) -> Drop:
    with agent.reading() as (moment, at):
        return decide.drop(moment, at, wanted)


def test_the_cost_of_a_drop_follows_the_turns_named(log: Log, agent: Agent) -> None:
    """It depends neither on their messages nor on the history; one statement reads all turns."""
    counts = {}
    for calls in (1, 40):
        for turns in (1, 10):
            made = said(agent, *(f"{calls} {number}" for number in range(turns)), calls=calls)
            wanted = [(made[0], made[-1])]
            counts[calls, turns] = statements(log, lambda: dropped(agent, wanted))  # noqa: B023
    assert len(set(counts.values())) == 1


# Lists


def test_operations_in_force_and_taken_back(agent: Agent) -> None:
    assert agent.do("/operations").text == "There is no operation yet."
    (one,) = said(agent, "one")
    mark = agent.do("/mark M").event_id
    said(agent, "two")
    rewind = agent.do("/rewind", actor="human").event_id
    restore = agent.do(f"/restore {rewind} -- too early").event_id
    drop = agent.do(f"/context drop {one}").event_id
    fork = agent.do("/fork").data["child"]
    agent.do(f"/message remove {one} --yes")
    result = agent.do("/operations")
    assert result.event_id is None
    assert result.text.splitlines() == [
        f"     4 · 2026-03-04 05:06 · human · mark 'M' · /restore {mark}",
        (
            "     8 · 2026-03-04 05:06 · human · rewind to 'M' · 2 messages (~4 recorded tokens) left · "
            "taken back by 9 · /restore 9"
        ),
        (
            "     9 · 2026-03-04 05:06 · human · restore of operation 8 · reason: too early · "
            f"2 messages (~4 recorded tokens) came back · /restore {restore}"
        ),
        f"    10 · 2026-03-04 05:06 · human · drop of turn 1 · 2 messages (~4 recorded tokens) left · /restore {drop}",
        f"    11 · 2026-03-04 05:06 · human · fork of child {fork[:8]}",
        "    12 · 2026-03-04 05:06 · human · erasure of turn 1",
    ]
    rows = result.data["operations"]
    assert [row["in_force"] for row in rows] == [True, False, True, True, True, True]
    assert [row["back"] for row in rows] == ["/restore 4", "/restore 9", "/restore 9", "/restore 10", None, None]
    assert agent.do("/restore").data == result.data
    assert agent.do("/operations 2").text.splitlines()[0] == "4 older operations; /operations 6 lists all"
    assert len(agent.do("/operations 2").data["operations"]) == 2
    assert refused(agent, "/operations 0").startswith("N is the number of operations to list")


def test_words_for_every_operation(agent: Agent) -> None:
    one, two, three = said(agent, "one", "two", "three")
    for line in ("/mark M", f"/pin {one}", f"/unpin {one}", "/fork M", "/undo", f"/context drop {one} {two}"):
        agent.do(line)
    agent.do("/restore 15")
    agent.do("/clear M")
    agent.do("/summarize")
    agent.do("/clear")
    said(agent, "four")
    agent.apply_filter("forget", [agent.context().messages[0].id], criteria="the  schema")
    agent.apply_filter("remember", [agent.context().messages[0].id])
    agent.do("/forget one", asking=IN_CHAT)
    agent.do("/cancel")
    words = [row["words"] for row in agent.do("/operations").data["operations"]]
    child = agent.children[0].id[:8]
    assert words == [
        "mark 'M'",
        f"pin of turn {one}",
        f"end of the pin of turn {one}",
        f"fork of child {child} from 'M'",
        f"undo of turn {three}",
        f"drop of turns {one}, {two}",
        "restore of operation 15",
        "rewind to 'M'",
        "summary of everything",
        "clear",
        "forget 'the  schema'",
        "remember",
        "end of a planning conversation without a filter",
    ]


def test_a_restore_that_was_restored_brings_the_operation_into_force(agent: Agent) -> None:
    said(agent, "one")
    for line in ("/clear", "/restore 4", "/restore 5"):
        agent.do(line)
    assert [row["taken_back_by"] for row in agent.do("/restore").data["operations"]] == [None, 6, None]
    assert "It is in force; /restore 4 takes it back." in agent.do("/context explain 4").text
    assert (
        "Operation 6 took it back; /restore 6 would bring it into force again." in agent.do("/context explain 5").text
    )


def test_marks_with_what_lies_after_them(agent: Agent) -> None:
    assert agent.do("/marks").text == "No checkpoint yet. Use /mark."
    agent.do("/mark A -- the beginning")
    said(agent, "first things")
    agent.do("/mark B")
    (gone, _) = said(agent, "gone", "later")
    agent.do(f"/context drop {gone}")
    agent.do("/mark C")
    result = agent.do("/marks")
    at = "2026-03-04 05:06 · human"
    assert result.text.splitlines() == [
        (
            f"A · event 1 · {at} · reason: the beginning · 4 messages (~13 recorded tokens) after it · first things · "
            "/rewind A"
        ),
        f"B · event 5 · {at} · 2 messages (~5 recorded tokens) after it · later · /rewind B",
        f"C · event 13 · {at} · nothing after it",
    ]
    for mark in result.data["marks"]:
        assert agent.do(f"/rewind {mark['name']} --preview").data["left"] == mark["after"]


def test_an_operation_of_the_parent_is_told_as_it_was(log: Log, agent: Agent) -> None:
    (one,) = said(agent, "one")
    drop = agent.do(f"/context drop {one} -- wrong").event_id
    agent.append("user", "two")
    agent.end_turn()
    child = log.agent(agent.do("/fork").data["child"])
    agent.do(f"/restore {drop}")
    explained = child.do(f"/context explain {drop}")
    assert explained.data["reason"] in ("metadata", "not inherited")
    assert child.do("/operations").data["operations"] == []


# Previews


PREVIEWED = [
    "/clear",
    "/clear M",
    "/rewind",
    "/undo",
    "/context drop 1",
    "/context drop 1-8 12",
    "/restore 16",
    "/summarize",
    "/summarize M",
]


@pytest.fixture
def talk(agent: Agent) -> Agent:
    """An agent with turns 1, 5 | mark 8 | 9, 12, where operation 17 dropped turn 5; its model has a cache."""
    said(agent, "one " * 300)
    agent.record("state", "Goal: one")
    said(agent, "two " * 300)
    agent.do("/mark M")
    said(agent, "three " * 300, "four " * 300)
    agent.do("/undo")
    agent.do("/restore 15")
    agent.do("/context drop 5")
    agent.configure("model", CACHING)
    assert [(event.id, event.kind) for event in selections.operations(stored(agent.log), agent.id)] == [
        (8, "mark"),
        (15, "undo"),
        (16, "restore"),
        (17, "drop"),
    ]
    return agent


@pytest.mark.parametrize("line", PREVIEWED)
def test_a_preview_says_what_the_receipt_will(
    log: Log, talk: Agent, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldmark.commands.context.summarized", lambda *_: "short")
    context, before = talk.context(), written(log)
    previewed = talk.do(f"{line} --preview")
    assert (previewed.event_id, previewed.data["preview"]) == (None, True)
    assert previewed.text.splitlines()[0].endswith("Nothing was changed.") or "/summarize" in line
    assert written(log) == before
    assert talk.context().at == context.at
    done = talk.do(line)
    for name in ("operation", "left", "returned", "before", "cached_prefix"):
        assert previewed.data[name] == done.data[name], name
    if "/summarize" not in line:
        assert previewed.data["after"] == done.data["after"]
        assert previewed.data["next"]["tokens"] == talk.request().tokens


@pytest.mark.parametrize("line", PREVIEWED)
def test_a_preview_interrupts_nobody(line: str) -> None:
    assert REGISTRY.interrupts(line)
    assert not REGISTRY.interrupts(f"{line} --preview")
    assert not REGISTRY.interrupts("/restore")


def test_a_preview_of_what_is_wrong_is_refused_as_it_would_be(talk: Agent) -> None:
    for line in ("/clear NONE", "/context drop 99", "/restore 1", "/summarize NONE"):
        assert refused(talk, f"{line} --preview") == refused(talk, line)


def test_a_filter_whose_ids_are_known_is_previewed(log: Log, talk: Agent) -> None:
    before = written(log)
    found = preview(talk, lambda moment, at: decide.filter(moment, at, "forget", [1, 9], None, "numbers"))
    assert written(log) == before
    talk.apply_filter("forget", [1, 9], criteria="numbers")
    (event,) = selections.operations(stored(log), talk.id, after=17)
    told = {name: size for name, size in found.outcome.data().items() if name != "after"}
    assert told == (event.data or {})["receipt"]
    assert found.next.tokens == talk.request().tokens


def test_a_preview_prices_the_next_request(talk: Agent) -> None:
    """Claude Sonnet 4.5 costs $3 per million tokens, a tenth of it for cache reads, a quarter more for writes."""
    known = talk.log.model_named(CACHING)
    assert (known.input_price, known.cache_read, known.cache_write) == (3.0, 0.1, 1.25)
    without = talk.request()
    same = priced(without, without, known)
    assert same == Next(without.tokens, without.tokens, without.tokens, 0, 0.0, 0, 0.0)
    assert same.even is None
    cost = preview(talk, lambda moment, at: decide.drop(moment, at, [9])).next
    assert cost.without == without.tokens
    assert 0 < cost.held < cost.tokens < cost.without
    more = round(cost.held * 0.1 + (cost.tokens - cost.held) * 1.25 - without.tokens * 0.1)
    assert (cost.more, cost.dollars) == (more, more * 3.0 / 1e6)
    assert more > 0
    assert cost.saved == round((cost.without - cost.tokens) * 0.1)
    assert cost.even is not None
    assert (cost.even - 2) * cost.saved < more <= (cost.even - 1) * cost.saved
    said = talk.do("/context drop 9 --preview").text.splitlines()
    percent = talk.do("/context drop 9 --preview").data["cached_prefix"]["percent"]
    assert said[2] == f"  {percent}% of the cached prompt would hold, {100 - percent}% would break"
    assert said[3] == (
        f"  next request ~{cost.tokens:,} tokens instead of ~{cost.without:,}, ~{cost.again:,} of them "
        f"not in the cache; it would cost ~{more:,} input tokens (${cost.dollars:,.4f}) more, "
        f"each later one ~{cost.saved:,} input tokens (${cost.saved_dollars:,.4f}) less: even after {cost.even} "
        "requests"
    )


def test_restoring_again_and_again_walks_back(talk: Agent) -> None:
    found = []
    while (newest := _newest(talk)) is not None:
        found.append(newest)
        talk.do(f"/restore {newest}")
    assert found == [17, 8]
    assert [turn.id for turn in talk.context().turns(9)] == [1, 5, 9, 12]


def _newest(agent: Agent) -> int | None:
    with agent.reading() as (moment, at):
        return newest_restorable(moment, at)


def test_taking_the_end_away_breaks_little(talk: Agent) -> None:
    talk.configure("context_policy", "eager")  # at a boundary of `steady` older results are also cut
    end, begin = (preview(talk, lambda moment, at, turn=turn: decide.drop(moment, at, [turn])).next for turn in (12, 1))  # type: ignore[misc]
    assert end.held > begin.held
    assert end.more < 0 < begin.more


def test_without_a_cache_only_tokens_are_told(agent: Agent) -> None:
    said(agent, "one", "two")
    result = agent.do("/undo --preview")
    assert len(result.text.splitlines()) == 3
    assert "cache" not in result.text
    assert "cost" not in result.text
    assert result.data["next"]["held"] == 0
    cost = preview(agent, lambda *_: Clear()).next
    assert cost.tokens < cost.without


def test_an_erased_operation_still_says_what_it_did(agent: Agent) -> None:
    turn = agent.append("user", "one")
    drop = agent.do(f"/context drop {turn} -- a secret word").event_id
    agent.end_turn()
    agent.do(f"/message remove {turn} --yes")
    explained = agent.do(f"/context explain {drop}")
    assert f"What it did: drop of turn {turn}, by a human" in explained.text
    assert "secret" not in explained.text
    assert explained.data["reason"] == "erased"
