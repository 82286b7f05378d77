"""The tools that the server offers: the tools for conversations that Foldmark's own models have, and three more.

A guest's model sees none of the conversations that it works on. So each description says, in this order, what the tool
does, whose context it changes, when to use it and when not, and what it returns. The first part is the tool's own
description, or what the registry says of the commands of `slash`.

A filter needs the person's consent, unless they have given it in the conversation [SPEC 4.2: over MCP too]. As in any
other interface, a yes is recorded as the person's message in the planning conversation, and leaves the context with
that conversation. A command that could reach back to the first message needs a person's permission if the call does not
say how far it goes.
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

from foldmark.commands import REGISTRY
from foldmark.commands.registry import PREVIEW
from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.request import ToolCall, ToolSpec
from foldmark.core.wording import meter, one_line
from foldmark.cost.messages import next_messages
from foldmark.cost.misses import newest_turn
from foldmark.editing.offers import consented, described
from foldmark.formats.places import NoSessionError, find, recognized
from foldmark.formats.session_file import SessionFileError
from foldmark.formats.session_format import SessionPath, format_named, formats
from foldmark.log import Agent, Result
from foldmark.mcp.conversations import ARGUMENT, Conversations, ToolUse
from foldmark.mcp.search import READ, SEARCH, Read, SearchArguments, read, search
from foldmark.operations.effects import Asking
from foldmark.rendering import receipt
from foldmark.request.planning import offer
from foldmark.sending.status import assumed, fullness
from foldmark.sessions.hook.tail import share
from foldmark.sessions.session_model import session_model
from foldmark.tools.context import EVICT, FILTER_CONTEXT, SLASH, NotAgreedError, SlashArguments
from foldmark.tools.knowledge import MANAGE_SCRATCHPAD, RECALL, RETRIEVE_MEMOS, RETRIEVED, SAVE_MEMO
from foldmark.tools.query_db import DESCRIBE_DB, QUERY_DB
from foldmark.tools.tool import Coverage, NotApprovedError, Tool, about, approve, read_arguments, schema

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
    conversation: Annotated[str | None, about("A Foldmark conversation: its name, or the beginning of its uuid")] = None


METER = ToolSpec(
    "context_meter",
    "How full a context is. Without arguments: how full this chat is, if it is a session of Claude Code or Codex, by "
    "the newest answer in its transcript, and the conversation that this server was started for.",
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
        line = f"Conversation '{_named(agent)}': {fullness(agent, agent.next_request())}"
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
    inside = {each.running for each in formats()}
    anywhere = {name: value for name, value in os.environ.items() if name not in inside}
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
    """A question to the person before a change; `key` identifies the effect of a yes. Without an answer, `missing` says
    what the person has not done, and `instead` what they can do without this client."""

    key: str
    text: str
    missing: str
    instead: str

    @property
    def form(self) -> ElicitRequestFormParams:
        """Return the form to show: one box to tick."""
        box = {"type": "boolean", "title": "Yes, do it", "description": "`/restore` takes it back"}
        schema = {"type": "object", "properties": {CONSENT: box}, "required": [CONSENT]}
        return ElicitRequestFormParams(message=self.text, requested_schema=schema)

    @property
    def not_asked(self) -> str:
        """Return the error for a model whose client cannot ask."""
        said = " ".join(map(str.strip, self.text.splitlines()))  # an error is one line
        return f"{self.missing}, and this client cannot ask them: {self.instead}. {said}"

    @property
    def refused(self) -> str:
        """Return the error for a no. Clients that run without a person say no in their place."""
        return f"the person did not agree; nothing was changed. If this client did not ask them: {self.instead}"


def consent_question(agent: Agent, arguments: Mapping[str, Any]) -> ConsentQuestion:
    """Return the question before `filter_context` applies an offer that the person has not agreed to yet."""
    with agent.reading() as (moment, at):
        preview = offer(moment, at)
        assert preview is not None
        ids = sorted({*(arguments.get("message_ids") or preview.ids)})
        found = described(moment, at, preview, next_messages(agent, moment, at), ids)
    text = "\n".join([f"Conversation '{_named(agent)}': {found.title}?", *found.lines(SHOWN)])
    return ConsentQuestion(
        _key(f"{agent.id} {preview.event_id} {ids}"),
        well_formed(text),
        "the person has not agreed to the preview yet",
        f"show them the preview; they carry it out with {_typed(agent, f'/agree {preview.event_id}')}",
    )


def permission_question(agent: Agent, line: str, error: NotApprovedError) -> ConsentQuestion:
    """Return the question before a model runs a line that the person has to allow."""
    size = agent.context().size  # a live session records more while the person thinks, but no messages
    key = _key(f"{agent.id} {size.messages} {size.tokens} {line}")
    allowed = f"allow it for good with {_typed(agent, error.command)}" if error.command else f"allow it: {error}"
    instead = f"they run it themselves with {_typed(agent, line)}, or {allowed}"
    return ConsentQuestion(key, well_formed(error.question), "the person has not allowed this", instead)


def _key(effect: str) -> str:
    return sha256(effect.encode()).hexdigest()[:32]


def _named(agent: Agent) -> str:
    return agent.name or agent.id[:8]


def _typed(agent: Agent, command: str) -> str:
    """Return a command of the person as a line for a shell."""
    return f"`foldmark do {shlex.quote(_named(agent))} {shlex.quote(command)}`"


def record_consent(agent: Agent, apply: Callable[[], str]) -> str:
    """Record the person's yes and its effect, both or neither, and return the answer to the model."""
    with agent.batch():
        if not consented(agent):
            agent.append("user", "Yes.", actor="human")
        answer = apply()
        agent.end_turn()
    return answer


