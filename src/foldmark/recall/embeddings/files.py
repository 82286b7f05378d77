"""The folder of a sentence encoder, in the format of sentence-transformers: its small files and its weights.

`modules.json` lists the steps: a transformer (`config.json`), a pooling, perhaps a normalisation, which is always
applied here. Unsupported steps are refused, so that no vector is silently wrong.

The weights are a safetensors file: a JSON header after its length in 8 bytes, then the tensors. These are used in the
memory-mapped file: a query of ten words reads ten rows of the table of words, which is half of a small model.
"""

from collections.abc import Sequence
from math import prod
from mmap import mmap
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from foldmark.core.wording import listing
from foldmark.recall.embeddings import EmbeddingError

WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
Pooling = Literal["mean", "cls", "max"]
_Positive = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_POOLINGS: dict[str, Pooling] = {
    "mean_tokens": "mean",
    "mean": "mean",
    "mean_sqrt_len_tokens": "mean",  # another length, but vectors are normalised anyway
    "cls_token": "cls",
    "cls": "cls",
    "max_tokens": "max",
    "max": "max",
}
"""Keys are the names in older and newer versions of sentence-transformers."""

_LEAST = 8
"""Minimum number of tokens that a model must accept: a prompt and the special tokens must leave room for a text."""


class Shape(msgspec.Struct, frozen=True):
    """The parameters of an encoder, without its weights. Lengths are in tokens."""

    layers: int
    heads: int
    hidden: int
    epsilon: float
    first_position: int
    longest: int
    pooling: Pooling
    query_prompt: str
    document_prompt: str


class _Config(msgspec.Struct):
    model_type: str
    num_hidden_layers: _Positive
    num_attention_heads: _Positive
    hidden_size: _Positive
    max_position_embeddings: _Positive
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    position_embedding_type: str | None = "absolute"
    pad_token_id: Annotated[int, msgspec.Meta(ge=0)] | None = 0


class _Module(msgspec.Struct):
    type: str
    path: str = ""


class _Lengths(msgspec.Struct):
    """Maximum lengths from a file that may lack both: older versions write one, newer ones the other; 1e30 stands for
    unknown."""

    max_seq_length: float | None = None
    model_max_length: float | None = None


class _Prompts(msgspec.Struct):
    prompts: dict[str, str | None] = {}
    default_prompt_name: str | None = None


def read_shape(folder: Path) -> Shape:
    """Read the small files of a model's folder. Raises EmbeddingError if one is missing, damaged or unsupported."""
    config = _read(folder / "config.json", _Config)
    # RoBERTa counts positions from the one after the padding's.
    first = 0 if config.model_type == "bert" else (config.pad_token_id or 0) + 1
    room = config.max_position_embeddings - first
    wrong = {
        "hidden_act": config.hidden_act != "gelu",
        "position_embedding_type": config.position_embedding_type not in ("absolute", None),
        "model_type": config.model_type not in ("bert", "roberta", "xlm-roberta"),
        "max_position_embeddings": room < _LEAST,
        "hidden_size": config.hidden_size % config.num_attention_heads or config.hidden_size % 8,
    }
    for key, is_wrong in wrong.items():
        if is_wrong:
            raise EmbeddingError(
                f"{folder / 'config.json'} has {key} {getattr(config, key)}; only BERT encoders with gelu, at least 8 "
                "absolute positions and a size divisible by 8 and by the heads are supported; choose another model"
            )
    query, document = _prompts(folder)
    return Shape(
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        hidden=config.hidden_size,
        epsilon=config.layer_norm_eps,
        first_position=first,
        longest=_longest(folder, room),
        pooling=_pooling(folder),
        query_prompt=query,
        document_prompt=document,
    )


def _pooling(folder: Path) -> Pooling:
    modules = _read(folder / "modules.json", list[_Module])
    kinds = [module.type.rpartition(".")[2] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise EmbeddingError(
            f"{folder / 'modules.json'} lists {listing(kinds) or 'nothing'}; only Transformer, Pooling and Normalize "
            "are supported, in this order; choose another model"
        )
    path = folder / modules[1].path / "config.json"
    settings = _read(path, dict[str, object])
    flags = [key.removeprefix("pooling_mode_") for key, value in settings.items() if value is True]
    chosen = [mode for mode in (settings.get("pooling_mode"), *flags) if mode not in (None, "include_prompt")]
    found = {_POOLINGS.get(str(mode)) for mode in chosen}
    if len(found) != 1 or None in found or settings.get("include_prompt") is False:
        raise EmbeddingError(
            f"{path} asks for {listing(chosen) or 'no pooling'}; only one of mean, cls and max is supported, with the "
            "prompt included; choose another model"
        )
    return cast(Pooling, found.pop())


def _longest(folder: Path, room: int) -> int:
    """Return the number of tokens of a text that fit into a model with this many positions."""
    names = ("sentence_bert_config.json", "tokenizer_config.json")
    files = [_read(folder / name, _Lengths) for name in names if (folder / name).exists()]
    stated = next((each for file in files if (each := file.max_seq_length or file.model_max_length)), room)
    return int(max(_LEAST, min(stated, room)))


def _prompts(folder: Path) -> tuple[str, str]:
    """Return the prompts of a query and of a text to be searched, under the names that models use."""
    path = folder / "config_sentence_transformers.json"
    file = _read(path, _Prompts) if path.exists() else _Prompts()
    usual = file.prompts.get(file.default_prompt_name or "") or ""
    documents = [file.prompts.get(name) for name in ("document", "passage", "corpus")]
    return file.prompts.get("query") or usual, next(filter(None, documents), usual)


_T = TypeVar("_T")


def _read(path: Path, type: type[_T]) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=type)
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise EmbeddingError(f"the embedding model's {path} cannot be read: {error}; fetch the model again") from None


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
    """`words` (vocabulary, hidden); `positions` (longest, hidden), with the vector of the only token type added."""

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
                f"the embedding model's {name} is of type {tensor.dtype}; only F32, F16 and BF16 are supported; choose "
                "another model"
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
    def _missing(part: str) -> EmbeddingError:
        return EmbeddingError(f"the embedding model's weights do not have {part}; fetch the model again")
