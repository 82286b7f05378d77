-- name: agents
-- All agents, oldest first.
SELECT a.id, a.name, p.id, a.fork_event, a.created_at, a.head, a.open_turn, a.messages, a.tokens, a.key
FROM agents a LEFT JOIN agents p ON p.key = a.parent ORDER BY a.key

-- name: agent_by_id
-- One agent by its uuid.
SELECT a.id, a.name, p.id, a.fork_event, a.created_at, a.head, a.open_turn, a.messages, a.tokens, a.key
FROM agents a LEFT JOIN agents p ON p.key = a.parent WHERE a.id = ?

-- name: agent_by_name
-- One root agent by its name.
SELECT a.id, a.name, p.id, a.fork_event, a.created_at, a.head, a.open_turn, a.messages, a.tokens, a.key
FROM agents a LEFT JOIN agents p ON p.key = a.parent WHERE a.name = ?

-- name: children
-- The agents forked from one, oldest first.
SELECT a.id, a.name, p.id, a.fork_event, a.created_at, a.head, a.open_turn, a.messages, a.tokens, a.key
FROM agents a JOIN agents p ON p.key = a.parent WHERE a.parent = ? ORDER BY a.key

-- name: agent_id
-- The uuid behind a key.
SELECT id FROM agents WHERE key = ?

-- name: agent_key
-- The key behind a uuid.
SELECT key FROM agents WHERE id = ?

-- name: create_agent
-- A new agent.
INSERT INTO agents (id, name, parent, fork_event, created_at) VALUES (?, ?, ?, ?, ?)

-- name: position
-- Where appending to an agent continues, and the newest id in the database.
SELECT head, open_turn, messages, tokens, (SELECT max(id) FROM events) FROM agents WHERE key = ?

