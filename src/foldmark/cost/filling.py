"""The content of a request by kind: each of its tokens is counted once."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from foldmark.core.assembly.media import tokens_of
from foldmark.core.assembly.prompt import ANCHORS
from foldmark.core.request import Part, Request
from foldmark.core.segments import END

RESULT, FORM, OTHER = "result", "form", "other"
"""The kind of tool results; that of Foldmark's own remarks, and of the form of a request without messages; and that of
the shares that are too small to name."""

IMAGES = "images"
"""The kind of images and documents."""

TURNLESS = {
    "system": "The system prompt: /system shows it, /system edit changes it. In a session under `foldmark live`, these "
    "are the agent's own system prompt and tools, which only the agent changes.",
    "tools": "The descriptions of the tools: /config set tools=read_file,bash offers these alone.",
    "state": "The state block and the scratchpad: F4 shows them. The model writes both.",
    "memos": "Memos that fit the newest message: /memo list shows all, /memo remove ID erases one, and "
    "/config set memos_injected=0 sends none.",
    "summaries": "Summaries of turns: /context show prints them. /restore takes back one of /summarize; "
    "/config set window_summary=off sends none of the turns before the window.",
    "thinking": "The model's thinking, which leaves with its turns: F2 lists these.",
    IMAGES: "Images and documents, which leave with their messages: F2 lists the turns.",
    FORM: "Braces, roles and Foldmark's own notes: they shrink with the number of messages. /context show prints the "
    "request.",
}
"""What the kinds are that may belong to no turn, and where a person changes them."""

ORDER = (
    *("system", "tools", "state", "memos", "summaries", "user", "client", "assistant", "thinking"),
    *(RESULT, IMAGES, FORM, OTHER),
)
"""The kinds, in the order in which they are shown."""

_KINDS = {
    "system": "system",
    "guidelines": "system",
    "state": "state",
    "scratchpad": "state",
    "memos": "memos",
    "window_summary": "summaries",
    "children": "system",
    "identity": "system",
    "user": "user",
    "client": "client",
    "tool": "user",
    "assistant": "assistant",
    "tool_call": "assistant",
    "tool_result": RESULT,
    "summary": "summaries",
}
"""The kinds of the layers before the messages, and of messages."""


class Portion(NamedTuple):
    """The tokens of one part of a request, or of several parts of one kind; `part` is None for tokens that do not
    belong to a single part. `name` is the kind or, for a result, its tool."""

    kind: str
    name: str
    tokens: int
    part: Part | None = None


_BESIDE = ("tools", "system")
"""The lists of a body that hold no messages."""

_OF_MESSAGES = ("window", "pinned")
"""The layers that hold messages."""


class Filling(NamedTuple):
    """What fills a request: its `portions` in order, whose sum is the estimate of the whole, and the tokens of the form
    of each message."""

    portions: list[Portion]
    form: float


def portions(request: Request) -> list[Portion]:
    """Return the tokens of each part of a request, as `filling` does."""
    return filling(request).portions


def filling(request: Request) -> Filling:
    """Return what fills a request.

    Tokens are distributed in proportion to the bytes of the texts. Each message has an equal share of the form (braces,
    roles, ids of calls), so that the size of a turn is about what the request loses without it. Tools, thinking and
    images come last.
    """
    found: list[tuple[str, str, int, Part | None]] = []
    found += [(_kind(part), name, _bytes(part.text), part) for part, name in _named(request)]
    body = request.body.get("request", request.body)  # Gemini's Code Assist wraps the request
    tools = _bytes(body.get("tools") or "")
    blocks = list(_blocks([value for value in body.values() if isinstance(value, list)]))
    media = [block for block in blocks if tokens_of(block)]
    # An image counts by its own tokens, not by its bytes.
    pictured = min(sum(map(tokens_of, media)), request.tokens - 1)
    text = len(request.bytes) - sum(map(_bytes, media))
    rest = max(0, text - sum(size for _, _, size, _ in found))
    for kind, size in (
        ("tools", tools),
        ("thinking", sum(_bytes(block) for block in blocks if _is_thought(block))),
    ):
        found.append((kind, kind, min(size, rest), None))
        rest -= found[-1][2]
    messages = [place for place, (*_, part) in enumerate(found) if part is not None and part.layer in _OF_MESSAGES]
    # The form of what surrounds the messages: names of the model and of options, and the blocks of the system prompt.
    steady = request.manifest.plan.settled < END
    layers = sum(size for *_, size, part in found if part is not None and _is_around(part, steady=steady))
    lists = sum(_bytes(value) for name, value in body.items() if isinstance(value, list) and name not in _BESIDE)
    around = max(0, len(request.bytes) - lists - tools - layers)
    form = max(0, rest - around) if messages else 0
    for number, place in enumerate(messages):
        kind, name, size, part = found[place]
        found[place] = kind, name, size + form * (number + 1) // len(messages) - form * number // len(messages), part
    found.append((FORM, FORM, rest - form, None))
    found.append((IMAGES, IMAGES, text * pictured // max(1, request.tokens - pictured), None))
    every = sum(size for _, _, size, _ in found) or 1
    shared, done, before = [], 0, 0
    for kind, name, size, part in found:
        done += size
        end = request.tokens * done // every
        shared.append(Portion(kind, name, end - before, part))
        before = end
    return Filling(shared, request.tokens * form / every / len(messages) if messages else 0.0)


def shares(of: Iterable[Portion]) -> list[Portion]:
    """Return the tokens by kind in the order of `ORDER`, and tool results by tool, largest first. Kinds without tokens
    are left out."""
    sums = Counter[tuple[str, str]]()
    for each in of:
        sums[each.kind, each.name] += each.tokens
    found = [Portion(kind, name, tokens) for (kind, name), tokens in sums.items() if tokens]
    return sorted(found, key=lambda each: (ORDER.index(each.kind), -each.tokens, each.name))


def merged(of: Iterable[Portion], count: int) -> list[Portion]:
    """Return at most `count` shares: the smallest ones become `other`."""
    found = list(of)
    if len(found) <= count:
        return found
    smallest = sorted(found, key=lambda each: each.tokens)[: len(found) - count + 1]
    rest = [each for each in found if each not in smallest]
    return [*rest, Portion(OTHER, OTHER, sum(each.tokens for each in smallest))]


def _is_around(part: Part, *, steady: bool) -> bool:
    """Return True for a layer that is not among the messages."""
    return part.layer not in _OF_MESSAGES and not (steady and part.layer in ANCHORS)


def _kind(part: Part) -> str:
    if part.kind == "tool_result":
        return RESULT
    if part.how == "synthetic":
        return FORM
    return _KINDS.get(part.kind if part.layer in _OF_MESSAGES else part.layer, FORM)


def _named(request: Request) -> Iterator[tuple[Part, str]]:
    """Yield each part with its name. The results of an answer's calls follow the calls in the same order."""
    calls: deque[str] = deque()
    for part in request.manifest.parts:
        if part.kind == "tool_call":
            wire = part.text.partition("(")[0]
            calls.append(request.names.get(wire, wire))
        is_result = part.kind == "tool_result" and calls
        yield part, calls.popleft() if is_result else _kind(part)


def _bytes(value: object) -> int:
    return len(msgspec.json.encode(value))


def _blocks(value: object) -> Iterator[dict[str, Any]]:
    """Yield the messages of a body and the blocks in them, in any dialect."""
    for each in value if isinstance(value, list) else ():
        if isinstance(each, dict):
            yield each
            for name in ("content", "parts", "output"):
                yield from _blocks(each.get(name))
        else:
            yield from _blocks(each)


def _is_thought(block: Mapping[str, Any]) -> bool:
    return block.get("type") in ("thinking", "redacted_thinking", "reasoning") or block.get("thought") is True
