"""From where an agent stands to the request that would go out [SPEC 5]: pure, and without any provider's SDK."""

from collections.abc import Iterable, Sequence

import msgspec

from foldmark.conversation.natives import read_as, read_by
from foldmark.conversation.sources import Sources
from foldmark.conversation.standing import Standing
from foldmark.conversation.steady import Steady
from foldmark.conversation.usage import cache_ttl
from foldmark.conversation.windowing import Target, Windowing
from foldmark.core.config import Config
from foldmark.core.prompt import CHILDREN
from foldmark.core.request import PLAIN, Manifest, Options, Request, ToolSpec
from foldmark.core.segments import Segments
from foldmark.core.wire import tool_name
from foldmark.providers.wires import Wire, wire_of


def prepare(
    at: Standing,
    config: Config,
    provider: str,
    model: str,
    *,
    tools: Sequence[ToolSpec] = (),
    only: Segments | None = None,
    purpose: str = "answer",
    instruction: str | None = None,
    limit: int | None = None,
    anchors_last: bool | None = None,
    output: int = PLAIN.output,
) -> Request:
    """The request to `model` of `provider` for the context of `at`, with its manifest. Reads, and writes nothing.

    `only` restricts the messages to these segments and leaves out state, scratchpad, pins and budget, for planning
    [SPEC 4.2]. `instruction` is a last user message that the log does not hold. `limit` is the tokens that the model
    takes: where the budget's window would pass it because the newest turn grew, older turns go [SPEC 5.3]. Guidelines
    are sent with `tools` only. `anchors_last` puts state, scratchpad and memos into the newest turn, by default where
    `sliding_context_low_water` is below 1. `output` is the most tokens of an answer, where that has to be said. Raises
    CommandError for an unknown provider, StoreError.
    """
    name = "gemini" if provider == "google" else provider
    wire = wire_of(name, at.given.dialects)
    at = read_by(at, read_as(wire.reads))
    unique = on_the_wire(tools)
    # The built-in model reads calls in Foldmark's own form, whoever's they were.
    config = msgspec.structs.replace(config, isolation=False) if name == "offline" else config
    last = config.low_water < 1 if anchors_last is None else anchors_last
    target = Target(name, wire, model, tuple(unique.values()), Options(output, config.thinking))
    answers = purpose == "answer"
    made: Steady | Sources
    if only is None and config.steady:
        made = Steady(at, config, target, instruction, tools=unique, answers=answers)
        windowing, (prompt, edge) = made.windowing, made.windowed(limit)
    else:
        made = Sources(at, config, tools=unique, answers=answers)
        windowing = Windowing(made, config, target, instruction, anchors_last=last)
        prompt, edge = windowing.planning(only) if only is not None else windowing.windowed(limit)
    body, data, size = windowing.encoded(prompt)
    # A question of Foldmark's own is asked once: nothing reads again what it writes.
    ttl = _ttl(at, config, name, wire, made) if answers else target.options.cache_ttl
    if ttl != target.options.cache_ttl:  # only now: how long it is kept must not move what is sent
        body = wire.encode(model, prompt, target.tools, msgspec.structs.replace(target.options, cache_ttl=ttl))
        data = msgspec.json.encode(body)
    told = made.told if any(part.layer == CHILDREN for part in prompt.parts) else {}
    return Request(
        provider=name,
        model=model,
        dialect=wire.dialect,
        body=body,
        bytes=data,
        tokens=windowing.ruler.tokens(size),
        manifest=Manifest(prompt.parts, prompt.left_out, edge, told),
        purpose=purpose,
        size=size,
        names={own: tool.name for own, tool in unique.items() if own != tool.name},
        cache_ttl=ttl,
        cache_key=at.record.id,
    )


def _ttl(at: Standing, config: Config, name: str, wire: Wire, made: Steady | Sources) -> str:
    """How long the request is to be kept. Anthropic alone can be told; other servers that speak its dialect may refuse
    to be, and are told only what a person set."""
    if wire.dialect != "anthropic" or config.cache_ttl != "auto":
        return "1h" if wire.dialect == "anthropic" and config.cache_ttl == "1h" else "5m"
    if name in at.given.dialects or not made.units.reach(1):
        return "5m"
    return cache_ttl(at, made.units[0].events[0])


def on_the_wire(tools: Iterable[ToolSpec]) -> dict[str, ToolSpec]:
    """Tools by the name that they have on the wire; of two with the same, the first."""
    unique: dict[str, ToolSpec] = {}
    for tool in tools:
        unique.setdefault(tool_name(tool.name), tool)
    return unique
