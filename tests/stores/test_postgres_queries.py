"""A model's SQL over PostgreSQL (SPEC 4.1): visible rows and hostile statements. Each of these also runs directly over
the login, which protects the log even without the check of statements."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hostile_postgres import ATTACKS, DOING, ENDING, HARMLESS, READING, SERVED
from hypothesis import given, settings
from hypothesis import strategies as st

from foldmark import Agent, Log
from foldmark.app import open_over
from foldmark.core.agents import mailed
from foldmark.core.errors import CommandError, StoreError
from foldmark.core.ports import VIEWS, Limits, QueryScope, Rows
from foldmark.sending.interruption import CURRENT, Interruption
from foldmark.stores.postgres import sandbox_statements
from foldmark.stores.postgres.sandbox_login import login
from foldmark.stores.postgres.sandbox_statements import rewritten
from foldmark.stores.postgres.store import PostgresStore
from foldmark.tools import query_db
from patience import LIMIT
from postgres_server import Databases, address_of
from querying import FOREIGN, ask, column, refused, tried


def turn(agent: Agent, *texts: str) -> list[int]:
    ids = [agent.append("assistant" if at else "user", text) for at, text in enumerate(texts)]
    agent.end_turn()
    return ids


class Place:
    """A child with a trimmed context, and much that it must not see: each such text contains `FOREIGN`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.store = PostgresStore(address, create=False)
        self.log = open_over(self.store)
        other = self.log.agent("other")
        (self.other,) = turn(other, f"{FOREIGN} conversation")
        parent = self.log.agent("parent")
        (self.older,) = turn(parent, f"{FOREIGN} older")
        parent.do(f"/scratchpad edit {FOREIGN} notes")
        parent.do("/mark M")
        (self.handed,) = turn(parent, "handed down")
        self.agent = self.log.agent(parent.do("/fork M").data["child"])
        (self.newer,) = turn(parent, f"{FOREIGN} newer")
        (self.erased,) = turn(self.agent, f"{FOREIGN} erased")
        turn(self.agent, "my question", "my answer")
        self.agent.do(f"/message remove {self.erased} --yes")
        child = self.log.agent(self.agent.do("/fork").data["child"])
        (self.child,) = turn(child, f"{FOREIGN} child")
        with self.store.write() as writing:
            writing.append(self.agent.id, None, [mailed(other.id, f"{FOREIGN} mail", "model", self.log.clock())])
            writing.save_memo("a memo", ("tag",), None, "model", self.log.clock())
        assert column(self.agent, "SELECT 1") == [1]
        self.login = login(self.store.sandbox.conninfo)
        self.over = psycopg.connect(address, autocommit=True)
        self.straight = self.connected()
        self.known = self.dump()

    def connected(self) -> psycopg.Connection[Any]:
        """Open a direct connection as the login."""
        own, password = self.login.role, self.login.password
        return psycopg.connect(self.address, user=own, password=password, autocommit=True, prepare_threshold=None)

    def statement(self, sql: str) -> str:
        names = {name: getattr(self, name) for name in ("other", "older", "newer", "child", "erased")}
        return sql.format(**names, role=self.login.role) if "{" in sql else sql

    def dump(self) -> Any:
        """Return digests of all tables, roles and permissions."""
        tables = self.over.execute(
            "SELECT format('%%I.%%I', schemaname, tablename) FROM pg_tables"
            " WHERE schemaname IN ('foldmark', %s) ORDER BY 1",
            [self.login.role],
        ).fetchall()
        each = " UNION ALL ".join(f"SELECT '{name}', md5(string_agg(t::text, ',')) FROM {name} t" for (name,) in tables)
        roles = "SELECT 'roles', md5(string_agg(r::text, ',' ORDER BY r.rolname)) FROM pg_authid r"
        roles += " WHERE rolsuper OR rolname = %s"
        views = "SELECT 'views', md5(string_agg(c.relname || c.relacl::text, ',' ORDER BY c.oid)) FROM pg_class c"
        return self.over.execute(f"{each} UNION ALL {roles} UNION ALL {views}", [self.login.role]).fetchall()

    def check(self) -> None:
        """Assert that nothing has changed."""
        assert self.dump() == self.known

    def close(self) -> None:
        self.straight.close()
        self.over.close()
        self.log.close()


