-- What SQLite calls otherwise than other databases (see `stores/sql/queries.sql`), and the statements that only it has.

-- part: root


-- part: bound_root

-- part: own
$1agent = :agent

-- part: row
key = :agent

-- part: children
a.parent = :agent

-- part: of
agent = $1.agent

-- part: tree
TRUE

-- part: same
TRUE

-- part: directory
agents

-- part: given
json_each(:ids) i CROSS JOIN events e ON e.id = i.value

-- part: answering
json_each(:ids) c CROSS JOIN events e ON e.answers = c.value

-- part: segments
(SELECT value ->> 0 AS agent, value ->> 1 AS first, value ->> 2 AS last FROM json_each(:segments)) s

-- part: rooted

-- part: whose
TRUE

-- part: then
CROSS JOIN

-- part: in_turn

-- part: inside
CROSS JOIN events e ON e.id IN (<<branches>> ORDER BY id <<order>> LIMIT :page)

-- part: branch
SELECT id FROM events WHERE $1 AND id BETWEEN s.first AND s.last

-- part: stateful
CASE WHEN json_valid(data) THEN data ->> 'state' END IS NOT NULL

-- part: planning
iif(json_valid($1.data), $1.data, '{}') ->> 'planning' IS NOT NULL

-- part: among
IN (SELECT value FROM json_each(:$1))

-- part: among_texts
IN (SELECT value FROM json_each(:$1))

-- part: flag
:$1

-- part: tags_of
(SELECT json_group_array(tag) FROM memo_tags WHERE memo = $1)

-- part: holds
instr($1, $2)

-- part: root_of
:root

-- part: after
$1.id > :id

-- part: in_order
ORDER BY $1.id

-- part: tool
json_extract(CASE e.kind
    WHEN 'tool_call' THEN iif(json_valid(e.data), e.data, '{}')
    WHEN 'tool_result' THEN (SELECT iif(json_valid(c.data), c.data, '{}') FROM events c WHERE c.id = e.answers)
END, '$.name')

-- part: agent_name
coalesce(a.id, 'unknown agent ' || ifnull(e.agent, ''))

-- part: beginning
CASE WHEN octet_length($1.content) <= $2 THEN $1.content ELSE substr($1.content, 1, $2) END

-- part: found
e.id, <<agent_name>>, <<tool>>, CAST(ifnull(e.kind, '') AS TEXT)

-- part: fitting
(:agents IS NULL OR e.agent <<among agents>>)
    AND (:role IS NULL OR e.kind = :role)
    AND (:since IS NULL OR e.created_at >= :since)
    AND (:before IS NULL OR e.created_at < :before)
    AND (:tool IS NULL OR lower(<<tool>>) = :tool)

-- part: checked
id, CAST(id || ' ' || agent || ' ' || ifnull(turn, '') || ' ' || kind || ' ' || ifnull(dialect, '') || ' ' || actor
    || ' ' || created_at || ' ' || interrupted || ' ' || ifnull(call_id, '') || ' ' || ifnull(answers, '') AS BLOB),
    CAST(content AS BLOB), CAST(data AS BLOB), CASE WHEN typeof(checksum) IN ('integer', 'null') THEN checksum ELSE -1 END

-- name: agent_id
-- The uuid behind a key.
SELECT id FROM agents WHERE key = :key

-- name: agent_key
-- The key behind a uuid.
SELECT key FROM agents WHERE id = :id

-- name: agent_by_id
-- One agent by its uuid.
SELECT <<agent>>, a.key, a.root FROM <<agents>> WHERE a.id = :id

-- name: agent_by_name
-- One root agent by its name.
SELECT <<agent>>, a.key, a.root FROM <<agents>> WHERE a.name = :name

-- part: new_key
coalesce((SELECT :place WHERE NOT EXISTS (SELECT 1 FROM agents WHERE key = :place)), (SELECT coalesce(max(key), 0) + 1 FROM agents))

-- name: create_agent
-- Adds an agent. Keys give the order of agents: a copied agent keeps the key of its database if that is free. Only for the
-- insertion of one row of values SQLite does not look for rows that might have named it before.
INSERT INTO agents (key, id, name, parent, root, fork_event, created_at) VALUES (
    <<new_key>>, :id, :name, :parent, coalesce((SELECT root FROM agents WHERE key = :parent), <<new_key>>), :fork_event, :created_at
)

