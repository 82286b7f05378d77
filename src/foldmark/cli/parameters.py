"""Parameters that several commands share, and their completion: conversations, and the chat commands of `foldmark do`.

On an error, nothing is completed, because no message would be seen.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from click import Context, Parameter
from click.shell_completion import CompletionItem

from foldmark.app import Setup
from foldmark.core import selections
from foldmark.core.config import MOST, number
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.settings.given import Settings

if TYPE_CHECKING:
    from foldmark.log import Agent

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _in_utc(context: Context, _: Parameter, value: bool) -> bool:
    """Note that the times of this process are shown in UTC, as they are in JSON."""
    if value:
        context.find_object(Setup).in_utc = True  # type: ignore[union-attr]
    return value


UTC = click.option(
    "--utc", is_flag=True, expose_value=False, callback=_in_utc, help="Show times in UTC instead of local time."
)


def reporting(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its `Setup` as first argument, and the options `--utc` and `--json` as the last ones in its
    help."""

    @wraps(command)
    def report(setup: Setup, *args: Any, as_json: bool, **options: Any) -> Any:
        setup.in_utc = setup.in_utc or as_json
        return command(setup, *args, as_json=as_json, **options)

    reports: Callable[..., Any] = report
    return UTC(AS_JSON(click.pass_obj(reports)))


class Number(click.IntRange):
    """The type of an option that is a number: like the numbers of the settings, with the same messages. The option's
    default is the example in a message, or else `example`."""

    def __init__(self, least: int, most: int = MOST, example: int = 10) -> None:
        super().__init__(least, most)
        self.least, self.most, self.example = least, most, example

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> int:
        default = param.default if param else None
        kind = number(self.least, self.most, default if isinstance(default, int) else self.example)
        try:
            return int(kind.value(param.opts[0] if param else "N", value))
        except CommandError as error:
            raise click.UsageError(str(error), ctx) from None


MODEL = click.option(
    "--model", "model", metavar="PROVIDER/MODEL", help="Use this model from now on; /model changes it."
)


def settings_for(setup: Setup, model: str | None) -> Settings:
    """Return the settings for a conversation that uses the model named on the command line, if any. It overrides the
    environment, and a model set in the conversation later overrides both. Raises CommandError for an unknown one."""
    if model is None:
        return setup.given
    from foldmark.providers.registry import check_model

    check_model(model, setup.given.dialects)
    return setup.given.without("model")


def use_model(agent: "Agent", model: str | None) -> None:
    """Let the agent use the model named on the command line, if any, from now on."""
    if model is not None and agent.standing().config.model != model:
        agent.configure("model", model)


def conversations(context: Context, _: Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the conversations whose names begin with the typed text, those with the newest events first."""
    setup = Setup(context.find_root().params.get("db"))
    with suppress(FoldmarkError, OSError):
        if setup.has_database:
            with setup.log(create=False) as log, log.store.read() as moment:
                names = [each.name or "" for each in selections.conversations(moment)]
            return [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return []


def conversations_and_files(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the conversations; if there are none, leave the completion of files to the shell."""
    return conversations(context, parameter, incomplete) or [CompletionItem(incomplete, type="file")]


def chat_commands(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the next words of a line: commands of the registry (`/session` then `list`, or both in a quoted line),
    then options and values from conversation NAME."""
    from foldmark.commands import REGISTRY

    before = "".join(f"{word} " for word in context.params.get(parameter.name or "") or ())
    found: dict[str, CompletionItem[str]] = {}
    for command in REGISTRY.commands.values():
        line = f"/{command.name}"
        if line.startswith(before + incomplete):
            rest = line.removeprefix(before)
            word = rest if " " in incomplete else rest.split()[0]  # a quoted line is completed as one word
            found.setdefault(word, CompletionItem(word, help=command.help))
    return list(found.values()) or _values(context, before, incomplete)


def _values(context: Context, before: str, incomplete: str) -> list[CompletionItem[str]]:
    """Return the options and arguments that continue a line. A shell word may be a part of the line or, quoted, all of
    it."""
    from foldmark.chat.completion import complete
    from foldmark.commands import REGISTRY

    with suppress(FoldmarkError, OSError), Setup(context.find_root().params.get("db")).log(create=False) as log:
        found = complete(REGISTRY, log.find(context.params["name"]), before + incomplete).candidates
        return [
            CompletionItem(incomplete[: each.first - len(before)] + each.text.rstrip(), help=each.help)
            for each in found
            if each.first >= len(before)
        ]
    return []
