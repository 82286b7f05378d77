"""Agents at work: turns, children beside their parents, one writer for each.

`loop.py` runs one turn, `streaming.py` one request of it. `supervisor.py` runs all agents of a process side by side:
`unprompted.py` starts children, announces mail and makes window summaries; `lease.py` ensures one writer per agent.
`background.py` runs a supervisor in its own thread.
"""
