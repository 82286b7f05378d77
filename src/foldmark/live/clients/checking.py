"""Rules about the order of messages that several wires share [SPEC 5.7]. Pure."""

from collections.abc import Iterable

from foldmark.core.wording import count
from foldmark.overlay.pieces import ClientMessage, MisplacedError


def check_directly_answered(messages: Iterable[ClientMessage]) -> None:
    """Raise MisplacedError unless each message with calls is followed directly by one with exactly their results."""
    open_calls: tuple[str, ...] = ()
    for message in messages:
        if sorted(message.results) != sorted(open_calls):
            raise MisplacedError(f"{count(len(message.results), 'result')} for {count(len(open_calls), 'call')}")
        open_calls = message.calls
    if open_calls:
        raise MisplacedError(f"calls without a result: {len(open_calls)}")


def check_sides(messages: Iterable[ClientMessage]) -> None:
    """Raise MisplacedError if the first message is the model's, or two neighbours are from one side, apart from system
    messages."""
    before = ""
    for message in messages:
        if message.role == "assistant" and not before:
            raise MisplacedError("the first message is the model's")
        if message.role == before:
            raise MisplacedError(f"two messages of role {before} in a row")
        before = message.role if message.role != "system" else before
