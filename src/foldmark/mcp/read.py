"""`read`, in the shape that users of episodic memory know: what was said in a session, by lines [SPEC 7]."""

import re
from typing import Annotated
from urllib.parse import unquote

from msgspec import Meta, Struct
from msgspec.structs import replace

from foldmark.commands.show import message_line
from foldmark.core.errors import CommandError
from foldmark.core.request import ToolSpec
from foldmark.core.search import passage_lines
from foldmark.core.segments import END, Segment
from foldmark.core.wording import one_line
from foldmark.log.recording import memo_with_id
from foldmark.mcp import archive
from foldmark.mcp.conversations import Conversations
from foldmark.mcp.search import CONVERSATION, MEMO
from foldmark.sessions.archive.reading import excerpt
from foldmark.text.keywords import memo_entry

MOST = 40_000
"""Characters of an answer; it says where the rest begins."""

_Line = Annotated[int, Meta(ge=1, le=END)]

READ = ToolSpec(
    "read",
    "Read what was said in a session or a conversation, whole messages. `path` and line are as `search` gives them; "
    "of a long session read a part, some lines before and behind.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "An archived session's file or id, or a conversation's path"},
            "startLine": {
                "type": "integer",
                "minimum": 1,
                "description": "The first line; from the beginning if left out",
            },
            "endLine": {"type": "integer", "minimum": 1, "description": "The last line; to the end if left out"},
        },
        "required": ["path"],
    },
)


class Read(Struct, frozen=True, forbid_unknown_fields=True, rename={"start": "startLine", "end": "endLine"}):
    """The arguments of `read`."""

    path: str
    start: _Line = 1
    end: _Line = END


def read(wanted: Read, conversations: Conversations) -> str:
    """The messages of these lines. Raises CommandError, NoSessionError, SessionFileError, StoreError."""
    if wanted.end < wanted.start:
        raise CommandError(f"endLine {wanted.end} lies before startLine {wanted.start}")
    if wanted.path.startswith(MEMO):
        return _memo(wanted.path.removeprefix(MEMO), conversations)
    said = _conversation(wanted, conversations) if wanted.path.startswith(CONVERSATION) else _session(wanted)
    if not said:
        raise CommandError(f"nothing is said in these lines of {one_line(wanted.path)[:200]}")
    return _limited(said)


def _session(wanted: Read) -> list[tuple[int, str]]:
    passage = archive.passage(wanted.path)
    shown = (
        (record.line, excerpt(replace(passage, records=(replace(record, asked=False),))).lines)
        for record in passage.records
        if wanted.start <= record.line <= wanted.end
    )
    return [(number, "\n".join(text for line in lines for text in passage_lines(line))) for number, lines in shown]


def _conversation(wanted: Read, conversations: Conversations) -> list[tuple[int, str]]:
    named = unquote(wanted.path.removeprefix(CONVERSATION))
    with conversations.agent(named) as agent, agent.log.store.read() as moment:
        messages = moment.messages((Segment(agent.id, wanted.start, wanted.end),))
        return [(message.id, message_line(message, whole=True)) for message in messages]


def _memo(named: str, conversations: Conversations) -> str:
    with conversations.log() as log, log.store.read() as moment:
        return memo_entry(memo_with_id(moment, int(named) if re.fullmatch("[0-9]{1,18}", named) else 0))


def _limited(said: list[tuple[int, str]]) -> str:
    """As many messages as there is room for, at least the first, cut if need be."""
    texts: list[str] = []
    length = 0
    for line, text in said:
        if texts and length + len(text) > MOST:
            texts.append(f"[More from startLine {line} on, up to line {said[-1][0]}.]")
            break
        if len(text) > MOST:
            text = f"{text[:MOST]}\n[{len(text) - MOST:,} more characters of line {line}.]"
        texts.append(text)
        length += len(text)
    return "\n".join(texts)
