"""The built-in model, which needs no network and no key. It is deterministic and states that it is not a language model
[SPEC 9].

It reads a request in the form of OpenAI's Chat Completions and follows a script: the first rule with a reply answers.
`offline_delegation` handles tasks for children, and mail. A request for a summary gets a digest; a request for a state
block gets the names in the conversation.

Planning conversations about /forget and /remember follow the examples of [S1]. The model does not understand language.
It recognizes a yes, "show me what you will forget", and texts in the form of criteria: additions ("also …"), exceptions
("except …") and corrections ("no, I mean …"). It answers any other text as if no planning conversation were open. Each
step follows from the request alone. In a result of `filter_context` it reads only complete members, because results are
cut when their turn is over [SPEC 5.2].
"""

import re
from asyncio import sleep
from collections.abc import AsyncGenerator, Callable, Sequence
from itertools import count as numbers_from
from typing import Any

from foldmark.core.request import Piece, Request, ToolCall
from foldmark.core.wording import count, listing
from foldmark.providers.offline_delegation import delegated
from foldmark.providers.offline_lines import WHO, Line, Reply, Scene, cut, scene_of
from foldmark.text.consent import is_yes

NEWEST = 5
"""Maximum number of messages that a digest quotes."""

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
"""Answers to a preview, and the criteria that they lead to."""

_PREAMBLE = re.compile(
    r"(?:only|just|the|all|any|every|messages?|everything|anything|about|on|of|regarding)\s+", re.IGNORECASE
)
# In JSON a quotation mark inside a text is escaped, so these match only members. A number that was cut looks complete,
# so the patterns require the character after it.
_FOUND_ID = re.compile(r'\{"id": ?([0-9]{1,15})[,}]')
_PLANNING_IDS = re.compile(r'"planning_conversation_ids": ?\[([0-9, ]*)\]')

_FILE = re.compile(r"(?<![\w/.-])(?:[\w-]{1,60}/){0,12}[\w-]{2,60}\.[A-Za-z][A-Za-z0-9]{0,4}(?![\w/])")
_ANCHOR = re.compile(r"\b(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?::[0-9]{1,5})?|localhost:[0-9]{1,5}|port [0-9]{1,5})\b")


class OfflineModel:
    """Answers with the content that a model would see, word by word; `delay` is the number of seconds between words."""

    def __init__(self, delay: float = 0.0) -> None:
        self._delay = delay

    async def count(self, request: Request) -> int:
        """Return the estimate, because this model reads bytes."""
        return request.tokens

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer to a request in the form of Chat Completions; the same request gets the same answer."""
        scene = scene_of(request)
        rules = _SCRIPT.get(request.purpose, (planned, _ordinary))
        reply = next(found for rule in rules if (found := rule(scene)) is not None)
        before = ""
        for word in reply.text.split(" ") if reply.text else ():
            yield f"{before}{word}"
            await sleep(self._delay)
            before = " "
        taken = {call.call_id for line in scene.lines for call in line.calls}
        ids = (f"offline-{number}" for number in numbers_from(len(request.body.get("messages", ()))))
        free = (each for each in ids if each not in taken)
        for tool, args in reply.calls:
            yield ToolCall(next(free), tool, args)


def _ordinary(scene: Scene) -> Reply:
    lines = scene.lines
    if not lines:
        return Reply(f"{WHO}. The context is empty.")
    oldest = f"are {len(lines)} messages, the oldest being {_quote(lines[0])}"
    return Reply(
        f"{WHO}, so I can only say what one would see. You wrote {count(len(lines[-1].text.split()), 'word')}: "
        f"{_quote(lines[-1])}. In the context there {'is only that message' if len(lines) == 1 else oldest}. "
        "/help lists what you can do with it."
    )


def _digest(scene: Scene) -> Reply:
    written = _written(scene.lines)
    quoted = "\n".join(f"- “{cut(text)}”" for text in written[-NEWEST:])
    which = f"the newest {NEWEST} began" if len(written) > NEWEST else "they began"
    return Reply(
        f"({WHO}; this is a digest, not a summary.) In {count(len(scene.lines), 'message')} the user wrote "
        f"{count(len(written), 'message')}" + (f"; {which}:\n{quoted}" if written else ".")
    )


def _state(scene: Scene) -> Reply:
    written = _written(scene.lines)
    text = "\n".join(line.text[:2000] for line in scene.lines[-20:])
    return Reply(
        "### STATE\n"
        f"Goal: {cut(written[-1]) if written else 'not said yet'}\n"
        f"Context: {_named(_FILE, text)}\n"
        f"Resolved: {count(len(written[:-1]), 'earlier message')} of the user (counted by the offline model, which is "
        "not a language model)\n"
        f"Technical Anchors: {_named(_ANCHOR, text)}"
    )


def _written(lines: Sequence[Line]) -> list[str]:
    """Return the first lines of people's messages, including commands of a planning conversation."""
    return [line.text.strip().splitlines()[0] for line in lines if line.by_person and line.text.strip()]


