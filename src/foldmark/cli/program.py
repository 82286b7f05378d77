"""The command line: parse, call a command, render. Exit codes: 0 done, 1 failed, 2 wrong request, 130 interrupted."""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import foldmark
from foldmark.app import Setup, embedding, known_keys, provider
from foldmark.cli.completion import chat_commands, conversations, conversations_and_files
from foldmark.core.errors import ConflictError, FoldmarkError
from foldmark.core.wording import one_line
from foldmark.log import Result
from foldmark.log.names import check_name
from foldmark.operations.effects import Asking
from foldmark.rendering import json_text, result_json, result_text
from foldmark.stores.addresses import shown

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    for name, mode, errors in (
        ("stdin", "r", "replace"),
        ("stdout", "w", "backslashreplace"),
        ("stderr", "w", "backslashreplace"),
    ):
        if getattr(sys, name) is None:  # closed by whoever started us; this takes the same descriptor again
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - stays open as long as we run
        getattr(sys, name).reconfigure(errors=errors)
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code; whatever a person can do wrong ends in one line."""
    try:
        code = cli.main(arguments, prog_name="foldmark", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "foldmark"
        return _fail(f"{error.format_message().rstrip('.')}. `{where} --help` says what there is.", error.exit_code)
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except FoldmarkError as error:
        return _fail(str(error), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except BrokenPipeError:
        _give_up_output()
        return 0
    except SystemExit as error:
        if error.code != 1:  # a signal's
            raise
        _give_up_output()  # click's, where it met the closed pipe first
        return 0
    except OSError as error:
        if error.filename is None:
            if _is_folder_gone():
                return _fail("the folder that this runs in was removed; go to another one, then repeat", 1)
            _give_up_output()
        return _fail(f"{error.strerror or error}: {error.filename or 'output'}", 1)
    return code if isinstance(code, int) else 0


def _is_folder_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _give_up_output() -> None:
    """Whoever reads our output has enough, or its disk is full: Python must not complain when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(text: str, code: int) -> int:
    print(f"foldmark: {known_keys().hidden(one_line(text))}", file=sys.stderr)
    return code


_LATE = {
    "backup": "backup:backup",
    "copy": "copy:copy",
    "export": "export:export",
    "hook": "hooks:hook",
    "index": "index:index",
    "install": "install:install",
    "mcp": "serving:mcp",
    "rollover": "rollover:rollover",
    "search": "search:search",
    "sessions": "archive:sessions",
    "statusline": "hooks:statusline",
    "sync": "archive:sync",
    "trim": "trim:trim",
    "uninstall": "install:uninstall",
}
"""Commands in modules of their own, each imported when it is asked for: most programs run one."""


class _Commands(click.Group):
    """What is wrong with an option may be told without saying whose it is; here that is known, and so whose help is."""

    group_class = type

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *_LATE})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # For a name that is unknown click compares it with all that are there.
        wanted = [cmd_name] if cmd_name in self.commands or cmd_name in _LATE else list(_LATE)
        for name in wanted:
            if name not in self.commands:
                module, _, command = _LATE[name].partition(":")
                self.add_command(getattr(import_module(f"foldmark.cli.{module}"), command))
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            if error.ctx is None and command is not None:
                error.ctx = click.Context(command, ctx, ctx.invoked_subcommand)
            raise


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--db",
    metavar="PATH|URL",
    help="The database; otherwise FOLDMARK_DB, or foldmark.db in your data folder. On a server: postgresql://…",
)
@click.version_option(foldmark.__version__, prog_name="foldmark")
@click.pass_context
def cli(context: click.Context, db: str | None) -> None:
    """Keep a conversation with a language model for ever, and decide what the model sees of it."""
    context.obj = Setup(db)


def _show(result: Result, as_json: bool) -> None:
    if as_json:
        print(result_json(result))
        return
    from foldmark.chat.person import show_text

    show_text(result_text(result))


