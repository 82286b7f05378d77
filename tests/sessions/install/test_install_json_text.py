"""Adding members to other people's JSON and removing them leaves every other character unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.sessions.install.edits import EVENTS, SettingsFile, runs
from foldmark.sessions.install.json_text import NotMergeableError, add, check, put, raw, remove

PROGRAM = "/opt/fold mark/bin/foldmark"
BLANKS = st.sampled_from(["", " ", "\n", "\r\n", "\n  ", "\r\n\t", "  \n \t", "\n\n    "])
LAYOUTS: Any = st.sampled_from([None, 0, 1, 2, 4, "\t", "random"])
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from([1e400, -0.0])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)
HOOKS = st.fixed_dictionaries(
    {"type": st.just("command"), "command": st.sampled_from(["say hi", "foldmarker hook", "echo foldmark hook", "ü"])},
    optional={"timeout": st.integers(1, 60), "x": VALUES},
)
GROUPS = st.fixed_dictionaries(
    {"hooks": st.lists(HOOKS, min_size=1, max_size=2)}, optional={"matcher": st.just("Edit")}
) | st.sampled_from([{"hooks": None}, {}, 3])
EVENT_LISTS = st.dictionaries(
    st.sampled_from([*EVENTS, "PreToolUse"]), st.lists(GROUPS, min_size=1, max_size=2), min_size=1
)
SETTINGS = st.fixed_dictionaries(
    {"model": VALUES},
    optional={"hooks": EVENT_LISTS, "statusLine": VALUES, "zz": VALUES, "permissions": VALUES, 'q"\\': VALUES},
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw a settings file that is not empty, in one of many layouts, with its keys in any order."""
    settings = draw(SETTINGS)
    settings = {key: settings[key] for key in draw(st.permutations(list(settings)))}
    layout = draw(LAYOUTS)
    if layout == "random":
        text = _laid_out(draw, settings)
    else:
        text = json.dumps(settings, indent=layout, ensure_ascii=draw(st.booleans()))
        if draw(st.booleans()):
            text = text.replace("\n", "\r\n")
    begin = draw(st.sampled_from(["", "\n ", "\ufeff"]))
    return begin + text.replace("\ud800", "") + draw(BLANKS)


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


def without_ours(settings: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without the installer's entries, computed from values and not from text."""
    hooks = {
        event: [
            group
            for group in groups
            if not (isinstance(group, dict) and str(group.get("hooks")).count("fold mark/bin/foldmark' hook"))
        ]
        for event, groups in settings["hooks"].items()
    }
    left = {**settings, "hooks": {event: groups for event, groups in hooks.items() if groups}}
    if "hooks" not in old:
        assert not left.pop("hooks")
    if "statusLine" not in old:
        assert left.pop("statusLine") == {"type": "command", "command": f"'{PROGRAM}' statusline"}
    return left


def loaded(text: str) -> Any:
    return json.loads(text.removeprefix("\ufeff"), parse_constant=lambda name: name, parse_float=str)


@given(texts().filter(lambda text: "Infinity" not in text))
def test_only_foldmarks_entries_are_inserted(text: str) -> None:
    kind = SettingsFile(PROGRAM)
    once = kind.put_in(text, False).text
    assert once is not None
    assert kind.put_in(once, True).text == once
    assert without_ours(loaded(once), loaded(text)) == loaded(text)
    for event in EVENTS:
        commands = (
            [hook["command"] for g in loaded(once)["hooks"][event] if isinstance(g, dict) for hook in g["hooks"] or []]
            if all(not isinstance(g, dict) or "hooks" in g for g in loaded(once)["hooks"][event])
            else None
        )
        assert commands is None or commands.count(f"'{PROGRAM}' hook || true") == 1
    assert kind.take_out(once, None).text == text
    assert kind.take_out(text, None).text == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", '{\n  "k": [\n    1\n  ]\n}'),
        ("{ \n }", '{\n  "k": [\n    1\n  ]\n}'),
        ('{"a":1}', '{"a":1,"k":[1]}'),
        ('{"a": 1}', '{"a": 1, "k": [1]}'),
        ('{ "a": 1 }', '{ "a": 1, "k": [1] }'),
        ('{\n\t"a": 1\n}\n', '{\n\t"a": 1,\n\t"k": [\n\t\t1\n\t]\n}\n'),
        ('{\r\n    "a": 1}', '{\r\n    "a": 1,\r\n    "k": [\r\n        1\r\n    ]}'),
        ('{ "a": 1\n, "b": 2\n}', '{ "a": 1\n, "b": 2\n, "k": [1]\n}'),
        ('\ufeff{"a": "}"}', '\ufeff{"a": "}", "k": [1]}'),
    ],
)
def test_new_members_look_like_their_neighbours(text: str, expected: str) -> None:
    check(text)
    assert add(text, [], [1], "k") == expected


def test_places_inside() -> None:
    text = '{"a": [ {"b" : 1.50} , 2 ], "c": {}}'
    check(text)
    assert raw(text, ["a", 0, "b"]) == "1.50"
    assert put(text, ["a", 0], "null") == '{"a": [ null , 2 ], "c": {}}'
    assert remove(text, ["a", 0]) == '{"a": [ 2 ], "c": {}}'
    assert remove(text, ["a", 1]) == '{"a": [ {"b" : 1.50} ], "c": {}}'
    assert remove(text, ["a", 0, "b"]) == '{"a": [ {} , 2 ], "c": {}}'
    assert add(text, ["c"], "x", "é") == '{"a": [ {"b" : 1.50} , 2 ], "c": {"é": "x"}}'
    with pytest.raises(KeyError):
        raw(text, ["a", 0, "z"])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "not an object"),
        ("null", "not an object"),
        ('{"a": 1', "not JSON"),
        ('{"a": 1,}', "not JSON"),
        ('{"a": 1} x', "something follows"),
        ('{\n  // mine\n  "a": 1}', "no comments"),
        ('{"a": NaN}', "NaN"),
        ('{"a": {"b": 1, "c": 2, "b": 3}}', 'the key "b" twice'),
        ('{"a": ' + "[" * 100_000, "nested too deeply"),
        ('{"a": "\udcff"}', "not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_merged_is_refused(text: str, why: str) -> None:
    with pytest.raises(NotMergeableError, match=why):
        check(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"hooks": []}', "`hooks` in it is not an object"),
        ('{"hooks": null}', "`hooks` in it is not an object"),
        ('{"hooks": {"Stop": {}}}', "`hooks.Stop` in it is not an array"),
    ],
)
def test_hooks_of_another_shape_are_refused(text: str, why: str) -> None:
    with pytest.raises(NotMergeableError, match=why):
        SettingsFile(PROGRAM).put_in(text, False)


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        ("foldmark hook", True),
        ("/old/bin/foldmark hook", True),
        ("'/old bin/foldmark' hook || true", True),
        ('"C:/x y/foldmark.exe" hook', True),
        (r"C:\x\Foldmark.EXE hook", True),
        (r'"C:\x y\foldmark.exe" hook', True),
        ("foldmark hooks", False),
        ("foldmark", False),
        ("notfoldmark hook", False),
        ("tee log | foldmark hook", False),
        ("foldmark statusline", False),
        ("say 'foldmark hook", False),
        ("", False),
        (None, False),
        (["foldmark", "hook"], False),
    ],
)
def test_foldmarks_hook_is_recognized_by_its_command(command: object, ours: bool) -> None:
    assert runs(command, "hook") is ours
