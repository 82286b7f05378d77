"""Notices of mail: an idle agent is woken once for new mail, a person is told [SPEC 6]."""

from collections import Counter
from typing import Literal

from foldmark.core.assembly.layers import mail_told
from foldmark.log import Agent
from foldmark.request.planning import planning

WAKES = 20
"""Maximum number of times that mail wakes an agent until a person speaks again: agents that thank each other have no
end."""


class MailNotices:
    """The mail that was announced so far, by agent."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}
        self._woken: Counter[str] = Counter()

    def person_said(self) -> None:
        """Reset the count of wakes: a person has asked for something."""
        self._woken.clear()

    def wanted(self, agent: Agent, *, attended: bool) -> Literal["wake", "person"] | None:
        """Return "wake" if an idle agent is to be woken for new mail, "person" if a person is to be told instead,
        because one talks to it or it was woken too often; None if there is no new mail. The mail counts as
        announced."""
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
    """Append a notice of new mail to an agent's log; return False if there is no mail any more."""
    with agent.log.store.read() as moment:
        mail = moment.unread(agent.id)
    if mail:
        senders = list(dict.fromkeys(each.sender for each in mail))
        agent.append("user", mail_told(senders), actor="system")
    return bool(mail)
