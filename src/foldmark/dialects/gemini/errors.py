"""What Google's APIs say when they refuse, in Foldmark's terms (google.rpc.Status, as JSON)."""

import json
import re
from typing import Any

from foldmark.core.errors import ContextOverflowError, ProviderError

LONGEST = 400
"""Characters of a provider's words that are repeated."""

_OVERFLOW = re.compile(
    r"token count[^0-9]{0,20}([0-9,]{0,15})[^0-9]{0,60}exceeds the maximum[^0-9]{0,60}([0-9,]{0,15})"
)
_TOO_LARGE = re.compile(r"payload size exceeds|contains too many tokens|exceeds the context", re.IGNORECASE)
_BAD_KEY = re.compile(r"API key (?:not valid|expired|not found)|API_KEY_INVALID", re.IGNORECASE)
_DELAY = re.compile(
    r"(?:retry in|reset after) ((?:[0-9]{1,5}h)?(?:[0-9]{1,5}m(?!s))?(?:[0-9]{1,9}(?:\.[0-9]{1,9})?s)?)"
)
_SECONDS = re.compile(r"(?:([0-9]{1,5})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)s)?")


def refusal(service: str, status: int, said: Any, after: str | None, key: str) -> ProviderError:
    """The error for an answer with this HTTP status, or an error told in a stream with this code.

    `said` is the JSON of it, or its text; `after` its retry-after header; `key` tells what to do about a key.
    """
    error = _error(said)
    text = error.get("message") if error else said
    words = _words(text) if isinstance(text, str) and text.strip() else ""
    if not error or not words:
        words = f"HTTP {status}{': ' if words else ''}{words}"
    name = error.get("status")
    told = f"{brief(words)} ({brief(name)})" if isinstance(name, str) and name else brief(words)
    if found := _OVERFLOW.search(words):
        return ContextOverflowError(_overflow(service, words), _number(found[1]), _number(found[2]))
    if status == 413 or _TOO_LARGE.search(words):
        return ContextOverflowError(_overflow(service, words))
    if status in (401, 403) or _BAD_KEY.search(words) or "API_KEY_INVALID" in str(error.get("details")):
        return ProviderError("key", f"{service} refused the key: {told}. {key}")
    after_seconds = _delay(error, words, after)
    if status == 429:
        return ProviderError("rate", f"{service} is asked too often: {told}. Wait a little.", after_seconds)
    if status in (408, 499) or 500 <= status < 600:
        return ProviderError("busy", f"{service} could not answer: {told}. Try again a little later.", after_seconds)
    if 400 <= status < 500:
        return ProviderError("request", f"{service} refused the request: {told}. Check the model's name.")
    return ProviderError("answer", f"{service} answered what cannot be understood: {told}. Check its address.")


def brief(text: str) -> str:
    """A provider's words on one line, cut where they are long, without a full stop; of a web page, that it is one."""
    words = _words(text)
    return (words if len(words) <= LONGEST else f"{words[:LONGEST]}…").rstrip(".")


def decoded(text: str) -> Any:
    """The JSON of a body, or its text where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _words(text: str) -> str:
    if text.lstrip()[:1] == "<":
        return "a web page"
    return " ".join(text[: 10 * LONGEST].split())


def _error(said: Any) -> dict[str, Any]:
    """The google.rpc.Status of an answer, which may stand in a list; empty if there is none."""
    if isinstance(said, list) and said:
        said = said[0]
    error = said.get("error", said) if isinstance(said, dict) else None
    return error if isinstance(error, dict) else {"message": error} if isinstance(error, str) else {}


def _overflow(service: str, words: str) -> str:
    return f"The request is longer than {service} takes: {brief(words)}. /forget, /rewind or /clear make it shorter."


def _number(text: str) -> int | None:
    digits = text.replace(",", "")
    return int(digits) if digits else None


def _delay(error: dict[str, Any], words: str, after: str | None) -> float | None:
    """The seconds that the provider asks to wait: by google.rpc.RetryInfo, by its header, or in its words."""
    details = error.get("details")
    for detail in details if isinstance(details, list) else []:
        if isinstance(detail, dict) and isinstance(delay := detail.get("retryDelay"), str):
            return _seconds(delay)
    if after is not None and re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", after.strip()):
        return float(after)
    found = _DELAY.search(words)
    return _seconds(found[1]) if found else None


def _seconds(text: str) -> float | None:
    """The seconds of `17s` or `1h2m3.5s`."""
    found = _SECONDS.fullmatch(text)
    if found is None or not text:
        return None
    return int(found[1] or 0) * 3600 + int(found[2] or 0) * 60 + float(found[3] or 0)
