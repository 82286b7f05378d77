"""`Log`: all conversations of one database [SPEC 9]."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from msgspec.structs import replace

from foldmark.core.agents import AgentRecord, Changes, Size, check_limit, check_name, is_uuid, minute
from foldmark.core.assembly.sent import SentRequest
from foldmark.core.codec import Secrets
from foldmark.core.errors import CommandError
from foldmark.core.ports import Clock, NewId, Progress, Snapshot, Store
from foldmark.core.replay import birth
from foldmark.core.request import Piece, Request, ToolSpec
from foldmark.core.search import ANY, ArchivedMessages, Filters, Hit, LogIndex, Mode, RankedMessage, SearchScope
from foldmark.core.wording import listing
from foldmark.log.listening import changes
from foldmark.log.operable import Operable
from foldmark.log.timeline import Happening
from foldmark.operations.effects import NOBODY, Asking, Result
from foldmark.request.standing import end_of
from foldmark.settings.given import Settings

if TYPE_CHECKING:
    from foldmark.log.embedding import LogVectors
    from foldmark.log.outlines import Neighbour, Outlines
    from foldmark.recall.query import Query
    from foldmark.tokens.models import Model


class Agent(Operable):
    """The owner of one timeline: a conversation, or a fork of one.

    An agent has one writer at a time: an append fails with ConflictError when another writer has appended since this
    object last appended or read the context; `context()` brings it up to date. Agents are compared by id, and also
    equal a plain uuid.
    """

    log: "Log"

    def __init__(self, log: "Log", record: AgentRecord) -> None:
        super().__init__(log, record)
        self.name, self._parent = record.name, record.parent

    def __eq__(self, other: object) -> bool:
        return self.id == (other.id if isinstance(other, Agent) else other)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<Agent {self.name or self.id}>"

    @property
    def parent(self) -> "Agent | None":
        """The agent that this one was forked from; None for a root agent."""
        return self.log.agent(self._parent) if self._parent else None

    @property
    def children(self) -> "list[Agent]":
        """The agents forked from this one, oldest first."""
        with self._store.read() as moment:
            return [self.log.agent(record.id) for record in moment.agents(parent=self.id)]

    def append_answer(self, provider: str, answer: Mapping[str, Any], *, request: Request | None = None) -> list[int]:
        """Record a provider's complete answer as its API returned it, and return the events' ids: the model's text,
        with the blocks that go back to it, its calls, and a summary for each place where the provider compacted the
        preceding messages [S2, SPEC 5.7].

        `answer` is the JSON of the SDK's object (`.model_dump(mode="json", exclude_unset=True)`; for Gemini in
        camelCase). It is read in the dialect of `provider`, which is never guessed, and counts as the answer to
        `request`, by default the last one that `request()` returned. Raises CommandError for an unknown provider,
        ProviderError for an invalid answer.
        """
        from foldmark.log.recording import append_parsed  # takes 5 ms

        self.answers(request)
        return append_parsed(self, provider, answer)

    def do(self, line: str, *, actor: str = "human", asking: Asking = NOBODY) -> Result:
        """Execute a command as typed, for example "/mark BEFORE". If it raises CommandError, nothing was written.

        `asking` reaches the person who typed it: a command that erases asks first, a long one reports progress. A
        provider's key in the line is replaced by its name, even where an error quotes the line.
        """
        line = self.log.secrets.hidden(line) if isinstance(line, str) else line
        return self.log.commands(self, line, actor, asking)

    def call_tool(self, name: str, args: Mapping[str, Any], *, asking: Asking = NOBODY) -> str:
        """Run a tool as the model would, and return its result [SPEC 4.1].

        Raises CommandError for an unknown tool or wrong arguments, worded for the model.
        """
        offered = [spec.name for spec in self.tools()]
        if name not in offered:
            raise CommandError(f"there is no tool '{str(name)[:40]}'; available: {listing(offered, 40) or 'none'}")
        answer: Any = self.log.call_tool(self, name, args, asking)
        if not isinstance(answer, str):  # a program's own tool
            raise CommandError(f"{name} answered with a {type(answer).__name__} instead of a text")
        return self.log.secrets.hidden(answer)


Commands = Callable[[Agent, str, str, Asking], Result]
"""Executes (agent, line, actor, asking): the registry, which is above this layer."""

Tools = Callable[[], Sequence[ToolSpec]]
"""The tools that a model may call."""


class AddedTool(Protocol):
    """A tool of the program or of an MCP server, with the interface of `foldmark.tools.Tool`."""

    @property
    def spec(self) -> ToolSpec:
        """The specification that the model sees."""

    @property
    def together(self) -> bool:
        """True if it may run in parallel with other calls of the same answer: it changes nothing they could see."""

    def __call__(self, agent: Agent, args: Mapping[str, Any], asking: Asking) -> str:
        """Run it. Raises CommandError, worded for the model, for wrong arguments."""


CallTool = Callable[[Agent, str, Mapping[str, Any], Asking], str]
"""Runs (agent, tool, arguments, asking) as a model would."""

Complete = Callable[[Request], str]
"""Sends a request, waits for the complete answer and returns its text."""

Compact = Callable[[Request], list[Piece]]
"""Sends a request and returns all pieces of the answer."""

RecordSent = Callable[[Agent, Request], SentRequest]
"""Records that a request, made for this agent, was sent."""

Count = Callable[[Request], int]
"""Asks a request's provider for its number of tokens."""

