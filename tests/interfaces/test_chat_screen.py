"""The chat's screen in a terminal (SPEC 5.4, 5.5, 9): the last turns, the rule, receipts and results of the model's
tools, whole words, the prompt, the input history of earlier sessions, and retries."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import PROGRAM, Cli, events
from plan import Answer, Fail, Reply, Say, Stalled, Use
from playing import asked, say
from server import Loopback
from wire_openai import OpenAIWire

import foldmark
from foldmark.core.request import Usage
from foldmark.log.doctor import examine
from terminal import CTRL_C, CTRL_D, Terminal

Start = Callable[..., Terminal]
Provide = Callable[..., Loopback]

WIRE = OpenAIWire()
PROMPT, METER = "⚪\n> ", "⚪"


@pytest.fixture
def screen_of(db: str) -> Callable[..., Terminal]:
    """A function that starts a command line in a terminal of a given size."""

    def screen_of(rows: int, columns: int, *arguments: str) -> Terminal:
        env = {**os.environ, "FOLDMARK_OFFLINE_DELAY": "0"}
        return Terminal(PROGRAM, *arguments, env=env, size=(rows, columns))

    return screen_of


def talked(log: foldmark.Log, *texts: str) -> foldmark.Agent:
    """Create a conversation with one turn for each text."""
    agent = log.agent("default")
    for text in texts:
        agent.append("user", text)
        agent.append("assistant", f"About {text}.")
        agent.end_turn()
    return agent


def seen(screen: Terminal) -> str:
    """Leave the chat and return all its output."""
    screen.until(METER)
    screen.until("\n> ")
    screen.type(CTRL_D)
    assert screen.end() == 0
    return screen.screen


# The last turns and the rule


def test_reopening_shows_the_last_turns_that_fit(screen_of: Start, log: foldmark.Log) -> None:
    talked(log, *(f"topic {number}" for number in range(30)))
    with screen_of(16, 100, "chat") as screen:
        lines = seen(screen).splitlines()
    shown = [line for line in lines if line.startswith("> topic")]
    assert shown == [f"> topic {number}" for number in range(25, 30)]
    assert lines.index("> topic 29") + 1 == next(i for i, line in enumerate(lines) if "About topic 29. · ~" in line)
    assert len(lines[: lines.index(shown[0])]) == 1  # only the greeting is before them
    assert "the window begins" not in "\n".join(lines)


def test_a_turn_longer_than_the_screen_ends_on_it(screen_of: Start, log: foldmark.Log) -> None:
    talked(log, "\n".join(f"line {number}" for number in range(100)))
    with screen_of(16, 100, "chat") as screen:
        shown = seen(screen)
    assert "lines above; /message show 1 shows the turn)" in shown
    assert "line 98\nline 99. · ~" in shown
    assert "line 80\n" not in shown


def test_the_rule_is_above_the_oldest_turn_of_the_window(screen_of: Start, log: foldmark.Log) -> None:
    agent = talked(log, "one", "two", "three", "four")
    agent.do("/context window 2")
    with screen_of(40, 70, "chat") as screen:
        lines = seen(screen).splitlines()
    (at,) = [index for index, line in enumerate(lines) if line.startswith("── ")]
    assert lines[at].startswith("── the window begins with turn 7 “three”; 4 messages before it ─")
    assert len(lines[at]) == 70
    assert (lines[at - 1], lines[at + 1], lines[at + 2]) == ("", "", "> three")
    assert lines.index("> one") < at


def test_no_rule_where_the_window_begins_above_the_screen(screen_of: Start, log: foldmark.Log) -> None:
    agent = talked(log, *(f"topic {number}" for number in range(30)))
    agent.do("/context window 20")
    with screen_of(16, 100, "chat") as screen:
        assert "the window begins" not in seen(screen)


def test_the_line_of_a_window_that_moves_names_its_turn(screen_of: Start, log: foldmark.Log) -> None:
    agent = talked(log, "one", "two", "three")
    agent.do("/context window 2")
    with screen_of(10, 72, "chat") as screen:
        screen.until(METER)
        screen.until("\n> ")
        screen.type("four\r")
        shown = screen.until(METER).splitlines()
        (at,) = [index for index, line in enumerate(shown) if line.startswith("── ")]
        assert shown[at].startswith("── the window begins with turn 7 “three”; 4 messages before it ─")
        assert (len(shown[at]), shown[at - 1], shown[at + 1]) == (72, "", "")
        screen.until("\n> ")
        screen.type(CTRL_D)
        assert screen.end() == 0
    assert "window begins" not in str([event.content for event in events(log)])


def test_a_pipe_is_shown_no_turns_of_before(cli: Cli, log: foldmark.Log) -> None:
    talked(log, "one")
    assert "> one" not in cli("chat", stdin="two\n").out


# The model's actions


def test_the_models_operations_print_their_receipts(screen_of: Start, provider: Provide, log: foldmark.Log) -> None:
    calls = [Use("a", "slash", {"command": "mark", "args": "M"}), Use("b", "slash", {"command": "clear"})]
    provider([Reply((Say(("Now.",)), calls[0]), "calls"), Reply((calls[1],), "calls"), say("Both done.")])
    with screen_of(40, 200, "chat", "--model", "openai/gpt-5") as screen:
        screen.until(PROMPT)
        screen.type("mark and clear\r")
        shown = screen.until(PROMPT).splitlines()
        screen.type(CTRL_D)
        assert screen.end() == 0
    receipts = [event for event in events(log) if event.kind in ("mark", "clear")]
    assert [event.actor for event in receipts] == ["model", "model"]
    for event, text in zip(receipts, ("Checkpoint 'M' created.", "Context cleared."), strict=True):
        at = shown.index(text)
        assert shown[at - 1].startswith('[slash {"command": ')
        assert shown[at + 1].startswith(f"  event {event.id} · ")
        assert " · context " in shown[at + 1]
        assert sum(text in line for line in shown) == 1


def test_the_receipt_of_a_filter(screen_of: Start, log: foldmark.Log) -> None:
    talked(log, "database schema", "the weather")
    with screen_of(40, 200, "chat") as screen:
        screen.until(PROMPT)
        screen.type("/forget database schema\r")
        screen.until("Should I proceed")
        screen.until("forget 2 messages? > ")
        screen.type("yes\r")
        screen.until("Done. 2 messages about “database schema” left the context.\n")
        (event,) = [event for event in events(log) if event.kind == "filter"]
        screen.until(f"  event {event.id} · ")
        screen.until("\n> ")
        screen.type(CTRL_D)
        assert screen.end() == 0


def test_results_of_tools_are_shown_in_part(screen_of: Start, provider: Provide, log: foldmark.Log) -> None:
    Path("notes.txt").write_text("".join(f"line {number}\n" for number in range(1, 41)))
    uses = [Use("a", "read_file", {"path": "notes.txt"}), Use("b", "read_file", {"path": "none.txt"})]
    provider([Reply(tuple(uses), "calls"), say("I have read it.")])
    with screen_of(60, 200, "chat", "--model", "openai/gpt-5") as screen:
        screen.until(PROMPT)
        screen.type("read\r")
        shown = screen.until(PROMPT).splitlines()
        screen.type(CTRL_D)
        assert screen.end() == 0
    assert [line.split()[1:] for line in shown if " line " in line] == [["line", "1"], ["line", "2"], ["line", "3"]]
    assert any(line.startswith("  … (") and line.endswith(" more lines)") for line in shown)
    assert any(line.startswith("  Error: ") and "none.txt" in line for line in shown)
    with screen_of(60, 200, "chat") as screen:
        again = seen(screen)
    assert '[read_file {"path":"notes.txt"}] · 160 tokens' in again
    assert "more lines)" in again
    assert "I have read it. · 160 tokens" in again


# The line


def test_no_word_is_broken_at_the_edge(screen_of: Start, log: foldmark.Log) -> None:
    with screen_of(40, 30, "chat") as screen:
        screen.until(PROMPT)
        screen.type("hello\r")
        screen.until(PROMPT)
        screen.type("/quit\r")
        screen.until("\n> ")
        screen.type(CTRL_D)
        screen.end()
        lines = screen.screen.splitlines()
    assert all(len(line) <= 30 for line in lines), lines
    whole = " ".join(" ".join(lines).split())
    assert "not a language model, so I can only say what one would see" in whole
    assert "there is no command /quit; did you mean /exit? /help lists the commands" in whole


def test_the_history_of_typed_lines_lasts_across_sessions(terminal: Start, log: foldmark.Log) -> None:
    with terminal("chat") as screen:
        screen.until(PROMPT)
        screen.type("the first\r")
        screen.until(PROMPT)
        screen.type("/mark A\r")
        screen.until("\n> ")
        screen.kill()
    with terminal("chat", "other") as screen:
        screen.until(PROMPT)
        screen.type("\x1b[A\x1b[A\r")
        screen.until(PROMPT)
        screen.type(CTRL_D)
        assert screen.end() == 0
    assert next(message.content for message in log.agent("other").context().messages) == "the first"
    (file,) = Path(os.environ["XDG_DATA_HOME"]).rglob("history*")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_key_is_not_kept_in_the_history(terminal: Start, log: foldmark.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef0123456789")
    with terminal("chat") as screen:
        screen.until(PROMPT)
        screen.type("it is sk-test-0123456789abcdef0123456789\r")
        screen.until(PROMPT)
        screen.type(CTRL_D)
        assert screen.end() == 0
    (file,) = Path(os.environ["XDG_DATA_HOME"]).rglob("history*")
    assert "it is" in file.read_text()
    assert "0123456789abcdef" not in file.read_text()


def test_the_prompt_names_an_agent_that_is_not_the_root(terminal: Start, log: foldmark.Log) -> None:
    child = talked(log, "one").do("/fork").data["child"]
    with terminal("chat") as screen:
        screen.until(PROMPT)
        screen.type(f"/switch {child[:8]}\r")
        screen.until(f"⚪\n{child[:8]} > ")
        screen.type("/switch default\r")
        screen.until(PROMPT)
        screen.type(CTRL_D)
        assert screen.end() == 0


def test_an_assumed_window_is_said_once(terminal: Start, log: foldmark.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_BASE_URL", "http://127.0.0.1:9/v1")
    with terminal("chat", "--model", "vllm/of-our-own") as screen:
        screen.until("(The window of 200,000 tokens is assumed: none is published for vllm/of-our-own.")
        screen.until("\n> ")
        screen.type("/model offline\r")
        screen.until("\n> ")
        screen.type("hello\r")
        screen.until(PROMPT)
        screen.type(CTRL_D)
        assert screen.end() == 0
        assert screen.screen.count("is assumed") == 1


def test_cache_misses_are_shown(terminal: Start, provider: Provide) -> None:
    provider([Reply((Say(("Yes.",)),), usage=Usage(fresh=5000, cache_read=read)) for read in (0, 0, 4992)])
    with terminal("chat", "--model", "openai/gpt-5") as screen:
        screen.until(PROMPT)
        screen.type("first\r")
        screen.until(PROMPT)
        screen.type("second\r")
        screen.until("Request 2 missed 5,000: nothing changed; the provider did not keep it.)\n> ")
        screen.type("third\r")
        screen.until(PROMPT)
        screen.type(CTRL_D)
        assert screen.end() == 0
        assert screen.screen.count("missed") == 1


# Asking again


def turns(log: foldmark.Log) -> list[tuple[str, str, bool]]:
    return [(each.kind, each.content, each.interrupted) for each in log.agent("default").context().messages]


@pytest.mark.parametrize("again", ["/retry", "Tell me."])
def test_asking_again_after_a_failed_answer(cli: Cli, provider: Provide, log: foldmark.Log, again: str) -> None:
    """Neither a retry nor the retyped text adds a second user message."""
    server = provider([Fail("request"), Fail("request"), say("Here it is."), say("There it is.")])
    talk = cli("chat", "--model", "openai/gpt-5", stdin=f"Tell me.\n{again}\n{again}\n/retry\n")
    assert turns(log) == [("user", "Tell me.", False), ("assistant", "There it is.", False)]
    assert [WIRE.texts(each.body)[-1] for each in server.asked] == [("user", "Tell me.")] * 4
    opened = [event.turn_id for event in events(log) if event.role]
    assert opened[0] != opened[1]
    assert "The answer left the context; the model is asked again." in talk.out, "the last retry is of a good answer"
    assert talk.out.count("(/retry asks again)") == 2
    assert list(examine(log)) == []
    assert log.agent("default").open_turn is None


def test_asking_again_keeps_the_messages(terminal: Start, provider: Provide, log: foldmark.Log) -> None:
    provider([Stalled((Say(("Half of ",)),)), say("All of it."), Fail("request")])
    with terminal("chat", "--model", "openai/gpt-5") as screen:
        screen.until(PROMPT)
        screen.type("Tell me.\r")
        screen.until("Half")
        screen.press(CTRL_C, "(interrupted;")
        screen.until(PROMPT)
        screen.type("/retry\r")
        screen.until("All of it.")
        screen.until(PROMPT)
        screen.type("Tell me.\r")  # a new turn, since the first one was answered
        screen.until("foldmark:")
        screen.until("\n> ")
        screen.type(CTRL_D)
        screen.end()
    assert turns(log) == [
        ("user", "Tell me.", False),
        ("assistant", "Half of ", True),
        ("assistant", "All of it.", False),
        ("user", "Tell me.", False),
    ]
    assert list(examine(log)) == []


def test_asking_again_continues_after_results(cli: Cli, provider: Provide, log: foldmark.Log) -> None:
    Path("notes.txt").write_text("hello\n")

    def played(body: Any) -> Answer:
        if asked(WIRE, body).newest[0] != "result":
            return Reply((Use("a", "read_file", {"path": "notes.txt"}),), "calls")
        return Fail("request") if len(server.asked) == 2 else say("It says hello.")

    server = provider(played)
    cli("chat", "--model", "openai/gpt-5", stdin="Read.\n/retry\n")
    assert [kind for kind, _, _ in turns(log)] == ["user", "tool_call", "tool_result", "assistant"]
    assert len(server.asked) == 3


def test_asking_again_on_the_command_line(cli: Cli, provider: Provide, log: foldmark.Log) -> None:
    provider([Fail("request"), say("Here it is."), say("There it is.")])
    cli("chat", "--model", "openai/gpt-5", stdin="Tell me.\n")
    assert cli("do", "default", "/retry").lines[-1] == "Here it is."
    again = cli("do", "default", "/retry").lines
    assert (again[0], again[-1]) == ("The answer left the context; the model is asked again.", "There it is.")
    assert turns(log) == [("user", "Tell me.", False), ("assistant", "There it is.", False)]
