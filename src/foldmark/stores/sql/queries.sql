-- The statements that all databases have. What a dialect calls otherwise is a part in its own file: `<<own>>` are the rows
-- of one agent, `<<same e a>>` is the condition that two rows are of one tree, `<<among ids>>` that a number is in a list.

-- part: event
e.id, e.agent, e.turn, e.kind, e.content, e.data, e.dialect, e.actor, e.tokens, e.created_at, e.interrupted, e.answers, e.redacted

-- part: message
e.id, e.agent, e.turn, e.kind, e.answers

-- part: agent
a.id, a.name, p.id, a.fork_event, a.created_at, a.head, a.last, a.open_turn, a.messages, a.tokens, a.asked, a.killed, a.deleted, a.archived, coalesce(r.id, a.id)

-- part: agents
agents a LEFT JOIN agents p ON p.root = a.root AND p.key = a.parent LEFT JOIN agents r ON r.root = a.root AND r.key = a.root

-- part: indexed
('state', 'scratchpad', 'system', 'config', 'command', 'summary', 'request', 'usage', 'mail', 'killed', 'window_summary')

-- part: metadata
('request', 'usage', 'mail', 'renamed', 'archived', 'unarchived', 'killed', 'deleted')

-- name: agents
-- All agents, oldest first.
SELECT <<agent>>, a.key, a.root FROM <<agents>> ORDER BY a.key

-- name: children
-- The agents forked from one, oldest first.
SELECT <<agent>>, a.key, a.root FROM <<agents>> WHERE <<children>> ORDER BY a.key

-- name: unstarted
-- The living forks without a message of their own whose model was never asked, oldest first.
SELECT <<agent>>, a.key, a.root FROM <<agents>>
WHERE a.parent IS NOT NULL AND a.messages = 0 AND a.asked = 0 AND a.killed = 0 AND a.deleted = 0 ORDER BY a.key

-- name: overview
-- All agents, oldest first: the time of last use, the time of archiving, and for conversations the stored segments.
SELECT <<agent>>, a.key, a.root,
    coalesce(e.created_at, a.created_at), h.created_at, CASE WHEN a.parent IS NULL THEN f.body END, f.messages, f.tokens
FROM <<agents>> LEFT JOIN events e ON <<same e a>> AND e.id = a.head
LEFT JOIN events h ON a.archived > 0 AND <<same h a>> AND h.id = a.archived LEFT JOIN folds f ON <<same f a>> AND f.agent = a.key
ORDER BY a.key

-- name: events
-- Some events.
SELECT <<event>> FROM <<given>>

-- name: lookup
-- The kinds of some events.
SELECT <<message>> FROM <<given>>

-- name: select
-- Events inside segments, of each at most a page; not in order.
SELECT <<event>> FROM <<segments>> <<inside>>

-- name: locate
-- The same events without their texts.
SELECT <<message>> FROM <<segments>> <<inside>>

-- what: messages
<<of s>> AND nth IS NOT NULL

-- what: openers
<<of s>> AND nth IS NOT NULL AND turn = id

-- what: operations
<<of s>> AND replayed = 1

-- what: erased
<<of s>> AND redacted IS NOT NULL

-- what: apart
<<of s>> AND apart IS NOT NULL

-- what: waiting
<<tree>> AND id IN (SELECT call FROM waiting WHERE <<of s>>)

-- what: unread
<<tree>> AND id IN (SELECT mail FROM unread WHERE <<of s>>)

-- what: restorable
<<of s>> AND kind = 'summary' AND kind IN <<indexed>> AND redacted IS NULL AND <<stateful>>

-- what: kind
-- The one kind is asked for before the list that the index needs: SQLite takes the first of the two for its search.
<<of s>> AND kind = :kind AND kind IN <<indexed>> AND redacted IS NULL

-- what: all
-- Messages merged with other events, each by their index.
<<of s>> AND nth IS NOT NULL
OTHERWISE
<<of s>> AND nth IS NULL

-- name: bounds
-- For each of some segments, in order: the oldest message from its first id, the newest to its last.
SELECT
    (SELECT id FROM events WHERE <<of s>> AND nth IS NOT NULL AND id >= s.first ORDER BY id LIMIT 1),
    (SELECT id FROM events WHERE <<of s>> AND nth IS NOT NULL AND id <= s.last ORDER BY id DESC LIMIT 1)
