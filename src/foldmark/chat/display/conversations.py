"""The conversations to choose from: the newest first, each with its last prompt."""

from typing import NamedTuple

from foldmark.commands.agents import conversations
from foldmark.commands.registry import quoted
from foldmark.core.segments import END, Segment
from foldmark.core.wording import count, title
from foldmark.log import Agent, Log

MOST_READ = 200
"""Maximum number of conversations whose model and last prompt are read. Older ones are found by their names."""


class ConversationRow(NamedTuple):
    """A conversation: its root agent and its name; `about` says when it was used last, its messages and model; `title`
    is that of its last prompt, which may be empty. `current` is True for that of the chat."""

    agent: str
    name: str
    about: str
    title: str
    current: bool

    @property
    def command(self) -> str:
        """The line that goes to the conversation."""
        return f"/resume {self.agent}"

    def fits(self, words: str) -> bool:
        """Return True if the row has each of these words, or its beginning or middle."""
        text = f"{self.name} {self.about} {self.title}".casefold()
        return all(word in text for word in words.casefold().split())


def conversation_rows(log: Log, agent: Agent | None) -> list[ConversationRow]:
    """Return the conversations that are not archived, the last used first. `agent` is an agent of the current one, if
    there is one."""
    with log.store.read() as moment:
        found = [each for each in conversations(log, agent) if not each["archived"]]
        read = {each["agent"]: log.agent(each["agent"]).standing().config.model for each in found[:MOST_READ]}
        newest = {
            each: next(moment.select((Segment(each, 1, END),), newest_first=True, expected=1), None) for each in read
        }
        turns = {each: message.turn_id for each, message in newest.items() if message and message.turn_id}
        titles = {event.id: title(event.content) for event in moment.events(sorted(turns.values()))}
    return [
        ConversationRow(
            each["agent"],
            each["name"],
            " · ".join(
                [
                    log.given.minute(each["last_used"]),
                    count(each["messages"], "message"),
                    *([read[each["agent"]]] if each["agent"] in read else []),
                ]
            ),
            titles.get(turns.get(each["agent"], 0), ""),
            each["current"],
        )
        for each in found
    ]


def beginning(log: Log, name: str) -> str:
    """Return the line that starts a conversation with this name. Raises CommandError if it is taken or invalid."""
    log.check_new(name)
    return "/session new " + (quoted(name) if name.startswith('"') else name)
