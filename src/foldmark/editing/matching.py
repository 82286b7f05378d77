"""Which messages do criteria mean? The agent's model judges, chunk by chunk; without one a local matcher [SPEC 4.2]."""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from foldmark.core.events import Event
from foldmark.core.matching import Candidate, candidate, parse_ids, request_text
from foldmark.core.ports import Progress, Store
from foldmark.core.pressure import chunk_count, chunks
from foldmark.core.segments import Segment, Segments, intersect
from foldmark.log.likeness import likeness
from foldmark.recall.matching import match
from foldmark.request.fullness import whole
from foldmark.sending.questions import ask

if TYPE_CHECKING:
    from foldmark.log.log import Agent


class Candidates:
    """The messages that a filter may name: all inside `segments` but the system's; texts are read as needed."""

    def __init__(self, store: Store, segments: Segments) -> None:
        self._store, self._segments = store, segments
        self.rows: list[Candidate] = [candidate(message) for message in self]

    def __iter__(self) -> Iterator[Event]:
        return (message for message in self._store.messages(self._segments) if message.kind != "system")

    def among(self, ids: Collection[int]) -> list[Candidate]:
        """Those with these ids, in the order of the log."""
        return [row for row in self.rows if row.id in ids]

    def read(self, ids: Sequence[int]) -> Iterator[Event]:
        """Read the messages with these ids, in the order of the log, as they are consumed."""
        wanted = frozenset(ids)
        agents = sorted({segment.agent for segment in self._segments})
        near = [Segment(agent, min(wanted), max(wanted)) for agent in agents] if wanted else []
        inside = intersect(self._segments, near)
        return (message for message in self._store.messages(inside) if message.id in wanted)


def matched(
    agent: "Agent",
    criteria: str,
    mode: str,
    among: Candidates,
    progress: Progress | None = None,
    *,
    local: bool = False,
) -> list[int]:
    """The ids of those messages that `criteria` mean, in order. Raises CommandError if they mean nothing.

    With `local` no model is asked.

    A model reads them in chunks at turn bounds, as many as the fill of its window asks for; `progress` is told after
    each. What it answers is checked against the messages it was shown.
    """
    at = agent.standing()
    if local or at.config.provider == "offline":
        # To embed nothing costs nothing: without vectors no model is loaded.
        found_here = list(match(criteria, among, alike=lambda text: likeness(text, "auto", [agent.log])[0]))
        if progress is not None:
            progress(1, 1)
        return found_here
    turns = [list(turn) for _, turn in groupby(among.rows, lambda row: row.turn_id)]
    sizes = [sum(row.tokens for row in turn) for turn in turns]
    provider, _, model = at.config.model.partition("/")
    plan = chunks(sizes, chunk_count(whole(at, provider, model), agent.window))
    found: set[int] = set()
    for done, part in enumerate(plan, 1):
        ids = [row.id for place in part for row in turns[place]]
        answer = ask(agent, request_text(criteria, mode), "match", quoted=list(among.read(ids)))
        found.update(parse_ids(answer, ids))
        if progress is not None:
            progress(done, len(plan))
    return sorted(found)
