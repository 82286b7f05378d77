"""A Chat Completions body as the offline model reads it: its messages without what the form demanded [SPEC 5.2]."""

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.inbox import MAIL
from foldmark.core.prompt import EMPTY, GO_ON, OMITTED
from foldmark.core.request import ERROR, Request, ToolCall
from foldmark.dialects.openai.chat import RESULT_MEDIA

_FORM = (EMPTY, GO_ON, OMITTED)


class Line(Struct, frozen=True):
    """One message: `calls` are an assistant's, `answers` is the id of the call that a tool message answers; `failed` is
    whether that is an error, which the format has no field for."""

    role: str
    text: str
    calls: tuple[ToolCall, ...] = ()
    answers: str | None = None
    failed: bool = False

    @property
    def error(self) -> str:
        """What an error says, without what marks it as one."""
        return self.text.removeprefix(ERROR).strip().rstrip(".")

    @property
    def by_person(self) -> bool:
        """Whether somebody typed it: what Foldmark puts in, notices and mail, begins with a bracket."""
        return self.role == "user" and not self.text.startswith(("[Foldmark:", MAIL))


def lines_of(request: Request) -> list[Line]:
    """The messages of a request in order, without the system's and without what only its form demanded."""
    parts = request.manifest.parts
    failed = iter([part.failed for part in parts if part.kind == "tool_result"])
    lines = [
        replace(line, failed=next(failed, False)) if line.role == "tool" else line
        for line in map(_line, request.body.get("messages", ()))
        if line.role != "system"
    ]
    if lines and parts and parts[-1].event is None and parts[-1].kind == "instruction":
        lines.pop()
    return [line for line in lines if line.role != "user" or (line.text not in _FORM and not _is_form(line.text))]


def system_of(request: Request) -> str:
    """The text of the system field, empty for none."""
    return "\n\n".join(_line(each).text for each in request.body.get("messages", ()) if each.get("role") == "system")


def _is_form(text: str) -> bool:
    return text.startswith(RESULT_MEDIA)


def tools_of(request: Request) -> set[str]:
    """The names of the tools that the model may call."""
    return {tool.get("function", {}).get("name", "") for tool in request.body.get("tools", ())}


def new_call_id(lines: list[Line], count: int) -> str:
    """A call id that no call in sight has; the same for the same request. `count` is the number of its messages."""
    taken = {call.call_id for line in lines for call in line.calls}
    while f"offline-{count}" in taken:
        count += 1
    return f"offline-{count}"


def _line(message: dict[str, Any]) -> Line:
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(str(part.get("text") or "") for part in content)
    calls = tuple(
        ToolCall(call["id"], call["function"]["name"], _arguments(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
    )
    return Line(message.get("role", ""), content, calls, message.get("tool_call_id"))


def _arguments(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
