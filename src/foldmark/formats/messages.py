"""The values that a format reads from the records of a session [SPEC 8].

A record has messages, in one form for an import and another for a search, and one index entry, from which `chain` plans
turns and branches. No code above this module depends on the agent that wrote a session. An entry contains no texts, so
the memory of an index grows only with the number of records.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.codec import utc
from foldmark.core.events import OPENING_KINDS
from foldmark.formats.session_file import SessionRecord
from foldmark.wires.parts import CallMessage, Data, Part, ResultMessage, TextMessage

if TYPE_CHECKING:
    from hashlib import blake2b


class RecordMessages(Struct, frozen=True):
    """The messages of a record. `complete` is False if part of the record was not usable.

    `history` is that with which a compaction goes on, as items of the format's provider, if its text alone does not say
    it: the provider gets these items, and the text of the message is for people.
    """

    parts: tuple[Part, ...]
    complete: bool
    history: tuple[Data, ...] = ()

    @property
    def calls(self) -> tuple[str, ...]:
        """The ids of the calls that the record makes."""
        return tuple([part.call_id for part in self.parts if isinstance(part, CallMessage)])

    @property
    def results(self) -> tuple[str, ...]:
        """The ids of the calls of which there are results."""
        return tuple([part.call_id for part in self.parts if isinstance(part, ResultMessage)])


NOTHING = RecordMessages((), complete=False)


class SearchedMessage(Struct, frozen=True):
    """A message for a search. `role` is user, assistant, thinking, tool_call or tool_result.

    `text` is the whole text, or for a call its arguments with their names, one per line. `tool` is the tool of a
    call, and `call` is the id that a call and its result share.
    """

    role: str
    text: str
    tool: str | None = None
    call: str | None = None


def searched_parts(parts: Iterable[Part]) -> Iterator[SearchedMessage]:
    """Yield the searchable parts of messages: texts, thinking, tool calls and results."""
    for part in parts:
        match part:
            case TextMessage():
                yield SearchedMessage(part.kind, part.text)
                for block in (part.data or {}).get("blocks", ()):
                    yield from _searched_block(block)
            case CallMessage():
                yield SearchedMessage("tool_call", argument_text(part.args), part.name, part.call_id)
            case ResultMessage():
                yield SearchedMessage("tool_result", part.text, None, part.call_id)


def argument_text(value: Any) -> str:
    """Return the texts and numbers of a JSON value, one per line, each after its name."""
    return "\n".join(_leaves(value, ""))


def _searched_block(block: Data) -> Iterator[SearchedMessage]:
    """Yield thinking and the calls of tools that the provider runs."""
    thinking, name = block.get("thinking"), block.get("name")
    if isinstance(thinking, str):
        yield SearchedMessage("thinking", thinking)
    elif isinstance(name, str) and name:
        yield SearchedMessage("tool_call", argument_text(block.get("input")), name, None)


def _leaves(value: Any, name: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, name)
    elif value is not None and not isinstance(value, bool):
        yield f"{name}: {value}" if name else str(value)


class AnswerUsage(NamedTuple):
    """The usage that the provider reported for one API message, in tokens; `input` excludes cached tokens."""

    model: str | None
    response: str | None
    input: int
    output: int
    cache_read: int
    cache_write: int


class PreservedRecords(Struct, frozen=True, gc=False):
    """The records that a compaction preserves: those with these `uuids`, or the path from `tail` up to `head`.

    `anchor` is the record after which they belong: the summary, or the boundary before it.
    """

    anchor: str | None
    uuids: tuple[str, ...] = ()
    head: str | None = None
    tail: str | None = None


class Leaf(Struct, frozen=True, gc=False):
    """The record at which the active branch ends, as a session names it; `uuid` is None if it names none.

    `pinned`: a person chose it. A pinned leaf without a record empties the context.
    """

    uuid: str | None = None
    pinned: bool = False


NOWHERE = Leaf(None, pinned=True)


class ChainRecord(Struct, kw_only=True, gc=False):
    """What decides whether a record is sent on resuming a session, and where.

    `timed`: the `moment` is its own time. `side` is None on the main chain, otherwise the agent's id, or "" if the
    record names none. `message_id` is the id of the answer whose line it is, as the client reads it. `calls` and
    `results` are tool call ids. `prompted_by` is the call for which the client injected this record.

    `chained`: it is of a type that can be part of a chain; `said`: the user's or the model's; `is_answer`: the model's;
    `passing`: it only reports progress. `spoken`: it has a message for the model, or results that were made up.
    `failed`: it is an API error in place of an answer. `thinking`: it holds thinking and nothing else. `compacts`: it
    is the summary of a compaction. `boundary`: it is the boundary of a compaction, which preserves the records
    `preserved`. `leaf` is the leaf that it names.
    """

    line: int
    offset: int = 0
    moment: datetime | None = None
    timed: bool = True
    uuid: str | None = None
    parent: str | None = None
    side: str | None = None
    message_id: str | None = None
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    prompted_by: str | None = None
    chained: bool = False
    said: bool = False
    is_answer: bool = False
    passing: bool = False
    spoken: bool = False
    failed: bool = False
    thinking: bool = False
    compacts: bool = False
    boundary: bool = False
    preserved: PreservedRecords | None = None
    leaf: Leaf | None = None

    @property
    def aside(self) -> bool:
        """True if the record is a subagent's."""
        return self.side is not None

    @property
    def own_time(self) -> datetime | None:
        """The time that the record itself names."""
        return self.moment if self.timed else None

    @property
    def result_ids(self) -> tuple[str, ...]:
        """The ids of the calls of which it has results."""
        return self.results


