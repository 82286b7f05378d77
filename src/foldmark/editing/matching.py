"""Find the messages that match criteria: the agent's model decides, chunk by chunk, or a local matcher if there is no
model [SPEC 4.2]."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from foldmark.core.events import Event
from foldmark.core.ports import Progress, Snapshot, Store
from foldmark.core.segments import Segments, since, until
from foldmark.log.outlines import similarities
from foldmark.sending.questions import ask
from foldmark.text.selection import (
    Candidate,
    MatchRange,
    candidate,
    chunk_count,
    chunks,
    parse_ids,
    ranges,
    request_text,
)

if TYPE_CHECKING:
    from foldmark.log.log import Agent


PAGE = 200
"""Number of messages whose texts are read at a time."""


class Candidates:
    """The messages that a filter may name: all inside `segments` except `system` messages. Texts are read as needed."""

    def __init__(self, moment: Snapshot, segments: Segments) -> None:
        self._segments = segments
        self.rows: list[Candidate] = []
        self._behind_system: set[int] = set()
        is_behind = False
        for message in moment.select(segments):
            if message.kind != "system":
                self.rows.append(candidate(message))
                if is_behind:
                    self._behind_system.add(message.id)
            is_behind = message.kind == "system"

    def ranges(self, moment: Snapshot, ids: Collection[int]) -> tuple[MatchRange, ...]:
        """Return these ids as ranges for display; a `system` message stands outside of them."""
        spaced = (row for each in self.rows for row in ((None, each) if each.id in self._behind_system else (each,)))
        return ranges(spaced, ids, partial(self.read, moment))

    def among(self, ids: Collection[int]) -> list[Candidate]:
        """Return the candidates with these ids, in the order of the log."""
        return [row for row in self.rows if row.id in ids]

    def read(self, moment: Snapshot, ids: Sequence[int]) -> Iterator[Event]:
        """Read the messages with these ids, in the order of the log, as they are consumed."""
        wanted = frozenset(ids)
        inside = until(since(self._segments, min(wanted)), max(wanted)) if wanted else ()
        return (message for message in moment.select(inside) if message.id in wanted)


class _CandidateTexts:
    """The candidates with their texts, read `PAGE` at a time so that processing them does not block the store."""

    def __init__(self, store: Store, among: Candidates) -> None:
        self._store, self._among = store, among

    def __iter__(self) -> Iterator[Event]:
        rows = self._among.rows
        for begin in range(0, len(rows), PAGE):
            with self._store.read() as moment:
                page = list(self._among.read(moment, [row.id for row in rows[begin : begin + PAGE]]))
            yield from page


def matched(
    agent: "Agent",
    criteria: str,
    mode: str,
    among: Candidates,
    progress: Progress | None = None,
    *,
    local: bool = False,
) -> list[int]:
    """Return the ids of the messages that match `criteria`, in order. Raises CommandError if the criteria contain no
    words.

    With `local`, no model is asked.

    A model reads the messages in chunks of whole turns, whose number depends on how full its window is; `progress`
    receives the number of turns read. The answer is checked against the messages that the model was shown.
    """
    from foldmark.request.prepare import whole  # takes 20 ms

    at = agent.standing()
    if local or at.config.provider == "offline":
        from foldmark.recall.matcher import match  # takes 9 ms, and is not needed at startup

        texts = _CandidateTexts(agent.log.store, among)
        # Without vectors no embedding model is loaded.
        found_here = list(match(criteria, texts, alike=lambda text: similarities(text, "auto", [agent.log])[0]))
        if progress is not None:
            progress(1, 1)
        return found_here
    turns = [list(turn) for _, turn in groupby(among.rows, lambda row: row.turn_id)]
    sizes = [sum(row.tokens for row in turn) for turn in turns]
    plan = chunks(sizes, chunk_count(whole(at, *at.model), agent.window))
    found: set[int] = set()
    for part in plan:
        if progress is not None:
            progress(part.start, len(turns))
        ids = [row.id for place in part for row in turns[place]]
        with agent.log.store.read() as moment:
            quoted = list(among.read(moment, ids))
        answer = ask(agent, request_text(criteria, mode), "match", quoted=quoted)
        found.update(parse_ids(answer, ids))
    if progress is not None:
        progress(len(turns), len(turns))
    return sorted(found)
