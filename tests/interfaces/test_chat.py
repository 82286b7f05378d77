"""The chat (SPEC 2, 5.5, 6, 9): through a pipe, in a terminal, interrupted, and concurrent with other writers."""

import os
import signal
from asyncio import sleep
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib.resources import files as resources
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from command_line import Cli, events

import foldmark
from foldmark.chat.lines.line_mode import chat
from foldmark.core import selections
from foldmark.core.errors import FoldmarkError
from foldmark.core.request import Request
from foldmark.log.doctor import examine
from foldmark.providers.offline import OfflineModel
from foldmark.providers.retrying import LazyProvider
from foldmark.runtime.background import Background
from foldmark.runtime.supervisor import Supervisor
from patience import LIMIT
from stored import stored
from terminal import CTRL_C, CTRL_D, Terminal

EMPTY = "Context: 2K/200K tokens (1%) ⚪"
METER = "Context: 2K/200K tokens (1%) ⚪"
FULL = "⚠️  Context full. Use /clear to continue."
PROMPT = "⚪\n> "
ANSWER = "I am the offline model, not a language model"
SAMPLE = str(resources("foldmark") / "samples" / "notes-cli.jsonl")

Start = Callable[..., Terminal]


def said(log: foldmark.Log, name: str = "default") -> list[str]:
    return [message.content for message in log.agent(name).context().messages if message.kind == "user"]


def closed(log: foldmark.Log, name: str = "default") -> None:
    """Assert that no turn is open, every turn of the log has ended, and the log has no fault."""
    assert log.agent(name).open_turn is None
    opened = [event.turn_id for event in events(log) if event.kind == "user" and event.turn_id == event.id]
    ended = [event.turn_id for event in events(log) if event.kind == "turn_ended"]
    assert set(opened) <= set(ended)
    assert list(examine(log)) == []


def test_the_provider_is_made_while_the_first_line_is_typed(log: foldmark.Log) -> None:
    made = Event()

    def make() -> OfflineModel:
        made.set()
        return OfflineModel()

    def typing() -> Iterator[str]:
        assert made.wait(LIMIT), "nothing was made before the first line"
        yield "/marks"

    assert chat(log.agent("default"), lambda _: LazyProvider(make), typing(), lambda _: False) == 0
    made.clear()
    assert chat(log.agent("default"), lambda _: LazyProvider(make), ["/marks"]) == 0
    assert not made.is_set()  # a pipe's lines are available at once


# Through a pipe


def test_a_piped_chat_answers_and_shows_the_meter(cli: Cli, log: foldmark.Log) -> None:
    talk = cli("chat", stdin="hello there\n")
    assert (talk.code, talk.err) == (0, "")
    assert [line.rstrip() for line in talk.lines] == [
        "Conversation 'default', no messages yet; model: offline. /help lists the commands.",
        EMPTY,
        "> hello there",
        (
            "I am the offline model, not a language model, so I can only say what one would see. You wrote 2 words: "
            "“hello there” (user). In the context there is only that message. /help lists what you can do with it, "
            "and `call list_files {}` makes me use a tool."
        ),
        METER,
    ]
    user, answer = log.agent("default").context().messages
    assert (user.content, user.actor) == ("hello there", "human")
    assert (answer.content, answer.actor, answer.interrupted) == (talk.lines[3].rstrip(), "model", False)
    closed(log)


def test_a_restart_keeps_the_context(cli: Cli, log: foldmark.Log) -> None:
    cli("chat", stdin="first\n/mark A\n")
    again = cli("chat", stdin="second\n")
    assert "Conversation 'default', 2 messages sent" in again.lines[0]
    assert "there are 3 messages, the oldest being “first” (user)" in again.out
    assert "Conversation 'other', no messages yet" in cli("chat", "other", stdin="elsewhere\n").lines[0]
    assert said(log) == ["first", "second"]
    assert list(log.agent("default").context().marks) == ["A"]
    closed(log)


