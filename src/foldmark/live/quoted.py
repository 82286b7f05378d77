"""Messages that a client quotes as text in a question of its own, such as that for the title of an earlier session
[SPEC 5.7]: those that have left the context are not sent."""

from functools import cached_property

from foldmark.core.segments import Segment, subtract
from foldmark.live.clients.dialect import ClientDialect
from foldmark.live.unnamed import LOADED, conversations
from foldmark.log import Log
from foldmark.log.live_session import client_session

_QUOTED = 480
"""Number of characters of a quoted message that are compared: Gemini CLI quotes 500."""


class LeftMessages:
    """The messages that have left the newest conversations of a folder and wire, by their texts: a client may quote any
    of them in a question, such as that for the title of an earlier session. They are read when the first quoted message
    is looked up."""

    def __init__(self, log: Log, folder: str, dialect: ClientDialect) -> None:
        self._log, self._folder, self._provider = log, folder, dialect.provider

    def __call__(self, text: str) -> bool:
        """Return True if a quoted message has left, and no message with this text is visible."""
        return _begin(text) in self._texts

    @cached_property
    def _texts(self) -> frozenset[str]:
        left, visible = set[str](), set[str]()
        named = [each for each in conversations(self._log, self._folder) if client_session(each, self._provider)]
        for agent in named[:LOADED]:
            with agent.reading() as (moment, at):
                own = (Segment(agent.id, 1, at.newest),)
                visible.update(_begin(each.content) for each in moment.select(at.visible))
                left.update(_begin(each.content) for each in moment.select(subtract(own, at.visible)))
        return frozenset(left - visible - {""})


def _begin(text: str) -> str:
    return text.strip()[:_QUOTED]
