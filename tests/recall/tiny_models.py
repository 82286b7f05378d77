"""Small encoders of the BERT family, made by a formula: the weights are the same everywhere, at any time."""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import TensorSpec, serialize_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "fold", "##mark", "mark", "query", "find", ":", "a", "the", "turn", "语"]
HIDDEN, INNER, LAYERS, POSITIONS = 16, 24, 2, 20

FAMILY: dict[str, dict[str, Any]] = {
    "mean": {"pooling": "mean_tokens"},
    "cls, prompts, bfloat16": {
        "pooling": "cls_token",
        "kind": "BF16",
        "prompts": {"query": "query : ", "passage": "the turn : "},
    },
    "max, positions behind the padding's, float16, prefix": {
        "pooling": "max_tokens",
        "kind": "F16",
        "model_type": "roberta",
        "prefix": "roberta.",
        "prompts": {"usual": "find : "},
        "default": "usual",
    },
}
"""Arguments of `write_model` by name; together they use every option of a folder."""


def write_model(
    folder: Path,
    pooling: str = "mean_tokens",
    kind: str = "F32",
    model_type: str = "bert",
    prefix: str = "",
    prompts: dict[str, str] | None = None,
    default: str | None = None,
) -> Path:
    """Write a model folder that sentence-transformers can read, too."""
    (folder / "1_Pooling").mkdir(parents=True)
    config = {
        "model_type": model_type,
        "architectures": ["BertModel" if model_type == "bert" else "RobertaModel"],
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 2,
        "max_position_embeddings": POSITIONS,
        "layer_norm_eps": 1e-6,
        "hidden_act": "gelu",
        "type_vocab_size": 2,
        "vocab_size": len(WORDS),
        "pad_token_id": 0,
    }
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    files = {
        "config.json": config,
        "modules.json": modules,
        "sentence_bert_config.json": {"max_seq_length": POSITIONS - 4, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": prompts or {}, "default_prompt_name": default},
        "1_Pooling/config.json": {"word_embedding_dimension": HIDDEN, f"pooling_mode_{pooling}": True}
        | ({} if pooling == "mean_tokens" else {"pooling_mode_mean_tokens": False}),
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]"},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    _tokenizer().save(str(folder / "tokenizer.json"))
    _write_weights(folder / "model.safetensors", kind, prefix)
    return folder


def _tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.add_special_tokens(WORDS[:4])
    return tokenizer


def _write_weights(path: Path, kind: str, prefix: str) -> None:
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), HIDDEN),
        "embeddings.position_embeddings.weight": (POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
    }
    norms = ["embeddings"]
    for layer in (f"encoder.layer.{number}" for number in range(LAYERS)):
        squares = ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"]
        sizes = dict.fromkeys(squares, (HIDDEN, HIDDEN))
        sizes |= {"intermediate.dense": (INNER, HIDDEN), "output.dense": (HIDDEN, INNER)}
        for name, size in sizes.items():
            shapes |= {f"{layer}.{name}.weight": size, f"{layer}.{name}.bias": size[:1]}
        norms += [f"{layer}.attention.output", f"{layer}.output"]
    shapes |= {f"{name}.LayerNorm.{part}": (HIDDEN,) for name in norms for part in ("weight", "bias")}
    arrays = {prefix + name: _as(kind, _values(name, shape)) for name, shape in shapes.items()}
    specs = {
        name: TensorSpec(
            dtype={"F32": "float32", "F16": "float16", "BF16": "bfloat16"}[kind],
            shape=list(array.shape),
            data_ptr=array.ctypes.data,
            data_len=array.nbytes,
        )
        for name, array in arrays.items()
    }
    serialize_file(specs, str(path), metadata={"format": "pt"})


def _values(name: str, shape: tuple[int, ...]) -> np.ndarray:
    waves: np.ndarray = np.sin(np.arange(np.prod(shape)) * 1.7 + zlib.crc32(name.encode()) % 1000).reshape(shape)
    return np.asarray(1 + 0.3 * waves if name.endswith("LayerNorm.weight") else 0.6 * waves)


def _as(kind: str, values: np.ndarray) -> np.ndarray:
    if kind == "BF16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(np.float32 if kind == "F32" else np.float16)
