"""Encoding and decoding of events (SPEC 2): the recorded format, its upcasts, sizes and times."""

import json
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.core import codec
from foldmark.core.errors import DamagedError
from foldmark.core.events import (
    OPERATION_KINDS,
    Clear,
    Drop,
    Event,
    Evict,
    Filter,
    Fork,
    Mark,
    Operation,
    Pin,
    PlanningEnded,
    Redact,
    Restore,
    Rewind,
    Summary,
    Undo,
    Unpin,
)
from foldmark.core.segments import END, Segment

GOLDEN = Path(__file__).parent / "golden_operations.json"

RANGES = (Segment("a1", 1, 2), Segment("b2", 5, END))

EXAMPLES: dict[str, Operation] = {
    "mark": Mark("M é"),
    "clear": Clear(),
    "rewind": Rewind("M", 7, 9),
    "rewind to a turn": Rewind(None, 6, 9, (8,), 7, RANGES),
    "fork": Fork("c3", RANGES, "M", 9, (1, 4), (2,), {"sliding_context_tokens": 200000}, "notes\n"),
    "fork of nothing": Fork("c3", ()),
    "fork from a turn": Fork("c3", RANGES, position=6, turn=7),
    "filter": Filter("forget", RANGES, "the schema", (3, 4), (2, 6), 10, 7),
    "filter of nothing": Filter("remember", ()),
    "filter in its planning": Filter("forget", RANGES, "the schema", (3, None)),
    "end of a planning": PlanningEnded(12),
    "drop": Drop(5, RANGES, (2,)),
    "drop without widening": Drop(5, RANGES),
    "drop of several": Drop(5, RANGES, (2,), (7, 12)),
    "undo": Undo(5, RANGES, (2,)),
    "undo without widening": Undo(5, RANGES),
    "summary": Summary(RANGES, "M", "Goal: x"),
    "summary of everything": Summary(RANGES),
    "restore": Restore(12),
    "pin": Pin(5),
    "unpin": Unpin(5),
    "evict": Evict((3, 7)),
    "redact": Redact(5),
}


def event(kind: str, data: dict[str, Any] | None) -> Event:
    return Event(9, "a1", None, kind, "", data, None, "human", 0, "2026-01-01T00:00:00.000000Z", False)


def recorded(operation: Operation) -> str | None:
    """Return the text that the store keeps."""
    return codec.encode_data(codec.operation_kind(operation), codec.operation_data(operation))


def test_every_operation_has_an_example() -> None:
    assert {codec.operation_kind(operation) for operation in EXAMPLES.values()} == {*OPERATION_KINDS, "turn_ended"}
    assert {type(operation) for operation in EXAMPLES.values()} == set(get_args(Operation))


