"""The wait for `foldmark search` as a whole process, with an archive of coding sessions, against an empty Python.

Generates Claude Code sessions (`--size` MB of them), archives them, and searches: by words alone, and by words and
meaning with vectors of all messages. The vectors are random, because embedding so many messages takes half an hour; the
query is embedded by the real model. The times that count are processor times, user and system, so other work on the
machine matters little; the contestants take turns, and the medians are compared.

Exit code 1 if a search by words takes more than 20 times as long as an empty Python, or one by words and meaning more
than 50 times: 0.2 s and 0.5 s where an empty Python takes 10 ms.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from search_speed import LANGUAGE

BY_WORDS, BY_MEANING = 20, 50
QUERIES = {
    "a rare word": "parseHttpResponse",
    "two words": "sqlite migration",
    "common words": "file water time",
    "a question": "why did we change the way of the people",
}


def session(path: Path, chance: random.Random, size: int) -> int:
    """Write a session of about `size` bytes. Return its size."""
    lines = list[tuple[str, str]]()
    written = 0

    def add(type: str, content: object, **more: object) -> None:
        nonlocal written
        uuid, parent = f"{chance.getrandbits(128):032x}", lines[-1][1] if lines else None
        record = {"type": type, "uuid": uuid, "parentUuid": parent, "sessionId": path.stem, "cwd": "/work/app"}
        record |= {"timestamp": f"2026-01-{1 + len(lines) // 1000:02}T12:00:00.000Z"}
        line = json.dumps({**record, "message": {"role": type, "content": content}, **more})
        written += len(line) + 1
        lines.append((line, uuid))

    while written < size:
        number = len(lines)
        add("user", LANGUAGE.message(chance))
        call = {"type": "tool_use", "id": f"toolu_{path.stem}{number}", "name": "Read", "input": {"file_path": "/a.py"}}
        add("assistant", [{"type": "text", "text": LANGUAGE.message(chance)}, call])
        result = "\n".join(LANGUAGE.result(chance) for _ in range(4))
        back = {"type": "tool_result", "tool_use_id": call["id"], "content": result}
        add("user", [back], toolUseResult={"file": {"content": result}})
        add("assistant", [{"type": "text", "text": LANGUAGE.message(chance)}])
    if chance.random() < 0.1:
        add("user", "Look at parseHttpResponse and the migration of SQLite again.")
    path.write_text("\n".join(line for line, _ in lines) + "\n")
    return written


def add_vectors(archive: Path) -> int:
    """Give every message of the index random vectors. Return the number of messages."""
    import numpy as np

    from foldmark.core.search import Embedded
    from foldmark.recall.embeddings.model import load
    from foldmark.recall.embeddings.nearest import pack, signature
    from foldmark.sessions.archive.vectors import opened

    model, chance = load(), np.random.default_rng(1)
    until = messages = 0
    with opened(archive) as store:
        while True:
            found, until, newest = store.unembedded(until, 2000)
            made = chance.standard_normal((len(found), 2, model.dimensions), np.float32)
            made /= np.linalg.norm(made, axis=2, keepdims=True)
            packed = [Embedded(each.id, pack(rows), signature(rows)) for each, rows in zip(found, made, strict=True)]
            store.save_vectors(model.fingerprint, packed, until)
            messages += len(found)
            if until >= newest:
                return messages


def taken(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Return the milliseconds of processor time, and those from the start of a process to its end."""
    began = time.perf_counter()
    quiet = [(os.POSIX_SPAWN_OPEN, each, os.devnull, os.O_WRONLY, 0) for each in (1, 2)]
    _, status, used = os.wait4(os.posix_spawn(command[0], command, environment, file_actions=quiet), 0)
    if status:
        raise SystemExit(f"{' '.join(command)} fails")
    return (used.ru_utime + used.ru_stime) * 1000, (time.perf_counter() - began) * 1000


def main() -> int:
    """Generate, measure, print. Return 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--size", type=int, default=100, metavar="MB", help="of the sessions, together")
    options = parser.parse_args()
    python, program = sys.executable, str(Path(sys.executable).with_name("foldmark"))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        environment = {**os.environ, "HOME": folder, "PYTHONPYCACHEPREFIX": str(home / "compiled")}
        environment |= {f"XDG_{kind}_HOME": str(home / kind) for kind in ("STATE", "CONFIG", "DATA")}
        environment |= {"FOLDMARK_DB": str(home / "log.db"), "FOLDMARK_ARCHIVE": str(home / "archive")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        chance, size, number = random.Random(5), 0, 0
        while size < options.size << 20:
            number += 1
            to = home / ".claude" / "projects" / f"-work-{number % 10}"
            to.mkdir(parents=True, exist_ok=True)
            size += session(to / f"{number:08x}-0000-4000-8000-000000000000.jsonl", chance, 700_000)
        subprocess.run([program, "sync", "--quiet"], env=environment, check=True)
        given = "We keep what was said in SQLite.\nWhy?\n"
        subprocess.run(
            [program, "chat", "work"], env=environment, input=given, text=True, stdout=subprocess.DEVNULL, check=True
        )
        messages = add_vectors(home / "archive")
        print(f"{number} sessions, {size / 1e6:.0f} MB, vectors of {messages} messages")
        contest = {"python -c pass": [python, "-c", "pass"], "import numpy": [python, "-c", "import numpy"]}
        for mode, said in (("text", "by words"), ("auto", "and by meaning")):
            contest |= {f"{said}: {name}": [program, "search", "--mode", mode, each] for name, each in QUERIES.items()}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in contest}
        for run in range(options.runs + 1):
            for name, command in contest.items():
                measured = taken(command, environment)
                if run:  # the first run compiles and fills the disk's cache
                    times[name].append(measured)
    median = {name: statistics.median(used for used, _ in each) for name, each in times.items()}
    empty = median["python -c pass"]
    print(f"{f'median of {options.runs} runs, ms':34}{'processor':>10}{'ratio':>8}{'whole':>8}")
    for name, used in median.items():
        whole = statistics.median(each for _, each in times[name])
        print(f"{name:34}{used:10.0f}{used / empty:8.1f}{whole:8.0f}")
    bad = []
    for said, limit in (("by words", BY_WORDS), ("and by meaning", BY_MEANING)):
        worst = max(used for name, used in median.items() if name.startswith(said)) / empty
        bad += [said] if worst > limit else []
        print(f"A search {said} takes up to {worst:.1f} times an empty Python; the limit is {limit}.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
