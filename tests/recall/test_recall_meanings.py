"""Search by meaning as well as by words: modes, filters, all sources in one ranking (SPEC 7, 8)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import foldmark
from cases import case
from foldmark.core.errors import CommandError
from foldmark.core.search import ANY, Filters, Mode, SearchResult
from foldmark.log.search import search_everything
from foldmark.sessions.archive import vectors
from foldmark.sessions.archive.searching import opened
from foldmark.sessions.archive.syncing import sync
from sampled import DEEP

Say = Callable[..., list[int]]

KITTEN = "A small kitten sleeps on the sofa."
ENGINE = "The car's engine broke down on the motorway."
ASKED = "a young cat that rests"
LONG = 200_000 if DEEP else 4_000


@pytest.fixture
def talk(log: foldmark.Log, say: Say) -> list[int]:
    """A conversation about a kitten and an engine, cleared from the context; the ids of its messages."""
    agent = log.agent("default")
    ids = say(agent, (KITTEN, "How sweet!"), (ENGINE, "That is expensive."), ("The tree is high.", "It is an oak."))
    agent.do("/clear")
    say(agent, "Let us begin again.")
    log.meanings().bring_up()
    return ids


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive with a session about a dog."""
    file = tmp_path / ".claude/projects/-p/dog.jsonl"
    file.parent.mkdir(parents=True)
    texts = ["Our puppy barks at strangers all day.", "Have you tried a trainer?"]
    records = [
        {"type": "user", "uuid": f"u{number}", "cwd": "/p", "message": {"role": "user", "content": text}}
        for number, text in enumerate(texts)
    ]
    file.write_text("\n".join(map(json.dumps, records)) + "\n")
    folder = tmp_path / "archive"
    sync({"HOME": str(tmp_path), "FOLDMARK_ARCHIVE": str(folder)})
    return folder


def embed_archive(log: foldmark.Log, folder: Path) -> None:
    from foldmark.recall.embeddings.stored import StoredVectors

    with vectors.opened(folder) as store:
        StoredVectors(store, log.meanings().embedder).bring_up()


def everything(
    query: str, log: foldmark.Log | None, folder: Path | None, mode: Mode = "auto", filters: Filters = ANY
) -> list[SearchResult]:
    @contextmanager
    def there() -> Iterator[Any]:
        if folder is None:
            yield None
        else:
            with opened(folder, filters) as found:
                yield found

    with there() as archive:
        return search_everything(query, 5, filters, log=log, archive=archive, mode=mode)


def test_a_message_without_a_word_of_the_query_is_found_by_meaning(log: foldmark.Log, talk: list[int]) -> None:
    for mode in ("auto", "both", "vector"):
        assert log.search(ASKED, 3, mode=mode)[0].event_id == talk[0]
    assert log.search(ASKED, mode="text") == []
    (hit, *_) = log.search("automobile failure", 1, mode="vector")
    assert (hit.event_id, hit.snippet, hit.highlights) == (talk[2], ENGINE, ())


def test_messages_with_all_words_still_come_first(log: foldmark.Log, talk: list[int]) -> None:
    assert log.search("oak", 1)[0].event_id == talk[5]
    assert log.search("motorway engine", 1)[0].event_id == talk[2]


def test_meanings_pass_the_filters(log: foldmark.Log, talk: list[int], say: Say) -> None:
    other = log.agent("other")
    (late,) = say(other, "The tomcat dozed off.", day=20)
    log.meanings().bring_up()

    def found(**filters: Any) -> set[int]:
        return {hit.event_id for hit in log.search(ASKED, 50, Filters(**filters), mode="vector")}

    assert {talk[0], late} <= found()
    assert found(agent="other") == {late}
    assert talk[0] in found(visible=False)
    assert late not in found(visible=False)
    assert late in found(visible=True)
    assert talk[0] not in found(visible=True)
    assert talk[1] in found(role="assistant")
    assert not {talk[0], late} & found(role="assistant")
    assert found(tool="bash") == set()
    assert found(project="oth") == {late}


