"""Save memos, and pick those that go into a request [SPEC 7]."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from foldmark.core.events import Event
from foldmark.core.memos import Memo
from foldmark.core.ports import Snapshot
from foldmark.core.prompt import Layer
from foldmark.core.request import Part
from foldmark.core.window import Unit


class Picked(NamedTuple):
    """The memos picked by the message that opened a turn: its keywords, and the memos that they find."""

    words: Sequence[str] = ()
    memos: Sequence[Memo] = ()

    def layers(self, without: Collection[int | None] = ()) -> list[Layer]:
        """Return the layers of the memos, except those with an id in `without`."""
        left = [memo for memo in self.memos if memo.id not in without]
        if not left:
            return []
        from foldmark.core.memo_layer import entry, memo_layers

        return memo_layers(((memo.id, entry(memo)) for memo in left), self.words)


def picked(moment: Snapshot, units: Sequence[Unit], most: int) -> list[Picked]:
    """Return the memos, at most `most`, that the opening message of each of these turns picks by its keywords.

    Only older memos are picked: the layer stays the same for the whole turn.
    """
    from foldmark.core.keywords import keywords  # takes 10 ms, only needed with memos
    from foldmark.core.memo_layer import asked

    words = [keywords(asked(_opener(unit))) for unit in units]
    found = moment.memos_with([(each, unit.opener) for each, unit in zip(words, units, strict=True)], most)
    return [Picked(each, memos) for each, memos in zip(words, found, strict=True)]


def kept(moment: Snapshot, parts: Iterable[Part]) -> dict[str, str]:
    """Return the texts of the memos in a request, by their names in `sent.RequestRecord.hashes`, without those of memos
    that were removed meanwhile."""
    from foldmark.core.memo_layer import entry_of

    ids = [(part.memo, part.text) for part in parts if part.memo is not None]
    return {name(memo_id): entry_of(text) for memo_id, text in ids if moment.memo(memo_id) is not None}


def again(unit: Unit | None, entries: Iterable[tuple[int, str]]) -> list[Layer]:
    """Return the layers of memos that were sent, id and entry, with the keywords that picked them where these still
    exist."""
    from foldmark.core.keywords import keywords
    from foldmark.core.memo_layer import asked, memo_layers

    return memo_layers(entries, () if unit is None else keywords(asked(_opener(unit))))


def name(memo_id: int) -> str:
    """Return the name of a memo's text among the texts of a request."""
    return f"memo {memo_id}"


def _opener(unit: Unit) -> Event | None:
    return next((event for event in unit.events if event.id == unit.opener), None)
