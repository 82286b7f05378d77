"""What a log's database holds, for a single look from a test."""

from collections.abc import Callable, Iterator
from typing import Any, cast

from foldmark import Log
from foldmark.core.ports import Snapshot, Store


class _Stored:
    """Each look is a moment of its own, and what it finds is read whole."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def look(*given: Any, **named: Any) -> Any:
            with self._store.read() as moment:
                found = getattr(moment, name)(*given, **named)
                return list(found) if isinstance(found, Iterator) else found

        return look


def stored(log: Log) -> Snapshot:
    """The reading methods of the log's store, each outside of any block."""
    return cast("Snapshot", _Stored(log.store))
