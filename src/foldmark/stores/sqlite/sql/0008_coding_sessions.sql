-- Sessions of coding agents: which continued which, and why each ended. docs/format.md describes every column.

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    session_id TEXT NOT NULL,
    file TEXT NOT NULL,
    parent TEXT,
    session_number INTEGER NOT NULL,
    worker_id ANY,
    issue TEXT,
    started_at TEXT,
    ended_at TEXT,
    end_reason TEXT,
    context_at_end INTEGER,
    summary TEXT,
    UNIQUE (kind, session_id)
) STRICT;

CREATE INDEX idx_sessions_worker ON sessions (worker_id);