def test_a_cleared_conversation_says_what_lies_before(cli: Cli, log: foldmark.Log) -> None:
    cli("chat", stdin="first\nsecond\n/clear\n")
    assert "Conversation 'default', no messages sent, 4 out; model" in cli("chat").out


def test_a_deleted_conversation_is_left_for_another(cli: Cli, log: foldmark.Log) -> None:
    talk = cli(
        "chat",
        "my talk",
        stdin='first\n/session delete "my talk"\n/session delete my talk --yes\nsecond\n/session list\n',
    )
    assert "for good (2 messages)? This cannot be taken back. Nothing was changed; repeat with --yes" in talk.err
    begin = talk.lines.index(f"New conversation 'default' ({log.agent('default').id[:8]}).")
    assert talk.lines[begin - 1].startswith(
        "Conversation 'my talk' erased: 2 messages. Memos, and mail sent from it, stay."
    )
    assert talk.lines[begin + 1].startswith("Conversation 'default', no messages yet; model: offline.")
    assert [each.name for each in log.agents()] == ["default"]
    assert said(log) == ["second"]
    closed(log)


def test_do_deletes_the_only_conversation(cli: Cli, log: foldmark.Log) -> None:
    log.agent("only").append("user", "first")
    refused = cli("do", "only", "/session delete only")
    assert refused.code == 2
    assert refused.err.endswith("Nothing was changed; repeat with --yes to do it.\n")
    assert log.exists("only")
    done = cli("do", "only", "/session delete only", "--yes")
    assert (done.code, done.err, len(done.lines)) == (0, "", 1)
    assert done.out.startswith("Conversation 'only' erased: 1 message.")
    assert log.agents() == []


def test_a_chat_with_a_child(cli: Cli, log: foldmark.Log) -> None:
    cli("chat", stdin="first\n/mark A\nCount the words. Report via /send.\n/fork A\n")
    (child,) = log.agent("default").children
    found = [(message.kind, message.actor) for message in child.context().messages]
    # It ran in parallel with its parent: it got the goal without its parent's answer, sent its report and said so.
    assert found == [("user", "human"), ("tool_call", "model"), ("tool_result", "system"), ("assistant", "model")]
    assert "4 messages sent" in cli("chat", child.id[:8], stdin="third\n").lines[0]
    asked = [message.content for message in child.context().messages if message.actor == "human"]
    assert asked == ["Count the words. Report via /send.", "third"]
    assert said(log) == ["first", "Count the words. Report via /send."]
    assert len(selections.unread(stored(log), log.agent("default").id)) == 1


def test_commands_and_wrong_ones_inside_a_pipe(cli: Cli, log: foldmark.Log) -> None:
    talk = cli("chat", stdin="first\n/mark A\n/nope\nsecond\n  /rewind A\n/rewind B\nthird\n")
    assert talk.code == 2
    assert talk.err.splitlines() == [
        *[line for line in talk.err.splitlines() if line.startswith("foldmark: there is no command /nope")],
        "foldmark: there is no mark 'B'; marks: A",
    ]
    assert "Checkpoint 'A' created." in talk.lines
    assert "Rewound to 'A'." in talk.lines
    assert said(log) == ["first", "third"]
    closed(log)


def test_errors_follow_the_line_that_caused_them(program: Cli, log: foldmark.Log) -> None:
    """This also holds if both streams go to one file, which Python buffers."""
    both = ("sh", "-c", 'exec "$@" 2>&1', "sh")
    talk = program("chat", stdin="/nope\nhello\n/mark A B\n", start=both)
    assert [line[:15] for line in talk.lines if line.startswith((">", "foldmark:"))] == [
        *("> /nope", "foldmark: there", "> hello", "> /mark A B", "foldmark: unexp")
    ]


def test_exit_stops_reading(cli: Cli, log: foldmark.Log) -> None:
    talk = cli("chat", stdin="first\n /exit \nsecond\n")
    assert talk.code == 0
    assert talk.lines[-1].strip() == "> /exit" or talk.lines[-1].strip() == ">  /exit"
    assert said(log) == ["first"]


