"""Commands and prompts that a person types while the agent works (SPEC 5.7), in every form in which clients send them:
`queued_forms.json` has the messages that the real ones sent. The real clients: test_interactive.py."""

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import httpx2 as httpx
import pytest
from claude_client import ClaudeRunning
from codex_client import CodexRunning, spoken
from plan import Answer, Fail, Reply, Say, Stalled, Think, Use
from running import Running
from wire_anthropic import SYSTEM_MESSAGES

from answering import answered_by
from foldmark.live.status import statuses
from foldmark.operations.decide import exactly
from patience import LIMIT

FORMS = json.loads((Path(__file__).parent / "queued_forms.json").read_text())
IN_A_TURN = ["system message", "result of 2.1.197", "result of 2.1.332", "blocks behind a result"]
IN_A_MESSAGE = ["blocks of one message", "interrupted answer", "interrupted tool"]
WRAPPER = "new message while you were working"

FIRST, COMMAND, LAST = "queued alpha", ":context", "queued beta"
"""The prompts in the forms."""


def form(name: str, **instead: str) -> list[dict[str, Any]]:
    """Return the messages of a form, with other prompts for `first`, `command` and `last`."""
    text = json.dumps(FORMS[name]["messages"])
    for own, prompt in ((FIRST, "first"), (COMMAND, "command"), (LAST, "last")):
        text = text.replace(own, instead.get(prompt, own))
    return list(json.loads(text))


def sent(running: Running[Any, Any]) -> str:
    """Return the messages of all requests that the provider has got."""
    return json.dumps([each.body[running.member] for each in running.upstream.requests])


def newest(running: Running[Any, Any]) -> str:
    return json.dumps(running.upstream.requests[-1].body[running.member])


def queue(running: ClaudeRunning, name: str, **instead: str) -> None:
    """Let the model work, and type prompts meanwhile."""
    client = running.client
    client.headers["anthropic-beta"] = SYSTEM_MESSAGES
    messages = form(name, **instead)
    if "toolu_2" in json.dumps(messages):
        client.messages.append({"role": "user", "content": [{"type": "text", "text": "use a tool"}]})
        running.model.fails = [Reply((Say(("Running.",)), Use("toolu_2", "Read", {})), stop="calls")]
        client.messages.append({"role": "assistant", "content": client.ask(client.messages)})
    client.messages += messages


def asked(running: ClaudeRunning) -> list[str]:
    """Ask for an answer, as the client does next, and return the texts of its blocks."""
    client = running.client
    answer = client.ask(client.messages)
    client.messages.append({"role": "assistant", "content": answer})
    return [block["text"] for block in answer if block["type"] == "text"]


@pytest.mark.parametrize("name", [*IN_A_TURN, *IN_A_MESSAGE])
def test_a_command_among_prompts(running: ClaudeRunning, name: str) -> None:
    running.client.say("one")
    queue(running, name, command=":mark HERE")
    reply, answer = asked(running)
    assert "Checkpoint 'HERE' created." in reply
    assert answer.startswith("I see ")
    assert FIRST in newest(running)
    assert LAST in newest(running)
    assert newest(running).count(WRAPPER) == (2 if name in IN_A_TURN else 0)
    running.client.say("next")
    running.client.say("after it")
    assert ":mark" not in sent(running)
    assert "Checkpoint" not in sent(running)
    events = running.agent.events(0, 1000)
    assert [event.kind for event in events].count("mark") == 1
    users = [event for event in running.agent.context().messages if event.kind == "user"]
    typed = [event.content.strip() for event in users]
    assert [each for each in typed if each.startswith("queued")] == [FIRST, LAST]
    assert not any(":mark" in each for each in typed)
    assert not any(each.kind == "filter" for each in events)


@pytest.mark.parametrize("name", [*IN_A_TURN[::2], "interrupted tool"])
def test_prompts_without_a_command_keep_their_bytes(running: ClaudeRunning, name: str) -> None:
    client = running.client
    client.say("one")
    queue(running, name, command="queued gamma")
    (answer,) = asked(running)
    assert answer.startswith("I see ")
    got, asking = running.upstream.asked[-1].body["messages"][-1], json.loads(json.dumps(client.messages[-2]))
    if isinstance(asking["content"], list):
        asking["content"][-1]["cache_control"] = {"type": "ephemeral"}
    assert got == asking
    users = [event.content.strip() for event in running.agent.context().messages if event.kind == "user"]
    assert [each for each in users if each.startswith("queued")] == [FIRST, "queued gamma", LAST]
    assert all(WRAPPER not in event.content for event in running.agent.context().messages)


