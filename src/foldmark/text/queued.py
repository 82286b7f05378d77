"""Prompts that a person typed while the agent worked, in the forms in which clients send and store them. Pure.

One table says which text around a prompt is the client's. Other wrapped texts, such as messages of other sessions, of
channels or of background tasks, are no person's prompts, and are not listed.

Observed with Claude Code 2.1.197 and 2.1.332, and Codex 0.169 and 0.171 (tests/live/queued_forms.json):

- While a tool runs, Claude Code wraps each prompt and sends all of them after the result: as text blocks, joined in one
  system message, or, to models that take no system messages, in tags at the end of the result's text.
- While an answer arrives, Claude Code keeps prompts for the next request, as text blocks of one message.
- Codex sends each prompt as an item: after the outputs of a tool, or after the prompt whose answer it has aborted.
  After Esc, it joins those that wait by line feeds.
- Gemini CLI 0.61 keeps all prompts until the turn has ended, and joins them by empty lines. A pasted text looks alike.
- qwen-code 0.15.10 does the same, but sends what was typed while a tool ran behind its result, each as a wrapped text.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from foldmark.core.patterns import pattern

ATTACHMENT = "queued_command"
"""The type of the attachment in which Claude Code stores such a prompt."""

_WRAPPERS = (
    ("The user sent a new message while you were working:\n", r"\n\n(?=[^\n]*[Aa]ddress)[^\n]*\bmessage above\b[^\n]*"),
    ("The user sent the following message:\n", r"\n\nPlease address this message[^\n]*"),
)
"""What Claude Code writes before a prompt, and a pattern for what it writes after it; versions differ in that."""

_RECEIVED = pattern(r"\n?\[User message received during tool execution\]: (.+)", re.DOTALL)
"""A text in which qwen-code sends a prompt."""

_WRAPPED = pattern(
    "(?:" + "|".join(f"{re.escape(begin)}(?P<p{at}>.*?){end}" for at, (begin, end) in enumerate(_WRAPPERS)) + r")\n?",
    re.DOTALL,
)
_TAGGED = pattern(rf"<system-reminder>\n?{_WRAPPED.pattern}\n?</system-reminder>\n?", re.DOTALL)
_REMINDER = pattern(r"<system-reminder>.*?</system-reminder>\n*", re.DOTALL)
_BEGINS = tuple(begin.strip().encode() for begin, _ in _WRAPPERS)


JOIN = "\n\n"
"""What Gemini CLI puts between prompts that it joins."""


class TextPart(NamedTuple):
    """A part of a text that a client sends. `prompt` is what a person typed there; None for any other text."""

    text: str
    prompt: str | None = None


def may_be_wrapped(raw: bytes) -> bool:
    """Return False if a message as JSON holds no wrapped prompt."""
    return any(begin in raw for begin in _BEGINS)


def unwrapped(text: str) -> str | None:
    """Return the prompt if a text is nothing but a wrapped prompt; None for any other text."""
    parts = divided(text)
    return parts[0].prompt if len(parts) == 1 else None


def received(text: str) -> str | None:
    """Return the prompt in a text that qwen-code sends behind the results of tools; None for any other text."""
    found = _RECEIVED.fullmatch(text)
    return None if found is None else found[1]


def divided(text: str) -> list[TextPart]:
    """Return the parts of a client's text: the prompts that the client wrapped, and what stands between them. Joined,
    the parts are the text. A part begins with the empty lines before it."""
    return _divided(text, 0, _WRAPPED, _TAGGED)


def divided_result(text: str) -> list[TextPart]:
    """Divide the text of a tool's result at the prompts that the client wrapped and put behind it. Tools return such
    texts as well, for example of a session file: only those in tags at the end count."""
    end = next(
        (each.start() for each in re.finditer(r"\n\n(?=<system-reminder>)", text) if _only_tags(text, each.end())), None
    )
    return [TextPart(text)] if end is None else _divided(text, end, _TAGGED)


def separated(text: str, is_command: Callable[[str], bool]) -> list[str]:
    """Return the prompts that a client has joined by line feeds: each line that is a command, and what is between."""
    found: list[list[str]] = [[]]
    for line in text.split("\n"):
        if is_command(line):
            found += [[line], []]
        else:
            found[-1].append(line)
    return [joined for lines in found if (joined := "\n".join(lines)).strip()]


def unjoined(text: str, is_command: Callable[[str], bool]) -> list[str]:
    """Return the prompts that a client has joined by empty lines: each paragraph that is a command, and what is
    between. Joined again by `JOIN`, they are the text."""
    found: list[str] = []
    alone = True
    for paragraph in text.split(JOIN):
        command = "\n" not in paragraph and is_command(paragraph)
        if command or alone:
            found.append(paragraph)
        else:
            found[-1] += JOIN + paragraph
        alone = command
    return found


def queued_prompt(attached: Mapping[str, Any]) -> Any:
    """Return the prompt in an attachment of a session of Claude Code; None for any other attachment."""
    return attached.get("prompt") if attached.get("type") == ATTACHMENT else None


def _only_tags(text: str, at: int) -> bool:
    """Return True if a text consists of the client's reminders from a place on."""
    while found := _REMINDER.match(text, at):
        at = found.end()
    return at == len(text)


def _divided(text: str, begin: int, *forms: "re.Pattern[str]") -> list[TextPart]:
    parts, last, at = list[TextPart](), 0, begin
    while at < len(text):
        blank = len(text) - len(text[at:].lstrip("\n"))
        found = next((match for form in forms if (match := form.match(text, blank))), None)
        if found is None:
            following = text.find("\n\n", blank)
            at = len(text) if following < 0 else following
            continue
        if at > last:
            parts.append(TextPart(text[last:at]))
        prompt = next(each for each in found.groups() if each is not None)
        parts.append(TextPart(text[at : found.end()], prompt))
        at = last = found.end()
    return parts if last == len(text) and parts else [*parts, TextPart(text[last:])]
