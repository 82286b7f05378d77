"""Tools of MCP servers, over the official SDK [SPEC 4.1].

`servers.py` reads `.mcp.json` (`variables.py` puts in what it refers to); `client.py` connects what a person agrees to.
`connection.py` is one server's life, for any thread, `session.py` the only place that speaks with the SDK. `tools.py`
makes our tools of theirs (`schemas.py`, `results.py` check what a server says). Imported where there is such a file.
"""
