"""Queries of an FTS5 index: which messages hold a term, how many, and which of them best [SPEC 7].

Such an index has the columns `text` and `parts` (`recall.parts`) and the tokenizer `recall.tokens.PORTER`. It is the
log's, or the archive's.
"""

from foldmark.core.search import Phrase, Term, TermQuery

COUNTED = 20_000
"""Maximum number of messages that are counted; the total is extrapolated."""

_JOINED = {"all": " AND ", "any": " OR "}


def expression(wanted: TermQuery) -> str:
    """Return the FTS5 expression for all or any of the terms."""
    return _JOINED[wanted.how].join(map(holding, wanted.terms))


def holding(term: Term) -> str:
    """Return the FTS5 expression for messages that hold a term."""
    return f"({' OR '.join(map(_quoted, term.phrases))})"


def extrapolated(counted: int, reached: int | None, newest: int | None) -> int:
    """Return the estimated total, given how many were counted up to which id, and the newest id."""
    if counted < COUNTED or not reached or not newest:
        return counted
    return counted * max(newest, reached) // reached


def _quoted(phrase: Phrase) -> str:
    return '"' + " ".join(phrase.words).replace('"', '""') + '"' + (" *" if phrase.prefix else "")