@pytest.mark.parametrize(
    ("stdin", "texts"),
    [
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b"\xef\xbb\xbfone\ntwo", ["one", "two"]),
        (b"\xef\xbb\xbf/mark A\none\n", ["one"]),
        (b"\n\n  \n\t\none\n\r\n\n", ["one"]),
        (b"caf\xe9 \xff\xfe end\n", ["caf\ufffd \ufffd\ufffd end"]),
        (b"\xed\xa0\x80\n", ["\ufffd\ufffd\ufffd"]),
        ("wörld 你好 👩‍👩‍👧 \u2028 one line\n".encode(), ["wörld 你好 👩‍👩‍👧 \u2028 one line"]),
        (b"a\x00b\x1b[31m\n", ["a\x00b\x1b[31m"]),
        (b"a\rb\n", ["a\rb"]),
        (b"x" * 300_000 + b"\n", ["x" * 300_000]),
        (b"", []),
        (b"no line end", ["no line end"]),
    ],
    ids=["crlf", "bom", "bom-command", "empty", "latin-1", "surrogate", "unicode", "nul", "cr", "long", "none", "end"],
)
def test_lines_as_they_come(cli: Cli, log: foldmark.Log, stdin: bytes, texts: list[str]) -> None:
    talk = cli("chat", stdin=stdin)
    assert (talk.code, talk.err) == (0, "")
    assert said(log) == texts
    assert talk.out.count(ANSWER) == len(texts)
    closed(log)


def test_a_chat_in_a_folder_that_was_removed(cli: Cli, log: foldmark.Log) -> None:
    Path.cwd().rmdir()
    talk = cli("chat", stdin="hello there\n")
    assert (talk.code, talk.err) == (0, "")
    assert said(log) == ["hello there"]


def test_a_text_may_begin_with_white_space_but_a_command_is_one(cli: Cli, log: foldmark.Log) -> None:
    cli("chat", stdin="  indented\n\t/mark A\n")
    assert said(log) == ["  indented"]
    assert list(log.agent("default").context().marks) == ["A"]


# Full


def test_a_full_context_refuses_text_but_no_command(cli: Cli, log: foldmark.Log) -> None:
    agent = log.agent("default")
    agent.do("/context budget 0")
    agent.append("user", "x" * 4 * 200_000)
    agent.end_turn()
    before = len(events(log))
    talk = cli("chat", stdin="hello\n/help\n/mark A\nhello again\n")
    assert talk.code == 0
    assert "Context: 202K/200K tokens (101%) 🔴" in talk.lines
    assert talk.out.count(f"{FULL}\n") == 2
    assert "(The largest turn is 2, “xxxx" in talk.out
    assert "K: /context drop 2 takes it out. /undo takes out the newest turn, /forget a topic" in talk.out
    assert "/help [COMMAND...]" in talk.out
    assert ANSWER not in talk.out
    assert [event.kind for event in events(log)[before:]] == ["mark"]
    talk = cli("chat", stdin="/clear\nhello\n/restore 5\nhello\n")
    assert "Context cleared." in talk.out
    assert talk.out.count(ANSWER) == 1
    assert FULL in talk.lines[-2:]
    closed(log)


def test_the_meter_turns_yellow_and_red(
    cli: Cli, log: foldmark.Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".foldmark.toml").write_text('[models."offline"]\nwindow = 10_000\n')
    monkeypatch.chdir(tmp_path)
    lights = []
    for tokens in (7_999, 8_000, 9_499, 9_500, 9_999, 10_000):
        agent = log.agent(f"with {tokens}")
        agent.append("user", "x")
        form = agent.request().size
        agent.append("user", "x" * (4 * tokens - form - len('{"role":"user","content":""},')))
        agent.end_turn()
        assert agent.request().tokens == tokens
        talk = cli("chat", f"with {tokens}", stdin="hello\n")
        lights.append(talk.lines[1].split()[-1])
        assert (FULL in talk.lines) == (tokens == 10_000)
    assert lights == ["⚪", "🟡", "🟡", "🔴", "🔴", "🔴"]


