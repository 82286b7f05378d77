"""Read which lines or messages of an offer a text names: "1 and 3", "the last two", "messages 45-50" [SPEC 4.2]."""

import re
from collections.abc import Sequence

from msgspec import Struct

from foldmark.core.errors import CommandError
from foldmark.core.wording import listing


class Named(Struct, frozen=True):
    """Lines or messages, from `first` to `last`. `unit` is "line" or "message"; "" for bare numbers. Negative numbers
    count lines from the end."""

    unit: str
    first: int
    last: int


class Choice(Struct, frozen=True):
    """Only these (`kept`), or all but these."""

    kept: bool
    named: tuple[Named, ...]


_GERMAN = ((1, "erste"), (2, "zweite"), (3, "dritte"), (-1, "letzte"))
_ORDINALS = {
    **{word: number for number, word in enumerate(("first", "second", "third", "fourth", "fifth", "sixth"), 1)},
    **{f"{each}{end}": number for number, each in _GERMAN for end in ("", "n", "r", "s")},
    "last": -1,
}
SMALL = {
    **{
        word: number for number, word in enumerate(("two", "three", "four", "five", "six", "seven", "eight", "nine"), 2)
    },
    "zwei": 2,
    "drei": 3,
}
"""Numbers in words."""

_ID = r"[0-9]{1,18}(?![0-9a-z]|\.[0-9])"
_UNIT = r"(?P<unit>messages?|msgs?|ids?|nachrichten?|lines?|ranges?|numbers?|items?|points?|zeilen?|no\.?|nr\.?)"
_ONES = r"(?:\s+(?:ones?|lines?|ranges?|of\s+(?:them|these|those)))?"
_ITEM = re.compile(
    rf"(?:the\s+)?(?:{_UNIT}\s*)?\#?(?P<first>{_ID})(?:\s*(?:-|–|—|to|through|thru|bis)\s*\#?(?P<last>{_ID}))?"
    rf"|(?:the\s+|der\s+|die\s+|das\s+|den\s+)?(?P<ordinal>{'|'.join(sorted(_ORDINALS, key=len, reverse=True))}"
    rf"|[0-9]{{1,3}}(?:st|nd|rd|th))(?![a-z])(?:\s+(?P<many>{'|'.join(SMALL)}|[0-9]{{1,3}})(?![0-9a-z]))?{_ONES}"
)
_BETWEEN = re.compile(r"\s*(?:,\s*)?(?:(?:and|und|plus|or|oder|nor)\s+(?:also\s+)?|[&+]\s*)?")


def items(line: str, at: int) -> tuple[tuple[Named, ...], int] | None:
    """Return the lines and messages that are named from a position on, and the position after them."""
    named: list[Named] = []
    unit, end = "", at
    while (found := _ITEM.match(line, at)) is not None:
        if found["ordinal"]:
            named.append(_ordinal(found["ordinal"], found["many"]))
        else:
            if found["unit"]:
                unit = "message" if found["unit"][:2] in ("me", "ms", "id", "na") else "line"
            first, last = sorted((int(found["first"]), int(found["last"] or found["first"])))
            named.append(Named(unit, first, last))
        end = found.end()
        between = _BETWEEN.match(line, end)
        at = between.end() if between else end
        if at == end:
            break
    return (tuple(named), end) if named else None


def _ordinal(word: str, many: str | None) -> Named:
    number = _ORDINALS[word] if word in _ORDINALS else int(word[:-2])
    size = SMALL.get(many or "") or int(many or 1)
    return Named("line", -size, -1) if number < 0 else Named("line", number, number + size - 1)


def chosen(choice: Choice, parts: Sequence[Sequence[int]]) -> frozenset[int]:
    """Return the ids that a choice names among the ids of an offer, which `parts` holds line by line.

    A bare number is that of a line. It is an id if it is above the number of the next line, which is a slip. Raises
    CommandError for lines or messages that were not offered.
    """
    of, ids = len(parts), sorted({id for part in parts for id in part})
    bare = [number for each in choice.named if not each.unit for number in (each.first, each.last)]
    found: set[int] = set()
    for each in choice.named:
        if each.unit == "message" or (not each.unit and min(bare) > of + 1):
            named = [id for id in ids if each.first <= id <= each.last]
            if not named:
                raise CommandError(_not_offered(each, ids, of))
            found.update(named)
            continue
        if wrong := sorted({number for number in (abs(each.first), abs(each.last)) if not 1 <= number <= of}):
            raise CommandError(_no_line(wrong, of, ids))
        first, last = (number + of + 1 if number < 0 else number for number in (each.first, each.last))
        found.update(id for part in parts[first - 1 : last] for id in part)
    return frozenset(found)


def _no_line(numbers: Sequence[int], of: int, ids: Sequence[int]) -> str:
    available = "there is only range 1" if of == 1 else f"the ranges are 1 to {of}"
    named = f"; to leave out a message by its id, write: except message {ids[-1]}" if len(ids) > 1 else ""
    return f"there is no range {listing(numbers)}; {available}. The offer is still open{named}"


def _not_offered(named: Named, ids: Sequence[int], of: int) -> str:
    if not named.unit and named.last <= 10 * of:
        return _no_line(sorted({named.first, named.last}), of, ids)
    span = f"{named.first}" if named.first == named.last else f"{named.first}-{named.last}"
    return f"message {span} is not in the offer, which has messages from {ids[0]} to {ids[-1]}. The offer is still open"
