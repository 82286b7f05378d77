"""The cost of a conversation: under each policy (`foldmark cost`), and request by request [SPEC 5.7].

The simulator: `history.py` reads the conversation once, `policies.py` makes the requests under each policy,
`cost.py` adds up the bill of each policy, and `comparison.py` compares them. The real requests: `misses.py` explains
their cache misses, `requests.py` computes the cost of the next request after an operation, and `spending.py` has the
prices and the cost so far. `filling.py` counts the content of a request by kind.
"""
