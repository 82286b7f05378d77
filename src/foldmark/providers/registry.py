"""Providers by name: what each speaks, what connects to it, and which variables say where it is.

A provider is built in, configured in the settings, or an entry point of the group `foldmark.providers`. This module
imports no dialect before one is asked for.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.config import parse
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.wording import listing
from foldmark.plugins import PROVIDERS, find, names

if TYPE_CHECKING:
    from foldmark.dialects.dialect import Dialect


class ProviderSpec(Struct, frozen=True, kw_only=True):
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
_OPENAI = ProviderSpec(
    name="openai", dialect="openai", module=_CHAT, keys=("OPENAI_API_KEY",), address="OPENAI_BASE_URL", native=True
)
BUILT_IN = {
    each.name: each
    for each in (
        ProviderSpec(
            name="anthropic",
            dialect="anthropic",
            module="foldmark.providers.anthropic_api",
            keys=("ANTHROPIC_API_KEY",),
            address="ANTHROPIC_BASE_URL",
            native=True,
        ),
        _OPENAI,
        replace(
            _OPENAI,
            name="openai_responses",
            dialect="openai_responses",
            module="foldmark.providers.openai_responses_api",
        ),
        ProviderSpec(
            name="gemini",
            dialect="gemini",
            module="foldmark.providers.gemini_api",
            keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            address="GOOGLE_GEMINI_BASE_URL",
            native=True,
        ),
        ProviderSpec(
            name="gemini_gca",
            dialect="gemini_gca",
            module="foldmark.providers.gemini_gca_api",
            keys=("GEMINI_GCA_TOKEN",),
            address="CODE_ASSIST_ENDPOINT",
            project="GOOGLE_CLOUD_PROJECT",
            native=True,
        ),
        ProviderSpec(
            name="openrouter",
            dialect="openai",
            module=_CHAT,
            keys=("OPENROUTER_API_KEY",),
            default="https://openrouter.ai/api/v1",
            needs_key=True,
        ),
        ProviderSpec(
            name="ollama",
            dialect="openai",
            module=_CHAT,
            address="OLLAMA_HOST",
            default="http://localhost:11434/v1",
            host=True,
        ),
        ProviderSpec(
            name="vllm",
            dialect="openai",
            module=_CHAT,
            keys=("VLLM_API_KEY",),
            address="VLLM_BASE_URL",
            default="http://localhost:8000/v1",
        ),
        ProviderSpec(name="offline", dialect="offline", module="foldmark.providers.offline"),
    )
}
"""Those that come with Foldmark."""

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
        return ProviderSpec(name=name, dialect=like.dialect, module=like.module)
    if plugin := find(PROVIDERS, name, ProviderSpec):
        return replace(plugin, name=name)
    raise CommandError(f"there is no provider '{name[:40]}'; there is: {_all(configured)}")


def installed() -> list[ProviderSpec]:
    """Return the providers of installed packages, without those that cannot be loaded."""
    found = []
    for name in names(PROVIDERS):
        with suppress(FoldmarkError):
            found.append(provider_spec(name))
    return found


def dialect_of(provider: str, configured: Mapping[str, str] = {}) -> "Dialect":
    """Return what a provider speaks; `configured` as for `provider_spec`. Raises CommandError for an unknown one."""
    from foldmark.dialects.registry import dialect_named

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
        raise CommandError(f"a model is 'offline' or PROVIDER/MODEL with one of {there_is}, not '{name[:60]}'")
    parse("model", name)


def _all(configured: Collection[str]) -> str:
    return listing(dict.fromkeys((*BUILT_IN, *configured, *names(PROVIDERS))), 40)
