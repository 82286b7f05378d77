"""Whole commands: the processor time and the memory of trim, import, sync, search and hook, before and after.

Each row is a process as a person or a coding agent starts it. What is measured is user and system time, so other work
on the machine matters less. `--against CHECKOUT` names another checkout with a `.venv`, whose commands run in turn with
these, A B A B; the medians and the ratio of each pair count. Memory below this program's own is not seen. `--peer
AICHAT` names the program of claude-code-tools (`pip install claude-code-tools` into its own environment), which then
trims the same sessions.

The sessions are generated: prompts, thinking, answers, calls of several tools with their results (repeated as
`toolUseResult`), attachments and progress records. Their texts are pieces of Foldmark's own sources. Five of them are
as long as a day's work, and one has `--lines` lines, most of them short. `--sessions FOLDER` has your own five instead.

Everything runs from compiled modules, as an installed package does (see `startup.py`). Exit code 1 if

- a trim takes more time than claude-code-tools, or more than 100 MB;
- an import takes more than 100 µs a line;
- a search by words takes more than 20 times as long as an empty Python, or one by meaning as well more than 50 times;
- a hook takes more than 4 times as long as an empty Python.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

BEGAN = datetime(2026, 1, 2, 3, 4, 5)
TOOLS = ("Read", "Bash", "Grep", "Edit", "mcp__browser__readPage")
WORK = "/work/app"
UUID = "0a1b2c3d-0000-4000-8000-00000000000"
USAGE = {"input_tokens": 7, "cache_creation_input_tokens": 993, "cache_read_input_tokens": 122_900}
QUERIES = {"a rare word": "parseHttpResponse", "two words": "sqlite migration", "common words": "file time return"}
LINE_LIMIT, MEMORY_LIMIT, PEER_LIMIT, PEER_AIM = 100, 100, 1.0, 0.5
EMPTY_LIMITS = {"search by words": 20.0, "search by meaning": 50.0, "hook": 4.0}


class Used(NamedTuple):
    """What a process used: seconds of the processor, and its peak of memory in MB."""

    seconds: float
    memory: float


class Side(NamedTuple):
    """A checkout, and its folder for this run."""

    name: str
    checkout: Path
    home: Path

    @property
    def python(self) -> str:
        return str(self.checkout / ".venv" / "bin" / "python")

    @property
    def program(self) -> str:
        return str(self.checkout / ".venv" / "bin" / "foldmark")

    def environment(self, more: dict[str, str]) -> dict[str, str]:
        found = {**os.environ, "HOME": str(self.home), "PYTHONPYCACHEPREFIX": str(self.home / "compiled")}
        found |= {f"XDG_{kind}_HOME": str(self.home / kind) for kind in ("STATE", "CONFIG", "DATA")}
        found |= {"FOLDMARK_DB": str(self.home / "log.db"), "FOLDMARK_ARCHIVE": str(self.home / "archive")}
        found.pop("PYTHONDONTWRITEBYTECODE", None)
        return found | more

    def run(self, *command: object, given: bytes = b"", **more: str) -> Used:
        """Run a process and return what it used. Raises SystemExit if it fails."""
        with tempfile.TemporaryFile() as file:
            file.write(given)
            file.seek(0)
            words = [str(each) for each in command]
            done = subprocess.Popen(
                words, stdin=file, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=self.environment(more)
            )
            assert done.stderr is not None
            said = done.stderr.read()
            _, status, used = os.wait4(done.pid, 0)
            done.returncode = os.waitstatus_to_exitcode(status)
        if status:
            raise SystemExit(f"{' '.join(words)} fails:\n{said.decode(errors='replace')}")
        scale = 1 << 20 if sys.platform == "darwin" else 1 << 10
        return Used(used.ru_utime + used.ru_stime, used.ru_maxrss / scale)


Row = Callable[[Side], list[Used]]
"""Runs the processes of a row for one side, and returns what each used."""


def records(text_length: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the records of an endless session."""
    import foldmark

    folder = Path(foldmark.__file__).parent
    source = "\n".join(path.read_text() for path in sorted(folder.rglob("*.py")))
    chance = random.Random(seed)
    session, number, parent = str(uuid.UUID(int=chance.getrandbits(128))), 0, None
    common = {"isSidechain": False, "userType": "external", "cwd": WORK, "sessionId": session, "version": "2.1.0"}

    def text(times: float = 1.0) -> str:
        length = min(int(chance.lognormvariate(0, 1.2) * text_length * times) + 1, 100 * text_length)
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
        if chance.random() < 0.3:
            yield record("attachment", attachment={"type": "todo_reminder", "content": [], "itemCount": 0})
        if chance.random() < 0.05:
            file = {"type": "text", "file": {"filePath": f"{WORK}/a.py", "content": text(4)}}
            yield record("attachment", attachment={"type": "file", "filename": "a.py", "content": file})
        for _ in range(chance.randrange(1, 12)):
            response, call = f"msg_{number:024}", f"toolu_{number:024}"
            if chance.random() < 0.3:
                yield said(response, {"type": "thinking", "thinking": text(), "signature": "c2ln" * 60})
            if chance.random() < 0.4:
                yield said(response, {"type": "text", "text": text(0.5)})
            tool, args = chance.choice(TOOLS), {"file_path": f"{WORK}/{number % 97}.py", "new_string": text(0.5)}
            yield said(response, {"type": "tool_use", "id": call, "name": tool, "input": args})
            for _ in range(chance.choice((0, 0, 1, 1, 3))):
                data = {"type": "hook_progress", "hookEvent": "PostToolUse", "command": "callback"}
                yield record("progress", data=data, toolUseID=call, parentToolUseID=call)
            shown = text(100 if chance.random() < 0.01 else 4)
            block = {"tool_use_id": call, "type": "tool_result", "content": shown}
            yield record("user", message={"role": "user", "content": [block]}, toolUseResult={"stdout": shown})
        yield said(f"msg_{number:024}", {"type": "text", "text": text()})


