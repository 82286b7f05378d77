"""Convert events to text and back: canonical JSON, the size in tokens, and upcasts of older payloads [SPEC 2].

Canonical JSON is the output of msgspec: UTF-8, no white space, keys in the order given, no NaN. Input from outside is
made well-formed first (`well_formed`), so that everything stored can be read back.

`data` carries the version of its shape under "$v" when that is above 1; callers cannot use that key. Older shapes are
upcast on reading, one step at a time, and never rewritten.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from foldmark.core.errors import CommandError, DamagedError
from foldmark.core.events import OPERATION_KINDS, Event, Operation

Data = dict[str, Any]
Upcast = Callable[[Data], Data]

VERSIONS: dict[str, int] = {}
"""Newest data version of each kind; 1 for a kind that is not listed."""

UPCASTS: dict[tuple[str, int], Upcast] = {}
"""(kind, version) -> function that makes the next version's data. Version 1 of everything is current."""


MOST_REASON = 500
"""Maximum number of characters of an operation's reason."""


def encode_data(kind: str, data: Mapping[str, Any] | None) -> str | None:
    """Encode an event's data as canonical JSON, or return None if there is none. Raises ValueError for other data."""
    if not data:
        return None
    if "$v" in data:
        raise ValueError('the key "$v" is reserved for the version of the data')
    version = VERSIONS.get(kind, 1)
    body = {**data, "$v": version} if version > 1 else data
    try:
        return msgspec.json.encode(body).decode()
    except (TypeError, RecursionError, msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise ValueError(f"data is not JSON: {error}") from None


def decode_data(
    kind: str,
    text: str | None,
    versions: Mapping[str, int] = VERSIONS,
    upcasts: Mapping[tuple[str, int], Upcast] = UPCASTS,
) -> Data | None:
    """Return the data decoded from `text`, upcast to the newest version. Raises DamagedError."""
    if text is None:
        return None
    try:
        data: Data = msgspec.json.decode(text, type=dict)
    except (msgspec.MsgspecError, RecursionError, TypeError) as error:  # damage can turn text into a number
        raise DamagedError(f"the data of a {kind} event is not readable: {error}") from None
    newest = versions.get(kind, 1)
    version = data.pop("$v", 1) if newest > 1 else 1
    if not isinstance(version, int) or not 1 <= version <= newest:
        raise DamagedError(f"a {kind} event has version {version} of its data; this Foldmark knows up to {newest}")
    for step in range(version, newest):
        data = upcasts[kind, step](data)
    return data


def operation_data(operation: Operation) -> Data:
    """Return the data of the event that records `operation`; its kind is the event's kind and not repeated."""
    data: Data = msgspec.to_builtins(operation)
    del data["kind"]
    return data


def checked_data(operation: Operation) -> Data:
    """Return `operation_data`, checked to be readable again. Raises CommandError."""
    kind = operation_kind(operation)
    try:
        data = operation_data(operation)
        msgspec.convert({**data, "kind": kind}, Operation)
    except (msgspec.ValidationError, TypeError) as error:
        raise CommandError(f"this {kind} cannot be recorded: {error}") from None
    return data


def checked_reason(reason: str) -> str:
    """Return the reason for an operation without surrounding white space. Raises CommandError."""
    if not isinstance(reason, str):
        raise CommandError(f"a reason is a text, not {repr(reason)[:40]}")
    if not reason.strip():
        raise CommandError("the reason is empty; say why behind `--`, or leave both out")
    if len(reason.strip()) > MOST_REASON:
        raise CommandError(f"a reason has at most {MOST_REASON} characters, not {len(reason.strip()):,}; shorten it")
    return reason.strip()


def operation_kind(operation: Operation) -> str:
    """Return the kind of the event that records `operation`."""
    return str(operation.__struct_config__.tag)


def operation_of(event: Event) -> Operation:
    """Return the operation that `event` records. Raises DamagedError if it records none, or its data does not fit."""
    try:
        operation: Operation = msgspec.convert({**(event.data or {}), "kind": event.kind}, Operation)
    except msgspec.ValidationError as error:
        why = "its stored data cannot be read" if event.damaged and event.data is None else error
        raise DamagedError(f"event {event.id} is not a valid {event.kind} operation: {why}") from None
    return operation


def without_content(kind: str, data: str | None, *, handed_down: bool) -> str | None:
    """Return what remains of an event's data when its content is erased: what replay needs, without words.

    With `handed_down`, what a fork handed down to its child remains, too.
    """
    if kind not in OPERATION_KINDS or data is None:
        return None
    words = {"criteria", "state", "reason", "native"} | (set() if handed_down else {"scratchpad", "settings"})
    try:
        read = decode_data(kind, data) or {}
    except DamagedError:
        return None  # its words cannot be told from the rest
    kept = {key: value for key, value in read.items() if key not in words}
    return encode_data(kind, kept)


def count_tokens(content: str, data: str | None) -> int:
    """Return the fixed size of an event: ceil(UTF-8 bytes of content and data / 4)."""
    return -(-(_bytes(content) + (_bytes(data) if data else 0)) // 4)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def well_formed(value: Any) -> Any:
    """Replace lone surrogates, which UTF-8 cannot hold, with U+FFFD in text, or in every text of a JSON value."""
    if value is None or (isinstance(value, str) and value.isascii()):
        return value
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _mended(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return value  # not JSON, as the encoder will report
    return value


def timestamp(value: str | datetime, precision: str = "microseconds") -> str:
    """Return a time in UTC as ISO 8601 with microseconds and a Z, or cut to `milliseconds` or `seconds`. A time without
    a zone is taken as UTC. Raises ValueError."""
    return utc(value).isoformat(timespec=precision)[: -len("+00:00")] + "Z"


def utc(value: str | datetime) -> datetime:
    """Return a time in UTC; a time without a zone is taken as UTC. Raises ValueError."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(moment, datetime):
        raise ValueError(f"{value!r} is not a time")  # noqa: TRY004 - one kind of error for every wrong time
    if moment.tzinfo is UTC:
        return moment
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{value} is out of range: {error}") from None


def stored_time(value: str) -> datetime:
    """Return a stored time in UTC; for a damaged one, the beginning of 1970."""
    try:
        return utc(value)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)


def _mended(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {_mended(key): _mended(item) for key, item in value.items()}
        case list() | tuple():
            return [_mended(item) for item in value]
        case _:
            return value
