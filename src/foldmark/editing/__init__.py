"""Changes to a context that are previewed before they are made [SPEC 4, 4.2].

`matching.py` finds what a person wants forgotten, `offers.py` shows it and applies what is agreed to, `preview.py`
computes what an operation would change and cost, `evicting.py` evicts tool results.
"""
