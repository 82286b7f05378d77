"""The words of a text as matching sees them: without case and accents, split at seams, stemmed.

`user_session`, `userSession` and `user sessions` share their terms. Scripts that write no spaces (Chinese, Japanese,
Korean, Thai and others) give overlapping pairs of characters. Stemming is for English and light: plurals, -ing, -ed
and the commonest endings of nouns made from verbs; it only has to send related words to one form, not to a word.
"""

import re
import unicodedata
from collections import Counter
from functools import lru_cache

from foldmark.core.scripts import UNSPACED, is_unspaced

LONGEST = 64
"""Characters of a word; what is longer (encoded data) is no word."""

MOST = 200
"""Words of a criterion that count."""

# Vowel signs are no letters to `re`, so the Indic blocks are named as a whole.
_WORD = re.compile(rf"[{UNSPACED}]+|(?:[^\W{UNSPACED}]|[\u0900-\u0dff])+")
_MARKS = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f]")
_SEAM = re.compile(
    r"_+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})|(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])"
)
_VOWEL = re.compile("[aeiouy]")
_NOUN = re.compile("(?:ational|ation|ator|ate|ion|ment|or|er|ly)$")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


FUNCTION = _set(
    """
    a about above across after again against ago all almost along already also although always am among an and another
    any anybody anyone anything anyway apart are around as at away back be became because been before being below
    between both but by came can cannot come could did do does doing don done down each either else enough etc even
    ever every everybody everyone everything except excluding few first for from further gave get gets getting give go
    goes going gone got had has have having he her here hers him his how however i if in instead into is isn
    it its just last least less let like ll make many maybe me might mine more most much must my myself near need
    neither never next no nobody none nor not nothing now of off often on once one only onto or other others otherwise
    our ours out over own per perhaps please put quite rather re really said same say says see seem seems shall she
    should since so some somebody someone something still such take than that the their theirs them then there these
    they thing things this those though through thus till to together too toward towards try under unless until up upon
    us use used uses using usually ve very via want wants was we well went were what whatever when where whether which
    while who whole whom whose why will with within without won would yes yet you your yours
    aber als am an auch auf aus bei das dass dem den der des die ein eine einen einer es fur im in ist mit nach nicht
    nur oder ohne sich sie sind uber um und uns unter vom von vor was wie wir zu zum zur
    au aux avec ce ces dans de des du elle en est et il la le les mais ne nous ou par pas pour que qui sans ses son sur
    un une vous al como con del el ella en es esta este lo los las mas no para pero por que se sin sobre su un una y
    """
)
"""Words that say nothing about a topic, folded; a text of these alone is about nothing by itself."""

ABOUT_TALK = _set(
    """
    conversation conversations concerning debate debates dialog dialogue dialogues discuss discussed
    discusses discussing discussion discussions entire exchange exchanges final finally irrelevant keep mention
    mentioned mentioning mentions message messages old older recent regard regarding regards related relating
    remove stuff talk talked talking talks topic topics turn turns forget remember
    diskussion diskussionen gesprach gesprache nachricht nachrichten thema conversacion conversaciones discusion
    discusiones mensaje mensajes sujet
    """
)
"""Words of a criterion that speak of the conversation, not of its topic."""

_UNSPACED_TALK = re.compile(
    "关于|有关|關於|讨论|討論|对话|對話|消息|訊息|内容|所有|全部|的|について|に関する|関する|メッセージ|会話|議論|の|を|全て"
)


