"""What is looked for in all that was ever said, and what can be searched [SPEC 7]."""

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from foldmark.core.passages import Excerpt
from foldmark.core.vectors import Vectors

SPEAKERS = ("user", "assistant", "thinking", "tool_call", "tool_result")
"""Who a search can be narrowed to by `Filters.role`."""

PROGRAMS = {"claude": "Claude Code", "codex": "Codex"}
"""Whose sessions are archived, by `SearchResult.source`."""


class Phrase(NamedTuple):
    """Words that stand side by side, the last of them perhaps only a beginning."""

    words: tuple[str, ...]
    prefix: bool = False


class Term(NamedTuple):
    """Something to look for: one of several phrases, by the stems of their words.

    `typed` is what the text itself must hold, where words were meant as typed.
    """

    phrases: tuple[Phrase, ...]
    typed: Phrase | None = None


class Filters(Struct, frozen=True):
    """What a hit has to be, each None for anything.

    `since` and `before` are moments in UTC. `agent` is a conversation's name, or the beginning of an agent's or a
    coding session's uuid; `project` a part of a conversation's name or of a session's working folder; `role` as in
    `Event.kind` (of sessions also thinking); `tool` a tool's name, compared without case: its calls and what they
    answered. `visible` is whether a message is in the context of the agent that wrote it; of sessions nobody knows
    that, so with it they are left out.
    """

    since: datetime | None = None
    before: datetime | None = None
    agent: str | None = None
    project: str | None = None
    role: str | None = None
    tool: str | None = None
    visible: bool | None = None


ANY = Filters()


class SearchResult(Struct, frozen=True):
    """A message or a memo that was found, wherever.

    `source` is claude, codex, conversation or memo; `id` the session's, the agent's or the memo's; `name` the session's
    working folder, the conversation's name or the memo's tags; `role` as in `Filters`, or memo. `all_words` is whether
    it holds every word that was asked for, `score` the higher the better. `snippet` is one line; `highlights` are the
    places in it where words of the query stand, from and up to. A session's message stands in line `line` of `file`; a
    conversation's is the event `event_id`, and `visible` says whether it is in the context.
    """

    source: str
    id: str
    name: str
    role: str
    tool: str | None
    at: str | None
    all_words: bool
    score: float
    snippet: str
    highlights: tuple[tuple[int, int], ...] = ()
    file: str | None = None
    line: int | None = None
    event_id: int | None = None
    visible: bool | None = None


_UNFOUND = re.compile(r"(?:mcp__.*foldmark__)?filter_context")


def is_unfound(tool: str | None) -> bool:
    """Whether calls and results of a tool are never found: they repeat what somebody wanted forgotten.

    A coding agent calls the tool by a longer name.
    """
    return tool is not None and _UNFOUND.fullmatch(tool) is not None


class Judge(Protocol):
    """Tells what the operations of agents make of their messages."""

    def meet(self, agent_ids: Iterable[str]) -> None:
        """Read what is needed of these agents, of all at once; what was read before is not read again."""

    def shows(self, agent_id: str, event_id: int) -> bool:
        """Whether a message is in the context of this agent, which wrote it."""

    def plans(self, agent_id: str, event_id: int) -> bool:
        """Whether a message of this agent belongs to a planning conversation."""


class SearchScope(NamedTuple):
    """The messages of a log that a search may find, worked out from filters: `agents` are uuids, None for all. What
    belongs to planning conversations is never found and belongs to no passage; without a `judge` there are none, and
    nothing is visible."""

    filters: Filters = ANY
    agents: Collection[str] | None = None
    judge: Judge | None = None


class IndexedMessage(NamedTuple):
    """A message of an index and its text, perhaps only the beginning; `at` is when it was said, ISO 8601 or "", `fits`
    whether the filters let it through."""

    id: int
    text: str
    at: str = ""
    fits: bool = True


How = Literal["all", "any"]


class TermQuery(NamedTuple):
    """Messages that hold all or any of some terms, ranked by these terms alone. With `share` below 1, only the newest
    part of an index is searched."""

    how: How
    terms: Sequence[Term]
    share: float = 1.0


Mode = Literal["auto", "text", "vector", "both"]
"""What a search goes by: words, meanings (vectors of a model), or both; auto is both where there are vectors."""


class Index(Protocol):
    """What can be searched by words: the messages of a log, those of archived sessions."""

    def counted(self, terms: Sequence[Term]) -> tuple[int, list[int]]:
        """How many messages there are, and how many hold each of the terms by its stems; about, if they are many."""

    def best(self, wanted: Sequence[TermQuery], limit: int) -> list[int]:
        """The ids of the best `limit` messages of each that fit the filters, one after another."""

    def passing(self, ids: Sequence[int]) -> list[int]:
        """Those of these messages that the filters let through."""

    def around(self, ids: Sequence[int], reach: int) -> list[list[IndexedMessage]]:
        """These messages, each with up to `reach` neighbours on each side: runs of neighbours in order."""


class Similarity(Protocol):
    """How alike in meaning a query and the messages of an index are: cosines, the higher the more."""

    def nearest(self, limit: int) -> list[int]:
        """The ids of the messages most alike, as far as they have vectors."""

    def of(self, ids: Sequence[int]) -> dict[int, float]:
        """Those of these messages that have vectors."""


class MessageVectors(Protocol):
    """The vectors of messages by one model."""

    @property
    def until(self) -> int | None:
        """The message up to which there are some; None if nobody has begun to make any."""

    def asked(self, query: str) -> Similarity:
        """How alike the messages that have vectors are to a query."""


class VectorSource(Protocol):
    """What has messages, and perhaps vectors of them: a log, an archive."""

    @property
    def vectors(self) -> Vectors | None:
        """Where vectors are kept; None where nobody keeps any."""

    def meanings(self) -> MessageVectors:
        """Those by the model of the settings. Raises EmbeddingError where it cannot be used."""


class RankedMessage(NamedTuple):
    """A message that was found: in which of several indexes, its id, a score (the higher, the better), whether it holds
    every term, and its text, perhaps cut."""

    source: int
    id: int
    score: float
    every: bool
    text: str

    @property
    def told_score(self) -> float:
        """The score as it is told: above 1 with every term, otherwise below."""
        return self.every + self.score / (1 + self.score)


class ArchivedMessages(Index, VectorSource, Protocol):
    """The messages of archived sessions, to be searched."""

    def told(self, places: Sequence[RankedMessage]) -> list[SearchResult | None]:
        """What was found at these places, without snippets; None for what is no longer there."""

    def read(self, named: str, reach: int) -> Excerpt:
        """What is said at SESSION:LINE and in `reach` speaking lines before and behind it; in all of SESSION without a
        line. Raises FoldmarkError for what is not archived."""