@pytest.fixture(scope="module")
def place(postgres: Databases) -> Iterator[Place]:
    address = postgres.take()
    place = Place(address)
    yield place
    try:
        place.check()
    finally:
        place.close()
    postgres.give_back(address)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no statement end for the slowness of the machine."""
    monkeypatch.setattr(query_db, "SECONDS", LIMIT)


SHORT = 0.25
"""The time for a statement that would not end."""


@pytest.fixture
def log(postgres: Databases) -> Iterator[Log]:
    address = postgres.take()
    with open_over(PostgresStore(address, create=False)) as log:
        yield log
    postgres.give_back(address)


def attempt(place: Place, sql: str) -> tuple[str, bool]:
    """Run a model's statement. Return its answer and whether it was refused. It must end soon and leak nothing."""
    said, was_refused = tried(place.agent, sql, place.statement(sql))
    assert place.login.secret not in said
    assert place.login.password not in said
    return said, was_refused


# Hostile statements


def test_there_are_many_hostile_statements(place: Place) -> None:
    assert len({*READING.values(), *DOING.values()}) == len(READING) + len(DOING) >= 200
    foreign = place.over.execute("SELECT count(*) FROM foldmark.events WHERE content LIKE %s", [f"%{FOREIGN}%"])
    assert foreign.fetchall() == [(6,)]
    found = "SELECT content FROM messages ORDER BY id"
    assert column(place.agent, found) == ["handed down", "my question", "my answer"]


@pytest.mark.parametrize("statements", [READING, DOING], ids=["reading", "doing"])
def test_a_hostile_statement_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch, statements: dict[str, str]
) -> None:
    monkeypatch.setattr(query_db, "SECONDS", SHORT)
    answers = {name: attempt(place, sql) for name, sql in statements.items()}
    assert {name: said for name, (said, was_refused) in answers.items() if not was_refused} == {}


@pytest.mark.parametrize("statements", [READING, DOING], ids=["reading", "doing"])
def test_the_login_alone_protects_the_log(place: Place, statements: dict[str, str]) -> None:
    """The statements run directly over its connection, except for those that only use too much memory or time."""
    for name, sql in statements.items():
        if "100000000" in sql:
            continue
        place.straight.execute("DISCARD ALL")
        place.straight.execute("SET statement_timeout = '100ms'")
        try:
            cursor = place.straight.execute(place.statement(sql).encode(errors="replace"))
            said = repr(cursor.fetchmany(1000) if cursor.description else None)
            place.check()  # a failed statement is undone as a whole
        except psycopg.Error as error:
            said = str(error)
        assert FOREIGN not in said.replace(sql, ""), name
        assert place.login.secret not in said, name
        if place.straight.closed or place.straight.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            place.straight.close()
            place.straight = place.connected()


