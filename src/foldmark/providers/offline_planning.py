"""The offline model in the talk around /forget and /remember, by [S1]'s examples.

It understands no language: it knows a yes, "show me what you will forget", and what reads as criteria: additions ("also
…"), exceptions ("except …") and corrections ("no, I mean …"). To anything else it answers as if nothing were planned.
Each step follows from the request alone. Of a result of `filter_context` it reads the members that are whole: results
are cut when their turn is over [SPEC 5.2].
"""

import re
from collections.abc import Sequence
from typing import Any

from foldmark.core.wording import count
from foldmark.providers.offline_lines import WHO, Line, Reply, Scene
from foldmark.text.consent import is_yes

TOOL = "filter_context"

LONGEST = 500
"""Maximum number of characters of a person's text that can become criteria."""

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

_CRITERIA = (
    (_SHOW, "{old}"),
    (_EXCEPT, "{old} except {new}"),
    (_ALSO, "{old}, {new}"),
    (_MEANT, "{new}"),
)
"""What a person may say to a preview, and the criteria that follow from it."""

_PREAMBLE = re.compile(
    r"(?:only|just|the|all|any|every|messages?|everything|anything|about|on|of|regarding)\s+", re.IGNORECASE
)
# In JSON a quotation mark inside a text is escaped, so these match members alone. A number that was cut reads like one
# that was not, unless what follows it is there.
_FOUND_ID = re.compile(r'\{"id": ?([0-9]{1,15})[,}]')
_PLANNING_IDS = re.compile(r'"planning_conversation_ids": ?\[([0-9, ]*)\]')


def planned(scene: Scene) -> Reply | None:
    """Return the next step in a planning conversation, a call or what to say; None where there is none to take."""
    lines = scene.lines
    if not lines or TOOL not in scene.tools:
        return None
    newest = lines[-1]
    if newest.role == "tool":
        return _tell(lines)
    # The conversation may be gone from sight once its filter was applied; Foldmark quotes the result then.
    if newest.role == "user" and (gone := _NOTICE.match(newest.text)):
        return Reply(_done(gone[1], gone[2], ""))
    return _reply(lines) if newest.by_person else None


def _reply(lines: Sequence[Line]) -> Reply | None:
    """The call that a person's words lead to in the newest planning conversation, if it is not over."""
    begun = _begun(lines)
    if begun is None:
        return None
    begin, mode, criteria = begun
    found: str | None = None
    calls = _calls(lines[begin:])
    for line in lines[begin + 1 : -1]:
        args = calls.get(line.answers)
        if args is not None and _number(line.text, "filter_event_id") is not None:
            return None
        if args is not None and args.get("action") == "preview" and not line.failed:
            criteria, found = str(args.get("criteria", "")), line.text
    text = lines[-1].text.strip()
    wanted: str | None = criteria
    if begin < len(lines) - 1 and is_yes(text):
        return _apply(mode, found) if found is not None and _number(found, "message_count") != 0 else None
    if begin < len(lines) - 1:
        wanted = _criteria(mode, criteria, text)
    return None if wanted is None else _call({"action": "preview", "criteria": wanted, "mode": mode})


def _apply(mode: str, found: str) -> Reply:
    """Ids are named if all of them can be read; without them Foldmark takes those that it previewed."""
    args: dict[str, Any] = {"action": "apply", "mode": mode}
    ids = [int(each) for each in _FOUND_ID.findall(found)]
    if len(ids) == _number(found, "message_count"):
        args["message_ids"] = ids
    if (listed := _PLANNING_IDS.search(found)) and (planning := re.findall(r"[0-9]{1,15}", listed[1])):
        args["planning_conversation_ids"] = [int(each) for each in planning]
    return _call(args)


def _call(args: dict[str, Any]) -> Reply:
    return Reply(calls=((TOOL, args),))


