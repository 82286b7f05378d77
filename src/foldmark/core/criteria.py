"""What a criterion asks for, as far as its words say [SPEC 4.2]: "tables and columns, but not the naming debate"."""

import re
from typing import NamedTuple

from foldmark.core.errors import CommandError
from foldmark.core.wording import one_line
from foldmark.core.words import Unit, units

ID = r"[0-9]{1,18}(?![0-9])"
_SPAN = re.compile(rf"(?<![0-9.])({ID})(?!\.[0-9])(?:[\s\"'#]*[-–—][\s\"'#]*({ID}))?")
_MESSAGES = re.compile(r"#|\b(?:messages?|ids?|nachrichten|mensajes)\b", re.IGNORECASE)
_EITHER = re.compile(r"(?<![0-9]),|,(?![0-9])|[;&|\n、，；]|\b(?:and|or|und|oder|et|ou|y|o)\b", re.IGNORECASE)
_EXCEPT = re.compile(
    r"\b(?:except(?:ing)?(?:\s+for)?|excluding|but\s+not|(?<=all )but|(?<=everything )but|apart\s+from|other\s+than"
    r"|außer|sauf|excepto)\b",
    re.IGNORECASE,
)


class Clause(NamedTuple):
    """A part of a criterion: messages by id, or units of words of which a message holds enough."""

    spans: tuple[tuple[int, int], ...]
    units: tuple[Unit, ...]


class Wanted(NamedTuple):
    """What a criterion asks for: any of `clauses` (all messages if there is none), but none of `unwanted`."""

    clauses: tuple[Clause, ...]
    unwanted: tuple[Clause, ...]


def wanted(criteria: str) -> Wanted:
    """What `criteria` asks for. Clauses are joined by commas, "and" or "or"; what follows "except" or "but not" is
    unwanted; numbers are ids where nothing else is said, or where messages are spoken of ("messages 45-67").

    Raises CommandError if it holds no word to look for.
    """
    named, *excepted = _EXCEPT.split(criteria)
    clauses, unwanted = _clauses(named), _clauses(" , ".join(excepted))
    # "everything except X" names no word but means something.
    if not clauses and not (unwanted and re.search(r"\b(?:all|everything|alles|tout|todo)\b", named, re.IGNORECASE)):
        raise CommandError(
            f"'{one_line(criteria.strip()[:60])}' holds no word to look for; say what the messages are about, "
            "for example: database schema"
        )
    return Wanted(clauses, unwanted)


def spans(text: str) -> tuple[tuple[int, int], ...]:
    """The ids and ranges that a text names, each as (first, last)."""
    return tuple((int(first), int(last or first)) for first, last in _SPAN.findall(text))


def _clauses(text: str) -> tuple[Clause, ...]:
    parts = _EITHER.split(text)
    # A number is an id where nothing else is said ("45-67, 70"), or where messages are spoken of.
    numbers = not any(units(_unnumbered(part)) for part in parts)
    found = [
        Clause(spans(part), tuple(units(part)))
        if numbers or (_MESSAGES.search(part) and not units(_unnumbered(part)))
        else Clause((), tuple(units(part)))
        for part in parts
    ]
    return tuple(clause for clause in found if clause.units)


def _unnumbered(text: str) -> str:
    return _MESSAGES.sub(" ", _SPAN.sub(" ", text))
