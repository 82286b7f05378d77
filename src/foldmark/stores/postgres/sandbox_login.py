"""The login for a model's SQL: a role of its own, which may read the views of one schema and nothing else.

It has to be a login: a role that a session takes on by SET ROLE is left again by RESET ROLE. The views show the rows of
one scope. A query brings its scope along as a setting, which its statement could change; so it also brings a seal,
which can only be made with the secret of this database, and without which the views are empty. The login can read
neither the secret nor the tables.
"""

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any, LiteralString, NamedTuple

import msgspec
import psycopg
from psycopg import sql as quoting

from foldmark.core.errors import CommandError, StoreError
from foldmark.core.events import ROLES
from foldmark.core.ports import VIEWS

_VERSION = 1
"""Version of the output of `_BUILD`; an older one is replaced."""

_MOST_TEXT = 1_000_000
"""Maximum bytes of a text that a statement makes."""

_MOST_FILES = "256MB"
"""Maximum size of temporary files, where the store's user may set it."""


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
            return _login(db)
    except psycopg.Error as error:
        raise StoreError(f"query_db's login could not be looked up: {' '.join(str(error).split())}") from error


def _login(db: psycopg.Connection[Any]) -> Login:
    name = _name(db)
    with db.transaction():
        state = _state(db, name)
        if state.version != _VERSION or not state.there or not state.granted:
            db.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])
            state = _state(db, name)
        is_new = state.version != _VERSION
        if is_new:
            _build(db, name)
        refusal = _too_much(state, name) if state.there else None
        if refusal is None and (is_new or not state.there):
            refusal = _make(db, name, "ALTER" if state.there else "CREATE")
        if refusal is None and (is_new or not state.granted):
            _run(db, _GRANT, name)
        found = db.execute(_quoted('SELECT password, secret FROM "{name}".login', name)).fetchone()
    if refusal is not None:
        raise CommandError(refusal)
    assert found is not None
    return Login(name, *found)


class _State(NamedTuple):
    version: int | None
    there: bool
    powers: bool
    reads: bool
    granted: bool


def _name(db: psycopg.Connection[Any]) -> str:
    row = db.execute("SELECT current_database(), current_schema()").fetchone()
    assert row is not None
    return f"foldmark_reader_{hashlib.sha256(msgspec.json.encode(row)).hexdigest()[:12]}"


def _state(db: psycopg.Connection[Any], name: str) -> _State:
    there = db.execute(_STATE, {"name": name}).fetchone()
    assert there is not None
    has_schema, *state = there
    version = None
    if has_schema:
        (version,) = db.execute(_quoted('SELECT version FROM "{name}".login', name)).fetchone() or (None,)
    return _State(version, *state)


_STATE = """SELECT to_regclass(format('%%I.login', %(name)s::text)) IS NOT NULL, r.oid IS NOT NULL,
    coalesce(r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR r.rolbypassrls
        OR EXISTS (SELECT 1 FROM pg_auth_members m WHERE m.member = r.oid), false),
    coalesce(has_table_privilege(r.oid, to_regclass('events'), 'SELECT'), false)
        OR coalesce(has_table_privilege(r.oid, to_regclass(format('%%I.login', w.name)), 'SELECT'), false),
    coalesce(has_schema_privilege(r.oid, n.oid, 'USAGE'), false)
FROM (SELECT %(name)s::name AS name) w
LEFT JOIN pg_roles r ON r.rolname = w.name LEFT JOIN pg_namespace n ON n.nspname = w.name"""


def _too_much(state: _State, name: str) -> str | None:
    if state.powers:
        return (
            f'query_db is off: its login "{name}" may do more than read. An administrator takes that away: ALTER ROLE '
            f'"{name}" NOSUPERUSER NOCREATEROLE NOCREATEDB NOREPLICATION NOBYPASSRLS; and REVOKE of each role that '
            "it is a member of"
        )
    if state.reads:
        return (
            f'query_db is off: its login "{name}" may read the tables of the log. An administrator takes that away: '
            f'REVOKE ALL ON ALL TABLES IN SCHEMA the log\'s FROM PUBLIC, "{name}"'
        )
    return None


