"""`foldmark mcp`: Foldmark for other programs' models, as a server of the Model Context Protocol [SPEC 9].

`server.py` answers requests, each in a thread, with `tools.py` (most tools of `foldmark.tools`, and three more),
`search.py` (`search` and `read`) and `resources.py` (resources and prompts). `conversations.py` finds the conversation
of a call. `stdio.py` and `http.py` serve over the SDK's transports.
Most modules need the SDK (the extra `mcp`), which takes a second to import.
"""
