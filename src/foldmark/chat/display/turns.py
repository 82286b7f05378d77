"""The turns of a conversation as a list to choose from: their places and sizes, and the cost of an edit to the ticked
ones.

The list has a section for each place: the turns that are sent, those before the window, and those that are out. The
cost grows with the window. The messages of the other two sections are read page by page.
"""

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from foldmark.chat.display.operated import brief, line
from foldmark.chat.display.transcript import about
from foldmark.chat.imported import folder_of
from foldmark.chat.live import is_live
from foldmark.core.agents import Size
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.ports import Snapshot
from foldmark.core.segments import Segments, subtract, until
from foldmark.core.wording import count, listing, title
from foldmark.cost.filling import FORM, ORDER, RESULT, Portion
from foldmark.cost.messages import BEFORE, OUT, SENT, NextMessages, Place
from foldmark.cost.requests import Decision, Preview, preview
from foldmark.editing.evicting import eviction
from foldmark.editing.suggesting import superfluous
from foldmark.log import Agent
from foldmark.log.live_session import client_tokens
from foldmark.operations import decide
from foldmark.operations.history import newest_restorable, operations
from foldmark.request.standing import Standing

PAGE = 1000
"""Number of messages of a section that are read at a time."""

PLACEHOLDER = 40
"""Maximum tokens of the placeholder for an evicted result. Shorter results of a ticked turn are not evicted."""

ORDERS = ("size", "newest", "results", "kind")
"""The sort orders of the list. `results` lists the results alone, by size; `kind` the results of each tool together,
then the turns."""


class TurnRow(NamedTuple):
    """A turn, or a tool result in it (`tool` names the tool; empty for a turn). `id` is the GID or the result's event.

    `tokens` is its size as `NextMessages` has it. `kinds` are the kinds of content of the turn and the names of its
    tools, as in `cost.filling`; `results` is the number of its results that are listed. `back` is the command that
    restores a turn that is out, if there is one.
    """

    id: int
    turn: int
    title: str
    tokens: int
    tool: str = ""
    calls: int = 0
    pinned: bool = False
    evicted: bool = False
    shortened: bool = False
    place: Place = SENT
    kinds: frozenset[str] = frozenset()
    results: int = 0
    back: str | None = None

    @property
    def sent(self) -> bool:
        """True if the next request has the turn."""
        return self.place == SENT


class Section(NamedTuple):
    """The heading of the turns in one place. `size` is that of all its messages, and `older` the number of those that
    are not listed yet."""

    place: Place
    size: Size
    older: int


class More(NamedTuple):
    """The line below the turns of a section for those that are not listed yet."""

    place: Place
    older: int


Line: TypeAlias = TurnRow | Section | More


class ContextTurns(NamedTuple):
    """The turns of a conversation, newest first, each followed by its results, and the `sections` that have messages.
    `tokens` is the size of the next request. `back` is the newest operation to restore, and `newest` the agent's newest
    event."""

    rows: tuple[TurnRow, ...]
    sections: tuple[Section, ...]
    tokens: int
    back: int | None
    newest: int


def context_turns(agent: Agent, listed: Mapping[Place, int] | None = None) -> ContextTurns:
    """Return the turns of the next request, and the turns of the newest messages before the window and out of the
    context; `listed` has the number of messages to read for each place. Raises FoldmarkError."""
    with agent.reading() as (moment, at):
        request = agent.next_request()
        coming = NextMessages(moment, at, request)
        rows = _sent(coming.portions, at, folder_of(agent))
        tokens = client_tokens(agent, moment, at) if is_live(agent) else request.tokens
        visible = at.visible
        before = coming.before(moment)
        out = subtract(until(at.lineage, at.newest), visible)
        sent = Size(at.size.messages - moment.size(before).messages, sum(row.tokens for row in rows if not row.tool))
        sections = [Section(SENT, sent, 0)]
        inside = {row.turn for row in rows}
        for place, segments in ((BEFORE, before), (OUT, out)):
            size = coming.whole(moment.size(segments))
            most = (listed or {}).get(place, 0)
            found = _listed(moment, segments, most, coming, inside)
            rows += found.rows
            if size.messages:
                sections.append(Section(place, size, max(0, size.messages - found.messages)))
        back = newest_restorable(moment, at)
    rows.sort(key=lambda row: -row.turn)
    return ContextTurns(tuple(rows), tuple(sections), tokens, back, at.newest)


