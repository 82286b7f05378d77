"""The meaning of each word in a usage, so that an interface can offer values for an argument."""

from collections.abc import Iterator, Mapping
from typing import Literal, get_args

from foldmark.commands.registry import Command

Meaning = Literal[
    "agent", "command", "conversation", "event", "mark", "memo", "model", "operation", "pinned turn", "request", "role",
    "setting", "setting and value", "tagged text", "tool", "tool result", "turn", "visible turn", "written by",
]  # fmt: skip
"""The kinds of things that an argument can name."""

_FREE = (
    *("CRITERIA", "DATE", "FOLDER", "MESSAGE", "N", "NEW", "OFFER", "QUERY", "RANGES", "SESSION", "TEXT", "TOKENS"),
    "session new NAME",
)
MEANINGS: Mapping[str, Meaning | None] = {
    **dict.fromkeys(_FREE),
    "COMMAND": "command",
    "GID": "turn",
    "ID": "event",
    "ID2": "event",
    "KEY": "setting",
    "KEY=VALUE": "setting and value",
    "MARK": "mark",
    "NAME": "conversation",
    "ROLE": "role",
    "UUID": "agent",
    "WORDS": "tagged text",
    "context drop GID": "visible turn",
    "context evict ID": "tool result",
    "context sent ID": "request",
    "mark NAME": "mark",
    "memo add TEXT": "tagged text",
    "memo remove ID": "memo",
    "memo show ID": "memo",
    "model NAME": "model",
    "pin GID": "visible turn",
    "recall --agent NAME": "written by",
    "recall --tool NAME": "tool",
    "restore ID": "operation",
    "unpin GID": "pinned turn",
}
"""The meaning of each word in a usage. An entry that begins with a command applies to that command, any other entry to
all commands. None stands for free text or a number."""


def names(command: Command) -> Iterator[str]:
    """Yield the arguments of a command as the table has them: `mark NAME`, `recall --agent NAME`."""
    yield from (f"{command.name} {word.strip('[].')}" for word in command.usage.split() if "--" not in word)
    yield from (f"{command.name} {option}" for option, _ in command.options if " " in option)


def meaning(name: str) -> Meaning | None:
    """Return the meaning of an argument of `names`. Raises KeyError if the table lacks it."""
    return MEANINGS[name if name in MEANINGS else name.rpartition(" ")[2]]


KINDS: tuple[Meaning, ...] = get_args(Meaning)
