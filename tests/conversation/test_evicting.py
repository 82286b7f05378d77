"""Evicting tool results (SPEC 3, 4, 5.7): the placeholder, restoring, forks, offers, the model's tool."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import refused

from foldmark import Agent, CommandError
from foldmark.core import selections
from foldmark.dialects.dialect import dialect_named
from foldmark.editing.answering import answered
from foldmark.log.doctor import examine
from foldmark.operations.effects import Asking
from foldmark.rendering import result_text
from foldmark.request.recorded import newest_requests
from foldmark.sending.rebuilding import rebuilt
from planning_talk import IN_CHAT
from stored import stored

TEXT = "a line of the file\n" * 30
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def used(agent: Agent, path: str = "a.py", text: str = TEXT, name: str = "read_file", **more: Any) -> int:
    """Append a call of a file tool with its result; return the result's id."""
    call_id = f"c{agent.standing().newest}"
    agent.append_tool_call(name, {"path": path}, call_id=call_id)
    return agent.append_tool_result(call_id, text, **more)


def turn(agent: Agent, *paths: str) -> list[int]:
    agent.append("user", "look")
    results = [used(agent, path) for path in paths]
    agent.append("assistant", "seen")
    agent.end_turn()
    return results


def sent(agent: Agent) -> dict[int | None, tuple[str, str]]:
    """Return how each result is sent, and the text sent, by id."""
    parts = agent.request(provider="openai", model="gpt-5").manifest.parts
    return {part.event: (part.how, part.text) for part in parts if part.kind == "tool_result"}


def test_a_placeholder_replaces_an_evicted_result(agent: Agent) -> None:
    one, two = turn(agent, "a.py", "b.py")
    before = [message.content for message in agent.context().messages]
    done = agent.do(f"/context evict {one} -- no longer needed")
    how, text = sent(agent)[one]
    assert how == "evicted"
    assert "\n" not in text
    assert f"WHERE id={one}" in text
    assert f"/restore {done.event_id}" in text
    assert "570 characters" in text
    assert sent(agent)[two][0] != "evicted"
    # The log and the context stay unchanged; the query in the placeholder shows the whole text.
    assert [message.content for message in agent.context().messages] == before
    query = agent.call_tool("query_db", {"sql": f"SELECT content, status FROM messages WHERE id={one}"})
    assert "completed" in query
    assert "a line of the file" in query
    assert done.data["evicted"] == {"results": 1, "tokens": selections.event(stored(agent.log), one).tokens}  # type: ignore[union-attr]
    assert done.data["reason"] == "no longer needed"
    assert f"1 result (~{done.data['evicted']['tokens']} recorded tokens) evicted" in result_text(done)


def test_a_restore_sends_the_result_again_and_can_be_restored(agent: Agent) -> None:
    one, two = turn(agent, "a.py", "b.py")
    before = sent(agent)
    done = agent.do(f"/context evict {one} {two}")
    after = sent(agent)
    back = agent.do(f"/restore {done.event_id}")
    assert sent(agent) == before
    assert back.data["whole_again"] == done.data["evicted"]
    agent.do(f"/restore {back.event_id}")
    assert sent(agent) == after
    assert "eviction of results" in agent.do("/operations").text
    assert list(examine(agent.log)) == []


def test_a_result_evicted_twice_stays_out_until_both_operations_are_restored(agent: Agent) -> None:
    (one,) = turn(agent, "a.py")
    first = agent.do(f"/context evict {one}").event_id
    back = agent.do(f"/restore {first}").event_id
    second = agent.do(f"/context evict {one}").event_id
    agent.do(f"/restore {back}")
    explained = agent.do(f"/context explain {one}")
    assert [each["id"] for each in explained.data["because"]] == [first, second]
    agent.do(f"/restore {second}")
    assert sent(agent)[one][0] == "evicted"
    agent.do(f"/restore {first}")
    assert sent(agent)[one][0] != "evicted"


def test_explain_names_the_eviction_and_the_way_back(agent: Agent) -> None:
    (one,) = turn(agent, "a.py")
    done = agent.do(f"/context evict {one} -- too long")
    explained = agent.do(f"/context explain {one}")
    assert explained.data["in_context"] is True
    assert explained.data["in_request"] is True
    assert explained.data["reason"] == "evicted"
    assert "too long" in explained.text
    assert f"/restore {done.event_id}" in explained.text
    assert f"eviction of result {one}" in agent.do(f"/context explain {done.event_id}").text
    assert f"result {one}: evicted" in agent.do(f"/context diff {one}").text


