"""Commands for messages, visible or not: `/message list | show | remove`, `/copy`, `/note`, `/attach`,
`/retry` [SPEC 4, S2]."""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldmark.commands.context import operation_result, preview_of
from foldmark.commands.registry import PREVIEW, CommandCall, command
from foldmark.commands.show import message_json, message_line, turn_title
from foldmark.core import selections
from foldmark.core.agents import minute
from foldmark.core.errors import CommandError
from foldmark.core.events import MESSAGE_KINDS, Event, Rewind
from foldmark.core.ports import Snapshot
from foldmark.core.segments import END, Segment, contains, intersect, since, until
from foldmark.core.turns import Turn, newest_turns
from foldmark.core.wording import FINAL, count, listing
from foldmark.cost.messages import OUT, SENT, NextMessages, next_messages
from foldmark.log import Agent, Result
from foldmark.log.live_session import check_not_live, client_session
from foldmark.operations import places
from foldmark.operations.effects import AskModel, CopyText
from foldmark.operations.history import explain
from foldmark.operations.receipts import Retried
from foldmark.operations.redaction import TRACES_MAY_STAY, others_losing
from foldmark.request.standing import Standing
from foldmark.request.usage import Cost, Weighed, costs, snapshots
from foldmark.sending.status import is_unanswered
from foldmark.text.code_blocks import code_blocks

if TYPE_CHECKING:
    from foldmark.text.attachment import Attachment

LISTED = 10
"""Number of turns that are listed by default."""


@command("message list [N]", at_once=True)
def _list(call: CommandCall) -> Result:
    """List the newest turns of the log with their sizes, sent or not."""
    number = call.listed(LISTED, "turns")
    with call.agent.reading() as (moment, at):
        lineage = until(at.lineage, at.newest)
        turns = newest_turns(moment.select(lineage, newest_first=True), min(number, END))
        ends = [following.messages[0].id - 1 for following in turns[1:]]
        coming = next_messages(call.agent, moment, at)
        recorded = costs(moment, since(until(at.lineage, at.last), turns[0].messages[0].id)) if turns else []
        rows = [
            _listed(moment, at, turn, end, coming, recorded) for turn, end in zip(turns, [*ends, at.last], strict=False)
        ]
        first = turns[0].messages[0].id if len(turns) == number else 1
        rows = sorted([*rows, *_erased(moment, at, first)], key=lambda row: int(row["first"]))[-number:]
    lines = [
        f"Turn {row['id'] or '-':>6} · {call.agent.log.given.minute(row['date'])} · "
        + (f"{count(row['messages'], 'message')}, ~{row['request_tokens']:,} tokens · " if not row["erased"] else "")
        + " · ".join(filter(None, (row["where"], row["title"])))
        for row in rows
    ]
    return Result("\n".join(lines) or "No turn yet.", None, {"turns": rows})


def _erased(moment: Snapshot, at: Standing, first: int) -> list[dict[str, Any]]:
    """Return the tombstones of the erased turns from an id on, as JSON."""
    places = intersect(at.lineage, [s._replace(first=first, last=at.newest) for s in at.lineage])
    gone = selections.tombstones(moment, places)
    rows = []
    for turn, messages in groupby(gone, key=lambda message: message.turn_id):
        tombstone = next(messages)
        by = None if tombstone.erased_by is None else selections.event(moment, tombstone.erased_by)
        where = f"erased by a {by.actor} at {minute(by.created_at)}" if by else "erased"
        about = {"erased": by.id if by else None, "where": where, "title": (by.reason or "") if by else ""}
        rows.append(_row(at, turn, tombstone, **about))
    return rows


def _row(at: Standing, turn: int | None, first: Event, **about: Any) -> dict[str, Any]:
    """Return a turn as JSON; the defaults are those of an erased turn."""
    return {
        "id": turn,
        "first": first.id,
        "date": minute(first.created_at),
        "messages": 0,
        "tokens": 0,
        "request_tokens": 0,
        "snapshot": None,
        "in_context": 0,
        "sent": 0,
        "pinned": turn in at.fold.pins,
        "erased": None,
        **about,
    }


def _listed(
    moment: Snapshot, at: Standing, turn: Turn, end: int, coming: NextMessages, recorded: Sequence[Cost]
) -> dict[str, Any]:
    places = [coming.place(each) for each in turn.messages]
    shown, inside = len(places) - places.count(OUT), places.count(SENT)
    # The tokens of the turn's last request, as counted by its provider [S2].
    first = turn.messages[0]
    own = [cost for cost in recorded if cost.agent == first.agent_id and first.id <= cost.place <= end]
    counted = own[-1].usage if own else None
    weighed = counted.input + counted.output if counted else None
    snapshot = weighed
    if weighed is None and shown:
        snapshot = coming.inside(moment, until(at.visible, turn.messages[-1].id)).tokens
    about = "~" if weighed is None else ""
    where = coming.places([(each.agent_id, each.id) for each in turn.messages])
    where = where if snapshot is None else f"{where} · {about}{snapshot:,} tokens"
    where += " · pinned" if turn.id in at.fold.pins else ""
    where += " · damaged" if any(each.damaged for each in turn.messages) else ""
    return _row(
        at,
        turn.id,
        turn.messages[0],
        messages=len(turn.messages),
        tokens=sum(each.tokens for each in turn.messages),
        request_tokens=coming.total(turn.messages),
        snapshot=snapshot,
        in_context=shown,
        sent=inside,
        where=where,
        title=turn_title(turn.messages),
    )


