"""Scripts that write no spaces: Chinese, Japanese, Korean, Thai and others. Apart, for it imports nothing else."""

import re

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
"""The scripts that write no spaces, as what stands in a regular expression between `[` and `]`."""


def is_unspaced(word: str) -> bool:
    """Whether a word is of a script that writes no spaces."""
    # Most words are ASCII; that is known without looking at them.
    return not word.isascii() and re.match(f"[{UNSPACED}]", word) is not None
