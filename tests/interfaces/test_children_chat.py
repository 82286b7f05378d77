"""Children that work during a chat (SPEC 6; S0): typing, commands while an answer streams, leaving, tools that ask."""

import os
import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from string import ascii_uppercase
from threading import Event
from typing import Any

import pytest
from command_line import Cli, events
from plan import Answer, Reply, Say, Use
from playing import asked, say, slash
from server import Loopback
from wire_openai import OpenAIWire

import foldmark
from foldmark.core import selections
from foldmark.log.doctor import examine
from patience import LIMIT
from sampled import DEEP
from stored import leases, stored
from terminal import CTRL_C, CTRL_D, Terminal

Start = Callable[..., Terminal]
Provide = Callable[..., Loopback]

WIRE = OpenAIWire()
PROMPT = "⚪\n> "
CHILDREN = 20 if DEEP else 8
"""Number of children at work in the typing test."""


def sound(log: foldmark.Log) -> None:
    """Assert that the log has no fault, no turn is open and no agent is at work."""
    assert list(examine(log)) == []
    assert [agent.open_turn for agent in log.agents()] == [None] * len(log.agents())
    assert leases(log) == []


def said(agent: foldmark.Agent) -> list[str]:
    """Return the person's messages in the context, including notes."""
    return [each.content for each in agent.context().messages if (each.kind, each.actor) == ("user", "human")]


def task(number: int) -> str:
    return f"Research topic {number}. Report via /send."


def delegate(screen: Terminal, number: int) -> None:
    """Fork children from the prompt, each with its own task."""
    for each in range(number):
        screen.type(f"/mark GOAL\r/note {task(each)}\r/fork GOAL\r")
        screen.until("(from GOAL)")
        screen.until("\n> ")


def echoes(screen: Terminal) -> list[float]:
    """Type letters and return the seconds until each is shown. The letters stay in the input line."""
    took = []
    for letter in ascii_uppercase:
        began = time.perf_counter()
        screen.type(letter)
        screen.until(letter)
        took.append(time.perf_counter() - began)
        time.sleep(0.02)  # faster than anybody types, to overlap with all other activity
    return took


# Many children


def busy(screen: Terminal) -> int:
    """Return how many agents are at work according to `/agents`."""
    screen.type("/agents\r")
    screen.until("/agents")
    shown = screen.until("\n> ")
    while "default" not in shown:
        shown += screen.until("\n> ")
    return shown.count("waiting for the model") + shown.count("executing tools")


@pytest.mark.parametrize("model", ["offline", "openai/gpt-5"])
def test_a_person_types_while_many_children_work(
    terminal: Start, provider: Provide, log: foldmark.Log, capsys: pytest.CaptureFixture[str], model: str
) -> None:
    if model != "offline":
        provider(lambda body: say(*(f"word {n} " for n in range(1000))), pause=0.2)
    with terminal("chat", "--model", model, delay=1.0) as screen:
        screen.until(PROMPT)
        delegate(screen, CHILDREN)
        deadline = time.monotonic() + LIMIT
        while busy(screen) < CHILDREN:
            assert time.monotonic() < deadline
        took = echoes(screen)
        screen.type("\x15")  # delete the typed letters
        worst, median = max(took), statistics.median(took)
        with capsys.disabled():
            print(f" [echo {model}: median {1000 * median:.1f} ms, worst {1000 * worst:.1f} ms]", end="")
        assert busy(screen) > 0, "each letter was shown, and commands are answered, while they were at work"
        screen.type("/exit\r")
        screen.until(" still at work; Ctrl-C ends that)")
        screen.type(CTRL_C)
        screen.end()
        assert "Traceback" not in screen.screen
    agent = log.agent("default")
    assert [said(child) for child in agent.children] == [[task(each)] for each in range(CHILDREN)]
    assert [event for event in events(log) if event.kind == "turn_ended" and event.interrupted]
    sound(log)


def test_a_notice_leaves_what_is_being_typed(terminal: Start, log: foldmark.Log) -> None:
    with terminal("chat", delay=0.02) as screen:
        screen.until(PROMPT)
        delegate(screen, 1)
        screen.type("half of what")
        screen.until("half of what")
        shown = screen.until(" is idle)\n> half of what")
        assert shown.count("\n") >= 1
        screen.type(" I say\r")
        screen.until(PROMPT)
        screen.type(CTRL_D)
        assert screen.end() == 0
    assert said(log.agent("default"))[-1] == "half of what I say"
    sound(log)


