"""`foldmark import`: a coding agent's session becomes a conversation [SPEC 8, 9].

Two passes: the first reads ids and flags of every record (`claude.index`, `codex.index`) and from them plans turns
and branches (`claude.chain`); the second reads each record again where it lies in the file and appends it (`writer`).
Everything is one transaction: an import that is interrupted leaves nothing of the session behind.

All lines end up in the conversation, but broken ones, which the report names. A record that is not a message, or has
something in it that cannot be used as one, is kept whole as a `record` event. Branches that are not active are turns
that `/context drop` took out of the context, so `/restore` brings them back. So it does with what a compaction took
out: its summary is recorded as a `summary` operation, as by `/summarize`.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from foldmark.conversation import Log
from foldmark.conversation.log import is_uuid
from foldmark.core.ports import Progress
from foldmark.sessions.claude import index as claude_index
from foldmark.sessions.claude.blocks import read_message
from foldmark.sessions.claude.chain import plan
from foldmark.sessions.codex import index as codex_index
from foldmark.sessions.codex.items import read_item
from foldmark.sessions.conversion.writer import Form, Meter, Writer
from foldmark.sessions.places import Kind, session_path
from foldmark.sessions.recognition import recognize
from foldmark.sessions.session_file import Broken, Record, SessionFile, SessionFileError

_CLAUDE = Form("claude", "anthropic", read_message)
_CODEX = Form("codex", "openai", read_item)


class ImportReport(Struct, frozen=True):
    """What an import did.

    `lines` is how many the file has, blank ones counted; `records` is type -> how many lines, the most frequent type
    first, with "(no type)" and "(not an object)" among them; `broken` names every line that is not JSON, and why.
    `messages` is kind -> count, in and out of the context; `turns` counts all of them, `dropped` those that are out of
    it; `kept` is how many lines are kept as data (`record` events), usable messages beside it or not.
    """

    name: str
    agent_id: str
    lines: int
    records: dict[str, int]
    broken: list[tuple[int, str]]
    messages: dict[str, int]
    turns: int
    dropped: int
    kept: int


def import_session(
    log: Log, path: str | os.PathLike[str], name: str | None = None, progress: Progress | None = None
) -> ImportReport:
    """Import a session of Claude Code or Codex as a new conversation `name` (default: `default_name`).

    `progress` is told of bytes done, out of the size of the file; the first pass is worth a quarter of them.
    Raises SessionFileError for a file that cannot be read as a session or holds no message, CommandError if the
    conversation exists.
    """
    form = form_of(path)
    name = default_name(path, form.source) if name is None else name
    log.check_new(name)
    index = codex_index.index if form is _CODEX else claude_index.index
    with SessionFile(path) as session:
        meter = Meter(session.size, progress)
        records: Counter[str] = Counter()
        broken: list[tuple[int, str]] = []
        entries = index(_first_pass(session, meter, records, broken))
        with log.creating(name) as agent:
            writer = Writer(agent, session, form, meter)
            for turn in plan(entries):
                writer.write(turn)
            if not writer.messages:
                raise SessionFileError(f"{session.label} holds no message to import; nothing was written")
            writer.drop()
            meter.finish()
    return ImportReport(
        name=name,
        agent_id=agent.id,
        lines=session.line_count,
        records=dict(sorted(records.items(), key=lambda item: (-item[1], item[0]))),
        broken=broken,
        messages=dict(writer.messages),
        turns=writer.turns,
        dropped=writer.dropped,
        kept=writer.kept,
    )


def form_of(path: str | os.PathLike[str]) -> Form:
    """Return the form of the session in a file. Raises SessionFileError if it is none of Claude Code or Codex."""
    with SessionFile(path) as session:
        return _CODEX if recognize(session) == "codex" else _CLAUDE


def default_name(path: str | os.PathLike[str], kind: Kind | None = None) -> str:
    """The file's name without its ending, as far as it is printable; for one that is or ends in a session's id, whose
    session it is and eight characters of that."""
    found = session_path(Path(path), kind)
    if is_uuid(found.id):
        return f"{found.kind}-{found.id[:8]}"
    return "".join(char for char in found.path.stem if char.isprintable()).strip()[:200] or "claude-session"


def _first_pass(
    session: SessionFile, meter: Meter, records: Counter[str], broken: list[tuple[int, str]]
) -> Iterator[Record]:
    for line in session.lines():
        if isinstance(line, Broken):
            broken.append((line.line, line.reason))
        else:
            records[line.type] += 1
            meter.reach(line.offset // 4)
            yield line