@pytest.mark.parametrize("name", [*IN_A_TURN[::2], "blocks of one message"])
def test_a_queued_prompt_is_forgotten(running: ClaudeRunning, name: str) -> None:
    running.client.say("one")
    queue(running, name, command="queued gamma")
    asked(running)
    gone = next(event for event in running.agent.context().messages if event.content.strip() == "queued gamma")
    agent = running.agent
    agent.context()
    agent.apply_filter("forget", [gone.id])
    running.client.say("next")
    assert "queued gamma" not in newest(running)
    assert newest(running).count(WRAPPER) == (2 if name in IN_A_TURN else 0)
    (operation,) = [event for event in running.agent.events(0, 1000) if event.kind == "filter"]
    running.client.say(f":restore {operation.id}")
    running.client.say("last")
    assert "queued gamma" in newest(running)


@pytest.mark.parametrize("name", IN_A_TURN[1::2])
def test_only_commands(running: ClaudeRunning, name: str) -> None:
    """The turn goes on with the result of the tool; nothing of the wrappers is left."""
    running.client.say("one")
    queue(running, name, first=":mark A", command=":mark B", last=":marks")
    reply, answer = asked(running)
    assert reply.index("'A' created") < reply.index("'B' created") < reply.rindex("B")
    assert answer.startswith("I see ")
    running.client.say("next")
    assert WRAPPER not in sent(running)
    assert '"done' in sent(running)


def test_only_commands_behind_an_answer(running: ClaudeRunning) -> None:
    running.client.say("one")
    before = len(running.upstream.requests)
    queue(running, "blocks of one message", first=":mark A", command=":mark B", last=":clera A")
    (reply,) = asked(running)
    assert reply.index("'A' created") < reply.index("'B' created") < reply.index("did you mean :clear A?")
    assert len(running.upstream.requests) == before
    running.client.say("next")
    assert ":mark" not in sent(running)


@pytest.mark.parametrize("name", [*IN_A_TURN, "blocks of one message"])
@pytest.mark.parametrize("command", [":clear", ":undo"])
def test_each_acts_on_what_was_typed_before_it(running: ClaudeRunning, name: str, command: str) -> None:
    """What follows a command is asked, even if everything before it has left, and keeps its place."""
    running.client.say("one")
    queue(running, name, command=command)
    _, answer = asked(running)
    for _ in range(2):
        assert answer.startswith("I see ")
        users = [text for kind, text in running.texts() if (kind == "user" and WRAPPER in text) or LAST in text]
        assert [LAST in text and FIRST not in text for text in users] == [True]
        assert [kind for kind, _ in running.texts() if kind in ("call", "result")] == []
        answer = running.client.say("next")
    said = [kind if kind == "assistant" else text for kind, text in running.texts() if kind != "thinking"]
    at = next(at for at, text in enumerate(said) if LAST in text)
    assert said[at + 1 : at + 3] == ["assistant", "next"]


def test_a_prompt_without_an_answer_that_is_restored(running: ClaudeRunning) -> None:
    """It stands before the prompt that was typed later."""
    running.client.say("one")
    queue(running, "system message", command="queued gamma", last=":undo")
    assert "left the context" in asked(running)[0]
    running.client.say("later")
    (undo,) = [event for event in running.agent.events(0, 1000) if event.kind == "undo"]
    running.client.say(f":restore {undo.id}")
    running.client.say("next")
    said = newest(running)
    assert '"done"' in said
    assert 0 < said.index(FIRST) < said.index("queued gamma") < said.index("later") < said.rindex("I see")


def test_nothing_is_left_to_answer(running: ClaudeRunning) -> None:
    running.client.say("one")
    queue(running, "result of 2.1.332", first=":mark A", command=":help", last=":clear")
    before = len(running.upstream.requests)
    (reply,) = asked(running)
    assert "'A' created" in reply
    assert len(running.upstream.requests) == before
    running.client.say("next")
    assert [text for kind, text in running.texts() if kind == "user"][1:] == ["next"]


