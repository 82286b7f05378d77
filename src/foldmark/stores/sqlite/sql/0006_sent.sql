-- What was sent to models, as ids and hashes, so that it can be rebuilt. docs/format.md describes every column.

-- Every text once, by its SHA-256.
CREATE TABLE texts (
    hash TEXT PRIMARY KEY,
    text TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sent (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    agent INTEGER NOT NULL REFERENCES agents (key),
    event INTEGER NOT NULL,
    turn INTEGER,
    created_at TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    data TEXT NOT NULL
) STRICT;

CREATE INDEX sent_by_agent ON sent (agent, id);

CREATE INDEX sent_by_turn ON sent (turn) WHERE turn IS NOT NULL;
