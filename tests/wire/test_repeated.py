"""JSON that is stored without what its event holds comes back unchanged, whatever it looks like."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.wires.repeated import DEPTH, PLACE, packed, unpacked

TEXTS = ["the event's text", "an address", ""]
names = st.sampled_from([PLACE, "a", "b"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from([*TEXTS, "another text"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


def place_of(value: Any) -> int | None:
    return TEXTS.index(value) if value in TEXTS else None


@given(values)
def test_it_comes_back_unchanged(value: Any) -> None:
    assert unpacked(packed(value, place_of), TEXTS.__getitem__) == value


@given(values)
def test_nothing_is_stored_twice(value: Any) -> None:
    assert "the event's text" not in str(packed(value, place_of))


def test_objects_are_repeated_as_well() -> None:
    arguments = {"city": "Oslo"}
    kept = packed([{"args": arguments}, arguments], lambda value: "args" if value == arguments else None)
    assert kept == [{"args": {PLACE: "args"}}, {PLACE: "args"}]
    assert unpacked(kept, {"args": arguments}.get) == [{"args": arguments}, arguments]


def test_what_is_too_deep_to_be_read_again_is_refused() -> None:
    deep: Any = "bottom"
    for _ in range(DEPTH - 1):
        deep = {"a": deep}
    assert unpacked(packed(deep, place_of), TEXTS.__getitem__) == deep
    with pytest.raises(RecursionError):
        packed([deep], place_of)
