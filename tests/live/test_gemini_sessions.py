"""Sessions of a client that speaks generateContent, recorded and edited by commands in the prompt (SPEC 5.7). The
provider checks each request."""

import json
from pathlib import Path

import httpx2 as httpx
import pytest
from gemini_client import CONTEXT, KEY, MODEL, GeminiRunning, NoIds, PlainWire
from plan import Reply, Use

from answering import answered_by
from foldmark.app import Setup
from foldmark.live.status import statuses
from foldmark.mcp.conversations import Conversations, ToolUse
from foldmark.mcp.tools import TOOLS
from patience import LIMIT


def test_it_is_recorded(gemini: GeminiRunning) -> None:
    gemini.client.say("one")
    gemini.client.say("READ two")
    assert gemini.kinds() == [
        *("user", "assistant"),
        *("user", "assistant", "tool_call", "tool_call", "tool_result", "tool_result", "assistant"),
    ]
    agent = gemini.agent
    assert agent.standing().config.model == f"gemini/{MODEL}"
    assert agent.open_turn is None
    messages = [event for event in agent.context().messages if event.kind != "client"]
    assert messages[1].content == "I see 1."
    assert messages[1].data is not None
    assert messages[1].data["blocks"][0]["text"] == "Hm."
    assert messages[4].data is not None
    assert messages[4].data["thought_signature"] == "c2lnbmVk"
    (status,) = statuses(gemini.log)
    assert (status.answers, status.operations) == (3, 0)


def test_nothing_is_changed_without_an_operation(gemini: GeminiRunning) -> None:
    for text in ("one", "READ two", ":help", "three"):
        gemini.client.say(text)
    plain = [each.body["contents"] for each in gemini.upstream.asked]
    own = gemini.client.contents
    assert [len(contents) for contents in plain] == [1, 3, 5, 7]
    assert plain[-1] == [*own[:6], own[8]]


@pytest.mark.parametrize("gemini_wire", [PlainWire(), NoIds()], ids=["ids", "no ids"])
def test_a_drop_and_its_restore(gemini: GeminiRunning, gemini_wire: PlainWire) -> None:
    client = gemini.client
    client.model = MODEL if gemini_wire.ids else "gemini-2.5-pro"
    for text in ("one", "READ two", "READ three"):
        client.say(text)
    whole = gemini.texts()
    assert "left the context" in client.say(f":drop {gemini.turn('READ two')} -- it was wrong")
    client.say("four")
    texts = gemini.texts()
    assert ("user", "READ two") not in texts
    assert ("user", "READ three") in texts
    assert [kind for kind, _ in texts].count("result") == 2
    assert ":drop" not in json.dumps(texts)
    (operation,) = [event for event in gemini.agent.events() if event.kind == "drop"]
    assert operation.reason == "it was wrong"
    client.say(f":restore {operation.id}")
    client.say("five")
    assert gemini.texts()[: len(whole)] == whole


def test_the_injected_part_of_a_dropped_turn_stays(gemini: GeminiRunning) -> None:
    gemini.client.say("one")
    gemini.client.say("two")
    gemini.client.say(f":drop {gemini.turn('one')}")
    gemini.client.say("three")
    assert gemini.texts()[:2] == [("user", CONTEXT), ("user", "two")]


@pytest.mark.parametrize("gemini_wire", [PlainWire(), NoIds()], ids=["ids", "no ids"])
def test_an_eviction_leaves_a_placeholder(gemini: GeminiRunning, gemini_wire: PlainWire) -> None:
    client = gemini.client
    client.model = MODEL if gemini_wire.ids else "gemini-2.5-pro"
    client.say("READ one")
    result = next(event for event in gemini.agent.context().messages if event.kind == "tool_result")
    client.say(f":evict {result.id}")
    client.say("two")
    results = [text for kind, text in gemini.texts() if kind == "result"]
    assert results[0].startswith("[Evicted: ")
    assert results[1].startswith("read_file: data")


def test_clear_to_a_mark(gemini: GeminiRunning) -> None:
    client = gemini.client
    client.say("one")
    client.say(":mark HERE")
    client.say("READ two")
    client.say(":clear HERE")
    client.say("three")
    assert gemini.users() == [CONTEXT, "one", "three"]
    client.say(":clear")
    client.say("four")
    assert gemini.users() == [CONTEXT, "four"]


