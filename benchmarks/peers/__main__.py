"""Run the suite: `python -m peers`, in the folder `benchmarks`; `make bench-peers` sets up what it needs.

`--compare FIRST SECOND` compares the ratios of two runs instead, and exits with 1 if one differs by more than 15%.
"""

import argparse
import importlib
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import apsw

import foldmark
from peers.environments import ROOT, NotInstalledError, Pinned, install, pinned
from peers.report import Failure, Section, compared, draw, measured, page, put_between_marks, read, saved
from peers.runs import Run

SECTIONS = ("store", "sessions", "live", "kept", "recall", "tokens")
"""The modules that measure, in the order of the page; each has `PEERS`, the peers it needs, and `measure(run)`."""

README = ("store.append", "sessions.trim_large", "live.latency", "recall.coding", "tokens.claude")
"""The ratios in the README's table."""


def machine() -> list[tuple[str, str]]:
    """Return what the figures depend on besides the programs."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor() or platform.machine(),
    )
    memory = next((int(line.split()[1]) >> 20 for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return [
        ("processors", f"{os.cpu_count()} × {model}"),
        ("memory", f"{memory} GB" if memory else "unknown"),
        ("system", f"{platform.system()} {platform.release()}, Python {platform.python_version()}"),
        ("SQLite of Foldmark", apsw.sqlite_lib_version()),
        ("Foldmark", foldmark.__version__),
        ("day", time.strftime("%Y-%m-%d")),
    ]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m peers", description=__doc__)
    parser.add_argument("--only", metavar="SECTION", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--data", type=Path, help="a folder with recorded sessions: claude/*.jsonl, locomo-dev.json")
    parser.add_argument(
        "--clients", type=Path, default=ROOT / ".clients", help="the real clients, as `make clients` installs them"
    )
    parser.add_argument("--quick", action="store_true", help="small numbers, to try the suite; writes no document")
    parser.add_argument("--install", action="store_true", help="set up the peers' environments and stop")
    parser.add_argument("--results", type=Path, help="where to save the figures (JSON), after each section")
    parser.add_argument("--page", type=Path, metavar="RESULTS", help="write the documents from saved figures instead")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("FIRST", "SECOND"))
    options = parser.parse_args(arguments)
    if options.compare:
        return compare(*options.compare)
    peers, failures = pinned(), {}
    if options.page:
        write(read(options.page.read_text(encoding="utf-8")), peers)
        return 0
    modules = [importlib.import_module(f"peers.{name}") for name in options.only]
    for name in dict.fromkeys(name for module in modules for name in module.PEERS):
        print(f"setting up {name}: {peers[name].packages}", file=sys.stderr)
        try:
            install(peers[name])
        except NotInstalledError as error:
            failures[name] = Failure(name, "installing", str(error))
            print(f"  failed: {error}", file=sys.stderr)
    if options.install:
        return 0
    run = Run(
        {name: peer for name, peer in peers.items() if name not in failures},
        failures,
        options.data and options.data.resolve(),
        options.clients.resolve(),
        options.quick,
    )
    sections: list[Section] = []
    for module in modules:
        began = time.monotonic()
        section = module.measure(run)
        section.failures[:0] = [failures[name] for name in module.PEERS if name in failures]
        sections.append(section)
        if options.results:
            options.results.write_text(saved(sections), encoding="utf-8")
        print(f"{section.name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    if options.quick or set(options.only) != set(SECTIONS):
        print(page(sections, machine(), versions(peers)))
    else:
        write(sections, peers)
    return 0


def versions(peers: Mapping[str, Pinned]) -> list[tuple[str, str]]:
    """Return what was measured, by name."""
    return [(name, peer.packages) for name, peer in peers.items()]


def write(sections: Sequence[Section], peers: Mapping[str, Pinned]) -> None:
    """Write docs/benchmarks.md with its pictures, and the table of the README."""
    pictures = ROOT / "docs" / "benchmarks"
    pictures.mkdir(exist_ok=True)
    for plot in (plot for section in sections for plot in section.plots):
        draw(plot, pictures / f"{plot.name}.svg")
    text = page(sections, machine(), versions(peers))
    (ROOT / "docs" / "benchmarks.md").write_text(text, encoding="utf-8")
    put_between_marks(ROOT / "README.md", measured(sections, README))


def compare(first: Path, second: Path) -> int:
    """Print the ratios of two runs, and return 1 if one differs too much."""
    agree = True
    for name, one, two, same in compared(first.read_text(encoding="utf-8"), second.read_text(encoding="utf-8")):
        print(f"{'  ' if same else '! '}{name:50} {one:8.3f} {two:8.3f}")
        agree &= same
    return 0 if agree else 1


sys.exit(main())