@pytest.fixture
def without_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send statements as they are, so that only the server limits them."""
    monkeypatch.setattr(sandbox_statements, "rewritten", lambda sql, schema: sql)


def found(place: Place, sql: str, seconds: float = LIMIT) -> Rows:
    at = place.agent.standing()
    scope = QueryScope(place.agent.id, at.lineage, at.fold.segments)
    return place.store.sandbox.query(scope, place.statement(sql), Limits(seconds, 20, 1_000_000))


@pytest.mark.parametrize("rule", ATTACKS)
def test_a_rule_stops_its_attack(place: Place, rule: str) -> None:
    with pytest.raises(CommandError):
        found(place, ATTACKS[rule])


@pytest.mark.usefixtures("without_rules")
@pytest.mark.parametrize("rule", ATTACKS)
def test_nothing_but_its_rule_stops_an_attack(place: Place, rule: str) -> None:
    found(place, ATTACKS[rule])
    place.store.sandbox._forget_reading()  # with the locks that the attack holds


@pytest.mark.usefixtures("without_rules")
@pytest.mark.parametrize("name", SERVED)
def test_the_server_needs_no_rule_for_this(place: Place, name: str) -> None:
    with pytest.raises(CommandError):
        found(place, SERVED[name], SHORT)


def test_the_string_agg_of_the_schema_takes_the_place_of_postgresqls(place: Place) -> None:
    sql = (
        f"SELECT string_agg(a.content, '{'x' * 9000}') FROM messages a, messages b, messages c, messages d, messages e"
    )
    with pytest.raises(CommandError, match="a text got longer than 1000000 bytes"):
        found(place, sql)


def test_the_parser_takes_a_bounded_number_of_steps() -> None:
    """It tries two readings of each of these brackets."""
    for bracket in ("ARRAY[{}]", "int ({})", "decimal({})", "STRUCT({})", "(SELECT 1 LIMIT ({}))"):
        sql = "1"
        while len(sql) < 2000:
            sql = bracket.replace("{}", sql)
        with pytest.raises(CommandError, match="too complicated"):
            rewritten(f"SELECT {sql}", "s")


def test_a_part_of_the_statement_that_is_neither_a_node_nor_a_word_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = 'SELECT extract("epoch FROM now()), pg_sleep(1), extract(epoch" FROM now())'
    with pytest.raises(CommandError, match="cannot be used"):
        rewritten(sql, "s")
    monkeypatch.setattr(sandbox_statements, "_WORD", re.compile(".*"))
    assert ", pg_sleep(1)," in rewritten(sql, "s").lower()


@pytest.mark.parametrize(
    ("begins", "level", "ends"),
    [
        ("WITH c0 AS (SELECT id AS x FROM messages)", ", c{at} AS (SELECT x+x+x+x+x+x+x+x AS x FROM c{before})", ""),
        ("", "SELECT x+x+x+x+x+x+x+x AS x FROM (", ") _"),
        ("", "SELECT x+x+x+x+x+x+x+x AS x FROM ((", ")) _"),
    ],
)
def test_an_expression_is_not_substituted_for_its_name(place: Place, begins: str, level: str, ends: str) -> None:
    """The plan of a statement would be eight times as large for each subquery."""
    levels = [level.format(at=at, before=at - 1) for at in range(1, 6)]
    base = " SELECT x FROM c5" if begins else "SELECT id AS x FROM messages"
    sql = begins + "".join(levels) + base + ends * 5

    def planned(statement: str) -> int:
        with place.connected() as db:
            db.execute(f'SET search_path = "{place.login.role}", pg_catalog')
            rows = db.execute(f"EXPLAIN (MEMORY) {statement}".encode()).fetchall()
        (used,) = [int(size) for (line,) in rows for size in re.findall(r"Memory: used=(\d+)kB", line)]
        return used

    assert planned(sql) > 10 * planned(rewritten(sql, place.login.role))


@pytest.mark.parametrize("name", ENDING)
def test_a_long_statement_ends_in_time(place: Place, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(query_db, "SECONDS", SHORT)
        attempt(place, ENDING[name])
    assert column(place.agent, "SELECT 1") == [1]


@pytest.mark.parametrize("name", HARMLESS)
def test_an_allowed_statement_runs(place: Place, name: str) -> None:
    said, was_refused = attempt(place, HARMLESS[name])
    assert not was_refused, said


@pytest.mark.parametrize("name", ["other", "older", "newer", "child", "erased"])
def test_the_views_hold_no_rows_of_other_agents(place: Place, name: str) -> None:
    assert ask(place.agent, f"SELECT * FROM messages WHERE id = {getattr(place, name)}")["rows"] == []
    assert column(place.agent, f"SELECT id FROM messages WHERE id = {place.handed}") == [place.handed]


def test_a_scope_needs_its_seal(place: Place) -> None:
    """The views are empty for a scope that the store has not sealed."""
    views = [f'SELECT count(*) FROM "{place.login.role}".{view}' for view in ("messages", "turns", "operations")]
    with place.connected() as db:

        def counts() -> list[int]:
            return [row[0] for view in views for row in db.execute(view).fetchall()]

        assert counts() == [0, 0, 0]
        everything = (
            '[{"root":1,"agent":1,"uuid":"x","own":true,"first":0,"last":9999,"lineage":"{(,)}","visible":"{}"}]'
        )
        for seal in ("", "0" * 64, place.login.seal(everything + " "), None):
            db.execute("SELECT set_config('foldmark.scope', %s, false)", [everything])
            if seal is not None:
                db.execute("SELECT set_config('foldmark.seal', %s, false)", [seal])
            assert counts() == [0, 0, 0]
        db.execute("SELECT set_config('foldmark.seal', %s, false)", [place.login.seal(everything)])
        assert counts()[0] > 0


def test_the_login_may_only_read_the_views(place: Place) -> None:
    row = place.over.execute(
        "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls OR rolinherit, rolcanlogin"
        " FROM pg_roles WHERE rolname = %s",
        [place.login.role],
    ).fetchone()
    assert row == (False, True)
    readable = place.over.execute(
        "SELECT count(*) FROM pg_tables WHERE schemaname IN ('foldmark', %s)"
        " AND has_table_privilege(%s, format('%%I.%%I', schemaname, tablename), 'SELECT, INSERT, UPDATE, DELETE')",
        [place.login.role, place.login.role],
    ).fetchone()
    assert readable == (0,)


@settings(max_examples=min(40, settings().max_examples))
@given(
    texts=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20), min_size=1)
)
def test_quoted_texts_and_names_are_sent_unchanged(place: Place, texts: list[str]) -> None:
    """A quoted text stays a text, and a name stays a name."""
    sql = "SELECT " + ", ".join("'" + text.replace("'", "''") + "'" for text in texts)
    limits = Limits(LIMIT, 10, 10_000)
    at = place.agent.standing()
    scope = QueryScope(place.agent.id, at.lineage, at.fold.segments)
    assert place.store.sandbox.query(scope, sql, limits).rows == [tuple(texts)]
    names = [f"n{text[:10]}" for text in texts]
    sql = "SELECT " + ", ".join('1 AS "' + name.replace('"', '""') + '"' for name in names)
    assert place.store.sandbox.query(scope, sql, limits).columns == tuple(names)


# Without a login


@pytest.fixture
def owner(postgres: Databases) -> Iterator[tuple[psycopg.Connection[Any], str]]:
    """The database of a user who may not create roles: the administrator's connection, and the user's address.

    It is a new one: in a database that was used before, there may be a login that an administrator created.
    """
    used = postgres.take()
    name = f"owned_{uuid4().hex[:12]}"
    with psycopg.connect(used, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}")
    postgres.give_back(used)
    address = address_of(used, name)
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(f'CREATE ROLE "{name}_owner" LOGIN')
        db.execute(f'GRANT CREATE ON DATABASE "{name}" TO "{name}_owner"')
        db.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")
        yield db, address.replace("postgres:@", f"{name}_owner:@")


def test_an_error_tells_the_administrator_how_to_create_the_login(
    owner: tuple[psycopg.Connection[Any], str],
) -> None:
    administrator, address = owner
    with open_over(PostgresStore(address)) as log:
        agent = log.agent("a")
        turn(agent, "mine")
        told = refused(agent, "SELECT content FROM messages")
        assert 'needs the login "foldmark_reader_' in told
        statement = told.partition("in this database: ")[2]
        assert statement.startswith("DO $$")
        administrator.execute(statement)
        assert column(agent, "SELECT content FROM messages") == ["mine"]


def test_an_error_tells_the_administrator_how_to_create_the_schema(
    owner: tuple[psycopg.Connection[Any], str],
) -> None:
    administrator, address = owner
    with open_over(PostgresStore(address)) as log:
        agent = log.agent("a")
        name = administrator.info.dbname
        administrator.execute(f'REVOKE CREATE ON DATABASE "{name}" FROM "{name}_owner"')
        told = refused(agent, "SELECT 1")
        statement = told.partition("can run: ")[2]
        assert statement == f'GRANT CREATE ON DATABASE "{name}" TO "{name}_owner"'
        administrator.execute(statement)
        administrator.execute(f'ALTER ROLE "{name}_owner" CREATEROLE')
        assert column(agent, "SELECT 1") == [1]


@pytest.mark.parametrize(
    ("grant", "mended", "told"),
    [
        ('ALTER ROLE "{role}" CREATEROLE', 'ALTER ROLE "{role}" NOCREATEROLE', "may do more than read"),
        ('GRANT pg_read_all_data TO "{role}"', 'REVOKE pg_read_all_data FROM "{role}"', "may do more than read"),
        (
            "GRANT SELECT ON foldmark.events TO PUBLIC",
            "REVOKE ALL ON foldmark.events FROM PUBLIC",
            "may read the tables",
        ),
    ],
)
def test_a_login_with_further_rights_is_not_used(
    postgres: Databases, log: Log, grant: str, mended: str, told: str
) -> None:
    store = log.store
    assert isinstance(store, PostgresStore)
    agent = log.agent("a")
    role = login(store.sandbox.conninfo).role
    with psycopg.connect(store.address, autocommit=True) as db:
        db.execute(grant.format(role=role))
        try:
            assert told in refused(agent, "SELECT 1")
        finally:
            db.execute(mended.format(role=role))
    assert column(agent, "SELECT 1") == [1]


# Ordinary use


def test_the_description_names_the_sql_dialect(log: Log) -> None:
    agent = log.agent("a")
    (spec,) = [spec for spec in agent.tools() if spec.name == "query_db"]
    assert "(PostgreSQL)" in spec.description
    described = agent.call_tool("describe_db", {})
    assert "one SELECT of PostgreSQL's SQL" in described
    turn(agent, "the plan")
    for line in described.splitlines():
        if line.startswith("SELECT"):
            ask(agent, line)


def test_the_columns_are_those_of_every_store(log: Log) -> None:
    agent = log.agent("a")
    asked = agent.append("user", "Read x.")
    call = agent.append_tool_call("read_file", {"path": "x"}, call_id="c1", dialect="openai")
    agent.append_tool_result("c1", "the text of x", dialect="openai")
    agent.append("assistant", "Done.")
    agent.end_turn()
    agent.do("/mark M")
    turn(agent, "more")
    agent.do("/rewind M")
    agent.call_tool("save_memo", {"content": "Tabs", "tags": ["style", "decision"]})
    for view, columns in VIEWS.items():
        found = ask(agent, f"SELECT * FROM {view}")["rows"]
        assert found
        assert [tuple(row) for row in found] == [columns] * len(found)
        assert column(agent, f"SELECT count(*) FROM {view}") == [len(found)]
    rows = ask(agent, "SELECT role, kind, status, group_id FROM messages ORDER BY id")["rows"]
    assert [tuple(row.values()) for row in rows] == [
        ("user", "user", "completed", asked),
        ("assistant", "tool_call", "tool_call", asked),
        ("tool", "tool_result", "completed", asked),
        ("assistant", "assistant", "completed", asked),
        ("user", "user", "dropped", asked + 6),
    ]
    assert column(agent, f"SELECT content FROM messages WHERE id = {call}") == ['{"path":"x"}']
    assert column(agent, "SELECT tool FROM messages ORDER BY id") == ["", "read_file", "read_file", "", ""]
    assert column(agent, "SELECT status FROM turns ORDER BY id") == ["completed", "dropped"]
    assert column(agent, "SELECT kind FROM operations ORDER BY id") == ["mark", "rewind"]
    assert column(agent, "SELECT data::json ->> 'name' FROM operations WHERE kind = 'mark'") == ["M"]
    assert [json.loads(tags) for tags in column(agent, "SELECT tags FROM memos")] == [["decision", "style"]]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sum(tokens) / count(*)", 1),
        ("'a' || 1", "a1"),
        ("1.5 * 2", 3.0),
        ("2 > 1", 1),
        ("NULL", None),
        ("concat('a', NULL, 'b')", "ab"),
        ("string_agg(content, '+' ORDER BY content DESC)", "two+one"),
        ("string_agg(DISTINCT role, '+')", "assistant+user"),
        ("count(*) FILTER (WHERE role = 'user')", 1),
        ("'{\"a\": [1, 2]}'::json -> 'a' ->> 1", "2"),
        ("split_part('a-b', '-', 2)", "b"),
        ("substring('abc' FROM 2 FOR 1)", "b"),
        ("position('c' IN 'abc')", 3),
        ("trim(both 'x' from 'xax')", "a"),
        ("extract(year FROM '2026-01-02'::date)", 2026),
        ("date_trunc('day', '2026-01-02 03:04'::timestamp)", "2026-01-02 00:00:00"),
        ("CASE WHEN max(id) > 0 THEN 'some' ELSE 'none' END", "some"),
        ("'100%' LIKE '100!%' ESCAPE '!'", 1),
    ],
)
def test_the_allowed_functions_return_the_expected_values(log: Log, expression: str, value: Any) -> None:
    agent = log.agent("a")
    turn(agent, "one", "two")
    assert column(agent, f"SELECT {expression} FROM messages")[0] == value


def test_a_fork_sees_its_start_and_many_ranges(log: Log) -> None:
    agent = log.agent("a")
    ids = [id for number in range(30) for id in turn(agent, f"q{number}", f"a{number}")]
    agent.apply_filter("forget", ids[::4])
    gone = {id for at, id in enumerate(ids) if at // 2 % 2 == 0}
    dropped = column(agent, "SELECT id FROM messages WHERE status = 'dropped' ORDER BY id")
    shown = {message.id for message in agent.context().messages}
    assert {*dropped} == {*ids} - shown
    assert {*dropped} & gone
    child = log.agent(agent.do("/fork").data["child"])
    turn(child, "the child's")
    found = ask(child, "SELECT id, agent_id FROM messages ORDER BY id")["rows"]
    assert [row["id"] for row in found] == [message.id for message in child.context().messages]
    assert {row["agent_id"] for row in found} == {agent.id, child.id}
    assert column(agent, "SELECT content FROM messages ORDER BY id DESC LIMIT 1") == ["a29"]


def test_texts_are_read_whole_and_in_parts(log: Log) -> None:
    agent = log.agent("a")
    text = "".join(f'é{number}\\ "x"\x10\n' for number in range(8000))
    event = agent.append("user", text)
    agent.append("assistant", "a\0b")
    found = ask(agent, f"SELECT content FROM messages WHERE id = {event}")
    call = found["note"].split("Row 1: ")[1].split("read on with ")[1].split(". ")[0].rstrip(".")
    first, size = map(int, re.findall(r"\d+", call)[:2])
    read = found["rows"][0]["content"]
    assert call == f"SELECT substr(content, {len(read) + 1}, {size}) FROM messages WHERE id = {event}"
    for at in range(first, len(text), size):
        read += column(agent, call.replace(str(first), str(at), 1))[0]
    assert read == text
    # PostgreSQL has no NUL, so it is shown as the symbol U+2400.
    assert column(agent, "SELECT content FROM messages ORDER BY id DESC LIMIT 1") == ["a\u2400b"]


def test_limits_and_an_interruption_end_a_query(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = log.agent("a")
    with agent.batch():
        for number in range(300):
            agent.append("user", f"{number} " + "x" * 300)
    assert ask(agent, "SELECT id FROM messages")["row_count"] == query_db.ROWS
    assert "read on" in ask(agent, "SELECT string_agg(content, ',') FROM messages")["note"]
    slow = "SELECT count(*) FROM messages a, messages b, messages c, messages d"
    monkeypatch.setattr(query_db, "SECONDS", SHORT)
    assert "took too long" in refused(agent, slow)
    first = (
        "SELECT a.id FROM messages a WHERE a.id < 4 OR (SELECT count(*) FROM messages b, messages c, messages d) < 0"
    )
    for seconds in (SHORT, 1, 4, LIMIT):  # the time until the first rows come depends on the machine
        monkeypatch.setattr(query_db, "SECONDS", seconds)
        with suppress(CommandError):
            found = ask(agent, first)
            break
    assert found["row_count"] == 3
    assert "rows may be missing" in found["note"]
    monkeypatch.setattr(query_db, "SECONDS", LIMIT)
    interruption = Interruption()
    interruption.happen()
    token = CURRENT.set(interruption)
    try:
        assert "interrupted" in refused(agent, slow)
    finally:
        CURRENT.reset(token)
    assert column(agent, "SELECT 1") == [1]


def test_a_cut_connection_is_replaced(log: Log) -> None:
    agent = log.agent("a")
    turn(agent, "text")
    assert column(agent, "SELECT content FROM messages") == ["text"]
    assert isinstance(log.store, PostgresStore)
    with psycopg.connect(log.store.address, autocommit=True) as db:
        db.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'foldmark query_db' AND datname = current_database()"
        )
    assert column(agent, "SELECT content FROM messages") == ["text"]


def test_queries_inside_a_batch_and_after_closing(log: Log) -> None:
    agent = log.agent("a")
    turn(agent, "before")
    with agent.batch():
        agent.append("user", "inside")
        assert column(agent, "SELECT content FROM messages") == ["before"]
    assert column(agent, "SELECT content FROM messages ORDER BY id") == ["before", "inside"]
    at = agent.standing()
    scope = QueryScope(agent.id, at.lineage, at.fold.segments)
    sandbox = log.store.sandbox
    assert sandbox is not None
    log.close()
    with pytest.raises(StoreError):
        sandbox.query(scope, "SELECT 1", Limits(1, 1, 1))


def test_a_sent_statement_names_every_table_in_full() -> None:
    sent = rewritten(
        "WITH messages AS (SELECT 1 AS id), x AS (SELECT id FROM memos) SELECT * FROM messages, x, TURNS t", "s"
    )
    assert sent == (
        'WITH "with: messages" AS MATERIALIZED (SELECT 1 AS "id"), "with: x" AS MATERIALIZED '
        '(SELECT "id" FROM "s"."memos" AS "memos") '
        'SELECT * FROM "with: messages" AS "messages", "with: x" AS "x", "s"."turns" AS "t"'
    )
