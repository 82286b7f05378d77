"""Search: queries, filters and results, the protocols of indexes, and passages to read [SPEC 7, 9]."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from foldmark.core.agents import minute
from foldmark.core.events import Event
from foldmark.core.patterns import pattern
from foldmark.core.replay import Fold
from foldmark.core.wording import count, one_line


class Unembedded(NamedTuple):
    """A message that has no vectors yet; `before` is the preceding text in its conversation, possibly ""."""

    id: int
    text: str
    before: str


class Embedded(NamedTuple):
    """A message with the vectors of its passages and the signs of their components (recall.embeddings.nearest)."""

    id: int
    vectors: bytes
    signature: bytes


class Coverage(NamedTuple):
    """The coverage of a model's vectors: the number of messages that have vectors (including those without words), the
    number of messages that people and models wrote, and the size of the vectors in bytes."""

    messages: int
    of: int
    bytes: int


class Vectors(Protocol):
    """The part of a `Store` that holds vectors. Models are distinguished by their fingerprints."""

    def embedders(self) -> dict[str, int]:
        """Return the fingerprints of models that have vectors, each with the event up to which vectors exist."""

    def unembedded(self, until: int, limit: int) -> tuple[list[Unembedded], int, int]:
        """Return up to `limit` messages after event `until` that people and models wrote, the event up to which this
        list is complete, and the newest event."""

    def save_vectors(self, fingerprint: str, embedded: Sequence[Embedded], until: int) -> None:
        """Store vectors of messages, and record that every message up to event `until` that needs vectors has them.
        Messages that have since been erased get none."""

    def signatures(self, fingerprint: str, after: int) -> Iterator[tuple[int, bytes]]:
        """Yield the messages after event `after` that have vectors, oldest first, each with its signature."""

    def vectors(self, fingerprint: str, event_ids: Sequence[int]) -> list[bytes]:
        """Return the vectors of messages in the requested order, b"" for a message without vectors."""

    def remove_vectors(self, fingerprint: str) -> None:
        """Remove all vectors of a model."""

    def coverage(self, fingerprint: str) -> Coverage:
        """Return the coverage of a model's vectors."""


class PassageMessage(Struct, frozen=True):
    """A message of a passage.

    `place` is its position in words for a person; `named` is the name under which this message alone can be read;
    `asked` is True for the requested message, `note` is a further remark.
    """

    place: str
    named: str
    role: str
    tool: str | None
    at: str | None
    text: str
    asked: bool = False
    note: str = ""

    @property
    def who(self) -> str:
        """The role and the tool of the message, on one line."""
        return one_line(f"{self.role} {self.tool}" if self.tool else self.role)


class Excerpt(Struct, frozen=True):
    """A passage of a conversation or a session, in order; `head` names its source."""

    head: str
    lines: tuple[PassageMessage, ...]


def excerpt_text(excerpt: Excerpt, whole: int | None, beside: int, read_on: str) -> str:
    """Return the messages with their texts: `whole` characters of the requested one (None: all), `beside` characters
    of its neighbours. `read_on` precedes the name of a neighbour that was cut."""
    any_asked = any(line.asked for line in excerpt.lines)
    lines = [one_line(excerpt.head)]
    for line in excerpt.lines:
        lines += passage_lines(line, beside if any_asked and not line.asked else whole, read_on)
    return "\n".join(lines)


def passage_lines(line: PassageMessage, most: int | None = None, read_on: str = "") -> Iterator[str]:
    """Yield an empty line, then the message as lines of text; see `excerpt_text`."""
    about = [each for each in (line.place, line.who, one_line(minute(line.at)) if line.at else "", line.note) if each]
    yield ""
    yield f"{'>' if line.asked else '-'} {', '.join(about)}:"
    if line.text:
        yield line.text[:most]
    if most is not None and len(line.text) > most:
        whole = "" if line.asked else f": {read_on}{one_line(line.named)}"
        yield f"[{count(len(line.text) - most, 'more character')}{whole}]"


SPEAKERS = ("user", "assistant", "thinking", "tool_call", "tool_result")
"""Values of `Filters.role` that a model is offered."""

