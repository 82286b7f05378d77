"""The candidates of a search and their ranking: names, scripts, filters, neighbours, common words (SPEC 7)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foldmark
from foldmark.core.codec import utc
from foldmark.core.search import Filters, IndexedMessage
from foldmark.log.search import search_everything
from foldmark.recall import searching
from foldmark.recall.query import read
from foldmark.recall.ranking import asking, query_terms, scored
from foldmark.recall.searching import joined
from foldmark.text.highlights import holds, snippet, spans
from foldmark.text.tokens import has_parts, parts_of
from stored import connection

Found = Callable[..., list[int] | None]
Say = Callable[..., list[int]]

CALLED = '{"quartz":"called"}'


@pytest.mark.parametrize(
    ("query", "text", "finds"),
    [
        ("response", "def parseHttpResponse(raw):", True),
        ("http response", "def parseHttpResponse(raw):", True),
        ("parseHttpResponse", "def parse_http_response(raw):", True),
        ("parse_http_response", "def parseHttpResponse(raw):", True),
        ("parseHttpResponse", "def parsehttpresponse(raw):", True),
        ("parseHttpResponse", "the response that http parsers parse", False),
        ("JSONDecoder", "a JSON decoder", True),
        ("decoder", "from json import JSONDecoder", True),
        ("postgres", "PostgreSQL", True),
        ("PostgreSQL", "postgresql", True),
        ("库", "数据库迁移", True),
        ("移", "数据库迁移", True),
        ("库迁", "数据库迁移", True),
        ("据迁", "数据库迁移", False),
        ("数据库迁移什么时候完成", "迁移已经完成", True),
        ("データベース", "このデータベースは", True),
        ("데이터", "데이터베이스를 옮겼다", True),
        ("베이스", "데이터베이스를 옮겼다", True),
        ("ไทย", "ภาษาไทยง่าย", True),
        ("हिन्दी", "यह हिन्दी है", True),
        ("中文 needle", "中文needle", True),
        ('"数据库迁移"', "数据库迁移", True),
        ('"数据库 迁移"', "数据库 的 迁移", False),
        ('"migrated it"', "we migrated it", True),
        ('"migrated it"', "we migrate it", False),
        ('"it migrated"', "we migrated it", False),
        ("migrati*", "the migration", True),
        ("migrati*", "we migrate", False),
        ("hay*", "a haystack", True),
        ("happ*", "happiness", True),
        ("configurat*", "the configuration", True),
        ('"the config"*', "see the configuration", True),
        ("naïv*", "a naive idea", True),
        ("c", "C is a language", True),
    ],
)
def test_names_scripts_and_literal_words_are_found(
    found: Found, log: foldmark.Log, query: str, text: str, finds: bool
) -> None:
    id = log.agent("default").append("user", text)
    assert found(query) == ([id] if finds else [])
    assert list(log.store.damage()) == []


def test_a_quoted_word_is_found_after_many_that_only_share_its_stem(log: foldmark.Log, found: Found) -> None:
    agent = log.agent("default")
    with agent.batch():
        (rare,) = [agent.append("user", "the schemas")]
        for number in range(300):
            agent.append("user", f"schema schema {number}")
    assert found('"schemas"') == [rare]


@given(st.text(max_size=60))
@settings(deadline=None)
def test_any_text_has_parts_or_none(text: str) -> None:
    parts = parts_of(text)
    assert has_parts(text) or not parts
    assert len(parts) <= 50_000


def test_encoded_data_has_few_parts() -> None:
    assert parts_of("aGVsbG8gd29ybGQhIFRoaXMgaXMgZW5jb2RlZA" * 100) == ""
    assert parts_of("QzXwVuTsRqPoNmLkJi") == "", "too many seams for a name"


def test_erasing_a_message_removes_the_parts_of_its_names(log: foldmark.Log, found: Found) -> None:
    agent = log.agent("default")
    turn = agent.append("user", "parseHttpResponse 数据库")
    agent.end_turn()
    agent.do(f"/message remove {turn} --yes")
    db = connection(log)
    assert db.execute("SELECT count(*) FROM parts").fetchall() == [(0,)]
    assert (found("response"), found("数据")) == ([], [])
    assert list(log.store.damage()) == []


def test_opening_and_reading_import_nothing_of_recall(path: str, log: foldmark.Log) -> None:
    log.agent("default").append("user", "quartz")
    script = (
        "import sys, foldmark; log = foldmark.open(sys.argv[1], settings={}); log.agent('default').context(); "
        "print([name for name in sys.modules if name.startswith(('foldmark.recall', 'foldmark.text'))])"
    )
    told = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


# Ranking


def test_neighbouring_messages_count(log: foldmark.Log, say: Say, found: Found) -> None:
    say(log.agent("elsewhere"), "About quartz.", "Something else.", "And more of it.")
    (asked, told) = say(log.agent("talk"), ("What did the geologist say about fjords?", "They are full of quartz."))
    ids = found("geologist quartz") or []
    assert set(ids[:2]) == {asked, told}
    assert ids[-1] not in (asked, told)


def test_one_word_repeated_around_a_message_does_not_outweigh_two_words() -> None:
    wanted = read("quartz fjord").terms
    terms = query_terms(wanted, (), dict.fromkeys(wanted, 5), 100)
    repeated = [IndexedMessage(id, "quartz") for id in range(1, 6)]
    both = [IndexedMessage(id, text) for id, text in enumerate(("fjord", "quartz", "fjord"), 11)]
    scores = {each.said.id: each.score for each in scored([repeated, both], terms)}
    assert scores[12] > scores[3]


def test_a_statement_answers_a_question_better_than_a_question(log: foldmark.Log, found: Found) -> None:
    one, two = log.agent("one"), log.agent("two")
    asks = one.append("user", "When is the quartz exhibition?")
    tells = two.append("user", "We saw the quartz exhibition.")
    assert found("When did we see the quartz exhibition?") == [tells, asks]
    assert (found("quartz exhibition") or [])[0] == max(asks, tells), "words alone ask nothing"
    assert (asking("Why? Because it is so. And you?"), asking("It is so."), asking("")) == (3 / 7, 0, 0)


def test_the_day_of_a_message_counts_although_it_is_not_in_the_text(log: foldmark.Log) -> None:
    agent, other = log.agent("one"), log.agent("two")
    march = agent.append("user", "quartz was found", created_at="2026-03-08T10:00:00")
    may = other.append("user", "quartz was found", created_at="2026-05-08T10:00:00")
    for month, expected in (("March", march), ("May", may)):
        hit = log.search(f"quartz in {month}")[0]
        assert (hit.event_id, hit.score > 1) == (expected, False)


def test_a_question_finds_the_neighbour_of_a_hit(log: foldmark.Log, say: Say, found: Found) -> None:
    ids = say(log.agent("talk"), "A", "B", "Seen any quartz?", "Yes, in the cellar.", "Good", "E")
    assert found("quartz") == [ids[2]], "words alone are looked for as they are"
    assert sorted(found("Where is the quartz?") or []) == ids[1:4]
    assert (found("Where is the quartz?") or [])[0] == ids[2], "it has every word"
    (first, *_) = log.search("Where is the quartz hidden?")
    assert (first.event_id, first.snippet) == (ids[3], "Yes, in the cellar."), "the answer goes before the question"
    assert log.search("Where is the quartz?", filters=Filters(role="assistant")) == []


def test_an_erased_message_is_not_a_neighbour(log: foldmark.Log, say: Say, found: Found) -> None:
    agent = log.agent("talk")
    before, hit, after = say(agent, "Gone", "The quartz", " \n")
    agent.do(f"/message remove {before} --yes")
    assert found("Where is the quartz?") == [hit]
    assert after not in (found("Is there any quartz?") or [])


def test_last_month_is_relative_to_the_time_of_the_message(log: foldmark.Log) -> None:
    for month in (3, 5):
        log.agent(f"{month}").append("user", "quartz was found last month", created_at=f"2026-{month:02}-08T10:00:00")
    for name, expected in (("February", "3"), ("March", "3"), ("April", "5"), ("May", "5")):
        assert log.search(f"quartz in {name}")[0].agent_name == expected


def test_a_message_with_a_time_answers_a_question_for_a_time(log: foldmark.Log, found: Found) -> None:
    tells = log.agent("one").append("user", "In June we saw quartz.")
    other = log.agent("two").append("user", "In caves we saw quartz.")
    assert found("When did we see quartz?") == [tells, other]
    assert found("Where did we see quartz?") == [other, tells], "of equals the newest"


def test_common_words_add_no_candidates_to_those_of_rare_ones(
    log: foldmark.Log, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The budget counts messages; words that exceed it still count in the ranking."""
    monkeypatch.setattr(searching, "BUDGET", 10)
    agent = log.agent("default")
    with agent.batch():
        first = agent.append("user", "jumble with quartz")
        for number in range(60):
            agent.append("user", f"jumble {number}")
        second = agent.append("user", "quartz alone")
    assert sorted(found("jumble quartz", 5) or [])[-1] == second
    assert (found("jumble quartz") or [])[0] == first
    newest = found("jumble", 1000) or []
    assert newest
    assert min(newest) > first + 30, "a word in most messages is looked for in the newest"