def _sent(found: Sequence[Portion], at: Standing, folder: str) -> list[TurnRow]:
    """Return the rows of a request with these parts: its turns, then the results. `folder` is as for `about`."""
    turns: dict[int, TurnRow] = {}
    results: list[TurnRow] = []
    calls: deque[str] = deque()
    for each in found:
        part = each.part
        if part is None or part.turn is None or part.layer not in ("window", "pinned"):
            continue
        if part.kind == "tool_call":
            calls.append(part.text.partition("(")[2][:-1])
        is_result = each.kind == RESULT and part.event is not None
        asked = calls.popleft() if each.kind == RESULT and calls else ""
        before = turns.get(part.turn) or TurnRow(part.turn, part.turn, "", 0, pinned=part.turn in at.fold.pins)
        turns[part.turn] = before._replace(
            title=before.title or ("" if part.kind == "client" else title(part.text)),
            tokens=before.tokens + each.tokens,
            calls=before.calls + (part.kind == "tool_call"),
            kinds=before.kinds | ({each.name} if each.kind != FORM else set()),
            results=before.results + is_result,
        )
        if is_result and part.event is not None:
            named = f"{each.name} {about(asked, folder)}".rstrip()
            evicted, shortened = part.how == "evicted", part.how == "truncated"
            row = TurnRow(part.event, part.turn, named, each.tokens, each.name, evicted=evicted, shortened=shortened)
            results.append(row)
    return [*turns.values(), *results]


class _Listed(NamedTuple):
    rows: list[TurnRow]
    messages: int


def _listed(moment: Snapshot, segments: Segments, most: int, coming: NextMessages, inside: Collection[int]) -> _Listed:
    """Return a row for each turn of the newest `most` messages in segments that are not sent, except the turns that are
    listed already, and the number of messages read."""
    read = list(islice(moment.select(segments, newest_first=True, expected=most), most)) if most else []
    turns: dict[int, TurnRow] = {}
    for each in read:
        place = coming.place(each)
        if each.turn_id is None or (each.turn_id in inside and place != OUT) or place == SENT:
            continue
        before = turns.get(each.turn_id)
        if before is None:
            by = coming.out_by(each.agent_id, each.id) if place == OUT else None
            before = TurnRow(each.turn_id, each.turn_id, "", 0, place=place, back=None if by is None else by.back)
        kind = {"tool_call": "assistant", "tool_result": "", "summary": "summaries"}.get(each.kind, each.kind)
        turns[each.turn_id] = before._replace(
            title=("" if each.kind == "client" else title(each.content)) or before.title,
            tokens=before.tokens + coming.tokens(each),
            calls=before.calls + (each.kind == "tool_call"),
            kinds=before.kinds | {kind} if kind else before.kinds,
        )
    return _Listed(list(turns.values()), len(read))


class RowFilter:
    """The rows that a person looks for: `wanted` is part of a title, an id, or the name of a kind or a tool, which then
    matches nothing else. An empty text matches every row."""

    def __init__(self, rows: Iterable[TurnRow], wanted: str) -> None:
        self._low = wanted.casefold().strip()
        self._exact = self._low in ORDER or any(self._low == kind.casefold() for row in rows for kind in row.kinds)

    def __bool__(self) -> bool:
        return bool(self._low)

    def matches(self, row: TurnRow) -> bool:
        """Return True if a row matches by itself."""
        low = self._low
        if not low:
            return True
        if self._exact:
            return low == row.tool.casefold() or (not row.tool and any(low == kind.casefold() for kind in row.kinds))
        return self.in_title(row)

    def in_title(self, row: TurnRow) -> bool:
        """Return True if the text is in the title of a row, or is its id."""
        return self._low in row.title.casefold() or self._low in (str(row.turn), str(row.id))


def arranged(
    found: ContextTurns, order: str, wanted: str = "", opened: Collection[int | Place] = (SENT,)
) -> list[Line]:
    """Return the lines of the list in one of `ORDERS`: a heading for each section, below it the turns, and below these
    the results, the largest first, of sections and turns in `opened`. A filter opens what it finds."""
    filtered = RowFilter(found.rows, wanted)
    matched = [row for row in found.rows if filtered.matches(row)]
    heads = {row.turn for row in matched if row.tool}
    rows = [row for row in found.rows if filtered.matches(row) or (not row.tool and row.id in heads)]
    if order in ("results", "kind"):
        return [*(_results(matched) if order == "results" else _by_tool(matched))]
    lines: list[Line] = []
    for section in found.sections:
        mine = [row for row in rows if row.place == section.place]
        if filtered and not mine:
            continue
        lines.append(section)
        if section.place in opened or filtered:
            lines += _below(mine, order, None if filtered else opened)
            lines += [More(section.place, section.older)] if section.older else []
    return lines


