"""`foldmark demo` runs, does what it says, and shows true numbers."""

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.resources import files as resources
from pathlib import Path
from shlex import quote

import pytest
from command_line import PROGRAM, Cli, Outcome, events, files

import foldmark
import forked
from foldmark.core import selections
from foldmark.log.doctor import examine
from patience import LIMIT
from stored import stored
from terminal import CTRL_D, Terminal

SAMPLE = Path(str(resources("foldmark") / "samples" / "notes-cli.jsonl"))
RECEIPT = re.compile(
    r"event (\d+)(?: · (\d+) messages \(~([\d,]+) recorded tokens\) (left|came back))? · "
    r"context (?:(\d+) → )?(\d+) messages \(~([\d,]+) recorded tokens\)"
)


def number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the one demo that the tests below look at."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def demo(place: Path) -> Outcome:
    for name in ("tmp", "work"):
        (place / name).mkdir()
    folders = {"TMPDIR": "tmp", "HOME": "home", "XDG_DATA_HOME": "data"}
    env = {name: str(place / folder) for name, folder in folders.items()}
    before = SAMPLE.stat().st_mtime_ns, SAMPLE.read_bytes()
    done = forked.run(
        [PROGRAM, "demo"],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **env},
        cwd=place / "work",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIMIT,
    )
    shown = Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert (shown.code, shown.err) == (0, "")
    assert (SAMPLE.stat().st_mtime_ns, SAMPLE.read_bytes()) == before
    return shown


@pytest.fixture
def log(demo: Outcome, place: Path, tmp_path: Path) -> Iterator[foldmark.Log]:
    """A copy of the database that the demo has created."""
    (path,) = (place / "tmp").glob("*/*.db")
    assert f"--db {quote(str(path))} " in demo.out
    with foldmark.open(str(shutil.copy(path, tmp_path)), create=False) as log:
        yield log
        assert list(examine(log)) == []


def answer(demo: Outcome, command: str) -> list[str]:
    """Return the output lines of a command shown in the demo."""
    (at,) = [at for at, line in enumerate(demo.lines) if line.startswith("$ ") and command in line]
    rest = demo.lines[at + 1 :]
    ends = (at for at, line in enumerate(rest) if re.match(r"\$ |\d+\. |What to try", line))
    return rest[: next(ends)]


def test_eleven_steps_in_order(demo: Outcome) -> None:
    steps = [int(line.partition(".")[0]) for line in demo.lines if re.match(r"\d+\. [A-Z.]", line)]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= 11
    for command in (
        "import ",
        "context show notes",
        "/context drop",
        "/mark",
        "/rewind",
        "/restore",
        "/fork",
        "doctor",
    ):
        assert any(line.startswith("$ foldmark") and command in line for line in demo.lines), command
    assert "Traceback" not in demo.out
    assert len(demo.lines) < 200


def test_it_writes_only_where_it_says(demo: Outcome, place: Path) -> None:
    assert {path.name for path in place.iterdir()} == {"tmp", "work"}
    assert [name for name in files(place / "tmp") if name.endswith(".db")]
    assert files(place / "work") == {}


def test_the_numbers_of_the_import(demo: Outcome, log: foldmark.Log) -> None:
    shown = answer(demo, "foldmark import")
    assert shown[0] == f"Read {len(SAMPLE.read_bytes().splitlines()):,} lines:"
    talked = [event for event in events(log) if "offline model" in event.content]
    first_talk = min(event.turn_id or 0 for event in talked)
    imported = [event for event in events(log) if event.role and event.id < first_talk]
    kinds = Counter(event.kind.replace("_", " ") for event in imported)
    (line,) = [line for line in shown if line.startswith("Conversation 'notes'")]
    assert f"{len({event.turn_id for event in imported})} turns" in line
    for kind, count in kinds.items():
        assert f"{count} {kind}" in line


def test_the_numbers_of_the_operations(demo: Outcome, log: foldmark.Log) -> None:
    """Each receipt names an operation, and its numbers match the log."""
    agent = log.agent("notes")
    receipts = [match for line in demo.lines if (match := RECEIPT.search(line))]
    operations = {event.id: event.kind for event in selections.operations(stored(log), agent.id)}
    assert [operations[int(receipt[1])] for receipt in receipts] == [
        "drop",
        "mark",
        "rewind",
        "restore",
        "mark",
        "fork",
    ]
    dropped, _, rewound, restored, _, forked = receipts
    turn = int(answer(demo, "/context drop")[0].split()[1])
    gone = [event for event in events(log) if event.turn_id == turn and event.role]
    assert (int(dropped[2]), number(dropped[3])) == (len(gone), sum(event.tokens for event in gone))
    assert int(dropped[5]) - int(dropped[6]) == len(gone)
    assert (rewound[2], rewound[3], rewound[4], restored[4]) == (restored[2], restored[3], "left", "came back")
    assert (rewound[5], rewound[6]) == (restored[6], restored[5])
    size = agent.context().size
    assert (int(forked[6]), number(forked[7])) == (size.messages, size.tokens)


def test_what_the_steps_leave_behind(demo: Outcome, log: foldmark.Log) -> None:
    agent = log.agent("notes")
    context = agent.context()
    assert list(context.marks) == ["BEFORE_PLUGINS", "RESEARCH"]
    prompts = [message.content for message in context.messages if message.kind == "user"]
    assert prompts[-3:] == [
        "Let us load plugins from entry points.",
        "And sandbox them in a subprocess.",
        "Find out how other note tools lock their files. Report in five lines.",
    ]
    assert not any("full-text" in prompt for prompt in prompts)
    (child,) = agent.children
    assert child.context().messages[0].content == prompts[-1]
    assert len(child.context().messages) == 2
    assert f"Forked. Child: {child.id[:8]} (from RESEARCH)" in demo.lines
    assert re.search(r"In the context there are \d{3} messages", demo.out)
    refused = answer(demo, "/clear BEFORE_PLUGIN")
    assert refused[0] == "foldmark: there is no mark 'BEFORE_PLUGIN'; marks: BEFORE_PLUGINS, RESEARCH"
    assert answer(demo, "$ foldmark doctor --repair")[0].endswith("2 agents, all is well")


def test_what_it_suggests_works(demo: Outcome, cli: Cli, log: foldmark.Log) -> None:
    path = log.store.address
    assert cli("--db", path, "context", "show", "notes", "--json").code == 0
    assert cli("--db", path, "chat", "notes", stdin="/help\nhello\n").code == 0


def test_going_on_in_the_chat(
    terminal: Callable[..., Terminal], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with terminal("demo", "--chat") as screen:
        screen.until("What to try next:")
        screen.until("messages sent, ")
        screen.until("Context: ")
        screen.until("\n> ")
        screen.type(CTRL_D)
        assert screen.end() == 0


def test_without_a_terminal_it_does_not_go_on(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert cli("demo", "--chat", stdin="hello\n").out.rstrip().endswith("a conversation of your own")
