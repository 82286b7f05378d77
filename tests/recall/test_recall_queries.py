"""Any text is a query: no input is FTS5 syntax, and none is too long (SPEC 4, 7)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import foldmark
from cases import case
from foldmark.core.errors import CommandError
from patience import LIMIT
from sampled import DEEP

NEEDLE = "A needle lies in the haystack, near text and col."
OTHER = "Nothing of the kind: rowid rank, 42 and a café."
Found = Callable[..., list[int] | None]


@pytest.fixture
def ids(log: foldmark.Log) -> tuple[int, int]:
    agent = log.agent("default")
    return agent.append("user", NEEDLE), agent.append("assistant", OTHER)


LENGTH = 100_000 if DEEP else 20_000

HOSTILE = {
    # Syntax of FTS5.
    "needle AND": "N",
    "AND needle": "N",
    "NOT needle": "N",
    "needle NOT haystack": "N",
    "OR": "",
    "NOT": "",
    "NEAR": "N",
    "NEAR(needle haystack, 5)": "N",
    "NEAR(": "N",
    "text: needle": "N",
    "text:needle": "",
    "{text col}: needle": "N",
    "-text: needle": "N",
    "- needle": "N",
    "^needle": "N",
    "needle + haystack": "N",
    "needle+haystack": "",
    "needle*": "N",
    "needle *": "N",
    "*needle": "N",
    "nee*": "N",
    "nee**": "N",
    "*": None,
    "rank MATCH 'x'": "O",
    "rowid": "O",
    "search": "",
    # Quotes and brackets.
    '"': None,
    '""': None,
    '"""': None,
    '""*': None,
    '"needle': "N",
    'needle"': "N",
    '"lies in the"': "N",
    '"in lies the"': "",
    '"lies in the hay"*': "N",
    '"lies in the hay"': "",
    '"needle""haystack"': "N",
    "“lies in the”": "N",
    "'needle'": "N",
    "needle's": "N",
    "(needle": "N",
    "needle)": "N",
    "((((((needle))))))": "N",
    ")(": None,
    "'; DROP TABLE events; --": "",
    "?": None,
    "?1 needle": "N",
    ":id @id $id": "",
    "%": None,
    "_": None,
    "needle%": "N",
    "\\": None,
    # Letters of all kinds.
    "NEEDLE": "N",
    "nEeDlE haystacks": "N",
    "CAFE": "O",
    "cafe\u0301": "O",
    "４２": "",
    "42": "O",
    "😀": None,
    "😀 needle 👩‍👩‍👧": "N",
    "数据库": "",
    "ไทย": "",
    "نص": "",
    "\u202eneedle": "N",
    "\u200b": None,
    "\ufeffneedle": "N",
    "\ue000": "",
    "\U000e0041": None,
    "\U0001e900": "?",
    "a\u0300\u0301\u0302": "NO",
    # Characters that databases refuse.
    "\0": None,
    "needle\0haystack": "N",
    "\0needle": "N",
    "\ud800": None,
    "needle\udfff haystack": "N",
    "needle\r\n\thaystack": "N",
    "needle\u2028": "N",
    "": None,
    " \t\n": None,
    # Length.
    "x" * LENGTH: "",
    "x" * LENGTH + "*": "",
    "needle " * (LENGTH // 5): "N",
    "needle." * (LENGTH // 5): "",
    '"' * LENGTH: None,
    '"a" ' * (LENGTH // 4): "O",
    "( " * (LENGTH // 2): None,
    " ".join(f"w{n}" for n in range(LENGTH // 5)): "",
    "needle " + " ".join(f"w{n}*" for n in range(LENGTH // 5)): "N",
    "OR " * (LENGTH // 3): "",
    "中" * LENGTH: "",
    "\0" * LENGTH: None,
}


def test_any_text_is_a_query(found: Found, ids: tuple[int, int]) -> None:
    for query, expected in HOSTILE.items():
        with case(query):
            began = time.monotonic()
            result = found(query)
            assert time.monotonic() - began < LIMIT
            if expected == "?":  # a letter in Python that SQLite's tables may not know
                assert result in (None, [])
            elif expected is None:
                assert result is None
            else:
                assert result is not None
                assert set(result) >= {{"N": ids[0], "O": ids[1]}[each] for each in expected}
                assert expected or not result


def test_the_table_of_queries_is_long() -> None:
    assert len(HOSTILE) > 80


@given(st.text(max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_random_text_is_a_query(log: foldmark.Log, text: str) -> None:
    if not log.exists("random"):
        log.agent("random").append("user", NEEDLE)
    try:
        hits = log.search(f"{text} needle")
    except CommandError:
        raise AssertionError(text) from None
    # An unpaired quote or a letter attached to the word makes it another word.
    assert hits or text[-1:].isalnum() or not text.isascii() or '"' in text


SYNTAX = st.lists(
    st.sampled_from(
        ['"', "(", ")", "*", "^", ":", "{", "}", "-", "+", "AND", "OR", "NOT", "NEAR", "text", "a", " ", ","]
    )
)


@given(SYNTAX)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_random_syntax_is_a_query(log: foldmark.Log, parts: list[str]) -> None:
    query = "".join(parts)
    if any(each.isalpha() for each in parts):
        assert isinstance(log.search(query), list)
    else:
        with pytest.raises(CommandError, match="there is no word to search for"):
            log.search(query)


def test_a_refusal_says_what_to_type(log: foldmark.Log) -> None:
    with pytest.raises(CommandError) as caught:
        log.search("?!")
    assert str(caught.value) == (
        'there is no word to search for; type some, as in: database schema, "in these very words", migrat*'
    )


@pytest.mark.parametrize("limit", [0, -1, 1001, 10**30, 2.5, "10", None])
def test_a_limit_out_of_bounds_is_refused(log: foldmark.Log, limit: Any) -> None:
    with pytest.raises(CommandError, match="limit must be a number from 1 to 1000, not "):
        log.search("needle", limit)


@pytest.mark.parametrize("query", [None, b"needle", 3, ["needle"]])
def test_a_query_is_text(log: foldmark.Log, query: Any) -> None:
    with pytest.raises(CommandError, match="a query must be a str, not "):
        log.search(query)


def test_any_text_can_be_indexed_found_and_shown(log: foldmark.Log, found: Found) -> None:
    agent = log.agent("default")
    texts = [
        "before\0needle",
        "needle\ud800",
        '"needle"',
        "needle " * 50_000,
        "x" * 200_000 + " needle",
        "中文needle 中文",
    ]
    ids = [agent.append("user", text) for text in texts]
    agent.append("user", "")
    agent.append("user", "😀 — …")
    assert sorted(found("needle") or []) == ids
    assert found("中文") == ids[5:6]
    for hit in log.search("needle", 1000):
        assert len(hit.snippet) <= 200
        assert "\n" not in hit.snippet
    assert list(log.store.damage()) == []


def test_a_message_that_repeats_one_word_is_ranked_quickly(log: foldmark.Log) -> None:
    """The snippet must not compare every place with every other."""
    log.agent("default").append("user", "aa bb " * 100_000)
    began = time.monotonic()
    (hit,) = log.search('aa bb "aa bb" a*')
    assert time.monotonic() - began < LIMIT
    assert hit.snippet.startswith("aa bb aa")
