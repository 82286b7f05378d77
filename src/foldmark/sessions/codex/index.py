"""The first pass over a Codex rollout: entries as of a Claude Code session, so that one plan serves both [SPEC 8].

A rollout is one chain in the file's order. What a person went back behind (`thread_rolled_back`) is a branch of its
own. A compaction (`compacted`) leaves what it repeats in its `replacement_history`: the person's messages.
"""

from collections.abc import Container, Iterable
from datetime import datetime
from hashlib import blake2b
from typing import Any

from msgspec.structs import replace

from foldmark.sessions.codex.items import is_codex, is_injected, read_item, said_by, summary_of
from foldmark.sessions.lenient_json import whole_number
from foldmark.sessions.messages import (
    AnswerUsage,
    PreservedRecords,
    RecordEntry,
    RecordMessages,
    TextMessage,
    entry_of,
    moment_of,
    with_moments,
)
from foldmark.sessions.session_file import SessionRecord


def index(records: Iterable[SessionRecord], carried: dict[str, Any], known: Container[bytes] = ()) -> list[RecordEntry]:
    """One entry for each record, in the file's order.

    `carried` is what the records before these left to know (nothing at the beginning) and is brought up to date. A
    record has no uuid, so that it is not told by its key whether it is `known`.
    """
    indexing = _Indexing(carried)
    for record in records:
        indexing.add(record)
    carried.update(indexing.carried)
    return with_moments(indexing.entries)


class _Indexing:
    def __init__(self, carried: dict[str, Any]) -> None:
        self.entries: list[RecordEntry] = []
        self._moment: datetime | None = None
        self._model: str | None = carried.get("model")
        self._spent: Any = carried.get("spent")
        self._prompts: list[int] = []
        self._lines: dict[bytes, str] = {}

    @property
    def carried(self) -> dict[str, Any]:
        return {"model": self._model, "spent": self._spent}

    def add(self, record: SessionRecord) -> None:
        value = record.value if is_codex(record.value) else {}
        payload = value.get("payload", {})
        self._moment = moment_of(value) or self._moment
        reading = read_item(value)
        entry = self._entry(record, value, payload, reading)
        if entry.prompt and not entry.compacts and not entry.injected:
            self._prompts.append(len(self.entries))
        self.entries.append(entry)
        if value.get("type") == "event_msg" and payload.get("type") == "thread_rolled_back":
            self._roll_back(payload.get("num_turns"), record.line)

    def _entry(
        self, record: SessionRecord, value: dict[str, Any], payload: dict[str, Any], reading: RecordMessages
    ) -> RecordEntry:
        texts = [part.text for part in reading.parts if isinstance(part, TextMessage)]
        found = entry_of(record, self._moment, reading)
        own = str(record.line)
        compacts = value.get("type") == "compacted" and bool(reading.parts)
        if not compacts:
            self._lines.update((_digest(text), own) for text in texts if text.strip())
        return replace(
            found,
            rewinds=payload.get("type") == "thread_rolled_back",
            injected=found.role == "user" and bool(texts) and is_injected(texts[0]),
            usage=self._usage(value, payload),
            compacts=compacts,
            preserved=PreservedRecords(own, self._repeated(payload)) if compacts else None,
        )

    def _repeated(self, payload: dict[str, Any]) -> tuple[str, ...]:
        """The lines of the messages that a compaction's history repeats, but the summary itself."""
        history = payload.get("replacement_history")
        items = history if isinstance(history, list) else []
        texts = {text for item in items for text in said_by(item)} - {summary_of(payload)}
        return tuple(self._lines[digest] for digest in map(_digest, texts) if digest in self._lines)

    def _usage(self, value: dict[str, Any], payload: dict[str, Any]) -> AnswerUsage | None:
        """What one answer cost, once: Codex reports it again when its limits change."""
        if value.get("type") == "turn_context":
            model = payload.get("model")
            self._model = model if isinstance(model, str) and model else None
        info = payload.get("info") if payload.get("type") == "token_count" else None
        if (
            value.get("type") != "event_msg"
            or not isinstance(info, dict)
            or info.get("total_token_usage") == self._spent
        ):
            return None
        self._spent = info.get("total_token_usage")
        last = info.get("last_token_usage")
        numbers = last if isinstance(last, dict) else {}
        read, cached, made = (whole_number(numbers.get(f"{n}_tokens")) for n in ("input", "cached_input", "output"))
        if read is None and made is None:
            return None
        cached = min(cached or 0, read or 0)
        return AnswerUsage(self._model, None, (read or 0) - cached, made or 0, cached, 0)

    def _roll_back(self, turns: Any, line: int) -> None:
        count = whole_number(turns) or 0
        if not count or not self._prompts:
            return
        begin = self._prompts[-count] if count <= len(self._prompts) else self._prompts[0]
        del self._prompts[-count:]
        for at in range(begin, len(self.entries)):
            if self.entries[at].role and self.entries[at].side is None:
                self.entries[at] = replace(self.entries[at], side=f"rolled back {line}")


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