-- name: position
-- The state for the next append to an agent: what became of it, its sums, the sums of everything erased of it, and the
-- newest id in the database.
SELECT a.head, a.last, a.open_turn, a.messages, a.tokens, a.run, a.asked, a.killed, a.deleted, a.archived,
    coalesce(e.messages, 0), coalesce(e.tokens, 0), (SELECT max(id) FROM events)
FROM agents a
LEFT JOIN redacted_sums e ON e.agent = a.key
    AND e.event = (SELECT event FROM redacted_sums WHERE agent = a.key ORDER BY event DESC LIMIT 1)
WHERE a.key = :agent

-- name: newest_message
-- The turn and the kind of an agent's newest message up to an id.
SELECT turn, kind FROM events WHERE agent = ? AND nth IS NOT NULL AND id <= ? ORDER BY id DESC LIMIT 1

-- name: now
-- The present, as `events.created_at` is written.
SELECT strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')

-- name: append
-- Adds an event.
INSERT INTO events (
    id, agent, turn, kind, dialect, actor, created_at, interrupted, call_id, answers, apart, replayed, tokens, nth, sum,
    content, data, checksum
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: wait
-- Adds a call that waits for its result.
INSERT INTO waiting (agent, call) VALUES (?, ?)

-- name: answered
-- Removes a call that no longer waits.
DELETE FROM waiting WHERE agent = ? AND call = ?

-- name: end_waiting
-- Removes the waiting calls of an agent: none waits beyond the end of its turn.
DELETE FROM waiting WHERE agent = ?

-- name: advance
-- Stores the state for the next append to an agent.
UPDATE agents SET head = ?, last = ?, open_turn = ?, messages = ?, tokens = ?, run = ?, asked = ?, killed = ?,
    deleted = ?, archived = ?
WHERE key = ?

-- name: head
-- An agent by its uuid, after its key and root and with its stored segment cache.
-- Then, after NULL, its newest event up to an id of each of some kinds, JSON [kind, ...], that is not erased.
-- Whether there were ever memos is known from the counter of their ids: damage there must not hide the agent.
SELECT a.key, a.root, <<agent>>, f.body, f.messages, f.tokens, EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'memos'),
    EXISTS (SELECT 1 FROM unread WHERE agent = a.key), EXISTS (SELECT 1 FROM agents WHERE parent = a.key)
FROM <<agents>> LEFT JOIN folds f ON f.agent = a.key WHERE a.id = :agent
UNION ALL
SELECT NULL, NULL, <<event>>, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM agents a CROSS JOIN json_each(:kinds) k CROSS JOIN events e ON e.id = (
    SELECT id FROM events
    WHERE agent = a.key AND kind = k.value AND kind IN <<indexed>> AND id <= :until AND redacted IS NULL
    ORDER BY id DESC LIMIT 1
) WHERE a.id = :agent

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
SELECT 0, a.key, a.id, f.body, a.root, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM json_each(:agents) i CROSS JOIN agents a ON a.id = i.value LEFT JOIN folds f ON f.agent = a.key
UNION ALL
SELECT 1, <<event>>
FROM json_each(:agents) i CROSS JOIN agents a ON a.id = i.value CROSS JOIN events e ON e.agent = a.key
WHERE e.kind IN <<indexed>> AND e.kind = 'command' AND e.redacted IS NULL AND <<planning e>>
UNION ALL
SELECT 1, <<event>>
FROM json_each(:agents) i CROSS JOIN agents a ON a.id = i.value CROSS JOIN events e ON e.agent = a.key
WHERE e.replayed = 1 AND EXISTS (
    SELECT 1 FROM events c WHERE c.agent = a.key AND c.kind IN <<indexed>> AND c.kind = 'command' AND <<planning c>>
    UNION ALL
    SELECT 1 FROM events c WHERE c.agent = a.key AND c.replayed = 1 AND c.kind = 'filter' AND <<planning c>>
)

-- name: size
-- Messages and tokens inside segments: sums at the newest less those before the oldest. These sums include erased messages,
-- which are subtracted.
SELECT coalesce(sum(n.nth), 0) - coalesce(sum(b.nth), 0) - coalesce(sum(ne.messages), 0) + coalesce(sum(be.messages), 0),
    coalesce(sum(n.sum), 0) - coalesce(sum(b.sum), 0) - coalesce(sum(ne.tokens), 0) + coalesce(sum(be.tokens), 0)
