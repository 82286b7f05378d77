"""Wording that many messages to a person share: lists, counts, titles, and the meter."""

import re
from collections.abc import Iterable, Sequence

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


FINAL = "This cannot be taken back."
"""The end of a question before an irreversible step."""


def one_line(text: str) -> str:
    """Make `text` safe to print as one line: control characters and line ends become visible escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def title(text: str, most: int = 60) -> str:
    """Return a short title for a text: the beginning of the first line that has a word, cut between words; may be
    empty."""
    begin = text[: 20 * most].splitlines()
    line = next((line for line in begin if any(char.isalnum() for char in line)), "")
    words = " ".join(line.strip(" #>*-`\t").split())
    if len(words) > most:
        start = words[: most - 1]
        words = (start.rpartition(" ")[0] or start).rstrip(" ,;:.") + "…"
    return one_line(words)


_TAG = re.compile(r"</?[a-z][a-z-]*>")


def told_title(text: str, most: int = 60) -> str:
    """Return a title for a text that a client wrote by itself, without the tags around it."""
    return title(_TAG.sub(" ", text[: 20 * most]), most)


def listing(names: Iterable[object], limit: int = 12) -> str:
    """Join the first `limit` names for an error message, and add the number of further ones."""
    items = [str(name) for name in names]
    shown = ", ".join(items[:limit])
    return f"{shown} and {len(items) - limit} more" if len(items) > limit else shown


def nearest(typed: str, known: Iterable[str], most: int = 1, least: float = 0.6) -> list[str]:
    """Return up to `most` of the known names that are spelled most like the typed one, the nearest first. The minimum
    of their similarity, from 0 to 1, is `least`. Case does not count."""
    from difflib import get_close_matches  # takes 7 ms to import

    names = {name.lower(): name for name in known}
    return [names[name] for name in get_close_matches(typed.lower(), names, most, least)]


def suggestion(typed: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: `did you mean A or B?`, or else the known names."""
    known = list(known)
    near = nearest(typed, known, 3)
    return f"did you mean {' or '.join(near)}?" if near else f"available: {listing(known, 40)}"


def count(number: int, noun: str) -> str:
    """Return `1 turn`, `2 turns`, `1,000 turns`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def quoted(text: str, most: int = 1000) -> str:
    """Return the first `most` characters of a text, each line prefixed with `>`, so that it cannot be mistaken for
    Foldmark's own words."""
    return "\n".join(f"> {line}" for line in text[:most].splitlines())


def remarks(notes: Sequence[str]) -> list[str]:
    """Return remarks about an answer as its last line: `[2 more; a higher limit. Not looked into: .git.]`."""
    return [f"[{'. '.join(each[0].upper() + each[1:] for each in notes)}.]"] if notes else []


WINDOW = 200_000
"""Assumed window of a model in tokens, if its own is unknown [S1]."""


def percent(tokens: int, window: int = WINDOW) -> int:
    """Return the share of the window in percent, rounded down."""
    return tokens * 100 // window


BUDGET_SHOWN = 50
"""Percentage of the budget from which on the meter shows it. A budget smaller than the window decides when older turns
leave."""


def meter(tokens: int, window: int = WINDOW, budget: int = 0, whole: int = 0) -> str:
    """Return `Context: 80K/200K tokens (40%) ⚪ · budget 100K (80%)`: the light is yellow from 80% of the window, red
    from 95.

    `tokens` are those of the next request, `budget` is its limit in the settings (0: none), `whole` is the number of
    tokens of the whole context if the request does not contain all of it [SPEC 5.5].
    """
    share = percent(tokens, window)
    beside = []
    if 0 < budget < window and (used := percent(tokens, budget)) >= BUDGET_SHOWN:
        beside.append(f"budget {_thousands(budget)} ({used}%)")
    if whole:
        beside.append(f"whole context ~{_thousands(max(whole, tokens))}")
    return " · ".join((f"Context: {_thousands(tokens)}/{_thousands(window)} tokens ({share}%) {light(share)}", *beside))


def is_full(tokens: int, window: int = WINDOW) -> bool:
    """Return True if the context is too full for another message. Commands are always accepted."""
    return tokens >= window


def is_ephemeral(tokens: int, window: int = WINDOW) -> bool:
    """Return True if a filter must be planned without the rest of the history: from 80% of the window [S1]."""
    return tokens * 100 >= window * 80


def light(share: int) -> str:
    """Return the light for a share of the window in percent: yellow from 80, red from 95."""
    return "🔴" if share >= 95 else "🟡" if share >= 80 else "⚪"


def _thousands(tokens: int) -> str:
    """Return tokens rounded to the nearest thousand, never 0 for a positive number."""
    return f"{max((tokens + 500) // 1000, min(tokens, 1))}K"
