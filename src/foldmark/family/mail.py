"""Mail between agents: sent into a table of its own, delivered exactly once [SPEC 6]."""

import re

from msgspec import Struct

from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError
from foldmark.core.inbox import Mail, mail_head
from foldmark.core.ports import Size, Snapshot
from foldmark.log.log import Agent
from foldmark.request.planning import not_while_planning

_FORGED = re.compile(r"(^|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])(?=\s*\[(?:mail from |foldmark:))", re.IGNORECASE)


class Delivery(Struct, frozen=True):
    """Mail that event `event_id` carried to its recipient, as `content` shows it; the context's size `before` and
    `after`."""

    event_id: int
    mail: tuple[Mail, ...]
    content: str
    before: Size
    after: Size

    @property
    def senders(self) -> list[str]:
        """The uuids of the senders, distinct, in the order of their first mail."""
        return list(dict.fromkeys(mail.sender for mail in self.mail))


def send(sender: Agent, recipient: Agent, text: str, actor: str) -> int:
    """Store mail and return its id. Raises CommandError for empty mail, mail to oneself, and mail to or from a dead
    agent."""
    content = sender.log.secrets.hidden(well_formed(text))
    if recipient == sender:
        raise CommandError("an agent does not send mail to itself; `/note TEXT` adds to this context")
    if not content.strip():
        raise CommandError("there is nothing to send: the message is empty")
    with sender.log.store.write() as transaction:
        for agent in (recipient, sender):
            if (end := transaction.end(agent.id)) is not None:
                raise CommandError(f"{end.told}; nothing was sent")
        mail_id = transaction.send(sender.id, recipient.id, content, actor, sender.log.clock())
    sender.log.tell("mail", recipient.id)
    return mail_id


def deliver(agent: Agent) -> Delivery | None:
    """Carry all unread mail into the agent's log with one message; return None, with nothing written, if there is none.

    Marking it read and appending the message are one transaction. It joins the open turn; without one it is a turn of
    its own. Raises CommandError if the agent is dead, ConflictError.
    """
    with agent.reading() as (moment, at):
        _check_alive(moment, agent)
        if not moment.unread_count(agent.id):
            return None
        not_while_planning(moment, at, "the mail would leave the context with it; it waits")
    with agent.batch() as transaction:
        mail = tuple(transaction.unread(agent.id))
        if not mail:
            return None
        # It may have been killed just now; the rule that lets a dead agent's turn be closed would accept this message.
        _check_alive(transaction, agent)
        content, opens = "\n\n".join(_shown(each) for each in mail), agent.open_turn is None
        data = {"mail": [{"id": each.id, "from": each.sender, "sent_at": each.sent_at} for each in mail]}
        before = agent.standing().size
        event_id = agent.append("user", content, data=data, actor="system")
        for each in mail:
            transaction.carried(each.id, event_id)
        if opens:
            agent.end_turn()
        return Delivery(event_id, mail, content, before, agent.standing().size)


def _check_alive(moment: Snapshot, agent: Agent) -> None:
    if (end := moment.end(agent.id)) is not None:
        raise CommandError(f"{end.told}; it gets no mail any more")


def _shown(mail: Mail) -> str:
    # The text of another agent must not pass for further mail from a third one.
    quoted = _FORGED.sub(lambda found: f"{found[1]}> ", mail.content)
    return f"{mail_head(mail.sender, mail.sent_at)}\n{quoted}"
