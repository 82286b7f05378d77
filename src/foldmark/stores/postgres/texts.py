"""Texts as PostgreSQL can hold them, which takes any character but NUL.

NUL becomes two characters: the escape (U+0010, Data Link Escape, which hardly any text has) and `0`. An escape that a
text had becomes two escapes. So each text has one form, and each form one text.
"""

import re

_ESCAPE = "\x10"
_ESCAPED = re.compile(f"{_ESCAPE}(.|$)", re.DOTALL)


def escaped(text: str) -> str:
    """Return the form of a text in the database."""
    if "\0" not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, _ESCAPE * 2).replace("\0", f"{_ESCAPE}0")


def unescaped(text: str) -> str:
    """Return the text of a form; of one that was cut in the middle of an escape, without that."""
    if _ESCAPE not in text:
        return text
    return _ESCAPED.sub(lambda match: "\0" if match[1] == "0" else match[1], text)
