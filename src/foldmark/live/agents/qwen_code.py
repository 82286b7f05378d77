"""qwen-code, and other agents that speak Chat Completions [SPEC 5.7]."""

import re
from collections.abc import Mapping

import msgspec
from msgspec import Raw

from foldmark.live.live_agent import LiveAgent, RequestOrigin

_INJECTED = re.compile(
    r"\s*(<(system-reminder|environment_details)>|This is the Qwen Code\. We are setting up the context)"
)
_GOT_IT = "Got it. Thanks for the context!"
"""The answer to the description of the surroundings; written by qwen-code, not by a model."""

_BESIDE = b"acting as the managed memory extraction subagent"
"""Text in the system prompt with which qwen-code repeats a conversation, in order to remember parts of it."""

_BEGINNING = 500
"""Number of bytes of the list of messages in which that text is."""


class _Body(msgspec.Struct):
    messages: Raw


class QwenCode(LiveAgent):
    """qwen-code. `foldmark live` runs it as any program. Scripts speak its wire, too, so nobody may read the
    answers."""

    name, title, wire, variable = "qwen", "qwen-code", "openai", ""

    def origin(self, headers: Mapping[str, str], body: bytes) -> RequestOrigin:
        aside = _BESIDE in body and _BESIDE in bytes(msgspec.json.decode(body, type=_Body).messages)[:_BEGINNING]
        return RequestOrigin(aside=aside)

    def is_injected(self, text: str) -> bool:
        return _INJECTED.match(text) is not None

    def is_summary(self, text: str) -> bool:
        return "<state_snapshot>" in text

    def introduces(self, prompt: str, answer: str) -> bool:
        return self.is_injected(prompt) and answer == _GOT_IT
