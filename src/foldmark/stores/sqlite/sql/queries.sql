-- name: agents
-- All agents, oldest first.
SELECT a.id, a.name, p.id, a.fork_event, a.created_at, a.head, a.last, a.open_turn, a.messages, a.tokens,
    a.killed, a.deleted, a.archived, a.key, NULL
FROM agents a LEFT JOIN agents p ON p.key = a.parent ORDER BY a.key

-- name: overview
-- All agents, oldest first: the time of last use, the time of archiving, and for conversations the stored segments.
SELECT a.id, a.name, p.id, a.fork_event, a.created_at, a.head, a.last, a.open_turn, a.messages, a.tokens,
    a.killed, a.deleted, a.archived, a.key, NULL,
    coalesce(e.created_at, a.created_at), h.created_at, CASE WHEN a.parent IS NULL THEN f.body END, f.messages, f.tokens
FROM agents a LEFT JOIN agents p ON p.key = a.parent LEFT JOIN events e ON e.id = a.head
LEFT JOIN events h ON a.archived > 0 AND h.id = a.archived LEFT JOIN folds f ON f.agent = a.key ORDER BY a.key

-- name: agent_by_id
-- One agent by its uuid.
SELECT a.id, a.name, p.id, a.fork_event, a.created_at, a.head, a.last, a.open_turn, a.messages, a.tokens,
    a.killed, a.deleted, a.archived, a.key, NULL
FROM agents a LEFT JOIN agents p ON p.key = a.parent WHERE a.id = :id

-- name: agent_by_name
-- One root agent by its name.
SELECT a.id, a.name, p.id, a.fork_event, a.created_at, a.head, a.last, a.open_turn, a.messages, a.tokens, a.killed, a.deleted, a.archived, a.key, NULL
FROM agents a LEFT JOIN agents p ON p.key = a.parent WHERE a.name = :name

-- name: children
-- The agents forked from one, oldest first.
SELECT a.id, a.name, p.id, a.fork_event, a.created_at, a.head, a.last, a.open_turn, a.messages, a.tokens,
    a.killed, a.deleted, a.archived, a.key, NULL
FROM agents a JOIN agents p ON p.key = a.parent WHERE a.parent = :agent ORDER BY a.key

-- name: unstarted
-- The living forks without a message of their own whose model was never asked, oldest first.
SELECT a.id, a.name, p.id, a.fork_event, a.created_at, a.head, a.last, a.open_turn, a.messages, a.tokens, a.killed, a.deleted, a.archived, a.key, NULL
FROM agents a JOIN agents p ON p.key = a.parent
WHERE a.parent IS NOT NULL AND a.messages = 0
    AND NOT EXISTS (
        SELECT 1 FROM events WHERE agent = a.key AND kind = 'request'
        AND kind IN ('state', 'scratchpad', 'system', 'config', 'command', 'summary', 'request', 'usage', 'mail', 'killed', 'window_summary')
    )
    AND a.killed = 0 AND a.deleted = 0
ORDER BY a.key

-- name: root_of
-- The root agent above an agent, or the agent itself if it is one.
WITH RECURSIVE above (key, parent) AS (
    SELECT key, parent FROM agents WHERE key = :agent
    UNION ALL SELECT a.key, a.parent FROM above JOIN agents a ON a.key = above.parent
)
SELECT id FROM agents WHERE key = (SELECT key FROM above WHERE parent IS NULL)

-- name: agent_id
-- The uuid behind a key.
SELECT id FROM agents WHERE key = :key

-- name: agent_key
-- The key behind a uuid.
SELECT key FROM agents WHERE id = :id

-- name: create_agent
-- Adds an agent. Keys give the order of agents: a copied agent keeps the key of its database if that is free.
INSERT INTO agents (key, id, name, parent, fork_event, created_at) VALUES (
    (SELECT :place WHERE NOT EXISTS (SELECT 1 FROM agents WHERE key = :place)),
    :id, :name, :parent, :fork_event, :created_at
)

-- name: position
-- The state for the next append to an agent: what became of it, its sums, the sums of everything erased of it, and the
-- newest id in the database.
SELECT a.head, a.last, a.open_turn, a.messages, a.tokens, a.run, a.killed, a.deleted, a.archived,
    coalesce(e.messages, 0), coalesce(e.tokens, 0), (SELECT max(id) FROM events)
FROM agents a
LEFT JOIN redacted_sums e ON e.agent = a.key
    AND e.event = (SELECT event FROM redacted_sums WHERE agent = a.key ORDER BY event DESC LIMIT 1)
WHERE a.key = :agent

-- name: now
-- The present, as `events.created_at` is written.
SELECT strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')

-- name: append
-- Adds an event.
INSERT INTO events (
    id, agent, turn, kind, dialect, actor, created_at, interrupted, call_id, answers, apart, replayed, tokens, nth, sum,
    content, data, checksum
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: append_ids
-- The ids of the events that an append with this key recorded.
SELECT ids FROM append_keys WHERE agent = :agent AND key = :key

-- name: keep_append
-- Records the ids of the events of an append with a key.
INSERT INTO append_keys (agent, key, ids) VALUES (:agent, :key, :ids)

-- name: wait
-- Adds a call that waits for its result.
INSERT INTO waiting (agent, call) VALUES (?, ?)

-- name: answered
-- Removes a call that no longer waits.
DELETE FROM waiting WHERE agent = ? AND call = ?

-- name: erase_waiting
-- Removes calls, ids as JSON, that no longer wait.
DELETE FROM waiting WHERE agent = :agent AND call IN (SELECT value FROM json_each(:calls))

-- name: end_waiting
-- Removes the waiting calls of an agent: none waits beyond the end of its turn.
DELETE FROM waiting WHERE agent = ?

-- name: waiting
-- The calls of an agent's open turn that have no result yet.
SELECT e.id, e.agent, e.turn, e.kind, e.answers
FROM waiting w JOIN events e ON e.id = w.call WHERE w.agent = :agent ORDER BY w.call

-- name: advance
-- Stores the state for the next append to an agent.
UPDATE agents SET head = ?, last = ?, open_turn = ?, messages = ?, tokens = ?, run = ?, killed = ?, deleted = ?, archived = ?
WHERE key = ?

-- name: save_fold
-- Stores the segment cache of an agent.
INSERT INTO folds (agent, body, messages, tokens) VALUES (:agent, :body, :messages, :tokens)
ON CONFLICT (agent) DO UPDATE SET body = excluded.body, messages = excluded.messages, tokens = excluded.tokens

-- name: head
-- An agent by its uuid, after its key and with its stored segment cache.
-- Then, after NULL, its newest event of each of some kinds, JSON [kind, ...], that is not erased. The one kind is asked for
-- before the list that the index needs: SQLite takes the first of the two for its search, and by the list it reads them all.
-- Whether there were ever memos is known from the counter of their ids: damage there must not hide the agent.
SELECT a.key, NULL, a.id, a.name, p.id, a.fork_event, a.created_at, a.head, a.last, a.open_turn, a.messages, a.tokens, a.killed, a.deleted, a.archived,
    f.body, f.messages, f.tokens, EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'memos'),
    EXISTS (SELECT 1 FROM unread WHERE agent = a.key), EXISTS (SELECT 1 FROM agents WHERE parent = a.key)
