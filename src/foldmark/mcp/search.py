"""`search`, in the shape that users of episodic memory know: what was said in sessions and conversations [SPEC 7]."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct

from foldmark.core.codec import utc
from foldmark.core.errors import CommandError
from foldmark.core.ports import Progress
from foldmark.core.request import ToolSpec
from foldmark.core.search import PROGRAMS, SPEAKERS, Filters, SearchResult
from foldmark.core.wording import count, one_line, remarks
from foldmark.log.outlines import NoVectorsError
from foldmark.mcp import archive
from foldmark.mcp.conversations import Conversations
from foldmark.recall.embeddings import EmbeddingError

MOST, CONCEPTS, DEEP = 50, 5, 200
"""The most results, and concepts of one search; how many hits of each concept are looked at."""

CONVERSATION = "foldmark://conversations/"
"""How the path of a conversation begins; its lines are ids of messages."""

MEMO = "foldmark://memos/"
"""How the path of a memo begins; it has no lines."""

_Limit = Annotated[int, Meta(ge=1, le=MOST)]
_Concepts = Annotated[list[str], Meta(min_length=1, max_length=CONCEPTS)]
_DATE = r"^\d{4}-\d{2}-\d{2}$"

SEARCH = ToolSpec(
    "search",
    "Find what was said in earlier coding sessions (Claude Code, Codex) and in Foldmark's conversations: decisions, "
    "reasons, solutions, errors. Look here before a task. One text finds the messages that fit its words best; a list "
    "of concepts finds the sessions in which every one of them came up. `read` shows the passage around a result.",
    {
        "type": "object",
        "properties": {
            "query": {
                "description": 'Words in any order, "words that stand together", beginnings as in migrat*; or several',
                "anyOf": [
                    {"type": "string"},
                    {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": CONCEPTS},
                ],
            },
            "mode": {
                "type": "string",
                "enum": ["vector", "text", "both"],
                "description": "By meaning, by words, or both; by words while `foldmark index` has made no vectors",
            },
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "description": "10 if left out"},
            "after": {"type": "string", "pattern": _DATE, "description": "Said on this day or later, as 2026-01-31"},
            "before": {"type": "string", "pattern": _DATE, "description": "Said before this day"},
            "project": {"type": "string", "description": "A part of the working folder, or of a conversation's name"},
            "session_id": {"type": "string", "description": "A session's or a conversation's id, or its beginning"},
            "role": {"type": "string", "enum": [*SPEAKERS], "description": "Who said it"},
            "tool": {"type": "string", "description": "Calls of this tool, and what it answered"},
            "response_format": {"type": "string", "enum": ["markdown", "json"]},
        },
        "required": ["query"],
    },
)


class SearchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `search`."""

    query: str | _Concepts
    mode: Literal["vector", "text", "both"] = "both"
    limit: _Limit = 10
    after: str | None = None
    before: str | None = None
    project: str | None = None
    session_id: str | None = None
    role: str | None = None
    tool: str | None = None
    response_format: Literal["markdown", "json"] = "markdown"


def search(wanted: SearchArguments, conversations: Conversations, progress: Progress) -> str:
    """The results, the best first. Raises CommandError, IndexFileError, StoreError."""
    filters = _filters(wanted)
    told = [note] if (note := archive.catch_up(conversations, progress)) else []
    several, mode = _several(wanted.query), wanted.mode
    alone = len(several) == 1
    find = partial(archive.find, conversations, several, wanted.limit if alone else DEEP, filters)
    try:
        lists = find(mode)
    except (NoVectorsError, EmbeddingError) as error:
        if mode == "vector":
            told.append(f"found by words: {error}")
        mode = "text"
        lists = find(mode)
    results = lists[0] if alone else [hit for hits in _in_all(lists)[: wanted.limit] for hit in hits]
    concepts = None if alone else several
    if wanted.response_format == "json":
        return msgspec.json.encode(_data(results, concepts, told, mode)).decode()
    return "\n".join([*(_concepts(results, concepts) if concepts else _hits(results)), *remarks(told)])


def _several(query: str | list[str]) -> list[str]:
    """The concepts; a list may come as its JSON, from clients that know nothing but texts."""
    if isinstance(query, str) and query.lstrip().startswith("["):
        with suppress(msgspec.MsgspecError, RecursionError):
            return msgspec.json.decode(query, type=_Concepts)
    return [query] if isinstance(query, str) else query