def _build(db: psycopg.Connection[Any], name: str) -> None:
    """Create the schema with the views. Raises CommandError."""
    try:
        with db.transaction():
            given = {"password": secrets.token_urlsafe(32), "secret": secrets.token_urlsafe(32)}
            _run(db, _BUILD, name)
            db.execute(_quoted(_KEEP, name), {**given, "version": _VERSION})
            for view, body in _VIEWS.items():
                columns = ", ".join(VIEWS[view])
                _run(db, (f'CREATE VIEW "{{name}}".{view} ({columns}) WITH (security_barrier) AS {body}',), name)
    except psycopg.errors.InsufficientPrivilege:
        row = db.execute("SELECT current_database(), current_user").fetchone()
        assert row is not None
        raise CommandError(
            "query_db needs a schema of its own, and this user may not make one. An administrator runs: GRANT CREATE "
            f'ON DATABASE "{row[0]}" TO "{row[1]}"'
        ) from None


def _make(db: psycopg.Connection[Any], name: str, how: LiteralString) -> str | None:
    """Create the role, or set the password of an existing one; return the steps for an administrator if this user may
    not."""
    row = db.execute(_quoted('SELECT password FROM "{name}".login', name)).fetchone()
    assert row is not None
    # The server may log what is sent, so it is not the plain password.
    verifier = db.pgconn.encrypt_password(row[0].encode(), name.encode(), b"scram-sha-256").decode()
    try:
        with db.transaction():
            db.execute(
                quoting.SQL(how + " ROLE {} LOGIN NOINHERIT NOCREATEDB NOCREATEROLE PASSWORD {}").format(
                    quoting.Identifier(name), quoting.Literal(verifier)
                )
            )
    except psycopg.errors.InsufficientPrivilege:
        return (
            f'query_db needs the login "{name}", and this user may not make it. An administrator runs, in this '
            f"database: DO $$ BEGIN EXECUTE format('{how} ROLE \"{name}\" LOGIN NOINHERIT PASSWORD %L', (SELECT "
            f'password FROM "{name}".login)); END $$'
        )
    try:
        with db.transaction():
            _run(db, (f"ALTER ROLE \"{{name}}\" SET temp_file_limit = '{_MOST_FILES}'",), name)
    except psycopg.errors.InsufficientPrivilege:
        pass  # only a superuser may; time limits them as well
    return None


def _run(db: psycopg.Connection[Any], statements: Sequence[str], name: str) -> None:
    for statement in statements:
        db.execute(_quoted(statement, name))


def _quoted(statement: str, name: str) -> Any:
    # The name is this module's own: letters, digits and `_`.
    return statement.replace("{name}", name)


_KEEP = 'INSERT INTO "{name}".login VALUES (%(version)s, %(password)s, %(secret)s)'

