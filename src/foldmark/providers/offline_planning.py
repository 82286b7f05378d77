"""How the offline model plays the talk around /forget and /remember, by [S1]'s examples.

It understands no language: it knows a yes, a no, "show me", additions and exceptions, and takes any other text as new
criteria, saying so. Each step follows from the request alone.
"""

import re
from collections.abc import Collection, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.consent import is_no, is_yes
from foldmark.providers.chat_lines import Line
from foldmark.providers.offline_results import Found, done, failed, is_over, nothing, previewed, read

TOOL = "filter_context"

LONGEST = 500
"""Characters of a person's text that can become criteria."""

_TYPED = re.compile(r"/(forget|remember)\s+(\S.*)", re.DOTALL)
_SHOW = re.compile(
    r"(?:please\s+)?(?:show|list|preview|display|see|what|which|how many|tell me|let me see|again)\b", re.IGNORECASE
)
_EXCEPT = re.compile(
    r"(?:(?:yes|ok|okay|all|everything|these|those|them)\b[\s,]*)*"
    r"(?:but\s+not|but\s+without|except(?:\s+for)?|not|without|leave\s+out|exclude|skip)\s+(.+)",
    re.IGNORECASE,
)
_KEEP = re.compile(r"(?:(?:yes|ok|okay)\b[\s,]*)?(?:but\s+)?(?:also\s+)?keep\s+(.+)", re.IGNORECASE)
_ALSO = re.compile(
    r"(?:yes\b[\s,]*)?(?:and\s+)?(?:also|as\s+well\s+as|plus)\s+(?:(?:forget|remember)\s+)?(.+)", re.IGNORECASE
)
_LEAD = re.compile(
    r"(?:(?:no|nein|actually|rather|instead|only|just|about|i\s+mean|i\s+meant|make\s+it|try|look\s+for|search\s+for"
    r"|forget|remember|please)\b[\s,:]*)+",
    re.IGNORECASE,
)
_TAIL = re.compile(r"(?:[\s,.!]|\b(?:instead|please|too|as\s+well)(?=[\s,.!]*$))*$", re.IGNORECASE)
_NOTICE = re.compile(r"\[Foldmark: .*?\(/(forget|remember)\).*?\]\n> (\{.*)", re.DOTALL)


class Calling(Struct, frozen=True):
    """A tool to call, before its call has an id."""

    name: str
    args: dict[str, Any]


class _Talk(Struct, frozen=True):
    """A planning conversation that is open: what is looked for now, what was found, and whether the person declined."""

    mode: str
    criteria: str
    found: Found | None = None
    declined: bool = False


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


def _reply(talk: _Talk, text: str) -> Calling | str:
    """What a person's words in an open planning conversation lead to."""
    if is_no(text):
        return (
            f"Nothing was changed. /cancel ends this; or tell me in other words what to {talk.mode}, and I look again."
        )
    if is_yes(text):
        if talk.found is None or talk.declined:
            return _look(talk, talk.criteria)
        return _apply(talk, talk.found) if talk.found.message_count != 0 else nothing(talk.criteria)
    return _look(talk, _criteria(talk, " ".join(text[:LONGEST].split())))


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


def _criteria(talk: _Talk, text: str) -> str:
    """What to look for when a person answered a preview with neither yes nor no."""
    if _SHOW.match(text) or text.endswith("?"):
        return talk.criteria
    kept = _KEEP.fullmatch(text)
    if kept and talk.mode == "remember":
        return f"{talk.criteria}, {_TAIL.sub('', kept[1])}"
    if left_out := kept or _EXCEPT.fullmatch(text):
        return f"{talk.criteria} except {_TAIL.sub('', left_out[1])}"
    if more := _ALSO.fullmatch(text):
        return f"{talk.criteria}, {_TAIL.sub('', more[1])}"
    return _TAIL.sub("", _LEAD.sub("", text) if _LEAD.match(text) else text) or talk.criteria


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
        if line.by_person and is_no(line.text):
            talk = replace(talk, declined=True)
        elif args is not None and (read(line.text).filter_event_id is not None or is_over(line.text)):
            return None
        elif args is not None and args.get("action") == "preview" and not failed(line.text):
            talk = replace(talk, criteria=str(args.get("criteria", "")), found=read(line.text), declined=False)
    return talk


def _asked(typed: re.Match[str]) -> str:
    return " ".join(typed[2].split())


def _calls(lines: Sequence[Line]) -> dict[str | None, dict[str, Any]]:
    """The arguments of the tool's calls by call id."""
    calls = [call for line in lines for call in line.calls if call.name == TOOL]
    return {call.call_id: call.args if isinstance(call.args, dict) else {} for call in calls}


def _after(lines: Sequence[Line]) -> str | None:
    """What to say of the result of a call, the newest message; None if it was a call of something else."""
    calls, result = _calls(lines), lines[-1].text
    args = calls.get(lines[-1].answers)
    if args is None:
        return None
    mode, found = str(args.get("mode", "forget")), read(result)
    if found.filter_event_id is not None:
        looked_for = [str(each["criteria"]) for each in calls.values() if each.get("criteria")]
        return done(mode, found, looked_for[-1] if looked_for else None)
    if is_over(result):
        return "No planning conversation is open any more. /forget CRITERIA or /remember CRITERIA begins one."
    if failed(result):
        error = result.removeprefix("Error:").strip().rstrip(".")
        return f"That did not work: {error}. Nothing was changed; tell me in other words, or use /cancel."
    typed = [begin for line in lines if line.by_person and (begin := _TYPED.match(line.text))]
    criteria = str(args.get("criteria", ""))
    new = bool(typed) and criteria != _asked(typed[-1])
    return (f"I took that as what to {mode}: “{criteria}”.\n\n" if new else "") + previewed(mode, criteria, result)
