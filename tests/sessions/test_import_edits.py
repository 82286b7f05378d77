"""Importing a session that a plugin edited while it ran: what it wrote again is no new message (SPEC 8)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from archive_place import Home
from edited_sessions import COMPACTED, LONG, MODEL, SESSION, EditedClient, Row, shown
from session_records import jsonl

import foldmark
from foldmark.core import selections
from foldmark.core.assembly.eviction import CLIENT_OPENING, client_placeholder
from foldmark.core.search import ANY
from foldmark.formats.cut import Origin
from foldmark.formats.places import recognize, session_path
from foldmark.formats.session_file import SessionFile
from foldmark.log.search import search_everything
from foldmark.mod.conversation import ModConversation, open_for_mod
from foldmark.sessions.archive.searching import opened
from foldmark.sessions.conversion.importing import import_session, imported_event
from foldmark.sessions.doctor import diagnose
from foldmark.sessions.hook import tail
from foldmark.sessions.rollover.auto_summary import newest
from sampled import sampled
from steps import work


class Place:
    """A session file that is imported again after each step, and at once at the end."""

    def __init__(self, log: foldmark.Log, folder: Path) -> None:
        self.log, self.path = log, folder / f"{SESSION}.jsonl"

    def bring(self, client: EditedClient, name: str = "parts") -> Any:
        self.path.write_bytes(client.content())
        agent = self.log.agent(import_session(self.log, self.path, name).agent_id)
        return shown(agent)


@pytest.fixture
def place(log: foldmark.Log, tmp_path: Path) -> Place:
    return Place(log, tmp_path)


RECORDED = json.loads((Path(__file__).parent / "edited_by_plugins.json").read_bytes())
"""Sessions of Claude Code 2.1.332 that Foldmark's plugins edited, without the client's own records: their `records`,
the numbers of records after each step (`ends`), and what the log of the plugins showed in the end (`kept`)."""


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_session_equals_the_log_that_the_plugins_kept(name: str, place: Place) -> None:
    sample = RECORDED[name]
    kept = [tuple(item) for item in sample["kept"]]
    for end in sample["ends"]:
        place.path.write_bytes(jsonl(*sample["records"][:end]))
        agent = place.log.agent(import_session(place.log, place.path, "parts").agent_id)
    assert shown(agent) == kept
    whole = import_session(place.log, place.path, "whole")
    assert shown(place.log.agent(whole.agent_id)) == kept
    assert not whole.unsent


# -- Random sessions, edited as any plugin could


def _drop(client: EditedClient, random: Random, left: list[list[Row]]) -> None:
    """Take one turn out, or part of it, and let the rest stay."""
    turns = _turns(client)
    if not turns:
        return
    gone = random.choice(turns)
    left.append(gone)
    lines = {id(row) for row in gone}
    client.install([row.row() for row in client.memory if id(row) not in lines] or [_opening()])


def _back(client: EditedClient, random: Random, left: list[list[Row]]) -> None:
    """Put a turn that left back where it was: made anew, an answer with its calls as one row."""
    if not left:
        return
    turn = left.pop(random.randrange(len(left)))
    rows = client.rows()
    at = next((at for at, row in enumerate(client.memory) if row.order > turn[0].order), len(rows))
    client.install([*rows[:at], *_anew(turn), *rows[at:]])


def _anew(turn: list[Row]) -> Iterator[dict[str, Any]]:
    answer: dict[str, Any] | None = None
    for row in turn:
        new = {name: value for name, value in row.row().items() if name != "handle"} | {"order": row.order}
        if row.role == "assistant" and answer is not None:
            answer["text"] = "\n\n".join(filter(None, [answer["text"], new["text"]]))
            answer["toolUses"] = [*answer["toolUses"], *new["toolUses"]]
        else:
            if answer is not None:
                yield answer
            answer = new if row.role == "assistant" else None
            if answer is None:
                yield new
    if answer is not None:
        yield answer


def _evict(client: EditedClient, random: Random, left: list[list[Row]]) -> None:
    """Replace a result by its placeholder, or put it back."""
    rows = [{**row.row(), "order": row.order} for row in client.memory]
    results = [row for row in rows if "toolResults" in row]
    if results:
        row = random.choice(results)
        del row["handle"]
        for each in row["toolResults"]:
            is_whole = not each["text"].startswith("[Evicted")
            each["text"] = client_placeholder(len(LONG)) if is_whole else LONG
        client.install(rows)


def _same(client: EditedClient, random: Random, left: list[list[Row]]) -> None:
    if client.memory:
        client.install(client.rows())


def _turn(client: EditedClient, random: Random, left: list[list[Row]]) -> None:
    number = len(client.records)
    client.turn(
        random.choice([f"P{number}", "go on", "go on"]), random.choice([0, 0, 1, 2]), thinks=random.random() < 0.5
    )


def _compact(client: EditedClient, random: Random, left: list[list[Row]]) -> None:
    if len(client.memory) > 4:
        ends = client.memory[-1].role == "assistant" and client.memory[-1].blocks[0]["type"] == "text"
        client.compact(random.choice([0, 1]) if ends else 0)
        left.clear()


def _go_back(client: EditedClient, random: Random, left: list[list[Row]]) -> None:
    prompts = [at for at, row in enumerate(client.memory) if row.is_prompt and at]
    if prompts:
        client.go_back(random.choice(prompts))
        _turn(client, random, left)


def _opening() -> dict[str, Any]:
    return {"role": "user", "text": CLIENT_OPENING, "toolUses": []}


def _turns(client: EditedClient) -> list[list[Row]]:
    """Return the turns in memory but for a summary, which stays."""
    turns: list[list[Row]] = []
    for row in client.memory:
        if row.is_prompt or not turns:
            turns.append([])
        turns[-1].append(row)
    return [turn for turn in turns if turn[0].is_prompt and COMPACTED not in str(turn[0].blocks)]


STEPS = (_turn, _drop, _back, _evict, _same, _compact, _go_back)
WEIGHTS = (6, 4, 4, 2, 1, 1, 1)


def edited(seed: int, steps: int = 14) -> Iterator[EditedClient]:
    """Yield a client before its first and after each of its random steps."""
    random, client, left = Random(seed), EditedClient(), list[list[Row]]()
    client.turn("P0")
    yield client
    for _ in range(steps):
        random.choices(STEPS, WEIGHTS)[0](client, random, left)
        yield client


@pytest.mark.parametrize("seed", sampled(range(3000), 10))
def test_an_import_shows_what_the_client_has_in_memory(seed: int, place: Place) -> None:
    for client in edited(seed):
        assert place.bring(client) == client.items()
    assert place.bring(client, "once") == client.items()


# -- The sessions of Foldmark's own plugins


class Edited:
    """A client with Foldmark's plugins, and the log of their service."""

    def __init__(self, log: foldmark.Log) -> None:
        self.client, self._log = EditedClient(repeats=False), log
        open_for_mod(log)
        self._kept = ModConversation(log, SESSION, "/work")

    @property
    def agent(self) -> foldmark.Agent:
        return self._kept.agent

    def turn(self, text: str, calls: int = 0, *, thinks: bool = False) -> None:
        """A turn. When it ends, the plugin installs what is left to install."""
        self.client.turn(text, calls, thinks=thinks)
        self._take()
        self._install()

    def do(self, line: str) -> str:
        """Execute a command, and install what it changes."""
        said = self._kept.do(line)
        self._install()
        return said

    def _take(self) -> None:
        self._kept.take(self.client.messages(), MODEL)

    def _install(self) -> None:
        rows = self._kept.installed(self.client.rows(), self.client.messages(), MODEL)
        if rows is not None:
            self.client.install(rows)
            self._take()


