"""Vectors kept up to date in the background of a chat or a server; nobody waits for them (SPEC 7)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from bag_model import NAME, write_site

import foldmark
import forked
from foldmark import app
from foldmark.core.search import Vectors
from foldmark.recall.embeddings import model as models
from foldmark.recall.embeddings import stored as embedding
from foldmark.settings.given import Settings
from foldmark.settings.loading import program_settings
from foldmark.stores.sqlite.store import SqliteStore
from patience import LIMIT


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    site = write_site(tmp_path / "site")
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "bag_of_letters", raising=False)
    monkeypatch.setenv("FOLDMARK_ARCHIVE", str(tmp_path / "archive"))
    monkeypatch.setattr(embedding, "EVERY", 0.02)
    models.kept.cache_clear()
    yield program_settings({"recall_model": NAME})
    assert not [thread for thread in threading.enumerate() if thread.name == "embedding"]


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def covered(path: str) -> tuple[int, int]:
    store = SqliteStore(path)
    try:
        return store.vectors.coverage("bag-1")[:2]
    finally:
        store.close()


def opened(path: str, settings: Settings) -> foldmark.Log:
    return foldmark.open(path, settings={"recall_model": NAME})


def test_new_messages_get_vectors_in_the_background(path: str, settings: Settings) -> None:
    with opened(path, settings) as log, app.embedding(path, settings), app.embedding(path, settings):
        agent = log.agent("default")
        agent.append("user", "before")
        assert log.store.vectors is not None
        assert log.store.vectors.embedders() == {}, "nobody asked for vectors"
        log.meanings().bring_up()
        for number in range(20):
            agent.append("user", f"word {number}")
            agent.end_turn()
        until(lambda: covered(path) == (21, 21))
        agent.append("user", "and one more")
        until(lambda: covered(path) == (22, 22))
    assert list(SqliteStore(path).damage()) == []


def test_a_database_without_vectors_gets_none(path: str, settings: Settings, tmp_path: Path) -> None:
    with app.embedding(path, settings):
        with opened(path, settings) as log:
            log.agent("default").append("user", "word")
        time.sleep(0.2)
    assert covered(path) == (0, 1)
    assert "bag_of_letters" not in sys.modules
    assert not (tmp_path / "archive").exists()


def test_a_locked_database_is_tried_again(path: str, settings: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    with opened(path, settings) as log:
        agent = log.agent("default")
        agent.append("user", "one")
        log.meanings().bring_up()
        agent.append("user", "two")
    locking = apsw.Connection(path)
    locking.execute("BEGIN EXCLUSIVE")
    with app.embedding(path, settings):
        time.sleep(0.3)
        locking.execute("COMMIT")
        locking.close()
        until(lambda: covered(path) == (2, 2))
    assert capfd.readouterr() == ("", "")


def test_a_failing_model_is_silent(
    path: str, settings: Settings, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path, settings) as log:
        agent = log.agent("default")
        agent.append("user", "one")
        log.meanings().bring_up()
        failed = threading.Event()

        def fail(*_: object) -> None:
            failed.set()
            raise ValueError("broken")

        monkeypatch.setattr(type(log.meanings().embedder), "embed", fail)
        with app.embedding(path, settings):
            agent.append("user", "two")
            assert failed.wait(LIMIT)
            agent.append("user", "three")
        assert len(log.search("three", mode="text")) == 1
    assert capfd.readouterr() == ("", "")


def test_the_thread_ends_between_two_texts(path: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(path, settings) as log:
        agent = log.agent("default")
        agent.append("user", "one")
        log.meanings().bring_up()
        embedder = type(log.meanings().embedder)
        whole, begun, left, asked = embedder.embed, threading.Event(), threading.Event(), list[int]()

        def slow(self: Any, texts: list[str]) -> Any:
            asked.append(len(texts))
            begun.set()
            assert left.wait(LIMIT)
            return whole(self, texts)

        monkeypatch.setattr(embedder, "embed", slow)
        monkeypatch.setattr(embedding, "LEAVING", 0)  # else leaving would wait for the text that waits for the leaving
        with agent.batch():
            for number in range(100):
                agent.append("user", f"word {number}")
        with app.embedding(path, settings):
            assert begun.wait(LIMIT)
        left.set()
        until(lambda: not [thread for thread in threading.enumerate() if thread.name == "embedding"])
        assert asked == [1]
        assert covered(path) == (1, 101)


def test_an_unchanged_database_is_not_opened(path: str, settings: Settings) -> None:
    opening: list[float] = []

    @contextmanager
    def source() -> Iterator[Vectors]:
        opening.append(time.monotonic())
        with closing(SqliteStore(path)) as store:
            yield store.vectors

    with opened(path, settings) as log, embedding.kept_up([embedding.VectorDatabase(Path(path), source)], NAME):
        log.agent("default").append("user", "word")
        until(lambda: len(opening) > 0 and time.monotonic() - opening[-1] > 0.3)
        before = len(opening)
        log.agent("default").append("user", "word")
        until(lambda: len(opening) > before)


def test_a_write_that_is_committed_later_is_not_missed(path: str, settings: Settings) -> None:
    """The file changes first; others see the new content only once it is on the disk."""
    with opened(path, settings) as log:
        agent = log.agent("default")
        agent.append("user", "one")
        log.meanings().bring_up()
        agent.append("user", "two")
        early = True

        @contextmanager
        def source() -> Iterator[Vectors]:
            nonlocal early
            with opened(str(path) + "-before" if early else path, settings) as looked_at:
                early = False
                assert looked_at.store.vectors is not None
                yield looked_at.store.vectors

        with embedding.kept_up([embedding.VectorDatabase(Path(path), source)], NAME):
            until(lambda: covered(path) == (2, 2))


@pytest.mark.parametrize("command", [["chat", "default"], ["mcp"], ["mcp", "--http", "0"]])
def test_a_chat_and_a_server_keep_vectors_up_to_date(
    path: str, settings: Settings, tmp_path: Path, command: list[str]
) -> None:
    with opened(path, settings) as log:
        agent = log.agent("default")
        agent.append("user", "one")
        log.meanings().bring_up()
        agent.append("user", "two")
        agent.end_turn()
    script = (
        "from foldmark.recall.embeddings import stored as embedding\nembedding.EVERY = 0.02\n"
        f"from foldmark.cli.program import main\nmain({command!r})\n"
    )
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "FOLDMARK_DB": path,
        "FOLDMARK_RECALL_MODEL": NAME,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(tmp_path / "site"), os.environ.get("PYTHONPATH")))),
    }
    with forked.Popen(
        [sys.executable, "-c", script],
        site=tmp_path / "site",
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        until(lambda: covered(path) == (2, 2))
        if "--http" in command:
            process.terminate()
        _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == (-signal.SIGTERM if "--http" in command else 0)
    assert b"Traceback" not in errors
