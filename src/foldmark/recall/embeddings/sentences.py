"""A sentence encoder from a folder: texts to tokens, tokens through the forward pass, and unit length."""

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from mmap import ACCESS_READ, mmap
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from foldmark.recall.embeddings.bert import encode
from foldmark.recall.embeddings.embedder import EmbeddingError
from foldmark.recall.embeddings.folder import TOKENIZER, WEIGHTS, read_shape
from foldmark.recall.embeddings.weights import read_weights

_ROWS = 2048
"""Number of tokens that go through the network at once; more is no faster."""

_CHARACTERS = 32
"""Characters per token of a text that are read; the rest is ignored."""


class SentenceModel:
    """An `Embedder` [embedder.py]. The beginning of a text counts, as many tokens as the model takes.

    A special token such as [SEP] in a text is read as that token, as sentence-transformers does.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Read a folder. Raises EmbeddingError if it is damaged or unsupported."""
        self._shape = read_shape(folder)
        try:
            tokenizer = (folder / TOKENIZER).read_bytes()
            with (folder / WEIGHTS).open("rb") as file:
                weights = mmap(file.fileno(), 0, access=ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: an empty file
            raise EmbeddingError(f"the embedding model in {folder} is not complete: {error}; fetch it again") from None
        self._weights = read_weights(weights, self._shape)
        self._tokenizer = _tokenizer(tokenizer, folder / TOKENIZER)
        self._tokenizer.enable_truncation(self._shape.longest)
        if self._tokenizer.get_vocab_size() > len(self._weights.words):
            raise EmbeddingError(f"{folder / TOKENIZER} knows more tokens than the weights do; fetch the model again")
        self._empty = self._tokenizer.num_special_tokens_to_add(False)
        self._name = name
        self._query = lru_cache(maxsize=8)(self._embed_query)  # conversations and sessions get the same query
        parts = (weights, tokenizer, msgspec.json.encode(self._shape))
        self._fingerprint = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]

    @property
    def name(self) -> str:
        return self._name

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def dimensions(self) -> int:
        return self._shape.hidden

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (texts, dimensions), of unit length; zeros for a text without a word. See `Embedder`."""
        return self._embed(texts, self._shape.document_prompt)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return (dimensions,), with the model's prompt for queries, if any; read-only."""
        return self._query(text)

    def _embed_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self._embed([text], self._shape.query_prompt)[0]
        vector.setflags(write=False)
        return vector

    def _embed(self, texts: Sequence[str], prompt: str) -> NDArray[np.float32]:
        found = np.zeros((len(texts), self._shape.hidden), np.float32)
        for places, tokens in self._batches([self._tokens(text, prompt) for text in texts]):
            with np.errstate(over="ignore", invalid="ignore"):
                vectors = encode(self._weights, self._shape, tokens)
                lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
            if not np.isfinite(lengths).all():
                raise EmbeddingError(f"the weights of the embedding model {self._name} are damaged; fetch it again")
            found[places] = vectors / np.maximum(lengths, np.float32(1e-12))[:, None]
        return found

    def _tokens(self, text: str, prompt: str) -> list[int]:
        """Return the tokens of a text, at most as many as the model takes; none for a text without a word."""
        text = text[: _CHARACTERS * self._shape.longest]
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        ids: list[int] = self._tokenizer.encode(text).ids
        if not text.strip() or len(ids) <= self._empty:
            return []
        return self._tokenizer.encode(prompt + text).ids if prompt else ids

    def _batches(self, texts: list[list[int]]) -> Iterator[tuple[list[int], list[list[int]]]]:
        """Yield places and tokens of texts of similar length, the shortest first; those without tokens are left out."""
        places: list[int] = []
        rows = 0
        for place in sorted((place for place, ids in enumerate(texts) if ids), key=lambda place: len(texts[place])):
            if places and rows + len(texts[place]) > _ROWS:
                yield places, [texts[each] for each in places]
                places, rows = [], 0
            places.append(place)
            rows += len(texts[place])
        if places:
            yield places, [texts[each] for each in places]


def _tokenizer(data: bytes, path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_buffer(data)
    except Exception as error:  # tokenizers raises nothing more specific
        raise EmbeddingError(f"the embedding model's {path} is damaged: {error}; fetch the model again") from None
    tokenizer.no_padding()
    return tokenizer
