"""Providers by name: their dialect, their module, and the environment variables for key and address. The access to a
provider comes from the environment or the settings, never from the log.

A provider is built in, configured in the settings, or registered as an entry point of the group `foldmark.providers`.
Dialects are imported on first use.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.config import checked
from foldmark.core.errors import CommandError
from foldmark.core.wording import listing, nearest, suggestion
from foldmark.plugins import PROVIDERS, find, names

if TYPE_CHECKING:
    from foldmark.dialects.dialect import Dialect


class ProviderSpec(Struct, frozen=True):
    """A provider.

    `dialect` is the name of its dialect, `module` the module whose `connect(model, access)` returns the
    `foldmark.core.ports.Provider`. `keys` are the environment variables with its key, in order of precedence, `address`
    the variable with its address (as HOST:PORT, as for Ollama, if `host` is True), and `project` the variable with the
    project of the account. `default` is the address if none is set. `needs_key` is True if a missing key is an error
    here; otherwise the SDK may find one. `native` is True if the SDK is made for this server: no other server gets
    values that the SDK takes from the environment. `extra` is the extra of Foldmark with its SDK, a key of `SDKS`. The
    names of its models begin with one of `begins`, which tells what a person meant who left out the provider. A
    variable that is set or a folder that exists, of those `elsewhere`, may hold credentials that the SDK finds.
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
    extra: str = ""
    begins: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()


SDKS = {"anthropic": "anthropic", "gemini": "google.genai", "openai": "openai"}
"""Extra with an SDK -> the module to import."""

NO_KEY = "no-key-needed"
"""The key sent to a server that needs none. Without it, some SDKs would send that server another server's key."""


class Access(Struct, frozen=True):
    """A key and an address, each None for the SDK's own default. A key is never shown.

    `foreign` is True if the server is not the one that the SDK is made for: it gets nothing that the SDK would take
    from the environment.
    """

    key: str | None = None
    base_url: str | None = None
    project: str | None = None
    foreign: bool = False

    @property
    def given_key(self) -> str | None:
        """The key to give to an SDK. A foreign server that needs no key must not get the SDK's own."""
        return self.key or (NO_KEY if self.foreign else None)

    def __repr__(self) -> str:
        return f"Access(key={'…' if self.key else None}, base_url={self.base_url!r}, project={self.project!r})"

    def hidden(self, text: str) -> str:
        """Return `text` without the key, in case an error repeats it."""
        return text.replace(self.key, "…") if self.key else text


_CHAT = "foldmark.providers.openai_api"
_RESPONSES = "openai_responses", "openai_responses", "foldmark.providers.openai_responses_api"
_ANTHROPIC = "anthropic", "anthropic", "foldmark.providers.anthropic_api", ("ANTHROPIC_API_KEY",)
_GEMINI = "gemini", "gemini", "foldmark.providers.gemini_api", ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_GCA = "gemini_gca", "gemini_gca", "foldmark.providers.gemini_gca_api", ("GEMINI_GCA_TOKEN",), "CODE_ASSIST_ENDPOINT"
_OPENROUTER = "openrouter", "openai", _CHAT, ("OPENROUTER_API_KEY",)
_PROFILES = (
    "ANTHROPIC_PROFILE",
    "ANTHROPIC_CONFIG_DIR",
    "ANTHROPIC_FEDERATION_RULE_ID",
    "~/.config/anthropic",
    "~/AppData/Roaming/Anthropic",
)
BUILT_IN = {
    each.name: each
    for each in (
        ProviderSpec(
            *_ANTHROPIC, "ANTHROPIC_BASE_URL", native=True, extra="anthropic", begins=("claude",), elsewhere=_PROFILES
        ),
        ProviderSpec(
            "openai",
            "openai",
            _CHAT,
            ("OPENAI_API_KEY",),
            "OPENAI_BASE_URL",
            native=True,
            extra="openai",
            begins=("gpt", "chatgpt", "o1", "o3", "o4"),
        ),
        ProviderSpec(*_RESPONSES, ("OPENAI_API_KEY",), "OPENAI_BASE_URL", native=True, extra="openai"),
        ProviderSpec(*_GEMINI, "GOOGLE_GEMINI_BASE_URL", native=True, extra="gemini", begins=("gemini",)),
        ProviderSpec(*_GCA, project="GOOGLE_CLOUD_PROJECT", native=True, extra="gemini", elsewhere=("~",)),
        ProviderSpec(*_OPENROUTER, default="https://openrouter.ai/api/v1", needs_key=True, extra="openai"),
        ProviderSpec(
            "ollama",
            "openai",
            _CHAT,
            (),
            "OLLAMA_HOST",
            "http://localhost:11434/v1",
            host=True,
            extra="openai",
            begins=("llama", "deepseek", "gemma", "mistral", "phi", "qwen"),
        ),
        ProviderSpec(
            "vllm", "openai", _CHAT, ("VLLM_API_KEY",), "VLLM_BASE_URL", "http://localhost:8000/v1", extra="openai"
        ),
        ProviderSpec("offline", "offline", "foldmark.providers.offline"),
    )
}
"""The providers that come with Foldmark."""

