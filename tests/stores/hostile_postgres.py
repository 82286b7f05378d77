"""SQL in PostgreSQL's dialect that a hostile model might send: statements that are refused or end at a limit.

`{other}` stands for the id of a message of another conversation, `{older}` of a parent's message from before the fork,
`{newer}` of one from after it, `{child}` of a child's message and `{erased}` of an erased one. `{role}` is the login
and the schema of its views.
"""

from querying import ANYWHERE

_TABLES = (
    *(
        "agents",
        "events",
        "words",
        "long_words",
        "memo_tags",
        "memo_words",
        "texts",
        "sent",
        "mail",
        "directory",
        "names",
    ),
    *("folds", "vectors", "blocks", "numbers", "leases", "migrations"),
)
_CATALOG = (
    *("pg_class", "pg_authid", "pg_roles", "pg_user", "pg_shadow", "pg_settings", "pg_stat_activity", "pg_database"),
    *("pg_proc", "pg_namespace", "pg_views", "pg_tables", "pg_statistic", "pg_stats", "pg_largeobject", "pg_locks"),
    *("pg_file_settings", "pg_hba_file_rules", "pg_prepared_statements", "pg_cursors", "pg_extension", "pg_attribute"),
)
_QUALIFIED = (
    *("foldmark.events", "FOLDMARK.EVENTS", '"foldmark"."events"', "public.events", "pg_catalog.pg_class"),
    *("information_schema.tables", "information_schema.columns", "pg_temp.messages", "pg_toast.pg_toast_2604"),
    *(
        '"{role}".login',
        '"{role}".messages',
        "foldmark.messages",
        "template1.foldmark.events",
        "ONLY events",
        "events *",
    ),
)

