"""`search` and `read`, with the arguments that users of episodic memory know [SPEC 7, 8]."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import quote, unquote

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from foldmark.app import nothing_to
from foldmark.commands.recall import filters
from foldmark.commands.show import message_line
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.request import ToolSpec
from foldmark.core.search import SPEAKERS, Filters, SearchResult, passage_lines
from foldmark.core.segments import END, Segment
from foldmark.core.wording import count, one_line, remarks
from foldmark.formats.session_format import title_of
from foldmark.log.memos import memo_with_id
from foldmark.log.outlines import NoVectorsError
from foldmark.mcp.conversations import Conversations, ToolUse
from foldmark.recall.embeddings import EmbeddingError
from foldmark.sending.interruption import watched
from foldmark.sessions.archive.reading import excerpt
from foldmark.sessions.archive.reading import read as read_archived
from foldmark.sessions.archive.storing import archive_folder
from foldmark.text.keywords import memo_entry
from foldmark.tools.tool import about, schema

if TYPE_CHECKING:
    from foldmark.core.search import Mode


MOST, CONCEPTS, DEEP = 50, 5, 200
"""Maximum number of results and of concepts of a search, and number of hits to examine for each concept."""

CONVERSATION = "foldmark://conversations/"
"""Beginning of the path of a conversation; its line numbers are ids of messages."""

MEMO = "foldmark://memos/"
"""Beginning of the path of a memo; it has no lines."""

_Concepts = Annotated[list[str], Meta(min_length=1, max_length=CONCEPTS)]
_DATE = r"^\d{4}-\d{2}-\d{2}$"

_SEVERAL = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": CONCEPTS}


class SearchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `search`."""

    query: Annotated[
        str | _Concepts,
        about(
            'Words in any order, "words that stand together", beginnings as in migrat*; or several',
            anyOf=[{"type": "string"}, _SEVERAL],
        ),
    ]
    mode: Annotated[
        Literal["vector", "text", "both"],
        about("By meaning, by words, or both; by words while `foldmark index` has made no vectors"),
    ] = "both"
    limit: Annotated[
        int,
        Meta(ge=1, le=MOST, description="10 if left out", extra_json_schema={"minimum": 1, "maximum": MOST}),
    ] = 10
    after: Annotated[str | None, about("Said on this day or later, as 2026-01-31", pattern=_DATE)] = None
    before: Annotated[str | None, about("Said before this day", pattern=_DATE)] = None
    project: Annotated[str | None, about("A part of the working folder, or of a conversation's name")] = None
    session_id: Annotated[str | None, about("A session's or a conversation's id, or its beginning")] = None
    role: Annotated[str | None, about("Who said it", enum=[*SPEAKERS])] = None
    tool: Annotated[str | None, about("Calls of this tool, and its results")] = None
    response_format: Literal["markdown", "json"] = "markdown"


SEARCH = ToolSpec(
    "search",
    "Find what was said in earlier coding sessions (Claude Code, Codex) and in Foldmark's conversations: decisions, "
    "reasons, solutions, errors. Look here before a task. One text finds the messages that fit its words best; a list "
    "of concepts finds the sessions in which every one of them came up. `read` shows the passage around a result.",
    schema(SearchArguments),
)


def search(wanted: SearchArguments, call: ToolUse) -> str:
    """Return the results, the best first. Raises CommandError, IndexFileError, StoreError."""
    given = {name: getattr(wanted, name) for name in ("after", "before", "project", "tool", "role")}
    narrowed, notes = filters({**given, "agent": wanted.session_id}, since="after"), list[str]()
    several, mode = _several(wanted.query), wanted.mode
    alone = len(several) == 1
    limit = wanted.limit if alone else DEEP
    with _searching(call, narrowed, notes.append) as find:
        try:
            lists = [find(query, limit, mode) for query in several]
        except (NoVectorsError, EmbeddingError) as error:
            if mode == "vector":
                notes.append(f"found by words: {error}")
            mode = "text"
            lists = [find(query, limit, mode) for query in several]
    found = [[hit] for hit in lists[0]] if alone else _in_all(lists)[: wanted.limit]
    concepts = None if alone else several
    if wanted.response_format == "json":
        return msgspec.json.encode(_data(found, concepts, notes, mode)).decode()
    return "\n".join([*_lines(found, concepts), *remarks(notes)])


def _several(query: str | list[str]) -> list[str]:
    """Return the concepts. A client that can only send text may send a list as JSON."""
    if isinstance(query, str) and query.lstrip().startswith("["):
        with suppress(msgspec.MsgspecError, RecursionError):
            return msgspec.json.decode(query, type=_Concepts)
    return [query] if isinstance(query, str) else query


def _in_all(lists: Sequence[Sequence[SearchResult]]) -> list[list[SearchResult]]:
    """Return, for each session with a hit in every list, the best hit of each list, the best session first."""
    best: dict[tuple[str, str], list[tuple[int, SearchResult]]] = {}
    for number, hits in enumerate(lists):
        for place, hit in enumerate(hits):
            met = best.setdefault((hit.source, hit.id), [])
            if len(met) == number:
                met.append((place, hit))
    full = [met for met in best.values() if len(met) == len(lists)]
    return [[hit for _, hit in met] for met in sorted(full, key=lambda met: sum(place for place, _ in met))]


def _lines(found: Sequence[Sequence[SearchResult]], concepts: Sequence[str] | None) -> Iterator[str]:
    """Yield the results as text: single messages, or sessions with one message for each concept."""
    if not found:
        yield "No session has all of these." if concepts else "No messages match."
        return
    what = f"{count(len(found), 'session')} with all of these" if concepts else count(len(found), "result")
    yield f"{what}, the best first; `read` shows more of a path, by lines."
    for number, hits in enumerate(found, 1):
        yield f"\n{number}. {_title(hits[0])}"
        for concept, hit in zip(concepts or [""], hits, strict=True):
            if concepts:
                yield f"   “{one_line(concept)}” in {_place(hit)}"
            yield _snippet(hit)
            if not concepts:
                yield f"   {_place(hit)}"


