"""Check the events of a document, which may come from anybody: afterwards every reader of the log can read them."""

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from foldmark.core.codec import MOST_REASON, timestamp
from foldmark.core.config import KEYS
from foldmark.core.config import checked as checked_setting
from foldmark.core.errors import CommandError
from foldmark.core.events import ACTORS, DIALECTS, KINDS, OPERATION_KINDS, Operation
from foldmark.core.segments import END
from foldmark.documents.layout import EventEntry
from foldmark.editing.suggesting import Suggested
from foldmark.log.log import recorded_dialect
from foldmark.request.planning import RecordedPreview


class WrongEventError(ValueError):
    """An event that cannot be recorded. The text says in one line what is wrong with it."""


_Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
"""A number of tokens or messages, which also a float holds exactly."""


class _Amount(Struct, forbid_unknown_fields=True):
    messages: _Count
    tokens: _Count


class _Results(Struct, forbid_unknown_fields=True):
    results: _Count
    tokens: _Count


class _Thinking(Struct, forbid_unknown_fields=True):
    lost: _Count = 0
    returned: _Count = 0


class _Cached(Struct):
    kept: _Count
    of: _Count


class _Receipt(Struct):
    left: _Amount | UnsetType = UNSET
    returned: _Amount | UnsetType = UNSET
    before: _Amount | UnsetType = UNSET
    evicted: _Results | UnsetType = UNSET
    whole_again: _Results | UnsetType = UNSET
    shortened: _Results | UnsetType = UNSET
    thinking: _Thinking | UnsetType = UNSET
    cached_prefix: _Cached | UnsetType = UNSET


class _Usage(Struct):
    provider: str = ""
    model: str = ""
    stopped: str = ""
    altered: list[dict[str, Any]] = []
    fresh: _Count = 0
    cache_read: _Count = 0
    cache_write: _Count = 0
    output: _Count = 0
    last_input: _Count = 0


class _Opened(Struct):
    first: int
    mode: str
    criteria: str


class _Command(Struct):
    planning: _Opened | None = None
    preview: RecordedPreview | None = None
    suggested: list[Suggested] = []
    asked: bool = False


class _Named(Struct):
    call_id: str
    name: str = ""


class _Mail(Struct, rename={"sender": "from"}):
    sender: str


class _Message(Struct):
    mail: list[_Mail] = []


class _Changed(Struct):
    restores: Annotated[int, Meta(gt=0, lt=END)] | None = None
    reason: Annotated[str, Meta(max_length=MOST_REASON)] | None = None


class _Config(_Changed):
    settings: dict[str, Any] = {}
    names: list[str] = []


class _Measured(Struct):
    calibration: dict[str, Annotated[float, Meta(ge=0.1, le=100)]] = {}


_SHAPES: dict[str, type[Struct]] = {
    **dict.fromkeys(("system", "user", "client", "assistant", "tool"), _Message),
    "tool_call": _Named,
    "tool_result": _Named,
    "usage": _Usage,
    "command": _Command,
    "config": _Config,
    "scratchpad": _Changed,
}
"""Kind of an event -> the shape that its data must have. Other members are kept as they are."""


def checked(event: EventEntry, newest: int) -> Operation | None:
    """Return the operation that an event of a document records, None if it records none. `newest` is the id of the
    event before it. Raises WrongEventError."""
    if event.kind not in KINDS:
        raise WrongEventError(f"its kind {event.kind[:40]!r} is unknown; a newer Foldmark may have written it")
    if not newest < event.id < END:
        raise WrongEventError(f"its id must be above that of the event before it, {newest}")
    if event.actor not in ACTORS:
        raise WrongEventError(f"its actor must be one of {', '.join(ACTORS)}, not {event.actor[:40]!r}")
    try:
        timestamp(event.created_at)
    except ValueError:
        raise WrongEventError(f"its time {event.created_at[:40]!r} is not one") from None
    if event.dialect is not None and not _is_known(event.dialect):
        raise WrongEventError(f"its dialect {event.dialect[:40]!r} is unknown here")
    if event.erased is not None and event.content:
        raise WrongEventError("it is erased, and still has a text")
    if event.data is not None and "$v" in event.data:
        raise WrongEventError('its data is of a version that this Foldmark does not know ("$v")')
    try:
        return _operation(event) if event.erased is None or event.kind in OPERATION_KINDS else None
    except msgspec.ValidationError as error:
        raise WrongEventError(f"its data is wrong: {error}") from None


def check_settings(settings: dict[str, Any]) -> None:
    """Raise WrongEventError for a setting that a person could not have set."""
    for key in settings.keys() & set(KEYS):
        try:
            if checked_setting(key, settings[key]) == settings[key]:
                continue
        except CommandError as error:
            raise WrongEventError(f"its settings are wrong: {error}") from None
        raise WrongEventError(f"its settings are wrong: {key} cannot be {str(settings[key])[:40]!r}")
    msgspec.convert(settings, _Measured)


def _is_known(dialect: str) -> bool:
    if dialect in DIALECTS:
        return True
    try:
        return recorded_dialect(dialect) == dialect
    except CommandError:
        return False


def _operation(event: EventEntry) -> Operation | None:
    data = event.data or {}
    if event.kind in OPERATION_KINDS:
        msgspec.convert(data.get("receipt") or {}, _Receipt)
        reason = data.get("reason")
        if reason is not None and not (isinstance(reason, str) and len(reason) <= MOST_REASON):
            raise WrongEventError(f"its reason must be a text of up to {MOST_REASON} characters")
    elif event.kind != "turn_ended" or event.data is None:
        if shape := _SHAPES.get(event.kind):
            shaped = msgspec.convert(data, shape)
            if isinstance(shaped, _Config):
                check_settings(shaped.settings)
        return None
    operation: Operation = msgspec.convert({**data, "kind": event.kind}, Operation)
    return operation
