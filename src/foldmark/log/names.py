"""Rules for names of conversations."""

from foldmark.core.errors import CommandError


def check_name(name: str) -> None:
    """Raise CommandError if a conversation cannot have this name."""
    if is_uuid(name) or not name.strip() or len(name) > 200 or not name.isprintable():
        raise CommandError(
            f"a conversation's name is 1 to 200 printable characters and not a uuid, unlike {name[:40]!r}"
        )


def is_uuid(text: str) -> bool:
    """Return True if `text` has the form of a uuid: 8-4-4-4-12 hexadecimal digits."""
    parts = text.lower().split("-")
    return [len(part) for part in parts] == [8, 4, 4, 4, 12] and all(c in "0123456789abcdef" for c in "".join(parts))
