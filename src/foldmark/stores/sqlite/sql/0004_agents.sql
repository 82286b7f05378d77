-- What others write towards an agent: mail and its end; and what became of conversations. Nothing here changes an
-- agent's head, so it never enters the check of who appends next. docs/format.md describes every column.

CREATE TABLE mail (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    sender INTEGER NOT NULL REFERENCES agents (key),
    recipient INTEGER NOT NULL REFERENCES agents (key),
    actor TEXT NOT NULL,
    sent_at TEXT NOT NULL,
    content TEXT NOT NULL,
    event INTEGER REFERENCES events (id)
) STRICT;

-- `event` is the message that carried it to its recipient; from then on the text stands there and nowhere else.
CREATE INDEX unread_mail ON mail (recipient, id) WHERE event IS NULL;

CREATE TABLE deaths (
    agent INTEGER PRIMARY KEY REFERENCES agents (key),
    killer INTEGER NOT NULL REFERENCES agents (key),
    actor TEXT NOT NULL,
    died_at TEXT NOT NULL
) STRICT;

CREATE TABLE deletions (
    agent INTEGER PRIMARY KEY REFERENCES agents (key),
    actor TEXT NOT NULL,
    deleted_at TEXT NOT NULL
) STRICT;

CREATE TABLE archived (
    agent INTEGER PRIMARY KEY REFERENCES agents (key),
    archived_at TEXT NOT NULL
) STRICT;
