"""`/context sent`: requests to models, rebuilt from the log [SPEC 5.6]."""

from typing import Any

from msgspec import to_builtins

from foldmark.commands.registry import Command, CommandCall
from foldmark.commands.show import addressee, request_json, request_text
from foldmark.core.agents import minute
from foldmark.core.assembly.sent import SentRequest
from foldmark.core.wording import count
from foldmark.cost.requests import Cached, cached, newest_cached
from foldmark.log import Agent, Result
from foldmark.sending.rebuilding import Rebuilt, rebuilt

MOST_LISTED = 20
"""Maximum number of requests that are listed."""

VERDICTS = {
    "identical": "Rebuilt byte for byte",
    "erased": "Rebuilt as far as it is still there",
    "differs": "Not rebuilt byte for byte",
}


def _sent(call: CommandCall) -> Result:
    if call.get("ID") is None:
        return _list(call.agent)
    found = rebuilt(call.agent, call.number("ID"))
    kept = cached(call.agent, found.sent.id)
    return Result(_text(call.agent, found, kept), None, {**_row(found.sent, kept), **_json(found)})


def _list(agent: Agent) -> Result:
    found, kept = newest_cached(agent, MOST_LISTED)
    if not found:
        return Result("Nothing was sent to a model for this agent yet.", None, {"sent": []})
    lines = [_line(each, kept.get(each.id)) for each in found]
    lines += ["", "/context sent ID rebuilds one and shows it."]
    return Result("\n".join(lines), None, {"sent": [_row(each, kept.get(each.id)) for each in found]})


def _line(sent: SentRequest, kept: Cached | None) -> str:
    purpose = f"{sent.record.purpose}{' (planning)' if sent.record.planning else ''}"
    turn = f" · turn {sent.turn}" if sent.turn else ""
    parts = f"{addressee(sent)} · {_size(sent)} · {purpose}{turn}{_cost(kept, ' · ')}"
    return f"  {sent.id:>6}  {minute(sent.created_at)}  {parts}"


def _cost(kept: Cached | None, before: str) -> str:
    return f"{before}{kept.words}" if kept is not None and kept.words else ""


def _size(sent: SentRequest) -> str:
    return f"~{count(sent.tokens, 'token')}, {sent.bytes:,} bytes"


def _text(agent: Agent, found: Rebuilt, kept: Cached | None) -> str:
    sent = found.sent
    opening = (
        f"Request {sent.id}, which went to {addressee(sent)} for {agent.name or agent.id} after event "
        f"{sent.event}, {minute(sent.created_at)}: {_size(sent)}. Purpose: {sent.record.purpose}.\n"
        f"{VERDICTS[found.verdict]}: {found.said}.\n"
        f"Over the wire went {found.on_the_wire}."
    ) + _cost(kept, "\nCache: ")
    context = agent.at(sent.event) if sent.event else agent.context()
    return request_text(opening, context, found.request)


def _json(found: Rebuilt) -> dict[str, Any]:
    return {
        "verdict": found.verdict,
        "said": found.said,
        "on_the_wire": found.on_the_wire,
        "recorded": to_builtins(found.sent.record, str_keys=True),
        "request": request_json(found.request),
    }


def _row(sent: SentRequest, kept: Cached | None) -> dict[str, Any]:
    return {
        "id": sent.id,
        "agent": sent.agent,
        "event": sent.event,
        "turn": sent.turn,
        "created_at": sent.created_at,
        "model": addressee(sent),
        "tokens": sent.tokens,
        "bytes": sent.bytes,
        "sha256": sent.sha256,
        "purpose": sent.record.purpose,
        "planning": sent.record.planning,
        "cache_ttl": sent.record.cache_ttl,
        "cache": None if kept is None else kept.data(),
    }


SENT = (
    Command(
        "context sent", "[ID]", "List what was sent to models, or rebuild request ID and show it.", _sent, at_once=True
    ),
)
