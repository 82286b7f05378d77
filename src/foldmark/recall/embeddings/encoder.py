"""A sentence encoder from a folder: texts to tokens, tokens through the forward pass of BERT's kind, and unit length.

Sequences are laid end to end as rows of one matrix, without padding: everything except the attention works on single
rows, and the attention processes runs of sequences of equal length, so no masking is needed.

NumPy has no error function for GELU, x·Φ(x). Φ(x), the normal distribution, is 1 / (1 + exp(-x·q(x²))) for a smooth
function q. `_COEFFICIENTS` is the polynomial nearest to q (fitted for this module to minimise the greatest error of
x·Φ(x)). The error is at most 7e-8, about the precision that float32 loses in the calculation.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby, product
from mmap import ACCESS_READ, mmap
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from foldmark.recall.embeddings import EmbeddingError
from foldmark.recall.embeddings.files import (
    TOKENIZER,
    WEIGHTS,
    Dense,
    EncoderLayer,
    Floats,
    Norm,
    Shape,
    Weights,
    read_shape,
    read_weights,
)

_FARTHEST = 5.6**2
"""The square up to which q is fitted; beyond it, Φ is 0 or 1 to all digits of a float32."""

_COEFFICIENTS = tuple(
    -np.float32(each)
    for each in (
        3.6278650690214966e-09,
        -2.6756686943886125e-07,
        7.948149184098645e-06,
        -0.00011054682984495968,
        -6.605321291475775e-05,
        0.07266829798013796,
        1.5957685369023953,
    )
)
"""Coefficients of -q, the highest power first."""

_LARGEST = np.float32(80)


def gelu(values: NDArray[np.float32], square: NDArray[np.float32], work: NDArray[np.float32]) -> None:
    """Replace values, float32 of any shape, by their GELU; the other two, of that shape, are overwritten."""
    np.multiply(values, values, out=square)
    np.minimum(square, np.float32(_FARTHEST), out=square)
    np.multiply(square, _COEFFICIENTS[0], out=work)
    for each in _COEFFICIENTS[1:-1]:
        work += each
        work *= square
    work += _COEFFICIENTS[-1]
    work *= values
    np.minimum(work, _LARGEST, out=work)  # exp must not overflow
    np.exp(work, out=work)
    work += np.float32(1)
    values /= work


_BLOCK = 1 << 15
"""Numbers that are processed at once in multi-step operations, so that they stay in the processor's cache."""

_SCORES = 1 << 17
"""Approximate number of attention scores held at once, for the same reason."""

_PRODUCT = 1 << 18
"""Maximum multiplications in one of the attention's many small products. Above it, OpenBLAS uses several threads for
one product, and on a busy processor these wait for each other a hundred times longer than the product takes."""


def encode(weights: Weights, shape: Shape, sequences: Sequence[Sequence[int]]) -> Floats:
    """Return one pooled vector for each sequence of token ids, (sequences, hidden), not normalised.

    Sequences are ordered by length, none is empty or longer than `shape.longest`.
    """
    tokens = np.concatenate([np.asarray(each, np.int64) for each in sequences])
    rows = weights.words[tokens]
    rows += np.concatenate([weights.positions[: len(each)] for each in sequences])
    work = _Work(len(tokens), shape, weights)
    _normalise(rows, weights.norm, shape.epsilon)
    runs = [(length, sum(1 for _ in run)) for length, run in groupby(map(len, sequences))]
    for layer in weights.layers:
        _layer(rows, layer, shape, runs, work)
    return np.concatenate([_pool(part, shape) for part in _parts(rows, runs)])


