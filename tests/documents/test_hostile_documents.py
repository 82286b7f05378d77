"""A JSON document may come from anybody: it is refused in one line and leaves nothing behind, or the conversation can
be used (SPEC 9)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import foldmark
from documents import exported, fill, imported, written
from foldmark.log.doctor import examine
from planning_talk import IN_CHAT
from sampled import DEEP


@pytest.fixture
def log() -> Iterator[foldmark.Log]:
    with foldmark.open(":memory:", settings={}) as log:
        yield log


@cache
def _whole() -> str:
    with foldmark.open(":memory:", settings={}) as log:
        fill(log)
        agent = log.agent("work")
        agent.do("/forget parser", asking=IN_CHAT)
        agent.do("/cancel")
        agent.do("/suggest")
        agent.configure("model", "openai/gpt-5")
        agent.record("usage", data={"provider": "openai", "model": "gpt-5", "fresh": 1, "altered": [{"cleared_x": 1}]})
        return json.dumps(exported(agent))


def whole() -> dict[str, Any]:
    """Return a document with every kind of event, to be changed."""
    found: dict[str, Any] = json.loads(_whole())
    return found


def of(document: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the newest event of a kind."""
    found: dict[str, Any] = [each for each in document["events"] if each["kind"] == kind and "erased" not in each][-1]
    return found


def change(kind: str, /, **fields: Any) -> Any:
    def changed(document: dict[str, Any]) -> None:
        of(document, kind).update(fields)

    return changed


def change_data(kind: str, /, **fields: Any) -> Any:
    def changed(document: dict[str, Any]) -> None:
        event = of(document, kind)
        event["data"] = {**event.get("data", {}), **fields}

    return changed


def duplicate(document: dict[str, Any]) -> None:
    document["events"].insert(3, document["events"][2])


def backwards(document: dict[str, Any]) -> None:
    document["events"].reverse()


def without_erasure(document: dict[str, Any]) -> None:
    document["events"] = [each for each in document["events"] if each["kind"] != "redact"]


