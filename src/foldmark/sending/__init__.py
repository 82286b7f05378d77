"""What is sent to a model on an agent's behalf, and what is kept of it [SPEC 3, 5].

`sent.py` records a request, `rebuilding.py` makes it again from the log, `usage.py` records what its answer cost.
`questions.py` asks the model for a judgement or a summary, `compacting.py` has its provider write one,
`window_summary.py` has it sum up what the window cut. `fullness.py`, `reminders.py` and `unanswered.py` say how things
stand before the next request; `interruption.py` ends one that is under way.
"""
