"""The cost of an operation does not grow with the history (SPEC 3, L3), counted in steps and calls, not in time."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import foldmark
from foldmark.core import replay, selections
from foldmark.core.assembly.prompt import Prompt
from foldmark.core.ports import Snapshot
from foldmark.core.replay import Recorded, counting
from foldmark.core.segments import Segment
from foldmark.log.doctor import examine
from foldmark.operations.effects import Asking
from foldmark.request.planned import Target
from planning_talk import IN_CHAT
from sampled import DEEP
from steps import steps
from stored import connection, stored

YES = Asking(lambda question: True)


def conversation(log: foldmark.Log, turns: int) -> list[int]:
    """Make a conversation of `turns` turns and return their ids."""
    agent = log.agent("default")
    found = []
    with agent.batch():
        for number in range(turns):
            found.append(agent.append("user", f"Question {number}"))
            agent.append("assistant", f"Answer {number}")
            agent.end_turn()
    return found


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "one by one"])
@pytest.mark.parametrize("order", [1, -1], ids=["in order", "backwards"])
def test_a_result_costs_the_same_for_any_number_of_waiting_calls(together: bool, order: int) -> None:
    def cost(calls: int) -> float:
        with foldmark.open(":memory:") as log:
            agent = log.agent("default")
            with agent.batch():
                agent.append("user", "Read them all.")
                for number in range(calls):
                    agent.append_tool_call("read_file", {"path": "x"}, call_id=f"c{number}", dialect="openai")

            def answer() -> None:
                for number in range(calls)[::order]:
                    agent.append_tool_result(f"c{number}", "text", dialect="openai")

            def in_one_batch() -> None:
                with agent.batch():
                    answer()

            taken = steps(log, in_one_batch if together else answer)
            assert not selections.apart_results(stored(log), agent.id, 1)
            return taken / calls

    assert cost(400 if DEEP else 150) < 1.2 * cost(40 if DEEP else 15)


def test_the_standing_costs_the_same_for_any_number_of_states() -> None:
    def costs(states: int) -> dict[str, int]:
        with foldmark.open(":memory:") as log:
            agent = log.agent("default")
            with agent.batch():
                for number in range(states):
                    agent.append("user", f"Question {number}")
                    agent.record("state", f"Goal: {number}")
                    agent.record("scratchpad", f"Noted: {number}")
            newest = agent.standing().newest
            reads: dict[str, Callable[[Snapshot], object]] = {
                "head": lambda moment: moment.head(agent.id),
                "head until": lambda moment: moment.head(agent.id, until=newest),
                "newest": lambda moment: selections.newest(moment, "state", (Segment(agent.id, 1, newest),)),
                "recent": lambda moment: selections.recent(moment, "scratchpad", agent.id, newest, 2),
            }
            with log.store.read() as moment:
                return {name: steps(log, partial(read, moment)) for name, read in reads.items()}

    costs(2)  # warms up: some objects are made once per process
    assert costs(300) == costs(10)


def test_erasing_costs_the_same_for_any_number_of_later_messages() -> None:
    def cost(turns: int) -> int:
        with foldmark.open(":memory:") as log:
            agent, found = log.agent("default"), conversation(log, turns)
            taken = steps(log, lambda: agent.do(f"/message remove {found[3]}", asking=YES))
            assert len(agent.context().messages) == agent.context().size.messages == 2 * turns - 2
            assert list(examine(log)) == []
            return taken

    assert cost(2000 if DEEP else 1000) < 1.5 * cost(20)


def test_sums_stay_right_after_erasures_before_after_and_between() -> None:
    with foldmark.open(":memory:") as log:
        agent, found = log.agent("default"), conversation(log, 12)
        child = log.agent(agent.do("/fork").data["child"])
        for turn in (found[6], found[11], found[0], found[7], found[5]):
            agent.do(f"/message remove {turn}", asking=YES)
            agent.append("assistant", f"after {turn}")
            child.append("assistant", f"of the child, after {turn}")
            assert list(examine(log)) == []
            for each in (agent, child):
                messages = list(each.context().messages)
                assert each.context().size == (len(messages), sum(message.tokens for message in messages))


def test_pins_over_budget_are_left_out_in_few_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(pins: int) -> int:
        made = 0
        encode = Target.encoded

        def counting(self: Target, prompt: Prompt) -> tuple[dict[str, Any], bytes]:
            nonlocal made
            made += 1
            return encode(self, prompt)

        with foldmark.open(":memory:") as log:
            agent, found = log.agent("default"), conversation(log, pins + 1)
            with agent.batch():
                for turn in found[:-1]:
                    agent.do(f"/pin {turn}")
            agent.do("/config set sliding_context_tokens=4000")
            with monkeypatch.context() as patch:
                patch.setattr(Target, "encoded", counting)
                request = agent.request("openai", "gpt-5")
        gone = {each.turn for each in request.manifest.left_out if each.why == "pins"}
        assert gone == set(found[: len(gone)])  # the oldest pins are left out
        assert 0 < len(gone) < pins
        return made

    assert measured(800 if DEEP else 300) <= measured(200 if DEEP else 100) + 8


def test_the_list_of_conversations_takes_a_fixed_number_of_statements() -> None:
    def statements(conversations: int) -> int:
        with foldmark.open(":memory:") as log:
            here = log.agent("here")
            for number in range(conversations):
                log.agent(f"conversation {number}").append("user", "Hello")
            run: list[str] = []
            db = connection(log)

            def trace(_: object, sql: str, __: object) -> bool:
                run.append(sql)
                return True

            db.exec_trace = trace
            listed = here.do("/session list").data["conversations"]
            db.exec_trace = None
            assert len(listed) == conversations + 1
            assert [each["context"]["messages"] for each in listed if each["name"] != "here"] == [1] * conversations
            return len(run)

    assert statements(60) == statements(3)


def test_a_fork_of_a_fork_reads_no_sum_that_it_knows() -> None:
    """The inherited part grows with the depth of the tree; only the child's birth reads and writes it."""

    def cost(depth: int) -> int:
        with foldmark.open(":memory:") as log:
            agent = log.agent("default")
            for number in range(depth):
                agent.append("user", f"Question {number}")
                agent = log.agent(agent.do("/fork").data["child"])
            return steps(log, lambda: agent.do("/fork"))

    few, many = cost(10), cost(110)
    assert many - few < 100 * 40


