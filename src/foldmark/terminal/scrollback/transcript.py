"""The conversation on the screen: pages of the log, lines that are not in the log, and the streaming answer.

The transcript draws lines, without a widget for each entry, and keeps only a few pages. The cost of a screen therefore
does not depend on the length of the conversation. The log is read in a thread.
"""

from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic
from typing import ClassVar, Literal

from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.timer import Timer

from foldmark.chat.display.operated import receipt_line
from foldmark.chat.display.pages import Pages, Place, read
from foldmark.chat.display.transcript import Entry, Gap, Operated, Said, ToolCallGroup
from foldmark.core.segments import normal, subtract
from foldmark.log import Agent, Result
from foldmark.operations.receipts import Receipt
from foldmark.rendering import result_text
from foldmark.terminal.operations import Possible, offer
from foldmark.terminal.prompt import InputPrompt
from foldmark.terminal.screens import Submit, notify_error, read_in_thread
from foldmark.terminal.scrollback.answer import Answer, number
from foldmark.terminal.scrollback.drawing import Drawing, Item, Key, Loose, LooseKind, is_apart, key_of
from foldmark.terminal.scrollback.surface import Surface

PAUSE = 0.1
"""Seconds between two drawings of a streaming answer."""

TICK, STILL_TICK = 0.2, 1.0
"""Seconds between two drawings of what an answer does, while nothing comes: with animations, and without."""


