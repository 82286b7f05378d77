"""The MCP servers of a working folder, connected, and their tools [SPEC 4.1].

Names, descriptions and schemas come from the servers, so they are limited and checked. One schema that a provider
refuses makes every request fail; doubtful tools are therefore left out with a message. A tool's annotations are only
the server's claim, but the person has agreed to the server itself: a tool that it calls read-only runs without another
question.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

from foldmark.core.assembly.wire import shallow, tool_name
from foldmark.core.codec import Secrets, well_formed
from foldmark.core.errors import CommandError
from foldmark.core.request import ToolSpec
from foldmark.core.wording import listing, one_line
from foldmark.log import Agent
from foldmark.log.log import ModelTool
from foldmark.operations.effects import Asking
from foldmark.tools.mcp.servers import McpServer, Program, configured
from foldmark.tools.tool import all_uses, approve

if TYPE_CHECKING:
    from mcp.types import CallToolResult
    from mcp.types import Tool as Listed

    from foldmark.tools.mcp.connection import McpConnection

MOST_DESCRIPTION = 2048
MOST_SHOWN = 2000
"""Maximum number of characters of the arguments in a question to a person."""
MOST_ERROR = 10_000
"""Maximum number of characters of an error."""

Call = Callable[[str, dict[str, Any]], "CallToolResult"]
"""Calls the server's tool of this name, and waits for the result. Raises CommandError."""


class McpTool:
    """A tool of a server, which calls it `name`."""

    def __init__(self, spec: ToolSpec, together: bool, server: str, name: str, call: Call) -> None:
        self.spec, self.together = spec, together
        self._server, self._name, self._call = server, name, call

    def __call__(self, agent: Agent, args: Mapping[str, Any], asking: Asking) -> str:
        """Run the tool, after asking the person unless it is read-only. Raises CommandError."""
        if not isinstance(args, Mapping) or not all(isinstance(key, str) for key in args):
            raise CommandError(f"{self.spec.name} takes an object with the members that its schema names")
        given: dict[str, Any] = well_formed({**args})
        if not self.together:
            approve(agent, self.spec.name, self._question(given), asking, given)
        result = self._call(self._name, given)
        text = _result_text(result)
        if result.is_error:
            raise CommandError(_cut(text, MOST_ERROR) or f"{self.spec.name} failed without a reason")
        return text

    def _question(self, args: dict[str, Any]) -> str:
        try:
            text = msgspec.json.encode(args).decode()
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
            raise CommandError(f"{self.spec.name} takes JSON: {str(error)[:200]}") from None
        more = f" … ({len(text):,} characters in all)" if len(text) > MOST_SHOWN else ""
        tool = one_line(self._name[:100])
        return f"call {tool} of the MCP server {self._server} with {one_line(text[:MOST_SHOWN])}{more}"


def _offered(server: str, listed: Sequence["Listed"], call: Call) -> tuple[list[McpTool], list[str]]:
    """Return the tools that a server lists, and an error for each tool that is left out."""
    found: dict[str, McpTool] = {}
    wrong = []
    for each in listed:
        name = tool_name(f"mcp__{server}__{each.name}")
        about = f"the tool {one_line(each.name[:60])!r} of the MCP server {server} is left out: "
        if name in found or not each.name:
            wrong.append(about + ("there are two of that name" if each.name else "it has no name"))
            continue
        try:
            schema = _parameters(each.input_schema)
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


MOST_SCHEMA = 16 * 1024
MOST_BRACES = 500
"""Approximate maximum number of objects in a schema: checking one with thousands takes a second."""
DEEPEST = 32
"""Maximum depth of nesting."""

