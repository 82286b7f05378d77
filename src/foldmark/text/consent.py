"""Read a person's answer to an offer: a yes, a no, a choice, a question about it, or none of these [SPEC 4.2].

Errors go in one direction only: a missed yes costs a second question, a wrong yes costs context. So a text agrees only
if it begins with words of agreement and contains nothing else but courtesy, the right count, or the order to proceed.
`ANSWERS` is the grammar as the documentation shows it; a test reads each of its examples.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence
from itertools import dropwhile
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from foldmark.text.choosing import SMALL, Choice, items
from foldmark.text.vocabulary import (
    ALL_PHRASES,
    COURTESY,
    DECLINED,
    DOUBT,
    HESITATION,
    LOOK,
    LOOKING,
    NO,
    NO_PHRASES,
    WEAK,
    YES,
    YES_PHRASES,
)

LONGEST = 100
"""Maximum number of characters of a plain yes, a no, a choice or a question about an offer."""


class Yes(Struct, frozen=True):
    """The whole offer. `counts` are the numbers of messages or ranges that the text names."""

    counts: tuple[int, ...] = ()


class No(Struct, frozen=True):
    """Nothing of it."""


class Look(Struct, frozen=True):
    """A question about the offer."""


class Refinement(Struct, frozen=True):
    """Other criteria, in words: "also the naming debate"."""


class Doubt(Struct, frozen=True):
    """Begins like an answer, and says more."""


Answer: TypeAlias = Yes | No | Choice | Look | Refinement | Doubt


class Row(NamedTuple):
    """A row of the grammar: examples, how they are read, and what happens."""

    examples: tuple[str, ...]
    read: type[Answer] | None
    effect: str


ANSWERS = (
    Row(
        ("yes", "ok", "sure, go", "go ahead", "fine by me", "sounds good", "all of them", "Yes, proceed"),
        Yes,
        "the filter is applied",
    ),
    Row(
        ("Yes, forget these 6 messages", "all 3"),
        Yes,
        "the filter is applied, if the offer has that many messages or lines; otherwise Foldmark asks",
    ),
    Row(
        ("no", "no thanks", "stop", "never mind", "none of them", "not now"),
        No,
        "planning ends, nothing is forgotten",
    ),
    Row(
        ("only 1 3", "1 and 3", "only 2-4", "yes 1,3", "the first", "the last two", "forget 2"),
        Choice,
        "the filter is applied to these lines only",
    ),
    Row(
        ("all but 2", "everything except the last one", "not 2", "keep 2", "leave out 1 and 3"),
        Choice,
        "the filter is applied to all other lines",
    ),
    Row(
        ("except messages 45-50", "all but messages 45 and 60", "only messages 45-50", "all but 45"),
        Choice,
        "the same by the ids of messages; a bare number is an id if no line has it",
    ),
    Row(
        ("show me what you will forget first", "which ones?", "show me again", "what stays?"),
        Look,
        "the offer is shown again, and stays open",
    ),
    Row(
        ("also the naming debate", "yes, but not the index", "no, I mean the tables"),
        Refinement,
        "a model with tools previews again; without one, Foldmark asks once: yes or no?",
    ),
    Row(
        ("Yes, and then fix the parser", "fine, but keep the first one", "remove 2", "maybe"),
        Doubt,
        "nothing is applied; Foldmark asks once: yes or no?",
    ),
    Row(
        ("Leave that: we use port 8080", "What is the weather like?"),
        None,
        "planning ends, nothing is forgotten, and the model answers the message as usual",
    ),
)
"""The grammar of answers to an offer to forget."""


def read(text: str, mode: str = "forget", longest: int = LONGEST) -> Answer | None:
    """Return how a text answers an offer to forget or to remember; None for an ordinary message. In an offer to
    remember, "keep 2" chooses line 2, and "forget 2" all other lines. A text with more than `longest` characters is no
    answer; it may begin like one."""
    line = _folded(text)
    words = _WORD.findall(line) if len(text) <= longest else []
    if (agreed := _agreed(words, mode)) is not None:
        return Doubt() if mode == "remember" and _means_all(words) else agreed
    if _declines(words, mode):
        return No()
    if len(text) <= longest:
        if (found := _choice(line, mode)) is not None:
            return found
        if _looks(line):
            return Look()
    if _refines(line):
        return Refinement()
    return Doubt() if _begins_like_an_answer(line) else None


def is_yes(text: str) -> bool:
    """Return True if a text is a plain yes to a question: "Yes, proceed", "ok", "ja, bitte".

    A text with a question, a condition, a number, an exception or an addition is not a plain yes, nor is a text with a
    further statement.
    """
    return read(text) == Yes()


def is_no(text: str) -> bool:
    """Return True if a text only declines: "no", "stop, please", "cancel that"."""
    return read(text) == No()


def is_look(text: str) -> bool:
    """Return True for a question about an offer: "show me what you will forget first"."""
    return read(text) == Look()


# Words

_PLAIN = {ord("’"): "'", ord("‘"): "'", ord("?"): " ? ", ord("؟"): " ? ", ord("⸮"): " ? ", 0xFE0F: None}
_PLAIN |= dict.fromkeys(range(0x1F3FB, 0x1F400))  # skin tones
_WORD = re.compile(r"[^\s.,;:!…。、，！：；'\"“”„«»()\[\]*_`~-]+(?:'[^\s.,;:!'\"]+)?")


def _folded(text: str) -> str:
    """Return a text in lower case on one line, with a question mark as a separate word."""
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_PLAIN)
    return " ".join(folded.split())


def _leading(line: str, phrases: Collection[str]) -> str | None:
    """Return the phrase with which a line begins."""
    return next((each for each in phrases if f"{line} ".startswith(f"{each} ")), None)


# A yes

_VERBS = {"forget": "forget|remove|drop", "remember": "keep|remember"}
_ORDERS = {
    mode: re.compile(
        rf"(?:and |then |please |so |to )*(?:apply\b|proceed\b|(?:{verbs}) (?:all of )?(?:them|these|those)$"
        rf"|(?:{verbs}) (?:all )?(?:of )?(?:the|these|those) .*(?:messages|discussions|turns|exchanges|ranges|lines)$)"
    )
    for mode, verbs in _VERBS.items()
}
"""Words that may follow a yes. "Forget it", "drop the idea" and "forget the whole thing" mean the opposite."""

_BEFORE_COUNT = frozenset(("all", "these", "those", "the", "of"))
_AFTER_COUNT = frozenset(("messages", "message", "ranges", "range", "lines", "line"))
_COUNT = re.compile(r"[0-9]{1,6}")


def _agreed(words: Sequence[str], mode: str) -> Yes | None:
    """Return the yes that these words are; None if they are not a plain yes."""
    if not words or "?" in words:
        return None
    counts, plain = [2] * ("both" in words), list[str]()
    for at, word in enumerate(words):
        before, after = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
        number = SMALL.get(word) or (int(word) if _COUNT.fullmatch(word) else None)
        if number is not None and before in _BEFORE_COUNT and (before != "the" or after in _AFTER_COUNT):
            counts.append(number)
        else:
            plain.append(word)
    if counts and plain[0] == "all":
        plain = [each for each in plain if each not in _AFTER_COUNT]
    if plain and plain[0] in WEAK - {"right"} and all(word in WEAK | YES | COURTESY for word in plain):
        return Yes(tuple(counts))
    rest = _without_yes(plain) if plain else None
    if rest is None:
        return None
    while rest:
        fewer = _without_yes(rest)
        if fewer is None and rest[0] not in COURTESY:
            break
        rest = rest[1:] if fewer is None else fewer
    if rest:
        own = _VERBS[mode].split("|")
        sure = all(word in own or (word not in DOUBT and not any(map(str.isdigit, word))) for word in plain)
        order = " ".join(rest)
        order = re.sub(r"\ball (?=messages|ranges|lines)", "these ", order) if counts else order
        if len(words) > 10 or not sure or not _ORDERS[mode].match(order):
            return None
    return Yes(tuple(counts))


def _without_yes(words: Sequence[str]) -> Sequence[str] | None:
    """Return the words after a yes; None if they do not begin with one."""
    phrase = _leading(" ".join(words), (*YES_PHRASES, *ALL_PHRASES))
    if phrase is None and words[0] not in YES:
        return None
    return words[len(phrase.split()) if phrase else 1 :]


def _means_all(words: Sequence[str]) -> bool:
    """Return True for "all" or "everything", which in an offer to remember may also mean to keep the whole context."""
    return words[0] in ("everything", "alles", "todo") or list(words) == ["all"]


# A no

_KEEPING = frozenset(("keep", "leave"))


def _declines(words: Sequence[str], mode: str) -> bool:
    if not words or "?" in words:
        return False
    if words[0] in NO and all(word in NO | COURTESY | DECLINED for word in words[1:]):
        return True
    declined = words[0] in NO
    words = list(dropwhile(lambda word: word in NO or word in ("thanks", "thank", "you", "danke"), words))
    phrase = _leading(" ".join(words), NO_PHRASES)
    if phrase is None or (mode == "remember" and words[0] in _KEEPING and not declined):
        return False
    return all(word in COURTESY | NO for word in words[len(phrase.split()) :])


# A choice

_POLITE = re.compile(r"[\s,]*(?:(?:please|pls|bitte|thanks|thank you|danke)[\s,]*)?[\s.!]*")
_ALL = r"(?:all|everything|alles?)(?:\s+of\s+(?:them|these|those))?"
_BUT = r"(?:but(?:\s+not)?|except(?:\s+for)?|without|besides|apart\s+from|other\s+than|ausser|ohne|bis\s+auf)"
_HOW = re.compile(
    rf"(?:(?P<verb>forget|remember|keep|retain|spare|leave(?!\s+out))\s+)?(?:(?P<all>{_ALL}[\s,]+{_BUT})|(?P<only>only|just|nur)"
    rf"|(?P<out>(?:but\s+)?not|nicht|but\s+not|except(?:\s+for)?|excluding|exclude|without|leave\s+out|skip|omit|ausser|ohne))?"
)
_ONLY_BEHIND = re.compile(r"(?<=[\w,])\s+only[\s.!]*$")
_LEFT_OUT = re.compile(r"^leave\s+(.+)\s+out(?=[\s.!]*$)")
_ONLY_AFTER_NO = re.compile(r"(?:no|nope|nah|nein)[\s,]+(?=(?:only|just|nur)\b)")


def _choice(line: str, mode: str) -> Choice | Doubt | None:
    """Return the choice that a line is; Doubt if it has one that is meant in another way than it reads; None if it is
    none."""
    line = _LEFT_OUT.sub(r"leave out \1", _ONLY_BEHIND.sub("", line))
    agreed = _yes_before(line)
    no = _ONLY_AFTER_NO.match(line)
    at = agreed or (no.end() if no else 0)
    how = _HOW.match(line, at)
    assert how is not None
    found = None if how["verb"] and how["out"] else items(line, _skipped(line, how.end()))
    if found is None or not _POLITE.fullmatch(line, found[1]):
        return None
    if agreed and (how["verb"] or (not how[0] and _LINKED.search(line[:agreed]))):
        return Doubt()  # "fine, but keep the first one": that one alone, or the rest as well?
    as_offered = how["verb"] in (None, mode) or (mode == "remember" and how["verb"] != "forget")
    return Choice(as_offered is not bool(how["all"] or how["out"]), found[0])


_LINKED = re.compile(r"\b(?:but|and|aber)\s+(?!not\b|nicht\b)")
_GAP = re.compile(r"[\s,.!:;]*")


def _yes_before(line: str) -> int:
    """Return the position after the words of agreement with which a line begins, with their "but" or "and"."""
    at = 0
    while (word := _WORD.match(line, at)) is not None:
        phrase = _leading(re.sub(r"[,.!:;]", " ", line[at:]), YES_PHRASES)
        if phrase is None and word[0] not in YES | WEAK:
            break
        at = _skipped(line, at + len(phrase) if phrase else word.end())
    linked = _LINKED.match(line, at) if at else None
    return linked.end() if linked else at


def _skipped(line: str, at: int) -> int:
    found = _GAP.match(line, at)
    assert found is not None
    return found.end()


# A question about the offer, other criteria, and what only begins like an answer

_ASKED_IN = re.compile(r"[^\W_]+|\?")
_WAIT = re.compile(r"^(?:(?:wait|hold on|hang on|not yet|no)[\s,.!]+)+")
_POLITELY = 4
"""Number of words among which a question without a question mark has its first word: "could you please show me"."""
_ALSO = re.compile(
    r"(?:also|as well as|plus|except(?:\s+for)?|excluding|exclude|without|leave out|but(?:\s+not)?|only|just|not)\s+\w"
    r"|keep\s+(?:the|everything|anything|messages?|what)\s+\w|and\s+also\s+\w"
)
_MEANT = re.compile(
    r"(?:(?:no|nope|actually|sorry|rather)\b[\s,:]*)+(?:i mean|i meant|rather|instead|only|just|about|look for)\s+\w"
)


def _looks(line: str) -> bool:
    words = _ASKED_IN.findall(_WAIT.sub("", line[_yes_before(line) :]).replace("'", " "))
    asks = "?" in words or any(word in LOOKING for word in words[:_POLITELY])
    return asks and all(word in LOOK or word.isdecimal() for word in words)


def _refines(line: str) -> bool:
    """Return True for other criteria; a reference to lines, which are no criteria, is none."""
    if _MEANT.match(line):
        return True
    at = _yes_before(line)
    found = _ALSO.match(line, at)
    return found is not None and "?" not in line and items(line, _behind(line, at)) is None


_LEADS = re.compile(r"(?:(?:but|and|also|keep|not|only|just|except|excluding|exclude|without|for|leave|out)\s+)*")


def _behind(line: str, at: int) -> int:
    """Return the position behind "but keep", "except" and their like."""
    found = _LEADS.match(line, at)
    assert found is not None
    return found.end()


_OF_THEM = re.compile(
    rf"(?:{_ALL}|both|some|most|none|half)\s+(?:of\s+)?(?:them|these|those)\b|{_ALL}[\s,]+(?:but|except)\b"
)
_ORDERED = re.compile(
    r"(?:(?:do\s+not|don't|please|just)\s+)*(?:forget|remember|keep|remove|drop|delete|take\s+out)\s+"
)
_WHICH = re.compile(
    r"(?:it|them|these|those|all|both|everything)\b(?:\s+(?:all|of|it|them|these|those|please|now|then))*[\s.!]*"
)
_LINES = re.compile(r".*\b(?:ones?|lines?|ranges?|them|these|those)")


def _begins_like_an_answer(line: str) -> bool:
    """Return True for a line that begins with words of agreement or with lines of the offer, or that hesitates."""
    words = _WORD.findall(line[: 2 * LONGEST])
    if not words:
        return False
    hesitant = _leading(" ".join(words), HESITATION)
    if hesitant and all(word in COURTESY or word == "so" for word in words[len(hesitant.split()) :]):
        return True
    if words[0] in WEAK:
        cut_off = not line[len(words[0]) : len(words[0]) + 1].isspace()
        return cut_off or words[1] in DOUBT or words[1] in ("and", "so", "then")
    if _leading(" ".join(words), YES_PHRASES) or (words[0] in YES and words[0] not in ("go", "da", "si", "k", "y")):
        return True
    ordered = _ORDERED.match(line)
    if _OF_THEM.match(line) or (ordered and _WHICH.fullmatch(line, ordered.end())):
        return True
    how = _HOW.match(line, ordered.end() if ordered else 0)
    assert how is not None
    found = items(line, _skipped(line, how.end()))
    if found is None:
        return False
    named, end = found
    # "2 tests fail" is about something else.
    sure = ordered or how[0] or len(named) > 1 or _LINES.fullmatch(line[:end]) or _POLITE.fullmatch(line, end)
    return bool(sure)