def _named(pattern: re.Pattern[str], text: str) -> str:
    """Return the distinct matches, newest first."""
    return listing(dict.fromkeys(reversed(pattern.findall(text))), 5) or "none named"


def _quote(line: Line) -> str:
    kinds = {"tool": "tool result"}
    kind = "tool call" if line.calls and not line.text else kinds.get(line.role, line.role)
    return f"“{cut(line.text)}” ({kind})"


# Planning conversations


def planned(scene: Scene) -> Reply | None:
    """Return the next step in a planning conversation, as a call or a text; None if there is none."""
    lines = scene.lines
    if not lines or TOOL not in scene.tools:
        return None
    newest = lines[-1]
    if newest.role == "tool":
        return _after_result(lines)
    # Once the filter is applied, the conversation may have left the context; then Foldmark quotes the result.
    if newest.role == "user" and (gone := _NOTICE.match(newest.text)):
        return Reply(_done(gone[1], gone[2], ""))
    return _reply(lines) if newest.by_person else None


def _reply(lines: Sequence[Line]) -> Reply | None:
    """Return the call that a person's words lead to in the newest planning conversation; None if it is over."""
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
    """Return the call that applies the preview. It names the ids if all can be read; otherwise Foldmark applies its
    whole preview."""
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
    """Return the new criteria in a text; None if the text does not have the form of criteria."""
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
    """Return the newest /forget or /remember that a person typed: its position, its mode and its criteria."""
    for index in reversed(range(len(lines))):
        if lines[index].by_person and (typed := _TYPED.match(lines[index].text)):
            return index, typed[1], " ".join(typed[2].split())
    return None


def _calls(lines: Sequence[Line]) -> dict[str | None, dict[str, Any]]:
    """Return the arguments of the tool's calls by call id."""
    calls = [call for line in lines for call in line.calls if call.name == TOOL]
    return {call.call_id: call.args if isinstance(call.args, dict) else {} for call in calls}


def _after_result(lines: Sequence[Line]) -> Reply | None:
    """Return the answer to the newest message, which is the result of a call; None for a call of another tool."""
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
    """Return the number of matches and the question whether to proceed; Foldmark itself shows the matches."""
    number, rest = _number(result, "message_count"), _number(result, "everything_else")
    if number == 0:
        return (
            f"I found no messages about {_topic(criteria)}. {WHO}: I go by words, not by meaning. Try other words, or "
            "/cancel."
        )
    topic = f"{'about' if mode == 'forget' else 'containing'} {_topic(criteria)}"
    if number is None:
        visible = len(_FOUND_ID.findall(result))
        least = f"at least {count(visible, 'message')}" if visible else "messages"
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
    """Return the report that the filter was applied; without `criteria` the subject of the messages is unknown."""
    if mode == "remember":
        return f"Done. Context reduced to {count(_number(result, 'context_after') or 0, 'message')}."
    number = _number(result, "messages_filtered") or 0
    those = "that message" if number == 1 else f"those {number} messages"
    return f"Done. I've forgotten {those}{f' about {_topic(criteria)}' if criteria else ''}."


def _topic(criteria: str) -> str:
    """Return the criteria as they read after "about", without introductory words."""
    topic = criteria
    while found := _PREAMBLE.match(topic):
        topic = topic[found.end() :]
    return topic or criteria


def _number(result: str, name: str) -> int | None:
    found = re.search(rf'"{name}": ?([0-9]{{1,15}})[,}}]', result)
    return int(found[1]) if found else None


_SCRIPT: dict[str, tuple[Callable[[Scene], Reply | None], ...]] = {
    "answer": (planned, delegated, _ordinary),
    "summary": (_digest,),
    "state": (_state,),
}
"""The rules for a request by its purpose."""