def check_reach(agent: Agent, given: Mapping[str, Any], asking: Asking) -> None:
    """Return if a use of `slash` says how far it reaches, or a person allows it. Raises CommandError."""
    command, found = REGISTRY.allowed(agent, _line(given), "model")
    if command.has_no_limit(found):
        _, would, *_ = agent.do(f"/{command.name} {PREVIEW}").text.splitlines()
        question = f"Conversation '{_named(agent)}': may the model run /{command.name}?\n{would}"
        use = f"{SLASH.spec.name}({command.name})"
        covers = Coverage((use, SLASH.spec.name), use, f"/{command.name} without {command.place}, over MCP")
        approve(agent, SLASH.spec.name, question, asking, coverage=covers)


def _line(given: Mapping[str, Any]) -> str:
    return read_arguments(SLASH.spec, SlashArguments, given).line


class Offered(Struct, frozen=True):
    """A tool as it is offered. `title` is its name for a person. A tool that `reads` changes nothing; some changes by a
    tool that `destroys` cannot be undone. `output` is the JSON Schema of an answer that is always JSON.

    The description for a guest is made of `does`, which gets the specification and the words for the conversation, of
    `concerns`, of `use` and of `returns`; `{which}` in them stands for the words that say which conversation. A tool
    `of_one` works on one conversation.
    """

    spec: ToolSpec
    title: str
    run: Callable[[ToolUse], str | ConsentQuestion]
    does: Callable[[ToolSpec, str], str]
    concerns: str
    use: str
    returns: str
    reads: bool = True
    destroys: bool = False
    of_one: bool = False
    output: dict[str, Any] | None = None

    def structured(self, arguments: Mapping[str, Any], answer: str) -> dict[str, Any] | None:
        """Return an answer in JSON as a value; None for an answer in text."""
        asked = self.spec.name == SEARCH.name and arguments.get("response_format") == "json"
        return json.loads(answer) if asked or self.output is not None else None

    def described(self, spec: ToolSpec, default: str | None) -> str:
        """Return the description of `spec`, this tool's or a variant of it, for a guest. The server was started for the
        conversation `default`, or for none."""
        which = f"that `{ARGUMENT}` names"
        which = f"'{default}', or the one {which}" if default else which
        does = self.does(spec, "a Foldmark conversation").removesuffix(".")
        rest = f"{self.concerns} {self.use} Returns {self.returns}.".replace("{which}", which)
        between = ".\n" if "\n" in does else ". "
        return f"{does}{between}{rest}"


CHANGES = "It changes the Foldmark conversation {which}, not this chat."
READS = "It reads the Foldmark conversation {which}, not this chat, and changes nothing."
NOTHING = "It changes nothing."