FROM agents a LEFT JOIN agents p ON p.key = a.parent LEFT JOIN folds f ON f.agent = a.key WHERE a.id = :agent
UNION ALL
SELECT NULL, NULL, e.id, e.agent, e.turn, e.kind, e.content, e.data, e.dialect, e.actor, e.tokens, e.created_at, e.interrupted, e.answers,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM agents a CROSS JOIN json_each(:kinds) k CROSS JOIN events e ON e.id = (
    SELECT id FROM events
    WHERE agent = a.key AND kind = k.value
    AND kind IN ('state', 'scratchpad', 'system', 'config', 'command', 'summary', 'request', 'usage', 'mail', 'killed', 'window_summary') AND redacted IS NULL ORDER BY id DESC LIMIT 1
) WHERE a.id = :agent

-- name: anchors
-- An agent's newest event up to an id of each of some kinds, JSON [kind, ...], not erased.
SELECT e.id, e.agent, e.turn, e.kind, e.content, e.data, e.dialect, e.actor, e.tokens, e.created_at, e.interrupted, e.answers
FROM json_each(:kinds) k CROSS JOIN events e ON e.id = (
    SELECT id FROM events
    WHERE agent = :agent AND kind = k.value
    AND kind IN ('state', 'scratchpad', 'system', 'config', 'command', 'summary', 'request', 'usage', 'mail', 'killed', 'window_summary') AND redacted IS NULL AND id <= :until ORDER BY id DESC LIMIT 1
)

-- name: events
-- Some events, JSON [id, ...].
SELECT e.id, e.agent, e.turn, e.kind, e.content, e.data, e.dialect, e.actor, e.tokens, e.created_at, e.interrupted, e.answers
FROM json_each(:ids) i CROSS JOIN events e ON e.id = i.value

-- name: operations
-- All operations of an agent with ids above one and up to another, in order, and the ends of turns that close a planning.
SELECT id, agent, turn, kind, content, data, dialect, actor, tokens, created_at, interrupted, answers
FROM events WHERE agent = :agent AND replayed = 1 AND id > :after AND id <= :until ORDER BY id

-- name: events_after
-- An agent's own events above an id, oldest first: its messages merged with its other events, each by their index.
SELECT id, agent, turn, kind, content, data, dialect, actor, tokens, created_at, interrupted, answers
FROM events WHERE agent = :agent AND nth IS NOT NULL AND id > :after
UNION ALL
SELECT id, agent, turn, kind, content, data, dialect, actor, tokens, created_at, interrupted, answers
FROM events WHERE agent = :agent AND nth IS NULL AND id > :after
ORDER BY id LIMIT :limit

-- name: changes
-- New agents, then events, each above an id: its number, its agent, its kind, its place here.
SELECT * FROM (SELECT key, key, 'born', 0 FROM agents WHERE key > :born ORDER BY key LIMIT :limit)
UNION ALL
SELECT * FROM (SELECT id, agent, kind, 1 FROM events WHERE id > :event ORDER BY id LIMIT :limit)
LIMIT :limit

-- name: changes_end
-- The newest of each of these two.
SELECT (SELECT coalesce(max(key), 0) FROM agents), (SELECT coalesce(max(id), 0) FROM events)

-- name: outlines
-- Agents, JSON [uuid, ...], with their stored segments (0), and for those that ever had a planning conversation the
-- events that locate it (1): all operations, and the `command` events that open one, without erased events.
SELECT 0, a.key, a.id, f.body, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM json_each(:agents) i CROSS JOIN agents a ON a.id = i.value LEFT JOIN folds f ON f.agent = a.key
UNION ALL
SELECT 1, e.id, e.agent, e.turn, e.kind, e.content, e.data, e.dialect, e.actor, e.tokens, e.created_at, e.interrupted, e.answers
FROM json_each(:agents) i CROSS JOIN agents a ON a.id = i.value CROSS JOIN events e ON e.agent = a.key
WHERE e.kind IN ('state', 'scratchpad', 'system', 'config', 'command', 'summary', 'request', 'usage', 'mail', 'killed', 'window_summary')
    AND e.kind = 'command' AND e.redacted IS NULL AND iif(json_valid(e.data), e.data, '{}') ->> 'planning' IS NOT NULL
UNION ALL
SELECT 1, e.id, e.agent, e.turn, e.kind, e.content, e.data, e.dialect, e.actor, e.tokens, e.created_at, e.interrupted, e.answers
FROM json_each(:agents) i CROSS JOIN agents a ON a.id = i.value CROSS JOIN events e ON e.agent = a.key
WHERE e.replayed = 1 AND (
    EXISTS (
        SELECT 1 FROM events c
        WHERE c.agent = a.key AND c.kind IN ('state', 'scratchpad', 'system', 'config', 'command', 'summary', 'request', 'usage', 'mail', 'killed', 'window_summary')
        AND c.kind = 'command' AND iif(json_valid(c.data), c.data, '{}') ->> 'planning' IS NOT NULL
    ) OR EXISTS (
        SELECT 1 FROM events c
        WHERE c.agent = a.key AND c.replayed = 1 AND c.kind = 'filter'
        AND iif(json_valid(c.data), c.data, '{}') ->> 'planning' IS NOT NULL
    )
)

-- name: messages
-- Messages inside segments, JSON [[agent, first, last], ...], of each at most a page, oldest first; not in order.
SELECT e.id, e.agent, e.turn, e.kind, e.content, e.data, e.dialect, e.actor, e.tokens, e.created_at, e.interrupted, e.answers
FROM json_each(:segments) s CROSS JOIN events e ON e.id IN (
    SELECT id FROM events WHERE agent = s.value ->> 0 AND nth IS NOT NULL AND id BETWEEN s.value ->> 1 AND s.value ->> 2
    ORDER BY id LIMIT :page
)

-- name: messages_newest_first
-- Messages inside segments, JSON [[agent, first, last], ...], of each at most a page, newest first; not in order.
SELECT e.id, e.agent, e.turn, e.kind, e.content, e.data, e.dialect, e.actor, e.tokens, e.created_at, e.interrupted, e.answers
FROM json_each(:segments) s CROSS JOIN events e ON e.id IN (
    SELECT id FROM events WHERE agent = s.value ->> 0 AND nth IS NOT NULL AND id BETWEEN s.value ->> 1 AND s.value ->> 2
    ORDER BY id DESC LIMIT :page
)

-- name: message_ids
-- Ids of messages inside segments, JSON [[agent, first, last], ...], of each at most a page, newest first; not in order.
SELECT e.id
FROM json_each(:segments) s CROSS JOIN events e ON e.agent = s.value ->> 0 AND e.nth IS NOT NULL AND e.id IN (
    SELECT id FROM events WHERE agent = s.value ->> 0 AND nth IS NOT NULL AND id BETWEEN s.value ->> 1 AND s.value ->> 2
    ORDER BY id DESC LIMIT :page
)

