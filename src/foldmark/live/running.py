"""Run a coding agent with its requests going through a gateway, and keep that gateway running [SPEC 5.7].

The gateway is a process of its own. The socket that it listens at belongs to this process, so when the gateway is
killed another one takes its place at the same address, and who connects meanwhile waits.
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
from foldmark.live.agent_programs import AgentProgram

SECRET = "FOLDMARK_LIVE_SECRET"
"""The variable by which a gateway gets the secret segment of its address: arguments can be seen by other users."""

READY = "ready"
"""What a gateway prints once it listens."""

_PAUSE = 0.2
"""Seconds before a gateway that ended is started again."""


def installed(agent: AgentProgram) -> str:
    """Return the path of an agent's program. Raises CommandError if it is not installed."""
    program = shutil.which(agent.program)
    if program is None:
        raise CommandError(f"{agent.program} is not installed here, or not in the PATH")
    return program


def run(agent: AgentProgram, arguments: Sequence[str], url: str) -> int:
    """Run an agent to its end, and return its exit code; that of a signal is 128 and its number. Raises as
    `installed`."""
    program, command = installed(agent), agent.command(url, arguments, os.environ)
    environment = {**os.environ, **agent.variables(url)}
    with _interrupts_ignored():
        code = subprocess.run([program, *command[1:]], env=environment).returncode
    return code if code >= 0 else 128 - code


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """While an agent has the terminal, Ctrl-C is for the agent."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def supervised(
    listening: socket.socket, secret: str, arguments: Sequence[str], log: Path
) -> Iterator[Callable[[], int]]:
    """Keep a gateway running while the block runs, and yield what returns the number of its process.

    It is `foldmark ARGUMENTS`, which takes over the socket as descriptor and ends when its standard input does. Its
    messages go to the file `log`. Raises CommandError if it does not start.
    """
    over, gateways = Event(), list[subprocess.Popen[bytes]]()

    def start() -> None:
        with log.open("ab") as output:
            gateways[:] = [
                subprocess.Popen(
                    [sys.executable, "-m", "foldmark", *arguments, "--listening", str(listening.fileno())],
                    env={**os.environ, SECRET: secret},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    pass_fds=[listening.fileno()],
                    start_new_session=True,  # Ctrl-C in the terminal is not for it
                )
            ]

    def watch() -> None:
        while not over.is_set():
            with gateways[0] as gateway:  # its pipes are closed at the end
                gateway.wait()
            if not over.wait(_PAUSE):
                start()

    listening.listen(128)
    start()
    assert gateways[0].stdout is not None
    if gateways[0].stdout.readline().decode().strip() != READY:
        with gateways[0]:
            raise CommandError(f"the gateway did not start; {log} says why")
    watching = Thread(target=watch, name="foldmark-supervisor", daemon=True)
    watching.start()
    try:
        yield lambda: gateways[0].pid
    finally:
        over.set()
        while watching.is_alive():  # it may be starting another one just now
            _end(gateways[0])
            watching.join(_PAUSE)
        with gateways[0]:
            _end(gateways[0])


def _end(gateway: "subprocess.Popen[bytes]") -> None:
    assert gateway.stdin is not None
    gateway.stdin.close()
