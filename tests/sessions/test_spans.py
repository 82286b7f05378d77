"""The positions of members and items in JSON with any white space, escapes and keys [SPEC 8]."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldmark.wires import spans
from sampled import DEEP

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
STYLES = st.sampled_from([{"separators": (",", ":")}, {}, {"separators": (" ,\t", "\n: ")}, {"indent": 2}])


@given(VALUES, STYLES, st.sampled_from(["", " ", "\r\n"]), st.booleans())
@settings(max_examples=settings().max_examples * 2)
def test_every_member_and_item_is_found(value: Any, style: dict[str, Any], around: str, ascii: bool) -> None:
    data = f"{around}{json.dumps(value, ensure_ascii=ascii, **style)}{around}".encode("utf-8", "surrogatepass")
    assert spans.is_json(data)
    if isinstance(value, dict):
        found = spans.members(data)
        assert [json.loads(data[begin:end].decode("utf-8", "surrogatepass")) for _, begin, end in found] == [
            *value.values()
        ]
        plain = [key for key in value if not any("\ud800" <= char <= "\udfff" for char in key)]
        assert [key for key, _, _ in found if key in plain] == plain
    elif isinstance(value, list):
        assert [json.loads(data[slice(*span)].decode("utf-8", "surrogatepass")) for span in spans.items(data)] == value
    else:
        with pytest.raises(ValueError, match=r"."):
            spans.members(data)


def test_of_two_members_with_one_key_the_last_is_meant() -> None:
    data = b'{"a":1, "b":[{"a":5}] ,"a":2,"\\u0061":{"a":3}}'
    assert [(key, data[begin:end]) for key, begin, end in spans.members(data)] == [
        ("a", b"1"),
        ("b", b'[{"a":5}]'),
        ("a", b"2"),
        ("a", b'{"a":3}'),
    ]
    found = spans.last(data, "a")
    assert found is not None
    assert data[slice(*found)] == b'{"a":3}'
    assert spans.last(data, "c") is None


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1}}', b'{"a":01}', b"[1", b'{"a":"\\ud8"}', b"\x00", b"[}", b"{]"],
)
def test_invalid_json_is_recognized(data: bytes) -> None:
    assert not spans.is_json(data)


def test_deep_nesting_is_walked_around() -> None:
    depth = 100_000 if DEEP else 20_000
    deep = b"[" * depth + b"]" * depth
    data = b'{"a":%b,"b":"]"}' % deep
    assert spans.is_json(data)
    assert [(key, data[begin:end]) for key, begin, end in spans.members(data)] == [("a", deep), ("b", b'"]"')]
    with pytest.raises(ValueError, match="no end"):
        spans.members(b'{"a":%b,"b":"]"' % deep)


def test_edits_may_come_in_any_order() -> None:
    assert spans.edited(b"0123456789", [(7, 9, b""), (0, 1, b"abc"), (4, 4, b"-")]) == b"abc123-4569"
    assert spans.edited(b"0123", []) == b"0123"
