"""The open offer of a conversation, of whichever kind, and a person's answer to it [SPEC 4.2, 5.7]."""

from typing import TYPE_CHECKING

from foldmark.core.errors import CommandError
from foldmark.core.ports import Snapshot
from foldmark.core.wording import count
from foldmark.editing import offers, suggesting
from foldmark.operations.effects import Result
from foldmark.request.planning import offer
from foldmark.request.standing import Standing

if TYPE_CHECKING:
    from foldmark.log.log import Agent


def question(moment: Snapshot, at: Standing) -> str:
    """Return the open offer in a few words, for a prompt; empty without an offer."""
    if (found := suggesting.open_suggestion(moment, at)) is not None:
        return f"take out {count(len(found.results), 'result')}?"
    return offers.question(moment, at)


def open_id(moment: Snapshot, at: Standing) -> int | None:
    """Return the id of the open offer; None if there is none."""
    if (found := suggesting.open_suggestion(moment, at)) is not None:
        return found.id
    preview = offer(moment, at)
    return None if preview is None else preview.event_id


def answered(agent: "Agent", text: str, *, model: bool = False) -> Result | None:
    """Carry out a person's answer to the open offer (`foldmark.text.consent.ANSWERS`); `model` as for
    `offers.answered`. For an ordinary message, or without an open offer, record nothing and return None. Raises
    CommandError for lines or messages that were not offered."""
    with agent.reading() as (moment, at):
        found = suggesting.open_suggestion(moment, at)
    return offers.answered(agent, text, model=model) if found is None else suggesting.answered(agent, found, text)


def agree(agent: "Agent", offer_id: int, choice: str | None = None) -> Result:
    """Carry out the offer with this id, or only the numbers that `choice` names ("all but 2"). Raises CommandError if
    the offer is not open or the choice is invalid."""
    with agent.reading() as (moment, at):
        found, newest = suggesting.open_suggestion(moment, at), at.newest_of.get("command")
    if found is None or found.id != offer_id:
        if suggesting.was_suggested(newest, offer_id):
            raise CommandError(
                f"offer {offer_id} is not open: it ended with the person's next message, or when the context changed. "
                "`/suggest` makes a new one"
            )
        return offers.agree(agent, offer_id, choice)
    return suggesting.agree(agent, found, choice)
