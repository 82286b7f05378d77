"""`RoleClient`: wires whose messages have a role and a list of blocks, and whose roles alternate [SPEC 5.7]. Pure."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from foldmark.core.events import Event
from foldmark.live.clients.dialect import ClientDialect
from foldmark.overlay.pieces import SentMessage, without_surrogates


class RoleClient(ClientDialect):
    """A wire whose messages have a role and a list of blocks, and whose roles alternate.

    `message` is the type of a message. `member` is the name of its blocks on the wire, `model` that of the model's
    role.
    """

    message: ClassVar[type["RoleMessage"]]
    moves_systems = True
    member: ClassVar[bytes]
    model: ClassVar[str]

    @abstractmethod
    def blocks_of(self, content: Any) -> tuple[bytes, ...]:
        """Return the blocks in the content of a message as JSON."""

    @abstractmethod
    def blocks_for(self, event: Event, before: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the blocks of an event, without thinking; `before` are the preceding blocks of the same message."""

    def split(self, raw: bytes) -> tuple[str, tuple[bytes, ...]]:
        """Return the role and the blocks of a message."""
        try:
            message = msgspec.json.decode(raw, type=self.message)
        except msgspec.DecodeError:
            message = msgspec.json.decode(without_surrogates(raw), type=self.message)
        return message.role, self.blocks_of(message.content)

    def written(self, role: str, blocks: Iterable[bytes]) -> bytes:
        """Return a message with these blocks."""
        return b'{"role":"' + role.encode() + b'","' + self.member + b'":[' + b",".join(blocks) + b"]}"

    def blocks(self, raw: bytes) -> tuple[bytes, ...]:
        return self.split(raw)[1]

    def rewritten(self, raw: bytes, blocks: Iterable[bytes]) -> bytes:
        return self.written(self.split(raw)[0], blocks)

    def joined(self, found: Sequence[SentMessage]) -> list[SentMessage]:
        joined: list[SentMessage] = []
        last, before = -1, ""  # place and role of the newest message that is not a system message
        systems: list[SentMessage] = []  # waiting for the end of a user's messages, where alone they may stand
        moved = False  # one of them stood elsewhere

        def placed() -> list[SentMessage]:
            texts = [each for each in systems if each.message.blocks]
            if not moved or len(texts) < 2:
                return systems
            # One message, since the API may refuse two. Those without text have other members that a text may not have.
            raw = self.rewritten(texts[0].raw, (block for raw, *_ in texts for block in self.blocks(raw)))
            return [SentMessage(raw, self.read(raw)), *(each for each in systems if not each.message.blocks)]

        def typed() -> list[bytes]:
            """Take what a person typed from the waiting messages: it keeps its place before later messages."""
            nonlocal systems
            taken, systems = systems, []
            return [block for each in taken for block in said(each)]

        def said(system: SentMessage) -> tuple[bytes, ...]:
            """Return what a person typed in a system message as blocks of a user, and let the rest wait."""
            prompts = {each.block for each in self.prompts(system.message)}
            blocks = list(enumerate(self.blocks(system.raw)))
            rest = [block for at, block in blocks if at not in prompts]
            if rest or not blocks:
                raw = self.rewritten(system.raw, rest) if prompts else system.raw
                systems.append(SentMessage(raw, self.read(raw)) if prompts else system)
            return self.split(self.written("user", (block for at, block in blocks if at in prompts)))[1]

        for each in found:
            if each.message.role == "system" and before != "user" and self.prompts(each.message):
                raw = self.written("user", said(each))  # the message before it has left
                moved |= bool(systems)
                each = SentMessage(raw, self.read(raw))
            if each.message.role == "system":
                systems.append(each)
                moved |= each.alone or before != "user"
            elif each.message.role == before:
                queued = typed() if before == "user" else []
                raw = self.rewritten(each.raw, (*self.blocks(joined[last].raw), *queued, *self.blocks(each.raw)))
                joined[last] = SentMessage(raw, self.read(raw))
                moved |= bool(systems)
            else:
                if before == "user":
                    joined += placed()
                    systems, moved = [], False
                last, before = len(joined), each.message.role
                joined.append(each)
        return joined + placed() if before == "user" else joined

    def messages_of(self, events: Iterable[Event]) -> list[bytes]:
        found: list[tuple[str, list[dict[str, Any]]]] = []
        for event in events:
            role = self.model if event.kind in ("assistant", "summary", "tool_call") else "user"
            before = found[-1][1] if found and found[-1][0] == role else []
            blocks = self.blocks_for(event, before)
            if blocks and not before:
                found.append((role, blocks))
            else:
                before.extend(blocks)
        return [self.written(role, map(msgspec.json.encode, blocks)) for role, blocks in found]


class RoleMessage(Struct):
    """The members of a `RoleClient` message that are read. `content` is renamed as on the wire."""

    role: str
    content: Any
