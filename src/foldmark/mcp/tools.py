"""The tools: those that Foldmark's own models have, as far as they are about conversations, and three for guests.

Names, descriptions and schemas are those of `foldmark.tools`; a `conversation` is added to the arguments. What works on
files or runs programs is not among them: whoever connects has such tools of their own.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.ports import Progress
from foldmark.core.request import ToolSpec
from foldmark.mcp import agreement
from foldmark.mcp.agreement import ConsentQuestion
from foldmark.mcp.answers import FILTERED, ROWS
from foldmark.mcp.conversations import ARGUMENT, Conversations
from foldmark.mcp.meter import METER, MeterArguments, context_meter
from foldmark.mcp.read import READ, Read, read
from foldmark.mcp.search import SEARCH, SearchArguments, search
from foldmark.operations.effects import Asking
from foldmark.tools.context import EVICT, FILTER_CONTEXT, SLASH, NotAgreedError
from foldmark.tools.knowledge import MANAGE_SCRATCHPAD, RECALL, RETRIEVE_MEMOS, SAVE_MEMO
from foldmark.tools.query_db import DESCRIBE_DB, QUERY_DB
from foldmark.tools.tool import Tool

Arguments = Mapping[str, Any]


class ToolUse(Struct, frozen=True):
    """One use of a tool. `agreed` is the question that the person has said yes to, by its key; `here` says whether the
    client works in this process's folder."""

    conversations: Conversations
    arguments: Arguments
    progress: Progress
    agreed: str | None = None
    here: bool = True


class Offered(Struct, frozen=True):
    """A tool as it is offered. `title` is its name for a person; `reads` says that it changes nothing, `destroys` that
    not everything it changes can be taken back. `output` is the JSON Schema of an answer that is always JSON."""

    spec: ToolSpec
    title: str
    run: Callable[[ToolUse], str | ConsentQuestion]
    reads: bool = True
    destroys: bool = False
    output: dict[str, Any] | None = None

    def structured(self, arguments: Arguments, answer: str) -> dict[str, Any] | None:
        """Return an answer that is JSON as a value, None for one that is text."""
        asked = self.spec.name == SEARCH.name and arguments.get("response_format") == "json"
        return json.loads(answer) if asked or self.output is not None else None


def _model_tool(
    tool: Tool,
    title: str,
    *,
    any_will_do: bool = False,
    writes: bool = False,
    destroys: bool = False,
    output: dict[str, Any] | None = None,
) -> Offered:
    """`any_will_do`: it is about all conversations. `writes`: it records in one."""
    run = partial(_run, tool, any_will_do, writes)
    return Offered(tool.spec, title, run, tool.together, destroys, output)


def _run(tool: Tool, any_will_do: bool, writes: bool, call: ToolUse) -> str | ConsentQuestion:
    own = {name: value for name, value in call.arguments.items() if name != ARGUMENT}
    with call.conversations.agent(call.arguments.get(ARGUMENT), any_will_do=any_will_do, writes=writes) as agent:
        calling = partial(agent.call_tool, tool.spec.name, own, asking=Asking(progress=call.progress))
        try:
            return calling()
        except NotAgreedError:
            asked = agreement.question(agent, own)
            return agreement.recorded(agent, calling) if asked.key == call.agreed else asked


def _own_tool(spec: ToolSpec, title: str, arguments: type[Struct], run: Callable[..., str]) -> Offered:
    def checked(call: ToolUse) -> str:
        try:
            given = msgspec.convert(dict(call.arguments), arguments, strict=False)  # numbers of models are texts, too
        except (msgspec.ValidationError, RecursionError) as error:
            names = ", ".join(spec.parameters["properties"])
            raise CommandError(f"{spec.name} takes an object with {names}: {str(error)[:200]}") from None
        return run(given, call)

    return Offered(spec, title, checked)


_OWN = {
    offered.spec.name: offered
    for offered in (
        _own_tool(
            SEARCH,
            "Search sessions and conversations",
            SearchArguments,
            lambda wanted, call: search(wanted, call.conversations, call.progress),
        ),
        _own_tool(
            READ, "Read a session or a conversation", Read, lambda wanted, call: read(wanted, call.conversations)
        ),
        _own_tool(
            METER,
            "Show how full a context is",
            MeterArguments,
            lambda wanted, call: context_meter(wanted, call.conversations, here=call.here),
        ),
    )
}

_MODELS = {
    offered.spec.name: offered
    for offered in (
        # `kill` ends an agent for good; everything else that `slash` does, and a filter, can be restored.
        _model_tool(SLASH, "Run a command on a conversation", writes=True, destroys=True),
        _model_tool(FILTER_CONTEXT, "Forget or keep messages by topic", writes=True, output=FILTERED),
        _model_tool(EVICT, "Evict tool results", writes=True),
        _model_tool(QUERY_DB, "Query a conversation's log", output=ROWS),
        _model_tool(DESCRIBE_DB, "Describe a conversation's log"),
        _model_tool(MANAGE_SCRATCHPAD, "Read or write the scratchpad", writes=True, destroys=True),
        _model_tool(SAVE_MEMO, "Save a memo", any_will_do=True),
        _model_tool(RETRIEVE_MEMOS, "Read memos", any_will_do=True),
        _model_tool(RECALL, "Search everything that was said", any_will_do=True),
    )
}

TOOLS = {**_OWN, **_MODELS}


def specs(conversations: Conversations) -> list[ToolSpec]:
    """Each tool as it is shown; as the server's conversation narrows them, if there is that one."""
    narrowed = {name: offered.spec for name, offered in _MODELS.items()}
    if conversations.default:
        with suppress(FoldmarkError), conversations.agent(None) as agent:
            narrowed = {spec.name: spec for spec in agent.tools() if spec.name in _MODELS}
    own = [offered.spec for offered in _OWN.values()]
    return [*own, *(_with_conversation(spec, conversations.default) for spec in narrowed.values())]


def _with_conversation(spec: ToolSpec, default: str | None) -> ToolSpec:
    told = "Its name, or the beginning of its agent's uuid" + (f"; '{default}' if left out" if default else "")
    properties = {**spec.parameters["properties"], ARGUMENT: {"type": "string", "description": told}}
    return replace(spec, parameters={**spec.parameters, "properties": properties})
