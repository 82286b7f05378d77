"""Making Foldmark part of Claude Code, and taking it out again without a trace [SPEC 8; S4 components 2, 3, 5]."""
