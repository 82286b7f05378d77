"""Write a conversation as Markdown for a person: turns with their ids, texts, tool calls and results, and each
operation where it happened. Thinking is left out, and attachments are named [docs/reference/export.md]."""

from collections.abc import Callable, Generator, Iterable, Iterator

import msgspec

from foldmark.core.codec import operation_of
from foldmark.core.events import OPERATION_KINDS, Event
from foldmark.core.ports import Progress, Snapshot
from foldmark.core.segments import contains
from foldmark.core.wording import count
from foldmark.documents.attachments import attachments
from foldmark.documents.markdown_text import fenced, guarded, plain
from foldmark.documents.past import PastEvent, past, shown
from foldmark.log import Agent
from foldmark.operations.history import OperationEntry, operations, sized, words
from foldmark.request.standing import Standing, state_of

TimeOf = Callable[[str], str]

_TEXTS = ("user", "client", "assistant", "system", "tool", "summary")


def conversation_markdown(agent: Agent, version: str, progress: Progress) -> Generator[str, None, None]:
    """Yield the pieces of an agent's whole history as Markdown, written by Foldmark `version`. Times are shown as the
    log shows them. `progress` receives the number of the agent's messages so far and of all."""
    time_of = agent.log.given.minute
    with agent.reading() as (moment, at):
        scope = "The whole history. A message that is “out” is not sent to the model."
        yield from _head(agent, at, version, scope)
        yield from _past(moment, at, time_of, progress)
        state = state_of(moment, at)
        yield from _end(None if state is None else state.content, at.scratchpad)


def context_markdown(agent: Agent, version: str, progress: Progress) -> Generator[str, None, None]:
    """Yield the pieces of an agent's context as Markdown: its messages as they are sent."""
    with agent.reading() as (moment, at):
        yield from _head(agent, at, version, f"Only the messages in the context after event {at.newest}.")
        turns = _Turns(agent.log.given.minute)
        for done, event in enumerate(shown(moment, at), 1):
            yield from turns.begin(event)
            yield _message(PastEvent(event), [])
            if done % 100 == 0 or done == at.size.messages:
                progress(done, at.size.messages)
        state = state_of(moment, at)
        yield from _end(None if state is None else state.content, at.scratchpad)


class _Turns:
    """The headings of turns. One is due when a message belongs to another turn than the one before."""

    def __init__(self, time_of: TimeOf) -> None:
        self._time_of, self._turn = time_of, -1

    def begin(self, event: Event) -> Iterator[str]:
        turn = event.turn_id or 0
        if turn != self._turn:
            self._turn = turn
            name = f"Turn {turn}" if turn else "Outside of turns"
            yield f"\n## {name} · {self._time_of(event.created_at)}\n"


def _head(agent: Agent, at: Standing, version: str, scope: str) -> Iterator[str]:
    time_of, record = agent.log.given.minute, at.record
    yield f"# {plain(agent.name or f'Agent {record.id[:8]}')}\n\n"
    yield f"- agent `{record.id}`, created {time_of(record.created_at)}\n"
    yield f"- {count(record.messages, 'message')}; context: {sized(at.size)}\n"
    yield f"- exported {time_of(agent.log.clock())} by Foldmark {plain(version)}, up to event {at.newest}\n"
    yield f"\n{scope} Thinking is left out, and attachments are only named.\n"


def _past(moment: Snapshot, at: Standing, time_of: TimeOf, progress: Progress) -> Iterator[str]:
    entries = {entry.event.id: entry for entry in operations(moment, at)}
    turns, done, total = _Turns(time_of), 0, at.record.messages
    for each in past(moment, at):
        event = each.event
        if event.kind in OPERATION_KINDS and not each.inherited:
            yield f"\n> [operation {event.id}] {plain(_operation(entries.get(event.id), event, time_of))}\n"
        if event.role is None:
            continue
        yield from turns.begin(event)
        yield _message(each, _marks(at, each))
        done += not each.inherited and each.erased is None
        if done % 100 == 0:
            progress(min(done, total), total)
    progress(total, total)


def _operation(entry: OperationEntry | None, event: Event, time_of: TimeOf) -> str:
    """Return the line of an operation in the words of `/operations`."""
    time = time_of(event.created_at)
    if entry is None:  # another agent erased a turn that it had inherited from this one, or handed down to it
        return f"{time} · {event.actor} · {words(operation_of(event))} · by agent {event.agent_id[:8]}"
    return " · ".join(entry.parts(time))


def _marks(at: Standing, each: PastEvent) -> list[str]:
    """Return the remarks on a message's place."""
    event = each.event
    marks = ["inherited"] if each.inherited else []
    if each.erased is not None:
        return [*marks, f"erased by operation {each.erased}"]
    if not contains(at.visible, event.agent_id, event.id):
        return [*marks, "out"]
    return [*marks, "evicted: a placeholder is sent"] if event.id in at.fold.evicted else marks


def _message(each: PastEvent, marks: Iterable[str]) -> str:
    event = each.event
    name = event.kind.replace("_", " ")
    tool = (event.data or {}).get("name") if event.kind == "tool_call" else None
    parts = [f"{name} {plain(tool)}" if isinstance(tool, str) else name, str(event.id)]
    parts += [f"of call {event.answers}"] if event.answers is not None else []
    parts += ["by the system"] if event.kind == "user" and event.actor == "system" else []
    parts += [word for word, is_so in (("interrupted", event.interrupted), ("damaged", event.damaged)) if is_so]
    lines = [f"\n### {' · '.join((*parts, *marks))}\n"]
    if each.erased is None:
        lines += [f"\n*[{plain(_named(one.words, one.is_thinking))}]*\n" for one in attachments(event)]
        lines += [f"\n{body}\n"] if (body := _body(event)) else []
    return "".join(lines)


def _named(words: str, is_thinking: bool) -> str:
    return f"{words}, left out" if is_thinking else words


def _body(event: Event) -> str:
    if event.kind == "tool_call":
        return fenced(*_arguments(event.content))
    if event.kind in _TEXTS:
        return guarded(event.content) if event.content.strip() else ""
    return fenced(event.content) if event.content else ""


def _arguments(text: str) -> tuple[str, str]:
    """Return a call's arguments, laid out in lines if they are JSON, and the name of their language."""
    try:
        return msgspec.json.format(text, indent=2), "json"
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return text, ""


def _end(state: str | None, scratchpad: str | None) -> Iterator[str]:
    if state:
        yield f"\n## State\n\n{fenced(state)}\n"
    if scratchpad:
        yield f"\n## Scratchpad\n\n{fenced(scratchpad)}\n"