_NOT_AT_THE_TOP = ("$schema", "oneOf", "anyOf", "allOf", "enum", "not")
"""Members that Anthropic and OpenAI refuse at the top level. The server checks the arguments anyway."""
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Anthropic: "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"."""


def _parameters(schema: Any) -> dict[str, Any]:
    """Return the schema as it is sent. Raises CommandError with a text such as "its schema is ..."."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise CommandError("its schema does not describe an object")
    if not shallow(schema, DEEPEST):
        raise CommandError(f"its schema is nested more than {DEEPEST} levels deep")
    try:
        text = msgspec.json.encode(schema)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        raise CommandError("its schema is not valid JSON") from None
    if len(text) > MOST_SCHEMA:
        raise CommandError(f"its schema has {len(text):,} bytes, more than {MOST_SCHEMA:,}")
    if text.count(b"{") > MOST_BRACES:
        raise CommandError(f"its schema has more than {MOST_BRACES} parts")
    found: dict[str, Any] = msgspec.json.decode(text)
    for key in _NOT_AT_THE_TOP:
        found.pop(key, None)
    _check(found)
    return found


def _check(schema: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator, FormatChecker, SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    try:
        # Without formats: the server validates patterns.
        Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))
    except SchemaError as error:
        place = ".".join(map(str, error.absolute_path))
        raise CommandError(f"its schema is not one of draft 2020-12{f', at {place[:80]}' if place else ''}") from None
    for name in schema.get("properties", {}):
        if not _PROPERTY.fullmatch(name):
            raise CommandError(f"its parameter {name[:40]!r} has a name that not every model accepts")
    inside = Registry[Any]().with_resource("", DRAFT202012.create_resource(schema)).resolver()
    parts: list[Any] = [schema]
    for part in parts:
        parts += DRAFT202012.subresources_of(part)
        if isinstance(part, bool):
            continue
        target = part.get("$ref", part.get("$dynamicRef", "#"))
        if not target.startswith("#") or ("$id" in part and part is not schema):
            raise CommandError(f"its schema refers to another one, {target[:80]!r}")
        try:
            inside.lookup(target)
        except Unresolvable:
            raise CommandError(f"its schema refers to {target[:80]!r}, which does not exist") from None


MOST_RESULT = 100_000
"""Maximum number of characters of one result."""
MOST_NAME = 200
"""Maximum number of characters of a name, a URL or a type in a line about content that is not shown."""


def _result_text(result: "CallToolResult") -> str:
    """Return the texts of a result, and a line for all other content; the structured content as JSON if there is no
    text. After `MOST_RESULT` characters, the text is cut with a note."""
    pieces = list(_pieces(result.content))
    if result.structured_content is not None and not any(getattr(each, "text", "") for each in result.content):
        pieces.insert(0, msgspec.json.encode(well_formed(result.structured_content)).decode())
    return _cut(well_formed("\n".join(pieces)))


def _cut(text: str, most: int = MOST_RESULT) -> str:
    """Return the text; a longer one is cut, with a note of its length."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[Cut here: {most:,} of {len(text):,} characters.]"


def _pieces(content: list[Any]) -> Iterator[str]:
    for each in content:
        match each.type:
            case "text":
                yield each.text
            case "image" | "audio":
                yield f"[{each.type.title()}: {_named(each.mime_type)}, {_size(each.data)}; it cannot be shown here.]"
            case "resource_link":
                kind = f", {_named(each.mime_type)}" if each.mime_type else ""
                yield f"[Resource: {_named(each.name)}, {_named(each.uri)}{kind}.]"
            case _:
                yield from _embedded(each.resource)


def _embedded(resource: Any) -> Iterator[str]:
    kind = f", {_named(resource.mime_type)}" if resource.mime_type else ""
    if (text := getattr(resource, "text", None)) is not None:
        yield f"[Resource: {_named(resource.uri)}{kind}.]\n{text}"
    else:
        yield f"[Resource: {_named(resource.uri)}{kind}, {_size(resource.blob)}; it cannot be shown here.]"


def _size(encoded: str) -> str:
    return f"{len(encoded.rstrip('=')) * 3 // 4:,} bytes"


def _named(text: str) -> str:
    return one_line(text[:MOST_NAME]) + ("…" if len(text) > MOST_NAME else "")


MOST_TOOLS = 100
"""Maximum number of tools of all servers together. OpenAI accepts 128 in a request, including Foldmark's own."""
STARTING, CALLING = 10.0, 60.0
"""Maximum seconds for the start of a server, and for one call."""


