"""The search while a person types: its hits, its filters, and the way to the place of a hit."""

import asyncio
import json
import threading
from pathlib import Path

import pytest
from driven import Driven, driven, sample
from golden import check
from textual.widgets import Input, OptionList

import foldmark
from foldmark.chat.display import find as values
from foldmark.chat.display.find import find, key_filters, next_filter, opening, surroundings
from foldmark.core import selections
from foldmark.core.errors import CommandError
from foldmark.core.search import PassageMessage, SearchResult
from foldmark.log import Agent, Log
from foldmark.sessions.archive.syncing import sync
from foldmark.terminal.side_screens import find as screen
from foldmark.terminal.side_screens.find import FindScreen, SurroundingsScreen
from patience import LIMIT
from stored import stored


def two_conversations(log: Log) -> Agent:
    """Return the sample conversation, in a log with another one that mentions exporters too."""
    agent = sample(log)
    other = log.agent("side project")
    other.append("user", "Where do [bold]exporters[/] get their names? \x1b[31m")
    other.append("assistant", "Exporters are entry points.")
    other.end_turn()
    return agent


async def search(chat: Driven, line: str) -> OptionList:
    """Open the search and type a line; return the hits once they are shown."""
    await chat.press("f6")
    await chat.until(lambda: isinstance(chat.app.screen, FindScreen) and chat.app.screen.query(Input))
    chat.app.screen.query_one(Input).value = line
    await chat.until(" hit")
    return chat.app.screen.query_one(OptionList)


# The values


def test_hits_are_those_of_recall_with_their_places(log: Log) -> None:
    agent = two_conversations(log)
    child = log.agent(str(agent.do("/fork").data["child"]))
    child.append("user", "The child looks at exporters.")
    child.end_turn()
    found = find(agent, "exporters")
    recalled = agent.do("/recall exporters").data["runs"]
    assert {hit.result.event_id for hit in found.hits} == {hit["event_id"] for run in recalled for hit in run["hits"]}
    places = {hit.where or hit.place: hit for hit in found.hits}
    assert places.keys() == {"sent", "out · /restore 17", "family", "elsewhere"}
    assert opening(places["out · /restore 17"]) is None
    assert opening(places["family"]) == f"/switch {child.id}"
    assert opening(places["elsewhere"]) == f"/switch {log.agent('side project').id}"
    assert places["elsewhere"].about.endswith(" · conversation side project")
    assert find(agent, "suite --visible").hits[0].about == "2026-03-02 09:00 · user · message 12 · sent"


def test_the_last_word_may_be_incomplete(log: Log) -> None:
    agent = two_conversations(log)
    assert not agent.do("/recall plug").data["runs"]
    assert find(agent, "plug").hits[0].result.snippet == "Try a plugin system for exporters."
    assert (
        find(agent, "system plug --role user").hits[0].result.event_id == find(agent, "plugin").hits[0].result.event_id
    )
    assert find(agent, "zeb").hits == find(agent, '"plug"').hits == ()


def test_a_memo_is_found_and_shown(log: Log) -> None:
    agent = log.agent("notes")
    agent.do("/memo add Zebras have stripes")
    (hit,) = find(agent, "zebra").hits
    assert (hit.place, opening(hit)) == ("memo", None)
    (line,) = surroundings(log, hit, 3).lines
    assert line.text == "Zebras have stripes"


@pytest.mark.parametrize("line", ["--role user", "tags --role", "tags --role nobody", "tags --since yesterday", "…"])
def test_an_incomplete_line_is_refused(log: Log, line: str) -> None:
    with pytest.raises(CommandError):
        find(log.agent("notes"), line)


