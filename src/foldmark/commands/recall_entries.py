"""The entries of a search and their text: runs of turns, memos and archived sessions in a common ranking [SPEC 7;
S1]."""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.search import Hit, Judge, SearchResult, SearchScope, Surroundings
from foldmark.core.segments import END, Segments, contains
from foldmark.core.wording import MONTHS, count, listing, one_line, title
from foldmark.cost.messages import NextMessages, next_messages
from foldmark.log import Agent

GAP = 2
"""Maximum number of turns without a hit between two turns of one run."""


class Run(Struct, frozen=True):
    """Neighbouring turns of one agent that contain search results.

    `first` and `last` are the ids of its outermost matching turns, `turns` those of all matching ones; a message
    outside turns forms its own run, with event ids. `messages` counts everything from the first turn to the end of the
    last. `where` is "elsewhere" if another agent wrote the hits, otherwise their places toward the searching agent's
    next request (`NextMessages.places`); `visible` is True if all are in its context. `date` is that of the oldest hit,
    in UTC; `hits` are the hits, best first.
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


def runs_of(agent: Agent, found: Iterable[SearchResult], coming: NextMessages | None = None) -> list[Run]:
    """Return the runs of the found messages, as an agent sees them, the run with the best hit first. `coming` are the
    agent's messages toward its next request if the caller has them; they are made if a hit is the agent's own."""
    by_id = {each.event_id: each for each in found if each.event_id is not None}
    if not by_id:
        return []
    with agent.log.store.read() as moment:
        near = moment.index(SearchScope()).surroundings(list(by_id), GAP + 1)
        places = [_hit(each, by_id[each.hit.event_id]) for each in near]
        outlines, lineage = agent.log.outlines(moment), agent.reader.born(moment).fold.segments
        outlines.meet([agent.id, *(each.hit.agent_id for each in places)])
        visible = outlines.visible(agent.id)
        if coming is None and any(contains(lineage, each.hit.agent_id, each.hit.event_id) for each in places):
            coming = next_messages(agent, moment, agent.standing_in(moment))
        runs = [_run(each, visible, lineage, coming) for each in grouped(places, outlines)]
    return sorted(runs, key=lambda run: (-run.hits[0].score, -run.last))


def _hit(place: Surroundings, found: SearchResult) -> Surroundings:
    """Return the place with the score and snippet of the search."""
    hit = replace(
        place.hit,
        score=found.score,
        snippet=found.snippet,
        visible=bool(found.visible),
        highlights=found.highlights,
    )
    return place._replace(hit=hit)


def grouped(places: Iterable[Surroundings], judge: Judge) -> list[list[Surroundings]]:
    """Group results into runs of neighbouring turns of one agent, each in the order of the log. A planning conversation
    ends a run."""
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


def _run(places: Sequence[Surroundings], visible: Segments, lineage: Segments, coming: NextMessages | None) -> Run:
    hits = [each.hit for each in places]
    agent, outside = hits[0].agent_id, hits[0].turn_id is None
    turns = tuple(dict.fromkeys(hit.turn_id or hit.event_id for hit in hits))
    if coming is None or not contains(lineage, agent, hits[0].event_id):
        where = "elsewhere"
    else:
        where = coming.places([(hit.agent_id, hit.event_id) for hit in hits])
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
        all(contains(visible, hit.agent_id, hit.event_id) for hit in hits),
        tuple(sorted(hits, key=lambda hit: (-hit.score, -hit.event_id))),
    )


def _title(places: Sequence[Surroundings]) -> str:
    """Return the first words of the person's text: of the hit, or else of the run's first turn."""
    asked = next((each for each in places if each.hit.kind == "user"), places[0]).asked
    return title(asked) or title(places[0].hit.snippet)


TITLE = 60
"""Maximum number of characters of a query that are shown."""

ALSO = 8
"""Maximum number of further lines of a session to name."""


class SessionHits(Struct, frozen=True):
    """An archived session with search results. `hits` are best first; `place` names the best one, for reading more."""

    source: str
    id: str
    name: str
    date: str
    place: str
    hits: tuple[SearchResult, ...]


class HighlightedLine(NamedTuple):
    """A line with its highlighted places."""

    text: str
    spans: Sequence[tuple[int, int]] = ()


class Wording(NamedTuple):
    """The wording of pointers to more text: further lines for a run, and the command before a session's place."""

    reads_on: str
    more: Callable[[Run], str] | None = None


