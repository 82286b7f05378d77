"""Messages that a client sends in another form than before are the same messages (SPEC 5.7)."""

import copy
import json
from typing import Any

import pytest
from claude_client import BOUND, REMINDER, ClaudeRunning
from codex_client import INJECTED
from plan import Fail, Reply, Say, Use
from running import Running
from wire_anthropic import SYSTEM_MESSAGES

from foldmark.request.client_requests import NextRequest


def spoken(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def played(request: pytest.FixtureRequest, name: str) -> tuple[Any, list[Any], str]:
    """Return a running client, its messages, and the member that holds the blocks of a message."""
    running = request.getfixturevalue(name)
    client = running.client
    return running, client.contents if name == "gemini" else client.messages, "parts" if name == "gemini" else "content"


def ask(running: Any, messages: list[Any]) -> Any:
    """Let the client ask, answer all calls, and keep the answer."""
    client = running.client
    if hasattr(client, "go_on"):
        return client.go_on()
    answer = client.ask(messages)
    repeats = isinstance(answer, dict)
    messages.append(client.repeat(answer) if repeats else {"role": "assistant", "content": answer})
    return answer


def fail(running: Any, messages: list[Any]) -> None:
    running.model.fails.append(Fail("busy"))
    with pytest.raises(AssertionError):
        ask(running, messages)


def system_operations(running: Running[Any, Any]) -> list[str]:
    kinds = ("filter", "drop", "restore", "clear")
    return [each.kind for each in running.agent.events(0, 1000) if each.kind in kinds and each.actor == "system"]


def prompted(name: str, text: str) -> dict[str, Any]:
    return {"role": "user", "parts" if name == "gemini" else "content": [block(name, text)]}


def block(name: str, text: str) -> dict[str, Any]:
    return {"text": text} if name == "gemini" else spoken(text)


MERGING = ("running", "gemini", "completions")


@pytest.mark.parametrize(("name", "seam"), [*((name, "") for name in MERGING), ("running", "\n")])
def test_a_prompt_in_one_message_with_an_unanswered_one_is_another_prompt(
    request: pytest.FixtureRequest, name: str, seam: str
) -> None:
    """Claude Code puts a line feed between them."""
    running, messages, member = played(request, name)
    client = running.client
    client.say("one")
    messages.append(prompted(name, "two"))
    fail(running, messages)
    messages[-1][member] = [block(name, f"two{seam}"), block(name, "three")]
    ask(running, messages)
    assert running.upstream.asked[-1].body[running.member][-1][member][0] == block(name, f"two{seam}")
    client.say("four")
    users = [each.content for each in running.agent.context().messages if each.kind == "user"]
    assert users == ["one", "two", "three", "four"]
    assert system_operations(running) == []
    running.agent.do(f"/context drop {running.turn('two')}")
    client.say("five")
    assert running.users()[-4:] == ["one", "three", "four", "five"]
    running.end()
    running.begin(running.gateway.port, running.gateway.secret)
    client.say("six")
    assert running.users()[-4:] == ["three", "four", "five", "six"]
    assert len(system_operations(running)) == 0


@pytest.mark.parametrize("name", MERGING)
def test_a_command_in_one_message_with_an_unanswered_prompt_is_carried_out(
    request: pytest.FixtureRequest, name: str
) -> None:
    running, messages, member = played(request, name)
    running.client.say("one")
    messages.append(prompted(name, "two"))
    fail(running, messages)
    messages[-1][member].append(block(name, f":drop {running.turn('one')}"))
    asked = len(running.upstream.asked)
    assert "left the context" in json.dumps(ask(running, messages))
    assert len(running.upstream.asked) == asked
    running.client.say("three")
    assert running.users()[-2:] == ["two", "three"]
    assert system_operations(running) == []


@pytest.mark.parametrize("name", ["running", "gemini"])
@pytest.mark.parametrize("before", [True, False])
def test_a_dropped_result_in_one_message_with_a_prompt_stays_away(
    request: pytest.FixtureRequest, name: str, before: bool
) -> None:
    running, messages, member = played(request, name)
    client = running.client
    client.say("one")
    tool = "read_file" if name == "gemini" else "Read"
    running.model.fails = [
        Fail("busy"),
        Reply((Say(("Let me see.",)), Use("toolu_x", tool, {}, "c2lnbmVk")), stop="calls"),
    ]
    with pytest.raises(AssertionError):
        client.say("two")
    if before:
        running.agent.do(f"/context drop {running.turn('two')}")
    messages[-1][member].append(block(name, "three"))
    ask(running, messages)
    if not before:
        running.agent.do(f"/context drop {running.turn('two')}")
    client.say("four")
    assert running.users()[-3:] == ["one", "three", "four"]
    assert "toolu_x" not in json.dumps(running.upstream.asked[-1].body)
    assert "data data" not in json.dumps(running.upstream.asked[-1].body)  # the result
    assert system_operations(running) == []


def test_an_escaped_command_in_one_message_with_an_unanswered_prompt(running: ClaudeRunning) -> None:
    messages = running.client.messages
    running.client.say("one")
    messages.append(prompted("running", "two"))
    fail(running, messages)
    messages[-1]["content"].append(spoken("::drop 1"))
    ask(running, messages)
    assert running.users()[-2:] == ["two", ":drop 1"]
    assert [each["role"] for each in running.upstream.asked[-1].body["messages"]][-2:] == ["assistant", "user"]


def without_thinking(running: Any, name: str) -> None:
    """Let the client leave out all thinking, as clients do when the model changes."""
    client = running.client
    if name == "codex":
        # The API knows by the ids which items belong to reasoning.
        made = [each for each in client.items[len(INJECTED) :] if each["type"] != "reasoning"]
        client.items[len(INJECTED) :] = [{name: each[name] for name in each if name != "id"} for each in made]
        return
    for each in client.messages:
        if each["role"] == "assistant":
            each["content"] = [block for block in each["content"] if block["type"] != "thinking"]


@pytest.mark.parametrize("name", ["running", "codex"])
def test_an_answer_without_its_thinking_is_the_same_answer(request: pytest.FixtureRequest, name: str) -> None:
    running = request.getfixturevalue(name)
    client = running.client
    for text in ("one", "READ two", "three"):
        client.say(text)
    running.agent.do(f"/context drop {running.turn('three')}")
    (result, *_) = [each.id for each in running.agent.context().messages if each.kind == "tool_result"]
    running.agent.do(f"/context evict {result}")
    own = client.items if name == "codex" else client.messages
    whole, said = copy.deepcopy(own), len(running.agent.context().messages)
    running.end()  # the client goes on with an earlier session
    running.begin(running.gateway.port, running.gateway.secret)
    client.url = running.gateway.url
    client.model = "gpt-5.2" if name == "codex" else BOUND
    without_thinking(running, name)
    left = len(own)
    assert "answered without Foldmark" not in client.say("four")
    assert running.users()[-2:] == ["READ two", "four"]
    assert "Evicted" in json.dumps(running.upstream.asked[-1].body)
    assert len(running.agent.context().messages) == said + 3  # a prompt, an answer and its thinking
    running.agent.do(f"/context drop {running.turn('one')}")
    client.say("five")
    assert running.users()[-3:] == ["READ two", "four", "five"]
    with running.agent.reading() as (moment, at):
        following = NextRequest.of(moment, at)
    assert following is not None
    assert sum(following.thinking()) == 2  # what the client has left out is neither sent nor lost
    own[:left] = whole  # the model before again
    client.say("six")
    assert running.users()[-4:] == ["READ two", "four", "five", "six"]
    assert system_operations(running) == []


SKILLS = "<system-reminder>\nThese skills are available.\n</system-reminder>"


@pytest.mark.parametrize("back", [False, True], ids=["to a system message", "and back"])
@pytest.mark.parametrize("restarted", [False, True])
def test_the_clients_own_texts_move_when_the_model_changes(running: ClaudeRunning, back: bool, restarted: bool) -> None:
    """Claude Code 2.1 puts its reminders into the first message, or into a system message behind it."""
    client = running.client
    client.messages.append({"role": "user", "content": [REMINDER, spoken(SKILLS), spoken("one")]})
    ask(running, client.messages)
    client.say("two")
    first = client.messages[0]
    if restarted:
        running.end()
        running.begin(running.gateway.port, running.gateway.secret)
    client.messages[0] = {**first, "content": [first["content"][0], first["content"][2]]}
    client.headers["anthropic-beta"] = SYSTEM_MESSAGES
    client.messages.insert(1, {"role": "system", "content": [spoken(SKILLS)]})
    client.say("three")
    if back:
        client.messages[:2] = [first]
        client.say("four")
    said = ["one", "two", "three", *(["four"] if back else [])]
    assert [each.content for each in running.agent.context().messages if each.kind == "user"] == said
    assert system_operations(running) == []
    before = running.users()
    dropped = running.agent.do(f"/context drop {running.turn('one')}").event_id
    client.say("five")
    assert "one" not in running.users()
    running.agent.do(f"/restore {dropped}")
    client.say("six")
    assert running.users()[: len(before)] == before
    assert system_operations(running) == []


@pytest.mark.parametrize("back", [False, True], ids=["into the results", "and back"])
@pytest.mark.parametrize("restarted", [False, True])
def test_what_hooks_say_about_results_moves_into_them(running: ClaudeRunning, back: bool, restarted: bool) -> None:
    """Claude Code 2.1.197 and 2.1.332 do so with the results of parallel calls, and edits hold."""
    client = running.client
    client.say("one")
    client.messages.append({"role": "user", "content": [spoken("READ two")]})
    client.messages.append({"role": "assistant", "content": client.ask(client.messages)})
    hook = "<system-reminder>\nPostToolUse:Read hook additional context: It was read.\n</system-reminder>"
    calls = [block["id"] for block in client.messages[-1]["content"] if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call, "content": f"{call} " * 200} for call in calls]
    behind = {"role": "user", "content": [*results, spoken(f"{hook}\n"), spoken(hook)]}
    inside = {"role": "user", "content": [{**each, "content": f"{each['content']}\n\n{hook}"} for each in results]}
    client.messages.append(behind)
    place = len(client.messages) - 1
    ask(running, client.messages)
    first = next(each.id for each in running.agent.context().messages if each.kind == "tool_result")
    client.say(f":evict {first}")
    if restarted:
        running.end()
        running.begin(running.gateway.port, running.gateway.secret)
    for now in (inside, behind) if back else (inside,):
        client.messages[place] = now
        client.say("three")
        said = [text for kind, text in running.texts() if kind == "result"]
        assert said[0].startswith("[Evicted: ")
        assert said[1].startswith(f"{calls[1]} ")
    assert [each.kind for each in running.agent.events(0, 1000)].count("tool_result") == 2
    client.say(f":drop {running.turn('READ two')}")
    client.say("four")
    assert "toolu_" not in json.dumps(running.upstream.asked[-1].body["messages"])
    assert system_operations(running) == []


