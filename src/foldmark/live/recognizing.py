"""Recognize messages that a client sends in another form than before [SPEC 5.7]. Pure.

- If a request got no answer, some clients send the next prompt in one message with the one before it.
- When the model changes, clients leave out the thinking of earlier answers, which another model could not read.
- When the model changes, Claude Code moves its own texts between a user's message and a system message behind it.
- Claude Code sends what a hook says about a result as a text behind it, and in later requests at the end of the result.

All are the same messages as before. So a request is divided as its messages are known. An answer without its thinking,
or a user's message with other texts of the client, has the key that it had before.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from foldmark.core.assembly.caching import common_length
from foldmark.live.clients.dialect import ClientDialect, ClientRequest
from foldmark.overlay.ledger import KnownMessage
from foldmark.overlay.pieces import ClientMessage, SentMessage, decoded

_SEAM = re.compile(rb'\\n"(?=[,}])')
"""The line feed that Claude Code puts behind a text that another one follows in the same message."""


class OtherForm(NamedTuple):
    """The form in which a client may send a message again, without its thinking or without the client's own texts: the
    key that it has then, the places of the blocks that are missing, and the events of all blocks."""

    without: str
    places: tuple[int, ...]
    ids: tuple[int, ...]

    @property
    def alone(self) -> bool:
        """True if there is nothing else in the message."""
        return len(self.places) == len(self.ids)

    def with_blocks(self, known: KnownMessage, blocks: int) -> KnownMessage:
        """Return the message, as it is known, with an event for each of the `blocks` that the client sends of it, in
        one form or the other; the same object if it has."""
        if len(known.ids) == blocks:
            return known
        ids = self.ids if blocks == len(self.ids) else [id for at, id in enumerate(self.ids) if at not in self.places]
        return replace(known, ids=tuple(ids)) if len(ids) == blocks else known


def injected(dialect: ClientDialect, message: ClientMessage) -> tuple[str, list[int]] | None:
    """Return the key of a user's message without what the client itself put into it, and the places of that; None if
    that is nothing, or all of it."""
    if message.role != "user":
        return None
    places = [at for at, part in enumerate(dialect.parts(message)) if part is None]
    said = [dialect.without_own(block) for at, block in enumerate(message.blocks) if at not in places]
    if not said or (not places and said == list(message.blocks)):
        return None
    without = dialect.key_without(message, [_SEAM.sub(b'"', block) for block in said])
    return (without, places) if without else None


def forms_data(dialect: ClientDialect, messages: Iterable[ClientMessage]) -> dict[str, Any]:
    """Return the other forms of messages as data of a gateway's record: of answers without their thinking, of users'
    messages without the client's own texts."""
    thoughts, own = dict[str, list[Any]](), dict[str, list[Any]]()
    for each in messages:
        if (found := injected(dialect, each)) is not None:
            own[each.key] = [found[0], len(each.blocks), *found[1]]
        if not each.thinks:
            continue
        places = [at for at, block in enumerate(each.blocks) if dialect.is_thinking(decoded(block))]
        rest = (block for at, block in enumerate(each.blocks) if at not in places)
        if places and (without := dialect.answer_key(rest)):
            thoughts[each.key] = [without, *places]
    return {name: found for name, found in (("thoughts", thoughts), ("injected", own)) if found}


def forms_in(about: Mapping[str, Any]) -> dict[str, OtherForm]:
    """Return the other forms of the messages that a gateway's record adds, by their keys."""
    ids = {key: tuple(ids) for key, *ids in about["added"]}
    found = {key: (without, at) for key, (without, *at) in about.get("thoughts", {}).items()}
    found |= {key: (without, at) for key, (without, _, *at) in about.get("injected", {}).items()}
    return {key: OtherForm(without, tuple(at), ids[key]) for key, (without, at) in found.items()}


def recognized(request: ClientRequest, keys: Sequence[str], forms: Mapping[str, OtherForm]) -> ClientRequest:
    """Return a request with its messages as they are known: by `keys`, in order, and by their other `forms`."""
    same = common_length(keys, [each.message.key for each in request.sent])
    if same == len(keys) or same == len(request.sent):
        return request
    finder = _Finder(request.dialect, keys, same, forms)
    found = [part for each in request.sent[same:] for part in finder.found(each)]
    return replace(request, sent=(*request.sent[:same], *found))


class _Finder:
    """Finds messages among `keys` in order, from the place `at` on."""

    def __init__(self, dialect: ClientDialect, keys: Sequence[str], at: int, forms: Mapping[str, OtherForm]) -> None:
        self._dialect, self._keys, self._at, self._forms = dialect, keys, at, forms
        self._spoken = [forms[key].without if key in forms else key for key in keys]
        self._last = {key: place for place, key in enumerate(keys)}
        self._last_spoken = {key: place for place, key in enumerate(self._spoken)}

    def found(self, one: SentMessage) -> Iterator[SentMessage]:
        """Yield a message in its known form: the messages of which it consists, or itself."""
        message = one.message
        if message.role == "assistant" and not message.thinks:
            if self._last_spoken.get(message.key, -1) >= self._at:
                self._at = self._spoken.index(message.key, self._at) + 1
                one = one._replace(message=replace(message, key=self._keys[self._at - 1]))
            yield one
        elif self._passes(message.key) or message.role != "user":
            yield one
        elif (key := self._without_own(message)) is not None:
            yield one._replace(message=replace(message, key=key))
        else:
            yield from self._divided(one)

    def _without_own(self, message: ClientMessage) -> str | None:
        """Go behind the next message that differs only in the client's own blocks, and return its key; None if there
        is none."""
        now = injected(self._dialect, message)
        spoken, places = (message.key, []) if now is None else now
        if self._last_spoken.get(spoken, -1) < self._at:
            return None
        place = self._spoken.index(spoken, self._at)
        before = self._forms.get(self._keys[place])
        # The events of blocks are found by their number, or by their places (`TranscriptView.sent`).
        if before is not None and len(before.ids) == len(message.blocks) and tuple(places) != before.places:
            return None
        self._at = place + 1
        return self._keys[place]

    def _divided(self, one: SentMessage) -> Iterator[SentMessage]:
        dialect, blocks = self._dialect, self._dialect.blocks(one.raw)
        for size in range(1, len(blocks) if self._at < len(self._keys) else 0):
            raw = dialect.rewritten(one.raw, blocks[:size])
            alone = dialect.rewritten(one.raw, (*blocks[: size - 1], _SEAM.sub(b'"', blocks[size - 1])))
            first = next((each for each in map(dialect.read, (raw, alone)) if self._passes(each.key)), None)
            if first is None and (key := self._without_own(part := dialect.read(alone))) is not None:
                first = replace(part, key=key)
            if first is not None:
                yield one._replace(raw=raw, message=first)
                rest = dialect.rewritten(one.raw, blocks[size:])
                yield from self.found(SentMessage(rest, dialect.read(rest), True))
                return
        yield one

    def _passes(self, key: str) -> bool:
        """Go behind the next message with a key. Return False if there is none."""
        if self._last.get(key, -1) < self._at:
            return False
        self._at = self._keys.index(key, self._at) + 1
        return True
