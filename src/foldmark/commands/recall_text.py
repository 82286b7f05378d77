"""The answer of a search in words: runs of turns, memos and archived sessions in one ranking [SPEC 7; S1]."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from foldmark.commands.recall_runs import Run
from foldmark.core.search import PROGRAMS, Hit, SearchResult
from foldmark.core.wording import MONTHS, count, listing, one_line

TITLE = 60
"""Maximum number of characters of a query that are shown."""

ALSO = 8
"""Maximum number of further lines of a session that are named."""


class SessionHits(Struct, frozen=True):
    """An archived session with search results. `place` names the best of `hits`, which come first, for reading on."""

    source: str
    id: str
    name: str
    date: str
    place: str
    hits: tuple[SearchResult, ...]


class HighlightedLine(NamedTuple):
    """A line, and its highlighted places."""

    text: str
    spans: Sequence[tuple[int, int]] = ()


class Wording(NamedTuple):
    """How the reader reads on: further lines for a run, and the words before the place of a session."""

    reads_on: str
    more: Callable[[Run], str] | None = None


RecallEntry = Run | SearchResult | SessionHits
"""An entry of the list; a `SearchResult` is a memo."""


def text_of(lines: Iterable[HighlightedLine]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return lines as one text, and the highlighted places in it."""
    text, spans, at = [], [], 0
    for line in lines:
        text.append(line.text)
        spans += [(at + start, at + end) for start, end in line.spans]
        at += len(line.text) + 1
    return "\n".join(text), tuple(spans)


def opening(query: str, narrowed: str, entries: Sequence[RecallEntry]) -> str:
    """Return the first line: how much was found; `narrowed` are the filters in words."""
    asked = one_line(" ".join(query.split()))
    asked = f"{asked[: TITLE - 1]}…" if len(asked) > TITLE else asked
    only = f" ({one_line(narrowed)})" if narrowed else ""
    if not entries:
        return f"Nothing was ever said with a word of: {asked}{only}"
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
        lines = [HighlightedLine(_run(entry)), _snippet(entry.hits[0])]
        return [*lines, HighlightedLine(f"    {wording.more(entry)}")] if wording.more else lines
    if isinstance(entry, SearchResult):
        tags = f" [{one_line(entry.name)}]" if entry.name else ""
        return [HighlightedLine(f"- {_date(entry.at)}: memo {entry.id}{tags}"), _snippet(entry)]
    best = entry.hits[0]
    said = f"{best.role} {best.tool}" if best.tool else best.role
    others = [hit.line for hit in entry.hits[1:] if hit.file == best.file]
    also = f" (also line{'s' * (len(others) > 1)} {listing(others, ALSO)})" if others else ""
    program = PROGRAMS.get(entry.source, entry.source)
    return [
        HighlightedLine(f"- {_date(entry.date)}: {one_line(entry.name)}, {program} session {one_line(entry.id)}"),
        _snippet(best, f"{one_line(said)}: "),
        HighlightedLine(f"    {wording.reads_on}{one_line(entry.place)}{also}"),
    ]


def _snippet(hit: Hit | SearchResult, before: str = "") -> HighlightedLine:
    """Return the snippet on a line of its own; it is longer there than beside a title."""
    line, start = hit.snippet, 4 + len(before)
    spans = [(start + len(one_line(line[:begin])), start + len(one_line(line[:end]))) for begin, end in hit.highlights]
    return HighlightedLine(f"    {before}{one_line(line)}", spans)


def _messages(entries: Sequence[Run | SessionHits]) -> str:
    return count(sum(len(each.hits) for each in entries), "message")


def _run(run: Run) -> str:
    turns = f"turn {run.first}" if run.first == run.last else f"turns {run.first}–{run.last}"
    return f"- {_date(run.date)}: {run.title} ({count(run.messages, 'message')}), {_place(run)}, {turns}"


def _date(at: str | None) -> str:
    year, _, rest = (at or "")[:10].partition("-")
    month, _, day = rest.partition("-")
    try:
        return f"{MONTHS[int(month) - 1]} {int(day)}, {year}"
    except (ValueError, IndexError):  # none, or a damaged one
        return "no date"


def _place(run: Run) -> str:
    if run.where == "elsewhere":
        return f"in {run.name}" + ("" if any(hit.visible for hit in run.hits) else " and forgotten there")
    return {"context": "in the context", "partly": "partly in the context", "forgotten": "forgotten"}[run.where]