def _command(edited: Edited, random: Random) -> str:
    """Return a random command that changes the context."""
    agent = edited.agent
    messages = agent.context().messages
    with agent.reading() as (moment, at):
        done = [
            event.id
            for event in selections.operations(moment, agent.id)
            if event.actor == "human" and event.kind != "restore"
        ]
        results = [each.id for each in messages if each.kind == "tool_result" and each.id not in at.fold.evicted]
    turns = sorted({each.turn_id for each in messages if each.turn_id is not None})
    lines = ["undo", *(f"drop {turn}" for turn in turns), *(f"evict {each}" for each in results)]
    return random.choice([random.choice(lines), *(f"restore {each}" for each in done[-3:])])


@pytest.mark.parametrize("seed", sampled(range(1000), 3))
def test_an_import_shows_what_the_plugins_install(seed: int, place: Place) -> None:
    random = Random(seed)
    with foldmark.open(":memory:") as log:
        edited = Edited(log)
        edited.turn("P0")
        for number in range(1, 10):
            edited.do(_command(edited, random))
            edited.turn(f"P{number}", random.choice([0, 1, 2]), thinks=random.random() < 0.5)
            assert place.bring(edited.client) == edited.client.items()
        assert place.bring(edited.client, "once") == edited.client.items()


# -- What counts as an edit, and what does not


