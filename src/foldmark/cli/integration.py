"""Integration with other programs: `install` and `uninstall` for Claude Code, and the commands that other programs
start: `hook`, `statusline` and `mcp` [SPEC 8, 9]."""

import difflib
import os
import shutil
import signal
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foldmark import __version__, cli
from foldmark.app import Setup, embedding
from foldmark.cli.parameters import AS_JSON, Number, conversations
from foldmark.cli.process import show
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.wording import one_line
from foldmark.rendering import harmless, json_text

if TYPE_CHECKING:
    from foldmark.sessions.install.changes import FileChange
    from foldmark.sessions.install.locations import Places
    from foldmark.sessions.install.plan import InstallOutcome, InstallPlan

_LONGEST_LINE = 400
"""Maximum characters of a line in a preview. A settings file of Claude Code may be one long line."""

_NO_MCP = "no MCP server is added; repeat this with --mcp, or once the package `mcp` is installed; "


@click.command()
@click.argument("program", metavar="claude", required=False)
@click.option("--user", is_flag=True, help="Install for you, in every project (default).")
@click.option("--project", is_flag=True, help="Install for everybody in this folder's project.")
@AS_JSON
@click.option("--print", "preview", is_flag=True, help="Write nothing; show the changes, file by file.")
@click.option("--mcp", is_flag=True, help="Add the MCP server `foldmark mcp` even if it could not start here.")
@click.option("--no-prompt", is_flag=True, help="Leave CLAUDE.md unchanged.")
@click.option("--replace-statusline", is_flag=True, help="Replace another status line.")
def install(
    program: str | None,
    user: bool,
    project: bool,
    as_json: bool,
    preview: bool,
    mcp: bool,
    no_prompt: bool,
    replace_statusline: bool,
) -> None:
    """Add Foldmark to Claude Code.

    Installs a plugin with hooks that warn when the context fills up, the skills /trim, /rollover and /fm, and the MCP
    server. Adds a status line and a paragraph in CLAUDE.md. Your own entries stay as they are; `foldmark uninstall
    claude` restores the files.
    """
    from foldmark.installation import installs
    from foldmark.sessions.install.locations import PLAIN, installed_program, is_temporary
    from foldmark.sessions.install.plan import InstallOptions, InstallOutcome, plan_install
    from foldmark.sessions.install.plan import install as carry_out
    from foldmark.sessions.install.plugins import SERVER

    _check(program, "install", needed=not preview)
    places = _places(user, project)
    mcp = mcp or find_spec("mcp") is not None
    named = PLAIN if places.root else installed_program()
    options = InstallOptions(named, __version__, mcp, not no_prompt, replace_statusline)
    plan = (plan_install if preview else carry_out)(places, options, os.environ)
    server = places.plugins / SERVER
    if not mcp and not server.exists():
        plan.done.append(InstallOutcome(str(server), "left out", (_NO_MCP + installs("mcp"),)))
    if as_json:
        print(json_text([_data(done, preview) for done in plan.done]))
        return
    if preview:
        for change in (change for done in plan.done for change in done.changes if change.after != change.before):
            print(_difference(change))
    lines = [_line(done, preview) for done in plan.done]
    if places.root and not shutil.which("foldmark"):
        lines.append("foldmark is not on your PATH: these hooks do nothing here until it is")
    if not places.root and is_temporary(options.program):
        lines.append(f"{options.program} is in a temporary place: install Foldmark permanently, then repeat")
    print(harmless("\n".join(lines)))
    print(harmless(_next_steps(plan, places, preview)))


@click.command()
@click.argument("program", metavar="claude", required=False)
@click.option("--user", is_flag=True, help="Remove what was installed for you (default).")
@click.option("--project", is_flag=True, help="Remove what was installed in this folder's project.")
@AS_JSON
def uninstall(program: str | None, user: bool, project: bool, as_json: bool) -> None:
    """Remove Foldmark from Claude Code.

    Restores every file byte for byte. From a file that was changed since, only Foldmark's entries are removed.
    """
    from foldmark.sessions.install.plan import uninstall as carry_out

    _check(program, "uninstall", needed=True)
    places = _places(user, project)
    plan = carry_out(places, os.environ)
    text = "\n".join(_line(done, False) for done in plan.done) or f"Foldmark is not installed in {places.folder}"
    show([_data(done, False) for done in plan.done], text, as_json)
    if plan.done and not as_json:
        print(_by_hand(plan) or "Restart Claude Code: a running session keeps its hooks.")


def _check(program: str | None, verb: str, needed: bool) -> None:
    if program is None and needed:
        raise CommandError(f"name the program: `foldmark {verb} claude`")
    if program not in (None, "claude"):
        from foldmark.live.live_agent import agent_names

        known = f". `foldmark live {program}` needs no installation" if program in agent_names() else ""
        raise CommandError(f"cannot {verb} for '{one_line(program or '')[:40]}'; available: claude{known}")


def _places(user: bool, project: bool) -> "Places":
    from foldmark.sessions.install.locations import project_places, user_places

    if user and project:
        raise CommandError("--user and --project exclude each other; run it once for each")
    return (project_places if project else user_places)(Path.cwd(), os.environ)


