"""Options in a command line: at its beginning and its end, with values, and ignored inside quotes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.commands.registry import split_options
from foldmark.core.errors import CommandError

TAKES = {"--role": True, "--agent": True, "--all": False}


@pytest.mark.parametrize(
    ("text", "found", "rest"),
    [
        ("", {}, ""),
        ("two  words", {}, "two  words"),
        ("--role user two  words", {"--role": "user"}, "two  words"),
        ("two  words --role user", {"--role": "user"}, "two  words"),
        ("two --role=user", {"--role": "user"}, "two"),
        ("--all two --role user", {"--all": "", "--role": "user"}, "two"),
        ("--role user --all two --agent me", {"--role": "user", "--all": "", "--agent": "me"}, "two"),
        ('words --agent "side project" --all', {"--agent": "side project", "--all": ""}, "words"),
        ('--agent="side project" words', {"--agent": "side project"}, "words"),
        ('words --agent ""', {"--agent": ""}, "words"),
        ("what does --role do here", {}, "what does --role do here"),
        ('"--role user"', {}, '"--role user"'),
        ('say "it was --role user"', {}, 'say "it was --role user"'),
        ('"--all"', {}, '"--all"'),
        ('5" nails --all', {"--all": ""}, '5" nails'),
        ("--all=yes", {}, "--all=yes"),
        ("--roles user", {}, "--roles user"),
        ("--role user", {"--role": "user"}, ""),
        ("x --role --all", {"--role": "--all"}, "x"),
        ("--all --all x", {"--all": ""}, "x"),
    ],
)
def test_options_are_split_from_the_text(text: str, found: dict[str, str], rest: str) -> None:
    assert split_options(text, TAKES) == (found, rest)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("--role", "--role needs a value"),
        ("x --role", "--role needs a value"),
        ("--role user x --role user", "--role is given twice"),
        ("--role=user --role user x", "--role is given twice"),
    ],
)
def test_an_option_without_its_value_or_given_twice_is_refused(text: str, told: str) -> None:
    with pytest.raises(CommandError, match=told):
        split_options(text, TAKES)


def test_without_options_a_line_stays_as_it_is() -> None:
    assert split_options(' --role user "x ', {}) == ({}, ' --role user "x ')


@given(st.lists(st.sampled_from(["--role", "--all", "--agent=x", '"', "a b", '"--role u"', "u", "\ud800", "\0"])))
def test_what_is_left_is_a_piece_without_options(parts: list[str]) -> None:
    text = " ".join(parts).strip()
    try:
        found, rest = split_options(text, TAKES)
    except CommandError:
        return
    assert rest in text
    assert split_options(rest, TAKES) == ({}, rest)
    assert found or rest == text
