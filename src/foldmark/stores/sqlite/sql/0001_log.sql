-- The log of all agents and the stored segment cache. docs/format.md describes every column.

CREATE TABLE agents (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT UNIQUE,
    parent INTEGER REFERENCES agents (key),
    fork_event INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    head INTEGER NOT NULL DEFAULT 0,
    open_turn INTEGER,
    messages INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX agents_by_parent ON agents (parent) WHERE parent IS NOT NULL;

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    agent INTEGER NOT NULL REFERENCES agents (key),
    turn INTEGER,
    kind TEXT NOT NULL,
    dialect TEXT,
    actor TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    interrupted INTEGER NOT NULL DEFAULT 0,
    call_id TEXT,
    answers INTEGER,
    apart INTEGER,
    nth INTEGER,
    sum INTEGER,
    content TEXT NOT NULL,
    data TEXT
) STRICT;

-- `nth` is set on messages only: the running count of its agent's messages, as `sum` is that of their tokens.
CREATE INDEX messages ON events (agent, id) WHERE nth IS NOT NULL;

CREATE INDEX operations ON events (agent, id) WHERE kind IN (
    'mark', 'clear', 'rewind', 'fork', 'filter', 'drop', 'undo', 'summary', 'restore', 'pin', 'unpin', 'redact'
);

CREATE INDEX anchors ON events (agent, kind, id) WHERE kind IN ('state', 'scratchpad', 'system');

CREATE INDEX calls ON events (agent, call_id, id) WHERE call_id IS NOT NULL;

CREATE INDEX answered ON events (answers) WHERE answers IS NOT NULL;

-- `apart` is set on results between which and their call other things than calls and results of one run stand.
CREATE INDEX apart_results ON events (agent, id) WHERE apart IS NOT NULL;

-- The calls of the turn that is open which have no result yet.
CREATE TABLE waiting (
    agent INTEGER NOT NULL REFERENCES agents (key),
    call INTEGER NOT NULL REFERENCES events (id),
    PRIMARY KEY (agent, call)
) STRICT, WITHOUT ROWID;

-- `messages` and `tokens` are what is visible less the agent's own at that moment: the difference stays as it grows.
CREATE TABLE folds (
    agent INTEGER PRIMARY KEY REFERENCES agents (key),
    body TEXT NOT NULL,
    messages INTEGER NOT NULL,
    tokens INTEGER NOT NULL
) STRICT;