FROM <<segments>> <<in_turn>>

-- name: results_of
-- The results of some calls, with or without erased ones.
SELECT <<message>> FROM <<answering>> WHERE e.nth IS NOT NULL OR <<flag erased>>

-- name: waiting_call
-- The calls with a provider's call id among those that wait in an agent's open turn, of which there may be thousands:
-- they are not looked through.
SELECT <<message>> FROM events e <<then>> waiting w ON <<same w e>> AND w.agent = e.agent AND w.call = e.id
WHERE <<own e.>> AND e.call_id = :call_id AND e.call_id IS NOT NULL AND e.id >= :turn ORDER BY e.id DESC

-- name: calls_with_id
-- An agent's newest calls with a provider's call id, newest first; ids are meant to be unique, so a few are enough.
SELECT <<message>> FROM events e
WHERE <<own e.>> AND e.call_id = :call_id AND e.call_id IS NOT NULL AND e.kind = 'tool_call' ORDER BY e.id DESC LIMIT 50

-- name: append_ids
-- The ids of the events that an append with this key recorded.
SELECT ids FROM append_keys WHERE <<own>> AND key = :key

-- name: keep_append
-- Records the ids of the events of an append with a key.
INSERT INTO append_keys (<<root>>agent, key, ids) VALUES (<<bound_root>>:agent, :key, :ids)

-- name: rename_agent
-- Sets a conversation's name; null for none.
UPDATE agents SET name = :name WHERE <<row>>

-- name: save_fold
-- Stores the segment cache of an agent.
INSERT INTO folds (<<root>>agent, body, messages, tokens) VALUES (<<bound_root>>:agent, :body, :messages, :tokens)
ON CONFLICT (<<root>>agent) DO UPDATE SET body = excluded.body, messages = excluded.messages, tokens = excluded.tokens

-- name: forget_fold
-- Removes the stored segments of an agent, which later operations made stale.
DELETE FROM folds WHERE <<own>>

-- name: to_erase
-- The events of one turn, from its first id to a last, that still have content to erase; of an agent for turn 0.
SELECT id, kind, CAST(nth AS bigint), data, CAST(coalesce(tokens, 0) AS bigint) FROM events
WHERE <<own>> AND id BETWEEN :turn AND :last AND redacted IS NULL
    AND kind NOT IN ('turn_ended', 'archived', 'unarchived', 'killed', 'deleted')
    AND (:turn = 0 OR (turn = :turn AND kind NOT IN ('scratchpad', 'config'))) ORDER BY id

-- name: note_erased
-- Adds a run of erased messages of an agent, with the sums of all that was erased of it up to this run.
INSERT INTO redacted_sums (<<root>>agent, event, messages, tokens)
SELECT <<bound_root>>:agent, :event, :messages + coalesce(b.messages, 0), :tokens + coalesce(b.tokens, 0)
FROM (SELECT 1) one
LEFT JOIN (SELECT messages, tokens FROM redacted_sums WHERE <<own>> AND event <= :event ORDER BY event DESC LIMIT 1) b ON TRUE

-- name: add_erased
-- Adds sums erased before an event to all later rows.
UPDATE redacted_sums SET messages = messages + :messages, tokens = tokens + :tokens WHERE <<own>> AND event > :event

-- name: forget_erased_sums
-- Removes the erased sums of an agent that was erased as a whole.
DELETE FROM redacted_sums WHERE <<own>>

-- name: forget_unread
-- Removes all unread mail of an agent, which is erased.
DELETE FROM unread WHERE <<own>>

-- name: erase_waiting
-- Removes waiting calls whose content was erased.
DELETE FROM waiting WHERE <<own>> AND call <<among calls>>

-- name: disown_turn
-- Removes what a turn of an agent owns, and returns the hashes of these texts.
DELETE FROM text_owners WHERE <<own>> AND turn = :turn RETURNING hash

-- name: disown_agent
-- Removes what an agent owns, and returns the hashes of these texts.
DELETE FROM text_owners WHERE <<own>> RETURNING hash

-- name: disown_texts
-- Removes an agent's ownership of some texts.
DELETE FROM text_owners WHERE <<own>> AND hash <<among_texts hashes>>

