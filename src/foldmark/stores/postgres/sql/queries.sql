-- What PostgreSQL calls otherwise than other databases (see `stores/sql/queries.sql`), and the statements that only it has.

-- part: root
root, 

-- part: bound_root
:root, 

-- part: own
$1root = :root AND $1agent = :agent

-- part: row
root = :root AND key = :agent

-- part: children
a.root = :root AND a.parent = :agent

-- part: of
root = :root AND agent = $1.agent

-- part: tree
root = :root

-- part: same
$1.root = $2.root

-- part: directory
directory

-- part: given
unnest(:roots::bigint[], :ids::bigint[]) AS i (root, id) JOIN events e ON e.root = i.root AND e.id = i.id

-- part: answering
unnest(:roots::bigint[], :ids::bigint[]) AS i (root, id) JOIN events e ON e.root = i.root AND e.answers = i.id

-- part: segments
unnest(:agents::bigint[], :firsts::bigint[], :lasts::bigint[]) WITH ORDINALITY AS s (agent, first, last, number)

-- part: rooted
$1.root,

-- part: whose
a.root = coalesce(c.root, w.root)

-- part: then
JOIN

-- part: in_turn
ORDER BY s.number

-- part: inside
CROSS JOIN LATERAL (<<branches>>) e

-- part: branch
(SELECT * FROM events WHERE $1 AND id BETWEEN s.first AND s.last ORDER BY id <<order>> LIMIT :page)

-- part: stateful
stateful

-- part: among
= ANY(:$1::bigint[])

-- part: among_texts
= ANY(:$1::text[])

-- part: flag
:$1::boolean

-- part: tags_of
(SELECT array_agg(tag) FROM memo_tags WHERE memo = $1)

-- part: holds
strpos($1, $2) > 0

-- part: beginning
CASE WHEN octet_length($1.content) <= $2 THEN $1.content ELSE substr($1.content, 1, $2::integer) END

-- part: no_event
NULL::bigint, NULL::bigint, NULL::bigint, NULL, NULL, NULL, NULL, NULL, NULL::bigint, NULL, NULL::smallint, NULL::bigint, NULL::bigint

-- part: id_of
blocks b JOIN events e ON e.root = b.root AND e.id = $1 WHERE b.block = $1 >> 12

-- part: readable
(SELECT base FROM home) + pg_snapshot_xmin(pg_current_snapshot())::text::bigint

-- part: embeddable
e.nth IS NOT NULL AND e.kind IN ('user', 'assistant', 'summary') AND e.content <> ''

-- part: root_of
$1.root

-- part: after
($1.root, $1.id) > (:root::bigint, :id::bigint)

-- part: in_order
ORDER BY $1.root, $1.id

-- name: lock
-- The row of a root agent, which locks its tree: its state, the tree's counters, this transaction, the newest memo.
SELECT head, last, open_turn, messages, tokens, run, asked, killed, deleted, archived, gone_messages, gone_tokens, newest_turn, newest_kind,
    next_id, last_id, greatest(stamp, (SELECT base FROM home) + pg_current_xact_id()::text::bigint), memos,
    (SELECT value FROM numbers WHERE name = 'memos'), pg_current_xact_id()::text
FROM agents WHERE root = :root AND key = :root FOR UPDATE

-- name: position
-- The state for the next append to a fork; under the lock of its tree.
SELECT head, last, open_turn, messages, tokens, run, asked, killed, deleted, archived, gone_messages, gone_tokens, newest_turn, newest_kind
FROM agents WHERE <<row>>

-- name: transaction
-- The initial values of a new tree, in the columns of `lock`.
SELECT 0, 0, NULL, 0, 0, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL,
    0, -1, (SELECT base FROM home) + pg_current_xact_id()::text::bigint, 0,
    (SELECT value FROM numbers WHERE name = 'memos'), pg_current_xact_id()::text

-- name: draw
-- The next number of a named counter; drawn in a transaction of its own, so that nobody waits for the one that needs it.
UPDATE numbers SET value = value + 1 WHERE name = :name RETURNING value

-- name: take_block
-- Records a block of ids that a tree has taken.
INSERT INTO blocks (block, root) VALUES (:block, :root)

-- name: block_roots
-- The trees of some blocks; 0 for a block of several trees.
SELECT block, CASE count(*) WHEN 1 THEN min(root) ELSE 0 END FROM blocks WHERE block = ANY(:blocks::bigint[]) GROUP BY block

-- name: now
-- The present, so many seconds ahead, as `events.created_at` is written.
SELECT to_char(
    (clock_timestamp() + make_interval(secs => :ahead::float8)) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'
)

