"""What a repair does to a session of Claude Code's, line by line, before anything is written [SPEC 8].

A line is left out if it cannot be read or holds nothing; the rest stays as it is but for what is in its `RecordRepair`.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from foldmark.core.errors import FoldmarkError
from foldmark.sessions.claude.rows import Row


class RepairError(FoldmarkError):
    """A session cannot be repaired; its file is as it was."""


class RecordRepair(Struct):
    """What changes in a record; a field that is None or empty stays.

    `parent` is "" for none. `drop` are positions of blocks that are left out, `ids` new call ids by the position of
    their block, of a call or a result. `wrap`: a content that is a text becomes a block; `main`: the record is a
    subagent's no longer; `plain`: it is written anew, as JSON that everybody can read.
    """

    uuid: str | None = None
    parent: str | None = None
    time: str | float | None = None
    model: str | None = None
    drop: set[int] = set()
    ids: dict[int, str] = {}
    wrap: bool = False
    main: bool = False
    plain: bool = False


class Added(Struct, frozen=True):
    """A record that is added: results of these calls, behind the record `behind`, whose line is the pattern for it."""

    uuid: str
    behind: Row
    calls: list[str]


class RepairPlan:
    """A repair as far as it is known.

    `rows` are the lines in the file's order, those that are added among them; `done` is what is done, by line.
    """

    def __init__(self, rows: Sequence[Row], new_id: Callable[[], str]) -> None:
        self.rows = list(rows)
        self.new_id = new_id
        self.changes: dict[Row, RecordRepair] = {}
        self.added: dict[Row, Added] = {}
        self.done: list[tuple[int, str]] = []
        self._left_out: dict[str, str | None] = {}

    def change(self, row: Row) -> RecordRepair:
        """The record's change, to be changed itself."""
        return self.changes.setdefault(row, RecordRepair())

    def note(self, row: Row, text: str) -> None:
        """Something is done to a line."""
        self.done.append((row.line, text))

    def leave_out(self, row: Row, why: str) -> None:
        """The line is not copied; what hangs on it goes to its parent (see `relink`)."""
        row.gone = True
        if row.uuid:
            self._left_out[row.uuid] = row.parent
        self.note(row, f"left out: {why}")

    def relink(self) -> None:
        """Records whose parent was left out get that one's parent."""
        for row in self.rows if self._left_out else ():
            if row.chained and row.uuid:
                self._left_out.pop(row.uuid, None)  # another one has it, too
        for row in self.rows if self._left_out else ():
            if row.parent in self._left_out and not row.gone:
                self.set_parent(row, self._above(row.parent))
        self._left_out.clear()

    def set_parent(self, row: Row, parent: str | None) -> None:
        """The record gets another parent."""
        row.parent = parent
        if row not in self.added:
            self.change(row).parent = parent or ""

    def set_uuid(self, row: Row, uuid: str) -> None:
        """The record gets another uuid."""
        row.uuid = self.change(row).uuid = uuid

    def drop(self, row: Row, positions: set[int], why: str) -> None:
        """Blocks of a record are left out, and the record if it has no others."""
        dropped = positions
        if row not in self.added:
            self.change(row).drop |= positions
            dropped = self.change(row).drop
        row.calls = tuple(each for each in row.calls if each[0] not in dropped)
        row.results = tuple(each for each in row.results if each[0] not in dropped)
        row.spoilt = tuple(at for at in row.spoilt if at not in dropped)
        if len(dropped) >= row.blocks:
            self.leave_out(row, why)
        else:
            self.note(row, f"a block left out: {why}")

    def rename(self, row: Row, at: int, id: str) -> None:
        """A call, or a result, gets another call id."""
        self.change(row).ids[at] = id
        row.calls = tuple((each, id if each == at else old) for each, old in row.calls)
        row.results = tuple((each, id if each == at else old) for each, old in row.results)

    def move(self, row: Row, above: Row) -> None:
        """A line goes behind another one, if it stands in front of it."""
        if self.rows.index(row) < self.rows.index(above):
            self.rows.remove(row)
            self.rows.insert(self.rows.index(above) + 1, row)

    def add(self, found: dict[Row, Added]) -> None:
        """Records go in behind the lines that they are to follow."""
        if not found:
            return
        rows: list[Row] = []
        for row in self.rows:
            rows.append(row)
            if row in found:
                new = found[row]
                made = Row(
                    line=0,
                    type="user",
                    uuid=new.uuid,
                    parent=row.uuid,
                    results=tuple(enumerate(new.calls)),
                    blocks=len(new.calls),
                )
                self.added[made] = new
                rows.append(made)
        self.rows = rows

    def _above(self, uuid: str | None) -> str | None:
        met = set()
        while uuid in self._left_out and uuid not in met:
            met.add(uuid)
            uuid = self._left_out[uuid]
        return None if uuid in self._left_out else uuid
