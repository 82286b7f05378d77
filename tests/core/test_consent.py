"""A person's yes (SPEC 4.2): [S1]'s own, everyday ones, and texts that only look like one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.text.choosing import Choice
from foldmark.text.consent import ANSWERS, Answer, Doubt, Look, No, Refinement, Yes, is_no, is_yes, read

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


EXAMPLES = [(text, row.read) for row in ANSWERS for text in row.examples]


@pytest.mark.parametrize(("text", "kind"), EXAMPLES)
def test_every_example_of_the_grammar_is_read_as_it_says(text: str, kind: type[Answer] | None) -> None:
    for each in (text, f"  {text.upper()}  "):
        answer = read(each)
        assert (None if answer is None else type(answer)) is kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Yes, forget these 6 messages", Yes),
        ("yes, all of these, thanks", Yes),
        ("works for me", Yes),
        ("Let's do it!", Yes),
        ("perfect", Yes),
        ("No thanks, keep them", No),
        ("I changed my mind.", No),
        ("sure, show me first", Look),
        ("can I see them once more?", Look),
        ("OK?", Look),
        ("why message 12?", Look),
        ("except the naming debate", Refinement),
        ("Yes, except the naming debate", Refinement),
        ("only the ones about billing", Refinement),
        ("Yes, and then fix the parser", Doubt),
        ("Yes, and then fix the parser" + " that fails" * 20, Doubt),
        ("all of them are about billing, why?", Doubt),
        ("1 and 3 are about billing", Doubt),
        ("the first one is about billing", Doubt),
        ("great, now fix the parser", Doubt),
        ("okay, what about the tags", Doubt),
        ("ok forget it", Doubt),
        ("forget them", Doubt),
        ("drop 1 and 2", Doubt),
        ("right", Doubt),
        ("I guess so", Doubt),
        ("2 tests fail", None),
        ("The first thing to do is a list", None),
        ("Good morning!", None),
        ("Go files need gofmt", None),
        ("right click does not work", None),
        ("leave that", None),
        ("nobody knows", None),
        ("", None),
    ],
)
def test_how_a_text_is_read(text: str, kind: type[Answer] | None) -> None:
    answer = read(text)
    assert (None if answer is None else type(answer)) is kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("keep 2", Choice),
        ("yes, keep these 4 messages", Yes),
        ("Yes, forget these 4 messages", Doubt),
        ("keep them", Doubt),
        ("everything", Doubt),
        ("keep everything", Doubt),
        ("fine, but keep the first one", Doubt),
    ],
)
def test_an_offer_to_remember_is_answered_the_other_way_round(text: str, kind: type[Answer]) -> None:
    assert type(read(text, "remember")) is kind


@given(st.text(max_size=150), st.sampled_from(["forget", "remember"]))
def test_any_text_is_read(text: str, mode: str) -> None:
    assert read(text, mode) == read(text, mode)
