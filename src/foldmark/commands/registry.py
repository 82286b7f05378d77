"""The registry: the commands, who may call them, and how a line is parsed into a call [SPEC 4].

The usage of a command defines its arguments: `NAME` is required, `[NAME]` is optional, and a last `NAME...` takes the
rest of the line unchanged. An argument of one word may contain spaces in double quotes, and a last one of `NAMES` may
stand in quotes as a whole. A flag, `[--flag]`, may come before or after the arguments, and so may an option. Most
options take a value: `--role ROLE`. In quotes, flags and options are ordinary words. The text after `--` is the reason
for an operation.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from msgspec import Struct

from foldmark.core.codec import checked_reason
from foldmark.core.errors import CommandError
from foldmark.core.wording import listing, nearest
from foldmark.log import Agent, Result
from foldmark.operations.effects import NOBODY, Asking, ChangeTheme, LeaveChat
from foldmark.settings.given import GLOBAL_KINDS

MOST_DIGITS = 40
"""Maximum number of digits of an id."""

ALIASES = {"/messages": "/message", "/session scratchpad": "/scratchpad", "/session switch": "/resume"}
"""Other beginnings of commands [S2]."""

PREVIEW = "--preview"
"""The flag that previews an operation without carrying it out."""

REASON_SIGN = re.compile(r"(?:^|\s)--(?:\s+|$)")
"""The sign before the reason for an operation."""

_DIGITS = re.compile(r"[0-9]+")
_NAME = re.compile(r"[a-z-]+(?: [a-z]+)?(?= |$)")
WORD = re.compile(r'(?:"[^"]*"|\S)+')
"""A word of a line; quoted text is part of one."""

NAMES = frozenset({"FOLDER", "NAME", "NEW", "SESSION"})
"""Arguments that name something. The quotes around a name do not belong to it, while those around a text do."""

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
    "sessions": "resume",
    "continue": "resume",
    "load": "resume",
    "usage": "cost",
    "save": "export",
    "new": "session new",
    "settings": "config get",
    "edit": "resend",
    "redo": "restore",
    "checkpoint": "mark",
    "branch": "fork",
    "rollback": "rewind",
}
"""Names that other programs use for commands, used in suggestions."""

HUMAN = frozenset({"human"})
ANYBODY = frozenset({"human", "model", "system"})


class CommandCall(Struct, frozen=True):
    """One use of a command: the caller, the agent and the arguments by name."""

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
        """Ask the person to agree to `question`, unless `--yes` was given. Raises CommandError if the person does not
        agree."""
        if self.flag("--yes"):
            return
        if self.asking.confirm is None:
            raise CommandError(f"{question} Nothing was changed; repeat with --yes to do it.")
        if not self.asking.confirm(question):
            raise CommandError("not confirmed; nothing was changed")

    def number(self, name: str) -> int:
        """Return the argument as the id of a turn or an event. Raises CommandError if it is not one."""
        return _number(name, self.arguments[name])

    def numbers(self, name: str) -> list[int | tuple[int, int]]:
        """Return the argument as ids and ranges of ids: `12`, `12-20`. Raises CommandError if a part is neither."""
        return [_range(name, word) for word in self.arguments[name].replace(",", " ").split()]

    def listed(self, default: int, noun: str) -> int:
        """Return the argument N, the number of the newest `noun` to list. Raises CommandError unless it is 1 or
        more."""
        number = default if self.get("N") is None else self.number("N")
        if not number:
            raise CommandError(f"N is the number of {noun} to list, from 1; without it the newest {default} are listed")
        return number


class Command(Struct, frozen=True):
    """A command of a person or a model: `name` may have two words ("context drop").

    A command that `interrupts` changes the context of the running turn, so a person's use of it ends that turn first
    [SPEC 3]. Uses with `--preview` do not, nor do uses without the argument named in `lists`, which only list
    something. `place` names the argument that says how far a use reaches back; another program's model needs a person's
    permission to leave it out. In the chat, a command typed while an answer streams waits for the end of the answer,
    unless it only shows something or may run `at_once`. A command with `reason` accepts a reason after `--`. `options`
    are written as in a usage line, each with its help.
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
    place: str = ""

    @property
    def synopsis(self) -> str:
        """The line to type."""
        return f"/{self.name} {self.usage}".rstrip() + (" [-- REASON]" if self.reason else "")

    @property
    def shortest(self) -> str:
        """The line with the required arguments only."""
        return " ".join((f"/{self.name}", *(word.rstrip(".") for word in self.usage.split() if word[0] != "[")))

    @property
    def takes(self) -> dict[str, bool]:
        """The options and flags, each mapped to whether it takes a value."""
        takes = {word.strip("[]"): False for word in self.usage.split() if "--" in word}
        return takes | {name: bool(value) for name, _, value in (option.partition(" ") for option, _ in self.options)}

    def example(self, argument: str, value: str) -> str:
        """Return an example line in which an argument or an option has this value. Arguments before it are numbers."""
        if argument in self.takes:
            return f"/{self.name} {argument} {value}"
        before = takewhile(lambda word: word.strip("[].") != argument, self.usage.split())
        return " ".join((f"/{self.name}", *("4" for word in before if "--" not in word), value))

    def changes(self, arguments: Mapping[str, str]) -> bool:
        """Return True if a use with these arguments does more than show something."""
        return PREVIEW not in arguments and (not self.lists or self.lists in arguments)

    def has_no_limit(self, arguments: Mapping[str, str]) -> bool:
        """Return True if a use with these arguments changes the context and does not say how far back."""
        return bool(self.place) and self.place not in arguments and self.changes(arguments)

    def awaited(self, before: Sequence[str]) -> tuple[str, str]:
        """Return the option whose value follows the words `before`, such as `--role ROLE`, or else the next word of the
        usage; both are empty if nothing may follow."""
        takes = self.takes
        usage = [word for word in self.usage.split() if "--" not in word]
        at, value = 0, ""
        for word in before:
            name, equals, _ = word.partition("=")
            if value:
                value = ""
            elif name in takes:
                value = name if takes[name] and not equals else ""
            else:
                at += 1
        if value:
            return next(option for option, _ in self.options if option.startswith(f"{value} ")), ""
        if at < len(usage):
            return "", usage[at]
        return "", usage[-1] if usage and "..." in usage[-1] else ""

    def parse(self, text: str) -> dict[str, str]:
        """Return the arguments in `text` by name. Raises CommandError for a missing or an unexpected argument."""
        words, takes = self.usage.split(), self.takes
        reason = REASON_SIGN.search(text) if self.reason else None
        found, rest = split_options((text[: reason.start()] if reason else text).strip(), takes)
        if reason:
            found["REASON"] = checked_reason(text[reason.end() :])
        for word in words:
            name = word.strip("[].")
            if name in takes:
                continue
            if not rest:
                if not word.startswith("["):
                    raise CommandError(f"{name} is missing; usage: {self.synopsis}")
                break
            typed = WORD.match(rest)
            assert typed is not None  # the rest begins with no space
            if word.rstrip("]").endswith("..."):
                is_quoted = name in NAMES and typed[0] == rest
                found[name], rest = _unquoted(rest) if is_quoted else rest, ""
            else:
                found[name], rest = _unquoted(typed[0]), rest[typed.end() :].lstrip()
        if rest:
            raise CommandError(f"unexpected argument '{rest[:40]}'; usage: {self.synopsis}")
        return found


