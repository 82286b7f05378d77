"""`recall`: whatever was said in any conversation, by its words, forgotten or not [SPEC 4.1, 7; S1]."""

from functools import partial

from msgspec import Struct

from foldmark.commands.recall import HITS, Run, runs_of, told
from foldmark.conversation import Agent
from foldmark.conversation.asking import Asking
from foldmark.core.ports import Hit, Store
from foldmark.core.request import ToolSpec
from foldmark.core.segments import Segments, contains
from foldmark.core.wording import listing
from foldmark.tools.tool import Tool

NAME = "recall"

NAMED = 12
"""Messages of a run whose ids are given."""


class _Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    query: str


def _run(agent: Agent, arguments: _Arguments, asking: Asking) -> str:
    hits = agent.log.search(arguments.query, HITS)
    turn, store = agent.open_turn, agent.log.store
    # The turn that goes on is before the model's eyes, and what it recalled before is no news.
    said = [hit for hit in hits if (hit.agent_id, hit.turn_id) != (agent.id, turn) and not _recalled(store, hit)]
    return told(arguments.query, runs_of(agent, said), partial(_ids, agent.standing().visible))


def _recalled(store: Store, hit: Hit) -> bool:
    """Whether a hit is an earlier call of this tool, or what it answered."""
    if hit.kind not in ("tool_call", "tool_result"):
        return False
    event = store.event(hit.event_id)
    call = store.event(event.answers) if event and event.kind == "tool_result" and event.answers else event
    return call is not None and (call.data or {}).get("name") == NAME


def _ids(visible: Segments, run: Run) -> str:
    """The messages of a run by id, whether each is in the context, and whether query_db can read them."""
    ids = sorted(hit.event_id for hit in run.hits)
    if run.where == "elsewhere":
        return f"messages {listing(ids, NAMED)} (not of this conversation, query_db has none)"
    shown = {hit.event_id for hit in run.hits if contains(visible, hit.agent_id, hit.event_id)}
    inside, outside = [id for id in ids if id in shown], [id for id in ids if id not in shown]
    said = [f"messages {listing(inside, NAMED)} in the context"] if inside else []
    said += [f"messages {listing(outside, NAMED)} not in the context"] if outside else []
    return "; ".join(said)


RECALL = Tool(
    ToolSpec(
        NAME,
        "Search all messages of all conversations by words, those that left the context included. The context does not "
        "change. It answers with places, the best first, and the ids of messages: query_db reads those of this "
        "conversation whole.",
        {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": 'Words in any order, "words that stand together", beginnings as in migrat*',
                }
            },
            "required": ["query"],
        },
    ),
    _Arguments,
    _run,
    together=True,
)
