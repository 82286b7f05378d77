"""The validators themselves: good bodies pass, and bad ones fail for exactly the intended reasons."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from bad_anthropic import ANTHROPIC
from bad_gemini import GCA, GEMINI
from bad_openai import OPENAI, RESPONSES
from body_edits import Bad
from good_bodies import GOOD
from hypothesis import given
from hypothesis import strategies as st
from request_validators import VALIDATORS, gemini

from sampled import sampled

_BAD = [*ANTHROPIC, *OPENAI, *RESPONSES, *GEMINI, *GCA]
_GOOD = [(dialect, name) for dialect, bodies in GOOD.items() for name in bodies]
_STEP = r"\[\d+\]|\[(?:'[^']*'|\"[^\"]*\")\]|\.?[^\s.:'\[\]]+"
_PATH = re.compile(rf"(?:{_STEP})+: \S")


def test_there_is_a_validator_and_good_and_bad_bodies_for_every_dialect() -> None:
    assert set(GOOD) == set(VALIDATORS) == {bad.dialect for bad in _BAD}
    assert len(_GOOD) >= 12
    assert len(_BAD) >= 60


@pytest.mark.parametrize(("dialect", "name"), _GOOD)
def test_a_good_body_has_no_violation_and_is_not_changed(dialect: str, name: str) -> None:
    body = copy.deepcopy(GOOD[dialect][name])
    assert VALIDATORS[dialect](body) == []
    assert body == GOOD[dialect][name]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(bad, id=f"{bad.dialect}-{position}")
        for dialect in VALIDATORS
        for position, bad in sampled([each for each in enumerate(_BAD) if each[1].dialect == dialect], 20)
    ],
)
def test_a_bad_body_has_exactly_the_violations_it_was_made_for(bad: Bad) -> None:
    body = copy.deepcopy(GOOD[bad.dialect][bad.good])
    changed = bad.edit(body)
    assert repr(changed) != repr(GOOD[bad.dialect][bad.good])
    assert VALIDATORS[bad.dialect](changed) == list(bad.violations)
    assert all(_PATH.match(violation) for violation in bad.violations)


@pytest.mark.parametrize("model", ["gemini-3-pro-preview", "models/gemini-3.8-flash", "gemini-4-argon"])
def test_gemini_3_requires_the_signature_of_the_first_call_of_each_step(model: str) -> None:
    # Now the question is the newest user content besides responses, so the calls belong to the current turn.
    body = copy.deepcopy(GOOD["gemini"]["calls"])
    del body["contents"][2]["parts"][2]
    assert gemini(body, model=model) == []
    del body["contents"][1]["parts"][1]["thoughtSignature"]
    assert gemini(body, model=model) == [
        "contents[1].parts[1].thoughtSignature: missing on the first function call of a step"
    ]
    assert gemini(body, model="gemini-2.5-pro") == gemini(body) == []


def test_gemini_3_requires_no_signature_of_an_earlier_turn() -> None:
    body = copy.deepcopy(GOOD["gemini"]["calls"])
    del body["contents"][1]["parts"][1]["thoughtSignature"]
    assert gemini(body, model="gemini-3-pro-preview") == []


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for step, member in members for place in _places(member, (*path, step)))]


@given(data=st.data())
def test_no_body_makes_a_validator_fail(data: st.DataObject) -> None:
    dialect, name = data.draw(st.sampled_from(_GOOD))
    body: Any = copy.deepcopy(GOOD[dialect][name])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(_places(body)))
        value = data.draw(_JSON)
        if not place:
            body = value
            continue
        holder = body
        for step in place[:-1]:
            holder = holder[step]
        holder[place[-1]] = value
    violations = VALIDATORS[dialect](body)
    assert all(_PATH.match(violation) and violation.isprintable() for violation in violations)