ALIASES = {"google": "gemini"}


def canonical(name: str) -> str:
    """Return the name of a provider, given the name or an alias."""
    return ALIASES.get(name, name)


def provider_spec(name: str, configured: Mapping[str, str] = {}) -> ProviderSpec:
    """Return the provider with this name. `configured` maps the providers of the settings to the provider whose dialect
    each uses.

    Raises CommandError for an unknown provider.
    """
    name = canonical(name)
    if found := BUILT_IN.get(name):
        return found
    if name in configured:
        like = provider_spec(configured[name])
        return ProviderSpec(name, like.dialect, like.module, extra=like.extra)
    if plugin := find(PROVIDERS, name, ProviderSpec):
        return replace(plugin, name=name)
    raise CommandError(f"there is no provider '{name[:40]}'; {suggestion(name, _all(configured))}")


def installed() -> list[ProviderSpec]:
    """Return the providers of installed packages, without those that cannot be loaded."""
    found = []
    for name in names(PROVIDERS):
        with suppress(CommandError):
            found.append(provider_spec(name))
    return found


def dialect_of(provider: str, configured: Mapping[str, str] = {}) -> "Dialect":
    """Return a provider's dialect; `configured` is as for `provider_spec`. Raises CommandError for an unknown one."""
    from foldmark.dialects.dialect import dialect_named

    return dialect_named(provider_spec(provider, configured).dialect)


def speaks(provider: str, configured: Mapping[str, str] = {}) -> str:
    """Return the built-in provider or plugin whose format a provider's requests use. It is recorded, because the
    settings may change later.

    Raises CommandError for an unknown one.
    """
    name = provider_spec(provider, configured).name
    return name if name in BUILT_IN else configured.get(name, name)


def no_sdk(server: str, extra: str) -> str:
    """Return the message about the SDK of a server that is not installed."""
    from foldmark.installation import installs

    return f"The SDK for {server} is not installed; {installs(extra)}"


def check_model(name: str, configured: Collection[str] = ()) -> None:
    """Raise CommandError unless `name` is `offline` or `provider/model` of a known provider."""
    provider, _, model = name.partition("/")
    known = canonical(provider) in (*BUILT_IN, *configured) or provider in names(PROVIDERS)
    if not known or (provider != "offline" and not model):
        known_providers = _all(configured)
        meant = _meant(name, known_providers)
        offered = "" if meant else f" with one of {listing(known_providers, 40)}"
        hint = f"did you mean {meant}?" if meant else "for example anthropic/claude-opus-4-5"
        raise CommandError(f"a model must be 'offline' or PROVIDER/MODEL{offered}, not '{name[:60]}'; {hint}")
    checked("model", name)


def _meant(name: str, providers: Collection[str]) -> str:
    """Return the model that was probably meant by a name without a known provider; empty if there is none."""
    last = name.rpartition("/")[2][:60]
    maker = next((each for each in BUILT_IN.values() if each.begins and last.lower().startswith(each.begins)), None)
    typed, _, model = name.partition("/" if "/" in name else ":")
    near = nearest(typed, (*providers, *ALIASES))
    if maker is not None and ("/" not in name or not near):
        return f"{maker.name}/{last}{'-…' if last in maker.begins else ''}"
    if not near or near[0] == "offline":
        return near[0] if near else ""
    begins = BUILT_IN[canonical(near[0])].begins if canonical(near[0]) in BUILT_IN else ()
    return f"{near[0]}/{model[:60] or (f'{begins[0]}-…' if begins else 'MODEL')}"


def _all(configured: Collection[str]) -> list[str]:
    return list(dict.fromkeys((*BUILT_IN, *configured, *names(PROVIDERS))))
