"""The registry: what commands there are, who may call them, and how a line becomes a call [SPEC 4].

A command's `usage` is its only definition of arguments: `NAME` is required, `[NAME]` is optional, a last `NAME...`
takes the rest of the line as it stands.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from foldmark.conversation import Agent, Result
from foldmark.core.errors import CommandError
from foldmark.core.wording import listing

MOST_DIGITS = 40
"""More than any id has."""

HUMAN = frozenset({"human"})
ANYBODY = frozenset({"human", "model", "system"})


class Call(Struct, frozen=True):
    """One use of a command: by whom, on which agent, with which arguments by name."""

    agent: Agent
    arguments: Mapping[str, str]
    actor: str
    registry: "Registry"

    def get(self, name: str) -> str | None:
        """The argument as it was typed; None if it was left out."""
        return self.arguments.get(name)

    def number(self, name: str) -> int:
        """The argument as the id of a turn or an event. Raises CommandError if it is not one."""
        text = self.arguments[name]
        if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
            raise CommandError(f"{name} is a number, not '{text[:MOST_DIGITS]}'")
        return int(text)


class Command(Struct, frozen=True):
    """An operation as a person or a model calls it: `name` may have two words ("context drop")."""

    name: str
    usage: str
    help: str
    run: Callable[[Call], Result]
    who: frozenset[str] = HUMAN

    @property
    def synopsis(self) -> str:
        """The line to type."""
        return f"/{self.name} {self.usage}".rstrip()

    def arguments(self, text: str) -> dict[str, str]:
        """The arguments in `text` by name. Raises CommandError for a missing or a surplus one."""
        found: dict[str, str] = {}
        rest = text.strip()
        for word in self.usage.split():
            name = word.strip("[].")
            if not rest:
                if not word.startswith("["):
                    raise CommandError(f"{name} is missing; usage: {self.synopsis}")
                break
            if word.rstrip("]").endswith("..."):
                found[name], rest = rest, ""
            else:
                found[name], *more = rest.split(None, 1)
                rest = more[0] if more else ""
        if rest:
            raise CommandError(f"'{rest[:40]}' is too much; usage: {self.synopsis}")
        return found


class Registry:
    """All commands by name."""

    def __init__(self, commands: Iterable[Command]) -> None:
        self.commands = {command.name: command for command in commands}

    def __call__(self, agent: Agent, line: str, actor: str = "human") -> Result:
        """Carry out `line` on `agent`. Raises CommandError; nothing was written then."""
        command, rest = self.parse(line)
        if actor not in command.who:
            allowed = listing(f"/{name}" for name, each in self.commands.items() if actor in each.who)
            raise CommandError(f"/{command.name} is not for a {actor}; there is: {allowed}")
        return command.run(Call(agent, command.arguments(rest), actor, self))

    def parse(self, line: str) -> tuple[Command, str]:
        """The command that `line` names, and the rest of the line. Raises CommandError."""
        words = line.strip().split(None, 2)
        if not words or not words[0].startswith("/") or words[0] == "/":
            raise CommandError("a command begins with '/'; /help lists them")
        first = words[0][1:]
        if len(words) > 1 and (command := self.commands.get(f"{first} {words[1]}")):
            return command, words[2] if len(words) > 2 else ""
        if command := self.commands.get(first):
            return command, line.strip()[len(words[0]) :]
        from difflib import get_close_matches  # 7 ms to import, and only ever needed here

        family = [name for name in self.commands if name.startswith(f"{first} ")]
        near = get_close_matches(first, self.commands, n=1)
        if family:
            raise CommandError(f"/{first} needs one of: {listing(name.partition(' ')[2] for name in family)}")
        hint = f"did you mean /{near[0]}? There" if near else "there"
        raise CommandError(f"there is no command /{first[:40]}; {hint} is: {self.names()}")

    def names(self) -> str:
        """All commands, for an error message."""
        return listing((f"/{name}" for name in self.commands), 40)
