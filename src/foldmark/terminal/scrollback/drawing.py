"""Draw entries of a transcript as terminal lines: wrapped, behind a sign for who speaks, with Markdown rendered, and
with ids and sizes at the right.

All text comes from a model, a file or a person, and is made harmless before it is drawn. Long text is cut before it is
wrapped.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme
from textual.strip import Strip

from foldmark.chat.display.operated import brief
from foldmark.chat.display.transcript import Call, Entry, Flag, Gap, Operated, Said, ToolCallGroup, WindowEdge
from foldmark.core.wording import count, one_line, told_title
from foldmark.rendering import harmless
from foldmark.terminal.columns import PROSE, fitted

GUTTER = 3
"""Columns before each line: the bar of the cursor, a sign for who speaks, and a space."""

PREVIEW = 3
"""Number of lines of a tool result to show before it is opened."""

FOLDED = 12
"""Number of lines of a person's text or a command's output to show before it is opened."""

MANY_CALLS = 3
"""Minimum number of consecutive calls that are drawn as one line until it is opened."""

ANSWER, WHOLE = 20_000, 200_000
"""Maximum characters to render: of an answer, and of anything that was opened."""

LABELS = {
    "client": "Told by the client",
    "summary": "Summary",
    "system": "System message",
    "mail": "Mail",
    "user": "Notice",
    "tool": "Tool",
}
"""Labels above messages that come from neither a person nor a model."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_WORDS, _BETWEEN = re.compile(r"\w+"), re.compile(r"\W+")
_LANGUAGE = re.compile(r"^[ >]*(?:[-*+] +|\d+[.)] +)*(?:`{3,}|~{3,})[ ]*\S+", re.MULTILINE)
"""The first line of a code block, up to the name of its language."""

Key: TypeAlias = tuple[int, int]
"""The cursor's target: the id of an entry, then the id of a call in it or the entry's value in `RANKS`."""


LooseKind = Literal["line", "error", "typed"]


class Loose(Struct, frozen=True):
    """Text that is not in the log: a notice, a command's output, its receipt (of operation `event`), or a line that a
    person typed. `since` is the newest event at the time when the text was added."""

    id: int
    text: str
    kind: LooseKind = "line"
    event: int | None = None
    back: str | None = None
    since: int = 0


RANKS: Mapping[type, int] = {Gap: -1, WindowEdge: -2, Operated: -3, Flag: -4, Loose: -5}
"""Numbers that distinguish entries with the same id."""


def key_of(entry: Entry | Loose) -> Key:
    """Return the key of an entry, or of the line above its calls."""
    return entry.id, RANKS.get(type(entry), 0)


class Item(NamedTuple):
    """Lines that the cursor treats as one: those of entry `entry`, or of one of its calls."""

    key: Key
    strips: list[Strip]
    entry: Entry | Loose
    call: Call | None = None


