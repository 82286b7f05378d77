"""Which part of an answer's usage says how large its context was.

A hook imports this module after every tool call, so it must not import other parts of Foldmark.
"""

from collections.abc import Mapping

INPUT_PARTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""Fields whose sum is the number of tokens that a call read."""

PARTS = (*INPUT_PARTS, "output_tokens")

_ON_MESSAGES = ("message", "iteration")
"""Types of calls in `iterations` that read the messages; others are compactions and advisors."""


def context_usage(usage: Mapping[str, object]) -> Mapping[str, object]:
    """Return the part of a usage that says how large the context is. A provider that called its model several times for
    one answer, because of its own tools or a compaction, lists each call in `iterations` and reports their sum; only
    the last one on the messages read all of the context. Return `usage` itself if it lists no such call."""
    calls = usage.get("iterations")
    if isinstance(calls, list) and any(map(usage.get, PARTS)):  # a trim resets the sum only
        for call in reversed(calls):
            if isinstance(call, dict) and call.get("type") in _ON_MESSAGES and any(map(call.get, PARTS)):
                return call
    return usage
