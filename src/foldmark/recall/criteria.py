"""Parse the criteria of a filter into clauses of ids and terms [SPEC 4.2]. No input is interpreted as syntax of the
index."""

import re
import unicodedata
from typing import NamedTuple

from foldmark.core.errors import CommandError
from foldmark.core.search import Term
from foldmark.core.wording import one_line
from foldmark.recall.numbered import Name, numbers_in
from foldmark.recall.query import MOST_TERMS, split_terms
from foldmark.text.selection import id_spans
from foldmark.text.tokens import is_unspaced, words
from foldmark.text.vocabulary import ABOUT_TALK

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
    """One part of the criteria, with its text: ids of messages, or terms of which a message must contain most. `names`
    has for each number beside a word the names that it may be part of; a message must contain one of them for each."""

    text: str
    id_spans: tuple[tuple[int, int], ...]
    terms: tuple[Term, ...]
    names: tuple[tuple[Name, ...], ...] = ()


class Criteria(NamedTuple):
    """Parsed criteria: any of `clauses` (all messages if there is none), but none of `unwanted`."""

    clauses: tuple[Clause, ...]
    unwanted: tuple[Clause, ...]


def parse_criteria(criteria: str) -> Criteria:
    """Parse criteria. Clauses are joined by commas, "and" or "or"; the part after "except" or "but not" is unwanted. A
    number is an id only if it is written as one: "messages 45 and 67", "#12", "12-20"; a word with digits ("ticket7")
    never is. A number beside a word makes a name with it: "ticket 3", "tickets 3, 4 and 9".

    Raises CommandError if they contain no word to search for.
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
    found: list[Clause] = []
    for part in parts:
        if ids and _only_numbers(part):
            found.append(Clause(part, id_spans(part), ()))
            continue
        names = [] if _DATE.search(part) else list(numbers_in(part))
        before = found[-1].names if found else ()
        if before and _only_numbers(part) and not any(names):  # "tickets 3 and 4"
            names = [[name._replace(number=each) for name in before[-1]] for each in words(part)]
        made = tuple(tuple(each) for each in names if each)
        # A message with any of "tickets 3-5" is meant, but one about "ticket 3 of sprint 12" names both.
        is_list = len(made) > 1 and len({tuple(name.stem for name in each) for each in made}) == 1
        found += [Clause(part, (), _terms(part), each) for each in (((one,) for one in made) if is_list else (made,))]
    return tuple(clause for clause in found if clause.id_spans or clause.terms)


def _only_numbers(part: str) -> bool:
    """Return True if a part has numbers, and no words about a subject."""
    numbers = {each for each in words(part) if each.isdecimal()}
    others = {word for term in _terms(_MESSAGES.sub(" ", part)) for word in term.phrases[0].words}
    return bool(id_spans(part)) and others <= numbers and not _DATE.search(part)


def _terms(text: str) -> tuple[Term, ...]:
    """Return the terms in a text that name a subject."""
    spaced = _UNSPACED_TALK.sub(" ", text)
    # The words of a path or a call may be separated; an identifier with digits ("v1.2", "PROJ-12") is searched for
    # whole.
    parts = (part for word in _GAP.split(spaced) for part in ([word] if _DIGIT.search(word) else _JOINT.split(word)))
    kept = [part for part in parts if _tells(part)]
    telling, _ = split_terms(" ".join(kept))
    return tuple(telling)[:MOST_TERMS]


def _tells(word: str) -> bool:
    """Return True if a word may name a subject; a single letter may not."""
    found = words(word)
    return any(
        each not in ABOUT_TALK and (1 < len(each) <= LONGEST or each.isdecimal() or is_unspaced(each)) for each in found
    )
