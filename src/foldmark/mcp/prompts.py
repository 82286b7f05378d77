"""`/trim` and `/rollover` as prompts: the skills that `foldmark install` writes, from the same files [SPEC 8].

Claude Code fills a skill's variables in; here they are filled in for any client. Which session is meant, the command
finds out where it is run.
"""

import os
from collections.abc import Mapping

from mcp.types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError
from foldmark.core.wording import listing, one_line
from foldmark.sessions.install.edits import SKILLS, template
from foldmark.sessions.install.locations import typed_program

ARGUMENT = "arguments"
_SESSION = " ${CLAUDE_SESSION_ID}"


def listed() -> list[Prompt]:
    """Every prompt, with one free argument: what is typed behind its name."""
    said = PromptArgument(name=ARGUMENT, description="What else is wanted, in your words", required=False)
    return [Prompt(name=name, description=_parts(name)[0], arguments=[said]) for name in SKILLS]


def prompt(name: str, arguments: Mapping[str, str]) -> GetPromptResult:
    """A prompt with its argument. Raises CommandError if there is none of this name, or no such argument."""
    if name not in SKILLS:
        raise CommandError(f"there is no prompt '{one_line(name)[:60]}'; there is: {listing(SKILLS)}")
    if surplus := [each for each in arguments if each != ARGUMENT]:
        raise CommandError(f"{name} takes no '{one_line(surplus[0])[:60]}'; it takes: {ARGUMENT}")
    description, text = _parts(name)
    filled = text.replace(_SESSION, "").replace("{foldmark}", typed_program(os.environ))
    said = well_formed(arguments.get(ARGUMENT, ""))
    content = TextContent(text=filled.replace("$ARGUMENTS", said))
    return GetPromptResult(description=description, messages=[PromptMessage(role="user", content=content)])


def _parts(name: str) -> tuple[str, str]:
    """A skill's description and its text."""
    _, head, text = template(name).split("---\n", 2)
    about = next(line for line in head.splitlines() if line.startswith("description: "))
    return about.removeprefix("description: "), text.strip()
