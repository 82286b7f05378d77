"""`/memo`: knowledge across conversations, as the person sees and edits it [SPEC 4, 7; S2]."""

import re
from itertools import takewhile
from typing import Any

from msgspec import to_builtins

from foldmark.commands.registry import Command, CommandCall
from foldmark.core.agents import minute
from foldmark.core.errors import CommandError
from foldmark.core.records import Memo
from foldmark.core.segments import END
from foldmark.core.wording import count, one_line, title
from foldmark.log import Result
from foldmark.log.recording import memo_with_id, save_memo
from foldmark.operations.redaction import TRACES_MAY_STAY

LISTED = 20
"""Number of memos that are listed by default, and the maximum of a search."""

_TAG = re.compile(r"#[^\W\d_]\S*")
"""A tag as a person types it; `#123` is a number and belongs to the text."""


def _list(call: CommandCall) -> Result:
    number = LISTED if call.get("N") is None else call.number("N")
    if not number:
        raise CommandError(f"N is a number from 1, how many memos to list; without it the newest {LISTED} are listed")
    with call.agent.log.store.read() as moment:
        found = moment.memos(min(number, END))
    lines = list(map(_line, found)) or ["There is no memo yet; `/memo add TEXT #tag` saves one."]
    return Result("\n".join(lines), None, {"memos": list(map(_json, found))})


def _add(call: CommandCall) -> Result:
    content, tags = tagged(call.arguments["TEXT"])
    memo = save_memo(call.agent, content, tags, call.actor)
    return Result(f"Memo {memo.id} saved{memo.labels}.", None, _json(memo))


def tagged(text: str) -> tuple[str, list[str]]:
    """Split a memo's text from the `#tag` words at its beginning and its end."""
    words = text.split()
    before = list(takewhile(_TAG.fullmatch, words))
    after = list(takewhile(_TAG.fullmatch, reversed(words[len(before) :])))
    rest = "".join(text.split(None, len(before))[len(before) :])
    content = rest.rsplit(None, len(after))[0] if rest.strip() else ""
    return content, [word.rstrip(",;") for word in (*before, *reversed(after))]


def _show(call: CommandCall) -> Result:
    with call.agent.log.store.read() as moment:
        memo = memo_with_id(moment, call.number("ID"))
        record = None if memo.agent is None else moment.agent(memo.agent)
    whose = "" if record is None else f" in {record.name or record.id[:8]}"
    head = f"Memo {memo.id}{memo.labels}, saved by a {memo.actor}{whose} on {minute(memo.created_at)}:"
    return Result(f"{head}\n{memo.content}", None, _json(memo))


def _search(call: CommandCall) -> Result:
    from foldmark.text.keywords import keywords, named  # takes 10 ms

    query = call.arguments["WORDS"]
    words = keywords(query) or named(query)
    if not words:
        raise CommandError("there is no word to search for; type some, as in: /memo search database schema")
    with call.agent.log.store.read() as moment:
        (found,) = moment.memos_with([(words, END)], LISTED)
    asked = one_line(" ".join(query.split())[:60])
    head = f"{count(len(found), 'memo')}, the best first: {asked}" if found else f"No memo has a word of: {asked}"
    return Result("\n".join((head, *map(_line, found))), None, {"query": query, "memos": list(map(_json, found))})


def _remove(call: CommandCall) -> Result:
    store = call.agent.log.store
    with store.read() as moment:
        memo = memo_with_id(moment, call.number("ID"))
    call.confirm(f"Erase memo {memo.id} for good ({title(memo.content)})? This cannot be taken back.")
    with store.write() as transaction:
        transaction.remove_memo(memo.id)
    traces = not store.forget_erased()
    text = f"Memo {memo.id} erased. Messages that speak of it were not searched."
    return Result(f"{text} {TRACES_MAY_STAY}" if traces else text, None, {"memo": memo.id, "traces": traces})


def _line(memo: Memo) -> str:
    return f"{memo.id:>6} · {memo.created_at[:10]}{memo.labels} · {title(memo.content)}"


def _json(memo: Memo) -> dict[str, Any]:
    return {**to_builtins(memo), "tags": list(memo.tags)}


MEMO = (
    Command("memo list", "[N]", "List the newest memos.", _list, at_once=True),
    Command("memo add", "TEXT...", "Save a memo for all conversations; #words at its beginning or end are tags.", _add),
    Command("memo show", "ID", "Show a memo whole.", _show, at_once=True),
    Command(
        "memo search", "WORDS...", "List the memos with any of these words, the best first.", _search, at_once=True
    ),
    Command("memo remove", "ID [--yes]", "Erase a memo for good; asks first.", _remove),
)
