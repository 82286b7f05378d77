"""What `filter_context` answered, and how the offline model tells it, in [S1]'s words."""

import re
from json import JSONDecoder
from typing import Any

import msgspec
from msgspec import Struct

from foldmark.core.matching import MatchRange

_TALK = re.compile(
    r"(?:only|just|the|all|any|every|messages?|everything|anything|about|on|of|regarding)\s+", re.IGNORECASE
)
_SHOWN_ID = re.compile(r'\{"id": ?[0-9]')


class Id(Struct, frozen=True):
    """A message that was found."""

    id: int


class Found(Struct, frozen=True):
    """What a result says, as far as it can still be read: results are cut when their turn is over [SPEC 5.2]."""

    matching_messages: tuple[Id, ...] = ()
    message_count: int | None = None
    token_estimate: int = 0
    ranges: tuple[MatchRange, ...] = ()
    added: tuple[int, ...] = ()
    added_tokens: int = 0
    everything_else: int | None = None
    planning_conversation_ids: tuple[int, ...] = ()
    filter_event_id: int | None = None
    messages_filtered: int = 0
    context_after: int = 0


def read(result: str) -> Found:
    """What a result says, each member that is whole; nothing if it is something else."""
    try:
        return msgspec.convert(_members(result), Found)
    except msgspec.ValidationError:
        return Found()


def previewed(mode: str, criteria: str, result: str) -> str:
    """How much was found, and the question whether to proceed; Foldmark itself shows what."""
    found = read(result)
    if found.message_count == 0:
        return nothing(criteria)
    topic = f"{'about' if mode == 'forget' else 'containing'} {_topic(criteria)}"
    if found.message_count is None:
        seen = len(_SHOWN_ID.findall(result))
        return (
            f"I found {f'at least {_messages(seen)}' if seen else 'messages'} {topic}; the preview is too long for me "
            "to see all of it.\n\n"
            f"Should I proceed to {mode} all that it found?"
        )
    told = f"I found {_messages(found.message_count)} {topic}."
    if mode == "remember":
        rest = "" if found.everything_else is None else f" ({_messages(found.everything_else)})"
        return f"{told} Everything else{rest} will be forgotten. Should I proceed?"
    return f"{told} Should I proceed to forget these?"


def nothing(criteria: str) -> str:
    """That nothing was found."""
    return (
        f"I found no messages about {_topic(criteria)}. I am the offline model, not a language model: I go by words, "
        "not by meaning. Try other words, or /cancel."
    )


def done(mode: str, found: Found, criteria: str | None) -> str:
    """That the filter was applied; without `criteria` it is not known any more what the messages were about."""
    if mode == "remember":
        return f"Done. Context reduced to {_messages(found.context_after)}."
    those = "that message" if found.messages_filtered == 1 else f"those {found.messages_filtered} messages"
    return f"Done. I've forgotten {those}{f' about {_topic(criteria)}' if criteria else ''}."


def _topic(criteria: str) -> str:
    """The criteria as they read behind "about": without what says that they are criteria."""
    topic = criteria
    while found := _TALK.match(topic):
        topic = topic[found.end() :]
    return topic or criteria


def _messages(number: int) -> str:
    return "1 message" if number == 1 else f"{number} messages"


def _members(text: str) -> dict[str, Any]:
    """The members of a JSON object, up to the first that is not whole."""
    decoder, found = JSONDecoder(), {}
    at = _skipped(text, 1, "") if text.startswith("{") else len(text)
    try:
        while at < len(text) and text[at] == '"':
            key, at = decoder.raw_decode(text, at)
            value, at = decoder.raw_decode(text, _skipped(text, at, ":"))
            at = _skipped(text, at, "")
            if text[at : at + 1] not in (",", "}"):
                break  # a number that was cut reads like one that was not
            found[str(key)] = value
            at = _skipped(text, at, ",")
    except (ValueError, RecursionError):
        pass
    return found


def _skipped(text: str, at: int, mark: str) -> int:
    """Where the next value begins, behind `mark` and white space."""
    while at < len(text) and text[at] in f"{mark} \t\r\n":
        at += 1
    return at
