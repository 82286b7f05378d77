"""`/recall`: search everything by words, including forgotten messages; the context does not change [SPEC 4, 7; S1]."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from foldmark.commands.recall_entries import (
    HighlightedLine,
    RecallEntry,
    Run,
    SessionHits,
    Wording,
    listed,
    opening,
    runs_of,
    text_of,
)
from foldmark.commands.registry import CommandCall, command
from foldmark.core.codec import timestamp, utc, well_formed
from foldmark.core.errors import CommandError
from foldmark.core.search import FILTERED_ROLES, Filters, SearchResult
from foldmark.cost.messages import NextMessages
from foldmark.log import Agent, Log, Result
from foldmark.sessions.archive.recall import RecallResults, search_with_archive

OPTIONS = (
    ("--limit N", "Maximum number of results."),
    ("--role ROLE", f"Only messages of this role: {', '.join(FILTERED_ROLES)}."),
    ("--since DATE", "Only messages from DATE on: 2026-01-31 or 2026-01-31T12:00, UTC."),
    ("--before DATE", "Only messages before DATE."),
    ("--agent NAME", "Only this conversation, or agents and sessions whose id begins so."),
    ("--project TEXT", "Only where the conversation's name or the session's working folder contains TEXT."),
    ("--tool NAME", "Only calls of this tool and its results."),
    ("--visible", "Only messages in the context of the agent that wrote them."),
    ("--forgotten", "Only messages that left the context."),
    ("--archived", "Only archived sessions of coding agents."),
)
"""The options of `/recall`, each with its help."""

HITS = 20
"""Default number of results. Twice as many take twice as long."""


@command("recall QUERY...", options=OPTIONS, at_once=True)
def _recall(call: CommandCall) -> Result:
    """Search all messages, forgotten or not; filters: /help recall."""
    asked = read_recall(call)
    recalled = asked.search(call.agent.log)
    entries = entries_of(call.agent, recalled.found)
    wording = Wording("foldmark search --read ")
    text, marks = text_of(lines_of(asked.query, asked.narrowed, recalled, entries, asked.limit, wording))
    return Result(text, None, _data(asked.query, recalled, entries), marks)


class RecallQuery(NamedTuple):
    """The arguments of `/recall`; with `archived` only archived sessions are searched."""

    query: str
    limit: int
    filters: Filters
    archived: bool

    @property
    def narrowed(self) -> str:
        """The filters in words; empty if there are none."""
        return ", ".join(filter(None, (describe_filters(self.filters), "archived sessions" if self.archived else "")))

    def search(self, log: Log) -> RecallResults:
        """Return the results, best first. Raises CommandError if the query contains no word."""
        return search_with_archive(log, self.query, self.limit, self.filters, beside=False, archived=self.archived)


def read_recall(call: CommandCall) -> RecallQuery:
    """Return the arguments, checked. Raises CommandError."""
    shown = [flag for flag in ("--visible", "--forgotten", "--archived") if call.flag(flag)]
    if len(shown) > 1:
        raise CommandError(f"{' and '.join(shown)} exclude each other; without them, all are found")
    visible = True if shown == ["--visible"] else False if shown == ["--forgotten"] else None
    names = ("role", "since", "before", "agent", "project", "tool")
    wanted = filters({name: call.get(f"--{name}") for name in names}, visible)
    limit = call.number("--limit") if call.flag("--limit") else HITS
    return RecallQuery(call.arguments["QUERY"], limit, wanted, shown == ["--archived"])


def entries_of(agent: Agent, found: Sequence[SearchResult], coming: NextMessages | None = None) -> list[RecallEntry]:
    """Return the results as entries, in the order of the ranking. An entry with several results ranks as its best
    one. `coming` is as for `runs_of`."""
    ranks = {each.event_id: rank for rank, each in enumerate(found)}
    runs = runs_of(agent, found, coming)
    entries: list[tuple[int, RecallEntry]] = [(min(ranks[hit.event_id] for hit in run.hits), run) for run in runs]
    sessions: dict[str, list[tuple[int, SearchResult]]] = {}
    for rank, each in enumerate(found):
        if each.source == "memo":
            entries.append((rank, each))
        elif each.file is not None:
            sessions.setdefault(each.id, []).append((rank, each))
    entries += [(hits[0][0], _session(agent.log, [hit for _, hit in hits])) for hits in sessions.values()]
    return [entry for _, entry in sorted(entries, key=itemgetter(0))]


def lines_of(
    query: str, narrowed: str, recalled: RecallResults, entries: Sequence[RecallEntry], limit: int, wording: Wording
) -> Iterable[HighlightedLine]:
    """Return the answer as lines; `narrowed` are the filters in words."""
    yield HighlightedLine(opening(query, narrowed, entries))
    for entry in entries:
        yield from listed(entry, wording)
    if len(recalled.found) >= limit:
        yield HighlightedLine(
            f"These are the {limit} best; a higher limit finds more, a query with more words finds others."
        )
    for each in recalled.missing:
        yield HighlightedLine(f"{each[0].upper()}{each[1:]}.")


def _session(log: Log, hits: Sequence[SearchResult]) -> SessionHits:
    best = hits[0]
    # The session's id identifies the file if the file is named after it and no conversation is.
    own = Path(best.file or "").stem
    alone = (own == best.id or own.endswith(f"-{best.id}")) and not log.exists(best.id)
    place = f"{best.id if alone else best.file}:{best.line}"
    return SessionHits(best.source, best.id, best.name, (best.at or "")[:10], place, tuple(hits))


def _data(query: str, recalled: RecallResults, entries: Sequence[RecallEntry]) -> dict[str, Any]:
    """Return the answer as JSON; `rank` is the place in the common ranking."""
    rows: dict[str, list[dict[str, Any]]] = {"runs": [], "memos": [], "sessions": []}
    for rank, entry in enumerate(entries, 1):
        kind = "runs" if isinstance(entry, Run) else "memos" if isinstance(entry, SearchResult) else "sessions"
        rows[kind].append({"rank": rank, **json_of(entry)})
    return {"query": query, **rows, "missing": recalled.missing}


def json_of(entry: RecallEntry) -> dict[str, Any]:
    """Return an entry as JSON, its lists as lists."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(well_formed(msgspec.to_builtins(entry))))
    return found


