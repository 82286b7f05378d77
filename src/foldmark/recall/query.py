"""Parse a typed query into terms. No input is interpreted as syntax of the index [SPEC 4, 7].

The index stores the stems of words, so that "migrations" also finds "migrated". Words in quotes and prefixes
(`migrat*`) are literal: the index selects candidates, and their texts decide (`highlights.holds`).
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError
from foldmark.core.search import Phrase, Term
from foldmark.recall.ranking import asks_when, is_question
from foldmark.text.tokens import is_unspaced, pairs, pieces_of, stems, words
from foldmark.text.vocabulary import FUNCTION

MOST_TERMS = 64
"""Maximum number of terms of a query that are used, and of words in one term."""

_PART = re.compile(r'"([^"]*)"(\*?)|([^\s"]+)')
_QUOTES = str.maketrans("“”„‟\0", '"""" ')

_POSSESSIVE = re.compile(r"['’]s(?!\w)", re.IGNORECASE)
_PAIRS_TOGETHER = 4
"""Maximum number of pairs in a run of characters that is one word; a longer run is a sentence, searched in any
order."""

_SHORTEST_STEM, _LONGEST_ENDING = 3, 7
"""Minimum letters of the stems that a prefix may extend, and the maximum extension."""


class Query(NamedTuple):
    """A parsed query: its significant `terms` and its `idle` function words, distinct and in order. `question` is True
    for a question, `timed` for a question about a time, `beside` if the neighbour of a hit may be the answer."""

    terms: list[Term]
    idle: list[Term]
    question: bool
    timed: bool
    beside: bool


def read(query: str) -> Query:
    """Parse `query`.

    "Words in quotes" stay together and match as typed, as does a prefix followed by `*`; function words are the terms
    if there are no others. Raises CommandError for a query without words.
    """
    telling, idle = split_terms(query)
    if not telling and not idle:
        raise CommandError(
            'there is no word to search for; type some, as in: database schema, "in these very words", migrat*'
        )
    wanted, beside = (telling, idle) if telling else (idle, [])
    question = is_question(query)
    return Query(wanted[:MOST_TERMS], beside[:MOST_TERMS], question, asks_when(query), question)


def split_terms(query: str) -> tuple[list[Term], list[Term]]:
    """Split the terms of `query` into significant ones and function words, each once."""
    telling: dict[Term, None] = {}
    idle: dict[Term, None] = {}
    for quoted, star, word in _PART.findall(_POSSESSIVE.sub("", well_formed(query).translate(_QUOTES))):
        found = tuple(words(quoted or word)[:MOST_TERMS])
        if not found:
            continue
        if quoted or word.endswith("*"):
            telling[_typed(Phrase(found, bool(star or word)))] = None
        elif all(each in FUNCTION or (len(found) > 1 and len(each) == 1) for each in found):
            idle[Term((Phrase(found),))] = None
        else:
            telling.update(dict.fromkeys(_spelled(word, found)))
    return list(telling), list(idle)


def _spelled(word: str, found: tuple[str, ...]) -> Iterator[Term]:
    """Yield the terms of a word, tokenized as `found`."""
    pieces = pieces_of(word)
    if not any(map(is_unspaced, pieces)):
        parts = tuple(token for piece in pieces for token in words(piece)) if len(found) == 1 else found
        yield Term(tuple(dict.fromkeys((Phrase(found), Phrase(parts)))))
        return
    for piece in pieces:
        if not is_unspaced(piece):
            yield from (Term((Phrase((token,)),)) for token in words(piece))
        elif len(both := pairs(piece)) > _PAIRS_TOGETHER:
            yield from (Term((Phrase((pair,)),)) for pair in both)
        else:
            yield Term((_of_run(piece),))


def _of_run(run: str) -> Phrase:
    both = pairs(run)
    return Phrase(tuple(both)) if both else Phrase((run,), prefix=True)


def _typed(typed: Phrase) -> Term:
    """Return a literal term, with phrases that find every occurrence of it, and some others."""
    runs = [piece for word in typed.words for piece in pieces_of(word) if is_unspaced(piece)]
    if runs:
        return Term((_of_run(max(runs, key=len)),), typed)
    return Term((*_beginnings(typed), *_shorter(typed)) if typed.prefix else (typed,), typed)


def _beginnings(typed: Phrase) -> Iterator[Phrase]:
    """Yield the longest prefix that is its own stem, because the index also stems queries."""
    *before, last = typed.words
    ends = (end for end in range(len(last), 0, -1) if stems(last[:end]) == [last[:end]])
    yield Phrase((*before, last[: next(ends, len(last))]), prefix=True)


def _shorter(typed: Phrase) -> Iterator[Phrase]:
    """Yield the stems of words that begin with the last word of `typed`, if they are shorter: "migrat" for
    "migrati"."""
    *before, last = typed.words
    for end in range(max(_SHORTEST_STEM, len(last) - _LONGEST_ENDING), len(last)):
        yield Phrase((*before, last[:end]))
        yield Phrase((*before, f"{last[:end]}e"))
