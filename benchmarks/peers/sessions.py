"""Sessions of a coding agent: trimming, importing, indexing and searching them, by whole commands.

A trimmed session counts only if the real client resumes it and a provider accepts what it sends.
"""

import json
import os
import shutil
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import foldmark
from commands import QUERIES, generated
from peers.adapter import ADAPTERS, Adapter, PeerError
from peers.environments import ROOT
from peers.report import Cell, Failure, Ratio, Section, Table
from peers.runs import Run

PEERS = ("claude-code-tools", "claude-code-log", "cozempic")

OFFLINE = {"COZEMPIC_NO_TELEMETRY": "1", "COZEMPIC_NO_AUTO_UPDATE": "1", "COZEMPIC_NO_GLOBAL_INIT": "1"}
"""Cozempic counts its users and updates itself; these are its own switches."""

BYTES_A_TOKEN = 3
"""A plain measure for texts that are compared with each other; no tokenizer of these models is public."""

REMARKS = (
    "cozempic runs with its own switches against counting its users, updating itself and installing hooks.",
    (
        "`foldmark trim` also archives the whole session; no other program here keeps more than a copy beside it, if"
        " that. Without options it cuts the results of `Read`, `Bash`, `Grep` and `Glob`, the deep profile those of all"
        " tools, as aichat does."
    ),
    (
        "The registries have no episodic-memory: npm does not have it, and the package of that name on PyPI is another"
        " program, of 2018. `aichat search` needs a program that only crates.io has; the row in its place asks the"
        " index that `aichat build-index` made through the package's own class. claude-code-log searches in a web page"
        " only."
    ),
)

ORIGINS = {
    "episodic-memory": "obra/episodic-memory",
    "agentcmd": "jnarowski/agentcmd",
    "traceforge": "dfinson/traceforge",
    "claude-code-log": "daaain/claude-code-log",
}
"""Where public recordings come from, by the beginnings of their files' names."""

GOAL_SECONDS = 15.0
"""Of the processor, for the import of 100 MB."""

FLOOR = """
import json, sys
for path in sys.argv[1:]:
    for line in open(path, "rb"):
        try:
            json.loads(line)
        except ValueError:
            pass
"""
"""Reads every line of every file, which no import can do without."""

TANTIVY = """
import sys
from pathlib import Path
from claude_code_tools.search_index import SessionIndex
for hit in SessionIndex(Path.home() / ".cctools" / "search-index").search(sys.argv[1], limit=10):
    print(hit["session_id"], hit.get("snippet", ""))
"""

ABOUT = """\
Each figure is that of whole commands, as a person types them, and sums up all sessions: user and system time of the
processor, time by the clock, and the largest peak of memory; a peak below that of the small process that starts the
commands is not seen. The commands take turns in rounds; the first round is not counted, and the median of the others
stands here. The made sessions are those of `benchmarks/commands.py`.

**Trim.** Each program gets a copy of each session. What it leaves is resumed by the real Claude Code (`claude --resume
FILE -p PROMPT`) against a server on the loopback interface. It refuses what the Messages API refuses, and also thinking
whose text no longer belongs to its signature. *Accepted* counts the sessions whose first request passes. Tokens stand
there in three ways: as the client sends them and along the chain of `parentUuid` from the last message, both at 3 bytes
a token, and as Foldmark counts them for the context of an import. *Prompts and answers* is the part of the texts of
people and model that the request still holds, word for word.

**Import and index.** `foldmark import` makes conversations that can be edited and sent; `foldmark sync` archives and
indexes. claude-code-log makes HTML pages and its cache, `aichat build-index` an index of one document a session. The
floor reads each line with Python's `json.loads`.

**Search.** One question a command, over the index of all these sessions.
"""


