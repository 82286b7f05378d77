"""`foldmark export`: an agent's context becomes a Claude Code session that `claude --resume` continues [SPEC 8, 9].

What is written is the context as of now: everything that is visible, whatever the window shows of it. State,
scratchpad, memos and settings are no messages and stay behind.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from foldmark.core.agents import is_uuid
from foldmark.core.assembly.eviction import all_as_sent, in_place
from foldmark.core.errors import CommandError
from foldmark.core.segments import Segments
from foldmark.core.wording import one_line
from foldmark.log import Agent
from foldmark.sessions.conversion.records import SYNTHETIC, Exporting, choose, records
from foldmark.sessions.formats import DEFAULT, ResumeCommand, format_named, resume_command
from foldmark.sessions.new_file import WriteError, new_file
from foldmark.sessions.places import session_path


class Export(Struct, frozen=True):
    """A session that is ready to be written.

    `lines` are its records as JSON, without line ends; `messages` counts the events that are in them by kind;
    `left_out` is (event, why) of those that are not, or not whole; `until` is the newest event there was.
    """

    session_id: str
    cwd: str
    lines: list[bytes]
    messages: dict[str, int]
    left_out: list[tuple[int, str]]
    until: int

    def content(self) -> Iterator[bytes]:
        """The file, line by line."""
        return (line + b"\n" for line in self.lines)


class Written(Struct, frozen=True):
    """Where an export is; `command` continues it."""

    file: Path
    command: ResumeCommand


def export(agent: Agent, cwd: str | os.PathLike[str], version: str, session_id: str | None = None) -> Export:
    """An agent's context as a session of the working folder `cwd`, made by Foldmark `version`. Nothing is written.

    Raises CommandError where nothing of it could be sent.
    """
    context = agent.context()
    chosen = choose(in_place(all_as_sent(context.messages, context.evicted)), agent.id)
    if not chosen.pieces:
        shown = f"none of its {len(context.messages)} messages can be sent" if context.messages else "it is empty"
        raise CommandError(
            f"the context of {one_line(agent.name or agent.id[:8])} cannot be exported: {shown}. `/restore ID` brings "
            "back what an operation took out; `/context show` tells why a message is not sent"
        )
    session_id = session_id or agent.log.new_id()
    to = Exporting(
        agent_id=agent.id,
        session_id=session_id,
        cwd=os.path.realpath(cwd),
        model=_model(agent),
        models=_models(agent, context.ranges),
        about={
            "conversation": agent.name,
            "agent": agent.id,
            "exported_at": agent.log.clock(),
            "up_to": context.at,
            "foldmark": version,
        },
    )
    lines = [msgspec.json.encode(record) for record in records(chosen.pieces, to)]
    events = {piece.event.id: piece.event.kind for piece in chosen.pieces if not piece.made_up}
    return Export(session_id, to.cwd, lines, dict(Counter(events.values())), chosen.left_out, context.at)


def write(found: Export, environment: Mapping[str, str], file: Path | None = None) -> Written:
    """Write a session to a new `file`, by default to where Claude Code looks for the sessions of its working folder.

    Raises WriteError if the file exists, and for what the system says.
    """
    own = format_named(DEFAULT).folder_of_project(found.cwd, environment) / f"{found.session_id}.jsonl"
    path = file or own
    try:
        if file is None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"cannot make {one_line(str(path.parent))}: {error.strerror or error}") from None
    with new_file(path) as out:
        out.writelines(found.content())
    return Written(path, resume_command(session_path(path, DEFAULT), environment))


def session_of(file: Path) -> str | None:
    """The session id that Claude Code takes a file of this name for, if it is one."""
    return file.stem if is_uuid(file.stem) else None


def _model(agent: Agent) -> str:
    """The agent's own model if it is one of Anthropic's."""
    provider, _, model = agent.standing().config.model.partition("/")
    return model if provider == "anthropic" and model else SYNTHETIC


def _models(agent: Agent, visible: Segments) -> dict[str, str]:
    """The model of each response, as far as its provider reported one."""
    with agent.log.store.read() as moment:
        usages = moment.events(moment.of_kind("usage", visible))
    found = {}
    for event in usages:
        data = event.data or {}
        response, model = data.get("response"), data.get("model")
        if isinstance(response, str) and isinstance(model, str) and model:
            found[response] = model
    return found
