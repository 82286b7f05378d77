"""The command line (SPEC 9): the output of each command, its form, and the exit code."""

import json
import re
import subprocess
import sys
from importlib.resources import files as resources
from pathlib import Path

import apsw
import pytest
from command_line import PROGRAM, Cli, events

import foldmark
import forked
from foldmark.core import selections
from foldmark.core.events import KINDS
from patience import LIMIT
from sampled import DEEP
from stored import stored

SAMPLE = str(resources("foldmark") / "samples" / "notes-cli.jsonl")
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x00\x08\r\x7f\u202egpj.exe\u2066 end"


@pytest.fixture
def agent(log: foldmark.Log) -> foldmark.Agent:
    """A conversation with two turns and a mark between them. The second turn has a call and its result."""
    agent = log.agent("default")
    agent.append("user", "What shall we build?")
    agent.append("assistant", "A kite.\nOr a boat: 船.")
    agent.end_turn()
    agent.do("/mark BEFORE")
    agent.append("user", "Look for wood.")
    agent.append_tool_call("ls", {"path": "shed"}, call_id="c1")
    agent.append_tool_result("c1", "oak\nash\n" * 20)
    agent.end_turn()
    return agent


def sql(path: str, statement: str) -> None:
    with apsw.Connection(path) as connection:
        connection.execute(statement)
    connection.close()


def rows(path: str) -> list[object]:
    """Return all rows of the log proper, without derived tables."""
    with apsw.Connection(path) as connection:
        found = [list(connection.execute(f"SELECT * FROM {table}")) for table in ("agents", "events")]
    connection.close()
    return [*found]


# do


def test_do_prints_the_text_and_a_receipt(cli: Cli, agent: foldmark.Agent) -> None:
    before = agent.context().size
    done = cli("do", "default", "/rewind BEFORE")
    after = agent.context().size
    assert (done.code, done.err) == (0, "")
    left = before.messages - after.messages, before.tokens - after.tokens
    assert done.lines == [
        "Rewound to 'BEFORE'.",
        (
            f"  event 9 · {left[0]} messages (~{left[1]} recorded tokens) left · "
            f"context {before.messages} → {after.messages} messages (~{after.tokens} recorded tokens) · /restore 9"
        ),
    ]


def test_do_accepts_a_command_as_separate_words(cli: Cli, agent: foldmark.Agent) -> None:
    assert cli("do", "default", "/mark", "X").lines[0] == "Checkpoint 'X' created."
    assert cli("do", "default", "/mark X").lines[0] == "Checkpoint 'X' moved."
    assert cli("do", "default", "/context", "drop", "1").lines[0] == "Turn 1 left the context."
    assert cli("do", "default", "/restore 11").lines[0] == "Operation 11 taken back."
    assert agent.context().marks == {"BEFORE": 4, "X": 10}


def test_do_keeps_the_words_of_the_shell_together_where_a_name_is_one_word(cli: Cli, agent: foldmark.Agent) -> None:
    agent.log.agent("my talk")
    for words in (("/send", "my talk", "look at this"), ("/send", '"my talk"', "look", "at this")):
        assert cli("do", "default", *words).out.startswith("Sent to ")
    renamed = cli("do", "default", "/rename", "our talk")
    assert renamed.out == "Conversation 'default' is now named 'our talk'.\n"
    assert cli("do", "our talk", "/rename", "default").code == 0
    assert cli("do", "default", "/note", "two  words", "and more").code == 0
    assert agent.context().messages[-1].content == "two  words and more"


def test_do_accepts_a_reason(cli: Cli, agent: foldmark.Agent) -> None:
    """A `--` on the shell's command line belongs to the chat command, quoted or not."""
    words = cli("do", "default", "/context", "drop", "1", "--", "wrong", "file")
    assert words.lines[1].endswith(" · reason: wrong file · /restore 9")
    quoted = cli("do", "default", "/restore 9 -- it was right", "--json")
    assert json.loads(quoted.out)["data"]["reason"] == "it was right"
    assert [event.reason for event in selections.operations(stored(agent.log), agent.id)][-2:] == [
        "wrong file",
        "it was right",
    ]
    assert cli("do", "--", "default", "/undo").lines[0] == "Turn 5 left the context."


