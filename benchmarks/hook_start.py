"""Time of a hook: `foldmark hook` after a tool call, as a whole installed process, against an empty Python.

A coding agent waits for the hook after every tool call. The hook reads only the end of the transcript, so a transcript
of 500 MB must take as long as one of 1 MB; both consist of the same exchanges, and both are full enough for a reminder,
which the first run in a minute prints. Further rows: a reminder every time, a tool result of 5 MB in the event and at
the end of the transcript, the status line, and the end of a turn, which archives the new part.

Everything runs from compiled modules, as an installed package does (see `startup.py`). Exit code 1 if the hook takes
more than 4 times as long as an empty Python; the target is 3.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT, AIM = 4.0, 3.0
UUID = "0a1b2c3d-0000-4000-8000-00000000000"
USAGE = {
    "input_tokens": 7,
    "cache_creation_input_tokens": 993,
    "cache_read_input_tokens": 122_900,
    "output_tokens": 100,
}


def exchange(result: str) -> bytes:
    """Return an answer with a call, and its result, as Claude Code writes them."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/src/parser.py"}}
    message = {"id": "msg_1", "role": "assistant", "model": "claude-sonnet-4-5", "content": [call], "usage": USAGE}
    back = {"type": "tool_result", "tool_use_id": "toolu_1", "content": result}
    records = (
        {"type": "assistant", "uuid": "a", "parentUuid": "b", "isSidechain": False, "message": message},
        {"type": "user", "uuid": "b", "message": {"role": "user", "content": [back]}, "toolUseResult": result},
    )
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def transcript(path: Path, size: int, last: str = "") -> Path:
    """Write a session file of about `size` bytes and return its path."""
    piece = exchange("    return parse(line)\n" * 100)
    with path.open("wb") as file:
        for _ in range(max(1, size // len(piece) // 200)):
            file.write(piece * 200)
        file.write(exchange(last))
    return path


def event(name: str, number: int, path: Path, result: str = "") -> bytes:
    """Return the event that a hook gets for the session with this number."""
    told = {
        "session_id": f"{UUID}{number}",
        "transcript_path": str(path),
        "cwd": str(path.parent),
        "hook_event_name": name,
    }
    return json.dumps({**told, "tool_name": "Read", "tool_response": {"content": result}}).encode()


def wall(command: list[str], given: bytes, environment: dict[str, str]) -> float:
    """Return the milliseconds from the start of a process to its end."""
    began = time.perf_counter()
    subprocess.run(command, input=given, env=environment, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - began) * 1000


def main() -> int:
    """Measure and print. Return 1 if the hook takes too long."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--large", type=int, default=500, metavar="MB", help="the size of the large transcript")
    parser.add_argument("--folder", help="where to make the temporary folder")
    options = parser.parse_args()
    python, program = sys.executable, str(Path(sys.executable).with_name("foldmark"))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        place, image = Path(folder), "x" * 5_000_000
        small = transcript(place / f"{UUID}1.jsonl", 1 << 20)
        large = transcript(place / f"{UUID}2.jsonl", options.large << 20)
        behind = transcript(place / f"{UUID}3.jsonl", 1 << 20, image)
        often = {"FOLDMARK_CHECK_INTERVAL_SECONDS": "0"}
        big = f"hook, transcript of {options.large} MB"
        contest: dict[str, tuple[list[str], bytes, dict[str, str]]] = {
            "python -c pass": ([python, "-c", "pass"], b"", {}),
            "python -c 'import json'": ([python, "-c", "import json"], b"", {}),
            "hook, transcript of 1 MB": ([program, "hook"], event("PostToolUse", 1, small), {}),
            big: ([program, "hook"], event("PostToolUse", 2, large), {}),
            "hook that reminds": ([program, "hook"], event("PostToolUse", 3, large), often),
            "hook, result of 5 MB": ([program, "hook"], event("PostToolUse", 4, behind, image), {}),
            "statusline": ([program, "statusline"], event("", 5, large), {}),
            "hook, end of a turn": ([program, "hook"], event("Stop", 6, small), {}),
        }
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(place / "compiled"), "HOME": folder}
        environment |= {f"XDG_{kind}_HOME": str(place / kind) for kind in ("STATE", "CONFIG", "DATA")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        times: dict[str, list[float]] = {name: [] for name in contest}
        for number in range(options.runs + 1):
            for name, (command, given, more) in contest.items():
                milliseconds = wall(command, given, environment | more)
                if number:  # the first run compiles and fills the disk's cache
                    times[name].append(milliseconds)
    median = {name: statistics.median(each) for name, each in times.items()}
    empty = median["python -c pass"]
    print(f"{f'median of {options.runs} runs, ms':34}{'whole':>8}{'ratio':>8}{'fastest':>9}")
    for name, milliseconds in median.items():
        print(f"{name:34}{milliseconds:8.1f}{milliseconds / empty:8.2f}{min(times[name]):9.1f}")
    judged = max(median["hook, transcript of 1 MB"], median[big]) / empty
    print(f"\nA hook takes {judged:.2f} times an empty Python; the limit is {LIMIT:.0f}, the aim {AIM:.0f}.")
    print(
        f"The large transcript takes {median[big] / median['hook, transcript of 1 MB']:.2f} times the small one's time."
    )
    return 1 if judged > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
