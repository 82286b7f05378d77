"""The store in examples/jsonl_store passes the contract, and its file is as it promises."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest
from jsonl_store import SCHEME, JsonlStore
from sqlite_harness import clock, move_clock

from foldmark import StoreError
from foldmark.core.ports import Store
from foldmark.testing import Damage, Harness, StoreContract
from foldmark.testing.suite import NOW, append, draft, erase, root, save_memo, texts_of


def path_of(store: Store) -> Path:
    """Return the file of a store."""
    return Path(store.address.removeprefix(SCHEME))


class JsonlHarness(Harness):
    """Files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, 0

    def fresh(self) -> JsonlStore:
        self._number += 1
        return JsonlStore(f"{SCHEME}{self._folder / f'{self._number}.jsonl'}", clock=clock)

    def open(self, address: str) -> JsonlStore:
        return JsonlStore(address, create=False, clock=clock)

    def counting(self, store: Store) -> AbstractContextManager[list[str]]:
        pytest.skip("a file runs no statements")

    def plant(self, store: Store, damage: Damage, event_id: int) -> None:
        if damage not in (Damage.CONTENT, Damage.DATA):
            pytest.skip("sums are computed from the events, and segments that are not readable as well")
        lines = path_of(store).read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(lines[1:-1], 1):
            rows: list[Any] = json.loads(line)
            for _, (table, key, value) in rows:
                if (table, key) == ("events", event_id) and damage is Damage.CONTENT:
                    value["content"] = "x" + value["content"][1:]
                elif (table, key) == ("events", event_id):
                    value["data"] = value["data"][:5]
            lines[number] = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
        edited = path_of(store).with_suffix(".edited")
        edited.write_text("\n".join(lines), encoding="utf-8")
        edited.replace(path_of(store))

    def move_clock(self, store: Store, seconds: float) -> AbstractContextManager[None]:
        return move_clock(seconds)


class TestJsonlStore(StoreContract):
    """A database in a file of JSON lines."""

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Harness:
        return JsonlHarness(tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JsonlStore]:
    with closing(JsonlHarness(tmp_path).fresh()) as store:
        yield store


@pytest.mark.parametrize("torn", [b"[", b'[[1,["runs","x",null]]', b"\0" * 5000])
def test_an_unfinished_line_is_no_transaction(store: JsonlStore, torn: bytes) -> None:
    """Readers ignore it, and the next writer cuts it off."""
    agent, path = root(store), path_of(store)
    append(store, agent, draft(content="one"))
    before = path.read_bytes()
    with path.open("ab") as file:
        file.write(torn)
    with closing(JsonlStore(store.address, create=False)) as other:
        assert texts_of(store, agent) == texts_of(other, agent) == ["one"]
        assert list(store.damage()) == []
        assert path.read_bytes() == before + torn
        append(other, agent, draft(content="two"))
    assert path.read_bytes().startswith(before + b"[[")
    assert texts_of(store, agent) == ["one", "two"]


def test_a_transaction_that_could_not_be_recorded_leaves_nothing(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, path, write = root(store), path_of(store), os.pwrite
    before = path.read_bytes()

    def fill(file: int, text: bytes, at: int) -> int:
        if at > len(before):
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        return write(file, text[:10], at)

    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", fill)
        with pytest.raises(StoreError, match="No space left on device; check the file and its disk"):
            append(store, agent, draft(content="lost"))
    assert path.read_bytes() == before
    assert texts_of(store, agent) == []
    append(store, agent, draft(content="one"))
    assert texts_of(store, agent) == ["one"]


def test_what_was_erased_is_gone_from_the_folder(store: JsonlStore) -> None:
    agent, path = root(store), path_of(store)
    with closing(JsonlStore(store.address, create=False)) as other:
        (turn, _) = append(store, agent, draft(content="secret"), draft("turn_ended", ""))
        append(store, agent, draft(content="kept"))
        memo = save_memo(other, "private")
        cursor = changed(other, None)[1]
        with store.write() as writing:
            erase(writing, agent, turn)
            writing.remove_memo(memo)
        for file in path.parent.iterdir():
            assert not {b"secret", b"private"} & {*re.findall(rb"secret|private", file.read_bytes())}
        assert texts_of(other, agent) == texts_of(store, agent) == ["kept"]
        assert changed(other, cursor)[0] == ["redact"]
        append(other, agent, draft(content="more"))
        assert texts_of(store, agent) == ["kept", "more"]
        assert list(store.damage()) == []


def changed(store: Store, after: str | None) -> tuple[list[str], str]:
    """Return the kinds of the changes after a cursor, and the next cursor."""
    with store.read() as moment:
        found = moment.changes(after, 100)
    return [each.kind for each in found.changes], found.cursor


def test_only_this_user_reads_the_files(store: JsonlStore) -> None:
    root(store)
    with store.write() as writing:
        writing.remove_memo(writing.save_memo("x", (), None, "human", NOW))
    assert {each.stat().st_mode & 0o777 for each in path_of(store).parent.iterdir()} == {0o600}


@pytest.mark.parametrize("text", [b"my notes", b"my notes\n", b"SQLite format 3\0\n"])
def test_another_file_is_refused_and_left_as_it_is(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "notes"
    file.write_bytes(text)
    with pytest.raises(StoreError, match="is no database of JSON lines"):
        JsonlStore(f"{SCHEME}{file}")
    assert file.read_bytes() == text
    with pytest.raises(StoreError, match="there is no database at"):
        JsonlStore(f"{SCHEME}{file}.jsonl", create=False)


def test_a_line_that_is_no_json_is_named(store: JsonlStore) -> None:
    append(store, root(store), draft())
    path = path_of(store)
    path.write_bytes(path.read_bytes().replace(b"[[", b"x[", 1))
    assert "the line that begins with b'x[" in next(store.damage())
    with pytest.raises(StoreError, match="is no list"):
        JsonlStore(store.address)
