"""The cost of each policy with a provider's prompt cache, the tokens that it keeps in view, and the thinking that it
loses, replayed on recorded and generated conversations [SPEC 5.3, 5.7].

Nothing is sent: each request that the model was asked with is built again under each policy, and a model of the
provider's cache (`foldmark.core.assembly.caching`) computes the bill. Recorded conversations come from `--data` (Claude
Code sessions, tau-bench conversations one after the other, a LoCoMo conversation of two people with the second as the
model); two are generated: one with long turns of tool calls, one with short turns, both with a state block at the end
of every answer and a growing scratchpad.

Prints a table for each conversation, then the sum over the Claude Code sessions and tau-bench, and compares `steady`
with the cheapest other policy that keeps as many tokens in view. Draws the cases of the first model (needs matplotlib:
`uv sync --group bench`). Prices are those of the model table.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import foldmark
from foldmark.cli.cost import draw
from foldmark.core.errors import FoldmarkError
from foldmark.cost.comparison import KINDS, policies
from foldmark.cost.cost import Replayed, replay
from foldmark.cost.spending import Tariff, rules_of, tariff_of
from foldmark.sessions.conversion.importing import import_session
from foldmark.tokens.models import model_of

MODELS = ("anthropic/claude-sonnet-5-5", "openai/gpt-5.6", "openai/gpt-5.4")
"""The models: the newest Sonnet, and OpenAI's models with a cache of either kind."""

BUDGET = 60_000
LOW_WATERS = [0.75, 0.6, 0.5]
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
    """Return a builder for a coding agent's session."""
    return lambda log: log.agent(import_session(log, path).agent_id)


def tau(path: Path) -> Build:
    """Return a builder for all conversations of a tau-bench file as one, with the policy only before the first."""

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
    """Return a builder for the longest conversation of a LoCoMo file: the first speaker asks, the second is the
    model."""

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
    """Return a builder for a conversation of `turns` turns with up to `steps` tool calls each and results of up to
    `largest` characters. As the guidelines ask, a state block ends every answer; every third turn adds to the
    scratchpad."""

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
                    # Results are usually short and occasionally long, as in the recorded sessions.
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
    """The time in a generated conversation: steps are seconds apart, turns seconds, minutes, and occasionally hours."""

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
    """Yield the conversations to replay, by name."""
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


def measured(sample: str, agent: foldmark.Agent, model: str, budget: int) -> Case | None:
    """Replay one conversation under all policies. Return None if it has no requests."""
    began = time.process_time()
    provider, _, name = model.partition("/")
    known = model_of(provider, name)
    kinds = [kind for kind in KINDS if kind != "clearing" or provider == "anthropic"]
    rows = replay(
        agent,
        policies(budget, LOW_WATERS, kinds),
        provider,
        name,
        rules=rules_of(known),
        tools=agent.tools(),
        limit=known.window,
    )
    print(f"{sample}, {model}: {time.process_time() - began:.1f} s of processor time", file=sys.stderr)
    return Case(sample, model, budget, tariff_of(known), rows) if rows[0].billed else None


