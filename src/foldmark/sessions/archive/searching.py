"""`foldmark search`: conversations of the log and archived sessions, by their words, together [SPEC 7, 8].

Ranks of two indexes cannot be compared: how much a word weighs depends on all else that is in its index. So the two
lists are merged by places, the best of each first, the second of each next; and in both, what holds all words comes
before what holds some.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from foldmark.conversation import Log
from foldmark.core.errors import FoldmarkError
from foldmark.core.ports import Hit
from foldmark.sessions.archive import index
from foldmark.sessions.archive.records import LONGEST, said
from foldmark.sessions.session_file import SessionFile
from foldmark.stores.sqlite_search import Term, expression, snippet, terms, tokenizers

MOST = 1000
"""The most hits of one search."""


class Filters(Struct, frozen=True):
    """What a hit has to be, each None for anything.

    `since` and `before` are moments in UTC; `project` is a part of a working folder or of a conversation's name;
    `session` the beginning of a session's or an agent's id, or a conversation's name; `tool` a tool's name, compared
    without case; `role` as in `Said`.
    """

    since: datetime | None = None
    before: datetime | None = None
    project: str | None = None
    session: str | None = None
    tool: str | None = None
    role: str | None = None


class Found(Struct, frozen=True):
    """A message that was found.

    `source` is claude, codex or conversation; `id` the session's or the agent's; `name` the session's working folder or
    the conversation's name; `all_words` whether it holds every word that was asked for. A session's message stands in
    line `line` of `file`; a conversation's is the event `event_id`, and `visible` says whether it is in the context.
    """

    source: str
    id: str
    name: str
    role: str
    tool: str | None
    at: str | None
    all_words: bool
    snippet: str
    file: str | None = None
    line: int | None = None
    event_id: int | None = None
    visible: bool | None = None


ANY = Filters()


def search(
    query: str, limit: int = 10, filters: Filters = ANY, *, archive: Path | None = None, log: Log | None = None
) -> list[Found]:
    """The messages that fit `query` best, of an archive and of a log, as far as given.

    Any text is a query, as in `Log.search`. Raises CommandError if there is no word in it, IndexFileError.
    """
    lists = []
    if archive is not None:
        lists.append(_archived(archive, query, limit, filters))
    if log is not None:
        lists.append(list(islice(_logged(log, query, filters), limit)))
    placed = [(not hit.all_words, place, hit) for hits in lists for place, hit in enumerate(hits)]
    return [hit for *_, hit in sorted(placed, key=lambda each: each[:2])[:limit]]


def wanted(query: str) -> list[Term]:
    """What a query asks for. Raises CommandError if there is no word in it."""
    db = apsw.Connection(":memory:")
    try:
        return terms(query, *tokenizers(db))
    finally:
        db.close()


def _archived(archive: Path, query: str, limit: int, filters: Filters) -> list[Found]:
    """Hits in an archive; a message that stands in several files, as in a trimmed copy, is met once."""
    db = index.open_index(archive, write=False)
    found: dict[int, Found] = {}
    with index.explained(archive / index.NAME):
        try:
            asked = terms(query, *tokenizers(db))
            for operator in ("AND", "OR")[: len(asked)]:
                for row in _rows(db, expression(asked, operator), limit, filters):
                    if len(found) == limit:
                        break
                    if row[1] not in found and (hit := _found(archive, row, asked, operator == "AND")):
                        found[row[1]] = hit
        finally:
            db.close()
    return list(found.values())


def _rows(db: apsw.Connection, match: str, limit: int, filters: Filters) -> list[tuple[Any, ...]]:
    """Rows of hits, the best first; of those with one key the one that no trimming has cut, otherwise the oldest."""
    conditions, values = _conditions(filters)
    sql = (
        "SELECT w.rank, m.key, m.line, m.offset, m.part, m.role, m.tool, m.moment, f.path, f.kind, f.session, "
        "coalesce(f.cwd, f.project), f.why IS 'trim', m.id FROM words w JOIN messages m ON m.id = w.rowid "
        f"JOIN files f ON f.id = m.file WHERE w.words MATCH ? {conditions} ORDER BY w.rank, m.id LIMIT ?"
    )
    most = 4 * limit
    while True:
        found = index.rows(db, sql, (match, *values, most))
        best: dict[int, tuple[Any, ...]] = {}
        for row in found:
            before = best.get(row[1])
            best[row[1]] = row if before is None or row[-2:] < before[-2:] else before
        if len(best) >= 2 * limit or len(found) < most:
            return list(best.values())
        most *= 4


def _conditions(filters: Filters) -> tuple[str, list[Any]]:
    """What the filters are in SQL."""
    conditions: list[tuple[str, Any]] = []
    if filters.since:
        conditions.append(("m.moment >= ?", _milliseconds(filters.since)))
    if filters.before:
        conditions.append(("m.moment < ?", _milliseconds(filters.before)))
    if filters.project:
        part = filters.project.casefold()
        conditions.append(("instr(lower(coalesce(f.cwd, '') || char(10) || f.project), ?) > 0", part))
    if filters.session:
        conditions.append(("substr(f.session, 1, length(?)) = ?", filters.session))
    if filters.tool:
        conditions.append(("lower(m.tool) = ?", filters.tool.lower()))
    if filters.role:
        conditions.append(("m.role = ?", filters.role))
    values = [value for sql, value in conditions for _ in range(sql.count("?"))]
    return "".join(f" AND {sql}" for sql, _ in conditions), values


def _found(archive: Path, row: tuple[Any, ...], asked: Sequence[Term], all_words: bool) -> Found | None:
    """A hit with its text read where it lies; None if that is no longer there."""
    _, _, line, offset, part, role, tool, moment, name, kind, session, project, *_ = row
    path = index.path_of(name, archive)
    try:
        with SessionFile(path) as file:
            messages = said(file.reread(line, offset).value, kind)
    except FoldmarkError:
        return None
    if part >= len(messages):
        return None
    shown = snippet((messages[part].text or tool or "")[:LONGEST], asked)
    return Found(kind, session, project, role, tool, index.time_of(moment), all_words, shown, str(path), line)


def _logged(log: Log, query: str, filters: Filters) -> Iterator[Found]:
    """Hits in the conversations of a log."""
    for hit in log.search(query, MOST):
        name = hit.agent_name or hit.agent_id[:8]
        tool = _tool(log, hit)
        if _fits(hit, name, tool, filters):
            yield Found(
                "conversation",
                hit.agent_id,
                name,
                hit.kind,
                tool,
                hit.created_at,
                hit.score > 1,
                hit.snippet,
                event_id=hit.event_id,
                visible=hit.visible,
            )


def _fits(hit: Hit, name: str, tool: str | None, filters: Filters) -> bool:
    at = datetime.fromisoformat(hit.created_at)
    return (
        (filters.since is None or at >= filters.since)
        and (filters.before is None or at < filters.before)
        and (filters.project is None or filters.project.casefold() in name.casefold())
        and (filters.session is None or filters.session == name or hit.agent_id.startswith(filters.session))
        and (filters.tool is None or (tool or "").lower() == filters.tool.lower())
        and (filters.role is None or hit.kind == filters.role)
    )


def _tool(log: Log, hit: Hit) -> str | None:
    """The name of the tool that a call asks for, or a result came from."""
    event = log.store.event(hit.event_id) if hit.kind in ("tool_call", "tool_result") else None
    if event and event.answers:
        event = log.store.event(event.answers)
    name = (event.data or {}).get("name") if event else None
    return name if isinstance(name, str) else None


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
