"""SQL that a hostile model might send: some must be refused, and some may run because it shows nothing and ends.

The placeholders stand for ids of messages: `{other}` of another conversation, `{older}` of the parent before the fork,
`{newer}` of the parent after it, `{child}` of a child, `{erased}` of an erased message; or for paths: `{file}` of the
database, `{folder}` of its folder.
"""

from querying import ANYWHERE
from sampled import DEEP

_TABLES = (
    *("agents", "events", "waiting", "folds", "mail", "deaths", "deletions", "archived", "texts", "text_owners"),
    *(
        "leases",
        "memo_tags",
        "memo_words",
        "search",
        "search_data",
        "search_docsize",
        "memo_words_content",
        "searchable",
    ),
    *("sqlite_master", "sqlite_schema", "sqlite_temp_master", "sqlite_temp_schema", "sqlite_sequence"),
    *("dbstat", "sqlite_stmt", "sqlite_dbpage", "fts5vocab", "pragma_table_list", "pragma_database_list"),
    *(
        "pragma_function_list",
        "pragma_module_list",
        "pragma_data_version",
        "pragma_compile_options",
        "pragma_user_version",
    ),
    *(
        "pragma_table_info('events')",
        "pragma_table_xinfo('messages')",
        "bytecode('SELECT 1')",
        "tables_used('SELECT 1')",
    ),
    *(
        "main.memos",
        "main.events",
        "temp.sqlite_schema",
        '"main"."events"',
        "[events]",
        "`events`",
        "EVENTS",
        "MAIN.Events",
    ),
)


def _balanced(parts: list[str]) -> str:
    """Return the sum of many terms as a shallow tree."""
    if len(parts) == 1:
        return parts[0]
    return f"({_balanced(parts[: len(parts) // 2])}+{_balanced(parts[len(parts) // 2 :])})"


_LONG = "(SELECT hex(zeroblob(124000)) || a AS x FROM (SELECT 'a' AS a UNION ALL SELECT 'b'))"
_COUNTING = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r)"
_MANY = "json_each('[" + "1," * 900 + "1]')"

_SLOWEST = 80 if DEEP else 4
"""Number of comparisons of a text with a slow pattern; nothing can interrupt a single comparison."""

READING = {
    **{f"all of {table}": f"SELECT * FROM {table}" for table in _TABLES},
    **{f"count of {table}": f"SELECT count(*) FROM {table}" for table in _TABLES},
    **{f"rows of {table}": f"SELECT 1 FROM {table} LIMIT 1" for table in _TABLES},
    "other tables in a subquery": "SELECT (SELECT group_concat(content) FROM events)",
    "other tables in EXISTS": "SELECT 1 WHERE EXISTS (SELECT 1 FROM main.events WHERE content LIKE '%f0re1gn%')",
    "other tables in IN": "SELECT id FROM messages WHERE id IN (SELECT id FROM events)",
    "other tables in a join": "SELECT e.content FROM messages m JOIN main.events e ON e.id = m.id + 1",
    "other tables in ORDER BY": "SELECT 1 ORDER BY (SELECT content FROM events LIMIT 1)",
    "other tables in LIMIT": "SELECT 1 LIMIT (SELECT count(*) FROM main.agents)",
    "other tables in a table function": "SELECT * FROM json_each((SELECT json_group_array(content) FROM main.events))",
    "union": "SELECT content FROM messages UNION SELECT content FROM main.events",
    "union with the schema": "SELECT content FROM messages UNION ALL SELECT sql FROM sqlite_master",
    "except": "SELECT content FROM main.events EXCEPT SELECT content FROM messages",
    "values": "VALUES ((SELECT content FROM main.events LIMIT 1))",
    "forged messages": "WITH messages AS (SELECT * FROM main.events) SELECT * FROM messages",
    "forged and counted": "WITH messages AS (SELECT * FROM main.events) SELECT count(*) FROM messages",
    "forged memos": "WITH memos AS (SELECT * FROM main.memos) SELECT * FROM memos",
    "forged turns": "WITH turns AS (SELECT id FROM events) SELECT * FROM turns",
    "forged recursively": "WITH RECURSIVE t AS (SELECT id FROM events UNION SELECT id FROM t) SELECT * FROM t",
    "forged in two steps": "WITH a AS (SELECT * FROM main.events), turns AS (SELECT * FROM a) SELECT * FROM turns",
    "forged and materialized": "WITH messages AS MATERIALIZED (SELECT content FROM main.events) SELECT * FROM messages",
    "table as messages": "SELECT messages.content FROM main.events AS messages",
    "subquery as messages": "SELECT * FROM (SELECT * FROM main.events) AS messages",
    "forged inner view": "WITH v0_log AS (SELECT * FROM main.events) SELECT * FROM v0_log",
    "forged with no name": "WITH '' AS (SELECT * FROM main.events) SELECT * FROM ''",
    "forged json_each": "WITH json_each AS (SELECT * FROM main.events) SELECT * FROM json_each",
    "table as json_each": "SELECT json_each.content FROM main.events AS json_each",
    "forged events": "WITH events AS (SELECT 1) SELECT count(*) FROM main.events",
    "correlated": "SELECT (SELECT content FROM events e WHERE e.id = m.id + 1) FROM messages m",
    "rowid of a table": "SELECT rowid FROM main.events",
    "rowid of a view": "SELECT rowid, content FROM messages",
    "oid": "SELECT _rowid_, oid FROM messages",
    "full text": "SELECT * FROM search WHERE search MATCH 'f0re1gn'",
    "full text of memos": "SELECT snippet(memo_words, 0, '', '', '', 9) FROM memo_words('f0re1gn')",
    "full text in main": "SELECT highlight(search, 0, '', '') FROM main.search('f0re1gn')",
    "columns that are not in the view": "SELECT data, actor, nth FROM messages",
    "keys": "SELECT agent FROM messages",
}
"""Statements that would read data of others."""

