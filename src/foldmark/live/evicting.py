"""Evict results without asking, for the reasons that `[live] evict` names, when it costs nothing [SPEC 5.7].

It costs nothing if the provider's cache holds nothing of the session any more, because it has expired or the model has
changed. If the request has changed anyway, by another edit or by the client's own compaction, results behind the first
change cost nothing. A result of the newest turn is never evicted, nor one that a person has restored, nor one whose
eviction would cost thinking.
"""

import logging
from bisect import bisect_left
from collections.abc import Sequence
from concurrent.futures import Future
from threading import Event
from typing import NamedTuple

from foldmark.core import selections
from foldmark.core.codec import operation_of, stored_time
from foldmark.core.events import CONTEXT_KINDS, Evict
from foldmark.core.replay import Fold, advance
from foldmark.editing.suggesting import Superfluous, superfluous
from foldmark.live import prompts
from foldmark.live.clients.dialect import ClientRequest
from foldmark.live.recording import Recorder
from foldmark.live.transcript import ClientTranscript
from foldmark.log import Log
from foldmark.request.client_requests import NextRequest

LOG = logging.getLogger(__name__)

_CHANGES = frozenset((*CONTEXT_KINDS, "evict", "restore"))
_RECENT = 50
"""Number of newest answers among which the newest one of each model is looked for."""

EXPIRED, SWITCHED, CHANGED = "the cache had expired", "the model has changed", "the request had changed anyway"
"""Why an eviction costs nothing."""


class _Sent(NamedTuple):
    """What is known of the requests of a session: the time until which each model's cache may hold something, and the
    newest event that the newest request knew."""

    until: dict[str, float]
    known: int


class Evictor:
    """Evicts for the reasons in the settings of a log. `recorder` does what writes to the log."""

    def __init__(self, log: Log, recorder: Recorder) -> None:
        self._log, self._recorder, self._reasons = log, recorder, log.given.live_evict
        self._sent: dict[str, _Sent] = {}

    def evict(self, request: ClientRequest, transcript: ClientTranscript) -> None:
        """Evict what costs nothing before a request goes out, and let the receipt be shown at the next chance. After
        any failure, nothing is evicted."""
        if not self._reasons or transcript.named or not transcript.exists:
            return
        try:
            self._evict(request, transcript)
        except Exception as error:
            LOG.warning("nothing was evicted: %s", type(error).__name__)

    def _evict(self, request: ClientRequest, transcript: ClientTranscript) -> None:
        agent, model = transcript.agent, request.head.model
        sent = self._sent.get(transcript.session) or self._recorded(transcript, request)
        now = stored_time(self._log.clock()).timestamp()
        self._sent[transcript.session] = _Sent({**sent.until, model: now + self._lifetime(request)}, sent.known)
        free = ""
        if now > sent.until.get(model, 0.0):
            free = EXPIRED if model in sent.until else SWITCHED
        with agent.reading() as (moment, _):
            changed = any(each.kind in _CHANGES for each in selections.operations(moment, agent.id, after=sent.known))
        known = [each.key for each in transcript.known]
        if free or changed or known != [message.key for message in request.messages[: len(known)]]:
            over = Event()
            self._recorder.submit(self._done, request, transcript, free, over).add_done_callback(_logged)
            self._recorder.caught_up()
            over.set()  # later, it would cost something
        if (standing := transcript.standing()) is not None:
            self._sent[transcript.session] = self._sent[transcript.session]._replace(known=standing.newest)

    def _recorded(self, transcript: ClientTranscript, request: ClientRequest) -> _Sent:
        """Return what the log knows of the requests of a session."""
        agent, until = transcript.agent, dict[str, float]()
        with agent.reading() as (moment, at):
            newest = NextRequest.of(moment, at)
            for event in selections.recent(moment, "usage", agent.id, at.last, _RECENT):
                made = stored_time(event.created_at).timestamp() + self._lifetime(request)
                # An answer may name its model otherwise than the request did.
                until.setdefault(at.model[1], made)
                until.setdefault(str((event.data or {}).get("model")), made)
        return _Sent(until, 0 if newest is None else newest.newest.known)

    def _lifetime(self, request: ClientRequest) -> float:
        """Return the seconds for which the provider keeps this request in its cache; endless if that is not known."""
        lives = request.lifetime(self._log.model_named)
        return float("inf") if lives is None else lives

    # In the recorder's thread

    def _done(self, request: ClientRequest, transcript: ClientTranscript, free: str, over: Event) -> None:
        """Record a request, evict unless it is `over`, and let the receipt be shown."""
        transcript.take(request.messages, request.head.model)
        agent = transcript.agent
        agent.context()
        wanted = superfluous(agent, self._reasons)
        with agent.reading() as (moment, at):
            client, operations = NextRequest.of(moment, at), map(operation_of, selections.operations(moment, agent.id))
            # What a person has restored stays, and so does what no answered request has shown to the model.
            before = {id for each in operations if isinstance(each, Evict) for id in each.results}
            upto = 0 if client is None else client.answered.event.id
            wanted = [each for each in wanted if each.sent.result.id < upto and each.sent.result.id not in before]
            wanted.sort(key=lambda each: each.sent.result.id)
            chosen = (
                [] if client is None else costless(client, at.fold, at.record.next_possible, wanted, cold=bool(free))
            )
        if not chosen or over.is_set():
            return
        why = ", ".join(dict.fromkeys(each.why for each in chosen))
        source = self._log.given.defaults.get("live_evict") or self._log.given.overrides["live_evict"]
        reason = f"{why}, by live_evict ({source.source}), since {free or CHANGED}"
        text = prompts.shown(agent, transcript.evict([each.sent.result.id for each in chosen], reason))
        transcript.unsaid = transcript.with_unsaid(text)
        LOG.warning("%s", text)


def _logged(done: "Future[None]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        LOG.warning("nothing was evicted: %s", type(error).__name__)


def costless(
    client: NextRequest, fold: Fold, supposed: int, wanted: Sequence[Superfluous], *, cold: bool
) -> list[Superfluous]:
    """Return those of the `wanted` results, in the order of the log, whose eviction costs nothing: no thinking and, if
    the provider's cache is not `cold`, nothing of what it holds. Later results never cost more than earlier ones, so
    they are the last ones."""
    held = client.held(fold)

    def costs(first: int) -> bool:
        ids = tuple(each.sent.result.id for each in wanted[first:])
        found = client.compared(fold, advance(fold, [(supposed, Evict(ids))]))
        return found.lost > 0 or (not cold and found.held < held)

    return list(wanted[bisect_left(range(len(wanted)), True, key=lambda first: not costs(first)) :])
