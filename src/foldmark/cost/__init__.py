"""The cost of a conversation: under each policy (`foldmark cost`), and request by request [SPEC 5.7].

`history.py` reads the conversation once, `policies.py` computes what Foldmark's policies would have sent, `cost.py`
adds up the bill of each policy, and `comparison.py` compares them. `requests.py` reports what a provider's cache held
of the requests that were really sent, why it missed the rest, and what the next request would cost after an operation.
"""