def test_common_words_fill_a_limit_that_rare_words_do_not(
    log: foldmark.Log, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "BUDGET", 10)
    agent = log.agent("default")
    with agent.batch():
        rare = agent.append("user", "quartz")
        for number in range(60):
            agent.append("user", f"jumble {number}")
    ids = found("jumble quartz", 20) or []
    assert (len(ids), rare in ids) == (20, True)


def test_overlapping_runs_are_joined() -> None:
    lists = [
        [IndexedMessage(1, "a"), IndexedMessage(2, "b")],
        [IndexedMessage(5, "e")],
        [IndexedMessage(2, "bb"), IndexedMessage(3, "c")],
        [],
    ]
    assert list(joined(lists)) == [
        [IndexedMessage(1, "a"), IndexedMessage(2, "bb"), IndexedMessage(3, "c")],
        [IndexedMessage(5, "e")],
    ]


def test_a_word_far_behind_in_a_long_message(log: foldmark.Log, found: Found) -> None:
    agent = log.agent("default")
    far, beyond = agent.append("user", "x " * 20_000 + "quartz"), agent.append("user", "x " * 60_000 + "quartz")
    assert set(found("quartz") or []) == {far, beyond}
    hits = {hit.event_id: hit for hit in log.search("quartz")}
    assert hits[far].snippet.endswith("quartz")
    assert hits[far].highlights