def test_a_fork_inherits_evictions_that_only_the_parent_can_restore(agent: Agent) -> None:
    one, two = turn(agent, "a.py", "b.py")
    done = agent.do(f"/context evict {one}")
    child = agent.log.agent(agent.do("/fork").data["child"])
    assert sent(child)[one][0] == "evicted"
    assert "/restore" not in sent(child)[one][1]
    assert "before this agent was forked" in child.do(f"/context explain {one}").text
    assert "another agent" in refused(child, f"/restore {done.event_id}")
    assert f"result {one} is already evicted" in refused(child, f"/context evict {one}")
    child.do(f"/context evict {two}")
    agent.do(f"/restore {done.event_id}")
    assert {how for how, _ in sent(agent).values()} == {"whole"}
    assert {how for how, _ in sent(child).values()} == {"evicted"}
    assert list(examine(agent.log)) == []


def test_images_of_an_evicted_result_are_not_sent(agent: Agent) -> None:
    agent.append("user", "look")
    blocks = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]
    one = used(agent, text="a picture", dialect="anthropic", data={"blocks": blocks})
    request = agent.request(provider="anthropic", model="claude-sonnet-4-5")
    assert PNG in request.bytes.decode()
    agent.do(f"/context evict {one}")
    assert PNG not in agent.request(provider="anthropic", model="claude-sonnet-4-5").bytes.decode()


def test_a_placeholder_is_never_cut_and_an_error_stays_one(agent: Agent) -> None:
    agent.append("user", "look")
    one = used(agent, is_error=True)
    agent.do("/config set truncate_recent=3")
    agent.do(f"/context evict {one}")
    body = agent.request(provider="anthropic", model="claude-sonnet-4-5").body
    (block,) = [each for message in body["messages"] for each in message["content"] if each["type"] == "tool_result"]
    assert block["is_error"] is True
    assert f"WHERE id={one}" in str(block["content"])


def test_a_request_is_rebuilt_after_its_eviction_was_taken_back(agent: Agent) -> None:
    (one,) = turn(agent, "a.py")
    done = agent.do(f"/context evict {one}")
    record = agent.record_sent(agent.request()).number
    agent.do(f"/restore {done.event_id}")
    assert rebuilt(agent, record).verdict == "identical"
    agent.do("/message remove 1 --yes")
    assert rebuilt(agent, record).verdict == "erased"


def test_a_clear_leaves_nothing_evicted_and_its_restore_brings_that_back(agent: Agent) -> None:
    (one,) = turn(agent, "a.py")
    agent.do(f"/context evict {one}")
    clear = agent.do("/clear")
    assert "whole_again" not in clear.data
    agent.do(f"/restore {clear.event_id}")
    assert sent(agent)[one][0] == "evicted"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/context evict", "takes the ids of tool results, or --superseded"),
        ("/context evict 3 --superseded", "takes the ids of tool results, or --superseded"),
        ("/context evict x", "ID must be a number, not 'x'"),
        ("/context evict 1", "event 1 is of kind 'user', not a tool result; newest results: 3, 5"),
        ("/context evict 2", "event 2 is a tool call, not a tool result; its result is 3"),
        ("/context evict 999", "there is no event 999 in this conversation; newest results: 3, 5"),
        ("/context evict 5-3", "the range 5-3 is reversed; write 3-5"),
        ("/context evict 6-20", "no tool result from 6 to 20 can be evicted; newest results: 3, 5"),
        ("/context evict 3 99999999999999999999", "there is no event 99999999999999999999"),
    ],
)
def test_invalid_evictions_are_refused(agent: Agent, line: str, told: str) -> None:
    turn(agent, "a.py", "b.py")
    assert told in refused(agent, line)


def test_results_that_have_left_or_were_erased_cannot_be_evicted(agent: Agent) -> None:
    (one,) = turn(agent, "a.py")
    agent.do("/undo")
    assert f"result {one} is not in the context" in refused(agent, f"/context evict {one}")
    agent.do("/message remove 1 --yes")
    assert f"result {one} is not in the context" in refused(agent, f"/context evict {one}")


def test_a_range_evicts_the_results_that_are_longer_than_their_placeholder(agent: Agent) -> None:
    one, two = turn(agent, "a.py", "b.py")
    agent.append("user", "and this")
    short = used(agent, text="ok")
    agent.do(f"/context evict {one}")
    assert agent.do("/context evict 1-100").data["results"] == [two]
    assert sent(agent)[short] == ("whole", "ok")


def test_a_preview_says_what_the_next_request_would_be_and_changes_nothing(agent: Agent) -> None:
    agent.append("user", "look")
    one = used(agent)
    before = agent.standing().newest
    seen = agent.do(f"/context evict {one} --preview")
    assert agent.standing().newest == before
    assert "1 result (~" in seen.text
    assert "would be evicted" in seen.text
    assert seen.data["next"]["tokens"] < seen.data["next"]["without"]
    agent.do(f"/context evict {one}")
    assert agent.request().tokens == seen.data["next"]["tokens"]


