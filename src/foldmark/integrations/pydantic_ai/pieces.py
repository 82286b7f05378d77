"""Make a history of Pydantic AI from the messages of a context, with every call directly before its result."""

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple, cast

from pydantic_ai import messages as sdk

from foldmark.core import codec
from foldmark.core.assembly.wire import NO_RESULT as NEVER_CAME
from foldmark.core.events import Event
from foldmark.integrations.pydantic_ai.messages import NO_RESULT, OMITTED, as_given


class Fragment(NamedTuple):
    """One message of the context: its event, the message of Pydantic AI to which it belongs with that message's first
    event (`head`), and its parts. `answers` is the event of the call that a result is for. An agent's own prompt is
    `standing`. `event` is 0 for a synthetic message."""

    event: int
    kind: str
    answers: int | None
    head: int
    message: sdk.ModelMessage
    parts: tuple[Any, ...]
    standing: bool = False


class Known(NamedTuple):
    """A message of a history: its parts as they were when it was recorded or made, and their events."""

    message: sdk.ModelMessage
    parts: tuple[Any, ...]
    events: tuple[int, ...]


def history(
    pieces: Iterable[Fragment],
    standing: Sequence[sdk.SystemPromptPart],
    last: sdk.ModelMessage | None = None,
    *,
    waiting: bool = False,
) -> list[Known]:
    """Return the messages made from pieces in the order of the log. `last`, if given, is always the last message.

    Results directly follow their calls. A call without a result gets a result that says so, except the calls of `last`,
    and those of a response at the end if they may be `waiting` for a result. A result without its call is left out. The
    agent's own prompt comes first. No history begins with an answer or has two answers in a row.
    """
    shown = [piece for piece in pieces if not piece.standing]
    calls = {piece.event for piece in shown if piece.kind == "tool_call"}
    groups = _grouped([piece for piece in shown if piece.kind != "tool_result" or piece.answers in calls])
    if last is not None:
        groups = _ending(groups, last)
    groups = _answered(_side_by_side(groups), last, waiting=waiting)
    # A provider's own summary may come first, unless an agent's prompt has to, which the summary cannot hold.
    first = groups[0][0] if groups else _omission()[0]
    compacted = not standing and any(isinstance(part, sdk.CompactionPart) for part in first.parts)
    if isinstance(first.message, sdk.ModelResponse) and not compacted:
        groups = [_omission(), *groups]
    made = [_handed(group, standing if index == 0 else ()) for index, group in enumerate(groups)]
    return [each for pair in zip([None, *made], made, strict=False) for each in _alternating(*pair)]


def plain(event: Event) -> Fragment:
    """Return the piece of an event that is not from Pydantic AI, or whose data cannot be read."""
    time, part = codec.stored_time(event.created_at), _plain_part(event)
    if isinstance(part, sdk.TextPart | sdk.ToolCallPart):
        return Fragment(event.id, event.kind, None, event.id, sdk.ModelResponse([part], timestamp=time), (part,))
    request = sdk.ModelRequest([part], timestamp=time)
    return Fragment(event.id, as_given(event), event.answers, event.id, request, (part,))


def _plain_part(event: Event) -> Any:
    time, call_id = codec.stored_time(event.created_at), event.call_id or ""
    match event.kind:
        case "assistant" | "summary":
            return sdk.TextPart(event.content)
        case "tool_call":
            return sdk.ToolCallPart(str((event.data or {}).get("name", "")), event.content, call_id)
        case "tool_result":
            return sdk.ToolReturnPart("tool", event.content, call_id, timestamp=time)
        case "system":
            return sdk.SystemPromptPart(event.content, timestamp=time)
        case _:
            return sdk.UserPromptPart(event.content, timestamp=time)


Group = list[Fragment]


def _grouped(pieces: Sequence[Fragment]) -> list[Group]:
    groups: list[Group] = []
    for piece in pieces:
        before = groups[-1][-1] if groups else None
        if before and (
            before.message is piece.message
            or (before.head == piece.head and type(before.message) is type(piece.message))
        ):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _ending(groups: list[Group], last: sdk.ModelMessage) -> list[Group]:
    """Return the groups with `last` at their end, even if others have appended since or it is not visible."""
    at = next((i for i in reversed(range(len(groups))) if any(p.message is last for p in groups[i])), None)
    if at is None:
        parts = tuple(part for part in last.parts if not isinstance(part, sdk.ToolReturnPart))
        return [*groups, [Fragment(0, "user", None, 0, last, parts)]]
    answered = {piece.answers for piece in groups[at]} - {None}
    own = next((i for i in range(at) if any(piece.event in answered for piece in groups[i])), at)
    return [*groups[:own], *groups[at + 1 :], *groups[own : at + 1]]