def _model_tool(
    tool: Tool,
    title: str,
    use: str,
    returns: str,
    *,
    concerns: str | None = None,
    does: Callable[[ToolSpec, str], str] | None = None,
    check: Callable[[Agent, Mapping[str, Any], Asking], None] = lambda *_: None,
    **more: Any,
) -> Offered:
    """Return one of the models' tools as it is offered. One that `concerns` more than one conversation says so itself;
    any other one records events in a conversation, unless it runs together with others. `check` raises CommandError for
    a use that a guest may not make. `more` are further fields of `Offered`."""
    of_one = concerns is None
    writes = of_one and not tool.together

    def run(call: ToolUse) -> str | ConsentQuestion:
        own = {name: value for name, value in call.arguments.items() if name != ARGUMENT}
        asked_for = ToolCall("", tool.spec.name, dict(call.arguments)) if writes else None
        named = call.arguments.get(ARGUMENT)

        def calling(agent: Agent, asking: Asking) -> str:
            check(agent, own, asking)
            done: list[Result] = []
            text = agent.call_tool(tool.spec.name, own, asking=replace(asking, operated=done.append))
            # JSON has the operation's id and the sizes already.
            return text if "output" in more else "\n".join([text, *(f"  {receipt(each)}" for each in done)])

        with call.conversations.agent(named, any_will_do=not of_one, writes=writes, call=asked_for) as agent:
            nobody = Asking(progress=call.progress)
            try:
                with session_model(agent, os.environ):
                    return calling(agent, nobody)
            except NotAgreedError:
                question = consent_question(agent, own)
                agreed = partial(record_consent, agent, partial(calling, agent, nobody))
            except NotApprovedError as error:
                question = permission_question(agent, _line(own), error)
                agreed = partial(calling, agent, replace(nobody, approve=lambda _: "yes"))
            return agreed() if question.key == call.agreed else question

    concerned = concerns or (CHANGES if writes else READS)
    return Offered(
        tool.spec,
        title,
        run,
        does or tool.told_elsewhere,
        concerned,
        use,
        returns,
        tool.together,
        of_one=of_one,
        **more,
    )


def _own_tool(
    spec: ToolSpec, title: str, arguments: type[Struct], answer: Callable[[Any, ToolUse], str], use: str, returns: str
) -> Offered:
    def run(call: ToolUse) -> str:
        # Models also send numbers as text.
        return answer(read_arguments(spec, arguments, call.arguments, strict=False), call)

    return Offered(spec, title, run, lambda spec, _: spec.description, NOTHING, use, returns)


def _commands(spec: ToolSpec, conversation: str) -> str:
    """Return what the registry says of the commands that `slash` has."""
    lines = [f"Run one of these commands on {conversation}; `args` is what follows the command's name."]
    for name in spec.parameters["properties"]["command"]["enum"]:
        command = REGISTRY.commands[name]
        need = f" Without {command.place} it needs the person's permission." if command.place else ""
        lines.append(f"- {command.synopsis[1:]}: {command.help}{need}")
    return "\n".join(lines)


_OWN = (
    _own_tool(
        SEARCH,
        "Search sessions and conversations",
        SearchArguments,
        search,
        "Use it first for anything that was said before: where something was discussed, last week or in another "
        "project. Not for what was saved as a memo (`retrieve_memos`), and not to see what a Foldmark conversation "
        "still sends (`recall`).",
        "the results, the best first, each with a path and a line for `read`",
    ),
    _own_tool(
        READ,
        "Read a session or a conversation",
        Read,
        read,
        "Use it to read on around a result. Not to find a place: `search` does.",
        "the messages with their lines, 40,000 characters at most, and where the rest begins",
    ),
    _own_tool(
        METER,
        "Show how full a context is",
        MeterArguments,
        context_meter,
        "Use it before long work, and when the person asks for the size. Not to make room: this chat's own program "
        "does that, and `evict` in a Foldmark conversation.",
        "one line for each context: tokens, the model's window, and the percentage",
    ),
)

