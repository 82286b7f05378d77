"""Run a coding agent with its requests going through a gateway, and keep that gateway running [SPEC 5.7].

The gateway is a process of its own. The socket that it listens at belongs to this process, so when the gateway is
killed another one takes its place at the same address, and who connects meanwhile waits.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import msgspec

from foldmark.core.errors import CommandError

SECRET = "FOLDMARK_LIVE_SECRET"
"""The variable by which a gateway gets the secret segment of its address: arguments can be seen by other users."""

READY = "ready"
"""What a gateway prints once it listens."""

API_KEY = "gemini-api-key"
"""How Gemini CLI signs in where it asks the Gemini API, as its settings name it."""

_SELECTED = re.compile(r'"selectedType"\s*:\s*"([^"]*)"')

_PAUSE = 0.2
"""Seconds before a gateway that ended is started again."""


class AgentProgram(NamedTuple):
    """A coding agent: the variables that name its base URL, the first of which is its upstream when set; its provider's
    own base URL; and the variables with which it asks another service, which no gateway stands in front of."""

    program: str
    variables: tuple[str, ...]
    provider: str
    elsewhere: tuple[str, ...] = ()

    def upstream(self, environment: Mapping[str, str]) -> str:
        """Return the base URL that the agent would have used. Raises CommandError if it asks another service."""
        for name in self.elsewhere:
            if environment.get(name, "").lower() not in ("", "0", "false"):
                raise CommandError(
                    f"{name} is set: {self.program} then asks a service that `foldmark live` does not know. "
                    "Unset it, or run the agent without `foldmark live`"
                )
        if self.program == "gemini":
            _check_login(environment)
        if environment.get(self.variables[0]):
            return environment[self.variables[0]]
        return CHATGPT if self.program == "codex" and codex_login(environment) == "chatgpt" else self.provider

    def command(self, url: str, arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """Return the command line that asks at the base URL `url`."""
        return [self.program, *self.options(url, environment), *arguments]

    def options(self, url: str, environment: Mapping[str, str]) -> list[str]:
        """Return the options that name the base URL where variables do not suffice."""
        if self.program == "claude":  # its settings may set variables, over those of the shell
            return ["--settings", f'{{"env":{{"ANTHROPIC_BASE_URL":"{url}"}}}}']
        if self.program == "codex":
            settings = [f'openai_base_url="{url}"', 'model_provider="openai"']
            if environment.get("OPENAI_API_KEY") and not codex_login(environment):
                # Its own provider takes no key from there.
                table = f'{{ name="OpenAI", base_url="{url}", env_key="OPENAI_API_KEY", wire_api="responses", '
                table += "supports_websockets=false }"
                settings = ['model_provider="foldmark"', f"model_providers.foldmark={table}"]
            settings.append("features.enable_request_compression=false")  # what is compressed could not be read here
            return [word for each in settings for word in ("-c", each)]
        return []


CHATGPT = "https://chatgpt.com/backend-api/codex"
"""The base URL that Codex uses with a login to ChatGPT."""


def codex_login(environment: Mapping[str, str]) -> str:
    """Return how Codex is logged in by its file `auth.json`: `chatgpt`, `key`, or nothing."""
    from foldmark.sessions.codex import codex_folder

    try:
        found = msgspec.json.decode((codex_folder(environment) / "auth.json").read_bytes())
    except (OSError, msgspec.MsgspecError):
        return ""
    if not isinstance(found, dict):
        return ""
    return "key" if found.get("OPENAI_API_KEY") else "chatgpt" if found.get("tokens") else ""


AGENTS = {
    "claude": AgentProgram(
        "claude",
        ("ANTHROPIC_BASE_URL",),
        "https://api.anthropic.com",
        ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
    ),
    "codex": AgentProgram("codex", ("OPENAI_BASE_URL",), "https://api.openai.com/v1"),
    "gemini": AgentProgram(
        "gemini",
        ("GOOGLE_GEMINI_BASE_URL",),
        "https://generativelanguage.googleapis.com",
        ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"),
    ),
}


def _check_login(environment: Mapping[str, str]) -> None:
    """Raise CommandError unless Gemini CLI signs in with an API key: with an account it asks Code Assist, whose address
    no variable of ours changes."""
    home = Path(environment.get("GEMINI_CLI_HOME") or environment.get("HOME") or Path.home())
    system = Path(environment.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH") or "/etc/gemini-cli/settings.json")
    for path in (system, Path.cwd() / ".gemini" / "settings.json", home / ".gemini" / "settings.json"):
        try:
            found = _SELECTED.search(path.read_text("utf-8", "replace"))  # it may hold comments
        except OSError:
            continue
        if found is not None and found[1] == API_KEY:
            return
        if found is not None:
            raise CommandError(
                f"Gemini CLI signs in with {found[1]!r} ({path}): it then asks a service that `foldmark live` does not "
                "know. Choose an API key with /auth in Gemini CLI, or run it without `foldmark live`"
            )
    raise CommandError(
        "Gemini CLI has selected no way to sign in. Choose an API key with /auth in Gemini CLI, or write "
        f'{{"security": {{"auth": {{"selectedType": "{API_KEY}"}}}}}} to {home / ".gemini" / "settings.json"}'
    )


def run(agent: AgentProgram, arguments: Sequence[str], url: str) -> int:
    """Run an agent to its end, and return its exit code; that of a signal is 128 and its number. Raises CommandError if
    it is not installed."""
    command = agent.command(url, arguments, os.environ)
    program = shutil.which(command[0])
    if program is None:
        raise CommandError(f"{command[0]} is not installed here, or not in the PATH")
    environment = {**os.environ, **dict.fromkeys(agent.variables, url)}
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
