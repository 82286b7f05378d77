"""Run the tests as on other people's machines: `make portable`. Each row of the table is one run of pytest.

All tests run once in an environment where everything that can be set is set to something unusual, in reverse order, and
once with each other Python that is there. What depends on one thing alone runs with each form of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

UNREACHABLE = "http://127.0.0.1:9"

UNUSUAL = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), UNREACHABLE),
    **dict.fromkeys(("ALL_PROXY", "all_proxy"), "socks5://127.0.0.1:9"),
    **dict.fromkeys(("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"), UNREACHABLE),
    **dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"), "sk-somebodys-own"),
    **dict.fromkeys(("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"), "/nonexistent"),
    **dict.fromkeys(("EDITOR", "VISUAL", "PAGER"), "false"),
    **dict.fromkeys(("CLAUDE_CONFIG_DIR", "CODEX_HOME", "FOLDMARK_DB", "SHELL"), "/nonexistent"),
    "NO_COLOR": "1",
    "COLORFGBG": "0;15",
    "TERM": "dumb",
    "COLUMNS": "40",
    "LINES": "10",
    "TZ": "Asia/Kathmandu",
    "LC_ALL": "C",
}
"""What stands in the environment of one person or another."""

KERNELS = {"Prescott": "sse3", "Nehalem": "sse4_2", "Haswell": "avx2", "Zen": "avx2", "SkylakeX": "avx512f"}
"""Kernels of OpenBLAS, and what a processor must have to run them."""


@dataclass(frozen=True)
class Run:
    """One row of the table."""

    what: str
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    mask: int = 0o022
    processors: int | None = None
    python: str = sys.executable


def runs(home: Path) -> Iterator[Run]:
    """Yield the runs that this machine allows. `home` is an empty folder for them."""
    blanks = home / "h o m e"
    blanks.mkdir()
    yield Run(
        "everything unusual, 8 workers, reversed",
        ("-n", "8", "--dist", "worksteal", "-p", "reversed_order"),
        {**UNUSUAL, "HOME": str(blanks), "PYTHONPATH": str(ROOT / "tests")},  # which also starts all programs anew
        0o077,
    )
    paths = ("tests/core", "tests/laws", "tests/conversation")
    yield Run("PYTHONHASHSEED=0", ("-n", "auto", *paths), {"PYTHONHASHSEED": "0"})
    for kernel in ("", *KERNELS):
        if not kernel or KERNELS[kernel] in _processor():
            yield Run(f"OPENBLAS_CORETYPE={kernel}", ("-n", "2", "tests/recall"), {"OPENBLAS_CORETYPE": kernel})
    paths = ("tests/runtime", "tests/loopback", "tests/interfaces")
    yield Run("one processor", ("-n", "1", *paths), processors=1)
    for version in ("3.12", "3.13", "3.14"):
        if python := _environment_of(version, home):
            yield Run(f"Python {version}", ("-n", "auto", "--dist", "worksteal"), python=python)


def _processor() -> set[str]:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return {"sse3" if flag == "pni" else flag for flag in line.split()}
    return set()


def _environment_of(version: str, home: Path) -> str | None:
    """Return the Python of a new environment with the locked packages; None where there is no such Python."""
    name = shutil.which(f"python{version}")
    if not name or subprocess.run([name, "-c", ""], capture_output=True, check=False).returncode:
        return None
    folder = home / version
    place = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(folder)}
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "sync", "--quiet", "--frozen", "--python", name], env=place, cwd=ROOT, check=True)
    (folder / "bin" / "uv").symlink_to(uv)  # with which a test installs a plugin
    return str(folder / "bin" / "python")


def _played(run: Run) -> tuple[int, str]:
    """Return the exit code and the last line of pytest."""
    environment = {**os.environ, **run.environment}
    environment = {name: value for name, value in environment.items() if value}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as out:
        process = subprocess.Popen(
            [run.python, "-m", "pytest", *run.arguments],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=ROOT,
            umask=run.mask,
        )
        if run.processors and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(process.pid, sorted(os.sched_getaffinity(0))[: run.processors])
        code = process.wait()
        out.seek(0)
        said = out.read()
    if code:
        print(said)
    return code, said.strip().splitlines()[-1] if said.strip() else "printed nothing"


def main(wanted: list[str]) -> int:
    """Play all runs, or those whose names contain one of these texts. Return the exit code."""
    failed = 0
    with tempfile.TemporaryDirectory() as home:
        for run in runs(Path(home)):
            if wanted and not any(text in run.what for text in wanted):
                continue
            begin = time.monotonic()
            code, last = _played(run)
            failed += code != 0
            print(f"{'FAILED' if code else 'ok':6} {run.what}: {last} [{time.monotonic() - begin:.0f} s]", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
