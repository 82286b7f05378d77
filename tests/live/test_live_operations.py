"""Commands in the prompt, and their effect on the next request (SPEC 5.7). The provider checks each request as the real
one does."""

import json
from pathlib import Path
from typing import Any

import pytest
from claude_client import BOUND, FREE, KEY, REMINDER, ClaudeRunning
from plan import Reply, Use
from running import entered
from wire_anthropic import AnthropicWire
from wire_bound import BoundWire

from answering import answered_by
from foldmark.live.prompts import help_text
from foldmark.live.status import statuses
from foldmark.sessions.install.plugins import skill_template


def test_a_drop_and_its_restore(running: ClaudeRunning) -> None:
    client = running.client
    for text in ("one", "READ two", "three"):
        client.say(text)
    whole = running.texts()
    assert "left the context" in client.say(f":drop {running.turn('READ two')} -- it was wrong")
    client.say("four")
    texts = running.texts()
    assert ("user", "READ two") not in texts
    assert not any(kind in ("call", "result") for kind, _ in texts)
    assert (":drop" in json.dumps(texts)) is False
    (operation,) = [event for event in running.agent.events() if event.kind == "drop"]
    assert operation.reason == "it was wrong"
    (status,) = statuses(running.log)
    assert status.taken_out > 500
    assert f"~{status.taken_out:,} tokens taken out" in client.say(":context")
    client.say(f":restore {operation.id}")
    client.say("five")
    assert running.texts()[: len(whole)] == whole


def test_the_injected_blocks_of_a_dropped_turn_stay(running: ClaudeRunning) -> None:
    running.client.say("one")
    running.client.say("two")
    running.client.say(f":drop {running.turn('one')}")
    running.client.say("three")
    assert running.texts()[:2] == [("user", REMINDER["text"]), ("user", "two")]


def test_an_eviction_leaves_a_placeholder(running: ClaudeRunning) -> None:
    client = running.client
    client.say("READ one")
    result = next(event for event in running.agent.context().messages if event.kind == "tool_result")
    client.say(f":evict {result.id}")
    client.say("two")
    results = [text for kind, text in running.texts() if kind == "result"]
    assert results[0].startswith("[Evicted: ")
    assert results[1].startswith("Read: data")


def test_clear_to_a_mark(running: ClaudeRunning) -> None:
    client = running.client
    client.say("one")
    client.say(":mark HERE")
    client.say("READ two")
    client.say(":clear HERE")
    client.say("three")
    assert [text for kind, text in running.texts() if kind == "user"] == [REMINDER["text"], "one", "three"]
    client.say(":clear")
    client.say("four")
    assert [text for kind, text in running.texts() if kind == "user"] == [REMINDER["text"], "four"]


def test_a_summary_stands_where_it_stands(running: ClaudeRunning) -> None:
    client = running.client
    client.say("one")
    client.say("READ two")
    answered_by(lambda _: "It was read.")
    agent = running.agent
    agent.context()
    agent.do("/summarize")
    client.say("three")
    assert ("assistant", "It was read.") in running.texts()
    assert ("user", "READ two") not in running.texts()


@pytest.mark.parametrize("wire", [AnthropicWire(), BoundWire()], ids=["free", "bound"])
def test_thinking_that_an_operation_made_invalid(running: ClaudeRunning, wire: AnthropicWire) -> None:
    client, free = running.client, not isinstance(wire, BoundWire)
    client.model = FREE if free else BOUND
    for text in ("one", "two", "three"):
        client.say(text)
    client.say(f":drop {running.turn('two')}")
    client.say("four")
    signed = [text for kind, text in running.texts() if kind == "thinking"]
    assert len(signed) == (2 if free else 1)
    client.say("five")
    assert len([kind for kind, _ in running.texts() if kind == "thinking"]) == (3 if free else 2)
    (operation,) = [event for event in running.agent.events() if event.kind == "drop"]
    client.say(f":restore {operation.id}")
    client.say("six")
    # The model thought for "four" and "five" while "two" was out of the context.
    assert len([kind for kind, _ in running.texts() if kind == "thinking"]) == (5 if free else 3)


