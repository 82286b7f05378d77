"""How well tokens are estimated: bytes, the tokenizer, and both after calibration, against two kinds of truth.

First conversations of code, JSON, English and Chinese, and some whose kind changes on the way: they are recorded in a
log, the request to OpenAI is made before every answer, and the truth is what the tokenizer counts of it. Calibration is
told that truth after each answer, as a provider's usage would tell it.

Then recorded sessions, where the truth is what was billed: Claude Code's are imported and encoded for Anthropic as
Foldmark does, Codex's are bodies of the Responses API already. What these programs put in front of a conversation,
their own system prompt and tools, is not in their files: it is taken from the first request, as the difference of what
was billed and what is estimated, and counts as known from there on; so does what they add on the way without writing
it down. The first request is right by construction and left out; the others show how well growth is estimated.

Exit code 1 if a calibrated estimate of the first part is off by more than 5% after 5 turns.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import msgspec
from token_texts import KINDS, texts

import foldmark
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
"""A step of more than so many times the tokens estimated holds something that the file does not."""
DATA = Path(__file__).parent.parent.parent / "shared" / "data"
CHANGING = {
    "English, then Chinese": ("English",) * 10 + ("Chinese",) * 30,
    "Chinese, then code": ("Chinese",) * 10 + ("code",) * 30,
    "code, then JSON": ("code",) * 10 + ("JSON",) * 30,
    "all in turn": KINDS * 10,
}


class Sent(NamedTuple):
    """A request that was sent: its size by a ruler, and what it really had."""

    turn: int
    size: int
    tokens: int


class Followed(NamedTuple):
    """Requests in order, each estimated with the ratio of that moment, and how often the ratio moved."""

    errors: list[float]
    turns: list[int]
    corrections: int

    def after(self, turns: int) -> list[float]:
        """The errors of the requests after so many turns."""
        return [error for error, turn in zip(self.errors, self.turns, strict=True) if turn > turns]


def follow(sent: Iterable[Sent], ratio: float, *, calibrate: bool = True) -> Followed:
    """What the estimates would have been, as shares of the truth."""
    errors, turns, corrections = [], [], 0
    for each in sent:
        errors.append(each.size / ratio / each.tokens - 1)
        turns.append(each.turn)
        moved = recalibrated(each.size, each.tokens, ratio) if calibrate else None
        if moved is not None:
            ratio, corrections = moved, corrections + 1
    return Followed(errors, turns, corrections)


def conversation(kinds: Sequence[str]) -> list[Sent]:
    """The requests of a conversation whose turns are of these kinds: size in bytes, tokens by the tokenizer."""
    # The tools in front are not what is measured; README.md says what all of them make of it.
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
    """Speak the turns; stops before every answer of the model with the number of the turn."""
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


def claude(path: Path) -> list[Sent]:
    """The requests of a Claude Code session, sizes in bytes as Foldmark encodes them, as far as it is still visible."""
    with foldmark.open(":memory:") as log:
        import_session(log, path, "session")
        config = Config(sliding_context_tokens=0, truncation=False)
        first: dict[str, int] = {}
        sent = list[Sent]()
        with log.agent("session").reading() as (moment, at):
            for event in moment.messages(at.visible):
                if response := (event.data or {}).get("response"):
                    first.setdefault(response, event.id)
            for used in (moment.event(each) for each in range(1, at.record.head + 1)):
                data = used.data if used is not None and used.kind == "usage" else None
                if data and data["response"] in first:
                    before = until(at.visible, first[data["response"]] - 1)
                    request = prepare(moment, at, config, "anthropic", data["model"], only=before)
                    billed = data["input"] + data["cache_read"] + data["cache_write"]
                    sent.append(Sent(len(sent) + 1, len(request.bytes), billed))
        return sent


def codex(path: Path) -> tuple[list[Sent], list[Sent]]:
    """The requests of a Codex rollout, once with their bytes and once with the tokenizer's count."""
    items: list[dict[str, Any]] = []
    starts: list[int] = []
    billed: list[int] = []
    seen = None
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        payload = record.get("payload") or {}
        if record.get("type") == "response_item":
            own = payload.get("type") in ("reasoning", "function_call") or payload.get("role") == "assistant"
            if own and (not items or not items[-1]["own"]):
                starts.append(len(items))
            items.append({"own": own, "item": {key: payload[key] for key in payload if key != "id"}})
        elif payload.get("type") == "token_count" and payload.get("info"):
            total = payload["info"]["total_token_usage"]
            if total != seen:
                billed.append(payload["info"]["last_token_usage"]["input_tokens"])
            seen = total
    by_bytes, by_tokens = [], []
    for number, (start, tokens) in enumerate(zip(starts, billed, strict=False), start=1):
        body = {"model": "gpt-5", "store": False, "input": [each["item"] for each in items[:start]]}
        by_bytes.append(Sent(number, len(msgspec.json.encode(body)), tokens))
        by_tokens.append(Sent(number, prompt_tokens(body), tokens))
    return by_bytes, by_tokens


def grown(sent: Sequence[Sent], ratio: float) -> tuple[list[Sent], int, int]:
    """The requests after the first without what their file does not hold, how many tokens that was at first, and how
    often it grew: the surplus of a step that is `UNSEEN` goes there, and what a step takes away."""
    first = front = round(sent[0].tokens - sent[0].size / ratio)
    found, jumps = [], 0
    for before, each in pairwise(sent):
        size, tokens = each.size - before.size, each.tokens - before.tokens
        if size < 0 or tokens < 0 or size * UNSEEN < tokens * ratio:
            jumps += 1
            front += round(tokens - size / ratio)
        found.append(each._replace(tokens=each.tokens - front))
    return found, first, jumps


def percent(errors: Sequence[float]) -> str:
    """Median and the 10th and 90th percentile, in percent."""
    if len(errors) < 2:
        return "–"
    tenths = quantiles(errors, n=10)
    return f"{median(errors):+.1%} ({tenths[0]:+.1%} … {tenths[8]:+.1%})"


def made() -> bool:
    """Print the first table; whether all calibrated estimates after 5 turns are within the limit."""
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
        sent = claude(path)
        if len(sent) >= 10:
            for name, ratio in (("bytes / 4", 4.0), ("bytes / 3", 3.0)):
                _row(path.stem, name, sent, ratio)
    for path in sorted(folder.glob("codex/*.jsonl")):
        by_bytes, by_tokens = codex(path)
        _row(path.stem, "bytes / 4", by_bytes, 4.0)
        _row(path.stem, "tokenizer", by_tokens, 1.0)


def _row(session: str, name: str, sent: Sequence[Sent], ratio: float) -> None:
    later, front, jumps = grown(sent, ratio)
    plain, calibrated = follow(later, ratio, calibrate=False), follow(later, ratio)
    shown = " | ".join(percent(each) for each in (plain.errors, calibrated.errors, calibrated.after(TURNS + 1)))
    print(f"| {session} | {len(later)} | {front:,} | {jumps} | {name} | {shown} | {calibrated.corrections} |")


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
