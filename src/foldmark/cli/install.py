"""`foldmark install` and `foldmark uninstall`: Foldmark in Claude Code, and out of it again [SPEC 8]."""

import difflib
import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foldmark.core.errors import CommandError
from foldmark.core.wording import one_line
from foldmark.rendering import harmless, json_text

if TYPE_CHECKING:
    from foldmark.sessions.install.locations import Places
    from foldmark.sessions.install.plan import FileOutcome, InstallPlan

_WHERE = (
    click.option("--user", "user", is_flag=True, help="For you, in every project; this is the default."),
    click.option("--project", "project", is_flag=True, help="For everybody who works in this folder's project."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
)
_LONGEST_LINE = 400
"""Characters of a line that a preview shows; Claude Code's own file is one long line for some."""

_NO_MCP = (
    "no MCP server is entered: it could not start without the package `mcp`; `pip install 'foldmark[mcp]'`, then "
    "repeat, or --mcp enters it all the same"
)


def _options(command: Any) -> Any:
    for option in reversed(_WHERE):
        command = option(command)
    return command


@click.command()
@click.argument("program", metavar="claude", required=False)
@_options
@click.option("--print", "preview", is_flag=True, help="Write nothing; show what would be written, file by file.")
@click.option("--mcp", is_flag=True, help="The MCP server `foldmark mcp` even if it could not start here.")
@click.option("--no-prompt", is_flag=True, help="Leave CLAUDE.md alone.")
@click.option("--replace-statusline", is_flag=True, help="Take the place of another status line.")
def install(program: str | None, preview: bool, as_json: bool, **given: Any) -> None:
    """Make Foldmark part of Claude Code.

    Hooks that remind of a context that fills up, a status line with its share, the skills /trim and /rollover, a
    paragraph in CLAUDE.md, and the MCP server. What is in your files stays as it is; `foldmark uninstall claude`
    restores them.
    """
    from foldmark.sessions.install.edits import PLAIN
    from foldmark.sessions.install.locations import installed_program, is_temporary
    from foldmark.sessions.install.plan import FileOutcome, InstallOptions, plan_install
    from foldmark.sessions.install.plan import install as carry_out

    _check(program, "install", needed=not preview)
    places = _places(**_scope(given))
    mcp = given["mcp"] or find_spec("mcp") is not None
    options = InstallOptions(
        PLAIN if places.root else installed_program(),
        mcp=mcp,
        prompt=not given["no_prompt"],
        replace_status_line=given["replace_statusline"],
    )
    plan = (plan_install if preview else carry_out)(places, options, os.environ)
    if not mcp:
        plan.done.append(FileOutcome(places.mcp, "left out", (_NO_MCP,)))
    if as_json:
        print(json_text([_data(done, preview) for done in plan.done]))
        return
    if preview:
        print(
            "".join(f"{_difference(done)}\n" for done in plan.done if done.before != done.after and not done.ours),
            end="",
        )
    lines = [_line(done, preview) for done in plan.done]
    if places.root and not shutil.which("foldmark"):
        lines.append("foldmark is not on your PATH: here these hooks do nothing until it is")
    if not places.root and is_temporary(options.program):
        lines.append(f"{options.program} may be gone tomorrow: install Foldmark for good, then repeat")
    print(harmless("\n".join(lines)))
    print(harmless(_next_steps(plan, places, preview)))


@click.command()
@click.argument("program", metavar="claude", required=False)
@_options
def uninstall(program: str | None, as_json: bool, **given: Any) -> None:
    """Take Foldmark out of Claude Code.

    Every file is as it was before, byte for byte. In one that was changed since, only Foldmark's entries go.
    """
    from foldmark.sessions.install.plan import uninstall as carry_out

    _check(program, "uninstall", needed=True)
    places = _places(**_scope(given))
    plan = carry_out(places, os.environ)
    if as_json:
        print(json_text([_data(done, False) for done in plan.done]))
        return
    print(
        harmless("\n".join(_line(done, False) for done in plan.done) or f"Nothing of Foldmark's is in {places.folder}")
    )
    if plan.steps:
        print("Restart Claude Code: a session that runs keeps the hooks that it began with.")


def _check(program: str | None, verb: str, needed: bool) -> None:
    if program is None and needed:
        raise CommandError(f"say what for: `foldmark {verb} claude`")
    if program not in (None, "claude"):
        raise CommandError(f"there is no {verb} for '{one_line(program or '')[:40]}'; there is: claude")


def _scope(given: dict[str, Any]) -> dict[str, bool]:
    return {name: given[name] for name in ("user", "project")}


def _places(user: bool, project: bool) -> "Places":
    from foldmark.sessions.install.locations import project_places, user_places

    if user and project:
        raise CommandError("--user and --project exclude each other; run it once for each")
    return (project_places if project else user_places)(Path.cwd(), os.environ)


def _line(done: "FileOutcome", preview: bool) -> str:
    action = f"would be {done.action}" if preview and done.before != done.after else done.action
    return f"{action:<10} {done.file}" + "".join(f"\n           {note}" for note in done.notes)


def _data(done: "FileOutcome", preview: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"file": str(done.file), "action": done.action}
    if done.notes:
        data["notes"] = list(done.notes)
    if preview and not done.ours:
        data["difference"] = _difference(done)
    return data


def _difference(done: "FileOutcome") -> str:
    """What changes in a file, as a unified difference."""
    before, after = ((each or b"").decode("utf-8", "replace").splitlines() for each in (done.before, done.after))
    old = "/dev/null" if done.before is None else str(done.file)
    lines = difflib.unified_diff(before, after, old, str(done.file), lineterm="")
    return harmless("\n".join(line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…" for line in lines))


def _next_steps(plan: "InstallPlan", places: "Places", preview: bool) -> str:
    flag = " --project" if places.root else ""
    if preview:
        return f"Nothing was written. `foldmark install claude{flag}` does it."
    if not plan.steps:
        return "All of it was there already; nothing was written."
    where = f", in {places.root}: a project's settings count where claude is started" if places.root else ""
    return (
        f"Restart Claude Code{where}. There, /hooks shows the hooks, /trim and /rollover are at hand.\n"
        f"`foldmark uninstall claude{flag}` puts everything back."
    )
