"""`foldmark chat`, `do` and `context show`: a conversation's chat, and single commands of it."""

import os
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import click

from foldmark.app import Setup, embedding
from foldmark.cli.groups import Group
from foldmark.cli.parameters import MODEL, UTC, chat_commands, conversations, reporting, settings_for, use_model
from foldmark.cli.process import leaving, show_result
from foldmark.core.agents import DEFAULT, check_name
from foldmark.core.ports import Provider
from foldmark.core.wording import listing
from foldmark.log import Agent, Log
from foldmark.operations.effects import Asking
from foldmark.rendering import counter
from foldmark.sending.models import provider


@click.command()
@click.argument("name", required=False, shell_complete=conversations)
@click.option("--session", metavar="FILE|ID", help="Open this session of a coding agent; NAME is its conversation.")
@MODEL
@click.option("--plain", is_flag=True, help="Print line by line, also on a terminal.")
@UTC
@click.pass_obj
def chat(setup: Setup, name: str | None, session: str | None, model: str | None, plain: bool) -> int:
    """Chat in conversation NAME, creating it if needed.

    Without NAME, the full screen opens your only conversation or lets you choose one; other chats are in `default`.
    With --session, import a session of Claude Code or Codex, or its new messages, and chat in its conversation.

    On a terminal the chat fills the screen; with --plain, or TERM=dumb, it prints line by line. Lines may also come
    from a pipe. /help lists the commands.
    """
    from foldmark.chat.history import input_history
    from foldmark.chat.lines.keyboard import Typed, piped
    from foldmark.chat.lines.line_mode import chat as talk
    from foldmark.chat.lines.person import asks
    from foldmark.cli.sessions import session_file

    typed = sys.stdin.isatty()
    if name is not None and not setup.has_database:
        check_name(name)
    file = session_file(session) if session is not None else None
    given = settings_for(setup, model)

    def models(name: str) -> Provider:
        return provider(name, given, setup.delay)

    with setup.log(create=True, given=given) as log:
        on_screen = typed and not plain and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        if on_screen and find_spec("textual") is None:
            from foldmark.installation import installs

            print(f"(the full-screen application is not installed; {installs('terminal')})")
            on_screen = False
        used = _used(log) if on_screen and file is None and name is None else []
        if file is not None:
            agent, opening = _opened(log, file, name)
        else:
            agent, opening = used[0] if used else log.find(DEFAULT if name is None else name, create=True), ""
        chosen = partial(use_model, model=model) if len(used) > 1 else None
        if chosen is None:
            use_model(agent, model)
        if on_screen:
            from foldmark.terminal.application import run as talk_on_screen

            with embedding(setup.db, given):
                return talk_on_screen(agent, models, opening, chosen)
        lines = Typed(input_history(log)) if typed else piped(sys.stdin.buffer)
        with leaving(), embedding(setup.db, given):
            return talk(agent, models, lines, asks if typed else None, opening)


def _used(log: Log) -> list[Agent]:
    """Return the conversations that are not archived, the last used first."""
    from foldmark.commands.agents import conversations as listed

    return [log.agent(each["agent"]) for each in listed(log, None) if not each["archived"]]


def _opened(log: Log, file: Path, name: str | None) -> tuple[Agent, str]:
    """Import a session into its conversation or into `name`. Return the conversation and a report as text."""
    from foldmark.cli.sessions import import_file
    from foldmark.sessions.conversion.chatting import adopt_model, short_report_text

    report = import_file(log, file, name)
    agent = log.agent(report.agent_id)
    adopt_model(agent)
    return agent, short_report_text(report)


class _WithCommands(click.Command):
    """A command that lists the registry's commands at the end of its help, and passes `--` inside a chat command
    through to it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        begin = next((index for index, word in enumerate(args) if word.startswith("/")), len(args))
        if not ctx.resilient_parsing and args[begin:] and all(word.startswith("-") for word in args[:begin]):
            self._check_named(ctx, args[begin:])
        if "--" not in args[:begin] and "--" in args[begin:]:
            args.insert(args.index("--"), "--")  # click removes the first `--`
        return super().parse_args(ctx, args)

    def _check_named(self, ctx: click.Context, words: list[str]) -> None:
        """Raise UsageError if a command comes first. The name of a conversation may begin with a slash, too."""
        from foldmark.commands import REGISTRY

        line = REGISTRY.line(words)
        if any(word.startswith("/") for word in words[1:]) or REGISTRY.meant(line[1:]) is None:
            return
        from shlex import quote

        names = [each.value for each in conversations(ctx, self.params[0], "")]
        named = f"Conversations: {listing(names, 6)}. " if names else ""
        shown = quote(names[0] if names else DEFAULT)
        raise click.UsageError(f"{named}Name one before the command: foldmark do {shown} {quote(line)}", ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from foldmark.commands import REGISTRY

        with formatter.section("Chat commands"):
            formatter.write_dl([(each.synopsis, each.help) for each in REGISTRY.commands.values()])


@click.command(cls=_WithCommands)
@click.argument("name", shell_complete=conversations)
@click.argument("command", nargs=-1, required=True, shell_complete=chat_commands)
@click.option("--yes", "agreed", is_flag=True, help="Answer yes to the questions of COMMAND: carry out its preview.")
@reporting
def do(setup: Setup, name: str, command: tuple[str, ...], agreed: bool, as_json: bool) -> None:
    """Carry out a chat COMMAND on conversation NAME.

    For example: foldmark do default '/mark BEFORE'. NAME may be the beginning of an agent's uuid. /forget and /remember
    print a preview and change nothing: --yes, or '/agree OFFER' afterwards, carries it out.
    """
    from foldmark.chat.lines.one_command import carry_out
    from foldmark.chat.lines.person import asks
    from foldmark.commands import REGISTRY

    attended = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    asking = Asking((lambda _: True) if agreed else asks if attended else None, counter("reading:"))
    with setup.log(create=False) as log:
        carry_out(
            log.find(name),
            REGISTRY.line(command),
            lambda model: provider(model, log.given),
            asking,
            partial(show_result, as_json=as_json),
            agreed=agreed,
            shown=not as_json,
        )


@click.group(cls=Group)
def context() -> None:
    """Show the next request of a conversation."""


@context.command()
@click.argument("name", shell_complete=conversations)
@reporting
def show(setup: Setup, name: str, as_json: bool) -> None:
    """Show the request that would go out for conversation NAME.

    Shows each part with its origin, what is truncated or left out and why, and where the window begins; with --json
    also the bytes. For a live session, it shows the messages in its agent's next request, and the size of the rest.
    NAME may be the beginning of an agent's uuid.
    """
    with setup.log(create=False) as log:
        show_result(log.find(name).do("/context show"), as_json)
