"""The keywords of a prompt, which pick memos, and the layers of the picked memos [S2, SPEC 5.1, 7].

Keywords are the subjects of a prompt, without the words of ordinary talk. Words are those of FTS5's tokenizer
`unicode61`: runs of letters and digits, in lower case, Latin letters without diacritics. A name in code
(`user_session`, `config.toml`) is a keyword as a whole and by its parts. A keyword never contains FTS5 syntax: it has
letters, digits, `_` and `.` only.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, takewhile
from math import log

from foldmark.core.agents import mail_head
from foldmark.core.events import Event
from foldmark.core.records import Memo
from foldmark.core.request import Part
from foldmark.core.wording import listing, quoted
from foldmark.text.tokens import stems
from foldmark.text.vocabulary import FUNCTION, TALK, TALK_ELSEWHERE

MOST = 40
"""Maximum number of keywords of one prompt; of a longer prompt, those at its beginning and its end are used."""

LONGEST = 64
"""Maximum length of a keyword in characters; longer runs (encoded data) are not words."""

LOOKED_AT = 10_000
"""Characters at the beginning and at the end of a prompt that are searched, because people paste whole logs."""

SHORTEST_BEGINNING = 5
"""Minimum number of letters for the beginning of a word to stand for related words."""

_NAME = re.compile(r"[^\W_]+(?:[._]+[^\W_]+)*")
_WORD = re.compile(r"[^\W_]+")
_SEAM = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_MARKS = re.compile("[\u0300-\u036f]")
_FEW_DIGITS, _EXTENSION = 2, 4

STOP = FUNCTION | TALK | TALK_ELSEWHERE
"""Words without a subject."""


def keywords(text: str) -> tuple[str, ...]:
    """Return the distinct keywords of a prompt in order of appearance; at most `MOST`."""
    found = tuple(dict.fromkeys(chain.from_iterable(_of_name(name) for name in _NAME.findall(_looked_at(text)))))
    return found if len(found) <= MOST else (*found[: MOST // 2], *found[-(MOST - MOST // 2) :])


def all_words(text: str) -> tuple[str, ...]:
    """Return all words of a text, ordinary talk included; at most `MOST`."""
    return tuple(dict.fromkeys(map(folded, _WORD.findall(_looked_at(text)))))[:MOST]


def folded(text: str) -> str:
    """Return text in lower case, its Latin letters without diacritics."""
    if text.isascii():
        return text.lower()
    return "".join(map(_folded, unicodedata.normalize("NFC", text)))


def spellings(keyword: str) -> tuple[tuple[str, ...], str | None]:
    """Return the words that a keyword stands for, and the prefix of further words that it stands for, if any."""
    if not keyword.isalpha():
        return (keyword,), None
    single = keyword[:-1] if keyword.endswith("s") and not keyword.endswith(("ss", "us", "is")) else keyword
    root = "".join(
        a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(keyword, "".join(stems(keyword)), strict=False))
    )
    for beginning in (root, single):
        if len(beginning) >= SHORTEST_BEGINNING:
            return (keyword,), beginning
    return (keyword, f"{keyword}s" if single == keyword else single), None


def occurring(wanted: Iterable[str], text: str) -> list[str]:
    """Return the keywords that occur in a text."""
    words = _WORD.findall(folded(text))
    distinct, line = frozenset(words), f" {' '.join(words)} "
    return [keyword for keyword in wanted if _stands(keyword, distinct, line)]


def ranked(found: Mapping[str, Sequence[int]], memos: int) -> list[int]:
    """Return ids of memos by relevance, the best first, given the memos that hold each keyword and the total number of
    memos.

    Rare keywords count for more, as in BM25; of two equally relevant memos the newer one comes first.
    """
    score: dict[int, float] = {}
    for ids in found.values():
        weight = log(1 + (max(0, memos - len(ids)) + 0.5) / (len(ids) + 0.5))
        for memo in ids:
            score[memo] = score.get(memo, 0.0) + weight
    return sorted(score, key=lambda memo: (-score[memo], -memo))


def _looked_at(text: str) -> str:
    if len(text) <= 2 * LOOKED_AT:
        return text
    # The last word may be cut, so it is left out.
    return f"{text[:LOOKED_AT].rpartition(' ')[0]} {text[-LOOKED_AT:].partition(' ')[2]}"


def _of_name(name: str) -> list[str]:
    """Return the keywords of a word or of a compound name: the whole and its parts, but no file extension alone."""
    words = [word for word in _WORD.findall(name) if len(word) <= LONGEST]
    whole = folded(name)
    if "." in name and len(words) > 1 and len(words[-1]) <= _EXTENSION:
        del words[-1]
    pieces = [part for word in words for part in (word, *_SEAM.split(word))]
    telling = [part for part in dict.fromkeys(map(folded, pieces)) if _tells(part)]
    put_together = not _WORD.fullmatch(name) and len(whole) <= LONGEST
    return [whole, *telling] if telling and put_together else telling


def _tells(word: str) -> bool:
    if word in STOP:
        return False
    return len(word) > _FEW_DIGITS if word.isdigit() else len(word) > 1 or not word.isascii()


def _stands(keyword: str, words: frozenset[str], line: str) -> bool:
    if not _WORD.fullmatch(keyword):
        return f" {' '.join(_WORD.findall(keyword))} " in line
    exact, beginning = spellings(keyword)
    if any(each in words for each in exact):
        return True
    return beginning is not None and any(word.startswith(beginning) for word in words)


def _folded(char: str) -> str:
    parts = unicodedata.normalize("NFD", char.lower())
    return _MARKS.sub("", parts) if parts[0].isascii() else char.lower()


HEADING = "### MEMOS"


def opening_words(opener: Event | None) -> str:
    """Return the words of a person, or of another agent by mail, in the message that opened a turn; empty for other
    messages."""
    if opener is None or opener.kind != "user":
        return ""
    mail, text = (opener.data or {}).get("mail"), opener.content
    for each in mail if isinstance(mail, list) else ():
        if isinstance(each, dict):
            text = text.replace(mail_head(str(each.get("from")), str(each.get("sent_at"))), "")
    return text if mail or opener.actor == "human" else ""


def memo_entry(memo: Memo) -> str:
    """Return a memo as the model reads it. Each line of its text is quoted, so that it cannot pass for a heading."""
    return f"Memo {memo.id}, {memo.created_at[:10]}{memo.labels}\n{quoted(memo.content, len(memo.content))}"


def memo_layers(entries: Iterable[tuple[int, str]], words: Sequence[str]) -> list[Part]:
    """Return the layers of memos, id and entry, that these keywords picked."""
    found: list[Part] = []
    for memo_id, text in entries:
        by = occurring(words, _searched(text))
        detail = f"memo {memo_id}, picked by {listing(by, 8)}" if by else f"memo {memo_id}"
        shown = text if found else f"{HEADING}\n{text}"
        found.append(Part("memos", None, None, "memo", detail=detail, text=shown, memo=memo_id))
    return found


def entry_in_layer(text: str) -> str:
    """Return the entry in the text of a layer."""
    return text.removeprefix(f"{HEADING}\n")


def _searched(text: str) -> str:
    """Return the tags and the content, which are searched."""
    head, _, content = text.partition("\n")
    return f"{head.partition('[')[2]}\n{content}"
