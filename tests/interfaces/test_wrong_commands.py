"""Wrong requests to the commands that plan, explain, erase and set (SPEC 4): the whole line that a person sees and the
exit code. Nothing is written. Each request goes through the command line as typed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from command_line import Cli, events, files

import foldmark
from foldmark.core.config import KEYS
from planning_talk import IN_CHAT
from sampled import sampled
from terminal import CTRL_D, Terminal

CHILD = "abcd1111-0000-4000-8000-000000000001"
PLANNING = "planning"


class Wrong(NamedTuple):
    """The typed line, the message without its prefix, and the conversation."""

    line: str
    message: str
    name: str = "default"


IN_FORCE = "operations in force: 15 (config), 13 (drop), 11 (pin), 4 (mark)"
A_MODEL = (
    "a model must be 'offline' or PROVIDER/MODEL with one of anthropic, openai, openai_responses, gemini, gemini_gca, "
    "openrouter, ollama, vllm, offline"
)
SETTINGS = ", ".join(KEYS)
A_NUMBER = "must be a number from 0 to 1,000,000,000"
NO_TURN = "in this conversation; `/message list` lists the turns"
NO_EVENT = "`/message list` shows turns, `/context show` what is sent"
QUESTION = "Erase turn 1 for good (2 messages, ~6 tokens: question one)? This cannot be taken back."
NEWEST = "is not in the context; newest turns: 1"
ERASED = "was erased already, by a human at 2026-03-04T05:06:07Z"
MESSAGE = "/message needs one of: list, show, remove"
NO_PLANNING = "no planning conversation is open; /forget CRITERIA or /remember CRITERIA begins one"
NO_OFFER = "is not open: it ended with the person's next message, or when the context changed. "
ANEW = "`/forget CRITERIA` or `/remember CRITERIA` makes a new one"
NO_FORK = "a planning conversation is open, and no child should inherit it; agree to the filter or /cancel first"

TABLE = [
    # Planning
    Wrong("/forget", "CRITERIA is missing; usage: /forget CRITERIA... [--preview] [--yes]"),
    Wrong("/remember", "CRITERIA is missing; usage: /remember CRITERIA... [--preview] [--yes]"),
    Wrong(
        "/forget apples --force",
        "/forget has no option '--force', only --preview and --yes; as a part of CRITERIA, put it in quotes: "
        '"--force"',
    ),
    Wrong("/forget \t ", "CRITERIA is missing; usage: /forget CRITERIA... [--preview] [--yes]"),
    Wrong("/cancel", f"{NO_PLANNING}"),
    Wrong("/cancel all", "unexpected argument 'all'; usage: /cancel [-- REASON]"),
    Wrong("/cancel", f"{NO_PLANNING}", "empty"),
    Wrong("/agree", "OFFER is missing; usage: /agree OFFER [RANGES...]"),
    Wrong("/agree yes", "OFFER must be a number, not 'yes'; for example /agree 12"),
    Wrong("/agree 20", f"offer 20 {NO_OFFER}{ANEW}", PLANNING),
    Wrong("/agree 20", f"offer 20 is not open. {ANEW}"),
    Wrong("/fork", f"{NO_FORK}", PLANNING),
    Wrong("/fork A", f"{NO_FORK}", PLANNING),
    # Words of other programs, and options without values
    Wrong("/drop 1", "there is no command /drop; did you mean /context drop? /help lists the commands"),
    Wrong("/rollback", "there is no command /rollback; did you mean /rewind? /help lists the commands"),
    Wrong("/export --to", "--to needs a value after it; a word that is no option goes in quotes"),
    Wrong(
        "/export --to markdown a.md",
        "unexpected argument 'a.md': --to takes a format or a file, as in --to notes.md; quote a name with spaces",
    ),
    # Summaries and pins
    Wrong("/summarize NOPE", "there is no mark 'NOPE'; marks: A"),
    Wrong("/summarize A B", "unexpected argument 'B'; usage: /summarize [MARK] [--preview] [-- REASON]"),
    Wrong("/summarize a", "there is no mark 'a'; marks: A"),
    Wrong("/pin", "GID is missing; usage: /pin GID [-- REASON]"),
    Wrong("/pin x", "GID must be a number, not 'x'; for example /pin 12"),
    Wrong("/pin -1", "GID must be a number, not '-1'; for example /pin 1"),
    Wrong("/pin 1 5", "unexpected argument '5'; usage: /pin GID [-- REASON]"),
    Wrong("/pin 1", "turn 1 is already pinned; pinned: 1"),
    Wrong("/pin 0", f"turn 0 {NEWEST}"),
    Wrong("/pin 2", f"turn 2 {NEWEST}"),
    Wrong("/pin 5", f"turn 5 {NEWEST}"),
    Wrong("/pin 8", f"turn 8 {NEWEST}"),
    Wrong("/pin 16", f"turn 16 {NEWEST}"),
    Wrong("/pin 999", f"turn 999 {NEWEST}"),
    Wrong(
        "/pin 99999999999999999999999999999999999999999999999",
        "GID must be a number, not '9999999999999999999999999999999999999999'; for example /pin 12",
    ),
    Wrong("/unpin", "GID is missing; usage: /unpin GID [-- REASON]"),
    Wrong("/unpin A", "GID must be a number, not 'A'; for example /unpin 12"),
    Wrong("/unpin 8", "turn 8 is not pinned; pinned: 1"),
    Wrong("/unpin 999", "turn 999 is not pinned; pinned: 1"),
    Wrong("/summarize", "there is nothing to summarize", "empty"),
    Wrong("/pin 1", "turn 1 is not in the context; the context is empty", "empty"),
    Wrong("/unpin 1", "turn 1 is not pinned; no turn is pinned yet. `/pin GID` pins one", "empty"),
    Wrong("/pin 8", "turn 8 is not in the context; newest turns: 22", CHILD),
    # Explaining, the past, the window
    Wrong("/context explain", "ID is missing; usage: /context explain ID"),
    Wrong("/context explain x", "ID must be a number, not 'x'; for example /context explain 12"),
    Wrong("/context explain 0", f"there is no event 0; {NO_EVENT}"),
    Wrong("/context explain 99", f"there is no event 99; {NO_EVENT}"),
    Wrong("/context explain 9223372036854775808", f"there is no event 9223372036854775808; {NO_EVENT}"),
    Wrong("/context explain 1 2", "unexpected argument '2'; usage: /context explain ID"),
    Wrong("/context explain #1", "ID must be a number, not '#1'; for example /context explain 1"),
    Wrong("/context at", "ID is missing; usage: /context at ID"),
    Wrong("/context at now", "ID must be a number, not 'now'; for example /context at 12"),
    Wrong("/context at 0", "there is no event 0; events are numbered from 1"),
    Wrong("/context at 99", "there is no event 99 of this agent yet; its newest is 15"),
    Wrong("/context at 16", "there is no event 16 of this agent yet; its newest is 15"),
    Wrong("/context at 1 2", "unexpected argument '2'; usage: /context at ID"),
    Wrong("/context diff", "ID is missing; usage: /context diff ID [ID2]"),
    Wrong("/context diff 1 2 3", "unexpected argument '3'; usage: /context diff ID [ID2]"),
    Wrong("/context diff a", "ID must be a number, not 'a'; for example /context diff 12"),
    Wrong("/context diff 1 b", "ID2 must be a number, not 'b'; for example /context diff 4 12"),
    Wrong("/context diff 0", "there is no event 0; events are numbered from 1"),
    Wrong("/context diff 1 99", "there is no event 99 of this agent yet; its newest is 15"),
    Wrong("/context diff 99 1", "there is no event 99 of this agent yet; its newest is 15"),
    Wrong("/context window", "N is missing; usage: /context window N"),
    Wrong("/context window all", f"N {A_NUMBER}, not 'all'; for example 20"),
    Wrong("/context window -1", f"N {A_NUMBER}, not '-1'; for example 20"),
    Wrong("/context window 1.5", f"N {A_NUMBER}, not '1.5'; did you mean 1?"),
    Wrong("/context window 10000000000", f"N {A_NUMBER}, not '10000000000'; for example 20"),
    Wrong("/context window 5 turns", "unexpected argument 'turns'; usage: /context window N"),
    Wrong("/context window ٣", f"N {A_NUMBER}, not '٣'; did you mean 3?"),
    Wrong("/context budget", "TOKENS is missing; usage: /context budget TOKENS"),
    Wrong("/context budget 100K", f"TOKENS {A_NUMBER}, not '100K'; did you mean 100000?"),
    Wrong("/context budget 1e5", f"TOKENS {A_NUMBER}, not '1e5'; did you mean 100000?"),
    Wrong("/context budget -5", f"TOKENS {A_NUMBER}, not '-5'; for example 100000"),
    Wrong("/context budget 200,000", f"TOKENS {A_NUMBER}, not '200,000'; did you mean 200000?"),
    Wrong(
        "/context budget 9999999999999999999999", f"TOKENS {A_NUMBER}, not '9999999999999999999999'; for example 100000"
    ),
    Wrong("/context rebuild now", "unexpected argument 'now'; usage: /context rebuild"),
    Wrong("/context explain 99", f"there is no event 99; {NO_EVENT}", "empty"),
    Wrong("/context at 1", "there is no event 1 of this agent yet; its newest is 0", "empty"),
    Wrong("/context diff 1", "there is no event 1 of this agent yet; its newest is 0", "empty"),
    Wrong("/context at 1", "this agent was born with event 14, after event 1", CHILD),
    Wrong("/context at 13", "this agent was born with event 14, after event 13", CHILD),
    Wrong("/context at 24", "there is no event 24 of this agent yet; its newest is 23", CHILD),
    Wrong("/context diff 1", "this agent was born with event 14, after event 1", CHILD),
    Wrong("/context rebuild x", "unexpected argument 'x'; usage: /context rebuild", CHILD),
    # Turns and notes
    Wrong("/message", f"{MESSAGE}"),
    Wrong("/message nope", f"{MESSAGE}"),
    Wrong("/messages", f"{MESSAGE}"),
    Wrong("/message list x", "N must be a number, not 'x'; for example /message list 12"),
    Wrong("/message list 0", "N is the number of turns to list, from 1; without it the newest 10 are listed"),
    Wrong("/message list 1 2", "unexpected argument '2'; usage: /message list [N]"),
    Wrong("/message list -3", "N must be a number, not '-3'; for example /message list 3"),
    Wrong("/message show", "GID is missing; usage: /message show GID"),
    Wrong("/message show x", "GID must be a number, not 'x'; for example /message show 12"),
    Wrong("/message show 2", "there is no turn 2 in this conversation; event 2 belongs to turn 1"),
    Wrong("/message show 4", f"there is no turn 4 {NO_TURN}"),
    Wrong("/message show 5", f"turn 5 {ERASED}"),
    Wrong("/message show 16", f"there is no turn 16 {NO_TURN}"),
    Wrong("/message show 999", f"there is no turn 999 {NO_TURN}"),
    Wrong("/message show 1 2", "unexpected argument '2'; usage: /message show GID"),
    Wrong("/message remove", "GID is missing; usage: /message remove GID [--yes] [-- REASON]"),
    Wrong("/message remove --yes", "GID is missing; usage: /message remove GID [--yes] [-- REASON]"),
    Wrong("/message remove x --yes", "GID must be a number, not 'x'; for example /message remove 12"),
    Wrong(
        "/message remove 1",
        f"{QUESTION} Nothing was changed; repeat with --yes to do it.",
    ),
    Wrong("/message remove 5", f"turn 5 {ERASED}"),
    Wrong("/message remove 5 --yes", f"turn 5 {ERASED}"),
    Wrong("/message remove 6 --yes", f"turn 5 {ERASED}"),
    Wrong("/message remove 16 --yes", f"there is no turn 16 {NO_TURN}"),
    Wrong("/message remove 999", f"there is no turn 999 {NO_TURN}"),
    Wrong("/message remove 0 --yes", f"there is no turn 0 {NO_TURN}"),
    Wrong("/message remove 1 5 --yes", "unexpected argument '5'; usage: /message remove GID [--yes] [-- REASON]"),
    Wrong("/message remove 1 --no", "unexpected argument '--no'; usage: /message remove GID [--yes] [-- REASON]"),
    Wrong("/message remove 1 -y", "unexpected argument '-y'; usage: /message remove GID [--yes] [-- REASON]"),
    Wrong("/message remove 1 --yes=1", "unexpected argument '--yes=1'; usage: /message remove GID [--yes] [-- REASON]"),
    Wrong("/message delete 1", f"{MESSAGE}"),
    Wrong("/note", "TEXT is missing; usage: /note TEXT..."),
    Wrong("/note  ", "TEXT is missing; usage: /note TEXT..."),
    Wrong("/message show 1", f"there is no turn 1 {NO_TURN}", "empty"),
    Wrong("/message remove 1 --yes", f"there is no turn 1 {NO_TURN}", "empty"),
    Wrong("/message show 1", f"there is no turn 1 {NO_TURN}", CHILD),
    Wrong("/message remove 1 --yes", f"there is no turn 1 {NO_TURN}", CHILD),
    Wrong("/message remove 5 --yes", f"turn 5 {ERASED}", CHILD),
    Wrong("/message show 8", f"there is no turn 8 {NO_TURN}", CHILD),
    # State and scratchpad
    Wrong("/state now", "unexpected argument 'now'; usage: /state [--all]"),
    Wrong("/scratchpad show", "unexpected argument 'show'; usage: /scratchpad"),
    Wrong("/scratchpad read it", "unexpected argument 'it'; usage: /scratchpad read"),
    Wrong("/scratchpad clear all", "unexpected argument 'all'; usage: /scratchpad clear"),
    Wrong("/session scratchpad nope", "unexpected argument 'nope'; usage: /scratchpad"),
    # Settings
    Wrong("/config", "/config needs one of: get, set"),
    Wrong("/config list", "/config needs one of: get, set"),
    Wrong("/config get nope", f"there is no setting 'nope'; available: {SETTINGS}"),
    Wrong("/config get window size", "unexpected argument 'size'; usage: /config get [KEY]"),
    Wrong("/config set", "KEY=VALUE is missing; usage: /config set KEY=VALUE..."),
    Wrong(
        "/config set context_size",
        "'context_size' has no '='; usage: /config set KEY=VALUE. `/config get` lists the keys",
    ),
    Wrong("/config set nope=1", f"there is no setting 'nope'; available: {SETTINGS}"),
    Wrong("/config set =1", f"there is no setting ''; available: {SETTINGS}"),
    Wrong("/config set context_size=", f"context_size {A_NUMBER}, not ''; for example 0"),
    Wrong("/config set context_size=many", f"context_size {A_NUMBER}, not 'many'; for example 0"),
    Wrong("/config set context_size=-1", f"context_size {A_NUMBER}, not '-1'; for example 0"),
    Wrong(
        "/config set sliding_context_low_water=2",
        "sliding_context_low_water must be a share above 0 and up to 1, not '2'; for example 0.75",
    ),
    Wrong(
        "/config set sliding_context_low_water=nan",
        "sliding_context_low_water must be a share above 0 and up to 1, not 'nan'; for example 0.75",
    ),
    Wrong(
        "/config set sliding_context_low_water=0",
        "sliding_context_low_water must be a share above 0 and up to 1, not '0'; for example 0.75",
    ),
    Wrong("/config set truncate_shape=middle", "truncate_shape must be one of head, head-tail, not 'middle'"),
    Wrong("/config set truncation=yes", "truncation must be one of on, off, not 'yes'; did you mean on?"),
    Wrong("/config set truncation=True", "truncation must be one of on, off, not 'True'; did you mean on?"),
    Wrong("/config set isolation=1", "isolation must be one of on, off, not '1'"),
    Wrong(
        "/config set model=gpt-5",
        "a model must be 'offline' or PROVIDER/MODEL, not 'gpt-5'; did you mean openai/gpt-5?",
    ),
    Wrong(
        "/config set context_size 5",
        "'context_size 5' has no '='; did you mean context_size=5?",
    ),
    Wrong("/model gpt-5", "a model must be 'offline' or PROVIDER/MODEL, not 'gpt-5'; did you mean openai/gpt-5?"),
    Wrong("/model openai", "a model must be 'offline' or PROVIDER/MODEL, not 'openai'; did you mean openai/gpt-…?"),
    Wrong("/model openai/", "a model must be 'offline' or PROVIDER/MODEL, not 'openai/'; did you mean openai/gpt-…?"),
    Wrong("/model openai gpt-5", "unexpected argument 'gpt-5'; usage: /model [NAME] [--preview]"),
    Wrong(
        "/model OpenAI/gpt-5",
        "a model must be 'offline' or PROVIDER/MODEL, not 'OpenAI/gpt-5'; did you mean openai/gpt-5?",
    ),
    Wrong("/system prompt", "unexpected argument 'prompt'; usage: /system"),
    # Restoring
    Wrong("/restore 11 13", "unexpected argument '13'; usage: /restore [ID] [--preview] [-- REASON]"),
    Wrong("/restore A", "ID must be a number, not 'A'; for example /restore 12"),
    Wrong("/restore 5", f"event 5 is a user, not an operation; {IN_FORCE}"),
    Wrong("/restore 6", f"event 6 is a assistant, not an operation; {IN_FORCE}"),
    Wrong("/restore 12", f"a redact cannot be taken back; {IN_FORCE}"),
    Wrong("/restore 14", f"a fork cannot be taken back; {IN_FORCE}"),
    Wrong("/restore 21", f"event 21 belongs to another agent; {IN_FORCE}"),
    Wrong("/restore 10", f"event 10 is a turn ended, not an operation; {IN_FORCE}"),
    Wrong("/restore 1", "event 1 belongs to another agent; no operation is in force", "empty"),
    Wrong("/restore 21", "event 21 is a command, not an operation; no operation is in force", PLANNING),
    Wrong("/restore 20", "event 20 is a user, not an operation; no operation is in force", PLANNING),
    Wrong("/restore 14", "event 14 belongs to another agent; no operation is in force", CHILD),
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database that has the turns 1, 5 and 8. The list below shows all ids and kinds."""
    folder = tmp_path_factory.mktemp("prepared")
    ids = iter(
        [
            *("0aaaaaaa-0000-4000-8000-000000000000", CHILD, "0bbbbbbb-0000-4000-8000-000000000000"),
            *("0ccccccc-0000-4000-8000-000000000000", "0ddddddd-0000-4000-8000-000000000000"),
        ]
    )
    with foldmark.open(folder / "log.db") as log:
        log.new_id = lambda: next(ids)
        log.clock = lambda: "2026-03-04T05:06:07.000000Z"
        agent = log.agent("default")
        agent.append("user", "question one")
        agent.append("assistant", "answer one")
        agent.end_turn()
        agent.do("/mark A")
        for text in ("question two", "question three"):
            agent.append("user", text)
            agent.append("assistant", f"answer to {text}")
            agent.end_turn()
        for line in ("/pin 1", "/message remove 5 --yes", "/context drop 8", "/fork A", "/context window 3"):
            agent.do(line)
        other = log.agent("other")
        other.append("user", "elsewhere")
        other.end_turn()
        planning = log.agent(PLANNING)
        planning.append("user", "about apples")
        planning.end_turn()
        planning.do("/forget the apples of my eye", asking=IN_CHAT)
        log.agent("empty")
        log.agent(CHILD).append("assistant", "I wait.")  # otherwise a chat would start the fork
        log.agent(CHILD).end_turn()
        kinds = [f"{event.id} {event.kind}" for event in events(log)]
        assert kinds == [
            *("1 user", "2 assistant", "3 turn_ended", "4 mark", "5 user", "6 assistant", "7 turn_ended", "8 user"),
            *("9 assistant", "10 turn_ended", "11 pin", "12 redact", "13 drop", "14 fork", "15 config", "16 user"),
            *("17 turn_ended", "18 user", "19 turn_ended", "20 user", "21 command", "22 assistant", "23 turn_ended"),
        ]
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path, db: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `prepared` as the working folder, with its log.db as the database."""
    folder = tmp_path / "folder"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FOLDMARK_DB", str(folder / "log.db"))
    return folder


def test_there_are_enough_rows() -> None:
    assert len(TABLE) >= 80
    assert len({(wrong.name, wrong.line) for wrong in TABLE}) == len(TABLE)


CHATS = ["default", "empty", PLANNING]
"""A chat goes through all rows of these conversations. The command line goes through some of them."""
IN_CHATS = [wrong for wrong in TABLE if wrong.name in CHATS]
ROWS = [*sampled(IN_CHATS, 40), *(wrong for wrong in TABLE if wrong not in IN_CHATS)]


@pytest.mark.parametrize("wrong", ROWS, ids=lambda wrong: f"{wrong.name[:8]} {ascii(wrong.line)[1:-1]}")
def test_the_whole_line_and_nothing_written(cli: Cli, folder: Path, wrong: Wrong) -> None:
    before = files(folder)
    done = cli("do", wrong.name, wrong.line)
    assert done.err == f"foldmark: {wrong.message}\n"
    assert (done.code, done.out) == (2, "")
    assert files(folder) == before


@pytest.mark.parametrize("name", CHATS)
def test_the_same_in_the_chat(cli: Cli, folder: Path, name: str) -> None:
    """The chat prints the same lines in the same order, writes nothing, and continues."""
    wrongs = [wrong for wrong in TABLE if wrong.name == name]
    before = files(folder)
    talk = cli("chat", name, stdin="\n".join(wrong.line for wrong in wrongs))
    assert talk.err.splitlines() == [f"foldmark: {wrong.message}" for wrong in wrongs]
    assert talk.code == 2
    assert files(folder) == before


@pytest.mark.parametrize("wrong", sampled(TABLE[::19], 4), ids=lambda wrong: wrong.line)
def test_as_a_program(program: Cli, folder: Path, wrong: Wrong) -> None:
    before = files(folder)
    done = program("do", wrong.name, wrong.line)
    assert done.err == f"foldmark: {wrong.message}\n"
    assert (done.code, done.out) == (2, "")
    assert files(folder) == before


@pytest.mark.parametrize("line", ["/system edit", "/scratchpad edit"])
def test_an_editor_needs_a_terminal(cli: Cli, folder: Path, line: str) -> None:
    before = files(folder)
    talk = cli("chat", stdin=line)
    assert talk.err == "foldmark: an editor needs a terminal; give the text with the command instead\n"
    assert talk.code == 1
    assert files(folder) == before


@pytest.mark.parametrize("line", ["/system edit", "/scratchpad edit"])
def test_an_editor_needs_a_terminal_outside_the_chat_too(cli: Cli, folder: Path, line: str) -> None:
    done = cli("do", "default", line)
    assert done.err == "foldmark: an editor needs a terminal; give the text with the command instead\n"
    assert done.code == 1


@pytest.mark.parametrize("line", ["/context window {}", "/context budget {}", "/config set truncate_recent={}"])
@pytest.mark.parametrize("number", ["0" * 5000, "0" * 4000 + "9" * 400], ids=["zeros", "nines"])
def test_numbers_with_many_digits(cli: Cli, folder: Path, line: str, number: str) -> None:
    done = cli("do", "default", line.format(number))
    assert "Traceback" not in done.err
    assert done.code in (0, 2)


@pytest.mark.parametrize("answer", ["n\n", "\n", "no\n", "yes please\n", CTRL_D, "/help\n"])
def test_a_no_erases_nothing(terminal: Callable[..., Terminal], folder: Path, answer: str) -> None:
    with foldmark.open("log.db") as log:
        before = [(event.kind, event.content) for event in events(log)]
    with terminal("do", "default", "/message remove 1") as screen:
        screen.until(f"{QUESTION} [y/N] ")
        screen.type(answer)
        screen.until("foldmark: not confirmed; nothing was changed\n")
        assert screen.end() == 2
    with foldmark.open("log.db") as log:
        assert [(event.kind, event.content) for event in events(log)] == before


@pytest.mark.parametrize("answer", ["y\n", "YES\n", " yes \n"])
def test_a_yes_erases(terminal: Callable[..., Terminal], folder: Path, answer: str) -> None:
    with terminal("do", "default", "/message remove 1") as screen:
        screen.until(f"{QUESTION} [y/N] ")
        screen.type(answer)
        screen.until("Turn 1 erased. Scratchpads, memos, mail and summaries were not searched.\n")
        assert re.search(
            r"event \d+ · 2 messages \(~6 recorded tokens\) left · context 2 → 0 messages", screen.until("tokens)\n")
        )
        assert screen.end() == 0
    raw = (folder / "log.db").read_bytes()
    assert b"question one" not in raw
    assert b"elsewhere" in raw


def test_a_question_in_the_chat(terminal: Callable[..., Terminal], folder: Path) -> None:
    with terminal("chat", "default") as screen:
        screen.until("> ")
        screen.type("/message remove 1\n")
        screen.until("This cannot be taken back. [y/N] ")
        screen.type("n\n")
        screen.until("foldmark: not confirmed; nothing was changed\n> ")
        screen.type("/message remove 1 --yes\n")
        screen.until("Turn 1 erased.")
        screen.type("/exit\n")
        assert screen.end() == 2


def test_json_never_asks(cli: Cli, terminal: Callable[..., Terminal], folder: Path) -> None:
    with terminal("do", "default", "/message remove 1", "--json") as screen:
        screen.until("Nothing was changed; repeat with --yes to do it.\n")
        assert screen.end() == 2
    assert cli("do", "default", "/message show 1").code == 0
