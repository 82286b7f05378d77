"""Estimate the tokens of a session from the usage that it reports [SPEC 5.4, 8].

From one answer to the next, a request grows by the messages between them. Their bytes, divided by the growth of the
reported tokens, are the bytes of a token; what the client sends by itself (its system prompt, its tools) cancels out.
That part is what is left of the newest report.
"""

from collections.abc import Collection
from typing import NamedTuple

import msgspec
from msgspec import Struct

from foldmark.core.assembly.media import media_of
from foldmark.formats.messages import AnswerUsage
from foldmark.request.client_sizes import ENVELOPE, RESULT
from foldmark.tokens.counting import uncalibrated
from foldmark.wires.lenient_json import member
from foldmark.wires.parts import CallMessage, Part, ResultMessage

STEP_RATIOS = (1.5, 8.0)
"""Bytes per token between which a step counts. Outside of them, something else came or left: tools that the client
loaded, or results that it no longer sends."""

EVIDENCE = 1000
"""Minimum tokens of all steps together to take their ratio for that of the session."""

CALL = 60
"""Bytes of a call besides its name and its arguments."""


class Amount(NamedTuple):
    """The size of messages: the bytes of their texts in a request, and the tokens of their images and documents."""

    bytes: int = 0
    media: int = 0


class SessionTokens(Struct, frozen=True):
    """The estimated tokens of the request with which the client goes on, by what its provider reported before."""

    model: str
    """The model of the newest answer."""
    messages: int
    """Tokens of the messages."""
    client: int
    """Tokens of what the client sends besides them: its system prompt and its tools."""
    bytes_per_token: float
    """Measured in this session, or the default of the model if the session is too short."""


class Measured(Struct):
    """What is measured in the active messages of a session. A later import goes on with it."""

    model: str = ""
    """The model of the newest answer. The rest is about this model."""
    bytes: int = 0
    """Bytes of all steps that count."""
    tokens: int = 0
    """Tokens of these steps, as reported."""
    sent: Amount = Amount()
    """The messages so far."""
    asked: Amount = Amount()
    """Those that precede the newest answer."""
    newest: tuple[Amount, int] | None = None
    """The messages of the newest request whose usage is known, and the input tokens that were reported for it."""
    is_whole: bool = True
    """False if the size of some messages that are sent is unknown. Then nothing can be said about the client's part."""
    response: str | None = None
    """The id of the answer to which the newest message belongs."""
    answers: bool = False
    """True if the newest message is an answer's."""

    def add(self, part: Part, response: str | None) -> Amount:
        """Note a message that is sent, and the id of its answer. Return its size."""
        answers = part.kind in ("assistant", "tool_call")
        if answers and (not self.answers if response is None else response != self.response):
            self.asked, self.response = self.sent, response
        self.answers = answers
        size = size_of(part)
        self.sent = total((self.sent, size))
        return size

    def answered(self, usage: AnswerUsage) -> None:
        """Note the usage of the newest answer."""
        reported = usage.input + usage.cache_read + usage.cache_write
        if not usage.model or reported <= 0:
            return
        if usage.model != self.model:
            self.model, self.bytes, self.tokens, self.newest = usage.model, 0, 0, None
        if self.newest is not None:
            before, then = self.newest
            bytes = self.asked.bytes - before.bytes
            tokens = reported - then - (self.asked.media - before.media)
            if bytes > 0 < tokens and STEP_RATIOS[0] <= bytes / tokens <= STEP_RATIOS[1]:
                self.bytes, self.tokens = self.bytes + bytes, self.tokens + tokens
        self.newest = (self.asked, reported)

    def compacted(self, left: Amount | None) -> None:
        """Restart the measurement with the size of the messages after a compaction; None if it is unknown."""
        self.sent = self.asked = left or Amount()
        self.newest, self.is_whole, self.response, self.answers = None, left is not None, None, False

    @property
    def has_ratio(self) -> bool:
        """True if the steps are enough to measure the bytes of a token."""
        return self.tokens >= EVIDENCE

    def estimate(self, provider: str) -> SessionTokens | None:
        """Return the estimated tokens of the next request. Return None without a reported usage, or if the size of the
        messages is unknown."""
        if self.newest is None or not self.is_whole:
            return None
        ratio = self.bytes / self.tokens if self.has_ratio else uncalibrated(provider, self.model)
        before, reported = self.newest
        client = max(0, reported - _tokens(before, ratio))
        return SessionTokens(self.model, _tokens(self.sent, ratio), client, round(ratio, 3))


def size_of(part: Part) -> Amount:
    """Return the size of a message in a request, in the estimate of the wires (`ENVELOPE`, `RESULT`, `CALL`)."""
    media, _ = media_of(part.data)
    blocks = (part.data or {}).get("blocks")
    thoughts = sum(len(str(member(block, "thinking") or "")) for block in blocks) if isinstance(blocks, list) else 0
    if isinstance(part, CallMessage):
        text, frame = msgspec.json.encode([part.name, part.args]), ENVELOPE + CALL
    else:
        text, frame = msgspec.json.encode(part.text), ENVELOPE + (RESULT if isinstance(part, ResultMessage) else 0)
    return Amount(len(text) + frame + thoughts, sum(each.tokens for each in media))


def total(sizes: Collection[Amount]) -> Amount:
    """Return the sum of these sizes."""
    return Amount(sum(each.bytes for each in sizes), sum(each.media for each in sizes))


def _tokens(size: Amount, ratio: float) -> int:
    return round(size.bytes / ratio) + size.media
