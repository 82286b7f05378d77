-- What every message takes in a request once its turn is over, for windows that move in steps. docs/format.md describes
-- every column. The numbers stand apart from the events, so that reading them reads no texts.

CREATE TABLE weights (
    agent INTEGER NOT NULL REFERENCES agents (key),
    event INTEGER NOT NULL REFERENCES events (id),
    weight INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    PRIMARY KEY (agent, event)
) STRICT, WITHOUT ROWID;

-- `weight_0005` stands in foldmark.stores.sqlite_frozen: what messages weighed when this migration was made.
WITH found AS MATERIALIZED (
    SELECT agent, id, weight_0005(kind, content, data, interrupted, id) AS weight FROM events WHERE nth IS NOT NULL
)
INSERT INTO weights (agent, event, weight, sum)
SELECT agent, id, weight, sum(weight) OVER (PARTITION BY agent ORDER BY id) FROM found;

-- What answers cost is looked up by turn.
DROP INDEX anchors;

CREATE INDEX anchors ON events (agent, kind, id)
WHERE kind IN ('state', 'scratchpad', 'system', 'config', 'command', 'summary', 'usage');
