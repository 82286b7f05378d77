"""Shared by the tests of exports: the records of a session as other programs read them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import foldmark
from foldmark.formats.claude.told import told
from foldmark.sessions.conversion.exporting import Export, choose, export
from foldmark.sessions.conversion.importing import import_session

Record = dict[str, Any]

OWN = ("imported", "pages")
"""Foldmark's own notes in a block."""


def export_of(agent: foldmark.Agent) -> Export:
    """Return an agent's export; its working folder and version do not matter."""
    return export(agent, "/project", "1.2.3")


def shown(path: Path) -> Counter[tuple[str, str]]:
    """Return the messages in the context of an import that can be sent. Results may follow in another order."""
    with foldmark.open(":memory:", settings={}) as log:
        pieces, _ = choose(log.agent(import_session(log, path).agent_id).context().messages, "a")
        return Counter((piece.role, json.dumps(piece.blocks)) for piece in pieces if not piece.made_up)


def records_of(found: Export) -> list[Record]:
    return [json.loads(line) for line in found.content()]


def blocks_of(record: Record) -> list[dict[str, Any]]:
    if record["type"] == "attachment":
        return [{"type": "text", "text": text} for text in told(record) or ()]
    content = record["message"]["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def check_chain(records: list[Record]) -> None:
    """Assert that each record's parent is the record before it, no uuid repeats, and time does not go back."""
    uuids = [record["uuid"] for record in records]
    assert len(set(uuids)) == len(uuids)
    assert [record["parentUuid"] for record in records] == [None, *uuids][:-1]
    times = [record["timestamp"] for record in records]
    assert times == sorted(times)
    assert len({record["sessionId"] for record in records}) <= 1
    for record in records:
        if record["type"] == "attachment":
            continue
        assert record["type"] == record["message"]["role"]
        assert record["isSidechain"] is False
        if record["type"] == "assistant":
            assert len(record["message"]["content"]) == 1
            assert record["message"]["id"]
            assert record["message"]["model"], "without one `claude --resume` waits for ever"


def as_sent(records: list[Record]) -> list[dict[str, Any]]:
    """Return the messages that Claude Code makes of records and a next prompt: it joins the records of one answer, even
    across results, then consecutive messages of one role."""
    messages: list[dict[str, Any]] = []
    ids: list[str | None] = []
    for record in records:
        own, blocks = record.get("message", {}).get("id"), blocks_of(record)
        place = len(messages) if own is None else _place(messages, ids, own)
        if place < len(messages):
            messages[place]["content"] += blocks
        else:
            messages.append({"role": _role(record), "content": list(blocks)})
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
    """Return the content of a session by block, without the records that only complete it."""
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
                found.append((_role(record), block))
    return found


def _role(record: Record) -> str:
    return "user" if record["type"] == "attachment" else str(record["type"])


def as_shown(messages: list[foldmark.Event]) -> list[tuple[Any, ...]]:
    """Return the same for messages that contain only what fits in a Claude Code session."""
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