def test_forget_asks_the_sessions_own_model(running: ClaudeRunning) -> None:
    client = running.client
    for text in ("the cache experiment", "two", "the cache again"):
        client.say(text)
    asked = len(running.upstream.asked)
    first, last = running.message("the cache experiment"), running.message("the cache again")
    shown = client.say(":forget cache")
    assert "Nothing matches" in shown  # the model of the session found nothing
    (question,) = running.upstream.asked[asked:]
    assert question.headers["x-api-key"] == KEY
    answered_by(lambda _: json.dumps([first, last]))
    shown = client.say(":forget cache")
    assert "Forget" in shown
    assert shown.endswith("Answer :yes, :no, :all but 2, :only 1, or look again with :forget WHAT.")
    assert "/agree" not in shown
    assert "only the" not in client.say(":no")
    client.say("three")
    assert ("user", "the cache again") in running.texts()
    client.say(":forget cache")
    assert "left the context" in client.say(":yes")
    client.say("four")
    assert ("user", "the cache again") not in running.texts()
    assert ":forget" not in json.dumps(running.texts())
    assert "there is no open preview" in client.say(":yes")
    running.settle()
    (status,) = statuses(running.log)
    assert (status.ledger.questions, status.ledger.question_tokens > 0) == (1, True)
    assert "1 question to its model" in status.line


def test_a_preview_is_answered_as_in_the_chat(running: ClaudeRunning) -> None:
    client = running.client
    texts = ("the cache experiment", "two", "the cache again", "four", "the cache for the last time")
    for text in texts:
        client.say(text)
    first, second, third = (running.message(text) for text in texts[::2])
    answered_by(lambda _: json.dumps([first, second, third]))
    asked = len(running.upstream.asked)
    shown = client.say(":forget cache")
    assert "Answer :yes, :no, :all but 2, :only 1 3, or look again with :forget WHAT." in shown
    assert client.say(":show me what you will forget first") == shown
    assert "yes or no?\nAnswer :yes, :no, :all but 2, :only 1 3. :forget with other words looks again." in client.say(
        ":fine, but keep the first one"
    )
    assert "nothing has changed; answer :yes" in client.say(":Yes, and then fix the parser")
    assert f"message {first - 1} is not in the offer" in client.say(f":all but message {first - 1}")
    assert "2 messages about “cache” left the context" in client.say(f":except message {second}")
    assert len(running.upstream.asked) == asked
    client.say("on")
    users = [text for kind, text in running.texts() if kind == "user"]
    assert users[1:] == ["two", "the cache again", "four", "on"]
    client.say(":forget cache")
    assert "1 message about “cache” left the context" in client.say(":Sure, go!")
    assert "there is no open preview" in client.say(":1 and 3")
    assert len(running.upstream.asked) == asked + 1


@pytest.mark.parametrize("sign", ["%", "!!"])
def test_another_sign(tmp_path: Path, sign: str) -> None:
    with entered(ClaudeRunning(tmp_path, AnthropicWire(), {"live_sign": sign})) as running:
        client = running.client
        client.say("one")
        assert client.say(":drop 1") == "I see 3."  # a prompt like any other
        assert client.say(f"{sign}help") == help_text(sign)
        assert f"{sign}restore" in client.say(f"{sign}drop {running.turn('one')}")
        client.say(f"{sign}{sign}undo")
        assert [text for kind, text in running.texts() if kind == "user"][-1] == f"{sign}undo"
        assert ("user", "one") not in running.texts()


def test_the_same_prompt_twice(running: ClaudeRunning) -> None:
    client = running.client
    client.say("one")
    for _ in range(2):
        client.say(":context")
        client.say("again")
    assert [text for kind, text in running.texts() if kind == "user"][1:] == ["one", "again", "again"]


def test_a_command_behind_a_prompt_that_was_not_answered(running: ClaudeRunning) -> None:
    client = running.client
    client.say("one")
    typed = [{"type": "text", "text": text} for text in ("not answered\n", ":mark HERE")]
    client.messages.append({"role": "user", "content": typed})
    answer = client.ask(client.messages)
    assert "'HERE' created" in answer[0]["text"]
    client.messages.append({"role": "assistant", "content": answer})
    client.say("two")
    assert [text for kind, text in running.texts() if kind == "user"][1:] == ["one", "not answered\n", "two"]


def expanded(arguments: str, skill: bool) -> list[dict[str, Any]]:
    """Return the blocks that Claude Code 2.1.197 and 2.1.332 send for `/fm`, as a skill of the plugin or as the command
    that older installations wrote."""
    name = "foldmark:fm" if skill else "fm"
    said = f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>\n"
    said += f"<command-args>{arguments}</command-args>\n" if arguments else ""
    text = skill_template("fm").split("---\n", 2)[2].replace("$ARGUMENTS", arguments)
    if skill:
        text = f"Base directory for this skill: /home/my data/foldmark/skills/fm\n\n{text}"
    return [{"type": "text", "text": said}, {"type": "text", "text": text}]


