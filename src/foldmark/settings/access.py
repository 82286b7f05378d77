"""Where a provider is and with which key: from the environment, never from the log, and shown nowhere."""

from collections.abc import Mapping

from foldmark.core.errors import CommandError, ProviderError
from foldmark.providers.access import Access
from foldmark.providers.registry import BUILT_IN, installed, provider_spec
from foldmark.settings.given import Server, Settings

SDKS = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_IDENTITY_TOKEN", "OPENAI_ADMIN_KEY")
"""Keys that SDKs take from the environment by themselves."""


def access(provider: str, environment: Mapping[str, str], settings: Settings) -> Access:
    """How `provider` is reached: environment before settings before what is known.

    Raises CommandError for an unknown provider or an address that is none, ProviderError where a key is missing that
    no SDK can find by itself.
    """
    spec = provider_spec(provider, settings.dialects)
    server = settings.providers.get(spec.name) or Server()
    variables = (server.key_env,) if server.key_env else spec.keys
    key = next((value for name in variables if (value := _key(environment, name))), None)
    if key is None and (spec.needs_key or server.key_env):
        raise ProviderError("key", f"{spec.name} needs a key: set {variables[0]} in the environment")
    said = _said(environment, spec.address)
    if said is not None and spec.host:
        said = ollama_address(said)
    if said is not None and not said.startswith(("http://", "https://")):
        raise CommandError(f"{spec.address} in the environment is an address such as https://host/v1")
    return Access(key, said or server.base_url or spec.default, _said(environment, spec.project), not spec.native)


def keys(environment: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Variable -> key, of every provider for which there is one in the environment."""
    names = [name for each in BUILT_IN.values() for name in each.keys]
    names += [*SDKS, *(server.key_env for server in settings.providers.values() if server.key_env)]
    # Which packages are installed takes a while to find out: only somebody's own key is worth it.
    if any(name.endswith(("_KEY", "_TOKEN")) and name not in names for name in environment):
        names += [name for each in installed() for name in each.keys]
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
