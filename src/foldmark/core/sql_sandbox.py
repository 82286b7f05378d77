"""SQL of a model's own over what an agent may see of the log: the views there are, and what a query costs at the most
[S2, SPEC 4.1]."""

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
"""View -> its columns, in every store alike."""


class QueryScope(NamedTuple):
    """Whose rows the views hold: those of `agent` and what else lies in `lineage` (as `Standing.lineage`); what lies
    outside `visible`, the segments of its fold, is dropped."""

    agent: str
    lineage: Segments
    visible: Segments


class Limits(NamedTuple):
    """The most that a query may take: seconds, and rows and characters of what it finds. `stopped` is asked again and
    again while it runs, from the thread that runs it; true ends it."""

    seconds: float
    rows: int
    characters: int
    stopped: Callable[[], bool] = lambda: False


class Rows(NamedTuple):
    """What a query found: the columns' names and the rows, cells as None, int, float, str or bytes.

    `cut` says why there may be more: `rows` or `characters` where a limit was reached, `time`; None: that is all.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    cut: str | None = None


class SqlSandbox(Protocol):
    """The part of a `Store` that answers a model's SQL."""

    @property
    def dialect(self) -> str:
        """The database whose SQL it takes, by its name."""

    def query(self, scope: QueryScope, sql: str, limits: Limits) -> Rows:
        """Run one reading statement over the views of `VIEWS`, and nothing else.

        `sql` is hostile: no statement reads or changes anything outside the views, or takes more than `limits` and
        the memory that the store allows. Raises CommandError, in words for a model, for what it did wrong.
        """