def command(
    line: str, who: frozenset[str] = HUMAN, **fields: Any
) -> Callable[[Callable[[CommandCall], Result]], Command]:
    """Make a function a command. `line` is its name and usage, and the function's docstring is its help; `fields` are
    the other fields of `Command`."""
    name = _NAME.match(line)
    assert name is not None

    def make(run: Callable[[CommandCall], Result]) -> Command:
        return Command(name[0], line[name.end() :].strip(), run.__doc__ or "", run, who, **fields)

    return make


def split_options(text: str, takes: Mapping[str, bool]) -> tuple[dict[str, str], str]:
    """Split the options at the beginning and the end of `text` from the text between them.

    `takes` maps each option to whether it takes a value: `--role user`, `--role=user`, `--agent "side project"`. Raises
    CommandError for an option without its value, or given twice.
    """
    if not takes:
        return {}, text
    found: dict[str, str] = {}
    words = list(WORD.finditer(text))
    while words:
        if size := _option_width(words[0][0], takes):
            option, words = words[:size], words[size:]
        elif len(words) > 1 and _option_width(words[-2][0], takes) == 2:
            option, words = words[-2:], words[:-2]
        elif _option_width(words[-1][0], takes):
            option, words = words[-1:], words[:-1]
        else:
            break
        name, equals, value = option[0][0].partition("=")
        if takes[name]:
            if not equals and len(option) == 1:
                raise CommandError(f"{name} needs a value after it; a word that is no option goes in quotes")
            if name in found:
                raise CommandError(f"{name} is given twice; give it once")
            value = value if equals else option[1][0]
        found[name] = _unquoted(value)
    return found, text[words[0].start() : words[-1].end()] if words else ""