@pytest.mark.parametrize("operation", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_operations_are_read_as_they_were_written(operation: Operation) -> None:
    kind = codec.operation_kind(operation)
    assert codec.operation_of(event(kind, codec.decode_data(kind, recorded(operation)))) == operation


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_recorded_format_never_changes(name: str) -> None:
    """Recorded data must stay readable: a change needs a new version and an upcast, not a new golden file."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert recorded(EXAMPLES[name]) == golden[name]
    kind = codec.operation_kind(EXAMPLES[name])
    assert codec.operation_of(event(kind, codec.decode_data(kind, golden[name]))) == EXAMPLES[name]


def test_the_golden_file_has_no_further_entries() -> None:
    assert list(json.loads(GOLDEN.read_text(encoding="utf-8"))) == list(EXAMPLES)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("user", None),
        ("turn_ended", None),
        ("mark", None),
        ("mark", {"name": 5}),
        ("drop", {"turn": 5, "ranges": [["a1", 1]]}),
        ("rewind", {"mark": "M"}),
    ],
)
def test_an_event_without_a_valid_operation_is_damage(kind: str, data: dict[str, Any] | None) -> None:
    with pytest.raises(DamagedError, match="event 9"):
        codec.operation_of(event(kind, data))


def test_the_version_has_a_key_of_its_own() -> None:
    """The data of messages belongs to the caller, except for this key."""
    assert codec.decode_data("user", codec.encode_data("user", {"v": 7})) == {"v": 7}
    with pytest.raises(ValueError, match="reserved"):
        codec.encode_data("user", {"$v": 7})


# JSON

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), JSON, min_size=1, max_size=3))
def test_data_is_read_as_it_was_written(data: dict[str, Any]) -> None:
    text = codec.encode_data("user", data)
    assert text is not None
    assert codec.decode_data("user", text) == data
    assert json.loads(text) == data
    assert codec.encode_data("user", codec.decode_data("user", text)) == text


@pytest.mark.parametrize("data", [None, {}])
def test_no_data_is_none(data: dict[str, Any] | None) -> None:
    assert codec.encode_data("user", data) is None
    assert codec.decode_data("user", None) is None


def nested(depth: int) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for _ in range(depth):
        data = {"a": data}
    return data


@pytest.mark.parametrize(
    "data", [{"x": object()}, {"x": {None: 1}}, {"x": {(1, 2): 3}}, {"x": "\ud800"}, nested(200_000)]
)
def test_values_that_are_not_json_are_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="data is not JSON"):
        codec.encode_data("user", data)


@pytest.mark.parametrize("text", ["", "[1]", "{", '"x"', "null", '{"a":' * 200_000 + "1" + "}" * 200_000])
def test_unreadable_data_is_damage(text: str) -> None:
    with pytest.raises(DamagedError, match="data of a user event is not readable"):
        codec.decode_data("user", text)


# Text

TEXT = st.text(st.characters(exclude_categories=()))


@given(TEXT)
def test_well_formed_text_can_be_stored(text: str) -> None:
    result = codec.well_formed(text)
    assert result.encode().decode() == result
    assert codec.well_formed(result) == result
    assert "\ufffd" in result or result == text


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("a\ud800b", "a\ufffdb"),
        ("a\udc00", "a\ufffd"),
        ("\ud83d\ude00", "😀"),  # a pair of surrogates is one character
        ("a\0b", "a\0b"),
        ({"\ud800": ["\ud800", ("\udfff", 1, None)]}, {"\ufffd": ["\ufffd", ["\ufffd", 1, None]]}),
        (5, 5),
    ],
)
def test_lone_surrogates_are_replaced(value: object, result: object) -> None:
    assert codec.well_formed(value) == result


@given(st.text(), st.none() | st.text())
def test_tokens_count_bytes(content: str, data: str | None) -> None:
    """SPEC 2: ceil(UTF-8 bytes of content and data / 4)."""
    size = len(content.encode("utf-8")) + len((data or "").encode("utf-8"))
    assert codec.count_tokens(content, data) == (size + 3) // 4


@pytest.mark.parametrize(
    ("content", "data", "tokens"),
    [
        ("", None, 0),
        ("a", None, 1),
        ("abcd", None, 1),
        ("abcde", None, 2),
        ("éé", None, 1),
        ("😀😀", None, 2),
        ("abc", "{}", 2),
        ("", "abcd", 1),
    ],
)
def test_tokens(content: str, data: str | None, tokens: int) -> None:
    assert codec.count_tokens(content, data) == tokens


# Times


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("2026-03-01T12:00:00Z", "2026-03-01T12:00:00.000000Z"),
        ("2026-03-01T12:00:00", "2026-03-01T12:00:00.000000Z"),
        ("2026-03-01T12:00:00.5+02:00", "2026-03-01T10:00:00.500000Z"),
        ("2026-03-01T00:30:00+05:45", "2026-02-28T18:45:00.000000Z"),
        ("2026-03-01T12:00:00.123456-00:00", "2026-03-01T12:00:00.123456Z"),
        ("2026-03-01", "2026-03-01T00:00:00.000000Z"),
        ("0999-03-01 12:00:00", "0999-03-01T12:00:00.000000Z"),
        (datetime(2026, 3, 1, 12), "2026-03-01T12:00:00.000000Z"),
        (datetime(2026, 3, 1, 12, tzinfo=UTC), "2026-03-01T12:00:00.000000Z"),
        (datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=-3))), "2026-03-01T15:00:00.000000Z"),
    ],
)
def test_timestamps_are_utc(value: str | datetime, result: str) -> None:
    assert codec.timestamp(value) == result
    assert codec.timestamp(result) == result


@pytest.mark.parametrize("value", ["", "yesterday", "2026-02-30", "12:00", "2026-03-01T12:00:00 Mars"])
def test_a_text_that_is_not_a_time_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"[Ii]nvalid|range"):
        codec.timestamp(value)


@pytest.mark.parametrize("value", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-01:00"])
def test_a_time_that_utc_cannot_hold_is_refused(value: str) -> None:
    """The error is ValueError, as for any other wrong time, not OverflowError."""
    with pytest.raises(ValueError, match=r"\S"):
        codec.timestamp(value)


@pytest.mark.parametrize("value", [5, None, date(2026, 3, 1)])
def test_a_value_of_another_type_is_not_a_time(value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        codec.timestamp(value)
