"""Databases of every earlier schema version upgrade to the newest and keep their meaning (SPEC 2, L7)."""

from __future__ import annotations

import ast
import inspect
import json
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import pytest
from versions.make import shown
from versions.reading import of_version

import foldmark
from foldmark.core.assembly import wire
from foldmark.core.errors import CommandError
from foldmark.log.doctor import examine
from foldmark.stores.queries import migrations
from foldmark.stores.sqlite import frozen
from foldmark.stores.sqlite.file import APPLICATION_ID
from foldmark.text import tokens
from sampled import sampled

pytestmark = pytest.mark.usefixtures("made_databases")

NEWEST = len(migrations("sqlite"))
EARLIER = range(1, NEWEST)
CLOSED = {
    1: "ccd313e88469312e",
    2: "bc621585f618c40f",
    3: "120002bb2d9cdcce",
    4: "d85457a66e20488e",
    5: "0232bd55b0cf8251",
    6: "bef51f3639ff0b5f",
    7: "d9ff8cb202bb0bb0",
    8: "9d58fdfcc50b7b00",
    9: "275334ef41ef48ba",
    10: "bd01ab4ee04f82df",
    11: "a4f5edb5f26d2453",
    12: "82a9ac7c0bdf0bec",
    13: "301f3bffbc1c4fc9",
    14: "833bd879095c85c4",
    15: "8ab2534bf0c21acf",
    16: "03ad61c7e313b077",
}
"""The beginning of each migration's SHA-256."""


def schema(path: Path) -> tuple[Any, ...]:
    db = apsw.Connection(str(path))
    tables = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
    pragmas = [db.pragma(name) for name in ("user_version", "application_id", "journal_mode", "encoding")]
    db.close()
    return tables, pragmas


def upgraded(version: int, path: Path) -> dict[str, Any]:
    """Upgrade a database of this version. Return the values that the upgrade computed for its messages."""
    of_version(version, path)
    foldmark.open(path, settings={}).close()
    db = apsw.Connection(str(path))
    tables = ("weights", "parts", "search_data", "search_docsize")
    found = {table: db.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables}
    db.close()
    return found


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    """The schema of a new database."""
    path = tmp_path_factory.mktemp("fresh") / "log.db"
    foldmark.open(path, settings={}).close()
    return schema(path)


@pytest.mark.parametrize("version", EARLIER)
def test_a_database_of_an_earlier_version_shows_the_same_contexts_and_has_the_schema_of_a_fresh_one(
    tmp_path: Path, fresh: tuple[Any, ...], version: int
) -> None:
    path = tmp_path / "log.db"
    contexts = of_version(version, path)
    with foldmark.open(path, settings={}) as log:
        assert list(examine(log)) == []
        assert {agent.id: json.loads(json.dumps(shown(agent))) for agent in log.agents()} == contexts
    assert len(contexts) == 4
    assert schema(path) == fresh


@pytest.mark.parametrize("version", sampled(EARLIER, 6))
def test_a_database_of_an_earlier_version_can_be_continued(tmp_path: Path, version: int) -> None:
    """The open call is answered, every operation is undone, and everything is searched and queried."""
    path = tmp_path / "log.db"
    of_version(version, path)
    with foldmark.open(path, settings={}) as log:
        agent = log.agent("work")
        agent.append_tool_result("waits", "a late listing", dialect="anthropic")
        agent.append("assistant", "Listed.")
        agent.end_turn()
        with log.store.read() as moment:
            done = [event for event in moment.operations(agent.id) if event.kind != "turn_ended"]
        listed = agent.call_tool("query_db", {"sql": "SELECT id, kind FROM operations ORDER BY id"})
        assert json.loads(listed)["rows"] == [{"id": event.id, "kind": event.kind} for event in done]
        for event in done:
            with suppress(CommandError):
                assert event.kind == "restore" or agent.do(f"/restore {event.id}")
        assert [hit.event_id for hit in log.search("late listing")]
        assert len(log.search("http response", limit=50)) > 3
        assert len(agent.context().messages) > 40
        assert list(examine(log)) == []


def test_an_empty_file_gets_the_schema_of_a_fresh_database(tmp_path: Path, fresh: tuple[Any, ...]) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    foldmark.open(path, settings={}).close()
    assert schema(path) == fresh
    assert fresh[1] == [NEWEST, APPLICATION_ID, "wal", "UTF-8"]


# Migrations are closed


def test_migrations_are_numbered_from_one() -> None:
    assert [number for number, _ in migrations("sqlite")] == list(range(1, NEWEST + 1))


def test_no_migration_was_edited() -> None:
    """New migrations are added here; listed ones never change."""
    assert {number: sha256(sql.encode()).hexdigest()[:16] for number, sql in migrations("sqlite")} == CLOSED


def test_a_migration_calls_no_present_code_of_foldmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later versions may weigh messages and index words differently."""
    before = upgraded(4, tmp_path / "before.db")
    monkeypatch.setattr(wire, "weight", lambda *_: 1)
    monkeypatch.setattr(tokens, "parts_of", lambda _: "another")
    assert upgraded(4, tmp_path / "after.db") == before
    assert len(before["weights"]) > 50
    assert len(before["parts"]) > 10


def test_functions_of_migrations_import_nothing_of_foldmark() -> None:
    source = ast.parse(inspect.getsource(frozen))
    imported = [
        name
        for node in ast.walk(source)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names])
    ]
    assert not [name for name in imported if name is None or name.startswith(("foldmark", "."))]


PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}}
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
LINK = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}


def media(*blocks: dict[str, Any]) -> str:
    return json.dumps({"blocks": blocks})


@pytest.mark.parametrize(
    ("row", "weighs"),
    [
        (("user", "", None, 0, 1), 0),
        (("user", 'a "quoted"\n é😀', None, 0, 1), 85),
        (("assistant", "cut", None, 1, 1), 111),
        (("tool", "note", None, 0, 1), 100),
        (("system", "rule", None, 0, 1), 0),
        (("summary", b"\xff", b"\xff", 0, 1), 91),
        (("user", "", media(PNG, LINK), 0, 1), 13129),
        (("user", "", media({**PDF, "pages": 3, "title": "a  b"}), 0, 1), 29027),
        (("user", "", media(PDF), 0, 1), 0),
        (("tool_call", '{"path":"x"}', '{"name":"read.file","call_id":"c"}', 0, 1), 374),
        (("tool_call", "[1]", '{"name":"read","thought_signature":"abc"}', 0, 1), 386),
        (("tool_call", "[" * 65 + "]" * 65, '{"name":"9"}', 0, 1), 497),
        (("tool_result", "x" * 300, None, 0, 12), 300),
        (("tool_result", "x" * 301, None, 0, 12), 398),
        (("tool_result", "x" * 299 + "\\u00e9" * 9, None, 0, 12), 397),
        (("tool_result", "x" * 299 + "🇩🇪" * 9, None, 0, 12), 397),
        (("tool_result", "x" * 299 + "e\u0301각क्षि" * 9, None, 0, 12), 397),
    ],
)
def test_frozen_weights_never_change(row: tuple[Any, ...], weighs: int) -> None:
    assert frozen.weight_0005(*row) == weighs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a plain text", ""),
        ("parseHttpResponse HTTPServer x1Y", "parse Http Response HTTP Server x1 Y"),
        ("日本語 ภาษา étéHttp", "日本 本語 語 ภา าษ ษา า"),
        ("日本X", "日本 本 X"),
        ("x" * 60 + "AbcdE", ""),
    ],
)
def test_frozen_parts_of_words_never_change(text: str, words: str) -> None:
    assert frozen.parts_0009(text) == words
