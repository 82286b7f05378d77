"""Parse a typed query, or the criteria of a filter, into terms. No input is interpreted as syntax of the index [SPEC 4,
4.2, 7].

The index stores the stems of words, so that "migrations" also finds "migrated". Words in quotes and prefixes
(`migrat*`) are literal: the index selects candidates, and their texts decide (`highlights.holds`).
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError
from foldmark.core.search import Phrase, Term
from foldmark.core.wording import one_line
from foldmark.recall.ranking import asks_when, is_question
from foldmark.text.selection import id_spans
from foldmark.text.tokens import is_unspaced, pairs, pieces_of, stems, word_list, words

MOST_TERMS = 64
"""Maximum number of terms of a query that count, and of words of one term."""

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

    "Words in quotes" stay together and are meant as typed, as is a prefix followed by `*`; function words are the terms
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
    function = word_list("function")
    telling: dict[Term, None] = {}
    idle: dict[Term, None] = {}
    for quoted, star, word in _PART.findall(_POSSESSIVE.sub("", well_formed(query).translate(_QUOTES))):
        found = tuple(words(quoted or word)[:MOST_TERMS])
        if not found:
            continue
        if quoted or word.endswith("*"):
            telling[_typed(Phrase(found, bool(star or word)))] = None
        elif all(each in function or (len(found) > 1 and len(each) == 1) for each in found):
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
    """Yield the stems of words that begin with the last word of `typed`, where these are shorter: "migrat" for
    "migrati"."""
    *before, last = typed.words
    for end in range(max(_SHORTEST_STEM, len(last) - _LONGEST_ENDING), len(last)):
        yield Phrase((*before, last[:end]))
        yield Phrase((*before, f"{last[:end]}e"))


LONGEST = 64
"""Maximum number of characters of a word; longer runs (encoded data) are not words."""

_UNSPACED_TALK = re.compile(
    "关于|有关|關於|讨论|討論|对话|對話|消息|訊息|内容|所有|全部|的|について|に関する|関する|メッセージ|会話|議論|の|を|全て"
)
_DIGIT, _JOINT = re.compile(r"\d"), re.compile(r"[-./:\\]+")
_GAP = re.compile(r"[\s()\[\]{}<>=+|~^`!?;]+")
_MESSAGES = re.compile(r"#|\b(?:messages?|ids?|nachrichten|mensajes)\b", re.IGNORECASE)
_RANGE = re.compile(r"[0-9][\s\"'#]*[-–—][\s\"'#]*[0-9]")
_DATE = re.compile(r"[0-9][-./][0-9]+[-./][0-9]")
_EITHER = re.compile(r"(?<![0-9]),|,(?![0-9])|[;&|\n、，；]|\b(?:and|or|und|oder|et|ou|y|o)\b", re.IGNORECASE)
_EXCEPT = re.compile(
    r"\b(?:except(?:ing)?(?:\s+for)?|excluding|but\s+not|(?<=all )but|(?<=everything )but|apart\s+from|other\s+than"
    r"|außer|sauf|excepto)\b",
    re.IGNORECASE,
)


class Clause(NamedTuple):
    """A part of the criteria, with its text: either ids of messages, or terms that a message must mostly contain."""

    text: str
    id_spans: tuple[tuple[int, int], ...]
    terms: tuple[Term, ...]


class Criteria(NamedTuple):
    """Parsed criteria: any of `clauses` (all messages if there is none), but none of `unwanted`."""

    clauses: tuple[Clause, ...]
    unwanted: tuple[Clause, ...]


def parse_criteria(criteria: str) -> Criteria:
    """Parse criteria. Clauses are joined by commas, "and" or "or"; what follows "except" or "but not" is unwanted. A
    number is an id only where ids are written: "messages 45 and 67", "#12", "12-20"; a word with digits ("ticket7")
    never is.

    Raises CommandError if it holds no word to search for.
    """
    named, *excepted = _EXCEPT.split(unicodedata.normalize("NFKC", criteria))
    clauses, unwanted = _clauses(named), _clauses(" , ".join(excepted))
    # "everything except X" names no word but is valid.
    if not clauses and not (unwanted and re.search(r"\b(?:all|everything|alles|tout|todo)\b", named, re.IGNORECASE)):
        raise CommandError(
            f"'{one_line(criteria.strip()[:60])}' holds no word to look for; say what the messages are about, "
            "for example: database schema"
        )
    return Criteria(clauses, unwanted)


def _clauses(text: str) -> tuple[Clause, ...]:
    parts = [part for part in _EITHER.split(text) if part.strip()]
    # In a list that names ids ("#12, 14", "45-67 and 70") a bare number is also an id.
    ids = any(_only_numbers(part) and (_MESSAGES.search(part) or _RANGE.search(part)) for part in parts)
    found = [
        Clause(part, id_spans(part), ()) if ids and _only_numbers(part) else Clause(part, (), _terms(part))
        for part in parts
    ]
    return tuple(clause for clause in found if clause.id_spans or clause.terms)


def _only_numbers(part: str) -> bool:
    """Return True if a part has numbers, and no words about a subject."""
    numbers = {each for each in words(part) if each.isdecimal()}
    others = {word for term in _terms(_MESSAGES.sub(" ", part)) for word in term.phrases[0].words}
    return bool(id_spans(part)) and others <= numbers and not _DATE.search(part)


def _terms(text: str) -> tuple[Term, ...]:
    """Return the terms of a text that name a subject."""
    spaced = _UNSPACED_TALK.sub(" ", text)
    # The words of a path or a call may stand apart; an identifier with digits ("v1.2", "PROJ-12") is searched for
    # whole.
    parts = (part for word in _GAP.split(spaced) for part in ([word] if _DIGIT.search(word) else _JOINT.split(word)))
    kept = [part for part in parts if _tells(part)]
    telling, _ = split_terms(" ".join(kept))
    return tuple(telling)[:MOST_TERMS]


def _tells(word: str) -> bool:
    """Return True if a word may name a subject; one letter is too little."""
    found = words(word)
    return any(
        each not in word_list("about_talk") and (1 < len(each) <= LONGEST or each.isdecimal() or is_unspaced(each))
        for each in found
    )
