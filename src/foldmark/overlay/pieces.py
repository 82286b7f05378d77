"""The pieces of a foreign transcript: its messages as their program writes them, and the form in which they can be cut
[SPEC 5.7]. Pure.

The bytes belong to the program: a message that is kept keeps its bytes. Messages are compared by keys, which leave out
anything that varies between transcripts without changing the message.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec import Raw, Struct

from foldmark.wires import lenient_json
from foldmark.wires.lenient_json import as_object, as_text
from foldmark.wires.parts import Part

_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


class MisplacedError(ValueError):
    """A message that the provider refuses at its place: a call without its result, a result without its call, or a
    system message that does not follow a user's."""


class ClientMessage(Struct, frozen=True, gc=False):
    """A message without its cache marks: its role, its blocks as JSON, and its key. `calls` and `results` are the ids
    of the tool calls that it makes and answers. `thinks` is True if it contains thinking."""

    role: str
    blocks: tuple[bytes, ...]
    key: str
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    thinks: bool = False


class SentMessage(NamedTuple):
    """A message with its bytes in the body, cache marks included. `alone` is True if the message before it has left, or
    if the client sends both as one."""

    raw: bytes
    message: ClientMessage
    alone: bool = False


class PieceForm(ABC):
    """The form of the messages of one wire, as far as an edit has to know it. `opening` is the message that is put
    first if the first one kept would be an answer."""

    opening: ClassVar[bytes]

    @abstractmethod
    def read(self, raw: bytes) -> ClientMessage:
        """Read a message. Raises msgspec.MsgspecError."""

    @abstractmethod
    def blocks(self, raw: bytes) -> tuple[bytes, ...]:
        """Return the blocks of a message with their cache marks."""

    @abstractmethod
    def rewritten(self, raw: bytes, blocks: Iterable[bytes]) -> bytes:
        """Return a message with these blocks instead of its own."""

    @abstractmethod
    def parts(self, message: ClientMessage) -> list[Part | None]:
        """Return the content of each block, as the log records it; None for an empty block or one that the client
        injected."""

    @abstractmethod
    def result_of(self, block: Mapping[str, Any]) -> str | None:
        """Return the id of the call that a block answers; None for any other block."""

    @abstractmethod
    def placeholder(self, block: Mapping[str, Any], text: str) -> bytes:
        """Return a tool result with `text` instead of its content. It keeps its cache mark."""

    @abstractmethod
    def notice(self, block: Mapping[str, Any], text: str) -> bytes:
        """Return a text block in place of a tool result. It keeps its cache mark."""

    @abstractmethod
    def is_thinking(self, block: Mapping[str, Any]) -> bool:
        """Return True for a block of thinking."""

    def kept(self, blocks: Sequence[bytes], shown: Sequence[bool]) -> Sequence[bool]:
        """Return, for each block of a message, True if it stays; `shown` is True for those that the context shows."""
        return shown

    def mark_of(self, raw: bytes) -> bytes | None:
        """Return the newest cache mark of a message; None if it has none."""
        return None

    def marked(self, raw: bytes, mark: bytes) -> bytes | None:
        """Return a message with a cache mark on its last block; None if that block cannot carry one, or has one."""
        return None

    def joined(self, found: Sequence[SentMessage]) -> list[SentMessage]:
        """Return the messages in a form that the wire accepts after others have been removed between them."""
        return list(found)

    def check(self, messages: Sequence[ClientMessage]) -> None:
        """Raise MisplacedError unless every result directly follows its call, every call has its result, and every
        message stands where the wire allows it."""
        open_calls: set[str] = set()
        for message in messages:
            if message.role == "assistant":
                if open_calls and not message.results:
                    raise MisplacedError(f"calls without a result: {len(open_calls)}")
                open_calls = set(message.calls)
            elif message.results:
                if not set(message.results) <= open_calls:
                    raise MisplacedError("a result without its call")
                open_calls -= set(message.results)
        if open_calls:
            raise MisplacedError(f"calls without a result: {len(open_calls)}")

    def check_blocks(self, message: ClientMessage) -> None:
        """Raise MisplacedError if the wire refuses the blocks of a message."""
        if not message.blocks:
            raise MisplacedError(f"an empty message of role {message.role}")
        if message.thinks and self.is_thinking(decoded(message.blocks[-1])):
            raise MisplacedError("thinking without anything after it")


def key_of(role: str, blocks: Iterable[bytes]) -> str:
    """Return the key of a message with these blocks."""
    return blake2b(role.encode() + b"\0" + b"\n".join(blocks), digest_size=16).hexdigest()


def text_of(block: bytes) -> str:
    """Return the text in a block; empty if it has none."""
    return as_text(decoded(block).get("text"))


def decoded(block: bytes) -> dict[str, Any]:
    """Return a block as a dict; an empty one if the block is not a JSON object."""
    try:
        found = msgspec.json.decode(block)
    except msgspec.DecodeError:  # a lone surrogate, or a number that is too big
        found = lenient_json.decode(block)
    return as_object(found)


def items_of(raw: bytes) -> list[bytes]:
    """Return the items of a message, which are joined by commas. Raises msgspec.MsgspecError."""
    whole = b"[" + raw + b"]"
    try:
        found = msgspec.json.decode(whole, type=list[Raw])
    except msgspec.DecodeError:
        found = msgspec.json.decode(without_surrogates(whole), type=list[Raw])
    return list(map(bytes, found))


def without_surrogates(text: bytes) -> bytes:
    """Return JSON with each lone surrogate replaced by U+FFFD, as an escape of the same length."""
    return _SURROGATE.sub(rb"\\ufffd", text)
