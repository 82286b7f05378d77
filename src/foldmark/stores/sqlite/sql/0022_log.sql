-- The log of all agents, and what is computed from it. docs/development/format.md describes every column.

-- `root` is the root agent of the tree. `head` is the newest event of the agent's timeline, `last` the newest of all,
-- metadata among them, `asked` the newest record of a request.
-- `killed`, `deleted` and `archived` are the events that say so, 0 if that is not so.
-- `run` is the first call of the agent's newest run of calls; null where anything but results follows that run.
CREATE TABLE agents (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT UNIQUE,
    parent INTEGER REFERENCES agents (key),
    root INTEGER NOT NULL,
    fork_event INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    head INTEGER NOT NULL DEFAULT 0,
    last INTEGER NOT NULL DEFAULT 0,
    open_turn INTEGER,
    messages INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0,
    run INTEGER,
    asked INTEGER NOT NULL DEFAULT 0,
    killed INTEGER NOT NULL DEFAULT 0,
    deleted INTEGER NOT NULL DEFAULT 0,
    archived INTEGER NOT NULL DEFAULT 0
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
    data TEXT,
    redacted INTEGER,
    checksum INTEGER,
    replayed INTEGER NOT NULL
) STRICT;

-- `nth` is set on messages only: the running count of its agent's messages, as `sum` is that of their tokens.
CREATE INDEX messages ON events (agent, id) WHERE nth IS NOT NULL;

-- An event that the replay reads has `replayed` set, so that this index holds it whatever kinds of operations there are.
CREATE INDEX operations ON events (agent, id) WHERE replayed = 1;

-- The newest event of a kind, and what answers cost by turn.
CREATE INDEX anchors ON events (agent, kind, id)
WHERE kind IN ('state', 'scratchpad', 'system', 'config', 'command', 'summary', 'request', 'usage', 'mail', 'killed', 'window_summary');

CREATE INDEX calls ON events (agent, call_id, id) WHERE call_id IS NOT NULL;

CREATE INDEX answered ON events (answers) WHERE answers IS NOT NULL;

-- `apart` is set on results between which and their call other things than calls and results of one run stand.
CREATE INDEX apart_results ON events (agent, id) WHERE apart IS NOT NULL;

-- An agent's events that are no messages: with the index of its messages, a page of all its events is read at once.
CREATE INDEX others ON events (agent, id) WHERE nth IS NULL;

-- How many turns lie between two: one entry for each turn, that of the message that opened it.
CREATE INDEX turn_openers ON events (agent, id) WHERE nth IS NOT NULL AND turn = id;

-- What was erased is found without reading what stands beside it.
CREATE INDEX tombstones ON events (agent, id) WHERE redacted IS NOT NULL;

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

-- The mail that no message has carried to its recipient yet.
CREATE TABLE unread (
    agent INTEGER NOT NULL REFERENCES agents (key),
    mail INTEGER NOT NULL REFERENCES events (id),
    PRIMARY KEY (agent, mail)
) STRICT, WITHOUT ROWID;

-- Every text of requests once, by its SHA-256.
CREATE TABLE texts (
    hash TEXT PRIMARY KEY,
    text TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What the texts of requests belong to: a turn, whose question one is; a memo; or the agent that sent them, where both are
-- 0. A text goes with the last of its owners.
CREATE TABLE text_owners (
    agent INTEGER NOT NULL REFERENCES agents (key),
    turn INTEGER NOT NULL,
    memo INTEGER NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (agent, turn, memo, hash)
) STRICT, WITHOUT ROWID;

CREATE INDEX owners_by_hash ON text_owners (hash);

CREATE INDEX owners_by_memo ON text_owners (memo) WHERE memo > 0;

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

-- The words that SQLite's tokenizer does not see in a text: parts of names in code, and pairs of characters of scripts
-- without spaces. Only messages that have any have a row.
CREATE TABLE parts (
    event INTEGER PRIMARY KEY REFERENCES events (id),
    words TEXT NOT NULL
) STRICT;

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

-- What is taken out of the index leaves no trace in it, as long as its leaves fill a page: smaller ones (`pgsz`) lie beside
-- others, and what SQLite moves from page to page it does not overwrite.
INSERT INTO search (search, rank) VALUES ('secure-delete', 1);

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

-- What was erased, so that the sums stored with later messages stay as they are. One row for each run of neighbouring
-- messages erased together; `messages` and `tokens` are running sums over the agent's rows.
CREATE TABLE redacted_sums (
    agent INTEGER NOT NULL REFERENCES agents (key),
    event INTEGER NOT NULL REFERENCES events (id),
    messages INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (agent, event)
) STRICT, WITHOUT ROWID;

-- The keys that callers gave to appends which may be repeated, with the ids of their events, a JSON array.
CREATE TABLE append_keys (
    agent INTEGER NOT NULL REFERENCES agents (key),
    key TEXT NOT NULL,
    ids TEXT NOT NULL,
    PRIMARY KEY (agent, key)
) STRICT, WITHOUT ROWID;
