"""Compactions in a Pydantic AI history: summaries that replace earlier messages, but only for their own provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import foldmark
from foldmark.core import selections
from stored import stored

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.messages import (
        CompactionPart,
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        TextPart,
    )
    from pydantic_ai_played import Played, run

    from foldmark.integrations.pydantic_ai import FoldmarkHistory


def compacted(provider: str, text: str = "It is seven.") -> ModelResponse:
    opaque = CompactionPart(id="cmp_1", provider_name=provider, provider_details={"encrypted_content": "b3BhcXVl"})
    return ModelResponse([opaque, TextPart(text)], provider_name=provider)


def through_json(messages: list[ModelMessage]) -> list[ModelMessage]:
    return ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))


def parts(messages: list[ModelMessage]) -> list[str]:
    return [part.part_kind for message in messages for part in message.parts]


def words(messages: list[ModelMessage]) -> list[Any]:
    return [getattr(part, "content", None) for message in messages for part in message.parts]


def summaries(history: FoldmarkHistory) -> list[int]:
    log = history.agent.log
    return [event.id for event in selections.operations(stored(log), history.agent.id) if event.kind == "summary"]


@pytest.fixture
def log() -> foldmark.Log:
    return foldmark.open(":memory:")


def test_its_own_provider_gets_the_part_and_nothing_that_it_stands_for(log: foldmark.Log) -> None:
    history = FoldmarkHistory(log)
    played = Played(["first answer", compacted("function"), "third answer"])
    agent = Agent(played.model, capabilities=[history])
    for prompt in ("one", "two", "three"):
        run(agent, prompt)
    assert len(summaries(history)) == 1
    assert parts(played.sent[-1]) == ["compaction", "text", "user-prompt"]
    assert played.sent[-1][0].parts[0] == compacted("function").parts[0]

    history.do(f"/restore {summaries(history)[0]}")
    run(agent, "four")
    assert "compaction" not in parts(played.sent[-1])
    assert words(played.sent[-1])[:3] == ["one", "first answer", "two"]


@pytest.mark.parametrize("fresh", [False, True])
def test_any_other_provider_gets_the_originals(log: foldmark.Log, fresh: bool) -> None:
    history = FoldmarkHistory(log)
    run(
        Agent(
            Played(
                [
                    "first answer",
                ]
            ).model,
            capabilities=[history],
        ),
        "one",
    )
    run(Agent(Played([compacted("openai")]).model, capabilities=[history]), "two")
    assert len(summaries(history)) == 1
    history = FoldmarkHistory(log) if fresh else history
    played = Played()
    run(Agent(played.model, capabilities=[history]), "three")
    assert words(played.sent[-1]) == ["one", "first answer", "two", "It is seven.", "three"]
    assert words(history.messages())[:2] == [None, "It is seven."]
    for own in (("openai_responses", "gpt-5"), ("anthropic", "claude-opus-4-8")):
        body = history.agent.request(*own).bytes.decode()
        assert [body.count(each) for each in ("first answer", "It is seven.", "compaction")] == [1, 1, 0]


def test_a_history_that_comes_back_whole_is_summed_up_once(log: foldmark.Log) -> None:
    history, played = FoldmarkHistory(log), Played([compacted("function"), "more", "and more"])
    agent, given = Agent(played.model, capabilities=[history]), None
    for prompt in ("one", "two", "three"):
        result = run(agent, prompt, message_history=given)
        given = through_json(result.all_messages())
    assert len(summaries(history)) == 1
    assert parts(played.sent[-1]).count("compaction") == 1
    assert words(played.sent[-1])[1:] == ["It is seven.", "two", "more", "three"]


def test_a_summary_that_the_application_wrote_stands_in_front_of_what_it_kept(log: foldmark.Log) -> None:
    history, played = FoldmarkHistory(log), Played()
    agent = Agent(played.model, capabilities=[history])
    for prompt in ("one", "two", "three"):
        given = run(agent, prompt).all_messages()
    kept = given[-2:]
    summed_up = ModelRequest([CompactionPart("They counted.")])
    run(agent, "four", message_history=[summed_up, *kept])
    assert words(played.sent[-1]) == ["They counted.", "three", "answer 3", "four"]
    run(Agent(played.model, capabilities=[FoldmarkHistory(log)]), "five")
    assert words(played.sent[-1]) == ["They counted.", "three", "answer 3", "four", "answer 4", "five"]
    history.do(f"/restore {summaries(history)[0]}")
    assert words(history.messages())[:3] == ["one", "answer 1", "two"]


def test_a_compaction_that_failed_replaces_nothing(log: foldmark.Log) -> None:
    history = FoldmarkHistory(log)
    failed = ModelResponse([CompactionPart(provider_name="anthropic"), TextPart("Well.")])
    run(Agent(Played([failed]).model, capabilities=[history]), "one")
    assert not summaries(history)
    assert words(history.messages()) == ["one", None, "Well."]


def test_the_prompt_of_the_agent_stays(log: foldmark.Log) -> None:
    history, played = FoldmarkHistory(log), Played([compacted("function")])
    agent = Agent(played.model, system_prompt="Be brief.", capabilities=[history])
    for prompt in ("one", "two"):
        run(agent, prompt)
    assert "system-prompt" in parts(played.sent[-1])
    assert "one" not in words(played.sent[-1])
    assert words(history.messages())[-2:] == ["two", "answer 2"]