def test_keys_write_filters_into_the_line(log: Log) -> None:
    agent = log.agent("side project")  # on 2026-03-02
    filters = key_filters(agent)

    def next_role(line: str) -> str:
        return next_filter(line, filters["role"])

    def next_time(line: str) -> str:
        return next_filter(line, filters["time"])

    def next_place(line: str) -> str:
        return next_filter(line, filters["place"])

    def only_here(line: str) -> str:
        return next_filter(line, filters["agent"])

    assert next_role("the tags") == "the tags --role user"
    assert next_role("--role client the tags") == "the tags"
    assert next_time("tags") == "tags --since 2026-03-01"
    assert next_time("tags --since 2026-03-01") == "tags --since 2026-02-23"
    assert next_time("tags --since 2020-01-01") == "tags"
    assert [line := next_place("tags --role user")] == ["tags --role user --visible"]
    assert [line := next_place(line)] == ["tags --role user --forgotten"]
    assert [line := next_place(line)] == ["tags --role user --archived"]
    assert next_place(line) == "tags --role user"
    assert only_here("tags") == 'tags --agent "side project"'
    assert only_here('tags --agent "side project"') == "tags"
    with pytest.raises(CommandError):
        next_role("tags --since")


# The screen


def test_the_screen_of_the_search(log: Log) -> None:
    async def look() -> None:
        async with driven(two_conversations(log)) as chat:
            await search(chat, "export plugins")
            check(chat.app, "find")

    asyncio.run(look())


def test_enter_jumps_to_the_place_in_the_transcript(log: Log) -> None:
    async def go() -> None:
        async with driven(two_conversations(log), size=(80, 24)) as chat:
            await search(chat, "plugin system exporters --role user")
            await chat.press("enter")
            await chat.until(lambda: chat.app.screen is chat.app.chat)
            await chat.until("Try a plugin system for exporters.")

    asyncio.run(go())


def test_another_conversations_hit_is_shown_and_opened(log: Log) -> None:
    async def go() -> None:
        async with driven(two_conversations(log)) as chat:
            hits = await search(chat, "exporters names --role user")
            await chat.press("enter")
            await chat.until("Exporters are entry points.")
            assert "Where do [bold]exporters[/] get their names? \\x1b[31m" in chat.screen
            await chat.still()
            check(chat.app, "surroundings")
            await chat.press("escape")
            await chat.until(lambda: isinstance(chat.app.screen, FindScreen))
            assert hits.highlighted == 0
            await chat.press("enter")
            await chat.until(lambda: isinstance(chat.app.screen, SurroundingsScreen))
            await chat.press("o")
            await chat.until(lambda: chat.app.screen is chat.app.chat)
            await chat.until(lambda: chat.app.chat.agent.name == "side project")
            await chat.until("Where do [bold]exporters[/] get their names?")
            await chat.press("f6")
            await chat.until("· sent")  # the same line, now of the current agent

    asyncio.run(go())


def test_filters_are_set_by_keys_and_a_wrong_line_is_explained(log: Log) -> None:
    async def go() -> None:
        async with driven(two_conversations(log)) as chat:
            hits = await search(chat, "exporters")
            count = hits.option_count
            line = chat.app.screen.query_one(Input)
            await chat.press("ctrl+r")
            assert line.value == "exporters --role user"
            await chat.until(lambda: 0 < hits.option_count < count)
            await chat.press("ctrl+s", "ctrl+o")
            await chat.until("role user, agent notes, in a context")
            line.value = "exporters --role nobody"
            await chat.until("role must be one of user, assistant")
            line.value = ""
            await chat.until(lambda: hits.option_count == 0)
            await chat.press("enter", "down", "escape")  # there is nothing to open
            await chat.until(lambda: chat.app.screen is chat.app.chat)

    asyncio.run(go())


