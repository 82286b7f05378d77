"""Records of Claude Code sessions as the tests write them, and a second, plain reader of session files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from foldmark.formats.claude.told import INJECTED, told
from sampled import DEEP

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "claude"
REAL_FILES = sorted(REAL.glob("*.jsonl"))
SHORT_FILES = [path for path in REAL_FILES if DEEP or path.stem != "episodic-memory-large"]
"""The real sessions without the longest, which has no kind of record that the others lack; in a deep run all of
them."""

TIME = "2025-10-01T10:00:00.000Z"


def user(content: Any, uuid: str | None = None, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "type": "user",
        "uuid": uuid,
        "parentUuid": parent,
        "timestamp": TIME,
        "message": {"role": "user", "content": content},
        **fields,
    }


def assistant(
    content: Any, uuid: str | None = None, parent: str | None = None, response: Any = None, **fields: Any
) -> dict[str, Any]:
    message = {"role": "assistant", "id": response, "model": "claude-x", "content": content}
    if "usage" in fields:
        message["usage"] = fields.pop("usage")
    if "model" in fields:
        message["model"] = fields.pop("model")
    return {"type": "assistant", "uuid": uuid, "parentUuid": parent, "timestamp": TIME, "message": message, **fields}


def call(call_id: Any, name: Any = "Read", **args: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": args}


def result(call_id: Any, content: Any = "done", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def jsonl(*records: Any) -> bytes:
    """Return the records as lines; bytes stay unchanged."""
    return b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in records)


def plain_counts(content: bytes) -> dict[str, int]:
    """Count the records of each type with a plain reader: one `json.loads` per line."""
    counts: Counter[str] = Counter()
    for line in content.split(b"\n"):
        if line.strip():
            value = json.loads(line)
            kind = value.get("type") if isinstance(value, dict) else None
            counts["(not an object)" if not isinstance(value, dict) else kind if kind is not None else "(no type)"] += 1
    return dict(counts)


def plain_blocks(content: bytes) -> Counter[str]:
    """Count the messages with a plain reader: one for every text, tool and thinking block of a readable message, in the
    first record with its uuid that has any."""
    names = {"tool_use": "tool_call", "tool_result": "tool_result", "thinking": "assistant"}
    counts: Counter[str] = Counter()
    uuids: set[str] = set()
    for line in content.split(b"\n"):
        value = json.loads(line) if line.strip() else None
        if isinstance(value, dict) and value.get("type") == "attachment":
            counts["client"] += len(told(value) or ())
        if not isinstance(value, dict) or not isinstance(value.get("message"), dict) or value.get("uuid") in uuids:
            continue
        blocks = value["message"].get("content") or []
        if blocks:
            uuids.add(value.get("uuid") or f"none {len(uuids)}")
        for each in [blocks] if isinstance(blocks, str) else blocks:
            block = {"type": "text", "text": each} if isinstance(each, str) else each
            if isinstance(block, dict) and value["type"] == "user" and INJECTED.match(str(block.get("text", ""))):
                counts["client"] += 1
            elif isinstance(block, dict):
                counts[names.get(block["type"]) or str(value["type"])] += 1
    return counts
