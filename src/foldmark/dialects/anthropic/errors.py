"""What went wrong between Foldmark and Anthropic, in one line for a person; the SDK's own errors stay here.

The kinds of errors: platform.claude.com/docs/en/api/errors. How the API says that a request is too long is known from
those who met it: `prompt is too long: 208310 tokens > 200000 maximum`, and `input length and `max_tokens` exceed
context limit: 178959 + 64000 > 200000`.
"""

import re
from math import isfinite
from typing import Any

from foldmark.core.errors import ContextOverflowError, ProviderError
from foldmark.core.wording import one_line
from foldmark.dialects.anthropic.messages import not_understood

LONGEST = 400
"""Characters of the provider's own words that are shown."""

_KINDS = {
    "authentication_error": "key",
    "permission_error": "key",
    "billing_error": "key",
    "rate_limit_error": "rate",
    "overloaded_error": "busy",
    "api_error": "busy",
    "timeout_error": "busy",
    "request_too_large": "overflow",
}
_STATUSES = {401: "key", 402: "key", 403: "key", 408: "busy", 413: "overflow", 429: "rate"}
_TOO_LONG = re.compile(r"(?:prompt|input) is too long(?:: ([\d,]+) tokens > ([\d,]+))?", re.IGNORECASE)
_TOGETHER = re.compile(r"input length and `?max_tokens`? exceed context limit: ([\d,]+) \+ ([\d,]+) > ([\d,]+)")
_BOUND = "bound to a different conversation"
_NEXT = {
    "key": "Check the key in ANTHROPIC_API_KEY, and what its account may use.",
    "rate": "Wait, then ask again.",
    "busy": "Wait, then ask again.",
    "request": "Change the model or the settings, then ask again.",
    "bound": "Change the model, then ask again.",
    "overflow": "Make it shorter with /clear, /forget or a smaller /context budget.",
}


def no_sdk() -> ProviderError:
    """The official SDK is not installed."""
    return ProviderError("sdk", "Anthropic's models need its SDK. Install it: pip install 'foldmark[anthropic]'")


def no_key() -> ProviderError:
    """There is no key, neither in the settings nor in the environment."""
    return ProviderError("key", "There is no key for Anthropic's models. Set ANTHROPIC_API_KEY to one.")


def odd_key() -> ProviderError:
    """The key cannot stand in a request's header."""
    text = "The key for Anthropic's models holds characters that no key has. Set ANTHROPIC_API_KEY to the key alone."
    return ProviderError("key", text)


def told(error: Exception, hidden: str | None) -> ProviderError:
    """A failure of the SDK, its transport or its parser; `hidden` is the key, which is shown nowhere."""
    import anthropic
    import httpx2

    if isinstance(error, ProviderError):
        return error
    if isinstance(error, anthropic.APIStatusError):
        return _refused(error, hidden)
    if isinstance(error, anthropic.CredentialsError):
        return ProviderError("key", f"{no_key()} ({_words(str(error), hidden)})")
    cause = error.__cause__ or error
    if isinstance(cause, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return ProviderError("request", f"The address for Anthropic is wrong: {_words(str(cause), hidden)} Correct it.")
    if isinstance(error, anthropic.APITimeoutError | httpx2.TimeoutException):
        return ProviderError("network", "Anthropic did not answer in time. Ask again.")
    if isinstance(error, anthropic.APIConnectionError | httpx2.TransportError):
        reason = _words(str(cause), hidden)
        return ProviderError(
            "network", f"The connection to Anthropic failed: {reason}. Check the network, then ask again."
        )
    return not_understood(_words(str(error) or type(error).__name__, hidden))


def _refused(error: Any, hidden: str | None) -> ProviderError:
    """An error that the API told, by its HTTP status or in the middle of a stream, where the status says nothing."""
    status = error.status_code if error.status_code >= 400 else None
    inner = error.body.get("error") if isinstance(error.body, dict) else None
    about = inner if isinstance(inner, dict) else {}
    message = about.get("message")
    said = message if isinstance(message, str) else ""
    words = _words(said or (error.body if isinstance(error.body, str) else ""), hidden)
    kind = _kind(status, about.get("type"))
    tokens, limit = _sizes(words)
    if kind == "request" and (_TOO_LONG.search(words) or tokens):
        kind = "overflow"
    elif kind == "request" and _BOUND in said:
        kind = "bound"
    where = f" ({status})" if status else ""
    text = f"{_HEADS[kind]}{where}{': ' + words.rstrip('.') if words else ''}. {_NEXT[kind]}"
    if kind == "overflow":
        return ContextOverflowError(text, tokens, limit)
    return ProviderError(kind, text, _retry_after(error.response.headers))


_HEADS = {
    "key": "Anthropic refused the key",
    "rate": "Anthropic's limit of requests is reached",
    "busy": "Anthropic cannot answer now",
    "request": "Anthropic refused the request",
    "bound": "Anthropic refused the model's earlier thinking",
    "overflow": "The request is longer than the model takes",
}


def _kind(status: int | None, said: Any) -> str:
    if isinstance(said, str) and said in _KINDS:
        return _KINDS[said]
    if status is None:
        return "request" if said in ("invalid_request_error", "not_found_error") else "busy"
    return _STATUSES.get(status, "busy" if status >= 500 else "request")


def _sizes(words: str) -> tuple[int | None, int | None]:
    together = _TOGETHER.search(words)
    if together:
        return _number(together[1]) + _number(together[2]), _number(together[3])
    alone = _TOO_LONG.search(words)
    return (_number(alone[1]), _number(alone[2])) if alone and alone[1] else (None, None)


def _number(text: str) -> int:
    return int(text.replace(",", "")[:15] or 0)


def _words(text: str, hidden: str | None) -> str:
    """The provider's own words on one line; of a page of HTML nothing."""
    text = text.replace(hidden, "…") if hidden else text
    if text.lstrip().startswith("<"):
        return ""
    text = one_line(" ".join(text[: 20 * LONGEST].split()))
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def _retry_after(headers: Any) -> float | None:
    """The seconds that the provider asks to wait; a date is passed over."""
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * factor
        except ValueError:
            continue
        if isfinite(seconds) and seconds >= 0:
            return seconds
    return None
