"""Session files of coding agents [SPEC 8]: reading Claude Code's, and importing one as a conversation."""
