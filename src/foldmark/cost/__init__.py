"""The cost of a conversation: under each policy (`foldmark cost`), and request by request [SPEC 5.7].

`history.py` reads the conversation once, `policies.py` computes what Foldmark's policies would have sent, `cost.py`
adds up the bill of each policy, and `comparison.py` compares them. `misses.py` explains the cache misses of
the requests that were really sent, `requests.py` computes what the next request would cost after an operation, and
`spending.py` has the prices and the cost so far. `filling.py` counts the content of a request by kind.
"""