@dataclass
class Used:
    """What the commands of one program used, round by round: seconds of the processor and of the clock, peaks in MB."""

    processor: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    memory: float = 0.0

    def add(self, commands: Sequence[dict[str, Any]]) -> None:
        """Count the commands of one round."""
        self.processor.append(sum(each["processor"] for each in commands))
        self.wall.append(sum(each["wall"] for each in commands))
        self.memory = max(self.memory, *(each["memory"] for each in commands))

    @property
    def seconds(self) -> float:
        """Median time of the processor."""
        return statistics.median(self.processor)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The figures of a table, or none if nothing was measured."""
        return (self.seconds, statistics.median(self.wall), self.memory) if self.processor else (None, None, None)


_ARGUMENTS = (
    "aichat cuts long arguments of every call to 500 characters. A deep trim of Foldmark cuts arguments only where a"
    " later call made them stale: the newest ones say what a file holds. In the made sessions a call of any tool may"
    " have a long argument."
)

COLUMNS = ("processor, s", "clock, s", "memory, MB")


@dataclass(frozen=True)
class Program:
    """A command of one program; `words` makes it for a file, or for a question."""

    name: str
    peer: str
    """As in peers.toml; empty for Foldmark and for what comes with the system."""
    words: Callable[["Commands", str], list[str]]

    @property
    def ours(self) -> bool:
        """Whether this is Foldmark."""
        return self.name.startswith("foldmark")


class Commands:
    """Runs the commands of one program in its environment, with a home of its own."""

    def __init__(self, run: Run, peer: str, stack: ExitStack) -> None:
        """Start the small process that runs them."""
        self.pinned = run.peers[peer] if peer else None
        self.adapter = stack.enter_context(Adapter("sessions_commands.py", self.pinned, **OFFLINE))
        self.home = Path(self.adapter.home.name)
        self.projects = self.home / ".claude" / "projects" / "-work-app"
        """Where Claude Code keeps the sessions of a folder."""
        self.projects.mkdir(parents=True)

    def path(self, name: str) -> str:
        """Return a command that the peer, or Foldmark, installs."""
        return str(self.pinned.command(name) if self.pinned else Path(sys.executable).parent / name)

    def run(self, words: Sequence[str], seconds: float = 120) -> dict[str, Any]:
        """Run a command; see the adapter."""
        return dict(self.adapter.ask("run", words=list(words), seconds=seconds))


def _foldmark_trim(*options: str) -> Callable[[Commands, str], list[str]]:
    return lambda at, file: [at.path("foldmark"), "trim", file, *options]


def _cozempic(prescription: str) -> Callable[[Commands, str], list[str]]:
    return lambda at, file: [at.path("cozempic"), "treat", file, "-rx", prescription, "--execute"]


TRIMS = (
    Program("bare copy", "", lambda at, file: ["cp", file, f"{file}.copy"]),
    Program("foldmark trim", "", _foldmark_trim()),
    Program("foldmark trim --profile deep", "", _foldmark_trim("--profile", "deep")),
    Program("aichat trim", "claude-code-tools", lambda at, file: [at.path("aichat"), "trim", file, "--simple-ui"]),
    *(Program(f"cozempic {name}", "cozempic", _cozempic(name)) for name in ("gentle", "standard", "aggressive")),
)


@dataclass
class Trimmed:
    """What a program made of each session, and what that took."""

    used: Used = field(default_factory=Used)
    files: dict[Path, Path] = field(default_factory=dict)
    """By the session; the last round's."""
    failed: Failure | None = None


@dataclass(frozen=True)
class Sent:
    """What the client sent of the sessions that a program left, beside what it sends of the untouched ones."""

    accepted: int
    recorded: float
    """Tokens of the recorded sessions."""
    made: float
    kept: float
    """The part of the prompts and answers."""