def _below(rows: Sequence[TurnRow], order: str, opened: Collection[int | Place] | None) -> Iterator[TurnRow]:
    """Yield turns, each with its results if it is in `opened`; None stands for all turns."""
    results: dict[int, list[TurnRow]] = {}
    for row in rows:
        if row.tool:
            results.setdefault(row.turn, []).append(row)
    turns = [row for row in rows if not row.tool]
    for turn in sorted(turns, key=lambda row: (0 if order == "newest" else -row.tokens, -row.turn)):
        yield turn
        if opened is None or turn.id in opened:
            yield from _results(results.get(turn.id, ()))


def _results(rows: Iterable[TurnRow]) -> list[TurnRow]:
    return sorted((row for row in rows if row.tool), key=lambda row: (-row.tokens, row.id))


def _by_tool(rows: Sequence[TurnRow]) -> list[TurnRow]:
    """Return the results of each tool, the tool with the most tokens first, then the turns."""
    sums: dict[str, int] = {}
    for row in rows:
        sums[row.tool] = sums.get(row.tool, 0) + row.tokens
    return sorted(rows, key=lambda row: (not row.tool, -sums[row.tool], row.tool, not row.sent, -row.tokens))


def own_matches(lines: Iterable[Line], wanted: str) -> set[int]:
    """Return the ids of the turns and results among these lines, as `arranged`, that match `wanted` by themselves, and
    not only as the headings of results that do. Without a text, results go with their turns. What is out has left
    already."""
    rows = [line for line in lines if isinstance(line, TurnRow) and line.place != OUT]
    filtered = RowFilter(rows, wanted)
    if not filtered:
        turns = {row.id for row in rows if not row.tool}
        return {row.id for row in rows if not row.tool or row.turn not in turns}
    heads = {row.turn for row in rows if row.tool and filtered.matches(row)}
    return {
        row.id for row in rows if filtered.matches(row) and (row.tool or row.id not in heads or filtered.in_title(row))
    }


_RULE = re.compile(r"(?P<tool>(?!over\b|>)\S+)?\s*(?:(?:over|>)\s*(?P<number>[\d.,]+)\s*(?P<thousand>[kK])?)?")


def results_named(rows: Iterable[TurnRow], rule: str) -> set[int]:
    """Return the ids of the results that a rule names: those `over 2K` tokens, those of a tool (`bash`), or both
    (`bash over 500`). Raises CommandError for a rule of another form, and for one that names no result."""
    results = [row for row in rows if row.tool and row.sent and not row.evicted]
    rule = " ".join(rule.split())
    found = _RULE.fullmatch(rule)
    tools = sorted({row.tool for row in results})
    wrong = f"“{rule}” names no result; say `over 2K`, a tool ({listing(tools, 6)}), or both: `bash over 2K`"
    if found is None or not rule:
        raise CommandError(wrong)
    tool, number = found["tool"] or "", found["number"]
    try:
        least = 0 if number is None else float(number.replace(",", "")) * (1000 if found["thousand"] else 1)
    except ValueError:
        raise CommandError(wrong) from None
    ids = {row.id for row in results if row.tokens > least and (not tool or row.tool.casefold() == tool.casefold())}
    if not ids:
        raise CommandError(wrong)
    return ids


class Stale(NamedTuple):
    """The results that later calls superseded: their ids, and a line that suggests to tick them."""

    ids: frozenset[int]
    text: str


def relief(agent: Agent) -> str:
    """Return in one line what makes the next request of an agent smaller, with its largest turn. Raises
    FoldmarkError."""
    rows = [row for row in context_turns(agent).rows if not row.tool]
    largest = max(rows, key=lambda row: row.tokens, default=None)
    first = ""
    if largest is not None:
        first = f"The largest turn is {largest.id}, “{largest.title}”, {brief(largest.tokens)}: "
        first += f"/context drop {largest.id} takes it out. "
    return (
        f"{first}/undo takes out the newest turn, /forget a topic, /context evict single results; "
        "/message list, or F2 on the full screen, lists all turns."
    )


def stale_results(agent: Agent) -> Stale:
    """Return the results of the next request that later calls superseded, with the price of evicting them. Raises
    FoldmarkError."""
    found = [each for each in superfluous(agent) if not each.leaves]
    ids = sorted(each.sent.result.id for each in found)
    if not ids:
        return Stale(frozenset(), "")
    price = priced_words(preview(agent, lambda moment, at: eviction(moment, at, ids)))
    what = f"{count(len(ids), 'result')} that later calls superseded"
    return Stale(frozenset(ids), f"x ticks {what}: {price}")