def test_a_rule_shows_where_the_window_begins_and_moves_with_it(cli: Cli, log: foldmark.Log) -> None:
    agent = log.agent("default")
    agent.do("/context budget 1000")
    for text in ("one", "two", "three"):
        agent.append("user", f"{text} {'x' * 400}")
        agent.append("assistant", "y" * 400)
        agent.end_turn()
    talk = cli("chat", stdin=f"four {'x' * 400}\nfive {'x' * 400}\n/message list\n")
    rules = [index for index, line in enumerate(talk.lines) if line.startswith("── the window begins with turn ")]
    assert [talk.lines[index].partition("turn ")[2][:9] for index in rules] == ["11 “four…", "15 “five…"]
    for index in rules:
        assert (talk.lines[index - 1], talk.lines[index + 1]) == ("", "")
        assert len(talk.lines[index]) == 80
        assert talk.lines[index + 2].startswith("Context: 2K/200K tokens (1%) ⚪ · budget 1K (2")
    assert "window begins" not in str([event.content for event in events(log)])


# Other writers


def always(provider: Any) -> Callable[[str], Any]:
    """Return a function that gives the same provider for every model name."""
    return lambda name: provider


class Scripted:
    """A model that calls `act` in the middle of its answer."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    async def answer(self, messages: Sequence[foldmark.Event]) -> AsyncIterator[str]:
        yield "before "
        self._act()
        for _ in range(10):
            await sleep(0)
        yield "after"


@pytest.mark.parametrize(
    "act",
    [
        lambda other: other.append("user", "me too"),
        lambda other: other.append("assistant", "I am faster"),
        lambda other: other.do("/mark M"),
        lambda other: other.do("/clear"),
        lambda other: other.do("/undo"),
        lambda other: other.do("/fork"),
        lambda other: other.end_turn(),
        lambda other: (other.end_turn(), other.append("user", "me too"), other.end_turn()),
        lambda other: [other.record("usage", "x") for _ in range(20)],
    ],
    ids=["user", "assistant", "mark", "clear", "undo", "fork", "end", "turn", "many"],
)
def test_an_answer_is_not_lost_when_somebody_else_writes(
    db: str, log: foldmark.Log, capsys: pytest.CaptureFixture[str], act: Callable[[foldmark.Agent], object]
) -> None:
    with foldmark.open(db) as elsewhere:

        def other() -> object:
            agent = elsewhere.agent("default")
            agent.context()
            return act(agent)

        assert chat(log.agent("default"), always(Scripted(other)), ["hello", "again"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.count("before after") == 2
    mine = log.agent("default").id
    answers = [event for event in events(log) if event.content == "before after" and event.agent_id == mine]
    assert [answer.interrupted for answer in answers] == [False, False]
    closed(log)


def test_an_answer_does_not_end_the_turn_of_another_chat(db: str, log: foldmark.Log) -> None:
    """With two chats on one conversation, the turn of the second one stays open."""
    with foldmark.open(db) as elsewhere:
        other = elsewhere.agent("default")

        def talk() -> None:
            other.context()
            other.end_turn(interrupted=True)
            other.append("user", "mine")

        chat(log.agent("default"), always(Scripted(talk)), ["hello"])
        other.context()
        assert other.open_turn is not None
        other.append("assistant", "yours")
        other.end_turn()
    found = {event.content: event for event in events(log) if event.role}
    assert list(found) == ["hello", "mine", "before after", "yours"]
    assert found["yours"].turn_id == found["mine"].id
    closed(log)


def test_a_command_of_another_program_between_two_lines(cli: Cli, log: foldmark.Log) -> None:
    def lines() -> Iterator[str]:
        yield "first"
        assert cli("do", "default", "/mark FROM-OUTSIDE").code == 0
        yield "second"
        assert cli("do", "default", "/clear FROM-OUTSIDE").code == 0
        yield "/mark INSIDE"
        yield "third"

    assert chat(log.agent("default"), always(OfflineModel()), lines()) == 0
    assert said(log) == ["first", "third"]
    assert list(log.agent("default").context().marks) == ["FROM-OUTSIDE", "INSIDE"]
    closed(log)


def test_a_model_that_fails(log: foldmark.Log, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise FoldmarkError("the model hung up\nin the middle")

    assert chat(log.agent("default"), always(Scripted(fail)), ["hello"]) == 1
    assert capsys.readouterr().err == "foldmark: the model hung up\\nin the middle\n"
    assert [(event.kind, event.content.rstrip(), event.interrupted) for event in events(log)] == [
        ("user", "hello", False),
        ("assistant", "before", True),
        ("turn_ended", "", True),
    ]
    assert chat(log.agent("default"), always(OfflineModel()), ["hello"]) == 0
    closed(log)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, as in a separate program."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    "times",
    [1, *(n for n in (2, 5))],
)
def test_ctrl_c_more_than_once(log: foldmark.Log, capsys: pytest.CaptureFixture[str], times: int) -> None:
    class Interrupted:
        """A model that presses Ctrl-C during its answer."""

        async def answer(self, request: Request) -> AsyncIterator[str]:
            yield "before "
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
            await sleep(LIMIT)
            yield "after"

    try:
        assert chat(log.agent("default"), always(Interrupted()), ["hello", "/mark A"]) == 0
    except KeyboardInterrupt:
        pytest.fail("the chat is left")
    assert "(interrupted; the text so far is kept)" in capsys.readouterr().out
    answer = next(event for event in events(log) if event.kind == "assistant")
    assert (answer.content.rstrip(), answer.interrupted) == ("before", True)
    closed(log)


def test_ctrl_d_before_the_prompt_is_there(terminal: Start) -> None:
    """Line editing reads a NUL instead: the terminal converts Ctrl-D to NUL when it leaves line mode."""
    with terminal("chat") as screen:
        screen.type(CTRL_D)
        assert screen.end() == 0


def test_ctrl_d_while_an_answer_streams(terminal: Start) -> None:
    with terminal("chat", delay=0.05) as screen:
        screen.until(PROMPT)
        screen.type("Hello\r")
        screen.until("offline")
        screen.type(CTRL_D)
        assert screen.end() == 0


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_in_the_moment_a_turn_begins(
    log: foldmark.Log, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Silent:
        async def answer(self, request: Request) -> AsyncIterator[str]:
            await sleep(LIMIT)
            yield "too late"

    say, call, told = Supervisor.say, Background.call, Event()

    def begin(*args: Any) -> Any:
        told.clear()
        signal.raise_signal(signal.SIGINT)
        assert told.wait(LIMIT)  # no step of the turn has been made yet
        return say(*args)

    def tell(*args: Any) -> None:
        call(*args)
        told.set()

    monkeypatch.setattr(Supervisor, "say", begin)
    monkeypatch.setattr(Background, "call", tell)
    assert chat(log.agent("default"), always(Silent()), ["hello"]) == 0
    shown = capsys.readouterr().out
    assert "(interrupted; nothing was sent)" in shown
    assert "still at work" not in shown
    closed(log)


def test_ctrl_c_during_a_command(log: foldmark.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    do = log.program.do

    def interrupted(agent: foldmark.Agent, line: str, *rest: Any) -> foldmark.Result:
        if line == "/context show":
            raise KeyboardInterrupt
        return do(agent, line, *rest)

    monkeypatch.setattr(log.program, "do", interrupted)
    try:
        chat(log.agent("default"), always(OfflineModel()), ["/context show", "/mark A"])
    except KeyboardInterrupt:
        pytest.fail("the chat is left")
    assert list(log.agent("default").context().marks) == ["A"]


def test_two_programs_make_the_same_conversation(db: str, log: foldmark.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second program creates it between the first one's check and its insertion."""
    write = log.store.write

    def slow() -> Any:
        with foldmark.open(db) as elsewhere:
            elsewhere.agent("default").append("user", "I was first")
        return write()

    monkeypatch.setattr(log.store, "write", slow)
    assert [message.content for message in log.agent("default").context().messages] == ["I was first"]


