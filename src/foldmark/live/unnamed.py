"""The sessions of clients that do not name them [SPEC 5.7].

A request goes on with the conversation that it begins like. A gateway's first session has the id of its run, so that
another gateway of the same run finds it. A session that a client has resumed in another run is looked for in the log:
the newest conversation of the folder and wire that shares a prompt and an answer with the request.
"""

from collections.abc import Iterator

from foldmark.live.clients.dialect import ClientDialect, ClientRequest
from foldmark.live.gateway_records import first_keys
from foldmark.live.leaving_out import shared
from foldmark.live.transcript import ClientTranscript
from foldmark.log import Agent, Log
from foldmark.log.live_session import client_session

_SEARCHED = 50
"""Conversations among which a resumed one is looked for, the newest ones."""

_LOADED = 5
"""Conversations that are read for a request beside one, the newest ones."""

_ENOUGH = 2
"""Messages that a resumed session has in common with its conversation: a first prompt alone is often the same."""


class UnnamedSessions:
    """The transcripts of one run of a client, in the order of their newest requests. `own` is the id of the run."""

    def __init__(self, log: Log, folder: str, own: str) -> None:
        self._log, self._folder, self._own = log, folder, own
        self._loaded: list[ClientTranscript] = []

    def continued(self, request: ClientRequest) -> ClientTranscript | None:
        """Return the transcript that a request goes on with, or that its sub-agent belongs to; None for a new one."""
        dialect, messages = request.dialect, request.messages
        loaded = [each for each in reversed(self._loaded) if each.dialect is dialect]
        if not loaded and (own := self._own_one(dialect)) is not None:
            loaded = [own]
        if request.head.agent:
            return loaded[0] if loaded else None
        found = max(loaded, key=lambda each: _shared(each, request), default=None)
        if found is None or not _shared(found, request):
            found = next(self._resumed(request), None) if len(messages) > _ENOUGH else None
        if found is None and loaded and messages and dialect.is_compacted(messages[0]):
            found = loaded[0]
        if found is not None:
            self._loaded = [*(each for each in self._loaded if each is not found), found]
        return found

    def repeated(self, request: ClientRequest) -> ClientTranscript | None:
        """Return the transcript of which a request beside it repeats a part, if none is known yet: a client that has
        resumed a session may ask such a request first."""
        if any(each.dialect is request.dialect for each in self._loaded):
            return None
        keys = {message.key for message in request.messages[:-1]}
        for agent in self._named()[:_LOADED] if len(keys) >= _ENOUGH else ():
            made = _opened(agent, request.dialect)
            if made is not None and len(keys & {each.key for each in made.known}) >= _ENOUGH:
                self._loaded.append(made)
                return made
        return None

    def begin(self, dialect: ClientDialect) -> ClientTranscript:
        """Return the transcript of a new session."""
        own = self._log_name(self._own)
        taken = any(agent.name == own for agent in self._log.agents())
        session = self._log.new_id() if taken else self._own
        made = ClientTranscript(self._log.agent(self._log_name(session)), session, dialect)
        self._loaded.append(made)
        return made

    def _log_name(self, session: str) -> str:
        return f"{self._folder} · {session[:8]}"

    def _own_one(self, dialect: ClientDialect) -> ClientTranscript | None:
        """Return what an earlier gateway of this run has recorded."""
        name = self._log_name(self._own)
        agent = next((each for each in self._log.agents() if each.name == name), None)
        return None if agent is None else _opened(agent, dialect)

    def _resumed(self, request: ClientRequest) -> Iterator[ClientTranscript]:
        first = request.messages[0].key
        for agent in self._named()[:_SEARCHED]:
            if first in first_keys(agent):
                made = _opened(agent, request.dialect)
                if made is not None and _shared(made, request) >= _ENOUGH:
                    yield made

    def _named(self) -> list[Agent]:
        """Return the conversations of this folder, newest first."""
        begins = self._log_name("")
        return [each for each in reversed(self._log.agents()) if each.name and each.name.startswith(begins)]


def _opened(agent: Agent, dialect: ClientDialect) -> ClientTranscript | None:
    session = client_session(agent, dialect.name)
    return None if session is None else ClientTranscript(agent, session, dialect)


def _shared(transcript: ClientTranscript, request: ClientRequest) -> int:
    """Return how many messages both begin with."""
    return shared([each.key for each in transcript.known], [message.key for message in request.messages])
