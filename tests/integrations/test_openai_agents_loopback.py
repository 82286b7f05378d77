"""The real SDK sends the items of a `FoldmarkSession`, also after operations and in both protocols, to a server that
refuses what OpenAI's server would refuse."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from plan import Answer, Broken, Fail, Http, Reply, Say, Think, Use
from sdk_cases import crossed
from sdk_sessions import KINDS, now, run, session, texts
from sdk_wires import WIRES, WholeResponses, asking, loopback
from server import Loopback

from foldmark.core import selections
from stored import stored

if TYPE_CHECKING:
    import openai
    from agents import Agent, ModelSettings, RunConfig, function_tool
    from agents.memory import OpenAIResponsesCompactionSession, SessionSettings

    from foldmark.integrations.openai_agents import FoldmarkSession

HOWS = ("run", "run_streamed")

wires = pytest.mark.parametrize("wire", WIRES)
wires_and_ways = pytest.mark.parametrize(("wire", "how"), crossed([*WIRES], HOWS))


def weather(city: str) -> str:
    """The weather."""
    return f"rain in {city}"


def text(said: str) -> Reply:
    return Reply((Say((said,)),))


def use(call_id: str, city: str = "Oslo", thought: bool = False) -> Reply:
    thinking = (Think("Let me see.", f"opaque-{call_id}"),) if thought else ()
    return Reply((*thinking, Use(call_id, "weather", {"city": city})), "calls")


def asked(server: Loopback, number: int = -1) -> list[tuple[str, str]]:
    """Return the texts of a request, in order."""
    assert not server.refusals, server.refusals
    return server.wire.texts(server.asked[number].body)


async def converse(name: str, server: Loopback, how: str, talk: Any, *lines: str, **more: Any) -> list[str]:
    """Say the lines in order, run those that are commands on the session, and return the answers."""
    found = []
    async with asking(name, server.url) as model:
        agent = Agent(name="helper", instructions="Help.", model=model, tools=[function_tool(weather)])
        for line in lines:
            if line.startswith("/"):
                talk.do(line)
            else:
                found.append((await run(how, agent, line, session=talk, **more)).final_output)
    return found


@wires_and_ways
def test_it_remembers(wire: str, how: str, tmp_path: Path) -> None:
    answers = [text("Hello Ann."), use("a"), text("Rain."), text("Ann.")]
    with session("foldmark", tmp_path) as talk, loopback(WIRES[wire](), answers) as server:
        said = now(converse(wire, server, how, talk, "I am Ann.", "Weather in Oslo?", "Who am I?"))
        assert said == ["Hello Ann.", "Rain.", "Ann."]
        assert asked(server) == [
            ("system", "Help."),
            ("user", "I am Ann."),
            ("assistant", "Hello Ann."),
            ("user", "Weather in Oslo?"),
            ("call", "weather"),
            ("result", "rain in Oslo"),
            ("assistant", "Rain."),
            ("user", "Who am I?"),
        ]


@wires_and_ways
def test_operations_between_runs(wire: str, how: str, tmp_path: Path) -> None:
    answers = [text("Hello."), use("a"), text("Rain."), text("one"), text("two"), text("three")]
    with session("foldmark", tmp_path) as talk, loopback(WIRES[wire](), answers) as server:
        now(converse(wire, server, how, talk, "I am Ann.", "/mark BEFORE", "Weather?", "/rewind BEFORE", "Who am I?"))
        rewound = [("system", "Help."), ("user", "I am Ann."), ("assistant", "Hello."), ("user", "Who am I?")]
        assert asked(server) == rewound
        (operation,) = [e for e in selections.operations(stored(talk.log), talk.agent.id) if e.kind == "rewind"]
        now(converse(wire, server, how, talk, f"/restore {operation.id}", "And now?"))
        assert ("result", "rain in Oslo") in asked(server)
        now(converse(wire, server, how, talk, "/clear", "Anybody?"))
        assert asked(server) == [("system", "Help."), ("user", "Anybody?")]


@pytest.mark.parametrize(("how", "mode"), crossed(HOWS, ("forget", "remember")))
def test_thinking_goes_with_what_it_led_to(how: str, mode: str, tmp_path: Path) -> None:
    """The API refuses one without the other. Each message in turn is forgotten, or alone remembered. One
    thinking item leads to a remark and a call, the other to an answer alone."""
    remark = (Think("Let me see.", "opaque-1"), Say(("I look.",)), Use("a", "weather", {"city": "Oslo"}))
    thought = Reply((Think("Hm.", "opaque-2"), Say(("Sunny.",))))
    answers = [Reply(remark, "calls"), text("Rain."), thought, *[text("ok")] * 20]
    settings = ModelSettings(response_include=["reasoning.encrypted_content"])
    with session("foldmark", tmp_path) as talk, loopback(WIRES["responses"](), answers) as server:

        def ask(*lines: str) -> list[tuple[str, str]]:
            now(converse("responses", server, how, talk, *lines, run_config=RunConfig(model_settings=settings)))
            return asked(server)

        assert [each for each in ask("Weather?", "And tomorrow?", "Really?") if each[0] == "thinking"] == [
            ("thinking", "opaque-1"),
            ("thinking", "opaque-2"),
        ]
        context = list(talk.agent.context().messages)[:8]
        assert [event.kind for event in context][1:4] == ["assistant", "tool_call", "tool_result"]
        for event in context:
            at = talk.agent.apply_filter(mode, [event.id])
            assert (("user", "So?")) in ask("So?")
            talk.do(f"/restore {at}")


@wires
def test_a_provider_that_fails(wire: str, tmp_path: Path) -> None:
    answers: list[Answer] = [Fail("busy"), use("a"), Broken((Say(("half an ans",)),)), text("Here I am.")]
    with session("foldmark", tmp_path) as talk, loopback(WIRES[wire](), answers) as server:
        with pytest.raises(openai.InternalServerError):
            now(converse(wire, server, "run", talk, "first"))
        with pytest.raises(Exception, match=r"."):
            now(converse(wire, server, "run_streamed", talk, "second"))
        assert now(converse(wire, server, "run_streamed", talk, "third")) == ["Here I am."]
        assert [each for each in asked(server) if each[0] != "system"] == [
            ("user", "first"),
            ("user", "second"),
            ("call", "weather"),
            ("result", "rain in Oslo"),
            ("user", "third"),
        ]


@wires
def test_a_fork_goes_its_own_way(wire: str, tmp_path: Path) -> None:
    answers = [text("Hello."), text("from the child"), text("from the parent")]
    with session("foldmark", tmp_path) as talk, loopback(WIRES[wire](), answers) as server:
        now(converse(wire, server, "run", talk, "I am Ann."))
        child = FoldmarkSession(talk.do("/fork").data["child"], talk.log)
        now(converse(wire, server, "run", child, "Who am I?"))
        assert asked(server)[1:] == [("user", "I am Ann."), ("assistant", "Hello."), ("user", "Who am I?")]
        now(converse(wire, server, "run", talk, "What else?"))
        assert asked(server)[1:] == [("user", "I am Ann."), ("assistant", "Hello."), ("user", "What else?")]


@wires
def test_every_limit_gives_a_request_that_is_taken(wire: str, tmp_path: Path) -> None:
    answers = [use("a"), use("b", "Rome"), text("Rain in both."), *[text("ok")] * 8]
    with session("foldmark", tmp_path) as talk, loopback(WIRES[wire](), answers) as server:
        now(converse(wire, server, "run", talk, "Weather?"))
        for limit in range(8):
            config = RunConfig(session_settings=SessionSettings(limit=limit))
            now(converse(wire, server, "run", talk, f"{limit}?", run_config=config))
            assert len(asked(server)) - 2 <= limit


@wires
def test_a_call_that_was_never_answered(wire: str, tmp_path: Path) -> None:
    """After a crash in the middle of a run, the runner omits the call automatically."""
    with session("foldmark", tmp_path) as talk, loopback(WIRES[wire](), [text("ok")]) as server:
        arguments = json.dumps({"city": "Oslo"})
        lost = {"type": "function_call", "call_id": "a", "name": "weather", "arguments": arguments}
        now(talk.add_items([{"role": "user", "content": "Weather?"}, lost]))
        now(converse(wire, server, "run", talk, "Hello?"))
        assert asked(server)[1:] == [("user", "Weather?"), ("user", "Hello?")]


class Compacting(WholeResponses):
    """Also serves POST /responses/compact, which replaces all items with an opaque one, and accepts that item later."""

    def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
        if not path.endswith("/compact"):
            known = [item for item in body["input"] if item.get("type") != "compaction"]
            return super().refuse(path, headers, {**body, "input": known})
        item = {"type": "compaction", "id": "cmp_1", "encrypted_content": f"{len(body['input'])} items"}
        answer = {"id": "resp_c", "object": "response.compaction", "created_at": 1, "output": [item]}
        usage = {
            "input_tokens": 9,
            "output_tokens": 1,
            "total_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
        }
        whole = {**answer, "usage": {**usage, "output_tokens_details": {"reasoning_tokens": 0}}}
        return Http(200, {"content-type": "application/json"}, json.dumps(whole).encode())


@pytest.mark.parametrize("kind", KINDS)
def test_inside_of_a_session_that_compacts(kind: str, tmp_path: Path) -> None:
    async def compacted(talk: Any, server: Loopback) -> Any:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="test-key") as client:
            outer = OpenAIResponsesCompactionSession("talk", talk, client=client, compaction_mode="input")
            await outer.add_items([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}])
            await outer.run_compaction({"force": True})
            return await outer.get_items()

    with session(kind, tmp_path) as talk, Loopback(Compacting()) as server:
        items = now(compacted(talk, server))
        assert [(item["type"], item["encrypted_content"]) for item in items] == [("compaction", "2 items")]
        assert now(talk.get_items()) == items
        if kind == "foldmark":
            (copy,) = selections.operations(stored(talk.log), talk.agent.id)
            talk.do(f"/restore {copy.id}")
            assert texts(now(talk.get_items())) == ["Hello", "Hi"]


@pytest.mark.parametrize(("kind", "how"), crossed(KINDS, HOWS))
def test_compaction_with_a_bound_on_what_is_rolled_back(kind: str, how: str, tmp_path: Path) -> None:
    """Runs compact automatically despite the bound, and the next request begins with the compacted copy."""

    async def talking(talk: Any, server: Loopback, asked: list[Any]) -> None:
        async with asking("responses", server.url) as model:
            outer = OpenAIResponsesCompactionSession(
                "talk",
                talk,
                client=model._client,  # type: ignore[attr-defined]  # the SDK's own
                compaction_mode="input",
                max_rollback_items=1,
                should_trigger_compaction=lambda context: len(context["session_items"]) >= 4,
            )
            agent = Agent(name="helper", instructions="Help.", model=model, tools=[function_tool(weather)])
            for line in ("one", "two", "three"):
                await run(how, agent, line, session=outer)
                asked.append(await outer.get_items())
            with pytest.raises(ValueError, match="max_rollback_items"):
                await outer.run_compaction({"force": True})

    answers, found = [text("a"), text("b"), text("c")], list[Any]()
    with session(kind, tmp_path) as talk, loopback(Compacting(), answers) as server:
        now(talking(talk, server, found))
        assert [[item.get("type", "message") for item in items] for items in found] == [
            ["message", "message"],
            ["compaction"],
            ["compaction", "message", "message"],
        ]
        assert now(talk.get_items()) == found[-1]
        if kind == "foldmark":
            (copy,) = selections.operations(stored(talk.log), talk.agent.id)
            talk.do(f"/restore {copy.id}")
            assert texts(now(talk.get_items())) == ["one", "a", "two", "b", "three", "c"]