@cli.command()
@click.argument("name", default="default", shell_complete=conversations)
@click.option("--model", "model", metavar="PROVIDER/MODEL", help="Talk to this model from now on; /model changes it.")
@click.pass_obj
def chat(setup: Setup, name: str, model: str | None) -> int:
    """Talk in conversation NAME.

    It is made if there is none. Lines are read from the terminal or a pipe; /help lists the commands.
    """
    from foldmark.chat.controller import chat as talk
    from foldmark.chat.history import InputHistory
    from foldmark.chat.keyboard import Typed, piped
    from foldmark.chat.person import asks
    from foldmark.cli.stopping import leaving
    from foldmark.providers.registry import check_model
    from foldmark.settings.user_folders import data_folder

    typed = sys.stdin.isatty()
    if not setup.has_database:
        check_name(name)
    given = setup.given
    if model is not None:
        check_model(model, given.dialects)
        # Said on the command line, it goes before the environment; said later in the chat, before both.
        given = given.without("model")
    with setup.log(create=True, given=given) as log:
        agent = log.find(name, create=True)
        if model is not None and agent.standing().config.model != model:
            agent.configure("model", model)
        history = Path(data_folder(os.environ), "history.jsonl")
        lines = Typed(InputHistory(history, log.secrets.hidden)) if typed else piped(sys.stdin.buffer)
        with leaving(), embedding(setup.db, given):
            return talk(agent, lambda name: provider(name, given, setup.delay), lines, asks if typed else None)


