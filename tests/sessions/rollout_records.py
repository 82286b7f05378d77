"""Records of Codex rollouts as the tests write them, of newer and of older versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "codex"
REAL_FILES = sorted(REAL.glob("*.jsonl"))

ID = "0199aaaa-1111-7222-8333-444455556666"
TIME = "2026-11-02T10:20:30.456Z"


def name(id: str = ID) -> str:
    return f"rollout-2026-11-02T10-20-30-{id}.jsonl"


def record(kind: str, payload: Any, **fields: Any) -> dict[str, Any]:
    return {"timestamp": TIME, "type": kind, "payload": payload, **fields}


def meta(id: str = ID, **fields: Any) -> dict[str, Any]:
    return record("session_meta", {"session_id": id, "id": id, "cwd": "/garden", "source": "cli", **fields})


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return record("response_item", {"type": kind, **fields})


def said(text: str, role: str = "user") -> dict[str, Any]:
    return item("message", role=role, content=[{"type": "input_text", "text": text}])


def call(call_id: str, tool: str = "exec_command", **fields: Any) -> dict[str, Any]:
    return item("function_call", name=tool, arguments='{"cmd":"ls \\"a b\\""}', call_id=call_id, **fields)


def output(call_id: str, value: Any, kind: str = "function_call_output", **fields: Any) -> dict[str, Any]:
    return item(kind, call_id=call_id, output=value, **fields)


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return record("event_msg", {"type": kind, **fields})


def completed(kind: str, id: str, **fields: Any) -> dict[str, Any]:
    return event("item_completed", item={"type": kind, "id": id, **fields}, completed_at_ms=1)


def usage(total: int) -> dict[str, int]:
    return {"input_tokens": total, "cached_input_tokens": 0, "output_tokens": 0, "total_tokens": total}


def tokens(total: int, window: int = 258_400) -> dict[str, Any]:
    info = {"total_token_usage": usage(3 * total), "last_token_usage": usage(total), "model_context_window": window}
    return event("token_count", info=info, rate_limits={"primary": None})


def jsonl(*records: Any) -> bytes:
    """Return the records as lines, as Codex writes them; bytes stay unchanged."""
    return b"".join(
        each
        if isinstance(each, bytes)
        else json.dumps(each, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        for each in records
    )
