"""The names that a model's SQL may use in SQLite: the views of one agent's log (see `foldmark.core.ports.VIEWS`) and
functions.

Each public view reads an inner one, and only the inner ones read the tables. SQLite passes its authorizer the name of
the view in which a table is read, and a statement can give a subquery any name (`WITH messages AS (SELECT * FROM
main.events)`); so the inner views have secret names.

The allowed functions are harmless. For those that SQLite cannot interrupt, the time is proportional to their arguments.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from foldmark.core.ports import VIEWS
from foldmark.stores.queries import named_queries
from foldmark.stores.sandbox import ROLE

Ranges = Sequence[tuple[int, int, int]]
"""(agent's key, first id, last id), sorted."""

_FEW = 8
"""Maximum number of ranges written in the view itself; more are looked up in a table."""


class Built(NamedTuple):
    """The statements that create the views, and the read permissions: the tables that may be read `inside` each inner
    view, and the names that are `open` to reads from anywhere."""

    statements: list[str]
    inside: dict[str, frozenset[str]]
    open: frozenset[str]


def views(
    secret: str, own: int, ids: dict[int, str], lineage: Ranges, visible: Ranges, *, mending: str | None = None
) -> Built:
    """Return the views for the agent with key `own`; `ids` is key -> uuid for all agents of the lineage, `secret` an
    unguessable word. `mending` is the SQL function that turns bytes that may be invalid UTF-8 into text; None if texts
    are read directly."""
    log, done, notes, handed, shown = (f"{secret}_{name}" for name in ("log", "done", "notes", "handed", "shown"))
    # The log is read in order of ids, which finds the newest events at once. Events of one agent, and operations, are
    # read through an index by (agent, id).
    along_ids = f"e.id BETWEEN {min(each[1] for each in lineage)} AND {max(each[2] for each in lineage)}"
    along_agents = f"e.agent IN ({', '.join(map(str, sorted(ids)))}) AND {along_ids}"
    uuid = f"(SELECT s.uuid FROM temp.{handed} s WHERE s.agent = e.agent LIMIT 1)"
    if len(ids) == 1:
        along_ids, uuid = along_agents, _literal(ids[own])

    def read(select: str) -> str:
        """Return a part of a view; `<column>` represents a stored text."""
        return re.sub(r"<(\w\.\w+)>", r"\1" if mending is None else rf"{mending}(CAST(\1 AS BLOB))", select)

    def events(select: str, along: str) -> str:
        inside = f"{along} AND ({_inside(lineage, handed)})"
        is_visible = _inside(visible, shown)
        return read(select).format(uuid=uuid, own=f"e.agent = {own}", inside=inside, visible=is_visible, role=ROLE)

    sql = named_queries(Path(__file__).parent / "sql" / "sandbox.sql")
    bodies = {
        log: events(sql["messages"], along_ids),
        done: events(sql["operations"], along_agents),
        notes: read(sql["memos"]),
        "messages": f"SELECT {', '.join(VIEWS['messages'])} FROM temp.{log}",
        "turns": sql["turns"],
        "operations": f"SELECT {', '.join(VIEWS['operations'])} FROM temp.{done}",
        "memos": f"SELECT {', '.join(VIEWS['memos'])} FROM temp.{notes}",
    }
    statements = [*_table(handed, lineage, ids), *_table(shown, visible, ids)]
    for name, body in bodies.items():
        columns = f" ({', '.join(VIEWS[name])})" if name in VIEWS else ""
        statements.append(f"CREATE TEMP VIEW {name}{columns} AS {body}")
    tables = frozenset({"events"})
    inside = {log: tables, done: tables, notes: frozenset({"memos", "memo_tags"})}
    return Built(statements, inside, frozenset({*VIEWS, log, done, notes, handed, shown}))


def _table(name: str, ranges: Ranges, ids: dict[int, str]) -> Iterator[str]:
    yield (
        f"CREATE TEMP TABLE {name} (agent INTEGER, first INTEGER, last INTEGER, uuid TEXT, PRIMARY KEY (agent, first)) "
        "WITHOUT ROWID"
    )
    for start in range(0, len(ranges), 200):
        rows = ", ".join(
            f"({agent}, {first}, {last}, {_literal(ids[agent])})" for agent, first, last in ranges[start : start + 200]
        )
        yield f"INSERT INTO temp.{name} VALUES {rows}"


def _inside(ranges: Ranges, table: str) -> str:
    """Return a condition for events in the ranges, which `table` contains."""
    if len(ranges) <= _FEW:
        # The sign keeps SQLite from reading each range separately and sorting the result.
        return " OR ".join(f"(+e.agent = {agent} AND e.id BETWEEN {a} AND {b})" for agent, a, b in ranges) or "0"
    nearest = "s.agent = e.agent AND s.first <= e.id ORDER BY s.first DESC LIMIT 1"
    return f"coalesce((SELECT s.last FROM temp.{table} s WHERE {nearest}) >= e.id, 0)"


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


# Functions

Check = Callable[[], None]
"""Raises InterruptError when the time is up."""

_MAKING = "char concat concat_ws format hex printf quote randomblob strftime timediff zeroblob group_concat string_agg"
_JSON = (
    "json json_array json_array_length json_extract json_group_array json_group_object json_insert json_object "
    "json_pretty json_quote json_remove json_replace json_set json_type json_valid -> ->>"
)
_TEXT = "instr length like lower ltrim octet_length replace rtrim substr substring trim typeof unicode upper"
_CHOOSING = "coalesce if ifnull iif likelihood likely nullif unlikely"
_NUMBERS = (
    "abs acos asin atan atan2 ceil ceiling cos degrees exp floor ln log log10 log2 mod pi pow power radians random "
    "round sign sin sqrt tan trunc"
)
_TIMES = "current_date current_time current_timestamp date datetime julianday time unixepoch"
_GROUPS = "avg count max min sum total"
_WINDOWS = "cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number"

SHORT = frozenset(f"{_MAKING} {_JSON}".split())
"""Functions allowed only on texts of usual length, because they are slow for each byte or enlarge their input."""

FUNCTIONS = SHORT | frozenset(f"{_TEXT} {_CHOOSING} {_NUMBERS} {_TIMES} {_GROUPS} {_WINDOWS}".split())

_MOST_CHARACTERS = 1000
"""Maximum number of characters that `trim` removes."""


def replace_slow(db: apsw.Connection, check: Check) -> None:
    """Replace SQLite's own functions whose time grows with the product of their arguments' lengths: one call of `instr`
    on two texts of a megabyte takes minutes and cannot be interrupted."""

    def add(name: str, number: int, function: Callable[..., Any]) -> None:
        def checked(*values: Any) -> Any:
            check()
            return None if None in values else function(*values)

        db.create_scalar_function(name, checked, number, deterministic=True)

    add("instr", 2, _instr)
    add("replace", 3, partial(_replace, db))
    for name, strip in (("trim", str.strip), ("ltrim", str.lstrip), ("rtrim", str.rstrip)):
        add(name, 1, partial(_trim, strip))
        add(name, 2, partial(_trim, strip))


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _instr(whole: Any, part: Any) -> int:
    if isinstance(whole, bytes) and isinstance(part, bytes):
        return whole.find(part) + 1
    return _text(whole).find(_text(part)) + 1


def _replace(db: apsw.Connection, whole: Any, old: Any, new: Any) -> str:
    text, before, after = _text(whole), _text(old), _text(new)
    if not before:
        return text
    if len(text) + text.count(before) * (len(after) - len(before)) > db.limit(apsw.SQLITE_LIMIT_LENGTH):
        raise apsw.TooBigError("string or blob too big")
    return text.replace(before, after)


def _trim(strip: Callable[[str, str], str], text: Any, characters: Any = " ") -> str:
    if len(_text(characters)) > _MOST_CHARACTERS:
        raise apsw.TooBigError("string or blob too big")
    return strip(_text(text), _text(characters))