READING = {
    **{f"all of {table}": f"SELECT * FROM {table}" for table in (*_TABLES, *_CATALOG, *_QUALIFIED)},
    **{f"foldmark.{table}": f"SELECT count(*) FROM foldmark.{table}" for table in _TABLES},
    "table command": "TABLE foldmark.events",
    "other tables in a subquery": "SELECT (SELECT string_agg(content, '') FROM foldmark.events)",
    "other tables in EXISTS": "SELECT 1 WHERE EXISTS (SELECT 1 FROM foldmark.events WHERE content LIKE '%f0re1gn%')",
    "other tables in IN": "SELECT id FROM messages WHERE id IN (SELECT id FROM foldmark.events)",
    "other tables in ANY": "SELECT id FROM messages WHERE id = ANY (SELECT id FROM foldmark.events)",
    "other tables in a join": "SELECT e.content FROM messages m JOIN foldmark.events e ON e.id = m.id + 1",
    "other tables in a lateral": "SELECT x.content FROM messages m, LATERAL (SELECT content FROM foldmark.events) x",
    "other tables in ORDER BY": "SELECT 1 ORDER BY (SELECT content FROM foldmark.events LIMIT 1)",
    "other tables in LIMIT": "SELECT 1 LIMIT (SELECT count(*) FROM foldmark.agents)",
    "other tables in a filter": "SELECT count(*) FILTER (WHERE EXISTS (SELECT 1 FROM foldmark.events)) FROM messages",
    "other tables in a window": "SELECT sum(id) OVER (ORDER BY (SELECT 1 FROM foldmark.events LIMIT 1)) FROM messages",
    "other tables in CASE": "SELECT CASE WHEN (SELECT true FROM foldmark.events LIMIT 1) THEN 1 END",
    "union": "SELECT content FROM messages UNION SELECT content FROM foldmark.events",
    "union all": "SELECT content FROM messages UNION ALL SELECT prosrc FROM pg_proc",
    "except": "SELECT content FROM foldmark.events EXCEPT SELECT content FROM messages",
    "intersect": "SELECT content FROM foldmark.events INTERSECT SELECT content FROM foldmark.events",
    "values": "VALUES ((SELECT content FROM foldmark.events LIMIT 1))",
    "values in FROM": "SELECT * FROM (VALUES ((SELECT content FROM foldmark.events LIMIT 1))) AS v (x)",
    "forged messages": "WITH messages AS (SELECT * FROM foldmark.events) SELECT * FROM messages",
    "forged memos": "WITH memos AS (SELECT * FROM pg_authid) SELECT * FROM memos",
    "forged in two steps": "WITH a AS (SELECT * FROM foldmark.events), turns AS (SELECT * FROM a) SELECT * FROM turns",
    "forged and materialized": "WITH messages AS MATERIALIZED (SELECT content FROM events) SELECT * FROM messages",
    "a table out of scope": "SELECT (WITH pg_class AS (SELECT 1 AS id) SELECT id FROM pg_class), c.* FROM pg_class c",
    "a view out of scope": "SELECT * FROM pg_user WHERE (WITH pg_user AS (SELECT 1) SELECT true FROM pg_user)",
    "table as messages": "SELECT messages.content FROM foldmark.events AS messages",
    "subquery as messages": "SELECT * FROM (SELECT * FROM foldmark.events) AS messages",
    "recursion": "WITH RECURSIVE t AS (SELECT id FROM events UNION SELECT id FROM t) SELECT * FROM t",
    "recursion over a view": "WITH RECURSIVE t AS (SELECT id FROM messages UNION SELECT id FROM t) SELECT * FROM t",
    "a long name that is cut": f'WITH "{"pg_class":_<70}" AS (SELECT 1) SELECT * FROM "{"pg_class":_<70}"',
    "columns that are not in the view": "SELECT data, actor, nth, root, stamp FROM messages",
    "system columns": "SELECT ctid, xmin, tableoid FROM messages",
    "a row's fields": "SELECT (messages).content FROM messages",
    "a row to JSON": "SELECT row_to_json(m) FROM messages m",
    "JSON of a row": "SELECT to_json(m) FROM messages m",
    "a function as a column": "SELECT m.pg_sleep FROM messages m",
    "a function as a field": "SELECT ('/etc/passwd'::text).pg_read_file",
    "a function of a table": "SELECT f.pg_read_file FROM unnest(ARRAY['/etc/passwd']) AS f",
    "a type of a row": "SELECT NULL::foldmark.events",
    "the scope": 'SELECT * FROM "{role}".scope()',
    "the scope in FROM": "SELECT * FROM scope()",
    "rows from": "SELECT * FROM ROWS FROM (generate_series(1, 9), pg_ls_dir('.'))",
    "sample": "SELECT * FROM messages TABLESAMPLE SYSTEM (100)",
    "for update": "SELECT * FROM messages FOR UPDATE",
    "for share": "SELECT * FROM messages FOR SHARE NOWAIT",
    "XML of a table": "SELECT table_to_xml('foldmark.events', true, false, '')",
    "XML of a query": "SELECT query_to_xml('SELECT * FROM foldmark.events', true, false, '')",
    "a cursor to XML": "SELECT cursor_to_xml('c', 9, true, false, '')",
    "statistics of a query": "SELECT * FROM ts_stat('SELECT to_tsvector(content) FROM foldmark.events')",
    "a crosstab": "SELECT * FROM crosstab('SELECT 1, 2, content FROM foldmark.events') AS t (a int, b text)",
    "another database": "SELECT * FROM dblink('dbname=postgres', 'SELECT 1') AS t (a int)",
}
"""Statements that would read more than the agent may see."""

