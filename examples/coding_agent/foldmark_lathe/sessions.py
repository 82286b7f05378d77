"""Lathe's sessions: `~/.lathe/sessions/ID.jsonl`, one record in each line."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from foldmark.formats import cut
from foldmark.formats.messages import NOTHING, RecordMessages
from foldmark.formats.session_format import ResumeCommand, SessionFormat, SessionPath, files_in
from foldmark.sessions.trim.job import LineTrimmer
from foldmark.wires.lenient_json import NotJsonError, decode
from foldmark.wires.parts import CallMessage, Part, ResultMessage, TextMessage
from foldmark.wires.spans import within

NOTES = "<lathe-notes>"
"""The beginning of what Lathe itself tells its model in a user's message."""


class LatheLines(LineTrimmer):
    """Shortens the results of tools, and gives the copy its own id."""

    bytes_per_token = 4.0

    def line(self, number: int, raw: bytes) -> bytes:
        try:
            record = decode(raw)
        except NotJsonError:
            return raw
        match record:
            case {"lathe": "began"}:
                return within(raw, ("session",), lambda _: self.new_id)
            case {"lathe": "ran", "call": str(call), "tool": str(tool)}:
                self.call(call, tool)
            case {"lathe": "got", "call": str(call)}:
                return within(raw, ("text",), lambda text: self.shortened(call, text, number))
        return raw

    def shortened(self, call: str, text: bytes, number: int) -> bytes:
        """Return a result as JSON, cut if it is one of those to cut."""
        found = self.cut(call, text, cut.Origin(number, str(self.source)), cut.string)
        if found is None or found.new is None:
            return text
        self.count(found)
        return found.new.raw


class LatheFormat(SessionFormat):
    """The format of Lathe's sessions."""

    name, title, running = "lathe", "Lathe", "LATHE_SESSION"
    trim_kind = LatheLines

    def folder(self, environment: Mapping[str, str]) -> Path:
        return Path(environment.get("LATHE_HOME") or Path.home() / ".lathe", "sessions")

    def sessions(self, environment: Mapping[str, str]) -> Iterator[Path]:
        return files_in(self.folder(environment), "*.jsonl")

    def session_id(self, path: Path) -> str | None:
        return path.stem if path.suffix == ".jsonl" else None

    def is_record(self, value: Any) -> bool:
        return isinstance(value, dict) and "lathe" in value

    def messages(self, record: Any) -> RecordMessages:
        part: Part
        match record:
            case {"lathe": "said", "by": "model", "text": str(text)}:
                part = TextMessage("assistant", text)
            case {"lathe": "said", "text": str(text)}:
                part = TextMessage("client" if self.is_injected(text) else "user", text)
            case {"lathe": "ran", "call": str(call), "tool": str(tool), "with": arguments}:
                part = CallMessage(call, tool, arguments)
            case {"lathe": "got", "call": str(call), "text": str(text)}:
                part = ResultMessage(call, text)
            case _:
                return NOTHING
        return RecordMessages((part,), complete=True)

    def is_injected(self, text: str) -> bool:
        return text.startswith(NOTES)

    def new_path(self, session: Path, new_id: str, moment: datetime) -> Path:
        return session.with_name(f"{new_id}.jsonl")

    def resume_command(self, session: SessionPath, environment: Mapping[str, str], *prompt: str) -> ResumeCommand:
        return ResumeCommand(("lathe", "--session", session.id, *prompt), None)
