"""What is kept of a conversation that was shortened: the kits of others, with their own methods and Foldmark's."""

import os
from typing import Any

from peers.adapter import ADAPTERS, Adapter
from peers.environments import ROOT, Pinned
from peers.report import Cell, Plot, Ratio, Section, Table
from peers.runs import Run

PEERS = ("compaction-conformance-kit", "compactbench")

BUDGETS = (0.2, 0.4, 0.6)
JUDGED = 0.4
"""The budget of the ratios."""
ROUNDS = 5
"""As the kit does it."""

CORPORA = {"chat": "the kit's randomized sessions", "coding": "coding sessions"}
TYPES = ("safety_rule", "hard_constraint", "fact", "goal_state", "user_preference")

ABOUT = """\
compaction-conformance-kit plants rules, facts and preferences in a session, lets a method shorten it to a part of its
characters, five rounds one after the other, and looks for what must still stand there, word for word. No model is
asked. Its own methods run beside Foldmark's, which are classes of its documented protocol: they record the session in
a log and return the messages of the next request.

- **window with tiers**: the newest turns that fit, with older tool results cut shorter than newer ones (the default);
- **evict superseded, window**: before that, `/context evict --superseded`;
- **trim deep, window**: the session as a file of Claude Code after `foldmark trim --profile deep`, imported;
- **summary by the offline model, window**: what the window passed is a summary; the offline model is no language model
  and quotes five messages;
- **pins, newest two turns**: the person pinned what begins with one of the kit's headings (`SAFETY RULE:` …), by which
  its checklists know what to keep as well.

The sessions are the kit's randomized ones, a chat without tools, and *coding sessions*: the same with calls of tools
between the messages, files that are read again and edited, and the facts somewhere in a result.
"""

_HEADINGS = (
    "The kit's checklists keep the lines with its own headings and the last 800 characters. They drop all else, also"
    " what the model said and did."
)
_CUT = (
    "The facts of the coding sessions stand in tool results, of which Foldmark sends the beginning only once they are"
    " older; a person pins what was said, not the middle of a result."
)
_NEWEST = "A window sends the newest turns; what was said before it is out of the request."


def measure(run: Run) -> Section:
    """Return the section."""
    section = Section("kept", "What is kept", ABOUT)
    seeds = [1] if run.quick else [1, 2, 3, 4]
    if peer := run.peers.get("compaction-conformance-kit"):
        with Adapter("kept_compaction_kit.py", PYTHONPATH=_beside_foldmark(peer)) as kit:
            _conformance(run, section, kit, seeds)
    if peer := run.peers.get("compactbench"):
        _compactbench(run, section, peer)
    section.remarks += [
        f"Sessions: {len(seeds)} of each kind, the same in every run; seeds as `compaction-kit benchmark` takes them.",
        (
            "Foldmark shortens no request that it shortened before: it makes each from the log. So its rounds after the"
            " first change nothing, while the kit's methods work on their own results."
        ),
        (
            "By nature, a window and a cut result leave out what is old or long, whatever it says. It stays in the log:"
            " the column *with recall* counts what stands in the request or in the answer of the tool `recall` to the"
            " kit's own question. The log of a trimmed session holds what the trim left."
        ),
        (
            "In the chat there are no tools, so the tiers, evicting and trimming change nothing there: these three rows"
            " are those of the window alone."
        ),
    ]
    return section


def _beside_foldmark(peer: Pinned) -> str:
    """Return the path of modules with which Foldmark's interpreter also has the packages of a peer."""
    packages = next(iter(peer.folder.glob("[lL]ib/**/site-packages")))
    return os.pathsep.join([str(ADAPTERS), str(ROOT / "src"), str(packages)])


