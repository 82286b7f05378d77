"""Whether a session holds anything that a rollover could hand over [SPEC 8]."""

from foldmark.sessions.archive.records import said
from foldmark.sessions.codex.index import INJECTED
from foldmark.sessions.places import SessionPath
from foldmark.sessions.session_file import Record, SessionFile


def has_content(session: SessionPath) -> bool:
    """Return True if something was said in a session, besides the prompt that an earlier rollover began it with.

    Reads as far as the first message. Raises SessionFileError.
    """
    prompts = 0
    with SessionFile(session.path) as file:
        for line in file.lines():
            if not isinstance(line, Record) or not isinstance(line.value, dict) or line.value.get("isMeta") is True:
                continue
            # Claude Code's record with the mark holds the prompt, Codex's stands in front of it.
            prompts += isinstance(line.value.get("continue_metadata"), dict)
            for message in said(line.value, session.kind):
                if message.role == "user" and session.kind == "codex" and message.text.lstrip().startswith(INJECTED):
                    continue
                if not prompts or message.role != "user":
                    return True
                prompts -= 1
    return False
