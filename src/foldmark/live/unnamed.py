"""The sessions and the sub-agents of clients that do not name them [SPEC 5.7].

A request continues the conversation that begins with the same messages. A gateway's first session has the id of its
run, so that another gateway of the same run finds it. A session that a client has resumed in another run is looked up
in the log: it is the newest conversation of the folder and wire that shares a prompt and an answer with the request.

A sub-agent's request does not identify the sub-agent that sends it. Sub-agents with the same task begin alike, may work
at the same time, and may even get the same answers. So a request belongs to the sub-agent of its session whose messages
it repeats. A sub-agent never returns to its task: a request that contains only the task comes from a new sub-agent,
unless it repeats a request whose answer did not arrive.
"""

from collections.abc import Iterator, Sequence

from foldmark.core.assembly.caching import common_length
from foldmark.live.clients.dialect import ClientDialect, ClientRequest
from foldmark.live.status import first_keys
from foldmark.live.transcript import ClientTranscript, named_transcript, session_name, sub_agent
from foldmark.log import Agent, Log
from foldmark.log.live_session import client_session
from foldmark.overlay.pieces import ClientMessage

_SEARCHED = 50
"""Number of newest conversations to search for a resumed one."""

LOADED = 5
"""Number of newest conversations to read for a request outside a conversation."""

_ENOUGH = 2
"""Minimum number of messages shared by a resumed session and its conversation: equal first prompts are common."""


class UnnamedSessions:
    """The transcripts of one run of a client, in the order of their newest requests. `own` is the id of the run."""

    def __init__(self, log: Log, folder: str, own: str) -> None:
        self._log, self._folder, self._own = log, folder, own
        self._loaded: list[ClientTranscript] = []

    def continued(self, request: ClientRequest) -> ClientTranscript | None:
        """Return the transcript that a request continues, or that its sub-agent belongs to; None for a new one."""
        dialect, messages = request.dialect, request.messages
        loaded = [each for each in reversed(self._loaded) if each.dialect is dialect]
        if not loaded and (own := self._own_one(dialect)) is not None:
            loaded = [own]
        if request.head.agent:
            return loaded[0] if loaded else None
        keys = [message.key for message in messages]
        found = max(loaded, key=lambda each: each.shares(keys), default=None)
        if found is None or not found.shares(keys):
            found = next(self._resumed(request), None) if len(messages) > _ENOUGH else None
        if found is None and loaded and messages and dialect.is_compacted(messages[0]):
            found = loaded[0]
        if found is not None:
            self._loaded = [*(each for each in self._loaded if each is not found), found]
        return found

    def repeated(self, request: ClientRequest) -> ClientTranscript | None:
        """Return the transcript of which a request outside the conversation repeats a part, if no transcript is known
        yet: a client that has resumed a session may send such a request first."""
        if any(each.dialect is request.dialect for each in self._loaded):
            return None
        keys = {message.key for message in request.messages[:-1]}
        for agent in conversations(self._log, self._folder)[:LOADED] if len(keys) >= _ENOUGH else ():
            made = _opened(agent, request.dialect)
            if made is not None and len(keys & {each.key for each in made.known}) >= _ENOUGH:
                self._loaded.append(made)
                return made
        return None

    def begin(self, dialect: ClientDialect) -> ClientTranscript:
        """Return the transcript of a new session."""
        own = session_name(self._log, self._folder, self._own)
        taken = any(each.session == self._own for each in self._loaded) or self._log.exists(own)
        session = self._log.new_id() if taken else self._own
        made = named_transcript(self._log, self._folder, session, dialect, ClientTranscript)
        self._loaded.append(made)
        return made

    def _own_one(self, dialect: ClientDialect) -> ClientTranscript | None:
        """Return the transcript that an earlier gateway of this run recorded; None if there is none."""
        name = session_name(self._log, self._folder, self._own)
        return _opened(self._log.agent(name), dialect) if self._log.exists(name) else None

    def _resumed(self, request: ClientRequest) -> Iterator[ClientTranscript]:
        first = request.messages[0].key
        for agent in conversations(self._log, self._folder)[:_SEARCHED]:
            if first in first_keys(agent):
                made = _opened(agent, request.dialect)
                if made is not None and made.shares([message.key for message in request.messages]) >= _ENOUGH:
                    yield made


