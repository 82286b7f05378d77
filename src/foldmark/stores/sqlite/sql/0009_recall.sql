-- The index of words holds stems, and beside each text the words that SQLite's tokenizer does not see in it. Vectors of
-- texts, where a model for them is installed. docs/format.md describes every column.

-- Parts of names in code and pairs of characters of scripts without spaces, as foldmark.stores.sqlite_frozen has them.
-- Only messages that have any have a row.
CREATE TABLE parts (
    event INTEGER PRIMARY KEY REFERENCES events (id),
    words TEXT NOT NULL
) STRICT;

INSERT INTO parts (event, words)
SELECT id, words FROM (SELECT id, parts_0009(text) AS words FROM searchable) WHERE words <> '';

DROP TABLE search;

DROP VIEW searchable;

-- The text of a message as it is searched. Of a tool call that is its name and its arguments, in whose JSON the escapes
-- become spaces, lest the `n` of a line end stick to the word behind it. What is erased has no text, and no row here.
CREATE VIEW searchable (id, text, parts) AS
SELECT e.id, CASE kind
    WHEN 'tool_call' THEN coalesce(CASE WHEN json_valid(data) THEN json_extract(data, '$.name') END, '') || ' '
        || replace(replace(replace(replace(content, '\\', ' '), '\n', ' '), '\t', ' '), '\r', ' ')
    ELSE content
END, coalesce(p.words, '')
FROM events e LEFT JOIN parts p ON p.event = e.id WHERE e.nth IS NOT NULL AND e.content <> '';

CREATE VIRTUAL TABLE search USING fts5 (
    text, parts, content = 'searchable', content_rowid = 'id',
    tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
);

-- What is taken out of the index leaves no trace in it.
INSERT INTO search (search, rank) VALUES ('secure-delete', 1);

INSERT INTO search (rowid, text, parts) SELECT id, text, parts FROM searchable ORDER BY id;

-- Models that texts were given to, each by what tells it from others, and the newest event that this was done up to.
CREATE TABLE embedders (
    key INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,
    until INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The vectors of a message's passages one behind the other; and apart from them, to be read all at once, the signs of
-- their components.
CREATE TABLE vectors (
    event INTEGER NOT NULL REFERENCES events (id),
    embedder INTEGER NOT NULL REFERENCES embedders (key),
    vectors BLOB NOT NULL,
    PRIMARY KEY (event, embedder)
) STRICT, WITHOUT ROWID;

CREATE TABLE signatures (
    event INTEGER NOT NULL REFERENCES events (id),
    embedder INTEGER NOT NULL REFERENCES embedders (key),
    signatures BLOB NOT NULL,
    PRIMARY KEY (event, embedder)
) STRICT, WITHOUT ROWID;
