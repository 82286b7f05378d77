"""A forked program behaves like a newly started one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import forked

PROBES = {
    "its end": "import sys; sys.exit(3)",
    "an end with words": "import sys; sys.exit('why')",
    "no end": "pass",
    "an error": "raise ValueError('wrong')",
    "a signal": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "an interruption": "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "its folder": "import os; print(os.getcwd())",
    "its environment": "import os; print(os.environ.get('PROBE'), os.environ.get('LC_ALL'), len(os.environ) < 9)",
    "its arguments": "import sys; print(sys.argv, sys.path[0], __name__)",
    "its input": "import sys; print(sys.stdin.read().upper())",
    "its streams": "import sys; print([(s.encoding, s.errors, s.isatty(), s.line_buffering) for s in "
    "(sys.stdin, sys.stdout, sys.stderr)])",
    "what it leaves unwritten": "import sys, atexit; atexit.register(print, 'at exit'); sys.stdout.write('unwritten')",
    "its threads": "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('end'))).start()",
    "its signals": "import signal; print([signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, "
    "signal.SIGPIPE)])",
    "its files": "import os; print(sorted(os.listdir('/dev/fd'))[:3])",
    "a mask": "import os; print(os.umask(0))",
}


@pytest.fixture
def how(tmp_path: Path) -> dict[str, Any]:
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "PROBE": "é"}
    return {"cwd": tmp_path, "env": environment, "input": "typed\n", "text": True}


@pytest.mark.parametrize("name", PROBES)
def test_a_fork_is_like_a_program(name: str, how: dict[str, Any]) -> None:
    command = [sys.executable, "-c", PROBES[name], "one", "two"]
    forks = forked.run(command, capture_output=True, **how)
    anew = subprocess.run(command, capture_output=True, check=False, **how)
    assert (forks.returncode, forks.stdout) == (anew.returncode, anew.stdout)
    assert forks.stderr.splitlines()[-1:] == anew.stderr.splitlines()[-1:]


def test_packages_of_a_folder_are_found(how: dict[str, Any], tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "found_there.py").write_text("NAME = 'found'\n")
    command: list[str | Path] = [
        sys.executable,
        "-c",
        "import sys, found_there; print(found_there.NAME, sys.path.index(sys.argv[1]))",
        site,
    ]
    how["env"]["PYTHONPATH"] = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    forks = forked.run(command, site=site, capture_output=True, **how)
    anew = subprocess.run(command, capture_output=True, check=False, **how)
    assert forks.stdout == anew.stdout == "found 1\n"
    assert forked.run(command, capture_output=True, **how).stdout == "found 1\n", "without being told"


def test_it_is_waited_for_and_killed(how: dict[str, Any]) -> None:
    with forked.Popen(
        [sys.executable, "-c", "print('here', flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.kill()
        assert process.wait() == process.poll() == -signal.SIGKILL


def test_the_program_is_the_program(how: dict[str, Any]) -> None:
    command = [forked.PROGRAM, "doctor", "--nothing"]
    forks = forked.run(command, capture_output=True, **how)
    anew = subprocess.run(command, capture_output=True, check=False, **how)
    assert (forks.returncode, forks.stdout, forks.stderr) == (anew.returncode, anew.stdout, anew.stderr)
    assert anew.returncode == 2


def test_another_program_is_started_anew(how: dict[str, Any]) -> None:
    assert forked.run(["cat"], capture_output=True, **how).stdout == "typed\n"
