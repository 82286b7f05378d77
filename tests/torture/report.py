"""Run all tortures of all stores at the requested size, and write the page with the results."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import apsw
import server_faults
from faults import Fault, clock_back, full_disk, full_files, read_only
from history import Recorded, histories
from kills import Toll, kills
from servers import Server
from writers import DONE, REFUSED, TRY

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "development" / "reliability.md"
TEMPLATE = Path(__file__).with_name("page.md")
LOAD = ROOT / "benchmarks" / "load.py"
T = TypeVar("T")

NAMES = {
    "turn": "turns",
    "message": "single messages",
    "end": "ends of turns",
    "shared": "turns in shared conversations",
    "operation": "operations",
    "fork": "forks",
    "erase": "erasures",
    "mail": "mails",
    "metadata": "usages",
    "deliver": "deliveries",
}


class Store:
    """A kind of store, with the addresses of new databases and the faults to inject besides killed writers."""

    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self.folder, self._numbers = folder, count()
        self.load = "sqlite"

    @property
    def version(self) -> str:
        """Name and version of the database software."""
        return f"SQLite {apsw.sqlite_lib_version()}"

    def fresh(self) -> str:
        """Return the address of a new database."""
        return str(self.folder / f"{next(self._numbers)}.db")

    def faults(self, seed: str) -> Iterator[Fault | None]:
        """Inject the other faults, one after the other."""
        yield full_disk(self.folder, 40, seed)
        yield full_files(self.folder, 40, seed)
        yield read_only(self.folder, seed)
        yield clock_back(self.fresh(), 40, seed)

    def close(self) -> None:
        """Release the resources of the store."""


class OnServer(Store):
    """PostgreSQL on a server started for this run."""

    name = "PostgreSQL"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = Server(folder / "server")
        self.load = self._server.address("postgres")

    @property
    def version(self) -> str:
        return self._server.version

    def fresh(self) -> str:
        return self._server.fresh()

    def faults(self, seed: str) -> Iterator[Fault | None]:
        yield server_faults.server_killed(self._server, 4, seed)
        yield server_faults.connection_cut(self._server, 60, seed)
        yield server_faults.repeated(self._server, 60, seed)
        yield server_faults.statement_timeout(self._server, 40, seed)
        yield server_faults.deadlock(self._server, 5)
        yield server_faults.full_disk(self._server, self.folder, 40, seed)
        yield server_faults.read_only(self._server, seed)
        yield clock_back(self.fresh(), 40, seed)

    def close(self) -> None:
        self._server.close()


class Found:
    """The results for one store."""

    def __init__(self, store: Store, options: argparse.Namespace) -> None:
        self.store, seed = store, options.seed
        self.version = store.version
        self.toll: Toll = timed(f"{store.name}: kills", lambda: kills(store.fresh, options.kills, seed))
        self.recorded: list[Recorded] = [
            timed(
                f"{store.name}: history {number + 1}",
                lambda: histories(store.fresh(), options.calls, options.client_kills, f"{seed}/{number}"),  # noqa: B023
            )
            for number in range(options.histories)
        ]
        self.faults = [fault for fault in timed(f"{store.name}: faults", lambda: list(store.faults(seed))) if fault]
        self.load = timed(f"{store.name}: load", lambda: load(store.load, options.seconds)) if options.seconds else None

    @property
    def wrong(self) -> list[str]:
        """All faults and errors that were found."""
        tolls = (self.toll, *(fault.toll for fault in self.faults))
        found = [text for toll in tolls for text in toll.faults]
        found += [text for recorded in self.recorded for text in recorded.faults]
        if self.load:
            found += [error for each in self.load["figures"].values() for error in each["errors"]]
        return found


def timed(what: str, act: Callable[[], T]) -> T:
    """Call `act`, print how long it took and return its result."""
    began = perf_counter()
    print(f"{what} ...", file=sys.stderr, end=" ", flush=True)
    found = act()
    print(f"{perf_counter() - began:.0f} s", file=sys.stderr)
    return found


def load(address: str, seconds: float) -> dict[str, Any]:
    """Run the load benchmark and return its figures."""
    command = [sys.executable, str(LOAD), address, "--seconds", str(seconds), "--json"]
    figures: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    return figures


# The page


def page(all_found: Sequence[Found], options: argparse.Namespace, seconds: float) -> str:
    """Return the page as Markdown."""
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    run = (
        f"- Run: {now}, {seconds / 60:.0f} minutes, seed `{options.seed}`, commit {_commit()}",
        f"- Machine: {_machine()}",
        f"- Software: Python {platform.python_version()}, {', '.join(found.version for found in all_found)}",
        f"- Result: {_result(all_found)}",
    )
    parts = {"kills": _kills, "faults": _faults, "histories": _histories, "load": _load}
    text = TEMPLATE.read_text(encoding="utf-8")
    return text.format(run="\n".join(run), **{name: "\n".join(part(all_found)) for name, part in parts.items()})


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table. Columns of numbers are aligned to the right."""
    lines = [[f"{each:,}" if isinstance(each, int) else str(each) for each in row] for row in rows]
    right = [all(cell.replace(",", "").isdigit() for cell in column) for column in zip(*lines, strict=True)]
    yield f"| {' | '.join(heads)} |"
    yield f"| {' | '.join('---:' if each else '---' for each in right)} |"
    yield from (f"| {' | '.join(line)} |" for line in lines)


