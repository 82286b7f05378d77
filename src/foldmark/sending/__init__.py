"""Sending requests on an agent's behalf, and recording them [SPEC 3, 5].

`sent.py` records a request, `rebuilding.py` makes it again from the log, `usage.py` records what its answer cost.
`questions.py` asks the model for a judgement or a summary, `compacting.py` has its provider write one,
`window_summary.py` has it sum up what the window cut. `fullness.py`, `reminders.py` and `unanswered.py` report the
state before the next request; `interruption.py` ends one that is under way.
"""
