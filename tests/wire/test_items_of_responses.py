"""An item of the Responses API means the same to every reader: an import, the gateway, the Agents SDK (SPEC 8).

Each reader gets the item as its program has it: a record of a rollout, a request to `/responses`, a list of items.
Three things differ on purpose. A user's message is one event for the SDK, one for each text in an import, and one for
each part under `live`. Instructions are Codex's own in an import and under `live`. What says nothing is kept as a
record by an import, and as an empty message by the others, so that it can leave.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from odd_values import odd

import foldmark
from foldmark.core.codec import well_formed
from foldmark.formats.codex.records import read_item, searched_item
from foldmark.integrations.openai_agents import items as sdk
from foldmark.integrations.openai_agents import recording
from foldmark.live.clients.openai import OPENAI
from foldmark.wires import responses
from foldmark.wires.lenient_json import decode
from foldmark.wires.parts import CallMessage, Part, ResultMessage, TextMessage
from sampled import sampled

Item = dict[str, Any]
PNG = "data:image/png;base64,iVBO"
PDF = "data:application/pdf;base64,JVBERi0x"
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
DOCUMENT = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"},
    "title": "a.pdf",
}


def says(role: str, *content: Any, **more: Any) -> Item:
    return {"type": "message", "role": role, "content": list(content), **more}


def text(said: str, kind: str = "input_text") -> Item:
    return {"type": kind, "text": said}


def call(kind: str = "function_call", **more: Any) -> Item:
    named = {"name": "look", "arguments": '{"q": 1}'} if kind == "function_call" else {}
    return {"type": kind, "call_id": "c1", **named, **more}


def output(value: Any, kind: str = "function_call_output", **more: Any) -> Item:
    return {"type": kind, "call_id": "c1", "output": value, **more}


def hosted(kind: str, **more: Any) -> Item:
    return {"type": kind, "id": "h1", "status": "completed", **more}


def sealed(summary: Any = (), **more: Any) -> Item:
    return {"type": "reasoning", "summary": list(summary), "encrypted_content": "c2VhbA==", **more}


def said(kind: str, words: str, *blocks: Item) -> TextMessage:
    return TextMessage(kind, words, {"blocks": list(blocks)} if blocks else None)


def back(item: Item) -> TextMessage:
    """Return the message that holds an item for the provider alone."""
    return said("assistant", "", {"type": "carried", "of": "openai_responses", "block": item})


def asked(name: str, args: Any) -> CallMessage:
    return CallMessage("c1", name, args)


def got(words: str, *blocks: Item, failed: bool = False) -> ResultMessage:
    return ResultMessage("c1", words, failed, {"blocks": list(blocks)} if blocks else None)


LONG = "word " * 400_000
NESTED = json.loads("[" * 150 + "]" * 150)
SUMMARY = {"type": "summary_text", "text": "hm"}
SEARCH = hosted("web_search_call", action={"type": "search", "query": "q"})
FILES = hosted("file_search_call", queries=["q"], results=[{"text": "found"}])
CODE = hosted("code_interpreter_call", code="1+1", container_id="k", outputs=[{"type": "logs", "logs": "2"}])
PICTURE = hosted("image_generation_call", result="iVBO" * 1000)
REMOTE = hosted("mcp_call", name="grep", arguments='{"q":"x"}', server_label="fs", output="hit", error=None)
FUTURE = hosted("teleport_call", to="Oslo", output="there")
SCREEN = {"type": "computer_screenshot", "image_url": PNG}
SHELL = [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
MAIL = {"type": "agent_message", "author": "a", "content": [text("Done.")]}

KNOWN: dict[str, tuple[Item, list[Part]]] = {
    "prompt": (says("user", text("hi")), [said("user", "hi")]),
    "prompt without a type": ({"role": "user", "content": "hi"}, [said("user", "hi")]),
    "texts": (says("user", text("a"), text("b")), [said("user", "a"), said("user", "b")]),
    "image": (
        says("user", text("see"), {"type": "input_image", "image_url": PNG, "detail": "high"}),
        [said("user", "see", IMAGE)],
    ),
    "document": (
        says("user", text("read"), {"type": "input_file", "filename": "a.pdf", "file_data": PDF}),
        [said("user", "read", DOCUMENT)],
    ),
    "answer": (says("assistant", text("yes", "output_text")), [said("assistant", "yes")]),
    "answer in parts": (
        says("assistant", text("ye", "output_text"), text("s", "output_text")),
        [said("assistant", "yes")],
    ),
    "refusal": (says("assistant", {"type": "refusal", "refusal": "No."}), [said("assistant", "No.")]),
    "phase": (
        says("assistant", text("so", "output_text"), phase="final_answer", id="m", status="completed"),
        [said("assistant", "so", {"type": "phase", "phase": "final_answer"})],
    ),
    "thinking": (
        sealed([SUMMARY], id="rs_1", content=None),
        [said("assistant", "", {"type": "reasoning", "summary": [SUMMARY], "encrypted_content": "c2VhbA=="})],
    ),
    "mail": (MAIL, [said("user", "Done.", back(MAIL).data["blocks"][0])]),  # type: ignore[index]
    "function": (call(), [asked("look", {"q": 1})]),
    "function of a space": (call(namespace="mcp__fs"), [asked("mcp__fs__look", {"q": 1})]),
    "no arguments": (call(arguments=""), [asked("look", {})]),
    "broken arguments": (call(arguments='{"q":'), [asked("look", '{"q":')]),
    "arguments of no object": (call(arguments="[1]"), [asked("look", [1])]),
    "custom": (call("custom_tool_call", name="sql", input="SELECT 1"), [asked("sql", {"input": "SELECT 1"})]),
    "local shell": (call("local_shell_call", action={"command": ["ls"]}), [asked("local_shell", {"command": ["ls"]})]),
    "local shell by id": (
        {"type": "local_shell_call", "id": "c1", "action": {"command": ["ls"]}},
        [asked("local_shell", {"command": ["ls"]})],
    ),
    "shell": (call("shell_call", action={"commands": ["ls"]}), [asked("shell", {"commands": ["ls"]})]),
    "patch": (
        call("apply_patch_call", operation={"type": "delete_file"}),
        [asked("apply_patch", {"type": "delete_file"})],
    ),
    "computer": (call("computer_call", id="cu", action={"type": "click"}), [asked("computer", {"type": "click"})]),
    "search for tools": (call("tool_search_call", arguments={"query": "x"}), [asked("tool_search", {"query": "x"})]),
    "program": (call("program", code="{}"), [asked("program", "{}")]),
    "approval wanted": (
        {"type": "mcp_approval_request", "id": "c1", "name": "rm", "arguments": '{"p":1}', "server_label": "fs"},
        [asked("rm", {"p": 1})],
    ),
    "approval": (
        {"type": "mcp_approval_response", "approval_request_id": "c1", "approve": False, "reason": "no"},
        [got("Refused. no")],
    ),
    "result": (output("done"), [got("done")]),
    "empty result": (output(""), [got("")]),
    "result in parts": (
        output([text("a"), {"type": "input_image", "image_url": PNG}, text("b")]),
        [got("a\nb", IMAGE)],
    ),
    "failed result": (output("no", status="incomplete"), [got("no", failed=True)]),
    "failed result of an early Codex": (output({"content": "no", "success": False}), [got("no", failed=True)]),
    "custom result": (output("1", "custom_tool_call_output"), [got("1")]),
    "screen": (output(SCREEN, "computer_call_output"), [got("", IMAGE)]),
    "shell result": (output(SHELL, "shell_call_output"), [got(json.dumps(SHELL, separators=(",", ":")))]),
    "tools found": (
        {"type": "tool_search_output", "call_id": "c1", "tools": [{"name": "t"}]},
        [got('[{"name":"t"}]')],
    ),
    "web search": (SEARCH, [back(SEARCH)]),
    "file search": (FILES, [back(FILES)]),
    "code": (CODE, [back(CODE)]),
    "picture": (PICTURE, [back(PICTURE)]),
    "MCP": (REMOTE, [back(REMOTE)]),
    "search for tools by the provider": (
        {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}},
        [back({"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}})],
    ),
    "provider's call of the future": (FUTURE, [back(FUTURE)]),
    "call of the future": (call("teleport_call", to="Oslo"), [asked("teleport", {"to": "Oslo"})]),
    "result of the future": (output("there", "teleport_call_output"), [got("there")]),
    "odd result of the future": (
        {"type": "teleport_call_output", "call_id": "c1", "to": "Oslo"},
        [got('{"type":"teleport_call_output","to":"Oslo"}')],
    ),
    "lone surrogates": (says("user", text("a\ud800b")), [said("user", "a\ufffdb")]),
    "lone surrogates in a call": (
        call(name="lo\udc00ok", arguments='{"q": "\ud800"}'),
        [asked("lo\ufffdok", {"q": "\ufffd"})],
    ),
    "lone surrogates in a result": (output("a\ud800"), [got("a\ufffd")]),
    "huge": (output(LONG), [got(LONG)]),
    "big numbers": (call(arguments='{"n": 1208925819614629174706176}'), [asked("look", {"n": 2**80})]),
    "deep": (output(NESTED), [got(json.dumps(NESTED, separators=(",", ":")))]),
}
"""Items, and what each says."""

SILENT: list[Item] = [
    {"type": "function_call"},
    {"type": "function_call", "name": "x", "arguments": "{}"},
    {"type": "function_call", "call_id": "c1", "arguments": "{}"},
    {"type": "custom_tool_call", "call_id": ["c1"], "name": "x", "input": ""},
    {"type": "function_call_output", "output": "x"},
    {"type": "function_call_output", "call_id": "c1", "output": None},
    {"type": "function_call_output", "call_id": "c1", "output": 7},
    {"type": "function_call_output", "call_id": {}, "output": "x"},
    {"type": "reasoning", "summary": [], "encrypted_content": None},
    {"type": "reasoning", "summary": 7, "encrypted_content": " "},
    {"type": "message", "role": "assistant", "content": []},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": 7}]},
    {"type": "message", "role": ["user"], "content": "x"},
    {"type": "hologram", "content": "in the air", "x": [1, {"y": None}]},
    {"type": "item_reference", "id": "msg_1"},
    {"type": "mcp_list_tools", "id": "l", "server_label": "fs", "tools": [{"name": "t"}]},
    {"type": "ghost_snapshot", "ghost_commit": {}},
    {"type": 7},
    {"type": ["message"]},
    {"type": None},
    {},
]


def line_of(item: Item) -> Item:
    """Return an item as its program's file or request has it."""
    return dict(decode(json.dumps(item).encode()))


