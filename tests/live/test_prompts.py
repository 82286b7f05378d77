"""Commands typed in the agent, and mistakes: what stays here, and what goes to the model (SPEC 5.7)."""

import json
import re

import pytest
from claude_client import ClaudeRunning

from answering import answered_by
from foldmark.commands import REGISTRY
from foldmark.live.prompts import COMMANDS, OWN, command_in, help_text, without_commands


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (":clera A", ":clear A"),
        (":Context", ":context"),
        (": context", ":context"),
        (": drop 18 -- why", ":drop 18 -- why"),
        (":contxt show", ":context show"),
        (":context shwo", ":context show"),
        (":turn", ":turns"),
        (":RESTORE 3", ":restore 3"),
        (":messages-list", ":turns"),
    ],
)
def test_a_mistake_is_answered_with_the_nearest_command(running: ClaudeRunning, typed: str, meant: str) -> None:
    client = running.client
    client.say("one")
    asked = len(running.upstream.asked)
    answer = client.say(typed)
    assert (
        f"there is no command {typed}; did you mean {meant if meant != ':messages' else ':turns'}? :{typed}" in answer
    )
    assert len(running.upstream.asked) == asked
    client.say("two")
    assert running.users()[1:] == ["one", "two"]
    client.say(f":{typed}")
    assert running.users()[-1] == typed


def test_a_word_that_is_like_no_command(running: ClaudeRunning) -> None:
    assert "there is no command :xyzzy. ::xyzzy sends it to the model, :help lists" in running.client.say(":xyzzy")


@pytest.mark.parametrize(
    "text", [":smile: hello", ":) fine", ":", ": - a list", ":18", ":root {\n  color: red }", "::: x"]
)
def test_what_does_not_look_like_a_command_goes_to_the_model(text: str) -> None:
    assert command_in(text, ":") is None
    assert without_commands(text, ":") == text


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (":pin 4", ":pin: a live session has no window: every turn of its context is sent; :drop ID takes one out"),
        (":context window 3", "a live session has no window"),
        (":note remember this", "prompts belong in the agent"),
        (":model x", ":model works in the chat of this conversation"),
        (":memo list", ":memo list works in the chat"),
        (":rewind NOWHERE", "NOWHERE"),
        (":drop", "usage: :drop"),
        (":drop 99999", "99999"),
        (":turns x", "the number to list must be from 1, not 'x'"),
        (":results 0", "the number to list must be from 1, not '0'"),
        (":yes", "there is no open preview; :forget WHAT or :suggest makes one"),
    ],
)
def test_an_error_names_only_what_works_here(running: ClaudeRunning, typed: str, said: str) -> None:
    running.client.say("one")
    answer = running.client.say(typed)
    assert said in answer
    names = "|".join(map(re.escape, REGISTRY.commands))
    assert re.search(rf"(?<![\w./])/({names})\b", answer) is None, answer
    assert len(running.upstream.asked) == 1


def test_every_command_of_the_help_is_carried_out() -> None:
    named = set(re.findall(r":([a-z]+)", help_text(":")))
    assert named <= {*COMMANDS, *OWN, "yes", "no", "all", "only"}
    assert {full.partition(" ")[0] for full in COMMANDS.values()} <= {
        each.partition(" ")[0] for each in REGISTRY.commands
    }
    assert set(COMMANDS.values()) <= set(REGISTRY.commands)


def test_ids_are_found_in_the_agent(running: ClaudeRunning) -> None:
    client = running.client
    client.say("READ one")
    client.say("two")
    turns = client.say(":turns").splitlines()
    first = int(turns[0].split()[0])
    assert first == running.turn("READ one")
    assert "“READ one”" in turns[0]
    assert len(client.say(":turns 1").splitlines()) == 2
    results = client.say(":results").splitlines()
    id = int(results[0].split()[0])
    assert "Read" in results[0]
    assert len(results) == 3
    client.say(f":evict {id}")
    assert len(client.say(":results").splitlines()) == 2  # one is left
    shown = client.say(":context show").splitlines()
    assert [line.split()[1] for line in shown].count("tool_result") == 2
    client.say(f":drop {first}")
    assert client.say(":results") == "The context holds no results."
    assert "READ one" not in client.say(":context show")
    assert len(running.upstream.asked) == 3


def test_what_a_command_did_is_shown_in_the_agent(running: ClaudeRunning) -> None:
    client = running.client
    client.say("one")
    client.say(":mark A")
    client.say("two")
    event = running.turn("two")
    client.say(":rewind")
    rewind = next(each.id for each in running.agent.events(0, 1000) if each.kind == "rewind")
    assert "rewind" in client.say(f":explain {event}").lower()
    assert str(event) in client.say(f":show {event}")
    assert client.say(f":diff {rewind}")
    assert "two" in json.dumps(client.say(":recall two"))
    client.say(f":restore {rewind}")
    client.say("three")
    assert running.users()[1:] == ["one", "two", "three"]
    assert len(running.upstream.asked) == 3


def test_a_summary_is_made_by_the_sessions_own_model(running: ClaudeRunning) -> None:
    client = running.client
    client.say("one")
    client.say(":mark A")
    client.say("two")
    answered_by(lambda _: "It was two.")
    client.say(":summarize A")
    client.say("three")
    assert ("assistant", "It was two.") in running.texts()
    assert running.users()[1:] == ["one", "three"]


def test_a_question_about_a_mistake() -> None:
    """Codex asks so for a title."""
    text = "Generate a title.\n\nUser prompt:\n{}"
    assert without_commands(text.format(":clera M1"), ":") == text.format("(a command to Foldmark)")
    assert without_commands(text.format(":clera M1\nand more"), ":") == text.format(":clera M1\nand more")


def test_a_mistake_in_a_question_of_claude_code() -> None:
    """It asks so for a title."""
    text = "<session>\n{}\n</session>\n\nWrite the title in the language of the session."
    assert without_commands(text.format(":clera M1"), ":") == text.format("(a command to Foldmark)")
    assert without_commands(text.format(":clera M1\nand more"), ":") == text.format(":clera M1\nand more")