def generated(path: Path, text_length: int, seed: int, *, lines: int = 1 << 60, size: int = 1 << 60) -> Path:
    """Write a session of so many lines, or of so many bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for each, _ in zip(records(text_length, seed), range(lines), strict=False):
            file.write(json.dumps(each, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
            if file.tell() >= size:
                break
    return path


def transcript(path: Path, size: int, last: str = "") -> Path:
    """Write a session of about `size` bytes, full enough for a reminder, whose last result is `last`."""

    def exchange(result: str) -> bytes:
        call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/src/parser.py"}}
        message = {"id": "msg_1", "role": "assistant", "model": "claude-sonnet-4-5", "content": [call], "usage": USAGE}
        back = {"type": "tool_result", "tool_use_id": "toolu_1", "content": result}
        both = (
            {"type": "assistant", "uuid": "a", "parentUuid": "b", "isSidechain": False, "message": message},
            {"type": "user", "uuid": "b", "message": {"role": "user", "content": [back]}, "toolUseResult": result},
        )
        return b"".join(json.dumps(record).encode() + b"\n" for record in both)

    piece = exchange("    return parse(line)\n" * 100) * 200
    with path.open("wb") as file:
        for _ in range(max(1, size // len(piece))):
            file.write(piece)
        file.write(exchange(last))
    return path


def event(name: str, number: int, path: Path, result: str = "") -> bytes:
    """Return the event that a hook gets for the session with this number."""
    told = {"session_id": f"{UUID}{number}", "transcript_path": str(path), "cwd": str(path.parent)}
    told["hook_event_name"] = name
    return json.dumps({**told, "tool_name": "Read", "tool_response": {"content": result}}).encode()


def add_vectors(archive: Path) -> None:
    """Give every message of the archive's index random vectors: real ones would take half an hour."""
    import numpy as np

    from foldmark.core.search import Embedded
    from foldmark.recall.embeddings.model import load
    from foldmark.recall.embeddings.nearest import pack, signature
    from foldmark.sessions.archive.vectors import opened

    model, chance = load(), np.random.default_rng(1)
    until = 0
    with opened(archive) as store:
        while True:
            found, until, newest = store.unembedded(until, 2000)
            made = chance.standard_normal((len(found), 2, model.dimensions), np.float32)
            made /= np.linalg.norm(made, axis=2, keepdims=True)
            packed = [Embedded(each.id, pack(rows), signature(rows)) for each, rows in zip(found, made, strict=True)]
            store.save_vectors(model.fingerprint, packed, until)
            if until >= newest:
                return


def copied(side: Side, source: Path) -> Path:
    """Return a copy of a session in a new folder, so that nothing is left from another run."""
    folder = Path(tempfile.mkdtemp(dir=side.home))
    return Path(shutil.copyfile(source, folder / source.name))