def measure(run: Run) -> Section:
    """Return the section."""
    section = Section("sessions", "Sessions of coding agents", ABOUT)
    with tempfile.TemporaryDirectory(prefix="sessions-") as folder, ExitStack() as stack:
        place = Path(folder)
        sessions = list(_sessions(run, place / "sessions"))
        large = generated(place / "large.jsonl", 500, 9, size=10_000_000 if run.quick else 100_000_000)
        at = {name: Commands(run, name, stack) for name in ("", *PEERS) if not name or name in run.peers}
        least = _least(at[""], place)
        _trim(run, section, at, sessions, place)
        _trim_large(run, section, at, large, place)
        _import(run, section, at, sessions, large, least)
        _search(run, section, at, sessions, least)
        size, recorded = sum(path.stat().st_size for path in sessions) / 1e6, sum(map(_is_recorded, sessions))
    section.remarks += [
        f"Sessions: {len(sessions)} of {size:.1f} MB, {recorded} of them recorded by Claude Code{_origins(sessions)}."
        if recorded
        else f"Sessions: {len(sessions)} of {size:.1f} MB, all made. Recorded ones were not given (`DATA=FOLDER`).",
        (
            f"What a command takes besides its work, in seconds of the processor: an empty Python {least.python:.3f}, a"
            f" look at a session of one line with `foldmark trim` {least.trim:.3f}, its import {least.imported:.3f}, a"
            f" search without a hit {least.search:.3f}."
        ),
        *REMARKS,
    ]
    return section


def _origins(sessions: list[Path]) -> str:
    """Return where the recorded sessions come from, as far as their names say it."""
    recorded = [path.name.removeprefix("recorded-") for path in sessions if _is_recorded(path)]
    names = [origin for word, origin in ORIGINS.items() if any(name.startswith(word) for name in recorded)]
    return f" (test fixtures of {', '.join(names)}, all MIT)" if names else ""


class Least(NamedTuple):
    """Seconds of the processor that the least commands take: what any command spends besides its work."""

    python: float
    trim: float
    imported: float
    search: float


def _least(at: Commands, place: Path) -> Least:
    """Measure them; the session has one line."""
    session = generated(place / "least" / "one-line.jsonl", 500, 1, lines=1)
    foldmark = at.path("foldmark")
    _foldmark_sync(at, [session])

    def seconds(*words: str) -> float:
        return statistics.median(float(at.run(words)["processor"]) for _ in range(9))

    return Least(
        seconds(sys.executable, "-c", "pass"),
        seconds(foldmark, "trim", str(session), "--dry-run"),
        statistics.median(float(_foldmark_import(at, [session])[0]["processor"]) for _ in range(9)),
        seconds(foldmark, *MODE, "nobodywrotethis"),
    )


def _sessions(run: Run, folder: Path) -> Iterator[Path]:
    """Write the sessions, and yield them."""
    folder.mkdir()
    for path in sorted((run.data / "claude").glob("*.jsonl")) if run.data else ():
        yield Path(shutil.copyfile(path, folder / f"recorded-{path.name}"))
    for number, megabytes in enumerate((1,) if run.quick else (4, 3, 2, 2, 1)):
        yield generated(folder / f"made-{number}.jsonl", 500, number, size=megabytes << 20)


# -- Trim


def _trim(run: Run, section: Section, at: dict[str, Commands], sessions: list[Path], place: Path) -> None:
    found = {program: Trimmed() for program in TRIMS if program.peer in at}
    rounds = 1 if run.quick else 5
    for number in range(rounds + 1):
        run.say(f"trim, round {number} of {rounds}")
        for program, trimmed in found.items():
            if trimmed.failed:
                continue
            try:
                used = [_trim_once(program, at[program.peer], path, place, trimmed) for path in sessions]
            except PeerError as error:
                trimmed.failed = Failure(program.name, "trimming", str(error))
                section.failures.append(trimmed.failed)
                continue
            if number:  # the first round compiles, and fills the disk's cache
                trimmed.used.add(used)
    whole = next(iter(found))
    sent: dict[Program, Sent] = {}
    version = ""
    with _client(run) as client, run.failing(section.failures, "Claude Code", "resuming"):
        version = client.ask("version")
        run.say(f"resuming in Claude Code {version or '(not there)'}")
        if version:
            of_whole = _resumed(client, sessions, found[whole].files)
            for session, answer in zip(sessions, of_whole, strict=True):
                if answer["refused"]:
                    name = session.stem.removeprefix("recorded-")
                    section.remarks.append(f"{name} is refused as it was recorded: `{answer['refused'][:160]}`.")
            for program, trimmed in found.items():
                if not trimmed.failed:
                    answers = of_whole if program is whole else _resumed(client, sessions, trimmed.files)
                    sent[program] = _compared_with(sessions, of_whole, answers)
                    for before, after in zip(of_whole, answers, strict=True):
                        if after["refused"] and not before["refused"]:
                            section.failures.append(Failure(program.name, "being resumed", after["refused"]))
    tokens: dict[Program, tuple[float, float]] = {}
    for program, trimmed in found.items():
        if not trimmed.failed:
            with run.failing(section.failures, program.name, "being imported"):
                tokens[program] = _counted(at[""], trimmed)
    rows = [_trim_row(program, trimmed, sent, tokens, sessions) for program, trimmed in found.items()]
    checked = f"Claude Code {version}" if version else "not checked: `make clients` installs the client"
    section.tables.append(
        Table(
            "Trim",
            (
                "program",
                *COLUMNS,
                "result, MB",
                "accepted",
                "tokens sent, recorded",
                "made",
                "all along the chain",
                "as Foldmark counts",
                "prompts and answers",
            ),
            rows,
            f"Resumed by: {checked}. Tokens sent and prompts are those of the sessions that are accepted untouched.",
        )
    )
    _trim_ratios(section, found, sent, tokens, whole)


