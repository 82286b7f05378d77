"""The tools with which a model stores and finds knowledge: its scratchpad, memos, and `recall` over everything that was
said [S1, S2, SPEC 4.1, 7]."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct

from foldmark.commands.recall import HITS, describe_filters, entries_of, filters, lines_of
from foldmark.commands.recall_entries import Run, Wording, text_of
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.ports import Snapshot
from foldmark.core.records import LONGEST_MEMO, MOST_TAGS, Memo, checked_tags
from foldmark.core.search import ANY, SPEAKERS, Excerpt, SearchResult, excerpt_text
from foldmark.core.segments import END
from foldmark.core.wording import count, listing, one_line
from foldmark.cost.messages import NextMessages, next_messages
from foldmark.log import Agent, Log
from foldmark.log.memos import save_memo
from foldmark.log.search import message_excerpt, message_named
from foldmark.operations.effects import Asking
from foldmark.sessions.archive.recall import archive_beside, search_with_archive
from foldmark.text.keywords import memo_entry
from foldmark.tools.tool import THIS_CONVERSATION, Tool, about

LONGEST_PAD = 20_000
"""Maximum number of characters of a scratchpad that a model writes. The whole scratchpad is part of every request."""


class ScratchpadArguments(Struct, frozen=True, forbid_unknown_fields=True):
    action: Literal["read", "update", "append"]
    content: Annotated[str | None, about("The text, for update and append")] = None


def _scratchpad(agent: Agent, arguments: ScratchpadArguments, asking: Asking) -> str:
    if arguments.action == "read":
        return agent.standing().scratchpad or "The scratchpad is empty."
    with agent.log.store.write():
        pad = agent.standing().scratchpad or ""
        if arguments.content is None:
            raise CommandError(f"content is missing: the text to {arguments.action} the scratchpad with")
        appends = arguments.action == "append" and pad
        text = f"{pad}\n{arguments.content}" if appends else arguments.content
        if len(text) > LONGEST_PAD:
            raise CommandError(
                f"the scratchpad would have {len(text):,} characters, and has at most {LONGEST_PAD:,}: update it with "
                "a shorter one, and save lasting knowledge as memos"
            )
        agent.record("scratchpad", text, actor="model")
    done = "extended" if appends else "written"
    return f"Scratchpad {done}: {count(len(text), 'character')}." if text else "Scratchpad cleared."


MANAGE_SCRATCHPAD = Tool.of(
    "manage_scratchpad",
    f"The model's notebook of {THIS_CONVERSATION}: plans, checklists, findings. It goes into every request, also when "
    "older messages do not. read shows it, update puts content in its place, append adds content as further lines.",
    ScratchpadArguments,
    _scratchpad,
)


RETRIEVED, CHARACTERS = 20, 12_000
"""Maximum number of memos in one answer, and number of characters after which no further memo is shown."""

TAGS = 40
"""Maximum number of tags that are listed if no memo was found."""


class SaveMemoArguments(Struct, frozen=True, forbid_unknown_fields=True):
    content: Annotated[str, about(f"What is to be known, understood by itself; at most {LONGEST_MEMO} characters")]
    tags: Annotated[
        list[str] | str, about(f"What it will be looked for by, e.g. arch-decision, gotcha; at most {MOST_TAGS}")
    ] = ""


class RetrieveMemoArguments(Struct, frozen=True, forbid_unknown_fields=True):
    tags: Annotated[list[str] | str, about("e.g. arch-decision, gotcha")] = ""


def _save(agent: Agent, arguments: SaveMemoArguments, asking: Asking) -> str:
    memo = save_memo(agent, arguments.content, _several(arguments.tags), "model")
    return f"Memo {memo.id} saved{memo.labels}."


def _retrieve(agent: Agent, arguments: RetrieveMemoArguments, asking: Asking) -> str:
    tags = checked_tags(_several(arguments.tags))
    with agent.log.store.read() as moment:
        if not tags:
            return _answer(moment, "The newest memos", moment.memos(RETRIEVED))
        if found := moment.memos(RETRIEVED, tags=tags):
            return _answer(moment, f"Memos with a tag of {listing(tags)}", found)
        (words,) = moment.memos_with([(tags, END)], RETRIEVED)
        return _answer(moment, f"No memo is tagged {listing(tags)}. Memos with these words", words)


def _answer(moment: Snapshot, head: str, found: Sequence[Memo]) -> str:
    """Return as many memos as fit; without memos, return the existing tags."""
    shown: list[str] = []
    for text in map(memo_entry, found):
        if shown and sum(map(len, shown)) + len(text) > CHARACTERS:
            break
        shown.append(text)
    if not shown:
        tags = [f"{tag} ({number})" for tag, number in moment.memo_tags(TAGS + 1)]
        return f"{head}: none. {f'Existing tags: {listing(tags, TAGS)}' if tags else 'No memo has a tag yet'}."
    more = [f"{count(len(found) - len(shown), 'memo')} more; ask for fewer tags."] if len(found) > len(shown) else []
    return "\n\n".join((f"{head}, {len(shown)} of {len(found)}:", *shown, *more))


def _several(tags: list[str] | str) -> list[str]:
    """Return tags as a list. Models send a list, or one text with commas."""
    return tags.split(",") if isinstance(tags, str) else tags


SAVE_MEMO = Tool.of(
    "save_memo",
    "Save knowledge for all conversations, now and later: a decision and why, a pitfall, a design that is not obvious. "
    "Not what the code itself shows, and nothing secret.",
    SaveMemoArguments,
    _save,
    required=["tags"],
)

RETRIEVE_MEMOS = Tool.of(
    "retrieve_memos",
    "Read the memos with any of these tags, those with most of them first. Without tags the newest memos.",
    RetrieveMemoArguments,
    _retrieve,
    required=["tags"],
    together=True,
)


MOST_HITS = 50
"""Maximum number of results."""

NAMED = 12
"""Maximum number of ids listed for a run of messages."""

BESIDE, WHOLE, NEIGHBOUR = 3, 20_000, 1000
"""Neighbours on each side of a passage, and maximum characters of the requested message and of each neighbour."""

_AROUND = "around: "
_PLACE = re.compile(r".+:[0-9]{1,12}", re.DOTALL)
_ECHO = re.compile(r"recall|mcp_.*foldmark__?(?:recall|search|read)")
"""Tools that return earlier messages: Foldmark's own, also under a coding agent's names."""


class RecallArguments(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, about('Words, "words that stand together", beginnings as in migrat*')] = ""
    role: Annotated[str | None, about("", enum=[*SPEAKERS])] = None
    since: Annotated[str | None, about("2026-01-31")] = None
    before: str | None = None
    agent: Annotated[str | None, about("A conversation's name, or an id")] = None
    tool: str | None = None
    forgotten: Annotated[bool | None, about("Only what left the context")] = None
    limit: Annotated[int, Meta(ge=1, le=MOST_HITS)] | None = None
    around: Annotated[str | int | None, about("Instead of query: a message's id or SESSION:LINE")] = None


def _recall(agent: Agent, arguments: RecallArguments, asking: Asking) -> str:
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
    with agent.reading() as (moment, at):
        coming = next_messages(agent, moment, at)
        entries = entries_of(agent, recalled.found, coming)
    wording = Wording(_AROUND, partial(_ids, coming))
    return text_of(lines_of(arguments.query, describe_filters(wanted), recalled, entries, limit, wording))[0]


def _is_news(agent: str, turn: int | None, found: SearchResult) -> bool:
    """Return False for messages of the open turn, which the model sees already, and for earlier results of searches."""
    goes_on = turn is not None and found.id == agent and found.event_id is not None and found.event_id >= turn
    return not goes_on and not _ECHO.fullmatch(found.tool or "")


def _ids(coming: NextMessages, run: Run) -> str:
    """Return the ids of a run's messages, and whether each is sent or in another conversation."""
    ids = sorted(hit.event_id for hit in run.hits)
    if run.where == "elsewhere":
        return f"messages {listing(ids, NAMED)} of another conversation (around reads them)"
    places: dict[str, list[int]] = {}
    for hit in sorted(run.hits, key=lambda hit: hit.event_id):
        places.setdefault(coming.place_of(hit.agent_id, hit.event_id), []).append(hit.event_id)
    return "; ".join(f"messages {listing(inside, NAMED)} {place}" for place, inside in places.items())