_MODELS = (
    # `/kill` ends an agent for good; every other command of `slash`, and a filter, can be undone.
    _model_tool(
        SLASH,
        "Run a command on a Foldmark conversation",
        "Use it when the person asks for one of these commands on a conversation of Foldmark's. To clear, compact or "
        "rewind this chat, the person uses the commands of its own program. For every other edit, as to drop a turn, "
        "rewind, undo, restore, pin or summarize, no tool is right: tell the person to type it, as in `foldmark do "
        "NAME '/context drop 5'`.",
        "the command's answer, with the receipt and the way back of an operation",
        does=_commands,
        check=check_reach,
        destroys=True,
    ),
    _model_tool(
        FILTER_CONTEXT,
        "Forget or keep messages of a Foldmark conversation by topic",
        "Use it only after the person has begun that, as with `foldmark do NAME '/forget WHAT'`: no tool begins it. "
        "apply asks the person through this client, unless they have said yes in the conversation.",
        "JSON: of preview the matches with their ids, number and tokens; of apply the operation's id and the sizes "
        "before and after",
        output=FILTERED,
    ),
    _model_tool(
        EVICT,
        "Evict tool results of a Foldmark conversation",
        "Use it to make room in a conversation with long tool results. Not for this chat's own results, and not for "
        "messages of people and models.",
        "the list, or the receipt: the tokens that are no longer sent, and the way back",
    ),
    _model_tool(
        QUERY_DB,
        "Query the log of a Foldmark conversation",
        "Use it to count, group or list messages exactly. Not to find a topic: `search` does.",
        "JSON: row_count, and the rows",
        output=ROWS,
    ),
    _model_tool(
        DESCRIBE_DB,
        "Describe the log of a Foldmark conversation",
        "Use it before a statement whose columns are in doubt. Not for messages: `query_db` reads them.",
        "text",
    ),
    _model_tool(
        MANAGE_SCRATCHPAD,
        "Read or write the scratchpad of a Foldmark conversation",
        "Use it when the person wants a plan or a checklist kept in that conversation. Not for the to-do list of this "
        "chat, and not for knowledge that other conversations need (`save_memo`). What update replaces is lost.",
        "the scratchpad, or its new length",
        destroys=True,
    ),
    _model_tool(
        SAVE_MEMO,
        "Save a memo",
        "Use it when the person wants a fact remembered from now on, beyond one conversation. Not for the plan of one "
        "conversation (`manage_scratchpad`).",
        "the memo's number",
        concerns="It adds to Foldmark's memos, and changes no conversation and not this chat.",
    ),
    _model_tool(
        RETRIEVE_MEMOS,
        "Read memos",
        "Use it for what the person told Foldmark to remember. Not for what was only said: `search` finds that, and "
        "memos by their words too.",
        f"the memos whole, {RETRIEVED} at most; if there are none, the tags that exist",
        concerns=NOTHING,
    ),
    _model_tool(
        RECALL,
        "Search what Foldmark conversations still send",
        "Use it to see whether messages about something are still sent to the model of a Foldmark conversation, or "
        "have left its context (forgotten). Not to find out what was said: `search` does.",
        "runs of messages with their ids, and whether they are sent for those of the conversation {which}",
        concerns=NOTHING,
    ),
)

TOOLS = {offered.spec.name: offered for offered in (*_OWN, *_MODELS)}


def specs(conversations: Conversations) -> list[ToolSpec]:
    """Return all tools as they are offered, restricted by the settings of the server's conversation if it exists."""
    models = {offered.spec.name: offered.spec for offered in _MODELS}
    if conversations.default:
        with suppress(FoldmarkError), conversations.agent(None) as agent:
            models = {spec.name: spec for spec in agent.tools() if spec.name in models}
    own = [offered.spec for offered in _OWN]
    return [_for_guest(spec, conversations.default) for spec in (*own, *models.values())]


def _for_guest(spec: ToolSpec, default: str | None) -> ToolSpec:
    offered, parameters = TOOLS[spec.name], spec.parameters
    if offered not in _OWN:
        parameters = _with_conversation(offered, parameters, default)
    return replace(spec, description=offered.described(spec, default), parameters=parameters)


def _with_conversation(offered: Offered, parameters: dict[str, Any], default: str | None) -> dict[str, Any]:
    """Return the parameters of a tool with the conversation. It has to be named if the tool works on one and the server
    is for none: nothing else says that it is not the chat of the guest."""
    about, required = "A Foldmark conversation: its name, or the beginning of its agent's uuid", offered.of_one
    if default:
        about, required = f"{about}; '{default}' if left out", False
    elif not offered.of_one:
        about += "; may be left out"
    elif not offered.reads:
        about += ". Empty means this chat, which works only while Foldmark records it (`foldmark live`, `/fm`)"
    properties = {**parameters["properties"], ARGUMENT: {"type": "string", "description": about}}
    needed = [*parameters.get("required", ()), *([ARGUMENT] if required else [])]
    return {**parameters, "properties": properties, **({"required": needed} if needed else {})}
