"""Rank messages for a query: by their own words, the words of their neighbours, and their kind [SPEC 7].

The score is BM25F: a message, its near neighbours and the passage around it are the fields of one document. The
occurrences of a term are added up, each with the weight of its field, and the sum is damped once. People name a subject
in messages other than the one that answers, and seldom repeat its words. So a message without any term may answer a
question if its neighbour has one. A message that mostly asks is a poor answer; the message after it is a better one.
docs/reference/recall.md has the figures behind the constants.

Dates in messages and queries count as words: "last week" is resolved against the time of the message. English only.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import cache, lru_cache
from itertools import accumulate
from math import log
from typing import NamedTuple

from foldmark.core.search import IndexedMessage, Phrase, Term
from foldmark.core.wording import MONTHS
from foldmark.text.highlights import holds
from foldmark.text.tokens import parts_of, stems

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "couple": 2, "few": 3}
_STEPS = {"last": -1, "past": -1, "this": 0, "next": 1}
_WHEN = re.compile(
    r"\W*(?:when|(?:in |on |for |since )?(?:what|which) (?:date|day|month|year|week|time)|how long)\b", re.IGNORECASE
)


@cache
def _relative() -> re.Pattern[str]:
    return re.compile(
        r"\b(?:(?P<before>yesterday|last night)|tomorrow"
        rf"|(?P<which>last|past|this|next) (?P<unit>week|month|year|{'|'.join(_WEEKDAYS)})"
        rf"|(?P<number>\d{{1,4}}|{'|'.join(_NUMBERS)}) (?:of )?(?P<units>day|week|month|year)s? ago)\b",
        re.IGNORECASE,
    )


@cache
def _telling() -> re.Pattern[str]:
    words = "yesterday|tomorrow|tonight|today|last|next|ago|since|recently|week|weekend|month|year|summer|winter"
    return re.compile(rf"\b(?:{words}|{'|'.join((*MONTHS, *_WEEKDAYS))}|\d{{4}})\b", re.IGNORECASE)


def asks_when(query: str) -> bool:
    """Return True if a query asks for a time."""
    return _WHEN.match(query) is not None


def tells_when(text: str) -> bool:
    """Return True if a text has a word for a time, such as "yesterday", "June" or "2023"."""
    return _telling().search(text) is not None


def name_days(words: frozenset[str]) -> bool:
    """Return True if any of these stems may name a day."""
    return not words.isdisjoint(_months()) or any(map(str.isdecimal, words))


@cache
def _months() -> frozenset[str]:
    return frozenset(stems(" ".join(MONTHS)))


def days(text: str, at: str) -> frozenset[str]:
    """Return the stems of the days that a message mentions, written at `at` (ISO 8601, or ""): that day, and those
    relative to it. 2026-03-01 is 1 March 2026, and "last month" is then February 2026."""
    written = _day(at[:10])
    if written is None:
        return frozenset()
    return _name(written).union(*(_name(first, last) for first, last in _spans(text, written)))


@lru_cache(maxsize=1000)
def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


@lru_cache(maxsize=1000)
def _name(first: date, last: date | None = None) -> frozenset[str]:
    """Return the stems of the year, month and day that all days of a period share."""
    ends = (first, last or first)
    day = str(first.day) if first == ends[1] else ""
    month = " ".join(MONTHS[each.month - 1] for each in ends) if (ends[1] - first).days <= 31 else ""
    return frozenset(stems(f"{first.year} {month} {day}"))


def _spans(text: str, written: date) -> Iterator[tuple[date, date]]:
    """Yield the period of each expression in a text: its first and its last day."""
    for match in _relative().finditer(text):
        unit, steps = "day", -1 if match["before"] else 1
        if match["unit"]:
            unit, steps = match["unit"].lower(), _STEPS[match["which"].lower()]
        elif match["units"]:
            number = match["number"].lower()
            unit, steps = match["units"].lower(), -_NUMBERS.get(number, 0) or -int(number)
        try:
            yield _span(unit, steps, written)
        except (ValueError, OverflowError):  # before the year 1, or after 9999
            continue


def _span(unit: str, steps: int, written: date) -> tuple[date, date]:
    """Return the period `steps` units after `written` (negative: before it), or the nearest such weekday."""
    if unit in _WEEKDAYS:
        away = (_WEEKDAYS.index(unit) - written.weekday()) % 7
        unit, steps = "day", away - 7 if steps < 0 else away or 7 * steps
    if unit == "day":
        return written + timedelta(steps), written + timedelta(steps)
    if unit == "week":
        monday = written + timedelta(7 * steps - written.weekday())
        return monday, monday + timedelta(6)
    if unit == "month":
        month = written.year * 12 + written.month - 1 + steps
        last = date((month + 1) // 12, (month + 1) % 12 + 1, 1) - timedelta(1)
        return last.replace(day=1), last
    return date(written.year + steps, 1, 1), date(written.year + steps, 12, 31)


NEAR, PASSAGE = 0.3, 0.1
"""Weight of an occurrence in one of the near neighbours, and in the rest of the passage."""

CLOSE, REACH = 2, 8
"""Number of messages on each side that are near, and that belong to the passage."""

IDLE = 0.3
"""Weight of a function word ("how", "first") relative to an equally rare significant one."""

BESIDE = 1
"""Maximum distance from a message with a significant word at which a message without any may answer a question."""

ASKING = 0.5
"""Factor for a message that only asks, if the query is a question."""

ANSWERING = 0.5
"""More weight of an occurrence in the message before, if that asks and the query is a question."""

TIMED = 0.4
"""Bonus of a message that names a time, if the query asks for one."""

NAMED = 0.1
"""Bonus of a message that begins with its speaker's name, if the query has this name."""