@command("message show GID", at_once=True)
def _show(call: CommandCall) -> Result:
    """Show a turn whole, sent or not."""
    turn_id = call.number("GID")
    with call.agent.reading() as (moment, at):
        messages = _turn(moment, at, turn_id)
        if not messages:
            call.agent.erasable(moment, at, turn_id)  # raises for an unknown turn
        coming = next_messages(call.agent, moment, at)
        weighed = snapshots(moment, at, messages, partial(coming.inside, moment))
        where = coming.places([(each.agent_id, each.id) for each in messages])
    lines = [message_line(each, whole=True, beside=weighed.get(each.id)) for each in messages]
    shown = sum(contains(at.visible, each.agent_id, each.id) for each in messages)
    head = f"Turn {turn_id}: {count(len(messages), 'message')}, {where}"
    data = {
        "turn": turn_id,
        "in_context": shown,
        "messages": [{**message_json(each), **_weighed(weighed.get(each.id))} for each in messages],
    }
    return Result("\n".join([head, *lines]), None, data)


def _weighed(weighed: Weighed | None) -> dict[str, Any]:
    if weighed is None:
        return {"snapshot": None, "snapshot_counted": None}
    return {"snapshot": weighed.tokens, "snapshot_counted": weighed.counted}


def _turn(moment: Snapshot, at: Standing, turn_id: int) -> list[Event]:
    lineage = at.lineage
    found = moment.turns([turn_id])[turn_id] if 0 < turn_id < END else []
    wanted = [Segment(each.agent_id, each.id, each.id) for each in found if contains(lineage, each.agent_id, each.id)]
    return list(moment.select(tuple(wanted)))


@command("message remove GID [--yes]", interrupts=True, reason=True)
def _remove(call: CommandCall) -> Result:
    """Erase a turn for good, everywhere; asks first."""
    agent, turn_id = call.agent, call.number("GID")
    with agent.reading() as (moment, at):
        erasure = agent.erasable(moment, at, turn_id)
        others = [agent.log.agent(each) for each in others_losing(moment, at, erasure)]
        size, first = moment.size(erasure.ranges), next(moment.select(erasure.ranges, expected=1))
    names = listing((each.name or each.id[:8] for each in others), 40)
    heirs = f" Agents that inherited it lose it as well: {names}." if others else ""
    call.confirm(
        f"Erase turn {turn_id} for good ({count(size.messages, 'message')}, ~{size.tokens:,} tokens: "
        f"{turn_title([first])})?{heirs} {FINAL}"
    )
    receipt = agent.redact(turn_id, actor=call.actor, reason=call.reason)
    traces = agent.log.store.forget_erased()
    text = f"Turn {turn_id} erased. Scratchpads, memos, mail and summaries were not searched."
    if client_session(agent) is not None:
        text += " It is in no later request of the agent, whose own session file still holds it."
    if not traces:
        text += f" {TRACES_MAY_STAY}"
    return operation_result(
        receipt,
        text,
        turn=turn_id,
        erased=size._asdict(),
        agents=[agent.id, *(each.id for each in others)],
        searched=False,
        traces=not traces,
    )


@command("copy [ID]", at_once=True, options=(("--code N", "Copy only its code block N; 1 is the first."),))
def _copy(call: CommandCall) -> Result:
    """Copy the newest answer, or message ID, to the clipboard."""
    with call.agent.reading() as (moment, at):
        message = _newest_answer(moment, at) if call.get("ID") is None else _message(moment, at, call.number("ID"))
    text, what = message.content, f"message {message.id}"
    if call.get("--code") is not None:
        blocks, number = code_blocks(text), call.number("--code")
        if not 1 <= number <= len(blocks):
            raise CommandError(f"{what} has {count(len(blocks), 'code block')}, and no code block {number}")
        text, what = blocks[number - 1], f"code block {number} of {what}"
    return Result(text, effect=CopyText(text, what))


def _newest_answer(moment: Snapshot, at: Standing) -> Event:
    """Return the newest answer in the context that has a text. Raises CommandError."""
    answers = (each for each in moment.select(at.visible, newest_first=True) if each.kind == "assistant")
    answer = next((each for each in answers if each.content.strip()), None)
    if answer is None:
        raise CommandError(
            "there is no answer in the context; /copy ID copies any message, and /message list shows ids"
        )
    return answer


