"""Decide whether a person's text agrees to a preview, or to a part of it [SPEC 4.2].

Errors go in one direction only: a missed yes costs a second question, a wrong yes costs context. So a text agrees only
if it begins with a word of agreement and contains nothing else but courtesy, or the order to proceed.
"""

import re
import unicodedata

from foldmark.core.errors import CommandError
from foldmark.core.wording import listing
from foldmark.text.vocabulary import COURTESY, DECLINED, DOUBT, NO, YES, YES_PHRASES

LONGEST = 100
"""Maximum number of characters of a plain yes."""


_ORDER = re.compile(
    r"(?:and |then |please |so |to )*(?:apply\b|proceed\b"
    r"|(?:forget|remove|drop) (?:all of )?(?:them|these|those)$"
    r"|(?:forget|remove|drop) (?:all )?(?:of )?(?:the|these|those) .*(?:messages|discussions|turns|exchanges)$)"
)
"""Words that may follow a yes. "Forget it", "drop the idea" and "forget the whole thing" mean the opposite."""

_PLAIN = {ord("’"): "'", ord("‘"): "'", ord("?"): " ? ", ord("؟"): " ? ", ord("⸮"): " ? ", 0xFE0F: None}
_PLAIN |= dict.fromkeys(range(0x1F3FB, 0x1F400))  # skin tones
_WORD = re.compile(r"[^\s.,;:!…。、，！：；'\"“”„«»()\[\]*_`~-]+(?:'[^\s.,;:!'\"]+)?")


def is_yes(text: str) -> bool:
    """Return True if a text is a plain yes to a question: "Yes, proceed", "ok", "ja, bitte".

    A text with a question, a condition, a number, an exception or an addition is not a plain yes, nor is a text with a
    further statement.
    """
    words = _words(text)
    if not words or "?" in words:
        return False
    line = " ".join(words)
    phrase = next((each for each in YES_PHRASES if f"{line} ".startswith(f"{each} ")), None)
    if phrase is None and words[0] not in YES:
        return False
    rest = words[len(phrase.split()) if phrase else 1 :]
    while rest:
        tail = f"{' '.join(rest)} "
        more = next((each for each in YES_PHRASES if tail.startswith(f"{each} ")), None)
        if more is None and rest[0] not in YES | COURTESY:
            break
        rest = rest[len(more.split()) if more else 1 :]
    if not rest:
        return True
    return (
        len(words) <= 10
        and _ORDER.match(" ".join(rest)) is not None
        and not any(word in DOUBT or any(char.isdigit() for char in word) for word in words)
    )


def is_no(text: str) -> bool:
    """Return True if a text only declines: "no", "stop, please", "cancel that"."""
    words = _words(text)
    return bool(words) and words[0] in NO and all(word in NO | COURTESY | DECLINED for word in words[1:])


_NUMBER = r"[0-9]{1,4}(?:\s*[-–]\s*[0-9]{1,4})?"
_NUMBERS = rf"(?P<numbers>{_NUMBER}(?:(?:\s*,\s*|\s+|[\s,]+(?:and|und|&)\s+){_NUMBER})*)"
_POLITE = r"(?:[\s,]*(?:please|bitte|thanks|danke))?[\s.!]*"
_WHAT = r"\s+(?:(?:ranges?|numbers?|no\.?|nr\.?)\s+)?"
_AGREED = r"(?:yes|ok|okay|sure|ja)[\s,]+(?:but\s+)?"
_ALL_BUT = re.compile(
    rf"(?:(?:{_AGREED})?(?:all|everything|alles?)[\s,]+(?:but(?:\s+not)?|except(?:\s+for)?|without|außer|bis\s+auf)"
    rf"|{_AGREED}(?:not|nicht)|(?:{_AGREED})?(?:but\s+not|except(?:\s+for)?|außer)){_WHAT}{_NUMBERS}{_POLITE}",
    re.IGNORECASE,
)
_ONLY = re.compile(
    rf"(?:(?:{_AGREED})?(?:only|just|nur)|(?:yes|ok|okay|sure|ja),?){_WHAT}{_NUMBERS}{_POLITE}", re.IGNORECASE
)


def chosen(text: str, of: int, longest: int = LONGEST) -> tuple[int, ...] | None:
    """Return the ranges, from 1 to `of`, that a text agrees to: "all but 2", "only 1 3", "yes 2-4"; None if it names
    no ranges or has more than `longest` characters.

    Raises CommandError for numbers that were not shown, or if nothing remains.
    """
    line = text.strip()
    if len(line) > longest:
        return None
    left_out, kept = _ALL_BUT.fullmatch(line), _ONLY.fullmatch(line)
    match = left_out or kept
    if match is None:
        return None
    named: set[int] = set()
    for first, last in re.findall(r"([0-9]+)(?:\s*[-–]\s*([0-9]+))?", match["numbers"]):
        named.update(range(int(first), min(int(last or first), of + 1) + 1))
        named.update(int(number) for number in (first, last) if number)
    if wrong := sorted(number for number in named if not 1 <= number <= of):
        available = "there is only range 1" if of == 1 else f"the ranges are 1 to {of}"
        raise CommandError(
            f"there is no range {listing(wrong)}; {available}. The offer is still open; to name "
            "ids, write: except messages 45-50"
        )
    found = tuple(number for number in range(1, of + 1) if (number in named) is (kept is not None))
    if not found:
        raise CommandError("that leaves no range; answer no to change nothing. The offer is still open")
    return found


def _words(text: str) -> list[str]:
    """Return the words of a short text, with a question mark as a separate word; none for a long text."""
    if len(text) > LONGEST:
        return []
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_PLAIN)
    return _WORD.findall(folded)
