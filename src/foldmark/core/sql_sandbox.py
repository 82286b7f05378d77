"""The sandbox for a model's SQL over its part of the log: the views, and the limits of a query [S2, SPEC 4.1]."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from foldmark.core.segments import Segments

VIEWS: Mapping[str, tuple[str, ...]] = {
    "messages": (
        *("id", "agent_id", "group_id", "role", "kind"),
        *("content", "status", "parsing_strategy", "tokens", "created_at"),
    ),
    "turns": ("id", "agent_id", "first_id", "last_id", "messages", "tokens", "status", "created_at"),
    "operations": ("id", "agent_id", "group_id", "kind", "actor", "data", "created_at"),
    "memos": ("id", "content", "tags", "created_at"),
}
"""View -> its columns, the same in every store."""


class QueryScope(NamedTuple):
    """The rows that the views hold: those of `agent` and of its `lineage` (as `Standing.lineage`); rows outside
    `visible`, the segments of its fold, have the status dropped."""

    agent: str
    lineage: Segments
    visible: Segments


class Limits(NamedTuple):
    """Limits of a query: seconds, and rows and characters of its result. `stopped` is polled from the thread that runs
    the query; True ends it."""

    seconds: float
    rows: int
    characters: int
    stopped: Callable[[], bool] = lambda: False


class Rows(NamedTuple):
    """The result of a query: column names and rows, cells as None, int, float, str or bytes.

    `cut` says why there may be more: `rows` or `characters` where a limit was reached, `time`; None if the result is
    complete.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    cut: str | None = None


class SqlSandbox(Protocol):
    """The part of a `Store` that answers a model's SQL."""

    @property
    def dialect(self) -> str:
        """The database whose SQL dialect it takes, by its name."""

    def query(self, scope: QueryScope, sql: str, limits: Limits) -> Rows:
        """Run one reading statement over the views of `VIEWS`, and nothing else.

        `sql` is hostile: no statement reads or changes anything outside the views, or takes more than `limits` and the
        memory that the store allows. Raises CommandError, worded for a model, for an invalid statement.
        """
