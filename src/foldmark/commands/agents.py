"""Commands about conversations and agents: `/resume`, `/rename`, `/session`, `/agents`, `/switch`, mail between
agents, `/import` and `/export` [SPEC 4, 6, 8; S0].

A chat whose conversation is deleted goes on in the one that was used last, or else in a new one.
"""

import os
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from foldmark.commands.registry import ANYBODY, CommandCall, command
from foldmark.core import selections
from foldmark.core.agents import DEFAULT, Size
from foldmark.core.errors import CommandError, StoreError
from foldmark.core.ports import Overview
from foldmark.core.wording import FINAL, count, listing, percent
from foldmark.cost.messages import next_messages
from foldmark.log import Agent, Log, Result, family
from foldmark.log.family import TreeNode, running
from foldmark.log.live_session import client_session
from foldmark.operations.effects import ChooseConversation, RunAgent, SwitchAgent, WaitForAgents
from foldmark.operations.receipts import ContextChange, DeliveredMail
from foldmark.operations.redaction import TRACES_MAY_STAY
from foldmark.request.standing import end_of
from foldmark.sending.status import waits


@command("session list [--all]", at_once=True)
def _list(call: CommandCall) -> Result:
    """List the conversations; with --all, archived ones too."""
    return conversation_list(call.agent.log, call.agent, with_archived=call.flag("--all"))


def conversation_list(log: Log, current: Agent | None, *, with_archived: bool) -> Result:
    """Return the list of the conversations, the last used first. The one of the agent `current`, if any, is marked, and
    listed even if it is archived."""
    found = conversations(log, current)
    shown = [each for each in found if with_archived or not each["archived"] or each["current"]]
    width = max((len(each["name"]) for each in shown), default=0)
    marks = ("", "") if current is None else ("  ", "* ")
    lines = [
        f"{marks[each['current']]}{each['name']:<{width}}  {each['agent'][:8]}  "
        f"{count(each['messages'], 'message')}, context {each['context']['messages']:,}"
        + (f" · {count(each['agents'], 'agent')}" if each["agents"] > 1 else "")
        + f" · last used {log.given.minute(each['last_used'])}"
        + (" · archived" if each["archived"] else "")
        for each in shown
    ]
    if hidden := len(found) - len(shown):
        lines.append(f"{count(hidden, 'conversation')} archived; --all lists {'it' if hidden == 1 else 'them'} as well")
    text = "\n".join(lines) or "No conversation yet; `foldmark chat` starts one."
    return Result(text, None, {"conversations": shown})


def conversations(log: Log, current: Agent | None) -> list[dict[str, Any]]:
    """Return each conversation as JSON, with totals over its agents, the last used first. That of the agent `current`,
    if any, is marked."""
    roots: dict[str, str] = {}
    families: dict[str, list[Overview]] = {}
    with log.store.read() as moment:
        for each in moment.overview():  # parents come before their children
            record = each.record
            if not record.deleted:
                roots[record.id] = roots[record.parent] if record.parent else record.id
                families.setdefault(roots[record.id], []).append(each)
        here = None if current is None else roots[current.id]
        # The stored size of this conversation does not include work in progress.
        sizes = {
            root: log.agent(root).standing().size if root == here or conversation.size is None else conversation.size
            for root, (conversation, *_) in families.items()
        }
    found = []
    for root, (conversation, *_) in families.items():
        members = families[root]
        found.append(
            {
                "name": conversation.record.name or "",
                "agent": root,
                "agents": len(members),
                "messages": sum(each.record.messages for each in members),
                "context": sizes[root]._asdict(),
                "last_used": max(members, key=lambda each: each.record.head).last_used,
                "archived": conversation.archived is not None,
                "current": root == here,
            }
        )
    return sorted(found, key=lambda each: str(each["last_used"]), reverse=True)


@command("session new NAME...")
def _new(call: CommandCall) -> Result:
    """Start a conversation and go to it."""
    name, log = call.arguments["NAME"], call.agent.log
    try:
        with log.creating(name) as agent:
            pass
    except StoreError:
        log.check_new(name)  # another process may just have created it
        raise
    return _move(agent, _created(agent))


def _created(agent: Agent) -> str:
    return f"New conversation '{agent.name}' ({agent.id[:8]})."