def _passage(log: Log, place: str) -> str:
    """Return the passage at a place. Raises CommandError."""
    message = message_named(log, place)
    shown = _archived(log, place) if message is None else message_excerpt(log, message, BESIDE)
    wanted = sum(line.asked for line in shown.lines)
    return excerpt_text(shown, WHOLE // max(1, wanted), NEIGHBOUR, _AROUND)


def _archived(log: Log, place: str) -> Excerpt:
    if not _PLACE.fullmatch(place):
        raise CommandError(f"there is no message '{one_line(place[:80])}'; recall with a query gives places")
    try:
        found = archived_excerpt(log, place, BESIDE)
    except FoldmarkError as error:
        raise CommandError(str(error)) from None
    if found is None:
        raise CommandError(f"there is nothing at '{one_line(place[:80])}': no session is archived here")
    return found


def archived_excerpt(log: Log, place: str, reach: int) -> Excerpt | None:
    """Return the message of an archived session at a place, with `reach` neighbours on each side; None without an
    archive. Raises FoldmarkError if there is no such place."""
    with archive_beside(log, ANY, lambda _: None) as archive:
        return None if archive is None else archive.read(place, reach)


RECALL = Tool.of(
    "recall",
    "Search all that was ever said by words: messages of all conversations, in the context or not, memos, archived "
    "coding sessions. It answers with places; around reads one.",
    RecallArguments,
    _recall,
    own="The context does not change.",
    together=True,
)
