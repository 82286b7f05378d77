"""The built-in model that needs no network and no key: deterministic, and plainly not a language model [SPEC 9].

It reads the request that OpenAI's Chat Completions take, and follows a script: the first rule that has a reply gives
it. The rules play the talk around /forget and /remember (`offline_planning`), and tasks for children and mail
(`offline_delegation`). A request for a summary gets a digest, one for a state block the names that occur.
"""

import re
from asyncio import sleep
from collections.abc import AsyncGenerator, Callable, Sequence
from itertools import count as numbers_from

from foldmark.core.request import Piece, Request, ToolCall
from foldmark.core.wording import count, listing
from foldmark.providers.offline_delegation import delegated
from foldmark.providers.offline_lines import WHO, Line, Reply, Scene, cut, scene_of
from foldmark.providers.offline_planning import planned

NEWEST = 5
"""User messages that a digest quotes."""

_FILE = re.compile(r"(?<![\w/.-])(?:[\w-]{1,60}/){0,12}[\w-]{2,60}\.[A-Za-z][A-Za-z0-9]{0,4}(?![\w/])")
_ANCHOR = re.compile(r"\b(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?::[0-9]{1,5})?|localhost:[0-9]{1,5}|port [0-9]{1,5})\b")


class OfflineModel:
    """Answers with what a model would see, word by word; `delay` is the seconds to wait between words."""

    def __init__(self, delay: float = 0.0) -> None:
        self._delay = delay

    async def count(self, request: Request) -> int:
        """Return the estimate itself: this model reads bytes."""
        return request.tokens

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer to a request in the form of Chat Completions; the same request gets the same answer."""
        scene = scene_of(request)
        rules = _SCRIPT.get(request.purpose, (planned, _ordinary))
        reply = next(found for rule in rules if (found := rule(scene)) is not None)
        before = ""
        for word in reply.text.split(" ") if reply.text else ():
            yield f"{before}{word}"
            await sleep(self._delay)
            before = " "
        taken = {call.call_id for line in scene.lines for call in line.calls}
        ids = (f"offline-{number}" for number in numbers_from(len(request.body.get("messages", ()))))
        free = (each for each in ids if each not in taken)
        for tool, args in reply.calls:
            yield ToolCall(next(free), tool, args)


def _ordinary(scene: Scene) -> Reply:
    lines = scene.lines
    if not lines:
        return Reply(f"{WHO}. The context is empty.")
    oldest = f"are {len(lines)} messages, the oldest being {_quote(lines[0])}"
    return Reply(
        f"{WHO}, so I can only say what one would see. You wrote {count(len(lines[-1].text.split()), 'word')}: "
        f"{_quote(lines[-1])}. In the context there {'is only that message' if len(lines) == 1 else oldest}. "
        "/help lists what you can do with it."
    )


def _digest(scene: Scene) -> Reply:
    asked = _asked(scene.lines)
    quoted = "\n".join(f"- “{cut(text)}”" for text in asked[-NEWEST:])
    which = f"the newest {NEWEST} began" if len(asked) > NEWEST else "they began"
    return Reply(
        f"({WHO}; this is a digest, not a summary.) In {count(len(scene.lines), 'message')} the user wrote "
        f"{count(len(asked), 'message')}" + (f"; {which}:\n{quoted}" if asked else ".")
    )


def _state(scene: Scene) -> Reply:
    asked = _asked(scene.lines)
    text = "\n".join(line.text[:2000] for line in scene.lines[-20:])
    return Reply(
        "### STATE\n"
        f"Goal: {cut(asked[-1]) if asked else 'not said yet'}\n"
        f"Context: {_named(_FILE, text)}\n"
        f"Resolved: {count(len(asked[:-1]), 'earlier message')} of the user (counted by the offline model, which is "
        "not a language model)\n"
        f"Technical Anchors: {_named(_ANCHOR, text)}"
    )


_SCRIPT: dict[str, tuple[Callable[[Scene], Reply | None], ...]] = {
    "answer": (planned, delegated, _ordinary),
    "summary": (_digest,),
    "state": (_state,),
}
"""The rules for a request by its purpose."""


def _asked(lines: Sequence[Line]) -> list[str]:
    """The first lines of what people wrote, commands of a planning conversation included."""
    return [line.text.strip().splitlines()[0] for line in lines if line.by_person and line.text.strip()]


def _named(pattern: re.Pattern[str], text: str) -> str:
    """The distinct matches, newest first."""
    return listing(dict.fromkeys(reversed(pattern.findall(text))), 5) or "none named"


def _quote(line: Line) -> str:
    kinds = {"tool": "tool result"}
    kind = "tool call" if line.calls and not line.text else kinds.get(line.role, line.role)
    return f"“{cut(line.text)}” ({kind})"
