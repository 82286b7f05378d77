"""opencode, which speaks every wire, depending on its model [SPEC 5.7]."""

from collections.abc import Mapping

from foldmark.live.live_agent import LiveAgent, RequestOrigin


class OpenCode(LiveAgent):
    """opencode. `foldmark live` runs it as any program."""

    name, title, wire, variable = "opencode", "opencode", "", ""

    def origin(self, headers: Mapping[str, str], body: bytes) -> RequestOrigin:
        session = headers.get("x-session-id") or headers.get("x-session-affinity", "")
        parent = headers.get("x-parent-session-id", "") if session else ""
        return RequestOrigin(parent, session) if parent else RequestOrigin(session)

    def is_attended(self, headers: Mapping[str, str]) -> bool:
        return True