-- name: agent_id
-- The uuid behind a key, and the key of its root agent.
SELECT id, root FROM directory WHERE key = :key

-- name: agent_key
-- The key behind a uuid, and that of its root agent.
SELECT key, root FROM directory WHERE id = :id

-- name: agent_by_id
-- One agent by its uuid.
SELECT <<agent>>, a.key, a.root FROM directory i JOIN (<<agents>>) ON a.root = i.root AND a.key = i.key WHERE i.id = :id

-- name: agent_by_name
-- One root agent by its name.
SELECT <<agent>>, a.key, a.root FROM names n JOIN (<<agents>>) ON a.root = n.root AND a.key = n.root WHERE n.name = :name

-- name: create_agent
-- Adds an agent.
INSERT INTO agents (root, key, id, name, parent, fork_event, created_at, born)
VALUES (:root, :key, :id, :name, :parent::bigint, :fork_event, :created_at, :born)

-- name: add_to_directory
-- Adds a new agent's uuid to the lookup table.
INSERT INTO directory (id, key, root) VALUES (:id, :key, :root)

-- name: take_name
-- Takes a name for a conversation, unless another one has it.
INSERT INTO names (name, root) VALUES (:name, :root) ON CONFLICT DO NOTHING RETURNING root

-- name: free_names
-- Frees the names of a conversation except one.
DELETE FROM names WHERE root = :root AND name IS DISTINCT FROM :name::text

-- name: named_root
-- The owner of a name.
SELECT root FROM names WHERE name = :name

-- name: append
-- Events of one tree.
INSERT INTO events (
    root, id, agent, turn, kind, dialect, actor, created_at, interrupted, call_id, answers, apart, replayed, tokens, nth, sum,
    content, data, checksum, tool, planning, stateful, stamp
)
SELECT :root, id, agent, turn, kind, dialect, actor, created_at, interrupted, call_id, answers, apart, replayed, tokens, nth,
    sum, content, data, checksum, tool, planning = 1, stateful = 1, :stamp
FROM unnest(
    :id::bigint[], :agent::bigint[], :turn::bigint[], :kind::text[], :dialect::text[], :actor::text[], :created_at::text[],
    :interrupted::bigint[], :call_id::text[], :answers::bigint[], :apart::bigint[], :replayed::bigint[], :tokens::bigint[],
    :nth::bigint[], :sum::bigint[], :content::text[], :data::text[], :checksum::bigint[], :tool::text[],
    :planning::bigint[], :stateful::bigint[]
) AS e (
    id, agent, turn, kind, dialect, actor, created_at, interrupted, call_id, answers, apart, replayed, tokens, nth, sum,
    content, data, checksum, tool, planning, stateful
)

-- part: state
head = :head, last = :last, open_turn = :open_turn::bigint, messages = :messages, tokens = :tokens, run = :run::bigint,
    asked = :asked, killed = :killed, deleted = :deleted, archived = :archived, newest_turn = :newest_turn::bigint,
    newest_kind = :newest_kind

-- part: counters
next_id = :next_id, last_id = :last_id, stamp = :stamp, memos = :memos

-- name: advance
-- Stores the state for the next append to an agent.
UPDATE agents SET <<state>> WHERE <<row>>

-- name: advance_root
-- Stores the state for the next append to a root agent, and its tree's counters.
UPDATE agents SET <<state>>, <<counters>> WHERE root = :root AND key = :root

-- name: advance_tree
-- Stores a tree's counters.
UPDATE agents SET <<counters>> WHERE root = :root AND key = :root

-- name: mark_memos
-- Records the newest memo that a tree knows of from an event on.
INSERT INTO memo_marks (root, event, memos) VALUES (:root, :event, :memos)

-- name: wait
-- Adds calls that wait for their results.
INSERT INTO waiting (root, agent, call) SELECT :root, :agent, call FROM unnest(:calls::bigint[]) AS c (call)

-- name: answered
-- Removes calls that no longer wait.
DELETE FROM waiting WHERE <<own>> AND call <<among calls>>

-- name: end_waiting
-- Removes the waiting calls of an agent: none waits beyond the end of its turn.
DELETE FROM waiting WHERE <<own>>

-- name: head
-- An agent by its uuid, after its key and root and with its stored segment cache: 23 columns.
-- Then, in 13 columns more, its newest event up to an id of each of some kinds that is not erased.
SELECT a.key, a.root, <<agent>>, f.body, f.messages, f.tokens, (SELECT value > 0 FROM numbers WHERE name = 'memos'),
    EXISTS (SELECT 1 FROM unread u WHERE u.root = a.root AND u.agent = a.key),
    EXISTS (SELECT 1 FROM agents c WHERE c.root = a.root AND c.parent = a.key), <<no_event>>
