"""Read the records of a Codex rollout: their messages, and their index entries for an import [SPEC 8].

The model reads the items of `response_item` records, and the summary of a compaction. These are the messages; the
copies in `event_msg` records are for display. Where the format leaves a choice:

- Instructions to the model (developer or system messages) are Codex's own and not part of a conversation.
- A tool's output is unchanged, even if it is JSON or begins with an exit code, because the model read it that way.
- Images and PDF documents become blocks in Foldmark's own form. Only the encrypted part of reasoning, which goes back
  to the provider, becomes a block.
- The input of a custom tool, which is text, becomes `{"input": text}`.

A rollout is one chain in file order. Turns that a person rolled back (`thread_rolled_back`) are a separate branch, with
a compaction in them. After a compaction (`compacted`) the model reads its `replacement_history`, or the prompts and the
summary in `message`. If these are only texts of the person, the messages that they repeat stay, and the summary behind
them replaces all others. Otherwise the summary holds the whole history and replaces everything: there is no text of a
summary, or the history has answers, calls, images, or a compaction that only the provider can read.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from foldmark.core.assembly.eviction import OPAQUE, RESPONSES
from foldmark.core.assembly.media import image_at
from foldmark.core.events import OPENING_KINDS
from foldmark.core.request import carry
from foldmark.dialects.openai import items
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
from foldmark.wires.lenient_json import NotJsonError, decode, filled_text, member, whole_number
from foldmark.wires.parts import CallMessage, Data, Part, ResultMessage, TextMessage

TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state")
"""Types of records that only a rollout has."""

INTERRUPTED = "<turn_aborted>"
"""The beginning of Codex's note that a person interrupted an answer."""

INJECTED = ("<environment_context>", "<user_instructions>", INTERRUPTED, "# AGENTS.md instructions")
"""Prefixes of user messages that Codex inserts."""

ABORTED = "aborted"
"""The output that Codex makes up for a call that has none."""

COMPACTION = "compaction"
"""Type of an item that replaces earlier items and that only the provider can read."""

NO_SUMMARY = "(no summary available)"
"""The text that Codex sends for a compaction with neither a summary nor a history."""

_NO_MESSAGES = ("ghost_snapshot", "agent_message")
"""Types of items in a history that the provider's public API does not know."""

_CODEX_OWN = ("type", "id", "status", "metadata", "internal_chat_message_metadata_passthrough")
"""Members of an item that Codex makes anew, or that only Codex reads."""

_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_PDF = "data:application/pdf;base64,"


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
    kind = filled_text(payload.get("type"))
    return _READERS[kind](payload) if kind in _READERS else NOTHING


def searched_item(record: Data) -> Iterator[SearchedMessage]:
    """Yield the searchable messages of a record, including thinking and web searches, and only the text of an output.

    The first versions of Codex wrote plain items; later ones wrap them.
    """
    item = record.get("payload") if record.get("type") in ("response_item", "compacted") else record
    if not isinstance(item, dict):
        return
    kind, role, call = filled_text(item.get("type")), item.get("role"), filled_text(item.get("call_id"))
    if record.get("type") == "compacted":
        yield SearchedMessage("assistant", _searched(item.get("message")))
    elif kind == "message" and role in ("user", "assistant"):
        yield SearchedMessage(role, _searched(item.get("content")))
    elif kind == "reasoning":
        texts = filter(None, (_searched(item.get("summary")), _searched(item.get("content"))))
        yield SearchedMessage("thinking", "\n".join(texts))
    elif kind is not None and kind in items.CALLS:
        tool = "shell" if kind == "local_shell_call" else items.tool_of(item)
        yield SearchedMessage("tool_call", argument_text(_unpacked(item.get(items.CALLS[kind].given))), tool, call)
    elif kind == "web_search_call":
        yield SearchedMessage("tool_call", argument_text(item.get("action")), "web_search", call)
    elif kind in items.RESULTS:
        yield SearchedMessage("tool_result", _searched_output(item.get("output")), None, call)


def _searched_output(value: Any) -> str:
    """Return the text of a tool's output. Older versions wrote it as JSON inside a text."""
    inner = _unpacked(value)
    if isinstance(inner, dict) and isinstance(inner.get("output"), str):
        return str(inner["output"])
    if isinstance(value, dict):
        value = value.get("content") or value.get("output")
    return _searched(value)


def _searched(value: Any) -> str:
    """Return a text, or the texts of a list of blocks."""
    texts, _, _ = _contents(value if isinstance(value, list) else [value])
    return "\n".join(texts)


def _unpacked(value: Any) -> Any:
    """Return the JSON object in a text, or any other value unchanged."""
    return _parsed(value) if isinstance(value, str) and value.startswith("{") else value


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
    said = [each for item in history if item["type"] == "message" for each in _texts(_message(item))]
    said += [text] if text is not None and text not in said else []
    said += [OPAQUE] if any(item["type"] == COMPACTION for item in history) else []
    return RecordMessages((TextMessage("user", "\n\n".join(said)),), complete=True, history=tuple(history))


