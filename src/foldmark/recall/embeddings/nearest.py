"""Search through the vectors of all messages, with one bit per dimension in memory; and the stored form of vectors.

A message has one vector, or several if it is long (`text.highlights.passages`). Stored are a byte per dimension, and a
bit per dimension to scan all of them quickly. Both forms concatenate those of one message, so that their number need
not be stored. Their lengths are the same on every machine.

A query passes three filters: the number of equal bits, over all messages; the query's own numbers against the bits,
over the best of those; and the stored vectors, for the thousand that remain, which the caller fetches. With 384
dimensions a message takes 56 bytes of memory. Measured results are in docs/recall.md.
"""

from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


def pack(vectors: NDArray[np.float32]) -> bytes:
    """Return (n, dimensions) or (dimensions,) as n·dimensions signed bytes.

    The greatest component becomes ±127. The factor need not be kept: vectors have unit length, or are zeros.
    """
    rows = np.atleast_2d(vectors)
    greatest = np.abs(rows).max(axis=1, keepdims=True, initial=1e-30)
    levels: NDArray[np.int8] = np.rint(rows * (127 / greatest)).astype(np.int8)
    return levels.tobytes()


def unpack(packed: bytes, dimensions: int) -> NDArray[np.float32]:
    """Return the vectors of `pack`: (n, dimensions), of unit length, each component within 1/254 of the greatest of its
    vector.

    Raises ValueError if the bytes are not a multiple of a vector's length.
    """
    rows = np.frombuffer(packed, np.int8).reshape(-1, dimensions).astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    rows /= np.maximum(lengths, np.float32(1))[:, None]
    return rows


def signature(vectors: NDArray[np.float32]) -> bytes:
    """Return (n, dimensions) or (dimensions,) as n·dimensions/8 bytes: one bit per component, set if it is above
    zero."""
    return np.packbits(np.atleast_2d(vectors) > 0, axis=1).tobytes()


Ids = NDArray[np.int64]
Fetch = Callable[[list[int]], Sequence[bytes]]
"""Returns the packed vectors of each of these messages [vectors.pack]; no bytes for one that is gone."""

WIDER = 8
"""The ratio of the vectors that pass the first filter to those that pass the second."""

CANDIDATES = 1000
"""Number of vectors that pass the second filter and are fetched."""

FEW, CANDIDATES_OF_FEW = 20_000, 4000
"""For up to FEW vectors, CANDIDATES_OF_FEW are fetched: in all measurements the result equals that of comparing all,
and up to the second number it always does."""

_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)
"""The bits of every byte, (256, 8)."""

_BLOCK = 1 << 16
"""Number of vectors compared at once, so that the counts stay in the processor's cache."""


class _Held(NamedTuple):
    """`ids` (room,), `words` (64-bit words a vector, room); the first `filled` columns count."""

    ids: Ids
    words: NDArray[np.uint64]
    filled: int


