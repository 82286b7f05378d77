"""Limits of a memo: its length, and the form of its tags [SPEC 7]."""

import re
import unicodedata
from collections.abc import Iterable

from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError

LONGEST_MEMO = 2000
"""Maximum number of characters of a memo: up to five memos go into every request of a turn."""

MOST_TAGS, LONGEST_TAG = 10, 40

_TAG = re.compile(r"\w[\w.+/-]*")


def checked_content(text: str) -> str:
    """Return the checked content of a memo. Raises CommandError if it is empty or too long."""
    content = well_formed(text).strip()
    if not content:
        raise CommandError("a memo needs a text; nothing was saved")
    if len(content) > LONGEST_MEMO:
        raise CommandError(
            f"a memo has at most {LONGEST_MEMO:,} characters, not {len(content):,}; save what matters of it, or several"
        )
    return str(content)


def checked_tags(words: Iterable[str]) -> tuple[str, ...]:
    """Return tags in normal form: lower case, '-' for white space, sorted, distinct. Raises CommandError."""
    tags = sorted({tag for word in words if (tag := _normal(word))})
    for tag in tags:
        if len(tag) > LONGEST_TAG or not _TAG.fullmatch(tag):
            raise CommandError(
                f"a tag is up to {LONGEST_TAG} letters, digits, '-', '_', '.', '+' or '/', unlike {tag[:LONGEST_TAG]!r}"
            )
    if len(tags) > MOST_TAGS:
        raise CommandError(
            f"a memo has at most {MOST_TAGS} tags, not {len(tags)}; the few that it will be looked for by"
        )
    return tuple(tags)


def _normal(word: str) -> str:
    text = unicodedata.normalize("NFC", well_formed(word)).strip().removeprefix("#")
    return "-".join(text.lower().split())
