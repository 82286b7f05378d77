"""Conversations and requests as resources, each as text and as JSON, and the skills as prompts [SPEC 5.6, 8, 9]."""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

from mcp import types

from foldmark.commands.show import context_json, context_text
from foldmark.core import selections
from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError
from foldmark.core.turns import newest_turns
from foldmark.core.wording import count, listing, one_line
from foldmark.log import Agent, Result
from foldmark.mcp.conversations import Conversations
from foldmark.mcp.search import CONVERSATION
from foldmark.rendering import json_text
from foldmark.request.recorded import newest_requests
from foldmark.sessions.install.locations import typed_program
from foldmark.sessions.install.plugins import SKILLS, skill_template

ALL = CONVERSATION.rstrip("/")
"""The address of the list of conversations, which has pages."""

PAGE = 50
"""Maximum number of conversations on a page, and in the list of resources."""

MOST = 100
"""Maximum number of completions that the protocol allows."""

_URI = re.compile(
    rf"{re.escape(CONVERSATION)}(?P<name>[^/?#]+)/(?P<what>context|request|requests)"
    r"(?:/(?P<id>[0-9]{1,18}))?(?P<json>\.json)?"
)
_PAGE = re.compile(rf"{re.escape(ALL)}/?(?:\?page=(?P<page>[1-9][0-9]{{0,8}}))?")
_TEXT, _JSON = "text/plain", "application/json"


def _context(agent: Agent, event_id: int | None) -> Result:
    context = agent.context() if event_id is None else agent.at(event_id)
    turns = newest_turns(reversed(context.messages), len(context.messages) + 1)
    name = agent.name or agent.id
    return Result(context_text(name, context, turns), None, context_json(agent.id, context, turns))


def _request(agent: Agent, request_id: int | None) -> Result:
    if request_id is not None:
        raise CommandError("sent requests are at requests/ID; request is the next one")
    return agent.do("/context show")


_KINDS: dict[str, Callable[[Agent, int | None], Result]] = {
    "context": _context,
    "request": _request,
    "requests": lambda agent, sent: agent.do("/context sent" if sent is None else f"/context sent {sent}"),
}

_DESCRIPTIONS = {
    "{name}/context": "The context of a conversation: the visible messages, each with its beginning",
    "{name}/context/{event}": "The context as it was after an event, by its id",
    "{name}/request": "The request that would go to the model now, each part with its origin",
    "{name}/requests": "The requests that went to models, the newest first",
    "{name}/requests/{id}": "A request that went to a model, made again from the log, and whether byte for byte",
}

TEMPLATES = [
    types.ResourceTemplate(
        name=f"{path.replace('{name}/', '')}{form}",
        uri_template=f"{CONVERSATION}{path}{form}",
        description=f"{text}{' (all of it, as JSON)' if form else ''}",
        mime_type=_JSON if form else _TEXT,
    )
    for path, text in _DESCRIPTIONS.items()
    for form in ("", ".json")
]


