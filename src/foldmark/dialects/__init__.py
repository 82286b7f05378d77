"""Dialects: encode a prompt as a request, parse an answer, and explain refusals.

`dialect.py` defines `Dialect` and finds a dialect by name: in one of the folders here, or in an installed package that
registers it in the group `foldmark.dialects`. `bodies.py` and `errors.py` contain the code that all dialects share. No
SDK is needed.
"""
