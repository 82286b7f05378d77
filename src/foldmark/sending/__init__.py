"""Sending requests on an agent's behalf, and rebuilding what was sent [SPEC 3, 5].

`models.py` reaches a model over its provider. `questions.py` asks it for a judgement or a summary. `rebuilding.py`
rebuilds a recorded request from the log. `status.py` reports the state before the next request and records the cost of
its answer; `interruption.py` cancels a running request.
"""
