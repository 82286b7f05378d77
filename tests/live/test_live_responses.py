"""Sessions over the Responses API through a gateway, as Codex sends them (SPEC 5.7). Tests that apply to every wire:
test_live_sessions.py; the real Codex: test_codex.py."""

import json
from typing import Any

import httpx2 as httpx
import pytest
from claude_client import KEY, SESSION
from codex_client import INJECTED, CodexRunning, spoken
from plan import Answer, Broken, Fail, Reply, Say, Think, Use

from answering import answered_by
from foldmark.core.errors import ProviderError
from foldmark.live.status import statuses
from patience import LIMIT


def test_it_is_recorded(codex: CodexRunning) -> None:
    codex.client.say("one")
    codex.client.say("READ two")
    first = ("user", "assistant", "assistant")
    second = ("user", "assistant", "assistant", "tool_call", "assistant", "tool_call", "tool_result", "tool_result")
    assert codex.kinds() == [*first, *second, "assistant", "assistant"]
    agent = codex.agent
    assert agent.standing().config.model == "openai_responses/gpt-5.1"
    assert [turn.id for turn in agent.context().turns(9)] == [codex.turn("one"), codex.turn("READ two")]
    assert agent.open_turn is None
    (status,) = statuses(codex.log)
    assert (status.session, status.answers, status.operations) == (SESSION, 3, 0)
    sent = json.dumps([each.body["input"] for each in codex.upstream.asked])
    assert json.loads(sent)[-1] == codex.client.items[:-2]


def test_a_drop_and_its_restore(codex: CodexRunning) -> None:
    client = codex.client
    for text in ("one", "READ two", "three"):
        client.say(text)
    whole = codex.upstream.asked[-1].body["input"]
    assert "left the context" in client.say(f":drop {codex.turn('READ two')} -- it was wrong")
    client.say("four")
    assert not any(kind in ("call", "result") for kind, _ in codex.texts())
    assert codex.users() == ["one", "three", "four"]
    (operation,) = [event for event in codex.agent.events() if event.kind == "drop"]
    client.say(f":restore {operation.id}")
    client.say("five")
    assert codex.upstream.asked[-1].body["input"][: len(whole)] == whole


def test_an_eviction_a_mark_and_a_summary(codex: CodexRunning) -> None:
    client = codex.client
    client.say("one")
    client.say("READ two")
    for event in codex.agent.context().messages:
        if event.kind == "tool_result":
            client.say(f":evict {event.id}")
    client.say("three")
    assert all(text.startswith("[Evicted: ") for kind, text in codex.texts() if kind == "result")
    client.say(":mark HERE")
    client.say("READ four")
    client.say(":clear HERE")
    client.say("five")
    assert codex.users() == ["one", "READ two", "three", "five"]
    answered_by(lambda _: "It was read.")
    agent = codex.agent
    agent.context()
    agent.do("/summarize")
    client.say("six")
    assert codex.texts()[-2:] == [("assistant", "It was read."), ("user", "six")]
    client.say(":clear")
    client.say("seven")
    assert codex.texts() == [("user", "seven")]


def test_forget_asks_the_sessions_own_model(codex: CodexRunning) -> None:
    client = codex.client
    client.say("the cache experiment")
    client.say("two")
    asked = len(codex.upstream.asked)
    assert "Nothing matches" in client.say(":forget cache")
    (question,) = codex.upstream.asked[asked:]
    assert (question.path, question.headers["authorization"]) == ("/v1/responses", f"Bearer {KEY}")
    answer = json.dumps([codex.message("the cache experiment")])
    answered_by(lambda _: answer)
    client.say(":forget cache")
    assert "left the context" in client.say(":yes")
    client.say("three")
    assert "the cache experiment" not in codex.users()
    assert ":forget" not in json.dumps(codex.texts())


def test_the_models_hand(codex: CodexRunning) -> None:
    """A result whose call has left is sent as a notice."""
    client = codex.client
    client.say("one")
    client.say(":mark HERE")
    call = Use("call_slash", "Read", {})
    codex.model.fails.append(Reply((Think("Hm.", "signed"), call), stop="calls"))
    client.items.append(spoken("user", "two"))
    client.items += client.ask(client.items)
    agent = codex.agent
    agent.context()
    agent.do("/clear HERE")
    client.items.append({"type": "function_call_output", "call_id": "call_slash", "output": "Rewound."})
    client.items += client.ask(client.items)
    seen = codex.texts()
    assert seen[-1] == ("user", "Rewound.") or "Rewound." in seen[-1][1]
    client.say("three")
    assert codex.texts()[: len(seen)] == seen
    assert "two" not in codex.users()


