"""Make the database of one schema version and the contexts that its own Foldmark shows: `schema-NN.db.gz`, `.json`.

Before you add a migration, run `python tests/stores/versions/make.py NN` with the newest version NN, which then becomes
an earlier one. The databases up to 12 were written by the source of these commits (`git archive COMMIT src`, with that
`src` on `PYTHONPATH`): 1 48b29f6, 4 19ff283, 5 279c150, 6 467fe55, 7 bdbb41c, 8 3e2acd1, 9 1905974, 10 00935b7,
11 2f4d243, 12 9b897c5. No Foldmark wrote versions 2 and 3: they are version 1 with the migrations 2 and 3.

Operations that a version does not have yet are left out, and printed.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import foldmark

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
PLAN = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}}
PLACE = "https://example.org/picture.png"
LINKED = {"type": "image", "source": {"type": "url", "url": PLACE}}


def attempt(what: str, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except (foldmark.CommandError, foldmark.FoldmarkError, AttributeError, TypeError, NotImplementedError) as error:
        print(f"  without {what}: {type(error).__name__} {str(error)[:70]}")
        return None


def do(agent: Any, line: str) -> Any:
    return attempt(line, lambda: agent.do(line))


def fill(log: Any) -> None:
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
            do(agent, f"/pin {opened}")
    attempt("image", lambda: agent.append("user", "Look.", data={"blocks": [IMAGE, LINKED, PLAN]}))
    note = agent.append("tool", "a note of a tool")
    agent.end_turn()
    planned = agent.append("user", "Forget the note.")
    attempt("planning", lambda: agent.apply_filter("forget", [note], planning=(planned, None)))
    agent.append("assistant", "Done.")
    agent.end_turn()
    messages = list(agent.context().messages)
    turns = sorted({each.turn_id for each in messages if each.turn_id})
    do(agent, f"/context drop {turns[1]}")
    ids = [each.id for each in messages if each.turn_id == turns[2]]
    attempt("filter", lambda: agent.apply_filter("forget", ids, criteria="the third question"))
    do(agent, f"/context evict {[each.id for each in messages if each.kind == 'tool_result'][-1]}")
    do(agent, "/undo")
    do(agent, "/config set TRUNCATE_INACTIVE=200")
    rewound = agent.do("/rewind M2")
    agent.append("user", "After the rewind.")
    agent.append("assistant", "Yes.")
    agent.end_turn()
    agent.do(f"/restore {rewound.event_id}")
    child = log.agent(agent.do("/fork").data["child"])
    child.append("user", "What only the child has.")
    child.end_turn()
    child.do("/fork")
    do(child, "/summarize")
    if do(agent, f"/message remove {turns[4]} --yes") is None:
        attempt("erasing", lambda: agent.redact(turns[4]))
    do(agent, f"/send {child.id} look at the parser")
    do(agent, "/memo add the café is red #place")
    cleared = log.agent("cleared")
    cleared.append("user", "before")
    cleared.append("assistant", "Before.")
    cleared.end_turn()
    cleared.do("/clear")
    cleared.append("user", "after")
    agent.append("user", "Go on.")
    agent.append_tool_call("bash", {"command": "ls"}, call_id="waits", dialect="anthropic")


def shown(agent: Any) -> dict[str, Any]:
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


def main(version: str) -> None:
    here = Path(__file__).parent
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.db"
        with foldmark.open(str(path)) as log:
            fill(log)
            contexts = {agent.id: shown(agent) for agent in log.agents()}
        packed = gzip.compress(path.read_bytes(), mtime=0)
    (here / f"schema-{version}.db.gz").write_bytes(packed)
    lines = ",\n".join(f"{json.dumps(each)}: {json.dumps(context)}" for each, context in contexts.items())
    (here / f"schema-{version}.json").write_text(f"{{{lines}}}\n", encoding="utf-8")
    print(f"schema {version}: {len(packed):,} bytes, {len(contexts)} agents")


if __name__ == "__main__":
    main(sys.argv[1])
