"""Who runs an agent at the moment: a lease in force, whose holder is still there as far as one can tell [SPEC 2, 6]."""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from foldmark.core.leases import Lease
from foldmark.log.log import Agent


class RuntimeLocation(NamedTuple):
    """Where a runtime is: a machine, told from others of its name, and a process of it."""

    host: str
    process: int


def here() -> RuntimeLocation:
    """Return the place of this process."""
    return RuntimeLocation(_host(), os.getpid())


def alive(lease: Lease, now: str) -> bool:
    """Return True if the holder still runs the agent: the lease has not run out, and its process is not known to be
    gone."""
    if lease.until <= now:
        return False
    if lease.host != _host() or os.name == "nt":  # where signal 0 is one
        return True
    return not _gone(lease.process)


def running(agent: Agent) -> Lease | None:
    """Return the agent's lease if somebody runs it at the moment."""
    with agent.log.store.read() as moment:
        lease = moment.lease(agent.id)
        return lease if lease is not None and alive(lease, moment.now()) else None


def _gone(process: int) -> bool:
    """Return True if a process of this machine has ended; also one whose end nobody has taken note of yet, on Linux."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is somebody else's
        pass
    with suppress(OSError):
        # "ID (NAME) STATE ...", and the name may hold anything; `Z` has ended, `X` is about to be forgotten.
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b") ")[2][:1] in (b"Z", b"X")
    return False


@cache
def _host() -> str:
    from socket import gethostname  # 2 ms, for whoever runs agents or looks who does

    marks = [gethostname()]
    with suppress(OSError):  # containers may share a name, and each has processes of its own
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        marks += [boot.strip()[:8], str(Path("/proc/self/ns/pid").readlink())]
    return " ".join(marks)
