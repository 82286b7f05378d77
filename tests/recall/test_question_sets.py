"""Recall on a set of questions: the format, the measures and the possible errors (SPEC 7)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import foldmark
from foldmark.core.errors import CommandError

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import question_sets
from question_sets import (
    Answer,
    Message,
    Question,
    QuestionSet,
    below,
    by_category,
    figures,
    parse,
    places,
    recall,
    worst,
)

SAID = {"message": {"id": "a", "text": "the fjord is deep"}}
ASKED = {"question": "how deep?", "evidence": ["a"]}


def parsed(*lines: Any) -> QuestionSet:
    return parse(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)


def refused(*lines: Any) -> str:
    with pytest.raises(CommandError) as error:
        parsed(*lines)
    return str(error.value)


def test_omitted_fields_have_defaults() -> None:
    assert parsed(SAID, ASKED) == (
        [Message(1, "a", "", "user", "the fjord is deep", None)],
        [Question(2, "how deep?", ("a",), None, None)],
    )


def test_all_fields_are_read() -> None:
    said = {"id": 7, "conversation": "talk", "role": "assistant", "text": "x", "at": "2023-05-08T15:56:00+02:00"}
    asked = {"question": "why x?", "evidence": [7, "7"], "conversation": "talk", "category": 2, "answer": "not read"}
    assert parsed({"message": said}, b"", b"  \n", asked) == (
        [Message(1, "7", "talk", "assistant", "x", "2023-05-08T13:56:00.000000Z")],
        [Question(4, "why x?", ("7",), "talk", "2")],
    )


def test_questions_may_precede_messages() -> None:
    asked = parsed(ASKED, SAID)
    assert places(asked) == [[0]]


def test_a_byte_order_mark_and_any_line_ends_are_accepted() -> None:
    lines = [b"\xef\xbb\xbf" + json.dumps(SAID).encode() + b"\r\n", json.dumps(ASKED).encode() + b"\r\n"]
    assert parse(lines) == parsed(SAID, ASKED)


def test_a_line_separator_inside_a_text_does_not_end_a_line() -> None:
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
def test_an_error_names_the_line(line: Any, told: str) -> None:
    assert refused(SAID, line, ASKED).startswith(told)


@pytest.mark.parametrize("lines", [(), (SAID,), (SAID, {"question": "who?", "evidence": []})])
def test_a_set_without_evidence_is_refused(lines: tuple[Any, ...]) -> None:
    assert refused(*lines) == "there is no question with evidence in it, so there is nothing to measure"


@given(st.lists(st.binary(max_size=60) | st.sampled_from([json.dumps(SAID).encode(), json.dumps(ASKED).encode()])))
def test_any_file_is_a_set_or_is_refused(lines: list[bytes]) -> None:
    with suppress(CommandError):
        assert any(question.evidence for question in parse(lines).questions)


# -- what is measured -----------------------------------------------------------------------------------------


def answer(*ranks: int | None, category: str | None = None, text: str = "what?") -> Answer:
    evidence = tuple(f"m{number}" for number in range(len(ranks)))
    return Answer(Question(1, text, evidence, None, category), ranks, 0.0, "")


@pytest.mark.parametrize(
    ("ranks", "k", "share"),
    [((1,), 1, 1.0), ((2,), 1, 0.0), ((2,), 2, 1.0), ((None,), 1000, 0.0), ((1, None, 7, 3), 5, 0.5), ((5, 6), 5, 0.5)],
)
def test_recall_is_the_share_of_evidence_among_the_first(ranks: tuple[int | None, ...], k: int, share: float) -> None:
    assert recall(ranks, k) == share


def test_every_question_counts_the_same_however_much_evidence_it_has() -> None:
    found = figures([answer(1), answer(None, None, None, 2)], (1, 2, 5))
    assert found.questions == 2
    assert found.recall == {1: 0.5, 2: 0.625, 5: 0.625}
    assert found.hit == {1: 0.5, 2: 1.0, 5: 1.0}


def test_the_first_evidence_gives_the_reciprocal_rank() -> None:
    assert figures([answer(4, 2, None), answer(None), answer(1)], (5,)).mrr == pytest.approx((1 / 2 + 0 + 1) / 3)


def test_categories_are_reported_separately_and_numbers_in_order() -> None:
    answers = [answer(1, category=name) for name in ("10", "9", "why", "2", "2", "when", "9" * 5000)]
    found = by_category([*answers, answer(None)], (5,))
    assert list(found) == ["2", "9", "10", "9" * 5000, "when", "why"]
    assert [each.questions for each in found.values()] == [2, 1, 1, 1, 1, 1]
    assert {each.recall[5] for each in found.values()} == {1.0}


def test_the_worst_questions_come_first_and_found_ones_are_not_listed() -> None:
    answers = [
        answer(1, text="found"),
        answer(1, None, text="half, first"),
        answer(9, None, text="half, late"),
        answer(None, text="nothing"),
        answer(30, text="too late"),
    ]
    assert [each.question.text for each in worst(answers, 10, 9)] == [
        "nothing",
        "too late",
        "half, late",
        "half, first",
    ]
    assert [each.question.text for each in worst(answers, 10, 1)] == ["nothing"]


def test_below_names_each_category_and_k() -> None:
    text = {"all": figures([answer(3)], (1, 5)), "why": figures([answer(1)], (1, 5))}
    both = {"all": figures([answer(9)], (1, 5)), "why": figures([answer(2)], (1, 5))}
    assert below(both, text) == [("all", 5), ("why", 1)]
    assert below(text, both) == []


# -- the script -----------------------------------------------------------------------------------------------

FJORD, DESERT = "The fjord is deep and cold.", "Nothing grows in the desert."
Run = Callable[..., list[str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that measures a set of these lines and returns the printed lines."""

    def run(lines: list[dict[str, Any]], *options: str, code: int = 0) -> list[str]:
        path = tmp_path / "set.jsonl"
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
        monkeypatch.setattr(sys, "argv", ["question_sets.py", str(path), *options])
        assert question_sets.main() == code
        shown = capsys.readouterr()
        return (shown.err if code else shown.out).splitlines()

    return run


