"""The built-in model, which needs no network and no key. It is deterministic, understands no language, and states that
it is not a language model [SPEC 9].

It reads a request in the form of OpenAI's Chat Completions. The first of these rules with an answer gives it:

1. A person's message with a line `call TOOL {JSON}` is a script. Each paragraph of it is one answer: such lines are its
   calls, its other lines its text. The results of the calls come before the next paragraph. A paragraph without calls
   ends the turn; so does a call that failed, or that took the calls before it out of the context.
2. `/forget CRITERIA` and `/remember CRITERIA` are answered with a preview, and a preview with the question of [S1].
3. A notice of mail is answered with `check-mail`. A child reports to its parent on its task, and on mail.
4. Any other message is answered with what a model would see of the context.

A request for a summary gets a digest, a request for a state block a block of that form. Each step follows from the
request alone: the calls since the newest message of a person, the birth message or the notice of mail say how far the
turn is. A call counts whatever its result says, so nothing is tried twice and every turn ends.
"""

import re
from asyncio import sleep
from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import count as numbers_from
from typing import Any

from msgspec import Struct

from foldmark.core.agents import MAIL_BEGINS
from foldmark.core.assembly.layers import MAIL_NOTICE
from foldmark.core.assembly.prompt import EMPTY, GO_ON, OMITTED
from foldmark.core.request import Piece, Request, ToolCall
from foldmark.core.wording import count
from foldmark.dialects.openai.chat import RESULT_MEDIA
from foldmark.wires import chat
from foldmark.wires.lenient_json import arguments

WHO = "I am the offline model, not a language model"
FILTER, SLASH = "filter_context", "slash"

NEWEST = 5
"""Maximum number of messages that a digest quotes."""

_CALL = re.compile(r"[ \t]*call (\S+) +(\{.*)")
_TYPED = re.compile(r"/(forget|remember)\s+(\S.*)", re.DOTALL)
_HEADING = re.compile(r"### [A-Z ]+\n")
# Texts of Foldmark: the identity of a child (`foldmark.core.assembly.layers`), and the notice in place of a result
# whose call has left the context (`foldmark.operations.notices`).
_IDENTITY = re.compile(r"(\[Foldmark: You are agent [0-9a-f]{8}, a child of agent ([0-9a-f]{8}))\. What you find out ")
_LEFT = re.compile(r"\[Foldmark: [^\n]* The result of call ")
# The counts are the first members of a preview, because a long result is cut at its end [SPEC 5.2].
_COUNT = re.compile(r'"(message_count|everything_else)": ?([0-9]{1,9})[,}]')


class Line(Struct, frozen=True):
    """One message. `calls` are those of an assistant message; `answers` is the id of the call that a tool message
    answers. `failed` marks an error; the format has no field for it, so it comes from the manifest."""

    role: str
    text: str
    calls: tuple[ToolCall, ...] = ()
    answers: str | None = None
    failed: bool = False

    @property
    def by_person(self) -> bool:
        """True if a person wrote it. Foldmark's own messages begin with a bracket, its layers with a heading."""
        return self.role == "user" and not (
            self.text.startswith(("[Foldmark:", MAIL_BEGINS)) or _HEADING.match(self.text)
        )


class Reply(Struct, frozen=True):
    """An answer: its text, then its calls as (tool, arguments)."""

    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()


class Turn(Struct, frozen=True):
    """The part of a request that the model reads: the message that it works on, the lines before and after that, the
    names of the tools. In a child, `child` begins its birth message, and `parent` is the agent that gets its reports.
    """

    opener: Line
    before: Sequence[Line]
    since: Sequence[Line]
    tools: frozenset[str]
    child: str
    parent: str

    @property
    def calls(self) -> list[ToolCall]:
        """The calls since the turn began."""
        return [call for line in self.since for call in line.calls]

    def got(self) -> str:
        """Return the results of the calls and the mail since the turn began as a list; empty without any."""
        names = {call.call_id: call.name for call in self.calls}
        heads = ((names.get(line.answers or "", "mail"), line) for line in self.since)
        items = "".join(
            f"\n- {head}: “{cut(line.text, 200)}”"
            for head, line in heads
            if line.role == "tool" or line.text.startswith(MAIL_BEGINS)
        )
        return f"This is what I got:{items}" if items else ""


