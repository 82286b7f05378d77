"""The table of models: published windows, limits, prices and caches, overridden by the settings [SPEC 10].

`models.json` contains the figures and their sources and is read on first use. The defaults of a provider are the window
of 200K tokens (128K for GPT-4) of [S1] and the discounts of [S3]. A new model of a known family takes the figures of
the newest one in the table, marked as a guess; other unknown figures are None.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from foldmark.core.errors import CommandError
from foldmark.core.request import PLAIN
from foldmark.core.wording import listing
from foldmark.providers.registry import canonical

Tokens: TypeAlias = Annotated[int, Meta(ge=1, le=10**9)]
Price: TypeAlias = Annotated[float, Meta(ge=0, le=10**6)] | None
Factor: TypeAlias = Annotated[float, Meta(ge=0, le=10)] | None


class Model(Struct, frozen=True, kw_only=True):
    """The figures of a model."""

    window: Tokens
    """Maximum tokens of a request."""

    output: Tokens | None
    """Maximum tokens of an answer."""

    input_price: Price
    """Dollars per million tokens."""

    output_price: Price
    """Dollars per million tokens."""

    cache_read: Factor
    """Price of a token read from the provider's cache, as a factor of `input_price`."""

    cache_write: Factor
    """Price of a token written to the provider's cache, as a factor of `input_price`."""

    cache_least: Annotated[int, Meta(ge=0, le=10**9)]
    """Minimum size of a cached prefix, in tokens."""

    cache_step: Tokens
    """Step by which a cached prefix grows, in tokens."""

    caching: Literal["explicit", "automatic", "none"]
    """`explicit` if requests set the breakpoints."""

    binds: bool | None = None
    """Whether a thinking block is valid only after the messages that it was made for; None if that is unknown."""

    reads: tuple[str, ...] = ()
    """Other models that bind thinking whose thinking this one reads."""

    unread: tuple[str, ...] = ()
    """Models whose thinking this one does not read."""

    bytes_per_token: float = 4.0
    """Size of a token in a request before calibration."""

    source: str = ""
    """Origin of the figures."""

    assumed: bool = False
    """True if no figures are published or set for this model."""

    guessed_from: str = ""
    """The model whose figures this one takes because nothing is published for it; empty if there is none."""

    @property
    def answer(self) -> int:
        """The maximum tokens to request for an answer: the model's own limit, up to an eighth of its window."""
        return min(self.output or PLAIN.output, max(1, self.window // 8))


_TOKENS, _PRICE, _FACTOR = "a whole number of tokens", "dollars per million tokens", "a share of the input price"
SETTABLE = {
    "window": _TOKENS,
    "output": _TOKENS,
    "input_price": _PRICE,
    "output_price": _PRICE,
    "cache_read": _FACTOR,
    "cache_write": _FACTOR,
    "cache_least": _TOKENS,
    "cache_step": _TOKENS,
    "caching": "'explicit', 'automatic' or 'none'",
}
"""Figures that the settings can override, each with a description of its value."""

_TYPES = {field.name: field.type for field in msgspec.structs.fields(Model)}
_GOES_ON = re.compile(r"$|[-@:](?!\d{1,2}(?!\d))")
"""The rest of a name after a name in the table: nothing, a date or a variant, but not a further version number."""

_DATE = re.compile(r"[-@:](?:\d{8}|\d{4}-\d{2}-\d{2}).*")
"""The date of a model's release in its name, and what follows."""

_VERSION = re.compile(r"\d{1,2}(?:\.\d{1,2})?", re.ASCII)
"""A part of a name that is a version number."""


class _Provider(Struct, frozen=True):
    """A provider in the table, with its own models, those of another provider, or those of vendors that it resells;
    `but` contains the figures that differ there."""

    source: str = ""
    default: dict[str, Any] = {}
    models: dict[str, dict[str, Any]] = {}
    same_as: str = ""
    vendors: dict[str, str] = {}
    but: dict[str, Any] = {}


class _Table(Struct, frozen=True):
    about: str
    providers: dict[str, _Provider]


def model_of(
    provider: str, model: str, overrides: Mapping[str, Any] = MappingProxyType({}), configured: Collection[str] = ()
) -> Model:
    """Return the figures of `model` of `provider`; for an unknown provider, the window of [S1].

    `overrides` come from the settings: "provider/name" -> changed figures for the models with that name, which is
    matched as in the table, or "provider" -> changed figures for all its models. `configured` are further providers in
    the settings. Raises CommandError for wrong settings.
    """
    name = canonical(provider)
    found = dict(_published(name, model))
    tables = _checked(overrides, configured)
    for changes in (tables.get((name, "")), _longest(model, tables, name)):
        found |= {**changes, "source": "settings"} if changes else {}
        found |= {"assumed": False, "guessed_from": ""} if changes and "window" in changes else {}
    return msgspec.convert(found, Model)


def published() -> dict[str, int]:
    """Return the models in the table, `provider/model` -> window in tokens."""
    return {
        f"{provider}/{name}": model_of(provider, name).window
        for provider, about in _table().providers.items()
        for name in about.models
    }


def reads(provider: str, model: str, maker: str) -> bool:
    """Return False if `model` is known from publications not to read the thinking of `maker`."""
    names = _table().providers.get(canonical(provider), _Provider()).models
    own, other = _named(model, names), _named(maker, names)
    if not own or not other or own == other:
        return True
    known = names[own]
    return other in known.get("reads", ()) if names[other].get("binds") else other not in known.get("unread", ())


def _published(provider: str, model: str) -> dict[str, Any]:
    providers = _table().providers
    about = providers.get(provider, providers["vllm"])  # nothing is published for either
    vendor, _, rest = model.partition("/")
    if rest and vendor in about.vendors:
        return {**_published(about.vendors[vendor], rest), **about.but}
    if about.same_as:
        return {**_published(about.same_as, model), **about.but}
    name, guess = _named(model, about.models), {}
    if not name and (name := _newest_of_family(model, about.models)) and _parted(model) != _parted(name):
        guess = {"assumed": True, "guessed_from": name, "source": f"a guess: the figures of {name}"}
    if not name:
        return about.default
    return {**about.default, "assumed": False, "source": about.source, **about.models[name], **guess}


def _longest(model: str, tables: Mapping[tuple[str, str], dict[str, Any]], provider: str) -> dict[str, Any] | None:
    name = _named(model, [pattern for of, pattern in tables if of == provider and pattern])
    return tables[provider, name] if name else None


def _named(model: str, names: Iterable[str]) -> str:
    """Return the longest name that matches the model, or ""."""
    fitting = (name for name in names if model.startswith(name) and _GOES_ON.match(model, len(name)))
    return max(fitting, key=len, default="")


def _newest_of_family(model: str, names: Iterable[str]) -> str:
    """Return the name of the model's own version in another notation (`opus-4.8`), else that of the newest version of
    its family; "" for a model of no known family, or older than all known versions of its family."""
    family, version = _parted(model)
    known = {parted[1]: name for name in names if (parted := _parted(name))[0] == family}
    if not version or not known or version < min(known):
        return ""
    return known.get(version, known[max(known)])


def _parted(model: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the words of a model's name, which name its family, and its version; both without a date."""
    words, version = list[str](), list[int]()
    for part in _DATE.sub("", model).split("-"):
        if _VERSION.fullmatch(part):
            version += map(int, part.split("."))
        else:
            words.append(part)
    return tuple(words), tuple(version)


def _checked(overrides: Mapping[str, Any], configured: Collection[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the overrides by provider and model name."""
    found = {}
    for key, changes in overrides.items():
        provider, _, name = key.partition("/")
        if canonical(provider) not in (*_table().providers, *configured):
            available = listing((*_table().providers, *configured))
            raise CommandError(f"models.'{key[:60]}': there is no provider '{provider[:40]}'; available: {available}")
        if not isinstance(changes, Mapping):
            raise CommandError(f"models.'{key[:60]}' must be a table, such as {{window = 500000}}, not {changes!r:.40}")
        for field, value in changes.items():
            if field not in SETTABLE:
                raise CommandError(f"models.'{key[:60]}' has no '{field[:40]}'; available: {listing(SETTABLE)}")
            try:
                msgspec.convert(value, _TYPES[field])
            except msgspec.ValidationError:
                text = f"models.'{key[:60]}': {field} must be {SETTABLE[field]}, not {value!r:.40}"
                raise CommandError(text) from None
        found[canonical(provider), name] = dict(changes)
    return found


@cache
def _table() -> _Table:
    return msgspec.json.decode(Path(__file__).with_name("models.json").read_bytes(), type=_Table)
