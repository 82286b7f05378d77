"""The sub-agents of clients that name neither them nor their sessions [SPEC 5.7].

A request says only that it is a sub-agent's. Sub-agents with the same task begin alike, may work at the same time, and
may even get the same answers; so a request goes on with the sub-agent of its session whose messages it repeats. A
sub-agent never goes back to its task: a request that holds nothing else is a new sub-agent's, unless it is asked again
because its answer did not come.
"""

from collections.abc import Sequence

from foldmark.live.clients.dialect import ClientMessage, ClientRequest
from foldmark.live.leaving_out import shared
from foldmark.live.transcript import ClientTranscript


class UnnamedSubAgents:
    """The transcripts of the sub-agents of one run of a client, and the requests that are not yet answered."""

    def __init__(self) -> None:
        self._loaded: dict[str, ClientTranscript] = {}
        self._asked: dict[str, ClientRequest] = {}

    def continued(self, root: ClientTranscript, request: ClientRequest) -> ClientTranscript:
        """Return the transcript that a request of a sub-agent of `root` goes on with, a new one if there is none."""
        messages = request.messages
        task = f"{request.head.agent} {messages[0].key if messages else ''}"
        names = [name for name in root.children if name == task or name.startswith(f"{task} ")]
        found = self._best([self._opened(root, name) for name in names], messages)
        return found or self._opened(root, f"{task} {len(names) + 1}" if names else task)

    def begin_answer(self, transcript: ClientTranscript, request: ClientRequest) -> None:
        """Note that the answer to a request is awaited."""
        self._asked[transcript.agent.id] = request

    def end_answer(self, transcript: ClientTranscript, request: ClientRequest) -> None:
        """Note that the answer to a request has come, or will not come."""
        if self._asked.get(transcript.agent.id) is request:
            del self._asked[transcript.agent.id]

    def _opened(self, root: ClientTranscript, name: str) -> ClientTranscript:
        agent = root.child(name)
        if agent.id not in self._loaded:
            self._loaded[agent.id] = ClientTranscript(agent, root.session, root.dialect)
        return self._loaded[agent.id]

    def _best(self, same: list[ClientTranscript], messages: Sequence[ClientMessage]) -> ClientTranscript | None:
        """Return the one of sub-agents with the same task that sends these messages."""
        keys = [message.key for message in messages]
        sent = [(each, self._sent(each)) for each in same]
        going_on = [
            (each, before)
            for each, before in sent
            if keys[: len(before)] == before and (len(before) < len(keys) or each.agent.id not in self._asked)
        ]
        if going_on:
            longest = max(len(before) for _, before in going_on)
            equal = [each for each, before in going_on if len(before) == longest]
            return next((each for each in equal if _calls_alike(each, messages[:longest])), equal[0])
        if len(keys) <= 1:
            return None
        # It has changed what it sends, as by a compression.
        return max(sent, key=lambda found: shared(found[1], keys))[0] if sent else None

    def _sent(self, transcript: ClientTranscript) -> list[str]:
        """Return the keys of the messages that a sub-agent has sent or got."""
        if (asked := self._asked.get(transcript.agent.id)) is not None:
            return [message.key for message in asked.messages]
        known = transcript.known
        if known and not any(known[-1].ids):
            known = known[:-1]  # an empty answer, which is asked for again
        return [each.key for each in known]


def _calls_alike(transcript: ClientTranscript, messages: Sequence[ClientMessage]) -> bool:
    """Return True if the newest calls among messages have the ids that were recorded."""
    place = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].calls), None)
    if place is None or place >= len(transcript.known):
        return True
    with transcript.agent.log.store.read() as moment:
        recorded = {event.call_id for event in moment.events([id for id in transcript.known[place].ids if id > 0])}
    return set(messages[place].calls) <= recorded
