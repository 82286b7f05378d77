"""A model's thinking in its requests: how it is asked for, and what of it an operation costs [SPEC 5.7]."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import structs

from foldmark.conversation.receipts import Thoughts
from foldmark.core.config import Config
from foldmark.core.errors import CommandError
from foldmark.core.events import Operation, Summary
from foldmark.core.prompt import Prompt
from foldmark.core.request import Options
from foldmark.providers.anthropic_binding import staying
from foldmark.providers.anthropic_thinking import binds
from foldmark.providers.wires import Wire, wire_of
from foldmark.tokens.models import model_of, reads

if TYPE_CHECKING:
    from foldmark.conversation.agent import Agent
    from foldmark.conversation.standing import Standing


def options(wire: Wire, model: str, config: Config, output: int, purpose: str) -> Options:
    """How an answer of at most `output` tokens is asked for, and whether its model binds thinking."""
    return structs.replace(config.options(output, purpose), binds=_binds(wire, model))


def _binds(wire: Wire, model: str) -> bool:
    if wire.dialect != "anthropic":
        return False
    known = model_of(wire.dialect, model).binds
    return binds(model) if known is None else known


def stays(config: Config, options: Options) -> bool:
    """Whether thinking is sent when its turn is over, too: while it is valid, where older requests count."""
    return config.steady and bool(options.binds)


def sent(wire: Wire, model: str, prompt: Prompt, body: Mapping[str, Any]) -> frozenset[str]:
    """The thinking blocks of a request that its model reads, by their marks."""
    found = wire.thinking(prompt, body)
    read = {maker for maker in set(found.values()) if not maker or reads(wire.dialect, model, maker)}
    return frozenset(each for each, maker in found.items() if maker in read)


def changed(agent: "Agent", at: "Standing", there: "Standing", operation: Operation | None = None) -> Thoughts:
    """What becomes of the thinking in the agent's next request when it stands `there` instead of `at`, by an operation
    if one is given; nothing for models that do not bind it. It takes both requests, so it costs what the window holds.
    """
    if not (binding(at) or binding(there)) or at.store.newest("usage", at.lineage) is None:  # no model has answered
        return Thoughts()
    request = agent.request(at=at)
    if isinstance(operation, Summary) and operation.kept and operation.native:  # what it stands for is not recorded yet
        (items,) = operation.native.values()
        return Thoughts(len(request.thinking - staying(request.body, items[-1])))
    before, after = request.thinking, agent.request(at=there).thinking
    return Thoughts(len(before - after), len(after - before))


def binding(at: "Standing") -> bool:
    """Whether the agent's model binds thinking."""
    provider, _, model = at.config.model.partition("/")
    try:
        return _binds(wire_of(provider, at.given.dialects), model)
    except CommandError:  # a provider that is configured no more
        return False