# In a terminal


def test_typing_and_leaving(terminal: Start, log: foldmark.Log) -> None:
    with terminal("chat") as screen:
        screen.until(f"{EMPTY}\n> ")
        screen.type("hello wörld 你好\r")
        screen.until(f"{METER}\n> ")
        screen.type("\r")
        screen.until("\n> ")
        screen.type("/exit\r")
        assert screen.end() == 0
        assert "/help lists what you can do with it, and" in screen.screen
    assert said(log) == ["hello wörld 你好"]
    closed(log)


def test_keys_of_line_editing_and_history(terminal: Start, log: foldmark.Log) -> None:
    with terminal("chat") as screen:
        screen.until(PROMPT)
        screen.type("wrld\x1b[D\x1b[D\x1b[Do\x1b[Hhello \x1b[F!\x7f?\r")
        screen.until(PROMPT)
        screen.type("/mark A\r")
        screen.until("\n> ")
        screen.type("\x1b[A\x1b[A\r")
        screen.until(PROMPT)
        screen.type("\x1b[A\x1b[A\x1b[A\x1b[B\x7fB\r")
        screen.until("Checkpoint 'B' created.")
        screen.until("\n> ")
        screen.type(CTRL_D)
        assert screen.end() == 0
    assert said(log) == ["hello world?", "hello world?"]


