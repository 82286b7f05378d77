"""Runs of neighbouring turns with search results [SPEC 7; S1]."""

from collections.abc import Iterable, Sequence
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.search import Hit, Judge, SearchResult, Surroundings
from foldmark.core.segments import END, Segments, contains
from foldmark.core.wording import title
from foldmark.log import Agent

GAP = 2
"""Maximum number of turns without a hit between two turns of one run."""


class Run(Struct, frozen=True):
    """Neighbouring turns of one agent with search results.

    `first` and `last` are the ids of its outermost matching turns, `turns` those of all matching ones; a message
    outside of turns is a run by itself, with ids of events. `messages` counts everything from the first turn to the end
    of the last. `where` is relative to the agent that asks: "context" if all hits are in its context, "partly" if some
    are, "forgotten" if they are in its past only, "elsewhere" if another agent wrote them; `visible` is True for the
    first of these. `date` is UTC, that of the oldest hit; `hits` are the best first.
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


def runs_of(agent: Agent, found: Iterable[SearchResult]) -> list[Run]:
    """Return the runs of the messages that were found, as an agent sees them, the one with the best hit first."""
    by_id = {each.event_id: each for each in found if each.event_id is not None}
    if not by_id:
        return []
    with agent.log.store.read() as moment:
        places = [_hit(each, by_id[each.hit.event_id]) for each in moment.surroundings(list(by_id), GAP + 1)]
        outlines, lineage = agent.log.outlines(moment), agent.born(moment).fold.segments
        outlines.meet([agent.id, *(each.hit.agent_id for each in places)])
        visible = outlines.visible(agent.id)
        runs = [_run(each, visible, lineage) for each in grouped(places, outlines)]
    return sorted(runs, key=lambda run: (-run.hits[0].score, -run.last))


def _hit(place: Surroundings, found: SearchResult) -> Surroundings:
    """Return the place with the search's score and snippet."""
    hit = replace(
        place.hit,
        score=found.score,
        snippet=found.snippet,
        visible=bool(found.visible),
        highlights=found.highlights,
    )
    return place._replace(hit=hit)


def grouped(places: Iterable[Surroundings], judge: Judge) -> list[list[Surroundings]]:
    """Group results into runs of neighbouring turns of one agent, each run in the order of the log. A planning
    conversation ends a run."""
    runs: list[list[Surroundings]] = []
    ordered = sorted(
        places, key=lambda each: (each.hit.agent_id, each.hit.turn_id or each.hit.event_id, each.hit.event_id)
    )
    near: Sequence[int] = ()
    before: tuple[str, int | None] | None = None
    for each in ordered:
        agent, turn = each.hit.agent_id, each.hit.turn_id
        in_run = before is not None and turn is not None and before[0] == agent and (turn == before[1] or turn in near)
        if in_run:
            runs[-1].append(each)
        else:
            runs.append([each])
        near, before = _near(each, judge), (agent, turn)
    return runs


def _near(place: Surroundings, judge: Judge) -> list[int]:
    """Return the turns after a place that may belong to its run."""
    following = (turn for turn, _ in place.behind if place.hit.turn_id is not None and turn != END)
    return list(takewhile(lambda turn: not judge.plans(place.hit.agent_id, turn), following))


def _run(places: Sequence[Surroundings], visible: Segments, lineage: Segments) -> Run:
    hits = [each.hit for each in places]
    agent, outside = hits[0].agent_id, hits[0].turn_id is None
    turns = tuple(dict.fromkeys(hit.turn_id or hit.event_id for hit in hits))
    where = _where(hits, visible, lineage)
    return Run(
        agent,
        hits[0].agent_name or agent[:8],
        turns[0],
        turns[-1],
        turns,
        1 if outside else places[-1].behind[0][1] - places[0].before,
        hits[0].created_at[:10],
        _title(places),
        where,
        where == "context",
        tuple(sorted(hits, key=lambda hit: (-hit.score, -hit.event_id))),
    )


def _where(hits: Sequence[Hit], visible: Segments, lineage: Segments) -> str:
    shown = sum(contains(visible, hit.agent_id, hit.event_id) for hit in hits)
    if shown:
        return "context" if shown == len(hits) else "partly"
    past = any(contains(lineage, hit.agent_id, hit.event_id) for hit in hits)
    return "forgotten" if past else "elsewhere"


def _title(places: Sequence[Surroundings]) -> str:
    """Return the first words of the person's text: of the hit, or else of the run's first turn."""
    asked = next((each for each in places if each.hit.kind == "user"), places[0]).asked
    return title(asked) or title(places[0].hit.snippet)