class Transcript(Surface):
    """The conversation; the cursor moves over its entries."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("home", "read('beginning')", "beginning", show=False),
        Binding("end", "read('end')", "end", show=False),
        Binding("enter", "open", "open", tooltip="open or fold a line, or list its operations"),
        Binding("escape", "leave", "back"),
    ]

    def __init__(self, submit: Submit) -> None:
        super().__init__()
        self._submit = submit
        self._agent: Agent | None = None
        self._pages = Pages()
        self._reading, self._shown = 0, 0  # numbers of the newest reading begun and of the one shown
        self._target: Place | None = None
        self._placed: list[tuple[int, Loose]] = []  # each with the event before it
        self._tail: list[Loose | Answer] = []  # shown after the pages until the log is read again
        self._begun = 0  # the newest event when the answer began
        self._levels: dict[Key, int] = {}
        self._drawing: Drawing | None = None
        self._drawn: dict[Key, tuple[object, list[Item]]] = {}
        self._pausing = False
        self.clock: Callable[[], float] = monotonic
        self._ticking: Timer | None = None

    # Called by the application

    @property
    def streaming(self) -> bool:
        """True while an answer streams."""
        return self._answer is not None

    @property
    def _answer(self) -> Answer | None:
        last = next((each for each in reversed(self._tail) if isinstance(each, Answer)), None)
        return last if last is not None and last.replaced_by is None else None

    def attend(self, agent: Agent) -> None:
        """Show the agent as it now is in the log."""
        if self._agent is None or agent.id != self._agent.id:
            self._pages, self._placed, self.following = Pages(), [], True
            self._levels.clear()
        self._agent = agent
        self._read(Place("end" if self.following else "same"))

    def add_line(self, text: str, *, error: bool = False) -> None:
        """Add text that is not in the log. While an answer streams, only a command of the person can fail."""
        self._add(self._loose(text, "error" if error else "line"), above=error)

    def add_typed(self, line: str) -> None:
        """Show a typed line until the log contains it, and the end of the conversation, where its answer comes."""
        self._tail = [each for each in self._tail if not _is_typed(each, line)]
        self._placed = [each for each in self._placed if not _is_typed(each[1], line)]
        self.following = True
        self._add(self._loose(line, "typed"), above=True)
        if self._ends_early:
            self.action_read("end")

    @property
    def _ends_early(self) -> bool:
        """True if the conversation goes on behind the pages shown."""
        return bool(self._pages.kept) and self._pages.kept[-1].newer

    def add_result(self, result: Result, *, typed: bool) -> None:
        """Add the result of a command; `typed` is True for a person's. A receipt replaces the line of its operation."""
        done = result.effect if isinstance(result.effect, Receipt) else None
        text = result_text(result) if done is None else "\n".join(filter(None, (result.text, receipt_line(done))))
        if text:
            line = self._loose(text, "line", done)
            if (answer := self._answer) is not None and done is not None:
                answer.add(line)
                self._draw_soon()
            else:
                self._add(line, above=typed)

    def _loose(self, text: str, kind: LooseKind, done: Receipt | None = None) -> Loose:
        event, back = (None, None) if done is None else (done.event_id, done.back)
        return Loose(number(), text.strip("\n"), kind, event, back, self._pages.newest)

    def _add(self, line: Loose, *, above: bool = False) -> None:
        """Add a line at the end. While an answer streams, it streams on below the line; after its end, the line stands
        `above` the answer or below it."""
        if (answer := self._answer) is not None:
            answer.add_beside(line, above=above)
        else:
            self._tail.append(line)
        self._draw_soon()

    def begin_answer(self) -> None:
        """Begin an answer after all other entries."""
        self._place(self._pages.newest)
        self._begun = self._pages.newest
        animated = self.app.animation_level != "none"
        self._tail.append(Answer(self._begun, self.clock, animated=animated))
        self._ticking = self.set_interval(TICK if animated else STILL_TICK, self._tick)
        self._draw_soon()

    def _tick(self) -> None:
        """Draw what the answer does, if the end is on the screen."""
        if self.following:
            self._draw_soon()

    def stream(self, add: Callable[[Answer], None]) -> None:
        """Add a piece to the answer, unless it has ended."""
        if (answer := self._answer) is not None:
            add(answer)
            self._draw_soon()

    def end_answer(self) -> None:
        """Replace the streamed answer with the recorded one once that has been read."""
        if (answer := self._answer) is not None:
            if self._ticking is not None:
                self._ticking.stop()
                self._ticking = None
            answer.replaced_by = self._reading + 1
            self._read(Place("end" if self.following else "same"))

    def jump(self, event_id: int) -> None:
        """Show an event and put the cursor on it: read its page and open the entry that contains it."""
        self.focus()
        self._target = Place("event", event_id)
        self._read(self._target)

    # Reading

    def _read(self, place: Place) -> None:
        if self._agent is not None:
            self._reading, place = self._reading + 1, self._target or place
            wanted = partial(read, self._agent, place, self._pages)
            show, fail = partial(self._show, place, self._reading), partial(self._fail, self._reading)
            read_in_thread(self, wanted, show, failed=fail, group="transcript")

    def _fail(self, reading: int, message: str) -> None:
        self._target, self._shown = None, reading
        notify_error(self, message)

    def _show(self, place: Place, reading: int, pages: Pages) -> None:
        self._pages, self._shown, self._target = pages, reading, None
        self._drop_replaced(reading)
        newest = pages.newest
        if self.streaming and pages.open_turn is not None:
            newest = min(newest, max(self._begun, pages.open_turn - 1))
        self._place(newest)
        if place.where in ("end", "beginning", "event"):
            self.following = place.where == "end"
        self._draw()
        if place.where == "event":
            self._go_to(place.event)
        elif place.where == "beginning" and self._items:
            self.scroll_to(y=0, animate=False, immediate=True)
            self.set_cursor(self._items[0].key)
        self._read_on()

    def _drop_replaced(self, reading: int) -> None:
        """Drop the answers that this reading of the log replaces, and keep the lines beside them."""
        tail, self._tail = self._tail, []
        for each in tail:
            if not isinstance(each, Answer) or each.replaced_by is None or each.replaced_by > reading:
                self._tail.append(each)
                continue
            # The prompt is the first event of the turn: what stands above the answer stands behind it.
            self._placed += [(each.after + 1, line) for line, above in each.beside if above]
            self._tail += [line for line, above in each.beside if not above]

    def _place(self, event: int) -> None:
        """Attach the lines before the answer to an event, which they follow from now on."""
        while self._tail and isinstance(line := self._tail[0], Loose):
            self._placed.append((event, line))
            del self._tail[0]

    def _read_on(self) -> None:
        """Read the next older or newer page if the person is near either end of the pages shown."""
        pages = self._pages.kept
        if not pages or self._shown != self._reading or not self.size.height:
            return
        if self.scroll_y < self.size.height and pages[0].older:
            self._read(Place("older"))
        elif self.scroll_y > self.max_scroll_y - self.size.height and pages[-1].newer:
            self._read(Place("newer"))

    # Drawing

    def _entries(self) -> Iterator[Entry | Loose]:
        """Yield all entries and lines in order."""
        pages = self._pages.kept
        receipts = {line.event for _, line in self._placed} | {e.event for e in self._tail if isinstance(e, Loose)}
        shown = [entry for each in pages for entry in each.entries if self._counts(entry)]
        said = {(e.text, e.id) for e in shown if isinstance(e, Said) and e.kind == "user" and e.actor == "human"}

        def is_said(line: Loose) -> bool:
            return line.kind == "typed" and any(text == line.text and id > line.since for text, id in said)

        first = pages[0].first if pages else 0
        lines = [(event, line) for event, line in self._placed if event >= first and not is_said(line)]
        for entry in shown:
            while lines and lines[0][0] < entry.id:
                yield lines.pop(0)[1]
            if not (isinstance(entry, Operated) and entry.id in receipts):
                yield entry
        if not self._ends_early:
            yield from (line for _, line in lines)
            for each in self._tail:
                if isinstance(each, Answer):
                    yield from each.entries
                elif not is_said(each):
                    yield each

    def _counts(self, entry: Entry) -> bool:
        """Return False for the messages of a streaming turn: the answer already shows them."""
        turn = self._pages.open_turn
        return not (self.streaming and turn is not None and entry.id >= turn and entry.id > self._begun)

    def _draw_soon(self) -> None:
        if not self._pausing:
            self._pausing = True
            self.set_timer(PAUSE if self.streaming else 0.01, self._draw)

    def _draw(self) -> None:
        """Draw the entries that have changed, without moving the lines on the screen."""
        self._pausing = False
        width = self.scrollable_content_region.width
        if width < 1:
            return
        if self._drawing is None or self._drawing.width != width:
            self._drawing = Drawing(width, self.styles_by_name(), dark=self.app.current_theme.dark)
            self._drawn = {}
        before: Entry | Loose | None = None
        items: list[Item] = []
        drawn: dict[Key, tuple[object, list[Item]]] = {}
        for entry in self._entries():
            key = key_of(entry)
            levels = {each: level for each, level in self._levels.items() if each[0] == key[0]}
            state = (entry, levels, is_apart(entry, before))
            known = self._drawn.get(key)
            drawn[key] = known if known and known[0] == state else (state, self._drawing.items(*state))
            items += drawn[key][1]
            before = entry
        self._drawn, self.indent = drawn, self._drawing.gutter
        self.show(items, width)

    def on_resize(self, event: Resize) -> None:
        """Draw for the new width."""
        self._draw()
        self._read_on()

    def on_mount(self) -> None:
        """Redraw whenever the theme changes."""
        self.watch(self.app, "theme", self._redraw_soon, init=False)

    def _redraw_soon(self) -> None:
        self.call_after_refresh(self._redraw)

    def _redraw(self) -> None:
        self._drawing = None
        self._draw()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow the end if it is shown. Read another page near either end of the pages."""
        super().watch_scroll_y(old_value, new_value)
        self.following = not self._ends_early and new_value >= self.max_scroll_y - 1
        self._read_on()

    # Keys

    def _go_to(self, event_id: int) -> None:
        """Put the cursor on an event, or on the item that contains it."""
        found: Key | None = None
        for item in self._items:
            if item.call is not None and event_id in (item.call.id, item.call.result):
                found = item.key
                break
            if isinstance(item.entry, ToolCallGroup) and any(
                event_id in (call.id, call.result) for call in item.entry.calls
            ):
                self._levels[item.key] = 1
                self._draw()
                self._go_to(event_id)
                return
            if 0 < item.key[0] <= event_id and not isinstance(item.entry, Gap):
                found = item.key
        if found is not None:
            self.set_cursor(found)

    def action_read(self, where: Literal["beginning", "end"]) -> None:
        """Show the beginning or the end of the conversation."""
        self._target, self._cursor = Place(where), None
        self._read(self._target)

    def action_open(self) -> None:
        """Open or fold the item at the cursor, or offer the operations on it."""
        item, agent = self.current, self._agent
        if item is None or agent is None:
            return
        fold = partial(self._fold, item)
        operations = _operations(item, self.screen.query_one(InputPrompt).resend)
        if not operations:
            fold()
            return
        shown = "hide it" if isinstance(item.entry, Gap) and item.entry.opened else "show more of it, or fold it"
        heading = next((strip.text for strip in item.strips if strip.text.strip()), "")
        offer(self, agent, " ".join(heading.split()), (Possible(shown, act=fold), *operations), self._submit)

    def _fold(self, item: Item) -> None:
        if isinstance(item.entry, Gap):
            opened, gap = self._pages.opened, item.entry
            opened = subtract(opened, gap.segments) if gap.opened else normal((*opened, *gap.segments))
            self._pages = self._pages._replace(opened=opened)
            self.following = False
            self._read(Place("same"))
        else:
            self._levels[item.key] = self._levels.get(item.key, 0) + 1
            self.following = False
            self._draw()

    def action_leave(self) -> None:
        """Return to the prompt."""
        self.screen.query_one(InputPrompt).focus()


def _operations(item: Item, resend: Callable[[int, str], object]) -> list[Possible]:
    """Return the operations on an item, without opening and folding it. `resend` puts the text of a turn's prompt at
    the prompt, to be edited and sent in its place."""
    entry, call = item.entry, item.call
    if call is not None:
        if call.evicted:
            return [Possible("send the result again", f"/restore {call.evicted}", priced=True)]
        if call.evicted is None and call.result is not None and call.result >= 0:
            return [Possible("evict the result: a placeholder is sent", f"/context evict {call.result}", priced=True)]
        return []
    if isinstance(entry, Gap | Operated | Loose) and entry.back is not None:
        return [Possible("take it back", entry.back, priced=True)]
    if isinstance(entry, Said) and entry.opens is not None and not entry.left:
        pin, rewind = "unpin" if entry.opens.pinned else "pin", f"/rewind {entry.id}"
        edit = Possible(
            "edit and resend: go back to before it", rewind, partial(resend, entry.id, entry.text), priced=True
        )
        return [
            *([edit] if entry.kind == "user" and entry.actor == "human" else []),
            Possible("rewind to here: it leaves with all that follows", rewind, priced=True),
            Possible("fork from here: a child begins with it", f"/fork {entry.id}"),
            Possible("drop this turn", f"/context drop {entry.id}", priced=True),
            Possible(f"{pin} it", f"/{pin} {entry.id}"),
        ]
    return []


def _is_typed(each: object, line: str) -> bool:
    return isinstance(each, Loose) and each.kind == "typed" and each.text == line.strip("\n")