FROM directory i JOIN (<<agents>>) ON a.root = i.root AND a.key = i.key LEFT JOIN folds f ON f.root = a.root AND f.agent = a.key
WHERE i.id = :agent
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, <<event>>
FROM directory i CROSS JOIN unnest(:kinds::text[]) AS k (kind) CROSS JOIN LATERAL (
    SELECT * FROM events
    WHERE root = i.root AND agent = i.key AND kind IN <<indexed>> AND kind = k.kind AND id <= :until AND redacted IS NULL
    ORDER BY id DESC LIMIT 1
) e
WHERE i.id = :agent

-- name: changes
-- New agents and events after a place, of transactions before all that may still be open, each as its place, its agent
-- and its kind. Those up to an id, or up to a key, of some trees are left out.
(
    SELECT born, 0, key, key, 'born' FROM agents c
    WHERE (born, key) > (
        :stamp::bigint, CASE WHEN :source::int < 0 THEN -1 WHEN :source::int = 0 THEN :id ELSE 9223372036854775807 END
    ) AND born < (SELECT horizon()) AND NOT EXISTS (
        SELECT 1 FROM unnest(:roots::bigint[], :known::bigint[]) AS s (root, key) WHERE s.root = c.root AND s.key >= c.key
    )
    ORDER BY born, key LIMIT :limit
)
UNION ALL
(
    SELECT stamp, 1, id, agent, kind FROM events c
    WHERE (stamp, id) > (
        :stamp::bigint, CASE WHEN :source::int < 1 THEN -1 WHEN :source::int = 1 THEN :id ELSE 9223372036854775807 END
    ) AND stamp < (SELECT horizon()) AND NOT EXISTS (
        SELECT 1 FROM unnest(:roots::bigint[], :seen::bigint[]) AS s (root, id) WHERE s.root = c.root AND s.id >= c.id
    )
    ORDER BY stamp, id LIMIT :limit
)
ORDER BY 1, 2, 3 LIMIT :limit

-- name: changes_end
-- The transaction up to which everything can be read now; and what is committed of later ones, by trees: up to which
-- transaction, id of an event, and key of an agent.
SELECT h.stamp, b.root, max(b.stamp), max(b.id), max(b.key)
FROM (SELECT horizon() AS stamp) h LEFT JOIN LATERAL (
    SELECT root, stamp, id, 0::bigint AS key FROM events WHERE stamp >= h.stamp
    UNION ALL
    SELECT root, born, 0, key FROM agents WHERE born >= h.stamp
) b ON true
GROUP BY h.stamp, b.root

-- name: newest_changes
-- The newest of each that can be read now.
SELECT
    (SELECT (stamp, id) FROM events WHERE stamp < (SELECT horizon()) ORDER BY stamp DESC, id DESC LIMIT 1)::text,
    (SELECT (born, key) FROM agents WHERE born < (SELECT horizon()) ORDER BY born DESC, key DESC LIMIT 1)::text

-- name: outlines
-- Agents by their uuids with their stored segments, 5 columns. Then, in 13 columns more, of those that ever had a planning
-- conversation the events that locate it: all operations, and the `command` events that open one, none erased.
SELECT 0, i.key, i.id, f.body, i.root, <<no_event>>
FROM directory i LEFT JOIN folds f ON f.root = i.root AND f.agent = i.key WHERE i.id = ANY(:agents::text[])
UNION ALL
SELECT 1, NULL, NULL, NULL, NULL, <<event>>
FROM directory i JOIN events e ON e.root = i.root AND e.agent = i.key
WHERE i.id = ANY(:agents::text[]) AND e.kind IN <<indexed>> AND e.kind = 'command' AND e.redacted IS NULL AND e.planning
UNION ALL
SELECT 1, NULL, NULL, NULL, NULL, <<event>>
FROM directory i JOIN events e ON e.root = i.root AND e.agent = i.key
WHERE i.id = ANY(:agents::text[]) AND e.replayed = 1 AND EXISTS (
    SELECT 1 FROM events c
    WHERE c.root = i.root AND c.agent = i.key AND c.kind IN <<indexed>> AND c.kind = 'command' AND c.planning
    UNION ALL
    SELECT 1 FROM events c WHERE c.root = i.root AND c.agent = i.key AND c.replayed = 1 AND c.kind = 'filter' AND c.planning
)