-- name: newest
-- The newest event of an indexed kind inside segments, JSON [[agent, first, last], ...]; of summaries one with a state; none erased.
SELECT id, agent, turn, kind, content, data, dialect, actor, tokens, created_at, interrupted, answers
FROM events WHERE id = (
    SELECT max((
        SELECT id FROM events
        WHERE agent = s.value ->> 0 AND kind = :kind AND kind IN ('state', 'scratchpad', 'system', 'config', 'command', 'summary', 'request', 'usage', 'mail', 'killed', 'window_summary')
        AND id BETWEEN s.value ->> 1 AND s.value ->> 2 AND redacted IS NULL
        AND (kind <> 'summary' OR CASE WHEN json_valid(data) THEN data ->> 'state' END IS NOT NULL)
        ORDER BY id DESC LIMIT 1
    )) FROM json_each(:segments) s
)

-- name: recent
-- The newest events of an indexed kind that an agent recorded up to an id, newest first; none erased.
SELECT id, agent, turn, kind, content, data, dialect, actor, tokens, created_at, interrupted, answers
FROM events WHERE agent = :agent
AND kind = :kind AND kind IN ('state', 'scratchpad', 'system', 'config', 'command', 'summary', 'request', 'usage', 'mail', 'killed', 'window_summary')
AND id <= :until AND redacted IS NULL ORDER BY id DESC LIMIT :limit

-- name: of_kind
-- The ids of all events of an indexed kind inside segments, JSON [[agent, first, last], ...]; none erased.
SELECT e.id FROM json_each(:segments) s JOIN events e ON e.agent = s.value ->> 0
WHERE e.kind = :kind AND e.kind IN ('state', 'scratchpad', 'system', 'config', 'command', 'summary', 'request', 'usage', 'mail', 'killed', 'window_summary')
AND e.id BETWEEN s.value ->> 1 AND s.value ->> 2 AND e.redacted IS NULL

-- name: size
-- Messages and tokens inside segments, JSON [[agent, first, last], ...]: sums at the newest less those before the oldest.
-- These sums include erased messages, which are subtracted.
SELECT coalesce(sum(n.nth), 0) - coalesce(sum(b.nth), 0) - coalesce(sum(ne.messages), 0) + coalesce(sum(be.messages), 0),
    coalesce(sum(n.sum), 0) - coalesce(sum(b.sum), 0) - coalesce(sum(ne.tokens), 0) + coalesce(sum(be.tokens), 0)
FROM json_each(:segments) s
LEFT JOIN events n ON n.id = (
    SELECT id FROM events WHERE agent = s.value ->> 0 AND nth IS NOT NULL AND id <= s.value ->> 2 ORDER BY id DESC LIMIT 1
)
LEFT JOIN events b ON b.id = (
    SELECT id FROM events WHERE agent = s.value ->> 0 AND nth IS NOT NULL AND id < s.value ->> 1 ORDER BY id DESC LIMIT 1
)
LEFT JOIN redacted_sums ne ON ne.agent = n.agent AND ne.event = (
    SELECT event FROM redacted_sums WHERE agent = n.agent AND event < n.id ORDER BY event DESC LIMIT 1
)
LEFT JOIN redacted_sums be ON be.agent = b.agent AND be.event = (
    SELECT event FROM redacted_sums WHERE agent = b.agent AND event < b.id ORDER BY event DESC LIMIT 1
)

-- name: bounds
-- For each of some segments, JSON [[agent, first, last], ...]: the oldest message from its first id, the newest to its last.
SELECT
    (SELECT id FROM events WHERE agent = s.value ->> 0 AND nth IS NOT NULL AND id >= s.value ->> 1 ORDER BY id LIMIT 1),
    (SELECT id FROM events WHERE agent = s.value ->> 0 AND nth IS NOT NULL AND id <= s.value ->> 2 ORDER BY id DESC LIMIT 1)
FROM json_each(:segments) s

-- name: message_before
-- An agent's newest message up to an id.
SELECT id, agent, turn, kind, answers FROM events
WHERE agent = :agent AND nth IS NOT NULL AND id <= :id ORDER BY id DESC LIMIT 1

-- name: message_after
-- An agent's oldest message above an id.
SELECT id, agent, turn, kind, answers FROM events
WHERE agent = :agent AND nth IS NOT NULL AND id > :id ORDER BY id LIMIT 1

-- name: turns
-- The messages of some turns, JSON [id, ...]. A summary is a turn of its own in the middle of another.
SELECT e.id, e.agent, e.turn, e.kind, e.answers
FROM json_each(:ids) t CROSS JOIN events o ON o.id = t.value AND o.turn = o.id
CROSS JOIN events e ON e.agent = o.agent AND e.nth IS NOT NULL AND e.turn = o.id AND e.id >= o.id AND e.id < coalesce((
    SELECT id FROM events
    WHERE agent = o.agent AND nth IS NOT NULL AND id > o.id AND turn IS NOT o.id AND kind <> 'summary' ORDER BY id LIMIT 1
), 9223372036854775807)

-- name: next_to
-- For each place, JSON [[agent, id], ...]: `count` of the agent's messages up to it and after it, by the place's number.
SELECT s.key, e.id, e.agent, e.turn, e.kind, e.answers FROM json_each(:places) s CROSS JOIN events e ON e.id IN (
    SELECT id FROM events WHERE agent = s.value ->> 0 AND nth IS NOT NULL AND id <= s.value ->> 1
    ORDER BY id DESC LIMIT :count
)
UNION ALL
SELECT s.key, e.id, e.agent, e.turn, e.kind, e.answers FROM json_each(:places) s CROSS JOIN events e ON e.id IN (
    SELECT id FROM events WHERE agent = s.value ->> 0 AND nth IS NOT NULL AND id > s.value ->> 1
    ORDER BY id LIMIT :count
)

-- name: results_of
-- The results of some calls, JSON [id, ...], with or without erased ones.
SELECT e.id, e.agent, e.turn, e.kind, e.answers FROM json_each(:ids) c CROSS JOIN events e ON e.answers = c.value
WHERE e.nth IS NOT NULL OR :erased

-- name: waiting_call
-- The newest call with a provider's call id among those that wait in an agent's open turn, of which there may be thousands.
SELECT e.id, e.agent, e.turn, e.kind, e.answers
FROM events e CROSS JOIN waiting w ON w.agent = e.agent AND w.call = e.id
WHERE e.agent = :agent AND e.call_id = :call_id AND e.call_id IS NOT NULL
AND e.id >= :turn ORDER BY e.id DESC LIMIT 1

-- name: apart_results
-- An agent's results after an id that answer a call before it and stand apart from it.
SELECT id, agent, turn, kind, answers FROM events WHERE agent = :agent AND apart IS NOT NULL AND id > :id AND answers <= :id

-- name: calls_with_id
-- An agent's newest calls with a provider's call id, newest first; ids are meant to be unique, so a few are enough.
SELECT id, agent, turn, kind, answers
FROM events WHERE agent = :agent AND call_id = :call_id AND call_id IS NOT NULL AND kind = 'tool_call' ORDER BY id DESC LIMIT 50

-- name: lookup
-- The kinds of events with some ids, JSON [id, ...], of any agent.
SELECT e.id, e.agent, e.turn, e.kind, e.answers FROM json_each(:ids) i CROSS JOIN events e ON e.id = i.value

