"""How the offline model plays the talk around /forget and /remember, by [S1]'s examples.

It understands no language: it knows a yes, "show me what you will forget", and what reads as criteria: additions ("also
…"), exceptions ("except …") and corrections ("no, I mean …"). To anything else it answers as if nothing were planned.
Each step follows from the request alone.
"""

import re
from collections.abc import Collection, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.consent import is_yes
from foldmark.providers.chat_lines import Line
from foldmark.providers.offline_results import Found, done, previewed, read

TOOL = "filter_context"

LONGEST = 500
"""Characters of a person's text that can become criteria."""

_TYPED = re.compile(r"/(forget|remember)\s+(\S.*)", re.DOTALL)
_SHOW = re.compile(
    r"(?=(?:please\s+)?(?:show|list|preview|display|let\s+me\s+see|what|which)\b)(?:please\s+)?"
    r"(?:(?:show|list|preview|display)(?:\s+me)?|let\s+me\s+see)?\s*"
    r"(?:it|them|these|those|that|the\s+(?:list|preview|messages|ranges)|which(?:\s+(?:ones|messages|ranges))?"
    r"|(?:what|which(?:\s+(?:ones|messages|ranges))?)(?:\s+[\w'’]+){0,3}\s+(?:forget|remember|keep|remove|drop|go|stay))?"
    r"(?:[\s,]+(?:again|first|once\s+more|now|please))*[\s.?!]*",
    re.IGNORECASE,
)
_AGREED = r"(?:(?:yes|ok|okay|all|everything|these|those|them)\b[\s,]*)*"
_EXCEPT = re.compile(
    rf"{_AGREED}(?:but\s+not|but\s+without|except(?:\s+for)?|excluding|leave\s+out|exclude)\s+(.+)", re.IGNORECASE
)
_KEEP = re.compile(
    rf"{_AGREED}(?:(?:but|also)\s+keep|keep(?=\s+(?:the|messages?|everything|anything|what)\b))\s+(.+)", re.IGNORECASE
)
_ALSO = re.compile(
    r"(?:yes\b[\s,]*)?(?:and\s+)?(?:also|as\s+well\s+as|plus)\s+(?:(?:forget|remember)\s+)?(.+)", re.IGNORECASE
)
_MEANT = re.compile(
    r"(?:(?:no|nein|actually|sorry|rather)\b[\s,:]*)*(?:i\s+mean|i\s+meant|make\s+it|look\s+for|search\s+for)\b[\s,:]*(.+)"
    r"|(?:no|nein)\b[\s,:]+(?:rather|instead|only|just|about)\b[\s,:]*(.+)|about\s+(.+?)\s+instead\W*",
    re.IGNORECASE,
)
_TAIL = re.compile(r"(?:[\s,.!]|\b(?:instead|please|too|as\s+well)(?=[\s,.!]*$))*$", re.IGNORECASE)
_NOTICE = re.compile(r"\[Foldmark: .*?\(/(forget|remember)\).*?\]\n> (\{.*)", re.DOTALL)


class Calling(Struct, frozen=True):
    """A tool to call, before its call has an id."""

    name: str
    args: dict[str, Any]


class _Talk(Struct, frozen=True):
    """A planning conversation that is open: what is looked for now, and what was found."""

    mode: str
    criteria: str
    found: Found | None = None


def planned(lines: Sequence[Line], tools: Collection[str]) -> Calling | str | None:
    """The next step in a planning conversation: a call, or what to say; None where there is none to take."""
    if not lines or TOOL not in tools:
        return None
    newest = lines[-1]
    if newest.role == "tool":
        return _after(lines)
    # The conversation may be gone from sight once its filter was applied; Foldmark quotes the result then.
    if newest.role == "user" and (gone := _NOTICE.match(newest.text)):
        return done(gone[1], read(gone[2]), None)
    talk = _open(lines)
    if talk is None or not newest.by_person:
        return None
    return _look(talk, talk.criteria) if _TYPED.match(newest.text) else _reply(talk, newest.text)


