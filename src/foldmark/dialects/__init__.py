"""Wires: how a prompt becomes a request, how an answer is read, and what servers do with a request.

`dialect.py` says what a `Dialect` is, `registry.py` finds one by name: one of the folders here, or what an installed
package names in the group `foldmark.dialects`. No SDK is needed for any of it.
"""