-- name: to_erase
-- The events of one turn, from its first id to a last, that still have content to erase; of an agent for turn 0.
SELECT id, kind, CAST(nth AS INTEGER), data, CAST(ifnull(tokens, 0) AS INTEGER) FROM events
WHERE id BETWEEN :turn AND :last AND agent = :agent AND redacted IS NULL AND kind NOT IN ('turn_ended', 'archived', 'unarchived', 'killed', 'deleted')
AND (:turn = 0 OR (turn = :turn AND kind NOT IN ('scratchpad', 'config'))) ORDER BY id

-- name: erase
-- Replaces erased events, JSON [[id, data], ...], with what remains of them.
UPDATE events SET content = '', data = value ->> 1, tokens = 0, nth = NULL, sum = NULL, apart = NULL, redacted = :by,
    checksum = NULL
FROM json_each(:rows) WHERE events.id = value ->> 0

-- name: note_erased
-- Adds a run of erased messages of an agent, with the sums of all that was erased of it up to this run.
INSERT INTO redacted_sums (agent, event, messages, tokens)
SELECT :agent, :event, :messages + coalesce(b.messages, 0), :tokens + coalesce(b.tokens, 0)
FROM (SELECT 1) one LEFT JOIN (
    SELECT messages, tokens FROM redacted_sums
    WHERE agent = :agent AND event <= :event ORDER BY event DESC LIMIT 1
) b ON TRUE

-- name: add_erased
-- Adds sums erased before an event to all later rows.
UPDATE redacted_sums SET messages = messages + :messages, tokens = tokens + :tokens
WHERE agent = :agent AND event > :event

-- name: forget_erased_sums
-- Removes the erased sums of an agent that was erased as a whole.
DELETE FROM redacted_sums WHERE agent = :agent

-- name: lower_totals
-- Lowers the totals of an agent by what was erased.
UPDATE agents SET messages = messages - :messages, tokens = tokens - :tokens WHERE key = :agent

-- name: forget_totals
-- Sets the totals of an agent that was erased as a whole to zero.
UPDATE agents SET messages = 0, tokens = 0 WHERE key = :agent

-- name: erased_by
-- The redact operation that erased an event's content.
SELECT r.id, r.agent, r.turn, r.kind, r.content, r.data, r.dialect, r.actor, r.tokens, r.created_at, r.interrupted, r.answers
FROM json_each(:ids) i CROSS JOIN events e ON e.id = i.value CROSS JOIN events r ON r.id = e.redacted

-- name: checksums
-- A page of the events after an id with the columns of their checksums; without erased events.
SELECT id, CAST(id || ' ' || agent || ' ' || ifnull(turn, '') || ' ' || kind || ' ' || ifnull(dialect, '') || ' ' || actor
    || ' ' || created_at || ' ' || interrupted || ' ' || ifnull(call_id, '') || ' ' || ifnull(answers, '') AS BLOB),
    CAST(content AS BLOB), CAST(data AS BLOB), CASE WHEN typeof(checksum) IN ('integer', 'null') THEN checksum ELSE -1 END
FROM events WHERE id > :after AND redacted IS NULL ORDER BY id LIMIT :limit

-- name: checksums_of
-- The columns of `checksums` of some events, ids as JSON.
SELECT id, CAST(id || ' ' || agent || ' ' || ifnull(turn, '') || ' ' || kind || ' ' || ifnull(dialect, '') || ' ' || actor
    || ' ' || created_at || ' ' || interrupted || ' ' || ifnull(call_id, '') || ' ' || ifnull(answers, '') AS BLOB),
    CAST(content AS BLOB), CAST(data AS BLOB), CASE WHEN typeof(checksum) IN ('integer', 'null') THEN checksum ELSE -1 END
FROM events WHERE id IN (SELECT value FROM json_each(:ids)) AND redacted IS NULL

-- name: wrong_replayed
-- Events that are marked for the replay and are none of the kinds, as JSON, that it reads, or the other way round.
SELECT id, iif(replayed IS 1, 'is', 'is not') FROM events WHERE (replayed IS 1) <> (
    kind IN (SELECT value FROM json_each(:kinds)) OR (kind = 'turn_ended' AND data IS NOT NULL)
)

-- name: wrong_tables
-- The tables beside the log that hold texts.
SELECT name FROM pragma_table_list WHERE schema = 'main' AND strict AND name <> 'events' ORDER BY name

-- name: all_texts
-- A page of the texts that requests need, with their hashes.
SELECT hash, CAST(text AS BLOB) FROM texts WHERE hash > :after ORDER BY hash LIMIT :limit

-- name: rebuild_index
-- Makes the index of words anew; reads every message.
INSERT INTO search (search) VALUES ('rebuild')

-- name: wrong_sums
-- The first message of each agent whose running count, sum or size does not match its events and those erased before it.
SELECT a.id, min(m.id) FROM (
    SELECT id, agent, nth, sum, tokens, (octet_length(content) + coalesce(octet_length(data), 0) + 3) / 4 AS size,
        row_number() OVER w AS n, sum(tokens) OVER w AS s
    FROM events WHERE nth IS NOT NULL WINDOW w AS (PARTITION BY agent ORDER BY id)
) m JOIN agents a ON a.key = m.agent LEFT JOIN redacted_sums e ON e.agent = m.agent AND e.event = (
    SELECT event FROM redacted_sums WHERE agent = m.agent AND event < m.id ORDER BY event DESC LIMIT 1
)
WHERE m.nth <> m.n + coalesce(e.messages, 0) OR m.sum <> m.s + coalesce(e.tokens, 0) OR m.tokens <> m.size
GROUP BY a.key

-- name: wrong_waiting
-- The number of calls of each agent that are wrongly recorded as waiting, or wrongly missing there.
SELECT a.id, count(*) FROM (
    SELECT e.agent, e.id FROM agents o JOIN events e ON e.agent = o.key AND e.nth IS NOT NULL AND e.id >= o.open_turn
    WHERE e.kind = 'tool_call' AND NOT EXISTS (SELECT 1 FROM events r WHERE r.answers = e.id)
) open FULL JOIN waiting w ON w.agent = open.agent AND w.call = open.id
JOIN agents a ON a.key = coalesce(open.agent, w.agent)
WHERE w.call IS NULL OR open.id IS NULL GROUP BY a.key

-- name: wrong_rows
-- Each agent's row, beside the values that its events give.
SELECT a.id, a.head, a.last, a.messages, a.tokens, a.open_turn, a.killed, a.deleted, a.archived,
    coalesce(e.newest, 0), coalesce(e.last, 0), coalesce(m.nth, 0) - coalesce(r.messages, 0), coalesce(m.sum, 0) - coalesce(r.tokens, 0),
    CASE WHEN e.newest_turn > coalesce(e.newest_end, 0) THEN e.newest_turn END,
    coalesce(e.killed, 0), coalesce(e.deleted, 0), CASE WHEN e.archived > coalesce(e.back, 0) THEN e.archived ELSE 0 END