def test_do_as_json(cli: Cli, agent: foldmark.Agent) -> None:
    done = cli("do", "default", "/context drop 1", "--json")
    result = json.loads(done.out)
    assert (result["event_id"], result["text"]) == (9, "Turn 1 left the context.")
    data = result["data"]
    assert (data["operation"], data["actor"], data["turn"]) == ("drop", "human", 1)
    assert [data[size]["messages"] for size in ("before", "after", "left", "returned")] == [5, 3, 2, 0]
    assert json.loads(cli("do", "--json", "default", "/fork BEFORE").out)["data"]["child"] == agent.children[0].id
    assert json.loads(cli("do", "default", "/help", "--json").out)["event_id"] is None


def test_do_finds_an_agent_by_uuid_and_by_its_beginning(cli: Cli, agent: foldmark.Agent) -> None:
    for name in (agent.id, agent.id[:8], agent.id.upper()):
        assert cli("do", name, "/mark").code == 0
    assert list(agent.context().marks) == ["BEFORE", "mark-1", "mark-2", "mark-3"]


# context show


def test_context_show_as_text(cli: Cli, agent: foldmark.Agent) -> None:
    shown = cli("context", "show", "default")
    assert (shown.code, shown.err) == (0, "")
    for message in agent.context().messages:
        (line,) = [line for line in shown.lines if re.match(rf" +{message.id} ", line)]
        assert line.split()[1].rstrip(":") == message.kind
        assert message.content.split("\n")[0] in line
    assert "Turn 1 " in shown.out
    assert "Turn 5 " in shown.out
    assert shown.out.index("A kite.") < shown.out.index("mark BEFORE") < shown.out.index("Look for wood.")
    assert shown.lines[-1] == "Context: 2K/200K tokens (1%) ⚪"
    assert "ls(" in shown.out
    assert shown.out.rstrip("\n") == cli("do", "default", "/context show").out.rstrip("\n")


def test_context_show_as_json(cli: Cli, agent: foldmark.Agent) -> None:
    agent.append("user", "Third.\x1b[31m 中文", data={"k": [1, {"x": None}]})
    shown = cli("context", "show", "default", "--json")
    assert (shown.code, shown.err) == (0, "")
    result = json.loads(shown.out)
    assert set(result) == {"text", "event_id", "data"}
    data = result["data"]
    context = agent.context()
    messages = [message for turn in data["turns"] for message in turn["messages"]]
    assert [(m["id"], m["kind"], m["role"], m["content"]) for m in messages] == [
        (m.id, m.kind, m.role, m.content) for m in context.messages
    ]
    assert {m["kind"] for m in messages} <= KINDS
    assert messages[-1]["data"] == {"k": [1, {"x": None}]}
    assert data["marks"] == context.marks == {"BEFORE": 4}
    assert data["size"] == {"messages": 6, "tokens": context.size.tokens}
    assert data["agent"] == agent.id
    assert [tuple(segment.values()) for segment in data["segments"]] == [tuple(s) for s in context.segments]


def test_context_show_of_nothing(cli: Cli, log: foldmark.Log) -> None:
    log.agent("new")
    shown = cli("context", "show", "new")
    assert shown.code == 0
    assert "Context: 0 messages" in shown.lines[0]
    assert shown.lines[-1] == "Context: 2K/200K tokens (1%) ⚪"
    assert json.loads(cli("context", "show", "new", "--json").out)["data"]["turns"] == []


def test_reading_writes_nothing(cli: Cli, db: str, agent: foldmark.Agent) -> None:
    agent.log.close()
    before = Path(db).read_bytes()
    for words in (("context", "show", "default"), ("do", "default", "/help"), ("doctor",), ("do", "default", "/exit")):
        assert cli(*words).code == 0
    assert Path(db).read_bytes() == before
    assert sorted(path.name for path in Path(db).parent.glob("log.db*")) == ["log.db"]


# doctor


