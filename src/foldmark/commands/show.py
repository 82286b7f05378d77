"""Contexts, requests and messages as text for a person and as JSON: `/context show | count | sent` [SPEC 4, 5.6]."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, groupby, takewhile
from operator import attrgetter
from typing import Any

from msgspec import to_builtins

from foldmark.commands import live_request
from foldmark.commands.registry import CommandCall, command
from foldmark.core.agents import minute
from foldmark.core.assembly.sent import SentRequest
from foldmark.core.events import Event
from foldmark.core.request import Part, Request
from foldmark.core.segments import END
from foldmark.core.turns import Turn, naming, newest_turns
from foldmark.core.wording import count, title, told_title
from foldmark.cost.filling import portions
from foldmark.cost.misses import Cached, cached, newest_cached, newest_turn
from foldmark.documents.attachments import attachments
from foldmark.log import Agent, Context, Result
from foldmark.operations.history import sized
from foldmark.sending import models
from foldmark.sending.rebuilding import Rebuilt, rebuilt
from foldmark.sending.status import assumed, fullness, rule

PREVIEW_CHARACTERS, PREVIEW_LINES = 400, 8
"""Maximum characters and lines of a message in a preview; `--json` has all of it."""

SHOWN = (
    *("id", "kind", "role", "content", "data", "dialect", "actor"),
    *("tokens", "created_at", "interrupted", "answers", "damaged"),
)
"""The fields of a message in `--json`."""

MOST_LISTED = 20
"""Maximum number of requests that are listed."""

VERDICTS = {
    "identical": "Rebuilt byte for byte",
    "erased": "Rebuilt without what was erased",
    "differs": "Not rebuilt byte for byte",
}


@command("context show", at_once=True)
def _show(call: CommandCall) -> Result:
    """Show the request that would go out, each part with its origin."""
    agent = call.agent
    if live_request.is_live(agent):
        return _show_live(agent)
    with agent.log.store.read():
        context, request = agent.context(), agent.next_request()
        notes = [fullness(agent, request)]
        notes += [] if (cached_turn := newest_turn(agent)) is None else [cached_turn.text]
        notes += [] if (assumption := assumed(agent)) is None else [assumption]
    opening = (
        f"The next request to {addressee(request)} for {agent.name or agent.id} after event {context.at}: "
        f"~{count(request.tokens, 'token')}, {len(request.bytes):,} bytes. Context: {sized(context.size)}."
    )
    text = "\n".join([request_text(opening, context, request), "", *notes])
    first = request.manifest.edge.first or 0
    window = takewhile(lambda message: message.id >= first, reversed(context.messages))
    turns = newest_turns(window, len(context.messages) + 1)
    data = {**context_json(agent.id, context, turns), "request": request_json(request)}
    return Result(text, None, data)


def _show_live(agent: Agent) -> Result:
    with agent.log.store.read():
        found, context = live_request.ClientContext(agent), agent.context()
    turns = newest_turns(reversed(found.messages), len(found.messages) + 1)
    lines, marks = [found.opening], sorted(context.marks.items(), key=lambda mark: mark[1])
    for turn in turns:
        while marks and marks[0][1] < turn.messages[0].id:
            lines += ["", _rule(f"mark {marks.pop(0)[0]}")]
        lines += ["", f"Turn {turn.id or '-'}", *(message_line(each, whole=True) for each in turn.messages)]
    lines += ["", *(_rule(f"mark {name}") for name, _ in marks)] if marks else []
    return Result("\n".join(lines), None, {**context_json(agent.id, context, turns), "request": found.data()})


def request_json(request: Request) -> dict[str, Any]:
    """Return a complete request as JSON."""
    return {
        "provider": request.provider,
        "model": request.model,
        "dialect": request.dialect,
        "tokens": request.tokens,
        "bytes": request.bytes.decode(),
        "body": request.body,
        "manifest": to_builtins(request.manifest),
    }


def addressee(request: Request | SentRequest) -> str:
    """Return the model that a request goes to, for a person."""
    return request.provider if request.model in ("", request.provider) else f"{request.provider}/{request.model}"


def request_text(opening: str, context: Context, request: Request) -> str:
    """Return a request as text: each part with its origin, and the marks of its context between the parts."""
    edge, lines = request.manifest.edge, [opening]
    sizes = {id(each.part): each.tokens for each in portions(request) if each.part is not None}
    marks = sorted(context.marks.items(), key=lambda mark: mark[1])
    if edge.before:
        while marks and edge.first is not None and marks[0][1] < edge.first:
            lines += ["", _rule(f"mark {marks.pop(0)[0]} (before the window)")]
    for layer, parts in groupby(request.manifest.parts, key=lambda part: part.layer):
        if layer == "window":
            if edge.before:
                lines.append(rule(edge))
            lines += _turns(list(parts), marks, context, sizes)
        elif layer == "pinned":
            lines += ["", _rule("pinned turns"), *_turns(list(parts), [], context, sizes)]
        else:
            shown = list(parts)
            details = "; ".join(part.detail for part in shown if part.detail)
            lines += ["", _rule(f"{layer}: {details}" if details else layer)]
            lines += [part.text for part in shown]
    lines += [_rule(f"mark {name}") for name, _ in marks]
    if request.manifest.left_out:
        lines += ["", _rule("left out")]
        lines += [
            f"  {left.event:>6} (turn {left.turn or '-'}): {left.why}, {left.detail}"
            for left in request.manifest.left_out
        ]
    return "\n".join(lines)


def _turns(
    parts: Sequence[Part], marks: list[tuple[str, int]], context: Context, sizes: Mapping[int, int]
) -> list[str]:
    lines: list[str] = []
    # A summary before older messages also precedes the marks between it and them.
    behind = list(accumulate((part.event or END for part in reversed(parts)), min))
    for turn, group in groupby(parts, key=lambda part: part.turn):
        mine = list(group)
        pinned = " · pinned" if turn in context.pins else ""
        tokens = sum(sizes[id(part)] for part in mine)
        head = ["", f"Turn {turn or '-'} · ~{tokens} tokens{pinned}"]
        for part in mine:
            oldest = behind.pop()
            while marks and (part.kind == "go_on" or (part.event is not None and marks[0][1] < oldest)):
                lines += ["", _rule(f"mark {marks.pop(0)[0]}")]
            lines += [*head, _part(part)]
            head = []
    return lines


def _part(part: Part) -> str:
    how = [] if part.how == "whole" else [part.how]
    how += [part.about] if part.about else []
    said = f" ({': '.join(how)})" if how else ""
    text = part.text.replace("\n", "\n         ")
    return f"  {part.event or '-':>6} {part.kind}{said}: {text}"


def _rule(text: str) -> str:
    return f"── {text} ──"


def context_text(
    name: str,
    context: Context,
    turns: Sequence[Turn],
    older: int = 0,
    tokens_of: Callable[[Event], int] = attrgetter("tokens"),
    time_of: Callable[[str], str] = minute,
) -> str:
    """Return a context as text: the beginning of every message of `turns`, and the marks; `older` is the number of
    messages before them."""
    amount = f"{count(context.size.messages, 'message')} in {count(len(turns), 'turn')}"
    if older:
        amount = f"{count(context.size.messages, 'message')}, of which the newest {count(len(turns), 'turn')}"
    lines = [f"Context of {name} after event {context.at}: {amount}"]
    if context.state is not None:
        lines += ["", "### STATE", context.state]
    if context.scratchpad is not None:
        lines += ["", "Scratchpad:", context.scratchpad]
    marks = sorted(context.marks.items(), key=lambda mark: mark[1])
    if older:
        lines += ["", f"… {count(older, 'older message')}; `/message show GID` shows a turn"]
    for turn in turns:
        first = turn.messages[0].id
        while marks and marks[0][1] < first:
            lines += ["", _rule(f"mark {marks.pop(0)[0]}")]
        tokens = sum(map(tokens_of, turn.messages))
        lines += [
            "",
            f"Turn {turn.id or '-'} · ~{tokens} tokens · {time_of(turn.messages[0].created_at)}",
        ]
        lines += [message_line(message) for message in turn.messages]
    lines += [f"\n{_rule(f'mark {name}')}" for name, _ in marks]
    return "\n".join(lines)


def message_line(message: Event, *, whole: bool = False, beside: object = None) -> str:
    """Return a line for a message: its id, its kind, the text `beside` them, and the beginning of its content; with
    `whole`, all of it."""
    text = _text(message)
    shown = "\n".join(text[:PREVIEW_CHARACTERS].split("\n")[:PREVIEW_LINES])
    if not whole and len(shown) < len(text):
        text = f"{shown}… ({len(text):,} characters)"
    interrupted = " (interrupted)" if message.interrupted else ""
    interrupted += " (damaged)" if message.damaged else ""
    beside = "" if beside is None else f" {beside}"
    return f"  {message.id:>6} {message.kind}{interrupted}{beside}: " + text.replace("\n", "\n         ")


def turn_title(messages: Sequence[Event]) -> str:
    """Return a title for a turn: that of the message that it is named after."""
    return next((message_title(message) for message in naming(messages)), "")


def message_title(message: Event) -> str:
    """Return a title for a message: its beginning, without the tags that a client wrote around it."""
    return told_title(message.content) if message.kind == "client" else title(_text(message))


def _text(message: Event) -> str:
    if message.kind == "tool_call":
        return f"{(message.data or {}).get('name')}({message.content})"
    return message.content or ", ".join(f"[{each.type}]" for each in attachments(message))


def message_json(message: Event) -> dict[str, Any]:
    """Return a message as JSON."""
    return {name: getattr(message, name) for name in SHOWN}


def context_json(agent_id: str, context: Context, turns: Sequence[Turn]) -> dict[str, Any]:
    """Return a context as JSON."""
    return {
        "agent": agent_id,
        "at": context.at,
        "size": context.size._asdict(),
        "segments": [segment._asdict() for segment in context.segments],
        "marks": context.marks,
        "pins": list(context.pins),
        "evicted": sorted(context.evicted),
        "state": context.state,
        "scratchpad": context.scratchpad,
        "turns": [{"id": turn.id, "messages": [message_json(each) for each in turn.messages]} for turn in turns],
    }


@command("context count", at_once=True)
def _count(call: CommandCall) -> Result:
    """Ask the model's provider how many tokens that request has."""
    if live_request.is_live(call.agent):
        return live_request.counted(call.agent)
    request = call.agent.next_request()
    exact = models.count(request, call.agent.log.given)
    name = call.agent.standing().config.model
    off = f", {(request.tokens / exact - 1) * 100:+.1f}%" if exact else ""
    data = {"model": name, "tokens": exact, "estimate": request.tokens}
    about = f"the estimate is ~{request.tokens:,}{off}"
    return Result(f"{count(exact, 'token')} by {name}'s own count; {about}.", None, data)


