"""Run whole commands for the section `sessions`: a small process, so that a command's peak of memory is its own."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from lines import serve


def run(words: list[str], seconds: float = 120, given: str = "", folder: str | None = None) -> dict[str, Any]:
    """Run a command to its end, and return what it used and printed.

    `processor` is user and system time, also of the processes that the command waited for, in seconds; `wall` is
    seconds as well, `memory` the largest peak of one of these processes in MB.
    """
    with tempfile.TemporaryFile() as read, tempfile.TemporaryFile() as printed:
        read.write(given.encode())
        read.seek(0)
        began = time.perf_counter()
        child = subprocess.Popen(
            words, stdin=read, stdout=printed, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True
        )
        late = threading.Event()

        def end() -> None:
            late.set()
            os.killpg(child.pid, signal.SIGKILL)

        timer = threading.Timer(seconds, end)
        timer.start()
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - began
        timer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        text = printed.read().decode(errors="replace")
    if late.is_set():
        raise TimeoutError(f"{Path(words[0]).name} was ended after {seconds:.0f} s")
    if status:
        lines = text.strip().splitlines() or [f"exit code {child.returncode}"]
        raise RuntimeError(f"{Path(words[0]).name}: {lines[-1]}")
    scale = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return {
        "processor": used.ru_utime + used.ru_stime,
        "wall": wall,
        "memory": used.ru_maxrss / scale,
        "printed": text,
    }


if __name__ == "__main__":
    serve(run=run)
