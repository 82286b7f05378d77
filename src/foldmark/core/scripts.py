"""Scripts without spaces: Chinese, Japanese, Korean, Thai and others. A module of its own because it imports nothing
else."""

import re

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
"""The scripts without spaces, as the inside of a character class of a regular expression."""


def is_unspaced(word: str) -> bool:
    """Return True if a word is in a script without spaces."""
    # Most words are ASCII: that is known without looking at their characters.
    return not word.isascii() and re.match(f"[{UNSPACED}]", word) is not None
