"""Formats of coding agents' session files: where they lie, their records, the active chain, how they resume [SPEC 8].

Read `session_format` first, then `session_file` and `messages`, then the folder of an agent (`claude`, `codex`).
"""