LONGEST, NEIGHBOUR = 100_000, 2000
"""Maximum number of characters read of a message, and of a neighbour."""

_K1, _B = 1.2, 0.75
"""BM25's usual constants."""

_SPLIT = 8000
"""Number of characters of a text that are always split into words; the rest is split only where it may hold a term."""

_SENTENCE = re.compile(r"[^.!?？。\n]+[.!?？。]*")
_LABEL = re.compile(r"\s*(?:[(\[][^)\]\n]{1,60}[)\]]\s*)?([^\W\d_][^:\n]{0,39}):\s")
_ASKS = re.compile(
    r"\W*(?:(?:in|on|at|to|for|from|with|by|of|around|during)\s+)?"
    r"(?:what|when|where|which|who|whom|whose|why|how|did|does|do|is|are|was|were|has|have|had|can|could|would|will)\b",
    re.IGNORECASE,
)


class QueryTerm(NamedTuple):
    """A term: its phrases as stems, whether it is significant, and its rarity (None if that depends on the messages
    read). `word` is its stem if it is a single word."""

    phrases: tuple[Phrase, ...]
    typed: Phrase | None
    telling: bool
    rarity: float | None
    word: str | None


class Scored(NamedTuple):
    """A message with its score. `held` is the number of significant terms in its own text. `tells` is its value as an
    answer, less than 1 for a question."""

    said: IndexedMessage
    score: float
    held: int
    tells: float


class _TermCounts(NamedTuple):
    """The occurrences of each term in a message or its date, its length in words, and the number of significant terms
    that it holds."""

    counts: list[int]
    length: int
    held: int


def query_terms(
    telling: Sequence[Term], idle: Sequence[Term], holders: Mapping[Term, int], messages: int
) -> list[QueryTerm]:
    """Return the terms for the ranking, given how many of all messages hold each of the significant ones."""
    # A term that occurs in no text may be the name of a day, which many messages mention.
    weighed = [_query_term(term, True, rarity(holders[term], messages) if holders[term] else None) for term in telling]
    return weighed + [_query_term(term, False, None) for term in idle]