@pytest.mark.parametrize("name", ["system message", "blocks of one message"])
def test_a_request_that_is_sent_again(running: ClaudeRunning, name: str) -> None:
    """A command is carried out once, and its reply comes with the answer."""
    running.client.say("one")
    queue(running, name, command=":mark HERE")
    running.model.fails = [Fail("busy")]
    with pytest.raises(AssertionError, match="Overloaded"):
        running.client.ask(running.client.messages)
    running.end()
    running.begin(running.gateway.port, running.gateway.secret)
    reply, _ = asked(running)
    assert "Checkpoint 'HERE' created." in reply
    assert [event.kind for event in running.agent.events(0, 1000)].count("mark") == 1
    running.client.say("next")
    assert "HERE" not in sent(running)


def test_a_prompt_after_a_request_that_failed(running: ClaudeRunning) -> None:
    """Claude Code adds it to the results, and sends the command behind them again."""
    running.client.say("one")
    queue(running, "system message", command=":mark HERE")
    running.model.fails = [Fail("busy")]
    with pytest.raises(AssertionError, match="Overloaded"):
        running.client.ask(running.client.messages)
    running.client.messages[-2]["content"].append({"type": "text", "text": "go on"})
    reply, _ = asked(running)
    assert "Checkpoint 'HERE' created." in reply
    assert [event.kind for event in running.agent.events(0, 1000)].count("mark") == 1
    running.client.say("next")
    assert "HERE" not in sent(running)


def test_what_is_left_in_a_result_is_joined_as_the_client_does(running: ClaudeRunning) -> None:
    running.client.say("one")
    queue(running, "result of 2.1.332", first=":mark HERE", command="queued gamma")
    asked(running)
    whole, got = (
        (each[-1]["content"][-1]["content"]) for each in (running.client.messages[:-1], json.loads(newest(running)))
    )
    _, _, rest = whole.partition("</system-reminder>")
    assert got == f"done{rest}"


def test_an_edit_that_the_provider_would_refuse(running: ClaudeRunning) -> None:
    """The request goes out with everything but commands and replies, and its author has them all the same."""
    client = running.client
    for text in ("one", "READ two", "three"):
        client.say(text)
    agent = running.agent
    result = next(each.id for each in agent.context().messages if each.kind == "tool_result")
    agent.operate(lambda moment, at: exactly(moment, at, [result]))
    agent.do(f"/context drop {running.turn('one')}")
    queue(running, "blocks of one message", command=":mark HERE")
    reply, _ = asked(running)
    assert "Checkpoint 'HERE' created." in reply
    assert "foldmark: the edits do not hold now." in reply
    assert client.say("next").startswith("I see")
    assert "foldmark" not in sent(running)
    assert "HERE" not in sent(running)
    assert [text.strip() for text in running.users()][1:] == ["one", "READ two", "three", FIRST, LAST, "next"]
    assert "toolu_" in newest(running)
    (status,) = statuses(running.log)
    assert status.prevented == 2


def test_what_the_client_says_beside_a_queued_prompt_stays_its_own(running: ClaudeRunning) -> None:
    """The prompt goes out as the user's where no system message may stand, and the reminder behind the next prompt."""
    client = running.client
    client.say("one")
    queue(running, "system message", command=":help", last=":undo")
    reminder = "The task tools have not been used recently."
    client.messages[-1]["content"] += f"\n\n{reminder}"
    (reply,) = asked(running)
    assert "left the context" in reply
    undo = next(event.id for event in running.agent.events(0, 1000) if event.kind == "undo")
    client.say(f":restore {undo}")
    client.say("next")
    said = [(kind, text) for kind, text in running.texts() if reminder in text or FIRST in text]
    assert [kind for kind, _ in said] == ["user", "system"]
    assert said[1][1] == reminder
    assert running.users()[-1] == "next"


HOOK = "<system-reminder>\nPostToolUse:Read hook additional context: It was read.\n</system-reminder>"


@pytest.mark.parametrize("rewrites", [False, True])
def test_a_result_that_changes_behind_which_a_command_was_typed(running: ClaudeRunning, rewrites: bool) -> None:
    """What a hook says moves into the result, or the client rewrites the result: the reply stays Foldmark's own."""
    client = running.client
    client.say("one")
    queue(running, "result of 2.1.197", command=":mark HERE")
    (result,) = client.messages[-1]["content"]
    client.messages[-1]["content"].append({"type": "text", "text": HOOK})
    assert "'HERE' created" in asked(running)[0]
    said = "another" if rewrites else f"done\n\n{HOOK}"
    client.messages[-2]["content"] = [{**result, "content": result["content"].replace("done", said, 1)}]
    client.say(":context")
    client.say("next")
    assert "HERE" not in sent(running)
    assert [each.kind for each in running.agent.events(0, 1000)].count("tool_result") == 1 + rewrites
    contents = [each.content for each in running.agent.context().messages]
    assert [contents.count(each) for each in (FIRST, LAST)] == [1, 1]