class _Work:
    """Working memory of a layer, reused by every layer."""

    def __init__(self, rows: int, shape: Shape, weights: Weights) -> None:
        inner = len(weights.layers[0].inner.bias)
        self.attention = np.empty((rows, 3 * shape.hidden), np.float32)
        self.context, self.output = np.empty((2, rows, shape.hidden), np.float32)
        self.inner = np.empty((rows, inner), np.float32)
        self.square, self.exponent = np.empty((2, max(1, _BLOCK // inner), inner), np.float32)


def _layer(rows: Floats, layer: EncoderLayer, shape: Shape, runs: list[tuple[int, int]], work: _Work) -> None:
    """Apply one layer, in place."""
    np.matmul(rows, layer.attention.weight, out=work.attention)
    work.attention += layer.attention.bias
    for before, after in zip(_parts(work.attention, runs), _parts(work.context, runs), strict=True):
        _attend(before, after, shape.heads)
    np.matmul(work.context, layer.output.weight, out=work.output)
    _add(rows, work.output, layer.output)
    _normalise(rows, layer.output_norm, shape.epsilon)
    np.matmul(rows, layer.inner.weight, out=work.inner)
    step = len(work.square)
    for begin in range(0, len(rows), step):
        block = work.inner[begin : begin + step]
        block += layer.inner.bias
        gelu(block, work.square[: len(block)], work.exponent[: len(block)])
    np.matmul(work.inner, layer.outer.weight, out=work.output)
    _add(rows, work.output, layer.outer)
    _normalise(rows, layer.outer_norm, shape.epsilon)


def _add(rows: Floats, output: Floats, dense: Dense) -> None:
    rows += output
    rows += dense.bias


def _attend(before: Floats, after: Floats, heads: int) -> None:
    """Apply the attention of each sequence to itself: (sequences, length, 3·hidden) to (sequences, length, hidden)."""
    count, length, width = before.shape
    size = width // 3 // heads
    queries, keys, values = np.moveaxis(before.reshape(count, length, 3, heads, size), (2, 3), (0, 2))
    result = after.reshape(count, length, heads, size).transpose(0, 2, 1, 3)
    ones = np.ones(length, np.float32)
    rows = min(length, max(1, _PRODUCT // (length * size)))
    step = max(1, _SCORES // (heads * rows * length))
    for first, begin in product(range(0, count, step), range(0, length, rows)):
        part, some = slice(first, first + step), slice(begin, begin + rows)
        scores = queries[part, :, some] @ keys[part].swapaxes(2, 3)
        scores -= scores.max(axis=3, keepdims=True)
        np.exp(scores, out=scores)
        np.matmul(scores, values[part], out=result[part, :, some])
        result[part, :, some] /= (scores @ ones)[..., None]


def _normalise(rows: Floats, norm: Norm, epsilon: float) -> None:
    """Apply layer normalisation, in place."""
    step = max(1, _BLOCK // rows.shape[1])
    for begin in range(0, len(rows), step):
        block = rows[begin : begin + step]
        block -= block.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", block, block) / np.float32(block.shape[1])
        block *= (1 / np.sqrt(variance + np.float32(epsilon)))[:, None]
        block *= norm.factor
        block += norm.summand


def _parts(rows: Floats, runs: list[tuple[int, int]]) -> Iterator[Floats]:
    """Yield views of the rows of each run of sequences of one length: (sequences, length, columns)."""
    begin = 0
    for length, count in runs:
        end = begin + length * count
        yield rows[begin:end].reshape(count, length, -1)
        begin = end


def _pool(part: Floats, shape: Shape) -> Floats:
    pooled: Floats
    match shape.pooling:
        case "cls":
            pooled = part[:, 0]
        case "max":
            pooled = part.max(axis=1)
        case "mean":
            pooled = part.mean(axis=1)
    return pooled


_ROWS = 2048
"""Number of tokens that go through the network at once; more is no faster."""

_CHARACTERS = 32
"""Characters per token of a text that are read; the rest is ignored."""


class SentenceModel:
    """An `Embedder` that reads the beginning of a text, as many tokens as the model accepts.

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
        self.name, self.dimensions = name, self._shape.hidden
        self._query = lru_cache(maxsize=8)(self._embed_query)  # conversations and sessions get the same query
        parts = (weights, tokenizer, msgspec.json.encode(self._shape))
        self.fingerprint = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]

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
                raise EmbeddingError(f"the weights of the embedding model {self.name} are damaged; fetch it again")
            found[places] = vectors / np.maximum(lengths, np.float32(1e-12))[:, None]
        return found

    def _tokens(self, text: str, prompt: str) -> list[int]:
        """Return the tokens of a text, at most as many as the model accepts; none for a text without a word."""
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