# While an answer streams


def long_answer(body: Any) -> Answer:
    """Answer a person in a hundred words and a child in one."""
    heard = asked(WIRE, body)
    return say("Done.") if heard.who else say(*(f"word{n} " for n in range(100)), "END")


def test_commands_wait_for_the_end_of_an_answer_unless_they_only_show(
    terminal: Start, provider: Provide, log: foldmark.Log
) -> None:
    provider(long_answer, pause=0.02)
    with terminal("chat", "--model", "openai/gpt-5") as screen:
        screen.until(PROMPT)
        screen.type("/mark M\r")
        screen.until("\n> ")
        screen.type("Tell me.\r")
        screen.until("word5 ")
        screen.type("/mark N\r/fork M\r/agents\r")
        shown = screen.until("waiting for the model")
        assert "END" not in shown
        shown = screen.until("END")
        assert "Checkpoint" not in shown
        screen.until("> /mark N\nCheckpoint 'N' created.")
        screen.until("> /fork M\nForked.")
        screen.type("/wait\r")
        screen.until("The other agents are idle.")
        screen.until("\n> ")
        screen.type(CTRL_D)
        assert screen.end() == 0
    agent = log.agent("default")
    answer = [event for event in events(log) if event.kind == "assistant" and event.agent_id == agent.id]
    assert [(event.content.endswith("END"), event.interrupted) for event in answer] == [(True, False)]
    assert agent.context().marks["N"] > answer[0].id
    (child,) = agent.children
    assert [message.kind for message in child.context().messages][:2] == ["user", "assistant"]
    sound(log)


def test_a_mark_in_mid_answer_keeps_that_answer(terminal: Start, provider: Provide, log: foldmark.Log) -> None:
    provider(long_answer, pause=0.01)
    with terminal("chat", "--model", "openai/gpt-5") as screen:
        screen.until(PROMPT)
        screen.type("Tell me.\r")
        screen.until("word5 ")
        screen.type("/mark M\r/clear M\r")
        screen.until("Rewound to 'M'.")
        screen.until("\n> ")
        screen.type(CTRL_D)
        assert screen.end() == 0
    messages = list(log.agent("default").context().messages)
    assert [(each.kind, each.interrupted) for each in messages] == [("user", False), ("assistant", False)]
    assert messages[1].content.endswith("END")
    sound(log)


def test_cancel_ends_the_answer(terminal: Start, provider: Provide, log: foldmark.Log) -> None:
    provider(long_answer, pause=0.02)
    with terminal("chat", "--model", "openai/gpt-5") as screen:
        screen.until(PROMPT)
        screen.type("Tell me.\r")
        screen.until("word5 ")
        screen.type("/cancel\r")
        shown = screen.until(PROMPT)
        assert "END" not in shown
        assert "(interrupted; the text so far is kept)" in shown
        assert "foldmark:" not in shown
        screen.type(CTRL_D)
        assert screen.end() == 0
    assert [event.interrupted for event in events(log) if event.kind == "assistant"] == [True]
    sound(log)


def test_messages_typed_meanwhile_wait(terminal: Start, provider: Provide, log: foldmark.Log) -> None:
    server = provider(long_answer, pause=0.01)
    with terminal("chat", "--model", "openai/gpt-5") as screen:
        screen.until(PROMPT)
        screen.type("First.\r")
        screen.until("word5 ")
        screen.type("Second.\r/mark AFTER\r")
        shown = screen.until("END")
        assert "Checkpoint" not in shown  # it was typed after a text and keeps its place in the queue
        screen.until("END")
        screen.until("Checkpoint 'AFTER' created.")
        screen.until("\n> ")
        screen.type(CTRL_D)
        assert screen.end() == 0
    assert said(log.agent("default")) == ["First.", "Second."]
    kinds = [event.kind for event in events(log) if event.kind not in ("usage", "config")]
    assert kinds == ["user", "assistant", "turn_ended", "user", "assistant", "turn_ended", "mark"]
    assert len(server.asked) == 2
    sound(log)


