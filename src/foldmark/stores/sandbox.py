"""The parts of a sandbox for a model's SQL that every database has (see `foldmark.core.ports.SqlSandbox`)."""

from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError
from foldmark.core.events import ROLES
from foldmark.core.ports import VIEWS

MOST_BYTES = 10_000
"""Maximum number of bytes of a statement."""

ONLY = f"query_db reads the views {', '.join(VIEWS)} and nothing else; describe_db() shows their columns"
SLOW = "the query took too long; narrow it, for example by id, or read fewer rows with LIMIT"
TOO_MUCH = "the query took too much memory, or is too complicated; read fewer rows, or parts: substr(content, 1, 4000)"

ROLE = f"CASE e.kind {' '.join(f'WHEN {kind!r} THEN {role!r}' for kind, role in ROLES.items())} END"
"""SQL for the role of a message `e`."""


def checked(sql: str, instead_of_nul: str) -> str:
    """Return a statement with lone surrogates replaced. Raises CommandError if it is too long or contains a NUL."""
    sql = well_formed(sql)
    if "\0" in sql:
        raise CommandError(f"the statement holds a NUL character; {instead_of_nul}")
    if len(sql.encode()) > MOST_BYTES:
        raise CommandError(f"a statement has at most {MOST_BYTES:,} bytes")
    return sql
