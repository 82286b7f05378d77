"""Compare two stores: records with the same ids, and hashes of everything that each holds."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from typing import Any, TypeVar

import msgspec

from foldmark.copying.scope import CopyScope
from foldmark.core.events import ROLES
from foldmark.core.ports import Snapshot
from foldmark.core.records import CodingSession, CopiedEnd, CopiedEvent, CopiedMail, CopiedMemo, CopiedSent

_AT_ONCE = 100

Beside = TypeVar("Beside", CopiedMail, CopiedSent, CopiedMemo, CodingSession)


def merged(ours: Iterable[Beside], theirs: Iterable[Beside]) -> Iterator[tuple[Beside | None, Beside | None]]:
    """Yield pairs of records with the same id, both in the order of ids; None where one side has no such record."""
    left, right = iter(ours), iter(theirs)
    mine, other = next(left, None), next(right, None)
    while mine is not None or other is not None:
        if other is None or (mine is not None and mine.id < other.id):
            yield mine, None
            mine = next(left, None)
        elif mine is None or other.id < mine.id:
            yield None, other
            other = next(right, None)
        else:
            yield mine, other
            mine, other = next(left, None), next(right, None)


def beside(wanted: CopyScope) -> list[type[Any]]:
    """Return the kinds of records beside the log that belong to the copy."""
    return [CopiedMail, CopiedMemo, CopiedSent, CodingSession] if wanted.whole else [CopiedMail, CopiedSent]


class Hashes:
    """Hashes of a store's contents within a scope: `parts` maps each agent and kind to a hash, `whole` is the hash of
    all parts, `events` counts the events. `told` is called for each event."""

    def __init__(self, moment: Snapshot, wanted: CopyScope, told: Callable[[CopiedEvent], object]) -> None:
        self.events = 0
        each = {agent: _Hash() for agent in wanted.agents}
        for record in moment.agents():
            if record.id in each:
                each[record.id].add(record)
        for end in moment.copied(CopiedEnd, wanted.wanted):
            each[end.agent].add(end)
        for event in moment.copied_events(dict.fromkeys(each, 0)):
            each[event.agent].add(event)
            self.events += 1
            told(event)
        needed = set[str]()
        for kind in beside(wanted):
            each[kind.__name__] = hash = _Hash()
            for copied in moment.copied(kind, wanted.wanted):
                hash.add(copied)
                needed.update(texts_of(copied) if kind is CopiedSent else ())
        each["texts"] = _Hash()
        keys = iter(sorted(needed))
        while some := list(islice(keys, _AT_ONCE)):
            found = moment.kept_texts(some)
            each["texts"].add([(key, found.get(key)) for key in some])
        self.parts = {name: hash.hex for name, hash in each.items()}
        whole = _Hash()
        whole.add(list(self.parts.values()))
        self.whole = whole.hex


class _Hash:
    def __init__(self) -> None:
        self._made = blake2b(digest_size=16)

    def add(self, value: object) -> None:
        """Add a value."""
        self._made.update(_ENCODER.encode(value))

    @property
    def hex(self) -> str:
        return self._made.hexdigest()


_ENCODER = msgspec.json.Encoder()


def is_message(event: CopiedEvent) -> bool:
    """Return True if an event counts as a message of its agent."""
    return event.kind in ROLES and event.redacted is None


def texts_of(request: CopiedSent) -> list[str]:
    """Return the hashes of the texts of a request; none if they can no longer be read."""
    try:
        found = msgspec.json.decode(request.data, type=_Texts).hashes
    except (msgspec.MsgspecError, RecursionError):
        return []
    return list(found.values())


class _Texts(msgspec.Struct):
    hashes: Mapping[str, str] = {}
