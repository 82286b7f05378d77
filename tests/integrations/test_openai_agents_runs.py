"""Runs of the SDK's own runner on a session, with each of its methods and the SDK's scripted model. `SQLiteSession`
passes the same tests; `test_openai_agents_loopback.py` tests the same over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sdk_cases import WAYS, crossed
from sdk_sessions import KINDS, now, run, said, session, texts, user

from foldmark.core import selections
from patience import LIMIT
from stored import stored

if TYPE_CHECKING:
    from agents import (
        Agent,
        GuardrailFunctionOutput,
        InputGuardrail,
        InputGuardrailTripwireTriggered,
        MaxTurnsExceeded,
        ModelBehaviorError,
        OutputGuardrail,
        OutputGuardrailTripwireTriggered,
        RunConfig,
        Runner,
        RunState,
        function_tool,
    )
    from agents.memory import SessionSettings
    from agents.testing import ScriptedModel, assistant_message, function_call

both = pytest.mark.parametrize("kind", KINDS)
ways = pytest.mark.parametrize(("kind", "how"), WAYS)


def weather(city: str) -> str:
    """The weather."""
    return f"rain in {city}"


def trip(*_: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)


def last_input(model: ScriptedModel) -> list[Any]:
    assert model.last_call is not None
    return list(model.last_call.input)


def turns_of(talk: Any) -> list[list[str]]:
    """Return the kinds of the messages of each turn in the context."""
    found: dict[int | None, list[str]] = {}
    for event in talk.agent.context().messages:
        found.setdefault(event.turn_id, []).append(event.kind)
    return list(found.values())


@ways
def test_a_conversation_is_remembered(kind: str, how: str, tmp_path: Path) -> None:
    model = ScriptedModel([[assistant_message("San Francisco")], [assistant_message("California")]])
    agent = Agent(name="test", model=model)
    with session(kind, tmp_path) as talk:
        assert now(run(how, agent, "Which city?", session=talk)).final_output == "San Francisco"
        assert now(run(how, agent, "Which state?", session=talk)).final_output == "California"
        assert texts(last_input(model)) == ["Which city?", "San Francisco", "Which state?"]
        assert texts(now(talk.get_items())) == ["Which city?", "San Francisco", "Which state?", "California"]
        if kind == "foldmark":
            assert turns_of(talk) == [["user", "assistant"]] * 2
            assert talk.agent.open_turn is None


@ways
def test_without_a_session_nothing_is_remembered(kind: str, how: str, tmp_path: Path) -> None:
    model = ScriptedModel([[assistant_message("Hello")], [assistant_message("No")]])
    with session(kind, tmp_path) as talk:
        for text in ("Hi", "Do you remember?"):
            now(run(how, Agent(name="test", model=model), text))
        assert len(last_input(model)) == 1
        assert now(talk.get_items()) == []


@ways
def test_each_session_remembers_its_own(kind: str, how: str, tmp_path: Path) -> None:
    model = ScriptedModel([[assistant_message(text)] for text in ("cats", "dogs", "you like cats")])
    agent = Agent(name="test", model=model)
    with session(kind, tmp_path, "one") as one, session(kind, tmp_path, "two") as two:
        now(run(how, agent, "I like cats", session=one))
        now(run(how, agent, "I like dogs", session=two))
        now(run(how, agent, "What do I like?", session=one))
        assert texts(last_input(model)) == ["I like cats", "cats", "What do I like?"]


@ways
def test_tools(kind: str, how: str, tmp_path: Path) -> None:
    asked = [function_call("weather", {"city": city}, call_id=city) for city in ("Oslo", "Rome")]
    model = ScriptedModel([asked, [assistant_message("Rain in both.")], [assistant_message("Yes.")]])
    agent = Agent(name="test", model=model, tools=[function_tool(weather)])
    with session(kind, tmp_path) as talk:
        now(run(how, agent, "Weather?", session=talk))
        now(run(how, agent, "Sure?", session=talk))
        kinds = [item.get("type", item.get("role")) for item in last_input(model)]
        calls = ["function_call"] * 2 + ["function_call_output"] * 2
        assert kinds == ["user", *calls, "message", "user"]
        if kind == "foldmark":
            assert turns_of(talk) == [
                ["user", "tool_call", "tool_call", "tool_result", "tool_result", "assistant"],
                ["user", "assistant"],
            ]


@ways
def test_a_handoff_and_two_agents_in_one_session(kind: str, how: str, tmp_path: Path) -> None:
    model = ScriptedModel(
        [
            [function_call("transfer_to_spanish", {}, call_id="h")],
            [assistant_message("Hola")],
            [assistant_message("You said hi.")],
        ]
    )
    spanish = Agent(name="spanish", model=model)
    english = Agent(name="english", model=model, handoffs=[spanish])
    with session(kind, tmp_path) as talk:
        result = now(run(how, english, "hi", session=talk))
        assert (result.final_output, result.last_agent.name) == ("Hola", "spanish")
        now(run(how, english, "What did I say?", session=talk))
        assert texts(last_input(model)) == ["hi", "", "", "Hola", "What did I say?"]
        if kind == "foldmark":
            assert turns_of(talk) == [["user", "tool_call", "tool_result", "assistant"], ["user", "assistant"]]


LIMITS: list[tuple[int | None, list[str] | None]] = [(2, ["m3", "r3", "m4"]), (0, ["m4"]), (100, None), (None, None)]


@pytest.mark.parametrize(("kind", "how", "limit", "expected"), [(*way, *limit) for way, limit in crossed(WAYS, LIMITS)])
def test_limits_of_a_run(kind: str, how: str, limit: int | None, expected: list[str] | None, tmp_path: Path) -> None:
    model = ScriptedModel([[assistant_message(f"r{n}")] for n in (1, 2, 3, 4)])
    agent = Agent(name="test", model=model)
    with session(kind, tmp_path, session_settings=SessionSettings(limit=50)) as talk:
        for number in (1, 2, 3):
            now(run(how, agent, f"m{number}", session=talk))
        config = RunConfig(session_settings=SessionSettings(limit=limit))
        now(run(how, agent, "m4", session=talk, run_config=config))
        assert texts(last_input(model)) == (expected or ["m1", "r1", "m2", "r2", "m3", "r3", "m4"])
        assert len(now(talk.get_items())) == 8, "a limit hides, and removes nothing"


@both
def test_a_limit_between_a_call_and_its_result(kind: str, tmp_path: Path) -> None:
    asked = [function_call("weather", {"city": "Oslo"}, call_id="a")]
    model = ScriptedModel([asked, [assistant_message("Rain.")], [assistant_message("Yes.")]])
    agent = Agent(name="test", model=model, tools=[function_tool(weather)])
    with session(kind, tmp_path) as talk:
        now(run("run", agent, "Weather?", session=talk))
        now(run("run", agent, "Sure?", session=talk, run_config=RunConfig(session_settings=SessionSettings(limit=2))))
        assert texts(last_input(model)) == ["Rain.", "Sure?"]


@ways
def test_a_list_as_input(kind: str, how: str, tmp_path: Path) -> None:
    model = ScriptedModel([[assistant_message("ok")]])
    earlier = [user("Earlier message"), {"role": "assistant", "content": "Saved reply"}]
    with session(kind, tmp_path) as talk:
        now(talk.add_items(earlier))
        now(run(how, Agent(name="test", model=model), [user("one"), user("two")], session=talk))
        assert last_input(model) == [*earlier, user("one"), user("two")]
        assert texts(now(talk.get_items())) == ["Earlier message", "Saved reply", "one", "two", "ok"]
        if kind == "foldmark":
            assert turns_of(talk) == [["user", "assistant"], ["user", "user", "assistant"]]


@ways
def test_a_callback_that_chooses(kind: str, how: str, tmp_path: Path) -> None:
    model = ScriptedModel([[assistant_message("ok")]])
    earlier = [user("Hello."), {"role": "assistant", "content": "Hi."}]

    def users_only(history: list[Any], new: list[Any]) -> list[Any]:
        return [item for item in history if item["role"] == "user"] + new

    with session(kind, tmp_path) as talk:
        now(talk.add_items(earlier))
        config = RunConfig(session_input_callback=users_only)
        now(run(how, Agent(name="test", model=model), [user("Name?")], session=talk, run_config=config))
        assert last_input(model) == [earlier[0], user("Name?")]
        assert texts(now(talk.get_items())) == ["Hello.", "Hi.", "Name?", "ok"]


@ways
def test_a_run_that_fails(kind: str, how: str, tmp_path: Path) -> None:
    """The person's text and the completed steps are kept, and the next run continues from there."""
    asked = [function_call("weather", {"city": "Oslo"}, call_id="a")]
    model = ScriptedModel(
        [ModelBehaviorError("broke"), asked, ModelBehaviorError("broke"), [assistant_message("Rain.")]]
    )
    agent = Agent(name="test", model=model, tools=[function_tool(weather)])
    with session(kind, tmp_path) as talk:
        for text in ("first", "second"):
            with pytest.raises(ModelBehaviorError, match="broke"):
                now(run(how, agent, text, session=talk))
        now(run(how, agent, "third", session=talk))
        assert texts(last_input(model)) == ["first", "second", "", "", "third"]
        if kind == "foldmark":
            assert turns_of(talk) == [["user"], ["user", "tool_call", "tool_result"], ["user", "assistant"]]
            ends = selections.operations(stored(talk.log), talk.agent.id)
            assert ends == [], "nothing was taken out of the context"


