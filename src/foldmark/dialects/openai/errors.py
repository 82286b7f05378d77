"""Convert the errors of servers that speak OpenAI's dialect to ProviderError.

How a request that is too long is refused differs from server to server; the words below are OpenAI's, OpenRouter's,
vLLM's, SGLang's, llama.cpp's, Ollama's, LM Studio's, Mistral's and xAI's, as users report them.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from foldmark.core.errors import ContextOverflowError, ProviderError

_LONGEST = 600
"""Characters of a server's words that are repeated."""
_READ = 20_000
"""Characters of them that are looked at."""
_PATIENCE = 86_400.0
"""Seconds to wait at most, whatever a server says."""

_OVERFLOW_CODES = ("context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded")
_OVERFLOW = re.compile(
    r"maximum context length|exceeds? (?:the |its |max(?:imum)? )*(?:available )?context (?:window|size|length)"
    r"|exceeds the model's maximum context|context (?:window|length|size) (?:is|was|has been) exceeded"
    r"|longer than the (?:model's context|maximum model) length|too long to fit into the model"
    r"|model's context length is only|context length of only|maximum prompt length is|input is too long for"
    r"|prompt is too long|prompt too long|prompt contains \d+ tokens.*too large|context the overflows"
    r"|exceeds the maximum number of tokens allowed|too many tokens for this model",
    re.IGNORECASE,
)
_NUMBER = r"(\d[\d,]{0,11})"
_TOKENS = [
    re.compile(pattern.replace("#", _NUMBER), re.IGNORECASE)
    for pattern in (
        r"resulted in # tokens",
        r"requested (?:about |a total of )?# tokens",
        r"passed # input tokens",
        r"(?:has|contains|contains at least) # (?:input )?tokens",
        r"at least # input tokens",
        r"requested tokens \(#\)",
        r"(?:request|input|prompt) \((?:length )?#(?: tokens)?\)",
        r"total length #",
        r"(?:token count|prompt tokens) \(#\)",
        r"too long: #",
        r"first # tokens",
    )
]
_LIMIT = [
    re.compile(pattern.replace("#", _NUMBER), re.IGNORECASE)
    for pattern in (
        r"maximum context length (?:is|of) #",
        r"context length (?:is only|of only|of|is) #",
        r"context length:? \(?#",
        r"maximum model length of #",
        r"context window of #",
        r"context size \(#",
        r"maximum prompt length is #",
        r"> # maximum",
        r"tokens allowed \(#\)",
        r"with # maximum context length",
    )
]
_QUOTA = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_credits")
_WRONG = re.compile(r"invalid|policy|image|unsupported|not_found|mismatch|too_large|^4\d\d$")
_WAIT = re.compile(r"try again in (\d{1,6}(?:\.\d{1,6})?)\s?(ms|s)\b")
_PIECE_OF_KEY = re.compile(r"sk-[\w*.…-]{4,}")


def masked(text: str, hidden: Callable[[str], str]) -> str:
    """`text` without the key and without what looks like a piece of one; OpenAI repeats pieces of keys."""
    shown = _PIECE_OF_KEY.sub("sk-…", hidden(text))
    return re.sub(r"\S+", lambda word: "…" if "***" in word[0] else word[0], shown)