@command("context sent [ID]", at_once=True)
def _sent(call: CommandCall) -> Result:
    """List the requests sent to models, or rebuild and show request ID."""
    if live_request.is_live(call.agent):
        return live_request.sent(call)
    if call.get("ID") is None:
        return _list(call.agent)
    found = rebuilt(call.agent, call.number("ID"))
    sent, kept = found.sent, cached(call.agent, found.sent)
    data = {
        **_row(sent, kept),
        "verdict": found.verdict,
        "said": found.said,
        "on_the_wire": found.on_the_wire,
        "recorded": to_builtins(sent, str_keys=True),
        "request": request_json(found.request),
    }
    return Result(rebuilt_text(call.agent, found, kept), None, data)


def rebuilt_text(agent: Agent, found: Rebuilt, kept: Cached | None = None) -> str:
    """Return a rebuilt request as text, after its verdict; `kept` are its cache hits."""
    sent = found.sent
    opening = (
        f"Request {sent.number}, which went to {addressee(sent)} for {agent.name or agent.id} after event "
        f"{sent.event}, {agent.log.given.minute(sent.created_at)}: {_size(sent)}. Purpose: {sent.purpose}.\n"
        f"{VERDICTS[found.verdict]}: {found.said}.\n"
        f"Sent over the wire: {found.on_the_wire}."
    ) + _cost(kept, "\nCache: ")
    context = agent.at(sent.event) if sent.event else agent.context()
    return request_text(opening, context, found.request)