@ways
def test_too_many_steps(kind: str, how: str, tmp_path: Path) -> None:
    steps = [[function_call("weather", {"city": "Oslo"}, call_id=f"c{n}")] for n in range(3)]
    model = ScriptedModel([*steps, [assistant_message("done")]])
    agent = Agent(name="test", model=model, tools=[function_tool(weather)])
    with session(kind, tmp_path) as talk:
        with pytest.raises(MaxTurnsExceeded):
            now(run(how, agent, "go", session=talk, max_turns=2))
        assert len(now(talk.get_items())) == 5
        now(run(how, agent, "go on", session=talk))
        assert [item.get("type") for item in last_input(model)][-3:] == [None, "function_call", "function_call_output"]


@pytest.mark.parametrize(
    ("kind", "how", "parallel"), [(*way, parallel) for way, parallel in crossed(WAYS, (True, False))]
)
def test_a_guardrail_of_the_input(kind: str, how: str, parallel: bool, tmp_path: Path) -> None:
    model = ScriptedModel([[assistant_message("no")], [assistant_message("fine")]])
    guard = InputGuardrail(trip, run_in_parallel=parallel)
    with session(kind, tmp_path) as talk:
        with pytest.raises(InputGuardrailTripwireTriggered):
            now(run(how, Agent(name="test", model=model, input_guardrails=[guard]), "bad", session=talk))
        assert texts(now(talk.get_items())) == ["bad"]
        now(run(how, Agent(name="test", model=model), "good", session=talk))
        assert texts(last_input(model)) == ["bad", "good"]