def imported(item: Item) -> list[Part]:
    return list(read_item({"type": "response_item", "payload": line_of(item)}).parts)


def passed(item: Item) -> list[Part]:
    message = OPENAI.read(json.dumps(item).encode())
    assert OPENAI.read(json.dumps({**item, "status": "of another request"}).encode()).key == message.key
    return [part for part in OPENAI.parts(message) if part is not None]


def given(item: Item) -> list[Part]:
    if sdk.is_thought(item):  # the SDK's thinking waits for the item that it leads to
        return list(responses.read(item).parts)
    return [sdk.read(sdk.json_copy(item))]


READERS = {"import": imported, "live": passed, "the SDK": given}


def without_members(part: Part) -> Part:
    """Return a part without the members with which the gateway makes an item again."""
    data = {name: value for name, value in (part.data or {}).items() if name != responses.KEPT}
    return type(part)(**{**{name: getattr(part, name) for name in part.__struct_fields__}, "data": data or None})


def joined(parts: list[Part]) -> list[Part]:
    """Return parts with the texts and blocks of a user's message as one."""
    texts = [part for part in parts if isinstance(part, TextMessage)]
    if len(texts) < 2:
        return parts
    words = "\n".join(part.text for part in texts if part.text)
    return [said(texts[0].kind, words, *(block for part in texts for block in (part.data or {}).get("blocks", ())))]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", KNOWN)