def test_undo(gemini: GeminiRunning) -> None:
    for text in ("one", "two", ":undo", "three"):
        gemini.client.say(text)
    assert gemini.users() == [CONTEXT, "one", "three"]


def test_a_summary_stands_where_it_stands(gemini: GeminiRunning) -> None:
    client = gemini.client
    client.say("one")
    client.say("READ two")
    answered_by(lambda _: "It was read.")
    agent = gemini.agent
    agent.context()
    agent.do("/summarize")
    client.say("three")
    assert ("assistant", "It was read.") in gemini.texts()
    assert ("user", "READ two") not in gemini.texts()


def test_forget_asks_the_sessions_own_model(gemini: GeminiRunning) -> None:
    client = gemini.client
    for text in ("the cache experiment", "two", "the cache again"):
        client.say(text)
    asked = len(gemini.upstream.asked)
    first, last = gemini.message("the cache experiment"), gemini.message("the cache again")
    assert "Nothing matches" in client.say(":forget cache")
    (question,) = gemini.upstream.asked[asked:]
    assert question.headers["x-goog-api-key"] == KEY
    assert f"/models/{MODEL}:" in question.path
    answered_by(lambda _: json.dumps([first, last]))
    assert "Forget" in client.say(":forget cache")
    assert "left the context" in client.say(":yes")
    client.say("four")
    assert gemini.users() == [CONTEXT, "two", "four"]
    assert ":forget" not in json.dumps(gemini.texts())


def test_the_models_hand(gemini: GeminiRunning) -> None:
    """Gemini CLI renames the tools of MCP servers, and adds an argument to each call."""
    client = gemini.client
    client.say("one")
    arguments = {"command": "mark", "args": "HERE"}
    call = Use("c1", "mcp_foldmark_slash", {**arguments, "wait_for_previous": True}, "c2lnbmVk")
    gemini.model.fails.append(Reply((call,), stop="calls"))
    client.contents.append({"role": "user", "parts": [{"text": "Use it."}]})
    client.contents.append({"role": "model", "parts": client.ask(client.contents)})
    said = TOOLS["slash"].run(ToolUse(Conversations(Setup(str(gemini.path)), None), arguments, lambda *_: None))
    assert isinstance(said, str)
    assert "'HERE' created" in said
    response = {"id": "c1", "name": "mcp_foldmark_slash", "response": {"output": said}}
    client.contents.append({"role": "user", "parts": [{"functionResponse": response}]})
    client.go_on()
    assert gemini.agent.context().marks.keys() == {"HERE"}


def test_a_command_in_plain_json(gemini: GeminiRunning) -> None:
    client = gemini.client
    content = {"role": "user", "parts": [{"text": ":help"}]}
    body = {"contents": [content], "tools": [{"functionDeclarations": [{"name": "f"}]}]}
    whole = json.loads(client.post("generateContent", body))
    assert ":drop" in whole["candidates"][0]["content"]["parts"][0]["text"]
    listed = json.loads(client.post("streamGenerateContent", body))
    assert [each["candidates"][0]["finishReason"] for each in listed] == ["STOP"]
    assert gemini.upstream.requests == []


def test_a_session_that_begins_with_a_command(gemini: GeminiRunning) -> None:
    for text in (":context", "one", "two"):
        gemini.client.say(text)
    assert gemini.users() == [CONTEXT, "one", "two"]


def test_an_escaped_prompt_goes_to_the_model(gemini: GeminiRunning) -> None:
    gemini.client.say("::mark my words")
    assert gemini.users() == [CONTEXT, ":mark my words"]
    assert gemini.recorded() == [":mark my words"]


def test_damaged_bodies_pass(gemini: GeminiRunning) -> None:
    for content in (b"{", b"[]", b'{"contents":{}}', b'{"contents":[{"role":"user"}]}', b'{"contents":[]}'):
        url = f"{gemini.gateway.url}/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"
        came = httpx.post(url, headers={"x-goog-api-key": KEY}, content=content, timeout=LIMIT)
        assert came.status_code in (400, 500)
    gemini.upstream.refusals.clear()
    assert gemini.agents == [] or gemini.kinds() == []


def test_no_key_is_kept(gemini: GeminiRunning, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gemini.client.say("one")
    gemini.client.say(":forget one")
    assert gemini.agent.id
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.iterdir())
    assert KEY not in caplog.text
