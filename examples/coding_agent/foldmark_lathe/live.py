"""`foldmark live lathe`: how Lathe is started, and what in its requests is its own."""

from collections.abc import Mapping

from foldmark.live.live_agent import LiveAgent, RequestOrigin


class Lathe(LiveAgent):
    """Lathe speaks Chat Completions to the server in LATHE_API_BASE."""

    name, title, wire, session_format = "lathe", "Lathe", "openai", "lathe"
    variable, base_url = "LATHE_API_BASE", "https://api.lathe.example/v1"
    elsewhere = ("LATHE_LOCAL",)  # its own model, in its own process
    resuming = ("--session", "{session}")

    def origin(self, headers: Mapping[str, str], body: bytes) -> RequestOrigin:
        session, folder = headers.get("x-lathe-session", ""), headers.get("x-lathe-folder", "")
        return RequestOrigin(session, "", folder, aside=headers.get("x-lathe-task", "turn") != "turn")

    def is_summary(self, text: str) -> bool:
        return text.startswith("Summary of the work so far:")

    def is_attended(self, headers: Mapping[str, str]) -> bool:
        return headers.get("x-lathe-screen") == "yes"
