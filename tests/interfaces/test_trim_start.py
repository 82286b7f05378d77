"""A trim starts without the imports of other commands."""

from __future__ import annotations

import subprocess
import sys


def test_a_trim_imports_neither_the_log_nor_another_command() -> None:
    script = (
        "import sys; sys.argv = ['foldmark', 'trim', 'missing.jsonl']; from foldmark.cli import main\n"
        "assert main() == 1\n"
        "others = {'typing_extensions', 'foldmark.cli.chat', 'foldmark.commands', 'foldmark.log'}\n"
        "print(*sorted(others & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "\n")
    assert done.stderr.startswith("foldmark: there is no file ")
