-- What the replay reads is marked on each event, so that an index holds it whatever kinds of operations there will be.
-- docs/format.md describes the column.
ALTER TABLE events ADD COLUMN replayed INTEGER;

-- The kinds that there were up to now: those of the index of operations, and evictions, which it did not hold.
UPDATE events INDEXED BY operations SET replayed = 1 WHERE kind IN (
    'mark', 'clear', 'rewind', 'fork', 'filter', 'drop', 'undo', 'summary', 'restore', 'pin', 'unpin', 'redact'
) OR (kind = 'turn_ended' AND data IS NOT NULL);

UPDATE events INDEXED BY calls SET replayed = 1 WHERE call_id = 'evict' AND call_id IS NOT NULL AND kind = 'evict';

DROP INDEX operations;

CREATE INDEX operations ON events (agent, id) WHERE replayed = 1;

-- A program of the version before that has the database open does not mark operations: they would be lost to the replay.
CREATE TRIGGER unmarked BEFORE INSERT ON events WHEN NEW.replayed IS NULL BEGIN
    SELECT RAISE(ABORT, 'a newer Foldmark has brought this database up to date: restart this program with it');
END;
