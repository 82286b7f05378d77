"""What a window costs where the provider caches prompts: low water 1.0, 0.8 and 0.6, both orders of the layers, and the
whole history, replayed on real and on made conversations [SPEC 5.1, 5.3].

Nothing is sent: each request that the model was asked with is made again under each policy, and a model of the
provider's cache (`foldmark.core.caching`) says what would be billed. Real conversations come from `--data` (Claude Code
sessions, tau-bench conversations one after the other, a LoCoMo conversation of two people with the second as the
model); two are made: one with long turns of tool calls, one of short ones, both with a state block at the end of every
answer and a scratchpad that grows. Every sample is replayed with Anthropic's cache, with that of OpenAI's models up to
GPT-5.5 and with that of GPT-5.6 and later; with budgets of 30,000 tokens and (Anthropic) of 100,000, as far as it is
longer than that.

Prints a table for each, then what breaks the beginning of requests, and draws the cases of the first model (needs
matplotlib: `uv sync --group bench`). Factors are those of the model table; costs are in thousand fresh input tokens'
worth.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import foldmark
from foldmark.conversation.cost import CAUSES, Policy, Replayed, Tariff, replay, rules_of, tariff_of
from foldmark.core.caching import Rules
from foldmark.core.errors import FoldmarkError
from foldmark.interfaces.cost import policies
from foldmark.interfaces.cost_plot import plot
from foldmark.interfaces.cost_table import share
from foldmark.sessions.conversion.importing import import_session
from foldmark.tokens.models import model_of

MODELS = {"anthropic/claude-sonnet-4-6": (100_000, 30_000), "openai/gpt-5.4": (30_000,), "openai/gpt-5.6": (30_000,)}
"""Who is asked, and with which budgets."""

LOW_WATERS = [1.0, 0.8, 0.6]
LEAST_REQUESTS = 10
"""Samples with fewer requests say nothing."""

PROSE = (
    "the parser reads a line and decides which open block goes on while others close what is left opens new ones "
    "nothing looks ahead so an editor can show what it has tests cover the corner cases that releases broke values "
    "arrive as text and leave as numbers a table keeps names in order of first use errors say where they stand"
)
WORDS = PROSE.split()

Build = Callable[[foldmark.Log], foldmark.Agent]


class Case(NamedTuple):
    """One conversation with one model and budget, under all policies."""

    sample: str
    model: str
    budget: int
    tariff: Tariff
    rows: list[Replayed]


# Samples


def session(path: Path) -> Build:
    """A coding agent's session."""
    return lambda log: log.agent(import_session(log, path).agent_id)


def tau(path: Path) -> Build:
    """All conversations of a tau-bench file as one, without the policy in front of each but the first."""

    def build(log: foldmark.Log) -> foldmark.Agent:
        agent, clock = log.agent(path.stem), _Clock(random.Random(1))
        with agent.batch():
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
                for message in json.loads(line)["messages"]:
                    _openai_message(agent, message, clock, system=number == 0)
            agent.end_turn()
        return agent

    return build


def _openai_message(agent: foldmark.Agent, message: dict[str, Any], clock: "_Clock", *, system: bool) -> None:
    role, content = message["role"], str(message.get("content") or "")
    if role == "system":
        if system:
            agent.append("system", content, created_at=clock.step())
    elif role == "user":
        agent.end_turn(created_at=clock.now)
        agent.append("user", content, created_at=clock.turn())
    elif role == "tool":
        agent.append_tool_result(str(message["tool_call_id"]), content, dialect="openai", created_at=clock.step())
    else:
        if content:
            agent.append("assistant", content, created_at=clock.step())
        for call in message.get("tool_calls") or ():
            function = call["function"]
            agent.append_tool_call(
                function["name"],
                json.loads(function["arguments"]),
                call_id=call["id"],
                dialect="openai",
                created_at=clock.now,
            )


def locomo(path: Path) -> Build:
    """The longest conversation of a LoCoMo file: the first speaker asks, the second is the model."""

    def build(log: foldmark.Log) -> foldmark.Agent:
        talks = [each["conversation"] for each in json.loads(path.read_text(encoding="utf-8"))]
        talk = max(talks, key=lambda each: len(json.dumps(each)))
        agent, clock = log.agent("locomo"), _Clock(random.Random(2))
        with agent.batch():
            for number in range(1, len(talk)):
                for said in talk.get(f"session_{number}", ()):
                    if said["speaker"] == talk["speaker_a"]:
                        agent.end_turn(created_at=clock.now)
                        agent.append("user", said["text"], created_at=clock.turn())
                    else:
                        agent.append("assistant", said["text"], created_at=clock.step())
            agent.end_turn()
        return agent

    return build