_FUNCTIONS = (
    *("pg_read_file('/etc/passwd')", "pg_read_binary_file('/etc/passwd')", "pg_ls_dir('/')", "pg_stat_file('/etc')"),
    *("pg_ls_waldir()", "pg_ls_logdir()", "pg_ls_tmpdir()", "lo_import('/etc/passwd')", "lo_export(1, '/tmp/x')"),
    *("lo_create(0)", "lo_from_bytea(0, 'x')", "lo_get(1)", "lo_put(1, 0, 'x')", "lo_unlink(1)", "lo_open(1, 131072)"),
    *("pg_sleep(9)", "pg_sleep_for('9 seconds')", "pg_sleep_until('tomorrow')", "pg_cancel_backend(1)"),
    *("pg_terminate_backend(1)", "pg_reload_conf()", "pg_rotate_logfile()", "pg_switch_wal()", "pg_promote()"),
    *("set_config('foldmark.scope', '[]', false)", "set_config('statement_timeout', '0', false)"),
    *("set_config('role', 'postgres', false)", "set_config('search_path', 'foldmark', false)"),
    *("current_setting('foldmark.scope')", "current_setting('foldmark.seal')", "current_setting('data_directory')"),
    *("pg_notify('foldmark', 'x')", "pg_advisory_lock(1)", "pg_advisory_xact_lock(1)", "pg_try_advisory_lock(1)"),
    *("nextval('foldmark.embedders_key_seq')", "setval('foldmark.embedders_key_seq', 1)", "lastval()"),
    *("txid_current()", "pg_current_xact_id()", "pg_export_snapshot()", "pg_logical_emit_message(true, 'a', 'b')"),
    *("pg_create_physical_replication_slot('x')", "pg_drop_replication_slot('x')", "pg_get_viewdef('messages')"),
    *("pg_get_functiondef(1)", "pg_table_size('foldmark.events')", "to_regclass('foldmark.events')", "version()"),
    *("current_user", "session_user", "user", "current_database()", "current_schema", "inet_server_addr()"),
    *("has_table_privilege('foldmark.events', 'SELECT')", "pg_has_role('postgres', 'MEMBER')", "pg_backend_pid()"),
    *("pg_typeof(1)", "random()", "gen_random_uuid()", "repeat('x', 1000000000)", "lpad('x', 1000000000)"),
    *(
        "rpad('x', 1000000000)",
        "format('%1000000000s', 1)",
        "array_fill(1, ARRAY[100000000])",
        "convert_from('x', 'UTF8')",
    ),
    *("regexp_replace('a', '(a+)+b', 'c')", "regexp_count('a', 'a')", "string_to_array('a', 'b')", "md5('x')"),
    *("json_agg(1)", "array_agg(1)", "json_object_agg(1, 2)", "xmlagg('<a/>'::xml)", "percentile_cont(0.5)"),
    *("translate('a', 'b', 'c')", "to_tsvector('a')", "power(9, 99999999)", "factorial(99999)", "exp(99999.0)"),
    *("pg_catalog.pg_sleep(9)", "pg_catalog.lower('A')", '"pg_sleep"(9)', "PG_SLEEP(9)", '"{role}".sized(content)'),
    *("quote_ident('a')", "plpgsql_call_handler()", "pg_stat_reset()", "pg_log_backend_memory_contexts(1)"),
)

