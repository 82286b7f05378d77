"""Shell completion: conversations and chat commands; it never writes and never fails (SPEC 9)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shlex import quote

import pytest
from click.shell_completion import get_completion_class
from command_line import files

import foldmark
from foldmark.cli.program import cli as program
from foldmark.commands import REGISTRY


class Shell:
    """Bash's request for completions. The last word is the one being typed, unchanged."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def completes(self, *words: str) -> list[str]:
        self._patch.setenv("COMP_WORDS", "\n".join(("foldmark", *words)))
        self._patch.setenv("COMP_CWORD", str(len(words)))
        bash = get_completion_class("bash")
        assert bash is not None
        return bash(program, {}, "foldmark", "_FOLDMARK_COMPLETE").complete().splitlines()


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(monkeypatch)


@pytest.fixture
def names(log: foldmark.Log) -> foldmark.Log:
    for name in ("my talk", "default", "mine"):
        log.agent(name).append("user", "x")
    log.agent("mine").do("/fork")
    return log


@pytest.mark.parametrize(
    "words", [("chat",), ("do",), ("context", "show"), ("cost",), ("export",), ("mcp",), ("search", "--agent")]
)
def test_conversations_the_newest_first(shell: Shell, names: foldmark.Log, words: tuple[str, ...]) -> None:
    assert shell.completes(*words, "") == ["plain,mine", "plain,default", "plain,my\\ talk"]
    assert shell.completes(*words, "m") == ["plain,mine", "plain,my\\ talk"]


def test_a_quoted_name_needs_no_backslash(shell: Shell, names: foldmark.Log) -> None:
    assert shell.completes("chat", "'my t") == ["plain,my talk"]
    assert shell.completes("do", "'my talk'", "/mem") == ["plain,/memo"]


def test_files_where_there_is_no_conversation(shell: Shell, names: foldmark.Log) -> None:
    assert shell.completes("cost", "./ses") == ["file,./ses"]


def test_the_commands_for_conversations_and_their_names(shell: Shell, names: foldmark.Log) -> None:
    commands = ["archive", "delete", "list", "rename", "unarchive"]
    assert shell.completes("conversations", "") == [f"plain,{word}" for word in commands]
    assert shell.completes("conversations", "delete", "mi") == ["plain,mine"]
    assert shell.completes("ask", "mi") == ["plain,mine"]


def test_every_chat_command(shell: Shell, names: foldmark.Log) -> None:
    first = [f"plain,/{word}" for word in dict.fromkeys(name.split()[0] for name in REGISTRY.commands)]
    assert shell.completes("do", "mine", "") == first
    sessions = [name.split()[1] for name in REGISTRY.commands if name.startswith("session ")]
    assert shell.completes("do", "mine", "/session", "") == [f"plain,{word}" for word in sessions]
    assert shell.completes("do", "mine", "/session", "li") == ["plain,list"]
    assert shell.completes("do", "mine", "'/session li") == ["plain,/session list"]
    assert shell.completes("do", "mine", "/session", "list", "") == ["plain,--all"]
    assert shell.completes("do", "mine", "mar") == []


def test_the_arguments_of_chat_commands(shell: Shell, names: foldmark.Log) -> None:
    names.agent("my talk").do("/mark BEFORE")
    assert shell.completes("do", "'my talk'", "/rewind", "") == ["plain,BEFORE", "plain,1"]
    assert shell.completes("do", "'my talk'", "'/rewind B") == ["plain,/rewind BEFORE"]
    assert shell.completes("do", "mine", "/rewind", "") == ["plain,3"]
    assert shell.completes("do", "'my talk'", "/resume", "my") == ["plain,my\\ talk"]
    assert shell.completes("do", "nobody", "/rewind", "") == []


def test_another_database_or_none(shell: Shell, names: foldmark.Log, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with foldmark.open(other) as log:
        log.agent("elsewhere")
    (tmp_path / "text").write_text("This is no database, but it is long enough to be looked at as one.")
    before = files(tmp_path)
    assert shell.completes("--db", quote(str(other)), "chat", "") == ["plain,elsewhere"]
    for wrong in ("none.db", "text", "."):
        assert shell.completes("--db", quote(str(tmp_path / wrong)), "chat", "") == []
    assert files(tmp_path).keys() == before.keys()


def test_bash_keeps_the_backslash() -> None:
    bash = get_completion_class("bash")
    assert bash is not None
    assert "read -r type value" in bash(program, {}, "foldmark", "_FOLDMARK_COMPLETE").source()


def test_the_module_is_the_program() -> None:
    done = subprocess.run([sys.executable, "-m", "foldmark", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"foldmark, version {foldmark.__version__}\n"
    done = subprocess.run([sys.executable, "-m", "foldmark", "hook"], input="no JSON", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    done = subprocess.run([sys.executable, "-m", "foldmark", "nothing"], capture_output=True, text=True)
    assert (done.returncode, "Usage" in done.stderr or "there is no command" in done.stderr) == (2, True)