DOING = {
    **ANYWHERE,
    "insert": "INSERT INTO events (id) VALUES (1)",
    "insert of the full text": "INSERT INTO search (search) VALUES ('delete-all')",
    "insert returning": "INSERT INTO memos (event, actor, content) VALUES (1, '', '') RETURNING content",
    "update": "UPDATE events SET content = ''",
    "update from": "UPDATE events SET content = m.content FROM messages m",
    "delete": "DELETE FROM events",
    "delete behind WITH": "WITH a AS (SELECT 1) DELETE FROM events",
    "replace": "REPLACE INTO folds VALUES (1, '', 0, 0)",
    "upsert": "INSERT INTO agents (key) VALUES (1) ON CONFLICT (key) DO UPDATE SET name = 'x'",
    "create table": "CREATE TABLE x (a)",
    "create table as": "CREATE TABLE x AS SELECT * FROM main.events",
    "create temporary table": "CREATE TEMP TABLE x AS SELECT * FROM main.events",
    "create view": "CREATE TEMP VIEW x AS SELECT * FROM main.events",
    "create index": "CREATE INDEX x ON events (content)",
    "create trigger": "CREATE TEMP TRIGGER x AFTER INSERT ON main.events BEGIN SELECT 1; END",
    "create virtual table": "CREATE VIRTUAL TABLE temp.x USING fts5vocab(main, search, row)",
    "drop table": "DROP TABLE events",
    "drop view": "DROP VIEW messages",
    "drop view in temp": "DROP VIEW temp.messages",
    "alter": "ALTER TABLE events ADD COLUMN x",
    "rename a view": "ALTER TABLE events RENAME TO x",
    "reindex": "REINDEX",
    "analyze": "ANALYZE",
    "vacuum": "VACUUM",
    "vacuum into": "VACUUM INTO '{folder}/copy.db'",
    "vacuum into, named": "VACUUM main INTO '{folder}/copy.db'",
    "attach": "ATTACH '{file}' AS x",
    "attach memory": "ATTACH ':memory:' AS x",
    "attach a new file": "ATTACH '{folder}/new.db' AS x",
    "detach": "DETACH main",
    **{
        f"pragma {pragma}": f"PRAGMA {pragma}"
        for pragma in (
            *("table_list", "table_info(events)", "database_list", "query_only = 0", "writable_schema = 1"),
            *(
                "journal_mode = DELETE",
                "user_version = 99",
                "temp_store_directory = '/tmp'",
                "wal_checkpoint",
                "optimize",
            ),
            *("integrity_check", "main.schema_version", "hard_heap_limit = 0", "trusted_schema = 1", "threads = 8"),
        )
    },
    "begin immediate": "BEGIN IMMEDIATE",
    "release": "RELEASE x",
    "explain query plan": "EXPLAIN QUERY PLAN SELECT * FROM messages a JOIN messages b USING (id)",
    "explain a write": "EXPLAIN DELETE FROM events",
    **{
        f"function {call}": f"SELECT {call}"
        for call in (
            *("load_extension('x')", "load_extension('{folder}/x.so', 'y')", "readfile('{file}')", "edit('x')"),
            *(
                "writefile('{folder}/x', 'y')",
                "fts3_tokenizer('simple')",
                "fts5(1)",
                "parts_of('parseLine')",
            ),
            *(
                "sqlite_compileoption_get(1)",
                "sqlite_source_id()",
                "sqlite_log(1, 'x')",
                "sqlite_offset(id) FROM messages",
            ),
            *(
                "json_patch('{{}}', '{{}}')",
                "unhex('00', 'x')",
                "last_insert_rowid()",
                "sqlite_version()",
                "'a' GLOB 'a'",
            ),
            *("'a' REGEXP 'a'", "'a' MATCH 'a'", "rtreecheck('x')", "geopoly_area('x')", "generate_series(1, 9)"),
        )
    },
    "fsdir": "SELECT * FROM fsdir('/')",
    "csv": "SELECT * FROM csv('{file}')",
    "generate_series": "SELECT * FROM generate_series(1, 9)",
    "carray": "SELECT * FROM carray(1, 2)",
    "a second that writes": "SELECT 1; DELETE FROM events",
    "a second behind a comment": "SELECT 1; /* ; */ DELETE FROM events",
    "a second behind a line": "SELECT 1; -- x\nDELETE FROM events",
    "a second behind an empty one": "SELECT 1;;;; DELETE FROM events",
    "a second that is wrong": "SELECT 1; %&",
    "a comment behind the end": "SELECT 1; -- done",
    "a second behind NUL": "SELECT 1;\0 DELETE FROM events",
    "parameters": "SELECT ?",
    "named parameters": "SELECT :x, @y, $z",
    "numbered parameters": "SELECT ?30000",
    "many terms": "SELECT 1" + " UNION SELECT 1" * 500,
    "many arguments": "SELECT coalesce(" + "NULL," * 900 + "1)",
    "doubled 25 times": "WITH c0 AS (SELECT 1 AS x), "
    + ", ".join(f"c{i} AS (SELECT a.x FROM c{i - 1} a, c{i - 1} b)" for i in range(1, 25))
    + " SELECT * FROM c24",
    "text doubled 40 times": "WITH c0 AS (SELECT 'aaaaaaaaaaaaaaaa' AS x), "
    + ", ".join(f"c{i} AS MATERIALIZED (SELECT x || x AS x FROM c{i - 1})" for i in range(1, 40))
    + " SELECT length(x) FROM c39",
    "zeroblob": "SELECT hex(zeroblob(1000000000))",
    "zeroblobs": "SELECT " + ", ".join(f"hex(zeroblob({125000 + i}))" for i in range(90)),
    "randomblob": "SELECT randomblob(1000000000)",
    "printf": "SELECT printf('%.*c', 1000000000, 'x')",
    "printf of a number": "SELECT printf('%1000000000d', 1)",
    "replace of each character": "SELECT replace(printf('%.*c', 200000, 'x'), 'x', printf('%.*c', 200000, 'y'))",
    "group_concat": f"{_COUNTING} SELECT group_concat(x) FROM r",
    "json_group_array": f"{_COUNTING} SELECT json_group_array(x) FROM r",
    "no end": f"{_COUNTING} SELECT count(*) FROM r",
    "no end and no row": f"{_COUNTING} SELECT x FROM r WHERE x < 0",
    "sorting without an end": f"{_COUNTING} SELECT x FROM r ORDER BY x DESC",
    "sorting long texts": "WITH RECURSIVE r(x) AS (SELECT hex(zeroblob(100000)) UNION ALL SELECT x || '' FROM r) "
    "SELECT x FROM r ORDER BY 1",
    "distinct without an end": f"{_COUNTING} SELECT DISTINCT random() FROM r ORDER BY 1",
    "a window without an end": f"{_COUNTING} SELECT count(*) OVER (ORDER BY x DESC) FROM r",
    "a union without an end": "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT random() FROM r) SELECT max(x) FROM r",
    "not UTF-8": "SELECT CAST(x'ff' AS TEXT)",
    "trim of many": f"SELECT trim(x, x) FROM {_LONG}",
    "a long pattern": "SELECT 'a' LIKE '" + "%a" * 200 + "'",
    "a cross join": f"SELECT count(*) FROM {_MANY} a, {_MANY} b, {_MANY} c, messages d, messages e",
}
"""Statements that would change something, reach a file, or take too much."""

