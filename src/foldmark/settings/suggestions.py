"""What a person may have meant by a name that there is not."""

from foldmark.core.wording import listing


def suggestion(name: str, names: list[str]) -> str:
    """What a person may have meant by `name`, and otherwise all there is."""
    from difflib import get_close_matches  # 7 ms, and only ever needed here

    found = get_close_matches(name.lower(), names, n=3)
    return f"did you mean {' or '.join(found)}?" if found else f"there is: {listing(names, 40)}"
