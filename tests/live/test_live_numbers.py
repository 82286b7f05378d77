"""All numbers of a live session are those of its agent's own requests (SPEC 5.7)."""

import json
import re

import pytest
from claude_client import ClaudeRunning
from plan import Reply, Say

from foldmark.core.request import Usage


@pytest.fixture
def costly(running: ClaudeRunning) -> ClaudeRunning:
    """A session whose provider counts many more tokens than the log estimates."""
    for text in ("one", "READ two", "three"):
        running.client.say(text)
    running.model.fails.append(Reply((Say(("Yes.",)),), usage=Usage(24_000, 100, 0, 20)))
    running.client.say("four")
    running.settle()
    return running


def tokens(text: str, pattern: str) -> int:
    found = re.search(pattern, text)
    assert found is not None, text
    return int(found[1].replace(",", ""))


def test_a_difference_has_the_sizes_of_the_agents_request(costly: ClaudeRunning) -> None:
    say = costly.client.say
    turn = costly.turn("READ two")
    of_turn = tokens(say(":turns"), rf" {turn}  ~ *([\d,]+) tokens")
    mark = tokens(say(":mark HERE"), r"event (\d+)")
    whole = tokens(say(":context"), r"session: ~([\d,]+)")
    say(f":drop {turn}")
    shown, left = say(f":diff {mark}"), tokens(say(":context"), r"session: ~([\d,]+)")
    assert tokens(shown, r"messages \(~([\d,]+) tokens\) →") == whole
    assert tokens(shown, r"→ \d+ messages \(~([\d,]+)") == left
    assert tokens(shown, rf"− turn {turn}: 9 messages, ~([\d,]+)") == of_turn
    assert tokens(say(f":at {mark}"), rf"Turn {turn} · ~(\d+)") == of_turn


def test_a_receipt_does_not_count_the_preview_that_no_agent_sends(costly: ClaudeRunning) -> None:
    say = costly.client.say
    message = next(each for each in costly.agent.context().messages if each.content == "four")
    own = tokens(say(":context show"), rf" {message.id}  user +~ *([\d,]+)")
    whole = tokens(say(":context"), r"session: ~([\d,]+)")
    costly.model.found = [message.id]
    preview = say(":forget four")
    assert tokens(preview, r"Forget 1 message \(~([\d,]+)") == own
    assert tokens(preview, rf"Message {message.id}: four \(1 message, ~([\d,]+)") == own
    assert tokens(preview, r"\(~([\d,]+) tokens\) before") == whole
    assert tokens(preview, r"\(~([\d,]+) tokens\) after") == whole - own
    assert tokens(say(":yes"), r"1 message \(~([\d,]+) tokens\) left") == own


def test_a_placeholder_names_no_tool_that_the_agent_does_not_have(costly: ClaudeRunning) -> None:
    result = next(each for each in costly.agent.context().messages if each.kind == "tool_result")
    costly.client.say(f":evict {result.id}")
    costly.client.say("five")
    body = json.dumps(costly.upstream.asked[-1].body)
    text = "[Evicted: 1,006 characters. Only the user can bring them back.]"
    assert text in body
    assert "query_db" not in body
    shown = costly.agent.do("/context show").text
    assert text in shown
    assert "query_db" not in shown
