"""Records of gateways: the sessions, the messages removed from them, and those that their clients left out [SPEC
5.7]."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec.structs import asdict

from foldmark.core import selections
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.segments import END, Segment, normal, subtract
from foldmark.core.wording import count
from foldmark.cost.ledger import EditShare, EditShares, Ledger, counted, ledger_in, shares_in
from foldmark.log import Agent, Log
from foldmark.log.live_session import client_session, client_tokens, left_out
from foldmark.request.client_requests import NextRequest
from foldmark.request.passed_requests import gateway_record
from foldmark.request.standing import Standing

_EDITS = ("clear", "rewind", "filter", "drop", "undo", "summary", "evict", "restore", "redact")
"""Kinds of operations that change what is sent."""

_NAMED = 5
"""Number of operations that a status names in text."""


class LiveEdit(NamedTuple):
    """An operation by a person or a model, and what it saves and costs."""

    operation: int
    kind: str
    share: EditShare

    def data(self) -> dict[str, Any]:
        """Return the edit as JSON."""
        names = ("out", "saved", "saved_dollars", "again", "again_dollars")
        numbers = {name: getattr(self.share, name) for name in names}
        return {"operation": self.operation, "kind": self.kind, **numbers}

    @property
    def line(self) -> str:
        """The edit in one line."""
        share = self.share
        parts = [f"~{count(share.out, 'token')} less a request"] if share.out > 0 else []
        parts += [f"~{count(-share.out, 'token')} more a request"] if share.out < 0 else []
        parts += [f"saved {_amount(share.saved, share.saved_dollars)}"] if share.saved > 0 else []
        parts += [f"added {_amount(-share.saved, -share.saved_dollars)}"] if share.saved < 0 else []
        parts += [f"cost {_amount(share.again, share.again_dollars)} sent again"] if share.again else []
        return f"  {self.operation} {self.kind}   {' · '.join(parts) or 'no request since'}"


class LiveStatus(NamedTuple):
    """A recorded session: the tokens of its next request and of the model's window, the tokens that were taken out, the
    operations by people and models, the sums over its requests, the thinking blocks of its next request that are sent,
    and lost because what preceded them has changed, and the edits, oldest first."""

    name: str
    agent: str
    session: str
    tokens: int
    window: int
    taken_out: int
    operations: int
    ledger: Ledger = Ledger()
    thinking: tuple[int, int] = (0, 0)
    edits: tuple[LiveEdit, ...] = ()

    @property
    def answers(self) -> int:
        """The number of answers."""
        return self.ledger.answers

    @property
    def prevented(self) -> int:
        """The requests that were passed on unchanged because an edit failed."""
        return self.ledger.prevented

    @property
    def cached(self) -> float:
        """The share of the input of all answers that was read from the cache."""
        return self.ledger.read / self.ledger.input if self.ledger.input else 0.0

    def data(self) -> dict[str, Any]:
        """Return the status as JSON."""
        ledger, (sent, lost) = self.ledger, self.thinking
        names = ("name", "agent", "session", "tokens", "window", "answers", "cached", "taken_out", "operations")
        own = {name: getattr(self, name) for name in (*names, "prevented")}
        sums = {name: value for name, value in asdict(ledger).items() if name not in ("worth", "shares")}
        edits = [each.data() for each in self.edits]
        thinking = {"thinking_sent": sent, "thinking_lost": lost}
        return {**own, "ledger": {"requests": ledger.requests, **sums, **thinking, "edits": edits}}

    @property
    def line(self) -> str:
        """The status in one line."""
        ledger, lost = self.ledger, self.thinking[1]
        parts = [filled(self.tokens, self.window), count(self.answers, "answer"), f"{self.cached:.0%} read from cache"]
        parts += [f"~{self.taken_out:,} tokens taken out", count(self.operations, "operation")]
        if ledger.saved:
            parts.append(f"edits saved {_amount(ledger.saved, ledger.saved_dollars)}")
        if ledger.again:
            parts.append(f"edits cost {_amount(ledger.again, ledger.again_dollars)} sent again")
        if ledger.questions:
            asked = _amount(ledger.question_tokens, ledger.question_dollars)
            parts.append(f"{count(ledger.questions, 'question')} to its model {asked}")
        if lost:
            parts.append(f"{count(lost, 'thinking block')} lost")
        if ledger.refused:
            parts.append(f"{count(ledger.refused, 'request')} refused")
        if self.prevented:
            parts.append(f"{count(self.prevented, 'request')} passed on unedited, since an edit failed")
        return f"{self.name}   {' · '.join(parts)}"

    @property
    def lines(self) -> list[str]:
        """The status, and the edits that save or cost the most."""

        def weight(edit: LiveEdit) -> int:
            return abs(edit.share.saved) + edit.share.again

        largest = sorted(sorted(self.edits, key=weight, reverse=True)[:_NAMED], key=lambda edit: edit.operation)
        more = len(self.edits) - len(largest)
        rest = [f"  {count(more, 'smaller one')} in --json"] if more else []
        return [self.line, *(edit.line for edit in largest), *rest]


def filled(tokens: int, window: int) -> str:
    """Return how much of a window is filled."""
    return f"{tokens:,} of {window:,} tokens ({100 * tokens // max(1, window)}%)"


def _amount(tokens: int, dollars: float) -> str:
    return f"~{count(tokens, 'token')}" + (f" (${dollars:,.2f})" if dollars >= 0.005 else "")


def statuses(log: Log) -> list[LiveStatus]:
    """Return the status of every recorded session, oldest first."""
    named = [agent for agent in log.agents() if agent.name is not None]
    return [status(agent, session) for agent in named if (session := client_session(agent)) is not None]


def status(agent: Agent, session: str) -> LiveStatus:
    """Return the status of one recorded session."""
    with agent.reading() as (moment, at):
        out = taken_out(moment, at)
        operations = [event for event in selections.operations(moment, agent.id) if event.actor != "system"]
        tokens, (ledger, shares) = client_tokens(agent, moment, at), ledger_of(agent, moment, at)
        request = NextRequest.of(moment, at)
        thinking = (0, 0) if request is None else request.thinking()
    name, each = agent.name or agent.id, shares.at(ledger)
    edits = tuple(
        LiveEdit(event.id, event.kind, each.get(event.id, EditShare())) for event in operations if event.kind in _EDITS
    )
    return LiveStatus(name, agent.id, session, tokens, agent.window, out, len(operations), ledger, thinking, edits)


_PAGE, _FIRST = 1000, 50


def first_keys(agent: Agent) -> set[str]:
    """Return the keys of the client's first messages: those at the start of the session, and those since it last
    replaced the beginning of its transcript, for example by a compaction."""
    with agent.reading() as (moment, at):
        found = _beginnings(agent.events(0, _FIRST))
        for operation in reversed(list(left_out(moment, at))):
            # The messages that replaced others, and the record of them.
            if newest := _beginnings(selections.events_after(moment, agent.id, operation.id, _FIRST)):
                return found | newest
    return found


def _beginnings(events: Iterable[Event]) -> set[str]:
    """Return the keys of the first messages of entirely new transcripts, from a gateway's records among `events`."""
    found = [about for about in map(gateway_record, events) if about is not None and about.get("added")]
    return {about["added"][0][0] for about in found if not about["kept"]}