def quoted(name: str) -> str:
    """Return a name as one word of a line, or as its last argument."""
    word = WORD.match(f'"{name}"')
    return word[0] if word is not None and len(word[0]) == len(name) + 2 else name


def _unquoted(word: str) -> str:
    """Return a word without the quotes around it."""
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] == '"' else word


def _option_width(word: str, takes: Mapping[str, bool]) -> int:
    """Return the number of words of the option that begins with this word; 0 if the word is not an option."""
    name, equals, _ = word.partition("=")
    if name not in takes or (equals and not takes[name]):
        return 0
    return 2 if takes[name] and not equals else 1


class _NumberError(CommandError):
    """The argument `name` is no number; `meant` is the number that it holds, or else an example."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name} must be a number, not '{text[:MOST_DIGITS]}'")
        digits = _DIGITS.search(text) if len(text) < MOST_DIGITS else None
        self.name, self.meant = name, digits[0] if digits else "12"


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise _NumberError(name, text)
    return int(text)


def _range(name: str, text: str) -> int | tuple[int, int]:
    first, dash, last = text.partition("-")
    return (_number(name, first), _number(name, last)) if dash and first and last else _number(name, text)


class Registry:
    """All commands by name."""

    def __init__(self, commands: Iterable[Command]) -> None:
        self.commands = {command.name: command for command in commands}

    def __call__(self, agent: Agent, line: str, actor: str = "human", asking: Asking = NOBODY) -> Result:
        """Run `line` on `agent`. If it raises CommandError, nothing was written."""
        command, arguments = self.allowed(agent, line, actor)
        try:
            return command.run(CommandCall(agent, arguments, actor, self, asking))
        except _NumberError as error:
            raise CommandError(f"{error}; for example {command.example(error.name, error.meant)}") from None

    def allowed(self, agent: Agent, line: str, actor: str) -> tuple[Command, dict[str, str]]:
        """Return the command and the arguments of a line that `actor` may run on `agent`. Raises CommandError."""
        allowed = [name for name, each in self.commands.items() if actor in each.who]
        if actor == "model" and (narrowed := agent.standing().config.model_commands) != "all":
            allowed = [name for name in allowed if name in narrowed.split(", ")]
        # A model's error lists its commands; a person has too many to list.
        there_is = listing(f"/{name}" for name in allowed) or "none"
        command, rest = self.parse(line, None if actor == "human" else there_is)
        if command.name not in allowed:
            raise CommandError(f"/{command.name} is not for a {actor}; available: {there_is}")
        return command, command.parse(rest)

    def line(self, words: Sequence[str]) -> str:
        """Return the line that the words of a shell make up. A word with spaces is put in quotes where the command
        takes one word, and otherwise joined to the others, as in a text."""
        size = 2 if " ".join(words[:2])[1:] in self.commands else 1
        command = self.commands.get(" ".join(words[:size])[1:])
        if command is None:
            return " ".join(words)
        line = [*words[:size]]
        for at, word in enumerate(words[size:]):
            option, place = command.awaited(words[size : size + at])
            is_word = bool(option) or (bool(place) and "..." not in place)
            line.append(quoted(word) if is_word and " " in word.strip('"') else word)
        return " ".join(line)

    def interrupts(self, line: str) -> bool:
        """Return True if a person's use of `line` ends the running turn first."""
        found = self._valid(line)
        return found is not None and found[0].interrupts and found[0].changes(found[1])

    def at_once(self, line: str) -> bool:
        """Return True if `line` may run while an answer streams. An invalid line may, because it changes nothing."""
        found = self._valid(line)
        return found is None or found[0].at_once or (found[0].interrupts and not found[0].changes(found[1]))

    def _valid(self, line: str) -> tuple[Command, dict[str, str]] | None:
        """Return the command and the arguments of a line; None for an invalid line."""
        try:
            command, rest = self.parse(line)
            return command, command.parse(rest)
        except CommandError:
            return None

    def parse(self, line: str, there_is: str | None = None) -> tuple[Command, str]:
        """Return the command that `line` names, and the rest of the line. Raises CommandError; for an unknown command,
        it lists `there_is` or else suggests a similar command."""
        if not isinstance(line, str):
            raise CommandError(f"a command must be a text that begins with '/', not {line!r}")
        line = line.strip()
        for alias, own in ALIASES.items():
            size = alias.count(" ") + 1
            words = line.split(None, size)
            if " ".join(words[:size]) == alias:
                line = " ".join((own, *words[size:]))
        words = line.split(None, 2)
        if not words or not words[0].startswith("/") or words[0] == "/":
            meant = self.meant(line)
            hint = f", as in {self.commands[meant].shortest}" if meant else ""
            raise CommandError(f"a command begins with '/'{hint}; /help lists them")
        first = words[0][1:]
        if len(words) > 1 and (command := self.commands.get(f"{first} {words[1]}")):
            return command, words[2] if len(words) > 2 else ""
        if command := self.commands.get(first):
            return command, line[len(words[0]) :]
        raise self.unknown(" ".join(words[:2])[1:], there_is)

    def meant(self, line: str) -> str | None:
        """Return the name of the command that a line without its slash begins with, by its name, an alias, another
        program's word or a similar spelling; None if there is none."""
        for begin in (" ".join(line.split()[:2]), *line.split()[:1]):
            if begin in self.commands:
                return begin
        first = "".join(line.split()[:1]).lower()
        known = ALIASES.get(f"/{first}", "").removeprefix("/") or self._known(first) or first
        firsts = {name.partition(" ")[0]: name for name in reversed(self.commands)}
        near = [known] if known in self.commands else nearest(known, firsts, least=0.8)
        return near[0] if near and near[0] in self.commands else firsts.get(near[0]) if near else None

    def _known(self, word: str) -> str | None:
        """Return the command with this name, for which other programs have this word, or whose second word it is."""
        if word in self.commands:
            return word
        seconds = {name.partition(" ")[2]: name for name in reversed(self.commands) if " " in name}
        return WORDS_OF_OTHERS.get(word) or seconds.get(word)

    def unknown(self, typed: str, there_is: str | None = None) -> CommandError:
        """Return the error for an unknown command; `typed` is the beginning of the line, without its slash."""
        first, _, second = typed.lower().partition(" ")
        if family := [name.partition(" ")[2] for name in self.commands if name.startswith(f"{first} ")]:
            near = [second] if second in self.commands else []
            near = near or [f"{first} {each}" for each in nearest(second, family)]
            what = f"/{first} needs one of: {listing(family)}"
            hint = f"; did you mean /{near[0]}?" if near else ""
        else:
            near = nearest(typed, self.commands) if second else []
            if not near and (known := self._known(first)) in self.commands:
                near = [str(known)]
            if not near and first not in self.commands:
                near = [name for name in self.commands if name.endswith(f" {first}")]
            beginnings = dict.fromkeys(each for name in self.commands for each in (name, name.partition(" ")[0]))
            near = near or nearest(first, beginnings)
            what = f"there is no command /{typed.split()[0][:40]}"
            hint = f"; did you mean /{near[0]}? /help lists the commands" if near else "; /help lists the commands"
        return CommandError(f"{what}; available: {there_is}" if there_is is not None else what + hint)