@command("resume [NAME...]")
def _resume(call: CommandCall) -> Result:
    """Go to a conversation, also an archived one; without NAME, choose it."""
    if call.get("NAME") is None:
        found = conversation_list(call.agent.log, call.agent, with_archived=False)
        return replace(found, text=f"{found.text}\n/resume NAME goes to one.", effect=ChooseConversation())
    agent = _conversation(call)
    back = family.unarchive(agent, call.actor)
    return _move(agent, _arrival(call, agent) + (" It is back from the archive." if back else ""))


@command("rename NEW...")
def _rename(call: CommandCall) -> Result:
    """Give this conversation another name."""
    agent, name = family.root(call.agent), call.arguments["NEW"]
    old = agent.name
    family.rename(agent, name, call.actor)
    return Result(f"Conversation '{old}' is now named '{name}'.", None, {"agent": agent.id, "name": name, "was": old})


@command("session archive NAME...")
def _archive(call: CommandCall) -> Result:
    """Hide a conversation from the list; nothing in it changes."""
    agent = _conversation(call)
    family.archive(agent, call.actor)
    text = f"Conversation '{agent.name}' archived; --all lists it, `unarchive` brings it back."
    if call.asking.in_chat and agent == family.root(call.agent):
        text += " You are still in it."
    return Result(text, None, {"agent": agent.id, "name": agent.name, "archived": True})


@command("session unarchive NAME...")
def _unarchive(call: CommandCall) -> Result:
    """Show an archived conversation in the list again."""
    agent = _conversation(call)
    if not family.unarchive(agent, call.actor):
        raise CommandError(f"{family.label(agent)} is not archived; `list --all` shows which are")
    text = f"Conversation '{agent.name}' is back from the archive."
    return Result(text, None, {"agent": agent.id, "name": agent.name, "archived": False})


@command("session delete NAME... [--yes]")
def _delete(call: CommandCall) -> Result:
    """Erase a conversation with all its forks, for good."""
    agent = _conversation(call)
    is_left = call.asking.in_chat and agent == family.root(call.agent)
    with agent.log.store.read() as moment:
        name, agents = agent.name, [place.agent for place in family.tree(agent)]
        messages = sum(record.messages for each in agents if (record := moment.agent(each.id)))
    forks = f" and its {count(len(agents) - 1, 'fork')}" if len(agents) > 1 else ""
    call.confirm(
        f"Erase conversation '{name}' ({agent.id[:8]}){forks} for good ({count(messages, 'message')})? {FINAL}"
    )
    gone = family.delete(agent, call.actor)
    traces = agent.log.store.forget_erased()
    text = f"Conversation '{name}'{forks} erased: {count(messages, 'message')}. Memos, and mail sent from it, stay."
    if not traces:
        text += f" {TRACES_MAY_STAY}"
    data = {"deleted": [each.id for each in gone], "name": name, "messages": messages, "traces": not traces}
    if not is_left:
        return Result(text, None, data)
    next_agent, arrival = _next(call)
    return Result(f"{text}\n{arrival}", None, data, effect=SwitchAgent(next_agent.id, next_agent.name))


def _next(call: CommandCall) -> tuple[Agent, str]:
    """Return the conversation in which a chat goes on after its own was deleted, and a text about the arrival there: of
    those that are not archived the one that was used last, or else `default`, which is created if needed."""
    log = call.agent.log
    used = [each["agent"] for each in conversations(log, None) if not each["archived"]]
    is_new = not used and not log.exists(DEFAULT)
    agent = log.agent(used[0] if used else DEFAULT)
    return agent, _created(agent) if is_new else _arrival(call, agent)


@command("agents", at_once=True)
def _agents(call: CommandCall) -> Result:
    """Show the agents of this conversation and what each is doing."""
    with call.agent.log.store.read():
        found = [entry(place, call.agent) for place in family.tree(family.root(call.agent))]
    lines = [
        f"{'*' if each.current else ' '} {'  ' * each.depth}{each.agent[:8]}"
        + (f" {each.name}" if each.name else "")
        + f"  {each.state} · {count(each.messages, 'message')}"
        + f" · ~{count(each.tokens, 'recorded token')} ({each.percent}%)"
        + (f" · {each.unread:,} unread" if each.unread else "")
        for each in found
    ]
    return Result("\n".join(lines), None, {"agents": list(map(to_builtins, found))})


