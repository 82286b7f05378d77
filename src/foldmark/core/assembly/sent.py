"""Records of the requests that were sent to models [SPEC 5.6].

A record is the data of a `request` event: the ids of the request's messages, how they were shortened, and hashes of
everything else, which is enough to rebuild the request byte for byte. It never contains texts. Those of messages are
only in the log, where `/message remove` erases them; the others are kept by their hashes as long as something owns
them.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from foldmark.core.errors import DamagedError
from foldmark.core.events import Event
from foldmark.core.request import Edge, Plan
from foldmark.core.segments import END, Segments

T = TypeVar("T")

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=END)]
"""A number in a record. Another program may have written the record, and a store takes no larger one."""

QUESTION = "question"
"""The name of a question among the texts of a request: a person's words, which are erased with its turn."""

_MEMO, _FOREIGN = "memo ", "foreign "


class MessageSet(Struct, frozen=True, omit_defaults=True):
    """A set of messages: all inside `ranges`, or, if ranges would include others, those with these `ids`."""

    ranges: Segments = ()
    ids: tuple[int, ...] = ()


class RequestRecord(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The data of a `request` event, whose turn and time are those of the event."""

    number: Number
    """The number of the request among those of its agent, from 1."""

    event: Number
    """The newest event of the agent's timeline when the request was made."""

    provider: str
    model: str

    speaks: str
    """The built-in provider whose format the request has."""

    sha256: str
    """The SHA-256 of `Request.bytes`."""

    bytes: Number
    """The length of `Request.bytes`."""

    tokens: Number
    """The estimate of its tokens."""

    output: Number
    """The maximum number of tokens of the answer."""

    edge: Edge
    """The beginning of the window."""

    hashes: Mapping[str, str]
    """The SHA-256 of texts by their names: `config` (the settings as JSON), `tools` (their specs as JSON),
    `guidelines`, `instruction` (a last message by Foldmark itself), `question` (one in a person's words), `memo 3`."""

    digests: Mapping[str, str]
    """Layer -> SHA-256 of the texts sent in it."""

    plan: Plan
    """The plan that it was made from, without the `later` layers and reports that the requests `after` which it comes
    have."""

    after: tuple[Number, ...] = ()
    """The earlier requests that have the rest of the plan, the newest last; empty if the plan is whole."""

    purpose: str = "answer"
    """`Request.purpose`."""

    only: MessageSet | None = None
    """The messages of a request that has only some of the context [SPEC 4.2]; None for any other."""

    quoted: MessageSet | None = None
    """The messages that precede the `question` in the same message."""

    thoughtless: bool = False
    """True if thinking was left out because the provider refused it."""

    cache_ttl: str = "5m"
    """How long the provider was asked to cache the request (`Options`)."""

    upto: Number = 0
    """The event that opened the turn before which a compaction ends, 0 for none."""

    @property
    def planning(self) -> bool:
        """True if the request held only a planning conversation of the context [SPEC 4.2]."""
        return self.purpose == "answer" and self.edge.why == "planning"


class SentRequest(RequestRecord, frozen=True, kw_only=True):
    """A recorded request: its record, and the id, the agent, the turn and the time of its event."""

    id: int
    agent: str
    turn: int | None
    created_at: str


def sent_request(event: Event) -> SentRequest:
    """Return the request that a `request` event records. Raises DamagedError."""
    own = {"id": event.id, "agent": event.agent_id, "turn": event.turn_id, "created_at": event.created_at}
    sent = _read({**(event.data or {}), **own}, SentRequest)
    if sent is None:
        raise DamagedError(f"event {event.id} of agent {event.agent_id[:8]}: its record of a request is not readable")
    return sent


def is_readable(data: Mapping[str, Any] | None) -> bool:
    """Return True if the data of a `request` event is a record of a request."""
    return _read(data or {}, RequestRecord) is not None


def _read(data: Mapping[str, Any], form: type[T]) -> T | None:
    try:
        return msgspec.convert(data, form, str_keys=True)
    except (msgspec.ValidationError, RecursionError):
        return None


class Owner(NamedTuple):
    """What a text of a request belongs to: a `turn` of the agent that sent it, or a `memo` (-1: of another database);
    if both are 0, only to the agent. A text is erased with the last of its owners."""

    turn: int
    memo: int


OF_AGENT = Owner(0, 0)
"""The owner of a text that belongs to the agent alone: it stays as long as the agent does."""


def owners(turn: int | None, data: Mapping[str, Any] | None) -> Iterator[tuple[str, Owner]]:
    """Yield the hash and the owner of each text of a request, from the turn and the data of its event. Yields nothing
    for unreadable data."""
    hashes = (data or {}).get("hashes")
    for name, sha256 in hashes.items() if isinstance(hashes, dict) else ():
        number = name.removeprefix(_MEMO)
        if name == QUESTION:
            owner = Owner(turn or 0, 0)
        elif name.startswith(_FOREIGN):
            owner = Owner(0, -1)
        else:
            owner = Owner(0, int(number)) if number != name and number.isascii() and number.isdigit() else OF_AGENT
        yield str(sha256), owner


def memo_text_name(memo_id: int) -> str:
    """Return the name of a memo's text among the texts of a request."""
    return f"{_MEMO}{memo_id}"


def memo_named(text_name: str) -> int | None:
    """Return the id of the memo whose text has this name among the texts of a request; None for any other text. Copies
    name the memos of another database otherwise (`foreign_text_name`)."""
    number = text_name.removeprefix(_FOREIGN)
    if not number.startswith(_MEMO):
        return None
    number = number.removeprefix(_MEMO)
    return int(number) if number.isascii() and number.isdigit() else None


def foreign_text_name(name: str) -> str:
    """Return the name of a text in a database that has other memos, to which the request was copied. A later copy
    erases the text if its memo was removed in the source."""
    return f"{_FOREIGN}{name}" if name.startswith(_MEMO) else name
