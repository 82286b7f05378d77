-- The log of many agents. docs/development/decisions/0031 says why it is cut so, docs/development/format.md what the
-- columns mean.
--
-- `root` is the key of the conversation: of the root agent of the tree that a row belongs to. It leads every primary key
-- but those of tables that all conversations share, so that the tables distribute by it. No foreign key crosses roots,
-- and none is needed inside: the store writes all rows of a tree under the lock of its root agent's row.
-- Whatever is compared or ordered is so by its bytes (COLLATE "C"); in texts that may hold NUL it is escaped.

-- What all conversations share. -------------------------------------------------------------------------------------

-- Numbers that are drawn in one place: keys of agents, blocks of ids, memos.
CREATE TABLE numbers (
    name text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);

INSERT INTO numbers (name, value) VALUES ('agents', 0), ('blocks', 0), ('memos', 0);

-- Which database this is of which server, and what its transactions' numbers are counted from, so that the order of
-- changes goes on when it is moved to another one.
CREATE TABLE home (
    server text NOT NULL,
    base bigint NOT NULL
);

-- The number of the oldest transaction that may still be under way, counted like stamps: nothing of those before it is
-- committed any more behind what this snapshot shows. Those of other databases of the server do not matter.
CREATE FUNCTION horizon() RETURNS bigint STABLE LANGUAGE sql AS $$
    SELECT (SELECT base FROM home) + least(pg_snapshot_xmax(s)::text::bigint, (
        SELECT min(x::text::bigint) FROM pg_snapshot_xip(s) x WHERE NOT EXISTS (
            SELECT 1 FROM pg_stat_activity a WHERE a.backend_xid = x::xid AND a.datname <> current_database()
        )
    )) FROM pg_current_snapshot() s
$$;

-- Where an agent is found by its uuid.
CREATE TABLE directory (
    id text COLLATE "C" PRIMARY KEY,
    key bigint NOT NULL UNIQUE,
    root bigint NOT NULL
);

CREATE TABLE names (
    name text COLLATE "C" PRIMARY KEY,
    root bigint NOT NULL
);

-- Each tree takes blocks of ids and counts up inside of them: ids follow the commits of a tree. No two trees take the same
-- block; events that were copied from another database have the ids that they had, and there several may have some of one.
CREATE TABLE blocks (
    block bigint NOT NULL,
    root bigint NOT NULL,
    PRIMARY KEY (block, root)
);

-- Every text of requests once, by its SHA-256.
CREATE TABLE texts (
    hash text COLLATE "C" PRIMARY KEY,
    text text NOT NULL
);

-- `words` is what it is found by: its content and tags in lower case, a space around each word.
CREATE TABLE memos (
    id bigint PRIMARY KEY,
    agent bigint,
    actor text NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    content text NOT NULL,
    words text NOT NULL
);

CREATE TABLE memo_tags (
    tag text COLLATE "C" NOT NULL,
    memo bigint NOT NULL,
    PRIMARY KEY (tag, memo)
);

CREATE INDEX tags_by_memo ON memo_tags (memo);

CREATE TABLE memo_words (
    word text COLLATE "C" NOT NULL,
    memo bigint NOT NULL,
    PRIMARY KEY (word, memo)
);

CREATE INDEX words_by_memo ON memo_words (memo);

-- What belongs to a conversation. -----------------------------------------------------------------------------------

