"""Who runs an agent: a lease in force whose holder is, as far as can be told, alive [SPEC 2, 6]."""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from foldmark.core.leases import Lease
from foldmark.log.log import Agent


class RuntimeLocation(NamedTuple):
    """Where a runtime is: a machine, identified even among others of its name, and a process of it."""

    host: str
    process: int


def here() -> RuntimeLocation:
    """Return the location of this process."""
    return RuntimeLocation(_host(), os.getpid())


def alive(lease: Lease, now: str) -> bool:
    """Return True if the holder still runs the agent: the lease has not expired, and its process is not known to have
    ended."""
    if lease.until <= now:
        return False
    if lease.host != _host() or os.name == "nt":  # on Windows signal 0 is a real one
        return True
    return not _gone(lease.process)


def running(agent: Agent) -> Lease | None:
    """Return the agent's lease if somebody runs it; None otherwise."""
    with agent.log.store.read() as moment:
        lease = moment.lease(agent.id)
        return lease if lease is not None and alive(lease, moment.now()) else None


def _gone(process: int) -> bool:
    """Return True if a process of this machine has ended; on Linux also if its parent has not collected it yet."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is another user's
        pass
    with suppress(OSError):
        # "ID (NAME) STATE ...", and the name may hold anything; `Z` has ended, `X` is about to disappear.
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b") ")[2][:1] in (b"Z", b"X")
    return False


@cache
def _host() -> str:
    from socket import gethostname  # takes 2 ms

    marks = [gethostname()]
    with suppress(OSError):  # containers may share a name but not their processes
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        marks += [boot.strip()[:8], str(Path("/proc/self/ns/pid").readlink())]
    return " ".join(marks)
