"""Ask the person for consent through the client, if the client can ask [SPEC 4.2: over MCP too].

A yes is recorded as the person's message in the planning conversation, as by any other interface, and leaves the
context with that conversation.
"""

import shlex
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.types import CallToolRequestParams, ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct

from foldmark.core.codec import well_formed
from foldmark.editing.offers import described
from foldmark.log import Agent
from foldmark.request.planning import offer

Context = ServerRequestContext[Any]

SHOWN = 8
"""Maximum number of ranges of messages that a question names."""

_BOX = "agree"


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
        schema = {"type": "object", "properties": {_BOX: box}, "required": [_BOX]}
        return ElicitRequestFormParams(message=self.text, requested_schema=schema)

    @property
    def refusal(self) -> str:
        """Return the error for a model whose client cannot ask."""
        return (
            "the person has not agreed to the preview yet, and this client cannot ask them. Show them the preview; "
            f"they carry it out with `foldmark do {shlex.quote(self.name)} '/agree {self.offer}'`.\n{self.text}"
        )


def question(agent: Agent, arguments: Mapping[str, Any]) -> ConsentQuestion:
    """Return the question before `filter_context` applies an offer that the person has not agreed to yet."""
    with agent.reading() as (moment, at):
        preview = offer(moment, at)
        assert preview is not None
        ids = sorted({*(arguments.get("message_ids") or preview.ids)})
        found = described(moment, at, preview, ids)
    name = agent.name or agent.id[:8]
    text = "\n".join([f"Conversation '{name}': {found.title}?", *found.lines(SHOWN)])
    hashed = sha256(f"{agent.id} {preview.event_id} {ids}".encode()).hexdigest()[:32]
    return ConsentQuestion(hashed, name, preview.event_id, well_formed(text))


def record_consent(agent: Agent, apply: Callable[[], str]) -> str:
    """Record the person's yes together with its effect, both or neither, and return the answer to the model."""
    with agent.batch():
        agent.append("user", "Yes.", actor="human")
        answer = apply()
        agent.end_turn()
    return answer


def agreed_key(params: CallToolRequestParams) -> str | None:
    """Return the key of the question that the person agreed to before the client called again."""
    for key, answer in (params.input_responses or {}).items():
        if isinstance(answer, ElicitResult) and _is_yes(answer):
            return key
    return None


def ask_before_retry(
    context: Context, question: ConsentQuestion, params: CallToolRequestParams
) -> InputRequiredResult | None:
    """Ask as in the protocol since 2026-07-28: the client asks and calls again. Return None if there is an answer
    already, or the client speaks an older protocol, or cannot ask."""
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS or not _can_ask(context) or params.input_responses:
        return None
    return InputRequiredResult(input_requests={question.key: ElicitRequest(params=question.form)})


async def ask(context: Context, question: ConsentQuestion) -> bool | None:
    """Ask during the call, as in the protocol before 2026-07-28; return None if the client cannot ask."""
    if not _can_ask(context) or not context.session.can_send_request:
        return None
    form = question.form
    return _is_yes(await context.session.elicit_form(form.message, form.requested_schema, context.request_id))


def _can_ask(context: Context) -> bool:
    able = context.session.client_capabilities
    forms = able.elicitation if able is not None else None
    return forms is not None and (forms.form is not None or forms.url is None)


def _is_yes(answer: ElicitResult) -> bool:
    return answer.action == "accept" and (answer.content or {}).get(_BOX) is True
