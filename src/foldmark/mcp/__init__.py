"""`foldmark mcp`: Foldmark for other programs' models, as a server of the Model Context Protocol [SPEC 9].

`server.py` answers requests, each in a thread, with `tools.py` (most tools of `foldmark.tools`, and three more),
`search.py` (`search` and `read`) and `resources.py` (resources and prompts). `listening.py` notifies clients when
resources change. `conversations.py` finds the conversation of a call. `stdio.py` and `http.py` are the transports.
Most modules need the SDK (the extra `mcp`), which takes a second to import.
"""
