"""What a person types to search, as an expression of SQLite's FTS5, and the place of a text that shows it [SPEC 4, 7].

Nothing that is typed is FTS5's own syntax: words are taken out of the query by the tokenizer that the index is made
with, and only those, quoted, come into an expression.

The index holds words as they are, so that phrases, prefixes and names in code are found exactly. That "migrations"
also finds "migrated" is the query's affair: each word is looked for twice, as it is and by the beginning that it shares
with related words. On the development half of LoCoMo this finds as much among the first ten hits as an index of stems
(recall 0.58; without either 0.56), and leaving out the words that say nothing adds more than both.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

import apsw

from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError, StoreError
from foldmark.core.ports import Hit

Tokens = Callable[[str], list[str]]
"""The words of a text as the index sees them, or their stems."""

Rows = Callable[..., list[tuple[Any, ...]]]
"""Runs a query with what is bound to it."""

MOST_TERMS = 64
"""Terms of a query that count, and words of one term."""

SEARCHED = 100_000
"""Characters of a message in which the place to show is looked for."""

SHORTEST_STEM = 3
"""Letters below which the beginning of a word says nothing."""

SNIPPET, BEFORE = 160, 40
"""Characters of a snippet, and how many of them stand before what was found."""

_PART = re.compile(r'"([^"]*)"(\*?)|([^\s"]+)')
_QUOTES = str.maketrans("“”„‟\0", '"""" ')
_POSSESSIVE = re.compile(r"['’]s(?!\w)", re.IGNORECASE)
_MOST_FINDS = 200


class Term(NamedTuple):
    """Something to look for: words side by side, the last of them perhaps only a beginning.

    `stem` is the beginning that the last word shares with those related to it; None where the words are meant as typed.
    """

    words: tuple[str, ...]
    prefix: bool = False
    stem: str | None = None


def tokenizers(db: apsw.Connection) -> tuple[Tokens, Tokens]:
    """SQLite's own, as the index is made with: one that gives words and one that gives stems."""

    def made(name: str, *more: str) -> Tokens:
        split = db.fts5_tokenizer(name, [*more, "remove_diacritics", "2"])

        def tokens(text: str) -> list[str]:
            found = split(text.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False, include_colocated=False)
            return cast(list[str], found)

        return tokens

    return made("unicode61"), made("porter", "unicode61")


def terms(query: str, words: Tokens, stems: Tokens) -> list[Term]:
    """What `query` asks for, in order and once each.

    "Words in quotes" stay together and are meant as typed, as is a beginning with a `*` behind it; words that say
    nothing count only if there are no others. Raises CommandError if there is no word at all.
    """
    from foldmark.core.words import FUNCTION  # 8 ms to import, and only a search needs it

    telling: dict[Term, None] = {}
    idle: dict[Term, None] = {}
    for phrase, star, word in _PART.findall(_POSSESSIVE.sub("", well_formed(query).translate(_QUOTES))):
        found = tuple(words(phrase or word)[:MOST_TERMS])
        if not found:
            continue
        if phrase or word.endswith("*"):
            telling[Term(found, bool(star or word))] = None
        elif all(each in FUNCTION or (len(found) > 1 and len(each) == 1) for each in found):
            idle[Term(found)] = None
        else:
            telling[Term(found, stem=_stem(found[-1], stems))] = None
    if not telling and not idle:
        raise CommandError(
            'there is no word to search for; type some, as in: database schema, "in these very words", migrat*'
        )
    return list(islice(telling or idle, MOST_TERMS))


def expression(wanted: Sequence[Term], operator: str) -> str:
    """The FTS5 expression for all ("AND") or any ("OR") of the terms."""
    return f" {operator} ".join(map(_expression, wanted))


