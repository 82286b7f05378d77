"""The data of the panels next to the chat: the agents of a conversation, and the state of an agent."""

from collections import Counter
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from foldmark.commands.agents import AgentEntry, entry
from foldmark.core.codec import operation_of
from foldmark.core.errors import FoldmarkError
from foldmark.core.events import OPERATION_KINDS, Restore
from foldmark.core.wording import title
from foldmark.log import Agent, family
from foldmark.operations import places
from foldmark.operations.history import MarkEntry, OperationEntry, everything_done, marks
from foldmark.request.standing import state_of
from foldmark.text.state import goal
from foldmark.tools.tool import waiting_for_approval

MEMOS = 100
"""Maximum number of memos that are counted."""

LOOKED_AT = 50
"""Number of an agent's newest messages to search for a text from a person."""


class AgentLine(NamedTuple):
    """An agent of the conversation. `goal` comes from its state block, or else is the beginning of its newest text from
    a person. `asks` is the number of its approval questions that are open in this process."""

    entry: AgentEntry
    goal: str
    asks: int


def agents(agent: Agent) -> list[AgentLine]:
    """Return the agents of a conversation, each before its children. Cost grows with their number, not with their
    messages."""
    asks = Counter(waiting_for_approval(agent))
    with agent.log.store.read():
        places = family.tree(family.root(agent))
        return [AgentLine(entry(place, agent), _goal(place.agent), asks[place.agent.id]) for place in places]


def _goal(agent: Agent) -> str:
    with agent.reading() as (moment, at):
        if (state := state_of(moment, at)) is not None and (found := goal(state.content)):
            return found
        newest = islice(moment.select(at.visible, newest_first=True), LOOKED_AT)
        texts = (each for each in newest if each.kind == "user" and each.actor == "human")
        return title(text.content, 80) if (text := next(texts, None)) is not None else ""


class AgentState(Struct, frozen=True):
    """The state of an agent apart from its messages: the state block in force, the scratchpad, the number of memos in
    the database (at most MEMOS), and its marks, operations and changes of settings, newest first."""

    state: str | None
    scratchpad: str | None
    memos: int
    marks: list[MarkEntry]
    operations: list[OperationEntry]

    @property
    def newest(self) -> OperationEntry | None:
        """The newest operation in force that can be undone, except restores. Undoing it repeatedly walks back through
        the operations."""
        done = (
            each
            for each in self.operations
            if each.by is None
            and each.event.kind in OPERATION_KINDS
            and not isinstance(operation_of(each.event), Restore)
        )
        return next((each for each in done if each.back is not None), None)


def agent_state(agent: Agent) -> AgentState:
    """Return the state of an agent. Cost grows with its operations and marks, not with its messages."""
    with agent.reading() as (moment, at):
        state = state_of(moment, at)
        return AgentState(
            None if state is None else state.content,
            at.scratchpad,
            len(moment.memos(MEMOS)),
            marks(moment, at)[::-1],
            everything_done(moment, at)[::-1],
        )


def price_of_rewind(agent: Agent, mark: str) -> list[str]:
    """Return lines for a person with the effect and cost of a rewind to a mark, or the reason why it is impossible."""
    from foldmark.cost.requests import preview  # takes 20 ms

    try:
        return preview(agent, lambda moment, at: places.rewind(moment, at, mark)).lines()
    except FoldmarkError as error:
        return [str(error)]