def test_a_client_that_compacts(codex: CodexRunning) -> None:
    client = codex.client
    client.say("one")
    client.say("READ two")
    whole = [each for each in codex.texts() if each[0] != "thinking"]
    client.items = [*INJECTED]
    client.say("This goes on from a summary.")
    assert codex.users() == ["This goes on from a summary."]
    (operation,) = [event for event in codex.agent.events() if event.kind == "filter"]
    assert operation.actor == "system"
    codex.agent.context()
    codex.agent.do(f"/restore {operation.id}")
    client.say("more")
    assert [each for each in codex.texts() if each in whole][: len(whole)] == whole
    sent = codex.upstream.asked[-1].body["input"]
    assert [item["type"] for item in sent if "call" in item["type"]] == [
        *("function_call", "custom_tool_call", "function_call_output", "custom_tool_call_output")
    ]


def test_a_compaction_that_keeps_the_prompts(codex: CodexRunning) -> None:
    """Codex keeps the prompts, including commands to Foldmark, and injects its own again before the newest one."""
    client = codex.client
    for text in ("one", ":context", "READ two", "again", "again"):
        client.say(text)
    client.say(f":drop {codex.turn('READ two')}")
    client.say("newest")
    recorded = codex.kinds().count("user")

    def asked() -> list[str]:
        texts = codex.upstream.wire.texts({"input": codex.upstream.asked[-1].body["input"]})
        return [text for kind, text in texts if kind == "user" and not text.startswith(("<", "#"))]

    prompts = [item for item in client.items if item.get("role") == "user" and item not in INJECTED]
    injected = [{**item, "id": "msg_again"} for item in INJECTED]
    made = {"type": "compaction", "encrypted_content": "opaque"}
    client.items = [INJECTED[0], *prompts[:-1], *injected, prompts[-1], made]
    client.say("again")
    assert asked() == ["one", "again", "again", "newest", "again"]
    assert ":context" not in json.dumps(codex.upstream.asked[-1].body)
    codex.settle()
    assert codex.kinds().count("user") == recorded + 1
    (operation,) = [event for event in codex.agent.events(0, 1000) if event.kind == "drop"]
    client.say(f":restore {operation.id}")
    client.say("last")
    assert asked() == ["one", "READ two", "again", "again", "newest", "again", "last"]


def test_what_a_compaction_took_comes_back_between_the_prompts(codex: CodexRunning) -> None:
    client = codex.client
    for text in ("one", "READ two", "three"):
        client.say(text)
    prompts = [item for item in client.items if item.get("role") == "user" and item not in INJECTED]
    whole = [each for each in codex.texts() if each[0] != "thinking"]
    again = [{**item, "id": "msg_again"} for item in INJECTED]
    client.items = [
        *INJECTED,
        *prompts[:-1],
        *again,
        prompts[-1],
        {"type": "compaction", "encrypted_content": "opaque"},
    ]
    client.say("four")
    (operation,) = [event for event in codex.agent.events() if event.kind == "filter"]
    client.say(f":restore {operation.id}")
    client.say("five")
    injected = [text for kind, text in codex.texts() if text.startswith(("<", "#")) or kind == "system"]
    shown = [each for each in codex.texts() if each[0] != "thinking" and each[1] not in injected]
    assert shown[: len(whole)] == whole


def test_a_command_after_a_compaction(codex: CodexRunning) -> None:
    """If a command follows the newest prompt that Codex keeps, that prompt is not asked again: it stays out."""
    client = codex.client
    client.say("one")
    client.say("two")
    client.say(f":drop {codex.turn('two')}")
    prompts = [item for item in client.items if item.get("role") == "user" and item not in INJECTED]
    client.items = [*INJECTED, *prompts, {"type": "compaction", "encrypted_content": "opaque"}]
    client.say(":context")
    client.say("three")
    assert codex.users() == ["one", "three"]


def test_a_fork_of_a_session_that_was_compacted(codex: CodexRunning) -> None:
    """A command is recognized in any session that repeats it, although the reply to it is no longer sent."""
    client = codex.client
    for text in ("one", ":context", "two"):
        client.say(text)
    prompts = [item for item in client.items if item.get("role") == "user" and item not in INJECTED]
    client.items = [*INJECTED, *prompts, {"type": "compaction", "encrypted_content": "opaque"}]
    client.session = client.thread = "f0f0f0f0-0000-4000-8000-000000000002"
    client.say("three")
    assert codex.users() == ["one", "two", "three"]
    codex.settle()
    fork = codex.log.agent("app · f0f0f0f0")
    assert [event.content for event in fork.context().messages if event.kind == "user"] == ["one", "two", "three"]


