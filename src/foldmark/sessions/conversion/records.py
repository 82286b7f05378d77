"""From messages to the records of a Claude Code session: which, in what order, chained by uuid [SPEC 8]. Pure.

- One block a record in an assistant's name, as Claude Code writes them. Records of one answer share `message.id`, by
  which Claude Code puts them together again: the response's own id, as long as putting together changes no order.
- Calls that stand together are followed by their results, a record each (SPEC 5.2). Claude Code would leave out, and
  say nothing, a call without result, a result without call, a call id that is there twice.
- The first record is a user's. A summary in that place is what Claude Code makes of a compaction (`isCompactSummary`);
  anywhere else a session would begin with it, so there it is an answer like any other.
- What a turn got behind a result, without being a prompt, bears `isMeta`: so Claude Code writes the document that a
  tool read, and an import knows by it that no turn begins there.
- Uuids follow from agent and event; times from the events, never going back.
- What no message says (a result for a call without one, the first record) bears the mark `MADE_UP`, by which an import
  knows it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any
from uuid import UUID, uuid5

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.assembly import wire
from foldmark.core.assembly.prompt import OMITTED
from foldmark.core.assembly.view import CallGroup, pair
from foldmark.core.events import Event
from foldmark.sessions.claude.blocks import MADE_UP, RESPONSE
from foldmark.sessions.conversion import content
from foldmark.sessions.conversion.content import Block

Record = dict[str, Any]

SYNTHETIC = "<synthetic>"
"""What Claude Code writes as the model of an answer that no model gave; a record without one stops it for ever."""

_NAMES = UUID("6a3c0d9e-1f0b-5b8e-9d53-5f1e0a7c2b44")


class Exporting(Struct, frozen=True, kw_only=True):
    """What the records of a session say beside the messages.

    `models` are by response id, `model` is everybody else's; `about` is put into the first record.
    """

    agent_id: str
    session_id: str
    cwd: str
    model: str = SYNTHETIC
    models: Mapping[str, str] = {}
    about: Mapping[str, Any] = {}


class Chosen(Struct, frozen=True):
    """What is written, each piece a record, and which events are not, with the reason."""

    pieces: list["ExportedPiece"]
    left_out: list[tuple[int, str]]


class ExportedPiece(Struct, frozen=True, kw_only=True):
    """One record to be: the blocks of an event or of a part of it. `made_up`: no event says it, `event` is a neighbour.

    `answer` names the answer that an assistant's piece is of.
    """

    event: Event
    part: str
    role: str
    blocks: list[Block]
    answer: str | None = None
    made_up: bool = False


def choose(events: Iterable[Event], agent_id: str) -> Chosen:
    """What is written of the messages of an agent's context, in the order of the log."""
    sent: list[Event] = []
    left_out: list[tuple[int, str]] = []
    for event in events:
        if behind := content.left_behind(event):
            left_out.append((event.id, f"{behind} of its blocks cannot be sent"))
        if event.kind in ("tool_call", "tool_result") or content.said(event):
            sent.append(event)
        elif not behind:
            left_out.append((event.id, "it is empty"))
    groups, orphans = pair(sent)
    left_out += [(each.event, each.detail) for each in orphans]
    pieces, thoughts = _without_last_thoughts(_pieces(groups))
    left_out += [(event, "thinking that nothing follows") for event in thoughts]
    if pieces and pieces[0].role != "user":
        first = [{"type": "text", "text": OMITTED}]
        pieces.insert(0, ExportedPiece(event=pieces[0].event, part="omitted", role="user", blocks=first, made_up=True))
    return Chosen(_answers(pieces, agent_id), sorted(left_out))