class Servers:
    """The servers of the `.mcp.json` in `folder`, as a context manager.

    `environment` holds the values of `${NAME}` in the file; by default it is this process's. `secrets` are never shown.
    """

    def __init__(
        self,
        folder: Path,
        secrets: Secrets = Secrets(),  # noqa: B008 - it does not change
        environment: Mapping[str, str] | None = None,
        *,
        starting: float = STARTING,
        calling: float = CALLING,
    ) -> None:
        self.folder, self.tools = Path(os.path.abspath(folder)), list[ModelTool]()  # noqa: PTH100 - as it is named
        self._secrets, self._environment = secrets, os.environ if environment is None else environment
        self._starting, self._calling = starting, calling
        self._opened = ExitStack()

    def __enter__(self) -> "Servers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, agent: Agent, asking: Asking) -> list[str]:
        """Start and connect all servers that the person agrees to, concurrently, and set `tools`. Call this only once.

        Return one line for each server or tool that failed. The wait for the servers is limited by their start time.
        """
        found = configured(self.folder, self._environment, self._secrets)
        wrong = [*found.wrong]
        servers, agreed = found.servers, []
        if servers and find_spec("mcp") is None:
            wrong.append(_missing(servers, "it is not installed"))
            servers = ()
        for server in servers:
            try:
                covers = all_uses(server.approval, f"the MCP server {server.name}, as it is configured now")
                approve(agent, server.approval, self._question(server), asking, coverage=covers)
                agreed.append(server)
            except CommandError as error:
                wrong.append(f"the MCP server {server.name} was not started: {error}")
        if agreed:
            wrong += self._connected(agreed)
        return [self._secrets.hidden(each) for each in wrong]

    def close(self) -> None:
        """Disconnect from all servers, end those that were started, and wait for their end."""
        self._opened.close()

    def _question(self, server: McpServer) -> str:
        if isinstance(server.at, Program):
            return f"start the MCP server {server.name} in {one_line(str(self.folder))}: {server.shown}"
        return f"connect to the MCP server {server.name}: {server.shown}"

    def _connected(self, servers: Sequence[McpServer]) -> list[str]:
        try:
            from anyio.from_thread import start_blocking_portal

            from foldmark.tools.mcp.connection import McpConnection
        except ImportError as error:
            return [_missing(servers, str(error))]  # an older SDK
        errors = self._opened.enter_context(TemporaryDirectory(prefix="foldmark-mcp-", ignore_cleanup_errors=True))
        portal = self._opened.enter_context(start_blocking_portal(name="foldmark-mcp"))
        self._opened.callback(portal.call, portal.stop, True)
        connections = [
            McpConnection(each, self.folder, Path(errors, f"{each.name}.log"), portal, self._starting, self._calling)
            for each in servers
        ]
        end = time.monotonic() + self._starting
        for connection in connections:
            connection.begin()
        return [text for connection in connections for text in self._take(connection, end - time.monotonic())]

    def _take(self, connection: "McpConnection", seconds: float) -> list[str]:
        """Add the tools of a server, and return the errors."""
        name = connection.server.name
        try:
            listed = connection.listed(seconds)
        except CommandError as error:
            return [f"the MCP server {name} is not there: {error}"]
        room = MOST_TOOLS - len(self.tools)
        tools, wrong = _offered(name, listed[:room], connection.call)
        if len(listed) > room:
            wrong.append(f"{len(listed) - room} tools of the MCP server {name} are left out: {MOST_TOOLS} are allowed")
        self.tools += tools
        return wrong


def _missing(servers: Sequence[McpServer], why: str) -> str:
    from foldmark.installation import installs

    names = listing(server.name for server in servers)
    return f"the MCP servers {names} need the package mcp ({why}); {installs('mcp')}"
