"""How much context an answer of Claude's says that it takes [SPEC 8, S4]. Imports nothing: hooks have no time."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MOST_TOKENS = 10**9

_PARTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def used(usage: "Mapping[str, Any]") -> int:
    """Return the tokens in the context after an answer with this `usage`."""
    return sum(token_count(usage, key) for key in _PARTS)


def token_count(table: "Any", key: str) -> int:
    """Return the token count under a key, or 0 if there is no valid count."""
    value = table.get(key) if isinstance(table, dict) else None
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0
