"""The built-in model that needs no network and no key: deterministic, and plainly not a language model [SPEC 9]."""

from asyncio import sleep
from collections.abc import AsyncIterator, Sequence

from foldmark.core.events import Event
from foldmark.core.pressure import WINDOW

PREVIEW = 60
"""Characters of a message that the answer repeats."""


class OfflineModel:
    """Answers with what a model would see, word by word; `delay` is the seconds to wait between words."""

    name = "offline"
    window = WINDOW

    def __init__(self, delay: float = 0.0) -> None:
        self._delay = delay

    async def answer(self, messages: Sequence[Event]) -> AsyncIterator[str]:
        """Stream the answer to a conversation, whose newest message is the one to answer."""
        before = ""
        for word in _answer(messages).split(" "):
            yield f"{before}{word}"
            await sleep(self._delay)
            before = " "


def _answer(messages: Sequence[Event]) -> str:
    if not messages:
        return "I am the offline model, not a language model. The context is empty."
    newest = messages[-1]
    words = len(newest.content.split())
    count = len(messages)
    seen = "is only that message" if count == 1 else f"are {count} messages, the oldest being {_quote(messages[0])}"
    return (
        f"I am the offline model, not a language model, so I can only say what one would see. You wrote {words} "
        f"{'word' if words == 1 else 'words'}: {_quote(newest)}. In the context there {seen}. "
        "/help lists what you can do with it."
    )


def _quote(message: Event) -> str:
    text = " ".join(message.content.split())
    shown = text if len(text) <= PREVIEW else f"{text[:PREVIEW].rstrip()}…"
    return f"“{shown}” ({message.kind.replace('_', ' ')})"
