"""The weights of an encoder, from a safetensors file: a JSON header after its length in 8 bytes, then the tensors.

The tensors are used in the memory-mapped file: a query of ten words reads ten rows of the table of words, which is half
of a small model.
"""

from collections.abc import Sequence
from math import prod
from mmap import mmap
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from foldmark.recall.embeddings.embedder import EmbeddingError
from foldmark.recall.embeddings.folder import Shape

Floats: TypeAlias = NDArray[np.float32]

_KINDS: dict[str, type[np.generic]] = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}


class Dense(msgspec.Struct, frozen=True):
    """A linear layer: y = x·weight + bias, the weight (inputs, outputs)."""

    weight: Floats
    bias: Floats


class Norm(msgspec.Struct, frozen=True):
    """A layer normalisation's factors and summands, (hidden,) each."""

    factor: Floats
    summand: Floats


class EncoderLayer(msgspec.Struct, frozen=True):
    """One layer. `attention` computes queries, keys and values side by side, the queries scaled for the softmax."""

    attention: Dense
    output: Dense
    output_norm: Norm
    inner: Dense
    outer: Dense
    outer_norm: Norm


class Weights(msgspec.Struct, frozen=True):
    """`words` (vocabulary, hidden); `positions` (longest, hidden), the vector of the only type of token added."""

    words: Floats
    positions: Floats
    norm: Norm
    layers: tuple[EncoderLayer, ...]


class _Tensor(msgspec.Struct, frozen=True):
    """The header's entry for a tensor; `data_offsets` count from its end."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def read_weights(data: mmap | bytes, shape: Shape) -> Weights:
    """Return the weights in a safetensors file of float32, float16 or bfloat16. Raises EmbeddingError for missing
    ones."""
    start = 8 + int.from_bytes(data[:8], "little")
    try:
        header = msgspec.json.decode(data[8:start], type=dict[str, msgspec.Raw])
        header.pop("__metadata__", None)
        file = {name: msgspec.json.decode(each, type=_Tensor) for name, each in header.items()}
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise EmbeddingError(f"the embedding model's weights are damaged: {error}; fetch the model again") from None
    return _WeightsReader(data, start, file, shape).weights()


class _WeightsReader:
    def __init__(self, data: mmap | bytes, start: int, file: dict[str, _Tensor], shape: Shape) -> None:
        self._data, self._start, self._file, self._shape = data, start, file, shape
        ending = "embeddings.word_embeddings.weight"
        # Some files store the name of the whole model as a prefix, as in bert.embeddings.…
        self._begin = next((name.removesuffix(ending) for name in file if name.endswith(ending)), "")

    def weights(self) -> Weights:
        hidden, first = self._shape.hidden, self._shape.first_position
        positions = self._table("embeddings.position_embeddings.weight", (None, hidden))
        types = self._table("embeddings.token_type_embeddings.weight", (None, hidden))
        if len(positions) < first + self._shape.longest:
            raise self._missing(f"positions up to {first + self._shape.longest}")
        return Weights(
            words=self._table("embeddings.word_embeddings.weight", (None, hidden)),
            positions=positions[first : first + self._shape.longest] + types[0],
            norm=self._norm("embeddings"),
            layers=tuple(self._layer(f"encoder.layer.{number}.") for number in range(self._shape.layers)),
        )

    def _layer(self, name: str) -> EncoderLayer:
        hidden = self._shape.hidden
        parts = [self._dense(f"{name}attention.self.{part}", hidden, hidden) for part in ("query", "key", "value")]
        scale = np.float32((hidden // self._shape.heads) ** -0.5)
        parts[0] = Dense(parts[0].weight * scale, parts[0].bias * scale)
        inner = self._dense(f"{name}intermediate.dense", hidden, None)
        return EncoderLayer(
            attention=Dense(
                # Stored with one row per output, like every other weight: read in the order of storage.
                np.concatenate([part.weight.T for part in parts]).T,
                np.concatenate([part.bias for part in parts]),
            ),
            output=self._dense(f"{name}attention.output.dense", hidden, hidden),
            output_norm=self._norm(f"{name}attention.output"),
            inner=inner,
            outer=self._dense(f"{name}output.dense", len(inner.bias), hidden),
            outer_norm=self._norm(f"{name}output"),
        )

    def _dense(self, name: str, inputs: int, outputs: int | None) -> Dense:
        weight = self._table(f"{name}.weight", (outputs, inputs)).T
        return Dense(weight, self._table(f"{name}.bias", (weight.shape[1],)))

    def _norm(self, name: str) -> Norm:
        size = (self._shape.hidden,)
        return Norm(self._table(f"{name}.LayerNorm.weight", size), self._table(f"{name}.LayerNorm.bias", size))

    def _table(self, name: str, shape: Sequence[int | None]) -> Floats:
        """Return a tensor as float32, of this shape; None stands for any size."""
        tensor = self._file.get(self._begin + name)
        if tensor is None:
            raise self._missing(name)
        kind = _KINDS.get(tensor.dtype)
        if kind is None:
            raise EmbeddingError(
                f"the embedding model's {name} is of type {tensor.dtype}; F32, F16 and BF16 are understood"
            )
        found = tensor.shape
        if len(found) != len(shape) or any(want not in (None, size) for want, size in zip(shape, found, strict=True)):
            wanted = "×".join("…" if want is None else str(want) for want in shape)
            raise self._missing(f"{name} as {wanted}, but as {'×'.join(map(str, found))}")
        begin, end = (self._start + offset for offset in tensor.data_offsets)
        count = prod(found)
        if not self._start <= begin <= end <= len(self._data) or end - begin != count * np.dtype(kind).itemsize:
            raise self._missing(f"{name} whole")
        values = np.frombuffer(self._data, kind, count, begin).reshape(found) if count else np.empty(found, kind)
        if kind is np.uint16:  # bfloat16 is the upper half of a float32
            values = (values.astype(np.uint32) << 16).view(np.float32)
        return np.require(values, np.float32, ["C", "A"])  # copies other types and unaligned data

    @staticmethod
    def _missing(what: str) -> EmbeddingError:
        return EmbeddingError(f"the embedding model's weights do not have {what}; fetch the model again")
