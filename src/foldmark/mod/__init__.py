"""Foldmark inside Claude Code: the part behind its plugins, a service that keeps the log [SPEC 8].

The plugins (`sessions/install/marketplace`) draw the pane, and hand over the client's messages. `service.py` listens
for them, and `questions.py` answers. `conversation.py` has the conversation of one session, `transcript.py` records its
messages, and `rows.py` turns an edit of messages into the rows that the client installs.
"""