@pytest.fixture
def client() -> EditedClient:
    """A client with three turns, the second with a call."""
    made = EditedClient()
    made.turn("P1")
    made.turn("P2", 1, thinks=True)
    made.turn("P3")
    return made


def _without(client: EditedClient, *turns: int) -> list[dict[str, Any]]:
    gone = {id(row) for turn in turns for row in _turns(client)[turn]}
    return [row.row() for row in client.memory if id(row) not in gone]


def _texts(items: list[Any]) -> list[str]:
    return [text for _, text, _ in items]


def test_what_an_edit_took_out_comes_back_by_an_operation(client: EditedClient, place: Place) -> None:
    before = client.items()
    client.install(_without(client, 1))
    after = place.bring(client)
    assert after == client.items() != before
    agent = place.log.agent("parts")
    (drop,) = [event for event in agent.events(0, 1000) if event.kind == "drop"]
    agent.do(f"/restore {drop.id}")
    assert shown(agent) == before
    assert sum(event.kind == "user" for event in agent.events(0, 1000)) == 3, "nothing is there twice"


def test_a_compaction_directly_behind_an_edit_keeps_what_the_edit_made_anew(client: EditedClient, place: Place) -> None:
    """The last record that the client had in memory, which the compaction names, was never written."""
    rows = _without(client, 1)
    del rows[-1]["handle"]
    rows[-1]["order"] = client.memory[-1].order
    client.install(rows)
    client.compact(keep=1)
    client.records[-2]["logicalParentUuid"] = str(UUID(int=0, version=4))
    client.turn("P4")
    assert place.bring(client, "once") == client.items()


def test_a_prompt_typed_again_behind_an_edit_is_a_new_one(client: EditedClient, place: Place) -> None:
    client.install(_without(client, 1))
    client.turn("P2")
    assert place.bring(client) == client.items()
    agent = place.log.agent("parts")
    assert sum(event.content == "P2" for event in agent.events(0, 1000)) == 2


def test_a_copy_leads_to_the_events_of_its_record(client: EditedClient, place: Place) -> None:
    client.install(_without(client, 0))
    place.bring(client)
    agent = place.log.agent("parts")
    lines = {record["uuid"]: line for line, record in enumerate(client.records, 1)}
    for row in client.memory:
        content = row.record["message"]["content"]
        found_at = (
            at for at, each in enumerate(client.records, 1) if each.get("message", {}).get("content") == content
        )
        first = next(found_at)
        found = imported_event(agent, place.path, lines[row.record["uuid"]])
        assert found is not None
        assert found == imported_event(agent, place.path, first)
    client.turn("P4")
    assert place.bring(client) == client.items()


def test_a_placeholder_elsewhere_is_a_text(place: Place) -> None:
    """A tool may print what Foldmark sends."""
    made = EditedClient()
    made.turn("P1", 1)
    made.memory[-2].record["message"]["content"][0]["content"] = client_placeholder(1000)
    made.turn(CLIENT_OPENING)
    assert place.bring(made)[-2:] == [("user", CLIENT_OPENING, False), ("assistant", f"Answer {_last(made)}.", False)]
    made.install(made.rows())
    place.bring(made)
    agent = place.log.agent("parts")
    with agent.reading() as (_, at):
        assert not at.fold.evicted
    (result,) = [event for event in agent.context().messages if event.kind == "tool_result"]
    assert result.content == client_placeholder(1000)


def _last(client: EditedClient) -> int:
    return int(client.memory[-1].blocks[0]["text"].removeprefix("Answer ").removesuffix("."))


def test_a_result_that_another_plugin_rewrote_is_new_with_its_call(client: EditedClient, place: Place) -> None:
    rows = client.rows()
    row = next(row for row in rows if "toolResults" in row)
    del row["handle"]
    row["toolResults"][0]["text"] = "rewritten"
    client.install(rows)
    assert place.bring(client) == client.items()
    contents = [event.content for event in place.log.agent("parts").context().messages if event.kind == "tool_result"]
    assert contents == ["rewritten"]


def test_messages_in_another_order_are_new(client: EditedClient, place: Place) -> None:
    rows = client.rows()
    client.install([*rows[-2:], *rows[:-2]])
    assert _texts(place.bring(client)) == _texts(client.items())


