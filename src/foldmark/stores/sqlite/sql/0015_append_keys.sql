-- The keys that callers gave to appends which may be repeated, with the ids of their events, a JSON array. docs/format.md
-- describes every column.
CREATE TABLE append_keys (
    agent INTEGER NOT NULL REFERENCES agents (key),
    key TEXT NOT NULL,
    ids TEXT NOT NULL,
    PRIMARY KEY (agent, key)
) STRICT, WITHOUT ROWID;
