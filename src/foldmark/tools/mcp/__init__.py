"""Tools of MCP servers, over the official SDK [SPEC 4.1].

`servers.py` reads `.mcp.json`; `client.py` connects the servers that a person agrees to, and adapts their tools.
`connection.py` is one server's connection, thread-safe, and the only place that uses the SDK. Imported only
if there is such a file.
"""
