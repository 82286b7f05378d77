"""Save memos, and find them by their number; they belong to no conversation [SPEC 7]."""

from collections.abc import Iterable

from foldmark.core import selections
from foldmark.core.errors import CommandError
from foldmark.core.ports import Snapshot
from foldmark.core.records import Memo, checked_content, checked_tags
from foldmark.core.segments import END
from foldmark.core.wording import listing
from foldmark.log.log import Agent


def save_memo(agent: Agent, content: str, tags: Iterable[str], actor: str) -> Memo:
    """Save a memo, with providers' keys removed. Raises CommandError for invalid content or tags."""
    secrets = agent.log.secrets
    text, each = checked_content(secrets.hidden(content)), checked_tags(map(secrets.hidden, tags))
    with agent.log.store.write() as transaction:
        memo_id = transaction.save_memo(text, each, agent.id, actor, agent.log.clock())
        memo = selections.memo(transaction, memo_id)
    assert memo is not None
    return memo


def memo_with_id(moment: Snapshot, memo_id: int) -> Memo:
    """Return the memo with this id. Raises CommandError."""
    memo = selections.memo(moment, memo_id) if 0 < memo_id < END else None
    if memo is None:
        newest = listing(each.id for each in moment.memos(5))
        raise CommandError(f"there is no memo {memo_id}; {f'the newest: {newest}' if newest else 'there is none yet'}")
    return memo
