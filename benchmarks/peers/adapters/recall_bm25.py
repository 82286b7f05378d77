"""BM25 by two packages, as their READMEs show it."""

import re
from pathlib import Path
from time import process_time

from lines import serve

INDEXES = {}


class RankBM25:
    """BM25Okapi; the package splits no text, so words are taken in lower case and without punctuation."""

    def __init__(self, texts: list[str], stemmed: bool) -> None:
        """Index texts."""
        from rank_bm25 import BM25Okapi

        self.index = BM25Okapi(list(map(self.words, texts)))

    def words(self, text: str) -> list[str]:
        """Split a text."""
        return re.findall(r"\w+", text.lower())

    def search(self, question: str, most: int) -> list[int]:
        """Return positions, the best first."""
        scores = self.index.get_scores(self.words(question))
        return [int(each) for each in (-scores).argsort(kind="stable")[:most] if scores[each] > 0]

    def bytes(self, folder: Path) -> None:
        """Return nothing: it is in memory only."""


class Bm25s:
    """Its quick start: English stop words; with PyStemmer or without."""

    def __init__(self, texts: list[str], stemmed: bool) -> None:
        """Index texts."""
        import bm25s
        import Stemmer

        self.tokenize, self.number = bm25s.tokenize, len(texts)
        self.stemmer = Stemmer.Stemmer("english") if stemmed else None
        tokens = bm25s.tokenize(texts, stopwords="en", stemmer=self.stemmer, show_progress=False)
        self.index = bm25s.BM25()
        self.index.index(tokens, show_progress=False)

    def search(self, question: str, most: int) -> list[int]:
        """Return positions, the best first."""
        tokens = self.tokenize(question, stopwords="en", stemmer=self.stemmer, show_progress=False)
        found, scores = self.index.retrieve(tokens, k=min(most, self.number), show_progress=False)
        return [int(each) for each, score in zip(found[0], scores[0], strict=True) if score > 0]

    def bytes(self, folder: Path) -> int:
        """Return the size of the saved index, without the texts."""
        self.index.save(folder)
        return sum(each.stat().st_size for each in folder.iterdir())


def load(by: str, name: str, messages: list, folder: str) -> int | None:
    """Index messages, each [conversation, role, text, time or None]; return the bytes on disk."""
    texts = [text for _, _, text, _ in messages]
    INDEXES[by, name] = (RankBM25 if by == "rank-bm25" else Bm25s)(texts, by.endswith("stems"))
    return INDEXES[by, name].bytes(Path(folder, f"{name} {by}"))


def search(by: str, name: str, questions: list[str], most: int) -> dict:
    """Return the positions of the hits of each question, and the processor time of all."""
    index = INDEXES[by, name]
    began = process_time()
    hits = [index.search(question, most) for question in questions]
    return {"hits": hits, "seconds": process_time() - began}


serve(load=load, search=search)