FROM <<segments>>
LEFT JOIN events n ON n.id = (SELECT id FROM events WHERE <<of s>> AND nth IS NOT NULL AND id <= s.last ORDER BY id DESC LIMIT 1)
LEFT JOIN events b ON b.id = (SELECT id FROM events WHERE <<of s>> AND nth IS NOT NULL AND id < s.first ORDER BY id DESC LIMIT 1)
LEFT JOIN redacted_sums ne ON ne.agent = n.agent AND ne.event = (
    SELECT event FROM redacted_sums WHERE agent = n.agent AND event < n.id ORDER BY event DESC LIMIT 1
)
LEFT JOIN redacted_sums be ON be.agent = b.agent AND be.event = (
    SELECT event FROM redacted_sums WHERE agent = b.agent AND event < b.id ORDER BY event DESC LIMIT 1
)

-- name: turns
-- The messages of some turns, JSON [id, ...]. A summary is a turn of its own in the middle of another.
SELECT <<message>>
FROM json_each(:ids) t CROSS JOIN events o ON o.id = t.value AND o.turn = o.id
CROSS JOIN events e ON e.agent = o.agent AND e.nth IS NOT NULL AND e.turn = o.id AND e.id >= o.id AND e.id < coalesce((
    SELECT id FROM events
    WHERE agent = o.agent AND nth IS NOT NULL AND id > o.id AND turn IS NOT o.id AND kind <> 'summary' ORDER BY id LIMIT 1
), 9223372036854775807)

-- name: next_to
-- For each place, JSON [[agent, id], ...]: `count` of the agent's messages up to it and after it, by the place's number.
SELECT s.key, <<message>> FROM json_each(:places) s CROSS JOIN events e ON e.id IN (
    SELECT id FROM (
        SELECT id FROM events WHERE agent = s.value ->> 0 AND nth IS NOT NULL AND id <= s.value ->> 1 ORDER BY id DESC LIMIT :count
    )
    UNION ALL
    SELECT id FROM (
        SELECT id FROM events WHERE agent = s.value ->> 0 AND nth IS NOT NULL AND id > s.value ->> 1 ORDER BY id LIMIT :count
    )
)

-- name: erase
-- Replaces erased events, JSON [[id, data], ...], with what remains of them.
UPDATE events SET content = '', data = value ->> 1, tokens = 0, nth = NULL, sum = NULL, apart = NULL, redacted = :by, checksum = NULL
FROM json_each(:rows) WHERE events.id = value ->> 0

-- name: lower_totals
-- Lowers the totals of an agent by what was erased.
UPDATE agents SET messages = messages - :messages, tokens = tokens - :tokens WHERE key = :agent

-- name: forget_totals
-- Sets the totals of an agent that was erased as a whole to zero.
UPDATE agents SET messages = 0, tokens = 0 WHERE key = :agent

-- name: checksums
-- A page of the events after an id with the columns of their checksums; without erased events.
SELECT <<checked>> FROM events WHERE id > :after AND redacted IS NULL ORDER BY id LIMIT :limit

-- name: checksums_of
-- The columns of `checksums` of some events.
SELECT <<checked>> FROM events WHERE id <<among ids>> AND redacted IS NULL

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
SELECT 'delete', id, text, parts FROM searchable WHERE id <<among ids>>

-- name: unindex_parts
-- Removes the words that SQLite's tokenizer did not recognize; after `unindex`.
DELETE FROM parts WHERE event <<among ids>>

-- name: counted
-- For each of some FTS5 expressions, JSON [expression, ...]: JSON [messages that it finds, the last of these], up to so
-- many; the newest event; the number of messages.
SELECT (SELECT json_array(count(*), max(id)) FROM (SELECT rowid AS id FROM search WHERE search MATCH w.value LIMIT :most)),
    (SELECT max(id) FROM events), (SELECT coalesce(sum(messages), 0) FROM agents)
FROM json_each(:wanted) w

-- part: newest_share
rowid >= (SELECT CAST(coalesce(max(id), 0) * (1 - (w.value ->> 1)) AS INTEGER) FROM events)

