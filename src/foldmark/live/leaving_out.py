"""What a client's request becomes where operations are in force [SPEC 5.7]. Pure.

Whatever the context no longer shows is left out, whole exchanges at a time, since operations take whole exchanges.
Everything else keeps its bytes, but for cache marks, which move to the nearest message kept before theirs, and for
thinking that was bound to what is no longer there. What the client injected, and what Foldmark does not know, stays.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct

from foldmark.live.anthropic import (
    Message,
    Sent,
    mark_of,
    marked,
    noticed,
    raw_blocks,
    read,
    result_placeholder,
    unmarked,
    without_thinking,
    written,
)

OPENING = b'{"role":"user","content":[{"type":"text","text":"[Earlier messages were left out.]"}]}'
"""Stands first where the first message kept would be an answer, which the API refuses."""


LOCAL = -1
"""In place of an event: a block of a command to Foldmark, or of its reply. It goes to nobody else."""


class Known(Struct, frozen=True, gc=False):
    """A message that the client sends, in the log: its key and the event of each of its blocks, 0 for a block that has
    none."""

    key: str
    ids: tuple[int, ...] = ()


class View(NamedTuple):
    """What the context shows: whether an event is visible, the placeholder of each evicted result, the messages to put
    in front of the first message with an event after a given one (in order), whether the model binds thinking, and
    which prefix the thinking of an answer is bound to, by the answer's key. `notice` is the text of the event that was
    recorded for a result whose call had left; its block is sent as that."""

    shows: Callable[[int], bool]
    evicted: Mapping[int, str]
    inserted: Sequence[tuple[int, bytes]] = ()
    binds: bool = False
    bound: Mapping[str, str] = {}
    notice: Callable[[int], str] = lambda event_id: ""


class Edited(NamedTuple):
    """The messages to send, and the prefix that the answer's thinking will be bound to, where it is bound to one."""

    messages: list[bytes]
    prefix: str
    changed: bool


class UnpairedError(ValueError):
    """A call without its result, or a result without its call."""


def edited(sent: Sequence[Sent], known: Sequence[Known], view: View) -> Edited:
    """Return what is left of the messages `sent`, each with what is known of it. Raises UnpairedError."""
    ours, theirs = blake2b(digest_size=16), blake2b(digest_size=16)
    found: list[tuple[bytes, Message]] = []
    waiting = list(view.inserted)
    changed, gone = False, set[str]()

    def add(raw: bytes, message: Message) -> None:
        found.append((raw, message))
        if view.binds:
            ours.update(message.key.encode())

    last = len(sent) - 1
    for place, ((raw, message), each) in enumerate(zip(sent, known, strict=True)):
        if waiting:
            begins = next((id for id in each.ids if id > 0), None)
            # What follows on everything stands in front of the prompt that is being asked.
            while waiting and (place == last if begins is None else waiting[0][0] < begins):
                inserted = waiting.pop(0)[1]
                add(inserted, read(inserted))
                changed = True
        kept = _kept(raw, message, each, view)
        if kept is not None and not gone.isdisjoint(message.results):
            kept = _noticed(kept, message, each, view, gone)
        elif kept is None:
            gone.update(message.calls)
        if kept is not None and message.thinks and view.binds:
            bound_to = view.bound.get(message.key, theirs.hexdigest())
            if bound_to != ours.hexdigest():
                left = without_thinking(raw_blocks(kept))
                kept = written(message.role, left) if left else None
        if view.binds:
            theirs.update(message.key.encode())
        if kept is raw:
            add(raw, message)
            continue
        changed = True
        if kept is not None:
            add(kept, read(unmarked(kept)))
        elif (own := mark_of(raw)) is not None:
            _move(found, own)
    if found and found[0][1].role == "assistant" and sent[0].message.role != "assistant":
        found.insert(0, (OPENING, read(OPENING)))
        changed = True
    if changed:
        _check(message for _, message in found)
    prefix = ours.hexdigest() if view.binds else ""
    return Edited(_joined(found) if changed else [raw for raw, _ in found], prefix, changed)


def _joined(found: Iterable[tuple[bytes, Message]]) -> list[bytes]:
    """Return the messages with neighbours of one role in one: what stood between them is gone, and roles alternate. A
    message of the role system does not part them; it stays behind the user's message that it was added to."""
    joined: list[bytes] = []
    before, last = "", 0
    for raw, message in found:
        role = message.role
        if role == "system":
            joined.append(raw)
        elif role == before:
            joined[last] = written(role, (*raw_blocks(joined[last]), *raw_blocks(raw)))
        else:
            before, last = role, len(joined)
            joined.append(raw)
    return joined


def _kept(raw: bytes, message: Message, known: Known, view: View) -> bytes | None:
    """Return what is left of a message: itself, less, or None."""
    ids, shows, evicted = known.ids, view.shows, view.evicted
    for id in ids:
        if id and (id in evicted or not shows(id)):
            break
    else:
        return raw
    blocks = raw_blocks(raw)
    if len(blocks) != len(ids):
        return raw
    left = [
        result_placeholder(block, view.evicted[id]) if id in view.evicted else block
        for id, block in zip(ids, blocks, strict=True)
        if not id or view.shows(id)
    ]
    return written(message.role, left) if left else None


def _noticed(kept: bytes, message: Message, known: Known, view: View, gone: set[str]) -> bytes | None:
    """Return a message with a notice in place of each result whose call has left."""
    ids = dict(zip(message.results, [id for id in known.ids if id], strict=False))
    left = [noticed(block, gone, lambda call: view.notice(ids.get(call, 0))) for block in raw_blocks(kept)]
    blocks = [block for block in left if block]
    return written(message.role, blocks) if blocks else None


def _move(found: list[tuple[bytes, Message]], mark: bytes) -> None:
    """Put a cache mark on the newest message that can carry it."""
    for at in range(len(found) - 1, -1, -1):
        raw, message = found[at]
        if mark_of(raw) is not None:
            return
        if (made := marked(raw, mark)) is not None:
            found[at] = (made, message)
            return


def _check(messages: Iterable[Message]) -> None:
    """Raise UnpairedError unless every result directly follows its call, and every call has its result."""
    open_calls: set[str] = set()
    for message in messages:
        if message.role == "assistant":
            if open_calls and not message.results:
                raise UnpairedError(f"calls without a result: {len(open_calls)}")
            open_calls = set(message.calls)
        elif message.results:
            if not set(message.results) <= open_calls:
                raise UnpairedError("a result without its call")
            open_calls -= set(message.results)
    if open_calls:
        raise UnpairedError(f"calls without a result: {len(open_calls)}")


def aligned(known: Sequence[Known], keys: Sequence[str]) -> list[int]:
    """Return the place in `known` of each message that the client still sends, as far as it only left out some: the
    messages behind the last place are new."""
    same = 0
    for mine, key in zip(known, keys, strict=False):
        if mine.key != key:
            break
        same += 1
    places = list(range(same))
    if same == len(known):
        return places
    from difflib import SequenceMatcher  # few clients edit what they have sent

    before = [each.key for each in known[same:]]
    for begin, at, size in SequenceMatcher(None, before, list(keys[same:]), autojunk=False).get_matching_blocks():
        if same + at != len(places):
            break
        places += range(same + begin, same + begin + size)
    return places
