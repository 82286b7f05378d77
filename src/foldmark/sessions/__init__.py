"""Uses of coding agents' sessions: import, export, trim, continue, archive and repair them [SPEC 8].

What a session is, `foldmark.formats` knows.
"""
