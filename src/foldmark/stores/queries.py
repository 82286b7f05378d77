"""Named queries and numbered migrations, read from the SQL files beside this module."""

from importlib.resources import files


def queries(dialect: str) -> dict[str, str]:
    """The named queries of a database, name -> SQL. A query begins with `-- name:` and a line that describes it."""
    text = files(__package__).joinpath("sql", dialect, "queries.sql").read_text(encoding="utf-8")
    found = {}
    for block in text.split("-- name: ")[1:]:
        name, _description, sql = block.split("\n", 2)
        found[name.strip()] = sql.strip()
    return found


def migrations(dialect: str) -> list[tuple[int, str]]:
    """The migrations of a database as (number, SQL), in order. They are numbered from 1 and never edited."""
    folder = files(__package__).joinpath("sql", dialect)
    found = [(int(f.name[:4]), f.read_text(encoding="utf-8")) for f in folder.iterdir() if f.name[:4].isdigit()]
    return sorted(found)