def listed(conversations: Conversations, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    """Return the list, and the context and request of each of the newest conversations, the one with the newest event
    first.

    The answer is one page without a cursor: clients follow cursors to the end before they do anything else, and nobody
    picks from a longer list. Older conversations are read by name; the pages of the list contain all names. Raises
    CommandError for a cursor, StoreError.
    """
    if params is not None and params.cursor is not None:
        raise CommandError(
            f"'{one_line(params.cursor)[:40]}' is not a cursor of this server: all resources are on one page"
        )
    rows, total = _rows(conversations, 1)
    text = f"The {len(rows)} newest of {count(total, 'conversation')}, as JSON; older ones: {ALL}?page=2 and so on"
    if len(rows) == total:
        text = "All conversations, as JSON"
    found = [types.Resource(name="conversations", uri=ALL, description=text, mime_type=_JSON)]
    for row in rows:
        name, amount = row["name"], count(row["messages"], "message")
        for what in ("context", "request"):
            uri = f"{CONVERSATION}{quote(name, safe='')}/{what}"
            text = f"{_DESCRIPTIONS[f'{{name}}/{what}']}; {amount}"
            found.append(types.Resource(name=f"{name}/{what}", uri=uri, description=text, mime_type=_TEXT))
    return types.ListResourcesResult(resources=found)


def read(conversations: Conversations, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    """Return a resource's text. Raises CommandError for an unknown address, StoreError."""
    uri = params.uri
    if page := _PAGE.fullmatch(uri):
        return _contents(uri, json_text(_rows(conversations, int(page["page"] or 1))[0]), _JSON)
    match = _URI.fullmatch(uri)
    if match is None:
        raise CommandError(f"there is no resource '{one_line(uri)[:200]}'; available: {ALL} and the resource templates")
    with conversations.agent(unquote(match["name"])) as agent:
        result = _KINDS[match["what"]](agent, int(match["id"]) if match["id"] else None)
    return _contents(uri, json_text(result.data), _JSON) if match["json"] else _contents(uri, result.text, _TEXT)


def completed(conversations: Conversations, params: types.CompleteRequestParams) -> types.CompleteResult:
    """Return the names of conversations, or the ids of requests, that begin with the typed text."""
    argument = params.argument
    values: list[str] = []
    if isinstance(params.ref, types.ResourceTemplateReference):
        if argument.name == "name":
            values = _names(conversations)
        elif argument.name == "id" and params.context and (name := (params.context.arguments or {}).get("name")):
            with suppress(CommandError), conversations.agent(name) as agent, agent.log.store.read() as moment:
                values = [str(each.number) for each in newest_requests(moment, agent.id, MOST)]
    fitting = [value for value in values if value.startswith(argument.value)]
    return types.CompleteResult(
        completion=types.Completion(values=fitting[:MOST], total=len(fitting), has_more=len(fitting) > MOST)
    )


def _names(conversations: Conversations) -> list[str]:
    if not conversations.exist:
        return []
    with conversations.log() as log, log.store.read() as moment:
        return [record.name or "" for record in selections.conversations(moment)]


def _rows(conversations: Conversations, page: int) -> tuple[list[dict[str, Any]], int]:
    """Return a page of the conversations, the one with the newest event first, and the number of all conversations;
    nothing without a database. Only the conversations of this page are read in full."""
    if not conversations.exist:
        return [], 0
    with conversations.log() as log, log.store.read() as moment:
        records = selections.conversations(moment)
        standings = [log.agent(each.id).standing_in(moment) for each in records[(page - 1) * PAGE : page * PAGE]]
    rows = [
        {
            "name": at.record.name,
            "agent": at.record.id,
            "created_at": at.record.created_at,
            "newest_event": at.newest,
            "messages": at.size.messages,
            "tokens": at.size.tokens,
            "in_a_turn": at.record.open_turn is not None,
        }
        for at in standings
    ]
    return rows, len(records)


def _contents(uri: str, text: str, mime_type: str) -> types.ReadResourceResult:
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=mime_type, text=well_formed(text))]
    )


ARGUMENT = "arguments"
_SESSION = " ${CLAUDE_SESSION_ID}"


def prompts() -> list[types.Prompt]:
    """Return every prompt, with one free argument: the text after its name."""
    argument = types.PromptArgument(name=ARGUMENT, description="Further wishes, in your words", required=False)
    return [types.Prompt(name=name, description=_parts(name)[0], arguments=[argument]) for name in SKILLS]


def prompt(params: types.GetPromptRequestParams) -> types.GetPromptResult:
    """Return a prompt with its argument. Raises CommandError if there is no such prompt or argument."""
    name, arguments = params.name, params.arguments or {}
    if name not in SKILLS:
        raise CommandError(f"there is no prompt '{one_line(name)[:60]}'; available: {listing(SKILLS)}")
    if surplus := [each for each in arguments if each != ARGUMENT]:
        raise CommandError(f"{name} takes no '{one_line(surplus[0])[:60]}'; it takes: {ARGUMENT}")
    description, text = _parts(name)
    filled = text.replace(_SESSION, "").replace("{foldmark}", typed_program(os.environ))
    content = types.TextContent(text=filled.replace("$ARGUMENTS", well_formed(arguments.get(ARGUMENT, ""))))
    return types.GetPromptResult(description=description, messages=[types.PromptMessage(role="user", content=content)])


def _parts(name: str) -> tuple[str, str]:
    """Return a skill's description and its text."""
    _, head, text = skill_template(name).split("---\n", 2)
    about = next(line for line in head.splitlines() if line.startswith("description: "))
    return about.removeprefix("description: "), text.strip()
