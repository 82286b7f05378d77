"""The settings of one agent that shape its requests [SPEC 10], and the values that each setting accepts.

`Config` holds the checked values. `KINDS` has one entry for each setting: a description of the accepted values and the
function that parses them. Typed text, TOML and Python values all go through the same parser.

With the setting `provider_editing`, the provider applies context edits to each request on its own side [SPEC 5.7].
Neither the context nor the request changes.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from foldmark.core.errors import CommandError
from foldmark.core.patterns import pattern
from foldmark.core.request import ANSWER, COMPACTION, Options
from foldmark.core.wording import listing, nearest, suggestion

NO_EDITS = "off"
_EDIT_OPTIONS = {
    "clear_thinking": ("keep",),
    "clear_tool_uses": ("trigger", "keep", "clear_at_least", "exclude"),
}
"""Edit -> its options, in the order that Anthropic requires."""

EDITS_TAKEN = (
    "'off', or one or both of clear_thinking and clear_tool_uses with options, as in "
    "'clear_thinking keep=2, clear_tool_uses trigger=50000 keep=5 clear_at_least=10000 exclude=bash+read_file'"
)


class Edit(NamedTuple):
    """An edit with its name and options; an option is a number of tokens or turns, `all`, or names of tools."""

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


def _stored_edits(text: str) -> str:
    """Return a value of `provider_editing` in its stored form. Raises ValueError like `provider_edits`."""
    edits = (" ".join([name, *map(_option_text, options.items())]) for name, options in provider_edits(text))
    return ", ".join(edits) or NO_EDITS


def _option_value(name: str, key: str, value: str) -> int | str | tuple[str, ...]:
    if key == "exclude":
        names = tuple(value.split("+"))
        if not all(names):
            raise ValueError(value)
        return names
    keeps_turns = (name, key) == ("clear_thinking", "keep")
    if keeps_turns and value == "all":
        return value
    kept: int = number(1 if keeps_turns else 0).parse(value)  # the thinking of at least one turn stays
    return kept


def _option_text(option: tuple[str, int | str | tuple[str, ...]]) -> str:
    key, value = option
    return f"{key}={'+'.join(value) if isinstance(value, tuple) else value}"


MOST = 10**9
"""Largest count of tokens, turns or characters in a setting."""


class Config(Struct, frozen=True):
    """The settings of an agent [SPEC 10]. Each field can be set per agent; its default applies otherwise.

    The model: `model` is `offline` or `provider/model`, `system` the system prompt, `thinking` the thinking effort,
    `turn_steps` the maximum number of requests in one turn. `tools` and `model_commands` are the tools and commands
    that the model may use; `tool_approval` decides which tools run without asking the person: `ask`, `always` or
    `never`, then exceptions, as in `ask, grep=always, bash(git status)=always`.

    The window [SPEC 5.3, 5.7]: `context_policy` is `steady` or `eager`, `sliding_context_tokens` the budget (0: none),
    `sliding_context_low_water` the share of it to which `steady` reduces a full window, `context_size` the maximum
    number of turns (0: all). With `window_summary`, the model summarizes the turns that the window has passed.

    The messages [SPEC 5.2, 5.7]: `truncate_*` are the characters kept of a tool result, by its age. `truncation` and
    `isolation` can be switched off. With `evict_superseded`, results that a later read or write of the same file made
    stale are evicted at boundaries. With `provider_compaction`, the provider's API writes summaries itself if it can;
    `provider_editing` lists the edits that the provider applies to a request on its own side (`provider_edits`).
    `cache_ttl` is how long Anthropic caches a request: `5m`, `1h` or `auto` (`core.assembly.caching.lifetime`).

    Tokens [SPEC 5.4, 5.5]: `token_counting` is `bytes` or `tokenizer`, which uses the model's own tokenizer if it is
    public. The three thresholds are the percentages of the model's window at which the model is reminded, at most once
    in `check_interval_seconds`. `calibration` is not set but measured: "provider/model" -> bytes per token,
    "tokenizer:provider/model" -> counted tokens per reported token.
    """

    model: str = "offline"
    system: str = ""
    sliding_context_tokens: int = 100_000
    sliding_context_low_water: float = 0.75
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
        """True if requests only grow between boundaries [SPEC 5.7]; otherwise each is built afresh [S2, S3]."""
        return self.context_policy == "steady"

    def options(self, output: int, purpose: str) -> Options:
        """Return the options of a request. Requests for Foldmark's own purposes ask the provider for no edits."""
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
APPROVALS = ("ask", "always", "never")
_MODEL = pattern(r"[\w.:/@+~-]{0,200}", re.ASCII)
"""Model names appear in URLs and on terminals, so their characters are restricted."""

