"""Accuracy of token estimates: bytes, the tokenizer, and both after calibration, against two kinds of truth.

First, conversations of code, JSON, English and Chinese, some of which change their kind on the way: they are recorded
in a log, the request to OpenAI is made before every answer, and the truth is the tokenizer's count. Calibration gets
that truth after each answer, as from a provider's usage.

Then recorded sessions, where the truth is the bill: Claude Code's are imported and encoded for Anthropic as Foldmark
does, Codex's are bodies of the Responses API already. Their files do not contain the system prompt and the tools that
these programs put before a conversation. The size of these is the difference between the bill and the estimate of the
first request, and counts as known from then on; so do later additions that are not in the file. The first request is
right by construction and left out; the others show how well growth is estimated.

Exit code 1 if a calibrated estimate of the first part is off by more than 5% after 5 turns.
"""

import argparse
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import msgspec
from token_texts import KINDS, texts

import foldmark
from foldmark.core import selections
from foldmark.core.config import Config
from foldmark.core.segments import until
from foldmark.log import Agent
from foldmark.request.prepare import prepare
from foldmark.sessions.conversion.importing import import_session
from foldmark.tokens.counting import recalibrated
from foldmark.tokens.openai import prompt_tokens

LIMIT = 0.05
TURNS = 5
UNSEEN = 3
"""A step of more than this many times the estimated tokens contains something that the file does not."""
LONG = 10
"""Sessions of Claude Code with fewer requests are left out."""
DATA = Path(__file__).parent.parent.parent / "shared" / "data"
CHANGING = {
    "English, then Chinese": ("English",) * 10 + ("Chinese",) * 30,
    "Chinese, then code": ("Chinese",) * 10 + ("code",) * 30,
    "code, then JSON": ("code",) * 10 + ("JSON",) * 30,
    "all in turn": KINDS * 10,
}


class Sent(NamedTuple):
    """A request that was sent: its size, in bytes or in tokens as counted, and its true tokens."""

    turn: int
    size: int
    tokens: int


class Billed(NamedTuple):
    """A request of a recorded session, in the form of its provider, and the input tokens that were billed."""

    model: str
    body: dict[str, Any]
    data: bytes
    tokens: int


class Followed(NamedTuple):
    """Errors of requests in order, each estimated with the ratio of that moment; their turns; the number of
    corrections."""

    errors: list[float]
    turns: list[int]
    corrections: int

    def after(self, turns: int) -> list[float]:
        """Return the errors of the requests after turn `turns`."""
        return [error for error, turn in zip(self.errors, self.turns, strict=True) if turn > turns]


def follow(sent: Iterable[Sent], ratio: float, *, calibrate: bool = True) -> Followed:
    """Return the errors that the estimates would have had, as shares of the truth."""
    errors, turns, corrections = [], [], 0
    for each in sent:
        errors.append(each.size / ratio / each.tokens - 1)
        turns.append(each.turn)
        moved = recalibrated(each.size, each.tokens, ratio) if calibrate else None
        if moved is not None:
            ratio, corrections = moved, corrections + 1
    return Followed(errors, turns, corrections)


def conversation(kinds: Sequence[str]) -> list[Sent]:
    """Return the requests of a conversation with turns of these kinds: size in bytes, tokens by the tokenizer."""
    # The tools before the messages are not measured here; README.md has the figures with all of them.
    log = foldmark.open(":memory:", settings={"tools": "slash, filter_context"})
    try:
        agent = log.agent("bench")
        sources = {kind: texts(kind) for kind in KINDS}
        return [
            Sent(turn, len(request.bytes), prompt_tokens(request.body))
            for turn in _turns(agent, kinds, sources)
            for request in (agent.request(provider="openai", model="gpt-5"),)
        ]
    finally:
        log.close()


def _turns(agent: Agent, kinds: Sequence[str], sources: dict[str, Iterator[str]]) -> Iterator[int]:
    """Append the turns. Yield the number of the turn before every answer of the model."""
    for turn, kind in enumerate(kinds, start=1):
        source = sources[kind]
        tools = kind in ("code", "JSON")
        agent.append("user", "What does this say? Look it up." if tools else next(source))
        yield turn
        if tools:
            agent.append_tool_call("read_file", {"path": f"part-{turn}"}, call_id=f"c{turn}", dialect="openai")
            agent.append_tool_result(f"c{turn}", next(source), dialect="openai")
            yield turn
        agent.append("assistant", next(source))
        agent.end_turn()


def claude_requests(path: Path) -> Iterator[Billed]:
    """Yield the requests of the visible part of a Claude Code session, as Foldmark encodes them."""
    with foldmark.open(":memory:") as log:
        import_session(log, path, "session")
        config = Config(sliding_context_tokens=0, truncation=False)
        first: dict[str, int] = {}
        with log.agent("session").reading() as (moment, at):
            for event in moment.select(at.visible):
                if response := (event.data or {}).get("response"):
                    first.setdefault(response, event.id)
            for used in (selections.event(moment, each) for each in range(1, at.record.head + 1)):
                data = used.data if used is not None and used.kind == "usage" else None
                if data and data["response"] in first:
                    before = until(at.visible, first[data["response"]] - 1)
                    request = prepare(moment, at, config, "anthropic", data["model"], only=before)
                    billed = data["input"] + data["cache_read"] + data["cache_write"]
                    yield Billed(data["model"], request.body, request.bytes, billed)


