"""A killed process loses nothing, at whatever step of a turn it is killed [SPEC 2, 6].

`crashing` plays one turn with everything in it and is killed at each of its steps, from the first to the last; unless
this is a deep run, only at a sample of the steps of each kind. The test then examines the database, and the next
runtime continues from there.
"""

import asyncio
import json
import shutil
import subprocess
import sys
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from crashing import CHILD, MAIL, OTHER, PARENT, prepare, slash
from request_validators import VALIDATORS

import foldmark
import forked
from foldmark import Log
from foldmark.core import selections
from foldmark.core.events import METADATA_KINDS, Event
from foldmark.core.request import Piece, Request
from foldmark.log.doctor import examine
from foldmark.request.recorded import newest_requests
from foldmark.runtime.supervisor import Supervisor
from sampled import DEEP, sampled
from stored import connection, leases, stored

MESSAGES = ("user", "assistant", "tool_call", "tool_result")
MODELS = {"anthropic": "claude-test", "openai": "gpt-5", "gemini": "gemini-3-pro"}


class Told(NamedTuple):
    """The lines that a process wrote before it ended, and its exit code or negated signal number."""

    code: int
    lines: list[list[Any]]

    def of(self, what: str) -> list[list[Any]]:
        return [rest for kind, *rest in self.lines if kind == what]

    @property
    def steps(self) -> list[str]:
        return [step for (step,) in self.of("step")]


