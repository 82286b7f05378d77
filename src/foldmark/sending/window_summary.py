"""Have the agent's model sum up what the window cut, when that is due [S3, SPEC 5.1]."""

from contextlib import suppress
from typing import NamedTuple

import msgspec

from foldmark.core.errors import CommandError
from foldmark.core.events import Pin
from foldmark.core.ports import Snapshot
from foldmark.core.segments import Segments, since, until
from foldmark.core.window import Units
from foldmark.log.log import Agent
from foldmark.request.standing import Standing
from foldmark.request.window_summary import Covered, WindowSummary, hash_of, in_force

SHARE = 0.05
"""A new summary is due once the messages that no summary covers reach this share of the budget,"""

MESSAGES = 20
"""or this number of messages."""

SUM_UP = (
    "The conversation above no longer fits into your requests. Sum it up for yourself in at most 300 words: your "
    "summary is shown to you in its place. Keep goals, decisions and their reasons, names, paths, numbers, what is "
    "finished and what is open. Write nothing else."
)
BEFORE = "\nYour summary of what came before it follows; write one that covers both.\n\n"


class Due(NamedTuple):
    """A summary to be made: its coverage, the messages to read for it, and the summary that it continues."""

    covered: Covered
    segments: Segments
    earlier: WindowSummary | None


def due(agent: Agent) -> Due | None:
    """Return the summary to be made now, if the setting is on and the window has passed enough uncovered messages.

    It covers what the last one does and, of what was cut since, as many of the newest turns as fit half of the model's
    window. Raises CommandError for a model that cannot be asked, StoreError.
    """
    with agent.reading() as (moment, at):
        return _due(moment, at, agent) if at.config.window_summary else None


def _due(moment: Snapshot, at: Standing, agent: Agent) -> Due | None:
    edge = agent.request().manifest.edge
    if edge.first is None or edge.why in (None, "planning"):
        return None
    earlier = in_force(moment, at, edge.first, 0, at.newest)
    new = until(at.visible, edge.first - 1)
    if earlier is not None:
        new = since(new, earlier.covered.until + 1)
    size, budget = moment.size(new), at.config.sliding_context_tokens or agent.window
    if size.messages < MESSAGES and size.tokens < SHARE * budget:
        return None
    units, count = _fitting(moment, at, agent, new, earlier)
    if not count:
        return None
    events = units.newest(count)
    turns = [turn for index in range(count) for turn in units[index].turns if turn is not None]
    first, turn, last = events[0].id, min(turns), events[-1].id
    if earlier is not None and not units.reach(count + 1):
        first, turn = earlier.covered.first, earlier.covered.turns[0]
    covered = Covered(first, last, (turn, max(turns)), hash_of(moment, at, last))
    return Due(covered, since(until(new, last), events[0].id), earlier)


def make(agent: Agent, due: Due) -> int | None:
    """Ask the model for the summary, record it and return its event's id; None if it is stale by then. With
    `provider_compaction` the provider writes it, where it can: that is an operation, as by `/summarize`, and a pin.

    Blocks, and may run while the agent goes on. Raises CommandError for a model that cannot be asked, FoldmarkError for
    an empty answer or an interruption, ConflictError, StoreError.
    """
    from foldmark.operations import decide
    from foldmark.sending.compacting import compacted
    from foldmark.sending.questions import ask

    covered, earlier = due.covered, due.earlier
    made = None
    with suppress(CommandError):  # conflicting settings: the model is asked as without them
        with agent.reading() as (moment, at):
            decided = decide.summary(moment, at, f"{decide.SPAN}{covered.until}")
        made = compacted(agent, decided)
    if made is not None:
        agent.context()  # other processes may have written to the agent meanwhile
        with agent.batch() as moment:
            if hash_of(moment, agent.standing_in(moment), covered.until) != covered.covers:
                return None
            event_id = agent.operate(lambda *_: made.operation, actor="system", content=made.text).event_id
            # The window passes it like any other turn: it stands in front, so it would leave first.
            agent.operate(lambda *_: Pin(event_id), actor="system")
            return event_id
    question = SUM_UP if earlier is None else f"{SUM_UP}{BEFORE}{earlier.event.content}"
    text = ask(agent, question, "summary", due.segments)
    agent.context()
    with agent.batch() as moment:
        at = agent.standing_in(moment)
        if not at.config.window_summary or hash_of(moment, at, covered.until) != covered.covers:
            return None
        return agent.record("window_summary", text, data=msgspec.to_builtins(covered), actor="model")


def _fitting(
    moment: Snapshot, at: Standing, agent: Agent, new: Segments, earlier: WindowSummary | None
) -> tuple[Units, int]:
    """Return the turns in `new`, newest first, and how many of them fit half of the model's window, at least one if
    there are any."""
    from foldmark.core.weight import weigh
    from foldmark.tokens.counting import uncalibrated

    provider, _, model = at.config.model.partition("/")
    room = agent.window / 2 * uncalibrated(provider, model or provider)
    room -= len(earlier.event.content.encode()) if earlier else 0
    units = Units(event for event in moment.messages(new, newest_first=True) if event.kind != "system")
    count = 0
    while units.reach(count + 1):
        room -= sum(map(weigh, units[count].events))
        if count and room < 0:
            break
        count += 1
    return units, count
