"""The settings of one agent that shape its requests [SPEC 10], and how they are parsed from text.

The setting `provider_editing` has the provider apply context edits to each request anew, on its own side [SPEC 5.7].
Neither the context nor the request changes.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from foldmark.core.errors import CommandError
from foldmark.core.request import ANSWER, COMPACTION, Options
from foldmark.core.wording import listing

NO_EDITS = "off"
_EDIT_OPTIONS = {
    "clear_thinking": ("keep",),
    "clear_tool_uses": ("trigger", "keep", "clear_at_least", "exclude"),
}
"""The edits in the order that Anthropic requires, each with its options."""

EDITS_TAKEN = (
    "'off', or one or both of clear_thinking and clear_tool_uses with options, as in "
    "'clear_thinking keep=2, clear_tool_uses trigger=50000 keep=5 clear_at_least=10000 exclude=bash+read_file'"
)


class Edit(NamedTuple):
    """An edit: its name and its options, each a number of tokens or turns, `all`, or names of tools."""

    name: str
    options: dict[str, int | str | tuple[str, ...]]


def provider_edits(text: str) -> tuple[Edit, ...]:
    """Return the edits in a value of `provider_editing`, in order. Raises ValueError for any other text."""
    if text.strip() == NO_EDITS:
        return ()
    found: dict[str, Edit] = {}
    for part in text.split(","):
        name, *options = part.split() or [""]
        if name not in _EDIT_OPTIONS or name in found:
            raise ValueError(part)
        found[name] = Edit(name, {})
        for option in options:
            key, equals, value = option.partition("=")
            if not equals or key not in _EDIT_OPTIONS[name] or key in found[name].options:
                raise ValueError(option)
            found[name].options[key] = _option_value(name, key, value)
    return tuple(found[name] for name in _EDIT_OPTIONS if name in found)


def plain_edits(text: str) -> str:
    """Return a value of `provider_editing` in its stored form. Raises ValueError as `provider_edits`."""
    return (
        ", ".join(" ".join([name, *map(_option_text, options.items())]) for name, options in provider_edits(text))
        or NO_EDITS
    )


def _option_value(name: str, key: str, value: str) -> int | str | tuple[str, ...]:
    if key == "exclude":
        names = tuple(value.split("+"))
        if not all(names):
            raise ValueError(value)
        return names
    if (name, key, value) == ("clear_thinking", "keep", "all"):
        return value
    number = int(value) if value.isascii() and value.isdigit() and len(value) <= len(str(MOST)) else -1
    # At least one turn's thinking is kept.
    if not (1 if (name, key) == ("clear_thinking", "keep") else 0) <= number <= MOST:
        raise ValueError(value)
    return number


def _option_text(option: tuple[str, int | str | tuple[str, ...]]) -> str:
    key, value = option
    return f"{key}={'+'.join(value) if isinstance(value, tuple) else value}"


MOST = 10**9
"""Largest count of tokens, turns or characters in a setting."""


class Config(Struct, frozen=True):
    """What an agent runs with; every field can be set per agent, the rest is the default [SPEC 10].

    `model` is `offline` or `provider/model`; `system` the system prompt; `context_policy` is `steady` or `eager` [SPEC
    5.7]; `sliding_context_tokens` the window's budget (0: off), of which `sliding_context_low_water` is the share that
    `steady` reduces a full window to; `context_size` its most turns (0: all); the limits `truncate_*` are characters of
    a tool result, by age. `truncation` and `isolation` can be switched off [SPEC 5]. `model_commands` are those that
    the model may run. `token_counting` is `bytes` or `tokenizer`, which counts with a model's own one where that is
    public [SPEC 5.4]; `thinking` how much the model is to think; `cache_ttl` is how long Anthropic keeps a request in
    its cache: `5m`, `1h` or `auto` (`core.assembly.caching.lifetime`); the three thresholds are percent of the model's
    window at which it is reminded, at most once in `check_interval_seconds` [SPEC 5.5]. `tools` are those that the
    model is offered; `tool_approval` says which run without asking the person: `ask`, `always` or `never`, then
    exceptions, as in `ask, bash=always`. `turn_steps` is the most requests of one turn; with `window_summary` the model
    sums up what the window has passed [SPEC 5.1]. With `provider_compaction` the provider's API writes summaries itself
    where it can. With `evict_superseded` results that a later read or write of the same file has made stale are evicted
    at boundaries [SPEC 5.7]; `provider_editing` is what the provider is asked to leave out by itself
    (`provider_edits`). `calibration` is no setting but what was measured: "provider/model" -> bytes that make a token,
    "tokenizer:provider/model" -> tokens counted that make one.
    """

    model: str = "offline"
    system: str = ""
    sliding_context_tokens: int = 100_000
    sliding_context_low_water: float = 0.8
    context_size: int = 0
    context_policy: str = "steady"
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
    cache_ttl: str = "auto"
    warn_threshold: int = 60
    recommend_threshold: int = 75
    urgent_threshold: int = 85
    check_interval_seconds: int = 60
    tools: str = "all"
    tool_approval: str = "ask"
    turn_steps: int = 50
    window_summary: bool = False
    provider_compaction: bool = False
    evict_superseded: bool = False
    provider_editing: str = NO_EDITS
    calibration: dict[str, float] = {}

    @property
    def provider(self) -> str:
        """The part of `model` that names the provider."""
        return self.model.partition("/")[0]

    @property
    def steady(self) -> bool:
        """True if requests only grow between boundaries [SPEC 5.7]; otherwise each is made anew [S2, S3]."""
        return self.context_policy == "steady"

    def options(self, output: int, purpose: str) -> Options:
        """Return the options of a request. Requests for Foldmark's own purposes ask the provider to leave nothing
        out."""
        edits = self.provider_editing if purpose == ANSWER else NO_EDITS
        return Options(output, self.thinking, editing=edits, compact=purpose == COMPACTION)

    @property
    def caches_prompts(self) -> bool:
        """True if the provider caches the beginning of a prompt at a reduced price."""
        return self.provider != "offline"


_TYPES = {field.name: field.type for field in msgspec.structs.fields(Config)}
KEYS = tuple(field.name for field in msgspec.structs.fields(Config) if field.name != "calibration")
MODEL_COMMANDS = ("mark", "clear", "fork", "send", "check-mail", "kill")
"""The commands of the `slash` tool [S0]; a test compares them with the registry."""

THINKING = ("default", "off", "low", "medium", "high")
_CHOICES = {
    "truncate_shape": ("head", "head-tail"),
    "context_policy": ("steady", "eager"),
    "truncation": ("on", "off"),
    "isolation": ("on", "off"),
    "token_counting": ("bytes", "tokenizer"),
    "thinking": THINKING,
    "cache_ttl": ("5m", "1h", "auto"),
    "window_summary": ("on", "off"),
    "provider_compaction": ("on", "off"),
    "evict_superseded": ("on", "off"),
}
_MODEL = re.compile(r"[\w.:/@+~-]{0,200}", re.ASCII)
"""Model names appear in URLs and on terminals, so their characters are restricted."""

_TOOL = re.compile(r"[\w.:/-]{1,128}")
APPROVALS = ("ask", "always", "never")
_PERCENT = ("warn_threshold", "recommend_threshold", "urgent_threshold")


def config_of(settings: Mapping[str, Any]) -> Config:
    """Return the config for `settings`, key -> value as `checked` made them. Unknown keys and invalid values are passed
    over."""
    known = {key: value for key, value in settings.items() if key in _TYPES}
    try:
        return msgspec.convert(known, Config)
    except msgspec.ValidationError:
        return msgspec.convert({key: value for key, value in known.items() if _fits(key, value)}, Config)


def _fits(key: str, value: Any) -> bool:
    try:
        msgspec.convert(value, _TYPES[key])
    except msgspec.ValidationError:
        return False
    return True


def check_together(config: Config) -> None:
    """Raise CommandError for settings that exclude each other: Anthropic's API refuses both in one request."""
    if config.provider_compaction and config.provider_editing != NO_EDITS:
        raise CommandError(
            "provider_compaction and provider_editing exclude each other: Anthropic's API refuses both in one request. "
            "Set one of them to off: /config set provider_editing=off"
        )


