"""The command line: parse, call a command, render. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""

import os
import re
import sys
from importlib import import_module

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from foldmark import __version__
from foldmark.app import Setup
from foldmark.cli.groups import Group
from foldmark.cli.outcome import open_streams, outcome
from foldmark.core.agents import DEFAULT


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    open_streams()
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code. An error is printed on one line."""
    return outcome(lambda: cli.main(arguments, prog_name="foldmark", standalone_mode=False))


_GROUPS = {
    "Start here": {"demo": "demo:demo", "chat": "chat:chat", "ask": "ask:ask"},
    "Coding agents": {
        "live": "live:live",
        "install": "integration:install",
        "uninstall": "integration:uninstall",
        "import": "sessions:import_",
        "export": "sessions:export",
        "trim": "trimming:trim",
        "rollover": "rollover:rollover",
        "search": "search:search",
        "sync": "sessions:sync",
        "sessions": "sessions:sessions",
    },
    "Conversations": {
        "do": "chat:do",
        "context": "chat:context",
        "conversations": "conversations:conversations",
        "cost": "cost:cost",
    },
    "Database": {
        "backup": "database:backup",
        "copy": "database:copy",
        "doctor": "database:doctor",
        "index": "index:index",
    },
    "For other programs": {
        "hook": "integration:hook",
        "statusline": "integration:statusline",
        "mcp": "integration:mcp",
        "mod": "mod:mod",
    },
}
"""The commands in the order of the help. Each is imported when it is used, because most processes run only one."""

_COMMANDS = {name: target for group in _GROUPS.values() for name, target in group.items()}

_WORDS = {
    "config": "do NAME '/config get'",
    "help": "--help",
    "init": "install claude",
    "list": "conversations",
    "ls": "conversations",
    "repl": "chat",
    "run": "live",
    "setup": "install claude",
    "start": "chat",
    "version": "--version",
}
"""Words that other programs use for commands, used in suggestions -> the rest of the line."""


class _Program(Group):
    """A group that imports commands when they are used."""

    group_class = Group

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS and cmd_name not in self.commands:
            module, _, command = _COMMANDS[cmd_name].partition(":")
            self.add_command(getattr(import_module(f"foldmark.cli.{module}"), command))
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _COMMANDS))
        for title, group in _GROUPS.items():
            commands = [self.get_command(ctx, name) for name in group]
            with formatter.section(title):
                limit = formatter.width - 6 - width
                formatter.write_dl(
                    [(f"{each.name:<{width}}", each.get_short_help_str(limit)) for each in commands if each]
                )

    def unknown(self, ctx: click.Context, words: list[str]) -> str:
        """Return what was probably meant: a line of a conversation, a prompt, or another command."""
        from shlex import quote

        from foldmark.commands import REGISTRY
        from foldmark.live.live_agent import agent_names

        typed = words[0].lower()
        if rest := _WORDS.get(typed) or (f"live {typed}" if typed in agent_names() else ""):
            about = f"{words[1]} " if words[1:] and words[1] in _COMMANDS else ""
            if rest not in ctx.help_option_names:
                return f"that is `foldmark {rest}`"
            return f"that is `foldmark {about}{rest}`" if about else ""  # the usage is named in any case
        if " " in typed.strip() and not typed.startswith("/"):
            return f"to ask a model: foldmark ask {DEFAULT} {quote(words[0])}"
        own, near = REGISTRY.meant(" ".join(words).removeprefix("/")), super().unknown(ctx, words)
        if own is None or (near and not words[0].startswith("/") and typed not in own.split()):
            return near
        line = f"in a conversation there is /{own}: foldmark do NAME {quote(REGISTRY.commands[own].shortest)}"
        return f"{near} Or {line}" if near else line


@click.group(cls=_Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--db",
    metavar="PATH|URL",
    help="The database; by default FOLDMARK_DB, or foldmark.db in your data folder. On a server: postgresql://…",
)
@click.option("--utc", "in_utc", is_flag=True, help="Show times in UTC instead of local time.")
@click.version_option(__version__, prog_name="foldmark")
@click.pass_context
def cli(context: click.Context, db: str | None, in_utc: bool) -> None:
    """Keep every conversation with a language model, and decide what the model sees of it."""
    context.obj = Setup(db, in_utc=in_utc)


class _Bash(BashComplete):
    """Completion for bash, which inserts completions as if they were typed: outside quotes, blanks and special
    characters need a backslash."""

    source_template = BashComplete.source_template.replace("read type", "read -r type")

    def format_completion(self, item: CompletionItem[str]) -> str:
        quoted = re.search(r"""(?:^|\s)['"][^'"]*$""", os.environ.get("COMP_WORDS", ""))
        value = item.value if quoted else re.sub(r"([^\w@%+=:,./~-])", r"\\\1", item.value)
        return f"{item.type},{value}"


add_completion_class(_Bash)