def test_half_a_line_typed_meanwhile_can_be_continued(terminal: Start, provider: Provide, log: foldmark.Log) -> None:
    provider(long_answer, pause=0.01)
    with terminal("chat", "--model", "openai/gpt-5") as screen:
        screen.until(PROMPT)
        screen.type("First.\r")
        screen.until("word5 ")
        screen.type("half of")
        screen.until("END")
        screen.until(PROMPT)
        screen.until("half of")
        screen.type(" a line\r")
        screen.until("END")
        screen.until(PROMPT)
        screen.type(CTRL_D)
        assert screen.end() == 0
    assert said(log.agent("default")) == ["First.", "half of a line"]
    sound(log)


# Leaving


@pytest.mark.parametrize("end", ["/exit\r", CTRL_D], ids=["exit", "ctrl-d"])
def test_leaving_waits_for_the_children(terminal: Start, provider: Provide, log: foldmark.Log, end: str) -> None:
    left = Event()

    def played(body: Any) -> Answer:
        heard = asked(WIRE, body)
        assert left.wait(LIMIT)
        return say("Done.") if heard.calls else slash(f"send {heard.parent} Done.")

    provider(played)
    with terminal("chat", "--model", "openai/gpt-5") as screen:
        screen.until(PROMPT)
        delegate(screen, 3)
        screen.type(end)
        screen.until("(3 agents still at work; Ctrl-C ends that)")
        left.set()
        assert screen.end() == 0
    assert len(selections.unread(stored(log), log.agent("default").id)) == 3
    assert not any(event.interrupted for event in events(log))
    sound(log)


def test_ctrl_c_ends_the_children_that_are_waited_for(terminal: Start, log: foldmark.Log) -> None:
    with terminal("chat", delay=1.0) as screen:
        screen.until(PROMPT)
        delegate(screen, 3)
        screen.type("/exit\r")
        screen.until("(3 agents still at work; Ctrl-C ends that)")
        screen.type(CTRL_C)
        screen.end()
        assert "Traceback" not in screen.screen
    sound(log)


def test_operations_from_elsewhere_are_said(terminal: Start, log: foldmark.Log) -> None:
    with terminal("chat", "--plain") as one, terminal("chat", "--plain") as other:
        for screen in (one, other):
            screen.until(PROMPT)
        one.type("Hello.\r")
        one.until(PROMPT)
        other.type("/mark HERE\r")
        other.until("Checkpoint 'HERE' created.")
        one.until("(elsewhere: ⚑ mark 'HERE' by you")
        one.type("/undo\r")
        one.until("left the context.")
        other.until("(elsewhere: ✂ turn 1 undone by you · 1 turn, ")
        other.type("/operations\r")
        other.until("undo of turn 1")
        for screen in (one, other):
            screen.type(CTRL_D)
            assert screen.end() == 0
            assert screen.screen.count("elsewhere") == 1
    sound(log)


# [S0] as typed lines


def test_parallel_research_through_a_pipe(cli: Cli, log: foldmark.Log) -> None:
    lines = [
        *("Good morning.", "/mark AUTH_RESEARCH", "/note Research OAuth2 implementation patterns. Report via /send."),
        *("/fork AUTH_RESEARCH", "/mark SESSION_RESEARCH"),
        *("/note Research session-based auth patterns. Report via /send.", "/fork SESSION_RESEARCH"),
        *("Let us go on with something else.", "/wait", "/check-mail", "/check-mail"),
    ]
    talk = cli("chat", stdin="".join(f"{line}\n" for line in lines))
    assert (talk.code, talk.err) == (0, "")
    agent = log.agent("default")
    one, two = agent.children
    assert f"Forked. Child: {one.id} (from AUTH_RESEARCH)" in talk.out or f"Child: {one.id[:8]}" in talk.out
    assert f"2 messages from {one.id[:8]}, {two.id[:8]}." in talk.out or f"{two.id[:8]}, {one.id[:8]}." in talk.out
    assert "cannot carry out “Research OAuth2 implementation patterns. Report via /send.”" in talk.out
    assert "cannot carry out “Research session-based auth patterns. Report via /send.”" in talk.out
    assert "No mail." in talk.lines
    assert said(one) == ["Research OAuth2 implementation patterns. Report via /send."]
    # The second fork begins at its own mark, so the second child does not have the first one's goal.
    assert said(two) == ["Research session-based auth patterns. Report via /send."]
    sound(log)


