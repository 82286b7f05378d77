-- What became of agents, in the order of commits, so that listeners are told of it: no event says all of it, and the rows
-- that do are in no such order; but those of `agents` are, which say who was born. Triggers write it, so that nothing is
-- left out. docs/format.md describes the table.
CREATE TABLE agent_changes (
    id INTEGER PRIMARY KEY,
    agent INTEGER NOT NULL REFERENCES agents (key),
    kind TEXT NOT NULL
) STRICT;

CREATE TRIGGER renamed AFTER UPDATE OF name ON agents WHEN NEW.name IS NOT NULL AND NEW.name IS NOT OLD.name BEGIN
    INSERT INTO agent_changes (agent, kind) VALUES (NEW.key, 'renamed');
END;

CREATE TRIGGER killed AFTER INSERT ON deaths BEGIN
    INSERT INTO agent_changes (agent, kind) VALUES (NEW.agent, 'killed');
END;

CREATE TRIGGER deleted AFTER INSERT ON deletions BEGIN
    INSERT INTO agent_changes (agent, kind) VALUES (NEW.agent, 'deleted');
END;

CREATE TRIGGER archived AFTER INSERT ON archived BEGIN
    INSERT INTO agent_changes (agent, kind) VALUES (NEW.agent, 'archived');
END;

-- A deletion takes the conversation out of the archive, too, and is told as a deletion.
CREATE TRIGGER unarchived AFTER DELETE ON archived
WHEN NOT EXISTS (SELECT 1 FROM deletions WHERE agent = OLD.agent) BEGIN
    INSERT INTO agent_changes (agent, kind) VALUES (OLD.agent, 'unarchived');
END;

-- An agent's events that are no messages: with the index of its messages, a page of all its events is found at once.
CREATE INDEX others ON events (agent, id) WHERE nth IS NULL;
