"""The stored weights (SPEC 5.3): the running sum of message weights stays right, whatever happens to the log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foldmark
from deeds import DEEDS, do, family
from foldmark.core.assembly.wire import weight
from foldmark.core.segments import END, Segment, normal, until
from foldmark.log.doctor import examine
from foldmark.operations.effects import Asking
from stored import connection

PNG = "iVBORw0KGgo="
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
PLAN = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}}
TEXTS = [
    "",
    " \n",
    "plain",
    'quotes " and \\ and \x01\x1f\x7f',
    "é😀" * 90,
    "nul \0 in it",
    "x" * 299 + "\\u00e9" * 9,
]


def filled(log: foldmark.Log) -> foldmark.Agent:
    """Fill a log with every kind of message, an interrupted turn, a summary, a fork and an erased turn."""
    agent = log.agent("default")
    agent.append("system", "Imported rule.")
    for number, text in enumerate(TEXTS):
        agent.append("user", text, data={"blocks": [IMAGE, PLAN][: number % 3]} if number % 2 else None)
        agent.append("assistant", text)
        agent.append_tool_call("mcp.server/tool", {"text": text}, call_id=f"c{number}", dialect="openai")
        agent.append_tool_result(f"c{number}", text * 40)
        agent.append("tool", text)
        agent.end_turn()
    agent.append_tool_call("open", {}, call_id="never")
    agent.end_turn(interrupted=True)
    agent.do("/summarize")
    child = log.agent(agent.do("/fork").data["child"])
    child.append("user", "child")
    agent.do("/message remove 8", asking=Asking(lambda question: True))
    log.agent("other").append("user", "other")
    return agent


def stored(path: Path) -> list[tuple[Any, ...]]:
    db = apsw.Connection(str(path))
    rows = db.execute("SELECT * FROM weights ORDER BY agent, event").fetchall()
    db.close()
    return rows


def summed_anew(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return these rows of `weights` with newly computed running sums."""
    sums: Counter[int] = Counter()
    found = []
    for agent, event, each, _ in rows:
        sums[agent] += each
        found.append((agent, event, each, sums[agent]))
    return found


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE weights SET weight = weight + 1 WHERE event = 5",
        "UPDATE weights SET sum = sum + 1 WHERE event = 5",
        "DELETE FROM weights WHERE event = 5",
        "DELETE FROM weights WHERE event = (SELECT max(event) FROM weights WHERE agent = 1)",
        "INSERT INTO weights (agent, event, weight, sum) VALUES (1, (SELECT max(id) FROM events), 1, 1)",
    ],
)
def test_the_doctor_finds_wrong_weights(damage: str) -> None:
    with foldmark.open(":memory:") as log:
        filled(log)
        log.agent("default").record("scratchpad", "no message")
        assert list(examine(log)) == []
        connection(log).execute(damage)
        assert [finding.text for finding in examine(log) if "weight stored with event" in finding.text]


@settings(max_examples=settings().max_examples // 2)
@given(DEEDS, st.integers(0, 10**6), st.data())
def test_stored_sums_of_weights_always_equal_the_messages(deeds: Any, erased: int, data: st.DataObject) -> None:
    with foldmark.open(":memory:") as log:
        root = log.agent("root")
        for deed, number, who in deeds:
            agents = family(root)
            do(agents[who % len(agents)], deed, number)
        turns = [message.turn_id for message in root.context().messages if message.turn_id]
        with root.batch():
            if turns:
                root.redact(turns[erased % len(turns)])
            root.append("user", "after it")
        for agent in family(root):
            agent.context()
            visible = until(agent.context().segments, END - 1)
            first, last = sorted((data.draw(st.integers(0, 60)), data.draw(st.integers(0, 60))))
            part = normal([Segment(agent.id, first, last)])
            with log.store.read() as moment:
                weights = list(moment.weights(visible))
                messages = list(moment.messages(visible, newest_first=True))
                assert moment.weight(visible) == sum(each for _, each in weights)
                assert moment.weight(part) == sum(each for _, each in moment.weights(part))
            assert weights == [(m.id, weight(m.kind, m.content, m.data, m.interrupted, m.id)) for m in messages]
        assert list(examine(log)) == []


def test_no_segments_weigh_nothing() -> None:
    with foldmark.open(":memory:") as log, log.store.read() as moment:
        assert moment.weight(()) == 0
        assert list(moment.weights(())) == []