class AgentEntry(Struct, frozen=True):
    """An agent of a conversation: its state; its context in messages, tokens and percent of the model's window; its
    unread mail; and its place in the tree. `current` is True for the agent that asked."""

    agent: str
    name: str | None
    parent: str | None
    state: str
    messages: int
    tokens: int
    percent: int
    unread: int
    depth: int
    current: bool


def entry(place: TreeNode, current: Agent) -> AgentEntry:
    """Return the state of one agent of a tree."""
    agent = place.agent
    with agent.reading() as (moment, at):
        parent, lease, unread = agent.parent, running(agent), len(selections.unread(moment, agent.id))
        ended = bool(at.record.ended)
        waiting = family.waits_for(moment, at.record)
    state = waiting or ("idle" if at.record.open_turn is None else "turn open")
    state = "dead" if ended else state if lease is None else lease.state
    share = percent(at.size.tokens, agent.log.model_named(at.config.model).window)
    above = parent.id if parent else None
    return AgentEntry(
        agent.id, agent.name, above, state, *at.size, share, unread, place.depth, current=agent == current
    )


@command("switch UUID")
def _switch(call: CommandCall) -> Result:
    """Go to another agent."""
    agent = call.agent.log.find(call.arguments["UUID"])
    return _move(agent, _arrival(call, agent))


def _arrival(call: CommandCall, agent: Agent) -> str:
    """Describe the agent that the chat has switched to."""
    where = family.label(agent) + (f" ({agent.id[:8]})" if agent.name else "")
    if agent == call.agent:
        return f"You are in {where} already."
    with agent.reading() as (moment, at):
        unread, end = len(selections.unread(moment, agent.id)), end_of(moment, agent.id)
        text = f"Switched to {where}: {next_messages(agent, moment, at).counts()}."
    if unread:
        text += f" {count(unread, 'unread message')}; /check-mail shows {'it' if unread == 1 else 'them'}."
    if end:
        text += f" It is {end.how_at(agent.log.given.minute(end.at))}."
    return text


def _move(agent: Agent, text: str) -> Result:
    return Result(text, effect=SwitchAgent(agent.id, agent.name))


def _conversation(call: CommandCall) -> Agent:
    """Return the conversation named NAME, or whose uuid begins with it. Raises CommandError."""
    agent = call.agent.log.find(call.arguments["NAME"])
    if agent.parent is not None:
        raise CommandError(
            f"agent {agent.id[:8]} is a fork in {family.label(family.root(agent))}, not a conversation; "
            f"/switch {agent.id[:8]} goes to it"
        )
    return agent


@command("send UUID MESSAGE...", ANYBODY)
def _send(call: CommandCall) -> Result:
    """Send a message to another agent."""
    recipient = _other(call)
    mail_id = family.send(call.agent, recipient, call.arguments["MESSAGE"], call.actor)
    data = {"mail": mail_id, "from": call.agent.id, "to": recipient.id, "actor": call.actor}
    return Result(f"Sent to {recipient.id[:8]}.", None, data)


@command("check-mail", ANYBODY)
def _check_mail(call: CommandCall) -> Result:
    """Read this agent's new mail."""
    delivery = family.deliver(call.agent)
    if delivery is None:
        return Result("No mail.", None, {"mail": []})
    number = count(len(delivery.mail), "message")
    text = f"{number} from {listing(sender[:8] for sender in delivery.senders)}."
    if call.actor == "human":
        # For a person only: a model reads the mail in its context, and would get it twice.
        text = f"{text}\n\n{delivery.content}"
    change = ContextChange(delivery.before, delivery.after, Size(0, 0), Size(0, 0))
    found = [{"id": each.id, "from": each.sender, "sent_at": each.sent_at} for each in delivery.mail]
    return Result(text, delivery.event_id, {"mail": found}, effect=DeliveredMail(change, call.actor))


