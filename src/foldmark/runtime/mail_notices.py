"""Who is told of mail, and how often: an idle agent is woken once for what has come, a person is told [SPEC 6]."""

from collections import Counter
from typing import Literal

from foldmark.core.birth import mail_told
from foldmark.log import Agent
from foldmark.request.planning import planning

WAKES = 20
"""How often mail wakes an agent until a person says something again: agents that thank each other have no end."""


class MailNotices:
    """What was told of mail so far, agent by agent."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}
        self._woken: Counter[str] = Counter()

    def person_said(self) -> None:
        """Somebody asks for something: what it leads to may begin anew."""
        self._woken.clear()

    def wanted(self, agent: Agent, *, attended: bool) -> Literal["wake", "person"] | None:
        """Return True if an idle agent is to be woken for mail that it was not told of yet, or a person is to be told
        instead: one talks to it, or it was woken too often. What this returns counts as told."""
        with agent.reading() as (moment, at):
            mail = moment.unread(agent.id)
            if not mail or mail[-1].id <= self._told.get(agent.id, 0) or moment.end(agent.id) is not None:
                return None
            if planning(moment, at) is not None:  # mail waits until it is over; a later look finds it
                return None
        self._told[agent.id] = mail[-1].id
        self._woken[agent.id] += 1
        return "person" if attended or self._woken[agent.id] > WAKES else "wake"


def tell_of_mail(agent: Agent) -> bool:
    """Tell an agent that mail has come, with a message; whether there is some still."""
    with agent.log.store.read() as moment:
        mail = moment.unread(agent.id)
    if mail:
        senders = list(dict.fromkeys(each.sender for each in mail))
        agent.append("user", mail_told(senders), actor="system")
    return bool(mail)
