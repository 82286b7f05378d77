"""Search through the vectors of all messages, with one bit per dimension in memory; and the stored form of vectors.

A message has one vector, or several if it is long (`text.highlights.passages`). One byte per dimension is stored, and
one bit per dimension for a quick scan of all vectors. In both forms, the vectors of one message are concatenated, so
their number need not be stored. Their lengths are the same on every machine.

The signs of a query are compared with the bits of all vectors, and its numbers with the bits of those that differ
least. The caller fetches the stored vectors of the best of these, which decide. With 384 dimensions, a vector takes 56
bytes of memory. Comparing the stored vectors themselves would take seven times the memory and the time, after a long
time to read them.
"""

from collections.abc import Callable, Sequence
from math import gcd

import numpy as np
from numpy.typing import NDArray

Fetch = Callable[[list[int]], Sequence[bytes]]
"""Returns the packed vectors of each of these messages (`pack`); no bytes for a message that no longer exists."""

CANDIDATES = 1000
"""Number of vectors that are fetched and compared exactly."""

LIKELY = 8
"""Multiple of `CANDIDATES` whose bits are compared with a query's numbers. With 200,000 vectors, the candidates held
the best ten messages of each of 300 questions."""


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


class Nearest:
    """The ids and signatures of messages; a message with several vectors occupies several places.

    Threads may search while another one adds: each search sees the state at its beginning.
    """

    def __init__(self, dimensions: int) -> None:
        """Create an index for vectors with this many dimensions, a multiple of 8."""
        self.dimensions = dimensions
        self._word = np.dtype(f"u{gcd(dimensions // 8, 8)}")  # the widest word that divides a vector
        # The ids, and their bits as (words of a vector, vectors): rows of many vectors are compared fastest.
        self._state = np.empty(0, np.int64), np.empty((dimensions // 8 // self._word.itemsize, 0), self._word)

    def __len__(self) -> int:
        """Return the number of vectors."""
        return len(self._state[0])

    def add(self, ids: Sequence[int], signatures: Sequence[bytes]) -> None:
        """Add new messages, each with the signature of its vectors (`signature`).

        Raises ValueError, and adds nothing, for a signature that is not a multiple of a vector's length.
        """
        size = self.dimensions // 8
        lengths = np.fromiter(map(len, signatures), np.int64, len(signatures))
        if len(ids) != len(signatures) or (lengths % size).any():
            raise ValueError(f"{len(ids)} ids, {len(signatures)} signatures of whole vectors, {size} bytes each")
        fresh_ids = np.repeat(np.asarray(ids, np.int64), lengths // size)
        known_ids, bits = self._state
        fresh = np.frombuffer(b"".join(signatures), self._word).reshape(-1, len(bits))
        self._state = np.concatenate([known_ids, fresh_ids]), np.concatenate([bits, fresh.T], axis=1)

    def search(self, query: NDArray[np.float32], n: int, fetch: Fetch) -> list[tuple[int, float]]:
        """Return the n messages nearest to the query, the best first, with the cosine of the best vector of each.

        Equally near ones come in the order of their ids. A query without a word, all zeros, finds nothing.
        """
        ids, bits = self._state
        if not query.any():
            return []
        most = max(CANDIDATES, 10 * n)
        if len(ids) > most:
            wanted = np.packbits(query > 0).view(self._word)[:, None]
            differing = np.bitwise_count(bits ^ wanted).sum(axis=0, dtype=np.uint16)
            likely = np.argpartition(differing, min(len(ids) - 1, LIKELY * most))[: LIKELY * most]
            signs = np.unpackbits(bits[:, likely].T.copy().view(np.uint8), axis=1)
            ids = ids[likely[np.argpartition(signs @ query, -most)[-most:]]]
        ids = np.sort(ids)  # np.unique imports masked arrays, which take a third as long as all of NumPy
        ids = ids[np.r_[True, ids[1:] != ids[:-1]]] if len(ids) else ids
        packed = fetch(ids.tolist())
        cosines = np.einsum("ij,j->i", unpack(b"".join(packed), self.dimensions), query)
        owners = np.repeat(np.arange(len(ids)), [len(each) // self.dimensions for each in packed])
        best = np.full(len(ids), -np.inf, np.float32)
        np.maximum.at(best, owners, cosines)
        order = np.argsort(-best, kind="stable")[:n]
        return [(int(ids[each]), float(best[each])) for each in order if best[each] > -np.inf]
