"""Sending requests on an agent's behalf, and recording them [SPEC 3, 5].

`sent.py` records a request, `rebuilding.py` rebuilds it from the log. `questions.py` asks the model for a judgement or
a summary. `status.py` reports the state before the next request and records the cost of its answer; `interruption.py`
cancels a running request.
"""
