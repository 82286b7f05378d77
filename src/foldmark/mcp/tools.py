"""The tools that the server offers: the tools for conversations that Foldmark's own models have, and three more.

A filter needs the person's consent, unless they have given it in the conversation [SPEC 4.2: over MCP too]. As in any
other interface, a yes is recorded as the person's message in the planning conversation, and leaves the context with
that conversation.
"""

import json
import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from mcp.types import ElicitRequestFormParams
from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.request import ToolCall, ToolSpec
from foldmark.core.wording import meter, one_line
from foldmark.cost.messages import next_messages
from foldmark.cost.misses import newest_turn
from foldmark.editing.offers import consented, described
from foldmark.log import Agent
from foldmark.mcp.conversations import ARGUMENT, Conversations, ToolUse
from foldmark.mcp.search import READ, SEARCH, Read, SearchArguments, read, search
from foldmark.operations.effects import Asking
from foldmark.request.planning import offer
from foldmark.sending.status import assumed, fullness
from foldmark.sessions.formats import SessionPath, format_named
from foldmark.sessions.hook.tail import share
from foldmark.sessions.places import NoSessionError, find, recognized
from foldmark.sessions.session_file import SessionFileError
from foldmark.sessions.session_model import session_model
from foldmark.tools.context import EVICT, FILTER_CONTEXT, SLASH, NotAgreedError
from foldmark.tools.knowledge import MANAGE_SCRATCHPAD, RECALL, RETRIEVE_MEMOS, SAVE_MEMO
from foldmark.tools.query_db import DESCRIBE_DB, QUERY_DB
from foldmark.tools.tool import Tool, about, read_arguments, schema

_COUNT = {"type": "integer", "minimum": 0}
_IDS = {"type": "array", "items": {"type": "integer"}}

ROWS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "row_count": {**_COUNT, "description": "Rows in this answer"},
        "note": {"type": "string", "description": "The missing part of the result, and how to read on"},
        "rows": {"type": "array", "items": {"type": "object"}, "description": "Each row as column: value"},
    },
    "required": ["row_count", "rows"],
}
"""JSON Schema of the answer of `query_db`."""

FILTERED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "message_count": {**_COUNT, "description": "Preview: messages that match"},
        "token_estimate": {**_COUNT, "description": "Preview: their tokens"},
        "ranges": {"type": "array", "items": {"type": "object"}, "description": "Preview: the matches, grouped"},
        "added": {**_IDS, "description": "Preview: ids that go with them, as the result of a call"},
        "planning_conversation_ids": _IDS,
        "matching_messages": {
            "type": "array",
            "description": "Preview: the first matches",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "role": {"type": "string"},
                    "preview": {"type": "string"},
                },
                "required": ["id", "role", "preview"],
            },
        },
        "filter_event_id": {"type": "integer", "description": "Apply: the operation; `/restore ID` takes it back"},
        "messages_filtered": {**_COUNT, "description": "Apply: messages that left the context"},
        "context_before": _COUNT,
        "context_after": _COUNT,
    },
    "anyOf": [
        {"required": ["matching_messages", "message_count", "token_estimate"]},
        {"required": ["filter_event_id", "messages_filtered", "context_before", "context_after"]},
    ],
}
"""JSON Schema of the answer of `filter_context`: a preview, or an applied filter."""


class MeterArguments(Struct, frozen=True, forbid_unknown_fields=True):
    session: Annotated[
        str | None, about("A session of Claude Code or Codex: its id, the beginning of it, or its file")
    ] = None
    conversation: Annotated[str | None, about("A conversation: its name, or the beginning of its uuid")] = None


METER = ToolSpec(
    "context_meter",
    "How full a context is. Without arguments: that of the coding session which calls, by the newest answer in its "
    "transcript, and that of the conversation this server is for.",
    schema(MeterArguments),
)