FROM agents a
LEFT JOIN (
    SELECT agent, max(id) FILTER (WHERE kind NOT IN ('request', 'usage', 'mail', 'renamed', 'archived', 'unarchived', 'killed', 'deleted')) AS newest,
        max(id) AS last,
        max(turn) FILTER (WHERE nth IS NOT NULL AND kind NOT IN ('summary', 'system')) AS newest_turn,
        max(id) FILTER (WHERE kind = 'turn_ended') AS newest_end,
        max(id) FILTER (WHERE kind = 'killed') AS killed,
        max(id) FILTER (WHERE kind = 'deleted') AS deleted,
        max(id) FILTER (WHERE kind = 'archived') AS archived,
        max(id) FILTER (WHERE kind IN ('unarchived', 'deleted')) AS back
    FROM events GROUP BY agent
) e ON e.agent = a.key
LEFT JOIN events m ON m.id = (
    SELECT id FROM events WHERE agent = a.key AND nth IS NOT NULL ORDER BY id DESC LIMIT 1
)
LEFT JOIN redacted_sums r ON r.agent = a.key AND r.event = (
    SELECT event FROM redacted_sums WHERE agent = a.key AND event < m.id ORDER BY event DESC LIMIT 1
)

-- name: index
-- Indexes the words of messages that were just appended: those between two ids, or of these the ones in a list of ids as
-- JSON. A list of one would take a tenth of the time.
INSERT INTO search (rowid, text, parts)
SELECT id, text, parts FROM searchable
WHERE id BETWEEN ?1 AND ?2 AND (?3 IS NULL OR id IN (SELECT value FROM json_each(?3))) ORDER BY id

-- name: index_parts
-- Computes the words in messages, given as to `index`, that SQLite's tokenizer does not recognize; before `index`.
WITH made AS MATERIALIZED (
    SELECT id, parts_of(text) AS words FROM searchable
    WHERE id BETWEEN ?1 AND ?2 AND (?3 IS NULL OR id IN (SELECT value FROM json_each(?3)))
)
INSERT INTO parts (event, words) SELECT id, words FROM made WHERE words <> ''

-- name: unindex
-- Removes messages, ids as JSON, from the index; they must still have the texts that they were indexed with.
INSERT INTO search (search, rowid, text, parts)
SELECT 'delete', id, text, parts FROM searchable WHERE id IN (SELECT value FROM json_each(:ids))

-- name: unindex_parts
-- Removes the words that SQLite's tokenizer did not recognize; after `unindex`.
DELETE FROM parts WHERE event IN (SELECT value FROM json_each(:ids))

-- name: counted
-- For each of some FTS5 expressions, JSON [expression, ...]: JSON [messages that it finds, the last of these], up to so
-- many; the newest event; the number of messages.
SELECT (SELECT json_array(count(*), max(id)) FROM (SELECT rowid AS id FROM search WHERE search MATCH w.value LIMIT :most)),
    (SELECT max(id) FROM events), (SELECT coalesce(sum(messages), 0) FROM agents)
FROM json_each(:wanted) w

-- name: best
-- For each of some FTS5 expressions, JSON [[expression, share], ...], the best messages in the newest share of the log, so
-- many, the best first: the number of the expression, the message, its agent, its tool as in `surroundings` and its kind.
SELECT w.key, e.id, coalesce(a.id, 'unknown agent ' || ifnull(e.agent, '')), json_extract(CASE e.kind
    WHEN 'tool_call' THEN iif(json_valid(e.data), e.data, '{}')
    WHEN 'tool_result' THEN (SELECT iif(json_valid(c.data), c.data, '{}') FROM events c WHERE c.id = e.answers)
END, '$.name'), CAST(ifnull(e.kind, '') AS TEXT)
FROM json_each(:wanted) w CROSS JOIN json_each((
    SELECT json_group_array(id) FROM (
        SELECT rowid AS id FROM search WHERE search MATCH (w.value ->> 0)
            AND rowid >= (SELECT CAST(coalesce(max(id), 0) * (1 - (w.value ->> 1)) AS INTEGER) FROM events)
        ORDER BY rank LIMIT :most
    )
)) i CROSS JOIN events e ON e.id = i.value LEFT JOIN agents a ON a.key = e.agent

-- name: best_fitting
-- The same for messages that pass filters, each null for no filter; `agents` are keys as JSON.
SELECT w.key, e.id, coalesce(a.id, 'unknown agent ' || ifnull(e.agent, '')), json_extract(CASE e.kind
    WHEN 'tool_call' THEN iif(json_valid(e.data), e.data, '{}')
    WHEN 'tool_result' THEN (SELECT iif(json_valid(c.data), c.data, '{}') FROM events c WHERE c.id = e.answers)
END, '$.name'), CAST(ifnull(e.kind, '') AS TEXT)
FROM json_each(:wanted) w CROSS JOIN json_each((
    SELECT json_group_array(id) FROM (
        SELECT e.id FROM search s JOIN events e ON e.id = s.rowid WHERE s.search MATCH (w.value ->> 0)
            AND s.rowid >= (SELECT CAST(coalesce(max(id), 0) * (1 - (w.value ->> 1)) AS INTEGER) FROM events)
            AND (:agents IS NULL OR e.agent IN (SELECT value FROM json_each(:agents)))
            AND (:role IS NULL OR e.kind = :role)
            AND (:since IS NULL OR e.created_at >= :since)
            AND (:before IS NULL OR e.created_at < :before)
            AND (:tool IS NULL OR lower(json_extract(CASE e.kind
                WHEN 'tool_call' THEN iif(json_valid(e.data), e.data, '{}')
                WHEN 'tool_result' THEN (
                    SELECT iif(json_valid(c.data), c.data, '{}') FROM events c WHERE c.id = e.answers
                )
            END, '$.name')) = :tool)
        ORDER BY s.rank LIMIT :most
    )
)) i CROSS JOIN events e ON e.id = i.value LEFT JOIN agents a ON a.key = e.agent

-- name: passing
-- Those of some messages, ids as JSON in the order asked for, that pass filters, which are as in `best_fitting`.
SELECT e.id, coalesce(a.id, 'unknown agent ' || ifnull(e.agent, '')), json_extract(CASE e.kind
    WHEN 'tool_call' THEN iif(json_valid(e.data), e.data, '{}')
    WHEN 'tool_result' THEN (SELECT iif(json_valid(c.data), c.data, '{}') FROM events c WHERE c.id = e.answers)
END, '$.name'), CAST(ifnull(e.kind, '') AS TEXT)
FROM json_each(:ids) i CROSS JOIN events e ON e.id = i.value LEFT JOIN agents a ON a.key = e.agent
WHERE (:agents IS NULL OR e.agent IN (SELECT value FROM json_each(:agents)))
    AND (:role IS NULL OR e.kind = :role)
    AND (:since IS NULL OR e.created_at >= :since)
    AND (:before IS NULL OR e.created_at < :before)
    AND (:tool IS NULL OR lower(json_extract(CASE e.kind
        WHEN 'tool_call' THEN iif(json_valid(e.data), e.data, '{}')
        WHEN 'tool_result' THEN (SELECT iif(json_valid(c.data), c.data, '{}') FROM events c WHERE c.id = e.answers)
    END, '$.name')) = :tool)

-- name: around
-- For each of some messages, JSON [id, ...], by its number: itself and up to `reach` before and after it, in no order.
-- Each comes with the beginning of its text, its time, its agent, its kind, turn and tool as in
-- `surroundings`. A call's text begins with the tool's name, as it is searched.
-- An escape becomes as many spaces as it has letters, so that the length of a text tells whether it was cut.
SELECT m.place, m.id, CASE m.kind
    WHEN 'tool_call' THEN coalesce(CASE WHEN json_valid(data) THEN json_extract(data, '$.name') END, '') || ' '
        || replace(replace(replace(replace(text, '\\', '  '), '\n', '  '), '\t', '  '), '\r', '  ')
    ELSE text