def test_every_reader_finds_the_same(name: str, reader: str) -> None:
    item, wanted = KNOWN[name]
    found = [without_members(part) for part in READERS[reader](item)]
    assert joined(found) == joined(wanted)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("item", SILENT, ids=json.dumps)
def test_what_nobody_knows_says_nothing_to_any_reader(item: Item, reader: str) -> None:
    for part in READERS[reader](item):
        assert isinstance(part, TextMessage)
        assert part.text == ""
        held = (part.data or {}).get("blocks", [])
        assert held == [] or (reader == "live" and held[0]["block"] == item)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_are_messages_only_to_the_program_that_gave_them(role: str, reader: str) -> None:
    assert READERS[reader](says(role, text("Be brief."))) == (
        [said("system", "Be brief.")] if reader == "the SDK" else []
    )


@pytest.mark.parametrize("item", [*(item for item, _ in KNOWN.values()), *SILENT], ids=lambda item: str(item)[:60])
def test_what_it_says_can_be_written_as_json(item: Item) -> None:
    for part in responses.read(well_formed(item)).parts:
        assert json.dumps(part.args if isinstance(part, CallMessage) else part.text)
        assert json.dumps(part.data)


@pytest.mark.parametrize("name", [name for name, (item, _) in KNOWN.items() if item.get("role") != "user"])
def test_the_item_that_is_made_of_a_recorded_one_says_the_same(name: str) -> None:
    item, _ = KNOWN[name]
    part = responses.recorded(line_of(item))
    with foldmark.open(":memory:", settings={}) as log:
        agent = log.agent("a")
        if isinstance(part, CallMessage):
            agent.append_tool_call(part.name, part.args, call_id=part.call_id, dialect="openai", data=part.data)
        elif isinstance(part, ResultMessage):
            agent.append_tool_call("look", {}, call_id=part.call_id, dialect="openai")
            agent.append_tool_result(part.call_id, part.text, dialect="openai", data=part.data)
        elif part is not None:
            agent.append(part.kind, part.text, data=part.data, dialect="openai", verbatim=True)
        made = responses.items_for(agent.events(0, 10)[-1])
    if responses.is_thinking(item):
        assert made == []
        return
    (again,) = (responses.read(each).parts for each in made)
    was = responses.read(line_of(item)).parts
    assert [_without_failure(part) for part in again] == [_without_failure(part) for part in was]


