"""Changes to a context that a person agrees to first [SPEC 4.2, 5.7].

`matching.py` finds what a person wants forgotten, `offers.py` shows it and applies what is agreed to, `evicting.py`
evicts tool results.
"""
