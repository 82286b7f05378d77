"""Tools of MCP servers, over the official SDK [SPEC 4.1].

`servers.py` reads `.mcp.json`. `client.py` connects the servers that a person agrees to, and adapts their tools.
`connection.py` is the thread-safe connection to one server, and the only module that uses the SDK. The folder is
imported only if there is a `.mcp.json`.
"""
