"""Results of MCP servers as text for a model."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from foldmark.core.codec import well_formed
from foldmark.core.wording import one_line

if TYPE_CHECKING:
    from mcp.types import CallToolResult

MOST = 100_000
"""Maximum number of characters of one result."""
MOST_TOLD = 200
"""Maximum number of characters of a name, a URL or a type in a line about content that is not shown."""


def result_text(result: "CallToolResult") -> str:
    """Return the texts of a result one below the other, a line for every other content, the structured content as JSON
    if there is no text; cut with a note after `MOST` characters."""
    pieces = list(_pieces(result.content))
    if result.structured_content is not None and not any(getattr(each, "text", "") for each in result.content):
        pieces.insert(0, msgspec.json.encode(well_formed(result.structured_content)).decode())
    return cut(well_formed("\n".join(pieces)))


def cut(text: str, most: int = MOST) -> str:
    """Return the text, or its beginning and its length."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[Cut here: {most:,} of {len(text):,} characters.]"


def _pieces(content: list[Any]) -> Iterator[str]:
    for each in content:
        match each.type:
            case "text":
                yield each.text
            case "image" | "audio":
                yield f"[{each.type.title()}: {_told(each.mime_type)}, {_size(each.data)}; it cannot be shown here.]"
            case "resource_link":
                kind = f", {_told(each.mime_type)}" if each.mime_type else ""
                yield f"[Resource: {_told(each.name)}, {_told(each.uri)}{kind}.]"
            case _:
                yield from _embedded(each.resource)


def _embedded(resource: Any) -> Iterator[str]:
    kind = f", {_told(resource.mime_type)}" if resource.mime_type else ""
    if (text := getattr(resource, "text", None)) is not None:
        yield f"[Resource: {_told(resource.uri)}{kind}.]\n{text}"
    else:
        yield f"[Resource: {_told(resource.uri)}{kind}, {_size(resource.blob)}; it cannot be shown here.]"


def _size(encoded: str) -> str:
    return f"{len(encoded.rstrip('=')) * 3 // 4:,} bytes"


def _told(text: str) -> str:
    return one_line(text[:MOST_TOLD]) + ("…" if len(text) > MOST_TOLD else "")
