"""What a search has to know of the agents whose messages it meets, read of many at once [SPEC 7]."""

from collections.abc import Callable, Iterable
from contextlib import suppress

from foldmark.core.errors import DamagedError
from foldmark.core.ports import Snapshot
from foldmark.core.segments import Segments, contains
from foldmark.log.planned import Spans, holds, spans


class Outlines:
    """A `core.recall.Judge` of one moment. A conversation that cannot be read shows nothing and has planned nothing: it
    must not end the search of all others."""

    def __init__(self, moment: Snapshot, replayed: Callable[[str], Segments]) -> None:
        """`replayed` gives what an agent shows that has no stored segments. Raises DamagedError."""
        self._moment, self._replayed = moment, replayed
        self._visible: dict[str, Segments] = {}
        self._planned: dict[str, Spans] = {}

    def meet(self, agent_ids: Iterable[str]) -> None:
        new = [agent_id for agent_id in dict.fromkeys(agent_ids) if agent_id not in self._planned]
        if not new:
            return
        self._planned |= dict.fromkeys(new, ())
        for agent_id, (fold, planning) in self._moment.outlines(new).items():
            with suppress(DamagedError):
                self._planned[agent_id] = spans(agent_id, planning)
            with suppress(DamagedError):
                self._visible[agent_id] = self._replayed(agent_id) if fold is None else fold.segments

    def shows(self, agent_id: str, event_id: int) -> bool:
        return contains(self.visible(agent_id), agent_id, event_id)

    def plans(self, agent_id: str, event_id: int) -> bool:
        self.meet([agent_id])
        return holds(self._planned[agent_id], event_id)

    def visible(self, agent_id: str) -> Segments:
        """What an agent shows, and will show of what it appends."""
        self.meet([agent_id])
        return self._visible.get(agent_id, ())
