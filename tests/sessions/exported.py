"""What the tests of exports share: a session's records as somebody else reads them."""

from __future__ import annotations

import json
from typing import Any

import foldmark
from foldmark.sessions.conversion.exporting import Export, export

Record = dict[str, Any]

OWN = ("imported", "pages")
"""What Foldmark notes in a block for itself."""


def export_of(agent: foldmark.Agent) -> Export:
    """An export of an agent to a folder that is not looked at."""
    return export(agent, "/project", "1.2.3")


def records_of(found: Export) -> list[Record]:
    return [json.loads(line) for line in found.content()]


def blocks_of(record: Record) -> list[dict[str, Any]]:
    content = record["message"]["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def check_chain(records: list[Record]) -> None:
    """Each record's parent is the record before it, nothing is there twice, and time does not go back."""
    uuids = [record["uuid"] for record in records]
    assert len(set(uuids)) == len(uuids)
    assert [record["parentUuid"] for record in records] == [None, *uuids][:-1]
    times = [record["timestamp"] for record in records]
    assert times == sorted(times)
    assert len({record["sessionId"] for record in records}) <= 1
    for record in records:
        assert record["type"] == record["message"]["role"]
        assert record["isSidechain"] is False
        if record["type"] == "assistant":
            assert len(record["message"]["content"]) == 1
            assert record["message"]["id"]
            assert record["message"]["model"], "without one `claude --resume` waits for ever"


def as_sent(records: list[Record]) -> list[dict[str, Any]]:
    """The messages that Claude Code makes of records: those of one answer together, over results in between, too; then
    all of one role in a row; what a person types next behind them."""
    messages: list[dict[str, Any]] = []
    ids: list[str | None] = []
    for record in records:
        own, blocks = record["message"].get("id"), blocks_of(record)
        place = len(messages) if own is None else _place(messages, ids, own)
        if place < len(messages):
            messages[place]["content"] += blocks
        else:
            messages.append({"role": record["type"], "content": list(blocks)})
            ids.append(own)
    joined: list[dict[str, Any]] = []
    for message in [*messages, {"role": "user", "content": [{"type": "text", "text": "Go on."}]}]:
        if joined and joined[-1]["role"] == message["role"]:
            joined[-1]["content"] += message["content"]
        else:
            joined.append(message)
    return joined


def _place(messages: list[dict[str, Any]], ids: list[str | None], own: str) -> int:
    for place in range(len(messages) - 1, -1, -1):
        if ids[place] == own:
            return place
        results = all(block["type"] == "tool_result" for block in messages[place]["content"])
        if messages[place]["role"] == "user" and not results:
            break
    return len(messages)


def as_read(records: list[Record]) -> list[tuple[Any, ...]]:
    """What a session says, block by block: but what only completes it."""
    found: list[tuple[Any, ...]] = []
    for record in records:
        if record.get("foldmark_made_up"):
            continue
        for block in blocks_of(record):
            if block["type"] == "tool_use":
                found.append(("call", block["id"], block["name"], block["input"]))
            elif block["type"] == "tool_result":
                found.append(("result", block["tool_use_id"], block["content"], block.get("is_error", False)))
            else:
                found.append((record["type"], block))
    return found


def as_shown(messages: list[foldmark.Event]) -> list[tuple[Any, ...]]:
    """The same of messages that hold nothing but what a Claude Code session can hold."""
    found: list[tuple[Any, ...]] = []
    for event in messages:
        data = event.data or {}
        others = [{k: v for k, v in block.items() if k not in OWN} for block in data.get("blocks", [])]
        texts = [{"type": "text", "text": event.content}] if event.content.strip() else []
        if event.kind == "tool_call":
            found.append(("call", event.call_id, data["name"], json.loads(event.content)))
        elif event.kind == "tool_result":
            content = [*texts, *others] if others else event.content
            found.append(("result", event.call_id, content, data.get("is_error", False)))
        else:
            role = "assistant" if event.kind == "assistant" else "user"
            found += [(role, block) for block in [*others, *texts]]
    return found