@pytest.mark.parametrize("command", ["/undo", "/clear", "/context drop 4"])
def test_restoring_the_newest_operation_costs_the_same_for_any_history(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded = 0

    def counted(*given: Any) -> Iterator[Recorded]:
        nonlocal folded
        for each in counting(*given):
            folded += 1
            yield each

    monkeypatch.setattr(replay, "counting", counted)

    def cost(pairs: int) -> tuple[int, int]:
        nonlocal folded
        with foldmark.open(":memory:") as log:
            agent = log.agent("default")
            conversation(log, 4)
            for _ in range(pairs):
                agent.do(f"/restore {agent.do(command).event_id}")
            done = agent.do(command).event_id
            folded = 0
            taken = steps(log, lambda: agent.do(f"/restore {done}"))
            found = taken, folded  # a whole replay would show in `folded`
            assert agent.standing().fold == agent.reader.replay(stored(agent.log))
            return found

    (few, before), (many, after) = cost(10), cost(300 if DEEP else 100)
    assert many < 1.2 * few
    assert after <= before + 4 * replay.STEP


def test_reads_of_a_failed_transaction_are_forgotten() -> None:
    with foldmark.open(":memory:") as log:
        agent, found = log.agent("default"), conversation(log, 4)
        kept = agent.do(f"/context drop {found[0]}").event_id

        def in_vain() -> None:
            with agent.batch():
                lost = agent.do(f"/context drop {found[1]}").event_id
                agent.do(f"/restore {lost}")
                raise KeyError

        with pytest.raises(KeyError):
            in_vain()
        # Other operations get the ids of those rolled back.
        agent.do(f"/context drop {found[2]}")
        agent.do("/mark M")
        agent.do(f"/restore {kept}")
        assert agent.standing().fold == agent.reader.replay(stored(agent.log))
        assert list(examine(log)) == []


def test_only_the_shown_part_of_a_past_context_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(turns: int) -> int:
        with foldmark.open(":memory:") as log:
            agent, found = log.agent("default"), conversation(log, turns)
            agent.do("/context budget 4000")  # the messages of the next request are read as well
            shown = agent.do(f"/context at {agent.standing().newest}")
            assert shown.data["size"]["messages"] == 2 * turns
            assert shown.data["turns"][-1]["id"] == found[-1]
            assert shown.data["older_messages"] == 2 * max(0, turns - 200)
            assert ("older messages" in shown.text) == (turns > 200)
            return steps(log, lambda: agent.do(f"/context at {agent.standing().newest}"))

    assert read(10) < read(300) == read(600)


def test_a_preview_keeps_no_texts_of_the_messages_it_searches(tmp_path: Path) -> None:
    """Messages are read page by page and only matches are kept: 6 MB of texts are read within 5 MB, 20 MB within 8."""
    with foldmark.open(str(tmp_path / "log.db"), settings={}) as log:
        agent = log.agent("default")
        with agent.batch():
            for number in range(1000 if DEEP else 300):
                agent.append("user", f"question {number} about {'quartz' if number == 150 else 'cats'}")
                agent.append("assistant", f"answer {number} {'x' * 20_000}")
                agent.end_turn()
        agent.do("/forget quartz", asking=IN_CHAT)
        agent.call_tool("filter_context", {"action": "preview"})  # imports modules
        tracemalloc.start()
        try:
            found = agent.call_tool("filter_context", {"action": "preview"})
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert json.loads(found)["message_count"] == 2
    assert most < (8 if DEEP else 5) << 20
