"""A random history, exported as JSON and imported into an empty database, is the same conversation (SPEC 9).

The imported conversation has other ids, because other agents recorded events in between. So places are compared: the
number of an event in its document.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import Phase, settings
from hypothesis.stateful import invariant
from test_all_operations import Histories

import foldmark
from foldmark.core.assembly.eviction import in_place
from foldmark.documents.json_export import conversation_json
from foldmark.documents.json_import import import_document, read_document
from foldmark.log.doctor import examine

_NUMBER = re.compile(r"(?<![\w-])\d+(?![\w-])")


def exported(agent: foldmark.Agent) -> dict[str, Any]:
    found: dict[str, Any] = json.loads("".join(conversation_json(agent, "0", lambda *_: None)))
    return found


def imported(log: foldmark.Log, document: dict[str, Any], name: str) -> foldmark.Agent:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "document.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return log.agent(import_document(log, read_document(path), name).agent_id)


def places(document: dict[str, Any]) -> dict[int, int]:
    return {event["id"]: place for place, event in enumerate(document["events"])}


def seen(agent: foldmark.Agent, context: foldmark.Context, place: dict[int, int]) -> list[Any]:
    """Return everything in a context, with places instead of ids."""
    messages = [
        (place[each.id], each.kind, each.role, each.content, each.dialect, each.actor, each.created_at)
        for each in context.messages
    ]
    marks = [(name, place[event_id]) for name, event_id in context.marks.items()]
    pins = [place[turn] for turn in context.pins]
    evicted = sorted(place[each] for each in context.evicted if each in place)
    return [messages, marks, pins, evicted, context.state, context.scratchpad, context.size.messages]


def listed(agent: foldmark.Agent, place: dict[int, int]) -> list[Any]:
    """Return the list of operations, with places instead of ids."""
    rows = agent.do("/operations 1000").data["operations"]
    for row in rows:
        row["id"] = place[row["id"]]
        row["taken_back_by"] = place.get(row["taken_back_by"])
        row["words"] = " ".join(_placed(word, place) for word in row["words"].split())
        del row["back"]
    return list(rows)


def _placed(word: str, place: dict[int, int]) -> str:
    return _NUMBER.sub(lambda found: str(place.get(int(found[0]), found[0])), word)


def same(one: foldmark.Agent, other: foldmark.Agent) -> None:
    """Assert that two conversations are equal now, after each of their events, and after each restore."""
    mine, theirs = exported(one), exported(other)
    ids, their_ids = places(mine), places(theirs)
    assert len(ids) == len(their_ids)
    assert seen(one, one.context(), ids) == seen(other, other.context(), their_ids)
    own = listed(one, ids)
    # A child that erased a turn of its parent recorded that itself. The copy has no children, and records it.
    erased = {row["id"] for row in own} ^ {
        place for place, each in enumerate(mine["events"]) if each["kind"] == "redact"
    }
    assert own == [row for row in listed(other, their_ids) if row["operation"] != "redact" or row["id"] not in erased]
    for first, second in zip(ids, their_ids, strict=True):
        if first > one.context().at:  # a child's, which erased a turn later
            break
        assert seen(one, one.at(first), ids)[:5] == seen(other, other.at(second), their_ids)[:5], first
    for event in one.do("/operations 1000").data["operations"]:
        second = list(their_ids)[ids[event["id"]]]
        outcomes = [_restored(one, event["id"], ids), _restored(other, second, their_ids)]
        assert outcomes[0] == outcomes[1], event


def _restored(agent: foldmark.Agent, operation: int, place: dict[int, int]) -> list[Any]:
    """Return the context as it would be with an operation taken back, or the refusal's beginning."""
    kept: list[Any] = []
    with suppress(foldmark.CommandError, InterruptedError), agent.batch():
        agent.do(f"/restore {operation}")
        kept = seen(agent, agent.context(), {**place, agent.context().at: -1})
        raise InterruptedError  # rolls back
    agent.context()
    return kept


class ExportedHistories(Histories):
    """Each history is exported and imported at its end."""

    @invariant()
    def same_as_the_model(self) -> None:
        """Another test compares each step."""

    def teardown(self) -> None:
        try:
            for number, pair in enumerate(self.pairs):
                agent = self.log.agent(pair.uuid)
                document = exported(agent)
                with foldmark.open(":memory:", settings={}) as other:
                    other.agent("another").append("user", "Its ids are taken.")
                    copy = imported(other, document, f"copy {number}")
                    assert list(examine(other)) == []
                    if agent.parent is None:
                        same(agent, copy)
                    else:
                        self.inherits(agent, copy)
                    with foldmark.open(":memory:", settings={}) as third:
                        again = imported(third, exported(copy), "again")
                        same(copy, again)
                        self.fixed(copy, again)
        finally:
            self.close()

    def inherits(self, fork: foldmark.Agent, copy: foldmark.Agent) -> None:
        """A fork's copy has the same context; what the fork began with are events of its own."""
        orders = [in_place(agent.context().messages) for agent in (fork, copy)]
        for first, second in zip(*orders, strict=True):
            assert (first.kind, first.content, first.created_at) == (second.kind, second.content, second.created_at)
        mine, theirs = fork.context(), copy.context()
        assert (mine.state, mine.scratchpad) == (theirs.state, theirs.scratchpad)
        assert (list(mine.marks), len(mine.pins)) == (list(theirs.marks), len(theirs.pins))

    def fixed(self, copy: foldmark.Agent, again: foldmark.Agent) -> None:
        """A copy of a copy has the same events, but for the ids in them."""
        mine, theirs = exported(copy)["events"], exported(again)["events"]
        for first, second in zip(mine, theirs, strict=True):
            changing = ("id", "turn", "answers", "erased", "data", "tokens")  # data of ids counts
            assert all(first.get(key) == second.get(key) for key in {*first, *second}.difference(changing))
            assert (first.get("data") or {}).keys() == (second.get("data") or {}).keys()


def _settings() -> settings:
    # To shrink a failing history takes many minutes.
    deep = os.environ.get("FOLDMARK_DEEP") == "1"
    return settings(max_examples=300 if deep else 6, stateful_step_count=30, deadline=None, phases=[Phase.generate])


ExportedHistories.TestCase.settings = _settings()
TestExportedHistories = ExportedHistories.TestCase
