"""Live agents: one `LiveAgent` describes a coding agent that `foldmark live` runs [SPEC 5.7].

It says how the agent is started and told to use a gateway, and what in its requests is the agent's own: how they name
their session, and which texts no person typed. All else is the wire's (`clients.dialect.ClientDialect`). No other code
tests the name of an agent. Packages add agents as entry points (`plugins.LIVE_AGENTS`). An agent needs a `name`, a
`title`, a `wire`, a `variable` and a `base_url`.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from foldmark.core.errors import CommandError
from foldmark.formats.session_format import SessionFormat, format_named
from foldmark.live.addresses import BASE_URLS
from foldmark.plugins import LIVE_AGENTS, find, loaded, names

BUILT_IN = {
    "claude": "foldmark.live.agents.claude_code:ClaudeCode",
    "codex": "foldmark.live.agents.codex:Codex",
    "gemini": "foldmark.live.agents.gemini_cli:GeminiCli",
}
"""Foldmark's own agents, as an entry point would name them."""

_OTHERS = ("foldmark.live.agents.opencode:OpenCode", "foldmark.live.agents.qwen_code:QwenCode")
"""Agents that are run like any program. Their requests are known."""

_OWN_SETTINGS = {"pi": '~/.pi/agent/models.json, as in {"providers": {"anthropic": {"baseUrl": "ADDRESS"}}}'}
"""Programs that take no base URL from the environment, and where they take it from."""

Upstreams = str | Mapping[str, str]
"""A base URL, or one for each dialect."""

_WITHOUT = "sends dropped turns, commands and replies to the model"


class RequestOrigin(NamedTuple):
    """What a request says about its origin: the agent's ids of its session and of a sub-agent in it, and the path of
    the working folder; empty if it does not say. `aside` is True for a request that is not part of the conversation,
    such as one for a title."""

    session: str = ""
    agent: str = ""
    folder: str = ""
    aside: bool = False


class IdleCompaction(NamedTuple):
    """A compaction of an idle session by its agent: the agent's title, the tokens from which and the minutes after
    which it comes, and the setting that turns it off."""

    title: str
    tokens: int
    minutes: int
    off: str