DOING = {
    **ANYWHERE,
    **{f"function {call}": f"SELECT {call}" for call in _FUNCTIONS},
    **{
        f"cast to {name}": f"SELECT '1'::{name}"
        for name in (
            *("regclass", "regproc", "regprocedure", "regrole", "regnamespace", "regtype", "regconfig", "oid", "xid"),
            *(
                "xml",
                "bytea",
                "text[]",
                "int[]",
                "char(10000000)",
                "bpchar",
                "name",
                "foldmark.events",
                "bit(9)",
                "cidr",
            ),
        )
    },
    **{
        f"operator {operator}": f"SELECT {operator}"
        for operator in (
            *("'a' ~ '(a+)+b'", "'a' ~* 'a'", "'a' !~ 'a'", "'a' SIMILAR TO 'a'", "2 ^ 99999", "|/ 4", "1 & 2", "~ 1"),
            *(
                "ARRAY[1] || 2",
                "'a' COLLATE \"C\"",
                "1 OPERATOR(pg_catalog.+) 2",
                "ARRAY[1] @> ARRAY[2]",
                "(ARRAY[1])[1]",
            ),
            *("ROW(1, 2)", "'{{}}'::jsonb #- '{{a}}'", "'[1]'::jsonb @? '$[*]'", "'a' @@ 'b'"),
        )
    },
    "insert": "INSERT INTO foldmark.events (id) VALUES (1)",
    "insert returning": "INSERT INTO foldmark.memos (id, content) VALUES (1, '') RETURNING content",
    "upsert": "INSERT INTO foldmark.names VALUES ('a', 1) ON CONFLICT (name) DO UPDATE SET root = 2",
    "update": "UPDATE foldmark.events SET content = ''",
    "update of the scope": "UPDATE \"{role}\".login SET secret = 'x'",
    "delete": "DELETE FROM foldmark.events",
    "merge": "MERGE INTO foldmark.names n USING messages m ON false WHEN NOT MATCHED THEN INSERT VALUES ('x', 1)",
    "truncate": "TRUNCATE foldmark.events",
    "a WITH that deletes": "WITH d AS (DELETE FROM foldmark.events RETURNING *) SELECT * FROM d",
    "a WITH that inserts": "WITH i AS (INSERT INTO foldmark.names VALUES ('x', 1) RETURNING *) SELECT * FROM i",
    "a WITH that updates": "WITH u AS (UPDATE foldmark.events SET content = '' RETURNING id) SELECT count(*) FROM u",
    "delete behind WITH": "WITH a AS (SELECT 1) DELETE FROM foldmark.events",
    "select into": "SELECT * INTO copied FROM messages",
    "create table": "CREATE TABLE x (a int)",
    "create table as": "CREATE TABLE x AS SELECT * FROM foldmark.events",
    "create temporary table": "CREATE TEMP TABLE messages AS SELECT 1 AS id",
    "create view": "CREATE VIEW x AS SELECT * FROM foldmark.events",
    "create function": "CREATE FUNCTION x() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "create function in C": "CREATE FUNCTION system(cstring) RETURNS int AS '/lib/libc.so.6', 'system' LANGUAGE c",
    "create extension": "CREATE EXTENSION dblink",
    "create language": "CREATE LANGUAGE plpython3u",
    "create role": "CREATE ROLE x SUPERUSER",
    "create server": "CREATE SERVER x FOREIGN DATA WRAPPER postgres_fdw",
    "create trigger": "CREATE TRIGGER x AFTER INSERT ON foldmark.events EXECUTE FUNCTION f()",
    "create rule": "CREATE RULE x AS ON INSERT TO foldmark.events DO INSTEAD NOTHING",
    "create schema": "CREATE SCHEMA x",
    "alter role": 'ALTER ROLE "{role}" SUPERUSER',
    "alter own settings": 'ALTER ROLE "{role}" SET search_path = foldmark',
    "alter table": "ALTER TABLE foldmark.events ADD COLUMN x int",
    "alter system": "ALTER SYSTEM SET fsync = off",
    "alter view": 'ALTER VIEW "{role}".messages SET (security_barrier = false)',
    "drop table": "DROP TABLE foldmark.events",
    "drop view": 'DROP VIEW "{role}".messages',
    "drop schema": "DROP SCHEMA foldmark CASCADE",
    "grant": 'GRANT SELECT ON foldmark.events TO "{role}"',
    "grant a role": 'GRANT postgres TO "{role}"',
    "revoke": 'REVOKE ALL ON foldmark.events FROM "{role}"',
    "reassign": "REASSIGN OWNED BY postgres TO CURRENT_USER",
    "copy to a file": "COPY messages TO '/tmp/x'",
    "copy to a program": "COPY (SELECT 1) TO PROGRAM 'id'",
    "copy to stdout": "COPY foldmark.events TO STDOUT",
    "copy from a program": "COPY foldmark.names FROM PROGRAM 'id'",
    "copy from a file": "COPY foldmark.names FROM '/etc/passwd'",
    "do": "DO $$ BEGIN PERFORM pg_sleep(9); END $$",
    "call": "CALL x()",
    "set": "SET statement_timeout = 0",
    "set local": "SET LOCAL search_path = foldmark",
    "set role": "SET ROLE postgres",
    "set session authorization": "SET SESSION AUTHORIZATION postgres",
    "set transaction": "SET TRANSACTION READ WRITE",
    "reset": "RESET ALL",
    "reset role": "RESET ROLE",
    "show": "SHOW foldmark.scope",
    "show all": "SHOW ALL",
    "discard": "DISCARD ALL",
    "listen": "LISTEN foldmark",
    "notify": "NOTIFY foldmark, 'x'",
    "lock": "LOCK TABLE foldmark.events",
    "lock a view": "LOCK TABLE messages IN ACCESS SHARE MODE",
    "load": "LOAD 'auto_explain'",
    "prepare": "PREPARE x AS SELECT * FROM foldmark.events",
    "execute": "EXECUTE x",
    "deallocate": "DEALLOCATE ALL",
    "declare": "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM foldmark.events",
    "fetch": "FETCH ALL FROM c",
    "close": "CLOSE ALL",
    "begin read write": "BEGIN READ WRITE",
    "abort": "ABORT",
    "vacuum": "VACUUM foldmark.events",
    "analyze": "ANALYZE foldmark.events",
    "reindex": "REINDEX TABLE foldmark.events",
    "cluster": "CLUSTER foldmark.events",
    "checkpoint": "CHECKPOINT",
    "refresh": "REFRESH MATERIALIZED VIEW x",
    "comment": "COMMENT ON TABLE foldmark.events IS 'x'",
    "security label": "SECURITY LABEL ON TABLE foldmark.events IS 'x'",
    "import": "IMPORT FOREIGN SCHEMA x FROM SERVER y INTO z",
    "explain analyze": "EXPLAIN ANALYZE DELETE FROM foldmark.events",
    "a second that writes": "SELECT 1; DELETE FROM foldmark.events",
    "a second behind a comment": "SELECT 1; /* ; */ DELETE FROM foldmark.events",
    "a second behind a line": "SELECT 1; -- x\nDELETE FROM foldmark.events",
    "a second in a nested comment": "SELECT 1 /* /* */ */; DELETE FROM foldmark.events",
    "a second behind an escape": "SELECT E'\\''; DELETE FROM foldmark.events; --'",
    "a second behind a backslash": "SELECT '\\'; DELETE FROM foldmark.events; --'",
    "a second behind dollars": "SELECT $a$ $b$ $a$; DELETE FROM foldmark.events",
    "a second behind a transaction": "SELECT 1; COMMIT; DELETE FROM foldmark.events",
    "an escaped string": "SELECT E'\\x41'",
    "a string of code points": "SELECT U&'\\0041'",
    "a name of code points": 'SELECT * FROM U&"ev\\0065nts"',
    "a bit string": "SELECT B'1'",
    "dollars": "SELECT $$ x $$",
    "a parameter": "SELECT $1",
    "a parameter by name": "SELECT :x, %(y)s, %s, ?",
    "a meta command": "\\! id",
    "generate_series": "SELECT * FROM generate_series(1, 1000000000)",
    "generate_series as a column": "SELECT generate_series(1, 1000000000)",
    "unnest": "SELECT unnest(ARRAY[1, 2])",
    "many tables": "SELECT 1 FROM " + ", ".join(f"messages m{number}" for number in range(40)),
    "many terms": "SELECT 1" + " UNION SELECT 1" * 300,
    "deep brackets": "SELECT " + "(" * 4000 + "1" + ")" * 4000,
    "grouping sets": "SELECT count(*) FROM messages GROUP BY CUBE (id, agent_id, group_id, role, kind, status)",
    "a rollup": "SELECT count(*) FROM messages GROUP BY ROLLUP (id, role)",
}
"""Statements that would change something, reach a file, reveal the server, or use too much."""