def test_ctrl_d_leaves(terminal: Start) -> None:
    with terminal("chat") as screen:
        screen.until(PROMPT)
        screen.type(CTRL_D)
        assert screen.end() == 0
        assert screen.screen.rstrip("\n").endswith("> ")


def test_ctrl_c_at_the_prompt_clears_the_line(terminal: Start, log: foldmark.Log) -> None:
    with terminal("chat") as screen:
        screen.until(PROMPT)
        screen.type("not to be sent")
        screen.until("not to be sent")
        screen.press(CTRL_C, "(Ctrl-D or /exit leaves)\n> ")
        screen.press(CTRL_C, "(Ctrl-D or /exit leaves)\n> ")
        screen.type("hello\r")
        screen.until(PROMPT)
        screen.type("/exit\r")
        assert screen.end() == 0
    assert said(log) == ["hello"]


def test_ctrl_c_during_an_answer(terminal: Start, log: foldmark.Log) -> None:
    with terminal("chat", delay=0.05) as screen:
        screen.until(PROMPT)
        screen.type("first\r")
        screen.until("I am the ")
        screen.type(CTRL_C)
        screen.until(f"(interrupted; the text so far is kept)\n{METER}\n> ")
        assert [(event.kind, event.interrupted) for event in events(log)] == [
            *(("user", False), ("assistant", True), ("turn_ended", True))
        ]
        part = events(log)[1].content
        assert part.startswith("I am the")
        assert len(part) < 200
        closed(log)
        screen.type("/context show\r")
        screen.until(f"3 assistant (interrupted): {part}")
        screen.until(PROMPT)
        screen.type("second\r")
        screen.until("You wrote 1 word: “second”")
        screen.until(PROMPT)
        screen.type(CTRL_D)
        assert screen.end() == 0
    assert said(log) == ["first", "second"]
    closed(log)


def test_several_lines_at_once(terminal: Start, log: foldmark.Log) -> None:
    """Lines that were typed ahead or pasted are processed one by one."""
    with terminal("chat") as screen:
        screen.until(PROMPT)
        screen.type("one\rtwo\r/mark A\rthree\r/exit\r")
        assert screen.end() == 0
        assert screen.screen.count("Context: ") == 4
    assert said(log) == ["one", "two", "three"]
    assert list(log.agent("default").context().marks) == ["A"]
    closed(log)


