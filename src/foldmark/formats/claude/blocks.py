"""Read the messages of a Claude Code record [SPEC 8].

Where the format leaves a choice:

- The role of a record is its `type`. `wires.anthropic` knows what its blocks say. An API message spans several records.
- A prompt that a person typed while the model was busy is in an `attachment` record, and becomes a user message. The
  rest of the attachment is kept in `data={"attachment": ...}`, for an export.
- What Claude Code told its model by itself becomes `client` messages (`told`). An attachment with one text is kept in
  `data={"told": ...}` without that text, for an export; of another one, that is empty.
- An API error that Claude Code wrote in place of an answer is not a message: no model reads it.
- A record that an export made up (`MADE_UP`) is not a message either.
- A message keeps nothing else of its record: no uuids, paths or copies of a result.
"""

import re
from collections.abc import Sequence
from typing import Any

from foldmark.core.patterns import pattern
from foldmark.formats.claude.members import CLIENT, ERROR, MADE_UP, RESPONSE, SAID, is_api_error
from foldmark.formats.claude.told import is_injected, kept, told
from foldmark.formats.messages import NOTHING, RecordMessages
from foldmark.text import queued
from foldmark.wires.anthropic import RESULT, THINKING, kind_of, listed, read_answer, read_user
from foldmark.wires.lenient_json import as_object, filled_text, member
from foldmark.wires.parts import Data, TextMessage

FULL = pattern(
    r"(prompt|input|conversation|request) (is )?too long|context (limit|window|length)|exceeds? .{0,40}\bcontext",
    re.IGNORECASE,
)
"""Matches an API error that reports a full context."""


def read_message(record: Any) -> RecordMessages:
    """Return the messages of a record; `NOTHING` if it is not a user's or the model's message, or not usable."""
    role = record.get("type") if isinstance(record, dict) else None
    if role in ("attachment", "system"):
        return _read_told(record)
    if role not in SAID or record.get(MADE_UP) is True or is_api_error(record):
        return NOTHING
    content = listed(member(record, "message", "content"))
    if role == "assistant":
        return RecordMessages(*read_answer(content, response_of(record)))
    return RecordMessages(*read_user(content, is_injected, "client" if record.get(CLIENT) is True else "user"))


def is_thinking(record: Any) -> bool:
    """Return True if an answer's record holds thinking and nothing else."""
    return only_thinking([kind_of(block) for block in _blocks(record)])


def only_thinking(kinds: Sequence[str]) -> bool:
    """Return True if these are the kinds of an answer's blocks that hold thinking and nothing else."""
    return bool(kinds) and THINKING.keys() >= {*kinds}


def says_full(record: dict[str, Any]) -> bool:
    """Return True if a record is an API error that reports a full context."""
    if not is_api_error(record):
        return False
    texts = (block.get("text") for block in _blocks(record) if kind_of(block) == "text")
    return any(isinstance(text, str) and FULL.search(text) for text in (record.get(ERROR[-1]), *texts))


def response_of(record: dict[str, Any]) -> str | None:
    """Return the id of the API message to which an assistant record belongs, or None."""
    if RESPONSE in record:
        return filled_text(record[RESPONSE])
    return message_id(record)


def message_id(record: dict[str, Any]) -> str | None:
    """Return the id of the answer whose line an assistant record is, as Claude Code reads it, or None."""
    return filled_text(member(record, "message", "id")) if record.get("type") == "assistant" else None


def made_results(record: dict[str, Any]) -> tuple[str, ...]:
    """Return the calls to which a record that was made up gives results."""
    if record.get(MADE_UP) is not True or record.get("type") != "user":
        return ()
    results = (block for block in _blocks(record) if kind_of(block) == RESULT)
    return tuple(filter(None, (filled_text(block.get("tool_use_id")) for block in results)))


def _read_told(record: Data) -> RecordMessages:
    """Return the messages of a queued prompt, or what another attachment or a local command told the model."""
    attached = as_object(record.get("attachment"))
    if (prompt := queued.queued_prompt(attached)) is not None:
        reading = read_user(listed(prompt), is_injected)
        texts = [part for part in reading.parts if isinstance(part, TextMessage)]
        if len(texts) < len(reading.parts):
            return NOTHING
        about = {name: value for name, value in attached.items() if name != "prompt"}
        parts = [TextMessage("user", part.text, {**(part.data or {}), "attachment": about}) for part in texts]
        return RecordMessages(tuple(parts), reading.complete)
    found = told(record)
    if not found:
        return NOTHING
    if record["type"] == "system":
        return RecordMessages(tuple(TextMessage("client", text) for text in found), complete=True)
    left = kept(record, found)
    parts = [TextMessage("client", text, {"told": left}) for text in found]
    return RecordMessages(tuple(parts), complete="attachment" in left)


def _blocks(record: Any) -> list[Any]:
    """Return the blocks of a record's message; none if its content is a text."""
    content = member(record, "message", "content")
    return content if isinstance(content, list) else []