def test_what_a_compaction_keeps_stands_behind_its_summary(running: ClaudeRunning) -> None:
    """Claude Code 2.1.332 keeps its newest answer, and more where a person compacts a part. What a person has taken out
    stays out."""
    client = running.client
    for text in ("one", "READ two", "three"):
        client.say(text)
    result = next(event.id for event in running.agent.context().messages if event.kind == "tool_result")
    running.agent.do(f"/context evict {result}")
    dropped = running.turn("three")
    running.agent.do(f"/context drop {dropped}")
    summary = "This session is being continued from a previous conversation that ran out of context."
    client.messages[:2] = [{"role": "user", "content": summary}]
    client.say("four")
    users = [each.content for each in running.agent.context().messages if each.kind == "user"]
    assert users == [summary, "READ two", "four"]
    assert [text for kind, text in running.texts() if kind == "user"] == users
    assert "three" not in json.dumps(running.upstream.asked[-1].body["messages"])
    assert [text[:9] for kind, text in running.texts() if kind == "result"] == ["[Evicted:", "Read: dat"]
    client.say("five")
    running.end()
    running.begin(running.gateway.port, running.gateway.secret)
    client.say("six")
    assert [text for kind, text in running.texts() if kind == "user"] == [*users, "five", "six"]
    assert len(system_operations(running)) == 1
    kinds = [each.kind for each in running.agent.context().messages]
    assert kinds.count("tool_call") == kinds.count("tool_result") == 2
    assert kinds.index("tool_call") < kinds.index("tool_result")
