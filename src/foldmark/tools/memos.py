"""`save_memo` and `retrieve_memos`: a model's knowledge across conversations [S2, SPEC 4.1, 7]."""

from collections.abc import Sequence

from msgspec import Struct

from foldmark.core.ports import Snapshot
from foldmark.core.records import LONGEST_MEMO, MOST_TAGS, Memo, checked_tags
from foldmark.core.request import ToolSpec
from foldmark.core.segments import END
from foldmark.core.wording import count, listing
from foldmark.log import Agent
from foldmark.log.recording import save_memo
from foldmark.operations.effects import Asking
from foldmark.text.keywords import entry
from foldmark.tools.tool import Tool

RETRIEVED, CHARACTERS = 20, 12_000
"""Maximum number of memos of one answer, and characters after which no further one is shown."""

TAGS = 40
"""Maximum number of tags that are named when nothing was found."""


class SaveMemoArguments(Struct, frozen=True, forbid_unknown_fields=True):
    content: str
    tags: list[str] | str = ""


class RetrieveMemoArguments(Struct, frozen=True, forbid_unknown_fields=True):
    tags: list[str] | str = ""


def _save(agent: Agent, arguments: SaveMemoArguments, asking: Asking) -> str:
    memo = save_memo(agent, arguments.content, _several(arguments.tags), "model")
    return f"Memo {memo.id} saved{memo.labels}."


def _retrieve(agent: Agent, arguments: RetrieveMemoArguments, asking: Asking) -> str:
    tags = checked_tags(_several(arguments.tags))
    with agent.log.store.read() as moment:
        if not tags:
            return _answer(moment, "The newest memos", moment.memos(RETRIEVED))
        if found := moment.memos_tagged(tags, RETRIEVED):
            return _answer(moment, f"Memos with a tag of {listing(tags)}", found)
        (words,) = moment.memos_with([(tags, END)], RETRIEVED)
        return _answer(moment, f"No memo is tagged {listing(tags)}. Memos with these words", words)


def _answer(moment: Snapshot, head: str, found: Sequence[Memo]) -> str:
    """Return the memos as far as there is space, or else the existing tags."""
    shown: list[str] = []
    for text in map(entry, found):
        if shown and sum(map(len, shown)) + len(text) > CHARACTERS:
            break
        shown.append(text)
    if not shown:
        tags = [f"{tag} ({number})" for tag, number in moment.memo_tags(TAGS + 1)]
        return f"{head}: none. {f'Tags there are: {listing(tags, TAGS)}' if tags else 'No memo has a tag yet'}."
    more = [f"{count(len(found) - len(shown), 'memo')} more; ask for fewer tags."] if len(found) > len(shown) else []
    return "\n\n".join((f"{head}, {len(shown)} of {len(found)}:", *shown, *more))


def _several(tags: list[str] | str) -> list[str]:
    """Return tags as a list; models give a list, or one text with commas."""
    return tags.split(",") if isinstance(tags, str) else tags


def _tags(description: str) -> dict[str, object]:
    return {"type": "array", "items": {"type": "string"}, "description": description}


SAVE_MEMO = Tool(
    ToolSpec(
        "save_memo",
        "Save knowledge for all conversations, this one and later ones: a decision and why, a pitfall, a design that "
        "is not obvious. Not what the code itself shows, and nothing secret.",
        {
            "type": "object",
            "properties": {
                "content": {
                    "type": "string",
                    "description": f"What is to be known, understood by itself; at most {LONGEST_MEMO} characters",
                },
                "tags": _tags(f"What it will be looked for by, e.g. arch-decision, gotcha; at most {MOST_TAGS}"),
            },
            "required": ["content", "tags"],
        },
    ),
    SaveMemoArguments,
    _save,
)

RETRIEVE_MEMOS = Tool(
    ToolSpec(
        "retrieve_memos",
        "Read the memos with any of these tags, those with most of them first. Without tags the newest memos.",
        {
            "type": "object",
            "properties": {"tags": _tags("e.g. arch-decision, gotcha")},
            "required": ["tags"],
        },
    ),
    RetrieveMemoArguments,
    _retrieve,
    together=True,
)
