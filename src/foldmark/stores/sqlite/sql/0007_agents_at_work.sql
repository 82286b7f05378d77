-- Who runs which agent, memos, and summaries of what the window cut. docs/format.md describes every column.

-- A runtime holds a lease on each agent that it runs, and renews it; beyond `until` whoever comes next may take it.
CREATE TABLE leases (
    agent INTEGER PRIMARY KEY REFERENCES agents (key),
    holder TEXT NOT NULL,
    host TEXT NOT NULL,
    process INTEGER NOT NULL,
    state TEXT NOT NULL,
    taken_at TEXT NOT NULL,
    until TEXT NOT NULL,
    interrupt INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX leases_by_holder ON leases (holder);

-- Memos belong to the database. `event` is the newest event that there was when it was saved: what a turn is given does
-- not change inside it. `agent` is where it was saved; what is left of one that was removed is its id.
CREATE TABLE memos (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    event INTEGER NOT NULL,
    agent INTEGER REFERENCES agents (key),
    actor TEXT NOT NULL,
    created_at TEXT NOT NULL,
    content TEXT NOT NULL
) STRICT;

CREATE TABLE memo_tags (
    tag TEXT NOT NULL,
    memo INTEGER NOT NULL REFERENCES memos (id),
    PRIMARY KEY (tag, memo)
) STRICT, WITHOUT ROWID;

CREATE INDEX tags_by_memo ON memo_tags (memo);

CREATE VIRTUAL TABLE memo_words USING fts5 (content, tags, tokenize = 'unicode61 remove_diacritics 2');

INSERT INTO memo_words (memo_words, rank) VALUES ('secure-delete', 1);

-- The newest summary of what the window cut is looked up by its kind.
DROP INDEX anchors;

CREATE INDEX anchors ON events (agent, kind, id)
WHERE kind IN ('state', 'scratchpad', 'system', 'config', 'command', 'summary', 'usage', 'window_summary');