# Highlights


def test_highlights_are_places_in_the_snippet(log: foldmark.Log) -> None:
    log.agent("default").append("user", "Many migrations\nof parseHttpResponse, NAÏVE 数据库迁移 ones")
    (hit,) = log.search("migrated response naive 库迁")
    assert [hit.snippet[start:end] for start, end in hit.highlights] == ["migrations", "Response", "NAÏVE", "库迁"]


@given(st.text(max_size=80), st.text(max_size=20))
@settings(deadline=None)
def test_snippets_and_spans_of_any_text(text: str, more: str) -> None:
    wanted = read(f'needle "{more}" ne* {more}').terms
    line = snippet(f"{text} needle {more}", wanted)
    assert all(0 <= start < end <= len(line) for start, end in spans(line, wanted))
    for term in wanted:
        assert term.typed is None or holds(text, term.typed) in (True, False)


# Filters


@pytest.fixture
def filtered(log: foldmark.Log) -> Callable[..., list[str]]:
    """A function that returns the texts that a search for quartz finds with filters, in alphabetical order."""
    agent, other = log.agent("work"), log.agent("diary")
    agent.append("user", "quartz asked", created_at="2026-01-01T00:00:00")
    agent.append("assistant", "quartz answered", created_at="2026-02-01T00:00:00")
    agent.append_tool_call("Grep", {"quartz": "called"}, call_id="c1", created_at="2026-02-02T00:00:00")
    agent.append_tool_result("c1", "quartz found", created_at="2026-02-03T00:00:00")
    agent.end_turn()
    agent.do("/clear")
    other.append("user", "quartz noted", created_at="2026-03-01T00:00:00")

    def filtered(**filters: Any) -> list[str]:
        return sorted(hit.snippet.split()[-1] for hit in log.search("quartz", 10, Filters(**filters)))

    return filtered


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["answered", "asked", "found", "noted", CALLED]),
        ({"role": "user"}, ["asked", "noted"]),
        ({"since": utc("2026-02-02"), "before": utc("2026-03-01")}, ["found", CALLED]),
        ({"tool": "GREP"}, ["found", CALLED]),
        ({"agent": "work", "role": "assistant"}, ["answered"]),
        ({"agent": "nobody"}, []),
        ({"project": "IAR"}, ["noted"]),
        ({"visible": True}, ["noted"]),
        ({"visible": False, "role": "user"}, ["asked"]),
    ],
)
def test_filters_exclude_messages(
    filtered: Callable[..., list[str]], filters: dict[str, Any], expected: list[str]
) -> None:
    assert filtered(**filters) == expected


