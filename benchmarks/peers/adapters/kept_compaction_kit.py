"""compaction-conformance-kit: its own methods and Foldmark's, on its sessions and on coding sessions made of them."""

import json
import random
from collections import defaultdict
from statistics import mean
from typing import Any

from compaction_kit.benchmark import run_budget_benchmark
from compaction_kit.canaries import Canary, CanaryType
from compaction_kit.cli import COMPACTORS
from compaction_kit.compacted import CompactedContext
from compaction_kit.compactors import _turns_to_text
from compaction_kit.corpus import build_random_session
from compaction_kit.probes import BehaviorProbe
from compaction_kit.runner import run_conformance
from compaction_kit.session import SeededSession, Turn
from kept_foldmark import METHODS, Method, Said
from lines import serve

WORDS = [
    "cache",
    "parser",
    "index",
    "retry",
    "socket",
    "branch",
    "queue",
    "schema",
    "token",
    "render",
    "worker",
    "batch",
    "offset",
    "stream",
    "lease",
    "shard",
]
FILES = tuple(f"src/{name}.py" for name in ("ingest", "routes", "auth", "jobs", "models", "cli"))


def compactor(method: type[Method]) -> Any:
    """Return a method of Foldmark as a compactor of the kit."""

    class Compactor:
        name = method.name

        def __init__(self) -> None:
            self.method = method()

        def compact(self, turns: list[Turn], round_num: int = 1, budget_chars: int | None = None) -> CompactedContext:
            text = self.method.shortened([Said(turn.role, turn.text) for turn in turns], budget_chars)
            return CompactedContext(text=text, compactor_name=self.name, round_num=round_num)

    return Compactor


OURS = {method.name: compactor(method) for method in METHODS}
ALL = {**COMPACTORS, **OURS}


def methods() -> dict[str, bool]:
    """Return the names of all methods, and which are Foldmark's."""
    return {name: name in OURS for name in ALL}


def benchmark(method: str, budgets: list[float], seeds: list[int], rounds: int) -> list[dict[str, Any]]:
    """Return what the kit's own benchmark (`compaction-kit benchmark`) says of a method, by budget."""
    entries = run_budget_benchmark({method: ALL[method]}, budgets=budgets, seeds=seeds, rounds=rounds)["entries"]
    return sorted(entries, key=lambda entry: entry["budget_fraction"])


def coding_session(seed: int) -> tuple[SeededSession, list[Canary]]:
    """Return a session of the kit's randomized corpus as a coding agent has it: between its messages stand calls of
    tools with results of 300 to 4,000 characters, files are read again and edited, and the facts stand in results."""
    session, canaries = build_random_session(seed)
    chance = random.Random(seed)
    facts = {each.id for each in canaries if each.type is CanaryType.FACT}
    turns: list[Turn] = []
    positions: dict[str, int] = {}

    def result(*stated: str) -> str:
        size = min(4000, int(chance.lognormvariate(7, 0.8)) + 300)
        lines = []
        while sum(map(len, lines)) < size:
            lines.append(f"{len(lines) + 1:4} {' '.join(chance.choices(WORDS, k=chance.randrange(4, 12)))}")
        for text in stated:
            lines.insert(chance.randrange(len(lines)), text)
        return "\n".join(lines)

    def exchange(*stated: str) -> None:
        tool = "Read" if stated else chance.choice(("Read", "Read", "Bash", "Grep", "Edit"))
        file = f"notes/{len(turns)}.md" if stated else chance.choice(FILES)
        args = {
            "Read": {"file_path": f"/app/{file}"},
            "Bash": {"command": f"pytest -x {file}"},
            "Grep": {"pattern": chance.choice(WORDS), "path": "/app"},
            "Edit": {"file_path": f"/app/{file}", "old_string": chance.choice(WORDS), "new_string": result()[:300]},
        }[tool]
        turns.append(Turn("assistant", f"{tool}({json.dumps(args)})"))
        turns.append(Turn("tool", "The file has been updated." if tool == "Edit" else result(*stated)))

    for turn in session.turns:
        if turn.canary_id in facts:
            turns.append(Turn("user", "Look that up in the notes."))
            exchange(turn.text)
            positions[turn.canary_id] = len(turns) - 1
            continue
        if turn.canary_id:
            positions[turn.canary_id] = len(turns)
        elif turn.role == "assistant" and turn.text.startswith("Acknowledged"):
            for _ in range(chance.randrange(1, 4)):
                exchange()
        turns.append(turn)
    return SeededSession(turns=tuple(turns), canary_positions=positions), canaries


SESSIONS = {"chat": build_random_session, "coding": coding_session}


def survival(method: str, corpus: str, budget: float, seeds: list[int], rounds: int) -> dict[str, Any]:
    """Return what a method keeps of the sessions of a corpus: the part after the first round, after the last one, the
    latter by type, whether the budget held, and the part of the characters that is left.
    """
    first, last, by_type = [], [], defaultdict[str, list[float]](list)
    compliant, left = True, []
    for seed in seeds:
        session, canaries = SESSIONS[corpus](seed)
        run = run_conformance(session, ALL[method](), rounds=rounds, canaries=canaries, budget_fraction=budget)
        first.append(sum(run.rounds[0].survived.values()) / len(canaries))
        last.append(sum(run.rounds[-1].survived.values()) / len(canaries))
        for kind, rate in run.rounds[-1].survival_by_type.items():
            by_type[kind].append(rate)
        compliant &= all(each.within_budget for each in run.rounds)
        left.append(run.rounds[-1].output_chars / len(_turns_to_text(session.transcript())))
    return {
        "first": mean(first),
        "last": mean(last),
        "by_type": {kind: mean(rates) for kind, rates in by_type.items()},
        "compliant": compliant,
        "left": mean(left),
    }


def recalled(method: str, corpus: str, budget: float, seeds: list[int]) -> float:
    """Return the part of the canaries that stand in the request or in what `recall` answers to their own question."""
    probe, found = BehaviorProbe(), []
    for seed in seeds:
        session, canaries = SESSIONS[corpus](seed)
        turns = session.transcript()
        ours = next(each for each in METHODS if each.name == method)()
        text = ours.shortened([Said(t.role, t.text) for t in turns], int(len(_turns_to_text(turns)) * budget))
        for canary in canaries:
            found.append(probe.probe(canary, f"{text}\n{ours.recall(canary.direct_question)}").survived)
    return mean(found)


serve(methods=methods, benchmark=benchmark, survival=survival, recalled=recalled)
