"""`query_db` and `describe_db`: SQL of a model over its own log [S2, SPEC 4.1].

The answer is JSON with one row per line, so a message cannot pass for another row or for a remark of Foldmark.
Remarks precede the rows, because a long result is cut at its end.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event as Flag
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Struct

from foldmark.core.errors import CommandError
from foldmark.core.events import OPERATION_KINDS
from foldmark.core.ports import VIEWS, Limits, QueryScope, Rows, SqlSandbox
from foldmark.core.request import ToolSpec
from foldmark.log import Agent
from foldmark.operations.effects import Asking
from foldmark.sending.interruption import watched
from foldmark.tools.tool import THIS_CONVERSATION, Tool, about, schema

SECONDS, ROWS, ANSWER = 2.0, 200, 50_000
"""Maximum seconds of a query, rows of an answer, and characters of its rows."""

_CELLS = (40_000, 20_000, 10_000, 5_000, 2_000, 1_000, 500, 200)
"""Lengths to which the longest texts of an answer are cut, so that all of its rows fit."""

_NAME = 80
"""Maximum number of characters of a column's name."""

_MOST_CALLS = 5
"""Maximum number of cut texts for which the answer gives a statement that reads the rest."""

_FRAME, _GRAPHEME = 500, 70
"""Characters around a text that is the whole answer, and how many characters too early a text may be cut."""

_PART = re.compile(r"substr\((.*), *([1-9]\d{0,17}), *([1-9]\d{0,17})\)", re.IGNORECASE | re.DOTALL)
"""A column that is itself part of a text."""

_EXAMPLE = (
    "SELECT role, content FROM messages WHERE status != 'dropped' AND tool != 'query_db' AND content LIKE '%plan%' "
    "ORDER BY id DESC LIMIT 5"
)

Find = Callable[[str], Rows]
"""Runs a statement."""


class QueryArguments(Struct, frozen=True, forbid_unknown_fields=True):
    sql: Annotated[str, about(f"One SELECT, as: {_EXAMPLE}")]


