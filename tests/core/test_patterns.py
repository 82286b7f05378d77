"""A pattern compiles on its first use, and then behaves like a compiled one."""

from __future__ import annotations

import re

import pytest

from foldmark.core.patterns import pattern


def test_a_pattern_is_compiled_on_its_first_use() -> None:
    found = pattern(r"a(?P<rest>.+)", re.DOTALL)
    match = found.fullmatch("a\nb")
    assert match is not None
    assert match["rest"] == "\nb"
    assert found.pattern == r"a(?P<rest>.+)"
    assert pattern(rb"\d").sub(b"0", b"1a2") == b"0a0"


def test_an_error_shows_on_the_first_use() -> None:
    wrong = pattern("(")
    with pytest.raises(re.error):
        wrong.match("")
