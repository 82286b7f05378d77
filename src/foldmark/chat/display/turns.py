"""The turns of a context as a list to choose from: their sizes, and the cost of an edit to the ticked ones.

The cost of the list grows with the window. Messages before the window are read page by page.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from foldmark.chat.display.operated import brief, line
from foldmark.chat.display.transcript import about
from foldmark.chat.live import is_live
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.request import Request
from foldmark.core.segments import until
from foldmark.core.wording import count, listing, title
from foldmark.cost.filling import FORM, ORDER, RESULT, Portion, portions_in
from foldmark.cost.requests import Decision, Preview, preview
from foldmark.editing.evicting import eviction
from foldmark.log import Agent
from foldmark.log.live_session import client_tokens
from foldmark.operations import decide
from foldmark.operations.history import newest_restorable, operations
from foldmark.request.prepare import counted
from foldmark.request.standing import Standing

PAGE = 1000
"""Messages before the window that are read at a time."""

PLACEHOLDER = 40
"""Maximum tokens of the placeholder for an evicted result. Shorter results of a ticked turn are not evicted."""

ORDERS = ("size", "newest", "kind")
"""The sort orders of the list."""


class TurnRow(NamedTuple):
    """A turn, or a tool result in it (`tool` names the tool; empty for a turn). `id` is the GID or the result's event.

    `tokens` is its number of tokens in the next request or, before the window (not `sent`), the number that it would
    have there. `kinds` are the kinds of content of the turn and the names of its tools, as in `cost.filling`.
    """

    id: int
    turn: int
    title: str
    tokens: int
    tool: str = ""
    calls: int = 0
    pinned: bool = False
    evicted: bool = False
    sent: bool = True
    kinds: frozenset[str] = frozenset()


class ContextTurns(NamedTuple):
    """The turns of a context, newest first, each followed by its results. `tokens` is the size of the next request, and
    `older` the number of messages before the listed ones. `back` is the newest operation to restore, and `newest` the
    agent's newest event."""

    rows: tuple[TurnRow, ...]
    tokens: int
    older: int
    back: int | None
    newest: int


def context_turns(agent: Agent, most: int = 0) -> ContextTurns:
    """Return the turns of the next request and of the newest `most` messages before its window. Raises
    FoldmarkError."""
    with agent.reading() as (moment, at):
        request = agent.request()
        edge = request.manifest.edge
        rows = _sent(portions_in(moment, at, request), at)
        tokens = client_tokens(agent, moment, at) if is_live(agent) else request.tokens
        listed = 0
        if most and edge.before and edge.first is not None:
            read = moment.messages(until(at.visible, edge.first - 1), newest_first=True, expected=most)
            before = list(islice(read, most))
            listed = len(before)
            rows += _before(before, {row.turn for row in rows}, at, request)
        back = newest_restorable(moment, at)
    rows.sort(key=lambda row: -row.turn)
    return ContextTurns(tuple(rows), tokens, edge.before - listed, back, at.newest)


def _sent(found: Sequence[Portion], at: Standing) -> list[TurnRow]:
    """Return the rows of a request with these parts: its turns, then the results."""
    turns: dict[int, TurnRow] = {}
    results: list[TurnRow] = []
    calls: deque[str] = deque()
    for each in found:
        part = each.part
        if part is None or part.turn is None:
            continue
        if part.layer not in ("window", "pinned"):
            continue
        if part.kind == "tool_call":
            calls.append(part.text.partition("(")[2][:-1])
        asked = calls.popleft() if each.kind == RESULT and calls else ""
        before = turns.get(part.turn)
        if before is None:
            before = TurnRow(part.turn, part.turn, "", 0, pinned=part.turn in at.fold.pins)
        kinds = {each.name} if each.kind != FORM else set[str]()
        turns[part.turn] = before._replace(
            title=before.title or ("" if part.kind == "client" else title(part.text)),
            tokens=before.tokens + each.tokens,
            calls=before.calls + (part.kind == "tool_call"),
            kinds=before.kinds | kinds,
        )
        if each.kind == RESULT and part.event is not None:
            named = f"{each.name} {about(asked)}".rstrip()
            evicted = part.how == "evicted"
            results.append(TurnRow(part.event, part.turn, named, each.tokens, each.name, evicted=evicted))
    return [*turns.values(), *results]


def _before(messages: Iterable[Event], listed: Collection[int], at: Standing, request: Request) -> Iterator[TurnRow]:
    """Yield a row for each turn of these messages, which are newest first."""
    turns: dict[int, TurnRow] = {}
    for each in messages:
        if each.turn_id is None or each.turn_id in listed:
            continue
        before = turns.get(each.turn_id) or TurnRow(each.turn_id, each.turn_id, "", 0, sent=False)
        kind = {"tool_call": "assistant", "tool_result": "", "summary": "summaries"}.get(each.kind, each.kind)
        turns[each.turn_id] = before._replace(
            title=("" if each.kind == "client" else title(each.content)) or before.title,
            tokens=before.tokens + counted(at, each.tokens, request.provider, request.model),
            calls=before.calls + (each.kind == "tool_call"),
            kinds=before.kinds | {kind} if kind else before.kinds,
        )
    yield from turns.values()


def arranged(rows: Iterable[TurnRow], order: str, wanted: str = "") -> list[TurnRow]:
    """Return the rows that match `wanted`, in one of `ORDERS`. Results follow their turns, the largest first. By kind,
    all results of a tool are together, and the largest tool is first."""
    rows = list(rows)
    low = wanted.casefold().strip()
    if low:
        exact = low in ORDER or any(low == kind.casefold() for row in rows for kind in row.kinds)
        rows = [row for row in rows if _matches(row, low, exact=exact)]
    turns = {row.turn: row for row in rows if not row.tool}
    newest = order == "newest"

    def size(row: TurnRow) -> tuple[int, ...]:
        return (0,) if newest else (not row.sent, -row.tokens)

    if order == "kind":
        sums: dict[str, int] = {}
        for row in rows:
            sums[row.tool] = sums.get(row.tool, 0) + row.tokens
        return sorted(rows, key=lambda row: (not row.tool, -sums[row.tool], row.tool, *size(row)))

    def place(row: TurnRow) -> tuple[object, ...]:
        head = turns.get(row.turn, row)
        return (*size(head), -row.turn, bool(row.tool), -row.tokens, row.id)

    return sorted(rows, key=place)


def own_matches(rows: Sequence[TurnRow], wanted: str) -> set[int]:
    """Return the ids of the rows, as `arranged`, that match `wanted` by themselves, and not only as the headings of
    results that do."""
    low = wanted.casefold().strip()
    heads = {row.turn for row in rows if row.tool} if low else set()
    return {row.id for row in rows if row.tool or row.turn not in heads or _matches(row, low, exact=False)}


def _matches(row: TurnRow, low: str, *, exact: bool) -> bool:
    """Return True if a row matches. `exact` is True if the text is the name of a kind or a tool, and matches only
    that."""
    if exact:
        return low == row.tool.casefold() or (not row.tool and any(low == kind.casefold() for kind in row.kinds))
    return low in row.title.casefold() or low == str(row.turn) or low == str(row.id)


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
    if cost.anyway > 0:
        parts[0] += f" (any edit shortens older results, by {brief(cost.anyway)})"
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
