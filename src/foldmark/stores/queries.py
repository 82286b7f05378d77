"""The schema and the named queries of each database, read once from its folder `sql` and never changed."""

from collections.abc import Iterable
from functools import cache
from itertools import dropwhile
from pathlib import Path
from typing import NamedTuple

import msgspec

from foldmark.core.errors import StoreError

_HERE = Path(__file__).parent


def queries(dialect: str, file: str = "queries") -> dict[str, str]:
    """Return the named queries in a database's file, name -> SQL."""
    return named_queries(_HERE / dialect / "sql" / f"{file}.sql")


@cache
def named_queries(path: Path) -> dict[str, str]:
    """Return the queries in a file, name -> SQL. A query begins with `-- name:` and descriptive lines."""
    found = {}
    for block in path.read_text(encoding="utf-8").split("-- name: ")[1:]:
        name, *lines = block.split("\n")
        found[name.strip()] = "\n".join(dropwhile(lambda line: line.startswith("-- "), lines)).strip()
    return found


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
