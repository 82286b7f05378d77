"""Make Foldmark part of Claude Code, and take it out again without a trace [SPEC 8; S4 components 2, 3, 5]."""