_TOOL = pattern(r"[\w.:/-]{1,128}")
_APPROVED = pattern(r"[\w.:/-]{1,128}(?:\([\w.:/+@-]+(?: [\w.:/+@-]+)*\))?")
"""A tool's name, and perhaps what of it the answer covers: `bash(git status)`."""

_APPROVAL = pattern(r"(?:[^\s,()]|\([^()]*\))+|[()]")


class Kind(NamedTuple):
    """The values that a setting accepts: a description for a person, the parser, which raises ValueError, the list of
    names to choose from, if there is one, and an example for a message.

    `types` are the TOML and Python types that the setting accepts besides text. A boolean reaches the parser as `on` or
    `off` and a number as its text, so that each rule is in one place; a list reaches it unchanged.
    """

    takes: str
    parse: Callable[[Any], Any]
    types: tuple[type, ...] = ()
    choices: tuple[str, ...] = ()
    example: str = ""

    def value(self, name: str, given: Any) -> Any:
        """Return the parsed value of setting `name`, given as typed text or as a TOML or Python value. Raises
        CommandError, which names the accepted values."""
        typed = None
        if isinstance(given, str) or type(given) in self.types:
            with suppress(ValueError, TypeError):
                typed = _typed(given)
                return self.parse(typed)
        raise CommandError(f"{name} must be {self.takes}, not {described(given)}{self._hint(typed)}")

    def _hint(self, typed: Any) -> str:
        """Return the end of a message about a wrong value: the value that was probably meant, or an example."""
        if isinstance(typed, str):
            for meant in (_SAME.get(typed.lower(), typed.lower()), *_figures(typed), *nearest(typed, self.choices)):
                with suppress(ValueError, TypeError, CommandError):
                    self.parse(meant)
                    return f"; did you mean {meant}?"
        return f"; for example {self.example}" if self.example else ""


_SAME = {"yes": "on", "true": "on", "no": "off", "false": "off"}
"""Words of other programs -> values of settings."""


def _figures(text: str) -> list[str]:
    """Return the numbers that a text such as `20k`, `1.5M`, `20,000` or `80%` may stand for."""
    plain = text.lower().replace(",", "").replace("_", "").strip("# ")
    scale = {"k": 1_000, "m": 1_000_000}.get(plain[-1:], 1)
    try:
        value = float(plain.rstrip("km%")) * scale
    except ValueError:
        return []
    shares = [str(value / 100)] if plain.endswith("%") else []
    return [str(int(value)), *shares] if 0 <= value <= MOST else []


def _typed(given: Any) -> Any:
    match given:
        case bool():
            return "on" if given else "off"
        case int() | float():
            return str(given)
    return given


def number(least: int = 0, most: int = MOST, example: int | None = None) -> Kind:
    """Return the kind of an integer within these limits."""

    def parse(text: str) -> int:
        digits = text.lstrip("0") or text[:1]
        # `int` alone would accept signs, underscores and non-ASCII digits.
        if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(MOST)):
            raise ValueError(text)
        if not least <= int(digits) <= most:
            raise ValueError(text)
        return int(digits)

    return Kind(f"a number from {least} to {most:,}", parse, (int,), example="" if example is None else str(example))


def one_of(*names: str) -> Kind:
    """Return a kind whose values are these names."""

    def parse(text: str) -> str:
        return names[names.index(text)]

    return Kind(f"one of {listing(names)}", parse, choices=names)


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share <= 1:
        raise ValueError(text)
    return share


def _model(text: str) -> str:
    if not _MODEL.fullmatch(text) or ".." in text:
        raise ValueError(text)
    return text


def _words(given: str | list[str]) -> list[str]:
    return (given if isinstance(given, str) else " ".join(given)).replace(",", " ").split()


def _commands(given: str | list[str]) -> str:
    wanted = _words(given)
    if wanted in (["all"], ["none"]):
        return wanted[0]
    if unknown := [word for word in wanted if word not in MODEL_COMMANDS]:
        raise CommandError(f"model_commands must be {KINDS['model_commands'].takes}, not '{unknown[0][:40]}'")
    return ", ".join(wanted) or "none"


def _tools(given: str | list[str]) -> str:
    names = _words(given)
    if not names or (len(names) > 1 and {"all", "none"} & {*names}) or not all(map(_TOOL.fullmatch, names)):
        raise ValueError(given)
    return ", ".join(names)