_CROSS = "messages a, messages b, messages c, messages d, messages e, messages f, messages g, messages h, messages i"

ENDING = {
    "a cross join": f"SELECT count(*) FROM {_CROSS}, messages j, messages k, messages l",
    "a cross join that finds nothing": f"SELECT a.id FROM {_CROSS}, messages j WHERE a.id + b.id + j.id < 0",
    "a sorted cross join": f"SELECT a.content || b.content AS x FROM {_CROSS}, messages j ORDER BY 1",
    "different ones of a cross join": f"SELECT DISTINCT a.id * b.id * c.id - d.id * e.id FROM {_CROSS}, messages j",
    "texts of a cross join": f"SELECT string_agg(a.content, ',') FROM {_CROSS}",
    "doubled 25 times": "WITH c0 AS (SELECT id AS x FROM messages), "
    + ", ".join(f"c{at} AS (SELECT a.x FROM c{at - 1} a, c{at - 1} b)" for at in range(1, 6))
    + " SELECT count(*) FROM c5",
    "a text doubled 30 times": "WITH c0 AS (SELECT content AS x FROM messages), "
    + ", ".join(
        f"c{at} AS MATERIALIZED (SELECT x || x || x || x || x || x || x || x AS x FROM c{at - 1})"
        for at in range(1, 10)
    )
    + " SELECT length(x) FROM c9",
    "a text replaced": "SELECT "
    + "replace(" * 20
    + "content"
    + ", 'n', 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn')" * 20
    + " FROM messages",
    "texts joined": "WITH c0 AS (SELECT concat(content, content, content) AS x FROM messages), "
    + ", ".join(f"c{at} AS (SELECT concat(x, x, x, x, x, x, x, x) AS x FROM c{at - 1})" for at in range(1, 10))
    + " SELECT length(x) FROM c9",
    "a text computed again and again": "SELECT length(x) FROM "
    + "(SELECT concat(x, x, x, x, x, x, x, x) AS x FROM " * 12
    + "(SELECT content AS x FROM messages) _"
    + ") _" * 12,
    "rows without an end": f"SELECT a.content FROM {_CROSS}, messages j",
    "a division by zero": "SELECT 1 / (id - id) FROM messages",
    "a wrong number": "SELECT content::int FROM messages",
    "a wrong date": "SELECT content::timestamptz FROM messages",
    "a wrong JSON": "SELECT content::json ->> 'a' FROM messages",
    "a number too large": "SELECT 9223372036854775807 + 1",
    "a pattern of percents": "SELECT count(*) FROM messages WHERE content LIKE '" + "%a" * 2000 + "'",
    "a pattern that ends in an escape": "SELECT 'a' LIKE 'a\\'",
    "a window": f"SELECT sum(a.id) OVER (ORDER BY b.id) FROM {_CROSS}",
}
"""Allowed statements that end with an error or at a limit."""

