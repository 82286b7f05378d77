"""`/state` and `/scratchpad`: the model's anchor block and its notebook, as the person sees and edits them [SPEC 7]."""

from typing import Any

from msgspec.structs import replace

from foldmark.commands.registry import Command, CommandCall
from foldmark.core.agents import minute
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.segments import contains, until
from foldmark.log import Result
from foldmark.operations.effects import EditText
from foldmark.request.standing import Standing, state_of
from foldmark.sending.questions import rebuilt


def _state(call: CommandCall) -> Result:
    with call.agent.reading() as (moment, at):
        now = state_of(moment, at)
        state = None if now is None else now.content
        if state and not call.flag("--all"):
            return Result(state, None, {"state": state})
        rows = [_block(at, event, now) for event in _blocks(moment, at)]
    if not call.flag("--all"):
        gone = "No state block is in the context any more; `/state --all` shows those there were."
        return Result(gone if rows else "There is no state block yet.", None, {"state": state})
    text = "\n\n".join(f"── event {row['id']} · {row['date']} · {row['where']} ──\n{row['state']}" for row in rows)
    return Result(text or "There is no state block yet.", None, {"state": state, "states": rows})


def _blocks(moment: Snapshot, at: Standing) -> list[Event]:
    """Return all state blocks of the lineage that were not erased, oldest first, with the block as content."""
    lineage = until(at.lineage, at.newest)
    ids = [event_id for kind in ("state", "summary") for event_id in moment.of_kind(kind, lineage)]
    blocks = [
        event if event.kind == "state" else replace(event, content=(event.data or {}).get("state") or "")
        for event in moment.events(ids)
    ]
    return [event for event in blocks if event.content]


def _block(at: Standing, event: Event, now: Event | None) -> dict[str, Any]:
    shown = contains(at.visible, event.agent_id, event.id)
    in_force = now is not None and now.id == event.id
    where = "in force" if in_force else "in the context" if shown else "not in the context"
    return {
        "id": event.id,
        "date": minute(event.created_at),
        "in_context": shown,
        "in_force": in_force,
        "where": where,
        "state": event.content,
    }


def _rebuild(call: CommandCall) -> Result:
    block = rebuilt(call.agent)
    event_id = call.agent.record("state", block, actor="model")
    return Result(f"### STATE\n{block}", None, {"state": block, "event": event_id})


def _scratchpad(call: CommandCall) -> Result:
    text = call.agent.standing().scratchpad
    return Result(text or "The scratchpad is empty.", None, {"scratchpad": text})


def _edit(call: CommandCall) -> Result:
    text = call.get("TEXT")
    if text is None:
        text = call.agent.standing().scratchpad or ""
        return Result("", effect=EditText(text, "/scratchpad edit", "/scratchpad clear"))
    return _write(call, text, "Scratchpad changed.")


def _clear(call: CommandCall) -> Result:
    return _write(call, "", "Scratchpad cleared.")


def _write(call: CommandCall, text: str, said: str) -> Result:
    event_id = call.agent.record("scratchpad", text, actor=call.actor)
    return Result(said, None, {"scratchpad": text, "event": event_id})


NOTEBOOK = (
    Command(
        "state", "[--all]", "Show the state block in force; with --all those before it as well.", _state, at_once=True
    ),
    Command("context rebuild", "", "Ask the model for a fresh state block from the whole window.", _rebuild),
    Command("scratchpad", "", "Show the scratchpad.", _scratchpad, at_once=True),
    Command("scratchpad read", "", "Show the scratchpad.", _scratchpad, at_once=True),
    Command("scratchpad edit", "[TEXT...]", "Change the scratchpad; without TEXT in your editor.", _edit),
    Command("scratchpad clear", "", "Empty the scratchpad.", _clear),
)
