"""A model's SQL in PostgreSQL (see `foldmark.core.ports`).

Queries run one after another on one connection, which is opened at the first query and has its own login
(`sandbox_login`). `sandbox_statements` first checks each statement, and rewrites the parts that the server does not
limit.
"""

import select
from collections.abc import Mapping, Sequence
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from foldmark.core.errors import CommandError, StoreError
from foldmark.core.ports import Limits, QueryScope, Rows
from foldmark.core.segments import END, Segment
from foldmark.stores.postgres.reading import PostgresReading
from foldmark.stores.sandbox import SLOW, TOO_MUCH
from foldmark.stores.store import Blocks

if TYPE_CHECKING:
    from foldmark.stores.postgres.sandbox_login import Login

_LOOK = 0.05
"""Seconds between two checks whether a statement must be stopped."""

_INTERRUPTED = "the query was interrupted"

_GRACE = 1.0
"""Seconds after a statement's time limit until it is also cancelled from here."""

_SETTINGS = {
    "standard_conforming_strings": "on",
    "idle_in_transaction_session_timeout": "60s",
    "lock_timeout": "2s",
    "work_mem": "16MB",
    "hash_mem_multiplier": "1",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "iso_8601",
    "bytea_output": "hex",
}
"""Limits and forms of each query's transaction. A statement cannot lift them: it would have to call a function or to be
two statements, and its transaction is rolled back."""

_OWN = frozenset({"user", "password", "passfile", "requirepass", "options", "service", "application_name"})
"""The parts of the store's address that identify the store's user."""


