"""Search as a person types: the individual hits of `/recall`, the place of each, and its surrounding text."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

from foldmark.commands import REGISTRY
from foldmark.commands.recall import read_recall
from foldmark.commands.registry import CommandCall, split_options
from foldmark.core import selections
from foldmark.core.agents import minute
from foldmark.core.codec import utc
from foldmark.core.errors import CommandError
from foldmark.core.search import FILTERED_ROLES, Excerpt, PassageMessage, SearchResult
from foldmark.core.segments import contains
from foldmark.core.wording import count, one_line
from foldmark.cost.messages import NextMessages, next_messages
from foldmark.formats.session_format import title_of
from foldmark.log import Agent, Log
from foldmark.log.search import message_excerpt
from foldmark.tools.knowledge import archived_excerpt

DAYS = (1, 7, 30)
"""The periods that the time filter offers, in days."""


class FoundHit(NamedTuple):
    """A hit with its place: "own" (in the searching agent's lineage), "family" (written by another agent of its
    conversation), "elsewhere", "session" or "memo". `where` says whether an own message is sent."""

    result: SearchResult
    place: str
    where: str = ""

    @property
    def about(self) -> str:
        """The author, time and place of the hit, in one line."""
        result, named = self.result, one_line(self.result.name)
        out = "" if result.visible else ", out there"
        program = title_of(result.source) if self.place == "session" else ""
        where = {
            "own": self.where,
            "family": f"agent {named}{out}",
            "elsewhere": f"conversation {named}{out}",
            "session": f"{program} session {result.id[:8]}, {named}",
            "memo": f"memo {result.id}{f' [{named}]' if named else ''}",
        }[self.place]
        number = f"message {result.event_id}" if result.event_id is not None else ""
        words = (minute(result.at) if result.at else "", result.who if self.place != "memo" else "", number, where)
        return " · ".join(filter(None, words))


class Found(NamedTuple):
    """The answer to a query: the hits, best first, and a line about them."""

    hits: tuple[FoundHit, ...]
    about: str


def find(agent: Agent, line: str) -> Found:
    """Search for `line`, the words and options that would follow `/recall`. Raises CommandError.

    If no message contains every word, the last word may be incomplete. The search then uses it as a prefix; that result
    is returned if it contains every word.
    """
    call = CommandCall(agent, REGISTRY.commands["recall"].parse(line), "human", REGISTRY)
    asked = read_recall(call)
    recalled = asked.search(agent.log)
    if asked.query[-1].isalnum() and not any(each.all_words for each in recalled.found):
        begun = asked._replace(query=f"{asked.query}*").search(agent.log)
        recalled = begun if any(each.all_words for each in begun.found) else recalled
    hits = _placed(agent, recalled.found)
    number = f"the {asked.limit} best hits" if len(hits) >= asked.limit else count(len(hits), "hit")
    return Found(hits, " · ".join(filter(None, (number, one_line(asked.narrowed), *map(one_line, recalled.missing)))))


def _placed(agent: Agent, found: Sequence[SearchResult]) -> tuple[FoundHit, ...]:
    with agent.reading() as (moment, at):
        root, roots = selections.root_of(moment, agent.id), dict[str, str]()
        coming: NextMessages | None = None
        hits = []
        for each in found:
            if each.event_id is None:
                hits.append(FoundHit(each, "memo" if each.source == "memo" else "session"))
            elif contains(at.lineage, each.id, each.event_id):
                coming = coming or next_messages(agent, moment, at)
                hits.append(FoundHit(each, "own", coming.where(each.id, each.event_id)))
            else:
                if each.id not in roots:
                    roots[each.id] = selections.root_of(moment, each.id)
                hits.append(FoundHit(each, "family" if roots[each.id] == root else "elsewhere"))
        return tuple(hits)


def surroundings(log: Log, hit: FoundHit, reach: int) -> Excerpt:
    """Return a hit with `reach` messages on each side. Raises FoldmarkError if it can no longer be read."""
    result = hit.result
    if result.event_id is not None:
        return message_excerpt(log, result.event_id, reach)
    if hit.place == "memo":
        with log.store.read() as moment:
            memo = selections.memo(moment, int(result.id))
        text = memo.content if memo is not None else "(it was removed)"
        line = PassageMessage(f"memo {result.id}", result.id, "memo", None, result.at, text, True, result.name)
        return Excerpt("memo of this database", (line,))
    if (found := archived_excerpt(log, f"{result.file}:{result.line}", reach)) is None:
        raise CommandError("the archive of sessions no longer exists; /recall searches what is left")
    return found


def opening(hit: FoundHit) -> str | None:
    """Return the command that switches to the agent of a hit or imports its session; None if the hit is a memo or in
    the lineage of the searching agent."""
    result = hit.result
    if hit.place in ("family", "elsewhere"):
        return f"/switch {result.id}"
    return f"/import {_session(result)}" if hit.place == "session" else None


def imported_place(agent: Agent, hit: FoundHit) -> int | None:
    """Return the event in `agent` for a hit in an archived session, or None if that session was not imported into it.
    Raises FoldmarkError."""
    from foldmark.sessions.conversion.importing import imported_event  # takes 50 ms

    result = hit.result
    return None if result.file is None or result.line is None else imported_event(agent, result.file, result.line)


def _session(result: SearchResult) -> str:
    """Return the name that opens an archived session: its id if its own file still exists, else the archived file."""
    import os
    from pathlib import Path

    from foldmark.formats.places import NoSessionError, find

    with suppress(NoSessionError):
        return find(result.id, Path.cwd(), os.environ).id
    return str(result.file)


# Filters that keys set. They are options in the line, so that a person can see and edit them.


def key_filters(agent: Agent) -> dict[str, list[tuple[str, str]]]:
    """Return the filters that keys set, by name: the options of each with their values, in the order in which its key
    cycles through them."""
    now = utc(agent.log.clock())
    return {
        "role": [("--role", role) for role in FILTERED_ROLES],
        "time": [("--since", (now - timedelta(days=days)).date().isoformat()) for days in DAYS],
        "place": [("--visible", ""), ("--forgotten", ""), ("--archived", "")],
        "agent": [("--agent", agent.name or agent.id)],
    }


def next_filter(line: str, choices: Sequence[tuple[str, str]]) -> str:
    """Return the line with the next of these options: the first if the line has none of them, none after the last.
    Raises CommandError if an option of the line is incomplete."""
    options, rest = split_options(line.strip(), REGISTRY.commands["recall"].takes)
    given = [(name, options.pop(name)) for name in dict(choices) if name in options]
    wanted = choices[:1]
    if given:
        at = choices.index(given[0]) if given[0] in choices else len(choices)
        wanted = choices[at + 1 : at + 2]
    options |= wanted
    words = [f'{name} "{value}"' if " " in value else f"{name} {value}".rstrip() for name, value in options.items()]
    return " ".join((rest, *words))
