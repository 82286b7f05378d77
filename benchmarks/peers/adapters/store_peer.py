"""What the adapters of the section `store` have in common. Needs nothing but Python.

An adapter has a class with the operations of one store on one conversation; `serve_store` measures around them.
"""

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lines import serve

MEMORY = 4 << 30
"""Bytes of address space of an adapter; a history that needs more fails instead of making the machine swap."""

PROSE = (
    "The parser reads a line, decides which of the open blocks it continues and closes the others; what is left of the "
    "line opens new blocks or becomes text. Nothing looks ahead by more than one line, so a document can be read as it "
    "arrives, and an editor can show what it has. The tests cover the corner cases that the last release broke. "
)


def text(number: int) -> str:
    """Return the text of message `number`: 400 characters, different for each."""
    start = number * 37 % len(PROSE)
    return f"{number:08d} {PROSE[start:]}{PROSE[:start]}{PROSE}"[:400]


def role(number: int) -> str:
    """Return who says message `number`."""
    return "assistant" if number % 2 else "user"


def sqlite_settings(run: Callable[[str], Any]) -> str:
    """Return the journal and the flushing of a connection; `run` executes a statement on it and returns the cursor."""
    journal = next(iter(run("PRAGMA journal_mode")))[0]
    level = next(iter(run("PRAGMA synchronous")))[0]
    return f"{journal}, {('OFF', 'NORMAL', 'FULL', 'EXTRA')[level]}"


def postgres_settings(run: Callable[[str], Any]) -> str:
    """Return whether a connection to PostgreSQL waits for the disk; `run` executes a statement on it."""
    return ", ".join(f"{name} {run(f'SHOW {name}').fetchone()[0]}" for name in ("fsync", "synchronous_commit"))


def _written() -> int:
    """Return the calls of write of this process so far; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return int(next(line for line in lines if line.startswith("syscw:")).split()[1])


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError if what is done takes longer, and MemoryError if it needs more than `MEMORY`."""
    late = TimeoutError(f"not done in {seconds:.0f} s")
    has_ended = False

    def stop(*_: object) -> None:
        nonlocal has_ended
        has_ended = True
        raise late

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except MemoryError as error:
        raise MemoryError(f"needs more than {MEMORY >> 30} GB of memory") from error
    except BaseException as error:  # a library may make another error of the interruption, even a panic
        if has_ended and error is not late:
            raise late from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Store:
    """One conversation in one store. A subclass says how its library does it."""

    step = 1
    """Messages that one operation appends."""
    file = "store.db"

    def __init__(self, folder: str, **variant: Any) -> None:
        """Open the conversation in a folder, which is empty the first time."""
        self.path = str(Path(folder) / self.file)
        self.variant = variant
        self.open()

    def open(self) -> None:
        """Open the store so that it can be appended to."""

    def close(self) -> None:
        """Close it."""

    def settings(self) -> str:
        """Return the settings of durability, read from the connection that the store itself uses."""
        raise NotImplementedError

    def append(self, number: int) -> None:
        """Append message `number`, and those up to `step`; durable at the end."""
        raise NotImplementedError

    def fill(self, numbers: range) -> None:
        """Append many messages in one go."""
        raise NotImplementedError

    def request(self) -> int:
        """Open the conversation anew, get what goes to the model, close. Return the number of messages."""
        raise NotImplementedError

    def remember(self) -> None:
        """Note the newest message, to which `rewind` goes back and where `fork` begins."""

    def rewind(self, back: int) -> None:
        """Go back to that place, over `back` messages; the next request has no later message."""
        raise NotImplementedError

    def fork(self) -> None:
        """Make a second conversation that begins with the whole of this one."""
        raise NotImplementedError

    def settle(self) -> None:
        """After a fork or a rewind, make the conversation with all messages the current one, if it is not."""

    def size(self) -> int:
        """Return the bytes on a server; the suite itself looks at files."""
        raise NotImplementedError


def flush(folder: str, count: int) -> dict[str, list[float]]:
    """Return the seconds that the disk takes to flush 8 KB, asked from the main thread and from a worker thread."""

    def one() -> float:
        os.pwrite(file, os.urandom(8192), 0)
        began = time.perf_counter()
        os.fsync(file)
        return time.perf_counter() - began

    file = os.open(Path(folder) / "flushed", os.O_RDWR | os.O_CREAT)
    with ThreadPoolExecutor(1) as worker:
        found = {
            "main": [one() for _ in range(count)],
            "worker": [worker.submit(one).result() for _ in range(count)],
        }
    os.close(file)
    return found


def serve_store(kind: type[Store]) -> None:
    """Answer the suite's requests with the operations of a store."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    stores: dict[str, Store] = {}
    counts: dict[str, int] = {}

    def timed(action: Callable[[], object]) -> dict[str, float]:
        processor, began = time.process_time(), time.perf_counter()
        action()
        return {"seconds": time.perf_counter() - began, "processor": time.process_time() - processor}

    def start(name: str, folder: str, **variant: Any) -> str:
        stores[name] = kind(folder, **variant)
        counts[name] = 0
        return stores[name].settings()

    def add(name: str) -> None:
        stores[name].append(counts[name])
        counts[name] += stores[name].step

    def append(name: str, count: int, limit: float) -> dict[str, Any]:
        """Append about `count` messages; figures are of one message."""
        each, written, processor = [], _written(), time.process_time()
        with within(limit):
            while len(each) * stores[name].step < count:
                began = time.perf_counter()
                add(name)
                each.append((time.perf_counter() - began) / stores[name].step)
        done = len(each) * stores[name].step
        used = time.process_time() - processor
        return {"each": each, "processor": used / done, "writes": (_written() - written) / done}

    def fill(name: str, count: int, limit: float) -> dict[str, float]:
        """Append in bulk until there are `count` messages."""
        with within(limit):
            figures = timed(lambda: stores[name].fill(range(counts[name], count)))
        counts[name] = count
        return figures

    def request(name: str, limit: float, variant: dict[str, Any]) -> dict[str, float]:
        """Open and get the next request, with the settings of a variant."""
        found: list[int] = []
        stores[name].variant |= variant
        with within(limit):
            figures = timed(lambda: found.append(stores[name].request()))
        return {**figures, "messages": found[0]}

    def change(name: str, back: int, limit: float) -> dict[str, float]:
        """Go back over `back` messages, which are appended for it, or fork if that is 0."""
        with within(limit):
            stores[name].remember()
            for _ in range(back // stores[name].step):
                add(name)
            figures = timed(lambda: stores[name].rewind(back) if back else stores[name].fork())
            stores[name].settle()
            return figures

    serve(
        start=start,
        flush=lambda name, folder, count: flush(folder, count),
        append=append,
        fill=fill,
        request=request,
        change=change,
        size=lambda name: stores[name].size(),
        stop=lambda name: stores.pop(name).close(),
    )
