"""What has happened in the turn that a request is of: calls of `slash` with their results, and mail [SPEC 6]."""

import re
from collections.abc import Sequence

from msgspec import Struct

from foldmark.core.birth import MAIL_TOLD
from foldmark.core.inbox import MAIL
from foldmark.providers.chat_lines import Line
from foldmark.providers.offline_child import Child, typed

TOOL = "slash"

_MAIL = re.compile(rf"^{re.escape(MAIL)}([0-9a-f]{{8}}) at [^\]\n]*\]\n", re.MULTILINE)
_COMMANDS = ("mark", "fork", "send", "check-mail")


class Used(Struct, frozen=True):
    """A call to mark, fork, send or check-mail, `at` which line of the turn, and its result, None if there is none."""

    at: int
    command: str
    args: str
    result: Line | None

    @property
    def worked(self) -> bool:
        """Whether there is a result, which is not empty, and it is no error."""
        return self.result is not None and bool(self.result.text) and not self.result.failed


class Mail(Struct, frozen=True):
    """One mail, `at` which line of the turn; the sender is named by 8 hex digits."""

    at: int
    sender: str
    text: str


class Turn(Struct, frozen=True):
    """What a turn began with, the calls in it, the mail that it brought, and the last line telling that there is some,
    -1 for none."""

    opener: Line
    used: tuple[Used, ...]
    mail: tuple[Mail, ...]
    told: int

    def of(self, command: str) -> list[Used]:
        """The calls of a command, in order."""
        return [each for each in self.used if each.command == command]


def begin_of(lines: Sequence[Line], child: Child | None) -> int:
    """Where the turn begins: with what a person wrote, with the birth, or behind the newest answer that ended one."""
    begin = 0 if child is None or child.born is None else child.born
    for index in range(len(lines) - 1, begin, -1):
        if typed(lines[index]):
            return index
        if lines[index].role == "assistant" and not lines[index].calls:
            return index + 1
    return begin


def turn_of(lines: Sequence[Line]) -> Turn:
    """What happened in these lines, which are not empty."""
    results = {line.answers: line for line in lines if line.role == "tool"}
    used, mail, told = [], [], -1
    for at, line in enumerate(lines):
        for call in line.calls:
            args = call.args if call.name == TOOL and isinstance(call.args, dict) else {}
            command = args.get("command")
            if isinstance(command, str) and command in _COMMANDS:
                used.append(Used(at, command, str(args.get("args", "")), results.get(call.call_id)))
        if line.role == "user" and line.text.startswith(MAIL):
            parts = _MAIL.split(line.text)
            mail += [Mail(at, sender, text) for sender, text in zip(parts[1::2], parts[2::2], strict=True)]
        if line.role == "user" and line.text.startswith(MAIL_TOLD):
            told = at
    return Turn(lines[0], tuple(used), tuple(mail), told)
