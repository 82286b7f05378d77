"""What agents are told of themselves and each other: who a child is, what it is to do, that mail has come [SPEC 6]."""

from collections.abc import Sequence

from foldmark.core.wording import listing, one_line, quoted


def identity(agent_id: str, parent_id: str) -> str:
    """What stands in the guidelines of every child."""
    return (
        f"You are agent {agent_id[:8]}, a child of agent {parent_id[:8]}. What you find out reaches it by mail only: "
        f"slash send {parent_id[:8]} MESSAGE. Mail for you: slash check-mail."
    )


def birth_message(agent_id: str, parent_id: str, mark: str | None, words: str = "") -> str:
    """The first message of a child that nobody has said anything to yet.

    `words` are what the parent's model said when it forked; a fork leaves them out, and the task may stand there.
    """
    place = "" if mark is None else f" from its mark '{one_line(mark)}'"
    told = (
        f"[Foldmark: You are agent {agent_id[:8]}, a child of agent {parent_id[:8]}, forked{place}. Carry out what "
        f"stands above, as far as it is yours to do; do not fork for it again. Report by slash send {parent_id[:8]} "
        "MESSAGE when it is done."
    )
    if not words.strip():
        return f"{told}]"
    return f"{told} It forked you with these words:]\n{quoted(words)}"


def mail_told(senders: Sequence[str]) -> str:
    """What an idle agent is told when mail has come; telling is not delivering."""
    return f"[Foldmark: Mail has come from {listing(sender[:8] for sender in senders)}. slash check-mail reads it.]"
