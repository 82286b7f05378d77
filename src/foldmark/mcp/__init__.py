"""`foldmark mcp`: Foldmark for other programs' models, as a server of the Model Context Protocol [SPEC 9].

`server.py` says what is offered: `tools.py` (those of `foldmark.tools`, derived, beside `search.py`, `read.py` and
`meter.py`), `resources.py` and `prompts.py`; `listening.py` tells clients when resources change. `conversations.py`
finds the conversation that is meant, `archive.py` what is archived; `agreement.py` asks the person, `threads.py` keeps
what blocks away from the event loop. `stdio.py` (with `lines.py`) and `http.py` are the ways in, `token.py` the key to
the second. Most of it needs the SDK
(`pip install 'foldmark[mcp]'`), which takes a second to import.
"""
