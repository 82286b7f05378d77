"""Law L3: costs follow a conversation's operations and window, never the length of its history [SPEC 3].

Builds two conversations in two databases of one folder: one of 1,000,000 messages (`--messages`), one of a hundredth of
that, with the same number of operations, recorded at evenly spaced places. Then measures both in turn, so that other
work on the machine affects both equally, and prints the medians and their ratio. There are two variants: 300
operations, half of them filters, and 4 operations.

"fresh" opens the log for every measurement, outside the measured time unless the row says "open"; the flush of writes
to the disk is included. "warm" uses a log that has answered before; its writes are rolled back, so the flush, which
would hide the difference, is not included. Every round adds the same operations to both.

Exit code 1 if the context, the newest 50 turns, a fork or a clear takes more than 1.5 times as long with the longer
history. Rows that wait for the disk are not judged: the time of a flush says nothing about the history.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import foldmark

LIMIT = 1.5
JUDGED = (
    "fresh: open + context",
    "fresh: open + newest 50 turns",
    "warm: context",
    "warm: newest 50 turns",
    "warm: fork",
    "warm: clear",
)
"""The rows that the exit code judges."""

BATCH = 10_000
SPACE = 32
"""Number of messages between two operations: enough for a filter's messages without touching those of another
filter."""

PROSE = (
    "The parser reads a line, decides which of the open blocks it continues and closes the others; what is left of the "
    "line opens new blocks or becomes text. Nothing looks ahead by more than one line, so a document can be read as it "
    "arrives, and an editor can show what it has. The tests cover the corner cases that the last release broke. "
)

Times = dict[str, tuple[list[float], list[float]]]
"""Operation -> seconds with the short history, seconds with the long one."""


def text(chance: random.Random) -> str:
    """Return about 400 bytes of prose, different each time."""
    start = chance.randrange(len(PROSE))
    return f"{chance.getrandbits(64):016x} {PROSE[start:]}{PROSE[:start]}{PROSE[: start // 4]}"


def add_turn(agent: foldmark.Agent, chance: random.Random) -> list[int]:
    """Append one turn: a question, a tool call, its result, an answer. Return the ids of the four messages."""
    call_id = f"call_{chance.getrandbits(64):016x}"
    ids = [
        agent.append("user", text(chance)),
        agent.append_tool_call("read_file", {"path": "src/parser.py", "why": text(chance)}, call_id=call_id),
        agent.append_tool_result(call_id, text(chance)),
        agent.append("assistant", text(chance)),
    ]
    agent.end_turn()
    return ids


def operate(agent: foldmark.Agent, number: int, recent: list[list[int]]) -> None:
    """Record operation `number`: every other one is a filter; `recent` are the turns since the last operation.

    The messages that leave the context are never adjacent, so both histories end with the same number of segments.
    """
    if number % 2 == 0:
        ids = [id for turn in recent[-2:-8:-2] for id in turn[number // 2 % 2 :]]
        agent.apply_filter("forget", ids, criteria="what the parser does with tabs")
        return
    match number // 2 % 5:
        case 0 | 1:
            agent.do(f"/mark M{number}")
        case 2:
            agent.do(f"/context drop {recent[-2][0]}")
        case 3:
            agent.do("/fork")
        case _:
            agent.do("/undo")


def build(path: Path, messages: int, operations: int) -> tuple[float, int]:
    """Build a conversation. Return the messages appended per second, and the number of visible segments."""
    began = time.perf_counter()
    with foldmark.open(str(path)) as log:
        agent, chance = log.agent("bench"), random.Random(2026)
        turns, due, done = messages // 4, 0, 0
        recent: list[list[int]] = []
        while done < turns:
            with agent.batch():
                for _ in range(min(BATCH // 4, turns - done)):
                    recent.append(add_turn(agent, chance))
                    done += 1
                    while due < operations and done * (operations + 1) >= (due + 1) * turns:
                        operate(agent, due, recent)
                        due, recent = due + 1, []
        return messages / (time.perf_counter() - began), len(agent.context().segments)


@contextmanager
def opened(path: Path) -> Iterator[foldmark.Agent]:
    """Open the conversation in its own log."""
    with foldmark.open(str(path), create=False) as log:
        yield log.agent("bench")


def read_turns(agent: foldmark.Agent) -> int:
    """Read the newest 50 turns with their contents."""
    return sum(len(message.content) for turn in agent.context().turns(50) for message in turn.messages)


READS: dict[str, Callable[[foldmark.Agent], object]] = {
    "context": lambda agent: agent.context(),
    "newest 50 turns": read_turns,
    "len(messages)": lambda agent: len(agent.context().messages),
    "segments": lambda agent: agent.context().segments,
}

WRITES: dict[str, Callable[[foldmark.Agent], int | None]] = {
    "append": lambda agent: agent.append("user", PROSE),
    "mark": lambda agent: agent.do("/mark BENCH").event_id,
    "rewind": lambda agent: agent.do("/rewind").event_id,
    "fork": lambda agent: agent.do("/fork").event_id,
    "clear": lambda agent: agent.do("/clear").event_id,
}


def measure_fresh(path: Path) -> Iterator[tuple[str, float]]:
    """Measure each operation once, in a log opened for it. Removed messages are restored, which is measured as well."""
    for name, read in READS.items():
        began = time.perf_counter()
        with opened(path) as agent:
            read(agent)
            yield f"fresh: open + {name}", time.perf_counter() - began
    for name, write in WRITES.items():
        with opened(path) as agent:
            began = time.perf_counter()
            operation = write(agent)
            yield f"fresh: {name}", time.perf_counter() - began
        if name in ("rewind", "clear"):
            with opened(path) as agent:
                began = time.perf_counter()
                agent.do(f"/restore {operation}")
                yield f"fresh: restore after {name} ", time.perf_counter() - began


class TakeBackError(Exception):
    """Ends a batch that must leave nothing."""


def taken_back(agent: foldmark.Agent, action: Callable[[foldmark.Agent], object]) -> float:
    """Return the seconds that `action` takes in a batch that is rolled back."""
    seconds: list[float] = []

    def write() -> None:
        with agent.batch():
            began = time.perf_counter()
            action(agent)
            seconds.append(time.perf_counter() - began)
            raise TakeBackError

    with suppress(TakeBackError):
        write()
    return seconds[0]


def measure_warm(agent: foldmark.Agent) -> Iterator[tuple[str, float]]:
    """Measure each operation once, in a log that has answered before; nothing is kept."""
    for name, read in READS.items():
        began = time.perf_counter()
        read(agent)
        yield f"warm: {name}", time.perf_counter() - began
    for name, write in WRITES.items():
        yield f"warm: {name}", taken_back(agent, write)


def measure(short: Path, long: Path, rounds: int) -> Times:
    """Measure all operations on both conversations, `rounds` times, in alternation."""
    times: Times = {}

    def note(rows: Iterator[tuple[str, float]], place: int, keep: bool) -> None:
        for name, seconds in rows:
            if keep:
                times.setdefault(name, ([], []))[place].append(seconds)

    for number in range(rounds + 1):  # the first round warms up and does not count
        for place in (0, 1) if number % 2 else (1, 0):
            note(measure_fresh((short, long)[place]), place, number > 0)
    with opened(short) as first, opened(long) as second:
        for number in range(rounds * 2 + 1):
            for place in (0, 1) if number % 2 else (1, 0):
                note(measure_warm((first, second)[place]), place, number > 0)
    return times


def report(times: Times, messages: int) -> list[str]:
    """Print the table and return the judged rows that are above the limit."""
    print(f"{'median milliseconds':34}{messages // 100:>12,}{messages:>12,}{'ratio':>9}")
    above = []
    for name, (short, long) in times.items():
        before, after = statistics.median(short), statistics.median(long)
        ratio = after / before
        print(f"{name.strip():34}{before * 1000:12.3f}{after * 1000:12.3f}{ratio:9.2f}{' *' * (ratio > LIMIT)}")
        if ratio > LIMIT and name in JUDGED:
            above.append(name)
    return above


def main() -> int:
    """Build, measure, print. Return 1 if a judged operation is above the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000, help="length of the longer history")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--folder", help="where to make the temporary folder")
    options = parser.parse_args()
    if options.messages < SPACE * 500:
        parser.error(f"--messages is at least {SPACE * 500:,}")
    failed = []
    # Fewer operations if the short history has no room for 300, so that both end with the same number of segments.
    for operations in (min(300, options.messages // 100 // SPACE - 1), 4):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            short, long = Path(folder, "short.db"), Path(folder, "long.db")
            _, few = build(short, options.messages // 100, operations)
            rate, many = build(long, options.messages, operations)
            print(
                f"{operations} operations, which leave {few} and {many} segments; the long history was appended at "
                f"{rate:,.0f} messages a second and takes {long.stat().st_size / 1e6:,.0f} MB"
            )
            failed += [
                f"{name} ({operations} operations)"
                for name in report(measure(short, long, options.rounds), options.messages)
            ]
            print()
    print(f"* above {LIMIT}. " + (f"Law L3 does not hold for: {'; '.join(failed)}" if failed else "Law L3 holds."))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
