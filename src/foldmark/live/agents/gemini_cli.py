"""Gemini CLI under `foldmark live` [SPEC 5.7]."""

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from foldmark.core.errors import CommandError
from foldmark.live.addresses import GEMINI
from foldmark.live.live_agent import LiveAgent, RequestOrigin

API_KEY = "gemini-api-key"
"""The sign-in method of Gemini CLI for the Gemini API, as named in its settings."""

_SELECTED = re.compile(r'"selectedType"\s*:\s*"([^"]*)"')

_INJECTED = re.compile(
    r"\s*(<(session_context|hook_context)>"
    r"|Here is (the user's editor context as a JSON object|a summary of changes in the user's editor context)"
    r"|\[System: You previously (generated thoughts|returned an empty response))"
)


_DONE = "complete_task"
"""The function by which a sub-agent reports."""


class _Function(Struct):
    name: str = ""


class _Tool(Struct, rename="camel"):
    function_declarations: list[_Function] = []


class _Body(Struct):
    tools: list[_Tool] = []


class GeminiCli(LiveAgent):
    """Gemini CLI. It names no session, so requests are distinguished by their first messages. Outside the conversation,
    it offers no functions.

    It does not say whether a person reads its answers: `gemini -p` names itself as the program on a screen does."""

    name, title, wire = "gemini", "Gemini CLI", "gemini"
    variable, base_url = "GOOGLE_GEMINI_BASE_URL", GEMINI
    elsewhere = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA")
    resuming = ("--resume",)

    def upstreams(self, environment: Mapping[str, str]) -> str | dict[str, str]:
        # With an account it asks Code Assist, whose address these variables do not change.
        upstream = super().upstreams(environment)
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

    def origin(self, headers: Mapping[str, str], body: bytes) -> RequestOrigin:
        tools = msgspec.json.decode(body, type=_Body).tools
        functions = {each.name for tool in tools for each in tool.function_declarations}
        aside = not functions and headers.get("user-agent", "").startswith("GeminiCLI")
        return RequestOrigin(agent=_DONE if _DONE in functions else "", aside=aside)

    def is_injected(self, text: str) -> bool:
        return _INJECTED.match(text) is not None

    def is_summary(self, text: str) -> bool:
        return "<state_snapshot>" in text