class Player:
    """The program that plays the turn, on a new copy of the same database each time."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._prepared = folder, folder / "prepared.db"
        prepare(self._prepared)
        program = [sys.executable, str(Path(__file__).with_name("crashing.py"))]
        self._process = forked.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def play(self, steps: Iterable[str]) -> Iterator[tuple[str, Path, Told]]:
        """Play the turn once per step, killed at that step (0: none); the next run begins while one is examined."""
        waiting: deque[str] = deque()
        for step in steps:
            self._begin(step)
            waiting.append(step)
            if len(waiting) > 1:
                yield self._told(waiting.popleft())
        while waiting:
            yield self._told(waiting.popleft())

    def _begin(self, step: str) -> None:
        shutil.copy(self._prepared, self._folder / f"{step}.db")
        assert self._process.stdin is not None
        self._process.stdin.write(f"{step}\t{self._folder / f'{step}.db'}\t{self._folder / f'{step}.told'}\n")
        self._process.stdin.flush()

    def _told(self, step: str) -> tuple[str, Path, Told]:
        assert self._process.stdout is not None
        code = int(self._process.stdout.readline())
        lines = (self._folder / f"{step}.told").read_text().splitlines()
        return step, self._folder / f"{step}.db", Told(code, [json.loads(line) for line in lines])

    def close(self) -> None:
        self._process.communicate()


@contextmanager
def reopened(path: Path) -> Iterator[Log]:
    with foldmark.open(path, create=False) as log:
        connection(log).execute("PRAGMA synchronous = OFF")
        yield log


@pytest.fixture
def player(tmp_path: Path) -> Iterator[Player]:
    with closing(Player(tmp_path)) as player:
        yield player


def test_killed_at_every_step(player: Player) -> None:
    ((_, _, whole),) = player.play(["0"])
    assert whole.code == 0
    killed, seen = list[str](), set[str]()
    kinds = defaultdict[str, list[str]](list)
    for step in whole.steps:
        kinds[step.split(" ", 1)[1]].append(step)
    steps = [step for kind, each in kinds.items() for step in sampled(each, 3 if kind.endswith("COMMIT") else 2)]
    for step, path, told in player.play(steps):
        if told.code == 0:  # the agents met at other moments, which saved a few steps
            continue
        assert told.steps[-1] == step
        killed.append(step)
        try:
            come_back(path, told, seen)
        except BaseException as error:
            error.add_note(f"killed at step {step} of {len(whole.steps)}, after {told.lines[-3:]}")
            raise
        for file in path.parent.glob(f"{step}.*"):
            file.unlink()
    assert len(killed) >= len(steps) - 8
    assert len(seen) >= len(steps) // 2
    assert {step.split(" ", 1)[1] for step in killed} == set(kinds)


def test_the_turn_has_everything_in_it(player: Player) -> None:
    """Otherwise the test above would prove less than it claims."""
    ((_, path, told),) = player.play(["0"])
    kinds = Counter(kind for _, kind, _ in told.of("event"))
    assert kinds.keys() >= {*MESSAGES, "mark", "fork", "rewind", "state", "usage", "config", "turn_ended"}
    contents = [content for _, _, content in told.of("event")]
    for beginning in ("[Foldmark: your context is ", "[Foldmark: You are agent 40000000", "[Foldmark: Rewound to"):
        assert sum(content.startswith(beginning) for content in contents) >= 1, beginning
    assert {text for (text,) in told.of("sent")} == set(MAIL)
    with reopened(path) as log:
        sound(log)
        assert [agent.id for agent in log.agents()] == [PARENT, OTHER, CHILD]
        assert {text for ((_, text),) in carried_mail(log).values()} == {"to-child", "to-parent"}
        assert [text for _, text in unread_mail(log).values()] == ["to-another"]
        assert (open_turns(log), leases(log)) == ({}, [])
        assert any((event.data or {}).get("blocks") for event in events(log)), "thinking is kept"


def come_back(path: Path, told: Told, seen: set[str]) -> None:
    """Check that the killed process left a sound database, and that the next process completes a turn on it.

    Nothing changes between two COMMITs, so each state is continued only once; `seen` holds the earlier ones.
    """
    assert told.code == -9
    with reopened(path) as log:
        nothing_lost(log, told)
        assert list(examine(log)) == []
        if (found := left(log)) in seen:
            return
        seen.add(found)
        sound(log)
        before, opened = heads(log), open_turns(log)
        asyncio.run(again(log, opened))
        sound(log)
        nothing_lost(log, told)
        assert open_turns(log) == {}
        assert not unread_mail(log), "whoever has been asked to go on has read its mail"
        assert {text for ((_, text),) in carried_mail(log).values()} >= {text for (text,) in told.of("sent")}
        for agent_id, turn in opened.items():
            assert ended(log, turn) == [True], "the turn that was cut off is marked"
            own = [each for each in events(log) if each.agent_id == agent_id and each.kind not in METADATA_KINDS]
            newer = [event for event in own if event.id > before[agent_id]]
            assert next(event.kind for event in newer) == "turn_ended"
            assert {event.turn_id for event in newer if event.kind in MESSAGES}.isdisjoint({turn})


def left(log: Log) -> str:
    """Return the content of all tables, without times and process names."""
    db = connection(log)
    found = []
    for (table,) in db.execute("SELECT name FROM pragma_table_list WHERE schema = 'main' AND strict").fetchall():
        columns = {name for (name,) in db.execute(f"SELECT name FROM pragma_table_info('{table}')")}
        columns -= {"created_at", "sent_at", "taken_at", "until", "holder", "process", "checksum"}
        found.append([table, *sorted(db.execute(f"SELECT {', '.join(sorted(columns))} FROM {table}"), key=repr)])
    return repr(found)


class GoingOn:
    """A model that reads its mail and says one sentence."""

    def __init__(self) -> None:
        self._asked = 0

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        self._asked += 1
        yield slash("check-mail") if self._asked == 1 else "I go on."

    async def count(self, request: Request) -> int:
        raise NotImplementedError


async def again(log: Log, opened: dict[str, int]) -> None:
    """Continue with a new runtime: an agent runs only when it gets a message, except for forks that never began."""
    before, waiting = heads(log), [record.id for record in stored(log).agents(unstarted=True)]
    async with Supervisor(log, lambda _: GoingOn()) as supervisor:
        supervisor._look_once()
        assert (supervisor.working, heads(log)) == (waiting, before)
        if waiting:
            await supervisor.settled()
            before = heads(log)
        supervisor.attended = PARENT
        await supervisor.say(log.agent(PARENT), "go on")
        supervisor._look_once()
        assert supervisor.working == []
        assert {**heads(log), PARENT: 0} == {**before, PARENT: 0}, "the children are idle"
        for agent in log.agents():
            if agent.id != PARENT:
                supervisor.attended = agent.id
                await supervisor.say(agent, "go on")
        await supervisor.settled()


def sound(log: Log) -> None:
    """Check that the database is sound, requests are valid, and no mail is lost or delivered twice. Each agent has a
    request for one provider, which changes from state to state; in a deep run, for each of them."""
    assert list(examine(log)) == []
    models = [*MODELS.items()]
    for number, agent in enumerate(log.agents(), len(events(log))):
        for provider, model in models if DEEP else [models[number % len(models)]]:
            request = agent.request(provider, model)
            assert VALIDATORS[provider](json.loads(request.bytes)) == [], (agent, provider)
    unread, carried = unread_mail(log), carried_mail(log)
    assert set(unread).isdisjoint(carried)
    assert all(len(each) == 1 for each in carried.values()), "delivered once"
    ((sent,),) = connection(log).execute("SELECT count(*) FROM events WHERE kind = 'mail'")
    assert len(unread) + len(carried) == sent
    for agent_id, content in [*unread.values(), *(each for (each,) in carried.values())]:
        assert MAIL[content] == agent_id


def unread_mail(log: Log) -> dict[int, tuple[str, str]]:
    """Return the unread mail: id -> recipient and text."""
    return {
        mail.id: (mail.recipient, mail.content)
        for agent in log.agents()
        for mail in selections.unread(stored(log), agent.id)
    }


def carried_mail(log: Log) -> dict[int, list[tuple[str, str]]]:
    """Return the mail that messages carry: id -> agent and text of each such message."""
    found: dict[int, list[tuple[str, str]]] = {}
    for event in events(log):
        for mail in (event.data or {}).get("mail", []) if event.kind == "user" else []:
            (_, text) = event.content.split("\n")
            found.setdefault(mail["id"], []).append((event.agent_id, text))
    return found


def nothing_lost(log: Log, told: Told) -> None:
    """Check that every acknowledged event is there, and that everything was recorded before it was done."""
    there = {event.id: [event.id, event.kind, event.content] for event in events(log)}
    acknowledged = told.of("event")
    assert [there.get(event[0]) for event in acknowledged] == acknowledged
    requests = sum(len(newest_requests(stored(log), agent.id, 100)) for agent in log.agents())
    assert requests >= len(told.of("asked"))
    calls = Counter(content for _, kind, content in there.values() if kind == "tool_call")
    ran = Counter(json.dumps(args, separators=(",", ":")) for _, args in told.of("ran"))
    assert ran <= calls, "no tool began that was not recorded"
    answers = Counter(content for _, kind, content in there.values() if kind == "assistant" and content != "I go on.")
    assert set(answers.values()) == {1}, "no answer was recorded twice"


def events(log: Log) -> list[Event]:
    """Return all events of the database."""
    found: list[Event] = []
    while (event := selections.event(stored(log), len(found) + 1)) is not None:
        found.append(event)
    return found


def heads(log: Log) -> dict[str, int]:
    return {agent.id: agent.standing().record.head for agent in log.agents()}


def open_turns(log: Log) -> dict[str, int]:
    return {agent.id: turn for agent in log.agents() if (turn := agent.open_turn) is not None}


def ended(log: Log, turn: int) -> list[bool]:
    """Return for each end of this turn whether it was interrupted."""
    return [event.interrupted for event in events(log) if event.kind == "turn_ended" and event.turn_id == turn]
