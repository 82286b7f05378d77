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
"""The reasons for a cut. The default profile has only the first, and its cuts count under no other reason."""

SPARED = 5
"""Number of newest results that the profile `deep` leaves whole by default."""

_READERS, _TASKS, _LISTS = ("read",), ("task", "agent"), ("todowrite",)
_WRITERS = ("write", "edit", "multiedit", "notebookedit")
_PERSONS = ("askuserquestion", "exitplanmode")
"""Tools whose results are a person's answers."""


class CallRecord(Struct, frozen=True):
    """A call and its result.

    `path` is the file that it reads or writes, `part` the part of it (None: the whole). `attempt` is equal for calls
    that attempt the same thing. `digest` identifies the result's content, None without a result. A result is `spoken`
    if it contains a person's words, and `void` if it only refers to an earlier one.
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
    """The cuts made for reasons other than length, by call id.

    Calls in `whole` keep their results and arguments. `results` lose all their text, and `arguments` are cut. The
    values of both are steps.
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
    # Of the calls after the current one:
    digests: set[bytes] = set()
    succeeded: set[tuple[str, str]] = set()
    renewed: set[tuple[str, str | None]] = set()  # files, or parts of them, that are read or written again
    has_list = False
    for call in reversed(calls):
        if call.digest is None:  # open: the model waits for it
            continue
        name = call.name.casefold()
        reads, writes, lists = name in _READERS, name in _WRITERS, name in _LISTS
        is_repeated = call.failed and (name, call.attempt) in succeeded
        is_renewed = call.path is not None and not renewed.isdisjoint(
            {(call.path, None), (call.path, call.part if reads else None)}
        )
        if call.id not in whole:
            if is_repeated:
                results[call.id] = arguments[call.id] = FAILED
            elif call.digest in digests:
                results[call.id] = IDENTICAL
            elif reads and is_renewed and not call.void:
                results[call.id] = READS
            if not call.failed and ((writes and is_renewed) or name in _TASKS):
                arguments[call.id] = ARGUMENTS
            elif not call.failed and lists and has_list:
                arguments[call.id] = TODOS
        digests.add(call.digest)
        if call.failed:
            continue
        succeeded.add((name, call.attempt))
        has_list |= lists
        if call.path is not None and (reads or writes) and not call.void:
            renewed.add((call.path, call.part if reads else None))
    return TrimPlan(whole, results, arguments)
