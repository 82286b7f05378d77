"""The standing of an agent: its state when a request or an operation is made, as a plain value."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct, structs

from foldmark.core import selections
from foldmark.core.agents import AgentRecord, End, Size
from foldmark.core.codec import operation_of
from foldmark.core.config import Config
from foldmark.core.events import Event, Fork
from foldmark.core.ports import NEWEST_KINDS, RESTORABLE, Snapshot
from foldmark.core.replay import Fold, birth
from foldmark.core.segments import Segments, contains, until
from foldmark.settings.given import Settings, machine

T = TypeVar("T")

AGREED_AT = "tool_approval_at"
"""Key of the machine on which a person set `tool_approval`; it is recorded with that setting."""


class Standing(Struct, frozen=True):
    """The state of an agent at one moment: its row, its fold, its fold at birth (`origin`), the size of what is
    visible, the settings from outside (`given`), and the newest event of each of `NEWEST_KINDS` that the agent
    recorded.

    `handed_down` is the data of the fork that created the agent: settings, and perhaps a scratchpad. `beside` names the
    members of `BESIDE` that exist.
    """

    record: AgentRecord
    fold: Fold
    origin: Fold
    size: Size
    newest_of: Mapping[str, Event]
    given: Settings = Settings()
    handed_down: Mapping[str, Any] = {}
    beside: frozenset[str] = frozenset()

    @property
    def lineage(self) -> Segments:
        """All events of this agent and those handed down to it, visible or not, without events of children and later
        events of a parent [SPEC 3, L6]."""
        return self.origin.segments

    @property
    def visible(self) -> Segments:
        """The segments as of now, without future events."""
        return until(self.fold.segments, self.newest)

    @property
    def newest(self) -> int:
        """The id of the newest event of this agent's timeline."""
        return self.record.newest

    @property
    def last(self) -> int:
        """The id of the newest event of this agent, of the timeline or of its metadata."""
        return self.record.next_possible - 1

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of this agent, key -> value: those of the newest `config` event, which contains all, or those
        that a fork handed down."""
        event = self.newest_of.get("config")
        if event is None:
            return self.inherited
        settings = (event.data or {}).get("settings")
        return dict(settings) if isinstance(settings, dict) else {}

    @property
    def counting(self) -> dict[str, Any]:
        """The settings that apply on this machine. A `tool_approval` applies only on the machine on which a person gave
        it, because the log may come from somebody else."""
        own = dict(self.settings)
        if "tool_approval" in own and own.get(AGREED_AT) != machine():
            del own["tool_approval"]
        return own

    @property
    def inherited(self) -> dict[str, Any]:
        """The settings of the parent when this agent was forked; none of them came from outside."""
        settings = self.handed_down.get("settings")
        return dict(settings) if isinstance(settings, dict) else {}

    @property
    def config(self) -> Config:
        """The settings, with defaults from outside and built-in ones for everything that is not set [SPEC 10]."""
        return self.given.config(self.counting)

    def with_setting(self, key: str, value: Any) -> "Standing":
        """Return the standing that would follow from a change of a setting."""
        at = self.record.next_possible
        data = {"settings": {**self.settings, key: value}}
        event = Event(at, self.record.id, None, "config", f"{key} = {value}", data, None, "human", 0, "", False)
        return structs.replace(self, newest_of={**self.newest_of, "config": event})

    @property
    def model(self) -> tuple[str, str]:
        """The names of the provider and of its model; both are `offline` for the offline model."""
        provider, _, model = self.config.model.partition("/")
        return provider, model or provider

    @property
    def scratchpad(self) -> str | None:
        """The agent's newest scratchpad, or the one that a full fork handed down."""
        event = self.newest_of.get("scratchpad")
        if event:
            return event.content
        scratchpad = self.handed_down.get("scratchpad")
        return scratchpad if isinstance(scratchpad, str) else None


def end_of(moment: Snapshot, agent_id: str) -> End | None:
    """Return an agent's end; None if it is alive. Deletion takes precedence over a kill."""
    record = moment.agent(agent_id)
    event = selections.event(moment, record.ended) if record is not None and record.ended else None
    return None if event is None else End.of(event)


class once(Generic[T]):  # noqa: N801
    """A property that is computed at its first use and kept, without a lock.

    Before Python 3.12, `functools.cached_property` holds one lock for all instances while it computes. One thread could
    compute the property and wait for the store, while the thread that holds the store waits for the property.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        value = instance.__dict__[self._name] = self._compute(instance)  # hides this descriptor from now on
        return value


class Birth(NamedTuple):
    """The birth of an agent, which never changes: its fold, and the data of its fork."""

    fold: Fold
    handed_down: Mapping[str, Any]


def birth_of(moment: Snapshot, agent_id: str, fork_event_id: int) -> Birth:
    """Return the birth of an agent. The cost grows with the depth of the agent in the tree."""
    event = next(iter(moment.events([fork_event_id])), None) if fork_event_id else None
    born = operation_of(event) if event is not None else None
    if event is None or not isinstance(born, Fork):
        return Birth(birth(agent_id), {})
    return Birth(birth(agent_id, fork_event_id, born.start, born.pins, born.evicted), event.data or {})


def state_of(moment: Snapshot, at: Standing) -> Event | None:
    """Return the state in force, with the block as content: the newest `state` event inside the visible segments, or
    the summary that carries one [SPEC 3]."""
    return state_in(moment, at, at.visible)


def state_in(moment: Snapshot, at: Standing, segments: Segments) -> Event | None:
    """Return the newest `state` event inside `segments`, or the summary that carries one, with the block as content."""
    own, carried = latest(moment, at, "state", segments), latest(moment, at, "summary", segments)
    if carried is None or (own is not None and own.id > carried.id):
        return own
    return structs.replace(carried, content=(carried.data or {})["state"])


def latest(moment: Snapshot, at: Standing, kind: str, within: Segments) -> Event | None:
    """Return the newest event of a kind inside segments; for summaries, the newest one with a state. The store is read
    only if the newest events do not decide."""
    if _knows_none(at, kind, within):
        return None
    own = at.newest_of.get(kind)
    fits = own is not None and (kind != "summary" or (own.data or {}).get("state") is not None)
    if own is not None and fits and contains(within, own.agent_id, own.id):  # inherited ones are older
        return own
    return selections.newest(moment, RESTORABLE if kind == "summary" else kind, within)


def of_kind(moment: Snapshot, at: Standing, kind: str, segments: Segments) -> list[int]:
    """Return the ids of all events of a kind inside segments."""
    return [] if _knows_none(at, kind, segments) else selections.ids(moment, kind, segments)


def showing(moment: Snapshot, at: Standing, segments: Segments) -> Standing:
    """Return the standing of the agent if these segments were visible."""
    fold = structs.replace(at.fold, segments=segments)
    return structs.replace(at, fold=fold, size=moment.size(until(segments, at.newest)))


def as_of(moment: Snapshot, at: Standing, event_id: int) -> Standing:
    """Return the standing of the agent at an event after which no operation was recorded."""
    newest_of = at.newest_of
    if any(event.id > event_id for event in newest_of.values()):
        newest_of = moment.head(at.record.id, until=event_id).newest
    return structs.replace(at, record=structs.replace(at.record, head=event_id, last=event_id), newest_of=newest_of)


def _knows_none(at: Standing, kind: str, segments: Segments) -> bool:
    """Return True if it is certain, without reading the store, that no event of this kind is inside these segments."""
    if kind not in NEWEST_KINDS or any(each.agent != at.record.id for each in segments):
        return False
    own = at.newest_of.get(kind)
    return own is None or all(own.id < each.first for each in segments)