def context_meter(wanted: MeterArguments, call: ToolUse) -> str:
    """Return one line for each requested context.

    Raises CommandError if none is known, NoSessionError, StoreError.
    """
    lines = []
    named = wanted.conversation or call.conversations.default
    if wanted.session is not None or (wanted.conversation is None and call.here):
        try:
            lines += _session_meters(wanted.session)
        except NoSessionError as error:
            if wanted.session is not None:
                raise
            if named is None:
                raise CommandError(
                    f"the session is not known: {error}; or name a conversation as `{ARGUMENT}`"
                ) from None
    if wanted.conversation is not None or (wanted.session is None and named is not None):
        lines.append(_conversation_meter(wanted.conversation, call.conversations))
    if not lines:
        raise CommandError(f"name a coding agent's `session`, or a `{ARGUMENT}`")
    return "\n".join(lines)


def _conversation_meter(named: str | None, conversations: Conversations) -> str:
    with conversations.agent(named) as agent:
        line = f"Conversation '{agent.name or agent.id[:8]}': {fullness(agent, agent.request())}"
        turn, assumption = newest_turn(agent), assumed(agent)
        return "\n".join([line, *([turn.text] if turn else []), *([assumption] if assumption else [])])


def _session_meters(named: str | None) -> list[str]:
    """Return the meter of a session; by default the caller's, and that of a newer one in the same folder: after
    `/clear` another session begins, but the server keeps the environment of the first."""
    found = find(named, Path.cwd(), os.environ)
    with suppress(SessionFileError):  # a new session may have no record that shows its format
        found = recognized(found)
    if named is not None:
        return [_session_meter(found)]
    anywhere = {
        name: value for name, value in os.environ.items() if name not in ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID")
    }
    with suppress(NoSessionError):
        newest = find(None, Path.cwd(), anywhere)
        if newest.path.stat().st_mtime > found.path.stat().st_mtime:
            return [_session_meter(found), f"{_session_meter(newest)} (in the same folder, written to since)"]
    return [_session_meter(found)]


def _session_meter(found: SessionPath) -> str:
    of = f"{format_named(found.kind).title} session {one_line(found.id)}"
    full = share(found.path)
    if full is None:
        return f"{of}: not known; it has no answer yet, or none since it was trimmed or compacted"
    return f"{of}: {meter(full.tokens, full.window)}"


SHOWN = 8
"""Maximum number of ranges of messages that a question names."""

CONSENT = "agree"
"""Name of the form field that holds the answer."""


class ConsentQuestion(Struct, frozen=True):
    """The question about an offer in conversation `name`; `key` identifies the effect of a yes."""

    key: str
    name: str
    offer: int
    text: str

    @property
    def form(self) -> ElicitRequestFormParams:
        """Return the form to show: one box to tick."""
        box = {"type": "boolean", "title": "Yes, do it", "description": "`/restore` takes it back"}
        schema = {"type": "object", "properties": {CONSENT: box}, "required": [CONSENT]}
        return ElicitRequestFormParams(message=self.text, requested_schema=schema)

    @property
    def refusal(self) -> str:
        """Return the error for a model whose client cannot ask."""
        return (
            "the person has not agreed to the preview yet, and this client cannot ask them. Show them the preview; "
            f"they carry it out with `foldmark do {shlex.quote(self.name)} '/agree {self.offer}'`.\n{self.text}"
        )


def consent_question(agent: Agent, arguments: Mapping[str, Any]) -> ConsentQuestion:
    """Return the question before `filter_context` applies an offer that the person has not agreed to yet."""
    with agent.reading() as (moment, at):
        preview = offer(moment, at)
        assert preview is not None
        ids = sorted({*(arguments.get("message_ids") or preview.ids)})
        found = described(moment, at, preview, next_messages(agent, moment, at), ids)
    name = agent.name or agent.id[:8]
    text = "\n".join([f"Conversation '{name}': {found.title}?", *found.lines(SHOWN)])
    hashed = sha256(f"{agent.id} {preview.event_id} {ids}".encode()).hexdigest()[:32]
    return ConsentQuestion(hashed, name, preview.event_id, well_formed(text))


def record_consent(agent: Agent, apply: Callable[[], str]) -> str:
    """Record the person's yes and its effect, both or neither, and return the answer to the model."""
    with agent.batch():
        if not consented(agent):
            agent.append("user", "Yes.", actor="human")
        answer = apply()
        agent.end_turn()
    return answer


