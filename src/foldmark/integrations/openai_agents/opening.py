"""Which database and which conversation a session works on, and the SDK's settings of it [SPEC 9]."""

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import foldmark
from foldmark.app import read_settings
from foldmark.core.errors import CommandError
from foldmark.log import Agent, Log
from foldmark.log.names import check_name, is_uuid
from foldmark.settings.user_folders import default_database, named_database
from foldmark.stores.folders import make_folder

if TYPE_CHECKING:
    from agents.memory import SessionSettings


def opened(path: str | os.PathLike[str] | None) -> Log:
    """The log in a database; None is this user's own, whose folder is made as needed. Raises FoldmarkError."""
    if path is not None:
        return foldmark.open(path)
    given = read_settings()
    chosen = named_database(os.environ, given.database)
    if not chosen:
        make_folder(Path(default_database(os.environ)).parent)
    return foldmark.open(chosen or default_database(os.environ), settings=given)


def conversation(log: Log, session_id: str) -> Agent:
    """The agent with this uuid, or the conversation of this id, made if there is none. Raises CommandError."""
    if not isinstance(session_id, str):
        raise CommandError(f"a session's id is a text, not {session_id!r:.40}")
    with log.store.read() as moment:
        is_agent = is_uuid(session_id) and moment.agent(session_id.lower()) is not None
    return log.agent(session_id if is_agent else _name(session_id))


def _name(session_id: str) -> str:
    """The name of a session's conversation: its id, or for one that is no name something that depends on it alone."""
    try:
        check_name(session_id)
    except CommandError:
        if is_uuid(session_id):
            return f"session-{session_id.lower()}"
        return f"session-{sha256(session_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
    return session_id


def session_settings(given: "SessionSettings | Mapping[str, Any] | None") -> "SessionSettings":
    """The SDK's settings of a session. Raises TypeError for unknown ones, as the SDK does, and CommandError where the
    SDK is not installed."""
    try:
        from agents.memory import SessionSettings
        from agents.memory.session_settings import coerce_session_settings
    except ImportError:
        raise CommandError(
            "FoldmarkSession works with the OpenAI Agents SDK, which is not installed: "
            "`pip install 'foldmark[openai-agents]'`"
        ) from None
    if given is None:
        return SessionSettings()
    return coerce_session_settings(dict(given) if isinstance(given, Mapping) else given)
