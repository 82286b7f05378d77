"""Codex's rollouts: what their records say, and which files one is made of [SPEC 8]."""
