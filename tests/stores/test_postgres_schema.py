"""PostgreSQL's tables can be distributed by conversation (docs/development/scale.md): what their keys need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from foldmark.stores.postgres.store import PostgresStore
from postgres_server import Databases

SHARED = {
    *("home", "numbers", "directory", "names", "blocks", "texts", "embedders", "migrations"),
    *("memos", "memo_tags", "memo_words"),
}
"""Tables that every node would hold a copy of."""


@pytest.fixture
def db(postgres: Databases) -> Iterator[psycopg.Connection]:
    """A connection to a database that has Foldmark's tables."""
    address = postgres.take()
    PostgresStore(address).close()
    with closing(psycopg.connect(address, autocommit=True)) as db:
        yield db
    postgres.give_back(address)


def test_the_primary_key_of_every_table_of_a_conversation_begins_with_its_root(db: psycopg.Connection) -> None:
    found = db.execute(
        "SELECT c.relname, a.attname FROM pg_class c "
        "LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary "
        "LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] "
        "WHERE c.relkind = 'r' AND c.relnamespace = 'foldmark'::regnamespace"
    ).fetchall()
    first: dict[str, str | None] = dict(found)
    assert set(first) > SHARED
    assert {name: column for name, column in first.items() if name not in SHARED and column != "root"} == {}


def test_uniqueness_is_only_required_inside_a_conversation(db: psycopg.Connection) -> None:
    found = db.execute(
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid "
        "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] "
        "WHERE i.indisunique AND c.relnamespace = 'foldmark'::regnamespace AND a.attname <> 'root'"
    ).fetchall()
    assert {name for (name,) in found} <= SHARED


def test_no_foreign_key_ties_rows_of_different_nodes(db: psycopg.Connection) -> None:
    found = db.execute("SELECT conname FROM pg_constraint WHERE contype = 'f'").fetchall()
    assert found == []


def test_an_append_uses_no_sequence(db: psycopg.Connection) -> None:
    """Each node would have its own sequence."""
    found = db.execute(
        "SELECT c.relname FROM pg_class s JOIN pg_depend d ON d.objid = s.oid JOIN pg_class c ON c.oid = d.refobjid "
        "WHERE s.relkind = 'S' AND c.relnamespace = 'foldmark'::regnamespace"
    ).fetchall()
    assert {name for (name,) in found} == {"embedders", "signatures"}