-- The row of a root agent is the lock of its tree, and holds what the tree counts: the next id and the last of its block,
-- the number of its last transaction and of the newest memo that there was at its last event. `born` is the
-- transaction that created an agent; `killed`, `deleted` and `archived` are the events that say so, 0 if that is not so.
-- `head` is the newest event of an agent's timeline, `last` its newest of all, `asked` its newest record of a request.
-- `run` is the first call of the newest run of calls; `gone_messages` and `gone_tokens` what was erased; `newest_turn` and `newest_kind` are those
-- of the newest message, as far as they are known.
CREATE TABLE agents (
    root bigint NOT NULL,
    key bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    name text COLLATE "C",
    parent bigint,
    fork_event bigint NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    head bigint NOT NULL DEFAULT 0,
    last bigint NOT NULL DEFAULT 0,
    open_turn bigint,
    messages bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    run bigint,
    asked bigint NOT NULL DEFAULT 0,
    newest_turn bigint,
    newest_kind text,
    killed bigint NOT NULL DEFAULT 0,
    deleted bigint NOT NULL DEFAULT 0,
    archived bigint NOT NULL DEFAULT 0,
    gone_messages bigint NOT NULL DEFAULT 0,
    gone_tokens bigint NOT NULL DEFAULT 0,
    next_id bigint NOT NULL DEFAULT 0,
    last_id bigint NOT NULL DEFAULT -1,
    stamp bigint NOT NULL DEFAULT 0,
    memos bigint NOT NULL DEFAULT 0,
    born bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (root, key)
) WITH (fillfactor = 70);

CREATE INDEX agents_by_parent ON agents (root, parent) WHERE parent IS NOT NULL;

CREATE INDEX agents_by_birth ON agents (born, key);

-- `stamp` is the number of the transaction: see `foldmark.stores.postgres.reading`. `tool` is what a call calls,
-- `planning` and `stateful` whether the data of a command or filter says where a planning conversation lay, and that of a
-- summary holds a state: JSON in which NUL is escaped PostgreSQL cannot read.
CREATE TABLE events (
    root bigint NOT NULL,
    id bigint NOT NULL,
    agent bigint NOT NULL,
    turn bigint,
    kind text COLLATE "C" NOT NULL,
    dialect text,
    actor text NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    interrupted smallint NOT NULL,
    call_id text COLLATE "C",
    answers bigint,
    apart smallint,
    replayed smallint NOT NULL,
    tokens bigint NOT NULL,
    nth bigint,
    sum bigint,
    redacted bigint,
    tool text COLLATE "C",
    planning boolean NOT NULL DEFAULT false,
    stateful boolean NOT NULL DEFAULT false,
    stamp bigint NOT NULL,
    checksum bigint,
    content text NOT NULL,
    data text,
    PRIMARY KEY (root, id)
);

CREATE INDEX messages ON events (root, agent, id) WHERE nth IS NOT NULL;

CREATE INDEX others ON events (root, agent, id) WHERE nth IS NULL;

CREATE INDEX operations ON events (root, agent, id) WHERE replayed = 1;

CREATE INDEX anchors ON events (root, agent, kind, id)
WHERE kind IN ('state', 'scratchpad', 'system', 'config', 'command', 'summary', 'request', 'usage', 'mail', 'killed', 'window_summary');

CREATE INDEX calls ON events (root, agent, call_id, id) WHERE call_id IS NOT NULL;

CREATE INDEX answered ON events (root, answers) WHERE answers IS NOT NULL;

CREATE INDEX apart_results ON events (root, agent, id) WHERE apart IS NOT NULL;

CREATE INDEX turn_openers ON events (root, agent, id) WHERE nth IS NOT NULL AND turn = id;

CREATE INDEX tombstones ON events (root, agent, id) WHERE redacted IS NOT NULL;

CREATE INDEX events_by_stamp ON events (stamp, id);

-- From which event on a tree knows of memos up to which.
CREATE TABLE memo_marks (
    root bigint NOT NULL,
    event bigint NOT NULL,
    memos bigint NOT NULL,
    PRIMARY KEY (root, event)
);

CREATE TABLE waiting (
    root bigint NOT NULL,
    agent bigint NOT NULL,
    call bigint NOT NULL,
    PRIMARY KEY (root, agent, call)
);

CREATE TABLE folds (
    root bigint NOT NULL,
    agent bigint NOT NULL,
    body text NOT NULL,
    messages bigint NOT NULL,
    tokens bigint NOT NULL,
    PRIMARY KEY (root, agent)
) WITH (fillfactor = 70);

