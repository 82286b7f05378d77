"""Appends under load: 8 processes, each with 50 agents, against the same statements by the bare driver.

Three contestants take turns of some seconds each, on one server or in one folder: `Agent.append` of a message of 400
characters, for all agents of a process in turn; the statements that such an append sends, by the bare driver, on a
database with the same tables; and a plain INSERT in its own transaction into one table without an index. All have the
same number of processes, and each process works on rows that no other one touches.

ADDRESS is `sqlite` (a file in a temporary folder) or the postgresql:// address of a server on which databases can be
created. Exit code 1 if an append failed, or if Foldmark has less than half of the appends per second of the same
statements.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import apsw

import foldmark
from foldmark.core.codec import checksum, count_tokens, timestamp
from foldmark.stores.queries import queries
from foldmark.stores.sqlite.file import open_file, place_of

LEAST = 0.5
CONTESTANTS = ("foldmark", "same statements", "plain INSERT")
TEXT = "The parser reads a line, decides which of the open blocks it continues and closes the others. " * 4
COLUMNS = (
    *("id", "agent", "turn", "kind", "dialect", "actor", "created_at", "interrupted", "call_id", "answers", "apart"),
    *("replayed", "tokens", "nth", "sum", "content", "data", "checksum"),
)
Append = Callable[[], object]


class Place(NamedTuple):
    """The target of a contestant's appends; `agents` is the number of agents of one process."""

    address: str
    process: int
    agents: int

    @property
    def names(self) -> list[str]:
        """The conversations of this process."""
        return [f"{self.process}-{number}" for number in range(self.agents)]


def event(id: int, key: int, messages: int, tokens: int, turn: int | None) -> tuple[Any, ...]:
    """Return the row of a message as Foldmark records it."""
    fixed = (id, key, turn or id, "user", "openai", "human", timestamp(datetime.now(UTC)), 0)
    checked = (*fixed, None, None)
    added = count_tokens(TEXT, None)
    check = checksum(checked, TEXT, None)
    return (*checked, None, 0, added, messages + 1, tokens + added, TEXT, None, check)


@contextmanager
def through_foldmark(place: Place) -> Iterator[Append]:
    with foldmark.open(place.address, settings={}) as log:
        agents = _turns([log.agent(name) for name in place.names])
        yield lambda: next(agents).append("user", TEXT)


# SQLite


@contextmanager
def sqlite_bare(place: Place) -> Iterator[Append]:
    sql, db = queries("sqlite"), open_file(place.address, True, place_of(place.address))
    keys = iter(
        _turns([key for name in place.names for (key,) in db.execute("SELECT key FROM agents WHERE name = ?", (name,))])
    )
    run = db.cursor().execute

    def append() -> None:
        key = next(keys)
        run("BEGIN IMMEDIATE")
        _, _, turn, messages, tokens, calls, *_, newest = next(run(sql["position"], (key,)))
        row = event(id := (newest or 0) + 1, key, messages, tokens, turn)
        run(sql["append"], row)
        run(sql["index"], (id, id, None))
        run(sql["advance"], (id, id, turn or id, messages + 1, tokens + row[12], calls, key))
        run("COMMIT")

    yield append
    db.close()


@contextmanager
def sqlite_plain(place: Place) -> Iterator[Append]:
    db = apsw.Connection(place.address)
    db.set_busy_timeout(10_000)
    db.execute("PRAGMA synchronous = FULL")
    insert = f"INSERT INTO plain VALUES (NULL, {', '.join('?' * (len(COLUMNS) - 1))})"
    yield lambda: db.execute(insert, event(1, place.process, 1, 1, 1)[1:])
    db.close()


def sqlite_made(folder: Path, processes: int, agents: int) -> dict[str, str]:
    """Create a database for each contestant. Return their addresses."""
    found = {name: str(folder / f"{number}.db") for number, name in enumerate(CONTESTANTS)}
    make_agents([found[name] for name in CONTESTANTS[:2]], processes, agents)
    db = apsw.Connection(found["plain INSERT"])
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"CREATE TABLE plain ({', '.join(COLUMNS).replace('id,', 'id INTEGER PRIMARY KEY,', 1)})")
    db.close()
    return found


# PostgreSQL


