"""What `foldmark.core.vectors.Vectors` promises, of the database and of the archive's index (SPEC 7, 8)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import foldmark
from foldmark.core.vectors import Coverage, Embedded, Vectors
from foldmark.sessions.archive.storing import archive_folder
from foldmark.sessions.archive.syncing import sync
from foldmark.sessions.archive.vectors import opened

TEXTS = ("one", "two", "three", "four", "five")


class Place(NamedTuple):
    """A store with `TEXTS` in it, one after the other; what adds a text, what opens it a second time, and the ids."""

    store: Vectors
    add: Callable[[str], object]
    again: Callable[[], Vectors]
    ids: list[int]


@pytest.fixture(params=["database", "archive"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "database":
        path = str(tmp_path / "log.db")
        with foldmark.open(path, settings={}) as log, foldmark.open(path, settings={}) as other:
            agent = log.agent("default")

            def add(text: str) -> int:
                id = agent.append("user", text)
                agent.end_turn()
                return id

            yield Place(log.store.vectors, add, lambda: other.store.vectors, [add(text) for text in TEXTS])
            assert list(log.store.damage()) == []
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
    with opened(folder) as store, opened(folder) as other_store:
        yield Place(store, archive, lambda: other_store, [1, 2, 3, 4, 5])


def made(id: int) -> Embedded:
    return Embedded(id, bytes([id]) * 16, bytes([id]) * 2)


def test_nothing_is_there_at_first(place: Place) -> None:
    store = place.store
    assert store.embedders() == {}
    assert list(store.signatures("a", 0)) == []
    assert store.vectors("a", place.ids) == [b""] * 5
    assert store.coverage("a") == Coverage(0, 5, 0)
    store.remove_vectors("a")


def test_messages_come_in_order_with_what_was_said_before(place: Place) -> None:
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


def test_what_was_stored_comes_back(place: Place) -> None:
    store, ids = place.store, place.ids
    store.save_vectors("a", [made(ids[0]), made(ids[1])], ids[1])
    assert store.embedders() == {"a": ids[1]}
    assert store.vectors("a", [ids[1], 10**12, ids[0], ids[2]]) == [made(ids[1])[1], b"", made(ids[0])[1], b""]
    assert list(store.signatures("a", 0)) == [(id, made(id).signature) for id in ids[:2]]
    assert list(store.signatures("a", ids[0])) == [(ids[1], made(ids[1]).signature)]
    assert store.coverage("a") == Coverage(2, 5, 36)
    assert place.again().coverage("a") == Coverage(2, 5, 36)


def test_a_model_is_nothing_to_another(place: Place) -> None:
    store, ids = place.store, place.ids
    store.save_vectors("a", [made(ids[0])], ids[0])
    store.save_vectors("b", [made(ids[1])], ids[1])
    assert store.embedders() == {"a": ids[0], "b": ids[1]}
    assert store.vectors("b", ids[:2]) == [b"", made(ids[1]).vectors]
    store.remove_vectors("a")
    assert store.embedders() == {"b": ids[1]}
    assert store.coverage("a") == Coverage(0, 5, 0)
    assert store.vectors("b", [ids[1]]) == [made(ids[1]).vectors]


def test_two_at_once_do_no_harm(place: Place) -> None:
    store, ids = place.store, place.ids
    for each in (store, place.again()):
        each.save_vectors("a", [made(id) for id in ids[:3]], ids[2])
    place.again().save_vectors("a", [made(ids[0])], ids[0])
    assert store.embedders() == {"a": ids[2]}, "who is behind takes nothing back"
    assert store.coverage("a") == Coverage(3, 5, 54)


def test_what_is_no_message_gets_none(place: Place) -> None:
    place.store.save_vectors("a", [made(200)], place.ids[-1])
    assert list(place.store.signatures("a", 0)) == []
    assert place.store.embedders() == {"a": place.ids[-1]}