FILTERED_ROLES = (*SPEAKERS, "client")
"""Values of `Filters.role` that a person may give. A client's own texts are found only by their role."""


class Phrase(NamedTuple):
    """Adjacent words; the last one may be only a prefix."""

    words: tuple[str, ...]
    prefix: bool = False


class Term(NamedTuple):
    """A term of a query: alternative phrases, matched by the stems of their words.

    `typed` is the phrase that must occur literally, if the words were meant as typed.
    """

    phrases: tuple[Phrase, ...]
    typed: Phrase | None = None


class Filters(Struct, frozen=True):
    """Conditions on a result; None matches anything.

    `since` and `before` are moments in UTC. `agent` is a conversation's name, or the beginning of an agent's or a
    coding session's uuid; `project` is a part of a conversation's name or of a session's working folder; `role` is an
    `Event.kind` (or `thinking`, in sessions); `tool` is a tool's name, case-insensitive, for its calls and their
    results. `visible` is True for messages in the context of the agent that wrote them; it excludes sessions, whose
    contexts are unknown.
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
    """A message or a memo found by a search.

    `source` is the name of the session's format, conversation or memo; `id` is the session's, the agent's or the
    memo's; `name` is the session's working folder, the conversation's name or the memo's tags; `role` is as in
    `Filters`, or memo.
    `all_words` is True if the message has every word of the query; a higher `score` is better. `snippet` is one line;
    `highlights` are the (start, end) positions of the query's words in it. A session's message is in line `line` of
    `file`; a conversation's message is the event `event_id`, and `visible` is True if it is in the context.
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

    @property
    def who(self) -> str:
        """The role and the tool of the message, on one line."""
        return one_line(f"{self.role} {self.tool}" if self.tool else self.role)


_UNFOUND = pattern(r"(?:mcp_.*foldmark__?)?(?:filter_context|query_db|recall)")


def is_unfound(tool: str | None, kind: str | None = None) -> bool:
    """Return True if messages of this kind, or a tool's calls and results, are excluded from searches: such tools
    repeat other messages, even some that a person wanted to forget, and a client's own texts repeat files and each
    other.

    Coding agents call the tools by longer names.
    """
    return kind == "client" or (tool is not None and _UNFOUND.fullmatch(tool) is not None)


class Judge(Protocol):
    """Judges messages by the operations of their agents."""

    def meet(self, agent_ids: Iterable[str]) -> None:
        """Load the data of these agents in one read. Nothing is read twice."""

    def shows(self, agent_id: str, event_id: int) -> bool:
        """Return True if a message is in the context of this agent, which wrote it."""

    def plans(self, agent_id: str, event_id: int) -> bool:
        """Return True if a message of this agent belongs to a planning conversation."""


class SearchScope(NamedTuple):
    """The messages of a log that a search may find, computed from filters; `agents` are uuids, None for all. Planning
    conversations are never found and belong to no passage. Without a `judge`, there are no planning conversations and
    no message is visible."""

    filters: Filters = ANY
    agents: Collection[str] | None = None
    judge: Judge | None = None


class IndexedMessage(NamedTuple):
    """A message of an index with its text or the beginning of it; `at` is its time in ISO 8601, or "", `fits` is True
    if it passes the filters."""

    id: int
    text: str
    at: str = ""
    fits: bool = True


How = Literal["all", "any"]


class TermQuery(NamedTuple):
    """A query for messages that contain all or any of some terms, ranked by these terms alone. With `share` below 1,
    only the newest part of an index is searched."""

    how: How
    terms: Sequence[Term]
    share: float = 1.0


Mode = Literal["auto", "text", "vector", "both"]
"""The mode of a search: words, meanings (a model's vectors), or both; auto means both if there are vectors."""