def _criteria(mode: str, old: str, text: str) -> str | None:
    """What to look for now; None for what does not read as criteria."""
    if len(text) > LONGEST or "\n" in text:
        return None
    text = " ".join(text.split())
    kept = "{old}, {new}" if mode == "remember" else "{old} except {new}"
    for pattern, form in (_CRITERIA[0], (_KEEP, kept), *_CRITERIA[1:]):
        if found := pattern.fullmatch(text):
            new = next(filter(None, found.groups()), "")
            return form.format(old=old, new=_TAIL.sub("", new)) or None
        if text.endswith("?"):
            return None  # a question, unless it asks for the list
    return None


def _begun(lines: Sequence[Line]) -> tuple[int, str, str] | None:
    """The newest /forget or /remember that a person typed: its place, its mode and its criteria."""
    for index in reversed(range(len(lines))):
        if lines[index].by_person and (typed := _TYPED.match(lines[index].text)):
            return index, typed[1], " ".join(typed[2].split())
    return None


def _calls(lines: Sequence[Line]) -> dict[str | None, dict[str, Any]]:
    """The arguments of the tool's calls by call id."""
    calls = [call for line in lines for call in line.calls if call.name == TOOL]
    return {call.call_id: call.args if isinstance(call.args, dict) else {} for call in calls}


def _tell(lines: Sequence[Line]) -> Reply | None:
    """What to say of the newest message, the result of a call; None if the call was one of something else."""
    calls, line, begun = _calls(lines), lines[-1], _begun(lines)
    args = calls.get(line.answers)
    if args is None:
        return None
    mode, criteria = str(args.get("mode", "forget")), str(args.get("criteria", ""))
    if _number(line.text, "filter_event_id") is not None:
        looked_for = [str(each["criteria"]) for each in calls.values() if each.get("criteria")]
        return Reply(_done(mode, line.text, looked_for[-1] if looked_for else ""))
    if line.failed:
        return Reply(f"That did not work: {line.error}. Nothing was changed; tell me in other words, or use /cancel.")
    is_new = begun is not None and criteria != begun[2]
    taken = f"I took that as what to {mode}: “{criteria}”.\n\n" if is_new else ""
    return Reply(taken + _previewed(mode, criteria, line.text))


def _previewed(mode: str, criteria: str, result: str) -> str:
    """How much was found, and the question whether to proceed; Foldmark itself shows what."""
    number, rest = _number(result, "message_count"), _number(result, "everything_else")
    if number == 0:
        return (
            f"I found no messages about {_topic(criteria)}. {WHO}: I go by words, not by meaning. Try other words, or "
            "/cancel."
        )
    topic = f"{'about' if mode == 'forget' else 'containing'} {_topic(criteria)}"
    if number is None:
        seen = len(_FOUND_ID.findall(result))
        least = f"at least {count(seen, 'message')}" if seen else "messages"
        return (
            f"I found {least} {topic}; the preview is too long for me to see all of it.\n\n"
            f"Should I proceed to {mode} all that it found?"
        )
    found = f"I found {count(number, 'message')} {topic}."
    if mode != "remember":
        return f"{found} Should I proceed to forget these?"
    others = "" if rest is None else f" ({count(rest, 'message')})"
    return f"{found} Everything else{others} will be forgotten. Should I proceed?"


def _done(mode: str, result: str, criteria: str) -> str:
    """That the filter was applied; without `criteria` it is not known any more what the messages were about."""
    if mode == "remember":
        return f"Done. Context reduced to {count(_number(result, 'context_after') or 0, 'message')}."
    number = _number(result, "messages_filtered") or 0
    those = "that message" if number == 1 else f"those {number} messages"
    return f"Done. I've forgotten {those}{f' about {_topic(criteria)}' if criteria else ''}."


def _topic(criteria: str) -> str:
    """The criteria as they read behind "about": without what says that they are criteria."""
    topic = criteria
    while found := _PREAMBLE.match(topic):
        topic = topic[found.end() :]
    return topic or criteria


def _number(result: str, name: str) -> int | None:
    found = re.search(rf'"{name}": ?([0-9]{{1,15}})[,}}]', result)
    return int(found[1]) if found else None
