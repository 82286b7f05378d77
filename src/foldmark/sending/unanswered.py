"""Find out whether the newest turn still needs an answer: its answer failed, or was interrupted [SPEC 4, `/retry`]."""

from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.log.log import Agent
from foldmark.request.standing import Standing


def waits(agent: Agent) -> bool:
    """Return True if there is something to answer without a new text: an open turn, or one whose answer failed."""
    with agent.reading() as (moment, at):
        return at.record.open_turn is not None or is_unanswered(moment, at)


def is_unanswered(moment: Snapshot, at: Standing) -> bool:
    """Return True if the context ends with something that a model can answer again."""
    newest = next(moment.messages(at.visible, newest_first=True), None)
    return newest is not None and _wants_answer(newest)


def unanswered_text(moment: Snapshot, at: Standing) -> str | None:
    """Return the person's text that still needs an answer; None if there is none.

    A repeated answer is a turn of its own, without a text: then the turn before it counts as well.
    """
    turn: int | None = -1
    for message in moment.messages(at.visible, newest_first=True):
        if message.turn_id != turn:  # the last message of its turn
            if not _wants_answer(message):
                return None
            turn = message.turn_id
        if message.kind == "user" and message.actor == "human":
            return message.content
    return None


def _wants_answer(last: Event) -> bool:
    """Return True unless a turn's last message is a whole answer, or asked for none."""
    return last.interrupted if last.kind == "assistant" else last.kind not in ("summary", "system")