def test_doctor_finds_nothing(cli: Cli, db: str, agent: foldmark.Agent) -> None:
    agent.do("/fork")
    found = cli("doctor")
    assert (found.code, found.lines[-1], found.err) == (0, f"{db}: 2 agents, all is well", "")
    told = json.loads(cli("doctor", "--json").out)
    assert {"database": db, "agents": 2, "findings": []}.items() <= told.items()


@pytest.mark.parametrize(
    "body",
    [
        "nonsense",
        "[]",
        "swapped",
    ],
)
def test_doctor_mends_stored_segments(cli: Cli, db: str, agent: foldmark.Agent, body: str) -> None:
    agent.do("/context drop 1")
    context = [message.id for message in agent.context().messages]
    if body == "swapped":
        other = agent.log.agent("other")
        other.do("/mark ELSEWHERE")
        sql(db, "UPDATE folds SET body = (SELECT body FROM folds WHERE agent = 2) WHERE agent = 1")
    else:
        sql(db, f"UPDATE folds SET body = '{body}' WHERE agent = 1")
    found = cli("doctor")
    assert found.code == 1
    assert "1 fault" in found.lines[-1]
    (finding,) = json.loads(cli("doctor", "--json").out)["findings"]
    assert finding["repaired"] is False
    assert finding["text"] == found.lines[-2]
    mended = cli("doctor", "--repair")
    assert mended.code == 0
    assert mended.lines[0] == f"{finding['text']} (repaired)"
    assert "all is well" in mended.lines[-1]
    assert cli("doctor").code == 0
    with foldmark.open(db) as again:
        assert [message.id for message in again.agent("default").context().messages] == context


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE events SET nth = nth + 1 WHERE id = 5",
        "UPDATE events SET sum = sum + 1 WHERE id = 5",
        "UPDATE events SET tokens = tokens + 1 WHERE id = 5",
        "UPDATE agents SET head = head + 1",
        "UPDATE agents SET messages = messages - 1",
    ],
)
def test_doctor_reports_what_it_cannot_mend(cli: Cli, db: str, agent: foldmark.Agent, damage: str) -> None:
    agent.log.close()
    sql(db, damage)
    before = rows(db)
    found = cli("doctor")
    assert (found.code, found.err) == (1, "")
    assert "fault" in found.lines[-1]
    assert len(found.lines) > 1
    assert "Traceback" not in found.out
    assert cli("doctor", "--repair").code == 1
    assert rows(db) == before


# import


def test_import_as_text(cli: Cli, db: str) -> None:
    before = Path(SAMPLE).read_bytes()
    done = cli("import", SAMPLE, "--as", "notes")
    assert (done.code, done.err) == (0, "")
    with foldmark.open(db) as log:
        agent = log.agent("notes")
        recorded = [event for event in events(log) if event.role]
        prompts = sum(event.kind == "user" for event in recorded)
        turns = len({event.turn_id for event in recorded})
    assert done.lines[0] == f"Read {len(before.splitlines()):,} lines:"
    assert f"Conversation 'notes': {turns} turns ({prompts} user, " in done.out
    assert Path(SAMPLE).read_bytes() == before
    assert agent.name == "notes"


def test_import_as_json_takes_its_name_from_the_file(cli: Cli, log: foldmark.Log) -> None:
    done = cli("import", SAMPLE, "--json")
    report = json.loads(done.out)
    assert report["conversation"] == "notes-cli"
    agent = log.agent("notes-cli")
    assert report["agent"] == agent.id
    assert sum(report["messages"].values()) == len([event for event in events(log) if event.role])
    assert sum(report["records"].values()) + len(report["broken"]) <= report["lines"]
    assert report["broken"] == []


def test_import_names_broken_lines(cli: Cli, db: str) -> None:
    record = '{"type":"user","uuid":"u1","message":{"role":"user","content":"hello"}}'
    Path("broken.jsonl").write_text(f"{record}\n" + "{oops \x1b[31m\n" * 15)
    done = cli("import", "broken.jsonl")
    assert (done.code, done.err) == (0, "")
    assert "15 broken lines skipped" in done.out
    assert sum(line.startswith("    line ") for line in done.lines) == 10
    assert "5 more" in done.out
    assert not STEERING.search(done.out)
    broken = json.loads(cli("import", "broken.jsonl", "--as", "again", "--json").out)["broken"]
    assert [each["line"] for each in broken] == list(range(2, 17))