class Index(Protocol):
    """A word index of messages, either of a log or of archived sessions."""

    def counted(self, terms: Sequence[Term]) -> tuple[int, list[int]]:
        """Return the number of messages, and for each term the number of messages that contain its stems; large counts
        are estimated."""

    def best(self, wanted: Sequence[TermQuery], limit: int) -> list[int]:
        """Return, for each query, the ids of the best `limit` messages that pass the filters, all in one list."""

    def passing(self, ids: Sequence[int]) -> list[int]:
        """Return the ids of those messages that pass the filters."""

    def around(self, ids: Sequence[int], reach: int) -> list[list[IndexedMessage]]:
        """Return these messages with up to `reach` neighbours on each side, grouped into runs of adjacent messages."""


class Similarity(Protocol):
    """Cosine similarity of a query to the messages of an index."""

    def nearest(self, limit: int) -> list[int]:
        """Return the ids of the most similar messages that have vectors."""

    def of(self, ids: Sequence[int]) -> dict[int, float]:
        """Return the similarity of those messages that have vectors, by id."""


class MessageVectors(Protocol):
    """One model's vectors of messages."""

    @property
    def until(self) -> int | None:
        """The id of the newest message that has a vector; None if no message has one."""

    def similarity_to(self, query: str) -> Similarity:
        """Return the similarity of messages to a query."""


class VectorSource(Protocol):
    """A source of messages and possibly their vectors: a log or an archive."""

    @property
    def vectors(self) -> Vectors | None:
        """The stored vectors; None if none are kept."""

    def meanings(self) -> MessageVectors:
        """Return the vectors of the model in the settings. Raises EmbeddingError if it cannot be used."""


class RankedMessage(NamedTuple):
    """A ranked message: the number of its index, its id, its score (higher is better), True if it contains every term,
    and its text, which may be cut."""

    source: int
    id: int
    score: float
    every: bool
    text: str

    @property
    def displayed_score(self) -> float:
        """The score for display: above 1 if the message contains every term, otherwise below."""
        return self.every + self.score / (1 + self.score)


class ArchivedMessages(Index, VectorSource, Protocol):
    """The messages of archived sessions, searchable."""

    def results(self, places: Sequence[RankedMessage]) -> list[SearchResult | None]:
        """Return the results at these places, without snippets; None for a message that is gone."""

    def read(self, named: str, reach: int) -> Excerpt:
        """Return the message at SESSION:LINE with `reach` spoken lines before and after it; without LINE, all of
        SESSION. Raises FoldmarkError if it is not archived."""


class Hit(Struct, frozen=True):
    """A message that a search found [SPEC 9].

    `agent_name` is the conversation's name, None for a fork; `turn_id` is None outside of turns. A higher `score` is
    better: above 1 if the message contains every term, otherwise below. `snippet` is one line of the message around the
    terms, with `…` where it is cut. `visible` is True if the message is in the context of the agent that wrote it.
    `tool` is the tool of a call or a result; `highlights` are the (start, end) positions of the terms in the snippet.
    """

    event_id: int
    agent_id: str
    agent_name: str | None
    kind: str
    turn_id: int | None
    created_at: str
    score: float
    snippet: str
    visible: bool = False
    tool: str | None = None
    highlights: tuple[tuple[int, int], ...] = ()


class Surroundings(NamedTuple):
    """The position of a found message in the log of its agent.

    `asked` is the beginning of the person's text: that of the message itself, or else of the message that opened its
    turn, "" if no person wrote that. `before` is the number of the agent's messages before its turn, or, outside of
    turns, before the message. `behind` lists the agent's next turns, each with the number of messages before it; a last
    entry with `END` counts all messages.
    """

    hit: Hit
    asked: str
    before: int
    behind: Sequence[tuple[int, int]]


class LogIndex(Index, Protocol):
    """The messages of a log, searchable."""

    def hits(self, event_ids: Sequence[int]) -> list[Hit]:
        """Return hits for messages that `around` returned, in the requested order, without score and snippet."""

    def surroundings(self, event_ids: Sequence[int], turns: int) -> list[Surroundings]:
        """Return the surroundings of those messages that exist, in the requested order, with up to `turns` following
        turns; without score, snippet and visibility."""


class Outline(NamedTuple):
    """An agent's data for a search: its stored segment cache, None if it cannot be read; if the agent ever had a
    planning conversation, also its operations and the `command` events that open one, in order."""

    fold: Fold | None
    planning: Sequence[Event] = ()
