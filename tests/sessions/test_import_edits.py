"""Importing a session that a plugin edited while it ran: what it wrote again is no new message (SPEC 8)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from edited_sessions import COMPACTED, LONG, MODEL, SESSION, EditedClient, Row, shown

import foldmark
from foldmark.core.assembly.eviction import CLIENT_OPENING, client_placeholder
from foldmark.mod.conversation import ModConversation, open_for_mod
from foldmark.sessions.conversion.importing import import_session
from sampled import sampled


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


@pytest.mark.parametrize("seed", sampled(range(3000), 25))
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
        done = [event.id for event in moment.operations(agent.id) if event.actor == "human" and event.kind != "restore"]
        results = [each.id for each in messages if each.kind == "tool_result" and each.id not in at.fold.evicted]
    turns = sorted({each.turn_id for each in messages if each.turn_id is not None})
    lines = ["undo", *(f"drop {turn}" for turn in turns), *(f"evict {each}" for each in results)]
    return random.choice([random.choice(lines), *(f"restore {each}" for each in done[-3:])])


@pytest.mark.parametrize("seed", sampled(range(1000), 8))
def test_an_import_shows_what_the_plugins_install(seed: int, place: Place) -> None:
    random = Random(seed)
    with foldmark.open(":memory:") as log:
        edited = Edited(log)
        edited.turn("P0")
        for number in range(1, 15):
            edited.do(_command(edited, random))
            edited.turn(f"P{number}", random.choice([0, 1, 2]), thinks=random.random() < 0.5)
            assert place.bring(edited.client, f"once {number}") == edited.client.items()
            assert sorted(place.bring(edited.client)) == sorted(edited.client.items())
