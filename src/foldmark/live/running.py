"""Run a coding agent, and a gateway beside it [SPEC 5.7].

The gateway is a separate process, but its listening socket belongs to this one. If the gateway is killed, another one
replaces it at the same address, and connections that arrive meanwhile wait.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from foldmark.core.errors import CommandError
from foldmark.core.wording import nearest
from foldmark.live.addresses import without_proxy
from foldmark.live.live_agent import LiveAgent, Upstreams, agent_names

SECRET = "FOLDMARK_LIVE_SECRET"
"""The variable that passes the secret segment of its address to a gateway: other users can see arguments."""

READY = "ready"
"""The line that a gateway prints once it is listening."""

_PAUSE = 0.2
"""Seconds before a gateway that has ended is restarted."""


def installed(agent: LiveAgent) -> str:
    """Return the path of an agent's program. Raises CommandError if it is not installed."""
    program = shutil.which(agent.program)
    if program is None:
        near = nearest(agent.program, set(agent_names()) - {agent.name})
        hint = f"did you mean {near[0]}?" if near else "install it, then repeat"
        raise CommandError(f"{agent.program} is not on your PATH; {hint}")
    return program


def run(agent: LiveAgent, arguments: Sequence[str], url: str, upstreams: Upstreams) -> int:
    """Run an agent until it exits, and return its exit code: 128 plus the signal's number if a signal ended it. The
    gateway at `url` stands in for `upstreams`. Raises like `installed`."""
    program, command = installed(agent), agent.command(url, arguments, os.environ, upstreams)
    environment = {**os.environ, **without_proxy(agent.environment(os.environ)), **agent.variables(url, upstreams)}
    with _interrupts_ignored():
        code = subprocess.run([program, *command[1:]], env=environment).returncode
    return code if code >= 0 else 128 - code


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C while an agent has the terminal: it is meant for the agent."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def supervised(
    listening: socket.socket,
    secret: str,
    arguments: Sequence[str],
    log: Path,
    told: Callable[[bytes], object] = lambda line: None,
    agent: str = "",
) -> Iterator[Callable[[], int]]:
    """Keep a gateway running while the block runs, and yield a function that returns its process id.

    It is `foldmark ARGUMENTS` for the agent of this name, which inherits the socket as a descriptor and ends when its
    standard input does. Its messages go to the file `log`, and `told` gets each line of its standard output, the last
    one before the block is left. Raises CommandError if it does not start.
    """
    over, gateways, named = Event(), list[subprocess.Popen[bytes]](), ["--", agent] if agent else []

    def start() -> None:
        with log.open("ab") as output:
            gateways[:] = [
                subprocess.Popen(
                    [sys.executable, "-m", "foldmark", *arguments, "--listening", str(listening.fileno()), *named],
                    env={**os.environ, SECRET: secret},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    pass_fds=[listening.fileno()],
                    start_new_session=True,  # Ctrl-C in the terminal must not reach it
                )
            ]

    def watch() -> None:
        while not over.is_set():
            with gateways[0] as gateway:  # its pipes are closed at the end
                assert gateway.stdout is not None
                for line in gateway.stdout:
                    told(line)
                gateway.wait()
            if not over.wait(_PAUSE):
                start()

    listening.listen(128)
    start()
    assert gateways[0].stdout is not None
    if gateways[0].stdout.readline().decode().strip() != READY:
        with gateways[0]:
            raise CommandError(f"the gateway did not start; see {log}")
    watching = Thread(target=watch, name="foldmark-supervisor", daemon=True)
    watching.start()
    try:
        yield lambda: gateways[0].pid
    finally:
        over.set()
        while watching.is_alive():  # the thread may be starting another gateway right now
            _end(gateways[0])
            watching.join(_PAUSE)
        with gateways[0]:
            _end(gateways[0])


def _end(gateway: "subprocess.Popen[bytes]") -> None:
    assert gateway.stdin is not None
    gateway.stdin.close()
