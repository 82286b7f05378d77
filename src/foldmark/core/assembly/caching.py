"""A model of a provider's prompt cache: which parts of a request it holds and how long, and which thinking stays valid.

A cache keeps beginnings of requests, in the provider's own order: tools, system, messages [SPEC 5.1, 5.3]. There are
two kinds of caches.

A marked cache uses breakpoints. A request writes the beginnings that end at its breakpoints, and reads the longest
previously written beginning that ends at a breakpoint or a few blocks before one. Everything after the last breakpoint
is neither written nor read. Anthropic requires explicit breakpoints and checks 20 places for each; consecutive calls
count as one place, and so do consecutive results. OpenAI's models from GPT-5.6 on set a breakpoint at the end of each
request automatically and look back without a limit.

A stepped cache keeps every beginning whose length is a multiple of a fixed number of tokens, free of charge, as older
OpenAI models and Gemini do. The model here keeps the beginnings of the newest request only. It computes the best case;
real caches may hit less often.

Sources: platform.claude.com/docs/en/build-with-claude/prompt-caching, developers.openai.com/api/docs/guides/
prompt-caching, ai.google.dev/gemini-api/docs/caching, all of autumn 2026.

Anthropic keeps the beginning of a request for five minutes after its last use, or for an hour if asked to [SPEC 5.7].
Reading costs 0.1 of the price of a fresh token either way. Writing costs 1.25, or 2.0 for an hour. So an hour costs
0.75 more for each new token. It saves 1.15 for each token of the context after a pause of more than five minutes and
less than an hour, because the context is read and not written again. With a context of 50,000 tokens, one such pause
pays for 77,000 new tokens.

The next pause is unknown, so the choice follows the recent requests: the lifetime that would have been cheaper for them
is used next. A single long pause is not a pattern, so the savings of an hour must also pay for writing the context once
more, which a change of the lifetime requires. On recorded sessions without such pauses this costs the same as five
minutes (an hour costs 34% more); on a session with ten minutes before each turn it costs 36% less.

Newer Anthropic models accept a thinking block only if system, tools and all messages before it, including their
thinking blocks, are byte for byte the same as in the request that it answered.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from foldmark.core.assembly import media

LIFETIMES = {"5m": 300.0, "1h": 3600.0}
"""Seconds for which the beginning of a request is kept after its last use."""

WRITE = {"5m": 1.25, "1h": 2.0}
"""Price of a token that is written to the cache, as a share of the price of a fresh token."""

READ = 0.1
"""Price of a token that is read from the cache, as a share of the price of a fresh token."""

RECENT = 100
"""Number of recent requests that decide. A coding agent adds about 1,000 tokens with each, so an hour pays off from the
second pause among this many requests on."""


class Use(NamedTuple):
    """A request: its time in seconds, the tokens of its input, and the number of these that were not cached."""

    moment: float
    tokens: int
    written: int


def lifetime(uses: Sequence[Use]) -> str:
    """Return the lifetime, `5m` or `1h`, that would have been cheaper for these requests, oldest first, plus one more
    write of the context; `5m` if there are none."""
    return "1h" if uses and _cost("1h", uses) < _cost("5m", uses) else "5m"


def _cost(ttl: str, uses: Sequence[Use]) -> float:
    """Return the cost of these requests, in fresh tokens, if each is kept for `ttl`. For the first, nothing is
    cached."""
    cost = WRITE[ttl] * (uses[0].tokens + uses[-1].tokens)
    for before, now in pairwise(uses):
        pause = now.moment - before.moment
        if pause <= LIFETIMES["5m"]:
            new = now.written  # as measured: an operation invalidates the same tokens with either lifetime
        elif pause <= LIFETIMES[ttl]:
            new = max(0, now.tokens - before.tokens)
        else:
            new = now.tokens
        cost += WRITE[ttl] * new + READ * (now.tokens - new)
    return cost


MOST_MARKED = 4
"""Maximum number of breakpoints that count in one request: the last ones."""


class Rules(Struct, frozen=True):
    """The rules of a cache. Beginnings of fewer than `least` tokens are not kept; an entry lives `lifetime` seconds
    after its last use. `step` is the number of tokens between two kept beginnings, 0 for breakpoints only; `look` is
    the number of places checked for each breakpoint, 0 for all; `last` is True if the end of a request is a
    breakpoint."""

    least: int
    step: int = 0
    look: int = 0
    last: bool = False
    lifetime: float = 300.0


class Bill(NamedTuple):
    """The tokens of one request by price class; `hour` is the part of `write` that is kept for an hour."""

    fresh: int
    write: int
    read: int
    hour: int = 0

    @property
    def tokens(self) -> int:
        """The tokens of all classes."""
        return self.fresh + self.write + self.read

    @property
    def read_share(self) -> float:
        """The share that was read from the cache."""
        return self.read / max(1, self.tokens)

    @property
    def written(self) -> float:
        """The tokens of `write`, weighted by cost: a token kept for an hour counts as 1.6."""
        return self.write + self.hour * (WRITE["1h"] / WRITE["5m"] - 1)


class Block(NamedTuple):
    """A piece of a request as a cache sees it: its bytes, whether it carries a breakpoint, its `kind` (consecutive
    blocks of one kind, calls or results, count as one place), and whether it is kept for an hour."""

    data: bytes
    marked: bool = False
    kind: str = ""
    hour: bool = False


def explicit(least: int) -> Rules:
    """Return the rules of a cache with explicit breakpoints, such as Anthropic's: 20 places are checked, entries live 5
    minutes."""
    return Rules(least, look=20)


def managed(least: int) -> Rules:
    """Return the rules of a cache that sets a breakpoint at the end of each request, such as OpenAI's from GPT-5.6 on:
    entries live at least 30 minutes."""
    return Rules(least, last=True, lifetime=1800.0)


def stepped(least: int, step: int) -> Rules:
    """Return the rules of a cache that keeps every beginning in steps of `step` tokens, as older OpenAI models and
    Gemini do: entries live 5 minutes, the minimum of the 5 to 10 that OpenAI states."""
    return Rules(least, step=max(1, step))


class Beginnings:
    """The beginnings of a conversation's newest request, one for each block: digest, bytes and places up to the end of
    the block. `common` is the length in bytes of the beginning that the request shares with the previous one."""

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.upto: list[int] = []
        self.places: list[int] = []
        self.common = 0
        self._blocks: list[Block] = []

    def follow(self, same: int, new: Sequence[Block]) -> None:
        """Advance to a request that consists of the first `same` blocks of the previous one and the blocks `new`."""
        key, upto, place = (self.keys[same - 1], self.upto[same - 1], self.places[same - 1]) if same else (0, 0, 0)
        self.common = upto
        if new and same < len(self._blocks):
            self.common += common_length(new[0].data, self._blocks[same].data)
        for each in (self.keys, self.upto, self.places, self._blocks):
            del each[same:]
        before = self._blocks[-1].kind if same else ""
        for block in new:
            key = hash((key, block.data))
            upto += len(block.data)
            place += not (block.kind and block.kind == before)
            before = block.kind
            self.keys.append(key)
            self.upto.append(upto)
            self.places.append(place)
        self._blocks.extend(new)


def common_length(first: Sequence[object], second: Sequence[object]) -> int:
    """Return the length of the common beginning of two sequences."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle - 1)
    return low