-- name: append
-- One event.
INSERT INTO events (
    id, agent, turn, kind, dialect, actor, tokens, created_at, interrupted, call_id, answers, apart, nth, sum, content, data
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: wait
-- A call that waits for its result.
INSERT INTO waiting (agent, call) VALUES (?, ?)

-- name: answered
-- A call that waits no more.
DELETE FROM waiting WHERE agent = ? AND call = ?

-- name: end_waiting
-- No call waits beyond the end of its turn.
DELETE FROM waiting WHERE agent = ?

-- name: waiting
-- The calls of an agent's open turn that have no result yet.
SELECT e.id, e.agent, e.turn, e.kind, e.answers
FROM waiting w JOIN events e ON e.id = w.call WHERE w.agent = ? ORDER BY w.call

-- name: advance
-- Where appending to an agent continues from now on.
UPDATE agents SET head = ?, open_turn = ?, messages = ?, tokens = ? WHERE key = ?

-- name: save_fold
-- The stored segment cache of an agent.
INSERT INTO folds (agent, body, messages, tokens) VALUES (?, ?, ?, ?)
ON CONFLICT (agent) DO UPDATE SET body = excluded.body, messages = excluded.messages, tokens = excluded.tokens

-- name: standing
-- An agent and its stored segment cache, as of one moment.
SELECT a.id, a.name, p.id, a.fork_event, a.created_at, a.head, a.open_turn, a.messages, a.tokens,
    f.body, f.messages, f.tokens
FROM agents a LEFT JOIN agents p ON p.key = a.parent LEFT JOIN folds f ON f.agent = a.key WHERE a.key = ?

-- name: event
-- One event by its id.
SELECT id, agent, turn, kind, content, data, dialect, actor, tokens, created_at, interrupted, answers
FROM events WHERE id = ?

-- name: operations
-- All operations of an agent in order.
SELECT id, agent, turn, kind, content, data, dialect, actor, tokens, created_at, interrupted, answers
FROM events
WHERE agent = ? AND kind IN (
    'mark', 'clear', 'rewind', 'fork', 'filter', 'drop', 'undo', 'summary', 'restore', 'pin', 'unpin', 'redact'
)
ORDER BY id

-- name: messages
-- A page of an agent's messages in a range of ids, oldest first.
SELECT id, agent, turn, kind, content, data, dialect, actor, tokens, created_at, interrupted, answers
FROM events WHERE agent = ? AND nth IS NOT NULL AND id BETWEEN ? AND ? ORDER BY id LIMIT ?

-- name: messages_newest_first
-- A page of an agent's messages in a range of ids, newest first.
SELECT id, agent, turn, kind, content, data, dialect, actor, tokens, created_at, interrupted, answers
FROM events WHERE agent = ? AND nth IS NOT NULL AND id BETWEEN ? AND ? ORDER BY id DESC LIMIT ?

-- name: newest
-- The newest state, scratchpad or system event of an agent in a range of ids.
SELECT id, agent, turn, kind, content, data, dialect, actor, tokens, created_at, interrupted, answers
FROM events
WHERE agent = ? AND kind IN ('state', 'scratchpad', 'system') AND kind = ? AND id BETWEEN ? AND ?
ORDER BY id DESC LIMIT 1

-- name: of_kind
-- The ids of all state, scratchpad or system events of an agent in a range of ids.
SELECT id FROM events
WHERE agent = ? AND kind IN ('state', 'scratchpad', 'system') AND kind = ? AND id BETWEEN ? AND ?
ORDER BY id

-- name: size
-- Messages and tokens inside segments, JSON [[agent, first, last], ...]: sums at the newest less those before the oldest.
SELECT coalesce(sum(n.nth), 0) - coalesce(sum(b.nth), 0), coalesce(sum(n.sum), 0) - coalesce(sum(b.sum), 0)
FROM json_each(?) s
LEFT JOIN events n ON n.id = (
    SELECT id FROM events WHERE agent = s.value ->> 0 AND nth IS NOT NULL AND id <= s.value ->> 2 ORDER BY id DESC LIMIT 1
)
LEFT JOIN events b ON b.id = (
    SELECT id FROM events WHERE agent = s.value ->> 0 AND nth IS NOT NULL AND id < s.value ->> 1 ORDER BY id DESC LIMIT 1
)

-- name: bounds
-- For each of some segments, JSON [[agent, first, last], ...]: the oldest message from its first id, the newest to its last.
SELECT
    (SELECT id FROM events WHERE agent = s.value ->> 0 AND nth IS NOT NULL AND id >= s.value ->> 1 ORDER BY id LIMIT 1),
    (SELECT id FROM events WHERE agent = s.value ->> 0 AND nth IS NOT NULL AND id <= s.value ->> 2 ORDER BY id DESC LIMIT 1)
FROM json_each(?) s

-- name: message_before
-- An agent's newest message up to an id.
SELECT id, agent, turn, kind, answers FROM events
WHERE agent = ? AND nth IS NOT NULL AND id <= ? ORDER BY id DESC LIMIT 1

-- name: message_after
-- An agent's oldest message above an id.
SELECT id, agent, turn, kind, answers FROM events
WHERE agent = ? AND nth IS NOT NULL AND id > ? ORDER BY id LIMIT 1

-- name: messages_from
-- An agent's messages from an id on; read only as far as needed.
SELECT id, agent, turn, kind, answers FROM events WHERE agent = ? AND nth IS NOT NULL AND id >= ? ORDER BY id

-- name: results_of
-- The results that answer a call.
SELECT id, agent, turn, kind, answers FROM events WHERE answers = ? ORDER BY id

-- name: waiting_call
-- The newest call with a provider's call id among those that wait in an agent's open turn.
SELECT e.id, e.agent, e.turn, e.kind, e.answers
FROM waiting w JOIN events e ON e.id = w.call WHERE w.agent = ? AND e.call_id = ? ORDER BY w.call DESC LIMIT 1

-- name: stands_apart
-- Whether anything but calls of one run and then results stands behind a call of the open turn.
SELECT EXISTS (
    SELECT 1 FROM events
    WHERE agent = :agent AND nth IS NOT NULL AND id > :call AND kind NOT IN ('tool_call', 'tool_result')
) OR coalesce((
    SELECT max(id) FILTER (WHERE kind = 'tool_call') > min(id) FILTER (WHERE kind = 'tool_result')
    FROM events WHERE agent = :agent AND nth IS NOT NULL AND id > :call
), 0)

-- name: apart_results
-- An agent's results after an id that answer a call before it and stand apart from it.
SELECT id, agent, turn, kind, answers FROM events WHERE agent = ? AND apart IS NOT NULL AND id > ? AND answers <= ?

-- name: calls_with_id
-- An agent's newest calls with a provider's call id, newest first; ids are meant to be unique, so a few are enough.
SELECT id, agent, turn, kind, answers
FROM events WHERE agent = ? AND call_id = ? AND call_id IS NOT NULL AND kind = 'tool_call' ORDER BY id DESC LIMIT 50

-- name: lookup
-- What kind of event an id is, whosever it is.
SELECT id, agent, turn, kind, answers FROM events WHERE id = ?

-- name: wrong_sums
-- The first message of an agent whose running count, sum or size is not what its events give.
SELECT id FROM (
    SELECT id, nth, sum, tokens, content, data, row_number() OVER w AS n, sum(tokens) OVER w AS s
    FROM events WHERE agent = ? AND nth IS NOT NULL WINDOW w AS (ORDER BY id)
)
WHERE nth <> n OR sum <> s OR tokens <> (octet_length(content) + coalesce(octet_length(data), 0) + 3) / 4
LIMIT 1

-- name: wrong_waiting
-- How many calls of an agent are said to wait that do not, or the other way round.
SELECT count(*) FROM (
    SELECT id FROM events
    WHERE agent = :key AND nth IS NOT NULL AND kind = 'tool_call'
    AND id >= (SELECT open_turn FROM agents WHERE key = :key)
    AND NOT EXISTS (SELECT 1 FROM events r WHERE r.answers = events.id)
) AS really FULL JOIN (SELECT call FROM waiting WHERE agent = :key) AS said ON said.call = really.id
WHERE said.call IS NULL OR really.id IS NULL

-- name: wrong_rows
-- What each agent's row says of its events, beside what they give.
SELECT a.id, a.head, a.messages, a.tokens, a.open_turn,
    coalesce(e.newest, 0), coalesce(m.nth, 0), coalesce(m.sum, 0),
    CASE WHEN e.newest_turn > coalesce(e.newest_end, 0) THEN e.newest_turn END
FROM agents a
LEFT JOIN (
    SELECT agent, max(id) AS newest,
        max(turn) FILTER (WHERE nth IS NOT NULL AND kind NOT IN ('summary', 'system')) AS newest_turn,
        max(id) FILTER (WHERE kind = 'turn_ended') AS newest_end
    FROM events GROUP BY agent
) e ON e.agent = a.key
LEFT JOIN events m ON m.id = (
    SELECT id FROM events WHERE agent = a.key AND nth IS NOT NULL ORDER BY id DESC LIMIT 1
)
