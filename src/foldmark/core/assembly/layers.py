"""Texts that Foldmark itself writes for a model: guidelines, the identity of a child, reports about children and mail
[SPEC 5.1, 6]."""

from collections.abc import Collection, Mapping, Sequence

from foldmark.core.request import Family
from foldmark.core.wording import listing, one_line, quoted

_HISTORY = "### HISTORY\nParts of this conversation may be missing or shortened."
_QUERY = (
    ' A tool result that ends in "[TRUNCATED. ...]" is whole in the database; the query named there shows it. Look for '
    "older messages with query_db: ORDER BY id DESC, and only rows with status != 'dropped' and tool != 'query_db'."
)
_MEMOS = (
    "\nBefore you assume something, look into the memos. Save decisions and their reasons as memos, not what the code "
    "itself shows."
)
_END = (
    "\nEnd every answer with a block of this form, and keep in it what must survive a change of model or a shortened "
    "history:\n### STATE\nGoal: what is being done\nContext: files and parts being worked on\n"
    "Resolved: what is finished\nTechnical Anchors: names, addresses, numbers that must not be lost"
)
GUIDELINES = f"{_HISTORY}{_QUERY}{_MEMOS}{_END}"
"""Guidelines for reading the history and for keeping information [S2]; sent if the model has tools."""


def guidelines(tools: Collection[str], commands: str = "") -> str | None:
    """Return the guidelines for a model with these tools, None if it has none. They mention only tools that the model
    has. `commands` is the description of `slash`."""
    if not tools:
        return None
    parts = [_HISTORY, _QUERY if "query_db" in tools else "", _MEMOS if "save_memo" in tools else "", _END]
    return "\n".join(("".join(parts), *filter(None, [commands if "slash" in tools else ""])))


WAITS, WAITS_FOR_MESSAGE = "waits to be run", "waits for its first message"
AT_WORK, IDLE = "is at work", "is idle"
"""States of a living child."""

_COMMANDS = {
    "mark": "mark NAME sets a checkpoint",
    "clear": "clear MARK goes back to it and drops what came after (without MARK: everything)",
    "fork": "fork MARK starts a child beside you that knows only what came after MARK (without MARK: everything; waits "
    "for mail)",
    "send": "send UUID MESSAGE writes to an agent",
    "check-mail": "check-mail reads what has come for you",
    "kill": "kill UUID ends a child",
}
_DELEGATE = " To delegate: mark NAME, say the task, fork NAME."
MAIL_NOTICE = "[Foldmark: Mail has come from "
"""Prefix of the notice that wakes an idle agent for new mail."""


def describe_commands(allowed: str) -> str:
    """Return the description of the `slash` commands, empty if there are none; `allowed` has the form of the setting
    `model_commands`."""
    names = list(_COMMANDS) if allowed == "all" else [name for name in _COMMANDS if name in allowed.split(", ")]
    if not names:
        return ""
    text = f"The tool slash takes a command and its args as one text: {'; '.join(_COMMANDS[name] for name in names)}."
    return text + (_DELEGATE if {"mark", "fork"} <= set(names) else "")


def identity(agent_id: str, parent_id: str) -> str:
    """Return the text that tells a child its identity."""
    return (
        f"[Foldmark: You are agent {agent_id[:8]}, a child of agent {parent_id[:8]}. What you find out reaches it by "
        f"mail only: slash send {parent_id[:8]} MESSAGE. Mail for you: slash check-mail.]"
    )


def birth_message(agent_id: str, parent_id: str, mark: str | None, words: str = "", turn: int | None = None) -> str:
    """Return the first message of a child that has no message yet, and that was forked from a mark, from a turn, or
    with the whole context.

    `words` is the text of the parent's answer that forked the child. The child's context does not contain that text,
    which may state the task.
    """
    place = "" if mark is None else f" from its mark '{one_line(mark)}'"
    place = place if turn is None else f" from its turn {turn}"
    text = (
        f"[Foldmark: You are agent {agent_id[:8]}, a child of agent {parent_id[:8]}, forked{place}. Carry out what "
        f"stands above, as far as it is yours to do; do not fork for it again. Report by slash send {parent_id[:8]} "
        "MESSAGE when it is done."
    )
    if not words.strip():
        return f"{text}]"
    return f"{text} It forked you with these words:]\n{quoted(words)}"


def mail_notice(senders: Sequence[str]) -> str:
    """Return the notice that tells an idle agent about new mail. It does not deliver the mail."""
    return f"{MAIL_NOTICE}{listing(sender[:8] for sender in senders)}. slash check-mail reads it.]"


def family_line(family: Family, goals: Mapping[int, str], *, reads_mail: bool) -> str:
    """Return one line about the children and the mail of a parent; empty without either.

    `goals` are the beginnings of the children's tasks, by event.
    """
    mail = family.mail if reads_mail else ()
    if not (family.children or family.killed):
        return mail_notice(mail) if mail else ""
    parts = []
    for child in family.children:
        place = "this context" if child.mark is None else f"what stood after mark '{one_line(child.mark)}'"
        place = place if child.turn is None else f"the messages from turn {child.turn} on"
        goal = goals.get(child.goal, "")
        parts.append(f"{child.agent[:8]}, given {f'“{goal}”' if goal else place}, {child.state}")
    if family.more:
        parts.append(f"{family.more} older ones")
    if family.killed:
        parts.append(f"{listing(agent[:8] for agent in family.killed)} killed")
    text = f"Your children: {'; '.join(parts)}."
    if family.children:
        text += " What a child was given is its task, not yours."
    if mail:
        text += f" Mail has come from {listing(sender[:8] for sender in mail)}. slash check-mail reads it."
    return f"[Foldmark: {text}]"