class Cache:
    """The content of a provider's cache after the requests of one conversation so far.

    `ratio` is the bytes per token, for the steps of a stepped cache. Without rules the cache stays empty.
    """

    def __init__(self, rules: Rules | None, ratio: float = 4.0) -> None:
        self._rules, self._step = rules, max(1, round(max(1, rules.step if rules else 1) * ratio))
        self._used: dict[int, float] = {}
        self._newest: float | None = None
        self._hours: set[int] = set()

    def bill(self, request: Beginnings, marks: Sequence[int], tokens: int, now: float, *, hour: bool = False) -> Bill:
        """Return the bill for a request of `tokens`, sent at `now` (seconds), and store the request in the cache.

        `marks` are the blocks that carry breakpoints, in order. The three classes sum up to `tokens`, divided in
        proportion to the bytes of the blocks. `hour` is True if the request is to be kept for an hour.
        """
        rules, before, self._newest = self._rules, self._newest, now
        if rules is None or not request.keys or not request.upto[-1]:
            return Bill(tokens, 0, 0)
        length = request.upto[-1]
        if rules.step:
            late = before is None or now - before > rules.lifetime
            read = 0 if late else tokens * (request.common // self._step * self._step) // length
            return Bill(tokens - read, 0, read) if read >= rules.least else Bill(tokens, 0, 0)
        last = len(request.keys) - 1
        marks = [*marks, last] if rules.last and last not in marks[-1:] else marks
        marks = marks[-MOST_MARKED:]
        found = self._longest(rules, request, marks, now)
        written = [index for index in marks if tokens * request.upto[index] // length >= rules.least]
        for index in (*written, *([] if found is None else [found])):
            self._used[request.keys[index]] = now
        if hour:
            self._hours.update(request.keys[index] for index in written if index != found)
        read = 0 if found is None else tokens * request.upto[found] // length
        upto = tokens * request.upto[written[-1]] // length if written else 0
        new = max(upto - read, 0)
        return Bill(tokens - read - new, new, read, new if hour else 0)

    def _longest(self, rules: Rules, request: Beginnings, marks: Sequence[int], now: float) -> int | None:
        """Return the last block of the longest cached beginning among those that the cache checks; None if none is
        cached."""
        for at in reversed(marks):
            for index in range(at, -1, -1):
                if rules.look and request.places[at] - request.places[index] >= rules.look:
                    break
                key = request.keys[index]
                lives = LIFETIMES["1h"] if key in self._hours else rules.lifetime
                if key in self._used and now - self._used[key] <= lives:
                    return index
        return None


def parts(content: Any) -> Iterable[dict[str, Any]]:
    """Return the parts of a content; a text is one part."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content or []


_SHOWN = (b'"image', b'"inlineData"', b'"document"', b'"file_data"')
_MARKS = ("cache_control", "prompt_cache_breakpoint")


def block(head: str, value: Any, kind: str = "") -> Block:
    """Return a part of a body as a block, without its breakpoint. `head` names the field that the part belongs to."""
    marked, hour = isinstance(value, dict) and any(value.get(name) for name in _MARKS), False
    if marked:
        hour = (value.get("cache_control") or {}).get("ttl") == "1h"
        value = {key: each for key, each in value.items() if key not in _MARKS}
    data = msgspec.json.encode(value)
    if len(data) > media.TOKENS and any(sign in data for sign in _SHOWN):
        data = msgspec.json.encode(_standing_in(value))
    return Block(head.encode() + data, marked, kind, hour)


def weight(data: bytes) -> int:
    """Return the bytes of a part of a body in JSON; images and documents count by their tokens."""
    if len(data) <= media.TOKENS or not any(sign in data for sign in _SHOWN):
        return len(data)
    return len(msgspec.json.encode(_standing_in(msgspec.json.decode(data))))


def _standing_in(value: Any) -> Any:
    """Return the value with images and documents replaced by texts that are each as long as the estimate and unique by
    a digest."""
    if isinstance(value, list):
        return [_standing_in(each) for each in value]
    if not isinstance(value, dict):
        return value
    if tokens := media.tokens_of(value):
        from hashlib import blake2b  # takes 2 ms, and few requests hold an image

        digest = blake2b(msgspec.json.encode(value), digest_size=16).hexdigest()
        return (digest * (tokens * 4 // len(digest) + 1))[: tokens * 4]
    return {key: _standing_in(each) for key, each in value.items()}


class Thoughts(NamedTuple):
    """Thinking blocks of the answers in view, summed over all requests: `kept` could be sent, `lost` could not.
    `blocks` counts each lost block once."""

    kept: int = 0
    lost: int = 0
    blocks: int = 0

    @property
    def share(self) -> float:
        """The share that could be sent; 1 if there was no thinking."""
        return self.kept / (self.kept + self.lost) if self.kept + self.lost else 1.0


class Bound:
    """Counts the thinking blocks of one conversation's answers, sent and lost."""

    def __init__(self) -> None:
        self._answers: dict[int, tuple[int, int, int]] = {}
        self._shown: list[tuple[int, int]] = []  # for each answer in view: a digest of the blocks sent, their number
        self._gone: set[int] = set()
        self._kept = self._lost = 0

    def add(self, request: Beginnings, same: int, shown: Sequence[int], answer: int | None) -> None:
        """Count a request. `same` is the number of answers with thinking that it shares with the previous request,
        within their common beginning; `shown` are the others in it; `answer` is its own answer, None if that has no
        thinking."""
        del self._shown[same:]
        sent, kept = self._shown[-1] if self._shown else (0, 0)
        answers, keys, gone, add = self._answers, request.keys, self._gone.add, self._shown.append
        for each in shown:
            length, key, before = answers[each]
            if before == sent and length <= len(keys) and keys[length - 1] == key:
                sent, kept = hash((sent, each)), kept + 1
            else:
                gone(each)
            add((sent, kept))
        self._kept, self._lost = self._kept + kept, self._lost + len(self._shown) - kept
        if answer is not None:
            self._answers[answer] = len(request.keys), request.keys[-1], sent

    @property
    def thoughts(self) -> Thoughts:
        """The counts so far."""
        return Thoughts(self._kept, self._lost, len(self._gone))
