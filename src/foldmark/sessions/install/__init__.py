"""Install Foldmark into Claude Code, and remove it again without a trace [SPEC 8; S4 components 2, 3, 5]."""
