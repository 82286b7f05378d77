-- Planning conversations, settings of agents and erased turns. docs/format.md describes every column.

-- An end of a turn with data closes a planning conversation: the replay reads it as it reads the operations.
DROP INDEX operations;

CREATE INDEX operations ON events (agent, id) WHERE kind IN (
    'mark', 'clear', 'rewind', 'fork', 'filter', 'drop', 'undo', 'summary', 'restore', 'pin', 'unpin', 'redact'
) OR (kind = 'turn_ended' AND data IS NOT NULL);

DROP INDEX anchors;

CREATE INDEX anchors ON events (agent, kind, id)
WHERE kind IN ('state', 'scratchpad', 'system', 'config', 'command', 'summary');

-- The redact operation that erased the event's content; its row says who asked and when.
ALTER TABLE events ADD COLUMN redacted INTEGER;
