"""Where a provider is and with which key: from the environment, never from the log, and shown nowhere."""

from collections.abc import Mapping
from typing import NamedTuple

from foldmark.core.errors import CommandError, ProviderError
from foldmark.core.wording import listing
from foldmark.settings.given import Settings

NO_KEY = "no-key-needed"
"""For a server that wants none, in a dialect whose SDK would otherwise send it a key that is meant for another."""


class Reach(NamedTuple):
    """A key, an address and a project; each None where nothing was said."""

    key: str | None = None
    base_url: str | None = None
    project: str | None = None

    def __repr__(self) -> str:
        return f"Reach(key={'…' if self.key else None}, base_url={self.base_url!r}, project={self.project!r})"


class Names(NamedTuple):
    """The variables that hold a built-in provider's key, the first before the second, and its address.

    `needs` is whether nothing answers without a key; where it is not, the SDK knows more.
    """

    keys: tuple[str, ...]
    address: str | None = None
    default: str | None = None
    needs: bool = False


BUILT_IN = {
    "anthropic": Names(("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL"),
    "openai": Names(("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
    "openai_responses": Names(("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
    "gemini": Names(("GEMINI_API_KEY", "GOOGLE_API_KEY"), "GOOGLE_GEMINI_BASE_URL"),
    "gemini_gca": Names(("GEMINI_GCA_TOKEN",), "CODE_ASSIST_ENDPOINT"),
    "openrouter": Names(("OPENROUTER_API_KEY",), None, "https://openrouter.ai/api/v1", needs=True),
    "ollama": Names((), None, "http://localhost:11434/v1"),
    "vllm": Names(("VLLM_API_KEY",), "VLLM_BASE_URL", "http://localhost:8000/v1"),
}
"""Provider -> what the environment says of it. The offline model needs nothing."""

SDKS = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_IDENTITY_TOKEN", "OPENAI_ADMIN_KEY")
"""Keys that SDKs take from the environment by themselves."""


def access(provider: str, environment: Mapping[str, str], settings: Settings) -> Reach:
    """How `provider` is reached: environment before settings before what is known.

    Raises CommandError for an unknown provider or an address that is none, ProviderError where a key is missing that
    no SDK can find by itself.
    """
    provider = "gemini" if provider == "google" else provider
    names, server = BUILT_IN.get(provider), settings.providers.get(provider)
    if names is None and server is None:
        there_is = listing(dict.fromkeys((*BUILT_IN, "offline", *settings.providers)), 40)
        raise CommandError(f"there is no provider '{provider[:40]}'; there is: {there_is}")
    names = names or Names(())
    variables = (server.key_env,) if server and server.key_env else names.keys
    key = next((value for name in variables if (value := _key(environment, name))), None)
    if key is None and (names.needs or (server and server.key_env)):
        raise ProviderError("key", f"{provider} needs a key: set {variables[0]} in the environment")
    if key is None and server and server.dialect in ("anthropic", "gemini"):
        key = NO_KEY
    configured = server.base_url if server else None
    said = _said(environment, names.address)
    if said is not None and not said.startswith(("http://", "https://")):
        raise CommandError(f"{names.address} in the environment is an address such as https://host/v1")
    if provider == "ollama" and (host := _said(environment, "OLLAMA_HOST")):
        said = ollama_address(host)
    project = _said(environment, "GOOGLE_CLOUD_PROJECT") if provider == "gemini_gca" else None
    return Reach(key, said or configured or names.default, project)


def keys(environment: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Variable -> key, of every provider for which there is one in the environment."""
    names = [name for each in BUILT_IN.values() for name in each.keys]
    names += [*SDKS, *(server.key_env for server in settings.providers.values() if server.key_env)]
    return {name: value for name in names if (value := _said(environment, name))}


def ollama_address(host: str) -> str:
    """The address that `OLLAMA_HOST` stands for: a host, host:port or URL, as Ollama itself reads it.

    Where it names all addresses of a machine, that is this one. Raises CommandError for another scheme than HTTP.
    """
    scheme, _, rest = host.strip("\"' \t").rpartition("://")
    if scheme not in ("", "http", "https"):
        raise CommandError(f"OLLAMA_HOST is host, host:port or an http:// or https:// URL, not one of '{scheme[:20]}'")
    usual = {"": "11434", "http": "80", "https": "443"}[scheme]
    place, _, path = rest.partition("/")
    if place.startswith("["):
        name, _, port = place[1:].partition("]")
        port = port.removeprefix(":")
    elif place.count(":") > 1:
        name, port = place, ""
    else:
        name, _, port = place.partition(":")
    if not (port.isascii() and port.isdigit() and int(port[:6]) <= 65535):
        port = usual
    name = {"": "localhost", "0.0.0.0": "127.0.0.1", "::": "localhost"}.get(name, name)
    name = f"[{name}]" if ":" in name else name
    path = path.strip("/").removesuffix("v1").rstrip("/")
    return f"{scheme or 'http'}://{name}:{port}/{f'{path}/' if path else ''}v1"


def _said(environment: Mapping[str, str], name: str | None) -> str | None:
    return (environment.get(name, "").strip() if name else "") or None


def _key(environment: Mapping[str, str], name: str) -> str | None:
    """The key in a variable. Raises ProviderError if it cannot be one; it is not repeated."""
    key = _said(environment, name)
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise ProviderError("key", f"{name} holds characters that stand in no key; set it anew")
    return key
