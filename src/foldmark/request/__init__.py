"""From the standing of an agent to the request that is sent: values and set-based reads in, a prompt out [SPEC 5].

`standing.py` defines the standing of an agent. `planned.py` finds the plan of the next request, from the last one that
`recorded.py` reads; `material.py` reads what a plan names, with the layers of `layers.py`, and makes the prompt of it,
and `prepare.py` makes the request for a provider; `sent.py` makes the record of one that is sent. `planning.py` and
`exchanges.py` find messages that belong together, `usage.py` the cost of answers.
"""
