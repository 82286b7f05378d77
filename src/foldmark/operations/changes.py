"""Changes of an agent's settings and of its scratchpad, and their way back [SPEC 4].

They are no operations on the context: the newest `config` event holds all settings, and the newest `scratchpad` event
the whole text. So taking a change back records a further event, which names the change that it `restores`. As with
operations, a change that was taken back counts as if it had never been made: the newest change that counts decides each
value, and before the first one the agent's beginning.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from foldmark.core import selections
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.replay import takers
from foldmark.core.segments import Segment
from foldmark.core.wording import one_line
from foldmark.request.standing import AGREED_AT, Standing

CHANGE_KINDS = ("config", "scratchpad")
"""The kinds of events that record such changes."""

SCRATCHPAD = "scratchpad"
"""The name of the scratchpad among the values."""

CONSENT = "tool_approval"
"""A setting that is a person's consent, and counts only on the machine where it was given: no change brings it back."""

_BESIDE = frozenset((CONSENT, AGREED_AT, "calibration"))
"""Settings that are no part of a change."""

_LONGEST = 60
"""Maximum number of characters of a value that are shown."""


class SettingChange(Struct, frozen=True):
    """A recorded change: the values `before` and `after` by name; a name is missing where it was not set. `restores` is
    the change that it takes back or forth, `by` the one in force that took this one back."""

    event: Event
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    restores: int | None = None
    by: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the changed values."""
        return tuple(sorted({*self.before, *self.after}))

    @property
    def is_listed(self) -> bool:
        """True if a person or a model made the change. Foldmark lists such changes and can take them back, but not its
        own, such as the model of an import."""
        return self.event.actor != "system" and (self.restores is not None or bool(self.names))

    @property
    def words(self) -> str:
        """The change in a few words: `context_size = 3 (was 5)`."""
        if self.restores is not None:
            return f"restore of operation {self.restores}"
        return ", ".join(_words(name, self.before.get(name, UNSET), self.after.get(name, UNSET)) for name in self.names)


def _words(name: str, before: Any, after: Any) -> str:
    if name in (SCRATCHPAD, "system"):
        return f"{'system prompt' if name == 'system' else name} {'changed' if after else 'cleared'}"
    was = "" if before is UNSET else f" (was {_shown(before)})"
    return f"{name} {'unset' if after is UNSET else f'= {_shown(after)}'}{was}"


def _shown(value: Any) -> str:
    return one_line(typed(value)[:_LONGEST])


def typed(value: Any) -> str:
    """Return a value in the form that `/config set` accepts."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def changes(moment: Snapshot, at: Standing) -> list[SettingChange]:
    """Return the changes of the agent's settings and scratchpad, oldest first. Cost grows with their number."""
    own = (Segment(at.record.id, 1, at.newest),)
    ids = sorted(event_id for kind in CHANGE_KINDS for event_id in selections.ids(moment, kind, own))
    found, known, settings = list[SettingChange](), set[int](), _of_change(at.inherited)
    handed_down = at.handed_down.get(SCRATCHPAD)
    pad = {SCRATCHPAD: handed_down if isinstance(handed_down, str) else ""}
    for event in moment.events(ids):
        data = event.data or {}
        if event.kind == "config":
            was, now = settings, _of_change(data.get("settings"))
            settings = now
        else:
            was, now = pad, {SCRATCHPAD: event.content}
            pad = now
        named = data.get("names")  # a value may have been set to what it was
        names = [
            name
            for name in {*was, *now}
            if was.get(name, UNSET) != now.get(name, UNSET) or (isinstance(named, list) and name in named)
        ]
        before, after = ({name: each[name] for name in names if name in each} for each in (was, now))
        restores = data.get("restores")
        is_earlier = isinstance(restores, int) and restores in known  # whoever wrote this
        found.append(SettingChange(event, before, after, restores if is_earlier else None))
        known.add(event.id)
    by = takers([(each.event.id, each.restores) for each in found])
    return [replace(each, by=by.get(each.event.id)) for each in found]


def _of_change(settings: Any) -> dict[str, Any]:
    found = settings if isinstance(settings, dict) else {}
    return {name: value for name, value in found.items() if name not in _BESIDE}


def change_with(found: Iterable[SettingChange], event_id: int) -> SettingChange | None:
    """Return the change that an event records; None if it records none that can be taken back."""
    return next((each for each in found if each.event.id == event_id and each.is_listed), None)


def values_without(found: Sequence[SettingChange], target: int) -> dict[str, Any]:
    """Return the values, by name, that count once change `target` is taken back; `UNSET` where none was set."""
    known = {each.event.id: each for each in found}
    back = takers([*((id, each.restores) for id, each in known.items()), (max(known) + 1, target)])
    origin = known[target]
    while origin.restores is not None:  # a restore changes what its target has changed
        origin = known[origin.restores]
    values: dict[str, Any] = {}
    for name in origin.names:
        made = [each for each in found if each.restores is None and name in each.names]
        counting = [each for each in made if each.event.id not in back]
        values[name] = (counting[-1].after if counting else made[0].before).get(name, UNSET)
    return values