class _WithCommands(click.Command):
    """Its help ends with the commands of the registry, and a `--` inside a command is a word of that command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        begin = next((index for index, word in enumerate(args) if word.startswith("/")), len(args))
        if "--" not in args[:begin] and "--" in args[begin:]:
            args.insert(args.index("--"), "--")  # click takes the first one for itself
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from foldmark.commands import REGISTRY

        with formatter.section("Chat commands"):
            formatter.write_dl([(each.synopsis, each.help) for each in REGISTRY.commands.values()])


@cli.command(cls=_WithCommands)
@click.argument("name", shell_complete=conversations)
@click.argument("command", nargs=-1, required=True, shell_complete=chat_commands)
@click.option("--yes", "agreed", is_flag=True, help="Answer yes to what COMMAND asks: carry out its preview.")
@_AS_JSON
@click.pass_obj
def do(setup: Setup, name: str, command: tuple[str, ...], agreed: bool, as_json: bool) -> None:
    """Carry out a chat COMMAND on conversation NAME.

    As in: foldmark do default '/mark BEFORE'. NAME may be the beginning of an agent's uuid. /forget and /remember show
    what they would take out, and change nothing: --yes, or '/agree OFFER' afterwards, carries it out.
    """
    from foldmark.chat.person import asks, edit_command, reading
    from foldmark.commands import REGISTRY
    from foldmark.editing import offers
    from foldmark.operations.effects import AskModel, EditText, StartPlanning, WaitForAgents
    from foldmark.runtime.lease import interrupt, settled

    there = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    with setup.log(create=False) as log:
        agent = log.find(name)
        asking = Asking((lambda _: True) if agreed else asks if there else None, reading())
        if REGISTRY.interrupts(line := " ".join(command)):
            interrupt(agent)
        try:
            result = agent.do(line, asking=asking)
        except ConflictError:  # somebody else has recorded something since it was looked at
            agent.context()
            result = agent.do(line, asking=asking)
        if isinstance(result.effect, StartPlanning):
            result = offers.preview(agent, asking)
            if agreed and isinstance(result.effect, offers.Offer):
                result = offers.agree(agent, result.effect.id)
        if isinstance(result.effect, EditText):
            if not (command_line := edit_command(result.effect)):
                return
            result = agent.do(command_line)
        if isinstance(result.effect, WaitForAgents):
            settled(map(log.agent, result.effect.agents))
        _show(result, as_json)
        if isinstance(result.effect, AskModel):
            from foldmark.chat.controller import answer

            answer(agent, lambda name: provider(name, log.given), asking, shown=not as_json)


@cli.group()
def context() -> None:
    """What the model sees."""


@context.command()
@click.argument("name", shell_complete=conversations)
@_AS_JSON
@click.pass_obj
def show(setup: Setup, name: str, as_json: bool) -> None:
    """Show the exact request that would go out for conversation NAME.

    Each part with its origin, what is truncated or left out and why, and where the window begins. With --json also
    byte for byte. NAME may be the beginning of an agent's uuid.
    """
    with setup.log(create=False) as log:
        _show(log.find(name).do("/context show"), as_json)


@cli.command("import")
@click.argument("named", metavar="FILE|ID")
@click.option("--as", "name", metavar="NAME", help="The conversation to import into; otherwise named after the file.")
@_AS_JSON
@click.pass_obj
def import_(setup: Setup, named: str, name: str | None, as_json: bool) -> None:
    """Import a session as a conversation, or what is new of it.

    FILE is a Claude Code session or a Codex rollout (JSONL), ID the beginning of one's id; it is not changed. A session
    that was imported before goes on in its conversation; with --as, in another one.
    """
    from foldmark.cli.imports import import_file, report_data, report_text
    from foldmark.sessions.conversion.importing import format_in
    from foldmark.sessions.places import find, names_file

    file = Path(named) if names_file(named) else find(named, Path.cwd(), os.environ).path
    format_in(file)  # before there is a database to write to
    if name is not None:
        check_name(name)
    with setup.log(create=True) as log:
        report = import_file(log, file, name)
    print(json_text(report_data(report)) if as_json else report_text(report))


@cli.command()
@click.argument("name", metavar="NAME|FILE", shell_complete=conversations_and_files)
@click.option("--model", metavar="PROVIDER/MODEL", help="Whose prices and cache; otherwise the conversation's own.")
@click.option(
    "--budget", metavar="TOKENS", type=click.IntRange(1, 10**9), help="The window's budget; otherwise its own."
)
@click.option(
    "--policy",
    multiple=True,
    type=click.Choice(["steady", "eager", "full", "messages", "clearing"]),
    help="Which one to compare, as often as wanted; all by default.",
)
@click.option("--low-water", metavar="SHARES", help="Of steady, as in 0.8,0.6; otherwise the conversation's own.")
@click.option("--ignore-pauses", is_flag=True, help="As if no cache ever expired.")
@click.option("--plot", metavar="FILE.svg", type=click.Path(path_type=Path, dir_okay=False), help="Draw it as well.")
@_AS_JSON
@click.pass_obj
def cost(setup: Setup, /, name: str, plot: Path | None, as_json: bool, **wanted: Any) -> None:
    """Compare what conversation NAME would have cost.

    Makes its requests again under each policy and works out what the provider's prompt cache would have held and which
    thinking could still have been sent. Nothing is sent, nothing is written. FILE is a session file, read into memory.

    steady and eager are Foldmark's own (the setting context_policy). full sends the whole history, messages only the
    newest messages, as many as always fit the budget, clearing the whole history while the provider clears old tool
    results.
    """
    from foldmark.cli import cost_plot, cost_table
    from foldmark.cli.cost import CostOptions, conversation, report

    if plot is not None:
        cost_plot.drawing()  # before there is much to wait for
    with conversation(setup.db, name) as agent:
        found = report(agent, CostOptions(**wanted))
    if plot is not None:
        cost_plot.plot([(cost_table.title(found), found.rows, found.tariff)], plot)
    print(json_text(cost_table.data(found)) if as_json else cost_table.text(found))


@cli.command()
@click.option("--session", "named", metavar="FILE|ID", help="Check this session of a coding agent's instead.")
@click.option("--repair", is_flag=True, help="Rebuild stored segments; of a session, write a new one that is resumed.")
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Where a repaired session goes.")
@_AS_JSON
@click.pass_obj
def doctor(setup: Setup, named: str | None, repair: bool, out: Path | None, as_json: bool) -> int:
    """Check the database against a full replay, or a session file.

    Exit code 1 if something is wrong: with a session, if it cannot be resumed or something is lost on resuming.
    """
    if named is not None:
        from foldmark.cli.session_doctor import examine as session

        return session(named, repair, out, as_json)
    if out is not None:
        raise click.UsageError("--out goes with --session and --repair")
    from foldmark.cli.database_doctor import examine as database

    with setup.log(create=False) as log:
        return database(log, shown(setup.db), repair, as_json)


@cli.command()
@click.option("--chat", "go_on", is_flag=True, help="Go on in the chat afterwards, if there is a terminal.")
def demo(go_on: bool) -> int:
    """Walk through Foldmark on a sample session."""
    from foldmark.cli.demo import walk

    return walk(run, go_on and sys.stdin.isatty() and sys.stdout.isatty())