def _trim_once(program: Program, at: Commands, session: Path, place: Path, trimmed: Trimmed) -> dict[str, Any]:
    """Trim a copy of a session, and note where the result is."""
    folder = Path(tempfile.mkdtemp(dir=place))
    copy = Path(shutil.copyfile(session, folder / session.name))
    used = at.run(program.words(at, str(copy)))
    made = [path for path in folder.glob("*.jsonl") if path != copy]
    trimmed.files[session] = made[0] if made else copy
    return used


def _client(run: Run) -> Adapter:
    tests = ROOT / "tests"
    folders = [tests / name for name in ("sessions", "live", "loopback", "wire", "terminal")]
    path = os.pathsep.join(map(str, [ADAPTERS, ROOT / "src", tests, *folders]))
    return Adapter("sessions_resume.py", FOLDMARK_CLIENTS=str(run.clients), PYTHONPATH=path)


def _resumed(client: Adapter, sessions: list[Path], files: dict[Path, Path]) -> list[dict[str, Any]]:
    """Return what the client sent of each session."""
    return [client.ask("resume", session=str(files[path]), whole=str(path)) for path in sessions]


def _compared_with(sessions: list[Path], whole: list[dict[str, Any]], these: list[dict[str, Any]]) -> Sent:
    accepted, said, left = 0, 0, 0
    tokens = {True: 0.0, False: 0.0}
    for session, before, after in zip(sessions, whole, these, strict=True):
        if before["refused"]:
            continue
        accepted += not after["refused"]
        tokens[_is_recorded(session)] += after["bytes"] / BYTES_A_TOKEN
        had = Counter(map(tuple, before["said"]))
        said += had.total()
        left += (had & Counter(map(tuple, after["said"]))).total()
    return Sent(accepted, tokens[True], tokens[False], left / max(1, said))


def _is_recorded(session: Path) -> bool:
    return session.name.startswith("recorded")


def _counted(at: Commands, trimmed: Trimmed) -> tuple[float, float]:
    """Return the tokens of the sessions along their chains, and as Foldmark counts them."""
    ours = 0
    for number, path in enumerate(trimmed.files.values()):
        database = Path(tempfile.mkdtemp(dir=at.home)) / f"{number}.db"
        at.run([at.path("foldmark"), "--db", str(database), "import", str(path), "--as", "trimmed"])
        with foldmark.open(database) as log:
            ours += log.agent("trimmed").context().size.tokens
    return sum(map(_chain_bytes, trimmed.files.values())) / BYTES_A_TOKEN, ours


