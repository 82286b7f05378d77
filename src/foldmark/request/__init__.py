"""From where an agent stands to the request that goes out: values and set-based reads in, a prompt out [SPEC 5].

`standing.py` defines where an agent stands. `sources.py` reads the material of a request with the layers of
`layers.py`, `windowing.py` decides where the window begins, `steady.py` how a request grows between boundaries, and
`prepare.py` assembles it for a provider. `planning.py` and `exchanges.py` find which messages belong together,
`usage.py` what answers have cost.
"""
