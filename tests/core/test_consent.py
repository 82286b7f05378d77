"""A person's yes (SPEC 4.2): [S1]'s own, everyday ones, and texts that only look like one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.text.consent import is_no, is_yes

YES = [
    "Yes, proceed",
    "Yes",
    "yes",
    "YES!",
    "y",
    "Yep.",
    "yeah",
    "ok",
    "OK.",
    "Okay, thanks",
    "sure",
    "Sure, go ahead",
    "go ahead",
    "Go ahead, please",
    "proceed",
    "please proceed",
    "Please do.",
    "do it",
    "Do it now",
    "yes yes",
    "yes\nplease",
    "Of course!",
    "sounds good, do it",
    "that's fine",
    "That’s right, yes",
    "Yes, all of them",
    "yes please, forget them",
    "yes, forget those messages",
    "Yes, please proceed to forget these",
    "ok, go ahead and forget all of them",
    "Yes, forget the database discussions",
    "  yes  ",
    "“Yes”",
    "ja",
    "Ja, bitte!",
    "mach das",
    "oui",
    "d’accord",
    "Sí",
    "si, por favor",
    "da",
    "да",
    "はい",
    "はい、お願いします。",
    "是",
    "是的",
    "好的",
    "네",
    "👍",
    "👍🏽",
]

NOT_YES = [
    "",
    "   ",
    "?",
    "yesterday",
    "no",
    "No!",
    "yes but not 45",
    "yes, but keep the last one",
    "yes\nbut keep the last one",
    "don't proceed",
    "do not",
    "OK?",
    "ok？",
    "yes? no",
    "Yes, wait",
    "ok, cancel",
    "ok stop",
    "ok ok no",
    "sure, later",
    "sure, show me first",
    "Yes, only 45-67",
    "yes, 12",
    "Yes, except the naming debate",
    "yes if they are old",
    "not yes",
    "I said yes",
    "yes I wondered about that",
    "ok so the tables are joined by the id of the note",
    "okay, what about the tags",
    "ok forget it",
    "ok, forget about that",
    "sure, drop the idea",
    "ok, forget the whole thing",
    "yes, forget the first two messages",
    "Yes forget nothing",
    "okay, forget all but the last",
    "yes, forget everything I said",
    "yes, and also forget the login",
    "yes, remember to call Anna",
    "proceed with caution",
    "do it tomorrow",
    "right",
    "forget them",
    "Show me what you'll forget first",
    "ja, aber nicht alle",
    "nein",
    "oui mais pas 45",
    "いいえ",
    "はいじゃない",
    "不是",
    "нет",
    "yes" * 50,
    "yes " * 50,
    "yes\x00",
    "/cancel",
]


@pytest.mark.parametrize("text", YES)
def test_a_plain_yes_is_recognized(text: str) -> None:
    assert is_yes(text)
    assert not is_no(text)
    assert not is_yes(f"{text} but not 45")
    assert not is_yes(f"{text}?")
    assert not is_yes(f"not {text}")


@pytest.mark.parametrize("text", NOT_YES)
def test_other_texts_are_not_a_yes(text: str) -> None:
    assert not is_yes(text)


@pytest.mark.parametrize(
    ("text", "no"),
    [
        ("no", True),
        ("No, thanks!", True),
        ("stop", True),
        ("Cancel that.", True),
        ("don’t", True),
        ("don't do that", True),
        ("never mind", True),
        ("nein", True),
        ("нет", True),
        ("いいえ", True),
        ("", False),
        ("yes", False),
        ("not sure", False),
        ("no, only the tables", False),
        ("nobody", False),
        ("stop the server", False),
    ],
)
def test_a_plain_no_is_recognized(text: str, no: bool) -> None:
    assert is_no(text) is no


@given(st.text(max_size=120))
def test_no_text_is_both_yes_and_no(text: str) -> None:
    assert not (is_yes(text) and is_no(text))
