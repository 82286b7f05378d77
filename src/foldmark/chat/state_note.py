"""What the chat says about the state block of an answer, which is not shown itself [SPEC 7]."""

from foldmark.core.wording import listing
from foldmark.log import Agent
from foldmark.request.standing import state_of


def state_note(agent: Agent, before: int) -> str | None:
    """Return a line naming the keys that a block recorded after event `before` lacks; None if it has all, or there is
    none."""
    with agent.reading() as (moment, at):
        state = state_of(moment, at)
    if state is None or state.id <= before:
        return None
    from foldmark.text.state import missing  # 2 ms, and few answers hold a block

    lacks = missing(state.content)
    return f"(the state block has no {listing(lacks)}; /state shows it)" if lacks else None