class OfflineModel:
    """Answers word by word; `delay` is the number of seconds between words."""

    def __init__(self, delay: float = 0.0) -> None:
        self._delay = delay

    async def count(self, request: Request) -> int:
        """Return the estimate, because this model reads bytes."""
        return request.tokens

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer to a request in the form of Chat Completions; the same request gets the same answer."""
        lines, system = _read(request)
        reply = _reply(request, lines, system)
        before = ""
        for word in reply.text.split(" ") if reply.text else ():
            yield f"{before}{word}"
            await sleep(self._delay)
            before = " "
        taken = {call.call_id for line in lines for call in line.calls}
        ids = (f"offline-{number}" for number in numbers_from(len(request.body.get("messages", ()))))
        free = (each for each in ids if each not in taken)
        for tool, args in reply.calls:
            yield ToolCall(next(free), tool, args)


def _reply(request: Request, lines: Sequence[Line], system: str) -> Reply:
    if request.purpose in ("summary", "state"):
        return _digest(lines) if request.purpose == "summary" else _state(lines)
    if not lines:
        return Reply(f"{WHO}. The context is empty.")
    tools = frozenset(tool.get("function", {}).get("name", "") for tool in request.body.get("tools", ()))
    turn = _turn(lines, system, tools)
    return _scripted(turn) or _previewed(turn) or _unprompted(turn) or _seen(turn)


# The rules


def _scripted(turn: Turn) -> Reply | None:
    """Return the next answer of the script in the message; None if it is no script, or the script is over."""
    if not turn.opener.by_person or any(line.failed or _LEFT.match(line.text) for line in turn.since):
        return None
    steps = [_step(each) for each in re.split(r"\n\s*\n", turn.opener.text.strip())]
    calls = [call for step in steps for call in step.calls]
    if wrong := next((args for _, args in calls if isinstance(args, str)), None):  # the text, as it is not JSON
        return Reply(f"{WHO}. `call TOOL` takes a JSON object on the same line, and this is none: {cut(wrong)}")
    done = sum(bool(line.calls) for line in turn.since)
    return steps[done] if calls and done < len(steps) else None


def _step(paragraph: str) -> Reply:
    """Return the answer that a paragraph is."""
    calls = [_CALL.fullmatch(line) for line in paragraph.splitlines()]
    text = [line for line, call in zip(paragraph.splitlines(), calls, strict=True) if call is None]
    return Reply("\n".join(text).strip(), tuple((call[1], arguments(call[2])) for call in calls if call is not None))


def _previewed(turn: Turn) -> Reply | None:
    """Return the preview that a person asks for with a command, or the question after a preview. Foldmark itself shows
    the matches, and carries out the answer."""
    typed = _TYPED.match(turn.opener.text) if turn.opener.by_person and FILTER in turn.tools else None
    previews = {call.call_id: call.args for call in turn.calls if call.name == FILTER}
    if typed and not previews:
        preview = {"action": "preview", "criteria": " ".join(typed[2].split()), "mode": typed[1]}
        return Reply(calls=((FILTER, preview),))
    newest = turn.since[-1] if turn.since else turn.opener
    args = previews.get(newest.answers or "")
    found = {name: int(number) for name, number in _COUNT.findall(newest.text)}
    if not isinstance(args, dict) or "message_count" not in found:
        return None
    matches, criteria = count(found["message_count"], "message"), args.get("criteria", "these criteria")
    if not found["message_count"]:
        return Reply(f"I found no messages about {criteria}. {WHO}: I go by words. Use other words, or /cancel.")
    if "everything_else" not in found:
        return Reply(f"I found {matches} about {criteria}. Should I proceed to forget these?")
    others = count(found["everything_else"], "message")
    return Reply(
        f"I found {matches} containing {criteria}. Everything else ({others}) will be forgotten. Should I proceed?"
    )


def _unprompted(turn: Turn) -> Reply | None:
    """Return the call that reads mail, or a child's report; None if neither is due."""
    if SLASH not in turn.tools:
        return None
    used = [call.args.get("command") for call in turn.calls if call.name == SLASH and isinstance(call.args, dict)]
    if turn.opener.text.startswith(MAIL_NOTICE) and "check-mail" not in used:
        return Reply(calls=((SLASH, {"command": "check-mail"}),))
    # A person's message is a child's task only if the child has answered nothing before.
    answered = any(line.role == "assistant" for line in turn.before)
    if not turn.parent or "send" in used or (turn.opener.by_person and answered):
        return None
    report = turn.got() or f"I cannot carry out “{cut(_task(turn), 200)}”."
    return Reply(calls=((SLASH, {"command": "send", "args": f"{turn.parent} {WHO}. {report}"}),))


