"""The connection for a model's SQL: it can only read the views of one scope [SPEC 4.1].

SQLite enforces this; nothing depends on the text of a statement. The connection is opened for reading, and its
authorizer allows only listed actions. Limits, a progress handler and a bound for SQLite's memory end statements that
need too much.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import Any

import apsw

from foldmark.core.errors import CommandError
from foldmark.core.ports import VIEWS, Limits, QueryScope, Rows
from foldmark.core.segments import Segments
from foldmark.core.wording import listing
from foldmark.stores.sandbox import MOST_BYTES, ONLY, SLOW, TOO_MUCH, checked
from foldmark.stores.sqlite.sandbox_schema import FUNCTIONS, SHORT, Ranges, replace_slow, views

USUAL, LONGEST = 250_000, 64_000_000
"""Maximum bytes of a text, blob or row. The second applies, with fewer functions, if the log has longer texts."""

_IN_A_ROW = 3
"""Maximum number of times that a sorted or compared row may contain the longest text of the log."""

_MOST_MEMORY, _LAST_MEMORY = 200 * 2**20, 400 * 2**20
"""Bytes by which SQLite's memory may grow. The second limits growth between two checks of the first."""

_PATTERN, _SHORT_PATTERN, _COMPARED = 200, 20, 1_500_000_000
"""Maximum bytes of a pattern of LIKE, its minimum for very long texts, and the limit of the product of the lengths of
text and pattern. SQLite cannot be interrupted inside a LIKE, which takes 2 ns for each byte of that product."""

_STEPS = 1000
"""Instructions between two checks of time and memory, for texts of up to `_STEP_BYTES`."""

_STEP_BYTES = 8_000_000

_LIMITS = {
    apsw.SQLITE_LIMIT_SQL_LENGTH: MOST_BYTES,
    apsw.SQLITE_LIMIT_COLUMN: 100,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 100,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    apsw.SQLITE_LIMIT_VDBE_OP: 5000,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 32,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}

_TABLE_FUNCTIONS = frozenset({"json_each", "json_tree"})

# The bound for SQLite's memory applies to the whole process.
_HEAP = Lock()


