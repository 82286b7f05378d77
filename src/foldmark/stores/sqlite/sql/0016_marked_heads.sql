-- A program of before schema 13 does not mark the operations that it appends. It is refused as before, but once for each
-- transaction, at the update of the agent's head, and no longer at each event, where the trigger took a tenth of an append.
-- docs/format.md describes the column `replayed`.
DROP TRIGGER unmarked;

CREATE TRIGGER unmarked BEFORE UPDATE OF head ON agents
WHEN EXISTS (SELECT 1 FROM events WHERE id = NEW.head AND replayed IS NULL) BEGIN
    SELECT RAISE(ABORT, 'a newer Foldmark has brought this database up to date: restart this program with it');
END;
