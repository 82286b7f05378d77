"""Dialects by name: built in, or an entry point of the group `foldmark.dialects`."""

from foldmark.core.errors import CommandError
from foldmark.core.wording import listing
from foldmark.dialects.dialect import Dialect
from foldmark.plugins import DIALECTS, find, names

BUILT_IN = {
    "anthropic": "foldmark.dialects.anthropic.dialect:ANTHROPIC",
    "openai": "foldmark.dialects.openai.dialect:CHAT",
    "openai_responses": "foldmark.dialects.openai.dialect:RESPONSES",
    "gemini": "foldmark.dialects.gemini.dialect:GEMINI",
    "gemini_gca": "foldmark.dialects.gemini.dialect:CODE_ASSIST",
    "offline": "foldmark.dialects.openai.dialect:OFFLINE",
}


def dialect_named(name: str) -> Dialect:
    """Return the dialect of this name. Raises CommandError for an unknown one."""
    found = find(DIALECTS, name, Dialect, BUILT_IN)
    if found is None:
        there_is = listing((*BUILT_IN, *names(DIALECTS)), 40)
        raise CommandError(f"there is no dialect '{name[:40]}'; there is: {there_is}")
    return found
