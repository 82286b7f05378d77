"""Convert events to text and back: canonical JSON, sizes, checksums, hidden keys [SPEC 2].

Canonical JSON is the output of msgspec: UTF-8, no white space, keys in the given order, no NaN. External input is made
well-formed first (`well_formed`), so that everything stored can be read back. API keys are replaced by the names of
their variables before a text is recorded (`Secrets`).

Callers cannot use the key "$v" in `data`: it is reserved for the versions of shapes that later releases may have.

The checksum of an event detects bytes that changed on the disk. CRC-32 detects every change of a single bit and every
burst of up to 32 bits; of other errors it misses one in four billion. It guards against failing disks, not against
people.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote
from zlib import crc32

import msgspec

from foldmark.core.errors import CommandError, DamagedError
from foldmark.core.events import OPERATION_KINDS, OUTSIDE_KINDS, Event, Operation

Data = dict[str, Any]
MOST_REASON = 500
"""Maximum number of characters of an operation's reason."""


def encode_data(kind: str, data: Mapping[str, Any] | None) -> str | None:
    """Encode an event's data as canonical JSON; return None for no data. Raises ValueError if the data is not JSON or
    has the key "$v"."""
    if not data:
        return None
    if "$v" in data:
        raise ValueError('the key "$v" is reserved for the version of the data')
    try:
        return msgspec.json.encode(data).decode()
    except (TypeError, RecursionError, msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise ValueError(f"data is not JSON: {error}") from None


def decode_data(kind: str, text: str | None) -> Data | None:
    """Return the data decoded from `text`. Raises DamagedError."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict)
    except (msgspec.MsgspecError, RecursionError, TypeError) as error:  # damage can turn text into a number
        raise DamagedError(f"the data of a {kind} event is not readable: {error}") from None


def operation_data(operation: Operation) -> Data:
    """Return the data of the event that records `operation`, without its kind, which is the event's kind."""
    data: Data = msgspec.to_builtins(operation)
    del data["kind"]
    return data


def checked_data(operation: Operation) -> Data:
    """Return `operation_data` after checking that it can be read back. Raises CommandError."""
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
        raise CommandError(f"a reason must be a text, not {repr(reason)[:40]}")
    if not reason.strip():
        raise CommandError("the reason is empty; write it after `--`, or leave out `--`")
    if len(reason.strip()) > MOST_REASON:
        raise CommandError(f"a reason has at most {MOST_REASON} characters, not {len(reason.strip()):,}; shorten it")
    return reason.strip()


def operation_kind(operation: Operation) -> str:
    """Return the kind of the event that records `operation`."""
    return str(operation.__struct_config__.tag)


def operation_of(event: Event) -> Operation:
    """Return the operation that `event` records. Raises DamagedError if it records none or its data is invalid."""
    try:
        operation: Operation = msgspec.convert({**(event.data or {}), "kind": event.kind}, Operation)
    except msgspec.ValidationError as error:
        why = "its stored data cannot be read" if event.damaged and event.data is None else error
        raise DamagedError(f"event {event.id} is not a valid {event.kind} operation: {why}") from None
    return operation


def without_content(kind: str, data: str | None, *, handed_down: bool) -> str | None:
    """Return the part of an event's data that remains when its content is erased: everything that replay needs, without
    texts.

    With `handed_down`, the settings and the scratchpad that a fork handed down to its child also remain.
    """
    if kind not in OPERATION_KINDS or data is None:
        return None
    words = {"criteria", "state", "reason", "native"} | (set() if handed_down else {"scratchpad", "settings"})
    try:
        read = decode_data(kind, data) or {}
    except DamagedError:
        return None  # its texts cannot be separated from the rest
    kept = {key: value for key, value in read.items() if key not in words}
    return encode_data(kind, kept)


def outlives(kind: str, data: str | None) -> bool:
    """Return True for an event that stays when its turn is erased, because others recorded it, or because it has ids,
    sizes and hashes, but no texts: the record of a request; and what a gateway has recorded of those of a live session,
    without which the edits of the session would no longer be known."""
    if kind in ("request", *OUTSIDE_KINDS):
        return True
    if kind not in ("record", "usage") or data is None:
        return False
    try:
        read = decode_data(kind, data) or {}
    except DamagedError:
        return False
    live = read.get("live")
    return "sent" in read if kind == "usage" else isinstance(live, dict) and not {"said", "executed"} & live.keys()


def count_tokens(content: str, data: str | None) -> int:
    """Return the fixed size of an event: ceil(UTF-8 bytes of content and data / 4)."""
    return -(-(_bytes(content) + (_bytes(data) if data else 0)) // 4)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def well_formed(value: Any) -> Any:
    """Replace lone surrogates, which UTF-8 cannot encode, with U+FFFD in text, or in every text of a JSON value."""
    if value is None or (isinstance(value, str) and value.isascii()):
        return value
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _mended(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return value  # not JSON; the encoder will report it
    return value


def timestamp(value: str | datetime, precision: str = "microseconds") -> str:
    """Return a time in UTC as ISO 8601 with microseconds and a Z, or cut to `milliseconds` or `seconds`. A time without
    a zone is treated as UTC. Raises ValueError."""
    return _written(utc(value), precision)


@lru_cache(maxsize=8)  # the events of an imported record share its time
def _written(moment: datetime, precision: str) -> str:
    return moment.isoformat(timespec=precision)[: -len("+00:00")] + "Z"


def utc(value: str | datetime) -> datetime:
    """Return a time in UTC; a time without a zone is treated as UTC. Raises ValueError."""
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
    """Return a stored time in UTC; for a damaged time, the beginning of 1970."""
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


def checksum(columns: Sequence[str | int | None], content: str, data: str | None) -> int:
    """Return the CRC-32 of an event: its columns, joined by spaces, nulls empty, and ended by a newline; its content; a
    zero byte and its data, if it has any."""
    return checksum_of(" ".join(["" if each is None else str(each) for each in columns]), content, data)


def checksum_of(head: str, content: str, data: str | None) -> int:
    """Return the CRC-32 of an event whose columns are already joined, without the newline."""
    return crc32((f"{head}\n{content}" if data is None else f"{head}\n{content}\0{data}").encode())


SHORTEST = 8
"""Minimum number of characters of a key; shorter keys would match in too many texts."""


class Secrets:
    """Known keys: `found` is environment variable -> key, `others` is description -> value for further secrets."""

    def __init__(self, found: Mapping[str, str] = {}, others: Mapping[str, str] = {}) -> None:
        known = [*((key, name) for name, key in found.items()), *others.items()]
        keys = {form: name for key, name in known if len(key) >= SHORTEST for form in _quoted_forms(key)}
        self._names = {key: keys[key] for key in sorted(keys, key=len, reverse=True)}

    def __bool__(self) -> bool:
        return bool(self._names)

    def hidden(self, text: str) -> str:
        """Return the text with keys replaced by their names."""
        for key, name in self._names.items():
            if key in text:
                text = text.replace(key, f"[{name}]")
        return text

    def hidden_in(self, value: Any) -> Any:
        """Return a JSON value with keys replaced, also in its members' names. Raises TypeError for any other value."""
        match value:
            case str():
                return self.hidden(value)
            case Mapping():
                return {
                    self.hidden(key) if isinstance(key, str) else key: self.hidden_in(each)
                    for key, each in value.items()
                }
            case list() | tuple():
                return [self.hidden_in(each) for each in value]
            case None | bool() | int() | float():
                return value
            case _:  # convertible to JSON: sets, structs, times
                return self.hidden_in(msgspec.to_builtins(value))


def _quoted_forms(key: str) -> Iterator[str]:
    """Yield the forms in which texts may quote a key: plain, in JSON, in JSON inside JSON, in URLs."""
    once = msgspec.json.encode(key).decode()[1:-1]
    yield from (key, once, msgspec.json.encode(once).decode()[1:-1])
    yield from (once.replace("/", "\\/"), quote(key, safe=""), quote(key))