def _list(agent: Agent) -> Result:
    found, kept = newest_cached(agent, MOST_LISTED)
    if not found:
        return Result("Nothing was sent to a model for this agent yet.", None, {"sent": []})
    lines = [_line(each, agent.log.given.minute(each.created_at), kept.get(each.id)) for each in found]
    lines += ["", "/context sent ID rebuilds one and shows it."]
    return Result("\n".join(lines), None, {"sent": [_row(each, kept.get(each.id)) for each in found]})


def _line(sent: SentRequest, time: str, kept: Cached | None) -> str:
    purpose = f"{sent.purpose}{' (planning)' if sent.planning else ''}"
    turn = f" · turn {sent.turn}" if sent.turn else ""
    parts = f"{addressee(sent)} · {_size(sent)} · {purpose}{turn}{_cost(kept, ' · ')}"
    return f"  {sent.number:>6}  {time}  {parts}"


def _cost(kept: Cached | None, before: str) -> str:
    return f"{before}{kept.words}" if kept is not None and kept.words else ""


def _size(sent: SentRequest) -> str:
    return f"~{count(sent.tokens, 'token')}, {sent.bytes:,} bytes"


def _row(sent: SentRequest, kept: Cached | None) -> dict[str, Any]:
    columns = ("agent", "event", "turn", "created_at", "tokens", "bytes", "sha256")
    return {
        "id": sent.number,
        **{name: getattr(sent, name) for name in columns},
        "model": addressee(sent),
        "purpose": sent.purpose,
        "planning": sent.planning,
        "cache_ttl": sent.cache_ttl,
        "cache": None if kept is None else kept.data(),
    }


SHOW = (_show, _count, _sent)
