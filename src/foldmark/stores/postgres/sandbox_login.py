"""The login for a model's SQL: a separate role that may read the views of one schema and nothing else.

It has to be a login: RESET ROLE would undo SET ROLE. The views show the rows of one scope. A query passes its scope as
a setting, which its statement could change; so it also passes a seal, which can only be made with the secret of this
database. Without a valid seal the views are empty. The login can read neither the secret nor the tables.
"""

import hashlib
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psycopg
from psycopg import sql as quoting

from foldmark.core.errors import CommandError, StoreError
from foldmark.core.ports import VIEWS
from foldmark.stores.queries import named_queries
from foldmark.stores.sandbox import ROLE

_SQL = named_queries(Path(__file__).parent / "sql" / "sandbox.sql")

_VERSION = 2
"""Version of the schema that `build` creates; an older one is replaced."""

_MOST_TEXT = 1_000_000
"""Maximum bytes of a text that a statement produces."""

_MOST_FILES = "256MB"
"""Maximum size of temporary files, if the store's user is allowed to set it."""


class Login(NamedTuple):
    """The parameters of a connection; `role` is also the name of the schema with the views."""

    role: str
    password: str
    secret: str

    def seal(self, scope: str) -> str:
        """Return the seal that the views require for a scope."""
        inner = hashlib.sha256(f"{self.secret}{scope}".encode()).digest()
        return hashlib.sha256(self.secret.encode() + inner).hexdigest()


def login(conninfo: str) -> Login:
    """Return the login of a database, creating it if needed.

    `conninfo` connects the store's user. Raises CommandError, with the steps for an administrator, if it cannot be
    created, and StoreError.
    """
    try:
        with psycopg.connect(conninfo, autocommit=True) as db:
            return _Setup(db).login()
    except psycopg.Error as error:
        raise StoreError(f"query_db's login could not be looked up: {' '.join(str(error).split())}") from error


class _Setup:
    """The schema and the role of the login. This module chooses their common name: letters, digits and `_`."""

    def __init__(self, db: psycopg.Connection[Any]) -> None:
        self._db = db
        self._database, schema, self._user = self._one("SELECT current_database(), current_schema(), current_user")
        digest = hashlib.sha256(msgspec.json.encode([self._database, schema])).hexdigest()
        self._name = f"foldmark_reader_{digest[:12]}"

    def _run(self, *statements: str) -> None:
        for statement in statements:
            for known, value in (("{name}", self._name), ("{most}", str(_MOST_TEXT)), ("{role}", ROLE)):
                statement = statement.replace(known, value)
            self._db.execute(statement)

    def _one(self, query: str, **bound: Any) -> Any:
        """Return the first row of a query."""
        return self._db.execute(query, bound).fetchone()

    def _secrets(self, column: str) -> Any:
        """Return columns of the row that only the store's user can read."""
        return self._one(f'SELECT {column} FROM "{self._name}".login')

    def login(self) -> Login:
        with self._db.transaction():
            version, exists, powers, reads, granted = self._state()
            if version != _VERSION or not exists or not granted:
                self._one("SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0))", name=self._name)
                version, exists, powers, reads, granted = self._state()
            is_new = version != _VERSION
            if is_new:
                self._build()
            refusal = self._excess(powers, reads) if exists else None
            if refusal is None and (is_new or not exists):
                refusal = self._make("ALTER" if exists else "CREATE")
            if refusal is None and (is_new or not granted):
                self._run(_SQL["grant"])
            found = self._secrets("password, secret")
        if refusal is not None:
            raise CommandError(refusal)
        return Login(self._name, *found)

    def _state(self) -> tuple[int | None, bool, bool, bool, bool]:
        """Return the version of the schema (None if there is none) and four flags: the role exists, may do more than
        read, may read the tables, may use the schema."""
        has_schema, *role = self._one(_SQL["state"], name=self._name)
        (version,) = (self._secrets("version") if has_schema else None) or (None,)
        return version, *role

    def _excess(self, powers: bool, reads: bool) -> str | None:
        """Return the steps for an administrator if the role has rights that it must not have."""
        if powers:
            return (
                f'query_db is off: its login "{self._name}" may do more than read. An administrator can revoke that: '
                f'ALTER ROLE "{self._name}" NOSUPERUSER NOCREATEROLE NOCREATEDB NOREPLICATION NOBYPASSRLS; and REVOKE '
                "of each role that it is a member of"
            )
        if reads:
            return (
                f'query_db is off: its login "{self._name}" may read the tables of the log. An administrator can '
                f'revoke that: REVOKE ALL ON ALL TABLES IN SCHEMA the log\'s FROM PUBLIC, "{self._name}"'
            )
        return None

    def _build(self) -> None:
        """Create the schema with the views. Raises CommandError."""
        try:
            with self._db.transaction():
                self._run(_SQL["build"])
                keep = f'INSERT INTO "{self._name}".login VALUES (%s, %s, %s)'
                row = (_VERSION, secrets.token_urlsafe(32), secrets.token_urlsafe(32))
                self._db.execute(keep, row)
                for view, columns in VIEWS.items():
                    create = f'CREATE VIEW "{{name}}".{view} ({", ".join(columns)}) WITH (security_barrier)'
                    self._run(f"{create} AS {_SQL[view]}")
        except psycopg.errors.InsufficientPrivilege:
            raise CommandError(
                "query_db needs a schema of its own, and this user may not create one. An administrator can run: GRANT "
                f'CREATE ON DATABASE "{self._database}" TO "{self._user}"'
            ) from None

    def _make(self, how: str) -> str | None:
        """Create the role, or set the password of an existing one. If this user may not, return the steps for an
        administrator."""
        (password,) = self._secrets("password")
        # The server may log the statement, so it does not contain the plain password.
        verifier = self._db.pgconn.encrypt_password(password.encode(), self._name.encode(), b"scram-sha-256").decode()
        rights = "LOGIN NOINHERIT NOCREATEDB NOCREATEROLE PASSWORD"
        try:
            with self._db.transaction():
                self._run(f'{how} ROLE "{{name}}" {rights} {quoting.Literal(verifier).as_string(self._db)}')
        except psycopg.errors.InsufficientPrivilege:
            return (
                f'query_db needs the login "{self._name}", and this user may not create it. An administrator can run, '
                "in this database: DO $$ BEGIN EXECUTE "
                f"format('{how} ROLE \"{self._name}\" LOGIN NOINHERIT PASSWORD %L', "
                f'(SELECT password FROM "{self._name}".login)); END $$'
            )
        with suppress(psycopg.errors.InsufficientPrivilege), self._db.transaction():
            # Only a superuser may set this. For other users, the time limit also bounds the size of the files.
            self._run(f"ALTER ROLE \"{{name}}\" SET temp_file_limit = '{_MOST_FILES}'")
        return None
