"""Sessions of a client that speaks Chat Completions, recorded and edited by commands in the prompt (SPEC 5.7). The
provider checks each request."""

import json
from collections.abc import Callable
from typing import Any

import httpx2 as httpx
import msgspec
import pytest
from claude_client import KEY
from completions_client import REMINDER, SESSION, CompletionsRunning, Message, as_it_came, otherwise
from plan import Broken, Http, Reply, Say, Use

from answering import answered_by
from foldmark.live.clients.openai_chat import CHAT
from foldmark.live.prompts import help_text
from foldmark.live.status import statuses
from foldmark.overlay.pieces import MisplacedError
from patience import LIMIT

Repeat = Callable[[Message], Message]
repeats = pytest.mark.parametrize("repeat", [as_it_came, otherwise])
TURN = ["user", "assistant", "tool_call", "tool_call", "tool_result", "tool_result", "assistant"]


@repeats
@pytest.mark.parametrize("named", [True, False])
def test_it_is_recorded(completions: CompletionsRunning, repeat: Repeat, named: bool) -> None:
    client = completions.client
    client.repeat = repeat
    client.headers = client.headers if named else {}
    client.say("one")
    client.say("READ two")
    client.say("three")
    agent = completions.agent
    assert completions.kinds() == ["user", "assistant", *TURN, "user", "assistant"]
    assert agent.name == (f"app · {SESSION[:8]}" if named else "app · rrrrrrrr")
    assert agent.standing().config.model == "openai/gpt-5.1"
    assert {event.dialect for event in agent.context().messages} == {"openai"}
    assert agent.open_turn is None
    assert [event.kind for event in agent.events(0, 1000) if event.kind == "filter"] == []
    (status,) = statuses(completions.log)
    assert (status.answers, status.operations) == (4, 0)


@repeats
def test_a_drop_and_its_restore(completions: CompletionsRunning, repeat: Repeat) -> None:
    client = completions.client
    client.repeat = repeat
    for text in ("one", "READ two", "READ three"):
        client.say(text)
    whole = completions.texts()
    assert "left the context" in client.say(f":drop {completions.turn('READ two')} -- it was wrong")
    client.say("four")
    texts = completions.texts()
    assert ("user", "READ two") not in texts
    assert ("user", "READ three") in texts
    assert [kind for kind, _ in texts].count("result") == 2
    assert ":drop" not in json.dumps(texts)
    (operation,) = [event for event in completions.agent.events() if event.kind == "drop"]
    assert operation.reason == "it was wrong"
    client.say(f":restore {operation.id}")
    client.say("five")
    assert completions.texts()[: len(whole)] == whole


def test_what_the_client_adds_stays(completions: CompletionsRunning) -> None:
    """Its newest system prompt is sent, and the text that it puts before the first prompt."""
    client = completions.client
    for text in ("one", "two"):
        client.say(text)
    client.say(f":drop {completions.turn('one')}")
    client.say("three")
    sent = completions.upstream.asked[-1].body["messages"]
    assert sent[0] == {"role": "system", "content": f"You are an agent. It is {client.asked} o'clock."}
    assert sent[1] == {"role": "user", "content": [{"type": "text", "text": text} for text in (REMINDER, "two")]}
    assert completions.users() == ["two", "three"]


def test_evict_clear_and_undo(completions: CompletionsRunning) -> None:
    client = completions.client
    client.say("one")
    client.say(":mark HERE")
    client.say("READ two")
    result = next(event for event in completions.agent.context().messages if event.kind == "tool_result")
    client.say(f":evict {result.id}")
    client.say("three")
    results = [text for kind, text in completions.texts() if kind == "result"]
    assert results[0].startswith("[Evicted: ")
    assert results[1].startswith("Read: data")
    client.say(":clear HERE")
    client.say("four")
    assert completions.users() == ["one", "four"]
    client.say(":undo")
    client.say("five")
    assert completions.users() == ["one", "five"]
    client.say(":clear")
    client.say("six")
    assert completions.users() == ["six"]


def test_a_summary_stands_where_it_stands(completions: CompletionsRunning) -> None:
    client = completions.client
    client.say("one")
    client.say("READ two")
    answered_by(lambda _: "It was read.")
    agent = completions.agent
    agent.context()
    agent.do("/summarize")
    client.say("three")
    assert ("assistant", "It was read.") in completions.texts()
    assert ("user", "READ two") not in completions.texts()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions"])
