"""The command line: parse, call a command, render. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""

import os
import sys
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

import foldmark
from foldmark.app import Setup, embedding, provider
from foldmark.cli.outcome import MisuseError, fail, open_streams, outcome
from foldmark.cli.parameters import MODEL, UTC, chat_commands, conversations, reporting, settings_for, use_model
from foldmark.cli.process import show_result
from foldmark.core.agents import DEFAULT, check_name
from foldmark.core.errors import ConflictError
from foldmark.core.ports import Provider
from foldmark.log import Agent, Log
from foldmark.operations.effects import Asking
from foldmark.rendering import counter


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    open_streams()
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code. An error is printed on one line."""
    return outcome(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> object:
    try:
        return cli.main(arguments, prog_name="foldmark", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "foldmark"
        wrong = error.format_message().rstrip(".")
        end = "" if wrong.endswith("?") else "."
        return fail(f"{wrong}{end} `{where} --help` shows the usage.", error.exit_code)
    except click.ClickException as error:
        return fail(error.format_message(), error.exit_code)
    except click.Abort:
        return fail("interrupted", 130)


_COMMANDS = {
    "ask": "ask:ask",
    "backup": "database:backup",
    "conversations": "conversations:conversations",
    "copy": "database:copy",
    "cost": "cost:cost",
    "demo": "demo:demo",
    "doctor": "database:doctor",
    "export": "sessions:export",
    "hook": "integration:hook",
    "import": "sessions:import_",
    "index": "index:index",
    "install": "integration:install",
    "live": "live:live",
    "mcp": "integration:mcp",
    "mod": "mod:mod",
    "rollover": "continuation:rollover",
    "search": "search:search",
    "sessions": "sessions:sessions",
    "statusline": "integration:statusline",
    "sync": "sessions:sync",
    "trim": "continuation:trim",
    "uninstall": "integration:uninstall",
}
"""Commands in other modules. Each is imported when it is used, because most processes run only one."""


class _Group(click.Group):
    """A group that adds the command's name to option errors without it."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            try:
                return super().invoke(ctx)
            except MisuseError as error:
                raise click.UsageError(str(error)) from None
        except click.UsageError as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            if error.ctx is None and command is not None:
                error.ctx = click.Context(command, ctx, ctx.invoked_subcommand)
            raise


class _Program(_Group):
    """A group that imports commands when they are used."""

    group_class = _Group

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *_COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # For an unknown name, click suggests similar ones, which needs all commands.
        wanted = [cmd_name] if cmd_name in self.commands or cmd_name in _COMMANDS else list(_COMMANDS)
        for name in wanted:
            if name not in self.commands:
                module, _, command = _COMMANDS[name].partition(":")
                self.add_command(getattr(import_module(f"foldmark.cli.{module}"), command))
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--db",
    metavar="PATH|URL",
    help="The database; by default FOLDMARK_DB, or foldmark.db in your data folder. On a server: postgresql://…",
)
@click.option("--utc", "in_utc", is_flag=True, help="Show times in UTC instead of local time.")
@click.version_option(foldmark.__version__, prog_name="foldmark")
@click.pass_context
def cli(context: click.Context, db: str | None, in_utc: bool) -> None:
    """Keep every conversation with a language model, and decide what the model sees of it."""
    context.obj = Setup(db, in_utc=in_utc)


@cli.command()
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
    from foldmark.cli.process import leaving
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
            print("(the full-screen application is not installed; to install it: pip install 'foldmark[terminal]')")
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
        if "--" not in args[:begin] and "--" in args[begin:]:
            args.insert(args.index("--"), "--")  # click removes the first `--`
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from foldmark.commands import REGISTRY

        with formatter.section("Chat commands"):
            formatter.write_dl([(each.synopsis, each.help) for each in REGISTRY.commands.values()])


@cli.command(cls=_WithCommands)
@click.argument("name", shell_complete=conversations)
@click.argument("command", nargs=-1, required=True, shell_complete=chat_commands)
@click.option("--yes", "agreed", is_flag=True, help="Answer yes to the questions of COMMAND: carry out its preview.")
@reporting
def do(setup: Setup, name: str, command: tuple[str, ...], agreed: bool, as_json: bool) -> None:
    """Carry out a chat COMMAND on conversation NAME.

    For example: foldmark do default '/mark BEFORE'. NAME may be the beginning of an agent's uuid. /forget and /remember
    print a preview and change nothing: --yes, or '/agree OFFER' afterwards, carries it out.
    """
    from foldmark.chat.lines.person import asks, edit_command
    from foldmark.chat.live import session_model
    from foldmark.commands import REGISTRY
    from foldmark.editing import answering
    from foldmark.editing.offer import Offer
    from foldmark.editing.suggesting import Suggestion
    from foldmark.operations.effects import AskModel, EditText, RunAgent, WaitForAgents
    from foldmark.operations.receipts import Retried
    from foldmark.runtime.lease import interrupt, settled

    attended = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    with setup.log(create=False) as log:
        agent = log.find(name)
        asking = Asking((lambda _: True) if agreed else asks if attended else None, counter("reading:"))
        if REGISTRY.interrupts(line := REGISTRY.line(command)):
            interrupt(agent)
        with session_model(agent) as model:
            try:
                result = agent.do(line, asking=asking)
            except ConflictError:  # another program has just appended events
                agent.context()
                result = agent.do(line, asking=asking)
            if agreed and isinstance(result.effect, Offer | Suggestion):
                result = answering.agree(agent, result.effect.id)
        if model is not None and model.remark:
            result = replace(result, text=f"{result.text}\n{model.remark}")
        if isinstance(result.effect, EditText):
            if not (command_line := edit_command(result.effect)):
                return
            result = agent.do(command_line)
        if isinstance(result.effect, WaitForAgents):
            settled(map(log.agent, result.effect.agents))
        show_result(result, as_json)
        if isinstance(result.effect, AskModel | Retried | RunAgent):
            from foldmark.chat.lines.one_answer import answer

            asked = log.agent(result.effect.agent) if isinstance(result.effect, RunAgent) else agent
            text = result.effect.text if isinstance(result.effect, Retried) else None
            answer(asked, lambda name: provider(name, log.given), asking, text, shown=not as_json)


@cli.group()
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
