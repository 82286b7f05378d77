"""The folder of a sentence encoder, in the format of sentence-transformers: its small files.

`modules.json` lists the steps: a transformer (`config.json`), a pooling, perhaps a normalisation, which is always
applied here. Unsupported steps are refused, so that no vector is silently wrong.
"""

from pathlib import Path
from typing import Annotated, Literal, TypeVar, cast

import msgspec

from foldmark.core.wording import listing
from foldmark.recall.embeddings.embedder import EmbeddingError

WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"

Pooling = Literal["mean", "cls", "max"]

_Positive = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_POOLINGS: dict[str, Pooling] = {
    "mean_tokens": "mean",
    "mean": "mean",
    "mean_sqrt_len_tokens": "mean",  # another length, but vectors are brought to unit length anyway
    "cls_token": "cls",
    "cls": "cls",
    "max_tokens": "max",
    "max": "max",
}
"""By the names in older and newer versions of sentence-transformers."""


_LEAST = 8
"""Minimum number of tokens that a model must take: a prompt and the special tokens must leave room for a text."""


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
    """From a file that may lack both: older versions write one, newer ones the other, 1e30 for unknown."""

    max_seq_length: float | None = None
    model_max_length: float | None = None


class _Prompts(msgspec.Struct):
    prompts: dict[str, str | None] = {}
    default_prompt_name: str | None = None


def read_shape(folder: Path) -> Shape:
    """Read the small files of a model's folder. Raises EmbeddingError if one is missing, damaged or unsupported."""
    config = _read(folder / "config.json", _Config)
    # RoBERTa counts positions from after the padding's.
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
                f"{folder / 'config.json'} has {key} {getattr(config, key)}; only encoders of the kind of BERT are "
                "understood, with gelu, 8 absolute positions or more, a size that heads and 8 divide; take another one"
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
            "are understood, in this order; take another model"
        )
    path = folder / modules[1].path / "config.json"
    settings = _read(path, dict[str, object])
    flags = [key.removeprefix("pooling_mode_") for key, value in settings.items() if value is True]
    chosen = [mode for mode in (settings.get("pooling_mode"), *flags) if mode not in (None, "include_prompt")]
    found = {_POOLINGS.get(str(mode)) for mode in chosen}
    if len(found) != 1 or None in found or settings.get("include_prompt") is False:
        raise EmbeddingError(
            f"{path} asks for {listing(chosen) or 'no pooling'}; mean, cls and max are understood, one of them, with "
            "the prompt included; take another model"
        )
    return cast(Pooling, found.pop())


def _longest(folder: Path, room: int) -> int:
    """Return the maximum number of tokens of a text, for a model with this many positions."""
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