-- name: size
-- Messages and tokens inside segments: sums at the newest less those before the oldest. These sums include erased messages,
-- which are subtracted.
SELECT (coalesce(sum(n.nth), 0) - coalesce(sum(b.nth), 0) - coalesce(sum(ne.messages), 0) + coalesce(sum(be.messages), 0))::bigint,
    (coalesce(sum(n.sum), 0) - coalesce(sum(b.sum), 0) - coalesce(sum(ne.tokens), 0) + coalesce(sum(be.tokens), 0))::bigint
FROM <<segments>>
LEFT JOIN LATERAL (SELECT id, nth, sum FROM events WHERE <<of s>> AND nth IS NOT NULL AND id <= s.last ORDER BY id DESC LIMIT 1) n
    ON true
LEFT JOIN LATERAL (SELECT id, nth, sum FROM events WHERE <<of s>> AND nth IS NOT NULL AND id < s.first ORDER BY id DESC LIMIT 1) b
    ON true
LEFT JOIN LATERAL (SELECT messages, tokens FROM redacted_sums WHERE <<of s>> AND event < n.id ORDER BY event DESC LIMIT 1) ne
    ON true
LEFT JOIN LATERAL (SELECT messages, tokens FROM redacted_sums WHERE <<of s>> AND event < b.id ORDER BY event DESC LIMIT 1) be
    ON true

-- name: newest_message
-- The turn and the kind of an agent's newest message up to an id.
SELECT turn, kind FROM events WHERE root = :root AND agent = :agent AND nth IS NOT NULL AND id <= :until
ORDER BY id DESC LIMIT 1

-- name: turns
-- The messages of some turns. A summary is a turn of its own in the middle of another.
SELECT <<message>>
FROM unnest(:roots::bigint[], :ids::bigint[]) AS i (root, id) JOIN events o ON o.root = i.root AND o.id = i.id AND o.turn = o.id
CROSS JOIN LATERAL (
    SELECT * FROM events
    WHERE root = o.root AND agent = o.agent AND nth IS NOT NULL AND turn = o.id AND id >= o.id AND id < coalesce((
        SELECT id FROM events
        WHERE root = o.root AND agent = o.agent AND nth IS NOT NULL AND id > o.id AND turn IS DISTINCT FROM o.id AND kind <> 'summary'
        ORDER BY id LIMIT 1
    ), 9223372036854775807)
) e

-- name: next_to
-- For each place up to `count` of its agent's messages up to it and after it, by the place's number.
SELECT s.number - 1, <<message>>
FROM unnest(:roots::bigint[], :agents::bigint[], :ids::bigint[]) WITH ORDINALITY AS s (root, agent, id, number)
CROSS JOIN LATERAL (
    (SELECT * FROM events WHERE root = s.root AND agent = s.agent AND nth IS NOT NULL AND id <= s.id ORDER BY id DESC LIMIT :count)
    UNION ALL
    (SELECT * FROM events WHERE root = s.root AND agent = s.agent AND nth IS NOT NULL AND id > s.id ORDER BY id LIMIT :count)
) e

-- name: surroundings
-- Found messages, and the tool of each call or result. Each comes with the beginning of the person's text: of the message
-- itself, or else of its turn's first that is not the client's. And with JSON [[id, messages of its agent before that], ...]: its turn (itself
-- outside of turns), so many turns after it, the end.
SELECT e.id, coalesce(a.id, 'unknown agent ' || e.agent), a.name, e.kind, e.turn, e.created_at,
    coalesce(e.tool, (SELECT c.tool FROM events c WHERE c.root = e.root AND c.id = e.answers)),
    (
        SELECT substr(o.content, 1, :beginning::int) FROM events o
        WHERE o.root = e.root AND o.kind = 'user' AND o.id = CASE WHEN e.kind = 'user' THEN e.id ELSE (
            SELECT id FROM events WHERE root = e.root AND agent = e.agent AND nth IS NOT NULL AND id >= e.turn AND kind <> 'client'
            ORDER BY id LIMIT 1
        ) END AND (e.kind = 'user' OR o.turn = e.turn)
    ),
    (
        SELECT json_agg(json_build_array(p.id, coalesce((
            SELECT b.nth - coalesce((
                SELECT messages FROM redacted_sums
                WHERE root = b.root AND agent = b.agent AND event < b.id ORDER BY event DESC LIMIT 1
            ), 0)
            FROM events b WHERE b.root = e.root AND b.agent = e.agent AND b.nth IS NOT NULL AND b.id < p.id ORDER BY b.id DESC LIMIT 1
        ), 0)))::text
        FROM (
            SELECT coalesce(e.turn, e.id) AS id
            UNION ALL
            (SELECT id FROM events WHERE root = e.root AND agent = e.agent AND nth IS NOT NULL AND turn = id AND id > e.turn
            ORDER BY id LIMIT :turns)
            UNION ALL
            SELECT :end::bigint
        ) p
    )
