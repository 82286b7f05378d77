"""The registry: the commands, who may call them, and how a line becomes a call [SPEC 4].

A command's `usage` defines its arguments: `NAME` is required, `[NAME]` is optional, a last `NAME...` takes the rest of
the line as it stands; `[--flag]` may stand before or after them. So may its `options`, most of which take a value:
`--role ROLE`. In quotes both are ordinary words. The text after `--` is the reason for an operation.
"""

import re
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from foldmark.commands.options import take_options
from foldmark.core.codec import checked_reason
from foldmark.core.errors import CommandError
from foldmark.core.wording import listing
from foldmark.log import Agent, Result
from foldmark.operations.effects import NOBODY, Asking

MOST_DIGITS = 40
"""More digits than any id has."""

ALIASES = {"/messages": "/message", "/session scratchpad": "/scratchpad"}
"""Other beginnings of commands [S2]."""

PREVIEW = "--preview"
"""The flag that previews an operation without carrying it out."""

_REASON = re.compile(r"(?:^|\s)--(?:\s+|$)")

WORDS_OF_OTHERS = {
    "quit": "exit",
    "q": "exit",
    "bye": "exit",
    "?": "help",
    "h": "help",
    "compact": "summarize",
    "reset": "clear",
    "search": "recall",
    "history": "message list",
    "settings": "config get",
}
"""Other programs' names of commands, for suggestions."""

HUMAN = frozenset({"human"})
ANYBODY = frozenset({"human", "model", "system"})


class CommandCall(Struct, frozen=True):
    """One use of a command: the caller, the agent, and the arguments by name."""

    agent: Agent
    arguments: Mapping[str, str]
    actor: str
    registry: "Registry"
    asking: Asking = NOBODY

    def get(self, name: str) -> str | None:
        """Return the argument as it was typed; None if it was left out."""
        return self.arguments.get(name)

    def flag(self, name: str) -> bool:
        """Return True if the flag was given."""
        return name in self.arguments

    @property
    def reason(self) -> str | None:
        """The reason for the operation; None if none was given."""
        return self.get("REASON")

    def confirm(self, question: str) -> None:
        """Return only if the person agrees to `question` or said `--yes` beforehand. Raises CommandError otherwise."""
        if self.flag("--yes"):
            return
        if self.asking.confirm is None:
            raise CommandError(f"{question} Nothing was changed; repeat with --yes to do it.")
        if not self.asking.confirm(question):
            raise CommandError("not confirmed; nothing was changed")

    def number(self, name: str) -> int:
        """Return the argument as the id of a turn or an event. Raises CommandError if it is not one."""
        return number(name, self.arguments[name])

    def numbers(self, name: str) -> list[int | tuple[int, int]]:
        """Return the argument as ids and ranges of ids: `12`, `12-20`. Raises CommandError if one is neither."""
        return [_range(name, word) for word in self.arguments[name].replace(",", " ").split()]


class Command(Struct, frozen=True):
    """A command of a person or a model: `name` may have two words ("context drop").

    One that `interrupts` changes the context of the running turn: a person's use of it ends that turn first [SPEC 3];
    not with `--preview`, nor without its argument `lists`, where it only lists what there is. In the chat, a command
    typed while an answer streams waits for its end, unless it only shows something or may run `at_once`, because it
    concerns the answer itself. One with a `reason` takes one after `--`. `options` are written as in a usage, each with
    its help.
    """

    name: str
    usage: str
    help: str
    run: Callable[[CommandCall], Result]
    who: frozenset[str] = HUMAN
    interrupts: bool = False
    at_once: bool = False
    options: tuple[tuple[str, str], ...] = ()
    reason: bool = False
    lists: str = ""

    @property
    def synopsis(self) -> str:
        """The line to type."""
        return f"/{self.name} {self.usage}".rstrip() + (" [-- REASON]" if self.reason else "")

    def changes(self, arguments: Mapping[str, str]) -> bool:
        """Return True if a use with these arguments does more than show something."""
        return PREVIEW not in arguments and (not self.lists or self.lists in arguments)

    def arguments(self, text: str) -> dict[str, str]:
        """Return the arguments in `text` by name. Raises CommandError for a missing or a surplus one."""
        words = self.usage.split()
        takes = {word.strip("[]"): False for word in words if "--" in word}
        takes |= {name: bool(value) for name, _, value in (option.partition(" ") for option, _ in self.options)}
        said = _REASON.search(text) if self.reason else None
        found, rest = take_options((text[: said.start()] if said else text).strip(), takes)
        if said:
            found["REASON"] = checked_reason(text[said.end() :])
        for word in words:
            name = word.strip("[].")
            if name in takes:
                continue
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


