"""Session files of coding agents: read, import, export, trim, continue, archive and repair them [SPEC 8].

Read `formats` first, then `session_file` and `messages`, then the folder of a format (`claude`, `codex`).
"""
