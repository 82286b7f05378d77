"""The wires that coding agents speak, as a gateway has to read and write them.

`dialect.py` says what a `ClientDialect` is. `reading.py` cuts the body of a request into its messages, and `answers.py`
reads and writes answers. Each other module is one wire.
"""
