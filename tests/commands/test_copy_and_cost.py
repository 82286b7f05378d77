"""`/copy` finds a text, and `/cost` shows what the meter shows (SPEC 4)."""

import pytest

from foldmark import Agent, CommandError, Log
from foldmark.chat.display.meter import meter
from foldmark.core.request import Usage
from foldmark.operations.effects import CopyText
from foldmark.request.usage import usage_data
from foldmark.text.code_blocks import code_blocks

ANSWER = "Two ways:\n\n```python\nprint(1)\n\nprint(2)\n```\n\nor\n\n~~~\n```\n~~~\n"


@pytest.fixture
def agent(log: Log) -> Agent:
    agent = log.agent("talk")
    agent.append("user", "How do I print?")
    agent.append("assistant", ANSWER)
    agent.end_turn()
    return agent


def refused(agent: Agent, line: str) -> str:
    with pytest.raises(CommandError) as caught:
        agent.do(line)
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "text", "what"),
    [
        ("/copy", ANSWER, "message 2"),
        ("/copy 1", "How do I print?", "message 1"),
        ("/copy --code 1", "print(1)\n\nprint(2)", "code block 1 of message 2"),
        ("/copy 2 --code=2", "```", "code block 2 of message 2"),
    ],
)
def test_the_text_is_also_the_result(agent: Agent, line: str, text: str, what: str) -> None:
    result = agent.do(line)
    assert (result.text, result.effect) == (text, CopyText(text, what))


def test_the_newest_answer_in_the_context_is_copied(agent: Agent) -> None:
    agent.append("user", "And in colour?")
    agent.append_tool_call("bash", {"command": "ls"}, call_id="1")
    agent.append_tool_result("1", "a.py")
    agent.end_turn()
    assert agent.do("/copy").text == ANSWER
    agent.do("/context drop 1")
    assert refused(agent, "/copy").startswith("there is no answer in the context; /copy ID copies any message")
    assert agent.do("/copy 2").text == ANSWER


def test_what_cannot_be_copied_is_named(agent: Agent) -> None:
    mark = agent.do("/mark HERE").event_id
    other = agent.log.agent("other").append("user", "elsewhere")
    assert refused(agent, "/copy --code 3") == "message 2 has 2 code blocks, and no code block 3"
    assert refused(agent, "/copy 1 --code 0") == "message 1 has 0 code blocks, and no code block 0"
    assert refused(agent, "/copy 999").startswith("there is no event 999; `/message list` shows turns")
    for event in (mark, other):
        assert refused(agent, f"/copy {event}").startswith(f"event {event} is no message of this conversation")


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("", []),
        ("no code, `only` words", []),
        ("```\na\n```", ["a"]),
        ("````md\n```\nb\n```\n````\n```sh\nc", ["```\nb\n```", "c"]),
        ("~~~ x\n~~~", [""]),
    ],
)
def test_code_blocks(text: str, blocks: list[str]) -> None:
    assert code_blocks(text) == blocks


def answered(agent: Agent, model: str, usage: Usage) -> None:
    provider, _, name = model.partition("/")
    agent.append("user", "And now?")
    agent.record("usage", data=usage_data(provider, name, usage, None))
    agent.append("assistant", "Now.")
    agent.end_turn()


def test_the_cost_is_that_of_the_meter_and_of_the_next_request(agent: Agent) -> None:
    assert agent.do("/cost").text.startswith("So far: no request was answered yet.\n")
    agent.do("/model anthropic/claude-sonnet-4-5")
    answered(agent, "anthropic/claude-sonnet-4-5", Usage(100_000, 800_000, 100_000, 50_000))
    answered(agent, "vllm/mine", Usage(10_000, 0, 0, 5))
    shown = meter(agent)
    assert shown.cost == "cache 79% · $1.67+"
    first, last = agent.do("/cost").text.splitlines()
    assert first == (
        "So far: $1.67+ · 1,010,000 input tokens · 79% of it from the cache · "
        "without 1 request whose price is not known."
    )
    dollars = shown.tokens * 3e-6
    assert last == (
        f"The next request: ~{shown.tokens:,} tokens, ${dollars:,.4f} for its input at the full price, "
        f"${dollars / 10:,.4f} if all of it comes from the cache."
    )
    assert agent.do("/cost").data["next"]["tokens"] == shown.tokens


def test_the_cost_of_other_agents_is_named_apart(agent: Agent) -> None:
    child = agent.log.agent(agent.do("/fork").data["child"])
    answered(child, "anthropic/claude-sonnet-4-5", Usage(1_000_000, 0, 0, 0))
    first, second, _ = agent.do("/cost").text.splitlines()
    assert first == "So far: no request was answered yet."
    assert second == "The other agents of this conversation: $3.00 · 1,000,000 input tokens."


def test_a_model_without_a_known_price(agent: Agent) -> None:
    agent.log.given = agent.log.given
    agent.do("/model ollama/mine")
    assert agent.do("/cost").text.endswith(" tokens, the price of its model is not known.")