# Version, help and the location of the database


def test_version(cli: Cli) -> None:
    assert cli("--version").out == f"foldmark, version {foldmark.__version__}\n"


def test_help_names_every_command(cli: Cli) -> None:
    shown = cli("--help")
    assert shown.code == 0
    for name in ("chat", "context", "demo", "do", "doctor", "import", "--db", "FOLDMARK_DB"):
        assert name in shown.out
    assert cli("-h").out == shown.out
    for words in (("chat",), ("do",), ("context",), ("context", "show"), ("import",), ("doctor",), ("demo",)):
        assert cli(*words, "--help").out.startswith(f"Usage: foldmark {' '.join(words)}")
    assert list(Path("..").glob("data")) == []


def test_a_group_has_its_own_commands_only(cli: Cli) -> None:
    assert "\n  show " in cli("context", "--help").out
    assert "backup" not in cli("context", "--help").out
    assert cli("context", "backup", "copy.db").code == 2
    assert not Path("copy.db").exists()


def test_the_list_of_commands_has_whole_sentences(cli: Cli) -> None:
    listed = cli("--help").out.partition("Start here:\n")[2].splitlines()
    commands = [line for line in listed if line.startswith("  ")]
    assert len(commands) > 20
    assert [line for line in commands if not line.endswith(".")] + [line for line in commands if "..." in line] == []


def test_the_help_of_uninstall_says_what_it_removes(cli: Cli) -> None:
    assert "Install" not in cli("uninstall", "--help").out


