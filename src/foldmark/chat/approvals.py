"""Approvals of tool calls, as questions to a person: on one line, and in full."""

import json
from codecs import decode
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from foldmark.core.errors import CommandError
from foldmark.log import Agent, family
from foldmark.operations.effects import Permission
from foldmark.tools.tool import waiting_for_approval
from foldmark.tools.working.paths import opened_file, resolved_path, working_folder

EDITS = (("old_string", "new_string"), ("old_str", "new_str"), ("oldText", "newText"), ("old_text", "new_text"))
"""Argument names that file-editing tools use for a text and its replacement."""

COMPARED = 2_000
"""Maximum number of lines of both texts together for a diff; longer texts are shown one after the other."""


PATHS = ("path", "file_path", "filePath", "filepath", "filename", "file", "target_file", "relative_path")
"""Argument names that file-editing tools use for the path of the file."""

MOST_BYTES = 2_000_000
"""Maximum size of a file whose lines are numbered."""


class ApprovalLine(NamedTuple):
    """A line of an approval question: `-` marks a removed line, `+` its replacement. `number` is the line's in the
    file, before or for `+` after the edit; None if that is not known."""

    sign: Literal[" ", "-", "+"]
    text: str
    number: int | None = None


class Approval(Struct, frozen=True):
    """A question to a person: may one of `agent`'s tools do something?"""

    agent: Agent
    permission: Permission

    @property
    def heading(self) -> str:
        """`Agent 1a2b3c4d asks to use bash`."""
        who = family.label(self.agent)
        return f"{who[0].upper()}{who[1:]} asks to use {self.permission.tool}"

    @property
    def waiting(self) -> int:
        """The number of questions in this conversation that are queued after this one."""
        return max(0, len(waiting_for_approval(self.agent)) - 1)

    def lines(self) -> list[ApprovalLine]:
        """Return the full question: the question itself, or all arguments if the question shortens them, with a diff
        where one text replaces another. May read the file that the arguments name, for the numbers of its lines."""
        question = [ApprovalLine(" ", line) for line in self.permission.question.split("\n")]
        arguments = self.permission.arguments
        return [*_members(arguments, "", _file(self.agent, arguments)), *question[1:]] if arguments else question


def _file(agent: Agent, arguments: Mapping[str, Any]) -> str:
    """Return the text of the file that the arguments name; "" if there is none, or it cannot be read."""
    path = next((value for name in PATHS if isinstance(value := arguments.get(name), str)), None)
    if path is None:
        return ""
    try:
        with opened_file(resolved_path(path, working_folder(agent.log))) as file:
            return decode(file.read(MOST_BYTES), "utf-8", "replace").replace("\r\n", "\n")
    except (OSError, CommandError):
        return ""


def _members(arguments: Mapping[str, Any], indent: str, file: str) -> Iterator[ApprovalLine]:
    edits = {old: new for old, new in EDITS if all(isinstance(arguments.get(name), str) for name in (old, new))}
    texts = {*edits.values()}
    for name, value in sorted(arguments.items(), key=lambda each: each[0] not in PATHS):
        if name in edits:
            yield from _difference(value, arguments[edits[name]], indent, _line_of(value, file))
        elif name not in texts:
            yield from _value(f"{indent}{name}:", value, indent, file)


def _value(head: str, value: Any, indent: str, file: str) -> Iterator[ApprovalLine]:
    inner = f"{indent}  "
    if isinstance(value, Mapping) and value:
        yield ApprovalLine(" ", head)
        yield from _members(value, inner, file)
    elif isinstance(value, list) and value:
        yield ApprovalLine(" ", head)
        for each in value:
            yield from _value(f"{inner}-", each, inner, file)
    elif isinstance(value, str) and "\n" in value:
        yield ApprovalLine(" ", head)
        yield from (ApprovalLine(" ", f"{inner}{line}") for line in value.split("\n"))
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield ApprovalLine(" ", f"{head} {text}")


def _line_of(text: str, file: str) -> int | None:
    """Return the number of the line at which a text begins in a file; None if it is not there exactly once."""
    text = text.replace("\r\n", "\n")
    at = file.find(text) if text else -1
    return None if at < 0 or file.find(text, at + 1) >= 0 else file.count("\n", 0, at) + 1


def _difference(before: str, after: str, indent: str, first: int | None) -> Iterator[ApprovalLine]:
    left, right = before.split("\n"), after.split("\n")
    if len(left) + len(right) > COMPARED:
        changed = [*(f"-{line}" for line in left), *(f"+{line}" for line in right)]
    else:
        changed = [*unified_diff(left, right, lineterm="", n=max(len(left), len(right)))][3:]
    old = new = first
    for line in changed:
        sign: Literal[" ", "-", "+"] = "-" if line[:1] == "-" else "+" if line[:1] == "+" else " "
        yield ApprovalLine(sign, f"{indent}{line[1:]}", new if sign == "+" else old)
        old = old + 1 if old is not None and sign != "+" else old
        new = new + 1 if new is not None and sign != "-" else new
