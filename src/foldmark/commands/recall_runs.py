"""Runs of neighbouring turns in which something was found [SPEC 7; S1]."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby, takewhile
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.ports import Hit, Snapshot
from foldmark.core.recall import Found
from foldmark.core.segments import END, Segment, contains
from foldmark.core.wording import title
from foldmark.log.planned import Planned
from foldmark.request.standing import Standing

GAP = 2
"""Turns without a hit that may lie between two turns of one run."""


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


def hits_of(moment: Snapshot, found: Iterable[Found]) -> list[Hit]:
    """Those of conversations among what was found, with what the log knows of them."""
    by_id = {each.event_id: each for each in found if each.event_id is not None}
    return [
        replace(
            hit,
            score=by_id[hit.event_id].score,
            snippet=by_id[hit.event_id].snippet,
            visible=bool(by_id[hit.event_id].visible),
            highlights=by_id[hit.event_id].highlights,
        )
        for hit in moment.hits(list(by_id))
    ]


def runs_of(moment: Snapshot, at: Standing, hits: Iterable[Hit]) -> list[Run]:
    """The runs in which these hits stand as an agent sees them from there, that with the best hit first."""
    runs = [_run(moment, at, each) for each in grouped(moment, hits)]
    return sorted(runs, key=lambda run: (-run.hits[0].score, -run.last))


def grouped(moment: Snapshot, hits: Iterable[Hit]) -> list[list[Hit]]:
    """Hits by runs of neighbouring turns of one agent, each run in the order of the log. A planning conversation ends
    a run."""
    planned = Planned(moment)
    runs: list[list[Hit]] = []
    ordered = sorted(hits, key=lambda hit: (hit.agent_id, hit.turn_id or hit.event_id, hit.event_id))
    for agent, said in groupby(ordered, attrgetter("agent_id")):
        live = partial(_is_live, planned, agent)
        near: Sequence[int | None] = ()
        for turn, found in groupby(said, attrgetter("turn_id")):
            if turn is not None and turn in near:
                runs[-1].extend(found)
            elif turn is not None:
                runs.append(list(found))
            else:
                runs.extend([hit] for hit in found)
            behind = () if turn is None else moment.turns_after(agent, turn, GAP + 1)
            near = tuple(takewhile(live, behind))
    return runs


def _is_live(planned: Planned, agent: str, turn: int) -> bool:
    return not planned(agent, turn)


def _run(moment: Snapshot, at: Standing, hits: Sequence[Hit]) -> Run:
    agent, outside = hits[0].agent_id, hits[0].turn_id is None
    turns = tuple(dict.fromkeys(hit.turn_id or hit.event_id for hit in hits))
    first, last = turns[0], turns[-1]
    following = moment.turns_after(agent, last, 1)
    end = last if outside else following[0] - 1 if following else END
    where = _where(at, hits)
    return Run(
        agent,
        hits[0].agent_name or agent[:8],
        first,
        last,
        turns,
        moment.size((Segment(agent, first, end),)).messages,
        hits[0].created_at[:10],
        _title(moment, hits),
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


def _title(moment: Snapshot, hits: Sequence[Hit]) -> str:
    """The first words of what the person said: where it was found, or else where the run's first turn begins."""
    asked = [hit.event_id for hit in hits if hit.kind == "user"]
    event = moment.event(asked[0] if asked else hits[0].turn_id or hits[0].event_id)
    return title(event.content if event and event.kind == "user" else "") or title(hits[0].snippet)