@ways
def test_a_guardrail_of_the_output(kind: str, how: str, tmp_path: Path) -> None:
    model = ScriptedModel([[assistant_message("secret")], [assistant_message("fine")]])
    agent = Agent(name="test", model=model, output_guardrails=[OutputGuardrail(trip)])
    with session(kind, tmp_path) as talk:
        with pytest.raises(OutputGuardrailTripwireTriggered):
            now(run(how, agent, "tell", session=talk))
        kept = texts(now(talk.get_items()))
        assert "secret" not in kept
        now(run(how, Agent(name="test", model=model), "again", session=talk))
        assert texts(last_input(model)) == [*kept, "again"]


@both
def test_an_approval_in_between(kind: str, tmp_path: Path) -> None:
    """A run that waits for a person is saved as JSON and continues in another session object with the same id."""

    @function_tool(needs_approval=True)
    def remove(path: str) -> str:
        """Removes a file."""
        return f"removed {path}"

    asked = [function_call("remove", {"path": "x"}, call_id="a")]
    model = ScriptedModel([asked, [assistant_message("Gone.")], [assistant_message("Yes.")]])
    agent = Agent(name="test", model=model, tools=[remove])

    async def first() -> str:
        with session(kind, tmp_path) as talk:
            result = await Runner.run(agent, "Remove x", session=talk)
            assert len(result.interruptions) == 1
            if kind == "foldmark":
                assert talk.agent.open_turn is not None, "a call of the turn waits"
            return result.to_state().to_string()

    async def then(state: str) -> None:
        resumed: Any = await RunState.from_string(agent, state)
        resumed.approve(resumed.get_interruptions()[0])
        with session(kind, tmp_path) as talk:
            result = await Runner.run(agent, resumed, session=talk)
            assert result.final_output == "Gone."
            kinds = [item.get("type", item.get("role")) for item in await talk.get_items()]
            assert kinds == ["user", "function_call", "function_call_output", "message"]
            await Runner.run(agent, "Sure?", session=talk)
            if kind == "foldmark":
                assert turns_of(talk) == [["user", "tool_call", "tool_result", "assistant"], ["user", "assistant"]]

    now(then(now(first())))


@both
def test_an_item_that_cannot_be_added_ends_a_streamed_run(kind: str, tmp_path: Path) -> None:
    """As for the SDK's own sessions, the error is raised and nobody waits forever."""
    model = ScriptedModel([[assistant_message("never")]])

    async def refused(_: Any) -> None:
        raise RuntimeError("simulated failure")

    with session(kind, tmp_path) as talk:
        talk.add_items = refused
        with pytest.raises(RuntimeError, match="simulated failure"):
            now(asyncio.wait_for(run("run_streamed", Agent(name="test", model=model), "hi", session=talk), LIMIT))


@both
def test_the_end_of_a_session_is_taken_back(kind: str, tmp_path: Path) -> None:
    """Before a retry after a locked conversation, the runner removes exactly the items that it added."""
    from agents.run_internal.session_persistence import rewind_session_items

    async def rewind(talk: Any) -> None:
        await talk.add_items([user("before"), said("answer")])
        await talk.add_items([user("one"), user("two")])
        rewinding: Any = rewind_session_items
        await rewinding(talk, [user("one"), user("two")])
        assert await talk.get_items() == [user("before"), said("answer")]
        await rewinding(talk, [user("other"), said("answer")])
        assert await talk.get_items() == [user("before"), said("answer")], "that is not what stands there"

    with session(kind, tmp_path) as talk:
        now(rewind(talk))