def test_a_client_that_goes_back(codex: CodexRunning) -> None:
    client = codex.client
    for text in ("one", "two", "three"):
        client.say(text)
    del client.items[len(INJECTED) + 3 :]
    client.say("another two")
    users = [event.content for event in codex.agent.context().messages if event.kind == "user"]
    assert users == ["one", "another two"]


def test_another_gateway_goes_on(codex: CodexRunning) -> None:
    client = codex.client
    for text in ("one", "two", ":help", "READ three"):
        client.say(text)
    client.say(f":drop {codex.turn('two')}")
    events = len(codex.agent.events(0, 1000))
    codex.end()
    codex.begin(codex.gateway.port, codex.gateway.secret)
    client.say("four")
    assert codex.users() == ["one", "READ three", "four"]
    assert len(codex.agent.events(0, 1000)) < events + 12


FAILURES = [Fail("rate"), Fail("busy", 500), Broken((Say(("I se",)),)), Broken((), event=True)]


@pytest.mark.parametrize("fails", FAILURES, ids=["429", "500", "half a stream", "an error in the stream"])
def test_an_answer_that_failed_is_asked_for_again(codex: CodexRunning, fails: Answer) -> None:
    client = codex.client
    client.say("one")
    client.say(f":drop {codex.turn('one')}")
    codex.model.fails.append(fails)
    client.items.append(spoken("user", "two"))
    with pytest.raises((AssertionError, httpx.HTTPError, ProviderError)):
        client.ask(client.items)
    client.items += client.ask(client.items)
    client.say("three")
    assert [event.content for event in codex.agent.context().messages if event.kind == "user"] == ["two", "three"]
    assert codex.users() == ["two", "three"]


def test_what_an_interruption_leaves_belongs_to_its_turn(codex: CodexRunning) -> None:
    client = codex.client
    client.say("one")
    client.items += [spoken("user", "two"), spoken("user", "<turn_aborted>\nThe user interrupted.\n</turn_aborted>")]
    client.say("three")
    client.say(f":drop {codex.turn('two')}")
    client.say("four")
    assert codex.users() == ["one", "three", "four"]


def test_commands_in_a_fork_of_the_session(codex: CodexRunning) -> None:
    """The replies are recognized by their ids, in any session or sub-agent that repeats them."""
    client = codex.client
    for text in ("one", ":context", "two"):
        client.say(text)
    client.session = client.thread = "f0f0f0f0-0000-4000-8000-000000000002"
    client.say("three")
    assert codex.users() == ["one", "two", "three"]
    assert "Context of this session" not in json.dumps(codex.texts())
    client.thread = "f0f0f0f0-0000-4000-8000-000000000003"
    client.say("four")
    assert codex.users() == ["one", "two", "three", "four"]
    codex.settle()
    fork = codex.log.agent("app · f0f0f0f0")
    assert [event.content for event in fork.context().messages if event.kind == "user"] == ["one", "two", "three"]
    (child,) = fork.children
    assert [event.content for event in child.context().messages if event.kind == "user"] == [*codex.users()]


def test_sessions_whose_ids_begin_alike(codex: CodexRunning) -> None:
    client = codex.client
    client.say("one")
    client.session = client.thread = f"{SESSION[:8]}-1111-4000-8000-000000000001"
    client.items = [*INJECTED]
    client.say("two")
    codex.settle()
    names = [agent.name for agent in codex.log.agents()]
    assert names == [f"app · {SESSION[:8]}", f"app · {SESSION[:8]}-1111"]


@pytest.mark.parametrize("about", [{"thread_source": "thread_title"}, {"request_kind": "memory"}])
def test_a_request_beside_the_conversation(codex: CodexRunning, about: dict[str, Any]) -> None:
    client = codex.client
    client.say("one")
    client.about = about
    client.session = client.thread = "7171e000-0000-4000-8000-000000000009"
    client.ask([*INJECTED, spoken("user", "Name this:\n:mark SECRETLY\nplease")])
    assert ":mark" not in json.dumps(codex.texts())
    assert "please" in json.dumps(codex.texts())
    assert codex.kinds() == ["user", "assistant", "assistant"]
    assert len(codex.log.agents()) == 1


def test_an_escaped_prompt_goes_to_the_model(codex: CodexRunning) -> None:
    codex.client.say("::mark my words")
    assert codex.users() == [":mark my words"]
    assert [event.content for event in codex.agent.context().messages if event.kind == "user"] == codex.users()


def test_a_websocket_is_refused_so_that_codex_asks_by_http(codex: CodexRunning) -> None:
    headers = {"connection": "upgrade", "upgrade": "websocket"}
    assert httpx.get(f"{codex.gateway.url}/v1/responses", headers=headers, timeout=LIMIT).status_code == 426
    assert codex.upstream.refusals == []
