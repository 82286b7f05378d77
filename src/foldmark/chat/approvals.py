"""Approvals of tool calls, as questions to a person: on one line, and in full."""

import json
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from foldmark.log import Agent, family
from foldmark.operations.effects import Permission
from foldmark.tools.tool import waiting_for_approval

EDITS = (("old_string", "new_string"), ("old_str", "new_str"), ("oldText", "newText"), ("old_text", "new_text"))
"""Argument names that file-editing tools use for a text and its replacement."""

COMPARED = 2_000
"""Maximum number of lines of both texts together for a diff; longer texts are shown one after the other."""


class ApprovalLine(NamedTuple):
    """A line of an approval question: `-` marks a removed line, `+` its replacement."""

    sign: Literal[" ", "-", "+"]
    text: str


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
        where one text replaces another."""
        question = [ApprovalLine(" ", line) for line in self.permission.question.split("\n")]
        arguments = self.permission.arguments
        return [*_members(arguments, ""), *question[1:]] if arguments else question


def _members(arguments: Mapping[str, Any], indent: str) -> Iterator[ApprovalLine]:
    shown: set[str] = set()
    for old, new in EDITS:
        if isinstance(before := arguments.get(old), str) and isinstance(after := arguments.get(new), str):
            yield from _difference(before, after, indent)
            shown |= {old, new}
    for name, value in arguments.items():
        if name not in shown:
            yield from _value(f"{indent}{name}:", value, indent)


def _value(head: str, value: Any, indent: str) -> Iterator[ApprovalLine]:
    inner = f"{indent}  "
    if isinstance(value, Mapping) and value:
        yield ApprovalLine(" ", head)
        yield from _members(value, inner)
    elif isinstance(value, list) and value:
        yield ApprovalLine(" ", head)
        for each in value:
            yield from _value(f"{inner}-", each, inner)
    elif isinstance(value, str) and "\n" in value:
        yield ApprovalLine(" ", head)
        yield from (ApprovalLine(" ", f"{inner}{line}") for line in value.split("\n"))
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield ApprovalLine(" ", f"{head} {text}")


def _difference(before: str, after: str, indent: str) -> Iterator[ApprovalLine]:
    left, right = before.split("\n"), after.split("\n")
    if len(left) + len(right) > COMPARED:
        changed = [*(f"-{line}" for line in left), *(f"+{line}" for line in right)]
    else:
        changed = [*unified_diff(left, right, lineterm="", n=max(len(left), len(right)))][3:]
    for line in changed:
        sign: Literal[" ", "-", "+"] = "-" if line[:1] == "-" else "+" if line[:1] == "+" else " "
        yield ApprovalLine(sign, f"{indent}{line[1:]}")
