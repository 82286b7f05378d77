"""Tools of MCP servers, over the official SDK [SPEC 4.1].

`servers.py` reads `.mcp.json` (`variables.py` expands its variables); `client.py` connects the servers that a person
agrees to. `connection.py` is one server's connection, thread-safe, `session.py` the only place that uses the SDK.
`tools.py` adapts their tools (`schemas.py`, `results.py` check what a server says). Imported only if there is such a
file.
"""