def contest(sessions: list[Path], long: Path, hooks: dict[str, Path]) -> dict[str, Row]:
    """Return the rows by name."""

    def trim(*sources: Path) -> Row:
        return lambda side: [side.run(side.program, "trim", copied(side, each)) for each in sources]

    def imported(*sources: Path) -> Row:
        return lambda side: [
            side.run(side.program, "import", each, FOLDMARK_DB=tempfile.mktemp(".db", dir=side.home))
            for each in sources
        ]

    def again(side: Side) -> list[Used]:
        file, database = copied(side, sessions[0]), tempfile.mktemp(".db", dir=side.home)
        side.run(side.program, "import", file, "--as", "x", FOLDMARK_DB=database)
        last = json.loads(file.read_bytes().splitlines()[-1])
        new = {**last, "parentUuid": last["uuid"], "uuid": str(uuid.UUID(int=1)), "type": "user"}
        new["message"] = {"role": "user", "content": "Go on."}
        with file.open("ab") as out:
            out.write(json.dumps(new).encode() + b"\n")
        return [side.run(side.program, "import", file, "--as", "x", FOLDMARK_DB=database)]

    def sync(side: Side) -> list[Used]:
        archive = tempfile.mkdtemp(dir=side.home)
        return [side.run(side.program, "sync", "--quiet", *sessions, FOLDMARK_ARCHIVE=archive)]

    def search(mode: str, query: str) -> Row:
        return lambda side: [side.run(side.program, "search", "--mode", mode, query)]

    def hook(name: str, number: int, path: Path, result: str = "", **more: str) -> Row:
        return lambda side: [side.run(side.program, "hook", given=event(name, number, path, result), **more)]

    image = "x" * 5_000_000
    return {
        "python -c pass": lambda side: [side.run(side.python, "-c", "pass")],
        "trim of five sessions": trim(*sessions),
        "trim of a long session": trim(long),
        "import of five sessions": imported(*sessions),
        "import of a long session": imported(long),
        "import again, one new line": again,
        "sync of five new sessions": sync,
        "sync again, nothing new": lambda side: [side.run(side.program, "sync", "--quiet", *sessions)],
        **{f"search by words: {name}": search("text", query) for name, query in QUERIES.items()},
        "search by meaning as well": search("auto", QUERIES["two words"]),
        "hook, transcript of 1 MB": hook("PostToolUse", 1, hooks["small"]),
        "hook, large transcript": hook("PostToolUse", 2, hooks["large"]),
        "hook that reminds": hook("PostToolUse", 3, hooks["large"], FOLDMARK_CHECK_INTERVAL_SECONDS="0"),
        "hook, result of 5 MB": hook("PostToolUse", 4, hooks["behind"], image),
        "hook, end of a turn": hook("Stop", 5, hooks["small"]),
        "statusline": lambda side: [side.run(side.program, "statusline", given=event("", 6, hooks["large"]))],
    }


def table(found: dict[str, dict[str, list[list[Used]]]], sides: list[str]) -> tuple[str, dict[str, float]]:
    """Return the medians as a table, and those of the first side in seconds by row."""
    head = [*(f"{name}, s" for name in sides), "ratio", "MB"]
    lines, medians = [f"{'':34}" + "".join(f"{each:>14}" for each in head)], dict[str, float]()
    for row, by_side in found.items():
        times = {name: [sum(each.seconds for each in used) for used in runs] for name, runs in by_side.items()}
        medians[row] = statistics.median(times[sides[0]])
        cells = [f"{statistics.median(times[name]):.3f}" if name in times else "" for name in sides]
        pairs = zip(times[sides[0]], times[sides[-1]], strict=True) if sides[-1] in times and len(sides) > 1 else ()
        ratios = [own / other for own, other in pairs]
        cells.append(f"{statistics.median(ratios):.2f}" if ratios else "")
        cells.append(f"{max(each.memory for used in by_side[sides[0]] for each in used):.0f}")
        lines.append(f"{row:34}" + "".join(f"{each:>14}" for each in cells))
    return "\n".join(lines), medians


