"""A foreign transcript over the log: its pieces, the events that they stand for, and the pieces to send instead.

`pieces.py` has the messages and the form of one wire, `ledger.py` says what stands for what, and `edit.py` leaves out
what the context no longer shows. A running agent (`live`), a plugin (`mod`) and an import use them.
"""
