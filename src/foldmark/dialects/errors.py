"""Errors of model servers: one form of message for each kind, which quotes the server's own words. Servers word the
refusal of a long request in many ways. The patterns below cover Anthropic, Google, OpenAI, OpenRouter, vLLM, SGLang,
llama.cpp, Ollama, LM Studio, Mistral and xAI, as users report them."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from foldmark.core.errors import ContextOverflowError, ProviderError

LONGEST = 400
"""Maximum number of characters of a server's message that an error quotes."""
_PATIENCE = 86_400.0
"""Upper bound, in seconds, for the time that a server asks to wait."""

_HEADS = {
    "key": "refused the request",
    "request": "refused the request",
    "bound": "refused the model's earlier thinking",
    "rate": "limits how often it may be asked",
    "busy": "is overloaded or broken",
}
_HINTS = {
    "key": "Check the key.",
    "request": "Check the model and the settings, then ask again.",
    "bound": "Change the model, then ask again.",
    "rate": "Wait, then ask again.",
    "busy": "Wait, then ask again.",
    "overflow": "/clear, /forget or a smaller /context budget make it shorter.",
}

_OVERFLOW = re.compile(
    r"maximum context length|exceeds? (?:the |its |max(?:imum)? )*(?:available )?context|payload size exceeds"
    r"|exceeds the model's maximum context|context (?:window|length|size) (?:is|was|has been) exceeded"
    r"|longer than the (?:model's context|maximum model) length|too long to fit into the model"
    r"|model's context length is only|context length of only|maximum prompt length is|(?:input|prompt) is too long"
    r"|prompt too long|prompt contains \d+ tokens.*too large|context the overflows|contains too many tokens"
    r"|exceeds the maximum number of tokens allowed|too many tokens for this model|exceed context limit",
    re.IGNORECASE,
)


def _patterns(*forms: str) -> list[re.Pattern[str]]:
    return [re.compile(form.replace("#", r"(\d[\d,]{0,11})"), re.IGNORECASE) for form in forms]


_TOKENS = _patterns(
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
    r"exceed context limit: # \+ #",
)
"""Patterns of the request's length in a refusal; several numbers add up."""
_LIMIT = _patterns(
    r"maximum context length (?:is|of) #",
    r"context length (?:is only|of only|of|is) #",
    r"context length:? \(?#",
    r"maximum model length of #",
    r"context window of #",
    r"context size \(#",
    r"maximum prompt length is #",
    r"> #",
    r"tokens allowed \(?#",
    r"with # maximum context length",
)

_DURATION = r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?\s?(?:ms|h|m|s)(?![A-Za-z]))+"
_WAIT = re.compile(rf"(?:try again in|retry in|reset after) ({_DURATION})")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def refused(
    server: str,
    kind: str,
    words: str,
    status: int = 0,
    *,
    hint: str = "",
    after: float | None = None,
    tokens: int | None = None,
    limit: int | None = None,
) -> ProviderError:
    """Return the error of this `kind`. It states the server's action, its own words, and the next step (`hint`).

    `status` is the HTTP status, or 0 for an error in the middle of a stream. `after` is the number of seconds to wait.
    """
    number = f" ({status})" if status else ""
    shown = brief(words)
    ending = f"{number}: {shown}" if shown else number
    ending = f"{ending}{'' if ending.endswith(('.', '!', '?')) else '.'} {hint or _HINTS[kind]}"
    if kind == "overflow":
        return ContextOverflowError(f"The request is longer than {server} takes{ending}", tokens, limit)
    head = "broke off its answer" if not status and kind in ("key", "request") else _HEADS[kind]
    return ProviderError(kind, f"{server} {head}{ending}", after)


def not_understood(server: str, problem: str) -> ProviderError:
    """Return the error for an answer that does not match the server's documentation."""
    shown = brief(problem) or ("a web page" if problem.strip() else "it is empty")
    return ProviderError("answer", f"{server}'s answer cannot be understood: {shown}. Ask again, or ask another model.")


def broken_off(server: str) -> ProviderError:
    """Return the error for a stream that ended before the answer was complete."""
    return ProviderError("network", f"The connection to {server} ended in the middle of the answer. Ask again.")


def brief(text: str) -> str:
    """Return a server's words on one line, shortened; empty for an HTML page. Remove keys from the text first, because
    a cut could leave part of a key."""
    if text.lstrip().startswith("<"):
        return ""
    words = " ".join(text[: 20 * LONGEST].split())
    return words if len(words) <= LONGEST else f"{words[:LONGEST]}…"


def overflow(words: str) -> tuple[int | None, int | None] | None:
    """Return the tokens of a request that is too long, and the limit, each None if unknown; None if the text reports a
    different error."""
    words = " ".join(words[:20_000].split())
    return (_number(_TOKENS, words), _number(_LIMIT, words)) if _OVERFLOW.search(words) else None


def retry_after(headers: Mapping[str, str], words: str) -> float | None:
    """Return the seconds that a server asks to wait, in its headers or else in its words ("try again in 1.2s")."""
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        wait = _seconds_until(headers.get(name, ""))
        if wait is not None:
            return min(wait * factor, _PATIENCE)
    found = _WAIT.search(words)
    return seconds(found[1]) if found else None


def seconds(duration: str) -> float | None:
    """Return the seconds of a duration such as `1h2m3.5s`, at most a day; None for any other text."""
    if re.fullmatch(_DURATION, duration) is None:
        return None
    parts = re.findall(r"([0-9.]+)\s?(ms|h|m|s)", duration)
    return min(sum(float(number) * _UNITS[unit] for number, unit in parts), _PATIENCE)


def _seconds_until(value: str) -> float | None:
    """Return a number of seconds, or the seconds until a date; None for anything else."""
    if re.fullmatch(r"\d{1,12}(?:\.\d{1,12})?", value.strip()):
        return float(value)
    try:
        then = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (then.replace(tzinfo=then.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _number(patterns: list[re.Pattern[str]], words: str) -> int | None:
    found = next((match for pattern in patterns if (match := pattern.search(words))), None)
    return sum(int(number.replace(",", "")) for number in found.groups()) if found else None