def test_forget_asks_the_sessions_own_model(completions: CompletionsRunning, path: str) -> None:
    client = completions.client
    client.path = path
    for text in ("the cache experiment", "two", "the cache again"):
        client.say(text)
    asked = len(completions.upstream.asked)
    first, last = completions.message("the cache experiment"), completions.message("the cache again")
    assert "Nothing matches" in client.say(":forget cache")
    (question,) = completions.upstream.asked[asked:]
    assert (question.path, question.headers["authorization"]) == (path, f"Bearer {KEY}")
    answered_by(lambda _: json.dumps([first, last]))
    assert "Forget" in client.say(":forget cache")
    assert "left the context" in client.say(":yes")
    client.say("four")
    assert completions.users() == ["two", "four"]
    assert ":forget" not in json.dumps(completions.texts())


def test_a_command_without_a_stream(completions: CompletionsRunning) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": ":help"}]}
    came = httpx.post(f"{completions.gateway.url}/v1/chat/completions", json={**body, "tools": [{}]}, timeout=LIMIT)
    whole = came.json()
    assert whole["choices"][0]["message"]["content"] == help_text(":")
    assert whole["object"] == "chat.completion"
    assert completions.upstream.requests == []


def test_a_session_that_begins_with_a_command(completions: CompletionsRunning) -> None:
    for text in (":context", "one", "two"):
        completions.client.say(text)
    assert completions.users() == ["one", "two"]


def test_an_escaped_prompt_goes_to_the_model(completions: CompletionsRunning) -> None:
    completions.client.say("::mark my words")
    completions.client.say("::mark more")
    assert completions.users() == [":mark my words", ":mark more"]


def test_a_title_is_beside_the_conversation(completions: CompletionsRunning) -> None:
    """opencode asks for it at the same time as for the first answer, in the same session."""
    client = completions.client
    client.tools = []
    client.ask([{"role": "user", "content": "Generate a title:\n"}, {"role": "user", "content": ":mark HERE"}])
    assert completions.agents == []
    assert "Generate a title" in json.dumps(completions.texts())
    assert ":mark" not in json.dumps(completions.texts())


def test_a_sub_agent_is_a_child(completions: CompletionsRunning) -> None:
    client = completions.client
    client.say("one")
    own, client.messages = client.messages, []
    client.headers = {"x-session-id": "ses_child", "x-parent-session-id": SESSION}
    client.say("Look around.")
    client.messages, client.headers = own, {"x-session-affinity": SESSION}
    client.say("two")
    assert [event.content for event in completions.agent.context().messages if event.kind == "user"] == ["one", "two"]
    (child,) = completions.agent.children
    assert [event.kind for event in child.context().messages] == ["client", "user", "assistant"]


def test_sessions_without_a_name(completions: CompletionsRunning) -> None:
    """They are told apart by their first prompts, and found again in another run, whatever the system prompt says."""
    client = completions.client
    client.headers = {}
    client.say("one")
    client.say("two")
    client.say(f":drop {completions.turn('one')}")
    before, client.messages = client.messages, []
    client.say("another")
    client.messages = before
    completions.again("s" * 32)
    client.say("three")
    assert completions.users() == ["two", "three"]
    names = [
        [event.content for event in each.context().messages if event.kind == "user"] for each in completions.agents
    ]
    assert names == [["two", "three"], ["another"]]


def test_the_introduction_of_qwen_code_is_no_session(completions: CompletionsRunning) -> None:
    """It is equal in all sessions of a folder."""
    client = completions.client
    client.headers = {}
    introduction: list[Message] = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "This is the Qwen Code. We are setting up the context …"}],
        },
        {"role": "assistant", "content": "Got it. Thanks for the context!"},
    ]
    for run, text in (("s" * 32, "one"), ("t" * 32, "two")):
        completions.again(run)
        client.messages = list(introduction)
        client.say(text)
        client.say(":context")
        client.say(f"{text} again")
        assert completions.users()[1:] == [text, f"{text} again"]
    found = [
        [event.content for event in each.context().messages if event.kind == "user"] for each in completions.agents
    ]
    assert found == [["one", "one again"], ["two", "two again"]]


def test_what_qwen_code_remembers_is_beside_the_conversation(completions: CompletionsRunning) -> None:
    """It repeats the conversation, with tools, and names no session."""
    client = completions.client
    client.headers = {}
    client.say("one")
    client.say(":context")
    client.system = "You are now acting as the managed memory extraction subagent for an agent."
    client.ask([*client.messages, {"role": "user", "content": "Scan the conversation."}])
    sent = json.dumps(completions.upstream.asked[-1].body["messages"])
    assert "Scan the conversation." in sent
    assert ":context" not in sent
    assert completions.kinds() == ["user", "assistant"]


