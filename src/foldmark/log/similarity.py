"""Decide whether meanings count in a search: for each index that has vectors, if the mode wants them [SPEC 7].

Nothing here needs an optional package; where there are no vectors, none is imported.
"""

from collections.abc import Sequence

from foldmark.core.errors import CommandError
from foldmark.core.search import Mode, Similarity, VectorSource
from foldmark.recall.embeddings.embedder import EmbeddingError


class NoVectorsError(CommandError):
    """Only meanings are to count, and there are no vectors."""


def similarities(query: str, mode: Mode, sources: Sequence[VectorSource | None]) -> list[Similarity | None]:
    """Return the similarity of the messages of each source to a query; None where that does not count, or there are no
    vectors by the model of the settings.

    In the modes vector and both, some source must have them. Raises NoVectorsError otherwise, or EmbeddingError if the
    model cannot be used.
    """
    needed = mode in ("vector", "both")
    known: list[Similarity | None] = []
    for source in sources:
        if mode == "text" or source is None or source.vectors is None or not source.vectors.embedders():
            known.append(None)
            continue
        try:
            meanings = source.meanings()
            known.append(meanings.asked(query) if meanings.until is not None else None)
        except EmbeddingError:
            if needed:
                raise
            known.append(None)
    if needed and not any(known):
        raise NoVectorsError(
            "there are no vectors of what was said by the model that is set; `foldmark index` makes them"
        )
    return known