def _kills(all_found: Sequence[Found]) -> Iterator[str]:
    heads = ("store", "kills", "within a call", "begun", "acknowledged", "refused", "events", "lost, torn or doubled")
    tolls = [(found.store.name, found.toll) for found in all_found]
    yield from _table(
        heads,
        [
            (name, toll.kills, toll.struck, *map(toll.said.get, (TRY, DONE, REFUSED)), toll.events, len(toll.faults))
            for name, toll in tolls
        ],
    )
    for name, toll in tolls:
        done = ", ".join(f"{number:,} {NAMES[what]}" for what, number in toll.done.most_common())
        yield from ("", f"Acknowledged on {name}: {done}.")


def _faults(all_found: Sequence[Found]) -> Iterator[str]:
    heads = ("store", "fault", "errors", "messages, three at most", "acknowledged", "lost, torn, doubled or unclear")
    return _table(
        heads,
        [
            (
                found.store.name,
                each.name,
                each.errors.total(),
                _texts(each),
                each.toll.said[DONE],
                len(each.toll.faults),
            )
            for found in all_found
            for each in found.faults
        ],
    )


def _texts(fault: Fault) -> str:
    return "<br>".join(f"`{each}`" for each, _ in fault.errors.most_common(3)) or "none"


def _histories(all_found: Sequence[Found]) -> Iterator[str]:
    heads = ("store", "histories", "calls", "carried out", "conflicts", "refused", "unknown")
    beside = ("most at one time", "clients killed", "without an order")
    rows = []
    for found in all_found:
        each = found.recorded
        answers = [sum(one.answers[answer] for one in each) for answer in ("done", "conflict", "refused", "unknown")]
        counts = (sum(one.kills for one in each), sum(len(one.faults) for one in each))
        most = max((one.together for one in each), default=0)
        rows.append((found.store.name, len(each), sum(one.calls for one in each), *answers, most, *counts))
    return _table((*heads, *beside), rows)


def _load(all_found: Sequence[Found]) -> Iterator[str]:
    loaded = ((found.store.name, found.load) for found in all_found if found.load)
    for number, (name, figures) in enumerate(loaded):
        ratio = f"Foldmark appends {figures['ratio']:.2f} times as often as the same statements."
        yield from [""] * bool(number)
        yield from (f"{name}: {ratio}", "", *figures["table"])


def _result(all_found: Sequence[Found]) -> str:
    wrong = [text for found in all_found for text in found.wrong]
    return f"{len(wrong)} faults, the first: {wrong[0]}" if wrong else "nothing was lost, torn, doubled or unclear"


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    model = models[0] if models else platform.machine()
    return f"{os.cpu_count()} cores of {model}, {memory:.0f} GB, {platform.system()} {platform.release()}"


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return f"`{done.stdout.strip()}`" if done.returncode == 0 else "unknown"


def main() -> int:
    """Run all tortures, write the page and print the faults."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=500, help="killed writers, for each store")
    parser.add_argument("--histories", type=int, default=20)
    parser.add_argument("--calls", type=int, default=100, help="calls of each client in a history")
    parser.add_argument("--client-kills", type=int, default=4, help="killed clients in a history")
    parser.add_argument("--seconds", type=float, default=300, help="how long the load lasts; 0: none")
    parser.add_argument("--stores", nargs="+", default=["SQLite", "PostgreSQL"])
    parser.add_argument("--seed", default=f"{datetime.now(UTC):%Y%m%d-%H%M%S}")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    began = perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        all_found = []
        for kind in (Store, OnServer):
            if kind.name in options.stores:
                with closing(kind(Path(folder))) as store:
                    all_found.append(Found(store, options))
    options.page.write_text(page(all_found, options, perf_counter() - began), encoding="utf-8")
    wrong = [f"{found.store.name}: {text}" for found in all_found for text in found.wrong]
    print("\n".join(wrong or [f"nothing was lost; {options.page} says what was done"]))
    return 1 if wrong else 0