def _without_failure(part: Part) -> Part:
    """Return a part without the mark of a failed result: a status is no part of a request."""
    return ResultMessage(part.call_id, part.text, False, part.data) if isinstance(part, ResultMessage) else part


_MEMBERS = (
    *("call_id", "id", "role", "content", "name", "namespace", "arguments", "input", "action", "code", "output"),
    *(
        "tools",
        "approve",
        "approval_request_id",
        "reason",
        "status",
        "summary",
        "encrypted_content",
        "phase",
        "results",
    ),
    *("text", "error", "image_url", "file_data", "refusal", "success"),
)
_KINDS: tuple[Any, ...] = (
    *(*responses.CALLS, *responses.RESULTS, *responses.HOSTED, "message", "reasoning", "compaction", "agent_message"),
    *("teleport_call", "teleport_output", "hologram", "", None, 7, [], {}),
)
_VALUES = (
    *("", " ", "c1", "{}", '{"a":1}', "[1]", "{", "nan", PNG, PDF, "\ud800", "user", "assistant", "failed"),
    *(None, True, 0, 2**80, 0.5, *responses.TEXTS),
)


@pytest.mark.parametrize("seed", sampled(range(10_000), 300))
def test_readers_agree_on_any_json(seed: int) -> None:
    chance = Random(seed)
    item = {
        "type": chance.choice(_KINDS),
        **{chance.choice(_MEMBERS): odd(chance, ("type", *_MEMBERS), _VALUES) for _ in range(7)},
    }
    found, others = imported(item), given(item)
    texts = [part.text for part in found if isinstance(part, TextMessage)]
    if texts:
        assert ["\n".join(texts)] == [part.text for part in others if isinstance(part, TextMessage)]
    elif found:
        assert found == others
    with suppress(msgspec.MsgspecError):  # a message with a content that is no list
        passed(item)
    list(searched_item({"type": "response_item", "payload": line_of(item)}))
    recording.entries([item])


def test_no_other_module_names_a_type_of_item() -> None:
    source = Path(foldmark.__file__).parent
    kinds = {*responses.CALLS, *responses.RESULTS, *responses.HOSTED, *responses.TEXTS, responses.INPUT_IMAGE}
    names = [f'"{kind}"'.encode() for kind in kinds - {"text", "program"}]
    knowing = [path for path in source.rglob("*.py") if any(map(path.read_bytes().count, names))]
    assert [path.relative_to(source).as_posix() for path in knowing] == ["wires/responses.py"]