def test_an_answer_that_broke_off_is_recorded_when_it_is_repeated(completions: CompletionsRunning) -> None:
    client = completions.client
    client.say("one")
    completions.model.fails.append(Broken((Say(("Half",)),)))
    with pytest.raises(httpx.RemoteProtocolError):
        client.say("two")
    client.messages.append({"role": "assistant", "content": "Half"})
    client.say("three")
    assert [event.content for event in completions.agent.context().messages][-3:] == ["Half", "three", "I see 6."]


def test_calls_without_ids_get_those_of_the_client(completions: CompletionsRunning) -> None:
    client = completions.client
    client.say("one")
    completions.model.fails.append(Reply((Use("", "Read", {}),), stop="calls"))
    client.messages.append({"role": "user", "content": "two"})
    answer = client.ask(client.messages)
    call = {**answer["tool_calls"][0], "id": "call_invented"}
    client.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    client.messages.append({"role": "tool", "tool_call_id": "call_invented", "content": "data"})
    client.say("three")
    ids = [event.call_id for event in completions.agent.context().messages if event.call_id]
    assert ids == ["call_invented", "call_invented"]


def test_damaged_bodies_pass(completions: CompletionsRunning) -> None:
    url, headers = f"{completions.gateway.url}/v1/chat/completions", {"authorization": f"Bearer {KEY}"}
    for content in (b"{", b"[]", b'{"messages":{}}', b'{"messages":[{"role":"system"}]}', b'{"messages":[null]}'):
        assert httpx.post(url, headers=headers, content=content, timeout=LIMIT).status_code in (400, 500)
    completions.upstream.refusals.clear()


# Messages


def encoded(**members: Any) -> bytes:
    return msgspec.json.encode(members)