class Offered(Struct, frozen=True):
    """A tool as it is offered. `title` is its name for a person. A tool that `reads` changes nothing; some changes by a
    tool that `destroys` cannot be undone. `output` is the JSON Schema of an answer that is always JSON."""

    spec: ToolSpec
    title: str
    run: Callable[[ToolUse], str | ConsentQuestion]
    reads: bool = True
    destroys: bool = False
    output: dict[str, Any] | None = None

    def structured(self, arguments: Mapping[str, Any], answer: str) -> dict[str, Any] | None:
        """Return an answer in JSON as a value; None for an answer in text."""
        asked = self.spec.name == SEARCH.name and arguments.get("response_format") == "json"
        return json.loads(answer) if asked or self.output is not None else None


def _model_tool(tool: Tool, title: str, *, any_will_do: bool = False, writes: bool = False, **more: Any) -> Offered:
    """Return one of the models' tools as it is offered. With `any_will_do` it is about all conversations; with `writes`
    it records events in one. `more` are further fields of `Offered`."""

    def run(call: ToolUse) -> str | ConsentQuestion:
        own = {name: value for name, value in call.arguments.items() if name != ARGUMENT}
        asked_for = ToolCall("", tool.spec.name, dict(call.arguments)) if writes else None
        named = call.arguments.get(ARGUMENT)
        with call.conversations.agent(named, any_will_do=any_will_do, writes=writes, call=asked_for) as agent:
            calling = partial(agent.call_tool, tool.spec.name, own, asking=Asking(progress=call.progress))
            try:
                with session_model(agent, os.environ):
                    return calling()
            except NotAgreedError:
                question = consent_question(agent, own)
                return record_consent(agent, calling) if question.key == call.agreed else question

    return Offered(tool.spec, title, run, tool.together, **more)


def _own_tool(spec: ToolSpec, title: str, arguments: type[Struct], answer: Callable[[Any, ToolUse], str]) -> Offered:
    def run(call: ToolUse) -> str:
        # Models also send numbers as text.
        return answer(read_arguments(spec, arguments, call.arguments, strict=False), call)

    return Offered(spec, title, run)


_OWN = (
    _own_tool(SEARCH, "Search sessions and conversations", SearchArguments, search),
    _own_tool(READ, "Read a session or a conversation", Read, read),
    _own_tool(METER, "Show how full a context is", MeterArguments, context_meter),
)

_MODELS = (
    # `/kill` ends an agent for good; every other command of `slash`, and a filter, can be undone.
    _model_tool(SLASH, "Run a command on a conversation", writes=True, destroys=True),
    _model_tool(FILTER_CONTEXT, "Forget or keep messages by topic", writes=True, output=FILTERED),
    _model_tool(EVICT, "Evict tool results", writes=True),
    _model_tool(QUERY_DB, "Query a conversation's log", output=ROWS),
    _model_tool(DESCRIBE_DB, "Describe a conversation's log"),
    _model_tool(MANAGE_SCRATCHPAD, "Read or write the scratchpad", writes=True, destroys=True),
    _model_tool(SAVE_MEMO, "Save a memo", any_will_do=True),
    _model_tool(RETRIEVE_MEMOS, "Read memos", any_will_do=True),
    _model_tool(RECALL, "Search everything that was said", any_will_do=True),
)

TOOLS = {offered.spec.name: offered for offered in (*_OWN, *_MODELS)}


def specs(conversations: Conversations) -> list[ToolSpec]:
    """Return all tools as they are offered, restricted by the settings of the server's conversation if it exists."""
    models = {offered.spec.name: offered.spec for offered in _MODELS}
    if conversations.default:
        with suppress(FoldmarkError), conversations.agent(None) as agent:
            models = {spec.name: spec for spec in agent.tools() if spec.name in models}
    own = [offered.spec for offered in _OWN]
    return [*own, *(_with_conversation(spec, conversations.default) for spec in models.values())]


def _with_conversation(spec: ToolSpec, default: str | None) -> ToolSpec:
    about = "Its name, or the beginning of its agent's uuid" + (f"; '{default}' if left out" if default else "")
    properties = {**spec.parameters["properties"], ARGUMENT: {"type": "string", "description": about}}
    return replace(spec, parameters={**spec.parameters, "properties": properties})