-- name: disown_memo
-- Removes what a memo owns, and returns the hashes of these texts.
DELETE FROM text_owners WHERE memo = :memo AND memo > 0 RETURNING hash

-- name: keep_text
-- Stores a text, unless it exists.
INSERT INTO texts (hash, text) VALUES (:hash, :text) ON CONFLICT DO NOTHING

-- name: kept_texts
-- The texts behind some hashes.
SELECT hash, text FROM texts WHERE hash <<among_texts hashes>>

-- name: erase_texts
-- Removes those of some texts that nothing owns any more.
DELETE FROM texts
WHERE hash <<among_texts hashes>> AND NOT EXISTS (SELECT 1 FROM text_owners o WHERE o.hash = texts.hash)

-- name: text_owners
-- Every owner of a text, and whether the text is there.
SELECT o.agent, o.turn, o.memo, o.hash, EXISTS (SELECT 1 FROM texts t WHERE t.hash = o.hash) FROM text_owners o

-- name: texts_of_nobody
-- Texts without an owner.
SELECT hash FROM texts t WHERE NOT EXISTS (SELECT 1 FROM text_owners o WHERE o.hash = t.hash)

-- part: lease
SELECT d.id, l.holder, l.host, l.process, l.state, l.taken_at, l.until, l.interrupt FROM leases l JOIN <<directory>> d ON d.key = l.agent

-- name: lease
-- An agent's lease.
<<lease>> WHERE <<own l.>>

-- name: held
-- The leases of one runtime.
<<lease>> WHERE l.holder = :holder ORDER BY l.agent

-- name: lend
-- Stores a lease in place of the agent's last one.
INSERT INTO leases (<<root>>agent, holder, host, process, state, taken_at, until, interrupt)
VALUES (<<bound_root>>:agent, :holder, :host, :process, :state, :taken_at, :until, :interrupt)
ON CONFLICT (<<root>>agent) DO UPDATE SET holder = excluded.holder, host = excluded.host, process = excluded.process,
    state = excluded.state, taken_at = excluded.taken_at, until = excluded.until, interrupt = excluded.interrupt

-- name: renew
-- Extends the leases of a runtime.
UPDATE leases SET until = :until WHERE holder = :holder

-- name: give_back
-- Ends a lease.
DELETE FROM leases WHERE <<own>>

-- name: memos
-- Some memos with their tags.
SELECT m.id, m.content, <<tags_of m.id>>, d.id, m.actor, m.created_at
FROM memos m LEFT JOIN <<directory>> d ON d.key = m.agent WHERE m.id <<among memos>>

-- name: newest_memos
-- The newest memos, newest first.
SELECT id FROM memos ORDER BY id DESC LIMIT :limit

-- name: memos_tagged
-- The memos with a tag.
SELECT memo FROM memo_tags WHERE tag = :tag

-- name: memo_tags
-- The tags, and the number of memos with each.
SELECT tag, count(*) FROM memo_tags GROUP BY tag ORDER BY tag LIMIT :limit

-- name: tag_memo
-- Adds a tag to a memo.
INSERT INTO memo_tags (tag, memo) VALUES (:tag, :memo)

-- name: untag_memo
-- Removes a memo's tags.
DELETE FROM memo_tags WHERE memo = :memo

-- name: erase_memo
-- Removes a memo.
DELETE FROM memos WHERE id = :memo

-- name: wrong_rows
-- Each agent's row, beside the values that its events give.
SELECT a.id, a.head, a.last, a.messages, a.tokens, a.open_turn, a.asked, a.killed, a.deleted, a.archived,
    coalesce(e.newest, 0), coalesce(e.last, 0), coalesce(e.messages, 0), coalesce(e.tokens, 0),
    CASE WHEN e.newest_turn > coalesce(e.newest_end, 0) THEN e.newest_turn END, coalesce(e.asked, 0),
    coalesce(e.killed, 0), coalesce(e.deleted, 0), CASE WHEN e.archived > coalesce(e.back, 0) THEN e.archived ELSE 0 END