class RecordEntry(ChainRecord, frozen=True, kw_only=True, gc=False):  # type: ignore[misc]  # msgspec may freeze it
    """An index entry: the properties of a record without its texts.

    `moment` is the time of the record, otherwise that of the record before it, otherwise the first known time; None if
    no record has one. `role` is user or assistant if the record has a message. `prompt`: it is a person's text, which
    can open a turn. `told`: a client wrote all of its texts by itself. `raised`: the client sends it directly after the
    answer or result before it. `injected`: its text was inserted by Claude Code, or by a person while the model was
    busy. `interruption`: it is Claude Code's note that a person stopped the model. `logical` is the last record before
    a compaction, as its boundary names it. `whole`: the summary holds the history with which the session goes on, even
    if no message precedes it.

    `response` is the id that an answer had in the conversation. `made_up` are the calls to which a record that is no
    message gives results. `key` is the same for all copies of a record (see `record_key`). `repeats`: an earlier record
    has the same uuid, so this one is not shown. `rewinds`: it removes earlier turns from the session.

    `edit`: behind this boundary, the messages that an edit leaves are written again. `copies` are the lines of the
    earliest records with the messages that this one writes again, None if it writes new ones; `evicts` are the calls
    whose results it evicts.
    """

    logical: str | None = None
    role: str | None = None
    prompt: bool = False
    told: bool = False
    raised: bool = False
    injected: bool = False
    interruption: bool = False
    response: str | None = None
    made_up: tuple[str, ...] = ()
    usage: AnswerUsage | None = None
    whole: bool = False
    key: bytes = b""
    repeats: bool = False
    rewinds: bool = False
    edit: bool = False
    copies: tuple[int, ...] | None = None
    evicts: tuple[str, ...] = ()

    @property
    def result_ids(self) -> tuple[str, ...]:
        """The ids of the calls of which it has results, those that were made up included."""
        return self.results or self.made_up


def index_in_order(records: Iterable[SessionRecord], messages: Callable[[Any], RecordMessages]) -> list[RecordEntry]:
    """Return one entry for each record of a session whose records form one chain, in file order."""
    moment: datetime | None = None
    entries = []
    for record in records:
        value = record.value if isinstance(record.value, dict) else {}
        moment = record_time(value) or moment
        entries.append(entry_of(record, moment, messages(value)))
    return with_moments(entries)


def entry_of(record: SessionRecord, moment: datetime | None, found: RecordMessages, **fields: Any) -> RecordEntry:
    """Return the entry of a record with these messages. `fields` are further fields from its format.

    If `fields` has no `uuid`, the line number is used as the uuid.
    """
    parts, results = found.parts, found.results
    role = ("user" if results or parts[0].kind in OPENING_KINDS else "assistant") if parts else None
    told = bool(parts) and all(part.kind == "client" for part in parts)
    return RecordEntry(
        line=record.line,
        offset=record.offset,
        moment=moment,
        uuid=fields.pop("uuid", str(record.line)),
        key=fields.pop("key", None) or record_key(msgspec.json.encode(record.value)),
        role=role,
        spoken=bool(parts or fields.get("made_up")),
        prompt=role == "user" and not results and not told and not fields.get("interruption"),
        told=told,
        calls=found.calls,
        results=results,
        **fields,
    )


def with_moments(entries: list[RecordEntry]) -> list[RecordEntry]:
    """Return the entries; those before the first known time get that time."""
    first = next((entry.moment for entry in entries if entry.moment), None)
    return [replace(entry, moment=first) if entry.moment is None else entry for entry in entries]


def record_key(identity: bytes) -> bytes:
    """Return the key of a record, computed from its uuid or from the whole record as JSON."""
    return _hash()(identity, digest_size=8).digest()


@cache
def _hash() -> "type[blake2b]":
    from hashlib import blake2b  # 2 ms, which commands that read no record save

    return blake2b


def record_time(value: dict[str, Any]) -> datetime | None:
    """Return a record's time in UTC, or None if its timestamp is not ISO 8601. A time without a zone counts as UTC."""
    text = value.get("timestamp")
    if not isinstance(text, str):
        return None
    try:
        return utc(text)
    except ValueError:
        return None
