"""Agents at work: turns, children beside their parents, one writer for each.

`loop.py` is one turn, `asking.py` one request of it. `supervisor.py` runs all agents of a process side by side:
`birth.py` is how a child begins, `telling.py` who is told of mail, `summing.py` what is made between turns, `lease.py`
who may write. `background.py` puts a supervisor into a thread of its own.
"""
