"""`/recall`: whatever was said, by its words, forgotten or not; the context does not change [SPEC 4, 7; S1]."""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec
from msgspec import Struct

from foldmark.commands.registry import HUMAN, Call, Command
from foldmark.conversation import Agent, Result
from foldmark.conversation.standing import Standing
from foldmark.core.ports import Hit, Store
from foldmark.core.segments import END, Segment, contains
from foldmark.core.wording import MONTHS, count, one_line, title

HITS = 100
"""Messages that are looked for, the best ones."""

SHOWN = 20
"""Runs that are printed; `--json` has all."""

GAP = 2
"""Turns without a hit that may lie between two turns of one run."""

TITLE = 60
"""Characters of a title."""

class Run(Struct, frozen=True):
    """Neighbouring turns of one agent in which something was found.

    `first` and `last` are the ids of its outermost matching turns, `turns` those of all matching ones; what stands
    outside of turns is a run by itself, and then they are ids of events. `messages` counts everything from the first
    turn to the end of the last. `where` is seen from the agent that asks: "context" if all hits are in its context,
    "partly" if some are, "forgotten" if they are in its past only, "elsewhere" if another agent said it; `visible` is
    the first of these. `date` is UTC, that of the oldest hit; `hits` are the best first.
    """

    agent: str
    name: str
    first: int
    last: int
    turns: tuple[int, ...]
    messages: int
    date: str
    title: str
    where: str
    visible: bool
    hits: tuple[Hit, ...]


def recall(call: Call) -> Result:
    """Answer with the runs in which the words of the query stand, that with the best hit first."""
    query = call.arguments["QUERY"]
    runs = runs_of(call.agent, call.agent.log.search(query, HITS))
    rows = [
        {**msgspec.to_builtins(run), "turns": list(run.turns), "hits": [msgspec.to_builtins(hit) for hit in run.hits]}
        for run in runs
    ]
    return Result(told(query, runs), None, {"query": query, "runs": rows})


def runs_of(agent: Agent, hits: Iterable[Hit]) -> list[Run]:
    """The runs in which these hits stand as the agent sees them, that with the best hit first."""
    at = agent.standing()
    runs = [_run(at, each) for each in grouped(at.store, hits)]
    return sorted(runs, key=lambda run: (-run.hits[0].score, -run.last))


def grouped(store: Store, hits: Iterable[Hit]) -> list[list[Hit]]:
    """Hits by runs of neighbouring turns of one agent, each run in the order of the log."""
    runs: list[list[Hit]] = []
    ordered = sorted(hits, key=lambda hit: (hit.agent_id, hit.turn_id or hit.event_id, hit.event_id))
    for agent, said in groupby(ordered, attrgetter("agent_id")):
        near: Sequence[int | None] = ()
        for turn, found in groupby(said, attrgetter("turn_id")):
            if turn is not None and turn in near:
                runs[-1].extend(found)
            elif turn is not None:
                runs.append(list(found))
            else:
                runs.extend([hit] for hit in found)
            near = () if turn is None else store.turns_after(agent, turn, GAP + 1)
    return runs


def _run(at: Standing, hits: Sequence[Hit]) -> Run:
    agent, outside = hits[0].agent_id, hits[0].turn_id is None
    turns = tuple(dict.fromkeys(hit.turn_id or hit.event_id for hit in hits))
    first, last = turns[0], turns[-1]
    following = at.store.turns_after(agent, last, 1)
    end = last if outside else following[0] - 1 if following else END
    where = _where(at, hits)
    return Run(
        agent,
        hits[0].agent_name or agent[:8],
        first,
        last,
        turns,
        at.store.size((Segment(agent, first, end),)).messages,
        hits[0].created_at[:10],
        _title(at.store, hits),
        where,
        where == "context",
        tuple(sorted(hits, key=lambda hit: (-hit.score, -hit.event_id))),
    )


def _where(at: Standing, hits: Sequence[Hit]) -> str:
    shown = sum(contains(at.visible, hit.agent_id, hit.event_id) for hit in hits)
    if shown:
        return "context" if shown == len(hits) else "partly"
    past = any(contains(at.lineage, hit.agent_id, hit.event_id) for hit in hits)
    return "forgotten" if past else "elsewhere"


def _title(store: Store, hits: Sequence[Hit]) -> str:
    """The first words of what the person said: where it was found, or else where the run's first turn begins."""
    asked = [hit.event_id for hit in hits if hit.kind == "user"]
    event = store.event(asked[0] if asked else hits[0].turn_id or hits[0].event_id)
    return title(event.content if event and event.kind == "user" else "") or title(hits[0].snippet)


def told(query: str, runs: Sequence[Run], more: Callable[[Run], str] | None = None) -> str:
    """What was found in words; `more` is a further line for each run that is shown."""
    asked = one_line(" ".join(query.split()))
    asked = f"{asked[: TITLE - 1]}…" if len(asked) > TITLE else asked
    if not runs:
        return f"Nothing was ever said with a word of: {asked}"
    found = sum(len(run.hits) for run in runs)
    lines = [f"Found {count(found, 'message')} in {count(len(runs), 'run')} of turns, the best first: {asked}"]
    for run in runs[:SHOWN]:
        lines += [_line(run), f"    {one_line(run.hits[0].snippet)}"]
        lines += [f"    {more(run)}"] if more else []
    if len(runs) > SHOWN:
        lines.append(f"{count(len(runs) - SHOWN, 'run')} more, in which less was found.")
    if found == HITS:
        lines.append(f"These are the {HITS} best messages; a query with more words finds fewer others.")
    return "\n".join(lines)


def _line(run: Run) -> str:
    turns = f"turn {run.first}" if run.first == run.last else f"turns {run.first}–{run.last}"
    year, month, day = run.date.split("-")
    date = f"{MONTHS[int(month) - 1]} {int(day)}, {year}"
    return f"- {date}: {run.title} ({count(run.messages, 'message')}), {_place(run)}, {turns}"


def _place(run: Run) -> str:
    if run.where == "elsewhere":
        return f"in {run.name}" + ("" if any(hit.visible for hit in run.hits) else " and forgotten there")
    return {"context": "in the context", "partly": "partly in the context", "forgotten": "forgotten"}[run.where]


RECALL = (Command("recall", "QUERY...", "Search everything that was ever said, forgotten or not.", recall, HUMAN),)
