"""Time to start: whole processes, measured from the outside, with the contestants taking turns.

`from foldmark import open` against `python -c pass` is the price of the library (target: 60 ms more), because the
package alone imports nothing; `foldmark --help` is the wait of a person (target: 200 ms); `foldmark context show` also
reads a small conversation. The dependencies have their own rows, because most of the import is theirs.

Everything runs from compiled modules, as an installed package does; `PYTHONDONTWRITEBYTECODE`, where it is set, would
add the time of compiling each of them at every start. The exit code is always 0, because the time of a process depends
on the machine and its other work.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import foldmark

IMPORT_TARGET, HELP_TARGET = 60, 200


def wall(command: list[str], environment: dict[str, str]) -> float:
    """Return the milliseconds from the start of a process to its end."""
    began = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - began) * 1000


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=25)
    options = parser.parse_args()
    python, program = sys.executable, str(Path(sys.executable).with_name("foldmark"))
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder, "small.db"))
        with foldmark.open(database) as log:
            agent = log.agent("small")
            for number in range(20):
                agent.append("user", f"question {number}")
                agent.append("assistant", f"answer {number}")
                agent.end_turn()
        environment = {**os.environ, "FOLDMARK_DB": database, "PYTHONPYCACHEPREFIX": str(Path(folder, "compiled"))}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        contest = {
            "python -c pass": [python, "-c", "pass"],
            "import apsw": [python, "-c", "import apsw"],
            "import msgspec": [python, "-c", "import msgspec"],
            "import click": [python, "-c", "import click"],
            "from foldmark import open": [python, "-c", "from foldmark import open"],
            "import foldmark, open": [python, "-c", f"import foldmark; foldmark.open({database!r}).agent('small')"],
            "foldmark --help": [program, "--help"],
            "foldmark context show": [program, "context", "show", "small"],
        }
        times: dict[str, list[float]] = {name: [] for name in contest}
        for number in range(options.runs + 1):
            for name, command in contest.items():
                milliseconds = wall(command, environment)
                if number:  # the first run compiles and fills the disk's cache
                    times[name].append(milliseconds)
    median = {name: statistics.median(each) for name, each in times.items()}
    empty = median["python -c pass"]
    print(f"{f'median of {options.runs} runs, ms':34}{'whole':>8}{'extra':>8}{'ratio':>8}{'fastest':>9}")
    for name, milliseconds in median.items():
        ratio = milliseconds / empty
        print(f"{name:34}{milliseconds:8.0f}{milliseconds - empty:8.0f}{ratio:8.1f}{min(times[name]):9.0f}")
    extra, helping = median["from foldmark import open"] - empty, median["foldmark --help"]
    print(f"\nImporting takes {extra:.0f} ms; the target is {IMPORT_TARGET}.")
    print(f"`foldmark --help` takes {helping:.0f} ms; the target is {HELP_TARGET}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