WRONG = {
    "unknown kind": (change("user", kind="prophecy"), "its kind 'prophecy' is unknown"),
    "unknown actor": (change("user", actor="god"), "its actor must be one of human, model, system"),
    "unknown dialect": (change("user", dialect="klingon"), "its dialect 'klingon' is unknown here"),
    "no time": (change("user", created_at="yesterday"), "its time 'yesterday' is not one"),
    "a number as text": (change("user", content=7), "Expected `str`, got `int`"),
    "a negative id": (change("user", id=-1), "its id must be above that of the event before it"),
    "a huge id": (change("user", id=2**63 - 1), "its id must be above that of the event before it"),
    "a duplicate": (duplicate, "its id must be above that of the event before it"),
    "backwards": (backwards, "its id must be above that of the event before it"),
    "another turn": (change("assistant", turn=1), "it cannot be in turn 1"),
    "no call": (change("tool_result", answers=2), "it answers event 2, which is no earlier tool_call"),
    "a later call": (change("tool_result", answers=10**9), "which is no earlier tool_call"),
    "no call id": (change("tool_call", data={}), "`call_id`"),
    "an unknown mark": (change_data("rewind", mark_id=10**9), "it names event 1000000000, which is not before it"),
    "another agent": (change_data("drop", ranges=[["x", 1, 2]]), "it names agent 'x', which the file does not tell of"),
    "a long range": (lambda d: of(d, "drop")["data"]["ranges"][0].__setitem__(2, 2**62), "which are not before it"),
    "an odd range": (change_data("drop", ranges=[["x", 1]]), "its data is wrong"),
    "a restore of nothing": (change_data("restore", target=2), "it restores event 2, which is no earlier operation"),
    "an evicted prompt": (change_data("evict", results=[2]), "it evicts event 2, which is no earlier tool_result"),
    "a receipt of words": (change_data("mark", receipt={"left": {"messages": "all"}}), "its data is wrong"),
    "an empty receipt": (change_data("mark", receipt={"left": None}), "its data is wrong"),
    "a reason of numbers": (change_data("mark", reason=[1]), "its reason must be a text"),
    "an odd preview": (change_data("command", preview={"ids": "all"}), "its data is wrong"),
    "odd usage": (change_data("usage", altered=[1]), "its data is wrong"),
    "negative usage": (change_data("usage", fresh=-1), "its data is wrong"),
    "endless usage": (change_data("usage", output=10**400), "its data is wrong"),
    "a negative window": (change_data("config", settings={"context_size": -1}), "its settings are wrong"),
    "no bytes a token": (change_data("config", settings={"calibration": {"offline": 0}}), "its data is wrong"),
    "an erased text": (change("user", erased=86), "it is erased, and still has a text"),
    "no erasure": (without_erasure, "was erased by operation"),
    "a newer shape": (change_data("user", **{"$v": 2}), "of a version that this Foldmark does not know"),
    "inherited": (change("user", inherited=True), "it is inherited, and follows events that are not"),
    "no events": (lambda d: d.pop("events"), "missing required field `events`"),
    "another version": (lambda d: d.update(version=2), "has version 2 of the format, and this Foldmark reads 1"),
    "another format": (lambda d: d.update(format="notes"), 'its "format" is not "foldmark conversation"'),
    "a bad name": (lambda d: d["conversation"].update(name="a\nb"), "invalid name"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_event_is_named_and_nothing_is_imported(log: foldmark.Log, tmp_path: Path, case: str) -> None:
    change, said = WRONG[case]
    document = whole()
    change(document)
    with pytest.raises(foldmark.FoldmarkError) as refused:
        imported(log, tmp_path / "d.json", document)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert log.agents() == []
    assert list(examine(log)) == []


WRONG_BYTES = {
    "cut off": (_whole().encode()[:5000], "is not a document of Foldmark"),
    "no object": (b"[1, 2]", "is not a document of Foldmark"),
    "no JSON": (b"{'format': 1}", "is not a document of Foldmark"),
    "empty": (b"", "is not a document of Foldmark"),
    "no UTF-8": (_whole().encode().replace(b"I look.", b"I \xff look."), "utf-8"),
    "a lone surrogate": (_whole().encode().replace(b"I look.", b"\\ud800"), "is not a document of Foldmark"),
    "too deep": (b'{"format": "foldmark conversation", "version": 1, "x": ' + b"[" * 100_000, "too deep"),
    "a deep event": (
        _whole().encode().replace(b'"I look."', b'"I", "data": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 1),
        "too deep",
    ),
    "a long number": (
        _whole().encode().replace(b'"I look."', b'"I", "data": {"a": ' + b"9" * 5000 + b"}", 1),
        "out of range",
    ),
}


@pytest.mark.parametrize("case", WRONG_BYTES)
def test_wrong_bytes_are_refused_in_one_line(log: foldmark.Log, tmp_path: Path, case: str) -> None:
    content, said = WRONG_BYTES[case]
    with pytest.raises(foldmark.FoldmarkError) as refused:
        imported(log, tmp_path / "d.json", content)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert log.agents() == []


VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2, 7, 2**63 - 1, 2**70, 0.5, "", "x", "\0"),
    *([], [1], [["x", 1, 2]], {}, {"a": 1}),
)


def _mutate(value: Any, luck: random.Random) -> None:
    """Change one member somewhere inside a JSON value."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
        if not keys:
            return
        key = luck.choice(keys)
        if isinstance(value[key], dict | list) and value[key] and luck.random() < 0.85:
            value = value[key]
            continue
        match luck.randrange(3):
            case 0:
                del value[key]
            case 1 if isinstance(value, list):
                value.insert(luck.choice(keys), deepcopy(value[key]))
            case _:
                value[key] = deepcopy(luck.choice(VALUES))
        return


@pytest.mark.parametrize("seed", range(3000 if DEEP else 30))
def test_a_damaged_document_is_refused_or_usable(tmp_path: Path, seed: int) -> None:
    luck, document = random.Random(seed), whole()
    for _ in range(luck.randint(1, 3)):
        _mutate(document if luck.random() < 0.1 else document.get("events", {}), luck)
    with foldmark.open(":memory:", settings={}) as log:
        report = refusal = None
        try:
            report = imported(log, tmp_path / "d.json", document, "copy")
        except foldmark.FoldmarkError as error:
            refusal = str(error)
        if report is None:
            assert refusal
            assert "\n" not in refusal
            assert log.agents() == []
            return
        agent = log.agent(report.agent_id)
        assert list(examine(log)) == []
        for line in ("/operations 100", "/marks", "/message list 100", "/context show", "/agents", "/context diff 1"):
            agent.do(line)
        for form in ("markdown", "json"):
            written(agent, form)
            written(agent, form, only_context=True)
        for event in exported(agent)["events"]:
            agent.do(f"/context explain {event['id']}")
        agent.request(provider="openai", model="gpt-5")
        agent.request(provider="anthropic", model="claude-sonnet-4-5")
        agent.append("user", "It goes on.")
        agent.end_turn()


def test_a_consent_to_run_tools_is_neither_exported_nor_imported(log: foldmark.Log, tmp_path: Path) -> None:
    agent = log.agent("work")
    agent.append("user", "Run it.")
    agent.configure("tool_approval", "always")
    document = exported(agent)
    assert "tool_approval" not in of(document, "config")["data"]["settings"]
    of(document, "config")["data"]["settings"] = agent.standing().settings
    copy = log.agent(imported(log, tmp_path / "d.json", document, "copy").agent_id)
    assert agent.standing().config.tool_approval == "always"
    assert copy.standing().config.tool_approval == "ask"


def test_a_key_in_a_document_is_replaced_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    with foldmark.open(":memory:", settings={}) as log:
        document = whole()
        of(document, "user")["content"] = "My key is sk-0123456789abcdef."
        copy = log.agent(imported(log, tmp_path / "d.json", document).agent_id)
        assert "sk-0123456789abcdef" not in written(copy, "json")


def test_an_interruption_leaves_nothing_behind(log: foldmark.Log, tmp_path: Path) -> None:
    from foldmark.documents.json_import import import_document, read_document

    (tmp_path / "d.json").write_text(_whole())

    def interrupt(done: int, _: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_document(log, read_document(tmp_path / "d.json"), "copy", interrupt)
    assert log.agents() == []


def test_an_existing_conversation_is_not_changed(log: foldmark.Log, tmp_path: Path) -> None:
    log.agent("work").append("user", "Mine.")
    with pytest.raises(foldmark.CommandError, match="'work' already exists; choose another name"):
        imported(log, tmp_path / "d.json", whole())
    assert [each.content for each in log.agent("work").context().messages] == ["Mine."]