def test_what_a_message_holds() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    pdf = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}}
    audio = {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}
    user = CHAT.read(encoded(role="user", content=[{"type": "text", "text": "Look:"}, image, pdf, audio]))
    parts = [part for part in CHAT.parts(user) if part is not None]
    kinds = [(part.data or {}).get("blocks", [{}])[0].get("type") for part in parts]
    assert kinds == [None, "image", "document", "carried"]
    refused = CHAT.read(encoded(role="assistant", content=None, refusal="No."))
    assert [getattr(part, "text", None) for part in CHAT.parts(refused)] == ["No."]
    custom = {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    called = CHAT.read(encoded(role="assistant", content="", tool_calls=[custom]))
    assert called.calls == ("c1",)
    (part,) = CHAT.parts(called)
    assert part is not None
    assert part.data == {"custom": True}


def test_a_cache_mark_and_thinking_do_not_change_a_message() -> None:
    part = {"type": "text", "text": "Hello"}
    marked = {**part, "cache_control": {"type": "ephemeral"}}
    keys = {CHAT.read(encoded(role="user", content=content)).key for content in ("Hello", [part], [marked])}
    assert len(keys) == 1
    answers = ({"content": "Hi"}, {"content": "Hi\n", "reasoning_content": "Hm."}, {"content": [part | {"text": "Hi"}]})
    assert len({CHAT.read(encoded(role="assistant", **each)).key for each in answers}) == 1


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_is_recorded_and_stays_with_its_message(field: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
    message = {"role": "assistant", "content": "Reading.", field: "Hm.", "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    answer = CHAT.answer(encoded(model="m", choices=[choice]), streamed=False)
    assert answer is not None
    text, called = answer.parts
    assert text is not None
    assert text.data is not None
    assert called is not None
    assert text.data["blocks"][0]["text"] == "Hm."
    raw = msgspec.json.encode(message)
    left = json.loads(CHAT.rewritten(raw, CHAT.blocks(raw)[1:]))
    assert left == {"role": "assistant", "content": None, field: "Hm.", "tool_calls": [call]}
    left = json.loads(CHAT.rewritten(raw, CHAT.blocks(raw)[:1]))
    assert left == {"role": "assistant", "content": "Reading.", field: "Hm."}


@pytest.mark.parametrize(
    "roles",
    [
        ["call", "user", "tool"],
        ["call"],
        ["tool"],
        ["call", "tool", "tool"],
        ["user", "tool"],
        ["call", "system", "tool"],
    ],
)
def test_an_edit_that_would_be_refused_is_found(roles: list[str]) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
    forms: dict[str, Message] = {
        "call": {"role": "assistant", "tool_calls": [call]},
        "tool": {"role": "tool", "tool_call_id": "c1"},
    }
    raw = [msgspec.json.encode({"content": "x", "role": role, **forms.get(role, {})}) for role in roles]
    found, at = [], 0
    for many in CHAT.grouped(raw):
        found.append(CHAT.read(b",".join(raw[at : at + many])))
        at += many
    with pytest.raises(MisplacedError):
        CHAT.check(found)


def test_an_answer_that_is_no_stream(completions: CompletionsRunning) -> None:
    """A server may answer with the whole completion."""
    message = {"role": "assistant", "content": "Whole.", "refusal": None, "tool_calls": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 2}
    body = encoded(id="c", model="gpt-5.1", choices=[choice], usage=usage)
    completions.model.fails.append(Http(200, {"content-type": "application/json"}, body))
    content: Message = {"model": "gpt-5.1", "stream": True, "messages": [{"role": "user", "content": "one"}]}
    sent = {**content, "tools": completions.client.tools}
    headers = {"authorization": f"Bearer {KEY}"}
    httpx.post(f"{completions.gateway.url}/v1/chat/completions", headers=headers, json=sent, timeout=LIMIT)
    assert [event.content for event in completions.agent.context().messages] == ["one", "Whole."]
    assert statuses(completions.log)[0].answers == 1


def test_the_sdk_reads_answers_and_replies(completions: CompletionsRunning) -> None:
    """A program over OpenAI's own SDK gets the model's answers and Foldmark's replies alike."""
    from openai import OpenAI

    said: list[Any] = []
    tools: Any = completions.client.tools
    with OpenAI(api_key=KEY, base_url=f"{completions.gateway.url}/v1") as sdk:

        def ask(text: str) -> str:
            said.append({"role": "user", "content": text})
            with sdk.chat.completions.stream(model="gpt-5.1", messages=said, tools=tools) as stream:
                for _ in stream:
                    pass
                message = stream.get_final_completion().choices[0].message
            found = [
                (each, each.function.model_dump(include={"name", "arguments"})) for each in message.tool_calls or ()
            ]
            calls = [{"id": each.id, "type": each.type, "function": function} for each, function in found]
            said.append({"role": "assistant", "content": message.content, **({"tool_calls": calls} if calls else {})})
            said.extend({"role": "tool", "tool_call_id": each["id"], "content": "data"} for each in calls)
            return message.content or ""

        assert ask("READ one") == "Reading.\n"
        assert "Context of this session" in ask(":context")
        whole = sdk.chat.completions.create(
            model="gpt-5.1", messages=[*said, {"role": "user", "content": ":help"}], tools=tools
        )
        assert whole.choices[0].message.content == help_text(":")


def test_sizes_are_not_recorded_again_and_again_without_usage(completions: CompletionsRunning) -> None:
    """Without a count of tokens nothing follows from them, and each request would hold those of the whole session."""
    client = completions.client

    def sizes() -> int:
        lives = [(event.data or {}).get("live", {}) for event in completions.agent.events(0, 1000)]
        return sum("sent" in each for each in lives)

    client.options = {}
    for number in range(4):
        client.say(f"READ {number}")
    assert sizes() == 1
    client.options = {"stream_options": {"include_usage": True}}
    client.say("counted")
    client.say("counted, too")
    assert sizes() == 2


PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
PDF = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0x"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}


def test_a_result_that_comes_back_has_its_images_and_documents(completions: CompletionsRunning) -> None:
    client = completions.client
    client.model = "anthropic/claude-sonnet-5"  # OpenRouter takes them in the result of a tool
    client.say("one")
    call = {"id": "c9", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
    shown = [{"type": "text", "text": "Two pages."}, PNG, PDF, SOUND]
    client.messages += [
        {"role": "user", "content": [{"type": "text", "text": "Look."}, SOUND]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c9", "content": shown},
    ]
    client.messages.append(client.repeat(client.ask(client.messages)))
    (result,) = [event for event in completions.agent.context().messages if event.kind == "tool_result"]
    assert result.data is not None
    assert [block["type"] for block in result.data["blocks"]] == ["image", "document", "carried"]
    client.messages = [{"role": "user", "content": "A summary."}, client.messages[-1]]  # the client compacts
    client.say("three")
    operation = [event for event in completions.agent.events() if event.kind == "filter"][-1]
    assert operation.actor == "system"
    completions.agent.do(f"/restore {operation.id}")
    client.say("four")
    sent = completions.upstream.asked[-1].body["messages"]
    assert {"role": "tool", "tool_call_id": "c9", "content": shown} in sent
    assert SOUND in [part for each in sent if each["role"] == "user" for part in each["content"]]
