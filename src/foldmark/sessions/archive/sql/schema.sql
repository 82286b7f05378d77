-- Session files that are indexed, or not to be, up to `line` and `offset`. `path` is as the system has it, below the
-- archive if it is in there. `state` is indexed, folder (excluded by its folder) or marked (by a marker in it);
-- `first` and `last` are the times of its messages in milliseconds; `calls` are those without a result so far, as JSON
-- id -> tool.
CREATE TABLE files (
    id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, kind TEXT NOT NULL, session TEXT NOT NULL, project TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'indexed', size INTEGER NOT NULL DEFAULT 0, modified INTEGER NOT NULL DEFAULT 0,
    line INTEGER NOT NULL DEFAULT 0, offset INTEGER NOT NULL DEFAULT 0,
    cwd TEXT, title TEXT, parent TEXT, why TEXT, first INTEGER, last INTEGER, calls TEXT NOT NULL DEFAULT '{}'
);
-- Session files as they were when they were last archived; `state` as in `Put`, or folder (excluded by it), or held:
-- the archive has all of it.
CREATE TABLE sources (
    path BLOB PRIMARY KEY, size INTEGER NOT NULL, modified INTEGER NOT NULL, state TEXT NOT NULL, cwd TEXT
) WITHOUT ROWID;
-- An id is never given a second time: vectors are made by it while other messages come and go.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER NOT NULL, line INTEGER NOT NULL, offset INTEGER NOT NULL,
    part INTEGER NOT NULL, role TEXT NOT NULL, tool TEXT, moment INTEGER, key INTEGER NOT NULL
);
CREATE INDEX messages_of_file ON messages (file, offset);
CREATE INDEX messages_of_key ON messages (key) WHERE role IN ('user', 'assistant');
-- Models of embeddings and the message up to which there are vectors; of a message's passages one behind the other, and
-- apart from them the signs of their components. The first copy of a message has them, while it is in the index.
CREATE TABLE embedders (
    key INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, until INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE vectors (
    message INTEGER NOT NULL, embedder INTEGER NOT NULL, vectors BLOB NOT NULL, PRIMARY KEY (message, embedder)
) WITHOUT ROWID;
CREATE TABLE signatures (
    message INTEGER NOT NULL, embedder INTEGER NOT NULL, signatures BLOB NOT NULL, PRIMARY KEY (message, embedder)
) WITHOUT ROWID;
CREATE TRIGGER vectors_of_gone AFTER DELETE ON messages WHEN old.role IN ('user', 'assistant') BEGIN
    UPDATE OR REPLACE vectors SET message = next.id FROM (
        SELECT min(id) AS id FROM messages WHERE key = old.key AND role IN ('user', 'assistant')
    ) next WHERE message = old.id AND next.id IS NOT NULL;
    DELETE FROM vectors WHERE message = old.id;
    UPDATE OR REPLACE signatures SET message = next.id FROM (
        SELECT min(id) AS id FROM messages WHERE key = old.key AND role IN ('user', 'assistant')
    ) next WHERE message = old.id AND next.id IS NOT NULL;
    DELETE FROM signatures WHERE message = old.id;
END;
CREATE VIRTUAL TABLE words USING fts5 (
    text, parts, content = '', contentless_delete = 1,
    tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
);