FROM unnest(:roots::bigint[], :ids::bigint[]) WITH ORDINALITY AS i (root, id, place)
JOIN events e ON e.root = i.root AND e.id = i.id LEFT JOIN agents a ON a.root = e.root AND a.key = e.agent
ORDER BY i.place

-- name: erase
-- Replaces erased events with what remains of them.
UPDATE events e SET content = '', data = d.data, tokens = 0, nth = NULL, sum = NULL, apart = NULL, redacted = :by,
    checksum = NULL, tool = NULL, planning = e.planning AND d.data IS NOT NULL, stateful = false
FROM unnest(:ids::bigint[], :datas::text[]) AS d (id, data) WHERE e.root = :root AND e.id = d.id

-- name: lower_totals
-- Lowers the totals of an agent by what was erased.
UPDATE agents SET messages = messages - :messages, tokens = tokens - :tokens, gone_messages = gone_messages + :messages,
    gone_tokens = gone_tokens + :tokens, newest_turn = NULL, newest_kind = NULL
WHERE <<row>>

-- name: forget_totals
-- Sets the totals of an agent that was erased as a whole to zero.
UPDATE agents SET messages = 0, tokens = 0, gone_messages = 0, gone_tokens = 0, newest_turn = NULL, newest_kind = NULL
WHERE <<row>>

-- name: carried
-- Removes mail that a message has carried.
DELETE FROM unread WHERE <<own>> AND mail <<among mail>>

-- name: own
-- Records the owners of the texts of a request, unless they were erased since.
INSERT INTO text_owners (root, agent, turn, memo, hash)
SELECT :root, :agent, o.turn, o.memo, o.hash
FROM unnest(:hashes::text[], :turns::bigint[], :memos::bigint[]) AS o (hash, turn, memo)
WHERE EXISTS (SELECT 1 FROM texts t WHERE t.hash = o.hash)
    AND NOT EXISTS (SELECT 1 FROM events e WHERE e.root = :root AND e.id = o.turn AND e.redacted IS NOT NULL)
ON CONFLICT DO NOTHING

-- name: share_texts
-- Keeps others from erasing texts until the end of this transaction.
LOCK TABLE texts IN ROW EXCLUSIVE MODE

-- name: lock_texts
-- Keeps others from recording requests until the end of this transaction: one could need a text that is removed.
LOCK TABLE texts IN SHARE ROW EXCLUSIVE MODE

-- name: number_memo
-- The number of the next memo. Others that save one wait for the end of this transaction: memos are numbered in the
-- order of commits, so that an event can name the newest memo before it.
UPDATE numbers SET value = value + 1 WHERE name = 'memos' RETURNING value

-- name: save_memo
-- Adds a memo.
INSERT INTO memos (id, agent, actor, created_at, content, words)
VALUES (:id, :agent::bigint, :actor, :created_at, :content, '')

-- name: index_memo
-- Stores the words of a memo, in order.
UPDATE memos SET words = :line WHERE id = :memo

-- name: index_memo_words
-- Stores the words of a memo, each once.
INSERT INTO memo_words (word, memo) SELECT word, :memo FROM unnest(:words::text[]) AS w (word)

-- name: memo_before
-- For the number of each of some events the newest memo that its tree had recorded by then.
SELECT i.number - 1, coalesce((
    SELECT memos FROM memo_marks WHERE root = i.root AND event <= i.id ORDER BY event DESC LIMIT 1
), 0)
FROM unnest(:roots::bigint[], :ids::bigint[]) WITH ORDINALITY AS i (root, id, number)

-- name: newest_memo
-- The highest number that a memo ever had.
SELECT value FROM numbers WHERE name = 'memos'

-- name: memos_with
-- The pairs of a word and a memo up to an id that holds it: a word from one to another, and perhaps adjacent words.
SELECT DISTINCT k.number, w.memo
FROM unnest(:numbers::bigint[], :firsts::text[], :lasts::text[], :rows::text[]) AS k (number, first, last, row)
JOIN memo_words w ON w.word >= k.first AND w.word <= k.last AND w.memo <= :most
WHERE k.row = '' OR EXISTS (SELECT 1 FROM memos m WHERE m.id = w.memo AND position(k.row IN m.words) > 0)

-- name: unindex_memo
-- Removes a memo from the index.
DELETE FROM memo_words WHERE memo = :memo

