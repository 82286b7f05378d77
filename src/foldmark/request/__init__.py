"""From where an agent stands to the request that goes out: values and set-based reads in, a prompt out [SPEC 5].

`standing.py` is where an agent stands. `sources.py` reads what a request can be made of (its turns, `children.py`,
`memos.py`, `window_summary.py`), `windowing.py` says where the window begins, `steady.py` how a request grows between
boundaries, and `prepare.py` puts it together for a provider. `planning.py` and `exchanges.py` say what belongs
together, `natives.py` which summaries a provider reads, `usage.py` what answers have cost.
"""
