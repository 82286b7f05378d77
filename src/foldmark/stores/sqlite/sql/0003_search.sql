-- The words of all messages, for /recall. Every row of `search` has its text in `searchable`, so none is stored twice.

-- The text of a message as it is searched. Of a tool call that is its name and its arguments, in whose JSON the escapes
-- become spaces, lest the `n` of a line end stick to the word behind it. What is erased has no text, and no row here.
CREATE VIEW searchable (id, text) AS
SELECT id, CASE kind
    WHEN 'tool_call' THEN coalesce(CASE WHEN json_valid(data) THEN json_extract(data, '$.name') END, '') || ' '
        || replace(replace(replace(replace(content, '\\', ' '), '\n', ' '), '\t', ' '), '\r', ' ')
    ELSE content
END
FROM events WHERE nth IS NOT NULL AND content <> '';

CREATE VIRTUAL TABLE search USING fts5 (
    text, content = 'searchable', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);

-- What is taken out of the index leaves no trace in it.
INSERT INTO search (search, rank) VALUES ('secure-delete', 1);

INSERT INTO search (rowid, text) SELECT id, text FROM searchable ORDER BY id;

-- How many turns lie between two: one entry for each turn, that of the message which opened it.
CREATE INDEX turn_openers ON events (agent, id) WHERE nth IS NOT NULL AND turn = id;
