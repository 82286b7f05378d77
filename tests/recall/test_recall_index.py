"""The index stays in step with the log: appends, migrations, imports, removals, checks (SPEC 2, 7)."""

from __future__ import annotations

import re
import shlex
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import foldmark
from foldmark.core.errors import CommandError
from foldmark.log.doctor import examine
from foldmark.sessions.archive import index as archive_index
from foldmark.stores.queries import queries, schema
from foldmark.text.tokens import PORTER, parts_of, pieces_of
from stored import connection

Found = Callable[..., list[int] | None]
NOW = "2026-03-01T12:00:00.000000Z"


def test_a_message_is_found_as_soon_as_it_is_recorded(path: str, log: foldmark.Log, found: Found) -> None:
    agent = log.agent("default")
    with pytest.raises(CommandError), agent.batch():
        agent.do(f"/context drop {agent.append('user', 'quartz') + 7}")
    assert found("quartz") == []
    with agent.batch():
        id = agent.append("user", "quartz")
        assert found("quartz") == [id]
        with foldmark.open(path) as other:
            assert other.search("quartz") == []
    with foldmark.open(path) as other:
        assert [hit.event_id for hit in other.search("quartz")] == [id]


def test_a_read_only_file_can_be_searched(path: str, log: foldmark.Log) -> None:
    log.agent("default").append("user", "quartz")
    log.close()
    Path(path).chmod(stat.S_IREAD)
    with foldmark.open(path, create=False) as log:
        assert [hit.snippet for hit in log.search("quartz")] == ["quartz"]
        assert list(examine(log)) == []


def test_removed_messages_leave_no_trace_in_the_index(log: foldmark.Log, found: Found) -> None:
    agent = log.agent("default")
    # No word begins like its neighbour in the index, so each is stored there in full.
    secret = [f"{letter}zyxwvut" for letter in "bcdefghijklmnoprstuvwxyz"]
    ids = [agent.append("user", f"{word} and quartz") for word in secret]
    db = connection(log)

    def held() -> list[str]:
        blocks = b"".join(block for (block,) in db.execute("SELECT block FROM search_data"))
        return [word for word in secret if word.encode() in blocks]

    assert held() == secret
    for id in ids[::2]:
        db.execute(queries("sqlite")["unindex"], {"ids": f"[{id}]"})
        db.execute("UPDATE events SET content = '' WHERE id = ?", (id,))
    assert held() == secret[1::2]
    assert words(db) & set(secret) == set(secret[1::2])
    assert sorted(found("quartz", 100) or []) == ids[1::2]
    assert (found(secret[4]), found(secret[5])) == ([], [ids[5]])
    assert not [line for line in log.store.damage() if line.startswith("search")]


def test_an_erased_turn_is_no_longer_found(log: foldmark.Log, found: Found) -> None:
    agent = log.agent("default")
    turn = agent.append("user", "quartz")
    agent.append_tool_call("Grep", {"pattern": "quartz"}, call_id="c1")
    agent.append_tool_result("c1", "quartz")
    agent.end_turn()
    kept = agent.append("user", "more quartz")
    agent.end_turn()
    agent.do(f"/message remove {turn} --yes")
    assert found("quartz") == [kept]
    assert found("grep") == []
    assert list(examine(log)) == []
    (only,) = agent.do("/recall quartz").data["runs"]
    assert (only["first"], only["messages"]) == (kept, 1)


def words(db: apsw.Connection) -> set[str]:
    """Return all words that the index holds."""
    db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab (main, search, row)")
    return {word for (word,) in db.execute("SELECT term FROM vocabulary")}


DAMAGES = {
    "INSERT INTO search (search, rowid, text) VALUES ('delete', 1, 'quartz one')": "1 messages are not in the index, 0",
    "INSERT INTO search (rowid, text) VALUES (99, 'fjord')": "0 messages are not in the index, 1 of its rows",
    "UPDATE events SET content = 'fjord', tokens = 2 WHERE id = 1": "the index holds other words than the messages",
    "UPDATE events SET content = '', tokens = 0 WHERE id = 1": "0 messages are not in the index, 1 of its rows",
    "INSERT INTO search (search) VALUES ('delete-all')": "2 messages are not in the index",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_doctor_finds_an_index_that_does_not_match_the_messages(log: foldmark.Log, damage: str) -> None:
    agent = log.agent("default")
    agent.append("user", "quartz one")
    agent.append("user", "quartz two")
    assert list(examine(log)) == []
    connection(log).execute(damage)
    lines = [finding.text for finding in examine(log) if finding.text.startswith("search")]
    assert len(lines) == 1
    assert DAMAGES[damage] in lines[0]
    connection(log).execute(lines[0].partition("rebuilds it: ")[2])
    assert not [finding for finding in examine(log) if finding.text.startswith("search")]


def test_the_index_stores_no_text(path: str, log: foldmark.Log) -> None:
    log.agent("default").append("user", "A quartz in the jumble. " * 2000)
    log.close()
    assert Path(path).stat().st_size < 300_000
    db = apsw.Connection(path)
    assert [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'search_content%'")] == []
    db.close()


def test_any_sqlite_shell_reads_and_searches_the_file(path: str, log: foldmark.Log) -> None:
    """The tokenizer is SQLite's own, and the views use only features of SQLite 3.38 and later."""
    agent = log.agent("default")
    agent.append("user", "quartz")
    agent.append_tool_call("Grep", {"pattern": "fjord"}, call_id="c1")
    log.close()
    db = sqlite3.connect(path)
    try:
        assert db.execute("SELECT rowid, text FROM search WHERE search MATCH 'quartz OR grep'").fetchall() == [
            (1, "quartz"),
            (2, 'Grep {"pattern":"fjord"}'),
        ]
    finally:
        db.close()


@given(st.text(alphabet="abcXYZ019", max_size=12))
def test_every_name_with_a_seam_is_split(word: str) -> None:
    assume(word != "aB")
    pieces = pieces_of(word)
    assert parts_of(f"{word} aB") == " ".join([*(pieces if len(pieces) > 1 else ()), "a", "B"])


@given(st.lists(st.sampled_from(["a", "B", "AB", "Get", "x" * 40, "é", "Öl", "1", "_", "-", " ", "\n"]), max_size=14))
def test_finding_seams_gives_the_same_as_checking_each_word(pieces: list[str]) -> None:
    text = "".join(pieces)
    words = dict.fromkeys(re.findall(r"[^\W_]+", text))
    assert parts_of(text).split() == [piece for word in words if len(pieces_of(word)) > 1 for piece in pieces_of(word)]


def test_log_and_archive_have_the_tokenizer_of_queries() -> None:
    """The words of an index, of a query and of a highlight are the same."""
    archive = Path(archive_index.__file__).parent / "sql" / "schema.sql"
    for sql in (schema("sqlite").sql, archive.read_text()):
        (found,) = re.findall('tokenize = "(.*)"', sql)
        assert tuple(shlex.split(found)) == PORTER
