"""Markdown for a terminal: links show their address and open nothing, headings are left-aligned, and no word of the
text disappears."""

from collections.abc import Mapping
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline, emphasis
from markdown_it.token import Token
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String  # type: ignore[import-untyped]
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.constrain import Constrain
from rich.markdown import CodeBlock, Heading, ImageItem, Markdown, MarkdownElement, Paragraph, TableElement
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax, SyntaxTheme
from rich.table import Table
from rich.text import Text

from foldmark.terminal.columns import PROSE

# HTML is text: `Vec<String>` and `<your-name>` are no tags to leave out. References are shown as written, and so are
# entities, because one may encode an escape or a mark that changes the text direction.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable(["entity", "reference"])


def _code_theme(comment: str, keyword: str, string: str, number: str, removed: str) -> SyntaxTheme:
    """Return a theme of few colours for code."""
    bold = Style(bold=True)
    colours = {Comment: comment, Keyword: keyword, Operator.Word: keyword, String: string, Number: number}
    colours |= {Generic.Deleted: removed, Generic.Inserted: string, Name.Tag: keyword, Name.Decorator: keyword}
    return ANSISyntaxTheme(
        {kind: Style(color=colour) for kind, colour in colours.items()}
        | dict.fromkeys((Name.Function, Name.Class, Generic.Heading), bold)
    )


_CODE: Mapping[bool, SyntaxTheme] = {
    True: _code_theme("#9e9e9e", "#5aa9e6", "#8fbf7f", "#d0a86e", "#f2555a"),
    False: _code_theme("#666666", "#0b5cad", "#2a682a", "#825600", "#b3261e"),
}
"""The themes of code on a dark background and on a light one."""


def _emphasis(state: StateInline, silent: bool) -> bool:
    """Read emphasis by `*` only: `__init__` and `_name` are no emphasis, and would lose a part of their names."""
    return state.src[state.pos] != "_" and emphasis.tokenize(state, silent)


_PARSER.inline.ruler.at("emphasis", _emphasis)


class _LeftHeading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _Code(CodeBlock):
    """A block of code. What follows the name of its language, such as the name of a file, is shown above it."""

    about = ""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> "_Code":
        found = super().create(markdown, token)
        assert isinstance(found, cls)
        found.about = token.info.strip().partition(" ")[2]
        return found

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        if self.about:
            yield Text(self.about)
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 1))


class _Paragraph(Paragraph):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text in super().__rich_console__(console, options):
            assert isinstance(text, Text)
            yield Constrain(text, PROSE)


class _Table(TableElement):
    """A table without the empty lines above and below it: paragraphs have one between them already."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            assert isinstance(table, Table)
            table.show_edge = False
            yield table


class _Image(ImageItem):
    """An image, by its text and its address."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text.assemble("🌆 ", self.text, f" ({self.destination})" if self.destination else "")


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "paragraph_open": _Paragraph,
        "table_open": _Table,
        "fence": _Code,
        "code_block": _Code,
        "image": _Image,
    }


def markdown(text: str, *, dark: bool) -> Markdown:
    """Return a text as Markdown that Rich can draw on a dark or a light background."""
    found = _Markdown("", hyperlinks=False)
    found.code_theme = _CODE[dark]  # type: ignore[assignment]  # Rich passes it on to `Syntax`, which takes both
    found.markup, found.parsed = text, _PARSER.parse(text)
    return found