-- name: notify
-- Notifies others of a commit.
SELECT pg_notify('foldmark', :name)

-- name: fate
-- The outcome of a transaction.
SELECT pg_xact_status(:transaction::text::xid8)

-- name: index_words
-- Stores the words of messages of a tree.
INSERT INTO words (root, id, length, words)
SELECT :root, w.* FROM unnest(:ids::bigint[], :lengths::bigint[], :words::text[]) AS w

-- name: index_long_words
-- Stores a piece of the distinct words of a message that has many.
INSERT INTO long_words (root, id, piece, lexemes) VALUES (:root, :id, :piece, array_to_tsvector(:words::text[]))

-- name: unindex_words
-- Removes the words of messages of a tree.
DELETE FROM words WHERE root = :root AND id <<among ids>>

-- name: unindex_long_words
-- Removes their pieces.
DELETE FROM long_words WHERE root = :root AND id <<among ids>>

-- name: words_of_messages
-- The next messages with a text, in the order of trees and ids, and the words that each is found by.
SELECT e.root, e.id, e.kind, e.content, e.tool, w.length, w.words
FROM events e LEFT JOIN words w ON w.root = e.root AND w.id = e.id
WHERE (e.root, e.id) > (:root, :id) AND e.nth IS NOT NULL AND e.content <> '' ORDER BY e.root, e.id LIMIT :limit

-- name: words_of_nothing
-- The number of rows in the index that are no messages.
SELECT count(*) FROM words w LEFT JOIN events e ON e.root = w.root AND e.id = w.id AND e.nth IS NOT NULL AND e.content <> ''
WHERE e.id IS NULL

-- name: erase_vectors
-- Removes the vectors of messages.
DELETE FROM vectors WHERE root = :root AND id <<among ids>>

-- name: erase_signatures
-- Empties the signatures of messages; a reader that has come to one of them continues after it.
UPDATE signatures SET signatures = '' WHERE root = :root AND id <<among ids>>

-- name: advance_embedder
-- Stores the event up to which vectors exist, unless a later one is stored.
UPDATE embedders m SET until = e.id, stamp = e.stamp FROM blocks b JOIN events e ON e.root = b.root
WHERE m.key = :embedder AND b.block = :until >> 12 AND e.id = :until AND (m.stamp, m.until) < (e.stamp, e.id)

-- name: newest_event
-- The newest event before which nothing more can be committed.
SELECT coalesce((
    SELECT id FROM events WHERE stamp < <<readable>>
    ORDER BY stamp DESC, id DESC LIMIT 1
), 0)

-- name: to_embed
-- The next messages that people or models wrote, in the order of changes, each with the text before it in its
-- conversation.
SELECT e.id, <<beginning e :longest>>, (
    SELECT <<beginning b :longest>>
    FROM events b WHERE b.root = e.root AND b.agent = e.agent AND b.nth IS NOT NULL AND b.id < e.id
    ORDER BY b.id DESC LIMIT 1
)
FROM events e
WHERE (e.stamp, e.id) > (coalesce((
        SELECT u.stamp FROM blocks b JOIN events u ON u.root = b.root AND u.id = :until WHERE b.block = :until >> 12
    ), -1), :until)
    AND e.stamp < <<readable>>
    AND <<embeddable>>
ORDER BY e.stamp, e.id LIMIT :most

-- name: save_vectors
-- Stores the vectors of a message, unless it was erased meanwhile.
INSERT INTO vectors (root, id, embedder, vectors)
SELECT e.root, e.id, :embedder, :vectors FROM <<id_of :id>> AND e.nth IS NOT NULL AND e.content <> ''
ON CONFLICT (root, id, embedder) DO UPDATE SET vectors = excluded.vectors

-- name: save_signatures
-- Stores the signatures of a message: the signs of its vectors' components.
INSERT INTO signatures (root, id, embedder, signatures)
SELECT e.root, e.id, :embedder, :signature FROM <<id_of :id>> AND e.nth IS NOT NULL AND e.content <> ''
ON CONFLICT (root, id, embedder) DO UPDATE SET signatures = excluded.signatures

-- name: signatures
-- The next signatures of a model after that of an event, in the order in which they were stored.
SELECT n.id, n.signatures FROM embedders m JOIN signatures n ON n.embedder = m.key AND n.place > coalesce((
    SELECT s.place FROM blocks b JOIN signatures s ON s.root = b.root
    WHERE b.block = :after >> 12 AND s.id = :after AND s.embedder = m.key
), 0)
WHERE m.fingerprint = :fingerprint ORDER BY n.place LIMIT :page

