"""Agents at work: turns, children beside their parents, one writer for each.

`loop.py` runs one turn, `asking.py` one request of it. `supervisor.py` runs all agents of a process side by side:
`birth.py` starts a child, `mail_notices.py` tells agents and people of mail, `window_summaries.py` makes summaries
between turns, `lease.py` ensures one writer per agent. `background.py` runs a supervisor in a thread of its own.
"""
