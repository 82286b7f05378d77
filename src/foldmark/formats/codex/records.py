"""Read the records of a Codex rollout: their messages, and their index entries for an import [SPEC 8].

The model reads the items of `response_item` records, and the summary of a compaction. These are the messages; the
copies in `event_msg` records are for display. Where the format leaves a choice:

- Instructions to the model (developer or system messages) are Codex's own and not part of a conversation.
- A tool's output is unchanged, even if it is JSON or begins with an exit code, because the model read it that way.
- A compaction is its own record; as an item it is no message.

What an item says, `foldmark.wires.responses` knows.

A rollout is one chain in file order. Turns that a person rolled back (`thread_rolled_back`) are a separate branch, with
a compaction in them. After a compaction (`compacted`) the model reads its `replacement_history`, or the prompts and the
summary in `message`. If these are only texts of the person, the messages that they repeat stay, and the summary behind
them replaces all others. Otherwise the summary holds the whole history and replaces everything: there is no text of a
summary, or the history has answers, calls, images, or a compaction that only the provider can read.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from foldmark.core.assembly.eviction import OPAQUE
from foldmark.core.events import OPENING_KINDS
from foldmark.formats.chain import ActiveRecords
from foldmark.formats.messages import (
    NOTHING,
    AnswerUsage,
    PreservedRecords,
    RecordEntry,
    RecordMessages,
    SearchedMessage,
    argument_text,
    entry_of,
    record_time,
    with_moments,
)
from foldmark.formats.session_file import SessionRecord
from foldmark.wires import responses
from foldmark.wires.lenient_json import NotJsonError, decode, filled_text, member, objects_in, whole_number
from foldmark.wires.parts import SEALED, CallMessage, Data, Part, ResultMessage, TextMessage

TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state")
"""Types of records that only a rollout has."""

INTERRUPTED = "<turn_aborted>"
"""The beginning of Codex's note that a person interrupted an answer."""

INJECTED = ("<environment_context>", "<user_instructions>", INTERRUPTED, "# AGENTS.md instructions")
"""Prefixes of user messages that Codex inserts."""

ABORTED = "aborted"
"""The output that Codex makes up for a call that has none."""

NO_SUMMARY = "(no summary available)"
"""The text that Codex sends for a compaction with neither a summary nor a history."""

_NO_MESSAGES = ("ghost_snapshot", responses.FROM_AGENT)
"""Types of items in a history that the provider's public API does not know."""

_SPOKEN = (responses.MESSAGE, responses.THINKING)


def is_record(record: Any) -> bool:
    """Return True if a line's value is a record of a Codex rollout."""
    return isinstance(record, dict) and record.get("type") in TYPES and isinstance(record.get("payload"), dict)


def read_item(record: Any) -> RecordMessages:
    """Return the messages of a record; `NOTHING` if it has none or is not usable."""
    if not is_record(record):
        return NOTHING
    payload = record["payload"]
    if record["type"] == "compacted":
        return _compaction(payload)
    if record["type"] != "response_item":
        return NOTHING
    return _messages(payload)


def _messages(item: Data) -> RecordMessages:
    parts, complete = responses.read(item)
    return NOTHING if parts and parts[0].kind == "system" else RecordMessages(tuple(map(_told, parts)), complete)


def _told(part: Part) -> Part:
    """Return the part with the kind `client` if Codex wrote it in the user's name. Its note of an interruption stays a
    user's."""
    if isinstance(part, TextMessage) and part.kind == "user" and is_injected(part.text):
        return part if part.text.lstrip().startswith(INTERRUPTED) else replace(part, kind="client")
    return part


