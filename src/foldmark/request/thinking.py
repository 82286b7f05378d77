"""A model's thinking in its requests: the options that ask for it, and what an operation costs of it [SPEC 5.7]."""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from foldmark.core.config import Config
from foldmark.core.errors import CommandError
from foldmark.core.prompt import Prompt
from foldmark.core.request import Options
from foldmark.providers.anthropic_thinking import binds
from foldmark.providers.wires import Wire, wire_of
from foldmark.request.standing import Standing
from foldmark.tokens.models import model_of, reads


def options(wire: Wire, model: str, config: Config, output: int, purpose: str) -> Options:
    """Return the options of an answer of at most `output` tokens, including whether its model binds thinking."""
    return structs.replace(config.options(output, purpose), binds=_binds(wire, model))


def _binds(wire: Wire, model: str) -> bool:
    if wire.dialect != "anthropic":
        return False
    known = model_of(wire.dialect, model).binds
    return binds(model) if known is None else known


def stays(config: Config, options: Options) -> bool:
    """Return True if thinking is still sent after its turn is over: while it is valid, where older requests count."""
    return config.steady and bool(options.binds)


def sent(wire: Wire, model: str, prompt: Prompt, body: Mapping[str, Any]) -> frozenset[str]:
    """Return the marks of the thinking blocks in a request that its model reads."""
    found = wire.thinking(prompt, body)
    read = {maker for maker in set(found.values()) if not maker or reads(wire.dialect, model, maker)}
    return frozenset(each for each, maker in found.items() if maker in read)


def binding(at: Standing) -> bool:
    """Return True if the agent's model binds thinking."""
    provider, _, model = at.config.model.partition("/")
    try:
        return _binds(wire_of(provider, at.given.dialects), model)
    except CommandError:  # a provider that is no longer configured
        return False
