"""Vectors of archived messages: which messages have them; they stay and go with their messages (SPEC 7, 8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest
from archive_place import Home, codex_item
from session_records import assistant, call, jsonl, result, user

from foldmark.core.search import ANY, Filters, SearchResult
from foldmark.log.search import search_everything
from foldmark.recall.embeddings.model import DEFAULT, kept
from foldmark.recall.embeddings.stored import StoredVectors
from foldmark.sessions.archive import vectors
from foldmark.sessions.archive.index import IndexFileError
from foldmark.sessions.archive.searching import opened


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def embed(home: Home) -> int:
    with vectors.opened(home.archive) as store:
        return StoredVectors(store, kept(DEFAULT)).bring_up()


def held(home: Home) -> set[tuple[str, int]]:
    """Return the file and line of each message with vectors; a vector without a message is an error."""
    db = apsw.Connection(str(home.archive / "index.db"))
    try:
        ids = [set(db.execute(f"SELECT message FROM {table}")) for table in ("vectors", "signatures")]
        assert ids[0] == ids[1]
        sql = "SELECT m.id, f.path, m.line FROM messages m JOIN files f ON f.id = m.file"
        places = {id: (Path(path.decode()).stem, line) for id, path, line in db.execute(sql)}
        return {places[id] for (id,) in ids[0]}
    finally:
        db.close()


def found(home: Home, query: str, filters: Filters = ANY, limit: int = 5) -> list[SearchResult]:
    with opened(home.archive, filters) as archive:
        return search_everything(query, limit, filters, archive=archive, mode="vector")


def talk(**fields: Any) -> list[dict[str, Any]]:
    return [
        user("A small kitten sleeps on the sofa.", "u1", **fields),
        assistant([{"type": "text", "text": "I look."}, call("c1", "Bash", command="ls")], "a1", **fields),
        user([result("c1", "sofa.txt")], "u2", **fields),
        assistant([{"type": "text", "text": "The car's engine broke down."}], "a2", **fields),
    ]


def test_only_messages_have_vectors(home: Home) -> None:
    home.session("aa11", *talk())
    home.sync()
    assert embed(home) == 3
    assert held(home) == {("aa11", 1), ("aa11", 2), ("aa11", 4)}
    assert found(home, "a young cat that rests")[0].line == 1
    assert embed(home) == 0
    with vectors.opened(home.archive) as store:
        assert store.coverage(kept(DEFAULT).fingerprint)[:2] == (3, 3)


def test_messages_of_codex_have_vectors(home: Home) -> None:
    path = (
        home.folder
        / ".codex/sessions/2026/01/02/rollout-2026-01-02T03-04-05-019982b8-3422-79e0-8b3b-05abaf4f3c3e.jsonl"
    )
    path.parent.mkdir(parents=True)
    text = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "A kitten sleeps."}]}
    path.write_bytes(jsonl(codex_item(text)))
    home.sync()
    assert embed(home) == 1
    assert found(home, "a young cat")[0].source == "codex"


def test_a_copy_shares_the_vectors(home: Home) -> None:
    home.session("aa11", *talk(cwd="/home/me/one"))
    home.sync()
    embed(home)
    home.session("bb22", *talk(cwd="/home/me/two"), user("A new thing.", "u9"), project="-two")
    home.sync()
    assert embed(home) == 1, "only what is new"
    hits = found(home, "a young cat that rests")
    assert [(hit.id, hit.line) for hit in hits if "kitten" in hit.snippet] == [("aa11", 1)]
    assert len(hits) == len({hit.snippet for hit in hits}) == 4
    (copy, *_) = found(home, "a young cat that rests", Filters(agent="bb22"))
    assert (copy.id, copy.line) == ("bb22", 1), "by the filters, the copy"
    (home.archive / "claude/-home-me-app/aa11.jsonl").unlink()
    (home.projects / "-home-me-app/aa11.jsonl").unlink()
    assert home.sync().removed == 1
    assert held(home) == {("bb22", 1), ("bb22", 2), ("bb22", 4), ("bb22", 5)}
    assert embed(home) == 0
    assert found(home, "a young cat that rests")[0].id == "bb22"


def test_vectors_are_removed_with_their_messages(home: Home) -> None:
    home.session("aa11", *talk(cwd="/home/me/one"))
    home.session("bb22", user("Another thing.", "u9", cwd="/home/me/two"), project="-two")
    home.session("cc33", user("A third one.", "u10", cwd="/home/me/three"), project="-three")
    home.sync()
    embed(home)
    home.sync("/home/me/one")
    assert held(home) == {("bb22", 1), ("cc33", 1)}
    (home.archive / "claude/-two/bb22.jsonl").unlink()
    (home.projects / "-two/bb22.jsonl").unlink()
    home.sync("/home/me/one")
    assert held(home) == {("cc33", 1)}
    home.sync()
    assert embed(home) == 3
    db = apsw.Connection(str(home.archive / "index.db"))
    assert list(db.execute("PRAGMA integrity_check")) == [("ok",)]
    db.close()


def test_an_incomplete_last_line_is_embedded_again(home: Home) -> None:
    """A last line without a line end is indexed, and indexed again when the file has grown."""
    path = home.session("aa11", user("The first.", "u1"))
    path.write_bytes(jsonl(user("The first.", "u1")) + jsonl(user("A kitten sleeps.", "u2")).rstrip())
    home.sync()
    assert embed(home) == 2
    with path.open("ab") as file:
        file.write(b"\n" + jsonl(user("The third.", "u3")))
    home.sync()
    assert embed(home) == 2
    assert held(home) == {("aa11", 1), ("aa11", 2), ("aa11", 3)}
    assert found(home, "a young cat")[0].line == 2


def test_an_id_is_never_reused(home: Home) -> None:
    """Another process may be computing a message's vectors while the message is removed."""
    home.session("aa11", user("A kitten sleeps.", "u1"))
    home.sync()
    with vectors.opened(home.archive) as store:
        meanings = StoredVectors(store, kept(DEFAULT))
        (message,), until, _ = store.unembedded(0, 10)
        for folder in (home.projects, home.archive / "claude"):
            (folder / "-home-me-app/aa11.jsonl").unlink()
        home.session("bb22", user("Something else.", "u2"))
        home.sync()
        from foldmark.recall.embeddings.stored import embedded

        store.save_vectors(meanings.embedder.fingerprint, embedded([message], meanings.embedder), until)
        assert held(home) == set()
        assert meanings.bring_up() == 1
    assert held(home) == {("bb22", 1)}


def test_a_missing_or_damaged_file_does_not_stop_the_run(home: Home) -> None:
    home.session("aa11", user("A kitten sleeps.", "u1"))
    home.session("bb22", user("A dog barks.", "u2"), user("A bird sings.", "u3"))
    home.session("cc33", user("A fish swims.", "u4"))
    home.sync()
    (home.archive / "claude/-home-me-app/aa11.jsonl").unlink()
    damaged = home.archive / "claude/-home-me-app/bb22.jsonl"
    content = damaged.read_bytes()
    damaged.write_bytes(b"#" + content[1:])
    assert embed(home) == 4
    assert held(home) == {("bb22", 2), ("cc33", 1)}


def test_a_missing_or_foreign_index_is_refused(home: Home) -> None:
    with pytest.raises(IndexFileError), vectors.opened(home.archive):
        pass
    assert not home.archive.exists()
    home.session("aa11", *talk())
    home.sync()
    db = apsw.Connection(str(home.archive / "index.db"))
    db.execute("PRAGMA user_version = 1")
    db.close()
    with pytest.raises(IndexFileError, match="foldmark sync"), vectors.opened(home.archive):
        pass
    home.sync()
    assert embed(home) == 3