def test_all_sources_are_ranked_together(log: foldmark.Log, talk: list[int], archive: Path) -> None:
    with log.store.write() as transaction:
        transaction.save_memo("Buy a lead for the puppy", ["shopping"], None, "human", "2026-03-01T12:00:00.000000Z")
    embed_archive(log, archive)
    hits = everything("noisy dogs", log, archive, "vector")
    assert (hits[0].source, hits[0].line) == ("claude", 1)
    assert {"claude", "conversation"} == {hit.source for hit in hits}
    assert "memo" in {hit.source for hit in everything("puppy lead", log, archive)}
    assert everything(ASKED, log, archive)[0].event_id == talk[0]
    assert everything("noisy dogs", None, archive)[0].line == 1
    assert everything("noisy dogs", None, archive, "both")[0].line == 1
    found = everything("noisy dogs", log, archive, "vector", Filters(project="/nowhere"))
    assert found == []


def test_one_source_may_lack_vectors(log: foldmark.Log, talk: list[int], archive: Path) -> None:
    hits = everything("puppy that rests", log, archive)
    assert {hit.source for hit in hits} == {"claude", "conversation"}
    assert everything(ASKED, log, archive, "vector")[0].event_id == talk[0]
    with pytest.raises(CommandError, match="`foldmark index`"):
        everything(ASKED, None, archive, "vector")
    embed_archive(log, archive)
    assert log.store.vectors is not None
    log.store.vectors.remove_vectors(log.meanings().embedder.fingerprint)
    assert [hit.source for hit in everything("noisy dogs", log, archive, "vector")] == ["claude", "claude"]


def test_a_search_by_meaning_without_any_vectors_is_refused(log: foldmark.Log, say: Say, archive: Path) -> None:
    say(log.agent("default"), KITTEN)
    for mode in ("vector", "both"):
        with pytest.raises(CommandError, match="`foldmark index`"):
            log.search(ASKED, mode=mode)
        with pytest.raises(CommandError, match="`foldmark index`"):
            everything(ASKED, log, archive, mode)
    assert log.search("kitten")
    assert everything("kitten", log, archive)


def test_a_newer_message_is_found_once_it_has_vectors(log: foldmark.Log, talk: list[int], say: Say) -> None:
    (late,) = say(log.agent("default"), "Seven whales were seen off the coast.")
    assert late not in {hit.event_id for hit in log.search("marine mammals", 50, mode="vector")}
    for hits in (log.search("whales", 50, mode="vector"), everything("whales", log, None, "vector")):
        assert late not in {hit.event_id for hit in hits}, "words do not count"
    assert log.search("whales", 1)[0].event_id == late
    assert log.meanings().bring_up() == 1
    assert log.search("marine mammals", 1, mode="vector")[0].event_id == late
    log.agent("default").do(f"/message remove {late} --yes")
    assert late not in {hit.event_id for hit in log.search("marine mammals", 50, mode="vector")}


def test_any_text_gets_a_vector_and_any_query_an_answer(log: foldmark.Log, talk: list[int], say: Say) -> None:
    for text in ("", " ", "\ud800", "\0", "a" * LONG, "語" * (LONG // 40), "\u2028", "? ? ?"):
        with case(text):
            say(log.agent("default"), text)
            log.meanings().bring_up()
            assert log.store.vectors is not None
            coverage = log.store.vectors.coverage(log.meanings().embedder.fingerprint)
            assert coverage.messages == coverage.of
            if any(map(str.isalnum, text)):
                assert log.search(text, mode="vector")
            else:
                with pytest.raises(CommandError, match="no word"):
                    log.search(text, mode="vector")


def test_a_result_of_a_tool_has_no_vector_and_is_still_found_first(log: foldmark.Log, say: Say) -> None:
    """That a message has no vector says nothing against it: it counts like the usual candidate."""
    agent = log.agent("default")
    say(
        agent,
        *[(f"Where is the parser tested, part {number}?", "The tests of the parser are there.") for number in range(5)],
    )
    agent.append("user", "Show me the folder.")
    agent.append_tool_call("list", {"path": "tests"}, call_id="c")
    result = agent.append_tool_result("c", "tests/test_parser_grammar.py tests/test_names.py")
    agent.end_turn()
    log.meanings().bring_up()
    assert log.search("which tests of the parser check its grammar", 1)[0].event_id == result
