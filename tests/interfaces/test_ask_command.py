"""`foldmark ask`: one prompt, and the answer alone on standard output (SPEC 9)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import PROGRAM, Cli, events
from plan import Answer, Broken, Fail, Reply, Say, Stalled, Use
from playing import asked, say
from server import Loopback
from wire_openai import OpenAIWire

import foldmark
import forked
from foldmark.log.doctor import examine
from foldmark.runtime.lease import take
from patience import LIMIT
from stored import leases
from terminal import CTRL_C, Terminal

Provide = Callable[..., Loopback]

MODEL = ("--model", "openai/gpt-5")
PDF = b"%PDF-1.4\n1 0 obj << /Type /Page >> endobj\n"
WIRE = OpenAIWire()


def sound(log: foldmark.Log) -> None:
    """Assert that the log has no fault, no turn is open and no agent is at work."""
    assert list(examine(log)) == []
    assert [agent.open_turn for agent in log.agents()] == [None] * len(log.agents())
    assert leases(log) == []


def contents(log: foldmark.Log, name: str = "x") -> list[tuple[str, str]]:
    return [(message.kind, message.content) for message in log.find(name).context().messages]


def echo(body: Any) -> Answer:
    """Answer with the newest text."""
    return say("You asked: ", asked(WIRE, body).newest[1], "\n\n")


# The prompt


@pytest.mark.parametrize(
    ("words", "stdin", "prompt"),
    [
        (("What", "is a fork?"), "", "What is a fork?"),
        ((), "Long\n  text.\n", "Long\n  text."),
        (("Summarize.",), "  Long\ntext.\n\n", "  Long\ntext.\n\nSummarize."),
        (("/exit",), "", "/exit"),
        ((), "/session delete x --yes\n", "/session delete x --yes"),
        ((), b"\xef\xbb\xbfa\xffb\r\nc", "a\ufffdb\r\nc"),
        (("--", "-a"), "", "-a"),
    ],
)
def test_the_prompt_is_standard_input_and_the_words_behind_the_name(
    cli: Cli, log: foldmark.Log, words: tuple[str, ...], stdin: str | bytes, prompt: str
) -> None:
    done = cli("ask", "x", *words, stdin=stdin)
    assert (done.code, done.err) == (0, "foldmark: new conversation 'x'\n")
    (user, text), (assistant, answer) = contents(log)
    assert (user, text, assistant) == ("user", prompt, "assistant")
    assert done.out == f"{answer}\n"
    sound(log)


def test_without_a_name_the_conversation_is_the_default(cli: Cli, log: foldmark.Log) -> None:
    assert cli("ask", stdin="hello\n").code == 0
    again = cli("ask", "default", "and again", "--json")
    assert again.err == ""
    assert "there are 3 messages" in json.loads(again.out)["text"]


@pytest.mark.parametrize(
    ("line", "stdin", "wrong"),
    [
        ((), "", "there is no PROMPT, and standard input is empty: foldmark ask default 'What is a fork?'"),
        ((), " \n\n", "there is no PROMPT, and standard input is empty: foldmark ask default 'What is a fork?'"),
        (
            ("Why is it blue?",),
            "",
            (
                "there is no PROMPT, and standard input is empty. The first argument is the conversation: "
                "foldmark ask default 'Why is it blue?'"
            ),
        ),
    ],
)
def test_a_call_without_a_prompt_makes_nothing(
    cli: Cli, db: str, line: tuple[str, ...], stdin: str, wrong: str
) -> None:
    done = cli("ask", *line, stdin=stdin)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"foldmark: {wrong}. `foldmark ask --help` shows the usage.\n"
    assert not Path(db).exists()


def test_a_call_without_a_prompt_does_not_wait_at_a_terminal(db: str, terminal: Callable[..., Terminal]) -> None:
    with terminal("ask", "Why is it blue?") as screen:
        assert screen.end() == 2
        assert "there is no PROMPT. The first argument is the conversation: foldmark ask default 'Why" in screen.screen
    assert not Path(db).exists()


def test_a_prompt_longer_than_the_window_is_not_sent(cli: Cli, log: foldmark.Log) -> None:
    done = cli("ask", "x", stdin="word " * 200_000)
    assert (done.code, done.out) == (2, "")
    assert "the prompt has ~250,000 tokens, and offline takes 200,000; nothing was sent" in done.err
    assert (events(log), log.agents()) == ([], [])


def test_a_model_without_a_key_makes_no_conversation(
    cli: Cli, log: foldmark.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    line = ("ask", "x", "Why?", "--model", "anthropic/claude-sonnet-5-5")
    done = cli(*line)
    assert (done.code, done.out) == (1, "")
    assert "cannot be asked, and nothing was recorded" in done.err
    assert (events(log), log.agents()) == ([], [])
    assert cli("ask", "x", "Why?").code == 0
    before = events(log)
    assert cli(*line).code == 1
    assert events(log) == before


# Files


def test_files_come_before_the_prompt(cli: Cli, log: foldmark.Log, provider: Provide) -> None:
    Path("notes.md").write_text("# Notes\n")
    Path("report.pdf").write_bytes(PDF)
    server = provider(echo)
    done = cli("ask", "x", "-a", "notes.md", "What", "--attach", "report.pdf", "is it?", *MODEL)
    assert (done.code, done.out) == (0, "You asked: What is it?\n")
    assert [text for kind, text in contents(log) if kind == "user"] == [
        "File notes.md:\n```\n# Notes\n```",
        "File report.pdf:",
        "What is it?",
    ]
    sent = json.dumps(server.asked[-1])
    assert "report.pdf" in sent
    assert sent.index("# Notes") < sent.index("report.pdf") < sent.index("What is it?")
    sound(log)


def test_a_file_alone_is_answered(cli: Cli, log: foldmark.Log) -> None:
    Path("notes.md").write_text("tabs")
    done = cli("ask", "x", "-a", "notes.md")
    assert done.code == 0
    assert "File notes.md" in done.out
    assert [kind for kind, _ in contents(log)] == ["user", "assistant"]


def test_a_model_that_takes_no_pdf_is_told_its_name(cli: Cli, log: foldmark.Log, provider: Provide) -> None:
    Path("report.pdf").write_bytes(PDF)
    server = provider(lambda body: say("It is a report."))
    done = cli("ask", "x", "-a", "report.pdf", "What is it?", "--model", "openai/gpt-3.5-turbo")
    assert (done.code, done.out) == (0, "It is a report.\n")
    assert "report.pdf (1 page) is not shown: this model does not take it." in json.dumps(server.asked[-1])


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("missing.md", "missing.md cannot be read: No such file or directory"),
        (".", ". is no file; name a text, an image or a PDF"),
        ("empty.md", "empty.md is empty; there is nothing to attach"),
        ("data.bin", "data.bin is neither text in UTF-8, nor an image (PNG, JPEG, GIF, WebP), nor a PDF"),
    ],
)
def test_a_file_that_cannot_be_sent_stops_before_anything_is_recorded(cli: Cli, db: str, name: str, wrong: str) -> None:
    Path("good.md").write_text("good")
    Path("empty.md").touch()
    Path("data.bin").write_bytes(b"\0\1")
    done = cli("ask", "x", "-a", "good.md", "-a", name, "What is it?")
    assert (done.code, done.out, done.err) == (2, "", f"foldmark: {wrong}\n")
    assert not Path(db).exists()


# The answer


def test_the_answer_ends_with_one_line_feed_and_everything_else_goes_to_standard_error(
    cli: Cli, log: foldmark.Log, provider: Provide
) -> None:
    Path("notes.md").write_text("tabs")

    def played(body: Any) -> Answer:
        if asked(WIRE, body).newest[0] == "result":
            return say("It says \x1b[31m", "tabs.\n", "\nReally.\n", "\n\n")
        return Reply((Say(("I look.",)), Use("r", "read_file", {"path": "notes.md"})), "calls")

    provider(played)
    done = cli("ask", "x", "Look.", *MODEL)
    assert (done.code, done.out) == (0, "I look.\nIt says \\x1b[31mtabs.\n\nReally.\n")
    assert done.err.splitlines()[:2] == ["foldmark: new conversation 'x'", '[read_file {"path": "notes.md"}]']
    assert "tabs" in done.err
    sound(log)


def test_the_answer_as_json(cli: Cli, log: foldmark.Log, provider: Provide) -> None:
    provider(echo)
    done = cli("ask", "x", "Why?", "--json", *MODEL)
    assert done.code == 0
    agent = log.find("x")
    user, answer = agent.context().messages
    assert json.loads(done.out) == {
        "conversation": "x",
        "agent": agent.id,
        "model": "openai/gpt-5",
        "text": "You asked: Why?\n\n",
        "turn": user.id,
        "messages": [answer.id],
        "requests": 1,
        "usage": {"input": 140, "cache_read": 40, "cache_write": 0, "output": 20},
        "stopped": {"why": "end", "said": "stop"},
    }


@pytest.mark.parametrize(
    ("why", "said"),
    [("length", "the answer was cut off: it reached the model's output limit"), ("refused", "the model refused")],
)
def test_an_answer_that_was_cut_off_or_refused_has_failed(
    cli: Cli, log: foldmark.Log, provider: Provide, why: str, said: str
) -> None:
    provider(lambda body: Reply((Say(("Half an ans",)),), why))
    done = cli("ask", "x", "Why?", *MODEL)
    assert (done.code, done.out) == (1, "Half an ans\n")
    assert said in done.err
    done = cli("ask", "x", "And?", "--json")
    assert done.code == 1
    assert json.loads(done.out)["stopped"]["why"] == why
    assert said in done.err


def test_an_empty_answer_has_failed(cli: Cli, log: foldmark.Log, provider: Provide) -> None:
    provider(lambda body: say("\n"))
    done = cli("ask", "x", "Why?", *MODEL)
    assert (done.code, done.out) == (1, "")
    assert done.err.endswith("foldmark: the model answered nothing\n")


@pytest.mark.parametrize("failure", [Fail("request"), Broken((Say(("Half",)),))])
def test_the_same_prompt_again_asks_again_after_a_failure(
    cli: Cli, log: foldmark.Log, provider: Provide, failure: Answer
) -> None:
    Path("notes.md").write_text("tabs")
    answers = iter([failure, failure, say("At last.")])
    provider(lambda body: next(answers))
    line = ("ask", "x", "-a", "notes.md", "Why?", *MODEL)
    for _ in range(2):
        failed = cli(*line)
        assert failed.code == 1
        assert failed.err.endswith("; the prompt is kept, and the same command asks again\n")
    assert cli(*line).out == "At last.\n"
    assert [text for kind, text in contents(log) if kind == "user"] == ["File notes.md:\n```\ntabs\n```", "Why?"]
    sound(log)


def test_ask_belongs_to_no_session_that_its_own_agent_runs(cli: Cli, log: foldmark.Log) -> None:
    agent = log.agent("live")
    agent.record("record", "", data={"live": {"session": "s", "wire": "anthropic"}})
    done = cli("ask", "live", "Why?", *MODEL)
    assert (done.code, done.out) == (2, "")
    assert [event.kind for event in events(log)] == ["record"]
    assert "prompts for this session belong in the agent that runs it" in done.err


def test_a_model_without_a_key_is_refused_before_the_prompt_is_recorded(
    cli: Cli, log: foldmark.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    done = cli("ask", "x", "Why?", *MODEL)
    cannot = "foldmark: openai/gpt-5 cannot be asked, and nothing was recorded. "
    assert (done.code, done.out) == (1, "")
    assert done.err == f"{cannot}There is no key for openai. Set OPENAI_API_KEY.\n"
    assert events(log) == []


def test_nothing_is_recorded_while_another_program_answers(cli: Cli, log: foldmark.Log) -> None:
    Path("notes.md").write_text("tabs")
    lease = take(log.agent("x"), log.new_id())
    done = cli("ask", "x", "-a", "notes.md", "Why?")
    assert (done.code, done.out) == (1, "")
    assert "conversation 'x' is being run by" in done.err
    assert events(log) == []
    lease.give_back()
    assert cli("ask", "x", "-a", "notes.md", "Why?").code == 0


def test_a_prompt_can_answer_an_offer(cli: Cli, log: foldmark.Log) -> None:
    cli("ask", "x", "We keep tags in a table.")
    cli("do", "x", "/forget tags")
    done = cli("ask", "x", "Yes")
    assert (done.code, done.out) == (0, "")
    assert "messages about “tags” left the context." in done.err
    sound(log)


# Tools that ask, and the end of a call


class Bash:
    """A model that runs one command and reports its result."""

    def __call__(self, body: Any) -> Answer:
        kind, text = asked(WIRE, body).newest
        if kind == "result":
            return say("It said: ", text.splitlines()[0])
        return Reply((Say(("I run it.",)), Use("b", "bash", {"command": "echo ran >> ran.txt; echo ran"})), "calls")


@pytest.mark.parametrize(("key", "ran"), [("y", True), ("n", False)])
def test_a_tool_asks_beside_the_output(
    db: str, log: foldmark.Log, provider: Provide, tmp_path: Path, key: str, ran: bool
) -> None:
    provider(Bash())
    out = tmp_path / "out.txt"
    line = (PROGRAM, "ask", "x", "Run.", *MODEL)
    with out.open("w") as file, Terminal(*line, env=os.environ, stdout=file.fileno()) as screen:
        screen.until("echo ran >> ran.txt")
        screen.until("[y]es, [a]lways, [N]o, ne[v]er: ")
        assert not Path("ran.txt").exists()
        screen.type(f"{key}\r")
        assert screen.end() == 0
    assert Path("ran.txt").exists() == ran
    assert out.read_text().startswith("I run it.\nIt said: ")
    assert ("did not allow" in out.read_text()) != ran
    sound(log)


def test_a_tool_that_asks_is_refused_without_a_terminal(cli: Cli, log: foldmark.Log, provider: Provide) -> None:
    provider(Bash())
    assert cli("ask", "x", "Run.", *MODEL).code == 0
    assert not Path("ran.txt").exists()


def test_ctrl_c_at_a_question_ends_the_turn(db: str, log: foldmark.Log, provider: Provide) -> None:
    provider(Bash())
    with Terminal(PROGRAM, "ask", "x", "Run.", *MODEL, env=os.environ) as screen:
        screen.until("ne[v]er: ")
        screen.press(CTRL_C, "foldmark: interrupted; the answer so far is kept\n")
        assert screen.end() == 130
    assert not Path("ran.txt").exists()
    sound(log)


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        (("ask", "x", "Why?", *MODEL), signal.SIGINT, 130),
        (("ask", "x", "Why?", *MODEL), signal.SIGTERM, 143),
        (("do", "x", "/retry"), signal.SIGINT, 130),
    ],
)
def test_a_signal_keeps_the_answer_so_far(
    db: str, log: foldmark.Log, provider: Provide, line: tuple[str, ...], number: int, code: int
) -> None:
    provider(lambda body: Stalled((Say(("Half an ans",)),)))
    log.agent("x").do("/model openai/gpt-5")
    log.agent("x").do("/note Why?")
    process = forked.Popen(
        [PROGRAM, *line],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert os.read(process.stdout.fileno(), 100) == b"Half an ans"  # it streams
        process.send_signal(number)
        assert process.stdout.read() == b"\n"
        assert process.wait(LIMIT) == code
    answer = log.find("x").context().messages[-1]
    assert (answer.content, answer.interrupted) == ("Half an ans", True)
    sound(log)


def test_a_reader_that_leaves_ends_the_answer(db: str, log: foldmark.Log) -> None:
    process = forked.Popen(
        [PROGRAM, "ask", "x", "Why?"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "FOLDMARK_OFFLINE_DELAY": "0.05"},
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        os.read(process.stdout.fileno(), 1)
        process.stdout.close()
        assert process.stderr.read() == b"foldmark: new conversation 'x'\n"
        assert process.wait(LIMIT) == 0
    assert log.find("x").context().messages[-1].interrupted
    sound(log)


def test_closed_standard_input_is_an_empty_one(log: foldmark.Log, program: Cli) -> None:
    done = program("ask", "x", "hello", start=("sh", "-c", 'exec "$@" <&-', "sh"))
    assert done.code == 0
    assert contents(log)[0] == ("user", "hello")