Archives = Callable[[Filters, Callable[[str], object]], AbstractContextManager[ArchivedMessages | None]]
"""Opens the index of archived sessions (None if none is archived) and reports missing sessions as text."""


class CodingSessions(Protocol):
    """The sessions of coding agents on this machine. The default session is the one that the agent was imported from;
    the default folder is the current one."""

    def bring_in(self, agent: Agent, named: str | None, progress: Progress | None) -> Result:
        """Import the session named by a file or by the beginning of an id. Raises FoldmarkError."""

    def write_out(self, agent: Agent, folder: str | None) -> Result:
        """Write an agent's context as a new session that works in `folder`. Raises FoldmarkError."""

    def write_document(self, agent: Agent, named: str, progress: Progress | None, *, only_context: bool) -> Result:
        """Write an agent's history, or only its context, to target `named` (`/export`). Raises FoldmarkError."""


class Log:
    """All conversations of one database. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        new_id: NewId,
        commands: Commands,
        tools: Tools,
        call_tool: CallTool,
        complete: Complete,
        count: Count,
        given: Settings = Settings(),  # noqa: B008 - it is frozen
        secrets: Secrets = Secrets(),  # noqa: B008 - it does not change
    ) -> None:
        self.store, self.clock, self.new_id, self.commands = store, clock, new_id, commands
        self.complete, self.count, self.given, self.secrets = complete, count, given, secrets
        self._tools, self._call_tool, self.vectors = tools, call_tool, store.vectors
        self.added: dict[str, AddedTool] = {}
        self.archive: Archives | None = None
        self.coding_sessions: CodingSessions | None = None
        self.compact: Compact = lambda request: [complete(request)]
        self.record_sent: RecordSent | None = None
        self._meanings: LogVectors | None = None
        self._loading = Lock()
        self.listeners: list[Callable[[Happening, str], None]] = []
        self.minute: Callable[[str], str] = minute
        """Return a time in the texts of commands: in UTC, unless the program shows them to a person elsewhere."""
        # One object per agent: all users of an agent in this process share the head that its next append expects.
        self._agents: WeakValueDictionary[str, Agent] = WeakValueDictionary()

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the database."""
        self.store.close()

    def add_tool(self, tool: AddedTool) -> None:
        """Add a tool for the models of all conversations until this log is closed. Raises CommandError if the name is
        taken."""
        if not isinstance(getattr(tool, "spec", None), ToolSpec) or not callable(tool):
            raise CommandError(f"a tool must have a `spec` and be callable, not {tool!r:.80} (docs/library.md)")
        if tool.spec.name in [spec.name for spec in self.tools()]:
            raise CommandError(f"there is a tool '{tool.spec.name}' already; give yours another name")
        self.added[tool.spec.name] = tool

    def remove_tool(self, name: str) -> None:
        """Remove an added tool; do nothing for an unknown name."""
        self.added.pop(name, None)

    def tools(self) -> list[ToolSpec]:
        """Return all tools; `Agent.tools` returns those offered to one agent's model."""
        return [*self._tools(), *(self._without_keys(tool.spec) for tool in self.added.values())]

    def call_tool(self, agent: Agent, name: str, args: Mapping[str, Any], asking: Asking) -> str:
        """Run a tool for an agent (see `Agent.call_tool`)."""
        if (tool := self.added.get(name)) is not None:
            return tool(agent, args, asking)
        return self._call_tool(agent, name, args, asking)

    def tell(self, happening: Happening, agent_id: str) -> None:
        """Notify every listener of a happening of an agent; thread-safe."""
        for listener in tuple(self.listeners):
            listener(happening, agent_id)

    def agent(self, name: str) -> Agent:
        """Return the conversation with this name, creating it if needed; or the agent with this uuid, which must exist.

        Raises CommandError for an unknown or deleted uuid or a name that is empty, too long or not printable.
        """
        with self.store.read() as moment:
            record = moment.agent(name.lower()) if is_uuid(name) else self._named(moment, name)
            if record is None and is_uuid(name):
                raise CommandError(f"there is no agent {name}; {self._there_are(moment)}")
        if record is None:
            check_name(name)
            new = self._root(name)
            with self.store.write() as transaction:
                record = self._named(transaction, name)  # another process may have created it just now
                if record is None:
                    record = new
                    transaction.create_agent(new, birth(new.id), Size(0, 0))
        return self._object(record)

    @contextmanager
    def creating(self, name: str) -> Iterator[Agent]:
        """Create a conversation and record everything appended inside the block in one transaction: all or nothing.

        Raises the same errors as `check_new`.
        """
        self.check_new(name)
        agent = self._object(self._root(name))
        with agent.batch(newborn=True):
            yield agent

    def find(self, name: str, *, create: bool = False) -> Agent:
        """Return the existing agent with this name, uuid or unique beginning of a uuid. Raises CommandError.

        With `create`, a conversation of this name is created if nothing is found.
        """
        with self.store.read() as moment:
            record = self._named(moment, name) or (moment.agent(name.lower()) if name.isprintable() else None)
            if record is not None:
                return self._object(record)
            # With `create`, a short name is never read as the beginning of a uuid, however few agents there are.
            least = 4 if create else 1
            near = [each for each in moment.agents() if len(name) >= least and each.id.startswith(name.lower())]
            near = [each for each in near if not each.deleted] or near[:1]
            if len(near) > 1:
                found = listing(each.id for each in near)
                raise CommandError(f"several uuids begin with '{name}': {found}; type more of it")
            if not near and not create:
                raise CommandError(f"there is no conversation or agent '{name}'; {self._there_are(moment)}")
        return self._object(near[0]) if near else self.agent(name)

    def exists(self, name: str) -> bool:
        """Return True if there is a conversation with this name."""
        with self.store.read() as moment:
            return self._named(moment, name) is not None

    def agents(self) -> list[Agent]:
        """Return all agents that are not deleted, oldest first."""
        with self.store.read() as moment:
            return [self._object(record) for record in moment.agents() if not record.deleted]

    def changes(self, after: str | None = None, limit: int = 100, *, wait: float = 0.0) -> Changes:
        """Return changes by any process after the cursor `after`, by default from now on (see `listening.changes`)."""
        return changes(self.store, after, limit, wait)

    def search(self, query: str, limit: int = 10, filters: Filters = ANY, mode: Mode = "auto") -> list[Hit]:
        """Return the messages of all conversations that match `query`, best first, including forgotten ones [SPEC 7].

        Any text is a query: words in any order, "adjacent words in quotes", prefixes such as `migrat*`, or a whole
        question; messages with all of its words come before those with some. `limit` is 1 to 1000. Writes nothing.
        `mode` is text (words), vector (meanings), both, or auto: both where `meanings` has vectors. Raises CommandError
        if `query` contains no word, or if there are no vectors in mode vector.
        """
        if not isinstance(query, str):
            raise CommandError(f"a query must be a str, not {type(query).__name__}")
        from foldmark.log.outlines import similarities
        from foldmark.recall.query import read  # takes 5 ms, only needed for a search
        from foldmark.recall.searching import MOST_HITS, search

        check_limit(limit, MOST_HITS)
        wanted, alike = read(query), similarities(query, mode, [self])
        with self.store.read() as moment:
            index = self.index(moment, filters)
            return self.hits(index, wanted, search(wanted, limit, [index], alike, by_words=mode != "vector"))

    def meanings(self) -> "LogVectors":
        """Return the vectors of all messages, made by the model in the setting `recall_model`; `bring_up` adds missing
        ones. Raises EmbeddingError if the model cannot be used."""
        with self._loading:
            if self._meanings is None:
                from foldmark.recall.embeddings.model import kept

                embedder = kept(self.given.recall_model)
                from foldmark.log.embedding import LogVectors

                self._meanings = LogVectors(self.vectors, embedder)
        return self._meanings

    def index(self, moment: Snapshot, filters: Filters = ANY) -> LogIndex:
        """Return an index of the messages of all conversations that pass `filters`, to search together with other
        indexes; planning conversations are excluded."""
        from foldmark.log.outlines import passing

        agents = passing(moment.agents(), filters) if filters.agent or filters.project else None
        return moment.index(SearchScope(filters, agents, self.outlines(moment)))

    def hits(self, index: LogIndex, query: "Query", places: Sequence[RankedMessage]) -> list[Hit]:
        """Return the hits at these places of an index, in the same order."""
        from foldmark.text.highlights import snippet, spans

        return [
            replace(
                hit,
                score=place.displayed_score,
                snippet=(line := snippet(place.text, query.terms)),
                highlights=tuple(spans(line, query.terms)),
            )
            for hit, place in zip(index.hits([place.id for place in places]), places, strict=True)
        ]

    def outlines(self, moment: Snapshot) -> "Outlines":
        """Return the outlines of agents: their visible messages, and their planning conversations."""
        from foldmark.log.outlines import Outlines

        return Outlines(moment, lambda agent_id: self._object(moment.head(agent_id).record).standing_in(moment).visible)

    def around(self, event_id: int, reach: int = 3) -> "list[Neighbour]":
        """Return a message with up to `reach` messages of its agent on each side, in order: each as `event`, with
        `visible` (whether it is in the agent's context) and `erased`.

        Raises CommandError for an unknown id.
        """
        from foldmark.log.outlines import around

        with self.store.read() as moment:
            return around(moment, lambda agent_id: self.agent(agent_id).standing_in(moment).visible, event_id, reach)

    def check_model(self, name: str) -> None:
        """Raise CommandError unless `name` is `offline` or `provider/model` of a known provider."""
        from foldmark.providers.registry import check_model

        check_model(name, self.given.dialects)

    def model_named(self, name: str) -> "Model":
        """Return the known facts about a model, named as in `Config.model`; the settings override the table [SPEC
        10]."""
        from foldmark.tokens.models import model_of

        provider, _, model = name.partition("/")
        return model_of(provider, model or provider, self.given.models, self.given.dialects)

    def check_new(self, name: str) -> None:
        """Raise CommandError if a conversation with this name already exists or the name is invalid."""
        check_name(name)
        if self.exists(name):
            raise CommandError(
                f"a conversation '{name}' already exists; choose another name (`foldmark import` takes --as)"
            )

    def _named(self, moment: Snapshot, name: str) -> AgentRecord | None:
        # No agent has an unprintable name. Such a name could contain lone surrogates, which no database accepts.
        return next(iter(moment.agents(name=self.secrets.hidden(name))), None) if name.isprintable() else None

    def _root(self, name: str) -> AgentRecord:
        return AgentRecord(self.new_id(), self.secrets.hidden(name), None, 0, self.clock())

    def _without_keys(self, spec: ToolSpec) -> ToolSpec:
        hidden = self.secrets.hidden_in
        return replace(spec, description=hidden(spec.description), parameters=hidden(spec.parameters))

    def _object(self, record: AgentRecord) -> Agent:
        if record.deleted:
            with self.store.read() as moment:
                if (end := end_of(moment, record.id)) is not None:
                    raise CommandError(f"{end.sentence}; {self._there_are(moment)}")
        agent = self._agents.get(record.id)
        if agent is None:
            agent = self._agents[record.id] = Agent(self, record)
        return agent

    @staticmethod
    def _there_are(moment: Snapshot) -> str:
        names = [record.name for record in moment.agents() if record.name]
        return (
            f"conversations: {listing(names)}" if names else "there is no conversation yet. `foldmark chat` starts one"
        )
