"""The tools with which a model changes its own context: `slash`, `evict` and `filter_context` [S0, S1, SPEC 4.2, 5.7].

`filter_context` is the model's part in a planning conversation: `preview` finds the messages that match the criteria
and changes nothing; `apply` records the filter once a person has agreed. Ids from a model are never trusted: they are
checked against the preview.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from foldmark.commands import REGISTRY
from foldmark.core.errors import CommandError
from foldmark.core.events import Filter
from foldmark.core.ports import Snapshot
from foldmark.core.segments import END, Segment, contains, intersect
from foldmark.core.wording import count, listing
from foldmark.editing.evicting import evict, sent_results
from foldmark.editing.offers import FilterMatches, applied, look
from foldmark.log import Agent, Result
from foldmark.operations.effects import Asking
from foldmark.request.exchanges import closure
from foldmark.request.planning import Planning, RecordedPreview, offered, planning, replies, talk
from foldmark.request.standing import Standing
from foldmark.text.consent import is_yes
from foldmark.tools.tool import THIS_CONVERSATION, Tool, about


class SlashArguments(Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[
        str,
        about("The command to execute", enum=[name for name, each in REGISTRY.commands.items() if "model" in each.who]),
    ]
    args: Annotated[str, about("Command arguments as a single string")] = ""

    @property
    def line(self) -> str:
        """The line that a person would type."""
        return f"/{self.command} {self.args}".rstrip()


def _slash(agent: Agent, arguments: SlashArguments, asking: Asking) -> str:
    result = agent.do(arguments.line, actor="model", asking=asking)
    if result.event_id is not None:
        asking.operated(result)
    return result.text


SLASH = Tool.of("slash", "", SlashArguments, _slash, own="Execute a slash command")


LISTED = 50
"""Maximum number of results that are listed: those that would save the most."""


class EvictArguments(Struct, frozen=True, forbid_unknown_fields=True):
    ids: Annotated[list[int], about("Ids of tool results")] = []
    reason: Annotated[str | None, about("Why, for the person; may be left out")] = None


def _evict(agent: Agent, arguments: EvictArguments, asking: Asking) -> str:
    if not arguments.ids:
        return _listed(agent)
    result = evict(agent, arguments.ids, actor="model", reason=arguments.reason)
    asking.operated(result)
    return result.text


def _listed(agent: Agent) -> str:
    found = sorted(sent_results(agent), key=lambda each: -each.tokens)
    if not found:
        raise CommandError(
            f"no tool result of {THIS_CONVERSATION} is longer than the placeholder that would take its place"
        )
    lines = [each.line() for each in found[:LISTED]]
    head = f"{len(lines)} of {len(found)} tool results that {THIS_CONVERSATION} sends: id, call, what evicting it saves"
    return "\n".join([f"{head}.", *lines])


EVICT = Tool.of(
    "evict",
    f"Take tool results that are needed no more out of the requests of {THIS_CONVERSATION}. A one-line placeholder "
    "stays in place of each, with the query that shows it again. Without ids, list the results with their ids and "
    "sizes. Each use makes the provider read the conversation anew from the first of them on: evict many at once, and "
    "seldom.",
    EvictArguments,
    _evict,
)


SHOWN, CHARACTERS = 100, 80
"""Maximum number of matches that a preview lists, and of characters of each. The ranges cover all matches."""

_Id = Annotated[int, Meta(ge=1, le=END)]


class NotAgreedError(CommandError):
    """The person has not agreed to the preview yet."""


class FilterContextArguments(Struct, frozen=True, forbid_unknown_fields=True):
    action: Literal["preview", "apply"]
    mode: Literal["forget", "remember"] | None = None
    criteria: Annotated[str | None, about("What the messages are about, for preview")] = None
    message_ids: Annotated[list[_Id] | None, about("For apply: ids from the preview; all of it if left out")] = None
    planning_conversation_ids: Annotated[
        list[_Id] | None, about("For apply: the ids that the preview gave for the planning conversation")
    ] = None


def _filter_context(agent: Agent, arguments: FilterContextArguments, asking: Asking) -> str:
    with agent.reading() as (moment, at):
        open_one = planning(moment, at)
        alone = offered(moment, at) if open_one is None else None
    about_this = open_one or alone
    if about_this is None:
        raise CommandError("no planning conversation is open: the person begins one with /forget or /remember")
    answer = (
        _preview(agent, about_this.mode, arguments, asking)
        if arguments.action == "preview"
        else _apply(agent, open_one, alone if open_one is None else open_one.preview, arguments, asking)
    )
    return msgspec.json.encode(answer).decode()


def _preview(agent: Agent, mode: str, arguments: FilterContextArguments, asking: Asking) -> dict[str, Any]:
    criteria = arguments.criteria
    if arguments.mode not in (None, mode):
        raise CommandError(f"the person asked to {mode}, not to {arguments.mode}; preview with mode {mode}")
    found = look(agent, criteria, asking, actor="model")
    offer = {"offer": found.offer} if found.matches else {}
    with agent.reading() as (moment, at):
        return {**_shown(moment, at, mode, found), **offer}


def _shown(moment: Snapshot, at: Standing, mode: str, looked: FilterMatches) -> dict[str, Any]:
    """Return the preview as JSON. The counts come first, because a long result is cut at its end [SPEC 5.2]."""
    candidates, found = looked.candidates.rows, looked.matches
    rows = {row.id: row for row in candidates}
    said = [message.id for message in moment.select(intersect(at.visible, talk(moment, at)))]
    closed = closure(moment, at, list(moment.lookup((*(event.id for event in found), *said))))
    wanted = {event.id for event in found}
    added = sorted(message.id for message in closed if message.id in rows and message.id not in wanted)
    everything_else = len(candidates) - len(found) - len(added)
    return {
        "message_count": len(found),
        "token_estimate": sum(event.tokens for event in found),
        **({"everything_else": everything_else} if mode == "remember" else {}),
        "ranges": msgspec.to_builtins(looked.ranges),
        "added": added,
        "added_tokens": sum(rows[id].tokens for id in added),
        "planning_conversation_ids": said,
        "matching_messages": [
            {"id": each.id, "role": each.role, "preview": " ".join(each.content[: 4 * CHARACTERS].split())[:CHARACTERS]}
            for each in looked.candidates.read(moment, [row.id for row in found[:SHOWN]])
        ],
    }


def _apply(
    agent: Agent,
    open_one: Planning | None,
    preview: RecordedPreview | None,
    arguments: FilterContextArguments,
    asking: Asking,
) -> dict[str, Any]:
    if preview is None:
        raise CommandError("nothing was previewed yet; preview first, and show the person what it finds")
    if not preview.ids:
        raise CommandError(f"the preview found nothing to {preview.mode}; preview with other criteria")
    if arguments.mode not in (None, preview.mode):
        raise CommandError(f"the preview was to {preview.mode}, not to {arguments.mode}; preview again")
    ids = preview.ids if arguments.message_ids is None else tuple(arguments.message_ids)
    if unknown := sorted({*ids} - {*preview.ids}):
        raise CommandError(f"these ids were not in the preview: {listing(unknown)}; preview again, or leave them out")
    if not ids or (preview.mode == "remember" and {*ids} != {*preview.ids}):
        # Keeping fewer messages forgets more than the person has seen.
        raise CommandError("these are not all the ids of the preview; leave message_ids out to take all of it")
    with agent.reading() as (moment, at):
        foreign = _foreign(moment, at, open_one, arguments.planning_conversation_ids or ())
        holds, said = offered(moment, at) is not None, replies(moment, at, preview.event_id)
    if foreign:
        began = "there is none" if open_one is None else f"it began with {open_one.first}"
        raise CommandError(f"these ids are not of the planning conversation: {listing(foreign)}; {began}")
    if not holds:
        raise CommandError("the context has changed since the preview; preview again")
    if len(said) > 1:
        raise CommandError("the preview was good for the person's next message only; preview again")
    if said and not is_yes(said[0].content):
        raise CommandError("the person has said something else since the preview; preview again if they still want it")
    if not said and not preview.agreed:
        raise NotAgreedError("the person has not agreed to the preview yet; show it, ask, and wait for a yes")
    receipt = applied(agent, ids, actor="model")
    assert isinstance(receipt.operation, Filter)
    before, after = receipt.operation.before, receipt.operation.after
    what = "forgotten" if preview.mode == "forget" else "left out, all but what was to be remembered"
    asking.operated(Result(f"{count(before - after, 'message')} {what}.", receipt.event_id, effect=receipt))
    return {
        "filter_event_id": receipt.event_id,
        "messages_filtered": before - after,
        "context_before": before,
        "context_after": after,
    }


def _foreign(moment: Snapshot, at: Standing, open_one: Planning | None, ids: Sequence[int]) -> list[int]:
    """Return the ids that do not belong to the planning conversation."""
    if open_one is None:
        return sorted({*ids})
    own = (Segment(at.record.id, open_one.first, at.newest),)
    inside = [id for id in {*ids} if open_one.first <= id <= at.newest]
    known = {event.id for event in moment.lookup(inside) if contains(own, event.agent_id, event.id)}
    return sorted({*ids} - known)


FILTER_CONTEXT = Tool.of(
    "filter_context",
    f"Forget or keep messages of {THIS_CONVERSATION}, when the person has written /forget or /remember in it. First "
    "preview: it finds the messages that the criteria mean and changes nothing; preview again if the person wants "
    "something else.",
    FilterContextArguments,
    _filter_context,
    own="Foldmark shows the person its ranges and tokens, asks, and applies it on their yes. Apply only after a "
    "person's yes that Foldmark has not carried out.",
    quiet=True,
)
