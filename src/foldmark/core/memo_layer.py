"""The layer of memos: the text that picks them, and their form in the prompt [SPEC 5.1, 7]."""

from collections.abc import Iterable, Sequence

from foldmark.core.events import Event
from foldmark.core.inbox import mail_head
from foldmark.core.keywords import standing_in
from foldmark.core.memos import Memo
from foldmark.core.prompt import Layer
from foldmark.core.wording import listing, quoted

HEADING = "### MEMOS"


def asked(opener: Event | None) -> str:
    """Return the words of a person, or of another agent by mail, in the message that opened a turn; empty for anything
    else."""
    if opener is None or opener.kind != "user":
        return ""
    mail, text = (opener.data or {}).get("mail"), opener.content
    for each in mail if isinstance(mail, list) else ():
        if isinstance(each, dict):
            text = text.replace(mail_head(str(each.get("from")), str(each.get("sent_at"))), "")
    return text if mail or opener.actor == "human" else ""


def entry(memo: Memo) -> str:
    """Return a memo as the model reads it. Its text never begins a line, so that it cannot pass for a heading."""
    return f"Memo {memo.id}, {memo.created_at[:10]}{memo.labels}\n{quoted(memo.content, len(memo.content))}"


def memo_layers(entries: Iterable[tuple[int, str]], words: Sequence[str]) -> list[Layer]:
    """Return the layers of memos, id and entry, that these keywords picked."""
    found: list[Layer] = []
    for memo_id, text in entries:
        by = standing_in(words, _searched(text))
        detail = f"memo {memo_id}, picked by {listing(by, 8)}" if by else f"memo {memo_id}"
        found.append(Layer("memos", "memo", text if found else f"{HEADING}\n{text}", detail=detail, memo=memo_id))
    return found


def entry_of(text: str) -> str:
    """Return the entry in the text of a layer."""
    return text.removeprefix(f"{HEADING}\n")


def _searched(text: str) -> str:
    """Return the tags and the content, which are searched."""
    head, _, content = text.partition("\n")
    return f"{head.partition('[')[2]}\n{content}"
