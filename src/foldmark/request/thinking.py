"""A model's thinking in its requests: the options that ask for it, and what an operation costs of it [SPEC 5.7]."""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from foldmark.core.config import Config
from foldmark.core.errors import CommandError
from foldmark.core.prompt import Prompt
from foldmark.core.request import Options
from foldmark.dialects.dialect import Dialect
from foldmark.providers.registry import dialect_of
from foldmark.request.standing import Standing
from foldmark.tokens.models import model_of, reads


def options(dialect: Dialect, model: str, config: Config, output: int, purpose: str) -> Options:
    """How an answer of at most `output` tokens is asked for, and whether its model binds thinking."""
    return structs.replace(config.options(output, purpose), binds=_binds(dialect, model))


def _binds(dialect: Dialect, model: str) -> bool:
    known = model_of(dialect.name, model).binds
    return dialect.thinking.binds(model) if known is None else known


def stays(config: Config, options: Options) -> bool:
    """Return True if thinking is still sent after its turn is over: while it is valid, where older requests count."""
    return config.steady and bool(options.binds)


def sent(dialect: Dialect, model: str, prompt: Prompt, body: Mapping[str, Any]) -> frozenset[str]:
    """The thinking blocks of a request that its model reads, by their marks."""
    found = dialect.thinking.sent(prompt, body)
    read = {maker for maker in set(found.values()) if not maker or reads(dialect.name, model, maker)}
    return frozenset(each for each, maker in found.items() if maker in read)


def binding(at: Standing) -> bool:
    """Return True if the agent's model binds thinking."""
    provider, _, model = at.config.model.partition("/")
    try:
        return _binds(dialect_of(provider, at.given.dialects), model)
    except CommandError:  # a provider that is configured no more
        return False
