-- The statements of the archive's index, each with its name and what it does. Times are in milliseconds.

-- Files and their messages

-- name: files
-- All files with their position and state.
SELECT path, id, size, modified, offset, state, cwd, project FROM files

-- name: file
-- A file by its path, with what is known of its session.
SELECT id, line, offset, cwd, title, parent, why, first, last, calls, project, session FROM files WHERE path = :path

-- name: add_file
-- Adds a file that is not indexed yet.
INSERT INTO files (path, kind, session, project) VALUES (:path, :kind, :session, :project)

-- name: save_file
-- Stores how far a file is indexed, and what is known of its session.
UPDATE files SET state = :state, size = :size, modified = :modified, line = :line, offset = :offset, cwd = :cwd,
    title = :title, parent = :parent, why = :why, first = :first, last = :last, calls = :calls
WHERE id = :id

-- name: reset_file
-- Makes a file as new.
UPDATE files SET state = 'indexed', size = 0, modified = 0, line = 0, offset = 0, cwd = NULL, title = NULL,
    parent = NULL, why = NULL, first = NULL, last = NULL, calls = '{}'
WHERE id = :id

-- name: remove_file
-- Removes a file.
DELETE FROM files WHERE id = :id

-- name: next_message
-- The id of the next message.
SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'messages'

-- name: times
-- The time and the place of each line with messages of a file.
SELECT DISTINCT moment, line, offset FROM messages WHERE file = :file

-- name: add_message
-- Adds a message.
INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_words
-- Adds the words of a message.
INSERT INTO words (rowid, text, parts) VALUES (?, ?, ?)

-- name: remove_words
-- Removes the words of a file's messages from `offset` on.
DELETE FROM words WHERE rowid IN (SELECT id FROM messages WHERE file = :file AND offset >= :offset)

-- name: remove_messages
-- Removes these messages.
DELETE FROM messages WHERE file = :file AND offset >= :offset

-- name: sources
-- Session files as they were last archived.
SELECT path, size, modified, state, cwd FROM sources

-- name: save_source
-- Stores a session file as it was archived.
INSERT OR REPLACE INTO sources VALUES (:path, :size, :modified, :state, :cwd)

-- Sessions

-- name: archived
-- The indexed sessions, file by file, the newest file last.
SELECT kind, session, path, coalesce(cwd, project), title, parent, why, first, last FROM files
WHERE state = 'indexed' ORDER BY last, id

-- name: kind
-- The format of an indexed file.
SELECT kind FROM files WHERE path = :path AND state = 'indexed'

-- name: place
-- The path and the format of a file.
SELECT path, kind FROM files WHERE id = :file

-- name: sessions_alike
-- The files of sessions whose ids begin alike, that of the whole id first, then the longest file.
SELECT session, path, kind FROM files WHERE state = 'indexed' AND substr(session, 1, length(:session)) = :session
ORDER BY session <> :session, size DESC, id LIMIT 10000

-- name: lines_before
-- The last lines with messages in a file up to a line, this one included.
SELECT DISTINCT m.line, m.offset FROM messages m JOIN files f ON f.id = m.file
WHERE f.path = :path AND m.line <= :line ORDER BY m.offset DESC LIMIT :most

-- Search. Each filter is null for no filter; `files` are ids as JSON.

-- name: newest
-- The newest message.
SELECT coalesce(max(id), 0) FROM messages

-- name: counted
-- The number of messages that an FTS5 expression finds, and the last of these, up to so many.
SELECT count(*), max(id) FROM (SELECT rowid AS id FROM words WHERE words MATCH :wanted LIMIT :most)

-- part: passes
(:since IS NULL OR m.moment >= :since) AND (:before IS NULL OR m.moment < :before)
    AND (:agent IS NULL OR substr(f.session, 1, length(:agent)) = :agent)
    AND (:tool IS NULL OR lower(m.tool) = :tool) AND (:role IS NULL OR m.role = :role) AND :visible IS NULL
    AND (:files IS NULL OR f.id IN (SELECT value FROM json_each(:files)))

-- name: best
-- The best messages for an FTS5 expression from message `first` on: the key, the tool, the role, if it is a trimmed
-- copy, and the message.
SELECT m.key, m.tool, m.role, f.why IS 'trim', m.id FROM words w JOIN messages m ON m.id = w.rowid JOIN files f ON f.id = m.file
WHERE w.words MATCH :wanted AND w.rowid >= :first
    AND <<passes>>
ORDER BY w.rank, m.id LIMIT :most

