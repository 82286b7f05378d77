"""A client whose plugins edit its messages: it keeps them in memory, and writes a session as Claude Code 2.1.332 does.

What a session has to say is the `memory` of its client.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from session_records import call, jsonl, result

from foldmark.core.assembly.eviction import CLIENT_OPENING, client_placeholder, in_place
from foldmark.log import Agent

SESSION = "4f7a4c7c-3a55-4a5c-9d5e-0a4c9a3f2b11"
MODEL = "claude-opus-4-5"
LONG = "a line of a file\n" * 8
"""The result of a call: longer than its placeholder."""

COMPACTED = "This session is being continued from a previous conversation that ran out of context."

_BEGIN = datetime(2026, 1, 1, 10, tzinfo=UTC)

Item = tuple[str, str, bool]
"""A message of a context: its kind, its text (for a call and its result the id), and whether it is evicted."""


@dataclass
class Row:
    """A message in the memory of a client: its record, its place in the order of the messages, and the records without
    a message that follow it."""

    record: dict[str, Any]
    order: int
    behind: list[dict[str, Any]] = field(default_factory=list)

    @property
    def blocks(self) -> list[dict[str, Any]]:
        content = self.record["message"]["content"]
        return [{"type": "text", "text": content}] if isinstance(content, str) else content

    @property
    def role(self) -> str:
        return str(self.record["type"])

    @property
    def is_prompt(self) -> bool:
        return self.role == "user" and self.blocks[0]["type"] == "text"

    def row(self) -> dict[str, Any]:
        """Return the row that a plugin gets."""
        texts = [each["text"] for each in self.blocks if each["type"] == "text"]
        uses = [
            {"tool_use_id": each["id"], "tool": each["name"], "input": each["input"]}
            for each in self.blocks
            if each["type"] == "tool_use"
        ]
        results = [
            {"tool_use_id": each["tool_use_id"], "text": each["content"]}
            for each in self.blocks
            if each["type"] == "tool_result"
        ]
        row = {"role": self.role, "text": "\n\n".join(texts), "toolUses": uses, "handle": self.record["uuid"]}
        return {**row, "toolResults": results} if results else row

    def items(self) -> list[Item]:
        """Return the messages that a context has to show."""
        found: list[Item] = []
        for block in self.blocks:
            if block["type"] == "tool_use":
                found.append(("tool_call", block["id"], False))
            elif block["type"] == "tool_result":
                found.append(("tool_result", block["tool_use_id"], block["content"] == client_placeholder(len(LONG))))
            elif block["type"] == "text" and block["text"] != CLIENT_OPENING:
                found.append((self.role, " ".join(block["text"].split()), False))
        return found


class EditedClient:
    """A running client, and the records that it has written. `repeats`: some of its answers have equal texts, and
    some several."""

    def __init__(self, *, repeats: bool = True) -> None:
        self._repeats = repeats
        self.records: list[dict[str, Any]] = []
        self.memory: list[Row] = []
        self._at = _BEGIN
        self._made = 0
        self.order = 0

    def content(self) -> bytes:
        return jsonl(*self.records)

    def items(self) -> list[Item]:
        """Return the messages in memory. Texts of one answer may be in several rows or in one."""
        return joined([item for row in self.memory for item in row.items()])

    # -- What happens in a session

    def turn(self, text: str, calls: int = 0, *, thinks: bool = False) -> None:
        """A prompt, a tool call for each of `calls`, and an answer."""
        self._made += 1
        number = self._made
        self._say("user", text, attached=number == 1)
        if calls:
            texts = ["Reading.", f"Two files for {number}."] if self._repeats else [f"Reading {number}."]
            self._answer(number, thinks, texts[:calls], [call(f"toolu_{number}_{at}", n=number) for at in range(calls)])
            lines = [row.record["uuid"] for row in self.memory[-calls:]]
            for at, line in enumerate(lines):
                block = result(f"toolu_{number}_{at}", LONG)
                self._say("user", [block], parent=line, sourceToolAssistantUUID=line)
            self._made += 1
        self._answer(self._made, thinks, [f"Answer {number}."], [])
        silent = self._record("system", self._tip, subtype="turn_duration", durationMs=5, isMeta=False)
        self.memory[-1].behind.append(silent)

    def go_back(self, to: int) -> None:
        """A person goes back to before a prompt of the memory."""
        self.memory = self.memory[:to]

    def compact(self, keep: int = 0) -> None:
        """The client summarizes its messages, but for the last `keep`."""
        self._made += 1
        kept = self.memory[len(self.memory) - keep :] if keep else []
        summary = self._uuid()
        metadata: dict[str, Any] = {"trigger": "manual", "preTokens": 1000}
        if kept:
            ends = {"headUuid": kept[0].record["uuid"], "tailUuid": kept[-1].record["uuid"]}
            metadata["preservedSegment"] = {"anchorUuid": summary, **ends}
        boundary = self._boundary(metadata)
        about = {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
        message = {"role": "user", "content": f"{COMPACTED} Summary {self._made}."}
        record = self._record("user", boundary, message=message, uuid=summary, **about)
        self.memory = [Row(record, 0), *kept]

    def install(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """A plugin answers a compaction with these rows: those with a handle stay, the others are made anew."""
        known = {row.record["uuid"]: row for row in self.memory}
        now = self._time()
        before = self._boundary({"trigger": "manual", "preTokens": 162, "durationMs": 5})
        memory = []
        for row in rows:
            own = known.get(row.get("handle"))
            if own is None:
                new = self._record(str(row["role"]), before, timestamp=now, message=self._message(row))
                memory.append(Row(new, row.get("order", self.order)))
            else:
                copies = [self._copy(each) for each in (own.record, *own.behind)]
                for copy in copies:
                    copy["parentUuid"] = copy.get("sourceToolAssistantUUID") or before
                    before = copy["uuid"]
                memory.append(Row(copies[0], own.order, copies[1:]))
            before = self._tip
        self.memory = memory

    def rows(self) -> list[dict[str, Any]]:
        return [row.row() for row in self.memory]

    def messages(self) -> list[dict[str, Any]]:
        """Return what the client sends, in the form of the Messages API."""
        found: list[dict[str, Any]] = []
        for row in self.memory:
            if found and found[-1]["role"] == row.role:
                last = found[-1]["content"][-1]
                if row.role == "user" and last["type"] == "text":
                    found[-1]["content"][-1] = {**last, "text": f"{last['text']}\n"}
                found[-1]["content"] += row.blocks
            else:
                found.append({"role": row.role, "content": [*row.blocks]})
        if found and found[0]["role"] == "user" and len(self.memory) > 1 and COMPACTED not in str(found[0]):
            found[0]["content"].insert(0, {"type": "text", "text": "<system-reminder>\nThe date.\n</system-reminder>"})
        return found

    # -- Records

    @property
    def _tip(self) -> str:
        return str(self.records[-1]["uuid"])

    def _uuid(self) -> str:
        self._made += 1
        return str(UUID(int=self._made, version=4))

    def _time(self) -> str:
        self._at += timedelta(milliseconds=3)
        return f"{self._at:%Y-%m-%dT%H:%M:%S}.{self._at.microsecond // 1000:03}Z"

    def _record(self, kind: str, parent: str | None, **fields: Any) -> dict[str, Any]:
        about = {"sessionId": SESSION, "version": "2.1.332", "isSidechain": False, "type": kind}
        record = {"parentUuid": parent, **about, "uuid": self._uuid(), "timestamp": self._time(), **fields}
        self.records.append(record)
        return record

    def _copy(self, record: Mapping[str, Any]) -> dict[str, Any]:
        copy = {**record, "uuid": self._uuid()}
        if "usage" in copy.get("message", {}):
            copy["message"] = {**copy["message"], "usage": {"input_tokens": 0, "output_tokens": 0}}
        self.records.append(copy)
        return copy

    def _boundary(self, metadata: dict[str, Any]) -> str:
        last = self.records[-1]["uuid"] if self.records else None
        about = {"subtype": "compact_boundary", "content": "Conversation compacted", "isMeta": False, "level": "info"}
        record = self._record("system", None, logicalParentUuid=last, compactMetadata=metadata, **about)
        return str(record["uuid"])

    def _end(self) -> str | None:
        """Return the uuid of the last record in memory."""
        last = self.memory[-1] if self.memory else None
        return None if last is None else str((last.behind[-1] if last.behind else last.record)["uuid"])

    def _say(
        self, kind: str, content: Any, parent: str | None = None, *, attached: bool = False, **fields: Any
    ) -> None:
        message = {"role": kind, "content": content}
        row = self._row(self._record(kind, parent or self._end(), message=message, **fields))
        if attached:
            told = {"type": "date", "date": "2026-01-01"}
            row.behind.append(self._record("attachment", row.record["uuid"], attachment=told))
        self.memory.append(row)

    def _answer(self, number: int, thinks: bool, texts: Iterable[str], calls: Sequence[dict[str, Any]]) -> None:
        thinking = {"type": "thinking", "thinking": "Hm.", "signature": f"c2ln{number:04}"}
        for block in [*([thinking] if thinks else ()), *({"type": "text", "text": text} for text in texts), *calls]:
            message = {
                "id": f"msg_{number}",
                "type": "message",
                "role": "assistant",
                "model": MODEL,
                "content": [block],
            }
            usage = {"input_tokens": 900, "output_tokens": 9}
            self.memory.append(self._row(self._record("assistant", self._end(), message={**message, "usage": usage})))

    def _row(self, record: dict[str, Any]) -> Row:
        self.order += 1
        return Row(record, self.order)

    def _message(self, row: Mapping[str, Any]) -> dict[str, Any]:
        texts = [{"type": "text", "text": row["text"]}] if row["text"] else []
        uses = [call(each["tool_use_id"], each["tool"], **each["input"]) for each in row["toolUses"]]
        results = [result(each["tool_use_id"], each["text"]) for each in row.get("toolResults", ())]
        if row["role"] == "user":
            return {"role": "user", "content": [*results, *texts] if results else row["text"]}
        about = {"id": self._uuid(), "type": "message", "model": "<synthetic>", "role": "assistant"}
        return {**about, "content": [*texts, *uses], "usage": {"input_tokens": 0, "output_tokens": 0}}


def shown(agent: Agent) -> list[Item]:
    """Return the messages of a context in the form of `EditedClient.items`, without what the client tells by itself
    and without thinking."""
    with agent.reading() as (_, at):
        evicted = at.fold.evicted.keys()
    found: list[Item] = []
    for event in in_place(agent.context().messages):
        if event.kind == "client" or (event.kind == "assistant" and not event.content):
            continue
        kind = "user" if event.kind == "summary" else event.kind
        text = event.call_id or " ".join(event.content.split())
        found.append((kind, text, event.id in evicted))
    return joined(found)


def joined(items: Iterable[Item]) -> list[Item]:
    """Return the items with neighbouring results in the order of their ids, and neighbouring texts as one: a plugin may
    join them."""
    found: list[Item] = []
    for item in items:
        at = len(found)
        if item[0] in ("user", "assistant") and at and found[-1][0] == item[0]:
            found[-1] = (item[0], f"{found[-1][1]} {item[1]}", False)
            continue
        while item[0] == "tool_result" and at and found[at - 1][0] == "tool_result" and found[at - 1][1] > item[1]:
            at -= 1
        found.insert(at, item)
    return found