def approvals(text: str) -> dict[str, str]:
    """Parse `tool_approval`: "" -> the answer for all tools, a tool's name -> the answer for that tool, and the name
    with a part of its uses, as in `bash(git status)` -> the answer for these. Raises ValueError."""
    found = {"": "ask"}
    for word in _APPROVAL.findall(text):
        name, equals, answer = word.rpartition("=")
        if answer not in APPROVALS or bool(equals) != bool(name) or (name and not _APPROVED.fullmatch(name)):
            raise ValueError(word)
        found[name] = answer
    return found


def approved(text: str, name: str, answer: str) -> str:
    """Return `tool_approval` with another answer for one tool, or for a part of its uses."""
    return _approvals({**approvals(text), name: answer})


def _approvals(found: Mapping[str, str]) -> str:
    return ", ".join((found[""], *(f"{name}={answer}" for name, answer in sorted(found.items()) if name)))


_ON_OFF = one_of("on", "off")
_SWITCH = _ON_OFF._replace(parse=lambda text: _ON_OFF.parse(text) == "on", types=(bool,))
_PERCENT = number(most=100)
_OWN = {
    "model": Kind("'offline' or PROVIDER/MODEL", _model),
    "context_policy": one_of("steady", "eager"),
    "truncate_shape": one_of("head", "head-tail"),
    "model_commands": Kind(f"'all', 'none' or any of {listing(MODEL_COMMANDS)}", _commands, (list, tuple)),
    "token_counting": one_of("bytes", "tokenizer"),
    "thinking": one_of(*THINKING),
    "cache_ttl": one_of("5m", "1h", "auto"),
    "warn_threshold": _PERCENT,
    "recommend_threshold": _PERCENT,
    "urgent_threshold": _PERCENT,
    "tools": Kind("'all', 'none' or names of tools", _tools, (list, tuple)),
    "tool_approval": Kind(
        "ask, always or never, then exceptions by tool or command, as in 'ask, grep=always, bash(git status)=always'",
        lambda text: _approvals(approvals(text)),
    ),
    "turn_steps": number(least=1),
    "provider_editing": Kind(EDITS_TAKEN, _stored_edits),
}
_BY_TYPE = {
    bool: _SWITCH,
    int: number(),
    float: Kind("a share above 0 and up to 1", _share, (int, float)),
    str: Kind("a text", str),
}
_DEFAULTS = Config()


def _kind(key: str) -> Kind:
    """Return the kind of a setting: its own (`_OWN`), or that of its default's type. A number's example is the
    default."""
    default = getattr(_DEFAULTS, key)
    kind = _OWN.get(key) or _BY_TYPE[type(default)]
    return kind._replace(example=str(default)) if {int, float}.intersection(kind.types) else kind


KINDS = {key: _kind(key) for key in KEYS}
"""Setting -> its kind."""


def checked(key: str, value: Any) -> Any:
    """Return the checked value of setting `key`; see `Kind.value`. Raises CommandError."""
    return KINDS[key].value(key, value)


def key_of(name: str) -> str:
    """Return the setting with this name, ignoring case and the prefix of environment variables. Raises
    CommandError."""
    key = name.lower().removeprefix("foldmark_").removeprefix("ikigai_")
    if key not in KEYS:
        raise CommandError(f"there is no setting '{name[:40]}'; {meant_setting(key, KEYS)}")
    return key


_MEANT = {
    "approval": "tool_approval",
    "budget": "sliding_context_tokens",
    "cache": "cache_ttl",
    "effort": "thinking",
    "policy": "context_policy",
    "prompt": "system",
    "reasoning": "thinking",
    "steps": "turn_steps",
    "turns": "context_size",
    "window": "context_size",
}
"""Words for settings, used in suggestions -> the setting."""


def meant_setting(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown setting: the ones that were probably meant, or else the known
    ones."""
    words = nearest(name, _MEANT)
    return f"did you mean {_MEANT[words[0]]}?" if words else suggestion(name, known)


def config_of(settings: Mapping[str, Any]) -> Config:
    """Return the config for `settings`, key -> value as returned by `checked`. Unknown keys and invalid values are
    ignored."""
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
    """Raise CommandError for settings that exclude each other because Anthropic's API refuses both in one request."""
    if config.provider_compaction and config.provider_editing != NO_EDITS:
        raise CommandError(
            "provider_compaction and provider_editing exclude each other: Anthropic's API refuses both in one request. "
            "Set one of them to off: /config set provider_editing=off"
        )


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
