"""Random sessions of Claude Code: branches, parallel calls, lost and late results, compactions, missing parents."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from session_records import call, result

SESSION = "4f7a4c7c-3a55-4a5c-9d5e-0a4c9a3f2b11"
MODEL = "claude-sonnet-4-5"

_BEGIN = datetime(2026, 1, 1, 10, tzinfo=UTC)


class _Session:
    """A session that is being written. `tip` is the uuid that the next record continues."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.records: list[dict[str, Any]] = []
        self.tip: str | None = None
        self._at = _BEGIN
        self._made = 0

    def uuid(self) -> str:
        self._made += 1
        return str(UUID(int=self._made, version=4))

    def write(self, kind: str, parent: str | None = None, **fields: Any) -> str:
        """Write a record behind the tip, or behind `parent`, and return its uuid."""
        self._at += timedelta(seconds=self.random.choice([0, 1, 1, 2, 4, 7, 30]), milliseconds=1)
        uuid = self.uuid()
        time = f"{self._at:%Y-%m-%dT%H:%M:%S}.{self._at.microsecond // 1000:03}Z"
        about = {
            "sessionId": SESSION,
            "version": "2.1.197",
            "cwd": "/tmp",
            "isSidechain": False,
            "userType": "external",
        }
        record = {"parentUuid": parent or self.tip, "type": kind, "uuid": uuid, "timestamp": time, **about, **fields}
        self.records.append(record)
        if not record["isSidechain"]:
            self.tip = uuid
        return uuid

    def says(self, content: Any, parent: str | None = None, **fields: Any) -> str:
        return self.write("user", parent, message={"role": "user", "content": content}, **fields)

    def answers(self, response: str, block: dict[str, Any], parent: str | None = None, **fields: Any) -> str:
        message: dict[str, Any] = {
            "id": response,
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": [block],
        }
        message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 5, "output_tokens": 5}}
        return self.write("assistant", parent, message=message, **fields)


def chain(seed: int, steps: int = 12) -> list[dict[str, Any]]:
    """Return the records of a session: a prompt and `steps` random steps."""
    random = Random(seed)
    made = _Session(random)
    made.says("P0")
    for number in range(1, steps + 1):
        _STEPS[random.choices(range(len(_STEPS)), _WEIGHTS)[0]](made, number)
    made.says(f"P{steps + 1}")
    made.answers(f"msg_{steps + 1}", _text(f"A{steps + 1}"))
    if random.random() < 0.2:
        _leaf(made, 0)
    return made.records


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _turn(made: _Session, number: int) -> None:
    if made.random.random() < 0.6:
        made.says(f"P{number}")
    if made.random.random() < 0.4:
        thinking = {"type": "thinking", "thinking": f"T{number}", "signature": f"c2ln{number:04}"}
        made.answers(f"msg_{number}", thinking)
    if made.random.random() < 0.7:
        made.answers(f"msg_{number}", _text(f"A{number}"))


def _tools(made: _Session, number: int) -> None:
    """Calls of one answer, each in a line of its own, with results behind them or among them, some of them lost."""
    random, response = made.random, f"msg_{number}"
    calls = [f"toolu_{number}_{at}" for at in range(random.randint(1, 3))]
    lost = {id for id in calls if random.random() < 0.15}
    if random.random() < 0.3:
        made.answers(response, _text(f"A{number}"))
    lines = []
    for id in calls:
        lines.append((id, made.answers(response, call(id, n=number))))
        if random.random() < 0.3 and id not in lost:
            made.says([result(id, f"R {id}")], lines[-1][1])
            if random.random() < 0.5:
                made.tip = lines[-1][1]
            lost.add(id)
    if random.random() < 0.15:  # the next answer begins before the results
        made.answers(f"msg_{number}_b", _text(f"B{number}"))
    random.shuffle(lines)
    for id, line in lines:
        if id not in lost:
            made.says([result(id, f"R {id}")], line if random.random() < 0.7 else None)
            if random.random() < 0.2:
                made.write("system", subtype="informational", content="", level="info")


def _back(made: _Session, number: int) -> None:
    """A person goes back and writes another prompt."""
    prompts = [each for each in made.records if each["type"] == "user" and not each.get("isSidechain")]
    prompt = made.random.choice(prompts)
    made.tip = prompt["parentUuid"] or prompt["uuid"]
    made.says(f"P{number}")
    made.answers(f"msg_{number}", _text(f"A{number}"))


def _side(made: _Session, number: int) -> None:
    """A subagent's records in the file of the session."""
    first = made.says(f"S{number}", isSidechain=True)
    made.answers(f"msg_{number}_s", _text(f"SA{number}"), first, isSidechain=True)


def _lost_parent(made: _Session, number: int) -> None:
    """A record whose parent is not in the file."""
    made.tip = made.uuid()
    made.says(f"P{number}")
    made.answers(f"msg_{number}", _text(f"A{number}"))


def _compaction(made: _Session, number: int) -> None:
    """A compaction with a summary, or without one, which preserves some of the last records."""
    random = made.random
    boundary, summary = made.uuid(), made.uuid()
    way = _upwards(made)
    kept = way[: random.randint(1, 3)][::-1] if random.random() < 0.6 else []
    anchor = summary if random.random() < 0.6 else boundary
    meta: dict[str, Any] = {"trigger": "manual", "preTokens": 1000}
    if kept and random.random() < 0.5:
        meta["preservedMessages"] = {"anchorUuid": anchor, "uuids": kept}
    elif kept:
        meta["preservedSegment"] = {"anchorUuid": anchor, "headUuid": kept[0], "tailUuid": kept[-1]}
    old = made.tip
    made.tip = None
    about: dict[str, Any] = {
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "isMeta": False,
        "level": "info",
    }
    made.write("system", logicalParentUuid=old, compactMetadata=meta, **about)
    made.records[-1] |= {"uuid": boundary, "parentUuid": None}
    made.tip = boundary
    made.says(f"SUMMARY{number}", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    made.records[-1]["uuid"] = summary
    made.tip = kept[-1] if kept and random.random() < 0.5 else summary
    made.says(f"P{number}")
    made.answers(f"msg_{number}", _text(f"A{number}"))


def _upwards(made: _Session) -> list[str]:
    """Return the uuids from the tip up to the last compaction."""
    parents = {each["uuid"]: each["parentUuid"] for each in made.records if "uuid" in each}
    way: list[str] = []
    at = made.tip
    while at in parents and at not in way:
        way.append(str(at))
        at = parents[at]
    return way


def _leaf(made: _Session, number: int) -> None:
    """The session names a leaf, which a person may have chosen."""
    uuid = made.random.choice([each["uuid"] for each in made.records if not each.get("isSidechain", True)])
    chosen = {"explicit": True} if made.random.random() < 0.5 else {}
    named = {"type": "last-prompt", "lastPrompt": "x", "leafUuid": uuid, "sessionId": SESSION, **chosen}
    made.records.append(named)


def _progress(made: _Session, number: int) -> None:
    made.write("progress", data={"type": "hook_progress"})
    _turn(made, number)


_STEPS = (_turn, _tools, _back, _side, _lost_parent, _compaction, _leaf, _progress)
_WEIGHTS = (5, 6, 1, 1, 1, 1, 1, 1)