def test_the_cached_prefix_ends_before_the_first_result_that_was_evicted(agent: Agent) -> None:
    agent.do("/model anthropic/claude-sonnet-4-5")
    one, two = turn(agent, "a.py", "b.py")
    before = agent.next_request()
    kept = agent.do(f"/context evict {two}").data["cached_prefix"]["kept"]
    shared = dialect_named(before.dialect).shared(before.body, agent.next_request().body)
    assert kept == int(before.tokens * shared)
    assert agent.do(f"/context evict {one}").data["cached_prefix"]["kept"] < kept


# Stale results


def test_stale_results_are_offered_with_their_tokens_and_evicted_on_a_yes(agent: Agent) -> None:
    agent.append("user", "look")
    first, other = used(agent), used(agent, "b.py")
    second = used(agent)
    before = agent.standing().newest
    offered = agent.do("/context evict --superseded")
    assert agent.standing().newest == before
    assert [each["id"] for each in offered.data["superseded"]] == [first]
    tokens = offered.data["superseded"][0]["tokens"]
    assert f"{first} · read_file" in offered.text
    assert f"~{tokens} tokens · read again by call {second - 1}" in offered.text
    assert "repeat with --yes" in offered.text
    asked: list[str] = []

    def no(question: str) -> bool:
        asked.append(question)
        return False

    with pytest.raises(CommandError, match="not confirmed"):
        agent.do("/context evict --superseded", asking=Asking(no))
    assert "Evict 1 stale result" in asked[0]
    was = agent.request().tokens
    done = agent.do("/context evict --superseded --yes")
    assert done.data["results"] == [first]
    assert was - agent.request().tokens == pytest.approx(tokens, abs=10)  # JSON escapes line ends
    assert sent(agent)[other][0] == sent(agent)[second][0] == "whole"
    assert "is stale" in agent.do("/context evict --superseded").text


def test_a_write_makes_earlier_reads_stale(agent: Agent) -> None:
    agent.append("user", "look")
    first = used(agent)
    used(agent, name="edit_file", text="edited")
    preview = agent.do("/context evict --superseded --preview")
    assert [each["how"] for each in preview.data["superseded"]] == ["write"]
    assert agent.do("/context evict --superseded --yes").data["results"] == [first]


# The model's tool


def test_a_model_lists_and_evicts_results(agent: Agent) -> None:
    agent.append("user", "look")
    one, two = used(agent), used(agent, "b.py", TEXT * 2)
    listed = agent.call_tool("evict", {})
    assert listed.index(f"\n{two} · read_file") < listed.index(f"\n{one} · read_file")
    told: list[Any] = []
    text = agent.call_tool("evict", {"ids": [one], "reason": "read"}, asking=Asking(operated=told.append))
    assert f"Result {one} evicted" in text
    assert (told[0].data["actor"], told[0].data["reason"]) == ("model", "read")
    assert sent(agent)[one][0] == "evicted"
    with pytest.raises(CommandError, match="already evicted"):
        agent.call_tool("evict", {"ids": [one]})
    used(agent, "c.py", "wrong " * 99, "edit_file", is_error=True)
    call = used(agent, "c.py", "edited", "edit_file") - 1
    assert f"succeeded in call {call}" in agent.call_tool("evict", {})


def test_a_model_without_commands_cannot_evict(agent: Agent) -> None:
    assert "evict" in [tool.name for tool in agent.tools()]
    agent.do("/config set model_commands=none")
    assert "evict" not in [tool.name for tool in agent.tools()]


# As a policy


def evicted(agent: Agent) -> set[int | None]:
    return {event for event, (how, _) in sent(agent).items() if how == "evicted"}


@pytest.fixture
def stale(agent: Agent) -> Agent:
    """An agent whose stale results are evicted automatically and whose requests are each built afresh."""
    agent.configure("evict_superseded", True)
    agent.configure("context_policy", "eager")
    return agent