def _task(turn: Turn) -> str:
    """Return the task of a child: the words with which it was forked, or else the message above its birth message, or
    else the message that it works on."""
    if turn.opener.by_person:
        return turn.opener.text
    words = "\n".join(line[2:] for line in turn.opener.text.splitlines() if line.startswith("> "))
    return words or next((line.text for line in reversed(turn.before) if line.by_person), "an empty task")


def _seen(turn: Turn) -> Reply:
    """Return the results of the turn's calls; without any, what a model would see of the context."""
    if got := turn.got():
        return Reply(f"{WHO}. {got}")
    lines = [*turn.before, turn.opener, *turn.since]
    oldest = f"are {len(lines)} messages, the oldest being {_quote(lines[0])}"
    return Reply(
        f"{WHO}, so I can only say what one would see. You wrote {count(len(lines[-1].text.split()), 'word')}: "
        f"{_quote(lines[-1])}. In the context there {'is only that message' if len(lines) == 1 else oldest}. "
        "/help lists what you can do with it, and `call list_files {}` makes me use a tool."
    )


def _digest(lines: Sequence[Line]) -> Reply:
    written = list(_written(lines))
    quoted = "\n".join(f"- “{cut(text)}”" for text in written[-NEWEST:])
    which = f"the newest {NEWEST} began" if len(written) > NEWEST else "they began"
    return Reply(
        f"({WHO}; this is a digest, not a summary.) In {count(len(lines), 'message')} the user wrote "
        f"{count(len(written), 'message')}" + (f"; {which}:\n{quoted}" if written else ".")
    )


def _state(lines: Sequence[Line]) -> Reply:
    written = list(_written(lines))
    return Reply(
        f"### STATE\nGoal: {cut(written[-1]) if written else 'not said yet'}\nContext: none named\n"
        f"Resolved: {count(len(written[:-1]), 'earlier message')} of the user (counted by the offline model, which is "
        "not a language model)\nTechnical Anchors: none named"
    )


def _written(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the first lines of people's messages."""
    return (line.text.strip().splitlines()[0] for line in lines if line.by_person and line.text.strip())


def cut(text: str, most: int = 60) -> str:
    """Return the first characters of a text, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[:most].rstrip()}…"


def _quote(line: Line) -> str:
    kind = "tool call" if line.calls and not line.text else "tool result" if line.role == "tool" else line.role
    return f"“{cut(line.text)}” ({kind})"


# The request


def _turn(lines: Sequence[Line], system: str, tools: frozenset[str]) -> Turn:
    """Return the turn that at least one line ends with. It begins with a person's message, a birth message of the agent
    itself or a notice of mail, whichever is the newest; without any, with the first line."""
    told = [system, *(line.text for line in lines if line.role == "user" and not line.by_person)]
    child, parent = next((each.groups() for text in reversed(told) if (each := _IDENTITY.search(text))), ("", ""))
    begins = (f"{child}, forked", MAIL_NOTICE) if child else (MAIL_NOTICE,)
    openers = (
        at
        for at in reversed(range(len(lines)))
        if lines[at].by_person or (lines[at].role == "user" and lines[at].text.startswith(begins))
    )
    at = next(openers, 0)
    return Turn(lines[at], lines[:at], lines[at + 1 :], tools, child, parent)


def _read(request: Request) -> tuple[list[Line], str]:
    """Return the messages without those that only the wire format requires [SPEC 5.2], and the system text."""
    parts = request.manifest.parts
    failed = iter([part.failed for part in parts if part.kind == "tool_result"])
    lines: list[Line] = []
    system: list[str] = []
    for message in request.body.get("messages", ()):
        content = message.get("content") or ""
        if not isinstance(content, str):
            content = "\n".join(str(part.get("text") or "") for part in content)
        if message["role"] == "system":
            system.append(content)
            continue
        calls = tuple(
            ToolCall(call.call_id, call.name, call.args) for call in map(chat.read_call, chat.calls_of(message))
        )
        is_failed = message["role"] == "tool" and next(failed, False)
        lines.append(Line(message["role"], content, calls, chat.call_of(message), is_failed))
    if lines and parts and parts[-1].event is None and parts[-1].kind == "instruction":
        lines.pop()
    form = (EMPTY, GO_ON, OMITTED)
    kept = [x for x in lines if x.role != "user" or not (x.text in form or x.text.startswith(RESULT_MEDIA))]
    return kept, "\n\n".join(system)