def test_an_agent_is_named_by_the_beginning_of_its_id(log: foldmark.Log, filtered: Callable[..., list[str]]) -> None:
    assert filtered(agent=log.agent("diary").id[:8]) == ["noted"]


def test_a_name_overrides_the_beginning_of_an_id(log: foldmark.Log) -> None:
    ids = {log.agent(name).append("user", "quartz"): name for name in "0123456789abcdef"}
    for name in "09af":
        assert [ids[hit.event_id] for hit in log.search("quartz", 20, Filters(agent=name))] == [name]


def test_tool_hits_name_their_tool(log: foldmark.Log, filtered: Callable[..., list[str]]) -> None:
    assert filtered()
    tools = {hit.kind: hit.tool for hit in log.search("quartz")}
    assert tools == {"user": None, "assistant": None, "tool_call": "Grep", "tool_result": "Grep"}


# Everything in one ranking


def test_among_many_memos_those_with_rare_words_are_found(tmp_path: Path) -> None:
    with foldmark.open(str(tmp_path / "log.db"), settings={}) as log:
        with log.store.write() as transaction:
            for number in range(100):
                content = "quartz from the fjord" if number == 0 else "quartz"
                transaction.save_memo(content, [], None, "test", f"2026-03-01T12:00:00.{number:06}Z")
        assert search_everything("quartz fjord nymph", 1, log=log)[0].id == "1"
        assert len(search_everything("quartz", 100, log=log)) == 100


def test_memos_are_found_along_with_messages(tmp_path: Path) -> None:
    with foldmark.open(str(tmp_path / "log.db"), settings={}) as log:
        agent = log.agent("default")
        agent.append("user", "Nothing of the kind, but quartz once")
        agent.do("/memo add Quartz comes from the fjord #stones")
        (memo, message) = search_everything("quartz fjord", log=log)
        assert (memo.source, memo.name, memo.all_words, memo.snippet.split("\n")[0][:26]) == (
            "memo",
            "stones",
            True,
            "Quartz comes from the fjor",
        )
        assert (message.source, message.event_id, message.visible, message.all_words) == (
            "conversation",
            1,
            True,
            False,
        )
        assert [each.source for each in search_everything("stones", log=log)] == ["memo"]
        assert search_everything("stones", filters=Filters(role="user"), log=log) == []
        assert search_everything("stones", filters=Filters(since=utc("2999-01-01")), log=log) == []