-- name: best
-- For each of some FTS5 expressions, JSON [[expression, share], ...], the best messages in the newest share of the log, so
-- many, the best first: the number of the expression, the message, its agent, its tool as in `surroundings` and its kind.
SELECT w.key, <<found>>
FROM json_each(:wanted) w CROSS JOIN json_each((
    SELECT json_group_array(id) FROM (
        SELECT rowid AS id FROM search WHERE search MATCH (w.value ->> 0) AND <<newest_share>> ORDER BY rank LIMIT :most
    )
)) i CROSS JOIN events e ON e.id = i.value LEFT JOIN agents a ON a.key = e.agent

-- name: best_fitting
-- The same for messages that pass filters, each null for no filter; `agents` are keys as JSON.
SELECT w.key, <<found>>
FROM json_each(:wanted) w CROSS JOIN json_each((
    SELECT json_group_array(id) FROM (
        SELECT e.id FROM search s JOIN events e ON e.id = s.rowid
        WHERE s.search MATCH (w.value ->> 0) AND s.<<newest_share>> AND <<fitting>> ORDER BY s.rank LIMIT :most
    )
)) i CROSS JOIN events e ON e.id = i.value LEFT JOIN agents a ON a.key = e.agent

-- name: passing
-- Those of some messages, ids as JSON in the order asked for, that pass filters, which are as in `best_fitting`.
SELECT <<found>> FROM <<given>> LEFT JOIN agents a ON a.key = e.agent WHERE <<fitting>>

-- name: around
-- For each of some messages, JSON [id, ...], by its number: itself and up to `reach` before and after it, in no order.
-- Each comes with the beginning of its text, its time, its agent, its kind, turn and tool as in `surroundings`. A call's
-- text begins with the tool's name, as it is searched. An escape becomes as many spaces as it has letters, so that the
-- length of a text tells whether it was cut.
SELECT e.place, e.id, CASE e.kind
    WHEN 'tool_call' THEN coalesce(CASE WHEN json_valid(data) THEN json_extract(data, '$.name') END, '') || ' '
        || replace(replace(replace(replace(text, '\\', '  '), '\n', '  '), '\t', '  '), '\r', '  ')
    ELSE text
END, CAST(ifnull(e.created_at, '') AS TEXT), <<agent_name>>, a.name, CAST(ifnull(e.kind, '') AS TEXT),
    iif(typeof(e.turn) = 'integer', e.turn, NULL), <<tool>>
FROM (
    SELECT i.key AS place, n.*, <<beginning n (CASE n.id WHEN o.id THEN :whole ELSE :cut END)>> AS text
    FROM json_each(:ids) i CROSS JOIN events o ON o.id = i.value CROSS JOIN events n ON n.id IN (
        SELECT id FROM (
            SELECT id FROM events WHERE agent = o.agent AND nth IS NOT NULL AND id <= o.id ORDER BY id DESC LIMIT :reach + 1
        )
        UNION ALL
        SELECT id FROM (
            SELECT id FROM events WHERE agent = o.agent AND nth IS NOT NULL AND id > o.id ORDER BY id LIMIT :reach
        )
    )
    WHERE n.content <> ''
) AS e LEFT JOIN agents a ON a.key = e.agent

-- name: advance_embedder
-- Stores the event up to which vectors exist.
UPDATE embedders SET until = max(until, :until) WHERE key = :embedder

