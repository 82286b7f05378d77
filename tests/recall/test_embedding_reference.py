"""Vectors compared with another implementation's (SPEC 7).

`embedding_reference.json` was written by this file, run as a program in a separate environment with PyTorch 2.13.0
(CPU), transformers 5.23.0 and sentence-transformers 6.2.0; it takes the folder of the default model and holds eight
components of each vector. Run it again, with src and tests/recall on the path, after a change of the texts or of
`tiny_models.py`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tiny_models import FAMILY, write_model

from foldmark.recall.embeddings.model import DEFAULT, load

REFERENCE = Path(__file__).with_name("embedding_reference.json")
NEAR = 1e-5
QUERIES = 3
"""Number of texts that are also embedded as queries."""

TEXTS = [
    "x",
    "hello world",
    "When did Caroline go to the support group?",
    "The quick brown fox jumps over the lazy dog. " * 5,
    "naïve café, Ünïcödé and ﬁligree: ½ ™ ﷺ",
    "你好,世界。今天天气很好,我们去公园散步吧。",
    "日本語のテキストです。ひらがなとカタカナ",
    "한국어 문장과 русский текст и ελληνικά",
    "def get_user_name(self) -> str:\n    return self._user_name  # TODO",
    '{"tool": "read_file", "arguments": {"path": "/etc/hosts", "limit": 2000}}',
    "Traceback (most recent call last):\n  File \"a.py\", line 3\nValueError: invalid literal: '0x1F'",
    "😀🎉 party 👩‍👩‍👧 and 🇫🇷",
    "[SEP]",
    "a [SEP] b [CLS] [MASK] [PAD] c [UNK]",
    "-----=====*****",
    "  tabs\tand\nnew lines  \r\n and\u00a0others\u2028end ",
    "a nul\x00, a bell\x07 and a \ufffd",
    "1234567890 3.14159 0xdeadbeef 2026-11-22T15:05:30Z",
    "e" * 99 + " " + "f" * 101,
    "a word that comes again, and again; " * 60,
    "长" * 400,
]
TINY_TEXTS = ["fold", "the turn: a FOLDMARK", "unknown things", "a fold [SEP] mark", "语 语", "mark the turn " * 20]


def _model(name: str, folder: Path) -> str:
    return name if name == DEFAULT else str(write_model(folder / str(list(FAMILY).index(name)), **FAMILY[name]))


@pytest.mark.parametrize("name", [DEFAULT, *FAMILY])
def test_vectors_equal_those_of_the_reference_implementation(name: str, tmp_path: Path) -> None:
    if name == DEFAULT and find_spec(DEFAULT.replace("-", "_")) is None:
        pytest.skip("the package with the model is not installed")
    model = load(_model(name, tmp_path))
    texts = TEXTS if name == DEFAULT else TINY_TEXTS
    expected = json.loads(REFERENCE.read_text())[name]
    step = model.dimensions // 8
    found = model.embed(texts)
    assert found.shape == (len(texts), model.dimensions)
    assert abs((found**2).sum(axis=1) - 1).max() < NEAR
    for text, vector, document in zip(texts, found, expected["documents"], strict=True):
        assert vector[::step].tolist() == pytest.approx(document, abs=NEAR), text
    for text, query in zip(texts[:QUERIES], expected["queries"], strict=True):
        assert model.embed_query(text)[::step].tolist() == pytest.approx(query, abs=NEAR), text


def _write() -> None:
    from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in (DEFAULT, *FAMILY):
            path = sys.argv[1] if name == DEFAULT else _model(name, Path(folder))
            model = SentenceTransformer(path, device="cpu", model_kwargs={"dtype": "float32"})
            texts = TEXTS if name == DEFAULT else TINY_TEXTS
            found[name] = {}
            for key, prompts in {"documents": ("document", "passage"), "queries": ("query",)}.items():
                prompt = next((each for each in prompts if model.prompts.get(each)), None)
                some = texts if key == "documents" else texts[:QUERIES]
                vectors = model.encode(some, prompt_name=prompt, normalize_embeddings=True)
                found[name][key] = [[round(float(each), 6) for each in row[:: row.size // 8]] for row in vectors]
    lines = json.dumps(found, ensure_ascii=False).replace("[[", "[\n  [").replace("], [", "],\n  [")
    REFERENCE.write_text(lines + "\n")


if __name__ == "__main__":
    _write()
