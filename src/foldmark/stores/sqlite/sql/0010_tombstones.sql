-- What was erased is found without reading what stands beside it.
CREATE INDEX tombstones ON events (agent, id) WHERE redacted IS NOT NULL;