@pytest.mark.parametrize("skill", [True, False])
def test_the_command_of_claude_code(running: ClaudeRunning, skill: bool) -> None:
    client = running.client

    def ask(arguments: str) -> str:
        client.messages.append({"role": "user", "content": expanded(arguments, skill)})
        answer = client.ask(client.messages)
        client.messages.append({"role": "assistant", "content": answer})
        return str(answer[0]["text"])

    client.say("one")
    client.say("two")
    assert "left the context" in ask(f"drop {running.turn('one')} -- no use")
    (operation,) = [event for event in running.agent.events() if event.kind == "drop"]
    assert operation.reason == "no use"
    assert ask("") == ask("help") == help_text(":")
    assert "there is no command :what" in ask("what")
    client.say("three")
    assert [text for kind, text in running.texts() if kind == "user"][1:] == ["two", "three"]
    assert "fm" not in json.dumps(running.texts())


def test_a_session_that_begins_with_a_command(running: ClaudeRunning) -> None:
    client = running.client
    client.headers["anthropic-beta"] = "mid-conversation-system-2026-04-07"
    asked: list[dict[str, Any]] = [
        {"role": "user", "content": [REMINDER, {"type": "text", "text": ":context"}]},
        {"role": "system", "content": [{"type": "text", "text": "Skills: none."}]},
    ]
    client.messages = [*asked, {"role": "assistant", "content": client.ask(asked)}]
    client.say("one")
    assert [message["role"] for message in running.upstream.asked[-1].body["messages"]] == ["user", "system"]
    client.say("two")
    assert [text for kind, text in running.texts() if kind == "user"] == [REMINDER["text"], "one", "two"]


def test_an_escaped_prompt_goes_to_the_model(running: ClaudeRunning) -> None:
    running.client.say("::mark my words")
    running.client.say("Is ::mark a command?")
    assert running.texts()[1] == ("user", ":mark my words")
    assert running.texts()[-1] == ("user", "Is ::mark a command?")
    users = [event.content for event in running.agent.context().messages if event.kind == "user"]
    assert users == [":mark my words", "Is ::mark a command?"]


def test_a_result_before_an_escaped_prompt_is_kept(running: ClaudeRunning) -> None:
    """The prompt loses a sign in its own block, wherever else two signs stand; the log has what the model saw."""
    running.model.fails.append(Reply((Use("toolu_x", "Read", {}),), stop="calls"))
    client = running.client
    client.messages.append({"role": "user", "content": [REMINDER, {"type": "text", "text": "look"}]})
    client.messages.append({"role": "assistant", "content": client.ask(client.messages)})
    result = {"type": "tool_result", "tool_use_id": "toolu_x", "content": "::before { color: red }"}
    client.messages.append({"role": "user", "content": [result, {"type": "text", "text": "::drop 18"}]})
    client.messages.append({"role": "assistant", "content": client.ask(client.messages)})
    client.say("on")
    found = [event.content for event in running.agent.context().messages if event.kind in ("user", "tool_result")]
    assert found == ["look", "::before { color: red }", ":drop 18", "on"]
    assert [text for kind, text in running.texts() if kind in ("user", "result")][1:] == found


def test_an_erased_turn_is_not_sent_again(running: ClaudeRunning) -> None:
    client = running.client
    for text in ("one", "READ two", "three"):
        client.say(text)
    turn = running.turn("READ two")
    client.say(f":drop {turn}")
    (drop,) = [event for event in running.agent.events() if event.kind == "drop"]
    agent = running.agent
    agent.context()
    done = agent.do(f"/message remove {turn} --yes")
    assert "It is in no later request of the agent, whose own session file still holds it." in done.text
    client.say(f":restore {drop.id}")
    client.say("four")
    assert [text for kind, text in running.texts() if kind == "user"][1:] == ["one", "three", "four"]
    running.end()  # another gateway knows it as well
    running.begin(running.gateway.port, running.gateway.secret)
    client.say("five")
    assert not any(kind in ("call", "result") for kind, _ in running.texts())
    running.agent.context()
    agent.context()
    agent.do(f"/message remove {running.turn('one')} --yes")
    client.say("six")
    assert [text for kind, text in running.texts() if kind == "user"][1:] == ["three", "four", "five", "six"]
    running.settle()
    (status,) = statuses(running.log)
    shares = {each.kind: each.share for each in status.edits}  # of the newest of each kind
    assert shares["drop"].out == shares["restore"].out == 0
    assert shares["redact"].out > 0
    assert status.taken_out == pytest.approx(sum(each.share.out for each in status.edits), rel=0.05)
    assert {each.actor for each in running.agent.events(0, 1000) if each.kind in ("filter", "redact")} == {"human"}
