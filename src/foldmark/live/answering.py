"""The outcome for a request that has reached a gateway [SPEC 5.7]."""

from collections.abc import Callable
from typing import NamedTuple

from foldmark.live.clients.weaving import Weaver

Taken = Callable[[bytes, bool, bool], object]
"""Called with the bytes of an answer, whether it is a stream, and whether it arrived whole."""


class Answering(NamedTuple):
    """The outcome for a request: the body to pass on, or a `reply` (media type and body) to give without asking a
    provider.

    `taken` is called with an answer; None if it is not needed. `ended` is called after that with the status that the
    client got, 0 if it left before. `weaver` returns what puts a text before the answer, for a stream or not; None if
    there is no such text.
    """

    body: bytes
    reply: tuple[str, bytes] | None = None
    taken: Taken | None = None
    ended: Callable[[int], object] = lambda status: None
    weaver: Callable[[bool], Weaver] | None = None
