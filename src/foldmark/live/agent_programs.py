"""The coding agents that `foldmark live` runs: their providers' addresses, the way to point each one at a gateway, and
the code that runs both [SPEC 5.7].

The gateway is a separate process, but its listening socket belongs to this one. If the gateway is killed, another one
replaces it at the same address, and connections that arrive meanwhile wait.
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
from typing import Any, ClassVar

import msgspec

from foldmark.core.errors import CommandError
from foldmark.core.wording import nearest
from foldmark.live import claude_settings
from foldmark.live.addresses import ANTHROPIC, OPENAI, is_same_server, without_proxy

CHATGPT = "https://chatgpt.com/backend-api/codex"
"""The base URL that Codex uses with a login to ChatGPT."""

API_KEY = "gemini-api-key"
"""The sign-in method of Gemini CLI for the Gemini API, as named in its settings."""

_WITHOUT = "sends dropped turns, commands and replies to the model"

_OWN_SETTINGS = {"pi": '~/.pi/agent/models.json, as in {"providers": {"anthropic": {"baseUrl": "ADDRESS"}}}'}
"""Programs that take no base URL from the environment, and where they take it from."""

_SELECTED = re.compile(r'"selectedType"\s*:\s*"([^"]*)"')


class AgentProgram:
    """A coding agent.

    `variable` is the environment variable for its base URL, which is the upstream if set; otherwise `provider` is the
    upstream. It speaks `wire`. If one of the variables `elsewhere` is set, the agent asks another service, which no
    gateway intercepts. `resuming` are the words after its name that resume a `{session}`.
    """

    program: str
    variable: ClassVar[str]
    provider: ClassVar[str]
    wire: ClassVar[str]
    elsewhere: ClassVar[tuple[str, ...]] = ()
    resuming: ClassVar[tuple[str, ...]]

    def upstreams(self, environment: Mapping[str, str]) -> str | dict[str, str]:
        """Return the base URL that the agent would have used, or one for each wire. Raises like `upstream`."""
        return self.upstream(environment)

    def given(self, upstreams: Sequence[str]) -> str | dict[str, str]:
        """Return the upstreams that a person has named, in the form of `upstreams`; each is URL or WIRE=URL. Raises
        CommandError if they contradict each other."""
        wires = [each.wire for each in AGENTS.values()]
        named = dict(each.split("=", 1) for each in upstreams if each.partition("=")[0] in wires)
        if named and len(named) == len(upstreams):
            return named
        if len(upstreams) > 1:
            raise CommandError(f"several upstreams need a name each, as in {wires[0]}={upstreams[0]}")
        return upstreams[0]

    def is_own(self, upstreams: str | Mapping[str, str]) -> bool:
        """Return True if the upstream is the provider's own address, as opposed to another server that speaks its
        wire."""
        return is_same_server(upstreams if isinstance(upstreams, str) else upstreams.get(self.wire, ""), self.provider)

    def variables(self, url: str, *, own: bool = False) -> dict[str, str]:
        """Return the environment variables that set the gateway at `url` as the agent's base URL. `own` is True if it
        stands in for the provider itself (`is_own`)."""
        return {self.variable: url}

    def environment(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        """Return the environment as the agent uses it, with the variables that its settings set."""
        return environment

    def told(self, arguments: Sequence[str]) -> dict[str, str]:
        """Return variables that tell Foldmark what the agent's own arguments set."""
        return {}

    def check_runs(self) -> None:
        """Raise CommandError if the agent cannot be told to use a gateway."""

    def resumed(self, session: str) -> str:
        """Return a sentence about the way to go on with a session, by the id that the agent gave it."""
        words = " ".join(each.format(session=session) for each in self.resuming)
        return f"`foldmark live {self.program} {words}` goes on; `{self.program} {self.resuming[0]}` alone {_WITHOUT}"

    def upstream(self, environment: Mapping[str, str]) -> str:
        """Return the base URL that the agent would have used. Raises CommandError if it asks another service."""
        environment = self.environment(environment)
        for name in self.elsewhere:
            if environment.get(name, "").lower() not in ("", "0", "false"):
                raise CommandError(
                    f"{name} is set: {self.program} then asks a service that `foldmark live` does not know. "
                    "Unset it, or run the agent without `foldmark live`"
                )
        return environment.get(self.variable) or self.provider

    def command(
        self, url: str, arguments: Sequence[str], environment: Mapping[str, str], *, own: bool = False
    ) -> list[str]:
        """Return the command line that makes the agent use the base URL `url`; `own` as in `variables`."""
        return [self.program, *self.options(url, environment, own=own), *arguments]

    def options(self, url: str, environment: Mapping[str, str], *, own: bool = False) -> list[str]:
        """Return the options that set the base URL if the variables are not sufficient."""
        return []


