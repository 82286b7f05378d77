"""Texts in a form that PostgreSQL can hold: it accepts every character but NUL.

NUL becomes two characters: the escape (U+0010, Data Link Escape, which hardly any text has) and `0`. An escape in the
text becomes two escapes. So the mapping is one to one.
"""

import re

_ESCAPE = "\x10"
_ESCAPED = re.compile(f"{_ESCAPE}(.|$)", re.DOTALL)


def escaped(text: str) -> str:
    """Return the stored form of a text."""
    if "\0" not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, _ESCAPE * 2).replace("\0", f"{_ESCAPE}0")


def unescaped(text: str) -> str:
    """Return the text of a stored form; an escape that was cut in the middle is dropped."""
    if _ESCAPE not in text:
        return text
    return _ESCAPED.sub(lambda match: "\0" if match[1] == "0" else match[1], text)