def test_an_eviction_that_a_person_took_back_stays_so(client: EditedClient, place: Place) -> None:
    _evict(client, Random(0), [])
    assert any(evicted for _, _, evicted in place.bring(client))
    agent = place.log.agent("parts")
    (evict,) = [event for event in agent.events(0, 1000) if event.kind == "evict"]
    agent.do(f"/restore {evict.id}")
    client.install(client.rows())
    assert not any(evicted for _, _, evicted in place.bring(client))


def test_a_trim_cuts_copies_in_their_own_words(client: EditedClient, place: Place) -> None:
    """A cut result names its line, so its copies differ."""
    _evict(client, Random(0), [])
    _evict(client, Random(0), [])
    client.install(_without(client, 0))
    for line, record in enumerate(client.records, 1):
        content = record.get("message", {}).get("content")
        if isinstance(content, list) and content[0].get("content") == LONG:
            pointer = Origin(line, "original.jsonl").pointer(20, len(LONG))
            record["message"] = {**record["message"], "content": [{**content[0], "content": f"{LONG[:20]}\n{pointer}"}]}
    assert place.bring(client) == client.items()
    assert sum(event.kind == "tool_result" for event in place.log.agent("parts").events(0, 1000)) == 1


# -- Other readers of such a session


def test_an_edited_session_is_not_damaged(client: EditedClient, place: Place) -> None:
    client.install(_without(client, 0))
    client.turn("P4", 1)
    client.install(client.rows())
    place.path.write_bytes(client.content())
    found = diagnose(session_path(place.path, "claude"))
    assert not [each for each in found.findings if each.weight != "note"]


def test_the_boundary_of_an_edit_reports_the_usage(client: EditedClient, place: Place) -> None:
    client.install(client.rows())
    boundary = next(record for record in client.records if record.get("subtype") == "compact_boundary")
    boundary["compactMetadata"]["postTokens"] = 4321
    place.path.write_bytes(client.content())
    share = tail.share(place.path, 200_000)
    assert share is not None
    assert share.tokens == 4321
    client.turn("P4")
    place.path.write_bytes(client.content())
    share = tail.share(place.path, 200_000)
    assert share is not None
    assert share.tokens == 909


def test_a_search_finds_a_message_once(client: EditedClient, tmp_path: Path) -> None:
    client.install(_without(client, 0))
    client.install(client.rows())
    client.turn("P4")
    home = Home(tmp_path / "home")
    home.session(SESSION, *client.records)
    home.sync()
    with opened(home.archive, ANY) as archived:
        for text in ("P1", "P2", "P4"):
            assert len(search_everything(text, 10, ANY, archive=archived)) == 1


def test_a_summary_for_a_rollover_has_what_the_edit_left(client: EditedClient, place: Place) -> None:
    client.install(_without(client, 1))
    client.turn("P4")
    place.path.write_bytes(client.content())
    text = newest(session_path(place.path, "claude"), 100_000)
    assert [text.count(f"[user] P{number}") for number in (1, 2, 3, 4)] == [1, 0, 1, 1]


# -- Hostile files


def _boundaries(number: int) -> list[Any]:
    """Boundaries with a copy of the same message, and with nothing."""
    made = EditedClient()
    made.turn("P1")
    for at in range(number):
        memory = made.memory
        made.install(made.rows() if at % 2 else [])
        made.memory = made.memory or memory
    return made.records


def _looped(number: int) -> list[Any]:
    """Boundaries and copies that continue themselves and each other."""
    records = _boundaries(number)
    for at, record in enumerate(records[3:], 3):
        record["parentUuid"] = records[-at]["uuid"]
        record["logicalParentUuid"] = records[at - 1]["uuid"]
    return records


def _equal(number: int) -> list[Any]:
    """Many equal messages, all of the same time, written again and again."""
    made = EditedClient()
    for _ in range(number // 8):
        made.turn("go on")
    for record in made.records:
        record["timestamp"] = made.records[0]["timestamp"]
    for _ in range(8):
        made.install([{**row, "handle": None} for row in made.rows()])
    return made.records


@pytest.mark.parametrize("write", [_boundaries, _looped, _equal])
def test_the_work_of_an_import_grows_with_the_records(write: Any, place: Place) -> None:
    done = []
    for number in (100, 200):
        place.path.write_bytes(jsonl(*write(number)))
        import_session(place.log, place.path, f"{number}")
        with SessionFile(place.path) as file:
            done.append(work(partial(_read, file)))
    assert done[1] < 2.6 * done[0]


def _read(file: SessionFile) -> None:
    kept = recognize(file)
    entries = kept.index(file.records())
    kept.active(kept.edited(entries, lambda each: file.reread(each.line, each.offset).value))
