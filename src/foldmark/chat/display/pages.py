"""The pages of a transcript that are kept while a person scrolls through it."""

from typing import Literal, NamedTuple

from foldmark.chat.display.transcript import Page, page, page_at
from foldmark.chat.imported import folder_of
from foldmark.core.segments import END, Segments
from foldmark.cost.messages import NextMessages, next_messages
from foldmark.log import Agent

KEPT = 400
"""Number of entries above which the most distant page is released."""


class Place(NamedTuple):
    """The place to read: the end of the transcript, its beginning, the current pages again, the next older or newer
    page, or the page with an event."""

    where: Literal["end", "beginning", "same", "older", "newer", "event"]
    event: int = 0


class Pages(NamedTuple):
    """Adjacent pages, oldest first, with the messages of the next request, the opened segments, the id of the open
    turn, and the folder to which paths are relative."""

    kept: tuple[Page, ...] = ()
    coming: NextMessages | None = None
    opened: Segments = ()
    open_turn: int | None = None
    folder: str = ""

    @property
    def newest(self) -> int:
        """The agent's newest event when the pages were read; 0 without pages."""
        return self.kept[-1].newest if self.kept else 0


def read(agent: Agent, place: Place, known: Pages) -> Pages:
    """Return the pages for a place, given the `known` ones. Cost grows with the number of pages read and, if the log
    has changed, with the window. Raises FoldmarkError, and CommandError for an event outside the conversation."""
    pages, coming, opened, _, folder = known
    folder = folder or folder_of(agent)
    with agent.reading() as (moment, at):
        if coming is None or (place.where not in ("older", "newer") and at.newest != known.newest):
            coming = next_messages(agent, moment, at)
        match place.where:
            case "older" if pages:
                pages = (page(moment, at, coming, before=pages[0].first, opened=opened, folder=folder), *pages)
                pages = pages[:-1] if _entries(pages) > KEPT and len(pages) > 2 else pages
            case "newer" if pages:
                pages = (*pages, page(moment, at, coming, after=pages[-1].last, opened=opened, folder=folder))
                pages = pages[1:] if _entries(pages) > KEPT and len(pages) > 2 else pages
            case "same" if pages:
                first, last = pages[0].first, pages[-1].last
                found = [
                    page(moment, at, coming, before=END if last == END else last + 1, opened=opened, folder=folder)
                ]
                while found[0].first > first and sum(len(each.entries) for each in found) <= 2 * KEPT:
                    found.insert(0, page(moment, at, coming, before=found[0].first, opened=opened, folder=folder))
                pages = tuple(found)
            case "beginning":
                pages = (page(moment, at, coming, after=-1, opened=opened, folder=folder),)
            case "event":
                found_page, opened = page_at(moment, at, coming, place.event, opened, folder)
                pages = (found_page,)
            case _:
                pages = (page(moment, at, coming, opened=opened, folder=folder),)
        return Pages(pages, coming, opened, at.record.open_turn, folder)


def _entries(pages: tuple[Page, ...]) -> int:
    return sum(len(each.entries) for each in pages)
