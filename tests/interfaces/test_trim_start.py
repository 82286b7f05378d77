"""A trim starts without the imports of the command line, and reads its words as the command line does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from foldmark.cli import continuation, trimming
from foldmark.cli.outcome import MisuseError
from foldmark.cli.program import run
from foldmark.cli.trimming import TrimWish, at_once

WORDS = [
    (),
    ("a.jsonl",),
    ("a.jsonl", "--dry-run", "--json"),
    ("--threshold", "9", "a", "--tools=Read,mcp__*", "--keep-display-copy"),
    ("--profile", "deep", "--spare", "3", "--spare=4"),
    ("--launch", "", "x"),
    ("--spare", "--json"),
    ("--spare",),
    ("--dry-run=1",),
    ("--prof", "deep"),
    ("-x",),
    ("a", "b"),
    ("--", "a"),
    ("--utc", "a"),
    ("--help",),
    ("-h",),
]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_words_are_read_as_by_the_command_line(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wished: list[TrimWish] = []
    for module in (trimming, continuation):
        monkeypatch.setattr(module, "run_trim", lambda _, wish: wished.append(wish))
    code = at_once(words)
    if code is None:
        assert not wished
        return
    assert (code, run(["trim", *words])) == (0, 0), capsys.readouterr().err
    assert wished[0] == wished[1]


def test_the_command_line_explains_a_misuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise MisuseError("no")

    monkeypatch.setattr(trimming, "run_trim", refused)
    assert at_once(()) is None


def test_a_trim_imports_neither_the_command_line_nor_the_log() -> None:
    script = (
        "import sys; sys.argv = ['foldmark', 'trim', 'missing.jsonl']; from foldmark.cli import main\n"
        "assert main() == 1\n"
        "print(*sorted({'click', 'inspect', 'typing_extensions', 'tempfile', 'foldmark.log'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "\n")
    assert done.stderr.startswith("foldmark: there is no file ")