class LiveAgent:
    """A coding agent under `foldmark live`. Derive from it for another agent."""

    name: str
    """The name after `foldmark live`, which is also that of the entry point."""

    title: str
    """The agent's name for people."""

    wire: str
    """The name of the wire that its requests speak (`wires.BUILT_IN`, or an entry point of `plugins.WIRES`)."""

    variable: str
    """The environment variable for its base URL, which is the upstream if set."""

    base_url: str
    """The upstream otherwise: the base URL of its provider."""

    session_format: str = ""
    """The name of the format of its sessions (`formats.session_format`); "" if Foldmark reads none."""

    elsewhere: tuple[str, ...] = ()
    """Variables that make it ask another service if one of them is set; no gateway intercepts that."""

    resuming: tuple[str, ...] = ()
    """The words after its name that resume a `{session}`."""

    least_idle: int = 0
    """The fewest tokens from which it may compact an idle session by itself; 0 if it never does."""

    # -- The way to its provider

    @property
    def program(self) -> str:
        """The program to run: its path, or a name on the PATH. By default the agent's name."""
        return self.name

    def upstreams(self, environment: Mapping[str, str]) -> str | dict[str, str]:
        """Return the base URL that the agent would have used, or one for each dialect. Raises CommandError if it asks
        another service."""
        environment = self.environment(environment)
        for name in self.elsewhere:
            if environment.get(name, "").lower() not in ("", "0", "false"):
                raise CommandError(
                    f"{name} is set: {self.name} then asks a service that `foldmark live` does not know. "
                    "Unset it, or run the agent without `foldmark live`"
                )
        return environment.get(self.variable) or self.base_url

    def given(self, upstreams: Sequence[str]) -> str | dict[str, str]:
        """Return the upstreams that a person has named, in the form of `upstreams`; each is URL or DIALECT=URL. Raises
        CommandError if there are several."""
        if len(upstreams) > 1:
            raise CommandError(f"{self.name} uses one upstream; name only one of {', '.join(upstreams)}")
        name, equals, url = upstreams[0].partition("=")
        return url if equals and name in BASE_URLS else upstreams[0]

    def variables(self, url: str, upstreams: Upstreams = "") -> dict[str, str]:
        """Return the environment variables that set the gateway at `url` as the agent's base URL. It stands in for
        `upstreams`."""
        return {self.variable: url}

    def environment(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        """Return the environment as the agent uses it, with the variables that its settings set."""
        return environment

    def told(self, arguments: Sequence[str]) -> dict[str, str]:
        """Return variables that tell Foldmark what the agent's own arguments set."""
        return {}

    def check_runs(self) -> None:
        """Raise FoldmarkError if the agent cannot be told to use a gateway, or if its session format is missing."""
        if self.session_format:
            format_named(self.session_format)

    def command(
        self, url: str, arguments: Sequence[str], environment: Mapping[str, str], upstreams: Upstreams = ""
    ) -> list[str]:
        """Return the command line that makes the agent use the base URL `url`, which stands in for `upstreams`."""
        return [self.program, *self.options(url, environment, upstreams), *arguments]

    def options(self, url: str, environment: Mapping[str, str], upstreams: Upstreams = "") -> list[str]:
        """Return the options that set the base URL if the variables are not sufficient."""
        return []

    def resumed(self, session: str) -> str:
        """Return a sentence about the way to go on with a session, by the id that the agent gave it."""
        program = Path(self.program).name
        if not self.resuming:
            return f"Resume it under `foldmark live`, too: without it, {program} {_WITHOUT}"
        words = " ".join(each.format(session=session) for each in self.resuming)
        return f"`foldmark live {self.name} {words}` goes on; `{program} {self.resuming[0]}` alone {_WITHOUT}"

    # -- Its requests. A request passes unchanged if one of these raises.

    def origin(self, headers: Mapping[str, str], body: bytes) -> RequestOrigin:
        """Return what a request says about its origin. The names of `headers` are in lower case. `body` is valid JSON,
        and may lack messages that an earlier request had."""
        return RequestOrigin()

    def is_injected(self, text: str) -> bool:
        """Return True for a text that the agent itself inserts as a user's message. By default its format knows."""
        return self._format is not None and self._format.is_injected(text)

    def is_summary(self, text: str) -> bool:
        """Return True for the text of a user's message with which the agent goes on after a compaction."""
        return False

    def is_interruption(self, text: str) -> bool:
        """Return True for the text that the agent sends in place of an answer that a person interrupted."""
        return False

    def is_addition(self, text: str) -> bool:
        """Return True for a text that the agent adds in the middle of a turn, as a user's message."""
        return False

    def introduces(self, prompt: str, answer: str) -> bool:
        """Return True for two messages that the agent itself puts first in each conversation."""
        return False

    def announces(self, text: str) -> bool:
        """Return True for a text that announces the text of Foldmark's skill `/fm` as the next one."""
        return False

    def is_attended(self, headers: Mapping[str, str]) -> bool:
        """Return True if certainly a person, not a program, reads the answers: Foldmark then shows texts before
        them."""
        return False

    def idle_compaction(self, headers: Mapping[str, str], environment: Mapping[str, str]) -> IdleCompaction | None:
        """Return when the agent compacts an idle session by itself, as its settings say; None if it does not."""
        return None

    @cached_property
    def _format(self) -> SessionFormat | None:
        return format_named(self.session_format) if self.session_format else None


class AnyProgram(LiveAgent):
    """Any program that reads its base URLs from the variables of the providers' SDKs. It may run any of the known
    agents, or those that speak one `wire`: what one of them says of a request holds."""

    title, wire = "any program", ""

    def __init__(self, program: str = "", wire: str = "") -> None:
        self.name = program
        made: list[LiveAgent] = [loaded(target)() for target in (*BUILT_IN.values(), *_OTHERS)]
        self._known = [each for each in made if not wire or each.wire in ("", wire)]
        self.least_idle = min((each.least_idle for each in self._known if each.least_idle), default=0)

    def upstreams(self, environment: Mapping[str, str]) -> dict[str, str]:
        return {dialect: environment.get(variable) or url for dialect, (variable, url) in BASE_URLS.items()}

    def given(self, upstreams: Sequence[str]) -> dict[str, str]:
        usual = self.upstreams({})
        named = dict(each.split("=", 1) for each in upstreams if each.partition("=")[0] in usual)
        if named and len(named) == len(upstreams):
            return {**usual, **named}
        if len(upstreams) > 1:
            raise CommandError(f"several upstreams need a name each, as in {next(iter(usual))}={upstreams[0]}")
        return dict.fromkeys(usual, upstreams[0])

    def variables(self, url: str, upstreams: Upstreams = "") -> dict[str, str]:
        found: dict[str, str] = {}
        several = {} if isinstance(upstreams, str) else upstreams
        for dialect, (variable, _) in BASE_URLS.items():
            for each in self._known:
                if each.variable == variable:
                    found |= each.variables(f"{url}/{dialect}", several.get(dialect, ""))
        return found

    def check_runs(self) -> None:
        if (how := _OWN_SETTINGS.get(Path(self.name).name)) is not None:
            raise CommandError(
                f"{self.name} takes no base URL from the environment. Run `foldmark live --serve {self.name}` "
                f"and put the address that it prints for the provider into {how}"
            )

    def origin(self, headers: Mapping[str, str], body: bytes) -> RequestOrigin:
        found = (each.origin(headers, body) for each in self._known)
        return next((each for each in found if each != RequestOrigin()), RequestOrigin())

    def is_injected(self, text: str) -> bool:
        return any(each.is_injected(text) for each in self._known)

    def is_summary(self, text: str) -> bool:
        return any(each.is_summary(text) for each in self._known)

    def is_interruption(self, text: str) -> bool:
        return any(each.is_interruption(text) for each in self._known)

    def is_addition(self, text: str) -> bool:
        return any(each.is_addition(text) for each in self._known)

    def introduces(self, prompt: str, answer: str) -> bool:
        return any(each.introduces(prompt, answer) for each in self._known)

    def announces(self, text: str) -> bool:
        return any(each.announces(text) for each in self._known)

    def is_attended(self, headers: Mapping[str, str]) -> bool:
        return all(each.is_attended(headers) for each in self._known)

    def idle_compaction(self, headers: Mapping[str, str], environment: Mapping[str, str]) -> IdleCompaction | None:
        return next(filter(None, (each.idle_compaction(headers, environment) for each in self._known)), None)


def agent_named(name: str) -> LiveAgent:
    """Return the agent of this name; any program if nobody describes it. Raises CommandError if its package fails."""
    return find(LIVE_AGENTS, name, LiveAgent, BUILT_IN) or AnyProgram(name)


def agent_names() -> list[str]:
    """Return the names of all agents, Foldmark's own first. No package is loaded."""
    return [*BUILT_IN, *(name for name in names(LIVE_AGENTS) if name not in BUILT_IN)]
