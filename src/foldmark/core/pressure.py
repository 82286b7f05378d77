"""How full a model's window is [SPEC 5.5]."""

WINDOW = 200_000
"""Tokens that a model takes if nothing better is known [S1]."""


def percent(tokens: int, window: int = WINDOW) -> int:
    """The share of the window, rounded down."""
    return tokens * 100 // window


def meter(tokens: int, window: int = WINDOW) -> str:
    """`Context: 80K/200K tokens (40%)` with a light: white, yellow from 80%, red from 95%."""
    share = percent(tokens, window)
    light = "🔴" if share >= 95 else "🟡" if share >= 80 else "⚪"
    return f"Context: {_thousands(tokens)}/{_thousands(window)} tokens ({share}%) {light}"


def is_full(tokens: int, window: int = WINDOW) -> bool:
    """Whether text is refused; commands never are."""
    return tokens >= window


def _thousands(tokens: int) -> str:
    return f"{-(-tokens // 1000)}K"