class Nearest:
    """The ids and signatures of messages; a message with several vectors takes several places.

    Threads may search while one adds: each search sees the state at its beginning.
    """

    def __init__(self, dimensions: int) -> None:
        """Vectors of so many dimensions; a multiple of 8."""
        self.dimensions = dimensions
        words = -(-dimensions // 64)
        self._held = _Held(np.empty(0, np.int64), np.empty((words, 0), np.uint64), 0)
        self._writing = Lock()

    def __len__(self) -> int:
        """Return the number of vectors."""
        return self._held.filled

    def add(self, ids: Sequence[int], signatures: Sequence[bytes]) -> None:
        """Add new messages, each with the signature of its vectors [vectors.signature].

        Raises ValueError, and adds nothing, for a signature that is not a multiple of a vector's length.
        """
        size = self.dimensions // 8
        if len(ids) != len(signatures) or any(len(each) % size for each in signatures):
            raise ValueError(f"{len(ids)} ids, {len(signatures)} signatures of whole vectors, {size} bytes each")
        bits = np.frombuffer(b"".join(signatures), np.uint8).reshape(-1, size)
        fresh_ids = np.repeat(np.asarray(ids, np.int64), [len(each) // size for each in signatures])
        with self._writing:
            held = self._held
            end = held.filled + len(bits)
            if end > len(held.ids):
                held = _grown(held, max(end, held.filled * 3 // 2, 1024))
            held.ids[held.filled : end] = fresh_ids
            held.words[:, held.filled : end] = self._words(bits)
            self._held = held._replace(filled=end)

    def remove(self, ids: Iterable[int]) -> None:
        """Remove messages; unknown ones are passed over. It takes as long as copying everything."""
        with self._writing:
            held = self._held
            keep = np.flatnonzero(np.isin(held.ids[: held.filled], np.fromiter(ids, np.int64), invert=True))
            self._held = _Held(*_some(held.ids, held.words, keep), len(keep))

    def candidates(self, query: NDArray[np.float32], n: int, allowed: Sequence[int] | Ids | None = None) -> Ids:
        """Return the messages of the n vectors that are probably nearest, distinct, in the order of their ids.

        With `allowed` only these messages. All of them if there are at most n vectors.
        """
        held = self._held
        ids, words = held.ids[: held.filled], held.words[:, : held.filled]
        if allowed is not None:
            ids, words = _some(ids, words, np.flatnonzero(np.isin(ids, np.asarray(allowed, np.int64))))
        if len(ids) > n * WIDER:
            differing = self._differing(query, words)
            last = np.searchsorted(np.bincount(differing).cumsum(), n * WIDER)
            ids, words = _some(ids, words, np.flatnonzero(differing <= last))
        if len(ids) > n:
            ids = ids[np.argpartition(self._agreement(query, words), -n)[-n:]]
        ids = np.sort(ids)  # np.unique imports masked arrays, which take a third as long as all of NumPy
        return ids[np.r_[True, ids[1:] != ids[:-1]]] if len(ids) else ids

    def search(
        self, query: NDArray[np.float32], n: int, fetch: Fetch, allowed: Sequence[int] | Ids | None = None
    ) -> list[tuple[int, float]]:
        """Return the n messages nearest to the query, the best first, with the cosine of the best vector of each.

        Equally near ones come in the order of their ids. A query without a word, all zeros, finds nothing.
        """
        if not query.any():
            return []
        wanted = CANDIDATES_OF_FEW if len(self) <= FEW else CANDIDATES
        ids = self.candidates(query, max(wanted, 10 * n), allowed)
        packed = fetch(ids.tolist())
        cosines = np.einsum("ij,j->i", unpack(b"".join(packed), self.dimensions), query)
        owners = np.repeat(np.arange(len(ids)), [len(each) // self.dimensions for each in packed])
        best = np.full(len(ids), -np.inf, np.float32)
        np.maximum.at(best, owners, cosines)
        order = np.argsort(-best, kind="stable")[:n]
        return [(int(ids[each]), float(best[each])) for each in order if best[each] > -np.inf]

    def _words(self, bits: NDArray[np.uint8]) -> NDArray[np.uint64]:
        """Return signatures (n, bytes) as (64-bit words, n), the last word filled up with zeros."""
        rows = np.zeros((len(bits), 8 * len(self._held.words)), np.uint8)
        rows[:, : bits.shape[1]] = bits
        return rows.view(np.uint64).T

    def _differing(self, query: NDArray[np.float32], words: NDArray[np.uint64]) -> NDArray[np.uint16]:
        """Return the number of bits in which each vector differs from the query."""
        wanted = self._words(np.packbits(query > 0)[None, :])
        differing = np.zeros(words.shape[1], np.uint16)
        work = np.empty(_BLOCK, np.uint64)
        counts = np.empty(_BLOCK, np.uint8)
        for begin in range(0, len(differing), _BLOCK):
            sums = differing[begin : begin + _BLOCK]
            for row, word in zip(words, wanted, strict=True):
                np.bitwise_xor(row[begin : begin + _BLOCK], word, out=work[: len(sums)])
                np.bitwise_count(work[: len(sums)], out=counts[: len(sums)])
                sums += counts[: len(sums)]
        return differing

    def _agreement(self, query: NDArray[np.float32], words: NDArray[np.uint64]) -> NDArray[np.float32]:
        """Return the sum of the query's components where each vector is above zero: an estimate of its cosine from the
        bits."""
        sums = _BITS @ query.reshape(-1, 8).T  # for each byte's possible values, at each place
        agreement = np.zeros(words.shape[1], np.float32)
        for place in range(self.dimensions // 8):
            column = words[place // 8].view(np.uint8)[place % 8 :: 8]
            agreement += sums[:, place].take(column)
        return agreement


def _some(ids: Ids, words: NDArray[np.uint64], places: NDArray[np.intp]) -> tuple[Ids, NDArray[np.uint64]]:
    return ids[places], words.take(places, axis=1)


def _grown(held: _Held, room: int) -> _Held:
    """Return a copy with more room, in new arrays: running searches keep the old ones."""
    ids = np.empty(room, np.int64)
    words = np.empty((len(held.words), room), np.uint64)
    ids[: held.filled] = held.ids[: held.filled]
    words[:, : held.filled] = held.words[:, : held.filled]
    return _Held(ids, words, held.filled)
