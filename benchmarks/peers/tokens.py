"""How well the tokens of a request are estimated: Foldmark's rulers, divisions of bytes, and tokenizers."""

import base64
import json
import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha1
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import token_accuracy as accuracy
from token_texts import KINDS

from foldmark.tokens.counting import OFF, uncalibrated
from foldmark.tokens.openai import ranks
from peers.adapter import ADAPTERS, Adapter, PeerError
from peers.report import Cell, Ratio, Section, Table
from peers.runs import Run

_ON_PYPI = ("tiktoken", "anthropic-tokenizer", "ctok", "google-genai")
_ON_NPM = ("@anthropic-ai/tokenizer", "ai-tokenizer")
PEERS = (*_ON_PYPI, *_ON_NPM)

_FILE = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
_NO_NETWORK = "http://127.0.0.1:9"
"""A proxy address where nothing listens: what a peer wants to fetch fails at once, with or without a network."""

SECONDS = 300
"""Maximum seconds of a program of a package from npm."""

_ALL = "all"
_OURS = "Foldmark, calibrated"

Message = dict[str, Any]
"""A message as the AI SDK of Vercel has it: `role`, and `content` of texts, tool calls and tool results."""

ABOUT = """\
The size of a request decides what still fits into the window. Every request of a recorded session was billed, so its
true tokens are known. The files have neither the system prompt nor the tools: what the first request has too many
counts as known from then on, for every method alike, and so does what came from outside the file later. The first
request is right by construction and left out. An error is (estimate - billed) / billed, of the part that is in the
file; the bias is the median with its sign.

"Foldmark, before" is the estimate before the first answer of a model. "Calibrated" is as in use: the provider's count
of each answer corrects the estimate of the requests after it. The other methods are used as they come; none of them
learns. Tokenizers count the texts, calls and results of the messages, and ai-tokenizer counts messages by its own
rules. tiktoken has its file from Foldmark's package, and checks that it is OpenAI's.
"""


class Method(NamedTuple):
    """A way of counting: what it measures of each request, and how much of that is a token."""

    name: str
    sent: list[accuracy.Sent]
    ratio: float
    calibrate: bool = False


class Accuracy(NamedTuple):
    """Errors of a method, as shares of the truth."""

    requests: int
    middle: float
    """The median, without signs."""
    tenth: float
    """What one request in ten is off by, or more."""
    bias: float


def _accuracy(errors: Sequence[float]) -> Accuracy:
    sizes = sorted(map(abs, errors))
    return Accuracy(len(sizes), median(sizes), quantiles(sizes, n=10)[8], median(errors))


def _name_at_vercel(model: str) -> str:
    """Return the name that ai-tokenizer has for a model: `anthropic/claude-sonnet-4.5`, `openai/gpt-5-codex`."""
    if not model.startswith("claude"):
        return f"openai/{model}"
    return "anthropic/" + re.sub(r"-(\d)-(\d)(?!\d)", r"-\1.\2", re.sub(r"-\d{8}$", "", model))