def _side_by_side(groups: list[Group]) -> list[Group]:
    """Return the groups, with messages between a call and its results moved before the call."""
    groups, moved, index = list(groups), set[int](), 0
    answered = {piece.answers for group in groups for piece in group} - {None}
    while index < len(groups):
        group = groups[index]
        calls = {piece.event for piece in group if piece.kind == "tool_call"} & answered
        after = {piece.answers for piece in groups[index + 1]} if index + 1 < len(groups) else set()
        if calls <= after or group[0].event in moved:
            index += 1
            continue
        results = [i for i in range(index + 1, len(groups)) if _answers(groups[i], calls)]
        order = [*(i for i in range(index + 1, results[-1]) if i not in results), index, *results]
        groups[index : results[-1] + 1] = [groups[i] for i in order]
        moved.add(group[0].event)
    return groups


def _answered(groups: list[Group], last: sdk.ModelMessage | None, *, waiting: bool) -> list[Group]:
    """Return the groups with a result for every call, except for calls at the end that are `last` or may wait for
    results."""
    results = {piece.answers for group in groups for piece in group if piece.kind == "tool_result"}
    found: list[Group] = []
    missing: Group = []
    for index, group in enumerate(groups):
        calls = {piece.event for piece in groups[index - 1] if piece.kind == "tool_call"} if index else set()
        if missing and _answers(group, calls):
            group = [*(p for p in group if p.answers in calls), *missing, *(p for p in group if p.answers not in calls)]
        elif missing:
            found.append(missing)
        found.append(group)
        end = index == len(groups) - 1 and (waiting or group[0].message is last)
        missing = [_missing(p) for p in group if p.kind == "tool_call" and p.event not in results and not end]
    return [*found, missing] if missing else found


def _omission() -> Group:
    return [Fragment(0, "user", None, 0, sdk.ModelRequest([OMITTED], timestamp=OMITTED.timestamp), (OMITTED,))]


def _alternating(before: Known | None, each: Known) -> list[Known]:
    """Return a message, preceded by a short prompt if two answers would be adjacent, which not every provider accepts.
    Pydantic AI itself joins answers that are not from a provider."""
    two = [each.message] if before is None else [before.message, each.message]
    answers = [message for message in two if isinstance(message, sdk.ModelResponse)]
    given = any(m.provider_name or m.model_name or m.provider_response_id for m in answers)
    return [_handed(_omission()), each] if len(answers) == 2 and given else [each]


def _answers(group: Group, calls: Collection[int | None]) -> bool:
    return any(piece.answers in calls for piece in group if piece.answers is not None)


def _missing(call: Fragment) -> Fragment:
    part = next(part for part in call.parts if isinstance(part, sdk.ToolCallPart))
    message, time = call.message, call.message.timestamp or OMITTED.timestamp
    result = sdk.ToolReturnPart(
        part.tool_name,
        NEVER_CAME,
        part.tool_call_id,
        tool_kind=part.tool_kind,
        metadata=NO_RESULT,
        timestamp=time,
        outcome="interrupted",
    )
    request = sdk.ModelRequest([result], timestamp=time, run_id=message.run_id, conversation_id=message.conversation_id)
    return Fragment(0, "tool_result", call.event, 0, request, (result,))


def _handed(group: Group, standing: Sequence[sdk.SystemPromptPart] = ()) -> Known:
    """Return the message of one group: the object itself if all of it is shown, else a copy with the shown parts."""
    message = next((piece.message for piece in group if piece.event), group[0].message)
    parts = [*standing, *(part for piece in group for part in piece.parts)]
    if len(parts) != len(message.parts) or {id(part) for part in parts} != {id(part) for part in message.parts}:
        message = dataclasses.replace(cast(Any, message), parts=parts)
    return Known(message, tuple(message.parts), tuple(piece.event for piece in group if piece.event))
