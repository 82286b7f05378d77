"""A hand-written MCP server of the older protocol, or the `modern` one, for behaviour that the SDK's servers lack.

The JSON file in its argument gives its `tools` and `calls` (tool -> result; none: silence). With `ignores` it ignores
the end of its input, with `silent` it answers nothing from the start. `says` gives lines for its standard error (tool
-> lines), and `ends` the tools that end it. It records its process and the notifications
that it gets in its working folder."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

plan = json.loads(Path(sys.argv[1]).read_text())
Path(f"pid-{os.getpid()}").touch()
MODERN = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "server/discover" if plan.get("modern"):
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **MODERN}
        case "initialize":
            about = {"name": "raw", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            more = MODERN if plan.get("modern") else {}
            return {"tools": plan["tools"], **more} if "pages" not in plan else page(params.get("cursor"))
        case "tools/call":
            if said := plan.get("says", {}).get(params["name"]):
                print(said, file=sys.stderr, flush=True)
            if params["name"] in plan.get("ends", ()):
                os._exit(3)
            result: dict[str, Any] | None = plan["calls"].get(params["name"])
            return result
    raise LookupError


def page(cursor: str | None) -> dict[str, Any]:
    at = int(cursor or 0)
    tool = {**plan["tools"][0], "name": f"t{at}"}
    return {"tools": [tool], **({"nextCursor": str(at + 1)} if at + 1 < plan["pages"] else {})}


if plan.get("ignores"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    message = json.loads(line)
    if plan.get("silent"):
        continue
    if "id" not in message:
        with Path("notified.txt").open("a") as file:
            file.write(f"{message['method']}\n")
        continue
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        result = answer(message["method"], message.get("params", {}))
        if result is None:
            Path("asked").touch()
            continue
        reply["result"] = result
    except LookupError:
        reply["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps(reply), flush=True)
while plan.get("ignores"):
    time.sleep(1)
