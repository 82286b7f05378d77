"""Decide which results and arguments later calls made stale or repeated: the profile `deep` cuts them too [SPEC 8].

Pure: the calls of a session, in the order in which the model reads them, become a `TrimPlan`.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

LONG, OTHERS, READS, ARGUMENTS, IDENTICAL, TODOS, FAILED = STEPS = (
    "results of the default tools",
    "results of other tools",
    "stale reads",
    "arguments",
    "identical results",
    "superseded todo lists",
    "failed attempts, repeated",
)
"""The reasons for a cut. The default profile has only the first. A cut that it makes counts under no other reason."""

SPARED = 5
"""Newest results that the profile `deep` leaves whole by default."""

_READERS, _TASKS, _LISTS = ("read",), ("task", "agent"), ("todowrite",)
_WRITERS = ("write", "edit", "multiedit", "notebookedit")
_PERSONS = ("askuserquestion", "exitplanmode")
"""Tools whose results are a person's answers."""


class CallRecord(Struct, frozen=True):
    """A call and its result.

    `path` is the file that it reads or writes, `part` the part of it (None: the whole). `attempt` is equal for calls
    that attempt the same. `digest` identifies the result's content, None without a result. A result is `spoken` if it
    contains a person's words, and `void` if it only refers to an earlier one.
    """

    id: str
    name: str
    path: str | None = None
    part: str | None = None
    attempt: str = ""
    failed: bool = False
    digest: bytes | None = None
    spoken: bool = False
    void: bool = False


class TrimPlan(Struct, frozen=True):
    """The cuts made for other reasons than length, by call id.

    The results and arguments of `whole` stay. All text of `results` is cut, and so are `arguments`. Their values are
    steps.
    """

    whole: frozenset[str] = frozenset()
    results: Mapping[str, str] = {}
    arguments: Mapping[str, str] = {}


def digest(content: Any) -> bytes:
    """Return a key that equal results share."""
    return blake2b(msgspec.json.encode(content), digest_size=16).digest()


def plan(calls: Sequence[CallRecord], spare: int, *, deep: bool) -> TrimPlan:
    """Return the cuts to make. Without `deep`, return only the spared results."""
    answered = [call.id for call in calls if call.digest is not None]
    spared = frozenset(answered[-spare:] if spare else ())
    if not deep:
        return TrimPlan(spared)
    whole = spared | {call.id for call in calls if call.spoken or call.name.casefold() in _PERSONS}
    results: dict[str, str] = {}
    arguments: dict[str, str] = {}
    later = _LaterCalls()
    for call in reversed(calls):
        if call.digest is None:  # open: the model waits for it
            continue
        if call.id not in whole:
            if step := later.result(call):
                results[call.id] = step
            if step := later.arguments(call):
                arguments[call.id] = step
        later.add(call)
    return TrimPlan(whole, results, arguments)


class _LaterCalls:
    """The calls behind a place in a session."""

    def __init__(self) -> None:
        self._digests: set[bytes] = set()
        self._renewed: set[tuple[str, str | None]] = set()
        self._succeeded: set[tuple[str, str]] = set()
        self._has_list = False

    def result(self, call: CallRecord) -> str | None:
        """Return the reason why a result is stale, or None."""
        if call.failed and self._is_repeated(call):
            return FAILED
        if call.digest in self._digests:
            return IDENTICAL
        if call.name.casefold() in _READERS and not call.void and self._is_renewed(call):
            return READS
        return None

    def arguments(self, call: CallRecord) -> str | None:
        """Return the reason why the arguments of a call are stale, or None."""
        name = call.name.casefold()
        if call.failed:
            return FAILED if self._is_repeated(call) else None
        if (name in _WRITERS and self._is_renewed(call)) or name in _TASKS:
            return ARGUMENTS
        return TODOS if name in _LISTS and self._has_list else None

    def add(self, call: CallRecord) -> None:
        """Record a call. Calls are added from the last to the first."""
        if call.digest is not None:
            self._digests.add(call.digest)
        if call.failed:
            return
        name = call.name.casefold()
        self._succeeded.add((name, call.attempt))
        self._has_list |= name in _LISTS
        if call.path is not None and name in (*_READERS, *_WRITERS) and not call.void:
            self._renewed.add((call.path, call.part if name in _READERS else None))

    def _is_repeated(self, call: CallRecord) -> bool:
        return (call.name.casefold(), call.attempt) in self._succeeded

    def _is_renewed(self, call: CallRecord) -> bool:
        """Return True if a later call reads or writes the file, or reads the same part of it."""
        if call.path is None:
            return False
        is_read = call.name.casefold() in _READERS
        return (call.path, None) in self._renewed or (is_read and (call.path, call.part) in self._renewed)
