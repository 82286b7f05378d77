"""Decide which results and arguments later calls made stale or repeated: the profile `deep` cuts them too [SPEC 8].

Pure: the calls of a session, in the order in which the model reads them, become a `TrimPlan`.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from foldmark.core.assembly import superseded as rules
from foldmark.core.assembly.superseded import PERSONS, TODO_LISTS, Exchange, superseded

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

_TASKS = ("task", "agent")
"""Tools whose arguments are of no use once they have answered."""


class TrimPlan(Struct, frozen=True):
    """The cuts made for reasons other than length, by call id.

    Calls in `whole` keep their results and arguments. `results` lose all their text, and `arguments` are cut. The
    values of both are steps. Results with a person's words, in `spoken`, are cut only as the default profile does.
    """

    whole: frozenset[str] = frozenset()
    spoken: frozenset[str] = frozenset()
    results: Mapping[str, str] = {}
    arguments: Mapping[str, str] = {}


def plan(calls: Sequence[Exchange], spare: int, *, deep: bool) -> TrimPlan:
    """Return the cuts to make. Without `deep`, return only the spared results."""
    answered = [call.id for call in calls if call.digest is not None]
    spared = frozenset(answered[-spare:] if spare else ())
    if not deep:
        return TrimPlan(spared)
    spoken = frozenset(call.id for call in calls if call.spoken or call.tool in PERSONS)
    results: dict[str, str] = {}
    arguments: dict[str, str] = {}
    found = superseded(calls)
    for call in calls:
        if call.digest is None or call.id in spared or call.id in spoken:
            continue
        why = {each.why: each.how for each in found.get(call.id, ())}
        reads = any(use.how == "read" for use in call.uses)
        if rules.FAILED in why:
            results[call.id] = arguments[call.id] = FAILED
            continue
        if why.get(rules.REPEATED) == "content":
            results[call.id] = IDENTICAL
        elif reads and rules.STALE in why:
            results[call.id] = READS
        if not call.failed and (call.tool in _TASKS or (call.uses and not reads and rules.STALE in why)):
            arguments[call.id] = ARGUMENTS
        elif rules.TODOS in why and call.tool in TODO_LISTS:
            arguments[call.id] = TODOS
    return TrimPlan(spared, spoken, results, arguments)