def _chain_bytes(session: Path) -> int:
    """Return the bytes of the contents along the chain from the last message, read as plainly as possible."""
    records: dict[str, dict[str, Any]] = {}
    last = None
    for line in session.read_bytes().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("uuid"), str):
            records[record["uuid"]] = record
            if record.get("type") in ("user", "assistant") and not record.get("isSidechain"):
                last = record["uuid"]
    size, seen = 0, set[str]()
    while last in records and last not in seen:
        seen.add(last)
        record = records[last]
        content = record["message"].get("content") if isinstance(record.get("message"), dict) else None
        size += len(json.dumps(content, ensure_ascii=False).encode(errors="replace")) if content else 0
        last = record.get("parentUuid")
    return size


def _trim_row(
    program: Program,
    trimmed: Trimmed,
    sent: dict[Program, Sent],
    tokens: dict[Program, tuple[float, float]],
    sessions: list[Path],
) -> tuple[Cell, ...]:
    if trimmed.failed:
        return (f"{program.name} (failed)", *((None,) * 10))
    size = sum(path.stat().st_size for path in trimmed.files.values()) / 1e6
    by_client: tuple[Cell, ...] = ("not checked", None, None)
    kept: Cell = None
    if program in sent:
        here = sent[program]
        by_client, kept = (f"{here.accepted} of {len(sessions)}", here.recorded, here.made), f"{here.kept:.1%}"
    chain, ours = tokens.get(program, (None, None))
    return program.name, *trimmed.used.cells, size, *by_client, chain, ours, kept


def _trim_ratios(
    section: Section,
    found: dict[Program, Trimmed],
    sent: dict[Program, Sent],
    tokens: dict[Program, tuple[float, float]],
    whole: Program,
) -> None:
    """Compare with the best peer whose results are as valid as the untouched sessions."""
    done = [program for program in tokens if program is not whole]
    valid = [p for p in done if whole not in sent or sent[p].accepted == sent[whole].accepted]
    ours, theirs = [p for p in valid if p.ours], [p for p in valid if not p.ours]
    if not ours or not theirs:
        return

    fastest = min(theirs, key=lambda p: found[p].used.seconds)
    for name, program in zip(("sessions.trim", "sessions.trim_deep"), ours, strict=False):
        section.ratios.append(
            Ratio(
                name,
                f"Trim of all sessions, processor time (`{program.name}`)",
                found[program].used.seconds,
                found[fastest].used.seconds,
                fastest.name,
                "s",
                goal=1 / 3,
            )
        )
    left: dict[str, Callable[[Program], float]] = {"all": lambda p: tokens[p][0]}
    if whole in sent:
        left = {"recorded": lambda p: sent[p].recorded, "made": lambda p: sent[p].made}
    for kind, of in left.items():
        if not of(whole):
            continue
        best, deep = min(theirs, key=of), min(ours, key=of)
        section.ratios.append(
            Ratio(
                f"sessions.trim_tokens_{kind}",
                f"Tokens taken out of the context, {kind} sessions (`{deep.name}`)",
                (1 - of(deep) / of(whole)) * 100,
                (1 - of(best) / of(whole)) * 100,
                best.name,
                "%",
                more=True,
                why=_ARGUMENTS if best.name == "aichat trim" else "",
            )
        )


def _trim_large(run: Run, section: Section, at: dict[str, Commands], large: Path, place: Path) -> None:
    """Trim one large session, which nobody resumes: it is longer than any model's window."""
    programs = [p for p in TRIMS if p.peer in at and p.name not in ("cozempic gentle", "cozempic aggressive")]
    found = {program: Trimmed() for program in programs}
    for number in range(1 if run.quick else 3):
        run.say(f"trim of a large session, round {number}")
        for program, trimmed in found.items():
            with run.failing(section.failures, program.name, "trimming a large session"):
                trimmed.used.add([_trim_once(program, at[program.peer], large, place, trimmed)])
            shutil.rmtree(trimmed.files[large].parent, ignore_errors=True)
    megabytes = large.stat().st_size / 1e6
    rows = [(program.name, *trimmed.used.cells) for program, trimmed in found.items()]
    section.tables.append(Table(f"Trim of one session of {megabytes:.0f} MB", ("program", *COLUMNS), rows))
    seconds = {program: trimmed.used.seconds for program, trimmed in found.items() if trimmed.used.processor}
    ours = next((program for program in seconds if program.ours), None)
    theirs = min((p for p in seconds if p.peer), key=lambda p: seconds[p], default=None)
    if ours and theirs:
        section.ratios.append(
            Ratio(
                "sessions.trim_large",
                f"Trim of one session of {megabytes:.0f} MB, processor time (`{ours.name}`)",
                seconds[ours],
                seconds[theirs],
                theirs.name,
                "s",
                goal=1 / 3,
            )
        )


