"""Providers by name: their dialect, their module, and the environment variables with key and address.

A provider is built in, configured in the settings, or an entry point of the group `foldmark.providers`. This module
imports no dialect before one is asked for.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.config import checked
from foldmark.core.errors import CommandError
from foldmark.core.wording import listing
from foldmark.plugins import PROVIDERS, find, names

if TYPE_CHECKING:
    from foldmark.dialects.dialect import Dialect


class ProviderSpec(Struct, frozen=True):
    """A provider.

    `dialect` names what it speaks, `module` the module whose `connect(model, access)` gives the
    `foldmark.core.ports.Provider`. Of the environment's variables `keys` hold its key, the first before the second, and
    `address` its address, an Ollama-style HOST:PORT if `host`; `project` holds the account's project. `default` is the
    address without that. `needs_key` is whether nothing answers without a key; where it is not, the SDK knows more.
    `native` is whether this is the server that the SDK is for: no other gets what an SDK takes from the environment.
    """

    name: str
    dialect: str
    module: str
    keys: tuple[str, ...] = ()
    address: str | None = None
    default: str | None = None
    project: str | None = None
    needs_key: bool = False
    host: bool = False
    native: bool = False


_CHAT = "foldmark.providers.openai_api"
_RESPONSES = "openai_responses", "openai_responses", "foldmark.providers.openai_responses_api"
_ANTHROPIC = "anthropic", "anthropic", "foldmark.providers.anthropic_api", ("ANTHROPIC_API_KEY",)
_GEMINI = "gemini", "gemini", "foldmark.providers.gemini_api", ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_GCA = "gemini_gca", "gemini_gca", "foldmark.providers.gemini_gca_api", ("GEMINI_GCA_TOKEN",), "CODE_ASSIST_ENDPOINT"
_OPENROUTER = "openrouter", "openai", _CHAT, ("OPENROUTER_API_KEY",)
BUILT_IN = {
    each.name: each
    for each in (
        ProviderSpec(*_ANTHROPIC, "ANTHROPIC_BASE_URL", native=True),
        ProviderSpec("openai", "openai", _CHAT, ("OPENAI_API_KEY",), "OPENAI_BASE_URL", native=True),
        ProviderSpec(*_RESPONSES, ("OPENAI_API_KEY",), "OPENAI_BASE_URL", native=True),
        ProviderSpec(*_GEMINI, "GOOGLE_GEMINI_BASE_URL", native=True),
        ProviderSpec(*_GCA, project="GOOGLE_CLOUD_PROJECT", native=True),
        ProviderSpec(*_OPENROUTER, default="https://openrouter.ai/api/v1", needs_key=True),
        ProviderSpec("ollama", "openai", _CHAT, (), "OLLAMA_HOST", "http://localhost:11434/v1", host=True),
        ProviderSpec("vllm", "openai", _CHAT, ("VLLM_API_KEY",), "VLLM_BASE_URL", "http://localhost:8000/v1"),
        ProviderSpec("offline", "offline", "foldmark.providers.offline"),
    )
}
"""The providers that come with Foldmark."""

ALIASES = {"google": "gemini"}


def canonical(name: str) -> str:
    """Return a provider's own name for any name that it has."""
    return ALIASES.get(name, name)


def provider_spec(name: str, configured: Mapping[str, str] = {}) -> ProviderSpec:
    """Return the provider of a name; `configured` are those of the settings -> the one that each speaks like.

    Raises CommandError for an unknown provider.
    """
    name = canonical(name)
    if found := BUILT_IN.get(name):
        return found
    if name in configured:
        like = provider_spec(configured[name])
        return ProviderSpec(name, like.dialect, like.module)
    if plugin := find(PROVIDERS, name, ProviderSpec):
        return replace(plugin, name=name)
    raise CommandError(f"there is no provider '{name[:40]}'; available: {_all(configured)}")


def installed() -> list[ProviderSpec]:
    """Return the providers of installed packages, without those that cannot be loaded."""
    found = []
    for name in names(PROVIDERS):
        with suppress(CommandError):
            found.append(provider_spec(name))
    return found


def dialect_of(provider: str, configured: Mapping[str, str] = {}) -> "Dialect":
    """Return a provider's dialect; `configured` as for `provider_spec`. Raises CommandError for an unknown one."""
    from foldmark.dialects.dialect import dialect_named

    return dialect_named(provider_spec(provider, configured).dialect)


def speaks(provider: str, configured: Mapping[str, str] = {}) -> str:
    """Return the provider whose format a provider's requests have, whatever the settings say later.

    Raises CommandError for an unknown one.
    """
    name = provider_spec(provider, configured).name
    return name if name in BUILT_IN else configured.get(name, name)


def check_model(name: str, configured: Collection[str] = ()) -> None:
    """Raise CommandError unless `name` is `offline` or `provider/model` of a known provider."""
    provider, _, model = name.partition("/")
    known = canonical(provider) in (*BUILT_IN, *configured) or provider in names(PROVIDERS)
    if not known or (provider != "offline" and not model):
        there_is = _all(configured)
        raise CommandError(f"a model must be 'offline' or PROVIDER/MODEL with one of {there_is}, not '{name[:60]}'")
    checked("model", name)


def _all(configured: Collection[str]) -> str:
    return listing(dict.fromkeys((*BUILT_IN, *configured, *names(PROVIDERS))), 40)
