"""The built-in model that needs no network and no key: deterministic, and plainly not a language model [SPEC 9].

It reads the same request that OpenAI's Chat Completions take. It plays what can be played without understanding: the
talk around /forget and /remember (`offline_planning`), tasks for children and mail (`offline_delegation`), a digest
where a summary is asked for, a state block.
"""

import re
from asyncio import sleep
from collections.abc import AsyncGenerator, Sequence

from foldmark.core.answer import Piece
from foldmark.core.request import Request, ToolCall
from foldmark.core.wording import listing
from foldmark.providers.chat_lines import Line, lines_of, new_call_id, system_of, tools_of
from foldmark.providers.offline_delegation import Acting, delegated
from foldmark.providers.offline_planning import Calling, planned
from foldmark.providers.offline_voice import WHO, cut

NEWEST = 5
"""User messages that a digest quotes."""

_KINDS = {"tool": "tool result"}
_FILE = re.compile(r"(?<![\w/.-])(?:[\w-]{1,60}/){0,12}[\w-]{2,60}\.[A-Za-z][A-Za-z0-9]{0,4}(?![\w/])")
_ANCHOR = re.compile(r"\b(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?::[0-9]{1,5})?|localhost:[0-9]{1,5}|port [0-9]{1,5})\b")


class OfflineModel:
    """Answers with what a model would see, word by word; `delay` is the seconds to wait between words."""

    def __init__(self, delay: float = 0.0) -> None:
        self._delay = delay

    async def count(self, request: Request) -> int:
        """The estimate itself: this model reads bytes."""
        return request.tokens

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer to a request in the form of Chat Completions; the same request gets the same answer."""
        text, calls = _answer(request)
        before = ""
        for word in text.split(" ") if text else ():
            yield f"{before}{word}"
            await sleep(self._delay)
            before = " "
        for call in calls:
            yield call


def _answer(request: Request) -> tuple[str, Sequence[ToolCall]]:
    lines = lines_of(request)
    if request.purpose == "summary":
        return _digest(lines), ()
    if request.purpose == "state":
        return _state(lines), ()
    tools = tools_of(request)
    said: str | Calling | Acting | None = planned(lines, tools)
    if said is None and request.purpose == "answer":
        said = delegated(lines, system_of(request), tools)
    if isinstance(said, Calling):
        said = Acting((said,))
    if isinstance(said, Acting):
        return said.text, _calls(said, lines, len(request.body["messages"]))
    return _ordinary(lines) if said is None else said, ()


def _calls(acting: Acting, lines: Sequence[Line], count: int) -> list[ToolCall]:
    """The calls, each with an id of its own; `count` is the number of messages in the request."""
    calls: list[ToolCall] = []
    for calling in acting.calls:
        call_id = new_call_id([*lines, Line("assistant", "", tuple(calls))], count)
        calls.append(ToolCall(call_id, calling.name, calling.args))
    return calls


def _ordinary(lines: Sequence[Line]) -> str:
    if not lines:
        return f"{WHO}. The context is empty."
    newest = lines[-1]
    words = len(newest.text.split())
    count = len(lines)
    seen = "is only that message" if count == 1 else f"are {count} messages, the oldest being {_quote(lines[0])}"
    return (
        f"{WHO}, so I can only say what one would see. You wrote {words} "
        f"{'word' if words == 1 else 'words'}: {_quote(newest)}. In the context there {seen}. "
        "/help lists what you can do with it."
    )


def _digest(lines: Sequence[Line]) -> str:
    asked = _asked(lines)
    quoted = "\n".join(f"- “{cut(text)}”" for text in asked[-NEWEST:])
    which = f"the newest {NEWEST} began" if len(asked) > NEWEST else "they began"
    return (
        f"({WHO}; this is a digest, not a summary.) In {_count(len(lines), 'message')} the user wrote "
        f"{_count(len(asked), 'message')}" + (f"; {which}:\n{quoted}" if asked else ".")
    )


def _state(lines: Sequence[Line]) -> str:
    asked = _asked(lines)
    text = "\n".join(line.text[:2000] for line in lines[-20:])
    return (
        "### STATE\n"
        f"Goal: {cut(asked[-1]) if asked else 'not said yet'}\n"
        f"Context: {_named(_FILE, text)}\n"
        f"Resolved: {_count(len(asked[:-1]), 'earlier message')} of the user (counted by the offline model, which is "
        "not a language model)\n"
        f"Technical Anchors: {_named(_ANCHOR, text)}"
    )


def _asked(lines: Sequence[Line]) -> list[str]:
    """The first lines of what people wrote, commands of a planning conversation included."""
    return [line.text.strip().splitlines()[0] for line in lines if line.by_person and line.text.strip()]


def _named(pattern: re.Pattern[str], text: str) -> str:
    """The different names of this form, those used last first."""
    return listing(dict.fromkeys(reversed(pattern.findall(text))), 5) or "none named"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _quote(line: Line) -> str:
    kind = "tool call" if line.calls and not line.text else _KINDS.get(line.role, line.role)
    return f"“{cut(line.text)}” ({kind})"
