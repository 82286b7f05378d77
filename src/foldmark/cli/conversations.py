"""`foldmark conversations`: the chat commands of `/session` without a chat, and so without a conversation to be in."""

import sys

import click

from foldmark.app import Setup
from foldmark.cli.groups import Group
from foldmark.cli.parameters import conversations as names
from foldmark.cli.parameters import reporting
from foldmark.cli.process import show_result
from foldmark.operations.effects import Asking


class _ListByDefault(Group):
    """A group whose command `list` runs if none is named, with its options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_named = bool(args) and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        is_complete = is_named or ctx.resilient_parsing  # the shell completes the commands
        return super().parse_args(ctx, args if is_complete else ["list", *args])


@click.group(cls=_ListByDefault)
def conversations() -> None:
    """List, rename, archive and delete conversations.

    Without COMMAND, list them. NAME may be the beginning of a conversation's uuid.
    """


@conversations.command("list")
@click.option("--all", "with_archived", is_flag=True, help="List archived ones as well.")
@reporting
def list_(setup: Setup, with_archived: bool, as_json: bool) -> None:
    """List the conversations, the last used first."""
    from foldmark.commands.agents import conversation_list

    with setup.log(create=False) as log:
        show_result(conversation_list(log, None, with_archived=with_archived), as_json)


@conversations.command()
@click.argument("name", shell_complete=names)
@click.argument("new")
@reporting
def rename(setup: Setup, name: str, new: str, as_json: bool) -> None:
    """Rename conversation NAME to NEW."""
    from foldmark.commands.registry import quoted

    _carry_out(setup, name, "/rename", as_json, rest=quoted(new))


@conversations.command()
@click.argument("name", shell_complete=names)
@reporting
def archive(setup: Setup, name: str, as_json: bool) -> None:
    """Hide conversation NAME from the list; nothing in it changes."""
    _carry_out(setup, name, "/session archive", as_json)


@conversations.command()
@click.argument("name", shell_complete=names)
@reporting
def unarchive(setup: Setup, name: str, as_json: bool) -> None:
    """Show the archived conversation NAME in the list again."""
    _carry_out(setup, name, "/session unarchive", as_json)


@conversations.command()
@click.argument("name", shell_complete=names)
@click.option("--yes", "agreed", is_flag=True, help="Do not ask; required without a terminal.")
@reporting
def delete(setup: Setup, name: str, agreed: bool, as_json: bool) -> None:
    """Erase conversation NAME and its forks for good.

    Asks first; without a terminal, --yes is required.
    """
    _carry_out(setup, name, "/session delete", as_json, agreed=agreed)


def _carry_out(setup: Setup, name: str, command: str, as_json: bool, *, rest: str = "", agreed: bool = False) -> None:
    """Run a chat command in conversation NAME, and show the result. Its arguments are `rest`, or else the
    conversation."""
    from foldmark.chat.lines.person import asks

    attended = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    asking = Asking((lambda _: True) if agreed else asks if attended else None)
    with setup.log(create=False) as log:
        agent = log.find(name)
        show_result(agent.do(f"{command} {rest or agent.id}", asking=asking), as_json)
