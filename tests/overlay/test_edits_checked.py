"""An edit that the provider would refuse is found before it is sent (SPEC 5.7): then the client's own bytes go out. If
the client itself sends what the provider may refuse, the edit holds."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from foldmark.live.clients.anthropic import ANTHROPIC
from foldmark.live.clients.dialect import ClientDialect
from foldmark.live.clients.gemini import GEMINI
from foldmark.live.clients.openai import OPENAI
from foldmark.live.clients.openai_chat import CHAT
from foldmark.overlay.edit import ContextView, EditMemory, _check, edited
from foldmark.overlay.ledger import KnownMessage
from foldmark.overlay.pieces import MisplacedError, SentMessage
from sampled import sampled

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


@pytest.mark.parametrize("seed", sampled(range(60), 4))
def test_an_edit_goes_on_where_the_one_before_ended(seed: int) -> None:
    """With the memory of earlier requests, the messages to send are the same as without it."""
    chance, id = random.Random(seed), 0
    messages, known = list[SentMessage](), list[KnownMessage]()
    memory, bound = EditMemory(), dict[str, str]()
    shown, evicted, inserted = set(range(1, 1000)), dict[int, str](), list[tuple[int, bytes]]()

    def add(message: dict[str, Any]) -> None:
        nonlocal id
        ids = range(id + 1, id + 1 + len(message["content"]))
        id = ids[-1]
        (one,) = sent(ANTHROPIC, [message])
        messages.append(one)
        known.append(KnownMessage(one.message.key, tuple(ids)))

    for number in range(30):
        add(user({"type": "text", "text": f"{number}"}))
        known[-1] = chance.choice([known[-1], KnownMessage(known[-1].key, (0,))])
        for step in range(chance.choice([0, 0, 1, 2])):
            call = {**CALL, "id": f"toolu_{number}_{step}"}
            add(assistant({**THINKING, "signature": f"{number}.{step}"}, call))
            add(user({**RESULT, "tool_use_id": call["id"]}))
        match chance.choice(["", "", "", "leave", "back", "evict", "insert", "resend", "bind", "new", "shorter"]):
            case "leave":
                pair = chance.randrange(len(messages) // 2) * 2 if len(messages) > 1 else 0
                shown -= {each for one in known[pair : pair + 2] for each in one.ids}
            case "back":
                shown |= set(range(1, 1000))
            case "evict":
                evicted = {**evicted, chance.randrange(1, id + 1): f"evicted at {number}"}
            case "insert":
                place = id + chance.choice([-1, 20])
                inserted = [*inserted, (place, msgspec.json.encode(user({"type": "text", "text": "put in"})))]
            case "bind":
                bound = {**bound, chance.choice(known).key: "0" * 32}
            case "new":
                at = chance.randrange(len(messages))
                known[at] = KnownMessage(known[at].key, (0,) * len(known[at].ids))
            case "shorter":
                left = chance.randrange(1, len(messages) + 1)
                del messages[left:], known[left:]
        seen = frozenset(shown)
        view = ContextView(
            seen.__contains__, evicted, inserted, True, bound, lambda *_, at=number: f"notice {at}", seen
        )
        results = list[Any]()
        for own in (memory, memory, None):
            try:
                results.append(edited(ANTHROPIC, tuple(messages), list(known), view, own))
            except MisplacedError as error:
                results.append(str(error))
        assert results[0] == results[1] == results[2]
        add(assistant({"type": "text", "text": f"answer {number}"}))


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


def test_the_last_message_is_edited_anew() -> None:
    """A message that waits for its place goes before the last one if that is not recorded, and before no other."""
    first, other = ([user(TEXT), assistant(TEXT), user(TEXT), assistant({**TEXT, "text": each})] for each in "yz")
    known = [KnownMessage(str(at), ids) for at, ids in enumerate([(1,), (2,), (0,), (3,)])]
    view = ContextView({1, 2, 3}.__contains__, {}, [(9, msgspec.json.encode(user(TEXT)))], key=1)
    memory = EditMemory()
    for messages in (first, other, other[:3]):
        made = edited(ANTHROPIC, sent(ANTHROPIC, messages), known[: len(messages)], view, memory)
    assert made == edited(ANTHROPIC, sent(ANTHROPIC, other[:3]), known[:3], view)
    assert made.changed