def made(turns: int, steps: int, largest: int) -> Build:
    """A conversation of `turns` turns with up to `steps` tool calls each, results up to `largest` characters, as the
    guidelines ask for it: a state block ends every answer, and every third turn adds to the scratchpad."""

    def build(log: foldmark.Log) -> foldmark.Agent:
        chance = random.Random(turns)
        agent, clock, notes = log.agent(f"made-{turns}"), _Clock(chance), ""
        with agent.batch():
            for turn in range(turns):
                agent.append("user", _prose(chance, 60, 600), created_at=clock.turn())
                for step in range(chance.randint(0, steps)):
                    if chance.random() < 0.4:
                        agent.append("assistant", _prose(chance, 40, 200), created_at=clock.step())
                    call_id = f"call_{turn}_{step}"
                    path = {"path": f"src/{chance.choice(WORDS)}.py"}
                    agent.append_tool_call("read_file", path, call_id=call_id, created_at=clock.step())
                    # Results are short as a rule and long now and then, as in the recorded sessions.
                    size = int(min(largest, 200 * chance.paretovariate(0.7)))
                    agent.append_tool_result(call_id, _prose(chance, size, size), created_at=clock.step())
                agent.append("assistant", _prose(chance, 200, 1500), created_at=clock.step())
                state = f"Goal: {_prose(chance, 80, 120)}\nContext: {_prose(chance, 80, 200)}\nResolved: {turn} of them"
                agent.record("state", f"{state}\nTechnical Anchors: {_prose(chance, 100, 200)}", created_at=clock.now)
                if turn % 3 == 2:
                    notes = f"{notes}\n- {_prose(chance, 60, 160)}"[-4000:]
                    agent.record("scratchpad", notes, created_at=clock.now)
                agent.end_turn(created_at=clock.now)
        return agent

    return build


class _Clock:
    """Time in a made conversation: seconds between steps; between turns seconds, minutes, and now and then hours."""

    def __init__(self, chance: random.Random) -> None:
        self._chance, self.now = chance, datetime(2026, 11, 1, 9, tzinfo=UTC)

    def step(self) -> datetime:
        self.now += timedelta(seconds=self._chance.uniform(2, 15))
        return self.now

    def turn(self) -> datetime:
        kind = self._chance.random()
        longest = 60 if kind < 0.6 else 280 if kind < 0.85 else 1500 if kind < 0.95 else 20_000
        self.now += timedelta(seconds=self._chance.uniform(10, longest))
        return self.now


def _prose(chance: random.Random, least: int, most: int) -> str:
    size, words = chance.randint(least, most), []
    while size > 0:
        words.append(chance.choice(WORDS))
        size -= len(words[-1]) + 1
    return " ".join(words)


def samples(data: Path | None, quick: bool) -> Iterator[tuple[str, Build]]:
    """What is replayed, by name."""
    yield "made, long turns", made(15 if quick else 70, 12, 20_000)
    yield "made, short turns", made(60 if quick else 250, 1, 4_000)
    yield "demo", session(Path(str(files("foldmark") / "samples" / "notes-cli.jsonl")))
    if data is not None:
        for path in sorted((data / "claude").glob("*.jsonl")):
            yield path.stem, session(path)
        yield "tau-bench", tau(data / "openai" / "tau-bench-20.jsonl")
        if not quick:
            yield "locomo", locomo(data / "locomo-dev.json")


# Measuring


def measured(
    sample: str, agent: foldmark.Agent, wanted: list[Policy], model: str, rules: Rules | None
) -> list[Replayed]:
    """One conversation under policies."""
    began = time.perf_counter()

    def told(done: int, total: int) -> None:
        if done % 100 == 0 or done == total:
            print(f"\r{sample}, {model}: {done}/{total}", end="", file=sys.stderr, flush=True)

    provider, _, name = model.partition("/")
    window = model_of(provider, name).window
    rows = replay(agent, wanted, provider, name, rules=rules, tools=agent.log.tools(), limit=window, progress=told)
    print(f" in {time.perf_counter() - began:.1f} s", file=sys.stderr)
    return rows


def measure(sample: str, agent: foldmark.Agent, models: Sequence[str]) -> Iterator[Case]:
    """All cases of one conversation: the window at each budget that the whole history does not fit."""
    for model in models:
        known = model_of(*model.split("/", 1))
        rules, tariff = rules_of(known), tariff_of(known)
        whole = measured(sample, agent, policies(0, [], "both"), model, rules)
        if len(whole[0].billed) < LEAST_REQUESTS:
            return
        budgets = [each for each in MODELS.get(model, (30_000,)) if each < whole[0].largest]
        for budget in budgets:
            rows = measured(sample, agent, policies(budget, LOW_WATERS, "both")[2:], model, rules)
            yield Case(
                sample, model, budget, tariff, [*whole, *rows, *equal(sample, agent, model, budget, rows[-1].mean)]
            )
        if not budgets:
            yield Case(sample, model, 0, tariff, whole)


