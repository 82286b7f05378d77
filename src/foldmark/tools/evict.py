"""`evict`: a model evicts single tool results from its own requests [SPEC 4, 5.7]."""

from msgspec import Struct

from foldmark.core.errors import CommandError
from foldmark.core.request import ToolSpec
from foldmark.editing.evicting import evict, sent_results
from foldmark.log import Agent
from foldmark.operations.effects import Asking
from foldmark.tools.tool import Tool

LISTED = 50
"""Number of results that are listed, those that would save the most."""


class EvictArguments(Struct, frozen=True, forbid_unknown_fields=True):
    ids: list[int] = []
    reason: str | None = None


def _run(agent: Agent, arguments: EvictArguments, asking: Asking) -> str:
    if not arguments.ids:
        return _listed(agent)
    result = evict(agent, arguments.ids, actor="model", reason=arguments.reason)
    asking.operated(result)
    return result.text


def _listed(agent: Agent) -> str:
    found = sorted(sent_results(agent), key=lambda each: -each.tokens)
    if not found:
        raise CommandError("no tool result of your requests is longer than the placeholder that would take its place")
    lines = [each.line() for each in found[:LISTED]]
    head = f"{len(lines)} of {len(found)} tool results in your requests: id, call, what evicting it saves"
    return "\n".join([f"{head}.", *lines])


EVICT = Tool(
    ToolSpec(
        "evict",
        "Take tool results that you need no more out of your requests. A one-line placeholder stays in place of each, "
        "with the query that shows it again. Without ids, list the results with their ids and sizes. Each use makes "
        "the provider read the conversation anew from the first of them on: evict many at once, and seldom.",
        {
            "type": "object",
            "properties": {
                "ids": {"type": "array", "items": {"type": "integer"}, "description": "Ids of tool results"},
                "reason": {"type": "string", "description": "Why, for the person; may be left out"},
            },
        },
    ),
    EvictArguments,
    _run,
)