def searched_item(record: Data) -> Iterator[SearchedMessage]:
    """Yield the searchable messages of a record, including thinking and web searches, and only the text of an output.

    The first versions of Codex wrote plain items; later ones wrap them.
    """
    item = record.get("payload") if record.get("type") in ("response_item", "compacted") else record
    if not isinstance(item, dict):
        return
    if record.get("type") == "compacted":
        yield SearchedMessage("assistant", _joined(item.get("message")))
    elif responses.is_thinking(item):
        texts = filter(None, (_joined(item.get("summary")), _joined(item.get("content"))))
        yield SearchedMessage("thinking", "\n".join(texts))
    elif item.get("type") == responses.MESSAGE and item.get("role") in ("user", "assistant"):
        yield SearchedMessage(item["role"], _joined(item.get("content")))
    else:
        for part in responses.read(item).parts:
            if isinstance(part, ResultMessage):
                inner = member(_unpacked(part.text), "output")  # older versions wrote an output as JSON inside a text
                text = inner if isinstance(inner, str) else part.text
                yield SearchedMessage("tool_result", text, None, part.call_id)
            elif isinstance(part, CallMessage) or responses.is_call(responses.kind_of(item)):
                args = responses.args_of(item)
                given = args["input"] if isinstance(args, dict) and args.keys() == {"input"} else args
                text = argument_text(_unpacked(given))
                yield SearchedMessage("tool_call", text, responses.tool_of(item), responses.call_of(item))


def _joined(value: Any) -> str:
    return "\n".join(responses.contents(value).texts)


def _unpacked(value: Any) -> Any:
    """Return the JSON object in a text, or any other value unchanged."""
    with suppress(NotJsonError):
        return decode(value.encode("utf-8", "replace")) if isinstance(value, str) and value.startswith("{") else value
    return value


def is_injected(text: str) -> bool:
    """Return True for a text that Codex writes in the user's name."""
    return text.lstrip().startswith(INJECTED)


def _summary(payload: Data) -> str | None:
    """Return the summary with which a compaction replaces earlier messages; None if it has none."""
    message = payload.get("message")
    if isinstance(message, str) and not message.strip() and not isinstance(payload.get("replacement_history"), list):
        return NO_SUMMARY
    message = filled_text(message)
    return message if message and message.strip() else None


def _compaction(payload: Data) -> RecordMessages:
    """Return the summary of a compaction, with the history that it holds, if any. Codex skips one whose metadata is of
    another length than its history."""
    whole, beside = payload.get("replacement_history"), payload.get("replacement_history_metadata")
    if isinstance(whole, list) and isinstance(beside, list) and len(whole) != len(beside):
        return NOTHING
    text, history = _summary(payload), history_of(payload)
    plain = text is not None and all(_is_persons_text(item) for item in history)
    if plain or not history:
        return RecordMessages((TextMessage("user", text),), complete=True) if text is not None else NOTHING
    said = [each for item in history if item["type"] == responses.MESSAGE for each in _texts(_messages(item))]
    said += [text] if text is not None and text not in said else []
    said += [OPAQUE] if any(item["type"] == responses.COMPACTION for item in history) else []
    return RecordMessages((TextMessage("user", "\n\n".join(said)),), complete=True, history=tuple(history))


def history_of(payload: Data) -> list[Data]:
    """Return the items with which a session goes on after a compaction, in the form that the provider accepts.

    The provider refuses messages and calls that cannot be read, and a call without its output or an output without its
    call.
    """
    found: list[Data] = []
    for item in objects_in(payload.get("replacement_history")):
        kind = filled_text(item.get("type"))
        kind = responses.COMPACTION if kind == "compaction_summary" else kind
        if kind is None or kind in _NO_MESSAGES:
            continue
        if (responses.is_paired(kind) or kind in _SPOKEN) and not _messages(item).parts:
            continue
        if kind == responses.COMPACTION and not filled_text(item.get(SEALED)):
            continue
        left = {name: value for name, value in item.items() if name not in responses.PASSING}
        found.append({**left, "type": kind})
    paired = _call_ids(found, responses.CALLS) & _call_ids(found, responses.RESULTS)
    return [item for item in found if not responses.is_paired(item["type"]) or responses.call_of(item) in paired]


def _call_ids(found: Iterable[Data], kinds: Container[str]) -> set[Any]:
    return {responses.call_of(item) for item in found if item["type"] in kinds}


def _is_persons_text(item: Data) -> bool:
    parts, complete = responses.read(item)
    return complete and item.get("role") == "user" and not any(part.data for part in parts)