def codex_requests(path: Path) -> Iterator[Billed]:
    """Yield the requests of a Codex rollout, as bodies of the Responses API."""
    items: list[dict[str, Any]] = []
    starts: list[int] = []
    billed: list[int] = []
    seen, model = None, "gpt-5"
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        payload = record.get("payload") or {}
        if record.get("type") == "turn_context":
            model = payload.get("model") or model
        elif record.get("type") == "response_item":
            own = payload.get("type") in ("reasoning", "function_call") or payload.get("role") == "assistant"
            if own and (not items or not items[-1]["own"]):
                starts.append(len(items))
            items.append({"own": own, "item": {key: payload[key] for key in payload if key != "id"}})
        elif payload.get("type") == "token_count" and payload.get("info"):
            total = payload["info"]["total_token_usage"]
            if total != seen:
                billed.append(payload["info"]["last_token_usage"]["input_tokens"])
            seen = total
    for start, tokens in zip(starts, billed, strict=False):
        body = {"model": model, "store": False, "input": [each["item"] for each in items[:start]]}
        yield Billed(model, body, msgspec.json.encode(body), tokens)


def sizes(requests: Iterable[Billed], size: Callable[[Billed], int]) -> list[Sent]:
    """Return the requests as measured by `size`."""
    return [Sent(number, size(each), each.tokens) for number, each in enumerate(requests, start=1)]


def in_bytes(request: Billed) -> int:
    """Return the bytes of a request."""
    return len(request.data)


def in_tokens(request: Billed) -> int:
    """Return the tokens of a request to OpenAI by its tokenizer."""
    return prompt_tokens(request.body)


def unseen(sent: Sequence[Sent], ratio: float) -> set[int]:
    """Return the turns before which something was sent that is not in the file, or something of it no longer was: the
    surplus of a step is `UNSEEN`, or the step removes tokens."""
    return {
        each.turn
        for before, each in pairwise(sent)
        if each.size < before.size
        or each.tokens < before.tokens
        or (each.size - before.size) * UNSEEN < (each.tokens - before.tokens) * ratio
    }


def grown(sent: Sequence[Sent], ratio: float, jumps: Collection[int]) -> tuple[list[Sent], int]:
    """Return the requests after the first without the tokens missing from their file, and the number of these at first.

    What is missing counts as known: before the first request, and from each of `jumps` on.
    """
    first = front = round(sent[0].tokens - sent[0].size / ratio)
    found = []
    for before, each in pairwise(sent):
        if each.turn in jumps:
            front += round(each.tokens - before.tokens - (each.size - before.size) / ratio)
        found.append(each._replace(tokens=each.tokens - front))
    return found, first


def percent(errors: Sequence[float]) -> str:
    """Return the median and the 10th and 90th percentile, in percent."""
    if len(errors) < 2:
        return "–"
    tenths = quantiles(errors, n=10)
    return f"{median(errors):+.1%} ({tenths[0]:+.1%} … {tenths[8]:+.1%})"


def made() -> bool:
    """Print the first table. Return True if all calibrated estimates after 5 turns are within the limit."""
    print("| conversation | requests | bytes / 4 | calibrated | worst after 5 turns | corrections |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    fine = True
    for name, kinds in ({kind: (kind,) * 40 for kind in KINDS} | CHANGING).items():
        sent = conversation(kinds)
        calibrated = follow(sent, 4.0)
        worst = max(calibrated.after(TURNS), key=abs)
        fine = fine and abs(worst) <= LIMIT
        plain = percent(follow(sent, 4.0, calibrate=False).errors)
        shown = percent(calibrated.errors)
        print(f"| {name} | {len(sent)} | {plain} | {shown} | {worst:+.1%} | {calibrated.corrections} |")
    return fine


def recorded(folder: Path) -> None:
    """Print the second table."""
    print("| session | requests | in front | jumps | by | uncalibrated | calibrated | after 5 answers | corrections |")
    print("| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |")
    for path in sorted(folder.glob("claude/*.jsonl")):
        requests = list(claude_requests(path))
        if len(requests) >= LONG:
            for name, ratio in (("bytes / 4", 4.0), ("bytes / 3", 3.0)):
                _row(path.stem, name, sizes(requests, in_bytes), ratio)
    for path in sorted(folder.glob("codex/*.jsonl")):
        requests = list(codex_requests(path))
        _row(path.stem, "bytes / 4", sizes(requests, in_bytes), 4.0)
        _row(path.stem, "tokenizer", sizes(requests, in_tokens), 1.0)


def _row(session: str, name: str, sent: Sequence[Sent], ratio: float) -> None:
    jumps = unseen(sent, ratio)
    later, front = grown(sent, ratio, jumps)
    plain, calibrated = follow(later, ratio, calibrate=False), follow(later, ratio)
    shown = " | ".join(percent(each) for each in (plain.errors, calibrated.errors, calibrated.after(TURNS + 1)))
    print(f"| {session} | {len(later)} | {front:,} | {len(jumps)} | {name} | {shown} | {calibrated.corrections} |")


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder with claude/*.jsonl and codex/*.jsonl")
    arguments = parser.parse_args()
    print("Made conversations; the truth is the tokenizer's count\n")
    fine = made()
    print("\nRecorded sessions; the truth is what was billed\n")
    if arguments.data.is_dir():
        recorded(arguments.data)
    else:
        print(f"No sessions in {arguments.data}; --data names another folder.")
    if not fine:
        print(f"\nA calibrated estimate is off by more than {LIMIT:.0%} after {TURNS} turns.", file=sys.stderr)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
