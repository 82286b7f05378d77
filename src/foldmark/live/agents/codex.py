"""Codex under `foldmark live` [SPEC 5.7]."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from foldmark.formats.codex import codex_folder
from foldmark.formats.codex.records import INTERRUPTED
from foldmark.live.addresses import OPENAI
from foldmark.live.live_agent import LiveAgent, RequestOrigin, Upstreams
from foldmark.wires import lenient_json
from foldmark.wires.lenient_json import as_object, member

CHATGPT = "https://chatgpt.com/backend-api/codex"
"""The base URL that Codex uses with a login to ChatGPT."""

_BESIDE = ("thread_title", "memory_consolidation", "guardian")
"""Sources of threads, and kinds of sub-agents, that are not part of a conversation."""

_TAG = re.compile(r"\s*<[a-z_]+>")
"""The beginning of a text that Codex adds in the middle of a turn, such as a skill or news of a sub-agent."""

_CONVERSATION = ("turn", "compaction")
"""Kinds of requests that contain the conversation."""


class Codex(LiveAgent):
    """Codex, which speaks the Responses API."""

    name, title, wire, session_format = "codex", "Codex", "openai_responses", "codex"
    variable, base_url = "OPENAI_BASE_URL", OPENAI
    resuming = ("resume", "{session}")

    def upstreams(self, environment: Mapping[str, str]) -> str | dict[str, str]:
        chatgpt = not environment.get(self.variable) and login(environment) == "chatgpt"
        return CHATGPT if chatgpt else super().upstreams(environment)

    def options(self, url: str, environment: Mapping[str, str], upstreams: Upstreams = "") -> list[str]:
        settings = [f'openai_base_url="{url}"', 'model_provider="openai"']
        if environment.get("OPENAI_API_KEY") and not login(environment):
            # The built-in provider does not read the key from this variable, and would use a WebSocket.
            table = f'{{ name="OpenAI", base_url="{url}", env_key="OPENAI_API_KEY", wire_api="responses", '
            table += "supports_websockets=false }"
            settings = ['model_provider="foldmark"', f"model_providers.foldmark={table}"]
        settings.append("features.enable_request_compression=false")  # compressed bodies could not be read here
        return [word for each in settings for word in ("-c", each)]

    def origin(self, headers: Mapping[str, str], body: bytes) -> RequestOrigin:
        about = _about(headers.get("x-codex-turn-metadata", ""))
        session, thread = headers.get("session-id", ""), headers.get("thread-id", "")
        aside = about.get("request_kind", "turn") not in _CONVERSATION
        aside |= about.get("thread_source") in _BESIDE or headers.get("x-openai-subagent") in _BESIDE
        return RequestOrigin(session or thread, thread if session and thread != session else "", aside=aside)

    def is_interruption(self, text: str) -> bool:
        return text.lstrip().startswith(INTERRUPTED)

    def is_addition(self, text: str) -> bool:
        return _TAG.match(text) is not None

    def is_attended(self, headers: Mapping[str, str]) -> bool:
        return headers.get("originator") != "codex_exec"


def login(environment: Mapping[str, str]) -> str:
    """Return the login of Codex according to its file `auth.json`: `chatgpt`, `key`, or an empty text."""
    try:
        found = msgspec.json.decode((codex_folder(environment) / "auth.json").read_bytes())
    except (OSError, msgspec.MsgspecError):
        return ""
    return "key" if member(found, "OPENAI_API_KEY") else "chatgpt" if member(found, "tokens") else ""


def _about(text: str) -> dict[str, Any]:
    """Return the data about a request that Codex sends in a header; empty if it is not a JSON object."""
    try:
        return as_object(lenient_json.decode(text.encode("utf-8", "replace")))
    except lenient_json.NotJsonError:
        return {}
