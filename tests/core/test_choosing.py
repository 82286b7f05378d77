"""The lines and messages of an offer that an answer names (SPEC 4.2)."""

import pytest

from foldmark import CommandError
from foldmark.text.choosing import Choice, chosen
from foldmark.text.consent import read

PARTS = ((45, 46, 48), (60, 61), (70,))
"""The ids of an offer of three lines."""
EVERY = [id for part in PARTS for id in part]


def taken(text: str, mode: str = "forget") -> list[int]:
    """Return the ids that a text takes of the offer."""
    choice = read(text, mode)
    assert isinstance(choice, Choice)
    named = chosen(choice, PARTS)
    return [id for id in EVERY if (id in named) is choice.kept]


@pytest.mark.parametrize(
    ("texts", "ids"),
    [
        (["all but 2", "keep 2", "not 2", "except the second", "forget all but the 2nd", "1 and 3"], [45, 46, 48, 70]),
        (["1", "1.", "the first", "only the first one", "just 1 please", "yes, 1", "no, only 1"], [45, 46, 48]),
        (["1 and 2", "1, 2", "1 2", "1-2", "ranges 1 to 2", "the first two", "all but the last one"], EVERY[:-1]),
        (["the first and the last", "lines 1 & 3", "number 1 and number 3", "nur 1 und 3"], [45, 46, 48, 70]),
        (["the last two", "2 and 3", "keep the first one", "alles außer 1", "yes, but not 1"], [60, 61, 70]),
        (["except messages 45-50", "all but messages 45 to 50", "keep messages 45-50"], [60, 61, 70]),
        (["all but 45", "all but #45", "all but message 45", "everything except id 45"], EVERY[1:]),
        (["only messages 46-60", "46-60", "only ids 46 and 48 and 60"], [46, 48, 60]),
        (["all but message 46 and line 2"], [45, 48, 70]),
    ],
)
def test_lines_and_ids(texts: list[str], ids: list[int]) -> None:
    for text in texts:
        assert taken(text) == ids, text


def test_keep_and_forget_follow_what_is_offered() -> None:
    assert taken("keep 2", "remember") == taken("only 2", "remember") == [60, 61]
    assert taken("forget 2", "remember") == taken("all but 2", "remember") == [45, 46, 48, 70]
    assert taken("keep all but 2") == taken("forget 2") == [60, 61]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("only 7", "there is no range 7; the ranges are 1 to 3. The offer is still open"),
        ("all but 4", "there is no range 4"),
        ("the last 5", "there is no range 5"),
        ("1 and 60", "there is no range 60"),
        ("all but message 2", "message 2 is not in the offer, which has messages from 45 to 70"),
        ("only 99-120", "message 99-120 is not in the offer"),
    ],
)
def test_what_was_not_offered(text: str, why: str) -> None:
    choice = read(text)
    assert isinstance(choice, Choice)
    with pytest.raises(CommandError, match=why):
        chosen(choice, PARTS)