def _input(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _parts(item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts of a message to Anthropic, or of an item of OpenAI's Responses; what is encrypted is no text."""
    kind = item.get("type")
    if kind in ("function_call", "custom_tool_call"):
        given = _input(item["arguments"]) if "arguments" in item else item.get("input")
        yield {"type": "tool-call", "toolName": item["name"], "input": given}
    elif kind in ("function_call_output", "custom_tool_call_output"):
        yield {"type": "tool-result", "output": _text(item["output"])}
    elif kind == "tool_use":
        yield {"type": "tool-call", "toolName": item["name"], "input": item["input"]}
    elif kind == "tool_result":
        yield {"type": "tool-result", "output": _text(item.get("content"))}
    elif isinstance(item.get("text") or item.get("thinking"), str):
        yield {"type": "text", "text": item.get("text") or item["thinking"]}
    else:
        inner = item.get("content") or item.get("summary") or ()
        for each in [{"text": inner}] if isinstance(inner, str) else inner:
            yield from _parts(each)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "\n".join(each["text"] for each in value or () if isinstance(each.get("text"), str))


def _messages(request: accuracy.Billed) -> Iterator[Message]:
    for item in request.body.get("messages") or request.body.get("input") or ():
        yield {"role": item.get("role", "assistant"), "content": list(_parts(item))}


def _texts(message: Message) -> Iterator[str]:
    for part in message["content"]:
        if part["type"] == "tool-call":
            yield part["toolName"] + json.dumps(part["input"], ensure_ascii=False)
        else:
            yield part.get("text") or part.get("output") or ""


@contextmanager
def _ranks_of_openai() -> Iterator[str]:
    """Yield a folder as tiktoken keeps its downloads, with the file that it would fetch; it checks that it is the
    same."""
    with TemporaryDirectory() as folder:
        lines = (b"%b %d\n" % (base64.b64encode(token), rank) for token, rank in ranks().items())
        Path(folder, sha1(_FILE.encode()).hexdigest()).write_bytes(b"".join(lines))
        yield folder


def _by_package(run: Run, name: str, texts: Sequence[str]) -> list[int]:
    """Return the tokens of each text by a tokenizer from PyPI. Raises PeerError."""
    nothing = dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"), _NO_NETWORK)
    with (
        _ranks_of_openai() as folder,
        Adapter("tokens_counts.py", run.peers[name], TIKTOKEN_CACHE_DIR=folder, **nothing) as peer,
    ):
        counts: list[int] = peer.ask("count", by=name, texts=texts)
        return counts


def _by_npm(run: Run, name: str, model: str, messages: Sequence[Message]) -> list[int]:
    """Return the tokens of each message by a package from npm. Raises PeerError."""
    try:
        done = subprocess.run(
            ["node", str(ADAPTERS / "tokens_npm.cjs")],
            input=json.dumps({"package": name, "model": _name_at_vercel(model), "messages": messages}),
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=run.peers[name].folder,
            env={"PATH": os.environ["PATH"], "HOME": str(run.peers[name].folder)},
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"no answer within {SECONDS} s") from error
    if done.returncode:
        raise PeerError(next((line for line in done.stderr.splitlines() if "Error" in line), done.stderr)[:300])
    counts: list[int] = json.loads(done.stdout)
    return counts


def _by_peer(run: Run, name: str, requests: Sequence[accuracy.Billed]) -> list[accuracy.Sent]:
    """Return the requests of a session as a peer counts them. Every message is counted once. Raises PeerError."""
    each_has = [[json.dumps(message) for message in _messages(request)] for request in requests]
    distinct = list(dict.fromkeys(message for has in each_has for message in has))
    messages = [json.loads(message) for message in distinct]
    if name in _ON_NPM:
        tokens = dict(zip(distinct, _by_npm(run, name, requests[0].model, messages), strict=True))
    else:
        texts = [list(_texts(message)) for message in messages]
        counts = iter(_by_package(run, name, [text for several in texts for text in several]))
        tokens = {message: sum(next(counts) for _ in several) for message, several in zip(distinct, texts, strict=True)}
    sums = [sum(map(tokens.__getitem__, has)) for has in each_has]
    return [accuracy.Sent(at, size, each.tokens) for at, (size, each) in enumerate(zip(sums, requests, strict=True), 1)]


class Recorded(NamedTuple):
    """The sessions of one provider, and what counts its requests."""

    name: str
    provider: str
    sessions: list[list[accuracy.Billed]]
    peers: tuple[str, ...]


def _recorded(folder: Path) -> Iterator[Recorded]:
    read: Sequence[tuple[str, str, Callable[[Path], Iterator[accuracy.Billed]], tuple[str, ...]]] = (
        (
            "claude",
            "anthropic",
            accuracy.claude_requests,
            ("tiktoken", "@anthropic-ai/tokenizer", "anthropic-tokenizer", "ctok", "ai-tokenizer"),
        ),
        ("codex", "openai_responses", accuracy.codex_requests, ("tiktoken", "ai-tokenizer")),
    )
    for name, provider, requests, peers in read:
        sessions = [list(requests(path)) for path in sorted(folder.glob(f"{name}/*.jsonl"))]
        sessions = [session for session in sessions if len(session) >= accuracy.LONG]
        if sessions:
            yield Recorded(name, provider, sessions, peers)


def _methods(
    run: Run, section: Section, recorded: Recorded, session: Sequence[accuracy.Billed], failed: set[str]
) -> Iterator[Method]:
    """Yield what each method measures of a session. A peer that failed once is not asked again."""
    in_bytes = accuracy.sizes(session, accuracy.in_bytes)
    ratio = uncalibrated(recorded.provider, session[0].model)
    yield Method(_OURS, in_bytes, ratio, calibrate=True)
    yield Method("Foldmark, before", in_bytes, ratio)
    if recorded.provider.startswith("openai"):
        in_tokens = accuracy.sizes(session, accuracy.in_tokens)
        yield Method("Foldmark, token_counting=tokenizer, calibrated", in_tokens, 1.0, calibrate=True)
        yield Method("Foldmark, token_counting=tokenizer, before", in_tokens, 1.0)
    yield Method("bytes / 4", in_bytes, 4.0)
    yield Method("bytes / 3", in_bytes, 3.0)
    for name in recorded.peers:
        if name in run.peers and name not in failed:
            with run.failing(section.failures, name, f"counting requests to {session[0].model}"):
                failed.add(name)
                sent = _by_peer(run, name, session)
                failed.remove(name)
                yield Method(name, sent, 1.0)


def _measure_recorded(run: Run, section: Section, recorded: Recorded) -> None:
    errors: dict[tuple[str, str], list[float]] = defaultdict(list)
    """By model and method."""
    failed: set[str] = set()
    for session in recorded.sessions:
        jumps = accuracy.unseen(
            accuracy.sizes(session, accuracy.in_bytes), uncalibrated(recorded.provider, session[0].model)
        )
        run.say(f"{session[0].model}: {len(session)} requests")
        for method in _methods(run, section, recorded, session, failed):
            later, _ = accuracy.grown(method.sent, method.ratio, jumps)
            followed = accuracy.follow(later, method.ratio, calibrate=method.calibrate)
            errors[_ALL, method.name] += followed.errors
            errors[session[0].model, method.name] += followed.errors
    found = {key: _accuracy(each) for key, each in errors.items()}
    models = list(dict.fromkeys(model for model, _ in found))
    if len(models) == 2:
        models.remove(_ALL)
    section.tables.append(
        Table(
            f"Requests of recorded sessions, {recorded.name}",
            ("method", "model", "requests", "median error, %", "one in ten is off by, %", "bias, %"),
            [
                (name, model, each.requests, 100 * each.middle, 100 * each.tenth, f"{100 * each.bias:+.1f}")
                for model in models
                for (of, name), each in found.items()
                if of == model
            ],
            "Errors without signs; the sessions of a model are taken together.",
        )
    )
    section.ratios += [
        _ratio(
            f"tokens.{recorded.name if model == _ALL else model}",
            f"Median error of the estimated tokens, {recorded.name} sessions"
            + ("" if model == _ALL else f", {model} alone"),
            {name: each.middle for (of, name), each in found.items() if of == model},
            _WHY[recorded.name],
        )
        for model in models
    ]


def _ratio(name: str, what: str, middles: Mapping[str, float], why: str = "") -> Ratio:
    """Return the error of Foldmark as it comes, after calibration, against that of the best other method."""
    best = min((each for each in middles if not each.startswith("Foldmark")), key=middles.__getitem__)
    return Ratio(name, what, 100 * middles[_OURS], 100 * middles[best], best, "%", why=why)


_WHY = {
    "claude": "Foldmark divides bytes, whose number for a token moves with the content of a conversation.",
    "codex": (
        "Foldmark divides bytes unless `token_counting` is `tokenizer`; the number of bytes for a token moves with the "
        f"content, and with encrypted thinking. A ratio that is off by less than {OFF:.0%} is left as it is, so that "
        "what is sent, and with it the provider's cache, stays the same."
    ),
}


def _measure_made(run: Run, section: Section) -> None:
    """Measure conversations made of code, JSON, English and Chinese, where a tokenizer's count is the truth."""
    rows: list[tuple[Cell, ...]] = []
    turns = 16 if run.quick else 40
    together: dict[str, list[float]] = defaultdict(list)
    kinds = {kind: (kind,) * turns for kind in KINDS} | {name: each[:turns] for name, each in accuracy.CHANGING.items()}
    for name, each in kinds.items():
        sent = accuracy.conversation(each)
        methods = (
            Method(_OURS, sent, uncalibrated("openai", "gpt-5"), calibrate=True),
            Method("bytes / 4", sent, 4.0),
            Method("bytes / 3", sent, 3.0),
        )
        middles = []
        for method in methods:
            errors = accuracy.follow(sent, method.ratio, calibrate=method.calibrate).errors
            middles.append(100 * _accuracy(errors).middle)
            together[method.name] += errors
        rows.append((name, len(sent), *middles))
    overall = {name: _accuracy(errors) for name, errors in together.items()}
    rows.append((_ALL, overall[_OURS].requests, *(100 * each.middle for each in overall.values())))
    section.tables.append(
        Table(
            "Requests of made conversations: median error, %",
            ("conversation", "requests", *overall),
            rows,
            "The truth is the count of o200k_base, OpenAI's tokenizer, with the layout of its requests.",
        )
    )
    section.ratios.append(
        _ratio(
            "tokens.made",
            "Median error of the estimated tokens, made conversations",
            {name: each.middle for name, each in overall.items()},
        )
    )


def measure(run: Run) -> Section:
    """Return the section."""
    section = Section("tokens", "Accuracy of tokens", ABOUT)
    recorded = list(_recorded(run.data)) if run.data else []
    for each in recorded:
        _measure_recorded(run, section, each)
    if not recorded:
        section.remarks.append("No recorded sessions were given, so nothing is held against a bill.")
    _measure_made(run, section)
    if "google-genai" in run.peers:
        with run.failing(section.failures, "google-genai", "counting without a network"):
            _by_package(run, "google-genai", ["A text."])
            section.remarks.append("google-genai counts without a network, but no recorded session is of Gemini.")
    return section