def key_of(name: str) -> str:
    """Return the setting with this name; case and the prefix of the environment variable do not matter. Raises
    CommandError."""
    key = name.lower().removeprefix("foldmark_").removeprefix("ikigai_")
    if key not in KEYS:
        raise CommandError(f"there is no setting '{name[:40]}'; available: {listing(KEYS, 40)}")
    return key


def choices(key: str) -> tuple[str, ...]:
    """Return the values that setting `key` has to choose from; none if it takes any number or text."""
    return _CHOICES.get(key, ())


def takes(key: str) -> str:
    """Return a description of the values that setting `key` takes, as in "context_size is a number from 0 to
    1,000,000,000"."""
    if key in _CHOICES:
        return f"one of {listing(_CHOICES[key])}"
    if key == "model_commands":
        return f"'all', 'none' or any of {listing(MODEL_COMMANDS)}"
    if key == "tools":
        return "'all', 'none' or names of tools"
    if key == "tool_approval":
        return "ask, always or never, then exceptions by tool, as in 'ask, bash=always'"
    if key == "provider_editing":
        return EDITS_TAKEN
    if key == "turn_steps":
        return f"a number from 1 to {_most(key):,}"
    match getattr(Config(), key):
        case int():
            return f"a number from 0 to {_most(key):,}"
        case float():
            return "a share above 0 and up to 1"
        case _:
            return "'offline' or PROVIDER/MODEL" if key == "model" else "a text"


