"""`foldmark export`: write an agent's context as a Claude Code session that `claude --resume` continues [SPEC 8, 9].

The session has the whole current context, not only the window. State, scratchpad, memos and settings are not messages
and are not exported.

- An assistant's record has one block, as Claude Code writes it. The records of one answer share `message.id`, by which
  Claude Code joins them. It is the response's own id, unless joining would change the order.
- Adjacent calls are followed by their results, one record each (SPEC 5.2). Claude Code silently drops a call without a
  result, a result without a call, and a repeated call id.
- The first record is a user's. A summary in that place is written as Claude Code's own compaction (`isCompactSummary`).
  Anywhere else, the session would begin with that compaction, so the summary is an answer, or a user's text if it is an
  agent's compaction.
- A message after a result in the same turn that is not a prompt has `isMeta`. Claude Code writes documents that a tool
  has read this way, and an import does not begin a turn there.
- Uuids are computed from agent and event. Times are those of the events, but never decrease.
- A record without a message in the context (a result for an unanswered call, an added first record) has the mark
  `MADE_UP`, which an import recognizes.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.agents import is_uuid
from foldmark.core.assembly import wire
from foldmark.core.assembly.eviction import all_as_sent, in_place
from foldmark.core.assembly.prompt import OMITTED
from foldmark.core.assembly.view import CallGroup, pair
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.segments import END, until
from foldmark.core.wording import one_line
from foldmark.formats.claude.members import CLIENT, INJECTED, MADE_UP, RESPONSE, SUMMARY, new_record
from foldmark.formats.claude.told import told_again
from foldmark.formats.places import session_path
from foldmark.formats.session_format import DEFAULT, ResumeCommand, format_named, resume_command
from foldmark.log import Agent
from foldmark.log.context import Context
from foldmark.providers.registry import dialect_of
from foldmark.request.exchanges import read_as, read_by
from foldmark.sessions.new_file import WriteError, new_file
from foldmark.text import queued
from foldmark.wires.anthropic import (
    Block,
    call_block,
    is_thinking,
    left_behind,
    message_blocks,
    result_block,
)
from foldmark.wires.lenient_json import filled_text, member

SYNTHETIC = "<synthetic>"
"""The model that Claude Code writes for an answer without one. It cannot resume after an answer without any model."""

_NAMES = UUID("6a3c0d9e-1f0b-5b8e-9d53-5f1e0a7c2b44")


class Exporting(Struct, frozen=True, kw_only=True):
    """The parts of the records that do not come from messages.

    `models` maps response ids to models. `model` is the model of all other answers. `about` are further members of the
    first record.
    """

    agent_id: str
    session_id: str
    cwd: str
    model: str = SYNTHETIC
    models: Mapping[str, str] = {}
    about: Mapping[str, Any] = {}


class ExportedPiece(Struct, frozen=True, kw_only=True):
    """The blocks of one record: an event or a part of it. If it is `made_up`, `event` is a neighbouring event.

    `answer` is the id of the answer to which an assistant's piece belongs.
    """

    event: Event
    part: str
    role: str
    blocks: list[Block]
    answer: str | None = None
    made_up: bool = False


def choose(events: Iterable[Event], agent_id: str) -> tuple[list[ExportedPiece], list[tuple[int, str]]]:
    """Return the pieces of the messages, in log order, and the ids of omitted or incomplete events with the reason."""
    sent: list[Event] = []
    left_out: list[tuple[int, str]] = []
    for event in events:
        if behind := left_behind(event):
            left_out.append((event.id, f"{behind} of its blocks cannot be sent"))
        if event.kind in ("tool_call", "tool_result") or message_blocks(event):
            sent.append(event)
        elif not behind:
            left_out.append((event.id, "it is empty"))
    groups, orphans = pair(sent)
    left_out += [(each.event, each.detail) for each in orphans]
    pieces, thoughts = _without_idle_thoughts(_answers(_pieces(groups), agent_id))
    left_out += [(event, "thinking that nothing follows") for event in thoughts]
    if pieces and pieces[0].role != "user":
        first = [{"type": "text", "text": OMITTED}]
        pieces.insert(0, ExportedPiece(event=pieces[0].event, part="omitted", role="user", blocks=first, made_up=True))
    return _answers(pieces, agent_id), sorted(left_out)


def records(pieces: Sequence[ExportedPiece], to: Exporting) -> Iterator[Block]:
    """Yield the records of a session."""
    parent: str | None = None
    moment = ""
    behind: int | None = None  # the turn of the results directly before
    for index, piece in enumerate(pieces):
        joins = behind is not None and piece.role == "user" and behind == piece.event.turn_id
        behind = piece.event.turn_id if joins or piece.blocks[0]["type"] == "tool_result" else None
        moment = max(moment, _milliseconds(piece.event.created_at))
        uuid = str(_uuid(to.agent_id, piece))
        record = new_record(parent, uuid, to.session_id, moment, {"userType": "external", "cwd": to.cwd})
        if index and (attached := _attachment(piece.event)):
            record |= {"type": "attachment", "attachment": attached}
        elif told := told_again(member(piece.event.data, "told"), piece.event.content):
            record |= {"type": "attachment", **told}
        else:
            record |= {"type": piece.role, "message": _message(piece, to)}
            if piece.role == "assistant" and piece.answer != _response(piece.event):
                record[RESPONSE] = _response(piece.event)
        if piece.made_up:
            record |= INJECTED if piece.part == "omitted" else {}
            record[MADE_UP] = True
        elif piece.event.kind in ("system", "client") or (joins and piece.part == "text" and record["type"] == "user"):
            record |= INJECTED
            if piece.event.kind == "client" and record["type"] == "user":
                record[CLIENT] = True
        elif piece.event.kind == "summary" and index == 0:
            record |= SUMMARY
        if index == 0:
            record |= to.about
        yield record
        parent = uuid


def _pieces(groups: Sequence[Event | CallGroup]) -> list[ExportedPiece]:
    calls = [call for group in groups if isinstance(group, CallGroup) for call, _ in group.calls]
    ids = dict(zip((c.id for c in calls), wire.call_ids(c.call_id or "" for c in calls), strict=True))
    pieces: list[ExportedPiece] = []
    for group in groups:
        if isinstance(group, Event):
            pieces += _message_pieces(group, first=not pieces)
            continue
        if group.text is not None:
            pieces += _message_pieces(group.text, first=not pieces)
        for _, run in groupby(group.calls, key=lambda each: _response(each[0])):
            pieces += _exchange(list(run), ids)
    return pieces


def _exchange(calls: Sequence[tuple[Event, Event | None]], ids: Mapping[int, str]) -> Iterator[ExportedPiece]:
    """Yield the calls of one answer, then their results: Claude Code looks for them before the next answer."""
    for call, _ in calls:
        yield ExportedPiece(event=call, part="call", role="assistant", blocks=[call_block(call, ids[call.id])])
    for call, result in calls:
        block = result_block(result, ids[call.id])
        made_up = result is None
        part = "no result" if made_up else "result"
        yield ExportedPiece(event=result or call, part=part, role="user", blocks=[block], made_up=made_up)


def _message_pieces(event: Event, *, first: bool) -> list[ExportedPiece]:
    blocks = message_blocks(event)
    if event.role == "assistant" and not (event.kind == "summary" and first):
        return [ExportedPiece(event=event, part=f"{at}", role="assistant", blocks=[b]) for at, b in enumerate(blocks)]
    return [ExportedPiece(event=event, part="text", role="user", blocks=blocks)]


def _without_idle_thoughts(pieces: Sequence[ExportedPiece]) -> tuple[list[ExportedPiece], list[int]]:
    """Return the pieces of answers without thinking at the end, which the API refuses, and without answers that are
    nothing but thinking, which Claude Code does not send; and the omitted events."""
    says = {each.answer for each in pieces if each.role == "assistant" and not is_thinking(each.blocks[0])}
    kept: list[ExportedPiece] = []
    gone = [each.event.id for each in pieces if each.role == "assistant" and each.answer not in says]
    for role, run in groupby(pieces, key=lambda piece: piece.role):
        answer = [each for each in run if role == "user" or each.answer in says]
        while role == "assistant" and answer and is_thinking(answer[-1].blocks[0]):
            gone.append(answer.pop().event.id)
        kept += answer
    return kept, gone


def _answers(pieces: Sequence[ExportedPiece], agent_id: str) -> list[ExportedPiece]:
    """Return the pieces, with `answer` set in those of an assistant.

    After results, a response continues only with further calls. Otherwise joining would move a record, so a new answer
    begins.
    """
    found: list[ExportedPiece] = []
    used: set[str] = set()
    current: str | None = None  # the id of the open answer
    own: str | None = None  # its response
    after_results = False
    for piece in pieces:
        if piece.role == "user":
            if piece.blocks[0]["type"] == "tool_result":
                after_results = True
            else:
                current = own = None
            found.append(piece)
            continue
        response = _response(piece.event)
        goes_on = response == own and (
            not after_results or (response is not None and piece.blocks[0]["type"] == "tool_use")
        )
        if current is None or not goes_on:
            fresh = response if response is not None and response not in used else None
            current, own, after_results = fresh or f"msg_{_uuid(agent_id, piece).hex}", response, False
            used.add(current)
        found.append(replace(piece, answer=current))
    return found


def _attachment(event: Event) -> Block | None:
    """Return a queued prompt as the attachment that it was imported from, or None for any other message."""
    about = member(event.data, "attachment") if event.kind == "user" else None
    if not isinstance(about, dict) or about.get("type") != queued.ATTACHMENT:
        return None
    blocks = message_blocks(event)
    alone = blocks[0].get("text") if len(blocks) == 1 else None
    return {**about, "prompt": alone or blocks} if blocks else None


def _response(event: Event) -> str | None:
    return filled_text(member(event.data, "response"))


def _uuid(agent_id: str, piece: ExportedPiece) -> UUID:
    return uuid5(_NAMES, f"{agent_id}/{piece.event.id}/{piece.part}")


def _message(piece: ExportedPiece, to: Exporting) -> Block:
    if piece.role == "assistant":
        response = _response(piece.event)
        return {
            "id": piece.answer,
            "type": "message",
            "role": "assistant",
            "model": to.models.get(response or "", to.model),
            "content": piece.blocks,
            "stop_reason": None,
            "stop_sequence": None,
        }
    alone = piece.blocks[0] if len(piece.blocks) == 1 else {}
    return {"role": "user", "content": alone["text"] if alone.get("type") == "text" else piece.blocks}


def _milliseconds(moment: str) -> str:
    return f"{moment[:23]}Z"  # as Claude Code writes a time


class Export(Struct, frozen=True):
    """A session that is ready to be written.

    `lines` are its records as JSON, without line ends. `messages` counts their events by kind. `left_out` lists events
    that are missing or incomplete, with the reason. `until` is the id of the newest event of the context.
    """

    session_id: str
    cwd: str
    lines: list[bytes]
    messages: dict[str, int]
    left_out: list[tuple[int, str]]
    until: int

    def content(self) -> Iterator[bytes]:
        """Yield the lines of the file."""
        return (line + b"\n" for line in self.lines)


class Written(Struct, frozen=True):
    """The file of an export, and the command that continues it."""

    file: Path
    command: ResumeCommand


def export(
    agent: Agent,
    cwd: str | os.PathLike[str],
    version: str,
    session_id: str | None = None,
    about: Mapping[str, Any] = {},
) -> Export:
    """Return an agent's context as a session of the working folder `cwd`, exported by Foldmark `version`.

    `about` are further members of its first record. Nothing is written. Raises CommandError if nothing in the context
    can be sent.
    """
    with agent.reading() as (moment, at):  # without summaries that only another provider can read
        context = Context(agent.log.store, read_by(moment, at, read_as(format_named(DEFAULT).dialect)))
    pieces, left_out = choose(in_place(all_as_sent(context.messages, context.evicted)), agent.id)
    if not pieces:
        shown = f"none of its {len(context.messages)} messages can be sent" if context.messages else "it is empty"
        raise CommandError(
            f"the context of {one_line(agent.name or agent.id[:8])} cannot be exported: {shown}. `/restore ID` brings "
            "back messages that an operation has removed; `/context show` shows why a message is not sent"
        )
    session_id = session_id or agent.log.new_id()
    to = Exporting(
        agent_id=agent.id,
        session_id=session_id,
        cwd=os.path.realpath(cwd),
        model=_model(agent),
        models=_models(agent),
        about={
            "export_metadata": {
                "conversation": agent.name,
                "agent": agent.id,
                "exported_at": agent.log.clock(),
                "up_to": context.at,
                "foldmark": version,
            },
            **about,
        },
    )
    lines = [msgspec.json.encode(record) for record in records(pieces, to)]
    events = {piece.event.id: piece.event.kind for piece in pieces if not piece.made_up}
    return Export(session_id, to.cwd, lines, dict(Counter(events.values())), left_out, context.at)


def write(found: Export, environment: Mapping[str, str], file: Path | None = None) -> Written:
    """Write a session to a new `file`, by default in Claude Code's folder for the sessions of the working folder.

    Raises WriteError if the file exists or cannot be written.
    """
    if file is None:
        folder = format_named(DEFAULT).folder_of_project(found.cwd, environment)
        file = folder / f"{found.session_id}.jsonl"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise WriteError(f"the folder {one_line(str(folder))} cannot be made: {error.strerror or error}") from None
    with new_file(file) as out:
        out.writelines(found.content())
    return Written(file, resume_command(session_path(file, DEFAULT), environment))


def session_of(file: Path) -> str | None:
    """Return the session id that Claude Code reads from a file's name, or None."""
    return file.stem if is_uuid(file.stem) else None


def _model(agent: Agent) -> str:
    """Return the agent's own model if it speaks the dialect of the session."""
    provider, _, model = agent.standing().config.model.partition("/")
    with suppress(CommandError):  # an unknown provider
        if model and dialect_of(provider, agent.log.given.dialects).recorded == format_named(DEFAULT).dialect:
            return model
    return SYNTHETIC


def _models(agent: Agent) -> dict[str, str]:
    """Return the models of responses by their ids, for all responses whose model the provider reported."""
    with agent.reading() as (moment, at):
        usages = list(moment.select(until(at.fold.segments, at.last), "usage", expected=END))
    found = {}
    for event in usages:
        if (response := _response(event)) and (model := filled_text(member(event.data, "model"))):
            found[response] = model
    return found