_BUILD = (
    'DROP SCHEMA IF EXISTS "{name}" CASCADE',
    'CREATE SCHEMA "{name}"',
    'REVOKE ALL ON SCHEMA "{name}" FROM PUBLIC',
    'CREATE TABLE "{name}".login (version integer NOT NULL, password text NOT NULL, secret text NOT NULL)',
    'REVOKE ALL ON "{name}".login FROM PUBLIC',
    # The rows of a scope: an agent each, its range of events, and the visible part of that.
    """CREATE FUNCTION "{name}".scope(OUT root bigint, OUT agent bigint, OUT uuid text, OUT own boolean,
        OUT first bigint, OUT last bigint, OUT lineage int8multirange, OUT visible int8multirange)
    RETURNS SETOF record LANGUAGE sql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
        SELECT s.* FROM "{name}".login l,
            LATERAL (SELECT current_setting('foldmark.scope', true) AS scope) g,
            LATERAL json_to_recordset(CASE WHEN encode(sha256(
                convert_to(l.secret, 'UTF8') || sha256(convert_to(l.secret || g.scope, 'UTF8'))
            ), 'hex') = current_setting('foldmark.seal', true) THEN g.scope::json ELSE '[]' END)
            AS s (root bigint, agent bigint, uuid text, own boolean, first bigint, last bigint,
                lineage int8multirange, visible int8multirange)
    $$""",
    # The original text, except for NUL, which PostgreSQL's text cannot hold: see `foldmark.stores.postgres.connection`.
    """CREATE FUNCTION "{name}".said(stored text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
        SELECT CASE WHEN strpos(stored, chr(16)) = 0 THEN stored ELSE
            replace(replace(replace(stored, chr(16) || chr(16), chr(16) || '1'), chr(16) || '0', chr(9216)),
                chr(16) || '1', chr(16)) END
    $$""",
    """CREATE FUNCTION "{name}".sized(made text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
        IF octet_length(made) > {most} THEN
            RAISE EXCEPTION 'a text got longer than {most} bytes; ask for parts: substr(content, 1, 4000)'
                USING ERRCODE = 'program_limit_exceeded';
        END IF;
        RETURN made;
    END $$""".replace("{most}", str(_MOST_TEXT)),
    """CREATE FUNCTION "{name}".short(sought text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
        IF length(sought) > 200 THEN
            RAISE EXCEPTION 'what is searched for has at most 200 characters' USING ERRCODE = 'program_limit_exceeded';
        END IF;
        RETURN sought;
    END $$""",
    """CREATE FUNCTION "{name}".joined(sofar text, added text, mark text) RETURNS text LANGUAGE plpgsql IMMUTABLE
    AS $$ BEGIN
        IF added IS NULL THEN RETURN sofar; END IF;
        IF sofar IS NULL THEN RETURN added; END IF;
        RETURN "{name}".sized(sofar || coalesce(mark, '') || added);
    END $$""",
    'CREATE AGGREGATE "{name}".string_agg(text, text) (sfunc = "{name}".joined, stype = text)',
    'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA "{name}" FROM PUBLIC',
)

_GRANT = (
    'GRANT USAGE ON SCHEMA "{name}" TO "{name}"',
    *(f'GRANT SELECT ON "{{name}}".{view} TO "{{name}}"' for view in VIEWS),
    'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "{name}" TO "{name}"',
)

_ROLE = f"CASE e.kind {' '.join(f'WHEN {kind!r} THEN {role!r}' for kind, role in ROLES.items())} END"
_INSIDE = (
    'FROM "{name}".scope() s JOIN events e ON e.root = s.root AND e.agent = s.agent AND e.id BETWEEN s.first AND s.last'
)

_VIEWS = {
    "messages": f"""SELECT e.id, s.uuid, e.turn, {_ROLE}, e.kind, "{{name}}".said(e.content),
        CASE WHEN NOT e.id <@ s.visible THEN 'dropped' WHEN e.kind = 'tool_call' THEN e.kind ELSE 'completed' END,
        e.dialect, e.tokens, e.created_at
        {_INSIDE} WHERE e.nth IS NOT NULL AND e.id <@ s.lineage""",
    "turns": """SELECT group_id, min(agent_id), min(id), max(id), count(*), sum(tokens)::bigint,
        CASE WHEN bool_or(status <> 'dropped') THEN 'completed' ELSE 'dropped' END, min(created_at)
        FROM "{name}".messages WHERE group_id IS NOT NULL GROUP BY group_id""",
    # A parent's operations belong to the parent: a fork records what another child was given. The replay reads ends of
    # turns as well.
    "operations": f"""SELECT e.id, s.uuid, e.turn, e.kind, e.actor, CASE WHEN s.own THEN "{{name}}".said(e.data) END,
        e.created_at
        {_INSIDE} WHERE e.replayed = 1 AND e.kind <> 'turn_ended' AND e.redacted IS NULL AND e.id <@ s.lineage""",
    "memos": """SELECT m.id, "{name}".said(m.content),
        (SELECT coalesce(json_agg("{name}".said(t.tag) ORDER BY t.tag), '[]')::text
            FROM memo_tags t WHERE t.memo = m.id), m.created_at
        FROM memos m""",
}
