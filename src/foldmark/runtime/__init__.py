"""Agents at work: turns, children in parallel with their parents, one writer for each.

`loop.py` runs one turn, `streaming.py` one of its requests. `supervisor.py` runs all agents of a process in parallel:
`unprompted.py` starts children, announces mail and makes window summaries; `lease.py` ensures one writer per agent.
`background.py` runs a supervisor in its own thread.
"""