def shortened(text: str) -> str:
    """As much of a server's words as is repeated; to be hidden from first, since half a key is one too."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def told(
    server: str, status: int, body: object, headers: Mapping[str, str], hidden: Callable[[str], str]
) -> ProviderError:
    """The error for what a server said: `body` is the `error` of its JSON, or whatever it sent instead.

    `status` is 0 for an error in the middle of a stream; its code then stands in the body.
    """
    words = masked(_words(body), hidden)[:_READ]
    code, type_ = _name(body, "code"), _name(body, "type")
    said = f": {shortened(words)}" if words else ""
    said = said if said.endswith((".", "!", "?")) else f"{said}."
    number = status or (int(code) if re.fullmatch(r"[45]\d\d", code) else 0)
    tells = f"{server} refused the request ({number})" if number else f"{server} broke off its answer"
    # Codes that say what is wrong go before statuses: servers give the same trouble different ones.
    if code in _QUOTA or type_ in _QUOTA or number == 402:
        return ProviderError(
            "request", f"{tells}, the account has no quota or credit left{said} Waiting does not help."
        )
    if number != 429 and (code in _OVERFLOW_CODES or type_ in _OVERFLOW_CODES or _OVERFLOW.search(words)):
        return _overflow(server, body, words, said)
    if number in (401, 403) or code == "invalid_api_key":
        return ProviderError("key", f"{tells}{said} Check the key, OPENAI_API_KEY or that of this server.")
    if number == 429 or "rate_limit" in code:
        if "Request too large" in words:
            return ProviderError("request", f"{tells}{said} A smaller /context budget makes requests shorter.")
        return ProviderError("rate", f"{server} limits how often it may be asked{said}", _wait(headers, words))
    if number >= 500 or number in (408, 409) or (not number and not _WRONG.search(code or type_)):
        which = f"is overloaded or broken ({number})" if number else "is overloaded or broken and ended its answer"
        return ProviderError("busy", f"{server} {which}{said}", _wait(headers, words))
    advice = {
        404: " Check the model's name, and the address of the server if it has one of its own.",
        413: " A smaller /context budget makes requests shorter.",
    }
    return ProviderError("request", f"{tells}{said}{advice.get(number, '')}")


def caught(server: str, problem: Exception, hidden: Callable[[str], str]) -> ProviderError:
    """The error for what the SDK or the connection raised."""
    import openai

    match problem:
        case ProviderError():
            return problem
        case openai.APIStatusError():
            return told(server, problem.status_code, problem.body, problem.response.headers, hidden)
        case openai.APITimeoutError():
            return ProviderError("network", f"{server} did not answer in time.")
        case openai.APIConnectionError():
            return ProviderError("network", f"The connection to {server} failed: {_cause(problem, hidden)}.")
        case openai.APIError():
            return told(server, 0, problem.body or problem.message, {}, hidden)
    return ProviderError("answer", f"{server} answered what cannot be understood: {_shown(problem, hidden)}.")


def _overflow(server: str, body: object, words: str, said: str) -> ContextOverflowError:
    more = body if isinstance(body, dict) else {}
    tokens = _count(more.get("n_prompt_tokens")) or _first(_TOKENS, words)
    limit = _count(more.get("n_ctx")) or _first(_LIMIT, words)
    text = f"The request is longer than the model takes, says {server}{said}"
    advice = "/clear, /context window or a smaller /context budget make it shorter."
    return ContextOverflowError(f"{text} {advice}", tokens, limit)


def _words(body: object) -> str:
    """A server's own words, wherever it puts them; nothing of a page of HTML."""
    if isinstance(body, dict):
        found = body.get("message") or body.get("detail") or body.get("error") or ""
        more = body.get("metadata")
        raw = more.get("raw") if isinstance(more, dict) else None  # what OpenRouter was told by the provider behind it
        found = f"{found}: {raw}" if isinstance(raw, str) and raw else found
    else:
        found = body if isinstance(body, str) and not body.lstrip().startswith("<") else ""
    return " ".join((found if isinstance(found, str) else repr(found)).split())


def _name(body: object, key: str) -> str:
    value = body.get(key) if isinstance(body, dict) else None
    return str(value)[:80] if isinstance(value, str | int) else ""


def _first(patterns: list[re.Pattern[str]], words: str) -> int | None:
    found = next((match for match in (pattern.search(words) for pattern in patterns) if match), None)
    return int(found[1].replace(",", "")) if found else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**12 else None


def _wait(headers: Mapping[str, str], words: str) -> float | None:
    """The seconds to wait, by the headers or else by the words ("Please try again in 1.2s")."""
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _seconds(headers.get(name))
        if seconds is not None:
            return min(seconds * factor, _PATIENCE)
    found = _WAIT.search(words)
    return float(found[1]) * (0.001 if found[2] == "ms" else 1.0) if found else None


def _seconds(value: str | None) -> float | None:
    """A number of seconds, or those up to a date; None for anything else."""
    if value is None:
        return None
    if re.fullmatch(r"\d{1,12}(?:\.\d{1,12})?", value.strip()):
        return float(value)
    try:
        then = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (then.replace(tzinfo=then.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _cause(problem: Exception, hidden: Callable[[str], str]) -> str:
    return _shown(problem.__cause__ or problem, hidden)


def _shown(problem: BaseException, hidden: Callable[[str], str]) -> str:
    return shortened(masked(str(problem), hidden)).rstrip(".") or type(problem).__name__
