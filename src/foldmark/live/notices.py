"""Notices: what the author of a session should know without having asked [SPEC 5.7].

A notice stands before the next answer that can show it, or before the reply to a command. If there is none until the
agent ends, the line at the end has it. Each is given once.
"""

import logging
from collections.abc import Mapping, Sequence

from foldmark.live.clients.dialect import ClientRequest
from foldmark.live.live_agent import IdleCompaction
from foldmark.live.prompts import is_not_done
from foldmark.live.transcript import ClientTranscript
from foldmark.overlay.pieces import ClientMessage, MisplacedError

LOG = logging.getLogger(__name__)

IDLE = "idle"
"""The name under which a transcript remembers the notice of a compaction while the agent is idle."""

_NEAR = 0.9
"""Share of the tokens from which an idle agent compacts at which this is said."""


def note(
    transcript: ClientTranscript,
    headers: Mapping[str, str],
    request: ClientRequest,
    environment: Mapping[str, str],
    sign: str,
) -> list[str]:
    """Give a transcript the notices that a request is a reason for, and return the names of those to be given once for
    all. `environment` locates the client's settings."""
    agent, found, once = request.dialect.agent, list[str](), list[str]()
    if transcript.resumed and not transcript.named:
        transcript.resumed = False
        prompts = _unrecorded(transcript, request.messages)
        if prompts and transcript.is_edited(transcript.standing()):
            found.append(_resumed(prompts))
    large = agent.least_idle and not transcript.named and transcript.filled >= _NEAR * agent.least_idle
    if large and request.dialect.cache_asked(request):  # it compacts before the cache expires
        compaction = agent.idle_compaction(headers, environment)
        limit = transcript.idle_limit = None if compaction is None else compaction.tokens
        near = limit is not None and transcript.filled >= _NEAR * limit
        if compaction is not None and near and IDLE not in transcript.noted:
            transcript.noted |= {IDLE}
            once.append(IDLE)
            found.append(_compacts(transcript.filled, compaction, sign))
    transcript.shows = agent.is_attended(headers)
    if found:
        transcript.unsaid = "\n\n".join(filter(None, (transcript.unsaid, *found)))
        LOG.warning("%s", transcript.unsaid)
    return once


def note_whole(transcript: ClientTranscript, why: MisplacedError, sign: str) -> None:
    """Give a transcript the notice that an edit does not hold, until one holds again."""
    if not transcript.whole:
        transcript.whole, transcript.unsaid = True, transcript.with_unsaid(_whole(why, sign))


def _unrecorded(transcript: ClientTranscript, messages: Sequence[ClientMessage]) -> int:
    """Return the number of prompts that a model has answered and that no gateway has recorded. What a client puts in
    place of earlier messages, as in a compaction, does not count."""
    dialect, waiting, found = transcript.dialect, 0, 0
    places = transcript.places(messages, asks=True, known=transcript.known)
    new = [message for message, place in zip(messages, places, strict=True) if place is None]
    for message in new[2 * bool(new and dialect.is_compacted(new[0])) :]:
        if message.role != "assistant":
            waiting += len(dialect.prompts(message))
        elif not (dialect.is_reply(message) or is_not_done(message)):
            found, waiting = found + waiting, 0
        else:
            waiting = 0
    return found


def _resumed(prompts: int) -> str:
    many = "1 prompt of this session was" if prompts == 1 else f"{prompts} prompts of this session were"
    return (
        f"foldmark: {many} answered without Foldmark, or could not be recorded. Without Foldmark, the agent has also "
        "sent dropped turns, commands and replies to the model. From now on the edits hold again."
    )


def _whole(why: MisplacedError, sign: str) -> str:
    return (
        f"foldmark: the edits do not hold now. The provider would refuse the request ({why}), so it goes out with "
        f"everything that the agent sends. {sign}operations lists what was changed, {sign}restore ID takes it back."
    )


def _compacts(filled: int, compaction: IdleCompaction, sign: str) -> str:
    return (
        f"foldmark: this session holds ~{filled // 1000:,}K tokens. From {compaction.tokens // 1000:,}K on, "
        f"{compaction.title} puts a summary in its place once it has been idle for {compaction.minutes} minutes. "
        f"{sign}drop and {sign}evict make it smaller; {compaction.off} turns this off."
    )
