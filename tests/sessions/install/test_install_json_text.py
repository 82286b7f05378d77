"""Edits of a JSON text keep every character that is not Foldmark's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from install_trees import PROGRAM

from foldmark.sessions.install.entries import SettingsFile, is_own_status_line, is_same
from foldmark.sessions.install.json_text import NotMergeableError, check, put, raw, remove

BLANKS = st.sampled_from(["", " ", "\n", "\r\n", "\t", "\n  "])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
HOOKS = st.dictionaries(
    st.sampled_from(["PostToolUse", "Stop", "PreToolUse"]),
    st.lists(
        st.builds(
            lambda commands: {"matcher": "x", "hooks": [{"type": "command", "command": each} for each in commands]},
            st.lists(st.text(), max_size=2),
        )
        | VALUES,
        max_size=2,
    ),
    max_size=3,
)
SETTINGS = st.builds(
    lambda rest, hooks, line: {**rest, **hooks, **line},
    st.dictionaries(st.text().filter(lambda key: key not in ("hooks", "statusLine")), VALUES, max_size=4),
    st.just({}) | st.builds(lambda hooks: {"hooks": hooks}, HOOKS),
    st.just({}) | st.just({"statusLine": {"type": "command", "command": "mine.sh"}}),
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Settings in any layout."""
    settings = draw(SETTINGS)
    settings = {key: settings[key] for key in draw(st.permutations(list(settings)))}
    layout = draw(st.sampled_from([None, 1, 2, 4, "\t", "random"]))
    if layout == "random":
        text = _laid_out(draw, settings)
    else:
        text = json.dumps(settings, indent=layout, ensure_ascii=draw(st.booleans()))
        if draw(st.booleans()):
            text = text.replace("\n", "\r\n")
    begin = draw(st.sampled_from(["", "\n ", "\ufeff"]))
    return begin + text.encode("utf-8", "ignore").decode() + draw(BLANKS)


def _laid_out(draw: st.DrawFn, value: Any) -> str:
    def blank() -> str:
        return draw(BLANKS)

    if isinstance(value, dict):
        inner = [f"{json.dumps(key)}{blank()}:{blank()}{_laid_out(draw, each)}{blank()}" for key, each in value.items()]
    elif isinstance(value, list):
        inner = [f"{_laid_out(draw, each)}{blank()}" for each in value]
    else:
        return json.dumps(value)
    left, right = "{}" if isinstance(value, dict) else "[]"
    return left + blank() + ("," + blank()).join(inner) + right


def loaded(text: str) -> Any:
    return json.loads(text.removeprefix("\ufeff"))


@given(texts())
def test_only_the_status_line_is_inserted(text: str) -> None:
    kind = SettingsFile(PROGRAM)
    once = kind.put_in(text).text
    assert once is not None
    assert kind.put_in(once).text == once
    own = {"statusLine": {"type": "command", "command": f"'{PROGRAM}' statusline"}}
    assert loaded(once) == {**own, **loaded(text)}
    assert is_same(kind.take_out(once, text), text)
    assert kind.take_out(text, None) == text
    if loaded(text):
        assert kind.take_out(once, text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", '{\n  "k": [\n    1\n  ]\n}'),
        ("{ \n }", '{\n  "k": [\n    1\n  ]\n}'),
        ('{"a":1}', '{"a":1,"k": [1]}'),
        ('{ "a": 1 }', '{ "a": 1, "k": [1] }'),
        ('{\n\t"a": 1\n}\n', '{\n\t"a": 1,\n\t"k": [\n\t\t1\n\t]\n}\n'),
        ('{\r\n    "a": 1}', '{\r\n    "a": 1,\r\n    "k": [\r\n        1\r\n    ]}'),
        ('\ufeff{"a": "}"}', '\ufeff{"a": "}","k": [1]}'),
    ],
)
def test_a_new_member_looks_like_the_first_one(text: str, expected: str) -> None:
    check(text)
    assert put(text, "k", [1]) == expected


def test_members() -> None:
    text = '{"a": [ {"b" : 1.50} ], "c": {}}'
    check(text)
    assert raw(text, "a") == '[ {"b" : 1.50} ]'
    assert put(text, "c", None) == '{"a": [ {"b" : 1.50} ], "c": null}'
    assert remove(text, "a") == '{"c": {}}'
    assert remove(text, "c") == '{"a": [ {"b" : 1.50} ]}'
    assert remove('{ "a": 1 }', "a") == "{}"
    with pytest.raises(KeyError):
        raw(text, "z")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "not an object"),
        ("null", "not an object"),
        ('{"a": 1', "not JSON"),
        ('{"a": 1,}', "not JSON"),
        ('{"a": 1} x', "Extra data"),
        ('{\n  // mine\n  "a": 1}', "no comments"),
        ('{"a": NaN}', "NaN"),
        ('{"a": {"b": 1, "c": 2, "b": 3}}', 'the key "b" twice'),
        ('{"a": ' + "[" * 100_000, "nested too deeply"),
        ('{"a": ' + "1" * 5_000 + "}", "cannot be read"),
        ('{"a": "\udcff"}', "not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_merged_is_refused(text: str, why: str) -> None:
    with pytest.raises(NotMergeableError, match=why):
        check(text)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (None, "", True),
        (None, '{"enabledPlugins": {}, "extraKnownMarketplaces": {}}', True),
        ('{"z":1.0e3, "a": [1]}', '{\n  "a": [\n    1\n  ],\n  "z": 1000,\n  "enabledPlugins": {}\n}', True),
        ('{"enabledPlugins": {"x@y": true}}', "{}", False),
        ("Be brief.", "Be brief.\r\n", True),
        ("Be brief.", "Be short.", False),
        ("[1]", "[1.0]", False),
    ],
)
def test_what_the_client_leaves_says_the_same(one: str | None, other: str, same: bool) -> None:
    assert is_same(one, other) is is_same(other, one) is same


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        ("foldmark statusline", True),
        ("/old/bin/foldmark statusline", True),
        ("'/old bin/foldmark' statusline || true", True),
        ('"C:/x y/foldmark.exe" statusline', True),
        (r"C:\x\Foldmark.EXE statusline", True),
        (r'"C:\x y\foldmark.exe" statusline', True),
        ("foldmark statuslines", False),
        ("foldmark", False),
        ("notfoldmark statusline", False),
        ("tee log | foldmark statusline", False),
        ("foldmark hook", False),
        ("say 'foldmark statusline", False),
        ("", False),
        (None, False),
        (["foldmark", "statusline"], False),
    ],
)
def test_foldmarks_status_line_is_recognized_by_its_command(command: object, ours: bool) -> None:
    assert is_own_status_line({"command": command}) is ours