@contextmanager
def postgres_bare(place: Place) -> Iterator[Append]:
    import psycopg

    from foldmark.stores.postgres.address import Address
    from foldmark.stores.postgres.appender import message_words
    from foldmark.stores.postgres.connection import STATEMENTS, Ints, Pool, Texts

    db = Pool(Address(place.address)).connect()  # with the same settings and the same form of values
    found = db.execute("SELECT root FROM agents WHERE name = ANY($1)", (Texts(place.names),)).fetchall()
    roots = _turns([root for (root,) in found])
    columns = STATEMENTS["append"].names

    def run(name: str, bindings: dict[str, Any]) -> psycopg.Cursor[Any]:
        return db.execute(STATEMENTS[name].sql, STATEMENTS[name].bound(bindings))

    words = message_words("user", TEXT, None)
    assert words is not None
    index = {"lengths": Ints([words.length]), "words": Texts([words.words])}

    def append() -> None:
        root = next(roots)
        with db.pipeline():
            db.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
            lock = run("lock", {"root": root})
        _, _, turn, messages, tokens, calls, *_ = row = next(lock)
        id, last, stamp, memos = row[11:15]
        made = dict(zip(COLUMNS, event(id, root, messages, tokens, turn), strict=True))
        made |= {"tool": None, "planning": 0, "stateful": 0}
        bound = {name: Texts([each]) if name in _TEXTS else Ints([each]) for name, each in made.items()}
        after = {
            "head": id,
            "last": id,
            "open_turn": turn or id,
            "messages": messages + 1,
            "tokens": tokens + made["tokens"],
        }
        after |= {"run": calls, "newest_turn": turn or id, "newest_kind": "user"}
        after |= {"next_id": id + 1, "last_id": last, "stamp": stamp, "memos": memos}
        with db.pipeline():
            run("append", {name: {"root": root, "stamp": stamp, **bound}[name] for name in columns})
            run("index_words", {"root": root, "ids": Ints([id]), **index})
            run("advance_root", {"root": root, **after})
            db.execute("COMMIT")

    yield append
    db.close()


@contextmanager
def postgres_plain(place: Place) -> Iterator[Append]:
    import psycopg

    db = psycopg.connect(place.address, autocommit=True, prepare_threshold=0)
    insert = f"INSERT INTO plain ({', '.join(COLUMNS[1:])}) VALUES ({', '.join(['%s'] * (len(COLUMNS) - 1))})"
    yield lambda: db.execute(insert, event(1, place.process, 1, 1, 1)[1:])
    db.close()


_TEXTS = frozenset(("kind", "dialect", "actor", "created_at", "call_id", "content", "data", "tool"))


def postgres_made(server: str, processes: int, agents: int) -> dict[str, str]:
    """Create a database for each contestant on a server. Return their addresses."""
    import psycopg

    where, _, rest = server.partition("?")
    found = {}
    with psycopg.connect(server, autocommit=True) as db:
        for number, name in enumerate(CONTESTANTS):
            db.execute(f"DROP DATABASE IF EXISTS foldmark_load_{number}")
            db.execute(f"CREATE DATABASE foldmark_load_{number}")
            found[name] = f"{where.rpartition('/')[0]}/foldmark_load_{number}?{rest}"
    make_agents([found[name] for name in CONTESTANTS[:2]], processes, agents)
    types = (
        dict.fromkeys(COLUMNS, "bigint")
        | dict.fromkeys(_TEXTS & set(COLUMNS), "text")
        | {"id": "bigserial PRIMARY KEY"}
    )
    with psycopg.connect(found["plain INSERT"], autocommit=True) as db:
        db.execute(f"CREATE TABLE plain ({', '.join(f'{name} {types[name]}' for name in COLUMNS)})")
    return found


def make_agents(addresses: Iterable[str], processes: int, agents: int) -> None:
    """Create the databases with all conversations."""
    for address in addresses:
        with foldmark.open(address, settings={}) as log:
            for process in range(processes):
                for name in Place("", process, agents).names:
                    log.agent(name)


OPENERS = {
    "sqlite": dict(zip(CONTESTANTS, (through_foldmark, sqlite_bare, sqlite_plain), strict=True)),
    "postgresql": dict(zip(CONTESTANTS, (through_foldmark, postgres_bare, postgres_plain), strict=True)),
}


def _turns(each: list[Any]) -> Iterator[Any]:
    """Yield these things in turn, endlessly."""
    while True:
        yield from each