# A tool that asks


class Bash:
    """A model that runs one command in each turn of a person and reports the result."""

    def __init__(self, *, child: bool = False) -> None:
        self.child = child
        Path("note.sh").write_text('#!/bin/sh\necho ran >> ran.txt; echo "$1"\n')
        Path("note.sh").chmod(0o700)

    def __call__(self, body: Any) -> Answer:
        heard = asked(WIRE, body)
        kind, text = heard.newest
        if kind == "result":
            return say("It said: ", text.splitlines()[0])
        if self.child and heard.who is None:
            return say("I wait.")
        return Reply((Say(("I run it. ",)), Use("b", "bash", {"command": f"./note.sh {text[:3]}"})), "calls")


def ran() -> int:
    """Return how often the command ran."""
    path = Path("ran.txt")
    return len(path.read_text().splitlines()) if path.exists() else 0


QUESTION = "[y]es, [a]lways, [N]o, ne[v]er: "


def test_a_person_agrees_once_always_or_not(terminal: Start, provider: Provide, log: foldmark.Log) -> None:
    provider(Bash())
    with terminal("chat", "--model", "openai/gpt-5") as screen:
        screen.until(PROMPT)
        for number, (text, key, times) in enumerate(
            [("one", "y", 1), ("two", "n", 1), ("tri", "", 1), ("for", CTRL_C, 1), ("fiv", "a", 2), ("six", None, 3)]
        ):
            screen.type(f"{text}\r")
            if key is not None:
                shown = screen.until(QUESTION)
                assert f"  ./note.sh {text}" in shown
                assert "Always and never: ./note.sh … (with any arguments), in this conversation." in shown
                assert ran() == (1 if number else 0)
                if key == CTRL_C:
                    screen.press(CTRL_C, "(interrupted;")
                else:
                    screen.type(f"{key}\r")
            shown = screen.until(PROMPT)
            assert ("It said: " in shown) == (key != CTRL_C)
            assert ("did not allow" in shown) == (key in ("n", ""))
            assert ran() == times
        screen.type(CTRL_D)
        assert screen.end() == 0
    sound(log)


def test_a_person_says_never(terminal: Start, provider: Provide, log: foldmark.Log) -> None:
    provider(Bash())
    with terminal("chat", "--model", "openai/gpt-5") as screen:
        screen.until(PROMPT)
        screen.type("one\r")
        screen.until(QUESTION)
        screen.type("v\r")
        screen.until(PROMPT)
        screen.type("two\r")
        shown = screen.until(PROMPT)
        assert QUESTION not in shown
        assert "never" in shown
        screen.type(CTRL_D)
        assert screen.end() == 0
    assert ran() == 0
    sound(log)


def test_a_yes_answers_only_the_question_on_the_screen(terminal: Start, provider: Provide, log: foldmark.Log) -> None:
    def played(body: Any) -> Answer:
        if asked(WIRE, body).newest[0] == "result":
            return say("It said.")
        return Reply(tuple(Use(f"b{n}", "bash", {"command": "echo ran >> ran.txt"}) for n in range(2)), "calls")

    provider(played)
    with terminal("chat", "--model", "openai/gpt-5") as screen:
        screen.until(PROMPT)
        screen.type("two\r")
        screen.until(QUESTION)
        screen.type("y\ry\r")
        screen.until("(“y” answers no open question; it is ignored)")
        screen.until(QUESTION)
        screen.press("\r", PROMPT)
        assert screen.leave() == 0  # one Enter too many may still be in transit
    assert ran() == 1
    assert said(log.agent("default")) == ["two"]
    sound(log)


