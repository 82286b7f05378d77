"""The cost of a request follows its window, never the length of the history before it [SPEC 5.3].

Prepares requests of 100,000 tokens from a conversation of 1,000,000 messages (`--messages`), and from one of 1,000
messages, which fill the same budget; for a window of whole turns and for one that moves in steps
(`sliding_context_low_water` 0.8), in two dialects. Then the same with 20 pinned turns, and for two conversations with
300 operations, one of 10,000 messages and one of `--messages`. The two take turns, in one run.

"fresh" opens the log for every request, "warm" uses one that has answered before. "foreign" shows the cost of
`--foreign` messages that are read although they cannot be sent, because they belong to another dialect's tools.

Depending on its step, a window that moves in steps fills between the low water and all of the budget, so the times are
in milliseconds per 100,000 tokens. Exit code 1 if those of the longer conversation are more than 1.5 times as long.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from history_cost import build, opened

import foldmark
from foldmark.core import selections
from foldmark.core.ports import OPENERS
from foldmark.core.request import Request
from foldmark.core.segments import END, Segment
from foldmark.request.prepare import prepare

LIMIT = 1.5
BUDGET = 100_000
SHORT = 1_000
PINS = 20
MODELS = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-5"}
LOWS = (1.0, 0.8)

Times = dict[str, tuple[list[float], list[float]]]
"""Kind of request -> seconds per 100,000 tokens with the short history, and with the long one."""


def request(agent: foldmark.Agent, provider: str, low: float) -> Request:
    """Return the request that would be sent with this setting."""
    with agent.reading() as (moment, at):
        config = msgspec.structs.replace(at.config, sliding_context_tokens=BUDGET, sliding_context_low_water=low)
        return prepare(moment, at, config, provider, MODELS[provider], tools=agent.log.tools())


def measure(path: Path, warm: foldmark.Agent) -> Iterator[tuple[str, float]]:
    """Measure each kind of request once."""
    for provider in MODELS:
        for low in LOWS:
            began = time.perf_counter()
            with opened(path) as agent:
                made = request(agent, provider, low)
                yield f"fresh: {provider}, low water {low}", (time.perf_counter() - began) * 100_000 / made.tokens
            began = time.perf_counter()
            made = request(warm, provider, low)
            yield f"warm: {provider}, low water {low}", (time.perf_counter() - began) * 100_000 / made.tokens


def compare(short: Path, long: Path, rounds: int) -> Times:
    """Measure all kinds of requests from both conversations, `rounds` times, in alternation."""
    times: Times = {}
    with opened(short) as first, opened(long) as second:
        for number in range(rounds + 1):  # the first round warms up and does not count
            for place in (0, 1) if number % 2 else (1, 0):
                for name, seconds in measure((short, long)[place], (first, second)[place]):
                    if number:
                        times.setdefault(name, ([], []))[place].append(seconds)
    return times


def report(title: str, lengths: tuple[int, int], times: Times) -> bool:
    """Print one comparison. Return True if a row is above the limit."""
    print(f"\n{title}\n{'median milliseconds':34}{lengths[0]:>12,}{lengths[1]:>12,}{'ratio':>9}")
    above = False
    for name in sorted(times):
        before, after = (statistics.median(seconds) * 1000 for seconds in times[name])
        above = above or after / before > LIMIT
        print(f"{name:34}{before:12.1f}{after:12.1f}{after / before:9.2f}{' *' * (after / before > LIMIT)}")
    return above


def windows(short: Path, long: Path) -> None:
    """Print the sizes of the requests from both conversations, which should be alike."""
    for path in (short, long):
        with opened(path) as agent:
            made = [request(agent, provider, low) for provider in MODELS for low in LOWS]
            messages = [sum(part.event is not None for part in each.manifest.parts) for each in made]
            told = [f"{count} messages, {each.tokens:,} tokens" for count, each in zip(messages, made, strict=True)]
            print(f"{path.stem}: {'; '.join(told)}")


def pin(path: Path) -> None:
    """Pin the oldest turns."""
    with opened(path) as agent:
        with agent.log.store.read() as moment:
            turns = selections.ids(moment, OPENERS, (Segment(agent.id, 1, END),))[:PINS]
        for turn in turns:
            agent.do(f"/pin {turn}")


def foreign(folder: Path, messages: int) -> None:
    """Print the cost of skipping messages that cannot be sent."""
    for count in (messages // 10, messages):
        path = folder / f"foreign-{count}.db"
        with foldmark.open(str(path)) as log:
            agent = log.agent("bench")
            with agent.batch():
                agent.append("user", "Begin.")
                for number in range(count // 2):
                    agent.append_tool_call("read_file", {"path": "a.py"}, call_id=f"c{number}", dialect="gemini")
                    agent.append_tool_result(f"c{number}", "some text " * 30, dialect="gemini")
                    if number % 10 == 9:
                        agent.end_turn()
                        agent.append("tool", "more", dialect="gemini")
                agent.end_turn()
                agent.append("user", "Go on.")
            for low in LOWS:
                began = time.perf_counter()
                made = request(agent, "openai", low)
                seconds = time.perf_counter() - began
                print(f"{count:>10,} foreign messages, low water {low}: {seconds:8.3f} s, {made.tokens:,} tokens sent")


def main() -> int:
    """Build, measure, print. Return 1 if a row is above the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000, help="length of the longer history")
    parser.add_argument("--foreign", type=int, default=100_000, help="messages of another dialect's tools")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--folder", help="where to make the temporary folder")
    options = parser.parse_args()
    above = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        short, long = Path(folder, "short.db"), Path(folder, "long.db")
        build(short, SHORT, 0)
        build(long, options.messages, 0)
        windows(short, long)
        above.append(report("no operations", (SHORT, options.messages), compare(short, long, options.rounds)))
        pin(short)
        pin(long)
        above.append(report(f"{PINS} pinned turns", (SHORT, options.messages), compare(short, long, options.rounds)))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        short, long = Path(folder, "short.db"), Path(folder, "long.db")
        build(short, 10_000, 300)
        build(long, options.messages, 300)
        windows(short, long)
        above.append(report("300 operations", (10_000, options.messages), compare(short, long, options.rounds)))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        foreign(Path(folder), options.foreign)
    return 1 if any(above) else 0


if __name__ == "__main__":
    sys.exit(main())
