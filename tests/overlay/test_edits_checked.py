"""An edit that the provider would refuse is found before it is sent (SPEC 5.7): then the client's own bytes go out. If
the client itself sends what the provider may refuse, the edit holds."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from foldmark.live.clients.anthropic import ANTHROPIC
from foldmark.live.clients.dialect import ClientDialect
from foldmark.live.clients.gemini import GEMINI
from foldmark.live.clients.openai import OPENAI
from foldmark.live.clients.openai_chat import CHAT
from foldmark.overlay.edit import ContextView, _check, edited
from foldmark.overlay.ledger import KnownMessage
from foldmark.overlay.pieces import MisplacedError, SentMessage

TEXT = {"type": "text", "text": "x"}
CALL = {"type": "tool_use", "id": "c", "name": "Read", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "x"}
THINKING = {"type": "thinking", "thinking": "", "signature": "s"}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "s"}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def contents(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def sent(dialect: ClientDialect, messages: Sequence[dict[str, Any]]) -> list[SentMessage]:
    return [SentMessage(raw, dialect.read(raw)) for raw in map(msgspec.json.encode, messages)]


@pytest.mark.parametrize(
    ("dialect", "messages"),
    [
        (ANTHROPIC, [assistant(TEXT), user(TEXT)]),
        (ANTHROPIC, [user(TEXT), user(TEXT)]),
        (ANTHROPIC, [user(TEXT), assistant(CALL), user(TEXT)]),
        (ANTHROPIC, [user(TEXT), assistant(CALL), user(TEXT, RESULT)]),
        (ANTHROPIC, [user(TEXT), assistant(THINKING), user(TEXT)]),
        (ANTHROPIC, [user(TEXT), assistant(TEXT, THINKING), user(TEXT)]),
        (ANTHROPIC, [user({"type": "text", "text": ""})]),
        (ANTHROPIC, [user()]),
        (GEMINI, [contents("model", {"text": "x"}), contents("user", {"text": "x"})]),
        (GEMINI, [contents("user", {"text": "x"}), contents("user", {"text": "x"})]),
        (GEMINI, [contents("user", {"text": "x"}), contents("model", {"functionCall": {"name": "f", "args": {}}})]),
        (GEMINI, [contents("user")]),
        (CHAT, [{"role": "user", "content": "x"}, {"role": "assistant", "content": None}]),
        (CHAT, [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "c", "content": "x"}]),
        (OPENAI, [REASONING]),
        (OPENAI, [{"type": "function_call_output", "call_id": "c", "output": "x"}]),
        (OPENAI, [{"type": "message", "role": "user", "content": []}]),
    ],
)
def test_what_a_provider_refuses(dialect: ClientDialect, messages: list[dict[str, Any]]) -> None:
    found = sent(dialect, messages)
    with pytest.raises(MisplacedError):
        _check(dialect, [], found)
    again = [SentMessage(bytes(bytearray(raw)), message) for raw, message, *_ in found]
    _check(dialect, found, again)  # the client's own


def test_thinking_leaves_with_everything_after_it() -> None:
    whole = [user(TEXT), assistant(THINKING, TEXT), user(TEXT), assistant(THINKING, TEXT, CALL), user(RESULT)]
    known = [KnownMessage(str(at), ids) for at, ids in enumerate([(1,), (2, 3), (4,), (5, 6, 7), (8,)])]
    made = edited(ANTHROPIC, sent(ANTHROPIC, whole), known, ContextView({1, 2, 4, 5, 7, 8}.__contains__, {}))
    kinds = [[block["type"] for block in msgspec.json.decode(raw)["content"]] for raw in made.messages]
    assert kinds == [["text", "text"], ["thinking", "tool_use"], ["tool_result"]]


def test_what_waits_for_its_place_goes_before_the_last_message() -> None:
    """It goes there if that message is not recorded, and before no other."""
    messages = [user(TEXT), assistant(TEXT), user(TEXT), assistant({**TEXT, "text": "y"})]
    known = [KnownMessage(str(at), ids) for at, ids in enumerate([(1,), (2,), (0,), (3,)])]
    view = ContextView({1, 2, 3}.__contains__, {}, [(9, msgspec.json.encode(user({**TEXT, "text": "put in"})))])
    made = edited(ANTHROPIC, sent(ANTHROPIC, messages), known, view)
    assert (made.changed, len(made.messages)) == (False, 4)
    made = edited(ANTHROPIC, sent(ANTHROPIC, messages[:3]), known[:3], view)
    assert made.changed
    texts = [[block["text"] for block in msgspec.json.decode(raw)["content"]] for raw in made.messages]
    assert texts == [["x"], ["x"], ["put in", "x"]]
