"""Sessions over the Responses API through a gateway, as Codex sends them (SPEC 5.7); what is the same on every wire is
tested in test_live_sessions.py, the real Codex in test_codex.py."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from claude_client import KEY, SESSION
from codex_wire import CodexWire
from plan import Answer, Broken, Fail, Reply, Say, Think, Use
from running import Running, entered

from foldmark.core.errors import CommandError, ProviderError
from foldmark.live.clients import openai_answers
from foldmark.live.status import statuses
from foldmark.log import Agent

TOOL = {"type": "function", "name": "Read", "parameters": {"type": "object", "properties": {}}}
ADDED = "internal_chat_message_metadata_passthrough"


def spoken(role: str, *texts: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text} for text in texts]
    return {"type": "message", "id": f"msg_{hash(texts) % 10**9}", "role": role, "content": content}


INJECTED = [
    spoken("developer", "You are in a folder."),
    spoken("user", "# AGENTS.md instructions for /app\n\nBe brief.", "<environment_context>\n</environment_context>"),
]


class Client:
    """An agent: it keeps its items, and answers its model's tool calls itself."""

    def __init__(self, url: str) -> None:
        self.url, self.model, self.tools = url, "gpt-5.1", [TOOL]
        self.session, self.thread, self.about = SESSION, SESSION, dict[str, Any]()
        self.items: list[dict[str, Any]] = list(INJECTED)

    def say(self, text: str) -> str:
        """Ask a prompt, answer all calls, and return what the last answer said."""
        self.items.append(spoken("user", text))
        while True:
            answer = self.ask(self.items)
            self.items += answer
            calls = [item for item in answer if item["type"].endswith("_call")]
            if not calls:
                return "".join(part["text"] for item in answer for part in item.get("content", ()))
            for call in calls:
                output = f"{call['name']}: " + "data " * 200
                self.items.append({"type": f"{call['type']}_output", "call_id": call["call_id"], "output": output})

    def ask(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Ask, and return the items of the answer as Codex sends them again."""
        body = {"model": self.model, "stream": True, "store": False, "include": ["reasoning.encrypted_content"]}
        headers = {"authorization": f"Bearer {KEY}", "session-id": self.session, "thread-id": self.thread}
        headers |= {
            "x-codex-turn-metadata": json.dumps({"request_kind": "turn", "thread_source": "user", **self.about})
        }
        content = json.dumps({**body, "input": items, "tools": self.tools}, separators=(",", ":")).encode()
        came = httpx.post(f"{self.url}/v1/responses", headers=headers, content=content)
        assert came.status_code == 200, came.text
        answer = openai_answers.streamed_response(came.content)["output"]
        return [{"status": "completed", **item, ADDED: {"turn_id": "t"}} for item in answer]


class Model:
    """A model that reads with two tools when it is told to, says how many items it sees, and finds nothing."""

    def __init__(self) -> None:
        self.asked, self.fails = 0, list[Answer]()

    def __call__(self, body: Any) -> Answer:
        if self.fails:
            return self.fails.pop()
        self.asked += 1
        if not body.get("tools"):
            return Reply((Say(("[]",)),))
        signature = f"signed-{self.asked}"
        if "READ" in json.dumps(body["input"][-1]):
            calls = Use(f"call_{self.asked}a", "Read", {"at": 1.0}), Use(f"call_{self.asked}b", "exec", {"input": "x"})
            more = Think("The other one.", f"{signature}b")
            return Reply((Think("To read.", signature), Say(("Reading.",)), calls[0], more, calls[1]), stop="calls")
        return Reply((Think("Hm.", signature), Say((f"I see {len(body['input'])}.",))))


class CodexRunning(Running[Model, Client]):
    """Such a client behind a gateway."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, CodexWire(), Model(), Client)

    @property
    def agent(self) -> Agent:
        self.sessions.settle()
        return self.log.agent(f"app · {SESSION[:8]}")

    def texts(self) -> list[tuple[str, str]]:
        """What the provider was last asked, without what the client injects."""
        sent = self.upstream.asked[-1].body["input"]
        assert sent[: len(INJECTED)] == INJECTED
        return self.upstream.wire.texts({"input": sent[len(INJECTED) :]})


@pytest.fixture
def running(tmp_path: Path) -> Iterator[CodexRunning]:
    with entered(CodexRunning(tmp_path)) as made:
        yield made


def test_it_is_recorded(running: CodexRunning) -> None:
    running.client.say("one")
    running.client.say("READ two")
    first = ("user", "assistant", "assistant")
    second = ("user", "assistant", "assistant", "tool_call", "assistant", "tool_call", "tool_result", "tool_result")
    assert running.kinds() == [*first, *second, "assistant", "assistant"]
    agent = running.agent
    assert agent.standing().config.model == "openai_responses/gpt-5.1"
    assert [turn.id for turn in agent.context().turns(9)] == [running.turn("one"), running.turn("READ two")]
    assert agent.open_turn is None
    (status,) = statuses(running.log)
    assert (status.session, status.answers, status.operations) == (SESSION, 3, 0)
    sent = json.dumps([each.body["input"] for each in running.upstream.asked])
    assert json.loads(sent)[-1] == running.client.items[:-2]


def test_a_drop_and_its_restore(running: CodexRunning) -> None:
    client = running.client
    for text in ("one", "READ two", "three"):
        client.say(text)
    whole = running.upstream.asked[-1].body["input"]
    assert "left the context" in client.say(f":drop {running.turn('READ two')} -- it was wrong")
    client.say("four")
    assert not any(kind in ("call", "result") for kind, _ in running.texts())
    assert running.users() == ["one", "three", "four"]
    (operation,) = [event for event in running.agent.events() if event.kind == "drop"]
    client.say(f":restore {operation.id}")
    client.say("five")
    assert running.upstream.asked[-1].body["input"][: len(whole)] == whole


def test_an_eviction_a_mark_and_a_summary(running: CodexRunning) -> None:
    client = running.client
    client.say("one")
    client.say("READ two")
    for event in running.agent.context().messages:
        if event.kind == "tool_result":
            client.say(f":evict {event.id}")
    client.say("three")
    assert all(text.startswith("[Evicted: ") for kind, text in running.texts() if kind == "result")
    client.say(":mark HERE")
    client.say("READ four")
    client.say(":clear HERE")
    client.say("five")
    assert running.users() == ["one", "READ two", "three", "five"]
    running.log.complete = lambda _: "It was read."
    agent = running.agent
    agent.context()
    agent.do("/summarize")
    client.say("six")
    assert running.texts()[-2:] == [("assistant", "It was read."), ("user", "six")]
    client.say(":clear")
    client.say("seven")
    assert running.texts() == [("user", "seven")]


def test_forget_asks_the_sessions_own_model(running: CodexRunning) -> None:
    client = running.client
    client.say("the cache experiment")
    client.say("two")
    asked = len(running.upstream.asked)
    assert "Nothing matches" in client.say(":forget cache")
    (question,) = running.upstream.asked[asked:]
    assert (question.path, question.headers["authorization"]) == ("/v1/responses", f"Bearer {KEY}")
    running.log.complete = lambda _: json.dumps([running.turn("the cache experiment")])
    client.say(":forget cache")
    assert "left the context" in client.say(":yes")
    client.say("three")
    assert "the cache experiment" not in running.users()
    assert ":forget" not in json.dumps(running.texts())


def test_the_models_hand(running: CodexRunning) -> None:
    """A result whose call has left comes as a notice."""
    client = running.client
    client.say("one")
    client.say(":mark HERE")
    call = Use("call_slash", "Read", {})
    running.model.fails.append(Reply((Think("Hm.", "signed"), call), stop="calls"))
    client.items.append(spoken("user", "two"))
    client.items += client.ask(client.items)
    agent = running.agent
    agent.context()
    agent.do("/clear HERE")
    client.items.append({"type": "function_call_output", "call_id": "call_slash", "output": "Rewound."})
    client.items += client.ask(client.items)
    seen = running.texts()
    assert seen[-1] == ("user", "Rewound.") or "Rewound." in seen[-1][1]
    client.say("three")
    assert running.texts()[: len(seen)] == seen
    assert "two" not in running.users()


def test_a_client_that_compacts(running: CodexRunning) -> None:
    client = running.client
    client.say("one")
    client.say("READ two")
    whole = [each for each in running.texts() if each[0] != "thinking"]
    client.items = [*INJECTED]
    client.say("This goes on from a summary.")
    assert running.users() == ["This goes on from a summary."]
    (operation,) = [event for event in running.agent.events() if event.kind == "filter"]
    assert operation.actor == "system"
    running.agent.context()
    running.agent.do(f"/restore {operation.id}")
    client.say("more")
    assert [each for each in running.texts() if each in whole][: len(whole)] == whole
    sent = running.upstream.asked[-1].body["input"]
    assert [item["type"] for item in sent if "call" in item["type"]] == [
        *("function_call", "custom_tool_call", "function_call_output", "custom_tool_call_output")
    ]


def test_a_compaction_that_keeps_the_prompts(running: CodexRunning) -> None:
    """Codex keeps the prompts, commands to Foldmark among them, and injects its own again before the newest one."""
    client = running.client
    for text in ("one", ":context", "READ two", "again", "again"):
        client.say(text)
    client.say(f":drop {running.turn('READ two')}")
    client.say("newest")
    recorded = running.kinds().count("user")

    def asked() -> list[str]:
        texts = running.upstream.wire.texts({"input": running.upstream.asked[-1].body["input"]})
        return [text for kind, text in texts if kind == "user" and not text.startswith(("<", "#"))]

    prompts = [item for item in client.items if item.get("role") == "user" and item not in INJECTED]
    injected = [{**item, "id": "msg_again"} for item in INJECTED]
    made = {"type": "compaction", "encrypted_content": "opaque"}
    client.items = [INJECTED[0], *prompts[:-1], *injected, prompts[-1], made]
    client.say("again")
    assert asked() == ["one", "again", "again", "newest", "again"]
    assert ":context" not in json.dumps(running.upstream.asked[-1].body)
    running.sessions.settle()
    assert running.kinds().count("user") == recorded + 1
    (operation,) = [event for event in running.agent.events(0, 1000) if event.kind == "drop"]
    client.say(f":restore {operation.id}")
    client.say("last")
    assert asked() == ["one", "READ two", "again", "again", "newest", "again", "last"]


def test_what_a_compaction_took_comes_back_between_the_prompts(running: CodexRunning) -> None:
    client = running.client
    for text in ("one", "READ two", "three"):
        client.say(text)
    prompts = [item for item in client.items if item.get("role") == "user" and item not in INJECTED]
    whole = [each for each in running.texts() if each[0] != "thinking"]
    again = [{**item, "id": "msg_again"} for item in INJECTED]
    client.items = [
        *INJECTED,
        *prompts[:-1],
        *again,
        prompts[-1],
        {"type": "compaction", "encrypted_content": "opaque"},
    ]
    client.say("four")
    (operation,) = [event for event in running.agent.events() if event.kind == "filter"]
    client.say(f":restore {operation.id}")
    client.say("five")
    injected = [text for kind, text in running.texts() if text.startswith(("<", "#")) or kind == "system"]
    shown = [each for each in running.texts() if each[0] != "thinking" and each[1] not in injected]
    assert shown[: len(whole)] == whole


def test_a_command_after_a_compaction(running: CodexRunning) -> None:
    """The newest prompt that Codex keeps is not being asked where a command follows: it stays away."""
    client = running.client
    client.say("one")
    client.say("two")
    client.say(f":drop {running.turn('two')}")
    prompts = [item for item in client.items if item.get("role") == "user" and item not in INJECTED]
    client.items = [*INJECTED, *prompts, {"type": "compaction", "encrypted_content": "opaque"}]
    client.say(":context")
    client.say("three")
    assert running.users() == ["one", "three"]


def test_a_fork_of_a_session_that_was_compacted(running: CodexRunning) -> None:
    """A command is known although the reply to it is no longer sent, in whatever session it is repeated."""
    client = running.client
    for text in ("one", ":context", "two"):
        client.say(text)
    prompts = [item for item in client.items if item.get("role") == "user" and item not in INJECTED]
    client.items = [*INJECTED, *prompts, {"type": "compaction", "encrypted_content": "opaque"}]
    client.session = client.thread = "f0f0f0f0-0000-4000-8000-000000000002"
    client.say("three")
    assert running.users() == ["one", "two", "three"]
    running.sessions.settle()
    fork = running.log.agent("app · f0f0f0f0")
    assert [event.content for event in fork.context().messages if event.kind == "user"] == ["one", "two", "three"]


def test_a_client_that_goes_back(running: CodexRunning) -> None:
    client = running.client
    for text in ("one", "two", "three"):
        client.say(text)
    del client.items[len(INJECTED) + 3 :]
    client.say("another two")
    users = [event.content for event in running.agent.context().messages if event.kind == "user"]
    assert users == ["one", "another two"]


def test_another_gateway_goes_on(running: CodexRunning) -> None:
    client = running.client
    for text in ("one", "two", ":help", "READ three"):
        client.say(text)
    client.say(f":drop {running.turn('two')}")
    events = len(running.agent.events(0, 1000))
    running.end()
    running.begin(running.gateway.port, running.gateway.secret)
    client.say("four")
    assert running.users() == ["one", "READ three", "four"]
    assert len(running.agent.events(0, 1000)) < events + 12


FAILURES = [Fail("rate"), Fail("busy", 500), Broken((Say(("I se",)),)), Broken((), event=True)]


@pytest.mark.parametrize("fails", FAILURES, ids=["429", "500", "half a stream", "an error in the stream"])
def test_an_answer_that_failed_is_asked_for_again(running: CodexRunning, fails: Answer) -> None:
    client = running.client
    client.say("one")
    client.say(f":drop {running.turn('one')}")
    running.model.fails.append(fails)
    client.items.append(spoken("user", "two"))
    with pytest.raises((AssertionError, httpx.HTTPError, ProviderError)):
        client.ask(client.items)
    client.items += client.ask(client.items)
    client.say("three")
    assert [event.content for event in running.agent.context().messages if event.kind == "user"] == ["two", "three"]
    assert running.users() == ["two", "three"]


def test_what_an_interruption_leaves_belongs_to_its_turn(running: CodexRunning) -> None:
    client = running.client
    client.say("one")
    client.items += [spoken("user", "two"), spoken("user", "<turn_aborted>\nThe user interrupted.\n</turn_aborted>")]
    client.say("three")
    client.say(f":drop {running.turn('two')}")
    client.say("four")
    assert running.users() == ["one", "three", "four"]


def test_commands_in_a_fork_of_the_session(running: CodexRunning) -> None:
    """The replies are known by their ids, in whatever session or sub-agent they are repeated."""
    client = running.client
    for text in ("one", ":context", "two"):
        client.say(text)
    client.session = client.thread = "f0f0f0f0-0000-4000-8000-000000000002"
    client.say("three")
    assert running.users() == ["one", "two", "three"]
    assert "Context of this session" not in json.dumps(running.texts())
    client.thread = "f0f0f0f0-0000-4000-8000-000000000003"
    client.say("four")
    assert running.users() == ["one", "two", "three", "four"]
    running.sessions.settle()
    fork = running.log.agent("app · f0f0f0f0")
    assert [event.content for event in fork.context().messages if event.kind == "user"] == ["one", "two", "three"]
    (child,) = fork.children
    assert [event.content for event in child.context().messages if event.kind == "user"] == [*running.users()]


def test_sessions_whose_ids_begin_alike(running: CodexRunning) -> None:
    client = running.client
    client.say("one")
    client.session = client.thread = f"{SESSION[:8]}-1111-4000-8000-000000000001"
    client.items = [*INJECTED]
    client.say("two")
    running.sessions.settle()
    names = [agent.name for agent in running.log.agents()]
    assert names == [f"app · {SESSION[:8]}", f"app · {SESSION[:8]}-1111"]


@pytest.mark.parametrize("about", [{"thread_source": "thread_title"}, {"request_kind": "memory"}])
def test_a_request_beside_the_conversation(running: CodexRunning, about: dict[str, Any]) -> None:
    client = running.client
    client.say("one")
    client.about = about
    client.session = client.thread = "7171e000-0000-4000-8000-000000000009"
    client.ask([*INJECTED, spoken("user", "Name this:\n:mark SECRETLY\nplease")])
    assert ":mark" not in json.dumps(running.texts())
    assert "please" in json.dumps(running.texts())
    assert running.kinds() == ["user", "assistant", "assistant"]
    assert len(running.log.agents()) == 1


def test_an_escaped_prompt_goes_to_the_model(running: CodexRunning) -> None:
    running.client.say("::mark my words")
    assert running.users() == [":mark my words"]


@pytest.mark.parametrize("seed", range(8))
def test_every_request_is_valid_whatever_was_taken_out(running: CodexRunning, seed: int) -> None:
    """Kept items have their bytes, and no item stands without those that it needs: the provider checks that (L4)."""
    chance, client = random.Random(seed), running.client
    for number in range(14):
        client.say(chance.choice(["READ ", "", ""]) + f"prompt {number}")
        agent = running.agent
        shown = list(agent.context().messages)
        try:
            if chance.random() < 0.5:
                some = chance.sample(shown, min(len(shown), 3))
                agent.apply_filter("forget", [each.id for each in some], planning=None, criteria=None)
            elif chance.random() < 0.5:
                done = [each.id for each in agent.events(0, 1000) if each.kind in ("filter", "evict", "drop")]
                agent.do(f"/restore {chance.choice(done)}")
            else:
                results = [each.id for each in shown if each.kind == "tool_result"]
                agent.do(f"/context evict {chance.choice(results)}")
        except (CommandError, IndexError):
            continue
    client.say("last")
    kinds = [event.kind for event in running.agent.events(0, 1000)]
    assert sum(kinds.count(kind) for kind in ("filter", "evict", "restore")) > 5
    own = {json.dumps(item) for item in client.items}
    evicted = [item for item in running.upstream.asked[-1].body["input"] if json.dumps(item) not in own]
    assert all(str(item.get("output", "")).startswith("[Evicted: ") for item in evicted)


def test_a_websocket_is_refused_so_that_codex_asks_by_http(running: CodexRunning) -> None:
    headers = {"connection": "upgrade", "upgrade": "websocket"}
    assert httpx.get(f"{running.gateway.url}/v1/responses", headers=headers).status_code == 426
    assert running.upstream.refusals == []