# -- Import and index


def _import(
    run: Run, section: Section, at: dict[str, Commands], sessions: list[Path], large: Path, least: Least
) -> None:
    sets = {"all sessions": (sessions, 1 if run.quick else 3), "one large session": ([large], 1 if run.quick else 2)}
    found: dict[str, dict[str, Used]] = {name: {set_: Used() for set_ in sets} for name in IMPORTS}
    for set_, (files, rounds) in sets.items():
        for number in range(rounds + 1 if files is sessions else rounds):
            run.say(f"import of {set_}, round {number}")
            for name, (peer, import_) in IMPORTS.items():
                if peer not in at or any(f.peer == name for f in section.failures):
                    continue
                with run.failing(section.failures, name, f"importing {set_}"):
                    used = import_(at[peer], files)
                    if number or files is not sessions:
                        found[name][set_].add(used)
    megabytes = large.stat().st_size / 1e6
    rows = [(name, *(cell for set_ in sets for cell in found[name][set_].cells)) for name in IMPORTS]
    section.tables.append(
        Table(
            "Import and index",
            ("program", *COLUMNS, *(f"{megabytes:.0f} MB: {column}" for column in COLUMNS)),
            [row for row in rows if any(cell is not None for cell in row[1:])],
        )
    )
    for set_, suffix in (("all sessions", ""), ("one large session", "_large")):
        for ratio, what, ours, theirs, why in (
            (
                "sessions.import",
                "Import",
                "foldmark import",
                "claude-code-log",
                (
                    f"`foldmark import` takes one file: {len(sets[set_][0])} commands run, each of which takes"
                    f" {least.imported:.3f} s before its work; claude-code-log converts all files in one command."
                ),
            ),
            (
                "sessions.index",
                "Index",
                "foldmark sync",
                "aichat build-index",
                (
                    "`foldmark sync` archives a copy of each session and indexes every message by itself, with the"
                    " parts of names in code as words, so that a search finds the message; aichat indexes one text a"
                    " session."
                ),
            ),
        ):
            mine, other = found[ours][set_], found[theirs][set_]
            if mine.processor and other.processor:
                what = f"{what} of {set_}, processor time (`{ours}`)"
                section.ratios.append(Ratio(ratio + suffix, what, mine.seconds, other.seconds, theirs, "s", why=why))
    if times := found["foldmark import"]["one large session"].processor:
        goal = GOAL_SECONDS * megabytes / 100
        section.ratios.append(
            Ratio(
                "sessions.import_100mb",
                f"Import of a session of {megabytes:.0f} MB, processor time",
                statistics.median(times),
                goal,
                "the goal",
                "s",
                goal=1.0,
            )
        )


def _floor(at: Commands, files: list[Path]) -> list[dict[str, Any]]:
    return [at.run([sys.executable, "-c", FLOOR, *map(str, files)])]


def _foldmark_import(at: Commands, files: list[Path]) -> list[dict[str, Any]]:
    database = Path(tempfile.mkdtemp(dir=at.home)) / "log.db"
    return [at.run([at.path("foldmark"), "--db", str(database), "import", str(file)]) for file in files]


def _foldmark_sync(at: Commands, files: list[Path]) -> list[dict[str, Any]]:
    """Archive and index anew; what was there before goes."""
    shutil.rmtree(at.home / "data" / "foldmark", ignore_errors=True)
    return [at.run([at.path("foldmark"), "sync", "--quiet", *map(str, files)])]


