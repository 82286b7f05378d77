"""The parts of a coding agent's request and their sizes in bytes, as a gateway records them [SPEC 5.7]. Pure.

`lay` follows the rules of `overlay/edit.py`, which edits the bytes of a request.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from foldmark.core.assembly.caching import common_length
from foldmark.core.assembly.eviction import client_placeholder
from foldmark.core.segments import END, Segments, subtract

MOVES, STAYS = 1, 2
"""System messages that stand only behind a user's messages on their wire, and those that stand anywhere."""

LOCAL = -1
"""In place of an event id: a block of a command to Foldmark or of its reply. It is never sent to a provider."""

SENT = "sent"
"""The name of the sizes in the data of a usage event, and of a record of the gateway."""

LIVES, UNANSWERED = "lives", "unanswered"
"""Names in these sizes: the seconds for which the provider keeps the request in its cache, and the records of requests
that were passed on before this one and not answered."""

INSTALLS = "installs"
"""The name in these sizes for a client that installs edits in its own transcript: what left is sent again only as an
insertion, and an edit takes all thinking out."""

REFUSED = "refused"
"""The name, in a gateway's record, of the record of a request that the provider refused or never got."""

ENVELOPE, RESULT = 30, 80
"""Bytes of a message besides its blocks, and of a result besides its text: about what every wire needs."""

Key = tuple[int, ...]
"""The key of a piece: (id,) of a message that is inserted, (message, block), or (message, block, EVICTED) of a result
that is evicted."""

EVICTED = 3


class SizedMessage(NamedTuple):
    """A message of the client: the event of each block, 0 for a block without one, and the bytes of each block,
    negative for thinking. `system` is MOVES or STAYS for a system message between the others, 0 for any other."""

    ids: tuple[int, ...]
    sizes: tuple[int, ...]
    system: int = 0


def sizes_data(
    known: int,
    rest: int,
    kept: Sequence[Sequence[int]],
    added: Iterable[SizedMessage],
    lives: float | None = None,
    unanswered: Sequence[int] = (),
    *,
    installs: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return the sizes of a request, and of its answer if there is one, as data of an event. `kept` are the ranges of
    the messages of the usage event before that are still sent, `added` those that follow, the answer last. `lives` are
    the seconds for which the request is kept in the provider's cache, None if unknown; `unanswered` as `UNANSWERED`,
    `installs` as `INSTALLS`."""
    more: dict[str, Any] = {} if lives is None else {LIVES: lives}
    more |= {UNANSWERED: unanswered} if unanswered else {}
    more |= {INSTALLS: True} if installs else {}
    return {SENT: {"known": known, "rest": rest, "kept": kept, "added": [_stored(each) for each in added], **more}}


def _stored(message: SizedMessage) -> list[Any]:
    return [message.ids, message.sizes, *([message.system] if message.system else ())]


class Shown:
    """The events of an agent that its fold shows."""

    def __init__(self, agent: str, segments: Segments) -> None:
        self.segments = tuple(each for each in segments if each.agent == agent)
        self._firsts = [each.first for each in self.segments]

    def shows(self, event_id: int) -> bool:
        """Return True if an event is visible."""
        at = bisect_right(self._firsts, event_id) - 1
        return at >= 0 and event_id <= self.segments[at].last


class View(Shown):
    """The messages that a fold shows. `evicted` has the operation that evicted a result, `inserted` the place, the id
    and the bytes of each message to insert."""

    def __init__(
        self, agent: str, segments: Segments, evicted: Mapping[int, int], inserted: list[tuple[int, int, int]]
    ) -> None:
        super().__init__(agent, segments)
        self.evicted, self.inserted = evicted, sorted(inserted)

    def changes(self, other: "View") -> Iterator[tuple[int, int]]:
        """Yield the ranges of events that two views show differently."""
        yield from ((each.first, each.last) for each in subtract(self.segments, other.segments))
        yield from ((each.first, each.last) for each in subtract(other.segments, self.segments))
        yield from ((id, id) for id in self.evicted.keys() ^ other.evicted.keys())
        yield from ((place + 1, END) for place, *_ in set(self.inserted) ^ set(other.inserted))


class Laid:
    """A request laid out as pieces: their keys and their bytes, in order; `starts` has the number of pieces before each
    message. `thinking` are the keys of its thinking, `unbound` of the thinking that is left out since what preceded it
    has changed."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.sizes: list[int] = []
        self.starts: list[int] = []
        self.thinking: set[Key] = set()
        self.unbound: set[Key] = set()

    def add(self, key: Key, size: int) -> None:
        """Add a piece."""
        self.keys.append(key)
        self.sizes.append(size)

    def common(self, other: "Laid", messages: int) -> int:
        """Return the bytes at the beginning that are those of the first `messages` of another request."""
        return sum(self.sizes[: common_length(self.keys, other.keys[: other.starts[messages]])])


def lay(laid: Laid, at: int, message: SizedMessage, view: View, *, bound: bool) -> bool:
    """Lay out a message. Return False if nothing of it stays."""
    ids, sizes = message.ids, message.sizes
    stays = [not each or (each > 0 and view.shows(each)) for each in ids]
    for block in range(len(stays) - 1, -1, -1):
        if sizes[block] >= 0:
            continue
        if not all(stays) and not any(stays[block + 1 :]):
            stays[block] = False  # thinking may not end a message
        elif not ids[block] and block + 1 < len(stays):  # thinking without an event leaves with what follows it
            stays[block] = stays[block + 1]
    envelope = ENVELOPE
    for block, (id, size, stay) in enumerate(zip(ids, sizes, stays, strict=True)):
        if not stay:
            continue
        if size < 0 and not bound:
            laid.unbound.add((at, block))
            continue
        if size < 0:
            laid.thinking.add((at, block))
        if id in view.evicted:
            text = client_placeholder(abs(size))
            laid.add((at, block, EVICTED), len(text) + RESULT + envelope)
        else:
            laid.add((at, block), abs(size) + envelope)
        envelope = 0
    return any(stays)


def blocks_of(messages: Sequence[SizedMessage]) -> Iterator[tuple[int, int, int]]:
    """Yield place, block and bytes of everything that the client sends to its model."""
    for at, message in enumerate(messages):
        envelope = ENVELOPE
        for block, (id, size) in enumerate(zip(message.ids, message.sizes, strict=True)):
            if id != LOCAL:
                yield at, block, abs(size) + envelope
                envelope = 0
