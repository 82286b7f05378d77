"""`/context show`: the context as a person reads it, and as JSON."""

from typing import Any

from foldmark.commands.registry import Call
from foldmark.conversation import Context, Result
from foldmark.core.events import Event
from foldmark.core.pressure import meter
from foldmark.core.turns import Turn, newest_turns
from foldmark.core.wording import count

PREVIEW_CHARACTERS, PREVIEW_LINES = 400, 8
"""How much of a message is shown; `--json` has all of it."""

SHOWN = (
    "id",
    "kind",
    "role",
    "content",
    "data",
    "dialect",
    "actor",
    "tokens",
    "created_at",
    "interrupted",
    "answers",
)
"""What `--json` has of a message."""


def show(call: Call) -> Result:
    """Answer with the whole context; it is not limited, since nothing of it may be hidden."""
    context = call.agent.context()
    turns = newest_turns(reversed(context.messages), len(context.messages) + 1)
    return Result(_text(call.agent.name or call.agent.id, context, turns), None, _json(call.agent.id, context, turns))


def _text(name: str, context: Context, turns: list[Turn]) -> str:
    amount = f"{count(context.size.messages, 'message')} in {count(len(turns), 'turn')}"
    lines = [f"Context of {name} after event {context.at}: {amount}"]
    if context.state is not None:
        lines += ["", "### STATE", context.state]
    if context.scratchpad is not None:
        lines += ["", "Scratchpad:", context.scratchpad]
    marks = sorted(context.marks.items(), key=lambda mark: mark[1])
    for turn in turns:
        first = turn.messages[0].id
        while marks and marks[0][1] < first:
            lines += ["", f"── mark {marks.pop(0)[0]} ──"]
        tokens = sum(message.tokens for message in turn.messages)
        lines += [
            "",
            f"Turn {turn.id or '-'} · ~{tokens} tokens · {turn.messages[0].created_at[:16].replace('T', ' ')}",
        ]
        lines += [_line(message) for message in turn.messages]
    lines += [f"\n── mark {name} ──" for name, _ in marks]
    return "\n".join([*lines, "", meter(context.size.tokens)])


def _line(message: Event) -> str:
    text = message.content
    if message.kind == "tool_call":
        text = f"{(message.data or {}).get('name')}({text})"
    if not text and message.data:
        # Blocks are as a file or a caller wrote them: anything.
        blocks = message.data.get("blocks")
        kinds = [each.get("type") for each in blocks if isinstance(each, dict)] if isinstance(blocks, list) else []
        text = ", ".join(f"[{kind}]" for kind in kinds)
    shown = "\n".join(text[:PREVIEW_CHARACTERS].split("\n")[:PREVIEW_LINES])
    if len(shown) < len(text):
        text = f"{shown}… ({len(text):,} characters)"
    interrupted = " (interrupted)" if message.interrupted else ""
    return f"  {message.id:>6} {message.kind}{interrupted}: " + text.replace("\n", "\n         ")


def _json(agent_id: str, context: Context, turns: list[Turn]) -> dict[str, Any]:
    return {
        "agent": agent_id,
        "at": context.at,
        "size": context.size._asdict(),
        "segments": [segment._asdict() for segment in context.segments],
        "marks": context.marks,
        "pins": list(context.pins),
        "state": context.state,
        "scratchpad": context.scratchpad,
        "turns": [
            {
                "id": turn.id,
                "messages": [{name: getattr(message, name) for name in SHOWN} for message in turn.messages],
            }
            for turn in turns
        ],
    }
