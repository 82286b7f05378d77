"""What a request says of whom it is for, if that is a child: whose, with what task, and what it reports [SPEC 6].

The words are those of `foldmark.core.birth`: the identity in the system field, and the birth message.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from foldmark.core.wording import count
from foldmark.providers.chat_lines import Line
from foldmark.providers.offline_tasks import own_task
from foldmark.providers.offline_voice import WHO, cut

_IDENTITY = re.compile(r"You are agent ([0-9a-f]{8}), a child of agent ([0-9a-f]{8})\. What you find out reaches it")
_BIRTH = re.compile(
    r"\[Foldmark: You are agent ([0-9a-f]{8}), a child of agent ([0-9a-f]{8}), forked(?: from its mark '(.*?)')?\. "
    r"Carry out "
)


class Child(Struct, frozen=True):
    """`parent` is as mail names it; `born` is the line of the birth message, None if there is none in sight."""

    parent: str
    born: int | None
    task: str = ""


def child_of(lines: Sequence[Line], system: str) -> Child | None:
    """Whom the request is for, if it is a child. A birth message that it inherited is its parent's."""
    identity = _IDENTITY.search(system)
    for index in range(len(lines) - 1, -1, -1):
        birth = _BIRTH.match(lines[index].text) if lines[index].role == "user" else None
        if birth and (identity is None or identity.groups() == birth.groups()[:2]):
            return Child(birth[2], index, _task(lines, index, birth[3]))
    return Child(identity[2], None) if identity else None


def typed(line: Line) -> bool:
    """Whether a person wrote it; the state block and its like may stand among the messages, too."""
    return line.by_person and not re.match(r"### [A-Z ]+\n", line.text)


def report(task: str) -> str:
    """What there is to report of a task."""
    if not task:
        return f"{WHO}: I see no task that would be mine."
    return f"{WHO}: I cannot carry out “{cut(task, 200)}”; the task has {count(len(task.split()), 'word')}."


def _task(lines: Sequence[Line], born: int, mark: str | None) -> str:
    words = [line[2:] for line in lines[born].text.splitlines() if line.startswith("> ")]
    if words:
        return own_task("\n".join(words), mark)
    above = next((line.text for line in reversed(lines[:born]) if typed(line)), "")
    return own_task(above, None)
