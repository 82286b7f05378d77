"""`Settings`: what was given from outside, and how it goes together with what was set for one agent [SPEC 10]."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.config import Config, config_of

DIALECTS = ("openai", "anthropic", "gemini")
"""What a configured provider can speak."""


class Value(NamedTuple):
    """A checked value, and where it comes from as a person reads it: `user file`, `environment FOLDMARK_MODEL`."""

    value: Any
    source: str


class Server(Struct, frozen=True):
    """A provider of a person's own: what it speaks, its address, and which variable of the environment holds its key.

    `dialect` is None for a built-in provider, which has one.
    """

    dialect: str | None = None
    base_url: str | None = None
    key_env: str | None = None


class Settings(Struct, frozen=True):
    """What files, environment and command line say; `Settings()` says nothing, so all is as built in.

    `defaults` give way to what is set for an agent, `overrides` do not; both hold keys of `Config` and those of
    `settings.trim`. `models` are the tables of models as they stand in the files, "provider/model" -> key -> value;
    `providers` those that a person added or changed. `offline_delay`, in seconds, and `database`, a path or a URL, are
    the user file's, None where it says nothing. No key of a provider is ever in here.
    """

    defaults: Mapping[str, Value] = {}
    overrides: Mapping[str, Value] = {}
    models: Mapping[str, Mapping[str, Any]] = {}
    providers: Mapping[str, Server] = {}
    offline_delay: float | None = None
    database: str | None = None

    @property
    def dialects(self) -> dict[str, str]:
        """The providers that are not built in -> what they speak."""
        return {name: server.dialect for name, server in self.providers.items() if server.dialect}

    @property
    def trim_threshold_chars(self) -> int:
        """Characters from which a tool's result is cut by `foldmark trim` [S4]."""
        return int(self._outside("trim_threshold_chars"))

    @property
    def trim_target_tools(self) -> tuple[str, ...]:
        """The tools whose results are cut [S4]."""
        return tuple(self._outside("trim_target_tools"))

    @property
    def sync_exclude(self) -> tuple[str, ...]:
        """Folders whose sessions `foldmark sync` passes over, as patterns."""
        return tuple(self._outside("sync_exclude"))

    @property
    def recall_model(self) -> str:
        """The model of embeddings, by name or folder."""
        return str(self._outside("recall_model"))

    def config(self, own: Mapping[str, Any]) -> Config:
        """The config of an agent for which `own` was set: default < files < agent < environment < command line."""
        defaults = {key: each.value for key, each in self.defaults.items()}
        overrides = {key: each.value for key, each in self.overrides.items()}
        return config_of({**defaults, **own, **overrides})

    def without(self, key: str) -> "Settings":
        """The same, but that `key` gives way to what is set for an agent."""
        return replace(self, overrides={name: value for name, value in self.overrides.items() if name != key})

    def source(self, key: str, own: Mapping[str, Any], inherited: Mapping[str, Any]) -> str:
        """Where the value of `key` comes from for an agent for which `own` is set, `inherited` from its parent."""
        if key in self.overrides:
            return self.overrides[key].source
        if key in own:
            return "parent" if key in inherited and inherited[key] == own[key] else "this agent"
        return self.defaults[key].source if key in self.defaults else "default"

    def _outside(self, key: str) -> Any:
        from foldmark.settings.trim import TRIM

        given = self.overrides.get(key) or self.defaults.get(key)
        return given.value if given else TRIM[key]
