"""Costs that must not grow: each row is measured with a few items and with eight times as many.

The items are: results of calls that one answer made; restores, each of the operation just before it, and restores of
old operations; conversations in a list; pinned turns, of which few fit the budget; forks of forks, each with its own
message; messages after a turn that is removed. Everything is in memory, so nothing waits for a disk.

Prints the milliseconds per item (for a removal: per removal) and the ratio with eight times as many. Exit code 1 if a
ratio is above `LIMIT`. Forks of forks and restores of old operations do grow and are not judged: a fork stores its
start, which is as long as the tree is deep, and a restore folds all later operations again.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import foldmark
from foldmark.operations.effects import Asking

LIMIT = 2.0
REMOVED = 50
"""Number of turns over which the mean is taken; the removal of one takes a millisecond or two."""
YES = Asking(lambda question: True)


def turns(agent: foldmark.Agent, number: int) -> list[int]:
    """Append `number` turns and return their ids."""
    found = []
    with agent.batch():
        for each in range(number):
            found.append(agent.append("user", f"Question {each}"))
            agent.append("assistant", f"Answer {each}")
            agent.end_turn()
    return found


def timed(action: Callable[[], object]) -> float:
    """Return the seconds that an action takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def results(log: foldmark.Log, number: int) -> float:
    """Answer `number` calls of one turn. Return the seconds per call."""
    agent = log.agent("bench")
    with agent.batch():
        agent.append("user", "Read them all.")
        for each in range(number):
            agent.append_tool_call("read_file", {"path": "x"}, call_id=f"c{each}", dialect="openai")

    def answer() -> None:
        for each in range(number):
            agent.append_tool_result(f"c{each}", "text", dialect="openai")

    return timed(answer) / number


def restores(log: foldmark.Log, number: int) -> float:
    """Undo and restore `number` times. Return the seconds per pair."""
    agent = log.agent("bench")
    turns(agent, 10)

    def there_and_back() -> None:
        for _ in range(number):
            agent.do(f"/restore {agent.do('/undo').event_id}")

    return timed(there_and_back) / number


def old_restores(log: foldmark.Log, number: int) -> float:
    """Drop `number` turns, then restore them, the oldest first. Return the seconds per restore."""
    agent = log.agent("bench")
    dropped = [agent.do(f"/context drop {turn}").event_id for turn in turns(agent, 2 * number)[::2]]

    def back() -> None:
        for operation in dropped:
            agent.do(f"/restore {operation}")

    return timed(back) / number


def conversations(log: foldmark.Log, number: int) -> float:
    """List `number` conversations. Return the seconds per conversation."""
    here = log.agent("bench")
    for each in range(number):
        log.agent(f"conversation {each}").append("user", "Hello")
    return timed(lambda: here.do("/session list")) / number


def pins(log: foldmark.Log, number: int) -> float:
    """Make a request with `number` pinned turns, of which few fit. Return the seconds per pinned turn."""
    agent = log.agent("bench")
    with agent.batch():
        for turn in turns(agent, number):
            agent.do(f"/pin {turn}")
    turns(agent, 1)
    agent.do("/config set sliding_context_tokens=4000")
    return timed(lambda: agent.request("openai", "gpt-5")) / number


def forks(log: foldmark.Log, number: int) -> float:
    """Fork from a fork `number` times. Return the seconds per fork."""
    root = log.agent("bench")

    def deeper() -> None:
        agent = root
        for each in range(number):
            agent.append("user", f"Question {each}")
            agent = log.agent(agent.do("/fork").data["child"])

    return timed(deeper) / number


def removal(log: foldmark.Log, number: int) -> float:
    """Remove turns that `number` messages follow. Return the seconds per removal."""
    agent = log.agent("bench")
    first = turns(agent, number // 2)[:REMOVED]

    def remove() -> None:
        for turn in first:
            agent.do(f"/message remove {turn}", asking=YES)

    return timed(remove) / REMOVED


ROWS: dict[str, tuple[Callable[[foldmark.Log, int], float], int, bool]] = {
    "results of parallel calls": (results, 1250, True),
    "undo and restore": (restores, 125, True),
    "restore of an old operation": (old_restores, 50, False),
    "conversations listed": (conversations, 1250, True),
    "pins over budget": (pins, 125, True),
    "forks of forks": (forks, 50, False),
    "messages behind one removed": (removal, 12500, True),
}
"""The items: how to measure them, the smaller number of them, and whether their growth is judged."""


def main() -> int:
    """Measure and print. Return 1 if a judged row grows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="times as many of everything (default 1)")
    options = parser.parse_args()
    grown = []
    print(f"{'median milliseconds for each':30}{'few':>10}{'':>12}{'eight times':>12}{'':>12}{'ratio':>8}")
    for name, (measure, base, judged) in ROWS.items():
        few = max(8, round(base * options.scale))
        taken: dict[int, list[float]] = {few: [], 8 * few: []}
        for _ in range(options.rounds):
            for number, times in taken.items():
                with foldmark.open(":memory:") as log:
                    times.append(measure(log, number))
        before, after = (statistics.median(times) for times in taken.values())
        ratio = after / before
        mark = " *" if judged and ratio > LIMIT else ""
        print(f"{name:30}{few:10,}{before * 1000:12.3f}{8 * few:12,}{after * 1000:12.3f}{ratio:8.2f}{mark}", flush=True)
        grown += [name] if mark else []
    print(f"* above {LIMIT}. " + (f"These grow: {', '.join(grown)}." if grown else "Nothing that is judged grows."))
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
