"""Cost of a durable append, compared with a bare INSERT of the same row on the same disk.

Three databases in one folder are opened in the same way (WAL, the same checks of foreign keys, a statement cache): one
is appended to through `Agent`; one has the same tables and indices and gets every row by an INSERT in its own
transaction; one has a table without an index. They take turns in blocks of `--block` appends, in one run, and each row
goes to all three. The first series uses the product's own setting, `synchronous = FULL`, where an append waits for the
disk; the others use NORMAL and OFF, which the product does not use, to show the work without the wait.

Exit code 1 if the median append of a message takes more than 2.5 times as long as the bare INSERT at the product's own
setting.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import apsw

import foldmark
from foldmark.stores.queries import queries
from foldmark.stores.sqlite.file import open_file, place_of
from foldmark.stores.sqlite.store import SqliteStore

LIMIT = 2.5
SETTLED = 2.5
"""Seconds until a commit no longer looks at the journal (`OpenFiles`), as in a conversation that goes on."""
TEXT = "The parser reads a line, decides which of the open blocks it continues and closes the others. " * 4
KINDS = ("message", "tool call", "tool result")
INSERT = queries("sqlite")["append"]
COLUMNS = INSERT[INSERT.index("(") + 1 : INSERT.index(")")].strip()
PLAIN = f"CREATE TABLE plain ({COLUMNS.replace('id,', 'id INTEGER PRIMARY KEY,', 1)})"
INSERT_PLAIN = INSERT.replace("INTO events", "INTO plain")
Row = tuple[Any, ...]


def opened(path: Path) -> apsw.Connection:
    """Open a Foldmark database with the bare driver."""
    return open_file(str(path), True, place_of(str(path)))


class Contest:
    """The three databases, and the time of each append."""

    def __init__(self, folder: Path) -> None:
        """Create the databases, each with 2,000 messages."""
        self.log = foldmark.open(str(folder / "product.db"))
        assert isinstance(self.log.store, SqliteStore)
        self.db = self.log.store.connector.db
        self.agent = self.log.agent("bench")
        self.bare, self.plain = opened(folder / "bare.db"), opened(folder / "plain.db")
        self.plain.execute(PLAIN)
        self.bare.execute("INSERT INTO agents (key, id, root, created_at) VALUES (1, '', 1, '')")
        self.number = 0
        with self.agent.batch():
            for _ in range(2000):
                self.agent.append("user", TEXT)
        for row in self._rows(0):
            self.bare.execute(INSERT, row)
            self.plain.execute(INSERT_PLAIN, row)
        time.sleep(SETTLED)

    def close(self) -> None:
        """Release the databases."""
        self.log.close()
        self.bare.close()
        self.plain.close()

    def run(self, setting: str, blocks: int, block: int) -> dict[str, list[list[float]]]:
        """Return the seconds of each append: kind of event -> (product, bare, plain)."""
        for db in (self.db, self.bare, self.plain):
            db.execute(f"PRAGMA synchronous = {setting}")
        times: dict[str, list[list[float]]] = {kind: [[], [], []] for kind in KINDS}
        for _ in range(blocks):
            for kind in KINDS:
                self._block(kind, block, times[kind])
        return times

    def _block(self, kind: str, count: int, times: list[list[float]]) -> None:
        """Append a block of events of one kind to each database in turn."""
        product, bare, plain = times
        before = self.agent.context().at
        if kind == "tool result":
            for _ in range(count):
                self.number += 1
                call_id = f"call-{self.number}"
                self.agent.append_tool_call("read_file", {"path": "src/parser.py"}, call_id=call_id)
                began = time.perf_counter()
                self.agent.append_tool_result(call_id, TEXT)
                product.append(time.perf_counter() - began)
        else:
            for nth in range(count):
                began = time.perf_counter()
                if kind == "message":
                    self.agent.append("user", TEXT)
                else:
                    self.agent.append_tool_call("read_file", {"why": TEXT}, call_id=f"{before}-{nth}")
                product.append(time.perf_counter() - began)
        rows = self._rows(before)
        for db, sql, seconds in ((self.bare, INSERT, bare), (self.plain, INSERT_PLAIN, plain)):
            for row in rows:
                began = time.perf_counter()
                db.execute(sql, row)
                if kind != "tool result" or "tool_result" in row:
                    seconds.append(time.perf_counter() - began)

    def _rows(self, after: int) -> list[Row]:
        """Return the rows that the product has recorded after an event."""
        return self.db.execute(f"SELECT {COLUMNS} FROM events WHERE id > ? ORDER BY id", (after,)).fetchall()


def main() -> int:
    """Measure and print. Return 1 if an append of a message costs more than the limit at the product's setting."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--block", type=int, default=50, help="appends of each kind in a block")
    parser.add_argument("--folder", help="where to make the temporary folder")
    options = parser.parse_args()
    judged = 0.0
    heads = ("Agent", "INSERT", "no index", "ratio", "to no index")
    print(f"{'median microseconds':28}" + "".join(f"{head:>12}" for head in heads))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        contest = Contest(Path(folder))
        for setting in ("FULL", "NORMAL", "OFF"):
            contest.run(setting, 1, options.block)
            for kind, times in contest.run(setting, options.blocks, options.block).items():
                product, bare, plain = (statistics.median(seconds) * 1e6 for seconds in times)
                if setting == "FULL" and kind == "message":
                    judged = product / bare
                print(
                    f"{f'synchronous={setting}, {kind}':28}{product:12.0f}{bare:12.0f}{plain:12.0f}"
                    f"{product / bare:12.2f}{product / plain:12.2f}"
                )
        contest.close()
    print(f"\nA durable append of a message takes {judged:.2f} times a bare INSERT; the target is {LIMIT}.")
    return 1 if judged > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
