"""What a conversation costs: under each policy (`foldmark cost`), and request by request [SPEC 5.7].

`history.py` reads the conversation once, `policies.py` and `others.py` say what each policy would have sent, `cost.py`
adds up the bill. `cached.py` tells what a provider's cache held of the requests that were really sent, and why not.
"""
