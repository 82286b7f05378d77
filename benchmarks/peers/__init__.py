"""Foldmark beside other programs of its field, in one run: `make bench-peers`."""
