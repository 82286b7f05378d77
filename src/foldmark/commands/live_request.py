"""The next request of a live session's agent, as text and as JSON: what `/context show | explain | sent | count` say
where Foldmark itself sends nothing [SPEC 5.7]."""

from collections.abc import Sequence
from typing import Any

from foldmark.commands.registry import CommandCall
from foldmark.core import selections
from foldmark.core.assembly.eviction import client_placeholder, in_place, without_content
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.wording import count
from foldmark.log import Agent, Result
from foldmark.log.live_session import client_session, client_tokens
from foldmark.operations.history import Explanation, sized
from foldmark.request.client_requests import NextRequest
from foldmark.request.usage import usage_of

LISTED = 20
"""Maximum number of answers that are listed."""

NOT_STORED = (
    "The log holds the messages of this session, not the bytes of its requests: those are the agent's own. "
    "/context show shows what its next request holds."
)


class ClientContext:
    """What the next request of a live session's agent holds: its messages as they are sent, and its tokens; `beside`
    are those of the system prompt, the tools and other content of the agent that the log does not hold, None before the
    first answer."""

    def __init__(self, agent: Agent) -> None:
        with agent.reading() as (moment, at):
            self.at, self.size, self.model = at.newest, at.size, at.config.model
            self.tokens = client_tokens(agent, moment, at)
            request = NextRequest.of(moment, at)
            self.beside = None if request is None else request.beside()
            found = in_place(moment.select(at.visible))
            self.messages: Sequence[Event] = [
                without_content(each, client_placeholder(len(each.content))) if each.id in at.fold.evicted else each
                for each in found
            ]

    @property
    def opening(self) -> str:
        """A line about the request, and one about what the log does not hold."""
        first = (
            f"The agent's next request to {self.model} after event {self.at}, without its next prompt: "
            f"~{count(self.tokens, 'token')}. Context: {sized(self.size, recorded=False)}."
        )
        if self.beside is None:
            return f"{first}\nIts system prompt, tools and reminders come with them; no answer has counted them yet."
        return f"{first}\nIts system prompt, its tools and what it adds by itself: ~{count(self.beside, 'token')}."

    def data(self) -> dict[str, Any]:
        """Return the numbers as JSON."""
        return {"live": True, "model": self.model, "tokens": self.tokens, "beside": self.beside}


def is_live(agent: Agent) -> bool:
    """Return True for a conversation that a gateway records."""
    return client_session(agent) is not None


def explained(found: Explanation) -> tuple[str, bool, str]:
    """Return where an event is, whether the agent's next request holds it, and why."""
    in_request = found.in_context
    where = "in the agent's next request" if in_request else "not in the agent's next request"
    if found.reason == "evicted":
        where += ", as a placeholder"
    return where, in_request, found.text


def sent(call: CommandCall) -> Result:
    """List the answered requests. Raises CommandError for a request by its id, since its bytes are not stored."""
    if call.get("ID") is not None:
        raise CommandError(NOT_STORED)
    agent = call.agent
    with agent.reading() as (moment, at):
        events = selections.recent(moment, "usage", agent.id, at.last, LISTED)
    rows: list[dict[str, Any]] = []
    for event in reversed(events):
        if (usage := usage_of(event.data)) is not None:
            data = event.data or {}
            model = f"{data.get('provider')}/{data.get('model')}"
            own = {"input": usage.input, "read": usage.cache_read, "written": usage.cache_write}
            rows.append({"id": event.id, "created_at": event.created_at, "model": model, **own})
    lines = [
        f"  {row['id']:>6}  {agent.log.given.minute(row['created_at'])}  {row['model']} · "
        f"{count(row['input'], 'input token')}, {row['read']:,} read from the cache"
        for row in rows
    ]
    text = "\n".join(lines) or "No request of this session was answered yet."
    return Result(f"{text}\n\n{NOT_STORED}", None, {"sent": rows, "live": True})


def counted(agent: Agent) -> Result:
    """Return the tokens of the agent's next request, by the provider's count of the newest one."""
    found = ClientContext(agent)
    about = "by the provider's count of its newest one" if found.beside is not None else "estimated"
    text = f"The agent's next request has ~{count(found.tokens, 'token')}, {about}, without its next prompt."
    return Result(text, None, {**found.data(), "estimate": found.tokens})