END, CAST(ifnull(m.created_at, '') AS TEXT), coalesce(a.id, 'unknown agent ' || ifnull(m.agent, '')), a.name,
    CAST(ifnull(m.kind, '') AS TEXT), iif(typeof(m.turn) = 'integer', m.turn, NULL), json_extract(CASE m.kind
    WHEN 'tool_call' THEN iif(json_valid(data), data, '{}')
    WHEN 'tool_result' THEN (SELECT iif(json_valid(c.data), c.data, '{}') FROM events c WHERE c.id = m.answers)
END, '$.name')
FROM (
    SELECT place, id, agent, kind, turn, data, answers, created_at, CASE WHEN octet_length(content) <= longest THEN content
        ELSE substr(content, 1, longest) END AS text
    FROM (
        SELECT i.key AS place, n.*, CASE n.id WHEN o.id THEN :whole ELSE :cut END AS longest
        FROM json_each(:ids) i CROSS JOIN events o ON o.id = i.value CROSS JOIN events n ON n.id IN (
            SELECT id FROM events WHERE agent = o.agent AND nth IS NOT NULL AND id <= o.id
            ORDER BY id DESC LIMIT :reach + 1
        )
        UNION ALL
        SELECT i.key, n.*, :cut
        FROM json_each(:ids) i CROSS JOIN events o ON o.id = i.value CROSS JOIN events n ON n.id IN (
            SELECT id FROM events WHERE agent = o.agent AND nth IS NOT NULL AND id > o.id ORDER BY id LIMIT :reach
        )
    )
    WHERE content <> ''
) AS m LEFT JOIN agents a ON a.key = m.agent

-- name: embedders
-- The embedding models with vectors, and the event up to which these exist.
SELECT fingerprint, until FROM embedders

-- name: add_embedder
-- Adds an embedding model and returns its key.
INSERT INTO embedders (fingerprint) VALUES (:fingerprint)
ON CONFLICT (fingerprint) DO UPDATE SET fingerprint = excluded.fingerprint RETURNING key

-- name: advance_embedder
-- Stores the event up to which vectors exist.
UPDATE embedders SET until = max(until, :until) WHERE key = :embedder

-- name: to_embed
-- The next messages that people or models wrote, each with the text before it in its conversation.
SELECT e.id, CASE WHEN octet_length(e.content) <= :longest THEN e.content ELSE substr(e.content, 1, :longest) END, (
    SELECT CASE WHEN octet_length(b.content) <= :longest THEN b.content ELSE substr(b.content, 1, :longest) END
    FROM events b WHERE b.agent = e.agent AND b.nth IS NOT NULL AND b.id < e.id ORDER BY b.id DESC LIMIT 1
)
FROM events e WHERE e.id > :until AND e.nth IS NOT NULL AND e.kind IN ('user', 'assistant', 'summary') AND e.content <> ''
ORDER BY e.id LIMIT :most

-- name: newest_event
-- The newest event of all.
SELECT coalesce(max(id), 0) FROM events

-- name: save_vectors
-- Stores the vectors of a message, unless it was erased meanwhile.
INSERT OR REPLACE INTO vectors (event, embedder, vectors)
SELECT id, :embedder, :vectors FROM events WHERE id = :id AND nth IS NOT NULL AND content <> ''

-- name: save_signatures
-- Stores the signatures of a message: the signs of its vectors' components.
INSERT OR REPLACE INTO signatures (event, embedder, signatures)
SELECT id, :embedder, :signature FROM events WHERE id = :id AND nth IS NOT NULL AND content <> ''

-- name: signatures
-- The next signatures of a model after an event.
SELECT event, signatures FROM signatures
WHERE event > :after AND embedder = (SELECT key FROM embedders WHERE fingerprint = :fingerprint) ORDER BY event LIMIT :page

-- name: vectors
-- The vectors of messages, ids as JSON, in no order.
SELECT event, vectors FROM vectors WHERE event IN (SELECT value FROM json_each(:ids))
    AND embedder = (SELECT key FROM embedders WHERE fingerprint = :fingerprint)

-- name: coverage
-- The number of messages with vectors of a model, the number of all, and the bytes of the vectors.
SELECT (SELECT count(*) FROM events WHERE id <= m.until AND nth IS NOT NULL
        AND kind IN ('user', 'assistant', 'summary') AND content <> ''),
    (SELECT count(*) FROM events WHERE nth IS NOT NULL AND kind IN ('user', 'assistant', 'summary') AND content <> ''),
    (SELECT coalesce(sum(length(vectors)), 0) FROM vectors WHERE embedder = m.key)
        + (SELECT coalesce(sum(length(signatures)), 0) FROM signatures WHERE embedder = m.key)
FROM (SELECT max(key) AS key, coalesce(max(until), 0) AS until FROM embedders WHERE fingerprint = :fingerprint) m

-- name: erase_vectors
-- Removes the vectors of messages.
DELETE FROM vectors WHERE event IN (SELECT value FROM json_each(:ids))

-- name: erase_signatures
-- Removes the signatures of messages.
DELETE FROM signatures WHERE event IN (SELECT value FROM json_each(:ids))

-- name: drop_vectors
-- Removes all vectors of a model.
DELETE FROM vectors WHERE embedder = (SELECT key FROM embedders WHERE fingerprint = :fingerprint)

-- name: drop_signatures
-- Removes all signatures of a model.
DELETE FROM signatures WHERE embedder = (SELECT key FROM embedders WHERE fingerprint = :fingerprint)

-- name: drop_embedder
-- Removes a model.
DELETE FROM embedders WHERE fingerprint = :fingerprint

-- name: surroundings
-- Found messages, JSON [id, ...], and the tool of each call or result; whatever the columns hold.
-- Each comes with the beginning of the person's text: its own, or else that of its turn's first message that is not the
-- client's. And with JSON [[id, messages of its agent before that], ...]: its turn (itself outside of turns), so many
-- turns after it, the end.
SELECT e.id, coalesce(a.id, 'unknown agent ' || ifnull(e.agent, '')), a.name, CAST(ifnull(e.kind, '') AS TEXT),
    iif(typeof(e.turn) = 'integer', e.turn, NULL), CAST(ifnull(e.created_at, '') AS TEXT), json_extract(CASE e.kind
    WHEN 'tool_call' THEN iif(json_valid(e.data), e.data, '{}')
    WHEN 'tool_result' THEN (SELECT iif(json_valid(c.data), c.data, '{}') FROM events c WHERE c.id = e.answers)
END, '$.name'),
    (SELECT CASE WHEN octet_length(o.content) <= :beginning THEN o.content ELSE substr(o.content, 1, :beginning) END FROM events o
        WHERE o.kind = 'user' AND o.id = iif(e.kind = 'user', e.id, (
            SELECT id FROM events WHERE agent = e.agent AND nth IS NOT NULL AND id >= e.turn AND kind <> 'client'
            ORDER BY id LIMIT 1
        )) AND (e.kind = 'user' OR o.turn = e.turn)),
    (
        SELECT json_group_array(json_array(p.id, coalesce((
            SELECT b.nth - coalesce((
                SELECT messages FROM redacted_sums WHERE agent = b.agent AND event < b.id ORDER BY event DESC LIMIT 1
            ), 0)
            FROM events b WHERE b.agent = e.agent AND b.nth IS NOT NULL AND b.id < p.id ORDER BY b.id DESC LIMIT 1
        ), 0)))
        FROM (
            SELECT iif(typeof(e.turn) = 'integer', e.turn, e.id) AS id
            UNION ALL
            SELECT id FROM (
                SELECT id FROM events WHERE agent = e.agent AND nth IS NOT NULL AND turn = id AND id > e.turn
                ORDER BY id LIMIT :turns
            )
            UNION ALL
            SELECT :end
        ) p
    )
