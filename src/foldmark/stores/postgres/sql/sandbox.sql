-- The statements of the login for a model's SQL (`foldmark.stores.postgres.sandbox_login`). {name} is its role and its
-- schema; {role} is SQL for the role of a message; {most} is the maximum number of bytes of a text.

-- name: state
-- One row of booleans: the schema exists, the role exists, the role may do more than read, it may read the tables, it
-- may use the schema.
SELECT to_regclass(format('%%I.login', %(name)s::text)) IS NOT NULL, r.oid IS NOT NULL,
    coalesce(r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR r.rolbypassrls
        OR EXISTS (SELECT 1 FROM pg_auth_members m WHERE m.member = r.oid), false),
    coalesce(has_table_privilege(r.oid, to_regclass('events'), 'SELECT'), false)
        OR coalesce(has_table_privilege(r.oid, to_regclass(format('%%I.login', w.name)), 'SELECT'), false),
    coalesce(has_schema_privilege(r.oid, n.oid, 'USAGE'), false)
FROM (SELECT %(name)s::name AS name) w
LEFT JOIN pg_roles r ON r.rolname = w.name LEFT JOIN pg_namespace n ON n.nspname = w.name

-- name: build
-- Creates the schema with everything but its views.
DROP SCHEMA IF EXISTS "{name}" CASCADE;

CREATE SCHEMA "{name}";

REVOKE ALL ON SCHEMA "{name}" FROM PUBLIC;

CREATE TABLE "{name}".login (version integer NOT NULL, password text NOT NULL, secret text NOT NULL);

REVOKE ALL ON "{name}".login FROM PUBLIC;

-- The rows of a scope: an agent each with its range of events and the visible part of that.
CREATE FUNCTION "{name}".scope(OUT root bigint, OUT agent bigint, OUT uuid text, OUT own boolean,
        OUT first bigint, OUT last bigint, OUT lineage int8multirange, OUT visible int8multirange)
    RETURNS SETOF record LANGUAGE sql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
        SELECT s.* FROM "{name}".login l,
            LATERAL (SELECT current_setting('foldmark.scope', true) AS scope) g,
            LATERAL json_to_recordset(CASE WHEN encode(sha256(
                convert_to(l.secret, 'UTF8') || sha256(convert_to(l.secret || g.scope, 'UTF8'))
            ), 'hex') = current_setting('foldmark.seal', true) THEN g.scope::json ELSE '[]' END)
            AS s (root bigint, agent bigint, uuid text, own boolean, first bigint, last bigint,
                lineage int8multirange, visible int8multirange)
    $$;

-- The original text, except for NUL, which PostgreSQL's text cannot hold: see `foldmark.stores.postgres.connection`.
CREATE FUNCTION "{name}".said(stored text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
        SELECT CASE WHEN strpos(stored, chr(16)) = 0 THEN stored ELSE
            replace(replace(replace(stored, chr(16) || chr(16), chr(16) || '1'), chr(16) || '0', chr(9216)),
                chr(16) || '1', chr(16)) END
    $$;

-- The name in the data of a call. Reading the data as JSON would fail at an escaped NUL in any of its members.
CREATE FUNCTION "{name}".tool(data text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
        SELECT coalesce(substring(data FROM '[{{,]"name":"([^"\\]*)"'), '')
    $$;

CREATE FUNCTION "{name}".sized(made text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
        IF octet_length(made) > {most} THEN
            RAISE EXCEPTION 'a text got longer than {most} bytes; ask for parts: substr(content, 1, 4000)'
                USING ERRCODE = 'program_limit_exceeded';
        END IF;
        RETURN made;
    END $$;

CREATE FUNCTION "{name}".short(sought text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
        IF length(sought) > 200 THEN
            RAISE EXCEPTION 'what is searched for has at most 200 characters' USING ERRCODE = 'program_limit_exceeded';
        END IF;
        RETURN sought;
    END $$;

CREATE FUNCTION "{name}".joined(sofar text, added text, mark text) RETURNS text LANGUAGE plpgsql IMMUTABLE
    AS $$ BEGIN
        IF added IS NULL THEN RETURN sofar; END IF;
        IF sofar IS NULL THEN RETURN added; END IF;
        RETURN "{name}".sized(sofar || coalesce(mark, '') || added);
    END $$;

CREATE AGGREGATE "{name}".string_agg(text, text) (sfunc = "{name}".joined, stype = text);

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA "{name}" FROM PUBLIC

-- name: grant
-- Lets the role use the schema.
GRANT USAGE ON SCHEMA "{name}" TO "{name}";
GRANT SELECT ON "{name}".messages TO "{name}";
GRANT SELECT ON "{name}".turns TO "{name}";
GRANT SELECT ON "{name}".operations TO "{name}";
GRANT SELECT ON "{name}".memos TO "{name}";
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "{name}" TO "{name}"

-- name: messages
-- The messages of a scope.
SELECT e.id, s.uuid, e.turn, {role}, e.kind,
    CASE e.kind WHEN 'tool_call' THEN "{name}".tool(e.data) WHEN 'tool_result' THEN coalesce(
        (SELECT "{name}".tool(c.data) FROM events c WHERE c.root = e.root AND c.id = e.answers), ''
    ) ELSE '' END,
    "{name}".said(e.content),
    CASE WHEN NOT e.id <@ s.visible THEN 'dropped' WHEN e.kind = 'tool_call' THEN e.kind ELSE 'completed' END,
    e.dialect, e.tokens, e.created_at
FROM "{name}".scope() s JOIN events e ON e.root = s.root AND e.agent = s.agent AND e.id BETWEEN s.first AND s.last
WHERE e.nth IS NOT NULL AND e.id <@ s.lineage

-- name: turns
-- The turns of a scope.
SELECT group_id, min(agent_id), min(id), max(id), count(*), sum(tokens)::bigint,
    CASE WHEN bool_or(status <> 'dropped') THEN 'completed' ELSE 'dropped' END, min(created_at)
FROM "{name}".messages WHERE group_id IS NOT NULL GROUP BY group_id

-- name: operations
-- The operations of a scope. A parent's operations belong to the parent: a fork records what another child was given.
-- The replay reads ends of turns as well.
SELECT e.id, s.uuid, e.turn, e.kind, e.actor, CASE WHEN s.own THEN "{name}".said(e.data) END, e.created_at
FROM "{name}".scope() s JOIN events e ON e.root = s.root AND e.agent = s.agent AND e.id BETWEEN s.first AND s.last
WHERE e.replayed = 1 AND e.kind <> 'turn_ended' AND e.redacted IS NULL AND e.id <@ s.lineage

-- name: memos
-- All memos.
SELECT m.id, "{name}".said(m.content),
    (SELECT coalesce(json_agg("{name}".said(t.tag) ORDER BY t.tag), '[]')::text
        FROM memo_tags t WHERE t.memo = m.id), m.created_at
FROM memos m