class ClaudeCode(AgentProgram):
    """Claude Code."""

    program, wire = "claude", "anthropic"
    variable, provider = "ANTHROPIC_BASE_URL", ANTHROPIC
    elsewhere = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
    resuming = ("--resume", "{session}")

    def variables(self, url: str, *, own: bool = False) -> dict[str, str]:
        # Behind any other address than its own, Claude Code does without the search for tools, a window of a million
        # tokens and a system prompt that is cached for everybody, since another provider might lack them.
        return {**super().variables(url), **({"_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL": "1"} if own else {})}

    def told(self, arguments: Sequence[str]) -> dict[str, str]:
        found, _ = claude_settings.given(arguments)
        return {} if found is None else {claude_settings.GIVEN: msgspec.json.encode(found).decode()}

    def command(
        self, url: str, arguments: Sequence[str], environment: Mapping[str, str], *, own: bool = False
    ) -> list[str]:
        _, rest = claude_settings.given(arguments)  # it uses one option with settings
        return super().command(url, rest, {**environment, **self.told(arguments)}, own=own)

    def options(self, url: str, environment: Mapping[str, str], *, own: bool = False) -> list[str]:
        given = msgspec.json.decode(environment.get(claude_settings.GIVEN, "{}"), type=dict[str, Any])
        # Its settings may set variables, which override those of the shell.
        variables = {**without_proxy(self.environment(environment)), **self.variables(url, own=own)}
        env = given["env"] if isinstance(given.get("env"), dict) else {}
        # With its completion of emoji, 2.1.332 makes 👃 of `:no`, and Enter does not send it.
        settings = {**given, "env": {**env, **variables}, "emojiCompletionEnabled": False}
        return ["--settings", msgspec.json.encode(settings).decode()]

    def environment(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        return claude_settings.with_variables(environment)


class Codex(AgentProgram):
    """Codex."""

    program, wire = "codex", "openai"
    variable, provider = "OPENAI_BASE_URL", OPENAI
    resuming = ("resume", "{session}")

    def upstream(self, environment: Mapping[str, str]) -> str:
        chatgpt = not environment.get(self.variable) and codex_login(environment) == "chatgpt"
        return CHATGPT if chatgpt else super().upstream(environment)

    def options(self, url: str, environment: Mapping[str, str], *, own: bool = False) -> list[str]:
        settings = [f'openai_base_url="{url}"', 'model_provider="openai"']
        if environment.get("OPENAI_API_KEY") and not codex_login(environment):
            # The built-in provider does not read the key from this variable, and would use a WebSocket.
            table = f'{{ name="OpenAI", base_url="{url}", env_key="OPENAI_API_KEY", wire_api="responses", '
            table += "supports_websockets=false }"
            settings = ['model_provider="foldmark"', f"model_providers.foldmark={table}"]
        settings.append("features.enable_request_compression=false")  # compressed bodies could not be read here
        return [word for each in settings for word in ("-c", each)]


class GeminiCli(AgentProgram):
    """Gemini CLI."""

    program, wire, variable = "gemini", "gemini", "GOOGLE_GEMINI_BASE_URL"
    provider = "https://generativelanguage.googleapis.com"
    elsewhere = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA")
    resuming = ("--resume",)

    def upstream(self, environment: Mapping[str, str]) -> str:
        # With an account it asks Code Assist, whose address these variables do not change.
        upstream = super().upstream(environment)
        home = Path(environment.get("GEMINI_CLI_HOME") or environment.get("HOME") or Path.home())
        system = Path(environment.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH") or "/etc/gemini-cli/settings.json")
        for path in (system, Path.cwd() / ".gemini" / "settings.json", home / ".gemini" / "settings.json"):
            try:
                found = _SELECTED.search(path.read_text("utf-8", "replace"))  # the file may contain comments
            except OSError:
                continue
            if found is not None and found[1] == API_KEY:
                return upstream
            if found is not None:
                raise CommandError(
                    f"Gemini CLI signs in with {found[1]!r} ({path}): it then asks a service that `foldmark live` does "
                    "not know. Choose an API key with /auth in Gemini CLI, or run it without `foldmark live`"
                )
        raise CommandError(
            "Gemini CLI has selected no way to sign in. Choose an API key with /auth in Gemini CLI, or write "
            f'{{"security": {{"auth": {{"selectedType": "{API_KEY}"}}}}}} to {home / ".gemini" / "settings.json"}'
        )


def codex_login(environment: Mapping[str, str]) -> str:
    """Return the login of Codex according to its file `auth.json`: `chatgpt`, `key`, or an empty text."""
    from foldmark.formats.codex import codex_folder

    try:
        found = msgspec.json.decode((codex_folder(environment) / "auth.json").read_bytes())
    except (OSError, msgspec.MsgspecError):
        return ""
    if not isinstance(found, dict):
        return ""
    return "key" if found.get("OPENAI_API_KEY") else "chatgpt" if found.get("tokens") else ""


AGENTS: dict[str, AgentProgram] = {each.program: each for each in (ClaudeCode(), Codex(), GeminiCli())}


class AnyProgram(AgentProgram):
    """Any program that reads its base URLs from the variables of the providers' SDKs."""

    def __init__(self, program: str) -> None:
        self.program = program

    def given(self, upstreams: Sequence[str]) -> dict[str, str]:
        found = super().given(upstreams)
        usual = self.upstreams({})
        return dict.fromkeys(usual, found) if isinstance(found, str) else {**usual, **found}

    def check_runs(self) -> None:
        if (how := _OWN_SETTINGS.get(Path(self.program).name)) is not None:
            raise CommandError(
                f"{self.program} takes no base URL from the environment. Run `foldmark live --serve {self.program}` "
                f"and put the address that it prints for the provider into {how}"
            )

    def resumed(self, session: str) -> str:
        return f"Resume it under `foldmark live`, too: without it, {Path(self.program).name} {_WITHOUT}"

    def upstreams(self, environment: Mapping[str, str]) -> dict[str, str]:
        return {each.wire: environment.get(each.variable) or each.provider for each in AGENTS.values()}

    def is_own(self, upstreams: str | Mapping[str, str]) -> bool:
        return AGENTS["claude"].is_own(upstreams)

    def variables(self, url: str, *, own: bool = False) -> dict[str, str]:
        # The program may be a script that runs Claude Code, the only agent that asks whether its provider is its own.
        found: dict[str, str] = {}
        for each in AGENTS.values():
            found |= each.variables(f"{url}/{each.wire}", own=own)
        return found


SECRET = "FOLDMARK_LIVE_SECRET"
"""The variable that passes the secret segment of its address to a gateway: other users can see arguments."""

READY = "ready"
"""The line that a gateway prints once it is listening."""

_PAUSE = 0.2
"""Seconds before a gateway that has ended is restarted."""


def installed(agent: AgentProgram) -> str:
    """Return the path of an agent's program. Raises CommandError if it is not installed."""
    program = shutil.which(agent.program)
    if program is None:
        near = nearest(agent.program, set(AGENTS) - {agent.program})
        hint = f"did you mean {near[0]}?" if near else "install it, then repeat"
        raise CommandError(f"{agent.program} is not on your PATH; {hint}")
    return program


def run(agent: AgentProgram, arguments: Sequence[str], url: str, *, own: bool) -> int:
    """Run an agent until it exits, and return its exit code: 128 plus the signal's number if a signal ended it. `own`
    as in `AgentProgram.variables`. Raises like `installed`."""
    program, command = installed(agent), agent.command(url, arguments, os.environ, own=own)
    environment = {**os.environ, **without_proxy(agent.environment(os.environ)), **agent.variables(url, own=own)}
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
) -> Iterator[Callable[[], int]]:
    """Keep a gateway running while the block runs, and yield a function that returns its process id.

    It is `foldmark ARGUMENTS`, which inherits the socket as a descriptor and ends when its standard input does. Its
    messages go to the file `log`, and `told` gets each line of its standard output, the last one before the block is
    left. Raises CommandError if it does not start.
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