def test_the_same_command_behind_two_results(running: ClaudeRunning) -> None:
    for text in ("one", "two", "three"):
        running.client.say(text)
    for call in ("toolu_a", "toolu_b"):
        queue(running, "system message", command=f":drop {running.turn('one' if call == 'toolu_a' else 'two')}")
        running.client.messages = json.loads(json.dumps(running.client.messages).replace("toolu_2", call))
        queue_reply = asked(running)[0]
        assert "left the context" in queue_reply
    assert [event.kind for event in running.agent.events(0, 1000)].count("drop") == 2


def test_an_answer_to_a_preview(running: ClaudeRunning) -> None:
    client = running.client
    for text in ("the cache experiment", "two", "the cache again"):
        client.say(text)
    first = running.message("the cache experiment")
    answered_by(lambda _: json.dumps([first]))
    assert "Forget" in client.say(":forget cache")
    queue(running, "blocks of one message", command=":yes")
    reply, _ = asked(running)
    assert "left the context" in reply
    assert "the cache experiment" not in newest(running)
    assert FIRST in newest(running)
    assert LAST in newest(running)


def test_an_answer_that_was_typed_before_its_preview(running: ClaudeRunning) -> None:
    client = running.client
    client.say("the cache experiment")
    client.say("two")
    first = running.message("the cache experiment")
    answered_by(lambda _: json.dumps([first]))
    queue(running, "blocks of one message", first=":help", command=":forget cache", last=":yes")
    (reply,) = asked(running)
    assert "typed before the preview was shown" in reply
    assert "left the context" in client.say(":yes")


def test_no_preview_while_the_agent_goes_on(running: ClaudeRunning) -> None:
    running.client.say("one")
    queue(running, "result of 2.1.197", command=":forget one")
    reply, _ = asked(running)
    assert "the agent is at work" in reply
    running.client.say("next")
    assert "forget" not in sent(running)