class EditPrice(NamedTuple):
    """The price of one edit of the ticked rows: the `key` that carries it out, its effect (`what`), and a line with its
    cost or the reason why it is impossible."""

    key: str
    what: str
    text: str


def edits(rows: Sequence[TurnRow], ticked: Collection[int]) -> tuple[list[int], list[int]]:
    """Return the ticked turns, and the results to evict: the ticked ones and those of ticked turns."""
    turns = sorted(row.id for row in rows if not row.tool and row.id in ticked)
    inside = {*turns}
    results = [
        row
        for row in rows
        if row.tool and not row.evicted and (row.id in ticked or (row.turn in inside and row.tokens > PLACEHOLDER))
    ]
    return turns, sorted(row.id for row in results)


def prices(agent: Agent, rows: Sequence[TurnRow], ticked: Collection[int]) -> list[EditPrice]:
    """Return the prices of dropping and summarizing the ticked turns and of evicting the ticked results. Dropping and
    evicting each build two requests. The length of a summary is not known in advance."""
    turns, results = edits(rows, ticked)
    found = []
    if turns:
        found.append(_price(agent, "d", f"drops {count(len(turns), 'turn')}", lambda m, at: decide.drop(m, at, turns)))
    if results:
        what = f"evicts {count(len(results), 'result')}"
        found.append(_price(agent, "e", what, lambda moment, at: eviction(moment, at, results)))
    if turns:
        found.append(EditPrice("s", f"summarizes {count(len(turns), 'turn')}", _summary_price(rows, turns)))
    return found


def _summary_price(rows: Sequence[TurnRow], turns: Sequence[int]) -> str:
    try:
        span(rows, turns)
    except CommandError as error:
        return str(error)
    read = sum(row.tokens for row in rows if not row.tool and row.id in turns)
    return f"the model reads {brief(read)} once · then as d, and the summary comes in their place"


def _price(agent: Agent, key: str, what: str, decision: Decision) -> EditPrice:
    try:
        return EditPrice(key, what, priced_words(preview(agent, decision)))
    except FoldmarkError as error:
        return EditPrice(key, what, str(error))


def priced_words(found: Preview) -> str:
    """Return a preview in one line: `62K → 44K · 71% of the cached prompt is written again, $0.06 more once · …`."""
    cost, prefix = found.next, found.outcome.cached_prefix
    parts = [f"{brief(cost.without)} → {brief(cost.tokens)}"]
    if (shortened := found.outcome.shortened).messages:
        parts.append(f"{count(shortened.messages, 'older result')} shortened, {brief(shortened.tokens)} less")
    if prefix is not None and cost.without:
        broken = 100 - 100 * cost.held // cost.without
        parts.append(f"{broken}% of the cached prompt breaks")
        if cost.more > 0:
            parts[-1] += f", {_amount(cost.more, cost.dollars)} more once"
    if cost.saved > 0:
        parts.append(f"{_amount(cost.saved, cost.saved_dollars)} less a request from then on")
        if cost.even is not None and cost.even > 1:
            parts.append(f"even after {cost.even} requests")
    elif cost.saved < 0:
        parts.append(f"{_amount(-cost.saved, cost.saved_dollars and -cost.saved_dollars)} more a request")
    thoughts = found.outcome.thoughts
    for blocks, how in ((thoughts.lost, "ends"), (thoughts.returned, "returns")):
        if blocks:
            parts.append(f"{count(blocks, 'thinking block')} {how if blocks == 1 else how[:-1]}")
    return " · ".join(parts)


def _amount(tokens: int, dollars: float | None) -> str:
    if not dollars:
        return f"{brief(tokens)} input tokens"
    if dollars < 0.0001:
        return "under $0.0001"
    return f"${dollars:,.4f}" if dollars < 0.1 else f"${dollars:,.2f}"


def span(rows: Sequence[TurnRow], turns: Sequence[int]) -> str:
    """Return the span of turns for `/summarize`. Raises CommandError if other turns lie between them."""
    first, last = min(turns), max(turns)
    between = sorted(row.id for row in rows if not row.tool and first < row.id < last and row.id not in turns)
    if between:
        raise CommandError(
            f"A summary takes turns that follow each other: tick {listing(between, 6)} as well, or fewer turns."
        )
    return f"{first}..{last}"


def receipt(moment: Snapshot, at: Standing, after: int) -> str:
    """Return the newest operation since event `after` on one line; empty if there is none."""
    found = [entry for entry in operations(moment, at) if entry.event.id > after]
    return line(found[-1]) if found else ""
