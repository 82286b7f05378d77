"""Filters of a search, as a person or a model gives them [SPEC 7]."""

from collections.abc import Mapping
from datetime import datetime

from foldmark.core.codec import timestamp, utc, well_formed
from foldmark.core.errors import CommandError
from foldmark.core.search import SPEAKERS, Filters

OPTIONS = (
    ("--limit N", "The most messages and memos that are found."),
    ("--role ROLE", f"Who said it: {', '.join(SPEAKERS)}."),
    ("--since DATE", "Said then or later: 2026-01-31 or 2026-01-31T12:00, UTC."),
    ("--before DATE", "Said before then."),
    ("--agent NAME", "A conversation, or the beginning of an agent's or a session's id."),
    ("--project TEXT", "A part of a conversation's name, or of a session's working folder."),
    ("--tool NAME", "Calls of this tool, and what it answered."),
    ("--visible", "What is in the context of the agent that wrote it."),
    ("--forgotten", "What is not."),
)
"""The options of `/recall`, each with its help."""


def filters(given: Mapping[str, str | None], visible: bool | None = None) -> Filters:
    """Return filters from texts by name, as in `Filters`; an empty text filters nothing. Raises CommandError."""
    said = {name: well_formed(text) for name, text in given.items() if text}
    if "role" in said and said["role"] not in SPEAKERS:
        raise CommandError(f"role is one of {', '.join(SPEAKERS)}, not '{said['role'][:40]}'")
    since, before = (_moment(name, said.pop(name)) if name in said else None for name in ("since", "before"))
    return Filters(since=since, before=before, visible=visible, **said)


def describe_filters(filters: Filters) -> str:
    """Return the filters in words; empty if there are none."""
    texts = {name: getattr(filters, name) for name in ("role", "agent", "project", "tool")}
    words = [f"{name} {text}" for name, text in texts.items() if text]
    words += [f"{name} {_day(moment)}" for name in ("since", "before") if (moment := getattr(filters, name))]
    words += [] if filters.visible is None else ["in a context" if filters.visible else "in no context"]
    return ", ".join(words)


def _moment(name: str, text: str) -> datetime:
    try:
        return utc(text)
    except ValueError:
        raise CommandError(f"{name} is a date as 2026-01-31 or 2026-01-31T12:00, not '{text[:40]}'") from None


def _day(moment: datetime) -> str:
    return timestamp(moment, "seconds").removesuffix("Z").removesuffix("T00:00:00")
