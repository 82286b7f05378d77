"""Markdown for a terminal: links show their address and open nothing, headings are left-aligned."""

from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.syntax import Syntax

# Entities are shown as written, because one may encode an escape or a mark that changes the text direction.
_PARSER = MarkdownIt().enable(["strikethrough", "table"]).disable("entity")


class _LeftHeading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 1))


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _Code,
        "code_block": _Code,
    }


def markdown(text: str, code_theme: str) -> Markdown:
    """Return a text as Markdown that Rich can draw."""
    found = _Markdown("", code_theme=code_theme, hyperlinks=False)
    found.markup, found.parsed = text, _PARSER.parse(text)
    return found
