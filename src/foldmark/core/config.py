"""The settings of one agent that shape its requests [SPEC 10], and how they are read from text."""

from typing import Any

import msgspec
from msgspec import Struct

from foldmark.core.errors import CommandError
from foldmark.core.wording import listing

MOST = 10**9
"""No count of tokens, turns or characters is larger."""


class Config(Struct, frozen=True):
    """What an agent runs with; every field can be set per agent, the rest is the default [SPEC 10].

    `model` is `offline` or `provider/model`; `system` the system prompt; `sliding_context_tokens` the window's budget
    (0: off), `context_size` its most turns (0: all); the `truncate_*` limits are characters of a tool result, by age.
    `truncation` and `isolation` can be switched off [SPEC 5]. `model_commands` are those that the model may run.
    `token_counting` is `bytes` or `tokenizer`, which counts with a model's own one where that is public [SPEC 5.4];
    `thinking` how much the model is to think; the three thresholds are percent of the model's window at which it is
    reminded, at most once in `check_interval_seconds` [SPEC 5.5]. `calibration` is no setting but what was measured:
    "provider/model" -> bytes that make a token.
    """

    model: str = "offline"
    system: str = ""
    sliding_context_tokens: int = 100_000
    sliding_context_low_water: float = 1.0
    context_size: int = 0
    truncate_recent: int = 5000
    truncate_recent_count: int = 5
    truncate_active: int = 1000
    truncate_inactive: int = 300
    truncate_shape: str = "head"
    truncation: bool = True
    isolation: bool = True
    memos_injected: int = 5
    model_commands: str = "all"
    token_counting: str = "bytes"
    thinking: str = "default"
    warn_threshold: int = 60
    recommend_threshold: int = 75
    urgent_threshold: int = 85
    check_interval_seconds: int = 60
    calibration: dict[str, float] = {}

    @property
    def provider(self) -> str:
        """The part of `model` that names the provider."""
        return self.model.partition("/")[0]

    @property
    def caches_prompts(self) -> bool:
        """Whether the provider keeps the beginning of a prompt and charges less for it."""
        return self.provider != "offline"


KEYS = tuple(field.name for field in msgspec.structs.fields(Config) if field.name != "calibration")

MODEL_COMMANDS = ("mark", "clear", "fork", "send", "check-mail", "kill")
"""The commands of the `slash` tool [S0]; the registry's test compares."""

THINKING = ("default", "off", "low", "medium", "high")

_CHOICES = {
    "truncate_shape": ("head", "head-tail"),
    "truncation": ("on", "off"),
    "isolation": ("on", "off"),
    "token_counting": ("bytes", "tokenizer"),
    "thinking": THINKING,
}


def config_of(settings: dict[str, Any]) -> Config:
    """The config that `settings`, key -> value as `parse` made them, stand for; what is unknown is passed over."""
    known = {key: value for key, value in settings.items() if key in (*KEYS, "calibration")}
    return msgspec.convert(known, Config)


def key_of(name: str) -> str:
    """The setting that a person means; case does not matter, nor the prefix of the environment. Raises CommandError."""
    key = name.lower().removeprefix("foldmark_").removeprefix("ikigai_")
    if key not in KEYS:
        raise CommandError(f"there is no setting '{name[:40]}'; there is: {listing(KEYS, 40)}")
    return key


def parse(key: str, text: str) -> Any:
    """The value of setting `key` that `text` stands for. Raises CommandError saying what it takes."""
    match getattr(Config(), key):
        case bool():
            if text not in _CHOICES[key]:
                raise CommandError(f"{key} is one of {listing(_CHOICES[key])}, not '{text[:40]}'")
            return text == "on"
        case int():
            digits = text.lstrip("0") or text[:1]
            if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(MOST)) and int(digits) <= MOST):
                raise CommandError(f"{key} is a number from 0 to {MOST:,}, not '{text[:40]}'")
            return int(digits)
        case float():
            try:
                share = float(text)
            except ValueError:
                share = 0.0
            if not 0 < share <= 1:
                raise CommandError(f"{key} is a share above 0 and up to 1, not '{text[:40]}'")
            return share
        case _ if key == "model_commands":
            wanted = text.replace(",", " ").split()
            if wanted in (["all"], ["none"]):
                return wanted[0]
            if unknown := [word for word in wanted if word not in MODEL_COMMANDS]:
                there_are = listing(MODEL_COMMANDS)
                raise CommandError(f"{key} are 'all', 'none' or any of {there_are}, unlike '{unknown[0][:40]}'")
            return ", ".join(wanted) or "none"
        case _:
            if key in _CHOICES and text not in _CHOICES[key]:
                raise CommandError(f"{key} is one of {listing(_CHOICES[key])}, not '{text[:40]}'")
            return text
