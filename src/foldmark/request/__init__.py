"""From the standing of an agent to the request that is sent: values and set-based reads in, a prompt out [SPEC 5].

`standing.py` defines the standing of an agent. `sources.py` reads the material of a request, with the layers of
`layers.py`; `windowing.py` decides where the window begins, `steady.py` how a request grows between boundaries, and
`prepare.py` assembles the request for a provider. `planning.py` and `exchanges.py` find messages that belong together,
`usage.py` the cost of answers.
"""
