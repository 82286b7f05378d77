"""Claude Code's records: what they say, how they hang together, what a resume sends [SPEC 8]."""
