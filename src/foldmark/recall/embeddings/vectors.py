"""The stored form of vectors: a byte per dimension, and a bit per dimension to scan all of them quickly.

A message has one vector, or several if it is long [passages.py]; both forms concatenate those of one message, so that
their number need not be stored. Their lengths are the same on every machine.
"""

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
