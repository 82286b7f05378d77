"""The package and the program import their parts only when needed."""

from __future__ import annotations

import re
import subprocess
import sys

import click
import pytest
from command_line import PROGRAM

import foldmark
import forked
from foldmark.cli.program import _COMMANDS, cli


def test_every_name_is_there() -> None:
    for name in foldmark.__all__:
        assert getattr(foldmark, name).__name__ == name
        assert name in dir(foldmark)
    names: dict[str, object] = {}
    exec("from foldmark import *", names)
    assert set(foldmark.__all__) <= set(names)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match=r"^module 'foldmark' has no attribute 'nothing'$"):
        foldmark.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_the_package_alone_imports_nothing() -> None:
    code = "import sys; before = set(sys.modules); import foldmark; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "foldmark\n"


def imported(*arguments: str) -> set[str]:
    """Return the modules that the program imports for a command line."""
    code = (
        "import sys\nfrom foldmark.cli import main\n"
        f"sys.argv = ['foldmark', *{arguments!r}]\n"
        "try: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


def test_a_command_imports_no_other_one_and_nothing_that_it_does_not_use(log: foldmark.Log) -> None:
    log.agent("default").append("user", "We keep the sessions in SQLite.")
    found = imported("search", "sessions")
    commands = {f"foldmark.cli.{target.partition(':')[0]}" for target in _COMMANDS.values()}
    assert found & commands == {"foldmark.cli.search", "foldmark.cli.sessions"}
    assert not found & {"numpy", "hashlib", "json", "difflib", "asyncio", "concurrent.futures", "subprocess"}


def test_all_commands_are_known_though_none_is_imported() -> None:
    listed = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
    assert all(f"\n  {name} " in listed for name in (*_COMMANDS, *cli.commands, "hook", "statusline"))
    for name in _COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        assert command.name == name
    for wrong, meant in {"serch": "search", "hooks": "hook"}.items():
        done = forked.run([PROGRAM, wrong], capture_output=True, text=True)
        assert (done.returncode, f"did you mean {meant}?" in done.stderr) == (2, True)


def test_do_imports_nothing_that_only_a_chat_needs(log: foldmark.Log) -> None:
    log.agent("default").append("user", "We keep the sessions in SQLite.")
    found = imported("do", "default", "/marks")
    assert not {"concurrent.futures", "textual", "foldmark.chat.lines.foreground", "foldmark.chat.controller"} & found


def test_the_help_groups_all_commands_and_begins_with_the_demo() -> None:
    listed = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
    groups = re.findall(r"^([A-Z][a-z ]+):\n((?:  .*\n?)+)", listed, re.MULTILINE)
    titles, sections = zip(*groups[1:], strict=True)
    assert titles == ("Start here", "Coding agents", "Conversations", "Database", "For other programs")
    shown = [line.split()[0] for section in sections for line in section.splitlines()]
    assert shown[:3] == ["demo", "chat", "ask"]
    assert shown == list(_COMMANDS)
    assert shown[-4:] == ["hook", "statusline", "mcp", "mod"]