def checked(key: str, value: Any) -> Any:
    """Return the checked value of setting `key`: from a text as a person types it, or from a value of TOML or Python (a
    number, a boolean, for `model_commands` a list of texts). Raises CommandError that says what the setting takes."""
    match getattr(Config(), key), value:
        case _, str():
            return parse(key, value)
        case (bool(), bool()):
            return value
        case (bool(), _) | (_, bool()):
            pass
        case (int(), int()) if _least(key) <= value <= _most(key):
            return value
        case (float(), int() | float()) if 0 < value <= 1:
            return float(value)
        case (_, [*words]) if key in ("model_commands", "tools") and all(isinstance(word, str) for word in words):
            return parse(key, ", ".join(words))
    raise _wrong(key, described(value))


def parse(key: str, text: str) -> Any:
    """Return the value of setting `key` parsed from `text`. Raises CommandError that says what the setting takes."""
    if key in _CHOICES and text not in _CHOICES[key]:
        raise _wrong(key, f"'{text[:40]}'")
    match getattr(Config(), key):
        case bool():
            return text == "on"
        case int():
            digits = text.lstrip("0") or text[:1]
            number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= len(str(MOST)) else -1
            if not _least(key) <= number <= _most(key):
                raise _wrong(key, f"'{text[:40]}'")
            return number
        case float():
            try:
                share = float(text)
            except ValueError:
                share = 0.0
            if not 0 < share <= 1:
                raise _wrong(key, f"'{text[:40]}'")
            return share
        case _ if key == "model_commands":
            wanted = text.replace(",", " ").split()
            if wanted in (["all"], ["none"]):
                return wanted[0]
            if unknown := [word for word in wanted if word not in MODEL_COMMANDS]:
                raise CommandError(f"{key} must be {takes(key)}, not '{unknown[0][:40]}'")
            return ", ".join(wanted) or "none"
        case _ if key == "tools":
            names = text.replace(",", " ").split()
            if not names or (len(names) > 1 and {"all", "none"} & {*names}) or not all(map(_TOOL.fullmatch, names)):
                raise _wrong(key, f"'{text[:40]}'")
            return ", ".join(names)
        case _ if key == "tool_approval":
            try:
                return _approvals(approvals(text))
            except ValueError:
                raise _wrong(key, f"'{text[:40]}'") from None
        case _ if key == "provider_editing":
            try:
                return plain_edits(text)
            except ValueError:
                raise _wrong(key, f"'{text[:40]}'") from None
        case _ if key == "model" and (not _MODEL.fullmatch(text) or ".." in text):
            raise _wrong(key, f"{text[:40]!r}")
        case _:
            return text


def approvals(text: str) -> dict[str, str]:
    """Return the parsed `tool_approval`: "" -> the answer for all tools, a tool's name -> the answer for it. Raises
    ValueError."""
    found = {"": "ask"}
    for word in text.replace(",", " ").split():
        name, equals, answer = word.rpartition("=")
        if answer not in APPROVALS or bool(equals) != bool(name) or (name and not _TOOL.fullmatch(name)):
            raise ValueError(word)
        found[name] = answer
    return found


def approved(text: str, tool: str, answer: str) -> str:
    """Return `tool_approval` with another answer for one tool."""
    return _approvals({**approvals(text), tool: answer})


def _approvals(found: Mapping[str, str]) -> str:
    return ", ".join((found[""], *(f"{name}={answer}" for name, answer in sorted(found.items()) if name)))


def described(value: Any) -> str:
    """Describe a value that came from TOML or Python, for an error message."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f"'{value[:40]}'"
        case int() | float() if -MOST <= value <= 10 * MOST or value != value:
            return str(value)
        case int() | float():
            return "a number that large"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "a table"
        case _:
            return f"a {type(value).__name__}"


def _least(key: str) -> int:
    return 1 if key == "turn_steps" else 0


def _most(key: str) -> int:
    return 100 if key in _PERCENT else MOST


def _wrong(key: str, given: str) -> CommandError:
    return CommandError(f"{key} must be {takes(key)}, not {given}")
