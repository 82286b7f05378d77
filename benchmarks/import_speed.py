"""Import of a long session: processor time per line, and memory [SPEC 8].

Generates a Claude Code session of `--lines` lines shaped like real ones: prompts, thinking, answers, calls of several
tools with their results (repeated as `toolUseResult`), and progress records, a quarter of all lines. The texts are
pieces of Foldmark's own sources, so their words are those of code and prose; half of them have at most `--text`
characters, and a few have a hundred times as many. `--session` uses your own file instead. `foldmark import` runs as a
whole process, into a database on the disk.

Exit code 1 if 200,000 lines would take more than 20 seconds of processor time.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import foldmark

BEGAN = datetime(2026, 1, 2, 3, 4, 5)
LIMIT = 20 / 200_000
TOOLS = ("Read", "Bash", "Grep", "Edit", "mcp__browser__readPage")


def corpus() -> str:
    """Return Foldmark's sources and their documentation as one text."""
    return "\n".join(path.read_text() for path in sorted(Path(foldmark.__file__).parent.rglob("*.py")))


def records(median: int) -> Iterator[dict[str, Any]]:
    """Yield the records of an endless session."""
    chance, source = random.Random(1), corpus()
    session, number, parent = str(uuid.UUID(int=chance.getrandbits(128))), 0, None
    common = {"isSidechain": False, "userType": "external", "cwd": "/work", "sessionId": session, "version": "2.1.0"}

    def text(times: float = 1.0) -> str:
        length = min(int(chance.lognormvariate(0, 1.2) * median * times) + 1, 100 * median)
        begin = chance.randrange(len(source) - length)
        return source[begin : begin + length]

    def record(kind: str, **rest: Any) -> dict[str, Any]:
        nonlocal number, parent
        number += 1
        moment = (BEGAN + timedelta(seconds=number)).isoformat(timespec="milliseconds")
        found = {"parentUuid": parent, **common, "type": kind, **rest, "timestamp": f"{moment}Z"}
        parent = found["uuid"] = str(uuid.UUID(int=chance.getrandbits(128)))
        return found

    def said(response: str, block: dict[str, Any]) -> dict[str, Any]:
        usage = {"input_tokens": number % 7, "cache_read_input_tokens": number, "output_tokens": 9}
        message = {"model": "claude-x", "id": response, "role": "assistant", "content": [block], "usage": usage}
        return record("assistant", message=message, requestId=f"req_{number}")

    while True:
        yield record("user", message={"role": "user", "content": text()})
        for _ in range(chance.randrange(1, 12)):
            response, call = f"msg_{number:024}", f"toolu_{number:024}"
            if chance.random() < 0.3:
                yield said(response, {"type": "thinking", "thinking": text(), "signature": "c2ln" * 60})
            if chance.random() < 0.4:
                yield said(response, {"type": "text", "text": text(0.5)})
            tool, args = chance.choice(TOOLS), {"file_path": f"/work/{number % 97}.py", "new_string": text(0.5)}
            yield said(response, {"type": "tool_use", "id": call, "name": tool, "input": args})
            for _ in range(chance.choice((0, 0, 1, 1, 3))):
                data = {"type": "hook_progress", "hookEvent": "PostToolUse", "command": "callback"}
                yield record("progress", data=data, toolUseID=call, parentToolUseID=call)
            shown = text(2)
            block = {"tool_use_id": call, "type": "tool_result", "content": shown}
            yield record("user", message={"role": "user", "content": [block]}, toolUseResult={"stdout": shown})
        yield said(f"msg_{number:024}", {"type": "text", "text": text()})


def generated(path: Path, lines: int, median: int) -> Path:
    """Write a session of `lines` lines."""
    with path.open("wb") as file:
        for each, _ in zip(records(median), range(lines), strict=False):
            file.write(json.dumps(each, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
    return path


def main() -> int:
    """Measure and print. Return 1 if a line takes more than the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--text", type=int, default=150, help="characters of a text, the median")
    parser.add_argument("--session", type=Path, help="import this file instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        session = options.session or generated(Path(folder, f"{uuid.uuid4()}.jsonl"), options.lines, options.text)
        database = Path(folder, "import.db")
        command = [sys.executable, "-m", "foldmark", "--db", database, "import", session]
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        with session.open("rb") as file:
            lines = sum(1 for _ in file)
        seconds, memory = (
            used.ru_utime + used.ru_stime,
            used.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1024),
        )
        print(f"{lines} lines, {session.stat().st_size / 1e6:.0f} MB: {seconds:.2f} s of the processor")
        print(f"{seconds / lines * 1e6:.0f} us a line (at most {LIMIT * 1e6:.0f})")
        print(f"memory {memory:.0f} MB, database {database.stat().st_size / 1e6:.0f} MB")
    return 0 if seconds / lines <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
