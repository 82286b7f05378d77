"""Assemble the request that would be sent [SPEC 5], without any provider's SDK.

The functions that depend on the model are here as well: the options that ask for thinking [SPEC 5.7], and estimates
from stored sums [SPEC 5.5].
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any

import msgspec
from msgspec import structs

from foldmark.core.assembly import prompt as prompts
from foldmark.core.assembly.prompt import Prompt
from foldmark.core.assembly.wire import tool_name
from foldmark.core.config import Config
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.request import ANSWER, COMPACTION, PLAIN, Manifest, Options, Request, ToolSpec
from foldmark.core.segments import Segments
from foldmark.dialects.dialect import Dialect
from foldmark.providers.registry import canonical, dialect_of
from foldmark.request.exchanges import read_as, read_by
from foldmark.request.material import Material
from foldmark.request.planned import Before, Planner, Target, thinking_stays
from foldmark.request.recorded import newest_plan
from foldmark.request.standing import Standing
from foldmark.request.usage import cache_ttl
from foldmark.tokens.counting import BytesRuler, ruler
from foldmark.tokens.models import model_of, reads


def prepare(
    moment: Snapshot,
    at: Standing,
    config: Config,
    provider: str,
    model: str,
    *,
    tools: Sequence[ToolSpec] = (),
    only: Segments | None = None,
    purpose: str = ANSWER,
    instruction: str | None = None,
    limit: int | None = None,
    output: int = PLAIN.output,
    upto: int = 0,
    before: Before = newest_plan,
) -> Request:
    """Return the request to `model` of `provider` for the context of `at`, with its manifest. It writes nothing.

    `only` restricts the messages to these segments and leaves out state, scratchpad, pins and budget, for planning
    [SPEC 4.2]. `instruction` is a final user message that is not in the log. `limit` is the maximum number of tokens
    that the model accepts: if the newest turn grows so much that the window would exceed it, older turns are left out
    [SPEC 5.3]. Guidelines are sent only with `tools`. `output` is the maximum number of tokens of the answer, for
    providers that require it. With purpose COMPACTION the request asks for a summary of everything before the turn that
    event `upto` opened, or of all messages if it is 0. The request goes on with the one that `before` returns, by
    default the newest recorded one. Raises CommandError for an unknown provider, StoreError.
    """
    name, dialect = canonical(provider), dialect_of(provider, at.given.dialects)
    at = read_by(moment, at, read_as(dialect.reads))
    unique = on_the_wire(tools)
    config = structs.replace(config, isolation=False) if dialect.foreign else config
    chosen, answers = options(dialect, model, config, output, purpose), purpose in (ANSWER, COMPACTION)
    stays = thinking_stays(config, chosen)
    material = Material(moment, at, config, dialect, tools=unique, thoughts=stays, only=only)
    target = Target(name, dialect, model, tuple(unique.values()), chosen)
    # A request that is not answered is sent once, so no later one would read a cache that it writes.
    lifetime = partial(kept_for, moment, at, config, name, dialect) if answers else None
    planner = Planner(material, target, instruction, answers=answers, before=before, lifetime=lifetime)
    if only is None:
        plan = planner.next(limit)
        edge = planner.edge(plan, limit)
    else:
        plan, edge = planner.planning()
    prompt, body, data = planner.made(plan)
    if purpose == COMPACTION:
        prompt = prompts.beginning(prompt, upto)
        body, data = planner.target.encoded(prompt)
    size = planner.ruler.size(body, data, prompt.media)
    return Request(
        provider=name,
        model=model,
        dialect=dialect.recorded,
        body=body,
        bytes=data,
        tokens=planner.ruler.tokens(size),  # maybe with a newer calibration than the window was chosen by
        manifest=Manifest(prompt.parts, prompt.left_out, edge, plan),
        purpose=purpose,
        size=size,
        names={own: tool.name for own, tool in unique.items() if own != tool.name},
        thinking=sent_thinking(dialect, model, prompt, body),
        cache_ttl=planner.target.options.cache_ttl,
        cache_key=at.record.id,
        event=at.newest,
        tools=tuple(tools),
    )


def without_thinking(request: Request, configured: Mapping[str, str]) -> Request:
    """Return the same request without the thinking of earlier answers, which the provider has refused; `configured` as
    for `dialect_of`."""
    body = dialect_of(request.provider, configured).thinking.without(request.body)
    data = msgspec.json.encode(body)
    return structs.replace(request, body=body, bytes=data, thinking=frozenset(), thoughtless=True)


def kept_for(moment: Snapshot, at: Standing, config: Config, name: str, to: Dialect, opener: Event | None) -> str:
    """Return the cache lifetime of a request; `opener` is the first message of its newest turn, if there is one. A
    server that a person configured may refuse a lifetime even if its dialect has one, so it gets only the lifetime that
    was set."""
    if not to.lifetimes or config.cache_ttl != "auto":
        return "1h" if to.lifetimes and config.cache_ttl == "1h" else "5m"
    if name in at.given.dialects or opener is None:
        return "5m"
    return cache_ttl(moment, at, opener)


def on_the_wire(tools: Iterable[ToolSpec]) -> dict[str, ToolSpec]:
    """Return tools by their names on the wire; if two share a name, the first one wins."""
    unique: dict[str, ToolSpec] = {}
    for tool in tools:
        unique.setdefault(tool_name(tool.name), tool)
    return unique


def options(dialect: Dialect, model: str, config: Config, output: int, purpose: str) -> Options:
    """Return the options for an answer of at most `output` tokens, and record whether the model binds thinking."""
    return structs.replace(config.options(output, purpose), binds=_binds(dialect, model))


def _binds(dialect: Dialect, model: str) -> bool:
    known = model_of(dialect.name, model).binds
    return dialect.thinking.binds(model) if known is None else known


def sent_thinking(dialect: Dialect, model: str, prompt: Prompt, body: Mapping[str, Any]) -> frozenset[str]:
    """Return the thinking blocks of a request that its model reads, by their marks."""
    found = dialect.thinking.sent(prompt, body)
    read = {maker for maker in set(found.values()) if not maker or reads(dialect.name, model, maker)}
    return frozenset(each for each, maker in found.items() if maker in read)


def binding(at: Standing) -> bool:
    """Return True if the agent's model binds thinking."""
    provider, model = at.model
    try:
        return _binds(dialect_of(provider, at.given.dialects), model)
    except CommandError:  # the provider is no longer configured
        return False


def whole(at: Standing, provider: str, model: str) -> int:
    """Return the estimated tokens of the whole context for this model, from the stored sums."""
    return counted(at, at.size.tokens, provider, model)


def counted(at: Standing, tokens: int, provider: str, model: str) -> int:
    """Convert stored tokens, which are bytes / 4, to estimated tokens for this model."""
    return ceil(tokens * per_stored(at, provider, model))


def per_stored(at: Standing, provider: str, model: str) -> float:
    """Return the estimated tokens of this model for one stored token."""
    measure = ruler(provider, model, at.config)
    return 4 / measure.ratio if isinstance(measure, BytesRuler) else 1.0