HARMLESS = {
    "a row of another conversation": "SELECT * FROM messages WHERE id = {other}",
    "a parent's older row": "SELECT * FROM messages WHERE id = {older}",
    "a parent's newer row": "SELECT * FROM messages WHERE id = {newer}",
    "a child's row": "SELECT * FROM messages WHERE id = {child}",
    "an erased row": "SELECT * FROM messages WHERE id = {erased}",
    "all of them": "SELECT * FROM messages WHERE id IN ({other}, {older}, {newer}, {child}, {erased})",
    "or 1": "SELECT * FROM messages WHERE id = 0 OR 1 = 1",
    "every row": "SELECT * FROM messages ORDER BY id",
    "every turn": "SELECT * FROM turns",
    "every operation": "SELECT * FROM operations",
    "every memo": "SELECT * FROM memos",
    "views in temp": "SELECT count(*) FROM temp.messages, temp.turns, TEMP.operations",
    "quoted names": 'SELECT "content" FROM "messages" AS "main.events"',
    "brackets": "SELECT [content] FROM [messages] `events`",
    "another case": "SELECT Content FROM MESSAGES WHERE ID > 0",
    "an alias of a table's name": "SELECT events.content FROM messages AS events",
    "a subquery of a view's name": "WITH messages AS (SELECT 1 AS content) SELECT * FROM messages",
    "a subquery of an inner view's name": "WITH a_log AS (SELECT content FROM messages) SELECT count(*) FROM a_log",
    "a comment in front": "/* DELETE FROM events; */ SELECT 1",
    "a comment inside": "SELECT 1 -- ; DELETE FROM events",
    "a lone surrogate": "SELECT '\ud800'",
    "other white space": "SELECT\n1\t;\r\n;",
    "text that looks like a row": 'SELECT \'"}}, {{"id": 1, "content": "x\' AS content',
    "many rows": f"SELECT a.value FROM {_MANY} a, {_MANY} b",
    "long rows": f"SELECT x FROM {_LONG}, {_MANY}",
    "blobs": f"SELECT zeroblob(200000) FROM {_MANY}",
    "texts in IN": "SELECT 1 IN (" + ",".join(f"hex(zeroblob({100000 + i}))" for i in range(350)) + ")",
    "an inner loop": f"{_COUNTING} SELECT x FROM r",
    "instr": f"SELECT {_balanced(['instr(x, substr(x, 1000) || 1)'] * 80)} FROM {_LONG}",
    "replace": f"SELECT {_balanced(['length(replace(x, substr(x, 99) || 1, 2))'] * 80)} FROM {_LONG}",
    "like": f"SELECT {_balanced(['(x LIKE ' + repr('%' + '0' * 60 + '1') + ')'] * _SLOWEST)} FROM {_LONG}",
    "like with gaps": f"SELECT {_balanced(['(x LIKE ' + repr('%0_' + '0' * 60 + '1') + ')'] * _SLOWEST)} FROM {_LONG}",
    "many percents": "SELECT count(*) FROM messages WHERE content LIKE '" + "%a_" * 60 + "b'",
    "printf of a long format": f"SELECT {_balanced(['length(printf(y))'] * 60)} FROM "
    f"(SELECT replace(substr(x, 1, 60000), '0', '%.1f') AS y FROM {_LONG})",
    "strftime of a long format": f"SELECT {_balanced(['length(strftime(y))'] * 60)} FROM "
    f"(SELECT replace(substr(x, 1, 12000), '0', '%J') AS y FROM {_LONG})",
    "json of many": f"SELECT {_balanced(['json_valid(y)'] * 60)} FROM "
    f"(SELECT '[' || replace(substr(x, 1, 120000), '0', '1,') || '1]' AS y FROM {_LONG})",
    "infinite": "SELECT 1e999, -1e999, 9223372036854775807, x'00'",
    "a wrong date": "SELECT date('nonsense'), datetime(1e300), strftime('%s', 'now', '+999999999999 years')",
    "columns of one name": "SELECT 1 AS a, 2 AS a, 3 AS a",
    "a column of no name": "SELECT 1 AS ''",
}
"""Statements that may run: they show this agent's own rows or nothing, and end."""