def test_a_long_line_and_a_window_that_changes(terminal: Start, log: foldmark.Log) -> None:
    text = "ein langer Satz über 船, " * 40
    with terminal("chat", delay=0.01) as screen:
        screen.until(PROMPT)
        for at in range(0, len(text), 100):
            screen.type(text[at : at + 100])
        screen.resize(10, 30)
        screen.type("END\r")
        screen.until("I am the ")
        screen.resize(50, 200)
        screen.until("201 words")
        screen.resize(5, 10)
        screen.until(PROMPT)
        screen.type(CTRL_D)
        assert screen.end() == 0
    assert said(log) == [f"{text}END"]
    closed(log)


def test_killed_in_the_middle_of_an_answer(terminal: Start, cli: Cli, log: foldmark.Log) -> None:
    with terminal("chat", delay=0.05) as screen:
        screen.until(PROMPT)
        screen.type("first\r")
        screen.until("I am the ")
        screen.kill()
    agent = log.agent("default")
    assert said(log) == ["first"]
    assert agent.open_turn == 1
    assert list(examine(log)) == []
    assert cli("context", "show", "default").code == 0
    assert len(events(log)) == 1
    talk = cli("chat", stdin="/mark A\nsecond\n")
    assert (talk.code, talk.err) == (0, "")
    assert "cut off" in talk.lines[1]
    assert [(event.kind, event.turn_id, event.interrupted) for event in events(log)] == [
        *(("user", 1, False), ("mark", 1, False), ("turn_ended", 1, True)),
        *(("user", 5, False), ("assistant", 5, False), ("turn_ended", 5, False)),
    ]
    assert said(log) == ["first", "second"]
    closed(log)


def test_the_terminal_goes_away(terminal: Start, log: foldmark.Log) -> None:
    """If the window is closed while the model answers, the text is kept and the database is sound."""
    with terminal("chat", delay=0.05) as screen:
        screen.until(PROMPT)
        screen.type("first\r")
        screen.until("I am the ")
    assert said(log) == ["first"]
    assert list(examine(log)) == []


def test_two_chats_in_two_terminals(terminal: Start, log: foldmark.Log) -> None:
    log.agent("default")
    with terminal("chat") as one, terminal("chat") as two:
        for number, screen in enumerate((one, two, one, two, two, one)):
            if number < 2:
                screen.until(PROMPT)
            screen.type(f"text {number}\r")
            screen.until(PROMPT)
        two.type("/undo\r")
        two.until("Turn 21 left the context.")
        two.until("\n> ")
        one.type("/message list 2\r")
        one.until("· out · /restore ")
        one.until("\n> ")
        for screen in (one, two):
            screen.type(CTRL_D)
            assert screen.end() == 0
            assert "foldmark:" not in screen.screen
    assert said(log) == [f"text {number}" for number in range(5)]
    closed(log)


def test_context_show_uses_the_pager_only_on_a_small_terminal(
    cli: Cli, terminal: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", "sed s/^/paged:/")
    cli("import", SAMPLE)
    cli("chat", stdin="hello\n")
    with terminal("context", "show", "notes-cli") as screen:
        assert screen.end() == 0
        assert screen.screen.startswith("paged:The next request to offline for notes-cli")
    with terminal("context", "show", "default") as screen:
        assert screen.end() == 0
        assert screen.screen.startswith("The next request to offline for default")


def test_an_import_shows_its_progress_on_a_terminal(terminal: Start) -> None:
    with terminal("import", SAMPLE) as screen:
        screen.until("Importing notes-cli.jsonl")
        screen.until("Conversation 'notes-cli'")
        assert screen.end() == 0


def test_a_project_cannot_steer_the_terminal_by_a_models_name(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ollama/\\u001b]0;x\\u0007", "gemini/../../x", "ollama/a b"):
        (tmp_path / ".foldmark.toml").write_text(f'[context]\nmodel = "{name}"\n')
        talk = cli("chat", stdin="hello\n")
        assert talk.code == 2
        assert "model must be 'offline' or PROVIDER/MODEL, not" in talk.err
        assert "\x1b" not in talk.out + talk.err
    assert cli("chat", "--model", "gemini/../x", stdin="").code == 2
