"""The first pass over a session: what has to be known of every record before one of them is imported [SPEC 8].

A `RecordEntry` holds ids, flags and numbers of a record and none of its texts.
"""

from collections.abc import Container, Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from foldmark.sessions.claude.blocks import is_api_error, read_message, response_of
from foldmark.sessions.lenient_json import filled_text, whole_number
from foldmark.sessions.messages import (
    AnswerUsage,
    CallMessage,
    PreservedRecords,
    RecordEntry,
    ResultMessage,
    TextMessage,
    moment_of,
    record_key,
)
from foldmark.sessions.session_file import SessionRecord

INTERRUPTIONS = ("[Request interrupted by user]", "[Request interrupted by user for tool use]")
"""What Claude Code itself writes, as a user, when a person stops the model."""


def index(records: Iterable[SessionRecord], carried: dict[str, Any], known: Container[bytes] = ()) -> list[RecordEntry]:
    """One entry for each record, in the file's order.

    A file in which every message is a sidechain's, as in a subagent's own file, is taken as a main chain. `carried` is
    what the records before these left to know (nothing at the beginning) and is brought up to date; `known` are their
    keys.
    """
    entries = list(_shown_once(_entries(records), known))
    first = next((entry.moment for entry in entries if entry.moment), None)
    all_side = carried.get("all_side", True) and not any(entry.role and entry.side is None for entry in entries)
    carried["all_side"] = all_side
    for at, entry in enumerate(entries):
        if all_side and entry.side is not None:
            entry = entries[at] = replace(entry, side=None)
        if entry.moment is None and first:
            entries[at] = replace(entry, moment=first)
    return entries


def _shown_once(entries: Iterable[RecordEntry], known: Container[bytes]) -> Iterator[RecordEntry]:
    """Yield the entries with nothing to show in those whose uuid a message before has: Claude Code reads one of two."""
    seen: set[str] = set()
    for entry in entries:
        if entry.uuid is None or entry.role is None:
            yield entry
        elif entry.uuid in seen or entry.key in known:
            yield RecordEntry(
                line=entry.line, offset=entry.offset, moment=entry.moment, side=entry.side, key=entry.key, repeats=True
            )
        else:
            seen.add(entry.uuid)
            yield entry


def _entries(records: Iterable[SessionRecord]) -> Iterator[RecordEntry]:
    moment: datetime | None = None
    for record in records:
        value = record.value if isinstance(record.value, dict) else {}
        moment = moment_of(value) or moment
        parts = read_message(value).parts
        calls = tuple([part.call_id for part in parts if isinstance(part, CallMessage)])
        results = tuple([part.call_id for part in parts if isinstance(part, ResultMessage)])
        texts = [part for part in parts if isinstance(part, TextMessage)]
        attached = value.get("type") == "attachment"
        role = ("user" if attached else value["type"]) if parts else None
        uuid = filled_text(value.get("uuid"))
        interruption = len(parts) == 1 and bool(texts) and texts[0].text in INTERRUPTIONS
        yield RecordEntry(
            line=record.line,
            offset=record.offset,
            moment=moment,
            uuid=uuid,
            key=record_key(uuid.encode() if uuid else _without_session(record.value)),
            parent=filled_text(value.get("parentUuid")) or filled_text(value.get("logicalParentUuid")),
            side=(filled_text(value.get("agentId")) or "") if value.get("isSidechain") is True else None,
            role=role,
            prompt=role == "user" and not results and not interruption,
            failed=is_api_error(value),
            injected=attached or value.get("isMeta") is True,
            interruption=role == "user" and interruption,
            response=response_of(value) if parts else None,
            calls=calls,
            results=results,
            prompted_by=filled_text(value.get("sourceToolUseID")),
            usage=_usage(value) if parts else None,
            compacts=role == "user" and value.get("isCompactSummary") is True and len(texts) == len(parts),
            preserved=preserved(value),
        )


def _without_session(value: Any) -> bytes:
    """A record as JSON, as it is in every copy of its session."""
    if isinstance(value, dict):
        value = {name: each for name, each in value.items() if name != "sessionId"}
    return msgspec.json.encode(value)


def preserved(value: dict[str, Any]) -> PreservedRecords | None:
    """What a record says that a compaction leaves as it was."""
    metadata = value.get("compactMetadata")
    if not isinstance(metadata, dict):
        return None
    listed, segment = metadata.get("preservedMessages"), metadata.get("preservedSegment")
    if isinstance(listed, dict) and isinstance(listed.get("uuids"), list):
        uuids = tuple(uuid for uuid in listed["uuids"] if isinstance(uuid, str))
        return PreservedRecords(filled_text(listed.get("anchorUuid")), uuids)
    if isinstance(segment, dict):
        ends = (filled_text(segment.get("headUuid")), filled_text(segment.get("tailUuid")))
        return PreservedRecords(filled_text(segment.get("anchorUuid")), (), *ends)
    return None


def _usage(value: dict[str, Any]) -> AnswerUsage | None:
    """What an assistant record reports; None for what no model wrote (model `<synthetic>`) or without any number."""
    message = value["message"] if value["type"] == "assistant" else {}
    usage, model = message.get("usage"), filled_text(message.get("model"))
    if not isinstance(usage, dict) or model == "<synthetic>":
        return None
    numbers = [
        whole_number(usage.get(name))
        for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    ]
    if numbers == [None] * 4:
        return None
    return AnswerUsage(model, response_of(value), *(number or 0 for number in numbers))
