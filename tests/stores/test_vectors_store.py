"""The promises of `foldmark.core.search.Vectors`, for the database and for the archive's index (SPEC 7, 8)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from postgres_harness import PostgresHarness
from sqlite_harness import SqliteHarness

from foldmark import Log
from foldmark.app import open_over
from foldmark.core.search import Coverage, Embedded, Vectors
from foldmark.sessions.archive.storing import archive_folder
from foldmark.sessions.archive.syncing import sync
from foldmark.sessions.archive.vectors import opened
from postgres_server import Databases

TEXTS = ("one", "two", "three", "four", "five")


class Place(NamedTuple):
    """A store that contains `TEXTS` in order, with their ids and functions to add a text and to open it again."""

    store: Vectors
    add: Callable[[str], object]
    again: Callable[[], Vectors]
    ids: list[int]


def vectors(log: Log) -> Vectors:
    assert log.store.vectors is not None
    return log.store.vectors


@pytest.fixture(params=["sqlite", "postgres", "archive"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param != "archive":
        harness = (
            SqliteHarness(tmp_path)
            if request.param == "sqlite"
            else PostgresHarness(request.getfixturevalue("postgres"))
        )
        store = harness.fresh()
        with open_over(store) as log, open_over(harness.open(store.address)) as other:
            agent = log.agent("default")

            def add(text: str) -> int:
                id = agent.append("user", text)
                agent.end_turn()
                return id

            yield Place(vectors(log), add, lambda: vectors(other), [add(text) for text in TEXTS])
            assert list(log.store.damage()) == []
        if isinstance(harness, PostgresHarness):
            harness.release()
        return
    environment = {"HOME": str(tmp_path), "FOLDMARK_ARCHIVE": str(tmp_path / "archive")}
    file = tmp_path / ".claude/projects/-p/aa11.jsonl"
    file.parent.mkdir(parents=True)
    said: list[str] = []

    def archive(text: str) -> None:
        role = "assistant" if len(said) % 2 else "user"
        content = text if role == "user" else [{"type": "text", "text": text}]
        said.append(json.dumps({"type": role, "uuid": f"u{len(said)}", "message": {"role": role, "content": content}}))
        file.write_text("\n".join(said) + "\n")
        sync(environment)

    for text in TEXTS:
        archive(text)
    folder = archive_folder(environment)
    with opened(folder) as archived, opened(folder) as other_archive:
        yield Place(archived, archive, lambda: other_archive, [1, 2, 3, 4, 5])


def made(id: int) -> Embedded:
    return Embedded(id, bytes([id]) * 16, bytes([id]) * 2)


def test_a_new_database_has_no_vectors(place: Place) -> None:
    store = place.store
    assert store.embedders() == {}
    assert list(store.signatures("a", 0)) == []
    assert store.vectors("a", place.ids) == [b""] * 5
    assert store.coverage("a") == Coverage(0, 5, 0)
    store.remove_vectors("a")


def test_messages_come_in_order_with_the_text_before_them(place: Place) -> None:
    store, ids = place.store, place.ids
    found, until, newest = store.unembedded(0, 2)
    assert [tuple(each) for each in found] == [(ids[0], "one", ""), (ids[1], "two", "one")]
    assert until == ids[1]
    assert newest >= ids[4]
    found, until, _ = store.unembedded(until, 3)
    assert [(each.text, each.before) for each in found] == [("three", "two"), ("four", "three"), ("five", "four")]
    found, until, newest = store.unembedded(until, 3)
    assert (found, until) == ([], newest)
    place.add("six")
    found, until, newest = store.unembedded(until, 3)
    assert [each.text for each in found] == ["six"]
    assert until == newest


def test_stored_vectors_are_read_unchanged(place: Place) -> None:
    store, ids = place.store, place.ids
    store.save_vectors("a", [made(ids[0]), made(ids[1])], ids[1])
    assert store.embedders() == {"a": ids[1]}
    assert store.vectors("a", [ids[1], 10**12, ids[0], ids[2]]) == [made(ids[1])[1], b"", made(ids[0])[1], b""]
    assert list(store.signatures("a", 0)) == [(id, made(id).signature) for id in ids[:2]]
    assert list(store.signatures("a", ids[0])) == [(ids[1], made(ids[1]).signature)]
    assert store.coverage("a") == Coverage(2, 5, 36)
    assert place.again().coverage("a") == Coverage(2, 5, 36)


def test_models_have_separate_vectors(place: Place) -> None:
    store, ids = place.store, place.ids
    store.save_vectors("a", [made(ids[0])], ids[0])
    store.save_vectors("b", [made(ids[1])], ids[1])
    assert store.embedders() == {"a": ids[0], "b": ids[1]}
    assert store.vectors("b", ids[:2]) == [b"", made(ids[1]).vectors]
    store.remove_vectors("a")
    assert store.embedders() == {"b": ids[1]}
    assert store.coverage("a") == Coverage(0, 5, 0)
    assert store.vectors("b", [ids[1]]) == [made(ids[1]).vectors]


def test_two_writers_at_once_do_no_harm(place: Place) -> None:
    store, ids = place.store, place.ids
    for each in (store, place.again()):
        each.save_vectors("a", [made(id) for id in ids[:3]], ids[2])
    place.again().save_vectors("a", [made(ids[0])], ids[0])
    assert store.embedders() == {"a": ids[2]}, "who is behind takes nothing back"
    assert store.coverage("a") == Coverage(3, 5, 54)


def test_only_messages_get_vectors(place: Place) -> None:
    place.store.save_vectors("a", [made(200)], place.ids[-1])
    assert list(place.store.signatures("a", 0)) == []
    assert place.store.embedders() == {"a": place.ids[-1]}


def test_erased_messages_have_no_vectors_and_no_message_is_read_twice(postgres: Databases, tmp_path: Path) -> None:
    """This also holds in several conversations, and if a reader continues after a message erased meanwhile."""
    for harness in (SqliteHarness(tmp_path), PostgresHarness(postgres)):
        with open_over(harness.fresh()) as log:
            agents, store = [log.agent(name) for name in "ab"], log.store.vectors
            assert store is not None
            said = []
            for number in range(3):
                for agent in agents:
                    said.append(agent.append("user", f"{agent.name} {number}"))
                    agent.end_turn()
            found, until, newest = store.unembedded(0, 100)
            assert [each.text for each in found] == ["a 0", "b 0", "a 1", "b 1", "a 2", "b 2"]
            assert [each.before for each in found] == ["", "", "a 0", "b 0", "a 1", "b 1"]
            assert until == newest
            step, until, _ = store.unembedded(0, 3)
            store.save_vectors("m", [Embedded(each.id, b"v" * 16, b"s" * 2) for each in step], until)
            assert store.embedders() == {"m": said[2]}
            assert [id for id, _ in store.signatures("m", 0)] == said[:3]
            rest, until, newest = store.unembedded(until, 100)
            assert [each.id for each in rest] == said[3:]
            store.save_vectors("m", [Embedded(each.id, b"v" * 16, b"s" * 2) for each in rest], until)
            agents[0].do(f"/message remove {said[2]} --yes")
            assert sorted(id for id, _ in store.signatures("m", 0)) == sorted({*said} - {said[2]})
            if isinstance(harness, PostgresHarness):
                assert [id for id, _ in store.signatures("m", said[2])] == said[3:]
            assert store.vectors("m", said) == [b"" if id == said[2] else b"v" * 16 for id in said]
            assert store.coverage("m")[:2] == (5, 5)
        if isinstance(harness, PostgresHarness):
            harness.release()