# The contest


def work(kind: str, name: str, place: Place, there: Any) -> None:
    """Run a process of one contestant: append for the requested number of seconds, and report the time of each
    append."""
    with OPENERS[kind][name](place) as append:
        for _ in range(place.agents):
            append()
        there.send("ready")
        while seconds := there.recv():
            times, errors, now = list[float](), list[str](), time.perf_counter()
            until = now + seconds
            while now < until:
                began = now
                try:
                    append()
                except Exception as error:
                    errors.append(f"{type(error).__name__}: {error}")
                times.append((now := time.perf_counter()) - began)
            there.send((times, errors))


class Figures(NamedTuple):
    """The results of a contestant."""

    seconds: float
    appends: int
    per_second: float
    median: float
    p99: float
    longest: float
    errors: list[str]


def contest(kind: str, addresses: dict[str, str], options: argparse.Namespace) -> dict[str, Figures]:
    """Run the contestants in turn."""
    context = get_context("spawn")
    processes: dict[str, list[Any]] = {name: [] for name in CONTESTANTS}
    for name in CONTESTANTS:
        for number in range(options.processes):
            here, there = context.Pipe()
            place = Place(addresses[name], number, options.agents)
            context.Process(target=work, args=(kind, name, place, there), daemon=True).start()
            there.close()
            processes[name].append(here)
        for here in processes[name]:
            assert here.recv() == "ready"
    times: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    errors: dict[str, list[str]] = {name: [] for name in CONTESTANTS}
    seconds = dict.fromkeys(CONTESTANTS, 0.0)
    for _ in range(options.rounds):
        for name in CONTESTANTS:
            share = options.seconds / options.rounds * (1 if name == "foldmark" else options.beside)
            began = time.perf_counter()
            for here in processes[name]:
                here.send(share)
            for here in processes[name]:
                found = here.recv()
                times[name] += found[0]
                errors[name] += found[1]
            seconds[name] += time.perf_counter() - began
    for each in processes.values():
        for here in each:
            here.send(0)
    return {name: _figures(seconds[name], sorted(times[name]), errors[name]) for name in CONTESTANTS}


def _figures(seconds: float, times: list[float], errors: list[str]) -> Figures:
    count = len(times) - len(errors)
    p99, longest = times[int(len(times) * 0.99)], times[-1]
    return Figures(seconds, count, count / seconds, statistics.median(times), p99, longest, errors)


def table(figures: dict[str, Figures]) -> list[str]:
    """Return the figures as lines of a Markdown table."""
    rows = [
        "| | seconds | appends/s | median | p99 | longest | errors |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, each in figures.items():
        spans = " | ".join(f"{seconds * 1000:,.1f} ms" for seconds in (each.median, each.p99, each.longest))
        rows.append(f"| {name} | {each.seconds:,.0f} | {each.per_second:,.0f} | {spans} | {len(each.errors)} |")
    return rows


def main() -> int:
    """Measure and print. Return 1 if something failed or Foldmark is too slow."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("address", nargs="?", default="sqlite", help="`sqlite`, or postgresql://… of a server")
    parser.add_argument("--seconds", type=float, default=30, help="how long Foldmark appends")
    parser.add_argument("--beside", type=float, default=0.4, help="share of these seconds for each of the others")
    parser.add_argument("--rounds", type=int, default=5, help="how often they take turns")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--agents", type=int, default=50, help="conversations of each process")
    parser.add_argument("--folder", help="where to make the temporary folder")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        kind, numbers = options.address.partition(":")[0], (options.processes, options.agents)
        made = sqlite_made(Path(folder), *numbers) if kind == "sqlite" else postgres_made(options.address, *numbers)
        figures = contest(kind, made, options)
    ratio = figures["foldmark"].per_second / figures["same statements"].per_second
    errors = [error for each in figures.values() for error in each.errors]
    if options.json:
        told = {name: each._asdict() for name, each in figures.items()}
        print(json.dumps({"figures": told, "ratio": ratio, "table": table(figures)}))
    else:
        print("\n".join([*table(figures), "", *errors[:5]]))
        print(
            f"Foldmark has {ratio:.2f} times the appends per second of the same statements; at least {LEAST} is wanted."
        )
    return 1 if errors or ratio < LEAST else 0


if __name__ == "__main__":
    sys.exit(main())