def _message(moment: Snapshot, at: Standing, event_id: int) -> Event:
    """Return a message of this agent's history, in the context or not. Raises CommandError."""
    event = explain(moment, at, event_id).event  # raises for an unknown event
    if event.kind not in MESSAGE_KINDS or not contains(at.lineage, event.agent_id, event.id):
        raise CommandError(f"event {event_id} is no message of this conversation; /message show GID shows the ids")
    if not event.content:
        raise CommandError(f"message {event_id} has no text to copy; /message show {event.turn_id} shows its turn")
    return event


@command("note TEXT...")
def _note(call: CommandCall) -> Result:
    """Add your message without asking the model."""
    event_id = add_message(call.agent, call.arguments["TEXT"], None, call.actor)
    return Result(f"Noted as message {event_id}.", None, {"message": event_id})


@command("attach FILE...")
def _attach(call: CommandCall) -> Result:
    """Add a file (text, image, PDF) as your message without asking the model."""
    named = call.arguments["FILE"]
    quoted = len(named) > 1 and named[0] == named[-1] and named[0] in "\"'"
    file = attached_file(named[1:-1] if quoted else named)
    event_id = add_message(call.agent, file.content, file.data, call.actor)
    return Result(f"Attached as message {event_id}: {file.kind}.", None, {"message": event_id, "type": file.media})


def attached_file(named: str, folder: str = "") -> "Attachment":
    """Read a file as a message; a relative path begins at `folder`, by default the process's. Raises CommandError if
    the file cannot be read or sent."""
    from foldmark.text.attachment import LARGEST_FILE, attachment  # few messages are files

    return attachment(*_read(named, folder, LARGEST_FILE))


def mentioned(text: str, folder: str) -> list[str]:
    """Return the existing paths that a prompt mentions (`@path`), each once; a relative path begins at `folder`. A
    mention of nothing that exists is a word like any other."""
    from foldmark.text.mentions import mentions

    named = (next((each for each in possible if _exists(each, folder)), "") for possible in mentions(text))
    return [each for each in dict.fromkeys(named) if each]


def _exists(named: str, folder: str) -> bool:
    try:
        return Path(folder, Path(named).expanduser()).exists()
    except (OSError, ValueError, RuntimeError):
        return False


def _read(named: str, folder: str, most: int) -> tuple[str, bytes]:
    """Return the name and the content of a file. The name is the path if that is relative, so that files of one name
    can be told apart. Raises CommandError, also for a file of more than `most` bytes."""
    try:
        path = Path(folder, Path(named).expanduser())
        if path.exists() and not path.is_file():
            raise CommandError(f"{named} is no file; name a text, an image or a PDF")
        if path.stat().st_size > most:
            raise CommandError(
                f"{named} has {path.stat().st_size:,} bytes; no model takes more than {most:,}; attach a smaller one"
            )
        return path.name if Path(named).expanduser().is_absolute() else Path(named).as_posix(), path.read_bytes()
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CommandError(f"{named} cannot be read: {reason}") from None


def add_message(agent: Agent, text: str, data: dict[str, Any] | None, actor: str) -> int:
    """Append a message of the person, in a turn of its own unless one is open, and return its id. Raises CommandError
    for a live session."""
    check_not_live(agent)
    with agent.batch():
        is_own_turn = agent.open_turn is None
        event_id = agent.append("user", text, data=data, actor=actor)
        if is_own_turn:
            agent.end_turn()
    return event_id


@command("retry [--preview] [--yes]", interrupts=True)
def _retry(call: CommandCall) -> Result:
    """Ask the model again; asks first if an answer leaves the context."""
    agent = call.agent
    check_not_live(agent)
    with agent.reading() as (moment, at):
        unanswered = is_unanswered(moment, at)
    if unanswered:
        return Result("", effect=AskModel())
    if call.flag(PREVIEW):
        return preview_of(call, places.retry)
    if call.asking.confirm is not None:  # without a person it goes on: /restore brings the answer back
        call.confirm(f"{preview_of(call, places.retry).text}\n\nTake this answer out and ask again?")
    done = agent.operate(places.retry, actor=call.actor)
    assert isinstance(done.operation, Rewind)
    retried = Retried(done.event_id, done.outcome, done.actor, done.reason)
    return operation_result(retried, "The answer left the context; the model is asked again.", turn=done.operation.turn)


@command("resend GID TEXT...", interrupts=True)
def _resend(call: CommandCall) -> Result:
    """Rewind to just before turn GID and send TEXT in its place."""
    agent, turn = call.agent, call.number("GID")
    check_not_live(agent)
    done = agent.operate(lambda moment, at: places.rewind(moment, at, str(turn)), actor=call.actor)
    resent = Retried(done.event_id, done.outcome, done.actor, done.reason, call.arguments["TEXT"])
    return operation_result(resent, f"Rewound to the beginning of turn {turn}; the new text is sent.", turn=turn)


MESSAGES = (_list, _show, _remove, _copy, _note, _attach, _retry, _resend)