FROM json_each(:ids) i CROSS JOIN events e ON e.id = i.value LEFT JOIN agents a ON a.key = e.agent

-- name: opened
-- The turns that were opened inside segments, JSON [[agent, first, last], ...].
SELECT e.id FROM json_each(:segments) s CROSS JOIN events e
WHERE e.agent = s.value ->> 0 AND e.nth IS NOT NULL AND e.turn = e.id AND e.id BETWEEN s.value ->> 1 AND s.value ->> 2

-- name: wrong_index
-- Fails if a word of the index is not in its message, or the other way round; changes nothing.
INSERT INTO search (search, rank) VALUES ('integrity-check', 1)

-- name: wrong_index_rows
-- The number of messages missing from the index, and of rows in the index that are no messages.
SELECT
    (SELECT count(*) FROM searchable WHERE id NOT IN (SELECT id FROM search_docsize)),
    (SELECT count(*) FROM search_docsize WHERE id NOT IN (SELECT id FROM searchable))

-- name: carried
-- Removes mail, ids as JSON, that a message has carried.
DELETE FROM unread WHERE agent = ? AND mail IN (SELECT value FROM json_each(?))

-- name: fates
-- The fate of each of an agent's children: see `foldmark.core.agents`.
SELECT a.id, CASE
    WHEN a.killed > 0 THEN 'killed'
    WHEN a.messages > 0 OR EXISTS (
        SELECT 1 FROM events WHERE agent = a.key AND kind = 'request'
        AND kind IN ('state', 'scratchpad', 'system', 'config', 'command', 'summary', 'request', 'usage', 'mail', 'killed', 'window_summary')
    ) THEN 'begun'
    ELSE 'waits'
END FROM agents a WHERE a.parent = :agent

-- name: rename_agent
-- Sets a conversation's name; null for none.
UPDATE agents SET name = :name WHERE key = :agent

-- name: wrong_deletions
-- Deleted agents with a child that is not deleted.
SELECT a.id, c.id FROM agents a JOIN agents c ON c.parent = a.key WHERE a.deleted > 0 AND c.deleted = 0

-- name: wrong_remains
-- Deleted agents with events that still hold text.
SELECT a.id, count(*) FROM agents a JOIN events e ON e.agent = a.key WHERE a.deleted > 0 AND e.content <> '' GROUP BY a.id

-- name: wrong_names
-- Agents whose name is not the newest that an event gave them; deleted agents that still have one.
SELECT a.id, a.name FROM agents a WHERE a.name IS NOT NULL AND (a.deleted > 0 OR a.name <> (
    SELECT content FROM events WHERE agent = a.key AND kind = 'renamed' AND redacted IS NULL ORDER BY id DESC LIMIT 1
))

-- name: wrong_archive
-- Forks that are recorded as archived.
SELECT id FROM agents WHERE archived > 0 AND parent IS NOT NULL

-- name: keep_text
-- Stores a text, unless it exists.
INSERT OR IGNORE INTO texts (hash, text) VALUES (:hash, :text)

-- name: own
-- Records the owners of the texts of a request, JSON [[hash, turn, memo], ...], unless they were erased since.
INSERT OR IGNORE INTO text_owners (agent, turn, memo, hash)
SELECT ?1, o.value ->> 1, o.value ->> 2, o.value ->> 0 FROM json_each(?2) o
WHERE EXISTS (SELECT 1 FROM texts WHERE hash = o.value ->> 0)
AND NOT EXISTS (SELECT 1 FROM events WHERE id = o.value ->> 1 AND redacted IS NOT NULL)

-- name: disown_turn
-- Removes what a turn of an agent owns, and returns the hashes of these texts.
DELETE FROM text_owners WHERE agent = :agent AND turn = :turn RETURNING hash

-- name: disown_agent
-- Removes what an agent owns, and returns the hashes of these texts.
DELETE FROM text_owners WHERE agent = :agent RETURNING hash

-- name: disown_texts
-- Removes an agent's ownership of some texts, JSON [hash, ...].
DELETE FROM text_owners WHERE agent = :agent AND hash IN (SELECT value FROM json_each(:hashes))

-- name: disown_memo
-- Removes what a memo owns, and returns the hashes of these texts.
DELETE FROM text_owners WHERE memo = :memo AND memo > 0 RETURNING hash

-- name: erase_texts
-- Removes those of some texts, JSON [hash, ...], that nothing owns any more.
DELETE FROM texts
WHERE hash IN (SELECT value FROM json_each(:hashes)) AND NOT EXISTS (SELECT 1 FROM text_owners o WHERE o.hash = texts.hash)

-- name: requests
-- A page of all requests after an id, and whether the message that opened their turn is erased; `root` is not needed here.
SELECT :root, e.id, e.agent, e.turn, e.data, t.redacted IS NOT NULL
FROM events e LEFT JOIN events t ON t.id = e.turn
WHERE e.id > :id AND e.kind = 'request' AND e.redacted IS NULL ORDER BY e.id LIMIT :limit

-- name: text_owners
-- Every owner of a text, and whether the text is there.
SELECT o.agent, o.turn, o.memo, o.hash, EXISTS (SELECT 1 FROM texts t WHERE t.hash = o.hash) FROM text_owners o

-- name: texts_of_nobody
-- Texts without an owner.
SELECT hash FROM texts t WHERE NOT EXISTS (SELECT 1 FROM text_owners o WHERE o.hash = t.hash)

-- name: tombstones
-- The messages inside segments, JSON [[agent, first, last], ...], whose content was erased.
SELECT e.id, e.agent, e.turn, e.kind, e.content, e.data, e.dialect, e.actor, e.tokens, e.created_at, e.interrupted, e.answers
FROM json_each(:segments) s CROSS JOIN events e
WHERE e.id BETWEEN s.value ->> 1 AND s.value ->> 2 AND e.agent = s.value ->> 0 AND e.redacted IS NOT NULL
AND e.kind IN ('system', 'user', 'client', 'assistant', 'tool_call', 'tool_result', 'tool', 'summary')

-- name: lease
-- An agent's lease.
SELECT a.id, l.holder, l.host, l.process, l.state, l.taken_at, l.until, l.interrupt
FROM leases l JOIN agents a ON a.key = l.agent WHERE l.agent = :agent

-- name: held
-- The leases of one runtime.
SELECT a.id, l.holder, l.host, l.process, l.state, l.taken_at, l.until, l.interrupt
FROM leases l JOIN agents a ON a.key = l.agent WHERE l.holder = :holder ORDER BY l.agent

