"""The content of a request, with every token counted once in every dialect, and the cost of the answers."""

import pytest

from foldmark.core.request import Usage
from foldmark.cost.filling import FORM, IMAGES, OTHER, RESULT, Portion, merged, portions, shares
from foldmark.cost.spending import Spending, spent
from foldmark.log import Agent
from foldmark.request.usage import usage_data
from sampled import DEEP

THINKING = {"blocks": [{"type": "thinking", "thinking": "hm " * 200, "signature": "c2ln"}]}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO" * 5000}}


def talk(agent: Agent) -> None:
    """Append turns with every kind of content that a request can hold."""
    agent.configure("system", "Be brief. " * 20)
    agent.record("state", "Goal: to fill a request")
    for number in range(6):
        agent.append("user", f"What do the tags in “tags.py” say? {number}\n" * 9)
        for name, size in (("read_file", 900), ("Bash", 2000)):
            agent.append_tool_call(name, {"path": f"{number}.py"}, call_id=f"{name}{number}")
            if number < 5 or name == "Bash":
                agent.append_tool_result(f"{name}{number}", "line\n" * size)
        agent.append("assistant", f"They say \\{number}.")
        agent.end_turn()
    agent.append("user", "And this?", data={"blocks": [PICTURE]})
    agent.append("assistant", "Let me see.", data=THINKING, dialect="anthropic")
    agent.append_tool_call("Bash", {"command": "ls"}, call_id="c")
    agent.append_tool_result("c", "tags.py")


MODELS = (
    *("offline", "anthropic/claude-sonnet-4-5", "openai/gpt-5", "openai_responses/gpt-5", "gemini/gemini-2.5-pro"),
    "gemini_gca/gemini-2.5-pro",
)
COUNTINGS = [(model, counting) for model in MODELS for counting in ("bytes", "tokenizer")]
PAIRS = [*COUNTINGS[::3], ("openai/gpt-5", "tokenizer"), ("gemini_gca/gemini-2.5-pro", "bytes")]
"""Each model with one way of counting, and each way with a model of OpenAI, whose tokenizer it is."""


@pytest.mark.parametrize(("model", "counting"), COUNTINGS if DEEP else PAIRS)
def test_every_token_of_a_request_is_counted_once(agent: Agent, model: str, counting: str) -> None:
    agent.configure("token_counting", counting)
    agent.configure("thinking", "low")
    agent.configure("model", model)
    talk(agent)
    request = agent.request()
    found = portions(request)
    assert sum(each.tokens for each in found) == request.tokens
    assert min(each.tokens for each in found) >= 0
    assert [each.part for each in found if each.part is not None] == list(request.manifest.parts)
    named = {each.name: each.tokens for each in shares(found)}
    assert sum(named.values()) == request.tokens
    assert list(named)[:5] == ["system", "tools", "state", "user", "assistant"]
    results = [each for each in shares(found) if each.kind == RESULT]
    assert [each.name for each in results] == ["Bash", "read_file"]
    assert 1590 < named[IMAGES] < 1610  # an image of unknown size counts as 1,600 tokens
    assert named.get(FORM, 0) < request.tokens / 20
    assert ("thinking" in named) is model.startswith("anthropic")


def test_a_small_bar_names_the_largest_shares() -> None:
    found = [
        Portion("user", "user", 5),
        Portion(RESULT, "Bash", 90),
        Portion(RESULT, "Read", 2),
        Portion(FORM, FORM, 7),
    ]
    assert merged(found, 4) == found
    assert merged(found, 3) == [found[1], found[3], Portion(OTHER, OTHER, 7)]
    assert merged(found, 1) == [Portion(OTHER, OTHER, 104)]


def test_spending_reads_only_new_events(agent: Agent) -> None:
    def answered(provider: str, model: str, usage: Usage) -> None:
        agent.append("user", "And now?")
        agent.record("usage", data=usage_data(provider, model, usage, None))
        agent.end_turn()

    def so_far(before: Spending | None = None) -> Spending:
        with agent.reading() as (moment, _):
            return spent(moment, agent, before)

    assert (so_far().dollars, so_far().cached) == (None, None)
    answered("anthropic", "claude-sonnet-4-5", Usage(1000, 8000, 1000, 500))
    first = so_far()
    assert first.dollars == pytest.approx((1000 + 800 + 1250) * 3e-6 + 500 * 15e-6)
    assert (first.cached, first.unknown) == (80, 0)
    answered("vllm", "mine", Usage(10_000, 0, 0, 5))
    second = so_far(first)
    assert second == so_far()
    assert (second.dollars, second.cached, second.unknown) == (first.dollars, 40, 1)
    assert so_far(second) == second