def _reply(talk: _Talk, text: str) -> Calling | None:
    """What a person's words in an open planning conversation lead to; None if they are about something else."""
    if is_yes(text):
        found = talk.found
        return _apply(talk, found) if found is not None and found.message_count != 0 else None
    criteria = _criteria(talk, text)
    return None if criteria is None else _look(talk, criteria)


def _look(talk: _Talk, criteria: str) -> Calling:
    return Calling(TOOL, {"action": "preview", "criteria": criteria, "mode": talk.mode})


def _apply(talk: _Talk, found: Found) -> Calling:
    """Ids are named if all of them can be read; without them Foldmark takes those that it previewed."""
    args: dict[str, Any] = {"action": "apply", "mode": talk.mode}
    if len(found.matching_messages) == found.message_count:
        args["message_ids"] = [message.id for message in found.matching_messages]
    if found.planning_conversation_ids:
        args["planning_conversation_ids"] = list(found.planning_conversation_ids)
    return Calling(TOOL, args)


def _criteria(talk: _Talk, text: str) -> str | None:
    """What to look for now; None for what does not read as criteria."""
    text = text.strip()
    if len(text) > LONGEST or "\n" in text:
        return None
    text = " ".join(text.split())
    if _SHOW.fullmatch(text):
        return talk.criteria
    if text.endswith("?"):
        return None
    kept = _KEEP.fullmatch(text)
    if kept and talk.mode == "remember":
        return f"{talk.criteria}, {_TAIL.sub('', kept[1])}"
    if left_out := kept or _EXCEPT.fullmatch(text):
        return f"{talk.criteria} except {_TAIL.sub('', left_out[1])}"
    if more := _ALSO.fullmatch(text):
        return f"{talk.criteria}, {_TAIL.sub('', more[1])}"
    if meant := _MEANT.fullmatch(text):
        return _TAIL.sub("", next(filter(None, meant.groups()))) or None
    return None


def _open(lines: Sequence[Line]) -> _Talk | None:
    """The planning conversation that the newest /forget or /remember began, if it is not over."""
    begins = [
        (index, typed) for index, line in enumerate(lines) if line.by_person and (typed := _TYPED.match(line.text))
    ]
    if not begins:
        return None
    begin, typed = begins[-1]
    talk = _Talk(typed[1], _asked(typed))
    calls = _calls(lines[begin:])
    for line in lines[begin + 1 : -1]:
        args = calls.get(line.answers)
        if args is not None and read(line.text).filter_event_id is not None:
            return None
        if args is not None and args.get("action") == "preview" and not line.failed:
            talk = replace(talk, criteria=str(args.get("criteria", "")), found=read(line.text))
    return talk


def _asked(typed: re.Match[str]) -> str:
    return " ".join(typed[2].split())


def _calls(lines: Sequence[Line]) -> dict[str | None, dict[str, Any]]:
    """The arguments of the tool's calls by call id."""
    calls = [call for line in lines for call in line.calls if call.name == TOOL]
    return {call.call_id: call.args if isinstance(call.args, dict) else {} for call in calls}


def _after(lines: Sequence[Line]) -> str | None:
    """What to say of the result of a call, the newest message; None if it was a call of something else."""
    calls, line = _calls(lines), lines[-1]
    args = calls.get(line.answers)
    if args is None:
        return None
    mode, found = str(args.get("mode", "forget")), read(line.text)
    if found.filter_event_id is not None:
        looked_for = [str(each["criteria"]) for each in calls.values() if each.get("criteria")]
        return done(mode, found, looked_for[-1] if looked_for else None)
    if line.failed:
        return f"That did not work: {line.error}. Nothing was changed; tell me in other words, or use /cancel."
    typed = [begin for line in lines if line.by_person and (begin := _TYPED.match(line.text))]
    criteria = str(args.get("criteria", ""))
    new = bool(typed) and criteria != _asked(typed[-1])
    return (f"I took that as what to {mode}: “{criteria}”.\n\n" if new else "") + previewed(mode, criteria, line.text)