class SandboxConnection:
    """A connection that answers statements over the views of a scope."""

    def __init__(self, address: str, login: "Login") -> None:
        """Raises CommandError if the login is refused."""
        parts = {key: value for key, value in conninfo_to_dict(address).items() if key not in _OWN}
        parts.update(
            user=login.role, password=login.password, application_name="foldmark query_db", client_encoding="UTF8"
        )
        self._login = login
        try:
            self._db = psycopg.connect(make_conninfo("", **parts), autocommit=True, prepare_threshold=None)
        except psycopg.OperationalError as error:
            raise CommandError(
                f'query_db is off: its login "{login.role}" cannot connect ({_line(error)}). An administrator can '
                "admit it with a line in pg_hba.conf, above those that reject it: host, this database, "
                f"{login.role}, the address of this machine, scram-sha-256"
            ) from None

    @property
    def closed(self) -> bool:
        """True if the server or a failure has ended the connection."""
        return self._db.closed

    def close(self) -> None:
        self._db.close()

    def query(self, scope: str, sql: str, limits: Limits) -> Rows:
        """Run a statement from `statements.rewritten`; `scope` is the content of the views, as JSON. Raises
        CommandError for an invalid statement, StoreError if the database fails."""
        settings = {
            **_SETTINGS,
            # The schema comes first: its `string_agg`, which has a limit, takes the place of PostgreSQL's.
            "search_path": f'"{self._login.role}", pg_catalog, pg_temp',
            "statement_timeout": str(max(1, int(limits.seconds * 1000))),
            "foldmark.scope": scope,
            "foldmark.seal": self._login.seal(scope),
        }
        until = monotonic() + limits.seconds + _GRACE
        try:
            self._db.execute("BEGIN READ ONLY")
            setting = "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS s (name, value)"
            self._db.execute(setting, (list(settings), list(settings.values())))
            try:
                return self._fetch(sql, limits, until)
            finally:
                if not self._db.closed:
                    self._db.execute("ROLLBACK")
        except psycopg.Error as error:
            self._db.close()
            raise StoreError(f"the database does not answer a query: {_line(error)}") from error

    def _fetch(self, sql: str, limits: Limits, until: float) -> Rows:
        server = self._db.pgconn
        server.send_query_params(sql.encode(), None)  # takes one statement only
        server.set_single_row_mode()
        columns: tuple[str, ...] = ()
        rows: list[tuple[Any, ...]] = []
        size, cut, failed, ended = 0, None, None, ""
        while True:
            while server.is_busy():
                if select.select([server.socket], [], [], _LOOK)[0]:
                    server.consume_input()
                elif not ended and (limits.stopped() or monotonic() > until):
                    ended = _INTERRUPTED if limits.stopped() else SLOW
                    self._db.cancel_safe()
                elif monotonic() > until + 2 * _GRACE:
                    self._db.close()
                    raise CommandError(SLOW)
            if (result := server.get_result()) is None:
                break
            if result.status == pq.ExecStatus.FATAL_ERROR:
                failed = result
            columns = columns or tuple((result.fname(at) or b"").decode() for at in range(result.nfields))
            for at in range(result.ntuples):
                if cut is None and (len(rows) >= limits.rows or size > limits.characters):
                    cut = "rows" if size <= limits.characters else "characters"
                    self._db.cancel_safe()
                if cut is None:
                    row = tuple(_cell(result, at, column) for column in range(result.nfields))
                    rows.append(row)
                    size += sum(len(cell) if isinstance(cell, str | bytes) else 8 for cell in row)
        if cut is None and failed is not None:
            cut = self._cut(failed, ended, bool(rows))
        return Rows(columns, rows, cut)

    def _cut(self, failed: "pq.abc.PGresult", ended: str, has_rows: bool) -> str:
        """Return the reason why a failed statement shows only its first rows. Raises CommandError if it shows none."""
        state = (failed.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        message = " ".join(
            (failed.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace").split()
        )
        if state == "57014":
            if has_rows and ended != _INTERRUPTED:
                return "time"
            raise CommandError(ended or SLOW)
        if state[:2] in ("08", "57", "58", "XX"):
            raise psycopg.OperationalError(message)
        if state == "54000" and ";" in message:
            raise CommandError(message)
        raise CommandError(TOO_MUCH if state[:2] in ("53", "54") else f"PostgreSQL: {message[:300]}")


_TRUTH, _BYTES, _DECIMAL = 16, 17, 1700
_WHOLE, _FLOATS = frozenset({20, 21, 23}), frozenset({700, 701})


def _cell(result: "pq.abc.PGresult", row: int, column: int) -> Any:
    value = result.get_value(row, column)
    if value is None:
        return None
    text = value.decode()
    match result.ftype(column):
        case each if each in _WHOLE:
            return int(text)
        case each if each in _FLOATS:
            return float(text)
        case each if each == _DECIMAL:
            # A sum of integers is an integer, as in SQLite.
            return int(text) if text.lstrip("-").isdigit() and len(text) < 20 else float(text)
        case each if each == _TRUTH:
            return int(text == "t")
        case each if each == _BYTES:
            return bytes.fromhex(text[2:])
    return text


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


Keys = Mapping[str, tuple[int, int]]
"""An agent's uuid -> its key and the key of its root."""


class PostgresSandbox:
    """See `foldmark.core.ports.SqlSandbox`."""

    dialect = "PostgreSQL"

    def __init__(self, conninfo: str, read: Blocks) -> None:
        """`conninfo` connects the store's user; `read` opens the store's moments."""
        self.conninfo, self._read, self._lock, self._over = conninfo, read, Lock(), False
        self._login: Login | None = None
        self._reading: SandboxConnection | None = None

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._over = True
            self._forget_reading()

    def query(self, scope: QueryScope, sql: str, limits: Limits) -> Rows:
        from foldmark.stores.postgres.sandbox_statements import rewritten  # the parser takes long to import

        with self._read() as block:
            assert isinstance(block, PostgresReading)
            keys = block.keys_of({scope.agent, *(each.agent for each in (*scope.lineage, *scope.visible))})
        with self._lock:
            if self._over:
                raise StoreError("the log is closed; open it again")
            if self._login is None:
                from foldmark.stores.postgres.sandbox_login import login

                self._login = login(self.conninfo)
            statement = rewritten(sql, self._login.role)
            if self._reading is not None:
                try:
                    return self._reading.query(_scope(scope, keys), statement, limits)
                except StoreError:
                    # The server may have ended the connection since, for example by a restart.
                    if not self._reading.closed:
                        raise
                    self._forget_reading()
            self._reading = SandboxConnection(self.conninfo, self._login)
            return self._reading.query(_scope(scope, keys), statement, limits)

    def _forget_reading(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None


def _scope(scope: QueryScope, keys: Keys) -> str:
    """Return the content of the views as JSON: for each agent its keys, whether it runs the query, and its ranges."""
    rows = []
    for agent in sorted({each.agent for each in scope.lineage}):
        key, root = keys[agent]
        inside = [each for each in scope.lineage if each.agent == agent]
        rows.append(
            {
                "root": root,
                "agent": key,
                "uuid": agent,
                "own": agent == scope.agent,
                "first": min(each.first for each in inside),
                "last": max(each.last for each in inside),
                "lineage": _ranges(inside, agent),
                "visible": _ranges(scope.visible, agent),
            }
        )
    return msgspec.json.encode(rows).decode()


def _ranges(segments: Sequence[Segment], agent: str) -> str:
    """Return an agent's ranges in PostgreSQL's syntax."""
    ranges = (f"[{first},{last}]" if last < END else f"[{first},)" for own, first, last in segments if own == agent)
    return f"{{{','.join(ranges)}}}"