def snippet(text: str, wanted: Sequence[Term]) -> str:
    """The neighbourhood in `text` of as many terms as possible, as one line; its beginning if none is seen there."""
    places = _places(text, wanted)
    if not places and not text.isascii():
        # Character by character, so that the places are those of the text.
        places = _places("".join(unicodedata.normalize("NFD", char)[0] for char in text), wanted)

    def variety(at: int) -> int:
        return len({which for start, which in places if 0 <= start - at < SNIPPET - BEFORE})

    first = max((start for start, _ in places), key=variety, default=0)
    start = max(0, first - BEFORE)
    if start:
        start += max(0, text[start:first].find(" ") + 1)
    end = start + SNIPPET
    if end < len(text):
        # A word is cut only if it is longer than all that may follow.
        end = max(text.rfind(" ", first + BEFORE, end), end - BEFORE)
    line = " ".join(text[start:end].split())
    return f"{'…' if text[:start].strip() else ''}{line}{'…' if text[end:].strip() else ''}"


def spans(text: str, wanted: Sequence[Term]) -> list[tuple[int, int]]:
    """Where in a short text terms stand: beginning and end of each, to the end of its last word."""
    found = []
    for match in _pattern(wanted).finditer(text):
        start, end = match.span()
        while end < len(text) and text[end].isalnum():
            end += 1
        found.append((start, end))
    return found


def hits(wanted: Sequence[Term], limit: int, search: Rows, text: Rows) -> list[Hit]:
    """The best hits, given the queries `search` (expression, limit) and `searched_text` (limits, id)."""
    found = {row[1]: (row, True) for row in search(expression(wanted, "AND"), limit)}
    if len(wanted) > 1 and len(found) < limit:
        for row in search(expression(wanted, "OR"), limit):
            found.setdefault(row[1], (row, False))
    return [
        Hit(id, agent, name, kind, turn, created_at, _score(rank, all_words), snippet(said, wanted))
        for (rank, id, agent, name, kind, turn, created_at), all_words in list(found.values())[:limit]
        for (said,) in text(SEARCHED, SEARCHED, id)
    ]


def damage(rows: Rows, check: Rows, *, writable: bool) -> Iterator[str]:
    """What is wrong with the index, given the queries `wrong_index_rows` and `wrong_index`, which needs a file that
    can be written to."""
    rebuild = "any SQLite shell rebuilds it: INSERT INTO search (search) VALUES ('rebuild')"
    ((missing, surplus),) = rows()
    if missing or surplus:
        yield f"search: {missing} messages are not in the index, {surplus} of its rows are no messages; {rebuild}"
    elif writable:
        try:
            check()
        except StoreError as error:
            if not isinstance(error.__cause__, apsw.CorruptError):
                raise
            yield f"search: the index holds other words than the messages; {rebuild}"


def _score(rank: float, all_words: bool) -> float:
    # SQLite's rank is the better the more negative; what holds all words comes before whatever does not.
    return -rank / (1 - rank) + all_words


def _stem(word: str, stems: Tokens) -> str | None:
    from foldmark.core.words import is_unspaced

    if is_unspaced(word):
        return word  # what is written without spaces is one word to the index; at least its beginning is found
    stem = next(iter(stems(word)), word)
    # Porter's stem of "happy" ends otherwise than any word of its family.
    stem = stem[:-1] if stem.endswith("i") and not word.startswith(stem) else stem
    return stem if len(stem) > SHORTEST_STEM or (len(stem) == SHORTEST_STEM and stem != word) else None


def _expression(term: Term) -> str:
    whole = _quoted(term.words) + (" *" if term.prefix else "")
    if term.prefix or term.stem is None:
        # Whatever is looked for is looked for twice, so that all terms weigh the same.
        return f"({whole} OR {whole})"
    return f"({whole} OR {_quoted((*term.words[:-1], term.stem))} *)"


def _quoted(words: Sequence[str]) -> str:
    return '"' + " ".join(words).replace('"', '""') + '"'


def _places(text: str, wanted: Sequence[Term]) -> list[tuple[int, int]]:
    """Where terms stand in `text`, and which; only the first so many."""
    found = islice(_pattern(wanted).finditer(text), _MOST_FINDS)
    return [(match.start(), match.lastindex or 0) for match in found]


def _pattern(wanted: Sequence[Term]) -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(f'({_one(term)})' for term in wanted)})", re.IGNORECASE)


def _one(term: Term) -> str:
    *before, last = map(re.escape, term.words)
    if not term.prefix:
        related = "" if term.stem is None else f"|{re.escape(term.stem)}"
        last = rf"(?:{last}(?![^\W_]){related})"
    return r"[\W_]++".join([*before, last])
