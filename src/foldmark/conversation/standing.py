"""Where an agent stands when something is asked of it."""

from msgspec import Struct

from foldmark.conversation.context import fork_event
from foldmark.core.ports import AgentRecord, Size, Store
from foldmark.core.replay import Fold, birth
from foldmark.core.segments import Segments, until


class Standing(Struct, frozen=True):
    """Where an agent stands when it is asked: its row, its fold, what it was born with, how much is visible, and the
    store to look things up in."""

    store: Store
    record: AgentRecord
    fold: Fold
    origin: Fold
    size: Size

    @property
    def lineage(self) -> Segments:
        """Everything that is this agent's or was handed down to it, visible or not; no child's and no later event of a
        parent [SPEC 3, L6]."""
        return self.origin.segments

    @property
    def visible(self) -> Segments:
        """The segments as of now, without what is to come."""
        return until(self.fold.segments, self.newest)

    @property
    def newest(self) -> int:
        """The id of the newest event there is for this agent: its own, or the fork that it was born from."""
        return max(self.record.head, self.record.fork_event)


def origin(store: Store, agent_id: str, fork_event_id: int) -> Fold:
    """The fold that an agent was born with."""
    born = fork_event(store, fork_event_id)
    return birth(agent_id, fork_event_id, born.start, born.pins) if born else birth(agent_id)
