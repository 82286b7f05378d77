"""`search` and `read` over MCP find and show messages of sessions and conversations (SPEC 7)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from guest import Guest, inside, visit

import foldmark
from foldmark.mcp import search
from foldmark.sessions.archive.storing import archive_folder, put
from foldmark.sessions.archive.syncing import sync

FIRST, SECOND, THIRD = (f"{digit * 8}-{digit * 4}-4{digit * 3}-8{digit * 3}-{digit * 12}" for digit in "123")


def record(session: str, number: int, role: str, text: str, day: str) -> dict[str, Any]:
    content: Any = text if role == "user" else [{"type": "text", "text": text}]
    return {
        "type": role,
        "uuid": f"{session[:8]}-0000-4000-8000-{number:012}",
        "parentUuid": None,
        "sessionId": session,
        "cwd": "/work/garden",
        "timestamp": f"{day}T10:00:00.000Z",
        "message": {"role": role, "model": "m", "content": content},
    }


def session(id: str, day: str, *said: str) -> Path:
    """Write a Claude Code session in which a person and a model alternate."""
    file = Path(os.environ["HOME"], ".claude/projects/-work-garden", f"{id}.jsonl")
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps(record(id, number, "assistant" if number % 2 else "user", text, day))
        for number, text in enumerate(said)
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


@pytest.fixture
def sessions() -> None:
    session(FIRST, "2026-01-10", "How do roses grow?", "Roses need sun.", "And tulips?", "Tulips need cold.")
    session(SECOND, "2026-02-20", "Where do roses come from?", "From far away.")
    sync(os.environ)


async def found(guest: Guest, query: Any, **wanted: Any) -> list[dict[str, Any]]:
    answer = json.loads(await guest.call("search", query=query, response_format="json", **wanted))
    assert answer["count"] == len(answer["results"])
    assert answer["mode"] == "text"
    return list(answer["results"])


@pytest.mark.usefixtures("sessions")
def test_a_search_and_what_stands_there(db: str) -> None:
    async def visiting() -> None:
        async with inside(db, None) as guest:
            shown = await guest.call("search", query="tulips cold")
            assert f"2026-01-10 · /work/garden · Claude Code session {FIRST}" in shown
            assert "assistant: Tulips need cold." in shown
            (best, *_) = await found(guest, "tulips cold")
            assert (best["session_id"], best["line"], best["role"]) == (FIRST, 4, "assistant")
            assert f"{best['path']}, line 4" in shown
            around = await guest.call("read", path=best["path"], startLine=3, endLine=4)
            assert "And tulips?" in around
            assert "Tulips need cold." in around
            assert "Roses need sun." not in around
            assert "Tulips need cold." not in await guest.call("read", path=best["path"], endLine=3)
            whole = await guest.call("read", path=FIRST)
            assert "How do roses grow?" in whole
            assert "Tulips need cold." in whole
            assert await guest.call("search", query="cactus") == "No messages match."

    visit(visiting)


@pytest.mark.usefixtures("sessions")
def test_filters(db: str) -> None:
    async def visiting() -> None:
        async with inside(db, None) as guest:

            async def who(**wanted: Any) -> set[str]:
                return {each["session_id"] for each in await found(guest, "roses", **wanted)}

            assert await who() == {FIRST, SECOND}
            assert await who(after="2026-02-01") == {SECOND}
            assert await who(after="2026-02-20") == {SECOND}
            assert await who(before="2026-02-20") == {FIRST}
            assert await who(session_id=FIRST[:8]) == {FIRST}
            assert await who(project="garden") == {FIRST, SECOND}
            assert await who(project="kitchen") == set()
            assert await who(role="assistant") == {FIRST}
            assert await who(tool="Read") == set()
            assert len(await found(guest, "roses", limit=1)) == 1
            for mode in ("vector", "text", "both"):
                assert await who(mode=mode) == {FIRST, SECOND}
            assert "Found by words: there are no vectors" in await guest.call("search", query="roses", mode="vector")

    visit(visiting)


@pytest.mark.usefixtures("sessions")
@pytest.mark.parametrize("query", [["roses", "tulips"], '["roses", "tulips"]'])
def test_concepts_have_to_come_up_all(db: str, query: Any) -> None:
    async def visiting() -> None:
        async with inside(db, None) as guest:
            results = await found(guest, query)
            assert [(each["concept"], each["session_id"]) for each in results] == [("roses", FIRST), ("tulips", FIRST)]
            shown = await guest.call("search", query=query)
            assert "1 session with all of these" in shown
            assert "“tulips” in" in shown
            assert await guest.call("search", query=["roses", "cactus"]) == ("No session has all of these.")

    visit(visiting)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({}, "missing required field `query`"),
        ({"query": "?!"}, "no word"),
        ({"query": ["a"] * 6}, "length <= 5"),
        ({"query": []}, "length >= 1"),
        ({"query": "a", "limit": 51}, "<= 50"),
        ({"query": "a", "after": "yesterday"}, "after must be a date such as 2026-01-31"),
        ({"query": "a", "role": "king"}, "role must be one of"),
        ({"query": "a", "mode": "dream"}, "mode"),
        ({"query": "a", "git_branch": "main"}, "unknown field `git_branch`"),
    ],
)
@pytest.mark.usefixtures("sessions")
def test_wrong_searches(db: str, wanted: dict[str, Any], told: str) -> None:
    async def visiting() -> None:
        async with inside(db, None) as guest:
            answer = await guest.call("search", **wanted)
            assert answer.startswith("Error: ")
            assert told in answer

    visit(visiting)


def test_conversations_are_found_and_read_too(db: str, log: foldmark.Log) -> None:
    agent = log.agent("my plans")
    first = agent.append("user", "Roses along the wall.")
    agent.append("assistant", "Noted.")
    agent.end_turn()
    agent.do("/clear")

    async def visiting() -> None:
        async with inside(db, None) as guest:
            (hit,) = await found(guest, "wall")
            assert (hit["source"], hit["line"], hit["visible"]) == ("conversation", first, False)
            assert hit["path"] == "foldmark://conversations/my%20plans"
            assert "(out)" in await guest.call("search", query="wall")
            said = await guest.call("read", path=hit["path"], startLine=first, endLine=first)
            assert "user: Roses along the wall." in said
            assert "Noted." not in said
            assert "there is no message in these lines" in await guest.call("read", path=hit["path"], startLine=99)
            assert "there is no conversation" in await guest.call("read", path="foldmark://conversations/other")

    visit(visiting)


def test_a_long_passage_comes_in_parts(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_CHARACTERS", 300)
    session(FIRST, "2026-01-10", *(f"rose number {number}" for number in range(20)), "long " * 100)
    sync(os.environ)

    async def visiting() -> None:
        async with inside(db, None) as guest:
            text, start, parts = "", 1, 0
            while start:
                part = await guest.call("read", path=FIRST, startLine=start)
                text, parts = f"{text}\n{part}", parts + 1
                start = int(part.rpartition("[More from startLine ")[2].split()[0]) if "[More" in part else 0
            assert parts > 2
            for number in range(20):
                assert f"rose number {number}\n" in text
            assert "more characters of line 21.]" in text
            assert "lies before startLine" in await guest.call("read", path=FIRST, startLine=3, endLine=2)
            assert "Expected `int` >= 1" in await guest.call("read", path=FIRST, startLine=0)
            assert "there is no archived session" in await guest.call("read", path="nowhere")

    visit(visiting)


@pytest.mark.usefixtures("sessions")
def test_no_file_is_read_but_archived_sessions(db: str) -> None:
    own = session("33333333-0000-4000-8000-000000000000", "2026-03-01", "What nobody archived.", "Indeed.")

    async def visiting() -> None:
        async with inside(db) as guest:
            assert "there is no archived session" in await guest.call("read", path=str(own))
            assert "there is no archived session" in await guest.call("read", path=__file__)
            (hit,) = await found(guest, "cold")
            assert "Tulips need cold." in await guest.call("read", path=hit["path"])

    visit(visiting)


def test_sessions_archived_by_hooks_are_indexed_first(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session(FIRST, "2026-01-10", "How do roses grow?")
    sync(os.environ)
    for id in (SECOND, THIRD):
        put(session(id, "2026-02-20", f"Where do tulips of {id} come from?"), archive_folder(os.environ))
    told: list[tuple[float, float | None]] = []

    async def record(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))

    async def visiting() -> None:
        async with inside(db, None) as guest:
            with monkeypatch.context() as hurried:
                hurried.setattr(search, "INDEXING", -1.0)
                shown = await guest.call("search", query="tulips")
            assert "1 result" in shown
            assert "are not indexed yet; the next search goes on with that" in shown
            await guest.client.call_tool("search", {"query": "tulips"}, progress_callback=record)
            assert {each["session_id"] for each in await found(guest, "tulips")} == {SECOND, THIRD}

    visit(visiting)
    assert told
    assert all(total is not None and done <= total for done, total in told)


def test_memos_are_found_and_read_too(db: str, log: foldmark.Log) -> None:
    log.agent("default").do("/memo add Roses want lime. #garden")

    async def visiting() -> None:
        async with inside(db, None) as guest:
            (hit,) = await found(guest, "lime")
            assert (hit["source"], hit["path"], hit["line"]) == ("memo", "foldmark://memos/1", None)
            assert "foldmark://memos/1" in await guest.call("search", query="lime")
            assert "Roses want lime." in await guest.call("read", path=hit["path"])
            for wrong in ("foldmark://memos/7", "foldmark://memos/x"):
                assert "there is no memo" in await guest.call("read", path=wrong)

    visit(visiting)