-- name: vectors
-- The vectors of messages, in no order.
SELECT v.id, v.vectors FROM embedders m CROSS JOIN unnest(:ids::bigint[]) AS i (id)
JOIN blocks b ON b.block = i.id >> 12 JOIN vectors v ON v.root = b.root AND v.id = i.id AND v.embedder = m.key
WHERE m.fingerprint = :fingerprint

-- name: coverage
-- The number of messages with vectors of a model, the number of all, and the bytes of the vectors.
SELECT (SELECT count(*) FROM events e WHERE <<embeddable>> AND (e.stamp, e.id) <= (m.stamp, m.until)),
    (SELECT count(*) FROM events e WHERE <<embeddable>>),
    (SELECT coalesce(sum(octet_length(vectors)), 0)::bigint FROM vectors WHERE embedder = m.key)
        + (SELECT coalesce(sum(octet_length(signatures)), 0)::bigint FROM signatures WHERE embedder = m.key)
FROM (SELECT max(key) AS key, coalesce(max(stamp), -1) AS stamp, coalesce(max(until), 0) AS until
    FROM embedders WHERE fingerprint = :fingerprint) m

-- name: all_events
-- A page of all events after one, with the columns for their checks; the first columns are those of their checksums.
SELECT root, id, agent, turn, kind, dialect, actor, created_at, interrupted, call_id, answers, nth, tokens, redacted,
    tool, planning, stateful, checksum, content, data
FROM events WHERE (root, id) > (:root::bigint, :id::bigint) ORDER BY root, id LIMIT :limit

-- name: wrong_sums
-- The first message of each agent whose running count or sum does not match its events and those erased before it.
SELECT a.id, min(m.id) FROM (
    SELECT root, id, agent, nth, sum, row_number() OVER w AS n, sum(tokens) OVER w AS s
    FROM events WHERE nth IS NOT NULL WINDOW w AS (PARTITION BY root, agent ORDER BY id)
) m JOIN agents a ON a.root = m.root AND a.key = m.agent LEFT JOIN LATERAL (
    SELECT messages, tokens FROM redacted_sums r
    WHERE r.root = m.root AND r.agent = m.agent AND r.event < m.id ORDER BY r.event DESC LIMIT 1
) e ON true
WHERE m.nth <> m.n + coalesce(e.messages, 0) OR m.sum <> m.s + coalesce(e.tokens, 0)
GROUP BY a.root, a.key, a.id ORDER BY a.key

-- name: wrong_totals
-- Agents whose rows do not match their erased messages.
SELECT a.id FROM agents a LEFT JOIN LATERAL (
    SELECT messages, tokens FROM redacted_sums r
    WHERE r.root = a.root AND r.agent = a.key ORDER BY r.event DESC LIMIT 1
) r ON true
WHERE (a.gone_messages, a.gone_tokens) <> (coalesce(r.messages, 0), coalesce(r.tokens, 0))
ORDER BY a.key

-- name: wrong_directory
-- Agents that are not found by their uuids or names.
SELECT a.id FROM agents a LEFT JOIN directory d ON d.id = a.id LEFT JOIN names n ON n.name = a.name
WHERE d.key IS DISTINCT FROM a.key OR d.root IS DISTINCT FROM a.root
    OR (a.name IS NOT NULL AND n.root IS DISTINCT FROM a.root)

-- name: all_texts
-- A page of the texts that requests need, with their hashes.
SELECT hash, text FROM texts WHERE hash > :after ORDER BY hash LIMIT :limit

-- name: all_memos
-- All memos with their tags and words.
SELECT m.id, m.content, ARRAY(SELECT tag FROM memo_tags t WHERE t.memo = m.id ORDER BY tag), m.words,
    ARRAY(SELECT word FROM memo_words w WHERE w.memo = m.id ORDER BY word)
FROM memos m ORDER BY m.id

-- name: wrong_memo_rows
-- Tags and words without a memo.
SELECT memo FROM memo_tags t WHERE NOT EXISTS (SELECT 1 FROM memos m WHERE m.id = t.memo)
UNION SELECT memo FROM memo_words w WHERE NOT EXISTS (SELECT 1 FROM memos m WHERE m.id = w.memo)

-- name: nobody_reads
-- True if nobody else is reading a moment of this database.
SELECT NOT EXISTS (
    SELECT 1 FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL
)

-- name: event_roots
-- The trees of some events whose blocks belong to several trees.
SELECT e.id, e.root FROM unnest(:ids::bigint[]) AS i (id)
JOIN blocks b ON b.block = i.id >> 12 JOIN events e ON e.root = b.root AND e.id = i.id