def test_db_wins_over_the_environment(cli: Cli, db: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    assert cli("--db", other, "chat", "here").code == 0
    assert not Path(db).exists()
    assert cli("chat", "there").code == 0
    assert cli("--db", other, "do", "here", "/mark").code == 0
    assert cli("--db", other, "do", "there", "/mark").code == 2
    assert cli("do", "there", "/mark").code == 0


@pytest.mark.parametrize("named", ["FOLDMARK_DB", "--db", "--db="])
def test_a_tilde_in_the_name_of_the_database_is_the_home_folder(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    """A shell leaves it as it is in quotes, behind `--db=`, and in files of variables."""
    (tmp_path / "home").mkdir()
    Path("~").mkdir()
    words = {"--db": ["--db", "~/x.db"], "--db=": ["--db=~/x.db"]}.get(named, [])
    if not words:
        monkeypatch.setenv(named, "~/x.db")
    assert cli(*words, "chat", "here", stdin="hello\n").code == 0
    assert (tmp_path / "home" / "x.db").is_file()
    assert cli(*words, "doctor").lines[-1] == f"{tmp_path}/home/x.db: 1 agent, all is well"
    assert cli("copy", "~/x.db", "~/y.db").code == 0
    assert (tmp_path / "home" / "y.db").is_file()
    assert list(Path("~").iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="XDG_DATA_HOME")
def test_the_data_folder_is_made_when_needed(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data" / "foldmark" / "foldmark.db"
    refused = cli("do", "default", "/mark")
    assert refused.code == 1
    assert str(path) in refused.err
    assert not (tmp_path / "data").exists()
    monkeypatch.setenv("FOLDMARK_DB", "")
    assert cli("chat", stdin="hello\n").code == 0
    assert path.is_file()
    assert cli("import", SAMPLE).code == 0
    assert cli("doctor").lines[-1] == f"{path}: 2 agents, all is well"


# The destination of output


@pytest.mark.parametrize(
    "words", [("context", "show", "notes-cli"), ("context", "show", "notes-cli", "--json"), ("-h",)]
)
def test_a_reader_that_has_enough(cli: Cli, db: str, words: tuple[str, ...]) -> None:
    """A reader may close the pipe early, as in `foldmark … | head -1`."""
    cli("import", SAMPLE)
    with forked.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(LIMIT) == 0


def test_a_folder_that_was_removed(program: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    wrong = program("install", "claude")
    assert (wrong.code, wrong.out) == (1, "")
    assert wrong.err == "foldmark: the working folder was removed; change to another one, then repeat\n"


LOCALES = [
    {"LC_ALL": "C"},
    {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"PYTHONIOENCODING": "latin-1:strict"},
]


@pytest.mark.parametrize("locale", LOCALES, ids=lambda locale: "-".join(locale.values()))
def test_a_locale_without_unicode(
    program: Cli, log: foldmark.Log, monkeypatch: pytest.MonkeyPatch, locale: dict[str, str]
) -> None:
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    talk = program("chat", stdin="wörld 你好 \U0001f600\n/mark ünï\n/rewind ö\n")
    assert talk.code == 2
    assert "Traceback" not in talk.err
    assert talk.err.count("\n") == 1
    agent = log.agent("default")
    assert agent.context().messages[0].content == "wörld 你好 \U0001f600"
    assert list(agent.context().marks) == ["ünï"]
    shows = [("context", "show", "default"), ("context", "show", "default", "--json")]
    for words in shows if DEEP else {1: shows[:1], 3: shows[1:]}.get(LOCALES.index(locale), []):
        shown = program(*words)
        assert (shown.code, shown.err) == (0, "")


@pytest.mark.parametrize("no_color", ["", "1"])
def test_contents_do_not_steer_the_terminal(
    cli: Cli, log: foldmark.Log, monkeypatch: pytest.MonkeyPatch, no_color: str
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    agent = log.agent("default")
    agent.append("user", HOSTILE)
    agent.append("assistant", HOSTILE)
    agent.append_tool_call(HOSTILE, {HOSTILE: HOSTILE}, call_id=HOSTILE)
    agent.append_tool_result(HOSTILE, HOSTILE)
    agent.append("assistant", "", data={"blocks": [{"type": HOSTILE}]})
    agent.record("state", HOSTILE)
    agent.record("scratchpad", HOSTILE)
    agent.end_turn()
    for shown in (
        cli("context", "show", "default"),
        cli("do", "default", "/context show"),
        cli("chat", stdin=f"{HOSTILE}\n/context show\n/mark {HOSTILE}\n/{HOSTILE}\n".encode()),
        cli("chat", f"x{HOSTILE}"),
        cli("do", HOSTILE, "/mark"),
        cli("do", "default", f"/{HOSTILE}"),
        cli(HOSTILE),
        cli("doctor", HOSTILE),
        cli(f"--{HOSTILE}"),
        cli("import", f"x{HOSTILE}".replace("\0", "")),
        cli("--db", f"x{HOSTILE}/y".replace("\0", ""), "doctor"),
    ):
        assert not STEERING.search(shown.out)
        assert not STEERING.search(shown.err)
        assert "owned" in shown.out + shown.err


def test_json_does_not_steer_the_terminal_and_loses_nothing(cli: Cli, log: foldmark.Log) -> None:
    log.agent("default").append("user", HOSTILE)
    shown = cli("context", "show", "default", "--json")
    assert json.loads(shown.out)["data"]["turns"][0]["messages"][0]["content"] == HOSTILE
    assert not STEERING.search(shown.out)


def test_a_path_does_not_steer_the_terminal(cli: Cli, tmp_path: Path) -> None:
    path = str(tmp_path / "a\x1b[31m.db")
    cli("--db", path, "chat")
    assert not STEERING.search(cli("--db", path, "doctor").out)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [("do", "default", "/help"), ("--help",), ("--version",), ("chat",), ("demo",)])
def test_output_that_cannot_be_written(program: Cli, agent: foldmark.Agent, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = program(*words, stdin="hello\n", stdout=full)
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("foldmark: No space left on device")
    assert "Traceback" not in done.err


CLOSED = [("chat", "<&-"), ("do", ">&-"), ("chat", "2>&-"), ("do", "<&-"), ("chat", ">&-"), ("do", "2>&-")]


@pytest.mark.parametrize(("command", "stream"), CLOSED if DEEP else CLOSED[:3])
def test_a_closed_stream(program: Cli, agent: foldmark.Agent, command: str, stream: str) -> None:
    words = {"chat": ("chat",), "do": ("do", "default", "/mark")}[command]
    done = program(*words, start=("sh", "-c", f'exec "$@" {stream}', "sh"))
    assert "Traceback" not in done.err
