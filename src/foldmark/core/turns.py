"""Turns and exchanges: which messages belong together [SPEC 1, 3].

A message opens a turn if none is open, and a `turn_ended` event ends it; the id of a turn (GID) is that of the event
that opened it. An exchange is a maximal run of consecutive tool calls of one turn, with all their results. It is open
while one of its visible calls has no result and its turn has not ended.

A provider refuses a call without its result, and a result without its call. So no operation may split an exchange: a
cut moves to the edge of the exchange (`settle`), and a selection is extended to all of it (`whole`).
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from foldmark.core.events import OUTSIDE_KINDS, ROLES, Event


def place(kind: str, event_id: int, open_turn: int | None) -> tuple[int | None, int | None]:
    """Return the turn that an appended event belongs to, and the turn that is open after it.

    A `summary` is a separate turn and leaves the open turn open. A `system` message opens no turn. Every event that is
    not a message belongs to the open turn, unless others record it (`OUTSIDE_KINDS`).
    """
    if kind in OUTSIDE_KINDS:
        return None, open_turn
    if kind == "turn_ended":
        return open_turn, None
    if kind == "summary":
        return event_id, open_turn
    if kind in ROLES and kind != "system" and open_turn is None:
        return event_id, event_id
    return open_turn, open_turn


class Message(NamedTuple):
    """A message without its text: enough to decide which messages belong together."""

    id: int
    agent_id: str
    turn_id: int | None
    kind: str
    answers: int | None


class Exchange(NamedTuple):
    """Consecutive calls of one turn, their results, and the text that the model wrote before the first call."""

    text: int | None
    calls: tuple[int, ...]
    results: tuple[int, ...]
    unanswered: tuple[int, ...]

    @property
    def first(self) -> int:
        """The id of the first message of the response that made the calls."""
        return self.calls[0] if self.text is None else self.text

    @property
    def members(self) -> tuple[int, ...]:
        """The calls and the results, without the text."""
        return (*self.calls, *self.results)


def exchange_of(run: Sequence[Message], before: Message | None, results: Iterable[Message]) -> Exchange:
    """Return the exchange of a maximal run of consecutive calls, given the message before it and all results of its
    calls.

    Its results are all that answer the calls, wherever they are: a client may send another result in place of one. The
    text of the response is the assistant message directly before the first call, in the same turn.
    """
    answers: dict[int | None, list[int]] = {}
    for result in results:
        answers.setdefault(result.answers, []).append(result.id)
    calls = tuple(call.id for call in run)
    is_text = before is not None and before.kind == "assistant" and before.turn_id == run[0].turn_id
    return Exchange(
        before.id if before is not None and is_text else None,
        calls,
        tuple(result for call in calls for result in answers.get(call, ())),
        tuple(call for call in calls if call not in answers),
    )


def settle(position: int, found: Iterable[Exchange], still_open: Sequence[Exchange]) -> int:
    """Return the position of a cut near `position` that splits no exchange [SPEC 3].

    Inside an exchange that is `still_open`, it is just before the first call and the text of that response. Inside
    another one of `found`, which are complete, it is after the last result. Elsewhere it is `position`.
    """
    closed = [exchange for exchange in found if exchange not in still_open]
    # The end of one exchange may be inside another one whose results came later.
    while around := [max(e.members) for e in closed if e.calls[0] <= position < max(e.members)]:
        position = max(around)
    return min([position, *(e.first - 1 for e in still_open if e.calls[0] <= position)])


def whole(ids: Collection[int], found: Iterable[Exchange]) -> set[int]:
    """Return the ids to add to `ids` so that no exchange is split: the members of each exchange touched, less `ids`."""
    named = frozenset(ids)
    return {id for exchange in found if not named.isdisjoint(exchange.members) for id in exchange.members} - named


class Turn(NamedTuple):
    """Messages of one turn, in order; `id` is its GID, None for messages outside of turns."""

    id: int | None
    messages: tuple[Event, ...]


def naming(messages: Sequence[Event]) -> Sequence[Event]:
    """Return the messages of a turn from the one on that a turn is named after: the first that no client wrote by
    itself, if there is one."""
    return next((messages[at:] for at, each in enumerate(messages) if each.kind != "client"), messages)


def newest_turns(newest_first: Iterable[Event], count: int) -> list[Turn]:
    """Return the newest `count` turns of messages that come newest first; the result is in the order of the log."""
    turns: list[Turn] = []
    current: list[Event] = []
    for message in newest_first if count > 0 else ():
        if current and message.turn_id != current[-1].turn_id:
            turns.append(Turn(current[-1].turn_id, tuple(reversed(current))))
            current = []
            if len(turns) >= count:
                break
        current.append(message)
    if current and len(turns) < count:
        turns.append(Turn(current[-1].turn_id, tuple(reversed(current))))
    turns.reverse()
    return turns