def history_of(payload: Data) -> list[Data]:
    """Return the items with which a session goes on after a compaction, in the form that the provider accepts.

    The provider refuses messages and calls that cannot be read, and a call without its output or an output without its
    call.
    """
    found: list[Data] = []
    history = payload.get("replacement_history")
    for item in history if isinstance(history, list) else ():
        kind = filled_text(item.get("type")) if isinstance(item, dict) else None
        kind = COMPACTION if kind == "compaction_summary" else kind
        if kind is None or kind in _NO_MESSAGES:
            continue
        if kind in _READERS and not _READERS[kind](item).parts:
            continue
        if kind == COMPACTION and not filled_text(item.get("encrypted_content")):
            continue
        found.append({"type": kind, **{name: value for name, value in item.items() if name not in _CODEX_OWN}})
    paired = _call_ids(found, items.CALLS) & _call_ids(found, items.RESULTS)
    return [item for item in found if not items.is_paired(item["type"]) or item.get("call_id") in paired]


def _call_ids(found: Iterable[Data], kinds: Container[str]) -> set[Any]:
    return {item.get("call_id") for item in found if item["type"] in kinds}


def _is_persons_text(item: Data) -> bool:
    content = item.get("content")
    parts = content if isinstance(content, list) else [content]
    is_text = all(isinstance(part, str) or member(part, "type") in _TEXTS for part in parts)
    return item["type"] == "message" and item.get("role") == "user" and is_text


def _message(payload: Data) -> RecordMessages:
    kind, content = payload.get("role"), payload.get("content")
    if kind not in ("user", "assistant") or not isinstance(content, str | list):
        return NOTHING
    texts, others, complete = _contents([content] if isinstance(content, str) else content)
    parts: list[Part] = [TextMessage(_speaker(kind, text), text) for text in texts]
    if others:
        first = texts[0] if texts else ""
        parts[:1] = [TextMessage(_speaker(kind, first), first, {"blocks": others})]
    return RecordMessages(tuple(parts), complete and bool(parts))


def _speaker(role: str, text: str) -> str:
    """Return the kind of a message's text. What Codex wrote in the user's name is the client's, except for its note of
    an interruption."""
    return "client" if role == "user" and is_injected(text) and not text.lstrip().startswith(INTERRUPTED) else role


def _reasoning(payload: Data) -> RecordMessages:
    encrypted, summary = filled_text(payload.get("encrypted_content")), payload.get("summary")
    if encrypted is None or not encrypted.strip():
        return NOTHING
    summary = summary if isinstance(summary, list) else []
    block = {"type": "reasoning", "summary": summary, "encrypted_content": encrypted}
    return RecordMessages((TextMessage("assistant", "", {"blocks": [block]}),), complete=True)


def _call(payload: Data) -> RecordMessages:
    kind, call_id = payload["type"], filled_text(payload.get("call_id"))
    arguments = payload.get(items.CALLS[kind].given)
    if kind == "custom_tool_call":
        arguments = {"input": arguments}
    elif kind == "function_call" and isinstance(arguments, str):
        arguments = _parsed(arguments)
    is_named = kind not in ("function_call", "custom_tool_call") or filled_text(payload.get("name"))
    if call_id is None or not is_named:
        return NOTHING
    return RecordMessages((CallMessage(call_id, items.tool_of(payload), arguments),), complete=True)


def _hosted(payload: Data) -> RecordMessages:
    """Return a call of a tool that the provider ran, with its result, as a block that only the provider reads."""
    shown = {name: value for name, value in payload.items() if name not in _CODEX_OWN or name == "type"}
    return RecordMessages((TextMessage("assistant", "", {"blocks": [carry(shown, 0, RESPONSES).block]}),), True)


def _parsed(text: str) -> Any:
    try:
        return decode(text.encode("utf-8", "replace"))
    except NotJsonError:
        return text


def _output(payload: Data) -> RecordMessages:
    answer = items.CALLS[items.RESULTS[payload["type"]]].answer
    call_id, output, failed = filled_text(payload.get("call_id")), payload.get(answer), False
    if (answer != "output" and output is not None) or (isinstance(output, dict) and "content" not in output):
        output = items.answer_text(output)
    if isinstance(output, dict):
        failed, output = output.get("success") is False, output.get("content")
    if call_id is None or not isinstance(output, str | list):
        return NOTHING
    texts, others, complete = _contents([output] if isinstance(output, str) else output)
    data = {"blocks": others} if others else None
    return RecordMessages((ResultMessage(call_id, "\n".join(texts), failed, data),), complete)


