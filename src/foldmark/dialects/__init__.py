"""Dialects: how a prompt becomes a request, how an answer is read, and what servers do with a request.

`dialect.py` says what a `Dialect` is and finds one by name: in one of the folders here, or in an installed package that
names it in the group `foldmark.dialects`. `bodies.py` and `errors.py` hold what all of them share. No SDK is needed.
"""