HARMLESS = {
    "a row of another conversation": "SELECT * FROM messages WHERE id = {other}",
    "a parent's older row": "SELECT * FROM messages WHERE id = {older}",
    "a parent's newer row": "SELECT * FROM messages WHERE id = {newer}",
    "a child's row": "SELECT * FROM messages WHERE id = {child}",
    "an erased row": "SELECT * FROM messages WHERE id = {erased}",
    "all of them": "SELECT * FROM messages WHERE id IN ({other}, {older}, {newer}, {child}, {erased})",
    "or true": "SELECT * FROM messages WHERE id = 0 OR true",
    "every turn": "SELECT * FROM turns",
    "every operation": "SELECT * FROM operations",
    "every memo": "SELECT * FROM memos",
    "a row as a whole": "SELECT messages FROM messages",
    "an error for a foreign row": "SELECT * FROM messages WHERE id = {other} AND 1 / (id - {other}) > 0",
    "a cast of a foreign row": "SELECT * FROM messages WHERE content::text <> '' OR content = 'f0re1gn conversation'",
    "quoted names": 'SELECT "content" FROM "messages" AS "foldmark.events"',
    "another case": "SELECT Content FROM MESSAGES WHERE ID > 0",
    "an alias of a table's name": "SELECT events.content FROM messages AS events",
    "a subquery of a view's name": "WITH messages AS (SELECT 1 AS content) SELECT * FROM messages",
    "a subquery of a table's name": "WITH events AS (SELECT content FROM messages) SELECT count(*) FROM events",
    "a subquery of the catalog's name": "WITH pg_class AS (SELECT id FROM messages) SELECT count(*) FROM pg_class",
    "a comment in front": "/* DELETE FROM foldmark.events; */ SELECT 1",
    "a comment inside": "SELECT 1 -- ; DELETE FROM foldmark.events",
    "a quote in a text": "SELECT 'it''s; DELETE FROM foldmark.events; --'",
    "a backslash in a text": "SELECT '\\', ';\\'",
    "a quote in a name": 'SELECT 1 AS "a""; DELETE FROM foldmark.events; --"',
    "a lone surrogate": "SELECT '\ud800'",
    "other white space": "SELECT\n1\t;\r\n;",
    "text that looks like a row": 'SELECT \'"}}, {{"id": 1, "content": "x\' AS content',
}
"""Allowed statements that end and show only this agent's own rows, or none."""

