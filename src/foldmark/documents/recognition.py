"""Recognize a JSON document by its content, without the imports that reading one takes [SPEC 9]."""

import re
from pathlib import Path

from foldmark.documents.layout import SIGN
from foldmark.formats.session_file import SessionFileError
from foldmark.sessions.conversion.importing import format_in

_BEGINNING = 1 << 16
"""Number of bytes in which a document says what it is."""

_HAS_SIGN = re.compile(rb'"format"\s*:\s*"' + SIGN.encode())
_BEGINS = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{\s*" + _HAS_SIGN.pattern)


def is_document(file: Path) -> bool:
    """Return True if a file begins like a JSON document of Foldmark; also for a file with the name of one, unless it is
    a coding agent's session."""
    try:
        if not file.is_file():
            return False
        with file.open("rb") as opened:
            begin = opened.read(_BEGINNING)
    except (OSError, ValueError):
        return False
    if _BEGINS.match(begin):
        return True
    if file.suffix.lower() != ".json" and not _HAS_SIGN.search(begin):
        return False
    try:
        format_in(file)
    except SessionFileError:
        return True
    return False
