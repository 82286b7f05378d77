"""What the offline model calls itself, and how it repeats what it read."""

WHO = "I am the offline model, not a language model"

PREVIEW = 60
"""Characters of a message that an answer repeats."""


def cut(text: str, most: int = PREVIEW) -> str:
    """The beginning of a text, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[:most].rstrip()}…"