@command("run UUID", at_once=True)
def _run(call: CommandCall) -> Result:
    """Start a child that waits, or let an agent go on with a turn that was cut off."""
    target = _other(call)
    if target == call.agent:
        raise CommandError("this is the agent itself; /retry asks its model")
    if client_session(target) is not None:
        raise CommandError(f"{family.label(target)} is run by its own coding agent")
    with target.reading() as (moment, at):
        end, has_begun = end_of(moment, target.id), family.waits_for(moment, at.record) is None
    if end is not None:
        raise CommandError(f"{end.sentence}; it cannot be run")
    if (lease := family.running(target)) is not None:
        raise CommandError(f"{family.label(target)} is at work already: {lease.state}")
    if has_begun and not waits(target):
        raise CommandError(
            f"{family.label(target)} has nothing to answer; /send {target.id[:8]} MESSAGE gives it a task"
        )
    if not call.agent.log.listeners:  # no supervisor runs in this process
        return Result("", effect=RunAgent(target.id))
    call.agent.log.tell("run", target.id)
    return Result(f"{target.id[:8]} runs; /agents shows it.", None, {"agent": target.id})


@command("wait")
def _wait(call: CommandCall) -> Result:
    """Wait until the other agents of this conversation are idle."""
    agents = [place.agent.id for place in family.tree(family.root(call.agent)) if place.agent != call.agent]
    return Result("The other agents are idle.", effect=WaitForAgents(agents))


@command("kill UUID", ANYBODY, at_once=True)
def _kill(call: CommandCall) -> Result:
    """End a child and its descendants; their logs stay."""
    target = _other(call)
    killed = family.kill(call.agent, target, call.actor)
    more = len(killed) - 1
    text = f"Killed {target.id[:8]}" + (f" and {count(more, 'descendant')}" if more else "") + "; its log stays."
    return Result(text, None, {"killed": [agent.id for agent in killed], "by": call.agent.id, "actor": call.actor})


def _other(call: CommandCall) -> Agent:
    """Return the agent whose uuid begins with UUID. Raises CommandError, which lists the agents of this
    conversation."""
    try:
        return call.agent.log.find(call.arguments["UUID"])
    except CommandError as error:
        there_are = listing(
            place.agent.id[:8] for place in family.tree(family.root(call.agent)) if place.agent != call.agent
        )
        raise CommandError(f"{error}; other agents here: {there_are or 'none'}") from None


@command("import [SESSION...]")
def _import(call: CommandCall) -> Result:
    """Import a coding agent's session; without SESSION, new messages of this one's."""
    from foldmark.documents import chatting
    from foldmark.sessions.conversion.chatting import bring_in

    _check_sessions(call)
    agent, named, progress = call.agent, call.get("SESSION"), call.asking.progress
    if named is not None and (file := chatting.document_named(named)) is not None:
        return chatting.bring_in(agent, file, progress)
    return bring_in(agent, named, progress, os.environ)


@command(
    "export [FOLDER...] [--context]",
    options=(
        (
            "--to TARGET",
            "Write a document instead: markdown or json (a file named after the conversation), or FILE.md, FILE.json",
        ),
    ),
)
def _export(call: CommandCall) -> Result:
    """Write a Claude Code session for FOLDER; --to markdown or json: a document."""
    from foldmark.documents import chatting
    from foldmark.sessions.conversion.chatting import write_out

    folder, to, only_context = call.get("FOLDER"), call.get("--to"), call.flag("--context")
    if to is None:
        if only_context:
            raise CommandError("--context needs --to markdown, --to json or --to FILE; a session has only the context")
        _check_sessions(call)
        return write_out(call.agent, folder, os.environ)
    if folder is not None:
        raise CommandError(
            f"unexpected argument '{folder[:40]}': --to takes a format or a file, as in --to notes.md; quote a name "
            "with spaces"
        )
    _check_sessions(call)
    return chatting.write_out(call.agent, to, call.asking.progress, os.environ, only_context=only_context)


def _check_sessions(call: CommandCall) -> None:
    """Raise CommandError if this program keeps the log away from the sessions and files of this machine."""
    if not call.agent.log.given.knows_sessions:
        raise CommandError("this program keeps the log away from the sessions on this machine; use the command line")


AGENTS = (_resume, _rename, _list, _new, _archive, _unarchive, _delete, _agents, _switch)
MAIL = (_send, _check_mail, _run, _wait, _kill)
CONVERSION = (_import, _export)
