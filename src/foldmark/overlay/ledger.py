"""The ledger of a foreign transcript: the events that its messages stand for, and what is new, left or came back [SPEC
5.7, 8].

A program's messages are compared with those that the log knows. What is new is appended, what is no longer sent leaves
by an operation of actor `system` that can be restored. Which message stands for which events is recorded too, as the
data of a `record` event, so that another process can go on: the places of the messages that stay, and those that
follow.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any

from msgspec import Struct

from foldmark.core.assembly.caching import common_length
from foldmark.core.assembly.eviction import client_placeholder
from foldmark.core.events import Event
from foldmark.log import Agent
from foldmark.operations.decide import exactly
from foldmark.overlay.pieces import ClientMessage, PieceForm
from foldmark.request.client_sizes import LOCAL
from foldmark.wires.parts import CallMessage, Part, ResultMessage, TextMessage

TOLD = LOCAL
"""Below it are the events of blocks that the client itself wrote, as they are appended."""


class KnownMessage(Struct, frozen=True, gc=False):
    """A message that the client sends, as the log knows it: its key and the event id of each block, 0 for a block
    that no operation changes. `told` are the events of blocks that the client itself wrote: they always stay."""

    key: str
    ids: tuple[int, ...] = ()
    told: tuple[int, ...] = ()

    @classmethod
    def of(cls, key: str, ids: Sequence[int]) -> "KnownMessage":
        """Return a message with these events of its blocks, in which `TOLD` - id stands for one that always stays."""
        told = tuple(TOLD - id for id in ids if id < TOLD)
        return cls(key, tuple(id if id >= TOLD else 0 for id in ids), told)


def repeated(known: Sequence[KnownMessage], keys: Sequence[str]) -> list[KnownMessage]:
    """Return an entry for each message of a request outside the conversation that repeats a part of it in order: its
    beginning if both begin with the same message, otherwise its newest part."""
    from difflib import SequenceMatcher

    begins = bool(known) and list(keys[:1]) == [known[0].key]
    before, after = list(known) if begins else list(known)[::-1], list(keys) if begins else list(keys)[::-1]
    found = [KnownMessage(key) for key in after]
    # Among equal messages, the matcher prefers the first ones.
    for begin, at, size in SequenceMatcher(None, [each.key for each in before], after, False).get_matching_blocks():
        found[at : at + size] = before[begin : begin + size]
    return found if begins else found[::-1]


def placed(form: PieceForm, message: ClientMessage, ids: Sequence[int]) -> tuple[int, ...] | None:
    """Return the event of each block of a message that the program has divided differently since it was recorded, or
    that holds other texts of its own: the events in order. None if they cannot be matched."""
    says, said = [part is not None for part in form.parts(message)], [id for id in ids if id]
    if says.count(True) != len(said):
        return None
    left = iter(said)
    return tuple(next(left) if each else 0 for each in says)


def aligned(known: Sequence[KnownMessage], messages: Sequence[ClientMessage], asked: int) -> list[int | None]:
    """Return the place in `known` of each message that the client still sends, None for a new one.

    A client that compacts its session may keep some of its messages and send them in another order. Then the messages
    from `asked` on, which are being asked, count as new even if the client sent equal ones before: those may have left.
    """
    before, after = [each.key for each in known], [message.key for message in messages]
    same = common_length(before, after)
    places: list[int | None] = [*range(same), *[None] * (len(after) - same)]
    if same == len(known):
        return places
    tail = common_length(before[same:][::-1], after[same:][::-1])
    places[len(after) - tail :] = range(len(before) - tail, len(before))
    last = min(len(after) - tail, asked)
    from difflib import SequenceMatcher  # few clients edit what they have sent

    left = dict.fromkeys(range(same, len(before) - tail))
    matcher = SequenceMatcher(None, [before[at] for at in left], after[same:last], autojunk=False)
    for begin, at, size in matcher.get_matching_blocks():
        for step in range(size):
            places[same + at + step] = same + begin + step
            del left[same + begin + step]
    moved: dict[str, list[int]] = {}
    for place in left:
        moved.setdefault(before[place], []).append(place)
    for at in range(last - 1, same - 1, -1):  # among equal messages, the client keeps the newest
        if places[at] is None and moved.get(after[at]):
            places[at] = moved[after[at]].pop()
    return places


def asked_in(messages: Sequence[ClientMessage]) -> int:
    """Return the place of the message that a request asks, which only system messages may follow; the number of
    messages if there is none, for example if an answer is to be continued."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role != "system":
            return at if messages[at].role in ("user", "tool") else len(messages)
    return len(messages)


def ranges(places: Sequence[int]) -> list[list[int]]:
    """Return places as ranges, each with its first and last place."""
    runs = (list(run) for _, run in groupby(enumerate(places), lambda each: each[1] - each[0]))
    return [[run[0][1], run[-1][1]] for run in runs]


def ledger_data(places: Sequence[int], added: Sequence[KnownMessage]) -> dict[str, Any]:
    """Return a change of a ledger as data: the places of the messages that stay, and those that follow them."""
    data = {"kept": ranges(places), "added": [[each.key, *each.ids] for each in added]}
    told = [[at, *each.told] for at, each in enumerate(added) if each.told]
    return {**data, "told": told} if told else data


def followed(before: Sequence[KnownMessage], data: Mapping[str, Any]) -> list[KnownMessage]:
    """Return the messages of a ledger after a recorded change."""
    told = {at: tuple(ids) for at, *ids in data.get("told", ())}
    added = [KnownMessage(key, tuple(ids), told.get(at, ())) for at, (key, *ids) in enumerate(data["added"])]
    return [*(before[place] for first, last in data["kept"] for place in range(first, last + 1)), *added]


def append_part(agent: Agent, part: Part, dialect: str, time: datetime | None = None) -> int:
    """Append what a piece says, and return its event. `dialect` is that of its blocks."""
    if isinstance(part, CallMessage):
        return agent.append_tool_call(
            part.name, part.args, call_id=part.call_id, dialect=dialect, created_at=time, data=part.data
        )
    if isinstance(part, ResultMessage):
        return agent.append_tool_result(
            part.call_id, part.text, dialect=dialect, is_error=part.is_error, created_at=time, data=part.data
        )
    # Verbatim: a state block at the end of a message does not come from a model of this conversation.
    return agent.append(part.kind, part.text, created_at=time, data=part.data, dialect=dialect, verbatim=True)


def leave(agent: Agent, events: Iterable[int], reason: str) -> int:
    """Remove exactly these events from the context, and return the operation. Whole exchanges could include messages
    that are still sent."""
    return agent.operate(partial(exactly, ids=events), actor="system", reason=reason).event_id


class CameBack:
    """Finds the events of contents that a program sends again: calls and results by their ids, texts in order."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._called = {(each.kind, each.call_id): each for each in events if each.kind in ("tool_call", "tool_result")}
        self._texts = [each for each in events if each.kind not in ("tool_call", "tool_result")]

    def event_of(self, part: Part) -> Event | None:
        """Return the event with this content; None if it is new. A result may come as its placeholder."""
        if isinstance(part, TextMessage):
            text = part.text.strip()
            at = next((at for at, each in enumerate(self._texts) if each.content.strip() == text), None)
            return None if at is None else self._texts.pop(at)
        found = self._called.get((part.kind, part.call_id))
        if found is not None and isinstance(part, ResultMessage):
            forms = found.content.strip(), client_placeholder(len(found.content))
            found = found if part.text.strip() in forms else None
        return found and self._called.pop((part.kind, part.call_id))
