"""One tool of an MCP server: its specification, and the permission that it needs before it runs [SPEC 4.1].

Names, descriptions and schemas come from the server and are bounded and checked. Its annotations are only the server's
claim; but the person agreed to the server itself, so a tool that it calls read-only runs without another question.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from foldmark.core.assembly.wire import tool_name
from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError
from foldmark.core.request import ToolSpec
from foldmark.core.wording import one_line
from foldmark.log import Agent
from foldmark.operations.effects import Asking
from foldmark.tools.approval import approve
from foldmark.tools.mcp.results import cut, result_text
from foldmark.tools.mcp.schemas import parameters

if TYPE_CHECKING:
    from mcp.types import CallToolResult
    from mcp.types import Tool as Listed

MOST_DESCRIPTION = 2048
MOST_SHOWN = 2000
"""Maximum number of characters of the arguments in a question to a person."""
MOST_ERROR = 10_000
"""Maximum number of characters of an error."""

Call = Callable[[str, dict[str, Any]], "CallToolResult"]
"""Calls the server's tool of this name; blocks. Raises CommandError."""


class McpTool:
    """A tool of the server `server`, which calls it `name`."""

    def __init__(self, spec: ToolSpec, together: bool, server: str, name: str, call: Call) -> None:
        self.spec, self.together = spec, together
        self._server, self._name, self._call = server, name, call

    def __call__(self, agent: Agent, args: Mapping[str, Any], asking: Asking) -> str:
        """Run it, after asking the person if it may change something. Raises CommandError."""
        if not isinstance(args, Mapping) or not all(isinstance(key, str) for key in args):
            raise CommandError(f"{self.spec.name} takes an object with the members that its schema names")
        given: dict[str, Any] = well_formed({**args})
        if not self.together:
            approve(agent, self.spec.name, self._question(given), asking)
        result = self._call(self._name, given)
        text = result_text(result)
        if result.is_error:
            raise CommandError(cut(text, MOST_ERROR) or f"{self.spec.name} failed and did not say why")
        return text

    def _question(self, args: dict[str, Any]) -> str:
        try:
            text = msgspec.json.encode(args).decode()
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
            raise CommandError(f"{self.spec.name} takes JSON: {str(error)[:200]}") from None
        more = f" … ({len(text):,} characters in all)" if len(text) > MOST_SHOWN else ""
        tool = one_line(self._name[:100])
        return f"call {tool} of the MCP server {self._server} with {one_line(text[:MOST_SHOWN])}{more}"


def offered(server: str, listed: Sequence["Listed"], call: Call) -> tuple[list[McpTool], list[str]]:
    """Return the tools that a server lists, and one error for each that is left out."""
    found: dict[str, McpTool] = {}
    wrong = []
    for each in listed:
        name = tool_name(f"mcp__{server}__{each.name}")
        about = f"the tool {one_line(each.name[:60])!r} of the MCP server {server} is left out: "
        if name in found or not each.name:
            wrong.append(about + ("there are two of that name" if each.name else "it has no name"))
            continue
        try:
            schema = parameters(each.input_schema)
        except CommandError as error:
            wrong.append(about + str(error))
            continue
        read_only = each.annotations is not None and each.annotations.read_only_hint is True
        spec = ToolSpec(name, _described(each), schema)
        found[name] = McpTool(spec, read_only, server, each.name, call)
    return list(found.values()), wrong


def _described(tool: "Listed") -> str:
    text: str = well_formed(tool.description or tool.title or "").strip()
    return text if len(text) <= MOST_DESCRIPTION else text[: MOST_DESCRIPTION - 1] + "…"