FROM agents a LEFT JOIN (
    SELECT <<root>>agent,
        max(id) FILTER (WHERE kind NOT IN <<metadata>>) AS newest,
        max(id) AS last,
        count(*) FILTER (WHERE nth IS NOT NULL) AS messages,
        CAST(sum(tokens) FILTER (WHERE nth IS NOT NULL) AS bigint) AS tokens,
        max(turn) FILTER (WHERE nth IS NOT NULL AND kind NOT IN ('summary', 'system')) AS newest_turn,
        max(id) FILTER (WHERE kind = 'turn_ended') AS newest_end,
        max(id) FILTER (WHERE kind = 'request') AS asked,
        max(id) FILTER (WHERE kind = 'killed') AS killed,
        max(id) FILTER (WHERE kind = 'deleted') AS deleted,
        max(id) FILTER (WHERE kind = 'archived') AS archived,
        max(id) FILTER (WHERE kind IN ('unarchived', 'deleted')) AS back
    FROM events GROUP BY <<root>>agent
) e ON <<same e a>> AND e.agent = a.key ORDER BY a.key

-- name: wrong_waiting
-- The number of calls of each agent that are wrongly recorded as waiting, or wrongly missing there.
SELECT a.id, count(*) FROM (
    SELECT <<rooted e>> e.agent, e.id FROM agents o
    JOIN events e ON <<same e o>> AND e.agent = o.key AND e.nth IS NOT NULL AND e.id >= o.open_turn
    WHERE e.kind = 'tool_call' AND NOT EXISTS (SELECT 1 FROM events r WHERE <<same r e>> AND r.answers = e.id)
) c FULL JOIN waiting w ON <<same w c>> AND w.agent = c.agent AND w.call = c.id
JOIN agents a ON <<whose>> AND a.key = coalesce(c.agent, w.agent)
WHERE w.call IS NULL OR c.id IS NULL GROUP BY a.key, a.id ORDER BY a.key

-- name: wrong_replayed
-- Events that are marked for the replay and are none of the kinds that it reads, or the other way round.
SELECT id, CASE WHEN replayed = 1 THEN 'is' ELSE 'is not' END FROM events WHERE (coalesce(replayed, 0) = 1) <> (
    kind <<among_texts kinds>> OR (kind = 'turn_ended' AND data IS NOT NULL)
)

-- name: wrong_deletions
-- Deleted agents with a child that is not deleted.
SELECT a.id, c.id FROM agents a JOIN agents c ON c.root = a.root AND c.parent = a.key WHERE a.deleted > 0 AND c.deleted = 0

-- name: wrong_remains
-- Deleted agents with events that still hold text.
SELECT a.id, count(*) FROM agents a JOIN events e ON <<same e a>> AND e.agent = a.key
WHERE a.deleted > 0 AND e.content <> '' GROUP BY a.id

-- name: wrong_names
-- Agents whose name is not the newest that an event gave them; deleted agents that still have one.
SELECT a.id, a.name FROM agents a WHERE a.name IS NOT NULL AND (a.deleted > 0 OR a.name <> (
    SELECT e.content FROM events e
    WHERE <<same e a>> AND e.agent = a.key AND e.kind = 'renamed' AND e.redacted IS NULL ORDER BY e.id DESC LIMIT 1
))

-- name: wrong_archive
-- Forks that are recorded as archived.
SELECT id FROM agents WHERE archived > 0 AND parent IS NOT NULL

-- name: wrong_roots
-- Agents that are recorded in another tree than their parent's.
SELECT a.id FROM agents a LEFT JOIN agents p ON p.root = a.root AND p.key = a.parent
WHERE CASE WHEN a.parent IS NULL THEN a.root <> a.key ELSE p.key IS NULL END

-- name: all_mail
-- A page of all mail, and of messages that may carry some, after an event, with whether it is unread.
SELECT <<root_of e>>, e.id, e.agent, e.kind, e.data, e.redacted IS NOT NULL,
    EXISTS (SELECT 1 FROM unread u WHERE <<same u e>> AND u.agent = e.agent AND u.mail = e.id)
FROM events e WHERE <<after e>> AND (e.kind = 'mail' OR (e.kind = 'user' AND <<holds e.data '"mail"'>>)) <<in_order e>> LIMIT :limit

-- name: requests
-- A page of all requests after an event, and whether the message that opened their turn is erased.
SELECT <<root_of e>>, e.id, e.agent, e.turn, e.data, t.redacted IS NOT NULL
FROM events e LEFT JOIN events t ON <<same t e>> AND t.id = e.turn
WHERE <<after e>> AND e.kind = 'request' AND e.redacted IS NULL <<in_order e>> LIMIT :limit