class Drawing:
    """Draws entries for a width in columns, in these `styles`, those of `Surface`. `levels` counts how often each item
    was opened or folded, from 0."""

    def __init__(self, width: int, styles: Mapping[str, Style], *, dark: bool) -> None:
        self.width, self.gutter = width, GUTTER
        self.room = max(20, width - self.gutter - 1)
        self._styles, self._dark = styles, dark
        accent, muted = styles["accent"], styles["muted"]
        bold = Style(bold=True)
        named = {f"markdown.h{level}": bold for level in range(1, 7)} | {"markdown.h1.border": muted}
        named |= {"markdown.code": accent, "markdown.item.bullet": accent, "markdown.item.number": accent}
        named |= {"markdown.block_quote": muted, "markdown.link": Style(underline=True), "markdown.link_url": muted}
        named |= {"markdown.hr": muted, "markdown.table.border": muted, "markdown.table.header": bold}
        self._console = Console(
            file=StringIO(), width=width, theme=Theme(named), force_terminal=True, color_system="truecolor"
        )

    def items(self, entry: Entry | Loose, levels: Mapping[Key, int], apart: bool) -> list[Item]:
        """Draw an entry, after an empty line if it is `apart`."""
        first, *rest = self._entry(entry, levels)
        return [first._replace(strips=[Strip([]), *first.strips]) if apart else first, *rest]

    def _entry(self, entry: Entry | Loose, levels: Mapping[Key, int]) -> Iterator[Item]:
        key = key_of(entry)
        level = levels.get(key, 0)
        match entry:
            case Said():
                yield Item(key, self._said(entry, level), entry)
            case ToolCallGroup():
                yield from self._calls(entry, levels)
            case Flag(name=name):
                yield Item(key, self._block([self._plain(one_line(name), "accent")], sign=("⚑", "accent")), entry)
            case WindowEdge():
                text = f" {entry.line} "
                left = max(1, (self.width - cell_len(text)) // 2)
                right = "─" * max(1, self.width - left - cell_len(text) - 1)
                rule = [Segment(" "), *self._plain("─" * (left - 1), "line"), *self._plain(text, "muted")]
                yield Item(key, [Strip([*rule, *self._plain(right, "line")]), Strip([])], entry)
            case Gap(line=line, back=back, opened=opened):
                hint = f"Enter {'hides' if opened else 'shows'} it"
                yield Item(key, self._operated(line, " · ".join(filter(None, (back, hint)))), entry)
            case Operated(line=line, back=back):
                yield Item(key, self._operated(line, back or ""), entry)
            case Loose(text=text, kind="typed"):
                yield Item(key, self._block(self._folded(text, level, "user"), sign=("▌", "user")), entry)
            case Loose(text=text, event=int()):
                yield Item(key, self._operated(text, ""), entry)
            case Loose(text=text, kind=kind):
                style, sign = ("error", "✕") if kind == "error" else ("muted", "")
                yield Item(key, self._block(self._folded(text, level, style), sign=(sign, style)), entry)

    def _operated(self, line: str, aside: str) -> list[Strip]:
        """Draw an operation: its sign before its text, and its way back at the right."""
        sign, _, text = line.partition(" ") if cell_len(line.partition(" ")[0]) == 1 else ("", "", line)
        room = self.room - cell_len(aside) - 2 if aside else self.room
        if room < self.room // 2:  # no room beside the text
            text, aside, room = f"{text} · {aside}", "", self.room
        return self._block(self._lines(text, "operation", room), sign=(sign, "operation"), aside=aside)

    # Texts

    def _said(self, said: Said, level: int) -> list[Strip]:
        person = said.kind == "user" and said.actor == "human"
        aside = ""
        if said.opens is not None:
            tokens, calls, pinned = said.opens
            called = [count(calls, "call")] if calls else []
            aside = " · ".join([*(["📌"] if pinned else []), f"turn {said.id}", *called]) + f"{brief(tokens):>7}"
        lines: list[list[Segment]] = []
        if not person and said.kind != "assistant":
            lines += self._lines(LABELS.get(said.kind, said.kind.replace("_", " ")), "muted")
        if said.kind in ("assistant", "summary"):
            lines += self._answer(said.text, level)
        elif said.kind == "client" and level % 2 == 0:
            lines = self._lines(f"{LABELS[said.kind]} · {told_title(said.text, max(20, self.room - 22))}", "muted")
        elif said.text.strip():
            narrow = min(PROSE, self.room - cell_len(aside) - 2 if aside else self.room)
            lines += self._folded(said.text, level, "user" if person else "plain", narrow)
        if said.interrupted:
            lines += self._lines("(interrupted)", "muted")
        style = "left" if said.left else "muted" if said.outside else None
        sign = ("✂", "operation") if said.left else ("▌", "user") if person else ("", "")
        return self._block(lines or [[]], aside=aside, over=style, sign=sign, along=person)

    def _answer(self, text: str, level: int) -> list[list[Segment]]:
        limit = WHOLE if level % 2 else ANSWER
        shown = text[:limit]
        lines = self._markdown(shown)
        if len(text) > limit:
            more = f"… {len(text) - limit:,} more characters" + ("" if level % 2 else " · Enter opens")
            lines += self._lines(more, "muted")
        return lines

    def _markdown(self, text: str) -> list[list[Segment]]:
        from foldmark.terminal.scrollback.markdown import markdown  # takes 60 ms, with its imports

        try:
            lines = self._rendered(markdown(harmless(text), dark=self._dark), self.room)
        except Exception:  # show even text that breaks the Markdown renderer
            lines = []
        if not _shows_all(text, lines):
            lines = self._rendered(Text(harmless(text), overflow="fold"), self.room)
        while lines and not "".join(segment.text for segment in lines[-1]).strip():
            lines.pop()
        while lines and not "".join(segment.text for segment in lines[0]).strip():
            del lines[0]
        return lines

    def _folded(self, text: str, level: int, style: str, width: int | None = None) -> list[list[Segment]]:
        """Wrap a text without rendering it. Until it is opened, wrap only its beginning."""
        if level % 2:
            return self._cut(text, WHOLE, WHOLE, style, width, "")
        return self._cut(text, FOLDED, FOLDED * 200, style, width, " · Enter opens")

    def _cut(
        self, text: str, most: int, characters: int, style: str, width: int | None, hint: str
    ) -> list[list[Segment]]:
        """Wrap the first lines of a text, and add a line that states how much remains."""
        kept = "\n".join(text[: characters + 1].split("\n")[:most])[:characters]
        lines = self._lines(kept, style, width)
        rest = text[len(kept) :].strip("\n")
        more = count(rest.count("\n") + 1, "more line") if text[len(kept) :].startswith("\n") else ""
        if rest:
            lines += self._lines(f"… {more or f'{len(rest):,} more characters'}{hint}", "muted", width)
        return lines

    # ToolCallGroup

    def _calls(self, calls: ToolCallGroup, levels: Mapping[Key, int]) -> Iterator[Item]:
        over = "left" if calls.left else "muted" if calls.outside else None
        many, opened = len(calls.calls) >= MANY_CALLS, levels.get((calls.id, 0), 0) % 2
        if many:
            size = brief(sum(call.tokens for call in calls.calls))
            line = self._fitted(one_line(calls.line), "muted", self.room - cell_len(size) - 4)
            title = [*self._plain("▾ " if opened else "▸ ", "tool"), *line]
            yield Item((calls.id, 0), self._block([title], aside=size, over=over), calls)
        for call in calls.calls if opened or not many else ():
            level = levels.get((calls.id, call.id), 0) + (0 if many else 1)
            yield Item((calls.id, call.id), self._call(call, level % 3, over, 2 if many else 0), calls, call)

    def _call(self, call: Call, level: int, over: str | None, indent: int) -> list[Strip]:
        """Draw a call with none of its result (level 0), the beginning of it (1) or all of it (2)."""
        room = self.room - indent
        state = "no result yet" if call.result is None else "evicted" if call.evicted is not None else ""
        state = state or ("failed" if call.failed else "")
        if not level and not state:
            state = count(call.text.count("\n") + 1 if call.text else 0, "line")
        size, sign = brief(call.tokens), "▾ " if level else "▸ "
        name, end = one_line(call.name), f" · {state}" if state else ""
        about = fitted(f" {one_line(call.about)}", max(0, room - cell_len(size + name + end) - 4)) if call.about else ""
        title = [*self._plain(sign, "tool"), *self._fitted(name, "tool", room - cell_len(size) - 4)]
        shown = [[*title, *self._plain(about, "muted"), *self._plain(end, "error" if call.failed else "muted")]]
        if level and call.evicted is not None:
            back = f"/restore {call.evicted} sends it again" if call.evicted else "only the parent can take it back"
            shown += self._indented(self._lines(f"a placeholder is sent in its place; {back}", "muted", room - 2))
        if level == 2 or (level and call.evicted is None):
            hint = "" if level == 2 else " · Enter opens or evicts"
            lines, characters = (WHOLE, WHOLE) if level == 2 else (PREVIEW, 100 * PREVIEW)
            shown += self._indented(self._cut(call.text, lines, characters, "muted", room - 2, hint))
        return self._block(self._indented(shown, indent), aside=size, over=over)

    def _indented(self, lines: list[list[Segment]], by: int = 2) -> list[list[Segment]]:
        return [[Segment(" " * by), *line] for line in lines]

    # Lines

    def _plain(self, text: str, style: str) -> list[Segment]:
        return [Segment(text, self._styles[style])]

    def _fitted(self, text: str, style: str, width: int) -> list[Segment]:
        return self._plain(fitted(text, width), style)

    def _lines(self, text: str, style: str, width: int | None = None) -> list[list[Segment]]:
        found = Text(harmless(text), self._styles[style], overflow="fold", tab_size=4)
        return self._rendered(found, width or self.room)

    def _rendered(self, what: RenderableType, width: int) -> list[list[Segment]]:
        options = self._console.options.update(width=max(10, width), height=None)
        return [_clean(line) for line in self._console.render_lines(what, options, pad=False)]

    def _block(
        self,
        lines: Sequence[list[Segment]],
        *,
        aside: str = "",
        over: str | None = None,
        sign: tuple[str, str] = ("", ""),
        along: bool = False,
    ) -> list[Strip]:
        """Indent lines after a sign, given with its style, with `aside` at the right end of the first line. The sign
        stands before the first line, or `along` all of them."""
        strips = []
        for index, line in enumerate(lines):
            mark, style = sign if along or not index else ("", "")
            before = Segment(f" {mark or ' '}".ljust(self.gutter), self._styles[style or "muted"])
            line = [before, *line]
            if aside and not index:
                taken = sum(cell_len(segment.text) for segment in line)
                gap = " " * max(2, self.width - 1 - taken - cell_len(aside))
                line += [Segment(gap), Segment(aside, self._styles["muted"])]
            if over:
                line = list(Segment.apply_style(line, post_style=self._styles[over]))
            strips.append(Strip(line))
        return strips


def is_apart(entry: Entry | Loose, before: Entry | Loose | None) -> bool:
    """Return True if an empty line separates two entries."""
    aside = isinstance(before, Gap | Operated | Loose)
    match entry:
        case _ if before is None or isinstance(before, WindowEdge):
            return False
        case Said(opens=None) | ToolCallGroup():  # parts of a streaming answer have no ids from the log
            return aside or (isinstance(before, Said) and entry.id < 0 and before.id < 0)
        case Said():
            return not isinstance(before, Flag)
        case Gap() | Operated() | Loose():
            return not aside
        case _:
            return True


def _shows_all(text: str, lines: Sequence[Sequence[Segment]]) -> bool:
    """Return True if the lines show every word of a text in Markdown, except the languages of its code blocks. A
    renderer drops the surplus cells of a table, for example."""
    shown = " ".join("".join(segment.text for segment in line) for line in lines)
    lost = set(_WORDS.findall(_LANGUAGE.sub("", harmless(text)))) - set(_WORDS.findall(shown))
    joined = _BETWEEN.sub("", shown) if lost else ""  # words that were wrapped
    return all(word in joined for word in lost)


def _clean(line: list[Segment]) -> list[Segment]:
    """Replace control characters that a renderer may have decoded, such as an escape written as an HTML entity."""
    return [
        Segment(_CONTROL.sub("�", text), style) if _CONTROL.search(text) else Segment(text, style)
        for text, style, _ in line
    ]