def records(pieces: Sequence[ExportedPiece], to: Exporting) -> Iterator[Record]:
    """The records of a session."""
    parent: str | None = None
    moment = ""
    behind: int | None = None  # the turn, right behind results in it
    for index, piece in enumerate(pieces):
        joins = behind is not None and piece.role == "user" and behind == piece.event.turn_id
        behind = piece.event.turn_id if joins or piece.blocks[0]["type"] == "tool_result" else None
        moment = max(moment, _milliseconds(piece.event.created_at))
        uuid = str(_uuid(to.agent_id, piece))
        record: Record = {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": to.cwd,
            "sessionId": to.session_id,
            "uuid": uuid,
            "timestamp": moment,
        }
        if index and (attached := content.attachment(piece.event)):
            record |= {"type": "attachment", "attachment": attached}
        else:
            record |= {"type": piece.role, "message": _message(piece, to)}
            if piece.role == "assistant" and piece.answer != _response(piece.event):
                record[RESPONSE] = _response(piece.event)
        if piece.made_up:
            record |= {"isMeta": True} if piece.part == "omitted" else {}
            record[MADE_UP] = True
        elif piece.event.kind == "system" or (joins and piece.part == "text" and record["type"] == "user"):
            record["isMeta"] = True
        elif piece.event.kind == "summary" and piece.role == "user":
            record |= {"isVisibleInTranscriptOnly": True, "isCompactSummary": True}
        if index == 0:
            record["export_metadata"] = dict(to.about)
        yield record
        parent = uuid


def _pieces(groups: Sequence[Event | CallGroup]) -> list[ExportedPiece]:
    calls = [call for group in groups if isinstance(group, CallGroup) for call, _ in group.calls]
    ids = dict(zip((c.id for c in calls), wire.call_ids(c.call_id or "" for c in calls), strict=True))
    pieces: list[ExportedPiece] = []
    for group in groups:
        if isinstance(group, Event):
            pieces += _said(group, first=not pieces)
            continue
        if group.text is not None:
            pieces += _said(group.text, first=not pieces)
        for _, run in groupby(group.calls, key=lambda each: _response(each[0])):
            pieces += _exchange(list(run), ids)
    return pieces


def _exchange(calls: Sequence[tuple[Event, Event | None]], ids: Mapping[int, str]) -> Iterator[ExportedPiece]:
    """Calls of one answer, then their results: Claude Code looks for them in front of the next answer."""
    for call, _ in calls:
        yield ExportedPiece(event=call, part="call", role="assistant", blocks=[content.use(call, ids[call.id])])
    for call, result in calls:
        block = content.result(result, ids[call.id])
        made_up = result is None
        part = "no result" if made_up else "result"
        yield ExportedPiece(event=result or call, part=part, role="user", blocks=[block], made_up=made_up)


def _said(event: Event, *, first: bool) -> list[ExportedPiece]:
    blocks = content.said(event)
    if event.kind == "assistant" or (event.kind == "summary" and not first):
        return [ExportedPiece(event=event, part=f"{at}", role="assistant", blocks=[b]) for at, b in enumerate(blocks)]
    return [ExportedPiece(event=event, part="text", role="user", blocks=blocks)]


def _without_last_thoughts(pieces: Sequence[ExportedPiece]) -> tuple[list[ExportedPiece], list[int]]:
    """The API refuses an answer that ends in thinking."""
    kept: list[ExportedPiece] = []
    gone = []
    ends = True
    for piece in reversed(pieces):
        if piece.role == "user":
            ends = True
        elif ends and piece.blocks[0]["type"] in content.THOUGHTS:
            gone.append(piece.event.id)
            continue
        else:
            ends = False
        kept.append(piece)
    kept.reverse()
    return kept, gone


def _answers(pieces: Sequence[ExportedPiece], agent_id: str) -> list[ExportedPiece]:
    """The pieces with the answer that each of an assistant's is of.

    A response goes on behind results only with calls that it had beside those; in any other case what is put together
    would stand elsewhere than here, so that another answer begins.
    """
    found: list[ExportedPiece] = []
    used: set[str] = set()
    current: str | None = None  # the answer under way
    own: str | None = None  # the response that it is of
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


def _response(event: Event) -> str | None:
    response = (event.data or {}).get("response")
    return response if isinstance(response, str) and response else None


def _uuid(agent_id: str, piece: ExportedPiece) -> UUID:
    return uuid5(_NAMES, f"{agent_id}/{piece.event.id}/{piece.part}")


def _message(piece: ExportedPiece, to: Exporting) -> Record:
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
    """A time as Claude Code writes it."""
    return f"{moment[:23]}Z"