def _contents(content: list[Any]) -> tuple[list[str], list[Any], bool]:
    """Return the texts, the images and documents as blocks, and whether that is everything."""
    texts, others, complete = [], [], True
    for item in content:
        if isinstance(item, str):
            texts.append(item)
        elif not isinstance(item, dict):
            complete = False
        elif item.get("type") in _TEXTS and isinstance(item.get("text"), str):
            texts.append(item["text"])
        elif item.get("type") == "input_image" and (image := image_at(item.get("image_url"))):
            others.append(image)
        elif item.get("type") == "input_file" and (document := _document(item)):
            others.append(document)
        else:
            complete = False
    return texts, others, complete


def _document(item: Data) -> Data | None:
    data, name = item.get("file_data"), item.get("filename")
    if not isinstance(data, str) or not data.startswith(_PDF):
        return None
    source = {"type": "base64", "media_type": "application/pdf", "data": data.removeprefix(_PDF)}
    return {"type": "document", "source": source, **({"title": name} if filled_text(name) else {})}


_READERS: dict[str, Callable[[Data], RecordMessages]] = {
    "message": _message,
    "reasoning": _reasoning,
    **dict.fromkeys(items.CALLS, _call),
    **dict.fromkeys(items.RESULTS, _output),
    **dict.fromkeys(items.HOSTED, _hosted),
}
"""The types of items with messages, and their readers."""


def index(records: Iterable[SessionRecord], carried: dict[str, Any], known: Container[bytes] = ()) -> list[RecordEntry]:
    """Return one entry for each record, in file order (see `SessionFormat.index`).

    A record has no uuid, so its key does not show whether it is `known`.
    """
    entries: list[RecordEntry] = []
    prompts: list[int] = []
    lines: dict[bytes, str] = {}
    moment: datetime | None = None
    carried |= {"model": carried.get("model"), "spent": carried.get("spent")}
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
            usage=_usage(kind, payload, carried),
            compacts=compacts,
            whole=bool(found.history),
            preserved=_preserved(record.line, payload, found, lines, map(entries.__getitem__, prompts))
            if compacts
            else None,
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


def active(entries: Sequence[RecordEntry], before: Mapping[str, Any] = MappingProxyType({})) -> ActiveRecords:
    """Return the active records of a rollout (see `SessionFormat.active`).

    Codex leaves an output out that has no call before or behind it. It makes one up for a call that has none; here this
    is done for calls of earlier turns, because one of the last turn may still get its output.
    """
    main = [entry for entry in entries if entry.side is None]
    calls = {call for entry in main for call in entry.calls}.union(before.get("open", ()))
    answered = {call for entry in main for call in entry.results}
    last = max((entry.line for entry in main if entry.prompt and not entry.injected), default=0)
    lost = {entry.line: [call for call in entry.results if call not in calls] for entry in main}
    made = {
        entry.line: tuple((call, ABORTED) for call in entry.calls if call not in answered)
        for entry in main
        if entry.line < last
    }
    open = {call: () for entry in main if entry.line >= last for call in entry.calls if call not in answered}
    kept = {line: calls for line, calls in lost.items() if calls}
    return ActiveRecords(main, lost=kept, made={line: each for line, each in made.items() if each}, open=open)


def _preserved(
    line: int, payload: Data, found: RecordMessages, lines: Mapping[bytes, str], prompts: Iterable[RecordEntry]
) -> PreservedRecords:
    """Return the records that a compaction preserves: those that its history repeats, all prompts if it has none, and
    nothing if it holds its whole history."""
    if found.history:
        return PreservedRecords(str(line))
    if isinstance(payload.get("replacement_history"), list):
        return PreservedRecords(str(line), _repeated(payload, lines))
    return PreservedRecords(str(line), tuple(str(entry.line) for entry in prompts))


def _repeated(payload: Data, lines: Mapping[bytes, str]) -> tuple[str, ...]:
    """Return the lines of the messages that a compaction's history repeats, except the summary itself."""
    history = payload.get("replacement_history")
    found = [item for item in history if isinstance(item, dict)] if isinstance(history, list) else []
    texts = {text for item in found if item.get("type") == "message" for text in _texts(_message(item))}
    digests = map(_digest, texts - {_summary(payload)})
    return tuple(lines[digest] for digest in digests if digest in lines)


def _usage(kind: Any, payload: Data, carried: dict[str, Any]) -> AnswerUsage | None:
    """Return the usage of an answer once, because Codex reports it again when its limits change.

    `carried` has the answering model and the last reported total of tokens (`spent`).
    """
    if kind == "turn_context":
        carried["model"] = filled_text(payload.get("model"))
    info = payload.get("info") if kind == "event_msg" and payload.get("type") == "token_count" else None
    if not isinstance(info, dict) or info.get("total_token_usage") == carried["spent"]:
        return None
    carried["spent"] = info.get("total_token_usage")
    last = info.get("last_token_usage")
    read, cached, made = (whole_number(member(last, f"{n}_tokens")) for n in ("input", "cached_input", "output"))
    if read is None and made is None:
        return None
    cached = min(cached or 0, read or 0)
    return AnswerUsage(carried["model"], None, (read or 0) - cached, made or 0, cached, 0)


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
