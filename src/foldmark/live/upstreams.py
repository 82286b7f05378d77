"""The way from a gateway to the providers: their addresses, the certificates to trust, the proxies, and the encodings
of answers that can be read [SPEC 5.7].

An agent at work in an office is told of these by environment variables. The gateway asks in its place, so it follows
the same ones.
"""

import logging
import ssl
from collections.abc import Mapping
from functools import cache

import httpx2 as httpx

from foldmark.core.errors import CommandError, ProviderError
from foldmark.live.addresses import ANTHROPIC, CERTIFICATES, OPENAI, is_same_server
from foldmark.providers.sdk import http

LOG = logging.getLogger(__name__)

_VERSION, _VERSIONED = b"/v1", (b"messages", b"chat", b"responses", b"models")
"""The version in a path of these providers, and the first names after it in the paths that clients ask for."""

CONNECT_SECONDS = 30.0
"""Timeout for connecting to the upstream. The agent itself decides how long an answer may take."""


_TIMEOUT = httpx.Timeout(None, connect=CONNECT_SECONDS)


def upstream_url(text: str) -> httpx.URL:
    """Return the base URL of a provider. Raises CommandError if the text is not one."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        raise CommandError(f"{text!r} is no base URL of a provider; it has to look like https://api.anthropic.com")
    return url


def target_at(upstream: httpx.URL, asked: bytes) -> bytes:
    """Return the path and query at an upstream for those that a client asked for below the gateway's address.

    Some clients expect the version in their base URL and ask for `/messages`, others ask for `/v1/messages`. At the
    providers' own addresses both become the path that exists there. At any other upstream, nothing is added.
    """
    target = upstream.raw_path.rstrip(b"/") + asked or b"/"
    if not any(is_same_server(str(upstream), each) for each in (ANTHROPIC, OPENAI)):
        return target
    if target.startswith(_VERSION * 2 + b"/"):
        return target.removeprefix(_VERSION)
    first = target.partition(b"?")[0].removeprefix(b"/").partition(b"/")[0]
    return _VERSION + target if first in _VERSIONED else target


def client(environment: Mapping[str, str]) -> httpx.AsyncClient:
    """Return a client that asks providers over the proxies of this process, and trusts the certificates that
    `environment` names."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    return httpx.AsyncClient(timeout=_TIMEOUT, limits=limits, verify=trusted(environment))


def question_client(environment: Mapping[str, str]) -> httpx.Client:
    """Return a client for one of Foldmark's own questions, with the same proxies and certificates."""
    return httpx.Client(timeout=_TIMEOUT, verify=trusted(environment))


def trusted(environment: Mapping[str, str]) -> ssl.SSLContext:
    """Return the certificates of the system and those of `CERTIFICATES`. As in the agents, a file that cannot be read
    is left out with a warning."""
    context = httpx.create_ssl_context()
    for name in CERTIFICATES:
        if path := environment.get(name):
            try:
                context.load_verify_locations(cafile=path)
            except (OSError, ssl.SSLError) as error:
                LOG.warning("the certificates of %s cannot be read: %s", name, error)
    return context


def check_proxies() -> None:
    """Raise CommandError if a proxy of this process cannot be used."""
    try:
        http()
    except ProviderError as error:
        raise CommandError(str(error)) from None


def readable(accepted: bytes) -> bytes:
    """Return a header `accept-encoding` without the encodings that cannot be read here, so that every answer can be
    recorded."""
    offers = [each.strip() for each in accepted.split(b",")]
    return b", ".join(each for each in offers if each.partition(b";")[0].strip().lower() in _encodings()) or b"identity"


def decoded(answer: httpx.Response, body: bytes) -> bytes | None:
    """Return an answer's body without its encoding, such as gzip; None if it cannot be decoded here."""
    encoding = answer.headers.get("content-encoding", "identity")
    if not all(each.strip().lower().encode() in _encodings() for each in encoding.split(",")):
        return None
    try:
        return httpx.Response(200, headers={"content-encoding": encoding}, content=body).content
    except httpx.HTTPError:
        return None


@cache
def _encodings() -> frozenset[bytes]:
    """Return the encodings that this installation can read: gzip and deflate, others if their packages are there."""
    with httpx.Client(verify=False, trust_env=False) as client:
        offered = client.headers["accept-encoding"]
    return frozenset((b"identity", *(each.strip().encode() for each in offered.split(","))))
