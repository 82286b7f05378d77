"""The wires that coding agents speak, as a gateway has to read and write them.

`dialect.py` defines `ClientDialect`, and `roles.py` the common part of wires whose messages are blocks of a role.
`reading.py` cuts the body of a request into its messages, and `answers.py` reads and writes answers. Each of the other
modules belongs to one wire. What in a request is one agent's own, its `LiveAgent` knows (`live_agent.py`).
"""
