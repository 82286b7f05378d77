"""The base URLs of providers, and the environment variables about the way to them, as agents and gateways read them.
Without an HTTP client, so that it can be asked where none is installed [SPEC 5.7]."""

from collections.abc import Mapping
from urllib.parse import urlsplit

ANTHROPIC, OPENAI = "https://api.anthropic.com", "https://api.openai.com/v1"
"""The base URLs of the providers that have the version of their API in every path."""

GEMINI = "https://generativelanguage.googleapis.com"

BASE_URLS = {
    "anthropic": ("ANTHROPIC_BASE_URL", ANTHROPIC),
    "openai": ("OPENAI_BASE_URL", OPENAI),
    "gemini": ("GOOGLE_GEMINI_BASE_URL", GEMINI),
}
"""For each dialect, the variable from which its provider's SDK takes a base URL, and the provider's own."""

CERTIFICATES = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE")
"""Variables that name a file of certificates which an agent trusts besides those of the system."""

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
"""Variables about proxies, in lower case; programs read them in upper case as well."""

NO_PROXY = ("127.0.0.1", "localhost", "::1")
"""The names of the loopback interface, where an agent finds its gateway without a proxy."""


def is_same_server(url: str, other: str) -> bool:
    """Return True if both URLs are of one server."""
    mine, theirs = urlsplit(url), urlsplit(other)
    return (mine.scheme, mine.hostname) == (theirs.scheme, theirs.hostname)


def outward(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables about proxies and certificates."""
    return {name: value for name, value in environment.items() if name.lower() in PROXIES or name in CERTIFICATES}


def without_proxy(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that make a program reach the loopback interface without a proxy, and everything else as
    `environment` says."""
    found: dict[str, str] = {}
    for name in ("NO_PROXY", "no_proxy"):
        own = environment.get(name) or environment.get(name.swapcase(), "")
        hosts = [host.strip() for host in own.split(",") if host.strip()]
        missing = [] if "*" in hosts else [host for host in NO_PROXY if host not in hosts]
        found[name] = ",".join((*hosts, *missing))
    return found