def test_a_childs_question_takes_over_the_prompt(terminal: Start, provider: Provide, log: foldmark.Log) -> None:
    """A line begun for the conversation is not an answer. It reappears after the question."""
    ready = Event()
    bash = Bash(child=True)

    def played(body: Any) -> Answer:
        if asked(WIRE, body).who is not None:
            assert ready.wait(LIMIT)
        return bash(body)

    provider(played)
    with terminal("chat", "--model", "openai/gpt-5") as screen:
        screen.until(PROMPT)
        screen.type("/mark GOAL\r/note job: run it.\r/fork GOAL\r")
        screen.until("(from GOAL)")
        screen.until("\n> ")
        screen.type("yes, half of")
        screen.until("yes, half of")
        ready.set()
        shown = screen.until(QUESTION)
        (child,) = log.agent("default").children
        assert f"Agent {child.id[:8]} asks to use bash: run in " in shown
        screen.type("not for you\r")
        screen.until("(this is no answer; it is kept for the conversation)")
        screen.until(QUESTION)
        assert ran() == 0
        screen.type("y\r")
        screen.until(f"(agent {child.id[:8]} is idle)")
        screen.until("> yes, half of")
        screen.type(" a line\r")
        screen.until("I wait.")
        screen.until(PROMPT)
        screen.type("/exit\r")
        assert screen.end() == 0
    assert ran() == 1
    assert said(log.agent("default")) == ["job: run it.", "not for you", "yes, half of a line"]
    assert [message.content for message in child.context().messages][-1].startswith("It said: ")
    sound(log)


def test_a_question_is_withdrawn_with_its_turn(terminal: Start, provider: Provide, cli: Cli, log: foldmark.Log) -> None:
    provider(Bash(child=True))
    with terminal("chat", "--model", "openai/gpt-5") as screen:
        screen.until(PROMPT)
        screen.type("/mark GOAL\r/note job: run it.\r/fork GOAL\r")
        screen.until(QUESTION)
        (child,) = log.agent("default").children
        assert cli("do", "default", f"/kill {child.id[:8]}").code == 0
        screen.until("(the question is withdrawn: its turn has ended)")
        screen.type("hello\r")
        screen.until("I wait.")
        screen.until(PROMPT)
        screen.type(CTRL_D)
        assert screen.end() == 0
    assert ran() == 0
    assert said(log.agent("default")) == ["job: run it.", "hello"]


def test_a_childs_question_while_an_answer_streams(terminal: Start, provider: Provide, log: foldmark.Log) -> None:
    """The question is shown at once, because the person is present, and the answer continues after it. A line that was
    half typed by then continues at the prompt."""
    bash, streams = Bash(child=True), Event()

    def played(body: Any) -> Answer:
        if asked(WIRE, body).who is None:
            return long_answer(body)
        assert streams.wait(LIMIT)
        return bash(body)

    provider(played, pause=0.02)
    with terminal("chat", "--model", "openai/gpt-5") as screen:
        screen.until(PROMPT)
        screen.type("/mark GOAL\r/note job: run it.\r/fork GOAL\r")
        screen.until("(from GOAL)")
        screen.until("\n> ")
        screen.type("Tell me.\r")
        screen.until("word5 ")
        screen.type("Next line.\rhalf of")
        streams.set()
        shown = screen.until(QUESTION)
        assert "END" not in shown
        screen.type("n\r")
        screen.until("END")
        screen.until("> Next line.\n")
        screen.until("END")
        screen.until("> half of")
        screen.type(" a line\r")
        screen.until("END")
        screen.until(PROMPT)
        screen.type("/wait\r")
        screen.until("\n> ")
        screen.type(CTRL_D)
        assert screen.end() == 0
    assert ran() == 0
    agent = log.agent("default")
    answers = [event for event in events(log) if event.kind == "assistant" and event.agent_id == agent.id]
    assert [(event.content.endswith("END"), event.interrupted) for event in answers] == [(True, False)] * 3
    assert said(agent) == ["job: run it.", "Tell me.", "Next line.", "half of a line"]
    sound(log)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["told to end", "the terminal is gone"])
def test_a_chat_that_is_told_to_end_closes_its_turn(terminal: Start, log: foldmark.Log, number: int) -> None:
    with terminal("chat", delay=0.05) as screen:
        screen.until(PROMPT)
        screen.type("first\r")
        screen.until("I am the ")
        os.kill(screen.process.pid, number)
        assert screen.end() == 128 + number
    ended = [(event.kind, event.interrupted) for event in events(log)]
    assert ended == [("user", False), ("assistant", True), ("turn_ended", True)]
    assert leases(log) == []