def equal(sample: str, agent: foldmark.Agent, model: str, budget: int, mean: int) -> list[Replayed]:
    """Low water 1.0 in both orders with a budget at which requests are about as large as `mean` on the average: a
    smaller window is cheaper by itself, and this tells how much of it that is."""
    rules = rules_of(model_of(*model.split("/", 1)))
    for _ in range(3):
        changes = {"sliding_context_tokens": budget, "sliding_context_low_water": 1.0}
        wanted = [
            Policy(f"low water 1, as small as 0.6 · state {where}", changes, where == "last")
            for where in ("first", "last")
        ]
        rows = measured(sample, agent, wanted, model, rules)
        budget = budget * mean // max(1, rows[0].mean)
        if abs(rows[0].mean - mean) * 50 < mean:
            break
    return rows


def breaks(sample: str, agent: foldmark.Agent) -> None:
    """Print what breaks the beginning of requests, with Anthropic's cache and the larger budget."""
    model, budget = next(iter(MODELS)), 30_000
    known = model_of(*model.split("/", 1))
    rules = rules_of(known)
    assert rules is not None
    base = {"sliding_context_tokens": budget, "sliding_context_low_water": 0.8}
    variants = [
        Policy("as it is, state first", base, False),
        Policy("as it is, state last", base, True),
        Policy("one limit in the active turn", {**base, "truncate_active": 5000}, True),
        Policy("no truncation", {**base, "truncation": False}, True),
    ]
    print(f"\n{sample}: tokens sent before and yet not read, {model}, budget {budget:,}, low water 0.8\n")
    print(f"| variant | {' | '.join(CAUSES[1:])} | cost |\n| --- | {'---: | ' * len(CAUSES)}".rstrip())
    tariff = tariff_of(known)
    for row in measured(sample, agent, variants, model, rules):
        _breaks_row(row.policy.name, row, tariff)
    far = Rules(rules.least, look=0, lifetime=rules.lifetime)
    for row in measured(sample, agent, variants[1:2], model, far):
        _breaks_row("state last, looked for everywhere", row, tariff)


def _breaks_row(name: str, row: Replayed, tariff: Tariff) -> None:
    again = " | ".join(f"{row.again(cause):,}" for cause in CAUSES[1:])
    print(f"| {name} | {again} | {tariff.cost(row.total) / 1000:,.0f} |")


def show(case: Case) -> None:
    """Print a case as a table; the price is that of a token on the average, a fresh one being 1."""
    budget = f"budget {case.budget:,}, " if case.budget else ""
    print(f"\n{case.sample}: {case.model}, {budget}{len(case.rows[0].billed):,} requests\n")
    print("| policy | fresh | cache write | cache read | read | cost | price | mean request | moves |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in case.rows:
        tokens = " | ".join(f"{each:,}" for each in row.total[:3])
        cost = case.tariff.cost(row.total)
        price = f"{cost / max(1, row.total.tokens):.2f}"
        cells = f"{share(row):.0%} | {cost / 1000:,.0f} | {price} | {row.mean:,} | {row.moves}"
        print(f"| {row.policy.name} | {tokens} | {cells} |", flush=True)


def summary(cases: list[Case]) -> None:
    """Print the cost of every policy in percent of low water 1.0 with the state in front, which is [S3]."""
    names = [row.policy.name for row in max(cases, key=lambda case: len(case.rows)).rows]
    print(
        f"\n| sample | model | budget | {' | '.join(names)} |\n| --- | --- | ---: | {'---: | ' * len(names)}".rstrip()
    )
    for case in cases:
        costs = {row.policy.name: case.tariff.cost(row.total) for row in case.rows}
        base = costs.get("low water 1 · state first", case.tariff.cost(case.rows[0].total))
        shown = " | ".join(f"{costs[name] / base:.0%}" if name in costs else "" for name in names)
        budget = f"{case.budget:,}" if case.budget else "not reached"
        print(f"| {case.sample} | {case.model.partition('/')[2]} | {budget} | {shown} |")


def main() -> int:
    """Replay all, print, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--data", type=Path, help="a folder with claude/, openai/ and locomo-dev.json")
    parser.add_argument("--only", help="samples whose name holds this")
    parser.add_argument(
        "--model", action="append", help=f"PROVIDER/MODEL, as often as wanted; otherwise {list(MODELS)}"
    )
    parser.add_argument("--quick", action="store_true", help="shorter conversations")
    parser.add_argument("--breaks", action="store_true", help="only what breaks the beginning of requests")
    parser.add_argument("--plot", type=Path, help="where to write the plot, FILE.svg")
    options = parser.parse_args()
    cases: list[Case] = []
    for name, build in samples(options.data, options.quick):
        if options.only and options.only not in name:
            continue
        with foldmark.open(":memory:", settings={}) as log:
            agent = build(log)
            found = [] if options.breaks else list(measure(name, agent, options.model or list(MODELS)))
            for case in found:
                show(case)
            cases += found
            if options.breaks or (found and len(found[0].rows[0].billed) > 100):
                breaks(name, agent)
    if cases:
        summary(cases)
    if options.plot:
        first = [case for case in cases if case.model == cases[0].model and case.budget]
        try:
            plot([(f"{c.sample}, {c.model}, budget {c.budget:,}", c.rows, c.tariff) for c in first], options.plot)
        except FoldmarkError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
