"""`:suggest`: results that later calls superseded, as an offer (SPEC 5.7)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from claude_client import ClaudeRunning
from codex_client import CodexRunning
from gemini_client import GeminiRunning
from plan import Reply, Use

from foldmark.core.errors import CommandError
from foldmark.editing.suggesting import superfluous

TODOS = {"todos": [{"content": "Look at everything again " * 20, "status": "pending"}]}


def calls(running: Any, *uses: tuple[str, dict[str, Any]]) -> None:
    """Let the model make these calls, one in each turn."""
    for number, (name, arguments) in enumerate(uses):
        id = f"call_{running.model.asked}x{number}"
        signature = "c2lnbmVk" if isinstance(running, GeminiRunning) else None
        running.model.fails.append(Reply((Use(id, name, arguments, signature),), stop="calls"))
        running.client.say(f"do {name} {number}")


def results(running: Any) -> list[int]:
    return [event.id for event in running.agent.context().messages if event.kind == "tool_result"]


def sent(running: Any) -> list[str]:
    return [text for kind, text in running.texts() if kind == "result"]


def test_a_suggestion_is_accepted_as_an_offer_is(running: ClaudeRunning) -> None:
    client = running.client
    calls(running, ("Read", {"file_path": "a"}), ("Read", {"file_path": "b"}), ("Edit", {"file_path": "a"}))
    calls(running, ("Read", {"file_path": "b"}), ("Bash", {"command": "ls"}), ("Bash", {"command": "ls"}))
    asked, ids = len(running.upstream.asked), results(running)
    shown = client.say(":suggest")
    numbers = {int(found[2]): int(found[1]) for found in re.finditer(r"^  (\d)\. (\d+) ·", shown, re.MULTILINE)}
    assert numbers.keys() == {ids[0], ids[1], ids[4]}
    assert f"{ids[0]} · Read a · ~" in shown
    assert re.search(r"stale: written by call \d+\n", shown)
    assert re.search(r"stale: read again by call \d+\n", shown)
    assert re.search(r"repeated: the same as the result of call \d+\n", shown)
    assert "a request" in shown
    assert "/agree" not in shown
    assert "yes or no?\nAnswer :yes, :no, :all but 2, :only 1." in client.say(":yes maybe")
    assert "there is no range 7" in client.say(":yes 7")
    done = client.say(f":yes {numbers[ids[0]]},{numbers[ids[4]]}")
    assert f"Results {ids[0]}, {ids[4]} evicted" in done
    assert len(running.upstream.asked) == asked
    client.say("on")
    assert [text.startswith("[Evicted") for text in sent(running)] == [True, False, False, False, True, False]
    assert "there is no open preview" in client.say(":yes")
    (operation,) = [event for event in running.agent.events(0, 1000) if event.kind == "evict"]
    assert operation.reason == "suggested: stale, repeated"
    assert f"{ids[1]} · Read b" in client.say(":suggest")
    assert "taken out" in client.say(":no")
    assert "Operation" in client.say(f":restore {operation.id}")
    client.say("on")
    assert not any(text.startswith("[Evicted") for text in sent(running))


def test_a_todo_list_leaves_with_its_call(running: ClaudeRunning) -> None:
    client = running.client
    calls(running, ("TodoWrite", TODOS), ("TodoWrite", {"todos": []}), ("Read", {"file_path": "a"}))
    calls(running, ("Read", {"file_path": "a"}))
    shown = client.say(":suggest")
    assert "todos: a newer list is in call" in shown
    done = client.say(":yes")
    assert "Todo list" in done
    assert "evicted" in done
    client.say("on")
    assert len([kind for kind, _ in running.texts() if kind == "call"]) == 3
    assert [text.startswith("[Evicted") for text in sent(running)] == [False, True, False]
    for operation in [event for event in running.agent.events(0, 1000) if event.kind in ("evict", "filter")]:
        client.say(f":restore {operation.id}")
    client.say("on")
    assert len([kind for kind, _ in running.texts() if kind == "call"]) == 4


def test_a_prompt_or_another_operation_ends_a_suggestion(running: ClaudeRunning) -> None:
    client = running.client
    calls(running, ("Read", {"file_path": "a"}), ("Read", {"file_path": "a"}))
    client.say(":suggest")
    client.say("on")
    assert "there is no open preview" in client.say(":yes")
    client.say(":suggest")
    client.say(":drop " + str(running.turn("on")))
    assert "there is no open preview" in client.say(":yes")


def test_the_results_of_the_open_turn_are_not_suggested(running: ClaudeRunning) -> None:
    calls(running, ("Read", {"file_path": "a"}))
    agent = running.agent
    agent.context()
    agent.append("user", "go on")
    for number in "12":
        agent.append_tool_call("Read", {"file_path": "a"}, call_id=number)
        agent.append_tool_result(number, "text " * 200)
    assert [each.sent.result.id for each in superfluous(agent)] == results(running)[:1]
    agent.end_turn()
    assert len(superfluous(agent)) == 2


def test_codex(codex: CodexRunning) -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n"
    calls(codex, ("shell", {"command": ["cat", "a.py"]}), ("shell", {"command": ["apply_patch", patch]}))
    assert "written by call" in codex.client.say(":suggest")
    codex.client.say(":yes")
    codex.client.say("on")
    assert [text.startswith("[Evicted") for text in sent(codex)] == [True, False]


def test_gemini(gemini: GeminiRunning) -> None:
    calls(gemini, ("read_file", {"file_path": "a.py"}), ("replace", {"file_path": "a.py"}))
    assert "written by call" in gemini.client.say(":suggest")
    gemini.client.say(":yes 1")
    gemini.client.say("on")
    assert [text.startswith("[Evicted") for text in sent(gemini)] == [True, False]


def test_in_a_shell(running: ClaudeRunning) -> None:
    calls(running, ("Read", {"file_path": "a"}), ("Read", {"file_path": "a"}))
    agent = running.agent
    agent.context()
    offered = agent.do("/suggest")
    assert f"`/agree {offered.data['offer']}` carries it out." in offered.text
    (row,) = offered.data["suggested"]
    assert (row["number"], row["result"], row["why"]) == (1, results(running)[0], "stale")
    assert row["tokens"] == offered.data["tokens"] > 0
    assert row["dollars"] > 0
    with pytest.raises(CommandError, match="names no numbers"):
        agent.do(f"/agree {offered.data['offer']} perhaps")
    assert agent.do(f"/agree {offered.data['offer']} only 1").data["evicted"]["results"] == 1
    with pytest.raises(CommandError, match="`/suggest` makes a new one"):
        agent.do(f"/agree {offered.data['offer']}")
    assert "Nothing to suggest" in agent.do("/suggest").text