def test_only_the_newest_line_is_searched_for(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = list[str](), threading.Event()

    def slow(agent: Agent, line: str) -> values.Found:
        begun.append(line)
        assert go_on.wait(LIMIT)
        return values.Found((), f"hits for {line}")

    monkeypatch.setattr(screen, "find", slow)

    async def go() -> None:
        async with driven(log.agent("notes")) as chat:
            await chat.press("f6")
            await chat.until(lambda: isinstance(chat.app.screen, FindScreen) and chat.app.screen.query(Input))
            line = chat.app.screen.query_one(Input)
            line.value = "z"
            await chat.until(lambda: begun == ["z"])
            for text in ("ze", "zeb", "zebra"):
                line.value = text
                await chat.pilot.pause(2 * screen.PAUSE)
            go_on.set()
            await chat.until("hits for zebra")

    asyncio.run(go())
    assert set(begun) == {"z", "zebra"}


def test_a_session_is_named_by_its_file_where_its_own_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    result = SearchResult("claude", "4f7a", "/x", "user", None, None, True, 1.0, "…", file="/a/4f7a.jsonl", line=3)
    hit = values.FoundHit(result, "session")
    assert opening(hit) == "/import /a/4f7a.jsonl"
    own = tmp_path / "projects" / "-x" / "4f7a.jsonl"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"{}\n")
    assert opening(hit) == "/import 4f7a"
    assert hit.about == "user · Claude Code session 4f7a, /x"


def test_a_message_of_another_agent_is_read_with_its_neighbours(log: Log) -> None:
    agent = two_conversations(log)
    (hit, *_) = find(agent, "entry points").hits
    lines = surroundings(log, hit, 1).lines
    assert [line.asked for line in lines if isinstance(line, PassageMessage)] == [False, True]


def test_a_key_imports_the_new_messages_of_a_session(tmp_path: Path) -> None:
    def said(name: str, parent: str | None) -> bytes:
        message = {"role": "user", "content": f"ask {name}"}
        record = {"type": "user", "uuid": name, "parentUuid": parent, "message": message}
        return json.dumps(record).encode() + b"\n"

    path = tmp_path / "session.jsonl"
    path.write_bytes(said("a", None))

    async def go(log: Log) -> None:
        async with driven(log.agent("notes")) as chat:
            await chat.type(f"/import {path}")
            await chat.until("Imported from Claude Code's session session.")
            with path.open("ab") as file:
                file.write(said("b", "a"))
            await chat.press("f7")
            await chat.until("imported 1 new message")

    with foldmark.open(str(tmp_path / "log.db")) as log:
        asyncio.run(go(log))
        assert [each.content for each in log.agent("session").context().messages] == ["ask a", "ask b"]


def test_a_hit_in_an_archived_session_is_imported_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = "0a0a0a0a-1111-4111-8111-111111111111"
    home = {"HOME": str(tmp_path / "home"), "FOLDMARK_ARCHIVE": str(tmp_path / "archive")}
    for name, value in home.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "home" / ".claude" / "projects" / "-work" / f"{session}.jsonl"
    file.parent.mkdir(parents=True)
    texts = ["How do we migrate the zebra schema?", *(f"And step {number}?" for number in range(60))]
    file.write_text("".join(_record(number, text, session) for number, text in enumerate(texts)))
    sync(home, (), ())

    async def go(log: Log) -> None:
        agent = sample(log)
        async with driven(agent, size=(80, 24)) as chat:
            await search(chat, "zebra --archived")
            await chat.press("enter")
            await chat.until(lambda: isinstance(chat.app.screen, SurroundingsScreen))
            await chat.until("And step 0?")
            await chat.press("o")
            await chat.until(lambda: chat.app.chat.agent != agent)
            await chat.until("How do we migrate the zebra schema?")
            current = chat.app.chat.transcript.current
            assert current is not None
            event = selections.event(stored(log), current.key[0])
            assert event is not None
            assert event.content == texts[0]

    with foldmark.open(tmp_path / "log.db") as log:
        asyncio.run(go(log))


def _record(number: int, text: str, session: str) -> str:
    """Return a line of a Claude Code session that holds a person's message."""
    record = {
        "type": "user",
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": session,
        "timestamp": f"2026-03-01T10:{number:02}:00.000Z",
        "message": {"role": "user", "content": text},
    }
    return json.dumps(record) + "\n"
