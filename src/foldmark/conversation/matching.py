"""Which messages do criteria mean? The agent's model judges, chunk by chunk; without one a local matcher [SPEC 4.2]."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from foldmark.conversation.asking_model import ask
from foldmark.conversation.fullness import whole
from foldmark.conversation.likeness import likeness
from foldmark.core.events import Event
from foldmark.core.matching import parse_ids, request_text
from foldmark.core.ports import Progress
from foldmark.core.pressure import chunk_count, chunks
from foldmark.core.turns import newest_turns
from foldmark.recall.matching import match

if TYPE_CHECKING:
    from foldmark.conversation.agent import Agent


def matched(
    agent: "Agent",
    criteria: str,
    mode: str,
    messages: Sequence[Event],
    progress: Progress | None = None,
    *,
    local: bool = False,
) -> list[int]:
    """The ids of those of `messages` that `criteria` mean, in order. Raises CommandError if they mean nothing.

    With `local` no model is asked.

    A model reads them in chunks at turn bounds, as many as the fill of its window asks for; `progress` is told after
    each. What it answers is checked against the messages it was shown.
    """
    at = agent.standing()
    if local or at.config.provider == "offline":
        # To embed nothing costs nothing: without vectors no model is loaded.
        found_here = list(match(criteria, messages, alike=lambda text: likeness(text, "auto", [agent.log])[0]))
        if progress is not None:
            progress(1, 1)
        return found_here
    turns = newest_turns(reversed(messages), len(messages) + 1)
    sizes = [sum(message.tokens for message in turn.messages) for turn in turns]
    provider, _, model = at.config.model.partition("/")
    plan = chunks(sizes, chunk_count(whole(at, provider, model), agent.window))
    found: set[int] = set()
    for done, part in enumerate(plan, 1):
        chunk = [message for place in part for message in turns[place].messages]
        answer = ask(agent, request_text(criteria, mode), "match", quoted=chunk)
        found.update(parse_ids(answer, {message.id for message in chunk}))
        if progress is not None:
            progress(done, len(plan))
    return sorted(found)
