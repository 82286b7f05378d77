"""`context_meter`: how full a context is, the caller's own session's or a conversation's [SPEC 5.5, 8]."""

import os
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from foldmark.core.errors import CommandError
from foldmark.core.request import ToolSpec
from foldmark.core.wording import meter, one_line
from foldmark.cost.requests import newest_turn
from foldmark.mcp.conversations import ARGUMENT, Conversations
from foldmark.sending.status import assumed, fullness
from foldmark.sessions.formats import SessionPath, format_named
from foldmark.sessions.hook.tail import share
from foldmark.sessions.places import NoSessionError, find, recognized
from foldmark.sessions.session_file import SessionFileError

METER = ToolSpec(
    "context_meter",
    "How full a context is. Without arguments: that of the coding session which calls, by the newest answer in its "
    "transcript, and that of the conversation this server is for.",
    {
        "type": "object",
        "properties": {
            "session": {
                "type": "string",
                "description": "A session of Claude Code or Codex: its id, the beginning of it, or its file",
            },
            ARGUMENT: {"type": "string", "description": "A conversation: its name, or the beginning of its uuid"},
        },
    },
)


class MeterArguments(Struct, frozen=True, forbid_unknown_fields=True):
    session: str | None = None
    conversation: str | None = None


def context_meter(wanted: MeterArguments, conversations: Conversations, *, here: bool) -> str:
    """One line for each context that is meant; `here` says whether the caller works in this process's folder.

    Raises CommandError if none is known, NoSessionError, StoreError.
    """
    lines = []
    named = wanted.conversation or conversations.default
    if wanted.session is not None or (wanted.conversation is None and here):
        try:
            lines += _sessions(wanted.session)
        except NoSessionError as error:
            if wanted.session is not None:
                raise
            if named is None:
                raise CommandError(
                    f"whose context is not known: {error}; or say which conversation is meant, as `{ARGUMENT}`"
                ) from None
    if wanted.conversation is not None or (wanted.session is None and named is not None):
        lines.append(_conversation(wanted.conversation, conversations))
    if not lines:
        raise CommandError(f"say whose context: a coding agent's `session`, or a `{ARGUMENT}`")
    return "\n".join(lines)


def _conversation(named: str | None, conversations: Conversations) -> str:
    with conversations.agent(named) as agent:
        line = f"Conversation '{agent.name or agent.id[:8]}': {fullness(agent, agent.request())}"
        kept, told = newest_turn(agent), assumed(agent)
        return "\n".join((line, *([] if kept is None else [kept.text]), *([] if told is None else [told])))


def _sessions(named: str | None) -> list[str]:
    """The session that is meant; by default the caller's, and one of the same folder that was written to since: after
    `/clear` another begins, while a server goes on with the environment of the first."""
    found = find(named, Path.cwd(), os.environ)
    with suppress(SessionFileError):  # a session that has hardly begun has no record that tells
        found = recognized(found)
    if named is not None:
        return [_session(found)]
    anywhere = {
        name: value for name, value in os.environ.items() if name not in ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID")
    }
    with suppress(NoSessionError):
        newest = find(None, Path.cwd(), anywhere)
        if newest.path.stat().st_mtime > found.path.stat().st_mtime:
            return [_session(found), f"{_session(newest)} (in the same folder, written to since)"]
    return [_session(found)]


def _session(found: SessionPath) -> str:
    of = f"{format_named(found.kind).title} session {one_line(found.id)}"
    full = share(found.path)
    if full is None:
        return f"{of}: not known; it has no answer yet, or none since it was trimmed or compacted"
    return f"{of}: {meter(full.tokens, full.window)}"
