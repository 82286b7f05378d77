"""Stored vectors, and the search through them (SPEC 7)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.recall.embeddings.nearest import CANDIDATES, LIKELY, Nearest, pack, signature, unpack

DIMENSIONS = 96


def unit(*shape: int, seed: int = 5) -> np.ndarray:
    rows: np.ndarray = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    rows /= np.sqrt((rows**2).sum(axis=-1, keepdims=True))
    return rows


class Stored:
    """Messages with their packed vectors, as a database would hold them, with a count of the vectors fetched."""

    def __init__(self, vectors: dict[int, np.ndarray], dimensions: int = DIMENSIONS) -> None:
        rows, packed, signatures = 0, pack(np.vstack([*vectors.values()])), signature(np.vstack([*vectors.values()]))
        bits = -(-dimensions // 8)
        self.packed, signed = dict[int, bytes](), list[bytes]()
        for id, each in vectors.items():  # packing each takes a hundred times longer than packing all
            end = rows + each.size // dimensions
            self.packed[id] = packed[rows * dimensions : end * dimensions]
            signed.append(signatures[rows * bits : end * bits])
            rows = end
        self.near = Nearest(dimensions)
        self.near.add(list(vectors), signed)
        self.fetched = 0
        self.dimensions = dimensions

    def fetch(self, ids: list[int]) -> list[bytes]:
        self.fetched += len(ids)
        return [self.packed.get(id, b"") for id in ids]

    def search(self, query: np.ndarray, n: int) -> list[int]:
        return [id for id, _ in self.near.search(query, n, self.fetch)]

    def exact(self, query: np.ndarray, n: int) -> list[int]:
        """Search messages of one vector each, all exactly."""
        cosines = np.einsum("ij,j->i", unpack(b"".join(self.packed.values()), self.dimensions), query)
        best = dict(zip(self.packed, cosines.tolist(), strict=True))
        return sorted(best, key=lambda each: (-best[each], each))[:n]


def test_packing_loses_little() -> None:
    rows = unit(50, DIMENSIONS)
    packed = pack(rows)
    assert packed == b"".join(pack(row) for row in rows)
    assert len(packed) == rows.size
    again = unpack(packed, DIMENSIONS)
    assert np.abs(again - rows).max() < 0.003
    assert (np.einsum("ij,ij->i", again, rows) > 0.9999).all()
    assert pack(again) == packed
    assert unpack(b"", DIMENSIONS).shape == (0, DIMENSIONS)
    assert not unpack(pack(np.zeros(DIMENSIONS, np.float32)), DIMENSIONS).any()
    with pytest.raises(ValueError, match="reshape"):
        unpack(packed[1:], DIMENSIONS)


def test_a_signature_has_one_bit_per_dimension() -> None:
    row = np.array([1, -1, 0, 0.5, -0.1, 1e-9, -1e-9, 2], np.float32)
    assert signature(row) == bytes([0b10010101])
    assert signature(np.stack([row, -row])) == bytes([0b10010101, 0b01001010])


@pytest.mark.parametrize("dimensions", [8, 64, 72, 384])
def test_a_few_vectors_are_compared_exactly(dimensions: int) -> None:
    rows = unit(CANDIDATES, dimensions)
    stored = Stored({7 * place - 1000: row for place, row in enumerate(rows)}, dimensions)
    for query in unit(10, dimensions, seed=6):
        assert stored.search(query, 20) == stored.exact(query, 20)
    assert stored.search(rows[5], 1) == [7 * 5 - 1000]


def test_among_many_vectors_the_bits_find_the_nearest() -> None:
    rng = np.random.default_rng(9)
    centres = unit(40, DIMENSIONS)
    rows = centres[rng.integers(0, 40, 25_000)] + 0.1 * rng.standard_normal((25_000, DIMENSIONS), np.float32)
    rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True))
    stored = Stored(dict(enumerate(rows)))
    hits = sum(len({*stored.search(query, 10)} & {*stored.exact(query, 10)}) for query in centres[:4])
    assert stored.fetched == 4 * CANDIDATES
    assert hits >= 39


@pytest.mark.parametrize("dimensions", [64, 72, 384])
def test_candidates_agree_most_with_the_query_among_those_with_the_most_equal_bits(dimensions: int) -> None:
    rows, (query,) = unit(LIKELY * CANDIDATES + 2000, dimensions), unit(1, dimensions, seed=6)
    stored, asked = Stored(dict(enumerate(rows)), dimensions), list[int]()

    def fetch(ids: list[int]) -> list[bytes]:
        asked.extend(ids)
        return stored.fetch(ids)

    stored.near.search(query, 10, fetch)
    differing, agreement = ((rows > 0) != (query > 0)).sum(axis=1), (rows > 0) @ query
    most = np.sort(differing)[LIKELY * CANDIDATES - 1]
    assert asked == sorted(set(asked))
    assert len(asked) == CANDIDATES
    assert differing[asked].max() <= most
    # Any of those with exactly `most` differing bits may be compared further.
    better = (differing < most) & (agreement > agreement[asked].min() + 1e-5)
    assert {*np.flatnonzero(better).tolist()} <= {*asked}


def test_the_best_passage_of_a_message_counts() -> None:
    rows = unit(30, DIMENSIONS)
    stored = Stored({1: rows[:3], 2: rows[3], 3: rows[4:12], 4: rows[:0], 5: rows[12:]})
    assert len(stored.near) == 30
    assert stored.search(np.zeros(DIMENSIONS, np.float32), 5) == []
    for place, owner in ((0, 1), (2, 1), (3, 2), (4, 3), (11, 3), (29, 5)):
        (first, cosine), *others = stored.near.search(rows[place], 10, stored.fetch)
        assert first == owner
        assert cosine > 0.999
        assert sorted(id for id, _ in others) == sorted({1, 2, 3, 5} - {owner})
        assert [other for _, other in others] == sorted([other for _, other in others], reverse=True)


def test_equally_near_messages_come_in_the_order_of_their_ids() -> None:
    row = unit(DIMENSIONS)
    stored = Stored(dict.fromkeys((9, 2, 30, 4, 1), row))
    assert stored.search(row, 4) == [1, 2, 4, 9]


def test_messages_deleted_meanwhile_are_not_found() -> None:
    rows = unit(5, DIMENSIONS)
    stored = Stored(dict(enumerate(rows)))
    del stored.packed[2]
    assert 2 not in stored.search(rows[2], 5)
    assert len(stored.search(rows[2], 5)) == 4


def test_a_wrong_signature_adds_nothing() -> None:
    near = Nearest(DIMENSIONS)
    with pytest.raises(ValueError, match="2 ids, 2 signatures of whole vectors, 12 bytes each"):
        near.add([1, 2], [bytes(12), bytes(13)])
    for ids in ([1], [1, 2, 3]):
        with pytest.raises(ValueError, match=f"{len(ids)} ids, 2 signatures"):
            near.add(ids, [bytes(12), bytes(12)])
    assert len(near) == 0
    assert near.search(unit(DIMENSIONS), 5, lambda ids: [b""] * len(ids)) == []


@given(st.lists(st.sets(st.integers(0, 12), max_size=6), max_size=12))
def test_messages_may_be_added_in_any_order(steps: list[set[int]]) -> None:
    rows = unit(13, 3, 16)
    near, there = Nearest(16), dict[int, np.ndarray]()
    for ids in steps:
        fresh = {id: rows[id, : 1 + id % 3] for id in sorted(ids - there.keys(), reverse=True)}
        near.add(list(fresh), [signature(each) for each in fresh.values()])
        there |= fresh
        assert len(near) == sum(map(len, there.values()))
        packed = {id: pack(each) for id, each in there.items()}
        found = near.search(rows[0, 0], 13, lambda ids, packed=packed: [packed[id] for id in ids])  # type: ignore[misc]
        assert {id for id, _ in found} == there.keys()