def test_the_setting_evicts_stale_results_automatically(agent: Agent) -> None:
    one, _, three = turn(agent, "a.py", "b.py", "a.py")
    assert evicted(agent) == set()
    agent.do("/config set evict_superseded=on")
    assert evicted(agent) == {one}
    text = sent(agent)[one][1]
    assert text == (
        f'[Evicted: 570 characters. query_db(sql="SELECT content FROM messages WHERE id={one}") shows them; '
        "a later call read this file again.]"
    )
    query = agent.call_tool("query_db", {"sql": f"SELECT content FROM messages WHERE id={one}"})
    assert "a line of the file" in query
    said = agent.do(f"/context explain {one}").text
    call = three - 1
    assert f"sent evicted (570 characters, since call {call} read a.py again" in said
    assert "/config set evict_superseded=off sends it again" in said
    assert agent.do("/context evict --superseded").text.startswith("No tool result of the next request is stale")
    before = agent.standing().newest
    agent.request()
    assert agent.standing().newest == before  # it is not an operation: nothing is written
    assert [row["words"] for row in agent.do("/operations").data["operations"]] == ["evict_superseded = on"]
    agent.do("/config set evict_superseded=off")
    assert evicted(agent) == set()


def test_under_eager_a_result_is_evicted_once_it_is_stale(stale: Agent) -> None:
    stale.append("user", "look")
    one = used(stale)
    assert evicted(stale) == set()
    stale.append_tool_call("edit_file", {"path": "a.py"}, call_id="w")
    assert evicted(stale) == set()  # not before the write is done
    stale.append_tool_result("w", "edited")
    assert evicted(stale) == {one}
    assert sent(stale)[one][1].endswith("; a later call wrote this file.]")


def test_under_steady_a_stale_result_is_evicted_at_the_next_boundary(stale: Agent) -> None:
    stale.configure("context_policy", "steady")
    found = []
    for _ in range(2):
        stale.append("user", "look")
        stale.request(provider="openai", model="gpt-5")
        found.append(used(stale, "a.py"))
        stale.append("assistant", "seen")
        stale.end_turn()
    one, two = found
    assert evicted(stale) == set()
    pinned = stale.do(f"/pin {stale.context().messages[0].id}")
    assert evicted(stale) == {one}
    stale.append("user", "look")
    stale.request(provider="openai", model="gpt-5")
    used(stale, "a.py")
    assert evicted(stale) == {one}
    stale.do(f"/restore {pinned.event_id}")
    assert evicted(stale) == {one, two}


def test_a_turn_that_would_pass_the_budget_loses_stale_results_in_the_step(stale: Agent) -> None:
    for key, value in (("context_policy", "steady"), ("sliding_context_tokens", 9000), ("tools", "none")):
        stale.configure(key, value)
    stale.append("user", "look")
    results = list[int]()
    while not (out := evicted(stale)):
        assert len(results) < 40
        results.append(used(stale, text=TEXT * 8))
    assert out == set(results[:-1])
    assert sent(stale)[results[-1]][0] == "whole"
    stale.record_sent(stale.request())
    assert rebuilt(stale, newest_requests(stored(stale.log), stale.id, 1)[0].number).verdict == "identical"


def test_the_policy_evicts_nothing_for_a_failed_call_or_a_short_result(stale: Agent) -> None:
    stale.append("user", "look")
    used(stale, text="short")
    used(stale, "b.py")
    used(stale, text="short, too")
    used(stale, "b.py", name="edit_file", is_error=True)
    assert evicted(stale) == set()


def test_a_suggestion_and_the_answers_to_it(agent: Agent) -> None:
    one, two, three = turn(agent, "a.py", "b.py", "a.py")
    newer = used(agent, "b.py")
    agent.end_turn()
    offered = agent.do("/suggest")
    assert [each["result"] for each in offered.data["suggested"]] == [one, two]
    assert [each["why"] for each in offered.data["suggested"]] == ["stale", "stale"]
    before = agent.standing().newest
    assert answered(agent, "Look at c.py") is None
    again = answered(agent, "yes, but why?")
    assert again is not None
    assert again.text.startswith("Not needed any more: 2 results")
    with pytest.raises(CommandError, match="there is no range 3"):
        answered(agent, "yes 3")
    assert agent.standing().newest == before
    in_doubt = answered(agent, "perhaps")
    assert in_doubt is not None
    assert "yes or no?" in in_doubt.text
    assert answered(agent, "perhaps") is None  # it asks once
    done = answered(agent, "ok, 2")
    assert done is not None
    assert done.data["results"] == [two]
    assert answered(agent, "yes") is None  # the offer is over
    assert agent.do("/suggest --yes").data["results"] == [one]
    assert {id for id, (how, _) in sent(agent).items() if how == "evicted"} == {one, two}
    assert {three, newer} <= sent(agent).keys()
    assert agent.do("/suggest").data == {"offer": None, "suggested": []}


def test_no_suggestion_while_planning(agent: Agent) -> None:
    turn(agent, "a.py", "a.py")
    agent.do("/forget a.py", asking=IN_CHAT)
    assert "a planning conversation is open" in refused(agent, "/suggest")
