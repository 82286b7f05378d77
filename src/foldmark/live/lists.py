"""Lists of what a live session holds, with the ids that commands take [SPEC 5.7].

Each takes what was typed behind the prompt: the number of lines, or nothing.
"""

from collections.abc import Callable, Iterable
from operator import itemgetter

from foldmark.commands.registry import MOST_DIGITS
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.turns import Turn
from foldmark.core.wording import count, one_line
from foldmark.cost.messages import NextMessages
from foldmark.live.status import filled, taken_out
from foldmark.log import Agent
from foldmark.log.live_session import client_tokens

_LARGEST, _LISTED, _SHOWN = 3, 10, 200
"""Number of largest turns that `context` names, of those that a list shows by default, and of messages shown."""


def messages(agent: Agent, rest: str) -> str:
    """Return a line for each message of the context, the newest ones."""
    found, tokens = list(agent.context().messages), _tokens_of(agent)
    lines = [f"{each.id:>8}  {each.kind:<11} ~{tokens(each):>6,}  {one_line(each.content)[:80]}" for each in found]
    if len(lines) > _SHOWN:
        lines = [f"{count(len(lines) - _SHOWN, 'older message')} not shown", *lines[-_SHOWN:]]
    return "\n".join(lines) or "The context is empty."


def turns(agent: Agent, rest: str) -> str:
    """Return the largest turns of the context with their ids."""
    tokens = _tokens_of_turns(agent)
    found = [
        (each.id, tokens(each), f"{count(len(each.messages), 'message')}  “{_title(each)}”")
        for each in agent.context().turns(10_000)
        if each.id is not None
    ]
    return _largest(agent, rest, found, "drop ID takes a turn out") or "The context is empty."


def results(agent: Agent, rest: str) -> str:
    """Return the largest results of tools in the context with their ids; those that were evicted have left."""
    with agent.reading() as (_, at):
        evicted = set(at.fold.evicted)
    shown, tokens = agent.context().messages, _tokens_of(agent)
    tools = {each.call_id: (each.data or {}).get("name", "") for each in shown if each.kind == "tool_call"}
    found = [
        (each.id, tokens(each), f"{tools.get(each.call_id, '')}  {one_line(each.content)[:60]}")
        for each in shown
        if each.kind == "tool_result" and each.id not in evicted
    ]
    return _largest(agent, rest, found, "evict ID leaves a placeholder") or "The context holds no results."


def _largest(agent: Agent, rest: str, found: Iterable[tuple[int, int, str]], hint: str) -> str:
    """Return a line for each of the largest messages or turns, given by id, tokens and title, and a hint. Empty if
    there are none."""
    largest = sorted(found, key=itemgetter(1), reverse=True)[: _number(rest)]
    lines = [f"{id:>8}  ~{tokens:>7,} tokens  {title}" for id, tokens, title in largest]
    return "\n".join((*lines, agent.log.given.live_sign + hint)) if lines else ""


def _number(rest: str) -> int:
    text = rest.strip()
    if not text:
        return _LISTED
    if not text.isdecimal() or len(text) > MOST_DIGITS or not int(text):
        raise CommandError(f"the number to list must be from 1, not '{text[:40]}'; without one, {_LISTED} are listed")
    return int(text)


def context(agent: Agent, rest: str = "") -> str:
    """Return the size of the client's next request, and the largest turns of the context."""
    with agent.reading() as (moment, at):
        tokens, out = client_tokens(agent, moment, at), taken_out(moment, at)
    turns = [turn for turn in agent.context().turns(10_000) if turn.id is not None]
    first = f"Context of this session: ~{filled(tokens, agent.window)}"
    first += f" · {count(at.size.messages, 'message')}, {count(len(turns), 'turn')}"
    first += f" · ~{out:,} tokens taken out" if out > 0 else " · nothing taken out"
    weight = _tokens_of_turns(agent)
    largest = sorted(turns, key=weight, reverse=True)[:_LARGEST]
    named = " · ".join(f"turn {turn.id} “{_title(turn)}” ~{weight(turn):,}" for turn in largest)
    return f"{first}\nLargest: {named}" if named else first


def _tokens_of(agent: Agent) -> Callable[[Event], int]:
    with agent.reading() as (moment, at):
        return NextMessages(moment, at, None).tokens


def _tokens_of_turns(agent: Agent) -> Callable[[Turn], int]:
    tokens = _tokens_of(agent)
    return lambda turn: sum(map(tokens, turn.messages))


def _title(turn: Turn) -> str:
    text = next((message.content for message in turn.messages if message.kind == "user"), "")
    return one_line(text)[:40]
