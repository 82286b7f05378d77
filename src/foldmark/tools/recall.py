"""`recall`: search everything in conversations, archived sessions and memos [SPEC 4.1, 7; S1]."""

import re
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from foldmark.commands.recall import HITS, entries_of, filters, lines_of
from foldmark.commands.recall_entries import Run, Wording, text_of
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.request import ToolSpec
from foldmark.core.search import ANY, SPEAKERS, Excerpt, SearchResult, excerpt_text
from foldmark.core.segments import Segments, contains
from foldmark.core.wording import listing, one_line
from foldmark.log import Agent, Log
from foldmark.log.search import message_excerpt, message_named, search_with_archive
from foldmark.operations.effects import Asking
from foldmark.tools.tool import Tool

NAME = "recall"

MOST_HITS = 50
"""Maximum number of results."""

NAMED = 12
"""Maximum number of messages of a run whose ids are given."""

BESIDE, WHOLE, NEIGHBOUR = 3, 20_000, 1000
"""Neighbours on each side of a passage; characters of the message that was asked for, and of each neighbour."""

_AROUND = "around: "
_PLACE = re.compile(r".+:[0-9]{1,12}", re.DOTALL)
_ECHO = re.compile(r"recall|mcp__.*foldmark__(?:recall|search|read)")
"""Tools that return earlier messages: Foldmark's own, also under a coding agent's names."""


class RecallArguments(Struct, frozen=True, forbid_unknown_fields=True):
    query: str = ""
    role: str | None = None
    since: str | None = None
    before: str | None = None
    agent: str | None = None
    tool: str | None = None
    forgotten: bool | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_HITS)] | None = None
    around: str | int | None = None


def _run(agent: Agent, arguments: RecallArguments, asking: Asking) -> str:
    place = str(arguments.around or "").strip()
    if bool(place) == bool(arguments.query.strip()):
        raise CommandError("recall takes an object with query, or else with around: an id, or SESSION:LINE")
    return _passage(agent.log, place) if place else _search(agent, arguments)


def _search(agent: Agent, arguments: RecallArguments) -> str:
    names = ("role", "since", "before", "agent", "tool")
    visible = None if arguments.forgotten is None else not arguments.forgotten
    wanted = filters({name: getattr(arguments, name) for name in names}, visible)
    limit = arguments.limit or HITS
    recalled = search_with_archive(
        agent.log, arguments.query, limit, wanted, partial(_is_news, agent.id, agent.open_turn)
    )
    wording = Wording(_AROUND, partial(_ids, agent.standing().visible))
    entries = entries_of(agent, recalled.found)
    return text_of(lines_of(arguments.query, wanted, recalled, entries, limit, wording))[0]


def _is_news(agent: str, turn: int | None, found: SearchResult) -> bool:
    """Return False for results of the open turn, which the model sees already, and for earlier results of `recall`
    itself."""
    goes_on = turn is not None and found.id == agent and found.event_id is not None and found.event_id >= turn
    return not goes_on and not _ECHO.fullmatch(found.tool or "")


def _ids(visible: Segments, run: Run) -> str:
    """Return the messages of a run by id, whether each is in the context, and who can read them."""
    ids = sorted(hit.event_id for hit in run.hits)
    if run.where == "elsewhere":
        return f"messages {listing(ids, NAMED)} of another conversation (around reads them)"
    shown = {hit.event_id for hit in run.hits if contains(visible, hit.agent_id, hit.event_id)}
    inside, outside = [id for id in ids if id in shown], [id for id in ids if id not in shown]
    said = [f"messages {listing(inside, NAMED)} in the context"] if inside else []
    said += [f"messages {listing(outside, NAMED)} not in the context"] if outside else []
    return "; ".join(said)


def _passage(log: Log, place: str) -> str:
    """Return the passage at a place. Raises CommandError."""
    message = message_named(log, place)
    shown = _archived(log, place) if message is None else message_excerpt(log, message, BESIDE)
    asked = sum(line.asked for line in shown.lines)
    return excerpt_text(shown, WHOLE // max(1, asked), NEIGHBOUR, _AROUND)


def _archived(log: Log, place: str) -> Excerpt:
    if not _PLACE.fullmatch(place):
        raise CommandError(f"there is no message '{one_line(place[:80])}'; recall with a query gives places")
    try:
        if log.archive is not None:
            with log.archive(ANY, lambda _: None) as archive:
                if archive is not None:
                    return archive.read(place, BESIDE)
    except FoldmarkError as error:
        raise CommandError(str(error)) from None
    raise CommandError(f"there is nothing at '{one_line(place[:80])}': no session is archived here")


def _text(description: str = "") -> dict[str, object]:
    return {"type": "string", **({"description": description} if description else {})}


RECALL = Tool(
    ToolSpec(
        NAME,
        "Search all that was ever said by words: messages of all conversations, in the context or not, memos, "
        "archived coding sessions. It answers with places; around reads one. The context does not change.",
        {
            "type": "object",
            "properties": {
                "query": _text('Words, "words that stand together", beginnings as in migrat*'),
                "role": {**_text(), "enum": [*SPEAKERS]},
                "since": _text("2026-01-31"),
                "before": _text(),
                "agent": _text("A conversation's name, or an id"),
                "tool": _text(),
                "forgotten": {"type": "boolean", "description": "Only what left the context"},
                "limit": {"type": "integer"},
                "around": _text("Instead of query: a message's id or SESSION:LINE"),
            },
        },
    ),
    RecallArguments,
    _run,
    together=True,
)