def said(id: object, text: str, **more: object) -> dict[str, Any]:
    return {"message": {"id": id, "text": text, **more}}


def asked(question: str, *evidence: object, **more: object) -> dict[str, Any]:
    return {"question": question, "evidence": list(evidence), **more}


def row(lines: list[str], name: str = "all") -> list[str]:
    return next(line[len(name) :].split() for line in lines if line.startswith(f"{name} "))


def test_a_set_may_bring_its_own_messages(run: Run) -> None:
    messages = [said("a", FJORD), said("b", DESERT, role="assistant")]
    questions = [
        asked("how deep is the fjord?", "a", category="depth"),
        asked("desert or fjord", "a", "b", category="place"),
        asked("quartz", "b", category="place"),
        asked("who?"),
    ]
    lines = run([*messages, *questions], "--k", "2", "1", "--misses", "1")
    assert "3 questions with evidence (1 more without, left out), asked of 2 messages of its own." in lines[0]
    assert lines[2].split() == ["auto", "questions", "recall@1", "recall@2", "hit@1", "hit@2", "MRR"]
    assert row(lines) == ["3", "0.500", "0.667", "0.667", "0.667", "0.667"]
    assert row(lines, "category place") == ["2", "0.250", "0.500", "0.500", "0.500", "0.500"]
    assert lines[-2:] == ["auto: 0 of 1 among the first 2: quartz (line 5)", f"  missing, b: {DESERT}"]


def test_a_question_is_asked_in_its_conversation(run: Run) -> None:
    lines = [said(1, f"a fjord, number {number}", conversation=f"c{number}") for number in range(9)]
    lines += [asked("fjord", 1, conversation="c3"), asked("number 5", 1, conversation="c5")]
    assert row(run(lines, "--k", "1")) == ["2", "1.000", "1.000", "1.000"]
    assert row(run(lines, "--k", "1", "--scope", "all")) == ["2", "0.500", "0.500", "0.500"]


def test_a_set_without_messages_is_asked_in_the_database(run: Run, tmp_path: Path) -> None:
    db = str(tmp_path / "log.db")
    with foldmark.open(db, settings={}) as log:
        work, other = log.agent("work"), log.agent("other")
        first, second = work.append("user", FJORD), other.append("user", "A fjord of another conversation.")
    lines = [asked("a cold fjord", second, conversation="other"), asked("cold fjord", first, f"work:{first}")]
    assert row(run(lines, "--db", db, "--k", "1")) == ["2", "1.000", "1.000", "1.000"]
    assert row(run(lines, "--db", db, "--k", "1", "--scope", "all")) == ["2", "0.500", "0.500", "0.500"]
    (told,) = run([asked("fjord", first), asked("fjord", 99)], "--db", db, code=1)
    assert told.startswith("line 2: '99' is no message that can be found; ")
    (told,) = run([asked("fjord", first, conversation="other")], "--db", db, code=1)
    assert told == f"line 1: message {first} is not in the conversation that the question names"
