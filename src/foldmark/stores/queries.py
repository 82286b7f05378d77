"""The schema and the named queries of each database, read once from its folder `sql` and never changed."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import dropwhile
from pathlib import Path
from typing import NamedTuple

import msgspec

from foldmark.core.errors import StoreError

_HERE = Path(__file__).parent

VECTORS = _HERE / "sql" / "vectors.sql"
"""The statements about models of vectors, which the index of the archive has, too."""

_BLOCK = re.compile(r"^-- (name|part|what): (.*)$", re.MULTILINE)
_PART = re.compile(r"<<(\w+)(?: ([^>]*))?>>")


def queries(dialect: str) -> dict[str, str]:
    """Return the statements of a database, name -> SQL: those that all databases have, and its own."""
    return named_queries(_HERE / "sql" / "queries.sql", VECTORS, _HERE / dialect / "sql" / "queries.sql")


@cache
def named_queries(*paths: Path) -> dict[str, str]:
    """Return the statements in some files, name -> SQL.

    A block begins with `-- name:`, `-- part:` or `-- what:`, and lines that describe it. `<<part one two>>` stands for
    the text of a part, in which `$1` and `$2` stand for `one` and `two`. Each `what` gives four statements, `select
    what` and `locate what`, both also `newest first`: it is the condition of the events that are selected, or several
    ones where the rows of several indices are merged.
    """
    found: dict[str, dict[str, str]] = {"name": {}, "part": {}, "what": {}}
    for path in paths:
        _, *blocks = _BLOCK.split(path.read_text(encoding="utf-8"))
        for sort, name, text in zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True):
            lines = dropwhile(lambda line: line.startswith("-- "), text.strip().split("\n"))
            found[sort][name.strip()] = "\n".join(lines).strip()
    names, parts = found["name"], found["part"]
    templates = {name: names.pop(name) for name in ("select", "locate") if name in names}
    for what, condition in found["what"].items():
        branches = [parts["branch"].replace("$1", each.strip()) for each in condition.split("OTHERWISE")]
        for end, order in (("", ""), (" newest first", "DESC")):
            own = {**parts, "branches": " UNION ALL ".join(branches), "order": order}
            names.update({f"{name} {what}{end}": _expanded(sql, own) for name, sql in templates.items()})
    return {name: _expanded(sql, parts) for name, sql in names.items()}


def _expanded(sql: str, parts: Mapping[str, str]) -> str:
    """Return a statement with its parts."""

    def part(found: re.Match[str]) -> str:
        text = parts[found[1]]
        for number, argument in enumerate((found[2] or "").split(None, 1) or [""], 1):
            text = text.replace(f"${number}", argument)
        return _PART.sub(part, text)

    return _PART.sub(part, sql)


class Schema(NamedTuple):
    """A schema: its number, which the database stores, and the SQL that creates its tables."""

    number: int
    sql: str


@cache
def schema(dialect: str) -> Schema:
    """Return the schema of a database: its file `NUMBER_log.sql`."""
    (file,) = (_HERE / dialect / "sql").glob("[0-9][0-9][0-9][0-9]_log.sql")
    return Schema(int(file.name[:4]), file.read_text(encoding="utf-8"))


def refuse_other(name: str, number: int, known: int) -> None:
    """Raise StoreError if the database `name` has another schema than the known one. 0 is a database without tables."""
    if number > known:
        from foldmark.installation import source

        raise StoreError(
            f"{name} was written by a newer Foldmark (schema {number}, this one knows {known}). "
            f"Update this one, which was installed from {source()}; the database was not changed."
        )
    if 0 < number < known:
        raise StoreError(
            f"{name} was written by an older Foldmark (schema {number}, this one knows {known}) and was not changed: "
            "export its conversations with that one (`foldmark export NAME --to FILE.json`), and import them into a "
            "new database."
        )


def listed(values: Iterable[object]) -> str:
    """Return values as JSON for a single statement: one statement per value would be slower."""
    return msgspec.json.encode(list(values)).decode()