def main() -> int:
    """Generate, measure, print. Return 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout with a .venv")
    parser.add_argument("--peer", metavar="AICHAT", help="the program of claude-code-tools")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--lines", type=int, default=200_000, help="of the long session")
    parser.add_argument("--large", type=int, default=500, metavar="MB", help="the transcript of the hook")
    parser.add_argument("--sessions", type=Path, metavar="FOLDER", help="take the largest five sessions in it")
    parser.add_argument("--rows", default="", metavar="WORD", help="only the rows whose names contain WORD")
    parser.add_argument("--vectors", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.vectors:
        add_vectors(options.vectors)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        checkouts = {"this": Path(__file__).resolve().parents[1]}
        checkouts |= {"other": options.against.resolve()} if options.against else {}
        sides = [Side(name, checkout, place / name) for name, checkout in checkouts.items()]
        if options.sessions:
            own = sorted(options.sessions.rglob("*.jsonl"), key=lambda path: -path.stat().st_size)[:5]
        else:
            sizes = [size << 20 for size in (4, 3, 2, 2, 1)]
            own = [generated(place / f"{UUID}{at}.jsonl", 500, at, size=size) for at, size in enumerate(sizes)]
        long = generated(place / f"{UUID}9.jsonl", 40, 9, lines=options.lines)
        hooks = {"small": transcript(place / f"{UUID}6.jsonl", 1 << 20)}
        hooks["large"] = transcript(place / f"{UUID}7.jsonl", options.large << 20)
        hooks["behind"] = transcript(place / f"{UUID}8.jsonl", 1 << 20, "x" * 5_000_000)
        rows = {name: row for name, row in contest(own, long, hooks).items() if options.rows in name}
        rows = {"python -c pass": contest(own, long, hooks)["python -c pass"], **rows}
        found: dict[str, dict[str, list[list[Used]]]] = {row: {side.name: [] for side in sides} for row in rows}
        for side in sides:
            side.home.mkdir()
            side.run(side.program, "sync", "--quiet", *own)
            if any("meaning" in row for row in rows):
                side.run(side.python, __file__, "--vectors", side.home / "archive")
        peer = Side("peer", Path(), place / "peer")
        peer.home.mkdir()
        theirs: list[float] = []
        for name, row in rows.items():
            for number in range(options.runs + 1):
                for side in sides:
                    used = row(side)
                    if number:  # the first run compiles and fills the disk's cache
                        found[name][side.name].append(used)
                if options.peer and name == "trim of five sessions":
                    words = ("--simple-ui", "-t", "read,bash,grep,glob")
                    each = [peer.run(options.peer, "trim", copied(peer, path), *words).seconds for path in own]
                    theirs += [sum(each)] if number else []
        shown, medians = table(found, [side.name for side in sides])
        count = sum(1 for _ in long.open("rb"))
        print(
            f"five sessions of {sum(path.stat().st_size for path in own) / 1e6:.1f} MB; one of {count:,} lines, ",
            end="",
        )
        print(f"{long.stat().st_size / 1e6:.0f} MB; medians of {options.runs} runs, processor time\n\n{shown}\n")
    return judged(found, medians, theirs, count)


def judged(
    found: dict[str, dict[str, list[list[Used]]]], medians: dict[str, float], theirs: list[float], lines: int
) -> int:
    """Print what is limited. Return 1 if a limit is exceeded."""
    good, empty = True, medians["python -c pass"]
    if theirs:
        ratio = medians["trim of five sessions"] / statistics.median(theirs)
        good &= ratio <= PEER_LIMIT
        print(f"claude-code-tools takes {statistics.median(theirs):.3f} s: a trim takes {ratio:.2f} of that", end=" ")
        print(f"(at most {PEER_LIMIT}, the aim {PEER_AIM})")
    memory = [each.memory for row in found if row.startswith("trim") for used in found[row]["this"] for each in used]
    if memory:
        good &= max(memory) <= MEMORY_LIMIT
        print(f"A trim takes up to {max(memory):.0f} MB (at most {MEMORY_LIMIT}).")
    if (seconds := medians.get("import of a long session")) is not None:
        good &= seconds / lines * 1e6 <= LINE_LIMIT
        print(f"An import takes {seconds / lines * 1e6:.0f} us a line (at most {LINE_LIMIT}).")
    for word, limit in EMPTY_LIMITS.items():
        if times := [seconds for row, seconds in medians.items() if row.startswith(word)]:
            good &= max(times) / empty <= limit
            print(f"A {word} takes up to {max(times) / empty:.1f} times an empty Python (at most {limit:.0f}).")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