-- name: copied_events
-- The next events of a tree after an id with their checksums.
SELECT id, agent, turn, kind, dialect, actor, created_at, interrupted, call_id, answers, apart, redacted, content, data,
    checksum
FROM events WHERE root = :root AND id > :after ORDER BY id LIMIT :limit

-- name: copied_memos
-- The next memos after an id with their tags, each with the newest event, of any tree, that did not know of it.
WITH spans AS (
    SELECT root, memos, event, lead(event) OVER (PARTITION BY root ORDER BY event) AS next
    FROM (
        SELECT root, memos, event FROM memo_marks
        UNION ALL SELECT root, 0, 0 FROM agents WHERE key = root
    ) marks
), known AS (
    SELECT s.memos, max((
        SELECT id FROM events WHERE root = s.root AND id >= s.event AND (s.next IS NULL OR id < s.next)
        ORDER BY id DESC LIMIT 1
    )) AS event
    FROM spans s GROUP BY s.memos
)
SELECT m.id, coalesce((SELECT max(event) FROM known WHERE memos < m.id), 0), a.id, m.actor, m.created_at, m.content,
    ARRAY(SELECT tag FROM memo_tags WHERE memo = m.id ORDER BY tag)
FROM memos m LEFT JOIN directory a ON a.key = m.agent WHERE m.id > :after ORDER BY m.id LIMIT :limit

-- name: raise_number
-- Raises a named counter to this number.
UPDATE numbers SET value = greatest(value, :value) WHERE name = :name RETURNING value

-- name: take_blocks
-- Adds blocks in which trees have ids of copied events.
INSERT INTO blocks (block, root) SELECT block, root FROM unnest(:blocks::bigint[], :roots::bigint[]) AS b (block, root)
ON CONFLICT DO NOTHING

-- name: drawing
-- The trees that would draw further ids in some blocks.
SELECT a.root FROM blocks b JOIN agents a ON a.root = b.root AND a.key = b.root
WHERE b.block = ANY(:blocks::bigint[]) AND a.next_id <= a.last_id AND a.last_id >> 12 = b.block

-- name: bury
-- Adds events that were erased in the source of a copy.
UPDATE events e SET redacted = b.redacted, planning = e.planning, tool = NULL, stateful = false
FROM unnest(:ids::bigint[], :by::bigint[]) AS b (id, redacted) WHERE e.root = :root AND e.id = b.id

-- name: take_memo_marks
-- Records from which event on each tree knows of a copied memo, which was saved after an event.
INSERT INTO memo_marks (root, event, memos)
SELECT a.root, (SELECT id FROM events WHERE root = a.root AND id > :event ORDER BY id LIMIT 1), :memo
FROM agents a WHERE a.key = a.root AND EXISTS (SELECT 1 FROM events WHERE root = a.root AND id > :event)
ON CONFLICT (root, event) DO UPDATE SET memos = greatest(memo_marks.memos, excluded.memos)

-- name: around
-- For each of some messages, by its number: itself and up to `reach` before and after it, in no order. Each comes with
-- the beginning of its text, its time, its agent, the agent's name, its kind, turn and tool.
SELECT o.place, e.id, <<beginning e e.longest>>, e.created_at, coalesce(a.id, 'unknown agent ' || e.agent), a.name,
    e.kind, e.turn, coalesce(e.tool, c.tool)
FROM (
    SELECT i.place, e.root, e.agent, e.id FROM unnest(:ids::bigint[]) WITH ORDINALITY AS i (id, place)
    JOIN blocks b ON b.block = i.id >> 12 JOIN events e ON e.root = b.root AND e.id = i.id
) AS o CROSS JOIN LATERAL (
    (SELECT *, CASE id WHEN o.id THEN :whole::integer ELSE :cut::integer END AS longest
    FROM events WHERE root = o.root AND agent = o.agent AND nth IS NOT NULL AND id <= o.id ORDER BY id DESC LIMIT :reach::bigint + 1)
    UNION ALL
    (SELECT *, :cut::integer
    FROM events WHERE root = o.root AND agent = o.agent AND nth IS NOT NULL AND id > o.id ORDER BY id LIMIT :reach::bigint)
) AS e LEFT JOIN agents a ON a.root = e.root AND a.key = e.agent LEFT JOIN events c ON c.root = e.root AND c.id = e.answers
WHERE e.content <> ''

-- name: arrive
-- Adds unread mail.
INSERT INTO unread (root, agent, mail) SELECT :root, :agent, mail FROM unnest(:mail::bigint[]) AS m (mail)
