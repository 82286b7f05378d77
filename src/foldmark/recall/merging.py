"""Merge neighbours of several messages of one conversation [SPEC 7]."""

from collections.abc import Iterator, Sequence

from foldmark.core.search import IndexedMessage


def joined(lists: Sequence[Sequence[IndexedMessage]]) -> Iterator[list[IndexedMessage]]:
    """Yield lists of neighbours, each in the order of the conversation, merged into runs: overlapping lists become one,
    and of one message the longest text counts."""
    run: dict[int, IndexedMessage] = {}
    for each in sorted(filter(None, lists), key=lambda said: said[0].id):
        if run and each[0].id not in run:
            yield list(run.values())
            run = {}
        for said in each:
            if said.id not in run or len(said.text) > len(run[said.id].text):
                run[said.id] = said
    if run:
        yield list(run.values())