def _opened(agent: Agent, dialect: ClientDialect) -> ClientTranscript | None:
    session = client_session(agent, dialect.name)
    return None if session is None else ClientTranscript(agent, session, dialect)


def conversations(log: Log, folder: str) -> list[Agent]:
    """Return the conversations of a folder's sessions, newest first."""
    return [each for each in reversed(log.agents()) if each.name and each.name.startswith(f"{folder} · ")]


class UnnamedSubAgents:
    """The transcripts of the sub-agents of one run of a client, and the requests that are not yet answered."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[str, str], ClientTranscript] = {}
        self._asked: dict[ClientTranscript, ClientRequest] = {}

    def continued(self, root: ClientTranscript, request: ClientRequest) -> ClientTranscript:
        """Return the transcript that a request of a sub-agent of `root` continues, or a new one."""
        messages = request.messages
        task = f"{request.head.agent} {messages[0].key if messages else ''}"
        known = dict.fromkeys([*root.children, *(name for session, name in self._loaded if session == root.session)])
        names = [name for name in known if name == task or name.startswith(f"{task} ")]
        found = self._best([self._opened(root, name) for name in names], messages)
        return found or self._opened(root, f"{task} {len(names) + 1}" if names else task)

    def begin_answer(self, transcript: ClientTranscript, request: ClientRequest) -> None:
        """Note that the answer to a request is awaited."""
        self._asked[transcript] = request

    def end_answer(self, transcript: ClientTranscript, request: ClientRequest) -> None:
        """Note that the answer to a request has come, or will not come."""
        if self._asked.get(transcript) is request:
            del self._asked[transcript]

    def _opened(self, root: ClientTranscript, name: str) -> ClientTranscript:
        if (root.session, name) not in self._loaded:
            self._loaded[root.session, name] = sub_agent(root, name)
        return self._loaded[root.session, name]

    def _best(self, same: list[ClientTranscript], messages: Sequence[ClientMessage]) -> ClientTranscript | None:
        """Return the sub-agent with the same task that sends these messages; None for a new one."""
        keys = [message.key for message in messages]
        sent = [(each, self._sent(each)) for each in same]
        going_on = [
            (each, before)
            for each, before in sent
            if keys[: len(before)] == before and (len(before) < len(keys) or each not in self._asked)
        ]
        if going_on:
            longest = max(len(before) for _, before in going_on)
            equal = [each for each, before in going_on if len(before) == longest]
            return next((each for each in equal if _calls_alike(each, messages[:longest])), equal[0])
        if len(keys) <= 1:
            return None
        # The sub-agent has changed its messages, for example by a compression.
        return max(sent, key=lambda found: common_length(found[1], keys))[0] if sent else None

    def _sent(self, transcript: ClientTranscript) -> list[str]:
        """Return the keys of the messages that a sub-agent has sent or received."""
        if (asked := self._asked.get(transcript)) is not None:
            return [message.key for message in asked.messages]
        known = transcript.known
        if known and not any(known[-1].ids):
            known = known[:-1]  # an empty answer, which the client requests again
        return [each.key for each in known]


def _calls_alike(transcript: ClientTranscript, messages: Sequence[ClientMessage]) -> bool:
    """Return True if the newest calls among messages have the ids that were recorded."""
    place = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].calls), None)
    if place is None or place >= len(transcript.known):
        return True
    with transcript.agent.log.store.read() as moment:
        recorded = {event.call_id for event in moment.events([id for id in transcript.known[place].ids if id > 0])}
    return set(messages[place].calls) <= recorded
