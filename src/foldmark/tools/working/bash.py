"""`bash`: one shell command in the working folder, after a person has agreed to it [SPEC 4.1].

It does not see the providers' keys. It is not available on Windows.
"""

import os
import shutil
import signal
import sys
from typing import Annotated

from msgspec import Meta, Struct

from foldmark.core.codec import SHORTEST
from foldmark.core.errors import CommandError
from foldmark.core.request import ToolSpec
from foldmark.core.wording import one_line
from foldmark.log import Agent
from foldmark.operations.effects import Asking
from foldmark.settings.access import keys
from foldmark.tools.tool import Tool
from foldmark.tools.working.paths import working
from foldmark.tools.working.running import CommandResult, run

LONGEST = 100_000
"""Maximum number of bytes of a command; systems take up to 128 KB."""


class BashArguments(Struct, frozen=True, forbid_unknown_fields=True):
    command: str
    timeout: Annotated[int, Meta(ge=1, le=3600)] = 120


def _question(agent: Agent, arguments: BashArguments) -> str:
    """Return the question to a person: the command, line by line, with control characters made visible."""
    if sys.platform == "win32":
        raise CommandError("bash is not there on Windows; go on without it")
    command = arguments.command
    if not command.strip() or "\0" in command or len(command.encode()) > LONGEST:
        raise CommandError(f"a command is a text of up to {LONGEST:,} bytes without NUL; longer ones go into a file")
    lines = "\n".join(f"  {one_line(line)}" for line in command.split("\n"))
    return f"run in {one_line(working(agent.log))}:\n{lines}"


def _run(agent: Agent, arguments: BashArguments, asking: Asking) -> str:
    shell = shutil.which("bash") or "/bin/sh"
    command = (shell, "-c", "--", arguments.command.encode())
    ran = run(command, working(agent.log), environment(agent), arguments.timeout)
    output = ran.output if not ran.output or ran.output.endswith("\n") else f"{ran.output}\n"
    return f"{output}[{_ended(ran, arguments.timeout)}]"


def environment(agent: Agent) -> dict[str, str]:
    """Return the environment of this process without the providers' keys, under whatever name."""
    hidden = keys(os.environ, agent.log.given)
    told = [key for key in hidden.values() if len(key) >= SHORTEST]
    seen = {name: value for name, value in os.environ.items() if name not in hidden}
    return {name: value for name, value in seen.items() if not any(key in value for key in told)}


def _ended(ran: CommandResult, timeout: int) -> str:
    match ran.why:
        case "late":
            return f"ended after {timeout} s, before it was done; `timeout` takes up to 3600"
        case "interrupted":
            return "interrupted before it was done"
    how = f"exit code {ran.code}" if ran.code >= 0 else f"ended by {_signal(-ran.code)}"
    if ran.why == "background":
        return f"{how}; what it left running was ended. To keep it running: setsid COMMAND > FILE 2>&1 &"
    return how


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


BASH = Tool(
    ToolSpec(
        "bash",
        "Run a command with bash in the working folder; each one begins there anew. The person is asked first. Answers "
        "its output, error output included, and its exit code. There is no input and no terminal. What it leaves "
        "running in the background is ended with it.",
        {
            "type": "object",
            "properties": {
                "command": {"type": "string"},
                "timeout": {"type": "integer", "description": "Seconds, 120 if left out, at most 3600"},
            },
            "required": ["command"],
        },
    ),
    BashArguments,
    _run,
    question=_question,
)