_LIST = "WITH c0 AS (SELECT content AS x FROM messages LIMIT 1), "

ATTACKS = {
    "one SELECT": "DO $$ BEGIN PERFORM pg_advisory_xact_lock(7); END $$",
    "nodes": "SELECT 'aaaa' ~ '(a+)+b'",
    "functions": "SELECT length(repeat('x', 20000000))",
    "functions without a node": "SELECT pg_advisory_lock(7)",
    "functions in FROM": "SELECT * FROM lower('X')",
    "no recursion": "WITH RECURSIVE t AS (SELECT 1 AS n UNION SELECT n + 1 FROM t WHERE n < 9000) SELECT max(n) FROM t",
    "no schemas": "SELECT rolname FROM pg_catalog.pg_roles",
    "views": "SELECT usename FROM pg_stat_activity",
    "names of subqueries": "SELECT (WITH pg_roles AS (SELECT 1) SELECT 1 FROM pg_roles), rolname FROM pg_roles",
    "types": "SELECT '1'::char(10000000)",
    "types that look up": "SELECT 'pg_authid'::regclass",
    "columns of a view": "SELECT m.array_agg FROM messages m",
    "few columns": f"SELECT {', '.join(['content'] * 1000)} FROM messages",
    "few views": "SELECT 1 FROM memos " + " ".join(f"JOIN memos m{at} USING (id)" for at in range(40)),
    "short names": f'SELECT 1 AS "{"a" * 70}", 2 AS "{"a" * 69}b"',
    "depth": "SELECT " + "abs(" * 100 + "1" + ")" * 100,
    "steps of the parser": "SELECT " + "int4 (" * 30 + "1" + ")" * 30,
    "numbers": "SELECT length((1e131000)::text)",
    "sized": _LIST
    + ", ".join(f"c{at} AS MATERIALIZED (SELECT {' || '.join('x' * 8)} AS x FROM c{at - 1})" for at in range(1, 8))
    + " SELECT length(x) FROM c7",
    "sized concat": _LIST
    + ", ".join(
        f"c{at} AS MATERIALIZED (SELECT concat({', '.join('x' * 8)}) AS x FROM c{at - 1})" for at in range(1, 8)
    )
    + " SELECT length(x) FROM c7",
    "sized replace": f"SELECT length({'replace(' * 3}content{(', ' + repr('n') + ', ' + repr('n' * 200) + ')') * 3})"
    " FROM messages",
    "short": f"SELECT strpos(content, '{'x' * 300}') FROM messages",
    "short in trim": f"SELECT trim(both '{'x' * 300}' from content) FROM messages",
    "no patterns": "SELECT substring(content FROM '(a+)+') FROM messages",
}
"""An attack for each rule of `sandbox_statements`, in a size that does no harm: the server alone runs it."""

SERVED = {
    "two statements": "SELECT 1; SELECT 2",
    "a change": "DELETE FROM memos",
    "another table": "SELECT * FROM foldmark.events",
    "the secret": "SELECT * FROM login",
    "a temporary table": "CREATE TEMP TABLE x (a int)",
    "a lock": "SELECT * FROM messages FOR UPDATE",
    "a file": "SELECT pg_read_file('/etc/passwd')",
    "a file written": "COPY messages TO '/tmp/x'",
    "a large object": "SELECT lo_create(0)",
    "another session": "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
    "a long wait": "SELECT pg_sleep(600)",
    "many rows on disk": "SELECT count(*) FROM (SELECT * FROM generate_series(1, 100000000) OFFSET 0) x",
    "a join of thousands": "SELECT 1 FROM " + ", ".join(f"turns a{at}" for at in range(900)),
    "nested brackets of JSON": "SELECT repeat('[', 1000000)::json",
    "many columns": f"SELECT {'1, ' * 2000}1",
}
"""What the server itself refuses or ends."""