CREATE TABLE redacted_sums (
    root bigint NOT NULL,
    agent bigint NOT NULL,
    event bigint NOT NULL,
    messages bigint NOT NULL,
    tokens bigint NOT NULL,
    PRIMARY KEY (root, agent, event)
);

-- `ids` are those of the events that an append with a caller's key got, a JSON array.
CREATE TABLE append_keys (
    root bigint NOT NULL,
    agent bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    ids text NOT NULL,
    PRIMARY KEY (root, agent, key)
);

-- The mail that no message has carried to its recipient yet.
CREATE TABLE unread (
    root bigint NOT NULL,
    agent bigint NOT NULL,
    mail bigint NOT NULL,
    PRIMARY KEY (root, agent, mail)
);

CREATE TABLE leases (
    root bigint NOT NULL,
    agent bigint NOT NULL,
    holder text COLLATE "C" NOT NULL,
    host text NOT NULL,
    process bigint NOT NULL,
    state text NOT NULL,
    taken_at text COLLATE "C" NOT NULL,
    until text COLLATE "C" NOT NULL,
    interrupt smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (root, agent)
);

CREATE INDEX leases_by_holder ON leases (holder);

-- What the texts of requests belong to: a turn, whose question one is; a memo; or the agent that sent them, where both are
-- 0. A text goes with the last of its owners.
CREATE TABLE text_owners (
    root bigint NOT NULL,
    agent bigint NOT NULL,
    turn bigint NOT NULL,
    memo bigint NOT NULL,
    hash text COLLATE "C" NOT NULL,
    PRIMARY KEY (root, agent, turn, memo, hash)
);

CREATE INDEX owners_by_hash ON text_owners (hash);

CREATE INDEX owners_by_memo ON text_owners (memo) WHERE memo > 0;

-- What messages are found by: their words, as `foldmark.stores.postgres.words` makes them, and vectors of what was said.

-- The stems of a message's words in order, each in `<>`; behind an empty one, which no phrase crosses, the parts of its
-- names. `length` is how many these are. A message without a text has no row.
CREATE TABLE words (
    root bigint NOT NULL,
    id bigint NOT NULL,
    length integer NOT NULL,
    words text COLLATE "C" NOT NULL,
    PRIMARY KEY (root, id) INCLUDE (length)
);

CREATE FUNCTION lexemes(words text) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT array_to_tsvector(array_remove(string_to_array(btrim(words, '<>'), '><'), '')) $$;

-- A tsvector holds 1 MB. Positions are not in it: the few messages that hold all words of a phrase are looked at.
CREATE INDEX words_of_messages ON words USING gin (lexemes(words)) WHERE octet_length(words) < 900000;

-- Of longer ones the different words, in pieces.
CREATE TABLE long_words (
    root bigint NOT NULL,
    id bigint NOT NULL,
    piece integer NOT NULL,
    lexemes tsvector NOT NULL,
    PRIMARY KEY (root, id, piece)
);

CREATE INDEX words_of_long_messages ON long_words USING gin (lexemes);

-- Models that texts were given to, each by what tells it from others, and the newest event that this was done up to, in the
-- order of changes (`foldmark.stores.postgres.reading`).
CREATE TABLE embedders (
    key integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint text COLLATE "C" NOT NULL UNIQUE,
    until bigint NOT NULL DEFAULT 0,
    stamp bigint NOT NULL DEFAULT 0
);

-- The vectors of a message's passages one behind the other, and apart from them the signs of their components. `place` is
-- the order in which they were stored; of an erased message it stays, with nothing beside it.
CREATE TABLE vectors (
    root bigint NOT NULL,
    id bigint NOT NULL,
    embedder integer NOT NULL,
    vectors bytea NOT NULL,
    PRIMARY KEY (root, id, embedder)
);

CREATE TABLE signatures (
    root bigint NOT NULL,
    id bigint NOT NULL,
    embedder integer NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    signatures bytea NOT NULL,
    PRIMARY KEY (root, id, embedder)
);

CREATE INDEX signatures_in_order ON signatures (embedder, place);
