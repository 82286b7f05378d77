"""Named queries and numbered migrations, read once from each database's folder `sql` and never changed."""

from collections.abc import Iterable
from functools import cache
from itertools import dropwhile
from pathlib import Path

import msgspec

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


@cache
def migrations(dialect: str) -> list[tuple[int, str]]:
    """Return the migrations of a database as (number, SQL), in order. They are numbered from 1 and never edited.

    A migration contains SQL and constants. It may call its own functions, which the store keeps frozen
    (`sqlite.frozen`), and no other part of Foldmark.
    """
    files = (_HERE / dialect / "sql").glob("[0-9][0-9][0-9][0-9]_*.sql")
    return sorted((int(file.name[:4]), file.read_text(encoding="utf-8")) for file in files)


def listed(values: Iterable[object]) -> str:
    """Return values as JSON for a single statement: one statement per value would be slower."""
    return msgspec.json.encode(list(values)).decode()
