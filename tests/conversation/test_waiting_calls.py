"""A result in a batch finds its call without a look-up, and only while nothing can have hidden the call [SPEC 3]."""

from __future__ import annotations

from typing import Any

import foldmark
from foldmark.core import selections
from stored import connection


def test_a_result_after_its_call_in_a_batch_reads_nothing() -> None:
    with foldmark.open(":memory:") as log:
        agent = log.agent("default")
        agent.append("user", "Read both.")
        run: list[str] = []

        def note(_: Any, sql: str, __: Any) -> bool:
            run.append(sql)
            return True

        with agent.batch():
            calls = [agent.append_tool_call("read", {"path": id}, call_id=id) for id in ("a", "b")]
            connection(log).exec_trace = note
            results = [agent.append_tool_result(id, "text") for id in ("b", "a")]
            connection(log).exec_trace = None
        assert not any(sql.lstrip().startswith("SELECT") for sql in run), run
        events = {event.id: event for event in agent.context().messages}
        assert [events[each].answers for each in results] == calls[::-1]


def test_a_call_that_left_in_the_batch_gets_a_notice() -> None:
    with foldmark.open(":memory:") as log:
        agent = log.agent("default")
        agent.append("user", "Begin.")
        agent.end_turn()
        with agent.batch():
            turn = agent.append("user", "Read.")
            agent.append_tool_call("read", {}, call_id="a")
            agent.do(f"/context drop {turn}")
            notice = agent.append_tool_result("a", "the text")
        with log.store.read() as moment:
            event = selections.event(moment, notice)
        assert event is not None
        assert event.kind == "user"
        assert "the text" in event.content


def test_two_calls_with_one_id_and_the_end_of_a_turn() -> None:
    with foldmark.open(":memory:") as log:
        agent = log.agent("default")
        with agent.batch():
            agent.append("user", "Read.")
            first, second = (agent.append_tool_call("read", {}, call_id="a") for _ in range(2))
            results = [agent.append_tool_result("a", "text") for _ in range(2)]
            third = agent.append_tool_call("read", {}, call_id="c")
            agent.end_turn()
            agent.append("user", "More.")
            late = agent.append_tool_result("c", "late")
        with log.store.read() as moment:
            found = [event.answers for event in moment.events([*results, late])]
        assert found[:2] == [second, first]
        assert found[2] == third
