-- The cost of a tool result and of erasing must not follow the history. docs/format.md describes every column.

-- The first call of the agent's newest run of calls; null where anything but results stands behind that run.
ALTER TABLE agents ADD COLUMN run INTEGER;

-- What was erased, so that the sums stored with later messages stay as they are. One row for each run of neighbouring
-- messages erased together; `messages`, `tokens` and `weight` are running sums over the agent's rows.
CREATE TABLE redacted_sums (
    agent INTEGER NOT NULL REFERENCES agents (key),
    event INTEGER NOT NULL REFERENCES events (id),
    messages INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    weight INTEGER NOT NULL,
    PRIMARY KEY (agent, event)
) STRICT, WITHOUT ROWID;
