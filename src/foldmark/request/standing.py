"""Where an agent stands when something is asked of it."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from foldmark.core.codec import operation_of
from foldmark.core.config import Config
from foldmark.core.events import Event, Fork
from foldmark.core.ports import ANCHORS, AgentRecord, Size, Store
from foldmark.core.replay import Fold, birth
from foldmark.core.segments import Segment, Segments, contains, until
from foldmark.settings import Settings
from foldmark.settings.machine import machine

AGREED_AT = "tool_approval_at"
"""Beside the setting `tool_approval`: the machine where a person set it."""


class Standing(Struct, frozen=True):
    """Where an agent stands when it is asked: its row, its fold, what it was born with, how much is visible, the store
    to look things up in, what was given from outside, and the newest event of each of `ANCHORS` that it recorded.
    """

    store: Store
    record: AgentRecord
    fold: Fold
    origin: Fold
    size: Size
    anchors: Mapping[str, Event]
    given: Settings = Settings()

    @property
    def lineage(self) -> Segments:
        """Everything that is this agent's or was handed down to it, visible or not; no child's and no later event of a
        parent [SPEC 3, L6]."""
        return self.origin.segments

    @property
    def visible(self) -> Segments:
        """The segments as of now, without what is to come."""
        return until(self.fold.segments, self.newest)

    @property
    def newest(self) -> int:
        """The id of the newest event there is for this agent."""
        return self.record.newest

    @property
    def state(self) -> Event | None:
        """The state in force, the block as its content: the newest `state` event inside the visible segments, or the
        summary that carries one [SPEC 3]."""
        return self.state_in(self.visible)

    def state_in(self, segments: Segments) -> Event | None:
        """The newest `state` event inside `segments`, or the summary that carries one, with the block as content."""
        own, carried = self.latest("state", segments), self.latest("summary", segments)
        if carried is None or (own is not None and own.id > carried.id):
            return own
        return structs.replace(carried, content=(carried.data or {})["state"])

    def latest(self, kind: str, within: Segments | None = None) -> Event | None:
        """The newest event of a kind inside segments, by default of what the agent recorded itself; of summaries one
        with a state. It is looked up only where what is known does not tell."""
        segments = (Segment(self.record.id, 1, self.newest),) if within is None else within
        if self._knows_none(kind, segments):
            return None
        own = self.anchors.get(kind)
        fits = own is not None and (kind != "summary" or (own.data or {}).get("state") is not None)
        if own is not None and fits and contains(segments, own.agent_id, own.id):  # what was inherited is older
            return own
        return self.store.newest(kind, segments)

    def of_kind(self, kind: str, segments: Segments) -> list[int]:
        """The ids of all events of a kind inside segments."""
        return [] if self._knows_none(kind, segments) else self.store.of_kind(kind, segments)

    def _knows_none(self, kind: str, segments: Segments) -> bool:
        """Whether it is known without a look that no event of this kind is inside these segments."""
        if kind not in ANCHORS or any(each.agent != self.record.id for each in segments):
            return False
        own = self.anchors.get(kind)
        return own is None or all(own.id < each.first for each in segments)

    @property
    def settings(self) -> dict[str, Any]:
        """What was set for this agent, key -> value: the newest `config` event holds all, or a fork handed it down."""
        event = self.latest("config")
        if event is None:
            return self.inherited
        settings = (event.data or {}).get("settings")
        return dict(settings) if isinstance(settings, dict) else {}

    @property
    def counting(self) -> dict[str, Any]:
        """Those of its settings that count here. What tools may do without asking counts only where a person agreed to
        it: the log may be somebody else's."""
        own = dict(self.settings)
        if "tool_approval" in own and own.get(AGREED_AT) != machine():
            del own["tool_approval"]
        return own

    @property
    def inherited(self) -> dict[str, Any]:
        """What was set for its parent when this agent was forked; nothing of it came from outside."""
        settings = self._handed_down.get("settings")
        return dict(settings) if isinstance(settings, dict) else {}

    @property
    def config(self) -> Config:
        """The settings, and what was given from outside and is built in for all that was not set [SPEC 10]."""
        return self.given.config(self.counting)

    @property
    def scratchpad(self) -> str | None:
        """The agent's newest scratchpad, or what a full fork handed down."""
        event = self.latest("scratchpad")
        if event:
            return event.content
        scratchpad = self._handed_down.get("scratchpad")
        return scratchpad if isinstance(scratchpad, str) else None

    @property
    def _handed_down(self) -> dict[str, Any]:
        """The data of the fork that this agent was born with, without a look at the start: that is as long as it is
        deep in the tree."""
        born = self.store.event(self.record.fork_event) if self.record.fork_event else None
        return (born.data or {}) if born else {}


def origin(store: Store, agent_id: str, fork_event_id: int) -> Fold:
    """The fold that an agent was born with."""
    born = _fork(store, fork_event_id)
    return birth(agent_id, fork_event_id, born.start, born.pins, born.evicted) if born else birth(agent_id)


def _fork(store: Store, event_id: int) -> Fork | None:
    """The fork that event `event_id` records; None for 0, the birth of a root agent."""
    event = store.event(event_id) if event_id else None
    operation = operation_of(event) if event else None
    return operation if isinstance(operation, Fork) else None
