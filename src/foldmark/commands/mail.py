"""Commands between agents: send, check-mail, kill [S0, SPEC 6]."""

from foldmark.commands.registry import ANYBODY, Command, CommandCall
from foldmark.core.agents import Size
from foldmark.core.errors import CommandError
from foldmark.core.wording import count, listing
from foldmark.log import Agent, Result, family
from foldmark.operations.effects import WaitForAgents
from foldmark.operations.receipts import ContextChange, DeliveredMail


def _send(call: CommandCall) -> Result:
    recipient = _other(call)
    mail_id = family.send(call.agent, recipient, call.arguments["MESSAGE"], call.actor)
    data = {"mail": mail_id, "from": call.agent.id, "to": recipient.id, "actor": call.actor}
    return Result(f"Sent to {recipient.id[:8]}.", None, data)


def _check_mail(call: CommandCall) -> Result:
    delivery = family.deliver(call.agent)
    if delivery is None:
        return Result("No mail.", None, {"mail": []})
    number = count(len(delivery.mail), "message")
    text = f"{number} from {listing(sender[:8] for sender in delivery.senders)}."
    if call.actor == "human":
        # A person reads it here; a model reads the message in its context, and would have it twice.
        text = f"{text}\n\n{delivery.content}"
    change = ContextChange(delivery.before, delivery.after, Size(0, 0), Size(0, 0))
    found = [{"id": each.id, "from": each.sender, "sent_at": each.sent_at} for each in delivery.mail]
    return Result(text, delivery.event_id, {"mail": found}, effect=DeliveredMail(change, call.actor))


def _wait(call: CommandCall) -> Result:
    agents = [place.agent.id for place in family.tree(family.root(call.agent)) if place.agent != call.agent]
    return Result("The other agents are idle.", effect=WaitForAgents(agents))


def _kill(call: CommandCall) -> Result:
    target = _other(call)
    killed = family.kill(call.agent, target, call.actor)
    more = len(killed) - 1
    text = f"Killed {target.id[:8]}" + (f" and {count(more, 'descendant')}" if more else "") + "; its log stays."
    return Result(text, None, {"killed": [agent.id for agent in killed], "by": call.agent.id, "actor": call.actor})


def _other(call: CommandCall) -> Agent:
    """Return the agent whose uuid begins with UUID. Raises CommandError that lists those in this conversation."""
    try:
        return call.agent.log.find(call.arguments["UUID"])
    except CommandError as error:
        there_are = listing(
            place.agent.id[:8] for place in family.tree(family.root(call.agent)) if place.agent != call.agent
        )
        raise CommandError(f"{error}; other agents here: {there_are or 'none'}") from None


MAIL = (
    Command("send", "UUID MESSAGE...", "Send a message to another agent.", _send, ANYBODY),
    Command("check-mail", "", "Read the mail that has come for this agent.", _check_mail, ANYBODY),
    Command("wait", "", "Wait until the other agents of this conversation are idle.", _wait),
    Command("kill", "UUID", "End a child and its descendants; their logs stay.", _kill, ANYBODY, at_once=True),
)
