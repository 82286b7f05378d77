"""The memory of one conversation and of all conversations: `/state`, `/scratchpad` and `/memo` [SPEC 4, 7; S2]."""

import re
from itertools import takewhile
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from foldmark.commands.registry import CommandCall, command
from foldmark.commands.settings import changed, unchanged
from foldmark.core import selections
from foldmark.core.agents import minute
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.records import Memo
from foldmark.core.segments import END, contains, until
from foldmark.core.wording import FINAL, count, one_line, title
from foldmark.log import Result
from foldmark.log.memos import memo_with_id, save_memo
from foldmark.operations.changes import SCRATCHPAD
from foldmark.operations.effects import EditText
from foldmark.operations.redaction import TRACES_MAY_STAY
from foldmark.request.standing import Standing, state_of
from foldmark.sending.questions import fresh_state

LISTED = 20
"""Number of memos that are listed by default, and the maximum of a search."""

_TAG = re.compile(r"#[^\W\d_]\S*")
"""A tag as a person types it. `#123` is a number and is part of the text."""


@command("state [--all]", at_once=True)
def _state(call: CommandCall) -> Result:
    """Show the state block in force; with --all, earlier ones too."""
    with call.agent.reading() as (moment, at):
        now = state_of(moment, at)
        state = None if now is None else now.content
        if state and not call.flag("--all"):
            return Result(state, None, {"state": state})
        rows = [_block(at, event, now) for event in _blocks(moment, at)]
    if not call.flag("--all"):
        gone = "No state block is in the context any more; `/state --all` shows the earlier ones."
        return Result(gone if rows else "No state block yet.", None, {"state": state})
    text = "\n\n".join(f"── event {row['id']} · {row['date']} · {row['where']} ──\n{row['state']}" for row in rows)
    return Result(text or "No state block yet.", None, {"state": state, "states": rows})


def _blocks(moment: Snapshot, at: Standing) -> list[Event]:
    """Return all state blocks of the lineage that were not erased, oldest first, as events with the block as their
    content."""
    lineage = until(at.lineage, at.newest)
    ids = [event_id for kind in ("state", "summary") for event_id in selections.ids(moment, kind, lineage)]
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


@command("context rebuild")
def _rebuild(call: CommandCall) -> Result:
    """Ask the model for a fresh state block from the whole window."""
    block = fresh_state(call.agent)
    event_id = call.agent.record("state", block, actor="model")
    return Result(f"### STATE\n{block}", None, {"state": block, "event": event_id})


@command("scratchpad", at_once=True)
def _scratchpad(call: CommandCall) -> Result:
    """Show the scratchpad."""
    text = call.agent.standing().scratchpad
    return Result(text or "The scratchpad is empty.", None, {"scratchpad": text})


@command("scratchpad edit [TEXT...]")
def _edit(call: CommandCall) -> Result:
    """Change the scratchpad; without TEXT in your editor."""
    text = call.get("TEXT")
    if text is None:
        text = call.agent.standing().scratchpad or ""
        return Result("", effect=EditText(text, "/scratchpad edit", "/scratchpad clear"))
    return _write(call, text, "Scratchpad changed.")


@command("scratchpad clear")
def _clear(call: CommandCall) -> Result:
    """Empty the scratchpad."""
    return _write(call, "", "Scratchpad cleared.")


def _write(call: CommandCall, text: str, report: str) -> Result:
    if text == (call.agent.standing().scratchpad or ""):
        return Result(unchanged({SCRATCHPAD: text}), None, {"scratchpad": text, "event": None})
    done = changed(call, call.agent, {SCRATCHPAD: text})
    return Result(report, done.event_id, {"scratchpad": text, "event": done.event_id}, effect=done)


@command("memo list [N]", at_once=True)
def _list(call: CommandCall) -> Result:
    """List the newest memos."""
    number = call.listed(LISTED, "memos")
    with call.agent.log.store.read() as moment:
        found = moment.memos(min(number, END))
    lines = list(map(_line, found)) or ["No memo yet; `/memo add TEXT #tag` saves one."]
    return Result("\n".join(lines), None, {"memos": list(map(_json, found))})


@command("memo add TEXT...")
def _add(call: CommandCall) -> Result:
    """Save a memo for all conversations; #words at its beginning or end are tags."""
    content, tags = tagged(call.arguments["TEXT"])
    memo = save_memo(call.agent, content, tags, call.actor)
    return Result(f"Memo {memo.id} saved{memo.labels}.", None, _json(memo))


def tagged(text: str) -> tuple[str, list[str]]:
    """Separate a memo's text from the `#tag` words at its beginning and end."""
    words = text.split()
    before = list(takewhile(_TAG.fullmatch, words))
    after = list(takewhile(_TAG.fullmatch, reversed(words[len(before) :])))
    rest = "".join(text.split(None, len(before))[len(before) :])
    content = rest.rsplit(None, len(after))[0] if rest.strip() else ""
    return content, [word.rstrip(",;") for word in (*before, *reversed(after))]


@command("memo show ID", at_once=True)
def _show(call: CommandCall) -> Result:
    """Show a memo whole."""
    with call.agent.log.store.read() as moment:
        memo = memo_with_id(moment, call.number("ID"))
        record = None if memo.agent is None else moment.agent(memo.agent)
    whose = "" if record is None else f" in {record.name or record.id[:8]}"
    saved_at = call.agent.log.given.minute(memo.created_at)
    head = f"Memo {memo.id}{memo.labels}, saved by a {memo.actor}{whose} on {saved_at}:"
    return Result(f"{head}\n{memo.content}", None, _json(memo))


@command("memo search WORDS...", at_once=True)
def _search(call: CommandCall) -> Result:
    """List the memos with any of these words, the best first."""
    from foldmark.text.keywords import all_words, keywords

    query = call.arguments["WORDS"]
    words = keywords(query) or all_words(query)
    if not words:
        raise CommandError("no word to search for; type some, as in: /memo search database schema")
    with call.agent.log.store.read() as moment:
        (found,) = moment.memos_with([(words, END)], LISTED)
    asked = one_line(" ".join(query.split())[:60])
    head = f"{count(len(found), 'memo')}, the best first: {asked}" if found else f"No memo matches: {asked}"
    return Result("\n".join((head, *map(_line, found))), None, {"query": query, "memos": list(map(_json, found))})


@command("memo remove ID [--yes]")
def _remove(call: CommandCall) -> Result:
    """Erase a memo for good; asks first."""
    store = call.agent.log.store
    with store.read() as moment:
        memo = memo_with_id(moment, call.number("ID"))
    call.confirm(f"Erase memo {memo.id} for good ({title(memo.content)})? {FINAL}")
    with store.write() as transaction:
        transaction.remove_memo(memo.id)
    traces = not store.forget_erased()
    text = f"Memo {memo.id} erased. Messages that speak of it were not searched."
    return Result(f"{text} {TRACES_MAY_STAY}" if traces else text, None, {"memo": memo.id, "traces": traces})


def _line(memo: Memo) -> str:
    return f"{memo.id:>6} · {memo.created_at[:10]}{memo.labels} · {title(memo.content)}"


def _json(memo: Memo) -> dict[str, Any]:
    return {**to_builtins(memo), "tags": list(memo.tags)}


NOTEBOOK = (_state, _rebuild, _scratchpad, replace(_scratchpad, name="scratchpad read"), _edit, _clear)
MEMO = (_list, _add, _show, _search, _remove)
