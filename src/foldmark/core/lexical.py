"""The local matcher: which messages a criterion is about, by their words [SPEC 4.2].

It stands in for a model's judgement and gives the same answer every time. A criterion hits a message that holds enough
of its words, where a word weighs the more the fewer messages hold it. A conversation stays with a topic over several
turns without naming it each time, so neighbouring turns that share enough words with a hit go with it.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import log, sqrt
from typing import NamedTuple

from foldmark.core.criteria import Clause, wanted
from foldmark.core.events import Event
from foldmark.core.words import Unit, telling, tells_nothing, terms

ASKED, OTHER = 0.4, 0.6
"""The share of what a clause asks for, by weight, that a user's message must hold, and any other."""

ALIKE = 0.12
"""How alike the words of two neighbouring turns are (the cosine of their weights) that speak of one topic."""

REACH = 3
"""How many turns on each side of one that matches can go on with its topic."""

LONG = 120
"""Words up to which a message needs a word only once; a longer one needs it the more often the longer it is."""


_QUOTE = re.compile("“[^“”]{0,500}”")


class Words(NamedTuple):
    """A message as the matcher sees it: how often it holds each of the terms looked for, and its length in words."""

    counts: Mapping[str, int]
    length: int


def match(criteria: str, messages: Sequence[Event], *, keep_going: bool = True) -> tuple[int, ...]:
    """The ids of the messages, among those given in order, that `criteria` is about; in the order given.

    Clauses joined by commas, "and" or "or" each match by themselves; what follows "except" or "but not" is left out;
    numbers are ids ("messages 45-67"). A word weighs the more the fewer messages hold it. A user message that matches
    takes its whole turn along, and, with `keep_going`, the neighbouring turns that share enough words with it, and
    those behind it in which the user says nothing new ("go on"); any other message matches alone. `system` messages
    never do.

    Raises CommandError if the criterion holds no word to look for.
    """
    asked = wanted(criteria)
    rows = [message for message in messages if message.role not in (None, "system")]
    clauses = (*asked.clauses, *asked.unwanted)
    looked_for = {term for clause in clauses for unit in clause.units for way in unit for term in way}
    words = [_words(message, looked_for) for message in rows]
    chosen = _chosen(asked.clauses, rows, words, keep_going) if asked.clauses else {row.id for row in rows}
    chosen -= _chosen(asked.unwanted, rows, words, keep_going)
    return tuple(row.id for row in rows if row.id in chosen)


def by_turn(rows: Iterable[Event]) -> list[list[Event]]:
    """Messages by turn, in the order in which turns begin; what belongs to none stands by itself."""
    turns: dict[int, list[Event]] = {}
    for row in rows:
        turns.setdefault(row.id if row.turn_id is None else row.turn_id, []).append(row)
    return list(turns.values())


def said(message: Event) -> str:
    """What a message says; for a tool call its name and arguments."""
    if message.kind != "tool_call":
        return message.content
    return f"{(message.data or {}).get('name', '')} {message.content}"


def _words(message: Event, looked_for: Collection[str]) -> Words:
    counts = terms(_own(message))
    return Words({term: counts[term] for term in looked_for if term in counts}, counts.total())


def _own(message: Event) -> str:
    """What a message says itself: what a model quotes is what another message is about."""
    return _QUOTE.sub(" ", message.content) if message.kind == "assistant" else said(message)


def _chosen(clauses: Iterable[Clause], rows: Sequence[Event], words: Sequence[Words], keep_going: bool) -> set[int]:
    """Ids of what any of the clauses is about."""
    chosen: set[int] = set()
    hits: set[int] = set()
    for clause in clauses:
        named = {row.id for row in rows if any(first <= row.id <= last for first, last in clause.spans)}
        chosen |= named
        hits |= set() if named else _hits(clause.units, rows, words)
    return chosen | hits | _with_turns(hits, by_turn(rows), keep_going)


def _hits(asked: Sequence[Unit], rows: Sequence[Event], words: Sequence[Words]) -> set[int]:
    """Ids of the messages that hold enough of the units, by weight."""
    counted = [[_times(unit, row.counts) for unit in asked] for row in words]
    holders = [sum(1 for row in counted if row[index]) for index in range(len(asked))]
    weights = [log(1 + len(rows) / number) if number else 0.0 for number in holders]
    heard = [weight for weight in weights if weight]
    if not heard:
        return set()
    # What nobody said weighs as much as the rest on average: it might have made the difference.
    total = sum(weight or sum(heard) / len(heard) for weight in weights)
    chosen = set()
    for row, (_, length), times in zip(rows, words, counted, strict=True):
        needed = max(1.0, length / LONG)
        held = sum(weight * min(1.0, number / needed) for weight, number in zip(weights, times, strict=True))
        if held >= (ASKED if row.kind == "user" else OTHER) * total:
            chosen.add(row.id)
    return chosen


def _times(unit: Unit, counts: Mapping[str, int]) -> int:
    return max(min(counts.get(term, 0) for term in way) for way in unit)


def _with_turns(hits: set[int], turns: Sequence[Sequence[Event]], keep_going: bool) -> set[int]:
    """The ids of the whole turns whose user messages are among the hits, and of those that go on with their topic."""
    taken = {index for index, turn in enumerate(turns) if any(row.id in hits for row in turn if row.kind == "user")}
    if keep_going and taken:
        taken |= _neighbours(taken, turns)
    return {row.id for index in taken for row in turns[index]}


def _neighbours(taken: set[int], turns: Sequence[Sequence[Event]]) -> set[int]:
    """Turns up to `REACH` away from those taken, each sharing enough with the one between."""
    # Looked at once more for the few that are compared, rather than kept for all.
    holders = Counter(term for turn in turns for term in _topic(turn))
    joined: set[int] = set()
    for begin in taken:
        for step in (1, -1):
            for index in range(begin + step, begin + step * (REACH + 1), step):
                if index in taken or not 0 <= index < len(turns):
                    break
                silent = step > 0 and _silent(turns[index])
                if not silent and not _alike(_topic(turns[index]), _topic(turns[index - step]), holders, len(turns)):
                    break
                joined.add(index)
    return joined


def _topic(turn: Sequence[Event]) -> frozenset[str]:
    """What the user and the model speak of in it; what tools return is not their choice of words."""
    return telling("\n".join(_own(row) for row in turn if row.kind in ("user", "assistant")))


def _silent(turn: Sequence[Event]) -> bool:
    """Whether the user says nothing new in it."""
    asked = [row.content for row in turn if row.kind == "user"]
    return bool(asked) and all(map(tells_nothing, asked))


def _alike(some: frozenset[str], others: frozenset[str], holders: Mapping[str, int], turns: int) -> bool:
    shared = some & others
    lengths = [sum(log(turns / holders[term]) ** 2 for term in each) for each in (shared, some, others)]
    return len(shared) > 1 and lengths[0] >= ALIKE * sqrt(lengths[1] * lengths[2]) > 0