-- name: passing
-- The copy of a message with vectors that `best` would return, if one passes the filters.
SELECT m.id FROM messages o JOIN messages m ON m.key = o.key AND m.role IN ('user', 'assistant')
    JOIN files f ON f.id = m.file
WHERE o.id = :id
    AND <<passes>>
ORDER BY f.why IS 'trim', m.id LIMIT 1

-- name: fitting
-- Those of some messages, ids as JSON, that pass the filters, as in `best`.
SELECT m.key, m.tool, m.role, f.why IS 'trim', m.id FROM messages m JOIN files f ON f.id = m.file
WHERE m.id IN (SELECT value FROM json_each(:ids))
    AND <<passes>>

-- name: around
-- For each of some messages, ids as JSON, by its number: its file, then itself and up to `reach` messages before and
-- after it in the file, in order. A message that is gone has no row.
SELECT i.key AS place, o.file, n.id, n.line, n.offset AS at, n.part AS piece, n.moment
FROM json_each(:ids) i CROSS JOIN messages o ON o.id = i.value CROSS JOIN messages n ON n.id IN (
    SELECT id FROM messages WHERE file = o.file AND (offset, part) <= (o.offset, o.part)
    ORDER BY offset DESC, part DESC LIMIT :reach + 1
)
UNION ALL
SELECT i.key, o.file, n.id, n.line, n.offset, n.part, n.moment
FROM json_each(:ids) i CROSS JOIN messages o ON o.id = i.value CROSS JOIN messages n ON n.id IN (
    SELECT id FROM messages WHERE file = o.file AND (offset, part) > (o.offset, o.part)
    ORDER BY offset, part LIMIT :reach
)
ORDER BY place, at, piece

-- name: result
-- A message as a search shows it.
SELECT m.key, f.kind, f.session, coalesce(f.cwd, f.project), m.role, m.tool, m.moment, f.path, m.line
FROM messages m JOIN files f ON f.id = m.file WHERE m.id = :id

-- Vectors. Only messages of a person or a model have some, and of several copies only the first.

-- name: advance_embedder
-- Stores the message up to which vectors exist.
UPDATE embedders SET until = max(until, :until) WHERE key = :embedder

-- part: is_first
m.role IN ('user', 'assistant') AND NOT EXISTS (
    SELECT 1 FROM messages o WHERE o.key = m.key AND o.role IN ('user', 'assistant') AND o.id < m.id
)

-- name: to_embed
-- The next messages without vectors, each with its place and that of the message before it in its file.
SELECT m.id, m.file, m.line, m.offset, m.part, b.line, b.offset, b.part
FROM messages m LEFT JOIN messages b ON b.id = (
    SELECT id FROM messages WHERE file = m.file AND (offset, part) < (m.offset, m.part)
    ORDER BY offset DESC, part DESC LIMIT 1
)
WHERE m.id > :until AND m.id <= :last AND <<is_first>> ORDER BY m.id LIMIT :most

-- name: save_vectors
-- Stores the vectors of a message, unless it is gone.
INSERT OR REPLACE INTO vectors SELECT id, :embedder, :vectors FROM messages WHERE id = :id

-- name: save_signatures
-- Stores the signatures of a message: the signs of its vectors' components.
INSERT OR REPLACE INTO signatures SELECT id, :embedder, :signature FROM messages WHERE id = :id

-- name: signatures
-- The next signatures of a model after a message.
SELECT message, signatures FROM signatures
WHERE message > :after AND <<of_model>>
ORDER BY message LIMIT :page

-- name: vectors
-- The vectors of messages, ids as JSON, in no order. A copy has those of the first.
SELECT m.id, v.vectors FROM json_each(:ids) i JOIN messages m ON m.id = i.value
    JOIN messages o ON o.key = m.key AND o.role IN ('user', 'assistant')
    JOIN vectors v ON v.message = o.id
    AND v.<<of_model>>
WHERE m.role IN ('user', 'assistant')

-- name: coverage
-- The number of messages with vectors of a model, the number of all, and the bytes of the vectors.
SELECT (SELECT count(*) FROM messages m WHERE m.id <= e.until AND <<is_first>>),
    (SELECT count(*) FROM messages m WHERE <<is_first>>),
    (SELECT coalesce(sum(length(vectors)), 0) FROM vectors WHERE embedder = e.key)
        + (SELECT coalesce(sum(length(signatures)), 0) FROM signatures WHERE embedder = e.key)
FROM (SELECT max(key) AS key, coalesce(max(until), 0) AS until FROM embedders WHERE fingerprint = :fingerprint) e
