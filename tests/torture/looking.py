"""Opens a database and reads all of it."""

from __future__ import annotations

import foldmark
from foldmark import Log
from foldmark.core import selections
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot

_PAGE = 5000


def open_log(address: str, *, create: bool = False) -> Log:
    """Open a database with the built-in settings."""
    return foldmark.open(address, create=create, settings={})


def events_of(moment: Snapshot, agent_id: str) -> list[Event]:
    """Return all events of an agent, in order."""
    found: list[Event] = []
    while page := selections.events_after(moment, agent_id, found[-1].id if found else 0, _PAGE):
        found += page
    return found
