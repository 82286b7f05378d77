"""Claude Code's sessions: one JSON Lines file each, whose records name their parents [SPEC 8].

`members` says what a record is, `records` reads it, and `resumption` decides what is sent of a session. Nothing is
imported here, because hooks ask `members`.
"""