def index(records: Iterable[SessionRecord]) -> list[RecordEntry]:
    """Return one entry for each record, in file order (see `SessionFormat.index`)."""
    entries: list[RecordEntry] = []
    prompts: list[int] = []
    lines: dict[bytes, str] = {}
    moment: datetime | None = None
    spent: dict[str, Any] = {"model": None, "tokens": None}
    for record in records:
        value = record.value if is_record(record.value) else {}
        kind, payload = value.get("type"), value.get("payload", {})
        moment = record_time(value) or moment
        found = read_item(value)
        texts = _texts(found)
        compacts = kind == "compacted" and bool(found.parts)
        if not compacts:
            lines.update((_digest(text), str(record.line)) for text in texts if text.strip())
        entry = entry_of(
            record,
            moment,
            found,
            rewinds=payload.get("type") == "thread_rolled_back",
            injected=bool(texts) and found.parts[0].kind in OPENING_KINDS and is_injected(texts[0]),
            usage=_usage(kind, payload, spent),
            compacts=compacts,
            whole=bool(found.history),
            preserved=(
                _preserved(record.line, payload, found, lines, [entries[at] for at in prompts]) if compacts else None
            ),
        )
        if entry.prompt and not entry.compacts and not entry.injected:
            prompts.append(len(entries))
        entries.append(entry)
        turns = whole_number(payload.get("num_turns")) if kind == "event_msg" and entry.rewinds else None
        if turns and prompts:
            begin = prompts[-turns] if turns <= len(prompts) else prompts[0]
            del prompts[-turns:]
            _set_aside(entries, begin, f"rolled back {record.line}")
    return with_moments(entries)


def active(entries: Sequence[RecordEntry]) -> ActiveRecords:
    """Return the active records of a rollout (see `SessionFormat.active`).

    Codex leaves an output out that has no call before or behind it. It makes one up for a call that has none; here this
    is done for calls of earlier turns, because one of the last turn may still get its output.
    """
    main = [entry for entry in entries if entry.side is None]
    calls = {call for entry in main for call in entry.calls}
    answered = {call for entry in main for call in entry.results}
    last = max((entry.line for entry in main if entry.prompt and not entry.injected), default=0)
    lost = {entry.line: [call for call in entry.results if call not in calls] for entry in main if entry.results}
    left = {entry.line: [call for call in entry.calls if call not in answered] for entry in main if entry.calls}
    made = {line: tuple((call, ABORTED) for call in each) for line, each in left.items() if line < last}
    return ActiveRecords(main, lost=lost, made=made)


def _preserved(
    line: int, payload: Data, found: RecordMessages, lines: Mapping[bytes, str], prompts: Iterable[RecordEntry]
) -> PreservedRecords:
    """Return the records that a compaction preserves: the messages that its history repeats, but not the summary
    itself; all prompts if it has no history, and nothing if it holds its whole history."""
    history = payload.get("replacement_history")
    if found.history:
        return PreservedRecords(str(line))
    if not isinstance(history, list):
        return PreservedRecords(str(line), tuple(str(entry.line) for entry in prompts))
    said = (item for item in objects_in(history) if item.get("type") == responses.MESSAGE)
    digests = map(_digest, {text for item in said for text in _texts(_messages(item))} - {_summary(payload)})
    return PreservedRecords(str(line), tuple(lines[digest] for digest in digests if digest in lines))


def _usage(kind: Any, payload: Data, spent: dict[str, Any]) -> AnswerUsage | None:
    """Return the usage of an answer once, because Codex reports it again when its limits change.

    `spent` has the answering model and the last reported total of `tokens`, and is updated.
    """
    if kind == "turn_context":
        spent["model"] = filled_text(payload.get("model"))
    info = payload.get("info") if kind == "event_msg" and payload.get("type") == "token_count" else None
    if not isinstance(info, dict) or info.get("total_token_usage") == spent["tokens"]:
        return None
    spent["tokens"] = info.get("total_token_usage")
    last = info.get("last_token_usage")
    read, cached, made = (whole_number(member(last, f"{n}_tokens")) for n in ("input", "cached_input", "output"))
    if read is None and made is None:
        return None
    cached = min(cached or 0, read or 0)
    return AnswerUsage(spent["model"], None, (read or 0) - cached, made or 0, cached, 0)


def _set_aside(entries: list[RecordEntry], begin: int, side: str) -> None:
    """Move the messages from entry `begin` on to a separate branch."""
    for at in range(begin, len(entries)):
        if entries[at].role and entries[at].side is None:
            entries[at] = replace(entries[at], side=side)


def _texts(found: RecordMessages) -> list[str]:
    return [part.text for part in found.parts if isinstance(part, TextMessage)]


def _digest(text: str) -> bytes:
    from hashlib import blake2b  # takes 2 ms, and few commands need it

    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
