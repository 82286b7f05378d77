"""Conversations with every kind of message and operation, and their contexts as values to compare."""

from hashlib import sha256
from typing import Any

from foldmark.log import Agent, Log

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
PLAN = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}}
PLACE = "https://example.org/picture.png"
LINKED = {"type": "image", "source": {"type": "url", "url": PLACE}}


def fill(log: Log) -> None:
    """Record two conversations with every kind of message and operation, and a turn with an open call."""
    agent = log.agent("work")
    agent.append("system", "Imported rule.")
    for number in range(7):
        opened = agent.append("user", f"Why does parseHttpResponse fail {number}? 日本語のテキスト café \0 \\u00e9")
        agent.append("assistant", "I look.")
        for each in "ab":
            agent.append_tool_call("read.file", {"path": f"src/{each}.py"}, call_id=f"{each}{number}", dialect="openai")
        for each in "ba":
            agent.append_tool_result(f"{each}{number}", "line of theParser\n" * 20 + "🇩🇪" * 20, dialect="openai")
        agent.append("assistant", "" if number == 2 else f"It reads lines {number}.", interrupted=number == 3)
        agent.end_turn()
        if number in (0, 2):
            agent.do(f"/mark M{number}")
            agent.record("state", f"Goal: {number}")
        if number == 1:
            agent.record("scratchpad", "remember the café")
            agent.do(f"/pin {opened}")
    agent.append("user", "Look.", data={"blocks": [IMAGE, LINKED, PLAN]})
    note = agent.append("tool", "a note of a tool")
    agent.end_turn()
    planned = agent.append("user", "Forget the note.")
    agent.apply_filter("forget", [note], planning=(planned, None))
    agent.append("assistant", "Done.")
    agent.end_turn()
    messages = list(agent.context().messages)
    turns = sorted({each.turn_id for each in messages if each.turn_id})
    agent.do(f"/context drop {turns[1]}")
    ids = [each.id for each in messages if each.turn_id == turns[2]]
    agent.apply_filter("forget", ids, criteria="the third question")
    agent.do(f"/context evict {[each.id for each in messages if each.kind == 'tool_result'][-1]}")
    agent.do("/undo")
    agent.do("/config set TRUNCATE_INACTIVE=200")
    rewound = agent.do("/rewind M2")
    agent.append("user", "After the rewind.")
    agent.append("assistant", "Yes.")
    agent.end_turn()
    agent.do(f"/restore {rewound.event_id}")
    child = log.agent(agent.do("/fork").data["child"])
    child.append("user", "What only the child has.")
    child.end_turn()
    child.do("/fork")
    child.do("/summarize")
    agent.do(f"/message remove {turns[4]} --yes")
    agent.do(f"/send {child.id} look at the parser")
    agent.do("/memo add the café is red #place")
    cleared = log.agent("cleared")
    cleared.append("user", "before")
    cleared.append("assistant", "Before.")
    cleared.end_turn()
    cleared.do("/clear")
    cleared.append("user", "after")
    agent.append("user", "Go on.")
    agent.append_tool_call("bash", {"command": "ls"}, call_id="waits", dialect="anthropic")


def shown(agent: Agent) -> dict[str, Any]:
    """Return a context as JSON, with a digest of each message's text."""
    context = agent.context()
    return {
        "name": agent.name,
        "messages": [[each.id, each.kind, each.role, _digest(each.content)] for each in context.messages],
        "segments": [[each.agent, each.first, each.last] for each in context.segments],
        "marks": dict(context.marks),
        "state": context.state,
        "scratchpad": context.scratchpad,
    }


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]
