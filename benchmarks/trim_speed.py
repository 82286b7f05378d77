"""Trim of a large session: its time against a plain copy and claude-code-tools, and its memory [SPEC 8].

Generates two session files of `--size` MB: one with long results, as sessions have them, and one with short ones, in
lines of some 700 bytes. Each is copied line by line by Python (`for line in file: out.write(line)`) and trimmed, in
turn, so that other work on the machine affects both equally; the median of the rounds' ratios is printed. `--sample`
uses your own session file for the first instead, repeated until it is as large.

claude-code-tools trims the first file once, in its own process, if `--claude-code-tools` names a Python that has it;
`pip install claude-code-tools` into its own environment, because it is not part of Foldmark.

Memory is the peak of a process that trims a file of `--size` MB, and of one that trims five times that.

Exit code 1 if a trim of the first file takes more than twice the time of a copy or more than a third of
claude-code-tools' time, or more than 100 MB. With short lines, a copy is little more than memory access; these figures
are for information only.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from foldmark.sessions.places import session_path
from foldmark.sessions.trim.job import TrimOptions
from foldmark.sessions.trim.trimming import trim

COPY, THEIRS, MEMORY = 2.0, 1 / 3, 100
WISH = TrimOptions(500, ("Read", "Bash", "Grep", "Glob"))

OUTPUT = '   {number:4}→    def step_{number}(self, value: "int | None") -> str:\n        return f"{{value}}\\n"\n'
OTHER = """
import sys, time
from pathlib import Path
from claude_code_tools.trim_session_claude import build_tool_name_mapping, process_claude_session
source, target = Path(sys.argv[1]), Path(sys.argv[2])
begin = time.perf_counter()
process_claude_session(source, target, build_tool_name_mapping(source), {"read", "bash", "grep", "glob"}, 500,
    lambda name, length: "", new_session_id="11111111-2222-4333-8444-555555555555")
print(time.perf_counter() - begin)
"""
"""The work of claude-code-tools for `trim-session`."""

MEASURED = r"""
import re, resource, sys
from datetime import UTC, datetime
from pathlib import Path
from foldmark.sessions.places import session_path
from foldmark.sessions.trim.trimming import trim
from foldmark.sessions.trim.job import TrimOptions
options = TrimOptions(500, ("Read", "Bash", "Grep", "Glob"))
trim(session_path(Path(sys.argv[1])), options, sys.argv[2], datetime.now(UTC))
if Path("/proc/self/status").exists():  # what getrusage says there includes the process that started this one
    print(int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20)
"""


def records(longest: int) -> Iterator[dict[str, Any]]:
    """Yield the records of an endless session; its results have up to `longest` lines."""
    chance = random.Random(1)
    session = str(uuid.UUID(int=chance.getrandbits(128)))
    common = {"isSidechain": False, "userType": "external", "cwd": "/work", "sessionId": session, "version": "2.1.0"}
    parent, number = None, 0
    while True:
        number += 1
        call, answer, back = f"toolu_{number:024}", *(str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(2))
        name = chance.choice(("Read", "Bash", "Grep", "Edit"))
        usage = {"input_tokens": number % 7, "cache_read_input_tokens": number, "service_tier": "standard"}
        text = "".join(OUTPUT.format(number=line) for line in range(chance.randrange(1, longest)))
        said = [{"type": "tool_use", "id": call, "name": name, "input": {"file_path": f"/work/{number}.py"}}]
        message = {"model": "claude-x", "id": f"msg_{number}", "role": "assistant", "content": said, "usage": usage}
        times = {"timestamp": "2026-01-02T03:04:05.678Z"}
        yield {"parentUuid": parent, **common, "message": message, "type": "assistant", "uuid": answer, **times}
        result = [{"tool_use_id": call, "type": "tool_result", "content": text}]
        shown = {"stdout": text} if name == "Bash" else {"type": "text", "file": {"filePath": "/work", "content": text}}
        message = {"role": "user", "content": result}
        parent = back
        yield {"parentUuid": answer, **common, "type": "user", "message": message, "uuid": back, **times,
               "toolUseResult": shown}  # fmt: skip


def generated(path: Path, size: int, longest: int) -> Path:
    with path.open("wb") as file:
        for record in records(longest):
            file.write(json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
            if file.tell() >= size:
                return path
    raise AssertionError("records do not end")


def repeated(path: Path, size: int, sample: Path) -> Path:
    """Write the lines of a sample again and again, with new ids of calls each time."""
    lines = [line for line in sample.read_bytes().splitlines(keepends=True) if line.strip()]
    with path.open("wb") as file:
        for turn in range(1, 1 << 30):
            for line in lines:
                file.write(line.replace(b"toolu_0", b"toolu_%x" % turn))
                if file.tell() >= size:
                    return path
    raise AssertionError("not reached")


def copied(source: Path, target: Path) -> None:
    with source.open("rb") as file, target.open("wb") as out:
        for line in file:
            out.write(line)


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def trimmed(source: Path) -> Path:
    return trim(session_path(source), WISH, str(uuid.uuid4()), datetime.now(UTC)).session.path


def against_a_copy(source: Path, rounds: int) -> tuple[float, float, float]:
    """Return the median seconds of a copy, those of a trim, and the median of their ratio."""
    times = []
    for _ in range(rounds + 1):
        target = source.with_suffix(".copy")
        copy = seconds(lambda target=target: copied(source, target))  # type: ignore[misc]
        target.unlink()
        made: list[Path] = []
        own = seconds(lambda made=made: made.append(trimmed(source)))  # type: ignore[misc]
        if made[0] != source:  # nothing of it was long enough
            made[0].unlink()
        times.append((copy, own, own / copy))
    return tuple(statistics.median(column) for column in zip(*times[1:], strict=True))


def child(*command: object) -> float:
    """Run a process and return the number that it prints."""
    return float(subprocess.run([str(each) for each in command], capture_output=True, check=True, text=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100, help="MB")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sample", type=Path)
    parser.add_argument("--claude-code-tools", metavar="PYTHON")
    options = parser.parse_args()
    size, good = options.size * 1_000_000, True
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, f"{uuid.uuid4()}.jsonl")
        if options.sample:
            repeated(whole, size, options.sample)
        else:
            generated(whole, size, 200)
        small = generated(Path(folder, f"{uuid.uuid4()}.jsonl"), size, 8)
        ours = 0.0
        for source, what in ((whole, "long results"), (small, "short results")):
            copy, own, ratio = against_a_copy(source, options.rounds)
            ours = ours or own
            good &= ratio <= COPY or source is small
            print(f"{what:14}copy {copy:.3f} s, trim {own:.3f} s: {ratio:.2f} times")
        small.unlink()
        if options.claude_code_tools:
            theirs = child(options.claude_code_tools, "-c", OTHER, whole, Path(folder, "theirs"))
            good &= ours <= theirs * THEIRS
            print(f"claude-code-tools {theirs:.3f} s: a trim takes {ours / theirs:.2f} of that (at most {THEIRS:.2f})")
        else:
            print("claude-code-tools: not compared, --claude-code-tools names no Python that has it")
        for times in (1, 5):
            large = whole if times == 1 else Path(folder, f"{uuid.uuid4()}.jsonl")
            if times > 1:
                with large.open("wb") as out:
                    for _ in range(times):
                        out.write(whole.read_bytes())
            memory = child(sys.executable, "-c", MEASURED, large, uuid.uuid4())
            good &= memory <= MEMORY
            print(f"memory for {options.size * times} MB: {memory:.0f} MB (at most {MEMORY})")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