def _title(hit: SearchResult) -> str:
    kind = f"{title_of(hit.source)} session" if hit.file else hit.source
    parts = ((hit.at or "no date")[:10], one_line(hit.name), f"{kind} {one_line(hit.id)}")
    return " · ".join(part for part in parts if part)


def _snippet(hit: SearchResult) -> str:
    gone = " (out)" if hit.visible is False else ""
    return f"   {hit.who}{gone}: {one_line(hit.snippet)}"


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
    found: Sequence[Sequence[SearchResult]], concepts: Sequence[str] | None, notes: Sequence[str], mode: str
) -> dict[str, Any]:
    rows = [
        {
            **({"concept": concept} if concepts else {}),
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
        for hits in found
        for concept, hit in zip(concepts or [""], hits, strict=True)
    ]
    return {"results": rows, "count": len(rows), "mode": mode, "concepts": concepts, "notes": list(notes)}


INDEXING = 5.0
"""Maximum seconds that a search spends on updating the index."""


@contextmanager
def _searching(
    call: ToolUse, wanted: Filters, tell: Callable[[str], object]
) -> Iterator[Callable[[str, int, "Mode"], list[SearchResult]]]:
    """Yield a function that returns the best messages for a query, from archive and log together. `tell` is called with
    a text about missing messages.

    Raises CommandError if both are missing. The function raises it for a query without words, and NoVectorsError,
    EmbeddingError, IndexFileError, StoreError.
    """
    from foldmark.log.search import search_everything
    from foldmark.sessions.archive.searching import recallable

    conversations = call.conversations
    with (
        watched() as cut,
        recallable(conversations.setup.given, wanted, tell, INDEXING, call.progress, cut.is_set) as archive,
        conversations.log() if conversations.exist else nullcontext() as log,
    ):
        if archive is None and log is None:
            raise CommandError(nothing_to("search"))

        def find(query: str, limit: int, mode: "Mode") -> list[SearchResult]:
            if cut.is_set():
                raise FoldmarkError("interrupted")
            return search_everything(query, limit, wanted, log=log, archive=archive, mode=mode)

        yield find


MOST_CHARACTERS = 40_000
"""Maximum number of characters of a passage. A note at its end names the line where the rest begins."""


def _line_number(description: str) -> Meta:
    return Meta(ge=1, le=END, description=description, extra_json_schema={"minimum": 1})


class Read(Struct, frozen=True, forbid_unknown_fields=True, rename={"start": "startLine", "end": "endLine"}):
    """The arguments of `read`."""

    path: Annotated[str, about("An archived session's file or id, or a conversation's path")]
    start: Annotated[int, _line_number("The first line; from the beginning if left out")] = 1
    end: Annotated[int, _line_number("The last line; to the end if left out")] = END


READ = ToolSpec(
    "read",
    "Read what was said in a session or a conversation, whole messages. `path` and line are as `search` gives them; "
    "of a long session read a part, some lines before and behind.",
    schema(Read),
)


def read(wanted: Read, call: ToolUse) -> str:
    """Return the messages of these lines. Raises CommandError, NoSessionError, SessionFileError, StoreError."""
    if wanted.end < wanted.start:
        raise CommandError(f"endLine {wanted.end} lies before startLine {wanted.start}")
    if wanted.path.startswith(MEMO):
        return _memo(wanted.path.removeprefix(MEMO), call.conversations)
    found = _conversation(wanted, call.conversations) if wanted.path.startswith(CONVERSATION) else _session(wanted)
    if not found:
        raise CommandError(f"there is no message in these lines of {one_line(wanted.path)[:200]}")
    return _limited(found)


def _session(wanted: Read) -> list[tuple[int, str]]:
    passage = read_archived(archive_folder(os.environ), wanted.path, archived_only=True)  # clients read no other files
    shown = (
        (record.line, excerpt(replace(passage, records=(replace(record, asked=False),))).lines)
        for record in passage.records
        if wanted.start <= record.line <= wanted.end
    )
    return [(number, "\n".join(text for line in lines for text in passage_lines(line))) for number, lines in shown]


def _conversation(wanted: Read, conversations: Conversations) -> list[tuple[int, str]]:
    named = unquote(wanted.path.removeprefix(CONVERSATION))
    with conversations.agent(named) as agent, agent.log.store.read() as moment:
        messages = moment.select((Segment(agent.id, wanted.start, wanted.end),))
        return [(message.id, message_line(message, whole=True)) for message in messages]


def _memo(named: str, conversations: Conversations) -> str:
    with conversations.log() as log, log.store.read() as moment:
        return memo_entry(memo_with_id(moment, int(named) if re.fullmatch("[0-9]{1,18}", named) else 0))


def _limited(messages: list[tuple[int, str]]) -> str:
    """Join as many messages as fit, but at least the first, which is cut if it is too long."""
    texts: list[str] = []
    length = 0
    for line, text in messages:
        if texts and length + len(text) > MOST_CHARACTERS:
            texts.append(f"[More from startLine {line} on, up to line {messages[-1][0]}.]")
            break
        if len(text) > MOST_CHARACTERS:
            text = f"{text[:MOST_CHARACTERS]}\n[{len(text) - MOST_CHARACTERS:,} more characters of line {line}.]"
        texts.append(text)
        length += len(text)
    return "\n".join(texts)
