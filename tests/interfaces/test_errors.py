"""Wrong requests (SPEC 4, 9) give one line with the error and the alternatives, an exit code, and write nothing. Every
row goes through the command line as a person would type it."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest
from command_line import Cli, events, files

import foldmark
from sampled import sampled

HELP_LISTS = "/help lists the commands"
NAMES = "; conversations: default, other, empty"
IN_FORCE = r"operations in force: 13 \(drop\), 10 \(restore\), 8 \(mark\), 4 \(mark\)"
NO_NUMBER = r"{} must be a number, not '{}'; for example /(restore|context drop) [0-9]+"
A_MARK = r"a mark's name must be 1 to 200 visible characters without white space, not {}"
A_NAME = r"invalid name {}: a conversation's name has 1 to 200 printable characters and is not a uuid"
NO_UUID = "1111aaaa-2222-3333-4444-555555555555"
HELP = r"\.? `foldmark( \w+)* --help` .*"
CHILDREN = ("abcd1111-0000-4000-8000-000000000001", "abcd2222-0000-4000-8000-000000000002")


class Wrong(NamedTuple):
    """A wrong request: the words of the command line, the message without its prefix, the exit code."""

    words: tuple[str, ...]
    message: str
    code: int = 2


def do(line: str, message: str, name: str = "default", code: int = 2) -> Wrong:
    return Wrong(("do", name, line), message, code)


COMMANDS = [
    # Unknown commands
    do("/nope", rf"there is no command /nope; did you mean /note\? {HELP_LISTS}"),
    do("/markk", rf"there is no command /markk; did you mean /mark\? {HELP_LISTS}"),
    do("/CLEAR", rf"there is no command /CLEAR; did you mean /clear\? {HELP_LISTS}"),
    do("//mark", rf"there is no command //mark; did you mean /mark\? {HELP_LISTS}"),
    do("/contxt show", rf"there is no command /contxt; did you mean /context show\? {HELP_LISTS}"),
    do("/contxt", rf"there is no command /contxt; did you mean /context\? {HELP_LISTS}"),
    do("/quit", rf"there is no command /quit; did you mean /exit\? {HELP_LISTS}"),
    do("/naïve你", rf"there is no command /naïve你; {HELP_LISTS}"),
    do(f"/{'x' * 5000}", rf"there is no command /x{{40}}; {HELP_LISTS}"),
    do("/", r"a command begins with '/'; /help lists them"),
    do("/ mark", r"a command begins with '/'; /help lists them"),
    do(
        "/context", r"/context needs one of: drop, evict, show, count, sent, explain, at, diff, rebuild, window, budget"
    ),
    do(
        "/context nope",
        r"/context needs one of: drop, evict, show, count, sent, explain, at, diff, rebuild, window, budget",
    ),
    do("/context SHOW", r"/context needs one of: drop, .*, budget; did you mean /context show\?"),
    do("/help nope", rf"there is no command /nope; did you mean /note\? {HELP_LISTS}"),
    do("/help context nope", r"/context needs one of: drop, evict, show, .*, budget"),
    # Missing and unexpected arguments
    do("/context drop", r"GID is missing; usage: /context drop GID\.\.\. \[--preview\] \[-- REASON\]"),
    do("/mark A B", r"unexpected argument 'B'; usage: /mark \[NAME\] \[-- REASON\]"),
    do("/clear A B", r"unexpected argument 'B'; usage: /clear \[MARK\|GID\] \[--preview\] \[-- REASON\]"),
    do("/rewind A B C", r"unexpected argument 'B C'; usage: /rewind \[MARK\|GID\] \[--preview\] \[-- REASON\]"),
    do("/fork A B", r"unexpected argument 'B'; usage: /fork \[MARK\|GID\] \[-- REASON\]"),
    do("/undo 1", r"unexpected argument '1'; usage: /undo \[--preview\] \[-- REASON\]"),
    do("/restore 4 8", r"unexpected argument '8'; usage: /restore \[ID\] \[--preview\] \[-- REASON\]"),
    do("/context show all", r"unexpected argument 'all'; usage: /context show"),
    do("/context drop 5 6", r"turn 6 is not in the context; newest turns: 5"),
    do("/exit now", r"unexpected argument 'now'; usage: /exit"),
    # Marks
    do("/rewind NOPE", r"there is no mark 'NOPE'; marks: A, B"),
    do("/clear NOPE", r"there is no mark 'NOPE'; marks: A, B"),
    do("/fork NOPE", r"there is no mark 'NOPE'; marks: A, B"),
    do("/rewind a", r"there is no mark 'a'; marks: A, B"),
    do("/clear ELSEWHERE", r"there is no mark 'ELSEWHERE'; marks: A, B"),
    do("/rewind A\u202e", r"there is no mark 'A\\u202e'; marks: A, B"),
    do(f"/mark {'x' * 201}", A_MARK.format("'x{40}'")),
    do("/mark \x07", A_MARK.format(r"'\\x07'")),
    do("/mark zero\u200bwidth", A_MARK.format(r"'zero\\u200bwidth'")),
    do("/mark A\u00a0B", r"unexpected argument 'B'; usage: /mark \[NAME\] \[-- REASON\]"),
    do("/rewind", r"No checkpoint yet\. Use /mark\.", "empty"),
    do("/clear A", r"there is no mark 'A'; no mark is set yet. `/mark NAME` sets one", "empty"),
    # Ids
    do("/restore x", NO_NUMBER.format("ID", "x")),
    do("/restore -1", NO_NUMBER.format("ID", "-1")),
    do("/restore +1", NO_NUMBER.format("ID", r"\+1")),
    do("/restore 1.5", NO_NUMBER.format("ID", r"1\.5")),
    do("/restore 1_0", NO_NUMBER.format("ID", "1_0")),
    do("/restore 0x4", NO_NUMBER.format("ID", "0x4")),
    do("/restore \u0664", NO_NUMBER.format("ID", "\u0664")),
    do("/restore ²", NO_NUMBER.format("ID", "²")),
    do(f"/restore {'9' * 20}", rf"(ID must be a number, not '9{{20}}'.*|there is no event 9{{20}}; {IN_FORCE})"),
    do(f"/restore {2**63}", rf".*{2**63}.*"),
    do(f"/restore {'9' * 5000}", r".*9{40}.*"),
    do("/context drop x", NO_NUMBER.format("GID", "x")),
    do("/context drop -5", NO_NUMBER.format("GID", "-5")),
    do("/context drop \u0665", NO_NUMBER.format("GID", "\u0665")),
    # Operations that cannot be undone
    do("/restore 0", rf"there is no event 0; {IN_FORCE}"),
    do("/restore 999", rf"there is no event 999; {IN_FORCE}"),
    do("/restore 999999999999999999", rf"there is no event 999999999999999999; {IN_FORCE}"),
    do("/restore 1", rf"event 1 is a user, not an operation; {IN_FORCE}"),
    do("/restore 3", rf"event 3 is a turn ended, not an operation; {IN_FORCE}"),
    do("/restore 9", rf"operation 9 was already taken back; {IN_FORCE}"),
    do("/restore 11", rf"a fork cannot be taken back; {IN_FORCE}"),
    do("/restore 16", rf"event 16 belongs to another agent; {IN_FORCE}"),
    do("/restore 4", r"event 4 belongs to another agent; no operation is in force", "empty"),
    do("/restore 4", r"event 4 belongs to another agent; no operation is in force", CHILDREN[0]),
    # Turns that are not in the context
    do("/context drop 0", r"turn 0 is not in the context; newest turns: 5"),
    do("/context drop 999", r"turn 999 is not in the context; newest turns: 5"),
    do("/context drop 999999999999999999", r"turn 9{18} is not in the context; newest turns: 5"),
    do("/context drop 1", r"turn 1 is not in the context; newest turns: 5"),
    do("/context drop 6", r"turn 6 is not in the context; newest turns: 5"),
    do("/context drop 14", r"turn 14 is not in the context; newest turns: 5"),
    do("/undo", r"there is no turn to undo: the context is empty.*", "empty"),
    do("/context drop 1", r"turn 1 is not in the context; the context is empty", "empty"),
]

LINES = [
    do("", r"a command begins with '/'; /help lists them"),
    do(" \t ", r"a command begins with '/'; /help lists them"),
    do("mark", r"a command begins with '/', as in /mark; /help lists them"),
    do("hello there", r"a command begins with '/'; /help lists them"),
]

AGENTS = [
    do("/mark", rf"there is no conversation or agent 'nope'{NAMES}", "nope"),
    do("/mark", rf"there is no conversation or agent ''{NAMES}", ""),
    do("/mark", rf"there is no conversation or agent 'DEFAULT'{NAMES}", "DEFAULT"),
    do("/mark", rf"several uuids begin with 'abcd': {CHILDREN[0]}, {CHILDREN[1]}; type more of it", "abcd"),
    do("/mark", rf"several uuids begin with 'abc': {CHILDREN[0]}, {CHILDREN[1]}; type more of it", "abc"),
    do("/mark", rf"there is no conversation or agent 'abd'{NAMES}", "abd"),
    do("/mark", rf"there is no conversation or agent 'abcd3'{NAMES}", "abcd3"),
    do("/mark", rf"there is no conversation or agent '{NO_UUID}'{NAMES}", NO_UUID),
    do("/mark", rf"there is no conversation or agent 'a\\nb'{NAMES}", "a\nb"),
    Wrong(("context", "show", "nope"), rf"there is no conversation or agent 'nope'{NAMES}"),
    Wrong(
        ("context", "show", "ABCD"), rf"several uuids begin with 'ABCD': {CHILDREN[0]}, {CHILDREN[1]}; type more of it"
    ),
    Wrong(("chat", ""), A_NAME.format("''")),
    Wrong(("chat", "  "), A_NAME.format("'  '")),
    Wrong(("chat", "a\x1bb"), A_NAME.format(r"'a\\x1bb'")),
    Wrong(("chat", "x" * 201), A_NAME.format("'x{40}'")),
    Wrong(("chat", NO_UUID), rf"there is no agent {NO_UUID}{NAMES}"),
]

USAGE = [
    Wrong(("nope",), rf"there is no command 'nope'{HELP}"),
    Wrong(("Chat",), r"there is no command 'Chat'; did you mean chat\?.*"),
    Wrong(("caht",), r"there is no command 'caht'; did you mean chat\? .*"),
    Wrong(("rewind",), r"there is no command 'rewind'; in a conversation there is /rewind: .* NAME /rewind\. .*"),
    Wrong(("/rewnd", "A"), r"there is no command '/rewnd'; in a conversation there is /rewind: .*"),
    Wrong(("mark", "A"), r"there is no command 'mark'; in a conversation there is /mark: .* NAME /mark\. .*"),
    Wrong(("compact",), r"there is no command 'compact'; in a conversation there is /summarize: .*"),
    Wrong(("sesion",), r"there is no command 'sesion'; did you mean sessions.*"),
    Wrong(("help",), rf"there is no command 'help'{HELP}"),
    Wrong(("help", "chat"), r"there is no command 'help'; that is `foldmark chat --help`\. .*"),
    Wrong(("claude",), r"there is no command 'claude'; that is `foldmark live claude`\. .*"),
    Wrong(("What is a fork?",), r"there is no command .*; to ask a model: foldmark ask default 'What is .*"),
    Wrong(("conversations", "lst"), r"there is no command 'lst'; did you mean list\? .*"),
    Wrong(("do", "/mark X"), r"Conversations: .*\. Name one before the command: .* do .* '/mark X'\. .*"),
    Wrong(("do", "--yes", "/mark", "X"), r"Conversations: .*\. Name one before .*"),
    Wrong(("search", "--limit", "ten", "x"), rf"--limit must be .* from 1 to 1,000, not 'ten'; for example 10{HELP}"),
    Wrong(("search", "-n", "-5", "x"), rf"--limit must be .* from 1 to 1,000, not '-5'; for example 10{HELP}"),
    Wrong(
        ("cost", "default", "--budget", "20k"),
        r"--budget must be .*, not '20k'; did you mean 20000\? .*",
    ),
    Wrong(("--nope",), rf"No such option '?:? ?'?--nope'?{HELP}"),
    Wrong(("--db",), r"Option '--db' requires an argument\. `foldmark --help` .*"),
    Wrong(("doctor", "--session"), r"Option '--session' requires an argument\. `foldmark doctor --help` .*"),
    Wrong(("context", "show", "x", "--json=1"), r"Option '--json' does not .*\. `foldmark context show --help` .*"),
    Wrong(("doctor", "--out", "x"), r"--out requires --session and --repair\. `foldmark doctor --help` .*"),
    Wrong(("do",), rf"Missing argument 'NAME'{HELP}"),
    Wrong(("do", "default"), rf"Missing argument 'COMMAND\.\.\.'{HELP}"),
    Wrong(("do", "default", "/mark", "--frob"), rf"No such option '?:? ?'?--frob'?{HELP}"),
    Wrong(("context", "nope"), r"there is no command 'nope'; did you mean `foldmark context show nope`\?.*"),
    Wrong(("context", "shop"), r"there is no command 'shop'; did you mean show\? `foldmark context --help` .*"),
    Wrong(("context", "show"), rf"Missing argument 'NAME'{HELP}"),
    Wrong(("context", "show", "default", "other"), rf"Got unexpected extra argument \(other\){HELP}"),
    Wrong(("context", "show", "default", "--js"), rf"No such option '?:? ?'?--js'?.*{HELP}"),
    Wrong(("chat", "a", "b"), rf"Got unexpected extra argument \(b\){HELP}"),
    Wrong(("doctor", "x"), rf"Got unexpected extra argument \(x\){HELP}"),
    Wrong(("doctor", "--json=yes"), rf"Option '--json' does not take a value{HELP}"),
    Wrong(("demo", "x"), rf"Got unexpected extra argument \(x\){HELP}"),
    Wrong(("import",), rf"Missing argument 'FILE\|ID'{HELP}"),
    Wrong(("import", "a", "b"), rf"Got unexpected extra argument \(b\){HELP}"),
    Wrong(("import", "notes.jsonl", "--as"), rf"Option '--as' requires an argument{HELP}"),
    Wrong(("import", "--frob", "x"), rf"No such option '?:? ?'?--frob'?{HELP}"),
]

NO_SESSION = r"{} is not a session of Claude Code or Codex: {}"
IMPORTS = [
    Wrong(("import", "missing.jsonl"), r"there is no file missing\.jsonl; name a session file \(\*\.jsonl\)", 1),
    Wrong(
        ("import", "no/such/folder.jsonl"),
        r"there is no file no/such/folder\.jsonl; name a session file \(\*\.jsonl\)",
        1,
    ),
    Wrong(("import", "notes.jsonl/x"), r".*notes\.jsonl/x.*", 1),
    Wrong(("import", "x\n\x1b[31m"), r"there is no file and no session 'x\\n\\x1b\[31m' \(.*", 2),
    Wrong(("import", "x" * 300), r"there is no file and no session 'x{100}' \(.*", 2),
    Wrong(("import", "."), r"\. is a folder; name a session file in it \(\*\.jsonl\)", 1),
    Wrong(("import", "/dev/null"), r"/dev/null is not a regular file; write its content to one first", 1),
    Wrong(("import", "nothing.jsonl"), NO_SESSION.format(r"nothing\.jsonl", "it is empty"), 1),
    Wrong(("import", "blank.jsonl"), NO_SESSION.format(r"blank\.jsonl", "it is empty"), 1),
    Wrong(("import", "binary"), NO_SESSION.format("binary", r"no line of it is JSON \(line 1: .*\)"), 1),
    Wrong(("import", "plain.txt"), NO_SESSION.format(r"plain\.txt", r"no line of it is JSON \(line 1: .*\)"), 1),
    Wrong(("import", "list.jsonl"), NO_SESSION.format(r"list\.jsonl", "no line of it is a JSON object"), 1),
    Wrong(("import", "notes.jsonl", "--as", "default"), r"a conversation 'default' already exists; .*"),
    Wrong(("import", "default.jsonl"), r"a conversation 'default' already exists; .*"),
    Wrong(("import", "notes.jsonl", "--as", ""), A_NAME.format("''")),
    Wrong(("import", "notes.jsonl", "--as", " "), A_NAME.format("' '")),
    Wrong(("import", "notes.jsonl", "--as", "a\x1bb"), A_NAME.format(r"'a\\x1bb'")),
    Wrong(("import", "notes.jsonl", "--as", "a\nb"), A_NAME.format(r"'a\\nb'")),
    Wrong(("import", "notes.jsonl", "--as", "x" * 201), A_NAME.format("'x{40}'")),
    Wrong(("import", "notes.jsonl", "--as", NO_UUID), rf"invalid name .{NO_UUID}.: .* not a uuid"),
    Wrong(("import", "notes.jsonl", "--as", NO_UUID.upper()), rf"invalid name .{NO_UUID.upper()}.: .* not a uuid"),
]

NOT_ONE = r"{} is not a Foldmark database\. .*; this file was not changed\."
NOT_OURS = r"{} is an SQLite database, but not Foldmark's\. .*; this file was not changed\."
NEWER = r"newer\.db was written by a newer Foldmark \(schema 999, .*\)\. .*; the database was not changed\."
READ_ONLY = r"read-only\.db is read-only: nothing was recorded\. .*"
MISSING = r"there is no database at {}\. `foldmark chat` starts one; --db names another\."
DATABASES = [
    Wrong(("--db", "plain.txt", "doctor", "--repair"), NOT_ONE.format(r"plain\.txt"), 1),
    Wrong(("--db", "plain.txt", "chat"), NOT_ONE.format(r"plain\.txt"), 1),
    Wrong(("--db", "binary", "do", "a", "/mark"), NOT_ONE.format("binary"), 1),
    Wrong(("--db", "binary", "import", "notes.jsonl"), NOT_ONE.format("binary"), 1),
    Wrong(("--db", "others.db", "chat"), NOT_OURS.format(r"others\.db"), 1),
    Wrong(("--db", "others.db", "doctor", "--repair"), NOT_OURS.format(r"others\.db"), 1),
    Wrong(("--db", "versioned.db", "chat"), NOT_OURS.format(r"versioned\.db"), 1),
    Wrong(("--db", "newer.db", "context", "show", "default"), NEWER, 1),
    Wrong(("--db", "newer.db", "chat"), NEWER, 1),
    Wrong(("--db", "read-only.db", "do", "default", "/mark"), READ_ONLY, 1),
    Wrong(("--db", "read-only.db", "chat", "new"), READ_ONLY, 1),
    Wrong(("--db", "read-only.db", "import", "notes.jsonl"), READ_ONLY, 1),
    Wrong(("--db", "damaged.db", "do", "default", "/mark"), r"damaged\.db .*(damaged|malformed).*", 1),
    Wrong(("--db", "missing/log.db", "chat"), r"there is no folder missing to put the database in\. .*", 1),
    Wrong(("--db", "missing/log.db", "import", "notes.jsonl"), r"there is no folder missing to put .*", 1),
    Wrong(("--db", "missing/log.db", "doctor", "--repair"), MISSING.format(r"missing/log\.db"), 1),
    Wrong(("--db", "plain.txt/log.db", "chat"), r"there is no folder plain\.txt .*", 1),
    Wrong(("--db", ".", "chat"), r"\. cannot be opened\. Is it a file, .*", 1),
    Wrong(("--db", ".", "doctor", "--repair"), r"\. cannot be opened\. Is it a file, .*", 1),
    Wrong(("--db", "missing.db", "do", "default", "/mark"), MISSING.format(r"missing\.db"), 1),
    Wrong(("--db", "missing.db", "context", "show", "default"), MISSING.format(r"missing\.db"), 1),
    Wrong(("--db", "missing.db", "doctor", "--repair"), MISSING.format(r"missing\.db"), 1),
    Wrong(("--db", "a\nb\x1b[31m.db", "doctor", "--repair"), MISSING.format(r"a\\nb\\x1b\[31m\.db"), 1),
    Wrong(("--db", "x" * 300, "doctor", "--repair"), r".*File name too long.*", 1),
    Wrong(
        ("--db", "postgresql://me:s3cretpw@127.0.0.1:1/x", "chat"),
        r"the connection to postgresql://me@127\.0\.0\.1:1/x failed: .*Connection refused.*",
        1,
    ),
]

TABLE = [*COMMANDS, *LINES, *AGENTS, *USAGE, *IMPORTS, *DATABASES]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database that has a history, and with many kinds of unsuitable files."""
    folder = tmp_path_factory.mktemp("prepared")
    ids = iter(["0aaaaaaa-0000-4000-8000-000000000000", *CHILDREN, "0bbbbbbb-0000-4000-8000-000000000000"])
    with foldmark.open(str(folder / "log.db")) as log:
        log.new_id = lambda: next(ids, "0ccccccc-0000-4000-8000-000000000000")
        agent = log.agent("default")
        for number, name in enumerate("AB"):
            agent.append("user", f"question {number}")
            agent.append("assistant", f"answer {number}")
            agent.end_turn()
            agent.do(f"/mark {name}")
        for line in ("/rewind A", "/restore 9", "/fork", "/fork A", "/context drop 1"):
            agent.do(line)
        other = log.agent("other")
        other.append("user", "elsewhere")
        other.end_turn()
        other.do("/mark ELSEWHERE")
        log.agent("empty")
        for child in CHILDREN:  # otherwise a chat would start the fork
            log.agent(child).append("assistant", "I wait.")
            log.agent(child).end_turn()
        assert [event.kind for event in events(log)][8:] == [
            *("rewind", "restore", "fork", "fork", "drop", "user", "turn_ended", "mark"),
            *("assistant", "turn_ended") * 2,
        ]
    whole = (folder / "log.db").read_bytes()
    assert [path.name for path in folder.iterdir()] == ["log.db"]
    for name, content in {
        "plain.txt": b"This is a text and no database, nor is it a session of any kind.\n" * 20,
        "binary": bytes(range(256)) * 20,
        "nothing.jsonl": b"",
        "blank.jsonl": b"\n  \n\r\n",
        "list.jsonl": b'[1, 2]\n"text"\n5\n',
        "notes.jsonl": b'{"type":"user","uuid":"u1","message":{"role":"user","content":"hello"}}\n',
        "default.jsonl": b'{"type":"user","uuid":"u1","message":{"role":"user","content":"hello"}}\n',
        "newer.db": whole,
        "read-only.db": whole,
        "damaged.db": whole[:5000],
    }.items():
        (folder / name).write_bytes(content)
    (folder / "read-only.db").chmod(0o444)
    for name, statement in {
        "others.db": "CREATE TABLE notes (text)",
        "versioned.db": "PRAGMA user_version = 3",
        "newer.db": "PRAGMA user_version = 999",
    }.items():
        connection = apsw.Connection(str(folder / name))
        connection.pragma("journal_mode", "delete")
        connection.execute(statement)
        connection.close()
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path, db: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `prepared` as the working folder, with its log.db as the database."""
    folder = tmp_path / "folder"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FOLDMARK_DB", str(folder / "log.db"))
    return folder


def one_line(text: str, message: str) -> None:
    """Assert that `text` is one line with this message."""
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert "Traceback" not in text
    assert re.fullmatch(f"foldmark: {message}\n", text), text


def name(wrong: Wrong) -> str:
    return ascii(" ".join(word if len(word) < 40 else f"{word[:10]}~" for word in wrong.words))[1:-1]


def test_there_are_enough_rows() -> None:
    assert len(TABLE) >= 60
    assert len({wrong.words for wrong in TABLE}) == len(TABLE)


IN_CHAT = [wrong for wrong in COMMANDS if wrong.words[1] in ("default", "empty")]
"""Rows that a chat goes through as well, all of them. The command line goes through some of them."""
ROWS = [*sampled(IN_CHAT, 20), *(wrong for wrong in TABLE if wrong not in IN_CHAT)]


@pytest.mark.parametrize("wrong", ROWS, ids=name)
def test_one_line_and_nothing_written(cli: Cli, folder: Path, wrong: Wrong) -> None:
    before = files(folder)
    done = cli(*wrong.words, stdin="hello\n" if wrong.words[-1] == "new" else "")
    one_line(done.err, wrong.message)
    assert done.code == wrong.code
    assert done.out == ""
    assert files(folder) == before


PROGRAMS = (*COMMANDS[:2], *COMMANDS[-2:], AGENTS[3], AGENTS[11], *USAGE[:2], *IMPORTS[3:5], *DATABASES[::6])


@pytest.mark.parametrize("wrong", sampled(PROGRAMS, 8), ids=name)
def test_as_a_program(program: Cli, folder: Path, wrong: Wrong) -> None:
    before = files(folder)
    done = program(*wrong.words)
    one_line(done.err, wrong.message)
    assert (done.code, done.out) == (wrong.code, "")
    assert files(folder) == before


@pytest.mark.parametrize("agent", ["default", "empty"])
def test_the_same_in_the_chat(cli: Cli, folder: Path, agent: str) -> None:
    """The chat prints the same messages in the same order, and the conversation continues."""
    wrongs = [wrong for wrong in IN_CHAT if wrong.words[1] == agent]
    before = files(folder)
    talk = cli("chat", agent, stdin="\n".join(wrong.words[2] for wrong in wrongs))
    shown = talk.err.splitlines(keepends=True)
    assert len(shown) == len(wrongs)
    for line, wrong in zip(shown, wrongs, strict=True):
        one_line(line, wrong.message)
    assert talk.code == 2
    assert files(folder) == before
    assert "I am the offline model" in cli("chat", agent, stdin="/nope\nhello\n").out


@pytest.mark.parametrize("words", [(), ("context",)], ids=["foldmark", "context"])
def test_no_command_at_all_shows_the_help(cli: Cli, folder: Path, words: tuple[str, ...]) -> None:
    before = files(folder)
    done = cli(*words)
    assert done.code == 2
    assert done.out + done.err == cli(*words, "--help").out
    assert files(folder) == before


@pytest.mark.parametrize(
    "words",
    [
        ("nope\nb",),
        ("--no\npe",),
        ("doctor", "a\nb"),
        ("chat", "x", "a\nb"),
    ],
)
def test_line_ends_in_arguments(cli: Cli, folder: Path, words: tuple[str, ...]) -> None:
    done = cli(*words)
    one_line(done.err, r".*\\n.*")
    assert done.code == 2


@pytest.mark.parametrize(
    "words",
    [
        ("do", "\udcff", "/mark"),
        ("context", "show", "\udcff"),
        ("chat", "\udcff"),
        ("--db", "\udcff", "chat"),
    ],
)
def test_arguments_that_are_not_utf8(cli: Cli, folder: Path, words: tuple[str, ...]) -> None:
    """A byte that is not UTF-8 reaches Python as a lone surrogate."""
    before = files(folder)
    done = cli(*words)
    one_line(done.err, ".+")
    assert done.code in (1, 2)
    assert files(folder) == before


@pytest.mark.parametrize(
    "words", [("import", "missing.jsonl"), ("import", "plain.txt"), ("chat", ""), ("chat", NO_UUID)]
)
def test_a_refused_beginning_makes_no_database(cli: Cli, folder: Path, words: tuple[str, ...]) -> None:
    before = files(folder)
    assert cli("--db", "fresh.db", *words).code
    assert files(folder) == before


@pytest.mark.parametrize("words", [("doctor",), ("do", "default", "/mark"), ("context", "show", "default")])
def test_an_empty_file_is_not_made_a_database_by_reading(cli: Cli, folder: Path, words: tuple[str, ...]) -> None:
    before = files(folder)
    cli("--db", "nothing.jsonl", *words)
    assert files(folder) == before


def test_a_read_only_database_can_be_read(cli: Cli, folder: Path) -> None:
    before = files(folder)
    assert cli("--db", "read-only.db", "doctor").code == 0
    assert "question 1" in cli("--db", "read-only.db", "context", "show", "default").out
    talk = cli("--db", "read-only.db", "chat", stdin="/context show\nhello\nnever\n")
    assert talk.code == 1
    one_line(talk.err, READ_ONLY)
    assert "question 1" in talk.out
    assert "> hello" in talk.out
    assert "never" not in talk.out
    assert files(folder) == before


LIMITED = """
import resource, sys
sys.dont_write_bytecode = True  # Python would cut the files short that it compiles modules into
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
sys.argv = sys.argv[2:]
from foldmark.cli import main
sys.exit(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_FSIZE")
@pytest.mark.parametrize("room", [0, 4096, 60000])
def test_a_full_disk(program: Cli, cli: Cli, folder: Path, room: int) -> None:
    with foldmark.open("log.db") as log:
        before = [(event.id, event.kind, event.content) for event in events(log)]
    text = "x" * 300_000
    talk = program("chat", stdin=f"{text}\nnever\n", start=(sys.executable, "-c", LIMITED, str(room)))
    assert talk.code == 1
    one_line(talk.err, r"\S+ (could not be written|.*disk.*full).*")
    assert "never" not in talk.out
    assert cli("doctor").code == 0
    with foldmark.open("log.db") as log:
        assert [(event.id, event.kind, event.content) for event in events(log)] == before
    assert cli("chat", stdin="hello\n").code == 0


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_FSIZE")
def test_a_full_disk_has_no_room_for_a_new_database(program: Cli, folder: Path) -> None:
    start = (sys.executable, "-c", LIMITED, "4096")
    talk = program("--db", "fresh.db", "chat", stdin="hello\n", start=start)
    assert talk.code == 1
    one_line(talk.err, r"fresh\.db (could not be written|.*disk.*full).*")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_the_output(program: Cli, folder: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = program("context", "show", "default", stdout=full)
    one_line(done.err, "No space left on device: output")
    assert done.code == 1