-- name: lend
-- Stores a lease in place of the agent's last one.
INSERT OR REPLACE INTO leases (agent, holder, host, process, state, taken_at, until, interrupt)
VALUES (:agent, :holder, :host, :process, :state, :taken_at, :until, :interrupt)

-- name: renew
-- Extends the leases of a runtime.
UPDATE leases SET until = :until WHERE holder = :holder

-- name: give_back
-- Ends a lease.
DELETE FROM leases WHERE agent = :agent AND holder = :holder

-- name: save_memo
-- Adds a memo.
INSERT INTO memos (event, agent, actor, created_at, content)
VALUES ((SELECT coalesce(max(id), 0) FROM events), :agent, :actor, :created_at, :content) RETURNING id

-- name: tag_memo
-- Adds a tag to a memo.
INSERT INTO memo_tags (tag, memo) VALUES (:tag, :memo)

-- name: index_memo
-- Indexes the words of a memo.
INSERT INTO memo_words (rowid, content, tags) VALUES (:memo, :content, :tags)

-- name: memos
-- Some memos, JSON [id, ...], with their tags, a JSON array.
SELECT m.id, m.content, (SELECT json_group_array(tag) FROM memo_tags WHERE memo = m.id), a.id, m.actor, m.created_at
FROM json_each(:memos) i CROSS JOIN memos m ON m.id = i.value LEFT JOIN agents a ON a.key = m.agent

-- name: newest_memos
-- The newest memos, newest first.
SELECT id FROM memos ORDER BY id DESC LIMIT :limit

-- name: memo_before
-- For each of some events, JSON [id, ...], the newest memo that was saved before it. In one file all ids follow the commits.
SELECT e.key, (SELECT id FROM memos WHERE event < e.value ORDER BY id DESC LIMIT 1) FROM json_each(:events) e

-- name: memos_tagged
-- The memos with a tag.
SELECT memo FROM memo_tags WHERE tag = :tag

-- name: memo_tags
-- The tags, and the number of memos with each.
SELECT tag, count(*) FROM memo_tags GROUP BY tag ORDER BY tag LIMIT :limit

-- name: memos_with
-- The pairs of an FTS5 expression, from a JSON array, and a memo up to an id that it finds.
SELECT k.key, w.rowid FROM json_each(:words) k CROSS JOIN memo_words w WHERE w.memo_words MATCH k.value AND w.rowid <= :most

-- name: untag_memo
-- Removes a memo's tags.
DELETE FROM memo_tags WHERE memo = :memo

-- name: unindex_memo
-- Removes a memo from the index.
DELETE FROM memo_words WHERE rowid = :memo

-- name: erase_memo
-- Removes a memo.
DELETE FROM memos WHERE id = :memo

-- name: wrong_memo_rows
-- Memos whose row in the index does not match their content and tags, and rows of the index that are no memos.
SELECT m.id FROM memos m LEFT JOIN memo_words w ON w.rowid = m.id
WHERE w.content IS NOT m.content
OR w.tags IS NOT coalesce((SELECT group_concat(tag, ' ' ORDER BY tag) FROM memo_tags WHERE memo = m.id), '')
UNION ALL SELECT rowid FROM memo_words WHERE rowid NOT IN (SELECT id FROM memos)

-- name: wrong_memo_tags
-- Tags that are empty, in upper case or hold white space, with their memos.
SELECT memo, tag FROM memo_tags WHERE tag = '' OR tag <> lower(tag) OR tag GLOB '*[' || char(9, 10, 11, 12, 13, 32) || ']*'

-- name: wrong_memo_index
-- Fails if a word of the index is not in its memo, or the other way round; changes nothing.
INSERT INTO memo_words (memo_words, rank) VALUES ('integrity-check', 0)

-- name: newest_head
-- The newest event of the agents with these keys, JSON [key, ...].
SELECT coalesce(max(last), 0) FROM agents WHERE key IN (SELECT value FROM json_each(:agents))

-- name: copied_events
-- The next events after an id and up to another, of any agent, with their texts as bytes and their checksums.
SELECT id, agent, turn, kind, dialect, actor, created_at, interrupted, call_id, answers, apart, redacted,
    CAST(content AS BLOB), CAST(data AS BLOB), checksum
FROM events WHERE id > :after AND id <= :end ORDER BY id LIMIT :limit

-- name: copied_memos
-- The next memos after an id with their tags, a JSON array.
SELECT m.id, m.event, a.id, m.actor, m.created_at, m.content,
    (SELECT json_group_array(tag) FROM memo_tags WHERE memo = m.id)
FROM memos m LEFT JOIN agents a ON a.key = m.agent WHERE m.id > :after ORDER BY m.id LIMIT :limit

-- name: erased
-- The erased events of the agents with these keys, JSON [key, ...].
SELECT e.id, e.agent, e.redacted FROM json_each(:agents) i CROSS JOIN events e
WHERE e.agent = i.value AND e.redacted IS NOT NULL

-- name: kept_texts
-- The texts behind some hashes, JSON [hash, ...].
SELECT hash, text FROM texts WHERE hash IN (SELECT value FROM json_each(:hashes))

-- name: bury
-- Adds an event that was erased in the source of a copy.
UPDATE events SET redacted = ? WHERE id = ?

-- name: forget_fold
-- Removes the stored segments of an agent, which later operations made stale.
DELETE FROM folds WHERE agent = :agent

-- name: embed_again
-- Records that messages after an id have no vectors, even if later messages have some.
UPDATE embedders SET until = min(until, :until)

-- name: take_memo
-- Adds a copied memo.
INSERT INTO memos (id, event, agent, actor, created_at, content) VALUES (:id, :event, :agent, :actor, :created_at, :content)

-- name: arrive
-- Adds unread mail.
INSERT INTO unread (agent, mail) VALUES (?, ?)

-- name: all_mail
-- The next mail, and messages that may carry some, after an id, with whether it is unread; `root` is not needed here.
SELECT :root, e.id, e.agent, e.kind, e.data, e.redacted IS NOT NULL, EXISTS (SELECT 1 FROM unread u WHERE u.agent = e.agent AND u.mail = e.id)
FROM events e WHERE e.id > :id AND (e.kind = 'mail' OR (e.kind = 'user' AND instr(e.data, '"mail"'))) ORDER BY e.id LIMIT :limit

-- name: forget_unread
-- Removes all unread mail of an agent, which is erased.
DELETE FROM unread WHERE agent = :agent

-- name: raise_memos
-- Raises the highest id that a memo ever had to this one.
UPDATE sqlite_sequence SET seq = max(seq, :number) WHERE name = 'memos'

-- name: begin_memos
-- Stores the highest id that a memo ever had, if there was none.
INSERT INTO sqlite_sequence (name, seq) SELECT 'memos', :number
WHERE :number > 0 AND NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'memos')

-- name: unread
-- The mail to an agent that no message has carried yet, oldest first.
SELECT e.id, e.agent, e.turn, e.kind, e.content, e.data, e.dialect, e.actor, e.tokens, e.created_at, e.interrupted, e.answers
FROM unread u JOIN events e ON e.id = u.mail WHERE u.agent = :agent ORDER BY u.mail

-- name: highest_memo
-- The highest id that a memo ever had.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'memos'), 0)
