"""A Chat Completions request as the offline model reads it: without the messages that only the wire format requires
[SPEC 5.2]."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from foldmark.core.agents import MAIL_BEGINS as MAIL
from foldmark.core.assembly.prompt import EMPTY, GO_ON, OMITTED
from foldmark.core.request import ERROR, Request, ToolCall
from foldmark.dialects.bodies import arguments
from foldmark.dialects.openai.chat import RESULT_MEDIA

WHO = "I am the offline model, not a language model"

_FORM = (EMPTY, GO_ON, OMITTED)
_HEADING = re.compile(r"### [A-Z ]+\n")


class Line(Struct, frozen=True):
    """One message. `calls` are those of an assistant message; `answers` is the id of the call that a tool message
    answers. `failed` marks an error; the format has no field for it, so it comes from the manifest."""

    role: str
    text: str
    calls: tuple[ToolCall, ...] = ()
    answers: str | None = None
    failed: bool = False

    @property
    def error(self) -> str:
        """The text of an error without its prefix."""
        return self.text.removeprefix(ERROR).strip().rstrip(".")

    @property
    def by_person(self) -> bool:
        """True if it is a user message. Foldmark's own messages, notices and mail, begin with a bracket."""
        return self.role == "user" and not self.text.startswith(("[Foldmark:", MAIL))

    @property
    def typed(self) -> bool:
        """True if a person wrote it. The state block and other layers may also be among the messages."""
        return self.by_person and _HEADING.match(self.text) is None


class Scene(Struct, frozen=True):
    """The part of a request that the offline model reads: lines, system text, and the names of the tools."""

    lines: Sequence[Line]
    system: str
    tools: frozenset[str]


class Reply(Struct, frozen=True):
    """An answer: its text, then its calls as (tool, arguments)."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


def scene_of(request: Request) -> Scene:
    """Return the scene of a request."""
    parts, messages = request.manifest.parts, request.body.get("messages", ())
    failed = iter([part.failed for part in parts if part.kind == "tool_result"])
    lines: list[Line] = []
    system: list[Line] = []
    for message in messages:
        line = _line(message, message.get("role") == "tool" and next(failed, False))
        (system if line.role == "system" else lines).append(line)
    if lines and parts and parts[-1].event is None and parts[-1].kind == "instruction":
        lines.pop()
    kept = [x for x in lines if x.role != "user" or not (x.text in _FORM or x.text.startswith(RESULT_MEDIA))]
    tools = frozenset(tool.get("function", {}).get("name", "") for tool in request.body.get("tools", ()))
    return Scene(kept, "\n\n".join(line.text for line in system), tools)


def cut(text: str, most: int = 60) -> str:
    """Return the first characters of a text, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[:most].rstrip()}…"


def _line(message: dict[str, Any], failed: bool) -> Line:
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(str(part.get("text") or "") for part in content)
    calls = tuple(
        ToolCall(call["id"], call["function"]["name"], arguments(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
    )
    return Line(message.get("role", ""), content, calls, message.get("tool_call_id"), failed)