class NoArguments(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class _Cut(NamedTuple):
    """A text of which only the first `kept` characters are in the answer."""

    row: int
    column: int
    kept: int


def _run(agent: Agent, arguments: QueryArguments, asking: Asking) -> str:
    with watched() as flag:
        find = partial(_find, agent, flag)
        found = find(arguments.sql)
        shown = agent.standing().config.truncate_recent
        return _answer(arguments.sql, found, find, shown)


def _find(agent: Agent, flag: Flag, sql: str) -> Rows:
    at = agent.standing()
    scope = QueryScope(agent.id, at.lineage, at.fold.segments)
    return _sandbox(agent).query(scope, sql, Limits(SECONDS, ROWS, 20 * ANSWER, flag.is_set))


def _sandbox(agent: Agent) -> SqlSandbox:
    sandbox = agent.log.store.sandbox
    if sandbox is None:
        raise CommandError("this database does not answer SQL; `recall` searches what was said")
    return sandbox


def _answer(sql: str, found: Rows, find: Find, shown: int) -> str:
    """Return the answer as JSON. `shown` is the number of its characters that the model's next request holds."""
    names = _distinct(found.columns)
    lines, cuts = _lines(names, found.rows)
    notes = []
    if len(lines) < len(found.rows) or found.cut in ("rows", "characters"):
        notes.append(
            f"There may be more rows than these {len(lines)}: go on with LIMIT and OFFSET, or read fewer columns."
        )
    elif found.cut == "time":
        notes.append(f"The query was ended after {SECONDS:g} s, rows may be missing: narrow it, as by id.")
    for cut in cuts[:_MOST_CALLS]:
        size = len(found.rows[cut.row][cut.column])
        call = _reads_on(sql, found, cut, cut.kept, find)
        notes.append(
            f"Row {cut.row + 1}: {names[cut.column]} has {size:,} characters, here {cut.kept:,}: read on with {call}"
        )
    if len(cuts) > _MOST_CALLS:
        notes.append(f"{len(cuts) - _MOST_CALLS} more texts are cut: read them with substr.")
    part = _PART.fullmatch(found.columns[0])
    if part and len(found.columns) == len(lines) == 1 and not cuts and len(str(found.rows[0][0])) == int(part[3]):
        call = _reads_on(sql, found, _Cut(0, 0, int(part[3])), int(part[3]), find)
        notes.append(f"There may be more: read on with {call}")
    whole = _joined(lines, notes)
    if len(whole) <= shown:
        return whole
    first = f"Only the first {shown:,} characters of this answer stay in your context."
    texts = [at for at, cell in enumerate(found.rows[0]) if isinstance(cell, str)]
    if len(lines) > 1 or not texts:
        return _joined(lines, [f"{first} Ask for fewer rows, or parts of texts: substr(content, 1, 500).", *notes])
    at = max(texts, key=lambda at: len(found.rows[0][at]))
    text, most = found.rows[0][at], max(shown - _FRAME, 100)

    def telling(kept: int) -> str:
        call = _reads_on(sql, found, _Cut(0, at, kept), most, find)
        return _joined(
            lines, [f"{first} Of {names[at]} that is {kept:,} of {len(text):,}: read on with {call}", *notes]
        )

    before = {name: _cell(cell, ANSWER) for name, cell in zip(names[:at], found.rows[0], strict=False)}
    line = len(_json(before)) + len(_json(names[at])) + 2
    room = shown - _GRAPHEME - (len(telling(len(text))) - len(lines[0]) - 3 + line)
    return telling(max(bisect_left(range(len(text)), room, key=lambda end: len(_json(text[:end]))) - 1, 0))


def _joined(lines: Sequence[str], notes: Sequence[str]) -> str:
    note = f', "note": {_json(". ".join(note.rstrip(".") for note in notes) + ".")}' if notes else ""
    rows = "\n" + ",\n".join(lines) + "\n" if lines else ""
    return f'{{"row_count": {len(lines)}{note}, "rows": [{rows}]}}'


def _lines(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[list[str], list[_Cut]]:
    """Return the rows as JSON, as many as fit into an answer, and the texts that were cut."""
    lines: list[str] = []
    cuts: list[_Cut] = []
    for most in (ANSWER, *_CELLS):
        lines, cuts = [], []
        for number, row in enumerate(rows):
            long = [_Cut(number, at, most) for at, cell in enumerate(row) if isinstance(cell, str) and len(cell) > most]
            line = _json({name: _cell(cell, most) for name, cell in zip(names, row, strict=True)})
            if lines and sum(map(len, lines)) + len(line) > ANSWER:
                break
            cuts += long
            lines.append(line)
        if len(lines) == len(rows) and sum(map(len, lines)) <= ANSWER:
            break
    return lines, cuts


def _cell(cell: Any, most: int) -> Any:
    match cell:
        case str():
            return cell[:most]
        case bytes():
            return {"blob_bytes": len(cell)}  # cannot be confused with a text
        case float() if not math.isfinite(cell):
            return str(cell)
        case _:
            return cell


def _reads_on(sql: str, found: Rows, cut: _Cut, most: int, find: Find) -> str:
    """Return the statement that gives the next `most` characters of a text."""
    row, name = found.rows[cut.row], found.columns[cut.column]
    part = f"{cut.kept + 1}, {most}"
    if name == "content":
        ids = [
            cell for column, cell in zip(found.columns, row, strict=True) if column == "id" and isinstance(cell, int)
        ]
        ids += [int(id) for id in re.findall(r"\bid\s*=\s*(\d{1,18})\b", sql)]
        for id in ids[:3]:
            if find(f"SELECT content FROM messages WHERE id = {id}").rows == [(row[cut.column],)]:
                return f"SELECT substr(content, {part}) FROM messages WHERE id = {id}"
    known = _PART.fullmatch(name)
    if known and sql.count(name) == 1 and len(found.rows) == 1:
        return sql.strip().replace(name, f"substr({known[1]}, {int(known[2]) + cut.kept}, {most})")
    inner = sql.strip().rstrip("; \n")
    if len(inner) > 500 or found.columns.count(name) > 1:
        return f"SELECT substr(…, {part}) of it"
    end = "\n" if "--" in inner else ""
    column = '"' + name.replace('"', '""') + '"'
    return f"SELECT substr({column}, {part}) FROM ({inner}{end}) LIMIT 1 OFFSET {cut.row}"


def _distinct(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for whole in names:
        # The name of an expression is its text, which may be long.
        name = whole if len(whole) <= _NAME else f"{whole[: _NAME - 1]}…"
        same, number = name, 1
        while same in found:
            number += 1
            same = f"{name}_{number}"
        found.append(same)
    return found


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_MEANINGS = {
    "messages": (
        "all messages of this conversation, including those outside your context",
        {
            "id": "unique, in the order of time",
            "agent_id": "the agent that owns it: this one, or the one it was forked from",
            "group_id": "its turn; turns.id",
            "role": "system, user, assistant or tool",
            "kind": "system, user, client, assistant, tool_call, tool_result, tool or summary",
            "tool": "of a tool_call and its tool_result the tool's name, else ''; query_db repeats other messages",
            "content": "the text; of a tool_call the arguments as JSON",
            "status": "dropped (not in the context: do not rely on it), tool_call, or completed",
            "parsing_strategy": "the format of a tool call or result: anthropic, openai, gemini or gemini_gca",
            "tokens": "an estimate",
            "created_at": "UTC, ISO 8601",
        },
    ),
    "turns": (
        "a user's message and all that followed up to the next",
        {
            "id": "messages.group_id",
            "agent_id": "the agent that owns it",
            "first_id": "its first message",
            "last_id": "its last message",
            "messages": "how many",
            "tokens": "of all of them",
            "status": "dropped if no message of it is in the context, else completed",
            "created_at": "of its first message",
        },
    ),
    "operations": (
        "changes of the context",
        {
            "id": "unique, in one order with the messages",
            "agent_id": "the agent that owns it",
            "group_id": "the turn it happened in, or null",
            "kind": f"{', '.join(OPERATION_KINDS[:-1])} or {OPERATION_KINDS[-1]}",
            "actor": "human, model or system",
            "data": "its details as JSON; null for operations of the agent that this one was forked from",
            "created_at": "UTC, ISO 8601",
        },
    ),
    "memos": (
        "knowledge for all conversations",
        {"id": "unique", "content": "the text", "tags": "a JSON array", "created_at": "UTC, ISO 8601"},
    ),
}


def _describe(agent: Agent, arguments: NoArguments, asking: Asking) -> str:
    parts = [
        f"{name}: {about}\n" + "\n".join(f"  {column}: {columns[column]}" for column in VIEWS[name])
        for name, (about, columns) in _MEANINGS.items()
    ]
    return (
        f"query_db reads these views with one SELECT of {_sandbox(agent).dialect}'s SQL:\n\n"
        + "\n\n".join(parts)
        + f"\n\nAt most {ROWS} rows, {ANSWER:,} characters and {SECONDS:g} s. The newest first:\n{_EXAMPLE}\n"
        + "A part of a long text:\nSELECT substr(content, 1, 4000) FROM messages WHERE id = 1"
    )


def spec(dialect: str) -> ToolSpec:
    """Return the specification of `query_db` for a database of that name."""
    return ToolSpec(
        "query_db",
        f"Look up messages of {THIS_CONVERSATION}, also older ones that are not sent, with one read-only SQL SELECT "
        f"({dialect}). Views: "
        + "; ".join(f"{name}({', '.join(columns)})" for name, columns in VIEWS.items())
        + ". Rows with status = 'dropped' were taken out of the context: leave them out, as those with tool "
        "= 'query_db', which repeat others. ORDER BY id DESC gives the newest first.",
        schema(QueryArguments),
    )


QUERY_DB = Tool(spec("SQLite"), QueryArguments, _run, together=True)

DESCRIBE_DB = Tool.of(
    "describe_db",
    "What query_db can read: the views, what their columns mean, and an example",
    NoArguments,
    _describe,
    together=True,
)