def filters(given: Mapping[str, str | None], visible: bool | None = None, since: str = "since") -> Filters:
    """Return the filters for texts by the names of `Filters`, that of the beginning by the name `since`; an empty text
    does not filter. Raises CommandError."""
    texts = {name: well_formed(text) for name, text in given.items() if text}
    if "role" in texts and texts["role"] not in FILTERED_ROLES:
        raise CommandError(f"role must be one of {', '.join(FILTERED_ROLES)}, not '{texts['role'][:40]}'")
    begin, end = (_moment(name, texts.pop(name)) if name in texts else None for name in (since, "before"))
    return Filters(since=begin, before=end, visible=visible, **texts)


def describe_filters(filters: Filters) -> str:
    """Return the filters in words; empty if there are none."""
    values = {name: getattr(filters, name) for name in ("role", "agent", "project", "tool")}
    words = [f"{name} {text}" for name, text in values.items() if text]
    words += [f"{name} {_day(moment)}" for name in ("since", "before") if (moment := getattr(filters, name))]
    words += [] if filters.visible is None else ["in a context" if filters.visible else "in no context"]
    return ", ".join(words)


def _moment(name: str, text: str) -> datetime:
    try:
        return utc(text)
    except ValueError:
        raise CommandError(f"{name} must be a date such as 2026-01-31 or 2026-01-31T12:00, not '{text[:40]}'") from None


def _day(moment: datetime) -> str:
    return timestamp(moment, "seconds").removesuffix("Z").removesuffix("T00:00:00")


RECALL = (_recall,)
