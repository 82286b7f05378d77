"""Remarks in the chat about a conversation that was imported from a coding agent's session: its origin, the export of
edits, and the model that answers."""

import os
import shlex
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING

from foldmark.core import selections
from foldmark.core.errors import FoldmarkError
from foldmark.core.segments import END, Segment
from foldmark.core.wording import one_line
from foldmark.log import Agent, Result
from foldmark.operations.effects import WroteSession
from foldmark.operations.receipts import Receipt
from foldmark.settings.user_folders import default_database, named_database
from foldmark.stores.addresses import shown

# Importing the sessions and providers packages takes 50 ms: do it only for an imported conversation.
if TYPE_CHECKING:
    from foldmark.sessions.conversion.imported import ImportRecord

READER = "Claude Code"
"""The program whose sessions an export writes."""


class ImportNotes:
    """The remarks about the imported conversations of one chat; other conversations get none."""

    def __init__(self) -> None:
        self._written: dict[str, Hashable] = {}

    def greeting(self, agent: Agent) -> list[str]:
        """Return the lines to show when a person opens the chat with an agent or switches to it."""
        if not _may_be_imported(agent):
            return []
        from foldmark.sessions.conversion.imported import newest_import

        if (imported := newest_import(agent)) is None:
            return []
        self._written.setdefault(agent.id, _content(agent))
        return [_origin(imported[1]), *_model(agent)]

    def after(self, agent: Agent, result: Result) -> str | None:
        """Return the line to show after a command's result; None if there is none."""
        if agent.id not in self._written:
            return None
        if isinstance(result.effect, WroteSession):
            self._written[agent.id] = _content(agent)
        elif isinstance(result.effect, Receipt) and self._is_changed(agent):
            return f"({READER} sees this after /export)"
        return None

    def farewell(self, agent: Agent) -> str:
        """Return the last line of the chat; empty if there is nothing new to export."""
        if agent.id not in self._written or not self._is_changed(agent):
            return ""
        return f"{READER} does not see yet what changed here. This writes a session for it:\n  {_export(agent)}"

    def _is_changed(self, agent: Agent) -> bool:
        return self._written[agent.id] != _content(agent)


def _content(agent: Agent) -> Hashable:
    """Return a value that changes whenever the output of an export would change."""
    at = agent.standing()
    return at.fold.segments, at.size, frozenset(at.fold.evicted)


def _origin(note: "ImportRecord") -> str:
    from foldmark.formats.session_format import DEFAULT, format_named

    try:
        program = format_named(note.source).title
    except FoldmarkError:  # its package is no longer installed
        program = note.source
    named = one_line(Path(note.file).stem or note.session)
    lines = [f"Imported from {program}'s session {named}."]
    if note.source == DEFAULT:
        lines.append(f"{READER} sees what you change here after /export, which writes a new session to resume.")
    else:
        lines.append(f"/export writes it as a session of {READER}; {program}'s own are not written.")
    try:
        grown = Path(note.file).stat().st_size > note.size
    except OSError:
        grown = False
    lines.append(
        "The session has grown since: /import brings that in." if grown else "/import brings in what is new in it."
    )
    return " ".join(lines)


def _model(agent: Agent) -> list[str]:
    from foldmark.sessions.conversion.chatting import session_model

    own = session_model(agent)
    if own is not None and own != agent.standing().config.model:
        return [f"The session was answered by {own}; /model {own} asks it."]
    return []


def _may_be_imported(agent: Agent) -> bool:
    """Return False for a conversation without any record of an import, without importing the sessions package."""
    with agent.log.store.read() as moment:
        return selections.newest(moment, "command", (Segment(agent.id, 1, END),)) is not None


def folder_of(agent: Agent) -> str:
    """Return the folder to which paths of a conversation are relative: that of its imported session, otherwise the
    working folder; empty if that was removed."""
    if _may_be_imported(agent):
        from foldmark.sessions.conversion.chatting import session_folder

        if (folder := session_folder(agent)) is not None:
            return str(folder)
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def _export(agent: Agent) -> str:
    """Return the shell command that exports an agent."""
    from foldmark.sessions.conversion.chatting import working_folder

    words, log = ["foldmark"], agent.log
    usual = named_database(os.environ, log.given.database) or default_database(os.environ)
    if log.store.address not in (usual, os.path.abspath(usual)):  # noqa: PTH100 - as the store has it
        words += ["--db", shown(log.store.address)]
    words += ["export", agent.name or agent.id]
    words += ["--cwd", str(folder)] if (folder := working_folder(agent)) else []
    return shlex.join(words)
