"""The forward pass of an encoder of BERT's kind, in NumPy.

Sequences are laid end to end as rows of one matrix, without padding: everything but the attention looks at a row
alone, and the attention takes runs of sequences of one length at a time, so that nothing is masked.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, product

import numpy as np

from foldmark.recall.embeddings.activation import gelu
from foldmark.recall.embeddings.folder import Shape
from foldmark.recall.embeddings.weights import Dense, EncoderLayer, Floats, Norm, Weights

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
