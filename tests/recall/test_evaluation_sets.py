"""Sets of questions: the format, and what can be wrong with it (SPEC 7)."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.core.errors import CommandError
from foldmark.recall.question_sets import Message, Question, QuestionSet, parse, places

SAID = {"message": {"id": "a", "text": "the fjord is deep"}}
ASKED = {"question": "how deep?", "evidence": ["a"]}


def parsed(*lines: Any) -> QuestionSet:
    return parse(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)


def refused(*lines: Any) -> str:
    with pytest.raises(CommandError) as error:
        parsed(*lines)
    return str(error.value)


def test_what_is_left_out_has_a_default() -> None:
    assert parsed(SAID, ASKED) == (
        [Message(1, "a", "", "user", "the fjord is deep", None)],
        [Question(2, "how deep?", ("a",), None, None)],
    )


def test_everything_given() -> None:
    said = {"id": 7, "conversation": "talk", "role": "assistant", "text": "x", "at": "2023-05-08T15:56:00+02:00"}
    asked = {"question": "why x?", "evidence": [7, "7"], "conversation": "talk", "category": 2, "answer": "not read"}
    assert parsed({"message": said}, b"", b"  \n", asked) == (
        [Message(1, "7", "talk", "assistant", "x", "2023-05-08T13:56:00.000000Z")],
        [Question(4, "why x?", ("7",), "talk", "2")],
    )


def test_questions_may_stand_before_messages() -> None:
    asked = parsed(ASKED, SAID)
    assert places(asked) == [[0]]


def test_a_byte_order_mark_and_ends_of_lines() -> None:
    lines = [b"\xef\xbb\xbf" + json.dumps(SAID).encode() + b"\r\n", json.dumps(ASKED).encode() + b"\r\n"]
    assert parse(lines) == parsed(SAID, ASKED)


def test_a_line_separator_in_a_text_ends_no_line() -> None:
    text = "the fjord\u2028is\u0085deep\0"
    line = json.dumps({"message": {"id": "a", "text": text}}, ensure_ascii=False).encode()
    assert parsed(line, ASKED).messages[0].text == text


def test_ids_are_those_of_a_conversation() -> None:
    one, other = ({"message": {"id": "a", "text": "x", "conversation": name}} for name in ("one", "other"))
    asked = parsed(one, other, {**ASKED, "conversation": "other"}, {**ASKED, "conversation": "one"})
    assert places(asked) == [[1], [0]]
    assert refused(one, other, ASKED) == (
        "line 3: several conversations have a message 'a'; name one with \"conversation\""
    )


def test_a_database_has_its_own_ids() -> None:
    assert parsed({"question": "x?", "evidence": [12]}).questions[0].evidence == ("12",)


def test_a_question_without_evidence_is_kept() -> None:
    assert [each.evidence for each in parsed(SAID, ASKED, {"question": "who?", "evidence": []}).questions] == [
        ("a",),
        (),
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "line 2 is not JSON: "),
        (b"nonsense", "line 2 is not JSON: "),
        (b'{"question": "\xff", "evidence": []}', "line 2 is not JSON: "),
        (b'{"question": "\\ud800", "evidence": []}', "line 2 is not JSON: "),
        (b'{"x": ' * 100_000, "line 2 is not JSON: "),
        (b"[]", "line 2: Expected `object`, got `array`"),
        (b"null", "line 2: Expected `object`, got `null`"),
        ({}, 'line 2: a line has either a "message" or a "question"'),
        ({"note": "x"}, 'line 2: a line has either a "message" or a "question"'),
        ({**SAID, **ASKED}, 'line 2: a line has either a "message" or a "question"'),
        ({"message": {"text": "x"}}, "line 2: Object missing required field `id` - at `$.message`"),
        ({"message": {"id": "", "text": "x"}}, "line 2: Expected `str` of length >= 1 - at `$.message.id`"),
        ({"message": {"id": "b", "text": 5}}, "line 2: Expected `str`, got `int` - at `$.message.text`"),
        ({"message": {"id": "b", "text": "x", "role": "boss"}}, "line 2: Invalid enum value 'boss'"),
        ({"message": {"id": "b", "text": "x", "at": "soon"}}, "line 2: Invalid isoformat string: 'soon'"),
        ({"message": {"id": "a", "text": "x"}}, "line 2: message 'a' was there before, in line 1"),
        ({"question": 5, "evidence": []}, "line 2: Expected `str | null`, got `int` - at `$.question`"),
        ({"question": "why?"}, 'line 2: a question needs "evidence"'),
        ({"question": "???", "evidence": ["a"]}, "line 2: there is no word to search for"),
        ({"question": "x", "evidence": "a"}, "line 2: Expected `array | null`, got `str` - at `$.evidence`"),
        ({"question": "x", "evidence": [1.5]}, "line 2: Expected `int | str`, got `float` - at `$.evidence[0]`"),
        ({"question": "x", "evidence": ["z"]}, "line 2: there is no message 'z'"),
        (
            {"question": "x", "evidence": ["a"], "conversation": "nowhere"},
            "line 2: no message is in a conversation 'nowhere'",
        ),
    ],
)
def test_what_is_wrong_names_the_line(line: Any, told: str) -> None:
    assert refused(SAID, line, ASKED).startswith(told)


@pytest.mark.parametrize("lines", [(), (SAID,), (SAID, {"question": "who?", "evidence": []})])
def test_nothing_to_measure(lines: tuple[Any, ...]) -> None:
    assert refused(*lines) == "there is no question with evidence in it, so there is nothing to measure"


@given(st.lists(st.binary(max_size=60) | st.sampled_from([json.dumps(SAID).encode(), json.dumps(ASKED).encode()])))
def test_whatever_a_file_holds_is_a_set_or_refused(lines: list[bytes]) -> None:
    with suppress(CommandError):
        assert any(question.evidence for question in parse(lines).questions)