def taken_out(moment: Snapshot, at: Standing) -> int:
    """Return the tokens that operations take out of the client's next request (`NextRequest`): messages, evicted
    results, and thinking that can no longer be sent. Without recorded sizes, the estimate of the messages."""
    if not any(event.actor != "system" for event in selections.operations(moment, at.record.id)):
        return 0
    if (request := NextRequest.of(moment, at)) is not None:
        return request.taken_out()
    ranges = [Segment(*each) for event in left_out(moment, at) for each in (event.data or {}).get("ranges", ())]
    left = moment.size(subtract(normal(ranges), at.visible)).tokens
    return max(0, at.record.own.tokens - at.size.tokens - left)


def ledger_of(agent: Agent, moment: Snapshot, at: Standing) -> tuple[Ledger, EditShares]:
    """Return the sums over a session's requests, and the shares of its operations, from the newest record; all answers
    are read only if an older version recorded it."""
    newest = selections.recent(moment, "usage", agent.id, at.last, 1)
    events = selections.events_after(moment, agent.id, newest[0].id if newest else 0, _PAGE)
    about = next(filter(None, map(gateway_record, reversed(events))), None)
    if (found := ledger_in(about)) is not None:
        changed = None if "shares" in (about or {}) else selections.event(moment, found.shares)
        shares = shares_in(about if changed is None else gateway_record(changed))
        return found, shares or EditShares()
    ledger = Ledger(prevented=int((about or {}).get("prevented", 0)))
    for event in moment.select((Segment(agent.id, 1, END),), "usage", expected=END):
        ledger = counted(ledger, event, agent.log.model_named)
    return ledger, EditShares()