@command("help [COMMAND...]", at_once=True)
def _help(call: CommandCall) -> Result:
    """List the commands, or explain one."""
    wanted, commands = call.get("COMMAND"), call.registry.commands
    if wanted is None:
        shown = [each for each in commands.values() if call.actor in each.who]
    else:
        name = wanted.lstrip("/")
        shown = [each for each in commands.values() if each.name == name or each.name.startswith(f"{name} ")]
        if not shown:
            raise call.registry.unknown(name)
    width = max(len(each.synopsis) for each in shown)
    lines = [f"{each.synopsis:<{width}}  {each.help}" for each in shown]
    if wanted is not None:
        lines += [f"  {option:<18}  {what}" for each in shown for option, what in each.options]
    rows = [
        {"usage": each.synopsis, "help": each.help, **({"options": dict(each.options)} if each.options else {})}
        for each in shown
    ]
    return Result("\n".join(lines), None, {"commands": rows})


@command("theme [NAME]", at_once=True)
def _theme(call: CommandCall) -> Result:
    """Change the theme of the full-screen chat; without NAME, list the themes."""
    name, kind = call.get("NAME"), GLOBAL_KINDS["theme"]
    if name is None:
        text = (
            f"The full-screen chat has the themes {listing(kind.choices)}. The setting `theme` chooses the first one."
        )
        return Result(text, None, {"themes": kind.choices})
    chosen = kind.value("theme", name)
    text = (
        f'Only the full-screen chat has a theme, and this is not it. The setting theme = "{chosen}" is for all of them.'
    )
    return Result(text, effect=ChangeTheme(chosen))


@command("exit")
def _exit(_: CommandCall) -> Result:
    """Leave the chat; everything is kept."""
    return Result("", effect=LeaveChat())


GENERAL = (_help, _theme, _exit)