def number(name: str, text: str) -> int:
    """Return the argument `name` as an id. Raises CommandError if it is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise CommandError(f"{name} is a number, not '{text[:MOST_DIGITS]}'")
    return int(text)


def _range(name: str, text: str) -> int | tuple[int, int]:
    first, dash, last = text.partition("-")
    return (number(name, first), number(name, last)) if dash and first and last else number(name, text)


def _spelled_out(line: str) -> str:
    """Return the line with an alias at its beginning replaced by the command's own name."""
    for alias, own in ALIASES.items():
        words = line.split(None, alias.count(" ") + 1)
        if " ".join(words[: alias.count(" ") + 1]) == alias:
            return " ".join((own, *words[alias.count(" ") + 1 :]))
    return line


class Registry:
    """All commands by name."""

    def __init__(self, commands: Iterable[Command]) -> None:
        self.commands = {command.name: command for command in commands}

    def __call__(self, agent: Agent, line: str, actor: str = "human", asking: Asking = NOBODY) -> Result:
        """Carry out `line` on `agent`. If it raises CommandError, nothing was written."""
        command, rest = self._parse_for(agent, line, actor)
        return command.run(CommandCall(agent, command.arguments(rest), actor, self, asking))

    def _parse_for(self, agent: Agent, line: str, actor: str) -> tuple[Command, str]:
        """Parse a line of `actor`. A model's errors list its own commands; a person's are too many to list."""
        allowed = [name for name, each in self.commands.items() if actor in each.who]
        if actor == "model" and (narrowed := agent.standing().config.model_commands) != "all":
            allowed = [name for name in allowed if name in narrowed.split(", ")]
        there_is = listing(f"/{name}" for name in allowed) or "none"
        command, rest = self.parse(line, None if actor == "human" else there_is)
        if command.name not in allowed:
            raise CommandError(f"/{command.name} is not for a {actor}; there is: {there_is}")
        return command, rest

    def interrupts(self, line: str) -> bool:
        """Return True if a person's use of `line` ends the running turn first."""
        found = self._valid(line)
        return found is not None and found[0].interrupts and found[0].changes(found[1])

    def at_once(self, line: str) -> bool:
        """Return True if `line` may run while an answer streams; one that will be refused may as well."""
        found = self._valid(line)
        return found is None or found[0].at_once or (found[0].interrupts and not found[0].changes(found[1]))

    def _valid(self, line: str) -> tuple[Command, dict[str, str]] | None:
        """Return the command and the arguments of a valid line; None if the line will be refused, which changes
        nothing."""
        try:
            command, rest = self.parse(line)
            arguments = command.arguments(rest)
        except CommandError:
            return None
        return command, arguments

    def parse(self, line: str, there_is: str | None = None) -> tuple[Command, str]:
        """Return the command that `line` names, and the rest of the line. Raises CommandError; for an unknown command
        that lists `there_is`, or else suggests a similar one."""
        if not isinstance(line, str):
            raise CommandError(f"a command is a text that begins with '/', not {line!r}")
        line = _spelled_out(line.strip())
        words = line.split(None, 2)
        if not words or not words[0].startswith("/") or words[0] == "/":
            raise CommandError("a command begins with '/'; /help lists them")
        first = words[0][1:]
        if len(words) > 1 and (command := self.commands.get(f"{first} {words[1]}")):
            return command, words[2] if len(words) > 2 else ""
        if command := self.commands.get(first):
            return command, line[len(words[0]) :]
        raise self.unknown(" ".join(words[:2])[1:], there_is)

    def unknown(self, typed: str, there_is: str | None = None) -> CommandError:
        """Return the error for an unknown command: `typed` is the beginning of the line, without its slash."""
        from difflib import get_close_matches  # takes 7 ms to import

        first, _, second = typed.lower().partition(" ")
        if family := [name.partition(" ")[2] for name in self.commands if name.startswith(f"{first} ")]:
            near = get_close_matches(second, family, n=1)
            what = f"/{first} needs one of: {listing(family)}"
            hint = f"; did you mean /{first} {near[0]}?" if near else ""
        else:
            near = get_close_matches(typed.lower(), self.commands, n=1) if second else []
            if not near and (known := WORDS_OF_OTHERS.get(first)) in self.commands:
                near = [str(known)]
            near = near or get_close_matches(first, dict.fromkeys(self._beginnings()), n=1)
            what = f"there is no command /{typed.split()[0][:40]}"
            hint = f"; did you mean /{near[0]}? /help lists the commands" if near else "; /help lists the commands"
        return CommandError(f"{what}; there is: {there_is}" if there_is is not None else what + hint)

    def _beginnings(self) -> Iterable[str]:
        """Return the possible beginnings of a line: each command, and the first word of those that have two."""
        for name in self.commands:
            yield name
            yield name.partition(" ")[0]