RecallEntry = Run | SearchResult | SessionHits
"""An entry of the list; a `SearchResult` is a memo."""


def text_of(lines: Iterable[HighlightedLine]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the lines as one text, and its highlighted places."""
    text, spans, at = [], [], 0
    for line in lines:
        text.append(line.text)
        spans += [(at + start, at + end) for start, end in line.spans]
        at += len(line.text) + 1
    return "\n".join(text), tuple(spans)


def opening(query: str, narrowed: str, entries: Sequence[RecallEntry]) -> str:
    """Return the first line, which reports the number of results; `narrowed` are the filters in words."""
    asked = one_line(" ".join(query.split()))
    asked = f"{asked[: TITLE - 1]}…" if len(asked) > TITLE else asked
    only = f" ({one_line(narrowed)})" if narrowed else ""
    if not entries:
        return f"No messages match: {asked}{only}"
    runs = [each for each in entries if isinstance(each, Run)]
    sessions = [each for each in entries if isinstance(each, SessionHits)]
    memos = len(entries) - len(runs) - len(sessions)
    parts = [f"{_messages(runs)} in {count(len(runs), 'run')} of turns"] if runs else []
    parts += [f"{_messages(sessions)} in {count(len(sessions), 'archived session')}"] if sessions else []
    parts += [count(memos, "memo")] if memos else []
    return f"Found {', '.join(parts)}, the best first: {asked}{only}"


def listed(entry: RecallEntry, wording: Wording) -> list[HighlightedLine]:
    """Return the lines of one entry."""
    if isinstance(entry, Run):
        lines = [HighlightedLine(_run_line(entry)), _snippet(entry.hits[0])]
        return [*lines, HighlightedLine(f"    {wording.more(entry)}")] if wording.more else lines
    if isinstance(entry, SearchResult):
        tags = f" [{one_line(entry.name)}]" if entry.name else ""
        return [HighlightedLine(f"- {_date(entry.at)}: memo {entry.id}{tags}"), _snippet(entry)]
    from foldmark.formats.session_format import title_of  # most commands need no formats

    best = entry.hits[0]
    program = title_of(best.source)
    others = [hit.line for hit in entry.hits[1:] if hit.file == best.file]
    also = f" (also line{'s' * (len(others) > 1)} {listing(others, ALSO)})" if others else ""
    return [
        HighlightedLine(f"- {_date(entry.date)}: {one_line(entry.name)}, {program} session {one_line(entry.id)}"),
        _snippet(best, f"{best.who}: "),
        HighlightedLine(f"    {wording.reads_on}{one_line(entry.place)}{also}"),
    ]


def _snippet(hit: Hit | SearchResult, before: str = "") -> HighlightedLine:
    """Return the snippet on its own line, where it may be longer than next to a title."""
    line, start = hit.snippet, 4 + len(before)
    spans = [(start + len(one_line(line[:begin])), start + len(one_line(line[:end]))) for begin, end in hit.highlights]
    return HighlightedLine(f"    {before}{one_line(line)}", spans)


def _messages(entries: Sequence[Run | SessionHits]) -> str:
    return count(sum(len(each.hits) for each in entries), "message")


def _run_line(run: Run) -> str:
    turns = f"turn {run.first}" if run.first == run.last else f"turns {run.first}–{run.last}"
    return f"- {_date(run.date)}: {run.title} ({count(run.messages, 'message')}), {_place(run)}, {turns}"


def _date(at: str | None) -> str:
    year, _, rest = (at or "")[:10].partition("-")
    month, _, day = rest.partition("-")
    try:
        return f"{MONTHS[int(month) - 1]} {int(day)}, {year}"
    except (ValueError, IndexError):  # missing or damaged
        return "no date"


def _place(run: Run) -> str:
    if run.where == "elsewhere":
        return f"in {run.name}" + ("" if any(hit.visible for hit in run.hits) else " and out there")
    return run.where
