"""Texts of a message that clients such as Gemini CLI and qwen-code join, as blocks of their own. Pure.

These clients join prompts that were typed while they worked (`foldmark.text.queued`), and they join the texts of an
answer. If one of them is a command to Foldmark or Foldmark's own text, each text becomes a block. So it is recorded and
left out like any other block. `united` joins the remaining prompts again.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from foldmark.live.clients.dialect import ClientAnswer, ClientDialect, TypedPrompt
from foldmark.live.clients.weaving import BEHIND
from foldmark.overlay.pieces import ClientMessage, SentMessage, decoded
from foldmark.text import queued
from foldmark.wires.parts import TextMessage

_MARK = "foldmark_prompt"
"""A member that exists only here: it marks one of the prompts that the client has joined."""


def parted(block: bytes, is_command: Callable[[str], bool]) -> list[bytes]:
    """Return each prompt of a block as a block; the block alone if no command is among several prompts."""
    found = decoded(block)
    texts = queued.unjoined(str(found.get("text", "")), is_command)
    if len(texts) < 2:
        return [block]
    return [msgspec.json.encode({**found, "text": text, _MARK: True}) for text in texts]


def united(blocks: Iterable[bytes]) -> list[bytes]:
    """Return blocks as the client sends them."""
    made: list[bytes] = []
    texts: list[str] = []
    for raw in blocks:
        block = decoded(raw) if _MARK.encode() in raw else {}
        if _MARK not in block:
            made.append(raw)
            texts = []
            continue
        again = bool(texts)
        texts.append(block.pop("text"))
        del block[_MARK]
        made[len(made) - again :] = [msgspec.json.encode({**block, "text": queued.JOIN.join(texts)})]
    return made


def unwoven(blocks: Sequence[bytes], said: Iterable[str]) -> list[bytes] | None:
    """Return the blocks of an answer with one of the texts `said`, which stands before it, as a block of its own; None
    if there is none."""
    first = decoded(blocks[0]) if blocks else {}
    text = first.get("text")
    if not isinstance(text, str):
        return None
    for own in said:
        rest = _behind(text, own)
        if rest is not None:
            behind = [msgspec.json.encode({**first, "text": rest})] if rest else []
            return [msgspec.json.encode({"text": own}), *behind, *blocks[1:]]
    return None


def _behind(text: str, own: str) -> str | None:
    """Return what follows Foldmark's own text; None if the text does not begin with it. The client trims texts when it
    goes on with an earlier session."""
    if text.strip() == own.strip():
        return ""
    for form in (own, own.lstrip()):
        if text.startswith(form + BEHIND):
            return text[len(form + BEHIND) :]
    return None


class JoiningClient(ClientDialect):
    """A wire whose clients join texts."""

    @abstractmethod
    def as_divided(self, raw: bytes, blocks: Iterable[bytes]) -> bytes:
        """Return a message with these blocks, some of which may be parts of one text."""

    def rewritten(self, raw: bytes, blocks: Iterable[bytes]) -> bytes:
        return self.as_divided(raw, united(blocks))

    def prompt(self, message: ClientMessage) -> TypedPrompt | None:
        """Return the text that the person typed last in a user's message; None if anything but injected text follows
        it."""
        # Prompts that were not answered precede the last one, as blocks of the same message.
        for at in range(len(message.blocks) - 1, -1, -1):
            block = decoded(message.blocks[at])
            text = block.get("text")
            if message.role != "user" or block.get("type", "text") != "text" or not isinstance(text, str):
                return None
            if not self.agent.is_injected(text):
                return TypedPrompt(at, text.strip())
        return None

    def prompts(self, message: ClientMessage) -> list[TypedPrompt]:
        found, last = enumerate(map(decoded, message.blocks)), self.prompt(message)
        parted = [TypedPrompt(at, block["text"].strip(), queued=True) for at, block in found if _MARK in block]
        return parted or ([] if last is None else [last._replace(joined=queued.JOIN in last.text)])

    def parted(self, sent: SentMessage, is_command: Callable[[str], bool]) -> SentMessage:
        typed = self.prompt(sent.message)
        if typed is None or queued.JOIN not in typed.text:
            return sent
        blocks = list(sent.message.blocks)
        blocks[typed.block : typed.block + 1] = parted(blocks[typed.block], is_command)
        return self._with(sent, blocks)

    def unwoven(self, sent: SentMessage, said: Collection[str]) -> SentMessage:
        blocks = unwoven(sent.message.blocks, said)
        return sent if blocks is None else self._with(sent, blocks)

    def _with(self, sent: SentMessage, blocks: list[bytes]) -> SentMessage:
        """Return a message with its texts divided; its key stays."""
        if len(blocks) == len(sent.message.blocks):
            return sent
        raw = self.as_divided(sent.raw, blocks)
        return SentMessage(raw, replace(self.read(raw), key=sent.message.key))

    def woven(self, answer: ClientAnswer, said: str) -> ClientAnswer | None:
        blocks, first = unwoven(answer.blocks, [said]), answer.parts[0] if answer.parts else None
        if blocks is None or not isinstance(first, TextMessage):
            return None
        rest = [] if len(blocks) == len(answer.blocks) else [replace(first, text=str(decoded(blocks[1])["text"]))]
        return answer._replace(parts=[TextMessage("assistant", said), *rest, *answer.parts[1:]], blocks=tuple(blocks))