def fold(text: str) -> str:
    """Text without accents and variants of width; case stays, as it shows where words meet."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))


def terms(text: str) -> Counter[str]:
    """How often each term occurs in a text: every word, and the parts of those that are put together."""
    found: Counter[str] = Counter()
    for word, times in Counter(_WORD.findall(fold(text))).items():
        for term in _terms_of(word) if len(word) <= LONGEST else _long(word):
            found[term] += times
    return found


Unit = frozenset[frozenset[str]]
"""One thing that a criterion asks for, in other spellings: a text has it if it has all terms of one of them."""


def units(text: str) -> list[Unit]:
    """What a criterion asks for, in order and once each; empty if all its words are without meaning."""
    found: dict[Unit, None] = {}
    for word in _WORD.findall(_UNSPACED_TALK.sub(" ", fold(text)))[:MOST]:
        if is_unspaced(word):
            found.update(dict.fromkeys(frozenset({frozenset({pair})}) for pair in _pairs(word[:MOST])))
        elif len(word) <= LONGEST and _tells(word):
            found[_spellings(word)] = None
    return list(found)


def telling(text: str) -> frozenset[str]:
    """The terms of a text that may say what it is about."""
    words = {word for word in _WORD.findall(fold(text)) if 1 < len(word) <= LONGEST}
    return frozenset(term for word in words if word.casefold() not in FUNCTION for term in _terms_of(word))


def tells_nothing(text: str) -> bool:
    """Whether a text consists of words without meaning: "ok, and then?"; an empty one does not."""
    words = _WORD.findall(fold(text[:400]).casefold())
    return bool(words) and all(word in FUNCTION or word in _NODS or len(word) == 1 for word in words)


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """The form that a folded word shares with those related to it."""
    word = word.casefold()
    if len(word) < 4 or not (word.isascii() and word.isalpha()):
        return word
    word = _without_ending(_singular(word))
    word = re.sub("ision$", "ide", word) if len(word) > 6 else word
    rest = _NOUN.sub("", word)
    if word.endswith("ion") and len(rest) < 4:
        rest = word.removesuffix("ion")
    # A short rest is a chance likeness ("station", "element", "letter"), not a verb.
    if len(rest) >= {"m": 6, "e": 5, "o": 5, "l": 5}.get(word[len(rest) : len(rest) + 1], 4) and _VOWEL.search(rest):
        word = rest
    if len(word) > 4 and word.endswith("e"):
        word = word[:-1]
    if len(word) > (5 if word.endswith("l") else 4) and word[-1] == word[-2] and word[-1] not in "aeiousz":
        word = word[:-1]
    return f"{word[:-1]}i" if len(word) > 3 and word.endswith("y") else word


_NODS = frozenset(["ok", "okay", "sure", "thanks", "thank", "continue", "proceed", "good", "great", "fine", "right"])


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "sis")) else word


def _without_ending(word: str) -> str:
    """The verb of a form in -ing or -ed."""
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest == word or len(rest) < 3 or not _VOWEL.search(rest) or word.endswith("eed"):
            continue
        if rest[-1] == rest[-2] and rest[-1] not in "lsz":
            return rest[:-1]
        # "noted" comes from "note": after one short vowel English doubles what follows ("logged"), except w, x and y.
        short = len(rest) == 3 and not _VOWEL.match(rest[0]) and _VOWEL.match(rest[1]) and not _VOWEL.match(rest[2])
        return f"{rest}e" if rest.endswith("at") or (short and rest[2] not in "wxy") else rest
    return word


def _parts(word: str) -> list[str]:
    return [part for part in _SEAM.split(word) if part]


def _tells(word: str) -> bool:
    folded = word.casefold()
    return folded not in FUNCTION and folded not in ABOUT_TALK and (len(word) > 1 or word.isdigit())


def _spellings(word: str) -> Unit:
    parts = _parts(word)
    if len(parts) < 2:
        return frozenset({frozenset({stem(word)})})
    ways = {frozenset({term}) for term in (stem("".join(parts)), _letters(word)) if len(term) > 1}
    if all(len(part) > 1 or part.isdigit() for part in parts):
        ways.add(frozenset(map(stem, parts)))
    return frozenset(ways)


def _letters(word: str) -> str:
    """A name without its version, "oauth" of "OAuth2"; empty if it has none or little is left."""
    letters = word.rstrip("0123456789")
    return stem(letters) if 2 < len(letters) < len(word) else ""


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def _long(word: str) -> list[str]:
    return _pairs(word) if is_unspaced(word) else []


@lru_cache(maxsize=20_000)
def _terms_of(word: str) -> tuple[str, ...]:
    if is_unspaced(word):
        # Single characters as well: a criterion may be one.
        return tuple(dict.fromkeys([*_pairs(word), *word]))
    parts = _parts(word)
    if len(parts) < 2:
        return tuple(map(stem, parts))
    return tuple(dict.fromkeys(filter(None, [*map(stem, parts), stem("".join(parts)), _letters(word)])))