def show(case: Case) -> None:
    """Print a case as a table."""
    print(f"\n{case.sample}: {case.model}, budget {case.budget:,}, {len(case.rows[0].billed):,} requests\n")
    print("| policy | cost | of eager | in view | largest | read | rewritten | moves | thinking | lost |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in case.rows:
        of = f"{cost(case, row) / cost(case, named(case, 'eager')):.0%}"
        cells = [
            case.tariff.shown(cost(case, row)),
            of,
            f"{row.mean:,}",
            f"{row.largest:,}",
            f"{row.total.read_share:.0%}",
        ]
        cells += [f"{row.rewritten:,}", str(row.moves), f"{row.thoughts.share:.0%}", f"{row.thoughts.blocks:,}"]
        print(f"| {row.policy.name} | {' | '.join(cells)} |", flush=True)


def summary(cases: list[Case]) -> None:
    """Print the total cost of each policy, the tokens that it keeps in view in percent of `eager`, and its thinking;
    then, for each conversation, compare `steady` with the cheapest other policy that keeps as many tokens in view."""
    print(f"\nIn sum, {cases[0].model}, budget {cases[0].budget:,}: {', '.join(case.sample for case in cases)}\n")
    print("| policy | cost | of eager | in view, of eager | rewritten | thinking | lost |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    names = [row.policy.name for row in cases[0].rows]
    eager = sum(cost(case, named(case, "eager")) for case in cases)
    seen = sum(named(case, "eager").total.tokens for case in cases)
    for name in names:
        rows = [named(case, name) for case in cases]
        total = sum(cost(case, row) for case, row in zip(cases, rows, strict=True))
        kept, lost = sum(row.thoughts.kept for row in rows), sum(row.thoughts.lost for row in rows)
        cells = [cases[0].tariff.shown(total), f"{total / eager:.0%}"]
        cells += [f"{sum(row.total.tokens for row in rows) / seen:.0%}", f"{sum(row.rewritten for row in rows):,}"]
        cells += [f"{kept / max(1, kept + lost):.0%}", f"{sum(row.thoughts.blocks for row in rows):,}"]
        print(f"| {name} | {' | '.join(cells)} |")
    print("\n| conversation | policy | cost | of the cheapest other that keeps as many tokens in view | |")
    print("| --- | --- | ---: | ---: | --- |")
    for case in cases:
        for row in case.rows:
            if row.policy.kind != "steady":
                continue
            others = [each for each in case.rows if each.policy.kind != "steady" and each.mean >= row.mean]
            best = min(others, key=lambda each: cost(case, each), default=None)
            of = (f"{cost(case, row) / cost(case, best):.2f}", best.policy.name) if best else ("", "there is none")
            shown = case.tariff.shown(cost(case, row))
            print(f"| {case.sample} | {row.policy.name} | {shown} | {' | '.join(of)} |")


def cost(case: Case, row: Replayed) -> float:
    """Return the cost of a policy in fresh tokens."""
    return case.tariff.cost(row.total)


def named(case: Case, name: str) -> Replayed:
    """Return the row of a policy."""
    return next(row for row in case.rows if row.policy.name == name)


def main() -> int:
    """Replay all, print, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--data", type=Path, help="a folder with claude/, openai/ and locomo-dev.json")
    parser.add_argument("--only", help="samples whose name holds this")
    parser.add_argument("--model", action="append", help=f"PROVIDER/MODEL, as often as wanted; otherwise {MODELS}")
    parser.add_argument("--budget", type=int, default=BUDGET, help=f"tokens of the window, {BUDGET:,} by default")
    parser.add_argument("--quick", action="store_true", help="shorter conversations")
    parser.add_argument("--plot", type=Path, help="where to write the plot, FILE.svg")
    options = parser.parse_args()
    cases: list[Case] = []
    for name, build in samples(options.data, options.quick):
        if options.only and options.only not in name:
            continue
        with foldmark.open(":memory:", settings={}) as log:
            agent = build(log)
            for model in options.model or MODELS:
                if (case := measured(name, agent, model, options.budget)) is not None:
                    show(case)
                    cases.append(case)
    for model in options.model or MODELS:
        if counted := [case for case in cases if case.model == model and case.sample in recorded(options.data)]:
            summary(counted)
    if options.plot:
        first = [case for case in cases if case.model == cases[0].model]
        try:
            draw([(f"{c.sample}, {c.model}, budget {c.budget:,}", c.rows, c.tariff) for c in first], options.plot)
        except FoldmarkError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


def recorded(data: Path | None) -> set[str]:
    """Return the names of the samples that count in the sum: Claude Code sessions and tau-bench."""
    return set() if data is None else {"tau-bench", *(path.stem for path in (data / "claude").glob("*.jsonl"))}


if __name__ == "__main__":
    sys.exit(main())