def _filters(wanted: SearchArguments) -> Filters:
    if wanted.role is not None and wanted.role not in SPEAKERS:
        raise CommandError(f"role is one of {', '.join(SPEAKERS)}, not '{one_line(wanted.role)[:40]}'")
    return Filters(
        since=_day("after", wanted.after),
        before=_day("before", wanted.before),
        project=wanted.project,
        agent=wanted.session_id,
        tool=wanted.tool,
        role=wanted.role,
    )


def _day(name: str, text: str | None) -> datetime | None:
    try:
        return None if text is None else utc(text)
    except ValueError:
        raise CommandError(f"{name} is a day as 2026-01-31, not '{one_line(text or '')[:40]}'") from None


def _in_all(lists: Sequence[Sequence[SearchResult]]) -> list[list[SearchResult]]:
    """For each session in which something of every list was found, the best hit of each, the best session first."""
    best: dict[tuple[str, str], list[tuple[int, SearchResult]]] = {}
    for number, hits in enumerate(lists):
        for place, hit in enumerate(hits):
            met = best.setdefault((hit.source, hit.id), [])
            if len(met) == number:
                met.append((place, hit))
    full = [met for met in best.values() if len(met) == len(lists)]
    return [[hit for _, hit in met] for met in sorted(full, key=lambda met: sum(place for place, _ in met))]


def _hits(results: Sequence[SearchResult]) -> Iterator[str]:
    if not results:
        yield "Nothing was found."
        return
    yield f"{count(len(results), 'result')}, the best first; `read` shows more of a path, by lines."
    for number, hit in enumerate(results, 1):
        yield f"\n{number}. {_title(hit)}"
        yield _said(hit)
        yield f"   {_place(hit)}"


def _concepts(results: Sequence[SearchResult], concepts: Sequence[str]) -> Iterator[str]:
    found = [results[at : at + len(concepts)] for at in range(0, len(results), len(concepts))]
    if not found:
        yield "Nothing was found in which all of these came up."
        return
    yield f"{count(len(found), 'session')} in which all came up, the best first; `read` shows more of a path, by lines."
    for number, hits in enumerate(found, 1):
        yield f"\n{number}. {_title(hits[0])}"
        for concept, hit in zip(concepts, hits, strict=True):
            yield f"   “{one_line(concept)}” in {_place(hit)}"
            yield _said(hit)


def _title(hit: SearchResult) -> str:
    parts = ((hit.at or "no date")[:10], one_line(hit.name), f"{_kind(hit)} {one_line(hit.id)}")
    return " · ".join(part for part in parts if part)


def _kind(hit: SearchResult) -> str:
    program = PROGRAMS.get(hit.source)
    return f"{program} session" if program else hit.source


def _said(hit: SearchResult) -> str:
    who = f"{hit.role} {hit.tool}" if hit.tool else hit.role
    gone = " (not in the context any more)" if hit.visible is False else ""
    return f"   {one_line(who)}{gone}: {one_line(hit.snippet)}"


def _place(hit: SearchResult) -> str:
    line = _line(hit)
    return _path(hit) if line is None else f"{_path(hit)}, line {line}"


def _path(hit: SearchResult) -> str:
    if hit.source == "memo":
        return f"{MEMO}{hit.id}"
    return hit.file if hit.file is not None else f"{CONVERSATION}{quote(hit.name, safe='')}"


def _line(hit: SearchResult) -> int | None:
    return hit.line if hit.file is not None else hit.event_id


def _data(
    results: Sequence[SearchResult], concepts: Sequence[str] | None, told: Sequence[str], mode: str
) -> dict[str, Any]:
    rows = [
        {
            **({"concept": concepts[at % len(concepts)]} if concepts else {}),
            "source": hit.source,
            "session_id": hit.id,
            "project": hit.name,
            "role": hit.role,
            "tool": hit.tool,
            "at": hit.at,
            "snippet": hit.snippet,
            "path": _path(hit),
            "line": _line(hit),
            "visible": hit.visible,
        }
        for at, hit in enumerate(results)
    ]
    return {"results": rows, "count": len(rows), "mode": mode, "concepts": concepts, "notes": list(told)}