def test_an_interrupted_answer_with_a_reply(running: ClaudeRunning) -> None:
    """The client keeps the reply and the beginning of the answer."""
    client = running.client
    client.say("one")
    queue(running, "system message", command=":mark HERE")
    running.model.fails = [Stalled((Say(("The beginning",)),))]
    reply = interrupted(running)
    client.messages.append({"role": "assistant", "content": [*reply, {"type": "text", "text": "The beginning"}]})
    client.messages += [{"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]}]
    client.messages[-1]["content"].append({"type": "text", "text": "next"})
    asked(running)
    client.say("last")
    assert "HERE" not in sent(running)
    assert "The beginning" in newest(running)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_reply_that_was_interrupted_comes_with_the_next_answer(running: ClaudeRunning, restarts: bool) -> None:
    """The client takes back what it has asked. What was done is said all the same, once."""
    client = running.client
    client.say("one")
    queue(running, "blocks of one message", command=":mark HERE")
    running.model.fails = [Stalled((Say(("The beginning",)),))]
    with client.answering(client.messages, "The beginning"):
        client.messages.pop()
    if restarts:
        running.end()
        running.begin()
        client.url = running.gateway.url
    replies = [client.say(text) for text in ("next", "last")]
    assert ["Checkpoint 'HERE' created." in each for each in replies] == [True, False]
    assert replies[0].endswith("I see 3.")
    assert [event.kind for event in running.agent.events(0, 1000)].count("mark") == 1
    assert "HERE" not in sent(running)


def interrupted(running: ClaudeRunning) -> list[dict[str, Any]]:
    """Return the first block of an answer that stalls."""
    client = running.client
    body = {
        "model": client.model,
        "max_tokens": 1000,
        "stream": True,
        "messages": client.messages,
        "tools": client.tools,
    }
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01", "x-claude-code-session-id": client.session}
    with httpx.stream("POST", f"{client.url}/v1/messages", headers={**headers, **client.headers}, json=body) as came:
        text = ""
        for piece in came.iter_text():
            text += piece
            if "The beginning" in text:
                break
    delta = next(line for line in text.split("\n") if "text_delta" in line)
    return [{"type": "text", "text": json.loads(delta.removeprefix("data: "))["delta"]["text"]}]


def test_an_escaped_prompt_is_sent_with_one_sign(running: ClaudeRunning) -> None:
    running.client.say("one")
    queue(running, "result of 2.1.332", command="::drop 18")
    asked(running)
    assert "\\n:drop 18" in newest(running)
    assert ":drop 18" in [event.content for event in running.agent.context().messages]


def test_the_output_of_a_tool_is_no_command(running: ClaudeRunning) -> None:
    """A tool that shows a session returns such wrappers as well."""
    running.client.say("one")
    queue(running, "result of 2.1.332", command="queued gamma")
    tool = running.client.messages[-1]["content"][0]
    tool["content"] = f"{tool['content'].replace('queued gamma', ':clear')}\n\nmore output"
    (answer,) = asked(running)
    assert answer.startswith("I see ")
    assert ":clear" in newest(running)


# Codex


def steered(codex: CodexRunning, answer: Answer, seen: str) -> list[dict[str, Any]]:
    """Leave in the middle of an answer, once `seen` has come, as Codex does for a prompt. Return its items."""
    codex.model.fails = [answer]
    body, headers = codex.client.request(codex.client.items)
    with httpx.stream("POST", f"{codex.client.url}/v1/responses", headers=headers, json=body) as came:
        text = ""
        for piece in came.iter_text():
            text += piece
            if seen in text:
                break
    events = [json.loads(line.removeprefix("data: ")) for line in text.split("\n") if line.startswith("data: ")]
    return [each["item"] for each in events if each["type"] == "response.output_item.done"]


def asks(codex: CodexRunning, *prompts: str) -> list[str]:
    """Ask with more prompts, and return the texts of the answer."""
    codex.client.items += [spoken("user", prompt) for prompt in prompts]
    answer = codex.client.ask(codex.client.items)
    codex.client.items += answer
    return [part["text"] for item in answer for part in item.get("content") or ()]


@pytest.mark.parametrize("name", ["behind an output", "joined"])
def test_codex_behind_an_output(codex: CodexRunning, name: str) -> None:
    """Codex joins prompts that wait when a person presses Esc."""
    client = codex.client
    client.say("one")
    client.items.append(spoken("user", "use a tool"))
    codex.model.fails = [Reply((Use("call_2", "Read", {}),), stop="calls")]
    client.items += client.ask(client.items)
    client.items += form(f"codex: {name}", command=":mark HERE")
    reply, answer = asks(codex)
    assert "Checkpoint 'HERE' created." in reply
    assert answer.startswith("I see ")
    client.say("next")
    assert FIRST in newest(codex)
    assert "HERE" not in sent(codex)
    assert [event.kind for event in codex.agent.events(0, 1000)].count("mark") == 1
    assert FIRST in [event.content for event in codex.agent.context().messages]


PARTS = [
    (Say(("HELD",)),),
    (Think("Hm.", "signed-8"), Say(("Whole. ",)), Say(("HELD",))),
    (Think("Hm.", "signed-8"), Say(("Whole. ",)), Think("More.", "signed-9"), Say(("HELD",))),
]


@pytest.mark.parametrize("parts", PARTS, ids=["nothing", "a text", "thinking"])
def test_codex_goes_on_with_the_prompt(codex: CodexRunning, parts: tuple[Say | Think, ...]) -> None:
    """Codex aborts the answer to a prompt when a command is typed. The prompt is answered all the same."""
    client = codex.client
    client.say("one")
    client.items.append(spoken("user", "please HOLD"))
    client.items += steered(codex, Stalled(parts), "HELD")
    reply, answer = asks(codex, ":mark HERE")
    assert "Checkpoint 'HERE' created." in reply
    assert answer.startswith("I see ")
    assert "please HOLD" in newest(codex)
    client.say("next")
    assert "HERE" not in sent(codex)
    contents = [event.content for event in codex.agent.context().messages]
    assert contents.count("please HOLD") == 1
    assert codex.agent.open_turn is None


def marks_while_held(codex: CodexRunning) -> None:
    """Type a prompt, and `:mark A` during its answer."""
    client = codex.client
    client.say("one")
    client.items.append(spoken("user", "please HOLD"))
    client.items += steered(codex, Stalled((Say(("HELD",)),)), "HELD")
    client.items.append(spoken("user", ":mark A"))
    client.items += steered(codex, Stalled((Say(("HELD",)),)), "HELD")


def test_codex_two_commands_one_after_the_other(codex: CodexRunning) -> None:
    marks_while_held(codex)
    replies = asks(codex, ":mark B")
    assert "'B' created" in replies[0]
    assert "'A' created" not in replies[0]  # Codex shows it already
    assert replies[-1].startswith("I see ")
    codex.client.say("next")
    assert "created" not in sent(codex)
    assert ":mark" not in sent(codex)
    assert [event.kind for event in codex.agent.events(0, 1000)].count("mark") == 2


def test_codex_a_command_that_drops_what_it_asks(codex: CodexRunning) -> None:
    """Then nothing is asked any more, and what Codex shows already is not said again."""
    marks_while_held(codex)
    (reply,) = asks(codex, f":drop {codex.turn('please HOLD')}")
    assert "left the context" in reply
    assert "'A' created" not in reply


def test_codex_a_reply_that_was_interrupted(codex: CodexRunning) -> None:
    client = codex.client
    client.say("one")
    client.items += [spoken("user", ":mark HERE"), spoken("user", "please HOLD")]
    steered(codex, Stalled((Say(("HELD",)),)), "HELD")
    del client.items[-2:]
    reply, _ = asks(codex, "next")
    assert "Checkpoint 'HERE' created." in reply
    assert len(asks(codex, "last")) == 1
    assert "HERE" not in sent(codex)


def test_codex_waits_for_a_prompt_after_an_answer_or_an_end(codex: CodexRunning) -> None:
    """A command is answered at once if nothing else is asked: after an answer, a failure, or Esc."""
    client = codex.client
    client.say("one")
    before = len(codex.upstream.requests)
    assert len(asks(codex, ":context")) == 1
    assert len(codex.upstream.requests) == before
    client.items.append(spoken("user", "please HOLD"))
    client.items += steered(codex, Stalled((Say(("HELD",)),)), "HELD")
    client.items.append(spoken("user", "<turn_aborted>\nThe user interrupted.\n</turn_aborted>"))
    assert len(asks(codex, ":context")) == 1
    client.items.append(spoken("user", "fails"))
    codex.model.fails = [Fail("rate")]
    with pytest.raises(AssertionError):
        client.ask(client.items)
    assert len(asks(codex, ":context")) == 1
    assert len(codex.upstream.requests) == before + 2


@pytest.mark.parametrize("before", [("a prompt",), ()])
def test_codex_drops_a_complete_answer(codex: CodexRunning, before: tuple[str, ...]) -> None:
    """A person types while the end of an answer, or of a reply, arrives: Codex asks again without it."""
    client = codex.client
    client.say("one")
    client.items += [spoken("user", text) for text in (*before, ":mark HERE")]
    client.ask(client.items)
    reply, *answer = asks(codex, "another" if before else ":mark THERE")
    assert "Checkpoint 'HERE' created." in reply
    assert bool(answer) == bool(before)
    client.say("next")
    events = codex.agent.events(0, 1000)
    marks = [(event.data or {})["name"] for event in events if event.kind == "mark"]
    assert marks == (["HERE"] if before else ["HERE", "THERE"])
    assert [each.content for each in codex.agent.context().messages].count("a prompt") == len(before)
    assert len([event for event in events if event.kind == "user"]) == (4 if before else 2)
    assert "HERE" not in sent(codex)


def test_a_command_behind_equal_ones_is_carried_out(codex: CodexRunning) -> None:
    codex.client.say("one")
    assert len({codex.client.say(":context") for _ in range(3)}) == 1
    codex.agent.do("/undo")
    assert "0 turns" in codex.client.say(":context")


def test_codex_leaves_with_the_last_event(codex: CodexRunning, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is complete before its connection ends."""
    client, released = codex.client, Event()
    client.say("one")
    stream = codex.upstream.wire.stream

    def held(*about: Any) -> Iterator[bytes]:
        yield from stream(*about)
        released.wait(LIMIT)

    with monkeypatch.context() as patch:
        patch.setattr(codex.upstream.wire, "stream", held)
        client.items.append(spoken("user", "two"))
        client.items += steered(codex, Reply((Say(("Whole.",)),)), "response.completed")
    released.set()
    before = len(codex.upstream.requests)
    assert len(asks(codex, ":context")) == 1
    assert len(codex.upstream.requests) == before
    assert "Whole." in [event.content for event in codex.agent.context().messages]