-- name: to_embed
-- The next messages that people or models wrote, each with the text before it in its conversation.
SELECT e.id, <<beginning e :longest>>, (
    SELECT <<beginning b :longest>>
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
WHERE event > :after AND <<of_model>> ORDER BY event LIMIT :page

-- name: vectors
-- The vectors of messages, ids as JSON, in no order.
SELECT event, vectors FROM vectors WHERE event <<among ids>> AND <<of_model>>

-- part: embeddable
nth IS NOT NULL AND kind IN ('user', 'assistant', 'summary') AND content <> ''

-- name: coverage
-- The number of messages with vectors of a model, the number of all, and the bytes of the vectors.
SELECT (SELECT count(*) FROM events WHERE id <= m.until AND <<embeddable>>), (SELECT count(*) FROM events WHERE <<embeddable>>),
    (SELECT coalesce(sum(length(vectors)), 0) FROM vectors WHERE embedder = m.key)
        + (SELECT coalesce(sum(length(signatures)), 0) FROM signatures WHERE embedder = m.key)
FROM (SELECT max(key) AS key, coalesce(max(until), 0) AS until FROM embedders WHERE fingerprint = :fingerprint) m

-- name: erase_vectors
-- Removes the vectors of messages.
DELETE FROM vectors WHERE event <<among ids>>

-- name: erase_signatures
-- Removes the signatures of messages.
DELETE FROM signatures WHERE event <<among ids>>

-- name: surroundings
-- Found messages, JSON [id, ...], and the tool of each call or result; whatever the columns hold.
-- Each comes with the beginning of the person's text: its own, or else that of its turn's first message that is not the
-- client's. And with JSON [[id, messages of its agent before that], ...]: its turn (itself outside of turns), so many
-- turns after it, the end.
SELECT e.id, <<agent_name>>, a.name, CAST(ifnull(e.kind, '') AS TEXT),
    iif(typeof(e.turn) = 'integer', e.turn, NULL), CAST(ifnull(e.created_at, '') AS TEXT), <<tool>>,
    (SELECT <<beginning o :beginning>> FROM events o
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
FROM <<given>> LEFT JOIN agents a ON a.key = e.agent

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

-- name: own
-- Records the owners of the texts of a request, JSON [[hash, turn, memo], ...], unless they were erased since.
INSERT OR IGNORE INTO text_owners (agent, turn, memo, hash)
SELECT ?1, o.value ->> 1, o.value ->> 2, o.value ->> 0 FROM json_each(?2) o
WHERE EXISTS (SELECT 1 FROM texts WHERE hash = o.value ->> 0)
AND NOT EXISTS (SELECT 1 FROM events WHERE id = o.value ->> 1 AND redacted IS NOT NULL)

-- name: save_memo
-- Adds a memo.
INSERT INTO memos (event, agent, actor, created_at, content)
VALUES ((SELECT coalesce(max(id), 0) FROM events), :agent, :actor, :created_at, :content) RETURNING id

-- name: index_memo
-- Indexes the words of a memo.
INSERT INTO memo_words (rowid, content, tags) VALUES (:memo, :content, :tags)

-- name: memo_before
-- For each of some events, JSON [id, ...], the newest memo that was saved before it. In one file all ids follow the commits.
SELECT e.key, (SELECT id FROM memos WHERE event < e.value ORDER BY id DESC LIMIT 1) FROM json_each(:events) e

-- name: memos_with
-- The pairs of an FTS5 expression, from a JSON array, and a memo up to an id that it finds.
SELECT k.key, w.rowid FROM json_each(:words) k CROSS JOIN memo_words w WHERE w.memo_words MATCH k.value AND w.rowid <= :most

-- name: unindex_memo
-- Removes a memo from the index.
DELETE FROM memo_words WHERE rowid = :memo

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
SELECT coalesce(max(last), 0) FROM agents WHERE key <<among agents>>

-- name: copied_events
-- The next events after an id and up to another, of any agent, with their checksums.
SELECT id, agent, turn, kind, dialect, actor, created_at, interrupted, call_id, answers, apart, redacted, content, data,
    checksum
FROM events WHERE id > :after AND id <= :end ORDER BY id LIMIT :limit

-- name: copied_memos
-- The next memos after an id with their tags, a JSON array.
SELECT m.id, m.event, a.id, m.actor, m.created_at, m.content, <<tags_of m.id>>
FROM memos m LEFT JOIN agents a ON a.key = m.agent WHERE m.id > :after ORDER BY m.id LIMIT :limit

-- name: bury
-- Adds an event that was erased in the source of a copy.
UPDATE events SET redacted = ? WHERE id = ?

-- name: embed_again
-- Records that messages after an id have no vectors, even if later messages have some.
UPDATE embedders SET until = min(until, :until)

-- name: take_memo
-- Adds a copied memo.
INSERT INTO memos (id, event, agent, actor, created_at, content) VALUES (:id, :event, :agent, :actor, :created_at, :content)

-- name: arrive
-- Adds unread mail.
INSERT INTO unread (agent, mail) VALUES (?, ?)

-- name: raise_memos
-- Raises the highest id that a memo ever had to this one.
UPDATE sqlite_sequence SET seq = max(seq, :number) WHERE name = 'memos'

-- name: begin_memos
-- Stores the highest id that a memo ever had, if there was none.
INSERT INTO sqlite_sequence (name, seq) SELECT 'memos', :number
WHERE :number > 0 AND NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'memos')

-- name: newest_memo
-- The highest id that a memo ever had.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'memos'), 0)