def _query_term(term: Term, telling: bool, rarity: float | None) -> QueryTerm:
    phrases = tuple(Phrase(tuple(stems(" ".join(words))), prefix) for words, prefix in term.phrases)
    (words, prefix), *more = phrases
    word = None if more or term.typed or prefix or len(words) > 1 else words[0]
    return QueryTerm(phrases, term.typed, telling, rarity, word)


def rarity(holding: int, messages: int) -> float:
    """Return the weight of a term that `holding` of `messages` messages hold."""
    return log(1 + max(0.0, messages - holding + 0.5) / (holding + 0.5))


def is_question(query: str) -> bool:
    """Return True if a query is a question, in English or with a question mark."""
    return "?" in query or "？" in query or _ASKS.match(query) is not None


def scored(
    runs: Sequence[Sequence[IndexedMessage]],
    terms: Sequence[QueryTerm],
    *,
    question: bool = False,
    timed: bool = False,
    beside: bool = False,
    everything: bool = False,
) -> list[Scored]:
    """Return the matching messages in runs of neighbours, each with its score, in no particular order.

    `question` is True if the query is one, `timed` if it asks for a time. Without `everything`, only messages with a
    significant term match and, with `beside`, those next to them.
    """
    words = frozenset(term.word for term in terms if term.word)
    begin = _beginnings(terms)
    dated = words if name_days(words) else frozenset[str]()
    read = [[_read(message, terms, dated, begin) for message in run] for run in runs]
    weights = _weights(terms, [each for run in read for each in run])
    lengths = [each.length for run in read for each in run]
    usual = max(1.0, sum(lengths) / max(1, len(lengths)))
    found = []
    for run, texts in zip(runs, read, strict=True):
        asks = [asking(message.text) if question else 0.0 for message in run]
        scores = _scores(texts, weights, usual, asks)
        # A message that is too long to be read whole was found by an index, which holds all of it.
        holds_one = [each.held > 0 or len(message.text) >= LONGEST for each, message in zip(texts, run, strict=True)]
        for at, message in enumerate(run):
            near = everything or (beside and any(holds_one[max(0, at - BESIDE) : at + BESIDE + 1]))
            # Erased messages and empty results have no text.
            if message.fits and (holds_one[at] or (near and message.text and not message.text.isspace())):
                score = scores[at]
                label = _LABEL.match(message.text)
                score *= 1 + NAMED if label and not words.isdisjoint(stems(label[1])) else 1
                score *= 1 + TIMED if timed and tells_when(message.text[label.end() if label else 0 : _SPLIT]) else 1
                tells = 1 - ASKING * asks[at]
                found.append(Scored(message, score * tells, texts[at].held, tells))
    return found


def _weights(terms: Sequence[QueryTerm], read: Sequence[_TermCounts]) -> list[float]:
    """Return the weight of each term where it occurs. Counting function words in all messages would cost more than it
    helps, so their rarity is that in the messages read."""

    def read_rarity(place: int) -> float:
        return rarity(sum(each.counts[place] > 0 for each in read), len(read))

    known = [read_rarity(place) if term.rarity is None else term.rarity for place, term in enumerate(terms)]
    return [each * (1.0 if term.telling else IDLE) for each, term in zip(known, terms, strict=True)]


def terms_held(message: IndexedMessage, terms: Sequence[QueryTerm]) -> int:
    """Return the number of significant terms in a message."""
    begin = _beginnings(terms)
    return _read(message, terms, frozenset(), begin).held if _promising(message.text, begin) else 0


def occurrences(text: str, terms: Sequence[QueryTerm]) -> tuple[list[int], int]:
    """Return the number of occurrences of each term in a text, and its length in words."""
    counts, length, _ = _read(IndexedMessage(0, text), terms, frozenset(), _beginnings(terms))
    return counts, length


def asking(text: str) -> float:
    """Return the share of a text's words that are in questions."""
    if "?" not in text and "？" not in text:
        return 0.0
    every = questions = 0
    for sentence in _SENTENCE.findall(text[:_SPLIT]):
        words = len(sentence.split())
        every += words
        questions += words if sentence.endswith(("?", "？")) else 0
    return questions / every if every else 0.0