def _conformance(run: Run, section: Section, kit: Adapter, seeds: list[int]) -> None:
    methods: dict[str, bool] = kit.ask("methods")
    found: dict[tuple[str, str, float], dict[str, Any]] = {}
    recalled: dict[tuple[str, str], float] = {}
    benchmark: dict[str, list[dict[str, Any]]] = {}
    for method, ours in methods.items():
        run.say(method)
        with run.failing(section.failures, method, "compaction-conformance-kit"):
            for corpus in CORPORA:
                for budget in BUDGETS:
                    found[method, corpus, budget] = kit.ask(
                        "survival", method=method, corpus=corpus, budget=budget, seeds=seeds, rounds=ROUNDS
                    )
                if ours:
                    recalled[method, corpus] = kit.ask(
                        "recalled", method=method, corpus=corpus, budget=JUDGED, seeds=seeds
                    )
            benchmark[method] = kit.ask("benchmark", method=method, budgets=[JUDGED], seeds=seeds, rounds=ROUNDS)
    for corpus, sessions in CORPORA.items():
        for budget in BUDGETS:
            rows = [
                _row(
                    method, found[method, corpus, budget], recalled.get((method, corpus)) if budget == JUDGED else None
                )
                for method in methods
                if (method, corpus, budget) in found
            ]
            section.tables.append(
                Table(
                    f"Kept of {sessions} at {budget:.0%} of their characters, percent",
                    (
                        "method",
                        "all",
                        *(kind.replace("_", " ") for kind in TYPES),
                        "after round 1",
                        "size",
                        "with recall",
                    ),
                    rows,
                    f"*All* and the types after {ROUNDS} rounds; *size* is what is left of the characters.",
                )
            )
        section.plots.append(
            Plot(
                f"kept-{corpus}",
                f"Kept of {sessions} after {ROUNDS} rounds",
                "budget, percent of the characters",
                "kept, percent",
                {
                    method: [(budget * 100, found[method, corpus, budget]["last"] * 100) for budget in BUDGETS]
                    for method in methods
                    if (method, corpus, BUDGETS[-1]) in found
                },
                logarithmic=False,
            )
        )
    section.tables.append(
        Table(
            f"The kit's own benchmark at {JUDGED:.0%}, percent",
            ("method", "kept", "updates resolved", "pairs kept apart"),
            [
                (
                    method,
                    entry["randomized"]["overall_final_survival"] * 100,
                    entry["semantic"]["resolved_rate"] * 100,
                    entry["semantic"]["distinct_pair_rate"] * 100,
                )
                for method, (entry,) in benchmark.items()
            ],
            "As `compaction-kit benchmark` counts: an update is resolved if only its newest wording is left.",
        )
    )
    section.ratios += _ratios(methods, found)


def _row(method: str, kept: dict[str, Any], recalled: float | None) -> tuple[Cell, ...]:
    return (
        method if kept["compliant"] else f"{method} (over the budget)",
        kept["last"] * 100,
        *(kept["by_type"].get(kind, 0.0) * 100 for kind in TYPES),
        kept["first"] * 100,
        kept["left"] * 100,
        None if recalled is None else recalled * 100,
    )


def _ratios(methods: dict[str, bool], found: dict[tuple[str, str, float], dict[str, Any]]) -> list[Ratio]:
    """Compare what is left at the middle budget: in the chat the best of both, and in the coding sessions each method
    of Foldmark with the best other."""
    ratios = []
    for corpus, sessions in CORPORA.items():
        kept = {m: found[m, corpus, JUDGED] for m in methods if (m, corpus, JUDGED) in found}
        within = {method: each["last"] * 100 for method, each in kept.items() if each["compliant"]}
        others = {method: part for method, part in within.items() if not methods[method]}
        ours = {method: part for method, part in within.items() if methods[method]}
        if not ours or not others:
            continue
        other, best = (max(parts, key=lambda method: parts[method]) for parts in (others, ours))
        judged = {"kept.facts": best}
        if corpus == "coding":
            judged = {
                f"kept.coding.{method.partition(': ')[2].partition(',')[0].replace(' ', '_')}": method
                for method in ours
            }
        for name, method in judged.items():
            ratios.append(
                Ratio(
                    name,
                    f"Kept at {JUDGED:.0%} of {sessions} ({method})",
                    ours[method],
                    others[other],
                    other,
                    "%",
                    more=True,
                    why=f"{_HEADINGS} {_CUT if corpus == 'coding' else _NEWEST}",
                )
            )
    return ratios


def _short(method: str) -> str:
    return method.removeprefix("Foldmark: ").partition(",")[0].replace(" ", "_")


def _compactbench(run: Run, section: Section, peer: Pinned) -> None:
    """Run its documented quick start with its offline provider."""
    with (
        Adapter("sessions_commands.py", peer) as commands,
        run.failing(section.failures, peer.name, "`compactbench run --provider mock`"),
    ):
        words = ["run", "--method", "built-in:hybrid-ledger", "--suite", "starter", "--provider", "mock"]
        commands.ask("run", words=[str(peer.command("compactbench")), *words], folder=commands.home.name)
    section.remarks.append(
        "compactbench has its suites only in its repository, not in its package, so its quick start finds none. Its"
        " methods and its scores need a language model: its `mock` provider gives fixed answers, for tests of its own."
    )
