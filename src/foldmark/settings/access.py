"""The address and the key of a provider. They are read from the environment, never from the log, and never shown."""

import os
from collections.abc import Mapping
from functools import partial

from foldmark.core.errors import CommandError, ProviderError
from foldmark.providers.registry import BUILT_IN, Access, installed, no_sdk, provider_spec
from foldmark.providers.registry import SDKS as SDK_MODULES
from foldmark.settings import user_folders
from foldmark.settings.given import Server, Settings

SDKS = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_IDENTITY_TOKEN", "OPENAI_ADMIN_KEY")
"""Keys that SDKs themselves read from the environment."""


def access(provider: str, environment: Mapping[str, str], settings: Settings) -> Access:
    """Return the access to `provider`. The environment overrides the settings, which override the built-in values.

    Raises CommandError for an unknown provider or an invalid address, ProviderError for a missing key that no SDK can
    find on its own.
    """
    spec = provider_spec(provider, settings.dialects)
    server = settings.providers.get(spec.name) or Server()
    variables = (server.key_env,) if server.key_env else spec.keys
    key = next((value for name in variables if (value := _key(environment, name))), None)
    if key is None and (spec.needs_key or server.key_env):
        raise ProviderError("key", f"{spec.name} needs a key: set {variables[0]} in the environment")
    address = _variable(environment, spec.address)
    if address is not None and spec.host:
        address = ollama_address(address)
    if address is not None and not address.startswith(("http://", "https://")):
        raise CommandError(f"{spec.address} in the environment must be an address such as https://host/v1")
    project = _variable(environment, spec.project)
    return Access(key, address or server.base_url or spec.default, project, not spec.native)


def missing_key(provider: str, environment: Mapping[str, str], settings: Settings) -> str | None:
    """Return the variable for the key of `provider` if its server requires a key and none is set. Return None also for
    an unknown provider."""
    try:
        spec = provider_spec(provider, settings.dialects)
        server = settings.providers.get(spec.name) or Server()
        variable = server.key_env or next(iter(spec.keys), None)
        reached = access(provider, environment, settings)
    except ProviderError:
        return variable
    except CommandError:
        return None
    known = reached.key or reached.base_url or any(_variable(environment, name) for name in SDKS)
    return None if known or any(map(partial(_is_there, environment), spec.elsewhere)) else variable


def _is_there(environment: Mapping[str, str], place: str) -> bool:
    """Return True if a variable is set, or a folder in the home folder exists."""
    if not place.startswith("~"):
        return _variable(environment, place) is not None
    return os.path.isdir(user_folders.home(environment) + place[1:])  # noqa: PTH112 - pathlib takes longer to import


def obstacle(model: str, environment: Mapping[str, str], settings: Settings) -> str | None:
    """Return why a model, named as in `Config.model`, cannot be asked here, and what to do; None if nothing is known
    to be missing. The SDK is not imported."""
    provider = model.partition("/")[0]
    try:
        spec = provider_spec(provider, settings.dialects)
    except CommandError as error:
        return str(error)
    if spec.extra and not _is_installed(SDK_MODULES[spec.extra]):
        return no_sdk(spec.name, spec.extra)
    variable = missing_key(provider, environment, settings)
    return f"There is no key for {spec.name}. Set {variable}." if variable else None


def _is_installed(module: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def keys(environment: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Return the keys of all providers in the environment: variable -> key."""
    names = _known_variables(settings)
    # Finding the installed packages takes a while, so it is done only for keys that are not yet known.
    if any(name.endswith(("_KEY", "_TOKEN")) and name not in names for name in environment):
        names += [name for each in installed() for name in each.keys]
    return {name: value for name in names if (value := _variable(environment, name))}


def key_states(environment: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Return the state of each variable that may hold a key: `set`, `not set`, `blank`, or `invalid` for characters
    that no key has."""
    names = [*_known_variables(settings), *(name for each in installed() for name in each.keys)]
    return {name: _state(environment, name) for name in dict.fromkeys(names)}


def _state(environment: Mapping[str, str], name: str) -> str:
    try:
        if _key(environment, name) is not None:
            return "set"
    except ProviderError:
        return "invalid"
    return "blank" if environment.get(name) else "not set"


def _known_variables(settings: Settings) -> list[str]:
    """Return the variables for keys, without those of the providers of installed packages."""
    names = [name for each in BUILT_IN.values() for name in each.keys]
    return [*names, *SDKS, *(server.key_env for server in settings.providers.values() if server.key_env)]


def ollama_address(host: str) -> str:
    """Return the address for an `OLLAMA_HOST`: a host, host:port or URL, read as Ollama itself reads it.

    An address for all interfaces becomes this machine. Raises CommandError for a scheme other than HTTP.
    """
    scheme, _, rest = host.strip("\"' \t").rpartition("://")
    if scheme not in ("", "http", "https"):
        raise CommandError(f"OLLAMA_HOST must be host, host:port or an http:// or https:// URL, not '{scheme[:20]}://'")
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


def offline_delay(environment: Mapping[str, str], terminal: bool, configured: float | None = None) -> float:
    """Return the seconds between the offline model's words: `FOLDMARK_OFFLINE_DELAY`, the configured delay, or a few
    hundredths on a terminal."""
    try:
        return min(10.0, max(0.0, float(environment["FOLDMARK_OFFLINE_DELAY"])))
    except (KeyError, ValueError):
        return configured if configured is not None else 0.02 if terminal else 0.0


def _variable(environment: Mapping[str, str], name: str | None) -> str | None:
    return (environment.get(name, "").strip() if name else "") or None


def _key(environment: Mapping[str, str], name: str) -> str | None:
    """Return the key in a variable. Raises ProviderError, without repeating the value, if it cannot be a key."""
    key = _variable(environment, name)
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise ProviderError("key", f"{name} holds characters that no key has; set it to the key alone")
    return key
