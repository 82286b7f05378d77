"""`search` over MCP by meaning, with and without vectors (SPEC 7)."""

from __future__ import annotations

import json

import pytest
from guest import inside, visit

import foldmark
from foldmark.cli.program import run

KITTEN = "A small kitten sleeps on the sofa."
ASKED = "a young cat that rests"


@pytest.fixture
def said(db: str) -> None:
    with foldmark.open(db, settings={}) as log:
        agent = log.agent("default")
        for text in (KITTEN, "The engine broke down.", "An oak is high."):
            agent.append("user", text)
            agent.end_turn()


@pytest.mark.usefixtures("said")
def test_without_vectors_it_goes_by_words(db: str) -> None:
    async def visiting() -> None:
        async with inside(db, None) as guest:
            for mode in ("vector", "both", "text"):
                answer = json.loads(await guest.call("search", query="kitten", mode=mode, response_format="json"))
                assert (answer["mode"], answer["count"]) == ("text", 1)
                told = " ".join(answer["notes"])
                assert ("found by words" in told) == ("`foldmark index`" in told) == (mode == "vector")
            assert "found by words" not in await guest.call("search", query="kitten")

    visit(visiting)


@pytest.mark.usefixtures("said")
def test_with_vectors_it_goes_by_what_is_asked_for(db: str) -> None:
    assert run(["index"]) == 0

    async def visiting() -> None:
        async with inside(db, None) as guest:
            for mode in ("vector", "both"):
                answer = json.loads(await guest.call("search", query=ASKED, mode=mode, response_format="json"))
                assert (answer["mode"], answer["notes"]) == (mode, [])
                assert answer["results"][0]["snippet"] == KITTEN
            answer = json.loads(await guest.call("search", query=ASKED, mode="text", response_format="json"))
            assert (answer["mode"], answer["count"]) == ("text", 0)
            assert KITTEN in await guest.call("search", query=ASKED), "both, if nothing else is said"
            concepts = ["a young cat", "motor failure"]
            answer = json.loads(await guest.call("search", query=concepts, response_format="json"))
            assert [each["snippet"] for each in answer["results"]] == [KITTEN, "The engine broke down."]
            assert KITTEN in await guest.call("recall", query=ASKED)

    visit(visiting)
