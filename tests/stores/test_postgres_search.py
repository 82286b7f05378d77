"""Search over PostgreSQL and SQLite finds the same messages in the same order, for any query."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres_harness import PostgresHarness
from sqlite_harness import SqliteHarness

from foldmark import Log
from foldmark.app import open_over
from foldmark.core.search import Filters, How, SearchScope, TermQuery
from foldmark.recall.query import read
from foldmark.stores.postgres import appender, search
from foldmark.stores.postgres.connection import statement
from foldmark.stores.postgres.reading import PostgresReading
from foldmark.stores.postgres.store import PostgresStore
from postgres_server import Databases

WORDS = (
    *("quartz", "Quartzes", "jumping", "jumps", "vexed", "größe", "GRÖSSE", "x1", "it's", "fjord", "класс", "word\0"),
    *(
        "parseHttpResponse",
        "http",
        "数据库连接",
        "数据",
        "ข้อมูล",
        "a\\b",
        "<b>",
        "><",
        "'",
        "\\",
        ":*",
        "&",
        "|",
        "\x10",
        "🎉",
    ),
    *("a" * 300, "a" * 299 + "b", "ab" * 200),
)
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
ASKED = (*WORDS, '"quartz jumps"', '"vexed fjord"', '"a a"', "jum*", "qua*", '"数据库"', '"parse http', "aaaa*", "the")
QUERIES = st.lists(st.sampled_from(ASKED), min_size=1, max_size=4).map(" ".join)


MORE = ("parseHttpResponse", "数据库连接 und größe")


class Both:
    """The same log, with several conversations, in both stores."""

    def __init__(self, folder: Path, databases: Databases) -> None:
        self.harness = PostgresHarness(databases)
        self.logs = [open_over(SqliteHarness(folder).fresh()), open_over(self.harness.fresh())]
        self.said: list[list[int]] = [[], []]
        self.number = 0

    def say(self, *texts: str) -> None:
        """Add a conversation with these texts."""
        self.number += 1
        for log, said in zip(self.logs, self.said, strict=True):
            agent = log.agent(f"c{self.number}")
            with agent.batch():
                for at, text in enumerate(texts):
                    if at % 3 == 2:
                        said.append(
                            agent.append_tool_call(text[:20].strip() or "t", {"x": text}, call_id="c", dialect="openai")
                        )
                        said.append(agent.append_tool_result("c", text, dialect="openai"))
                    else:
                        said.append(agent.append("user", text))
                    agent.end_turn()

    def best(self, query: str, how: How, limit: int, filters: Filters) -> list[list[int]]:
        """Return the hits of each store, as positions of messages."""
        found = []
        for log, said in zip(self.logs, self.said, strict=True):
            with log.store.read() as moment:
                index = moment.index(SearchScope(filters))
                terms = read(query).terms
                before = index.best([TermQuery(how, terms)], limit)
                counted = index.counted(terms)[1]
                after = index.best([TermQuery(how, terms)], limit)
                assert before == after
                found.append([*counted, *(said.index(id) for id in after)])
        return found

    def close(self) -> None:
        for log in self.logs:
            log.close()
        self.harness.release()


@pytest.fixture(scope="module")
def both(postgres: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    both = Both(tmp_path_factory.mktemp("both"), postgres)
    yield both
    both.close()


@settings(max_examples=min(40, settings().max_examples))
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=6),
    query=QUERIES,
    how=st.sampled_from(("all", "any")),
    limit=st.sampled_from((1, 3, 1000)),
    role=st.sampled_from((None, None, "user", "tool_call")),
)
def test_both_databases_find_the_same_in_the_same_order(
    both: Both, texts: list[str], query: str, how: How, limit: int, role: str | None
) -> None:
    both.say(*texts)
    try:
        read(query)
    except Exception:  # no word to search for
        return
    lite, post = both.best(query, how, limit, Filters(role=role))
    assert post == lite, query


def test_searching_finds_the_same_with_the_same_scores(both: Both) -> None:
    both.say(
        "The quartz jumps over the vexed fjord.",
        "Why does the quartz jump?",
        "A fjord is vexed.",
        "quartz " * 300,
        *MORE,
    )
    for query in ("quartz fjord", '"vexed fjord"', "why does the quartz jump?", "数据", "parse http", "jum*", "größe"):
        for limit in (3, 40):
            found = [log.search(query, limit) for log in both.logs]
            lite, post = (
                [(said.index(hit.event_id), hit.snippet, round(hit.score, 9), hit.highlights) for hit in hits]
                for hits, said in zip(found, both.said, strict=True)
            )
            assert post == lite
            assert post


@pytest.fixture
def log(postgres: Databases) -> Iterator[Log]:
    address = postgres.take()
    with open_over(PostgresStore(address, create=False)) as log:
        yield log
    postgres.give_back(address)


def test_a_text_with_more_words_than_an_index_entry_holds_is_found(log: Log) -> None:
    """Its words are split into several pieces, and a query finds words from different ones."""
    agent = log.agent("a")
    tail = "q" * 100
    many = " ".join(f"w{number:x}{tail}" for number in range(12_000))
    long = agent.append("user", f"zebra {many} aardvark")
    short = agent.append("user", "zebra and aardvark")
    agent.end_turn()

    def found(query: str, how: How = "all") -> set[int]:
        with log.store.read() as moment:
            return {*moment.index(SearchScope()).best([TermQuery(how, read(query).terms)], 10)}

    assert isinstance(log.store, PostgresStore)
    with log.store.read() as moment:
        assert isinstance(moment.block, PostgresReading)
        pieces = moment.block.search(statement("SELECT count(*) FROM long_words"), {})
    assert pieces[0][0] > 1
    assert found("zebra aardvark") == {long, short}
    assert found(f'"zebra w0{tail}"') == {long}
    assert found(f'"w2edf{tail} aardvark"') == {long}
    assert found('"zebra aardvark"') == set()
    assert found("w2ed*") == {long}
    assert found("zebra nowhere", "any") == {long, short}
    assert list(log.store.damage()) == []
    agent.do(f"/message remove {long} --yes")
    assert found("zebra aardvark", "any") == set()  # both words were in that turn
    with log.store.read() as moment:
        assert isinstance(moment.block, PostgresReading)
        assert moment.block.search(statement("SELECT count(*) FROM long_words"), {}) == [(0,)]


def test_an_index_entry_stays_within_its_size_limit() -> None:
    token = "ab1" * 80
    made = appender.message_words("user", " ".join(f"{token}{number}" for number in range(4000)), None)
    assert made is not None
    assert all(sum(len(word.encode()) for word in piece) < 2**20 for piece in made.pieces)
    assert {word for piece in made.pieces for word in piece} == {*made.words[1:-1].split("><")}
    assert max(map(len, made.pieces[0])) <= 250


def test_counts_of_many_messages_are_estimates(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "COUNTED", 10)
    monkeypatch.setattr("foldmark.recall.searching.COUNTED", 10)
    agent = log.agent("a")
    with agent.batch():
        for number in range(200):
            agent.append("user", f"quartz {'fjord' if number % 10 == 0 else ''}")
    with log.store.read() as moment:
        index = moment.index(SearchScope())
        messages, (quartz, fjord) = index.counted(read("quartz fjord").terms)
        assert messages == 200
        assert 100 < quartz < 400
        assert 10 <= fjord < 40
        assert len(index.best([TermQuery("any", read("quartz").terms)], 1000)) == 200
