"""The first pass over a session: what has to be known of every record before one of them is imported [SPEC 8].

An `Entry` holds ids, flags and numbers of a record and none of its texts, so that memory follows the number of records.
"""

from collections.abc import Container, Iterable, Iterator
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.codec import utc
from foldmark.sessions.claude.blocks import Call, Result, Text, is_api_error, read_message, response_of
from foldmark.sessions.session_file import Record

INTERRUPTIONS = ("[Request interrupted by user]", "[Request interrupted by user for tool use]")
"""What Claude Code itself writes, as a user, when a person stops the model."""


class Usage(NamedTuple):
    """What the provider reported for one API message, in tokens; `input` is what no cache was used for."""

    model: str | None
    response: str | None
    input: int
    output: int
    cache_read: int
    cache_write: int


class Preserved(Struct, frozen=True, gc=False):
    """What a compaction leaves as it was: records by their `uuids`, or the way from `tail` up to `head`.

    `anchor` is the record that they are to stand behind: the summary, or the boundary in front of it.
    """

    anchor: str | None
    uuids: tuple[str, ...] = ()
    head: str | None = None
    tail: str | None = None


class Entry(Struct, frozen=True, kw_only=True, gc=False):
    """What is known of a record without its texts.

    `moment` is its time, or that of the record before it (before the first that has one: that one's; None if none
    has). `side` is None on the main chain, otherwise the agent's id, or "" where the record names none. `role` is user
    or assistant if there is a message in it. `prompt`: a person's text, so that it can open a turn; `injected`: text
    that Claude Code put there itself (isMeta), or a person while the model was busy; `failed`: an error of the API
    in an answer's place; `interruption`: one of `INTERRUPTIONS`. `calls` and `results` are tool
    call ids; `prompted_by` is the call that made Claude Code inject this record. `compacts`: it is the summary that a
    compaction puts in place of what was before. `preserved` is what the boundary of a compaction says of it.

    `key` is the same for the same record wherever it stands (see `record_key`). `repeats`: its uuid is that of a record
    before it, so that nothing of it is shown. `rewinds`: it takes turns before it out of the session.
    """

    line: int
    offset: int
    moment: datetime | None
    uuid: str | None = None
    parent: str | None = None
    side: str | None = None
    role: str | None = None
    prompt: bool = False
    injected: bool = False
    interruption: bool = False
    failed: bool = False
    response: str | None = None
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    prompted_by: str | None = None
    usage: Usage | None = None
    compacts: bool = False
    preserved: Preserved | None = None
    key: bytes = b""
    repeats: bool = False
    rewinds: bool = False


def index(records: Iterable[Record], carried: dict[str, Any], known: Container[bytes] = ()) -> list[Entry]:
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


def record_key(identity: bytes) -> bytes:
    """Return the key of a record by its uuid, or by all of it as JSON."""
    return blake2b(identity, digest_size=8).digest()


def _shown_once(entries: Iterable[Entry], known: Container[bytes]) -> Iterator[Entry]:
    """Yield the entries with nothing to show in those whose uuid a message before has: Claude Code reads one of two."""
    seen: set[str] = set()
    for entry in entries:
        if entry.uuid is None or entry.role is None:
            yield entry
        elif entry.uuid in seen or entry.key in known:
            yield Entry(
                line=entry.line, offset=entry.offset, moment=entry.moment, side=entry.side, key=entry.key, repeats=True
            )
        else:
            seen.add(entry.uuid)
            yield entry


def _entries(records: Iterable[Record]) -> Iterator[Entry]:
    moment: datetime | None = None
    for record in records:
        value = record.value if isinstance(record.value, dict) else {}
        moment = moment_of(value) or moment
        parts = read_message(value).parts
        calls = tuple([part.call_id for part in parts if isinstance(part, Call)])
        results = tuple([part.call_id for part in parts if isinstance(part, Result)])
        texts = [part for part in parts if isinstance(part, Text)]
        attached = value.get("type") == "attachment"
        role = ("user" if attached else value["type"]) if parts else None
        uuid = _text(value.get("uuid"))
        interruption = len(parts) == 1 and bool(texts) and texts[0].text in INTERRUPTIONS
        yield Entry(
            line=record.line,
            offset=record.offset,
            moment=moment,
            uuid=uuid,
            key=record_key(uuid.encode() if uuid else _without_session(record.value)),
            parent=_text(value.get("parentUuid")) or _text(value.get("logicalParentUuid")),
            side=(_text(value.get("agentId")) or "") if value.get("isSidechain") is True else None,
            role=role,
            prompt=role == "user" and not results and not interruption,
            failed=is_api_error(value),
            injected=attached or value.get("isMeta") is True,
            interruption=role == "user" and interruption,
            response=response_of(value) if parts else None,
            calls=calls,
            results=results,
            prompted_by=_text(value.get("sourceToolUseID")),
            usage=_usage(value) if parts else None,
            compacts=role == "user" and value.get("isCompactSummary") is True and len(texts) == len(parts),
            preserved=preserved(value),
        )


def _without_session(value: Any) -> bytes:
    """A record as JSON, as it is in every copy of its session."""
    if isinstance(value, dict):
        value = {name: each for name, each in value.items() if name != "sessionId"}
    return msgspec.json.encode(value)


def moment_of(value: dict[str, Any]) -> datetime | None:
    """A record's time in UTC, where its timestamp is ISO 8601; one without a zone is taken as UTC."""
    text = value.get("timestamp")
    if not isinstance(text, str):
        return None
    try:
        return utc(text)
    except ValueError:
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def preserved(value: dict[str, Any]) -> Preserved | None:
    """What a record says that a compaction leaves as it was."""
    metadata = value.get("compactMetadata")
    if not isinstance(metadata, dict):
        return None
    listed, segment = metadata.get("preservedMessages"), metadata.get("preservedSegment")
    if isinstance(listed, dict) and isinstance(listed.get("uuids"), list):
        uuids = tuple(uuid for uuid in listed["uuids"] if isinstance(uuid, str))
        return Preserved(_text(listed.get("anchorUuid")), uuids)
    if isinstance(segment, dict):
        ends = (_text(segment.get("headUuid")), _text(segment.get("tailUuid")))
        return Preserved(_text(segment.get("anchorUuid")), (), *ends)
    return None


def _usage(value: dict[str, Any]) -> Usage | None:
    """What an assistant record reports; None for what no model wrote (model `<synthetic>`) or without any number."""
    message = value["message"] if value["type"] == "assistant" else {}
    usage, model = message.get("usage"), _text(message.get("model"))
    if not isinstance(usage, dict) or model == "<synthetic>":
        return None
    numbers = [
        _count(usage.get(name))
        for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    ]
    if numbers == [None] * 4:
        return None
    return Usage(model, response_of(value), *(number or 0 for number in numbers))


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None