class Sandbox:
    """A connection that answers statements over the views of one scope."""

    def __init__(self, db: apsw.Connection, scope: QueryScope, keys: dict[str, int], *, mending: bool = False) -> None:
        """`keys` has the key of every agent of the lineage; `db` is closed with this object. With `mending`, stored
        texts with invalid UTF-8 can be read, which takes longer."""

        def keyed(segments: Segments) -> Ranges:
            return sorted((keys[agent], first, last) for agent, first, last in segments)

        self._db, self._secret = db, f"v{os.urandom(16).hex()}"
        ids = {key: agent for agent, key in keys.items()}
        self._mending = f"{self._secret}_text" if mending else None
        self._built = views(
            self._secret, keys[scope.agent], ids, keyed(scope.lineage), keyed(scope.visible), mending=self._mending
        )
        self._sql = ""
        self._columns: tuple[str, ...] = ()
        self._start(Limits(60, 0, 0))
        try:
            self._close_in()
        except BaseException:
            db.close()
            raise

    def close(self) -> None:
        self._db.close()

    def _close_in(self) -> None:
        db = self._db
        db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        db.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        db.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        # A subquery without read columns must not have these names: SQLite would not distinguish it from a table.
        names = "SELECT name FROM main.sqlite_schema UNION SELECT name FROM pragma_module_list"
        self._taken = frozenset(name.lower() for (name,) in db.execute(names))
        # Sorted data stays in bounded memory and out of files.
        db.execute("PRAGMA temp_store = MEMORY")
        if self._mending is not None:
            db.create_scalar_function(self._mending, _text, 1, deterministic=True)
        for statement in self._built.statements:
            db.execute(statement)
        db.execute("PRAGMA query_only = ON")
        replace_slow(db, self._check)
        for limit, value in _LIMITS.items():
            db.limit(limit, value)
        db.authorizer = self._allow
        db.exec_trace = self._begin

    def query(self, sql: str, limits: Limits) -> Rows:
        """Run a statement like `SqlSandbox.query`. Raises apsw.Error only for faults of the database, and
        UnicodeDecodeError for invalid UTF-8 unless it is mended."""
        sql = checked(sql, "write char(0) in its place")
        if self._secret in sql.lower():
            raise CommandError(ONLY)
        self._start(limits)
        with _bounded_memory():
            try:
                return self._fetch(sql, limits)
            except apsw.TooBigError:
                return self._fetch_long(sql, limits)

    def _fetch_long(self, sql: str, limits: Limits) -> Rows:
        """Run a statement that encountered a text or row above the usual length: the log may contain such texts."""
        until = self._until
        self._start(limits._replace(seconds=until - monotonic()), _UNLIMITED)
        longest = max(self._fetch(each, limits).rows[0][0] or 0 for each in _LONGEST_TEXTS)
        if longest <= USUAL:
            raise CommandError(
                f"a text or a row of texts got longer than {USUAL:,} bytes; use parts: substr(content, 1, 4000)"
            )
        most = _IN_A_ROW * min(longest, LONGEST) + USUAL
        self._start(limits._replace(seconds=until - monotonic()), most)
        try:
            return self._fetch(sql, limits)
        except apsw.TooBigError:
            if longest > most:
                raise CommandError(
                    f"a text has {longest:,} bytes, and query_db reads none of more than {most:,}; "
                    f"leave it out: WHERE octet_length(content) <= {most}"
                ) from None
            raise CommandError(
                f"a text or a row of texts got longer than {most:,} bytes; "
                "ask for fewer long texts at once, or for parts: substr(content, 1, 4000)"
            ) from None

    def _start(self, limits: Limits, length: int = USUAL) -> None:
        self._until, self._stopped = monotonic() + limits.seconds, limits.stopped
        self._memory = apsw.memory_used() + _MOST_MEMORY
        self._refused = self._ended = ""
        self._functions = FUNCTIONS if length <= USUAL else FUNCTIONS - SHORT
        self._db.limit(apsw.SQLITE_LIMIT_LENGTH, length)
        self._pattern = min(max(_COMPARED // length, _SHORT_PATTERN), _PATTERN)
        self._db.limit(apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, self._pattern)
        # A step takes longer on longer texts.
        self._db.set_progress_handler(self._over, max(_STEPS * _STEP_BYTES // max(length, _STEP_BYTES), 10))

    def _fetch(self, sql: str, limits: Limits) -> Rows:
        self._expect(sql)
        found: list[tuple[Any, ...]] = []
        cut, size = None, 0
        cursor = self._db.cursor()
        try:
            for row in cursor.execute(sql, can_cache=False):
                if len(found) >= limits.rows or size > limits.characters:
                    cut = "rows" if size <= limits.characters else "characters"
                    break
                found.append(row)
                size += sum(len(cell) if isinstance(cell, str | bytes) else 8 for cell in row)
        except apsw.InterruptError:
            if not found or self._ended != SLOW:
                raise CommandError(self._ended or SLOW) from None
            cut = "time"
        except UnicodeDecodeError:
            if self._mending is None:
                raise
            raise CommandError("a text that the statement makes is not UTF-8; hex() shows it") from None
        except (
            apsw.TooBigError,
            apsw.BusyError,
            apsw.LockedError,
            apsw.CorruptError,
            apsw.IOError,
            apsw.CantOpenError,
            apsw.NotADBError,
        ):
            raise
        except apsw.NoMemError:
            raise CommandError(TOO_MUCH) from None
        except apsw.Error as error:
            raise CommandError(self._explained(error)) from None
        finally:
            cursor.close(True)
        if not self._columns:
            raise CommandError(f"there is no statement in sql; write one SELECT. {ONLY}")
        return Rows(self._columns, found, cut)

    def _expect(self, sql: str) -> None:
        self._sql, self._columns = sql, ()

    # Callbacks of SQLite while it prepares and runs a statement

    def _allow(self, action: int, first: str | None, second: str | None, schema: str | None, inside: str | None) -> int:
        if monotonic() > self._until:
            self._ended = SLOW
            return apsw.SQLITE_DENY
        match action:
            case apsw.SQLITE_SELECT | apsw.SQLITE_RECURSIVE:
                return apsw.SQLITE_OK
            case apsw.SQLITE_READ if schema == "temp" and first in self._built.open:
                return apsw.SQLITE_OK
            case apsw.SQLITE_READ if second == "" and self._is_subquery((first or "").lower(), schema):
                return apsw.SQLITE_OK
            case apsw.SQLITE_READ if schema == "main" and first in self._built.inside.get(
                inside or "", _TABLE_FUNCTIONS
            ):
                return apsw.SQLITE_OK
            case apsw.SQLITE_FUNCTION if second in self._functions or inside in self._built.inside:
                return apsw.SQLITE_OK
            case apsw.SQLITE_READ:
                self._refused = self._refused or f"{first} cannot be read"
            case apsw.SQLITE_FUNCTION if second in FUNCTIONS:
                self._refused = (
                    f"{second} is not possible on texts of more than {USUAL:,} bytes; "
                    f"leave them out: WHERE octet_length(content) <= {USUAL}"
                )
            case apsw.SQLITE_FUNCTION:
                self._refused = f"the function {second} cannot be used"
            case _:
                name = str(apsw.mapping_authorizer_function[action]).removeprefix("SQLITE_").replace("_", " ")
                self._refused = self._refused or f"{name} is not possible: query_db only reads"
        return apsw.SQLITE_DENY

    def _is_subquery(self, name: str, schema: str | None) -> bool:
        """Return True if a relation without read columns, as in `count(*)`, is a view or a part of the statement."""
        if name in self._built.open:
            return schema is None or schema.lower() == "temp"
        return schema is None and name not in self._taken and not name.startswith(("pragma_", "sqlite_"))

    def _begin(self, cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        if not self._sql.startswith(sql) or self._sql[len(sql) :].strip(" \t\r\n\f;"):
            self._refused = "sql holds more than one statement; send them one by one, without comments after the ';'"
        elif cursor.is_explain:
            self._refused = "EXPLAIN is not possible"
        elif not cursor.is_readonly:
            self._refused = "this statement would write; only SELECT is possible"
        else:
            self._columns = tuple(name for name, *_ in cursor.get_description())
            return True
        return False

    def _over(self) -> bool:
        self._ended = self._end_reason()
        return bool(self._ended)

    def _check(self) -> None:
        if self._over():
            raise apsw.InterruptError(self._ended)

    def _end_reason(self) -> str:
        if monotonic() > self._until:
            return SLOW
        if apsw.memory_used() > self._memory:
            return TOO_MUCH
        return "the query was interrupted" if self._stopped() else ""

    def _explained(self, error: apsw.Error) -> str:
        if self._ended:
            return self._ended
        if self._refused:
            return f"{self._refused}. {ONLY}"
        text = re.sub(rf"(temp\.)?{self._secret}\w*", "a view", str(error))[:300]
        if "pattern too complex" in text:
            return f"a pattern of LIKE has at most {self._pattern} bytes here; shorten it, or search with instr"
        words = set(re.findall(r"\w+", self._sql.lower()))
        named = [f"{name} has {listing(VIEWS[name])}" for name in VIEWS if name in words]
        if "no such column" in text and named:
            return f"{text}; {'; '.join(named)}"
        if "no such table" in text:
            return f"{text}; the views are {', '.join(VIEWS)}: describe_db() shows their columns"
        return f"SQLite: {text}"


_LONGEST_TEXTS = (
    "SELECT max(octet_length(content)) FROM messages",
    "SELECT max(octet_length(data)) FROM operations",
    "SELECT max(octet_length(content)) FROM memos",
)
_UNLIMITED = 1_000_000_000
"""SQLite's maximum length of texts, for Foldmark's own statements, which only read lengths."""


def _text(*raws: Any) -> Any:
    (raw,) = raws
    return raw.decode(errors="replace") if isinstance(raw, bytes) else raw


@contextmanager
def _bounded_memory() -> Iterator[None]:
    """Bound SQLite's memory in this process while the block runs; statements that need more fail."""
    with _HEAP:
        hard, soft = apsw.hard_heap_limit(-1), apsw.soft_heap_limit(-1)
        bound = apsw.memory_used() + _LAST_MEMORY
        apsw.hard_heap_limit(min(bound, hard) if hard else bound)
        try:
            yield
        finally:
            apsw.hard_heap_limit(hard)
            apsw.soft_heap_limit(soft)
