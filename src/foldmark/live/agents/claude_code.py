"""Claude Code under `foldmark live` [SPEC 5.7]."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from foldmark.live.addresses import ANTHROPIC, is_same_server, without_proxy
from foldmark.live.agents import claude_settings
from foldmark.live.live_agent import IdleCompaction, LiveAgent, RequestOrigin, Upstreams

_FM = tuple(f"<command-message>{name}</command-message>" for name in ("fm", "foldmark:fm"))
"""Claude Code's announcement of a command of a file, and of a plugin's skill."""

_CLIENT = re.compile(r"claude-cli/(\d+)\.(\d+)\.(\d+) \(external, (sdk)?")
_COMPACTS_IDLE = (2, 1, 198)
"""The earliest version of Claude Code that may compact an idle session; 2.1.197 does not."""

_NAMED = b"session_id"


class _Body(msgspec.Struct):
    metadata: dict[str, Any] = {}


class ClaudeCode(LiveAgent):
    """Claude Code."""

    name, title, wire, session_format = "claude", "Claude Code", "anthropic", "claude"
    variable, base_url = "ANTHROPIC_BASE_URL", ANTHROPIC
    elsewhere = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
    resuming = ("--resume", "{session}")
    least_idle = claude_settings.LEAST_IDLE

    def variables(self, url: str, upstreams: Upstreams = "") -> dict[str, str]:
        # Behind any other address than its own, Claude Code does without the search for tools, a window of a million
        # tokens and a system prompt that is cached for everybody, since another provider might lack them.
        own = isinstance(upstreams, str) and is_same_server(upstreams, self.base_url)
        return {**super().variables(url), **({"_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL": "1"} if own else {})}

    def told(self, arguments: Sequence[str]) -> dict[str, str]:
        found, _ = claude_settings.given(arguments)
        return {} if found is None else {claude_settings.GIVEN: msgspec.json.encode(found).decode()}

    def command(
        self, url: str, arguments: Sequence[str], environment: Mapping[str, str], upstreams: Upstreams = ""
    ) -> list[str]:
        _, rest = claude_settings.given(arguments)  # it uses one option with settings
        return super().command(url, rest, {**environment, **self.told(arguments)}, upstreams)

    def options(self, url: str, environment: Mapping[str, str], upstreams: Upstreams = "") -> list[str]:
        given = msgspec.json.decode(environment.get(claude_settings.GIVEN, "{}"), type=dict[str, Any])
        # Its settings may set variables, which override those of the shell.
        variables = {**without_proxy(self.environment(environment)), **self.variables(url, upstreams)}
        env = given["env"] if isinstance(given.get("env"), dict) else {}
        # With its completion of emoji, 2.1.332 makes 👃 of `:no`, and Enter does not send it.
        settings = {**given, "env": {**env, **variables}, "emojiCompletionEnabled": False}
        return ["--settings", msgspec.json.encode(settings).decode()]

    def environment(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        return claude_settings.with_variables(environment)

    def origin(self, headers: Mapping[str, str], body: bytes) -> RequestOrigin:
        session, agent = headers.get("x-claude-code-session-id", ""), headers.get("x-claude-code-agent-id", "")
        if not session and _NAMED in body:
            session = _session(msgspec.json.decode(body, type=_Body).metadata)
        return RequestOrigin(session, agent)

    def is_summary(self, text: str) -> bool:
        return text.startswith("This session is being continued from a previous conversation")

    def is_interruption(self, text: str) -> bool:
        return text.startswith("[Request interrupted by user")

    def announces(self, text: str) -> bool:
        return text.startswith(_FM)

    def is_attended(self, headers: Mapping[str, str]) -> bool:
        found = _CLIENT.match(headers.get("user-agent", ""))
        return found is None or found[4] is None

    def idle_compaction(self, headers: Mapping[str, str], environment: Mapping[str, str]) -> IdleCompaction | None:
        found = _CLIENT.match(headers.get("user-agent", ""))
        if found is None or tuple(map(int, found.groups()[:3])) < _COMPACTS_IDLE or not self.is_attended(headers):
            return None
        tokens = claude_settings.idle_tokens(environment)
        off = '"idleCompaction": false in settings.json'
        return None if tokens is None else IdleCompaction(self.title, tokens, 54, off)


def _session(metadata: Mapping[str, Any]) -> str:
    """Return the session's id from the JSON text that Claude Code sends as `metadata.user_id`; empty if none."""
    try:
        about = msgspec.json.decode(str(metadata.get("user_id", "")))
    except msgspec.MsgspecError:
        return ""
    found = about.get("session_id") if isinstance(about, dict) else None
    return found if isinstance(found, str) else ""