def _scores(texts: Sequence[_TermCounts], weights: Sequence[float], usual: float, asks: Sequence[float]) -> list[float]:
    """Return the score of each message of a run by the terms in it and around it. `asks` is the share of each message
    that asks."""
    found = [0.0] * len(texts)
    lengths = [1 - _B + _B * each.length / usual for each in texts]
    for place, weight in enumerate(weights):
        own = [each.counts[place] / length for each, length in zip(texts, lengths, strict=True)]
        sums = list(accumulate(own, initial=0.0))
        if not sums[-1]:
            continue
        for at, occurs in enumerate(own):
            near = sums[min(at + CLOSE + 1, len(own))] - sums[max(0, at - CLOSE)]
            passage = sums[min(at + REACH + 1, len(own))] - sums[max(0, at - REACH)]
            count = (1 - NEAR) * occurs + (NEAR - PASSAGE) * near + PASSAGE * passage
            count += ANSWERING * asks[at - 1] * own[at - 1] if at else 0.0
            found[at] += weight * count * (_K1 + 1) / (count + _K1)
    # Sums of different runs differ in the last digits; messages that are alike keep one score.
    return [round(score, 9) for score in found]


def _beginnings(terms: Sequence[QueryTerm]) -> frozenset[str]:
    """Return the prefixes of significant terms; every form of such a word begins with one."""
    words = (word for term in terms if term.telling for phrase in term.phrases for word in phrase.words)
    return frozenset(word[: min(4, max(1, len(word) - 1))] for word in words)


def _promising(text: str, beginnings: frozenset[str]) -> bool:
    """Return True if a text may hold a word with one of these prefixes."""
    lowered = text.lower()
    return not text.isascii() or any(each in lowered for each in beginnings)


def _read(
    message: IndexedMessage, terms: Sequence[QueryTerm], dated: frozenset[str], beginnings: frozenset[str]
) -> _TermCounts:
    """Count the query's terms in a message. `dated` holds the query's words if they may name a day."""
    text = message.text
    promising = _promising(text, beginnings)
    begin = text if promising else text[:_SPLIT]
    tokens = stems(begin)
    length = len(tokens) + (len(text) - len(begin)) // 6
    # Splitting names takes longer than everything else, and seldom finds a term.
    if promising and (more := parts_of(begin)):
        tokens += stems(more)
    counts = [tokens.count(term.word) if term.word else _counted(term, text, tokens) for term in terms]
    matched = sum(count > 0 and term.telling for count, term in zip(counts, terms, strict=True))
    if dated and not (named := days(text[:_SPLIT], message.at)).isdisjoint(dated):
        counts = [count + (term.word in named) for count, term in zip(counts, terms, strict=True)]
    return _TermCounts(counts, length, matched)


def _counted(term: QueryTerm, text: str, tokens: Sequence[str]) -> int:
    found = max(_count(phrase, tokens) for phrase in term.phrases)
    return found if not found or term.typed is None or holds(text, term.typed) else 0


def _count(phrase: Phrase, tokens: Sequence[str]) -> int:
    """Return the number of occurrences of a phrase among tokens."""
    *before, last = phrase.words
    if before:
        return sum(1 for _ in _places(phrase, tokens))
    return sum(token.startswith(last) for token in tokens) if phrase.prefix else tokens.count(last)


def _places(phrase: Phrase, tokens: Sequence[str]) -> Iterator[int]:
    """Yield the positions where several words are adjacent."""
    first, last, size = phrase.words[0], phrase.words[-1], len(phrase.words)
    at = -1
    for _ in range(tokens.count(first)):
        at = tokens.index(first, at + 1)
        side = tuple(tokens[at : at + size])
        if side == phrase.words or (
            phrase.prefix and len(side) == size and side[:-1] == phrase.words[:-1] and side[-1].startswith(last)
        ):
            yield at
