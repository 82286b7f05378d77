"""The messages that a search finds, their order and their snippets (SPEC 7, 9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import foldmark
from foldmark.core.search import Hit
from foldmark.stores.queries import queries
from stored import connection

Found = Callable[..., list[int] | None]
Say = Callable[..., list[int]]
VOCABULARY = ["quartz", "jumble", "wizard", "fjord", "nymph"]


def test_messages_with_all_words_come_first(log: foldmark.Log, say: Say, found: Found) -> None:
    long = "padding " * 300
    ids = say(log.agent("default"), "quartz quartz quartz", f"quartz {long} fjord", "fjord", "neither")
    assert found("quartz fjord") == [ids[1], *sorted([ids[0], ids[2]], key=(found("quartz fjord") or []).index)]
    assert (found("quartz fjord") or [])[0] == ids[1]
    hits = log.search("quartz fjord")
    assert [hit.score > 1 for hit in hits] == [True, False, False]
    assert hits == sorted(hits, key=lambda hit: -hit.score)
    assert all(0 < hit.score < 2 for hit in hits)


def test_a_higher_density_of_a_word_is_better(log: foldmark.Log, say: Say, found: Found) -> None:
    ids = say(log.agent("default"), "fjord and much else besides " * 5, "fjord fjord", *["other text here"] * 10)
    assert found("fjord") == [ids[1], ids[0]]


@pytest.mark.parametrize(
    ("word", "query"),
    [
        ("memory", "memories"),
        ("visibility", "visibility"),
        ("filing", "filed"),
        ("naïve", "naive"),
        ("parseHttpResponse", "response"),
        ("数据库", "据库"),
        ("memory", '"memory"'),
    ],
)
def test_a_word_far_behind_in_a_text_is_found(log: foldmark.Log, say: Say, found: Found, word: str, query: str) -> None:
    (id,) = say(log.agent("default"), "padding " * 2000 + word)
    assert found(query) == [id]


def test_a_part_of_a_word_far_behind_in_a_text_is_not_the_word(log: foldmark.Log, say: Say) -> None:
    say(log.agent("default"), f"quartz {'padding ' * 2000} party")
    assert [hit.score > 1 for hit in log.search("quartz art")] == [False]


def test_the_end_of_a_very_long_call_is_found(log: foldmark.Log, found: Found) -> None:
    agent = log.agent("default")
    id = agent.append_tool_call("Write", {"text": "a line\n" * 15_000 + "quartz"}, call_id="1")
    assert found("quartz") == [id]


def test_a_rare_word_weighs_more(log: foldmark.Log, say: Say, found: Found) -> None:
    ids = say(log.agent("default"), *["a common word here"] * 20, "a common thing", "a quartz thing")
    assert (found("common quartz") or [])[0] == ids[-1]


@given(
    st.lists(st.lists(st.sampled_from(VOCABULARY), max_size=4), max_size=8),
    st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=4),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_only_messages_with_a_word_are_found(texts: list[list[str]], wanted: list[str]) -> None:
    with foldmark.open(":memory:") as log:
        agent = log.agent("default")
        ids = {agent.append("user", " ".join(text)): set(text) for text in texts}
        hits = log.search(" ".join(wanted))
        assert {hit.event_id for hit in hits} == {id for id, words in ids.items() if words & set(wanted)}
        assert [hit.score > 1 for hit in hits] == [set(wanted) <= ids[hit.event_id] for hit in hits]
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize(
    ("query", "text", "finds"),
    [
        ("migrations", "we migrated it", True),
        ("migrate", "the migration", True),
        ("happy", "happiness", True),
        ("searching", "a search", True),
        ("configurat*", "the configuration", True),
        ("config*", "nginx.conf", False),
        ("migrati*", "migration", True),
        ("igration*", "migration", False),
        ('"migrate"', "the migration", False),
        ('"database schema"', "a database, schema-less", True),
        ('"database schema"', "a schema of the database", False),
        ("parse_line", "def parse_line(text):", True),
        ("parse_line", "the line that we parse", False),
        ("line", "def parse_line(text):", True),
        ("src/app.py", "see src/app.py:3", True),
        ("Straße", "STRASSE", False),
        ("STRAßE", "straße", True),
        ("naive", "naïve", True),
        ("naïve", "naive", True),
        ("数据", "数据库设计", True),
        ("设计", "数据库设计", True),
        ("what did we say about quartz", "quartz", True),
        ("what did we say about quartz", "what did we say about it", False),
        ("what about it", "what is it about", True),
        ("dog", "dogma", False),
        ("x", "axe", False),
    ],
)
def test_words_phrases_and_prefixes_are_found(
    found: Found, log: foldmark.Log, query: str, text: str, finds: bool
) -> None:
    id = log.agent("default").append("user", text)
    assert found(query) == ([id] if finds else [])


def test_only_messages_are_found_and_every_kind_of_them(log: foldmark.Log, found: Found) -> None:
    agent = log.agent("default")
    ids = [
        agent.append("system", "quartz system"),
        agent.append("user", "quartz user"),
        agent.append("assistant", "quartz assistant"),
        agent.append_tool_call("quartz_tool", {"path": "fjord.py"}, call_id="c1"),
        agent.append_tool_result("c1", "quartz result"),
        agent.append("tool", "quartz tool"),
    ]
    for kind in ("state", "scratchpad", "command", "record"):
        agent.record(kind, "quartz record")
    agent.do("/mark quartz")
    assert sorted(found("quartz") or []) == ids
    assert found("fjord") == [ids[3]]
    kinds = {hit.event_id: hit.kind for hit in log.search("quartz")}
    assert [kinds[id] for id in ids] == ["system", "user", "assistant", "tool_call", "tool_result", "tool"]


def test_the_arguments_of_a_tool_call_are_searched(log: foldmark.Log, found: Found) -> None:
    """The arguments are JSON, whose escapes are not letters."""
    agent = log.agent("default")
    text = 'import quartz\nfjord = "jumble"\twizard\r\nC:\\nymph \\n é'
    id = agent.append_tool_call("Write", {"deep": [{"content": text}], "n": 7}, call_id="c1")
    for word in ("quartz", "fjord", "jumble", "wizard", "nymph", "é", "7", "deep", "write", '"import quartz fjord"'):
        assert found(word) == [id], word
    assert found("nfjord") == []


def test_names_of_tools_may_be_anything(log: foldmark.Log, found: Found) -> None:
    agent = log.agent("default")
    nested: Any = "quartz"
    for _ in range(400):
        nested = [nested]
    ids = [
        agent.append_tool_call("quartz", nested, call_id="c1"),
        agent.append_tool_call("", {"a": "quartz"}, call_id="c2"),
        agent.append_tool_call("quartz\0\ud800", {}, call_id="c3", data={"nested": nested}),
    ]
    assert sorted(found("quartz") or []) == ids
    assert list(log.store.damage()) == []


def test_a_hit_names_its_message_and_its_conversation(log: foldmark.Log) -> None:
    agent = log.agent("work")
    system = agent.append("system", "fjord", created_at="2026-03-01")
    agent.append("user", "Hello", created_at="2026-03-02")
    id = agent.append("assistant", "The\n  quartz\tis here", created_at="2026-03-03T04:05:06")
    (hit,) = log.search("quartz")
    assert hit == Hit(
        id,
        agent.id,
        "work",
        "assistant",
        id - 1,
        "2026-03-03T04:05:06.000000Z",
        hit.score,
        "The quartz is here",
        True,
        None,
        ((4, 10),),
    )
    (hit,) = log.search("fjord")
    assert (hit.event_id, hit.turn_id) == (system, None)


def test_a_search_returns_at_most_its_limit(log: foldmark.Log, say: Say, found: Found) -> None:
    ids = say(log.agent("default"), *["quartz fjord"] * 5, *["quartz"] * 10)
    for limit in (1, 4, 5, 6, 14, 15, 1000):
        got = found("quartz fjord", limit) or []
        assert len(got) == len(set(got)) == min(limit, 15)
        assert set(got[:5]) <= set(ids[:5])


# Snippets

FILLER = " ".join(f"word{n}" for n in range(400))


@pytest.mark.parametrize(
    ("text", "query", "begins", "ends"),
    [
        ("short quartz", "quartz", "short quartz", "short quartz"),
        (f"{FILLER} quartz {FILLER}", "quartz", "…word", "…"),
        (f"quartz {FILLER}", "quartz", "quartz word0", "…"),
        (f"{FILLER} quartz", "quartz", "…word", "quartz"),
        (f"quartz {FILLER} quartz fjord", "quartz fjord", "…word", "quartz fjord"),
        (f"{FILLER} Migrations", "migrated", "…word", "Migrations"),
        (f"{FILLER} NAÏVE", "naive", "…word", "NAÏVE"),
        (f"{FILLER} parse_line", "parse_line", "…word", "parse_line"),
        (f"{FILLER} 数据库", "数据", "…word", "数据库"),
        ("q" * 500 + " quartz", "quartz", "…", "quartz"),
        ("q" * 500, "q*", "qqq", "q…"),
        (f"{FILLER} " * 60 + "quartz", "quartz", "word0", "…"),
    ],
)
def test_the_snippet_shows_the_place(log: foldmark.Log, text: str, query: str, begins: str, ends: str) -> None:
    log.agent("default").append("user", text)
    (hit,) = log.search(query)
    assert hit.snippet.startswith(begins)
    assert hit.snippet.endswith(ends)
    assert len(hit.snippet) <= 162


# In the context or not


def visible(log: foldmark.Log, query: str = "quartz") -> dict[int, bool]:
    return {hit.event_id: hit.visible for hit in log.search(query, 100)}


def test_visible_follows_forget_rewind_clear_and_restore(log: foldmark.Log, say: Say) -> None:
    agent = log.agent("default")
    ids = say(agent, *["quartz"] * 3)
    assert visible(log) == dict.fromkeys(ids, True)
    filter = agent.apply_filter("forget", [ids[1]])
    assert visible(log) == {ids[0]: True, ids[1]: False, ids[2]: True}
    agent.do("/mark M")
    late = say(agent, "quartz")
    agent.do("/rewind M")
    assert visible(log) == {ids[0]: True, ids[1]: False, ids[2]: True, late[0]: False}
    agent.do(f"/restore {filter}")
    assert visible(log) == {ids[0]: True, ids[1]: True, ids[2]: True, late[0]: False}
    agent.do("/clear")
    assert visible(log) == dict.fromkeys([*ids, *late], False)
    new = say(agent, "quartz")
    assert visible(log)[new[0]] is True


def test_visible_refers_to_the_agent_that_wrote_the_message(log: foldmark.Log, say: Say) -> None:
    parent = log.agent("default")
    first = say(parent, "quartz")
    child = log.agent(parent.do("/fork").data["child"])
    own = say(child, "quartz child")
    parent.do("/clear")
    hits = {hit.event_id: hit for hit in log.search("quartz")}
    assert [(hits[id].visible, hits[id].agent_id) for id in (*first, *own)] == [(False, parent.id), (True, child.id)]
    assert [hits[id].agent_name for id in (*first, *own)] == ["default", None]


def test_a_search_reads_no_history_and_writes_nothing(log: foldmark.Log, say: Say) -> None:
    agent = log.agent("default")
    other = log.agent("other")
    other.standing()
    say(agent, *["something else"] * 50, "quartz")
    db = connection(log)
    changes, seen = db.total_changes(), []

    def trace(_: apsw.Cursor, sql: str, __: Any) -> bool:
        seen.append(sql)
        return True

    db.exec_trace = trace
    log.search("quartz")
    other.do("/recall quartz")  # an agent's own hits are also compared with its next request
    db.exec_trace = None
    assert db.total_changes() == changes
    named = {name for name, sql in queries("sqlite").items() if sql in seen}
    assert "best" in named
    assert not named & {"select messages", "select messages newest first", "select operations", "wrong_index"}


def test_a_search_does_not_hide_another_writer(path: str, log: foldmark.Log, say: Say) -> None:
    agent = log.agent("default")
    say(agent, "quartz")
    with foldmark.open(path) as other:
        say(other.agent("default"), "quartz from elsewhere")
    assert len(log.search("quartz")) == 2
    agent.do("/recall quartz")
    with pytest.raises(foldmark.ConflictError):
        agent.append("user", "unaware")