def _line(done: "InstallOutcome", preview: bool) -> str:
    action = done.action
    if preview and action not in ("unchanged", "left out"):
        action = f"would {'run' if done.is_command else f'be {action}'}"
    return f"{action:<10} {done.name}" + "".join(f"\n           {note}" for note in done.notes)


def _data(done: "InstallOutcome", preview: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"command" if done.is_command else "file": done.name, "action": done.action}
    if done.notes:
        data["notes"] = list(done.notes)
    if preview and done.changes:
        data["difference"] = "\n".join(filter(None, map(_difference, done.changes)))
    return data


def _difference(change: "FileChange") -> str:
    """Return the change of a file as a unified diff."""
    before, after = ((each or b"").decode("utf-8", "replace").splitlines() for each in (change.before, change.after))
    old = "/dev/null" if change.before is None else str(change.file)
    lines = difflib.unified_diff(before, after, old, str(change.file), lineterm="")
    return harmless("\n".join(line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…" for line in lines))


def _next_steps(plan: "InstallPlan", places: "Places", preview: bool) -> str:
    flag = " --project" if places.root else ""
    if preview:
        return f"Nothing was written. `foldmark install claude{flag}` does it."
    if by_hand := _by_hand(plan):
        return f"{by_hand}\n`foldmark uninstall claude{flag}` takes back what was written."
    if not plan.changes and not plan.commands:
        return "Everything is installed already; nothing was written."
    where = f", in {places.root}: a project's plugins count where claude is started" if places.root else ""
    return (
        f"Restart Claude Code{where}. There, /hooks shows the hooks; /trim, /rollover and /fm are available.\n"
        f"`foldmark uninstall claude{flag}` puts everything back."
    )


def _by_hand(plan: "InstallPlan") -> str:
    """Return a sentence about the commands that a person has to run, or ""."""
    count = sum(done.action == "to run" for done in plan.done)
    word = "this command" if count == 1 else "these commands"
    return f"claude is not on your PATH: run {word} where it is, then restart Claude Code." if count else ""


@click.command()
@click.argument("name", required=False, shell_complete=conversations)
@click.option(
    "--http",
    "port",
    metavar="PORT",
    type=Number(0, 65535, example=8765),
    help="Serve over HTTP; 0 is any free port.",
)
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="With --http: listen on ADDRESS."
)
@click.option("--allow-host", "names", metavar="NAME", multiple=True, help="With --http: accept this host name, too.")
@click.pass_obj
def mcp(setup: Setup, name: str | None, port: int | None, host: str, names: tuple[str, ...]) -> None:
    """Serve Foldmark to another program over MCP.

    Serves the program that starts it, over standard input and output; or with --http every client that has the token in
    FOLDMARK_MCP_TOKEN, or a generated one. NAME is the conversation for calls that name none.
    """
    if port is None and (host != "127.0.0.1" or names):
        raise click.UsageError("--host and --allow-host require --http")
    setup.in_utc = True  # the texts are for other programs' models
    setup.given  # noqa: B018 - report invalid settings before a client connects
    try:
        import_module("mcp")
    except ImportError:
        from foldmark.installation import installs

        raise FoldmarkError(f"the package `mcp` is not installed; {installs('mcp')}") from None
    import anyio

    from foldmark.mcp.conversations import Conversations
    from foldmark.mcp.server import server

    conversations = Conversations(setup, name)
    if port is None:
        from foldmark.mcp.stdio import serve

        if sys.platform != "win32":
            # The thread that waits for a line cannot be interrupted, and nothing needs cleaning up.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            with embedding(setup.db, setup.given):
                anyio.run(serve, server(conversations, here=True))
        except* (BrokenPipeError, ConnectionResetError):
            pass  # the client is gone
        return
    from foldmark.mcp import http

    secret, where = http.token(os.environ)
    with http.listening(host, port) as opened, embedding(setup.db, setup.given):
        said = f"for clients with the token in {where}"
        if not http.is_loopback(host):
            said += "; other machines may reach it, and nothing is encrypted"
        anyio.run(http.serve, server(conversations, here=False), opened, host, names, secret, said)


_WHATEVER = {"ignore_unknown_options": True, "allow_extra_args": True}
"""Other versions of the coding agent may pass further arguments, which are ignored."""


@click.command(context_settings=_WHATEVER)
def hook() -> int:
    """Handle a Claude Code hook event (JSON on standard input).

    After a tool call and with a prompt, it reminds the model how full its context is, from 60% on and at most once a
    minute. Before a compaction and at the end of a turn or session, it archives the session. The exit code is always 0;
    errors go to hook.log in the state folder. `foldmark install claude` sets it up.
    """
    return cli.hook()


@click.command(context_settings=_WHATEVER)
def statusline() -> int:
    """Print a status line for Claude Code.

    Reads the session's status as JSON from standard input, and prints one line: how full its context is. The exit code
    is always 0. `foldmark install claude` sets it up.
    """
    return cli.statusline()
