-- The inner views of a model's sandbox in SQLite (`foldmark.stores.sqlite.sandbox_schema`). <column> stands for a stored
-- text; {uuid}, {own}, {inside}, {visible} and {role} for expressions over an event `e`.

-- name: messages
-- The messages of a scope.
SELECT e.id, {uuid} AS agent_id, e.turn AS group_id, {role} AS role,
    <e.kind> AS kind,
    coalesce(CASE e.kind
        WHEN 'tool_call' THEN CASE WHEN json_valid(<e.data>) THEN json_extract(<e.data>, '$.name') END
        WHEN 'tool_result' THEN (
            SELECT json_extract(<c.data>, '$.name') FROM main.events c WHERE c.id = e.answers AND json_valid(<c.data>)
        )
    END, '') AS tool,
    <e.content> AS content,
    CASE WHEN NOT ({visible}) THEN 'dropped' WHEN e.kind = 'tool_call' THEN e.kind ELSE 'completed' END AS status,
    <e.dialect> AS parsing_strategy, e.tokens, <e.created_at> AS created_at
FROM main.events e WHERE e.nth IS NOT NULL AND {inside}

-- name: operations
-- The operations of a scope. A parent's operations belong to the parent: a fork records what another child was given.
-- The replay reads ends of turns as well.
SELECT e.id, {uuid} AS agent_id, e.turn AS group_id, <e.kind> AS kind, <e.actor> AS actor,
    CASE WHEN {own} THEN <e.data> END AS data, <e.created_at> AS created_at
FROM main.events e WHERE e.replayed = 1 AND e.kind <> 'turn_ended' AND e.redacted IS NULL AND {inside}

-- name: turns
-- The turns of a scope, from the public view of its messages.
SELECT group_id, min(agent_id), min(id), max(id), count(*), sum(tokens),
    CASE WHEN max(status <> 'dropped') THEN 'completed' ELSE 'dropped' END, min(created_at)
FROM temp.messages WHERE group_id IS NOT NULL GROUP BY group_id

-- name: memos
-- All memos. The condition is for `count(*)`, which names no column: SQLite would check whether the table may be read
-- from outside.
SELECT m.id, <m.content> AS content,
    (SELECT json_group_array(<t.tag> ORDER BY t.tag) FROM main.memo_tags t WHERE t.memo = m.id) AS tags,
    <m.created_at> AS created_at
FROM main.memos m WHERE m.created_at > ''