def _aichat_index(at: Commands, files: list[Path]) -> list[dict[str, Any]]:
    _fill(at.projects, files)
    shutil.rmtree(at.home / ".cctools", ignore_errors=True)
    return [at.run([at.path("aichat"), "build-index"])]


def _claude_code_log(at: Commands, files: list[Path]) -> list[dict[str, Any]]:
    """Convert a project in a new folder: pages and cache are made anew."""
    folder = Path(tempfile.mkdtemp(dir=at.home)) / "project"
    _fill(folder, files)
    return [at.run([at.path("claude-code-log"), "convert", str(folder)], seconds=240)]


def _fill(folder: Path, files: list[Path]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in files:
        (folder / file.name).hardlink_to(file)


IMPORTS: dict[str, tuple[str, Callable[[Commands, list[Path]], list[dict[str, Any]]]]] = {
    "json.loads (floor)": ("", _floor),
    "foldmark import": ("", _foldmark_import),
    "claude-code-log": ("claude-code-log", _claude_code_log),
    "foldmark sync": ("", _foldmark_sync),
    "aichat build-index": ("claude-code-tools", _aichat_index),
}
"""By name: the peer, and what imports files there."""


# -- Search

MODE = ("search", "--mode", "text")

GREP = 'grep -rcwE "$0" "$1" || true'
"""Counts the lines with any of the words; nothing found is no failure."""


def _search(run: Run, section: Section, at: dict[str, Commands], sessions: list[Path], least: Least) -> None:
    _foldmark_sync(at[""], sessions)
    programs = [
        Program(
            "grep (floor)", "", lambda at, query: ["sh", "-c", GREP, "|".join(query.split()), str(sessions[0].parent)]
        ),
        Program("foldmark search --mode text", "", lambda at, query: [at.path("foldmark"), *MODE, query]),
    ]
    peer = "claude-code-tools"
    if peer in at:
        _aichat_index(at[peer], sessions)
        aichat = at[peer].path("aichat")
        with run.failing(section.failures, peer, "`aichat search --json --global sqlite`"):
            printed = at[peer].run([aichat, "search", "--json", "--global", "sqlite"])["printed"]
            if not printed.startswith("{"):
                raise PeerError(printed.strip().partition("\n")[0])
        programs.append(
            Program(
                "claude-code-tools, SessionIndex.search",
                peer,
                lambda at, query: [at.path("python"), "-c", TANTIVY, query],
            )
        )
    found = {program: {query: Used() for query in QUERIES} for program in programs}
    rounds = 3 if run.quick else 15
    for number in range(rounds + 1):
        for program in programs:
            for name, query in QUERIES.items():
                with run.failing(section.failures, program.name, "searching"):
                    used = at[program.peer].run(program.words(at[program.peer], query))
                    if number:
                        found[program][name].add([used])
    section.tables.append(
        Table(
            "Search, one command",
            ("program", *(f"{name}, processor s" for name in QUERIES), "clock, s", "memory, MB"),
            [
                (
                    program.name,
                    *(used.seconds if used.processor else None for used in by_query.values()),
                    max((statistics.median(used.wall) for used in by_query.values() if used.wall), default=None),
                    max(used.memory for used in by_query.values()),
                )
                for program, by_query in found.items()
            ],
            "The clock is that of the slowest of the three questions. grep counts lines in each file, Foldmark ranks"
            " messages, claude-code-tools ranks sessions.",
        )
    )
    mine, theirs = found[programs[1]], found[programs[-1]]
    if len(programs) > 2 and all(used.processor for used in (*mine.values(), *theirs.values())):
        section.ratios.append(
            Ratio(
                "sessions.search",
                "Search, processor time of a command, mean of three questions",
                statistics.mean(used.seconds for used in mine.values()),
                statistics.mean(used.seconds for used in theirs.values()),
                programs[-1].name,
                "s",
                why=f"A search without a hit takes {least.search:.3f} s, most of it the start. aichat's own command"
                " does not run here: what is measured is its index alone, without options or a look for new sessions."
                " Foldmark ranks and quotes messages, aichat ranks sessions.",
            )
        )
