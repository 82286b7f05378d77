"""Erase content for good in SQLite (see `foldmark.core.ports.Transaction.erase`)."""

from itertools import groupby
from typing import Any

import apsw

from foldmark.core.agents import Size
from foldmark.core.codec import without_content
from foldmark.stores.rows import Row, fault
from foldmark.stores.sqlite.rows import fetch


class Eraser:
    """Erases inside a transaction, with the index of words up to date. Raises apsw.Error."""

    def __init__(self, db: apsw.Connection, sql: dict[str, str]) -> None:
        self._db, self._sql = db, sql

    def erase(self, key: int, turn: int, last: int, by: int) -> Size:
        """Erase the content of a turn of the agent with this key, of all its events for turn 0; return the size of the
        messages that it had."""
        turn_of: dict[str, Any] = {"agent": key, "turn": turn, "last": last}
        indexed = True
        rows = list(fetch(self._db, self._sql["to_erase"], turn_of))
        messages = [row for row in rows if row[2] is not None]
        for id, kind, nth, data, *_ in rows:
            if nth is not None:
                indexed = self._unindex(id) and indexed
                for also in ("unindex_parts", "erase_vectors", "erase_signatures"):
                    self._db.execute(self._sql[also], (id,))
                self._db.execute(self._sql["unweigh"], (key, id))
                if kind == "tool_call":
                    self._db.execute(self._sql["answered"], (key, id))
            self._db.execute(self._sql["erase"], (without_content(kind, data, handed_down=turn > 0), by, id))
        if not indexed:
            self._db.execute(self._sql["rebuild_index"])
        if turn:
            self._db.execute(self._sql["erase_questions"], (turn,))
        else:
            self._db.execute(self._sql["erase_sent"], (key,))
            self._db.execute(self._sql["erase_texts"])
        gone = Size(len(messages), sum(tokens for *_, tokens, _ in messages))
        self._db.execute(self._sql["lower_totals"], (*gone, key))
        if turn:
            self._note_erased(key, messages)
        else:
            self._db.execute(self._sql["forget_erased_sums"], (key,))
        return gone

    def _note_erased(self, key: int, messages: list[Row]) -> None:
        """Record the sizes of erased messages, so that no sum stored with a later message has to change."""
        # Neighbours have neighbouring counts; one row for each run of them hides the length of each message.
        for _, each in groupby(enumerate(messages), lambda item: item[1][2] - item[0]):
            run = [message for _, message in each]
            last, sums = run[-1][0], (len(run), sum(row[4] for row in run), sum(row[5] for row in run))
            before = next(iter(self._db.execute(self._sql["erased_up_to"], (key, last))), (0, 0, 0))
            self._db.execute(self._sql["add_erased"], (*sums, key, last))
            self._db.execute(self._sql["note_erased"], (key, last, *(a + b for a, b in zip(before, sums, strict=True))))

    def _unindex(self, id: int) -> bool:
        """Remove a message from the index of words; return False if the index must be rebuilt, because the indexed
        words are not known."""
        rows: list[Row] = self._db.execute(self._sql["checksums"], (id - 1, 1)).fetchall()
        if fault(*rows[0][1:]) is not None:
            return False
        try:
            self._db.execute(self._sql["unindex"], (id,))
        except apsw.CorruptError:  # damage without a checksum to detect it
            return False
        return True
