"""Erasing a turn leaves no trace of it and changes nothing else (SPEC 3, `redact`; docs/development/decisions/0006)."""

from __future__ import annotations

import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foldmark
import forked
from deeds import DEEDS, Shown, do, family, shown
from foldmark import Agent, CommandError, Log
from foldmark.core import selections
from foldmark.log.doctor import examine
from foldmark.operations import summaries
from patience import LIMIT
from planning_talk import IN_CHAT
from sampled import DEEP, sampled
from stored import connection, stored

ERASER = Path(__file__).parent / "eraser.py"
UNTIL_ALL_CLOSE = (
    "A batch or another program has the database open, or the disk is full: traces may stay in the write-ahead log "
    "until every program has closed the database, or until you run `foldmark doctor --repair`."
)

_LETTER = b"bcdfghjklmnpqrstvwxz"
_LETTERS = re.compile(rb"[%s]{12,}" % _LETTER)
"""Runs of letters that may contain a word of `Secrets`."""


class Secrets:
    """Unique words. An index may store a word without its beginning, so searches look only for its end."""

    def __init__(self, seed: object = 0) -> None:
        self._chance, self.words = random.Random(str(seed)), list[str]()

    def __call__(self, count: int = 1, alphabet: str = "bcdfghjklmnpqrstvwxz") -> str:
        letters = "".join(self._chance.choices(alphabet, k=16 * count))
        words = [letters[at : at + 16] for at in range(0, len(letters), 16)]
        self.words += words
        return " ".join(words)

    def counter(self) -> Callable[[bytes], int]:
        """Return a function that counts the words whose last twelve letters are in the given bytes, in any case."""
        ends = {word[4:].encode() for word in self.words}
        others = [end for end in ends if end.strip(_LETTER)]

        def count_in(raw: bytes) -> int:
            raw = raw.lower()
            # Searching for thousands of words one by one would read megabytes thousands of times.
            there = {run[at : at + 12] for run in set(_LETTERS.findall(raw)) for at in range(len(run) - 11)}
            return len(ends & there) + sum(end in raw for end in others)

        return count_in


def in_files(path: Path, secrets: Secrets) -> dict[str, int]:
    """Return how many of the words each file of the database holds."""
    found, count_in = {}, secrets.counter()
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        if count := count_in(name.read_bytes() if name.exists() else b""):
            found[name.name] = count
    return found


def in_tables(log: Log, secrets: Secrets) -> list[str]:
    """Return the tables, including those of the index, that hold one of the words in any column."""
    db = connection(log)
    found, count_in = list[str](), secrets.counter()
    for (table,) in db.execute("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')").fetchall():
        values = (each for row in db.execute(f"SELECT * FROM {table}") for each in row)
        if count_in(b" ".join(each if isinstance(each, bytes) else str(each).encode() for each in values)):
            found.append(str(table))
    return found


def in_contexts(log: Log, secrets: Secrets) -> list[str]:
    """Return the agents whose context, past context, request or command output holds one of the words."""
    found, count_in = [], secrets.counter()
    for agent in log.agents():
        now = agent.standing().newest
        past = [agent.at(id) for id in range(max(1, agent.standing().record.fork_event), now + 1, max(1, now // 3))]
        texts = [repr([list(each.messages), each.state, each.marks]) for each in (agent.context(), *past)]
        texts += [agent.request(name).bytes.decode() for name in ("openai", "anthropic", "gemini")]
        shows = [agent.do("/context show"), agent.do("/message list 9"), agent.do("/state")]
        texts += [msgspec.json.encode([result.text, result.data]).decode() for result in shows]
        if count_in("\n".join(texts).lower().encode()):
            found.append(agent.name or agent.id)
    return found


def nothing_left(log: Log, path: Path | None, secrets: Secrets) -> None:
    """Assert that none of the words is found anywhere, and that the database is sound."""
    assert secrets.words
    if path is not None:
        assert in_files(path, secrets) == {}
    assert in_tables(log, secrets) == []
    assert in_contexts(log, secrets) == []
    for word in random.Random(0).sample(secrets.words, min(20, len(secrets.words))):
        assert log.search(word) == []
        assert log.search(f"{word[:8]}*") == []
    assert list(examine(log)) == []


def turn(agent: Agent, words: Callable[..., str], count: int = 3) -> int:
    """Append a turn with an event of every kind that holds text, the messages with `count` words; return its id."""
    opened = agent.append("user", f"Please {words(count)}", data={"blocks": [{"type": "image", "alt": words()}]})
    agent.append("assistant", f"I look: {words(count)}")
    agent.append_tool_call(words(), {words(): [words(count), {"x": f"line\n{words()}\t{words()}"}]}, call_id="call-1")
    agent.append_tool_result("call-1", f"found {words(count)}", data={"raw": words()})
    agent.append("tool", words(count))
    agent.append_tool_call("gone", {"x": words()}, call_id="call-2")
    agent.append("user", words(count), actor="system")
    agent.record("state", f"Goal: {words(count)}")
    agent.record("command", words(), data={"name": words()})
    agent.record("usage", words(), data={"model": words()})
    agent.record("record", words(), data={"line": words()})
    agent.append("assistant", words(count), interrupted=True)
    agent.end_turn()
    return opened


def plain(agent: Agent, *texts: str) -> list[int]:
    """Append one turn for each text and return the ids of the turns."""
    turns = []
    for text in texts:
        turns.append(agent.append("user", text))
        agent.append("assistant", f"about {text}")
        agent.end_turn()
    return turns


def many(agent: Agent, count: int, chance: random.Random) -> None:
    """Append `count` turns of other words, short and long."""
    with agent.batch():
        for number in range(count):
            plain(agent, f"other {number} " * chance.choice((1, 3, 40, 300)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def log(path: Path) -> Iterator[Log]:
    with foldmark.open(path) as log:
        yield log


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("root")


# No traces


def test_the_search_for_traces_finds_a_text_before_its_erasure(log: Log, path: Path, agent: Agent) -> None:
    """Without this, no other test here would prove anything."""
    secrets = Secrets()
    turn(agent, secrets, 40)
    agent.do("/mark M")
    log.store.forget_erased()  # moves the content of the write-ahead log to the database
    assert in_files(path, secrets) == {"log.db": len(secrets.words)}
    assert {"events", "searchable", "search"} <= set(in_tables(log, secrets))
    assert in_contexts(log, secrets) == ["root"]
    assert log.search(secrets.words[0])


@pytest.mark.parametrize("count", [1, 30, 2000 if DEEP else 500])
def test_every_kind_of_text_leaves_no_trace(log: Log, path: Path, agent: Agent, count: int) -> None:
    secrets = Secrets()
    plain(agent, "before")
    opened = turn(agent, secrets, count)
    plain(agent, "after")
    agent.do(f"/message remove {opened} --yes")
    nothing_left(log, path, secrets)
    assert [message.content for message in agent.context().messages] == [
        *("before", "about before", "after", "about after")
    ]


def test_a_text_of_several_megabytes_leaves_no_trace(log: Log, path: Path, agent: Agent) -> None:
    secrets, size = Secrets(), 6_000_000 if DEEP else 2_000_000
    plain(agent, "before")
    opened = agent.append("user", " ".join([secrets(20), "filler " * (size // 7), secrets(20)]))
    agent.append_tool_call("f", {"x": secrets(size // 120)}, call_id="c")
    agent.append_tool_result("c", f"{secrets()}{'o' * (size // 2)}{secrets()}")
    agent.end_turn()
    plain(agent, "after")
    del secrets.words[60:-60]
    agent.do(f"/message remove {opened} --yes")
    nothing_left(log, path, secrets)
    assert path.stat().st_size > size  # the pages are free and empty


def test_a_text_in_any_script_leaves_no_trace(log: Log, path: Path, agent: Agent) -> None:
    secrets = Secrets()
    alphabets = ["абвгдежзик", "一二三四五六七八九十", "אבגדהוזחטי", "αβγδεζηθικ", "ñéüøåßçœþđ"]
    opened = agent.append("user", " ".join(secrets(3, alphabet) for alphabet in alphabets))
    agent.append("assistant", f"emoji 👩‍👩‍👧 {secrets()} \0 {secrets()} \u2028 {secrets()}\r\n{secrets().upper()}")
    agent.end_turn()
    assert log.search(secrets.words[0])
    agent.do(f"/message remove {opened} --yes")
    raw = path.read_bytes() + Path(f"{path}-wal").read_bytes()
    assert not [word for word in secrets.words if word[4:].encode() in raw]
    nothing_left(log, path, secrets)


@pytest.mark.parametrize("seed", sampled(range(4), 2))
def test_an_erasure_amid_other_writes_leaves_no_trace(path: Path, seed: int) -> None:
    """The writes split and merge pages, merge segments of the index, rewrite folds and reopen the database."""
    chance, secrets = random.Random(seed), Secrets(seed)
    log = foldmark.open(path)
    agent = log.agent("root")
    many(agent, chance.randint(0, 60), chance)
    others = [turn(agent, Secrets((seed, number)), chance.choice((1, 20, 200))) for number in range(3)]
    opened = turn(agent, secrets, chance.choice((1, 50, 300)))
    for number in range(9):
        agent.do(f"/mark M{number}")
        many(agent, chance.randint(0, 8), chance)
        if number % 3 == 0:
            agent.do(f"/message remove {others.pop()} --yes")
        elif number % 3 == 1:
            agent.do("/undo")
    agent.do("/fork")
    db = connection(log)
    if seed % 2:
        db.execute("INSERT INTO search (search) VALUES ('optimize')")
    log.close()
    log = foldmark.open(path)
    agent = log.agent("root")
    agent.do(f"/message remove {opened} --yes")
    nothing_left(log, path, secrets)
    many(agent, 20, chance)
    log.close()
    assert in_files(path, secrets) == {}


def test_neighbours_moved_by_an_erasure_leave_no_trace_later(log: Log, path: Path, agent: Agent) -> None:
    """Shrinking rows let pages merge, and the moved rows are erased later."""
    chance, told = random.Random(1), Secrets()
    turns = []
    for _ in range(25):
        mine = Secrets(chance.random())
        opened = agent.append("user", mine(chance.choice((1, 10, 100))))
        agent.append("assistant", mine(chance.choice((1, 40))))
        agent.end_turn()
        turns.append((opened, mine))
    chance.shuffle(turns)
    for opened, mine in turns:
        agent.do(f"/message remove {opened} --yes")
        told.words += mine.words
        assert in_files(path, told) == {}
    nothing_left(log, path, told)


def test_erasing_works_in_memory() -> None:
    secrets = Secrets()
    with foldmark.open(":memory:") as log:
        agent = log.agent("root")
        opened = turn(agent, secrets)
        result = agent.do(f"/message remove {opened} --yes")
        assert result.data["traces"] is False
        nothing_left(log, None, secrets)


TURNS = 300 if DEEP else 100


@pytest.fixture(scope="module")
def long_one(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[int, Secrets]]]:
    """A conversation of many turns, forked twice, with a fork of each fork; the turns and their words."""
    path = tmp_path_factory.mktemp("long") / "log.db"
    turns, chance = [], random.Random(3)
    with foldmark.open(path) as log:
        agent = log.agent("root")
        for number in range(TURNS):
            words = Secrets(number)
            with agent.batch():
                opened = turn(agent, words, chance.choice((1, 3, 10)))
            turns.append((opened, words))
            if number in (TURNS // 3, TURNS * 2 // 3):
                child = log.agent(agent.do("/fork").data["child"])
                child.do(f"/context drop {turns[TURNS // 6][0]}")
                grandchild = log.agent(child.do("/fork").data["child"])
                plain(grandchild, "grandchild")
            if number == TURNS // 2:
                agent.do("/mark M")
        agent.apply_filter("forget", [turns[TURNS // 15][0], turns[TURNS * 5 // 6][0]])
    return path, turns


@settings(max_examples=max(2, settings().max_examples // 10))
@given(st.lists(st.integers(0, TURNS - 1), min_size=1, max_size=3, unique=True), st.booleans())
def test_one_turn_of_many_leaves_no_trace(
    long_one: tuple[Path, list[tuple[int, Secrets]]],
    tmp_path_factory: pytest.TempPathFactory,
    chosen: list[int],
    by: bool,
) -> None:
    original, turns = long_one
    path = tmp_path_factory.mktemp("copy") / "log.db"
    shutil.copy(original, path)
    with foldmark.open(path) as log:
        before = {agent.id: shown(agent.context()) for agent in log.agents()}
        gone, told = set[int](), Secrets()
        for number in chosen:
            opened, words = turns[number]
            told.words += words.words
            inherited = [
                agent for agent in log.agents() if agent.parent and opened < agent.standing().record.fork_event
            ]
            by_whom = inherited[-1] if by and number != TURNS // 6 and inherited else log.agent("root")
            gone |= {message.id for message in stored(log).turns([opened])[opened]}
            by_whom.do(f"/message remove {opened} --yes")
            assert in_files(path, told) == {}
        assert in_tables(log, told) == []
        assert not any(log.search(word) for word in told.words[::10])
        assert list(examine(log)) == []
        for agent in log.agents():
            left = [(id, text) for id, text in before[agent.id].messages if id not in gone]
            assert list(shown(agent.context()).messages) == left


# Other programs, and crashes


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The removal of traces does not wait seconds for a reader that will not end."""
    monkeypatch.setattr("foldmark.stores.sqlite.store.BUSY_MILLISECONDS", 10)


@pytest.mark.usefixtures("impatient")
def test_traces_may_stay_while_another_program_reads(path: Path) -> None:
    secrets = Secrets()
    log = foldmark.open(path)
    agent = log.agent("root")
    opened = turn(agent, secrets)
    (later,) = plain(agent, "later")
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN; SELECT count(*) FROM events").fetchall()
    result = agent.do(f"/message remove {opened} --yes")
    assert result.data["traces"] is True
    assert UNTIL_ALL_CLOSE in result.text
    assert in_files(path, secrets)
    assert in_tables(log, secrets) == []  # later readers find nothing
    reader.execute("COMMIT")
    # The next removal also removes these traces, even while the other connection is still open.
    result = agent.do(f"/message remove {later} --yes")
    assert result.data["traces"] is False
    assert UNTIL_ALL_CLOSE not in result.text
    nothing_left(log, path, secrets)
    reader.close()
    log.close()


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_FSIZE")
@pytest.mark.parametrize("line", ["/message remove {turn} --yes", "/session delete other --yes"])
def test_an_erasure_on_a_full_disk_holds(path: Path, line: str) -> None:
    """The erasure is recorded although its traces cannot be overwritten."""
    secrets = Secrets()
    with foldmark.open(path) as log:
        agent = log.agent("default")
        agent.append("user", "x" * 2_000_000)
        agent.end_turn()
        erased = secrets(600)  # long enough to be at the end of the file
        turn = agent.append("user", erased if "message" in line else "public")
        log.agent("other").append("user", erased if "session" in line else "public")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with foldmark.open(path) as log:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))  # room in the -wal file, not in the database
        try:
            result = log.agent("default").do(line.format(turn=turn))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert result.data["traces"] is True
        assert UNTIL_ALL_CLOSE in result.text
        assert in_files(path, secrets)
        assert log.store.forget_erased()
        assert in_files(path, secrets) == {}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("last", ["reader", "foldmark"])
def test_traces_are_gone_once_every_program_has_closed(path: Path, last: str) -> None:
    secrets = Secrets()
    log = foldmark.open(path)
    agent = log.agent("root")
    opened = turn(agent, secrets)
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN; SELECT count(*) FROM events").fetchall()
    agent.do(f"/message remove {opened} --yes")
    first, then = (log, reader) if last == "reader" else (reader, log)
    first.close()
    then.close()
    assert in_files(path, secrets) == {}


def test_an_idle_connection_does_not_prevent_the_removal_of_traces(path: Path) -> None:
    secrets = Secrets()
    with foldmark.open(path) as log, foldmark.open(path) as other:
        agent = log.agent("root")
        opened = turn(agent, secrets)
        assert list(other.agent("root").context().messages)
        assert agent.do(f"/message remove {opened} --yes").data["traces"] is False
        nothing_left(log, path, secrets)
        nothing_left(other, path, secrets)


def eraser(path: Path, how: str, *turns: int) -> subprocess.Popen[str]:
    process = forked.Popen(
        [sys.executable, str(ERASER), str(path), how, *map(str, turns)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()
    return process


def ended(process: subprocess.Popen[str], already: Sequence[str] = ()) -> list[int]:
    """Return the turns that a process reported as erased; `already` holds the lines read before."""
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdin.close()
    out = process.stdout.read()  # `communicate` would miss lines buffered together with those in `already`
    process.stdout.close()
    process.wait(LIMIT)
    return [int(line) for line in (*already, *out.splitlines(keepends=True)) if line.endswith("\n")]


def test_an_erasure_killed_at_any_moment_is_complete_or_absent(path: Path) -> None:
    """A turn is erased or not, and a turn reported as erased has left no trace."""
    words: dict[int, Secrets] = {}
    with foldmark.open(path) as log:
        agent = log.agent("root")
        for number in range(25):
            mine = Secrets(number)
            with agent.batch():
                words[turn(agent, mine, 60)] = mine
        texts = {opened: [e.content for e in agent.context().messages if e.turn_id == opened] for opened in words}
    left, told = list(words), Secrets()
    for run in range(4):
        process = eraser(path, "command", *left)
        assert process.stdout is not None
        already = [process.stdout.readline() for _ in range(run)]  # wait for progress, however slow the machine is
        time.sleep(run * 0.02)
        process.send_signal(signal.SIGKILL)
        done = ended(process, already)
        for opened in done:
            told.words += words[opened].words
        with foldmark.open(path) as log:
            visible = list(log.agent("root").context().messages)
            there = {message.turn_id for message in visible}
            for opened in left:
                if opened in there:  # then complete
                    assert [message.content for message in visible if message.turn_id == opened] == texts[opened]
            assert not there & {*done}
            # At most one erasure was not reported.
            assert len({*left} - there) - len(done) in (0, 1)
            left = [opened for opened in left if opened in there]
            assert list(examine(log)) == []
        assert in_files(path, told) == {}
    assert told.words


def test_traces_after_a_kill_are_removed_at_the_next_close(path: Path) -> None:
    """The next program that opens and closes the database removes the traces."""
    secrets = Secrets()
    with foldmark.open(path) as log:
        opened = turn(log.agent("root"), secrets)
    process = eraser(path, "commit", opened)
    assert ended(process) == []
    assert process.returncode == -signal.SIGKILL
    with foldmark.open(path) as log:
        nothing_left(log, None, secrets)
    assert in_files(path, secrets) == {}


def test_a_failure_in_the_middle_erases_nothing(log: Log, path: Path, agent: Agent) -> None:
    secrets = Secrets()
    opened = turn(agent, secrets)
    before = shown(agent.context())
    newest = agent.standing().newest
    db = connection(log)
    db.execute("CREATE TEMP TRIGGER fails BEFORE UPDATE ON agents BEGIN SELECT raise(ABORT, 'no'); END")
    with pytest.raises(foldmark.StoreError, match="no"):
        agent.redact(opened)
    db.execute("DROP TRIGGER fails")
    assert shown(agent.context()) == before
    assert agent.standing().newest == newest
    assert log.search(secrets.words[0])
    assert list(examine(log)) == []
    agent.do(f"/message remove {opened} --yes")
    nothing_left(log, path, secrets)


# Everything else is unchanged


def without(before: Shown, gone: set[int]) -> list[tuple[int, str]]:
    return [(id, text) for id, text in before.messages if id not in gone]


@settings(max_examples=settings().max_examples // 2)
@given(DEEDS, st.integers(0, 60))
def test_an_erasure_changes_nothing_else(deeds: list[tuple[str, int, int]], number: int) -> None:
    """Every present and past context of every agent lacks only the turn."""
    with foldmark.open(":memory:") as log:
        root = log.agent("root")
        past: dict[tuple[str, int], Shown] = {}
        for deed, choice, who in deeds:
            there = family(root)
            do(there[who % len(there)], deed, choice)
            for agent in family(root):
                if (context := agent.context()).at:
                    past[agent.id, context.at] = shown(context)
        turns = [row["id"] for row in root.do("/message list 99").data["turns"] if row["id"]]
        if not turns:
            return
        chosen = turns[number % len(turns)]
        agent = family(root)[number % len(family(root))]
        there_are = [row["id"] for row in agent.do("/message list 99").data["turns"]]
        agent = agent if chosen in there_are else root
        gone = {message.id for message in stored(log).turns([chosen])[chosen]}
        states = {
            event.id for id in range(1, 999) if (event := selections.event(stored(log), id)) and event.kind == "state"
        }
        owner = selections.event(stored(log), chosen)
        assert owner is not None
        if log.agent(owner.agent_id).open_turn == chosen:
            agent = log.agent(owner.agent_id)
        agent.do(f"/message remove {chosen} --yes")
        assert list(examine(log)) == []
        for (agent_id, event_id), then in past.items():
            now = shown(log.agent(agent_id).at(event_id))
            assert list(now.messages) == without(then, gone)
            assert (now.marks, now.pins) == (then.marks, then.pins)
            if not states:
                assert now.state == then.state


def kin(log: Log, agent: Agent) -> tuple[Agent, Agent]:
    """Return a new child of the agent, and a child of that child."""
    child = log.agent(agent.do("/fork").data["child"])
    return child, log.agent(child.do("/fork").data["child"])


@pytest.mark.parametrize("eraser", [0, 1, 2])
def test_a_turn_is_erased_for_owner_child_and_grandchild(log: Log, path: Path, agent: Agent, eraser: int) -> None:
    secrets = Secrets()
    plain(agent, "before")
    opened = turn(agent, secrets)
    all_of_them = (agent, *kin(log, agent))
    for number, each in enumerate(all_of_them):
        plain(each, f"after {number}")
    before = [shown(each.context()) for each in all_of_them]
    gone = {message.id for message in stored(log).turns([opened])[opened]}
    result = all_of_them[eraser].do(f"/message remove {opened} --yes")
    assert {*result.data["agents"]} == {each.id for each in all_of_them}
    assert result.data["after"] == all_of_them[eraser].context().size._asdict()
    nothing_left(log, path, secrets)
    for each, then in zip(all_of_them, before, strict=True):
        assert list(shown(each.context()).messages) == without(then, gone)
        plain(each, "and on")
        assert each.context().size.messages == len(without(then, gone)) + 2
    assert list(examine(log)) == []


def test_a_dropped_turn_can_be_erased(log: Log, path: Path, agent: Agent) -> None:
    secrets = Secrets()
    plain(agent, "before")
    opened = turn(agent, secrets)
    child, _ = kin(log, agent)
    drop = child.do(f"/context drop {opened}").event_id
    before = shown(child.context())
    child.do(f"/message remove {opened} --yes")
    assert shown(child.context()) == before
    child.do(f"/restore {drop}")
    assert shown(child.context()) == before
    nothing_left(log, path, secrets)


def test_summaries_recorded_inside_the_turn_stay(log: Log, path: Path, agent: Agent) -> None:
    secrets = Secrets()
    plain(agent, "before")
    opened = agent.append("user", secrets())
    agent.append("assistant", secrets())
    for text in ("first", "second"):
        agent.operate(lambda moment, at: summaries.summary(moment, at, None), content=f"{text} summary")
    agent.append("assistant", secrets())
    agent.operate(lambda moment, at: summaries.summary(moment, at, None), content="third summary")
    agent.record("state", secrets())
    agent.record("command", secrets(), data={"x": secrets()})
    agent.end_turn()
    plain(agent, "after")
    agent.do(f"/message remove {opened} --yes")
    nothing_left(log, path, secrets)
    assert [message.content for message in agent.context().messages] == ["third summary", "after", "about after"]


def test_a_summary_can_be_erased(log: Log, path: Path, agent: Agent) -> None:
    secrets = Secrets()
    plain(agent, "one")
    summary = agent.operate(lambda moment, at: summaries.summary(moment, at, None), content=secrets()).event_id
    plain(agent, "two")
    agent.do(f"/message remove {summary} --yes")
    assert [message.content for message in agent.context().messages] == ["two", "about two"]
    nothing_left(log, path, secrets)
    agent.do(f"/restore {summary}")
    assert [message.content for message in agent.context().messages] == ["one", "about one", "two", "about two"]


def late(agent: Agent, words: Callable[..., str]) -> tuple[int, int]:
    """Append a call whose result comes in the next turn; return both turns."""
    first = agent.append("user", f"look {words()}")
    agent.append_tool_call("f", {"x": words()}, call_id="late")
    agent.end_turn()
    agent.do("/mark BETWEEN")
    second = agent.append("user", "and?")
    agent.append_tool_result("late", "a late result")
    agent.append("assistant", "done")
    agent.end_turn()
    return first, second


def test_a_late_result_stays_when_the_call_goes(log: Log, path: Path, agent: Agent) -> None:
    secrets = Secrets()
    first, _ = late(agent, secrets)
    agent.do(f"/message remove {first} --yes")
    nothing_left(log, path, secrets)
    assert [message.content for message in agent.context().messages] == ["and?", "a late result", "done"]
    assert "a late result" not in agent.request().bytes.decode()


@pytest.mark.parametrize("line", ["/rewind BETWEEN", "/context drop {second}", "/fork BETWEEN", "/pin {second}"])
def test_operations_work_on_a_late_result_whose_call_was_erased(agent: Agent, line: str) -> None:
    first, second = late(agent, Secrets())
    agent.do(f"/message remove {first} --yes")
    assert agent.do(line.format(second=second)).event_id


def test_the_call_stays_when_the_late_result_goes(log: Log, agent: Agent) -> None:
    _, second = late(agent, Secrets())
    agent.do(f"/message remove {second} --yes")
    assert [message.kind for message in agent.context().messages] == ["user", "tool_call"]
    assert "[Interrupted: this call has no result.]" in agent.request().bytes.decode()
    assert list(examine(log)) == []
    for line in ("/rewind BETWEEN", "/fork BETWEEN", "/undo"):
        assert agent.do(line).event_id


def test_a_result_may_come_after_its_call_was_erased(log: Log, agent: Agent) -> None:
    first = agent.append("user", "look")
    agent.append_tool_call("f", {}, call_id="c1")
    agent.do(f"/message remove {first} --yes")
    assert agent.open_turn is None
    agent.append_tool_result("c1", "the result")
    (message,) = agent.context().messages
    assert message.kind == "user"
    assert "The result of call c1" in message.content
    assert list(examine(log)) == []


def test_operations_in_an_erased_turn_keep_their_meaning(log: Log, path: Path, agent: Agent) -> None:
    """Only the texts of a mark, a filter, a fork, a drop and a pin in the turn are erased."""
    secrets = Secrets()
    one, two, three = plain(agent, "one", "two", "three")
    opened = agent.append("user", secrets())
    agent.do("/mark M", actor="model")
    agent.apply_filter("forget", [one], criteria=secrets(), actor="model")
    child = log.agent(agent.do("/fork", actor="model").data["child"])
    agent.do(f"/context drop {two}")
    pin = agent.do(f"/pin {three}").event_id
    agent.append("assistant", secrets())
    agent.end_turn()
    plain(agent, "after")
    plain(child, "child")
    before = [shown(each.context()) for each in (agent, child)]
    gone = {message.id for message in stored(log).turns([opened])[opened]}
    agent.do(f"/message remove {opened} --yes")
    nothing_left(log, path, secrets)
    for each, then in zip((agent, child), before, strict=True):
        now = shown(each.context())
        assert list(now.messages) == without(then, gone)
        assert (now.marks, now.pins) == (then.marks, then.pins)
        assert each.reader.replay(stored(log)) == each.standing().fold
    agent.do("/rewind M")
    assert [message.content for message in agent.context().messages][-1] == "about three"
    agent.do(f"/restore {pin}")
    assert agent.context().pins == ()


def test_the_criteria_of_a_planning_conversation_are_erased(log: Log, path: Path, agent: Agent) -> None:
    secrets = Secrets()
    plain(agent, "one")
    opened = agent.do(f"/forget {secrets()}", asking=IN_CHAT).data["planning"]
    agent.append("assistant", "Nothing matches.")
    agent.end_turn()
    agent.do("/cancel")
    agent.do(f"/message remove {opened} --yes")
    nothing_left(log, path, secrets)


def test_settings_survive_an_erasure(agent: Agent) -> None:
    """Metadata of the turn is erased, but settings belong to no turn."""
    opened = agent.append("user", "hello")
    agent.do("/context budget 5000")
    agent.end_turn()
    agent.do(f"/message remove {opened} --yes")
    assert agent.standing().config.sliding_context_tokens == 5000


def test_scratchpads_survive_an_erasure(agent: Agent) -> None:
    opened = agent.append("user", "hello")
    agent.do("/scratchpad edit a note")
    agent.end_turn()
    result = agent.do(f"/message remove {opened} --yes")
    assert agent.context().scratchpad == "a note"
    assert result.data["searched"] is False
    assert "Scratchpads, memos, mail and summaries were not searched." in result.text


def test_restores_work_before_and_after_an_erasure(log: Log, agent: Agent) -> None:
    one, two, three = plain(agent, "one", "two", "three")
    drop = agent.do(f"/context drop {two}").event_id
    clear = agent.do("/clear").event_id
    agent.do(f"/restore {clear}")
    agent.do(f"/message remove {two} --yes")
    assert {message.turn_id for message in agent.context().messages} == {one, three}
    agent.do(f"/restore {drop}")
    assert {message.turn_id for message in agent.context().messages} == {one, three}
    again = agent.do(f"/context drop {three}").event_id
    agent.do(f"/message remove {one} --yes")
    assert agent.context().size.messages == 0
    agent.do(f"/restore {again}")
    assert {message.turn_id for message in agent.context().messages} == {three}
    assert list(examine(log)) == []


# The tombstone


def columns(log: Log, event_id: int) -> dict[str, Any]:
    db = connection(log)
    cursor = db.execute("SELECT * FROM events WHERE id = ?", (event_id,))
    names = [name for name, *_ in cursor.get_description()]
    (row,) = cursor.fetchall()
    return dict(zip(names, row, strict=True))


def test_a_tombstone_keeps_id_kind_time_and_actor(log: Log, agent: Agent) -> None:
    opened = turn(agent, Secrets())
    end = agent.standing().newest
    before = {id: columns(log, id) for id in range(opened, end)}
    result = agent.do(f"/message remove {opened} --yes")
    for id, was in before.items():
        now = columns(log, id)
        stays = ("id", "agent", "turn", "kind", "actor", "created_at")
        assert [now[name] for name in stays] == [was[name] for name in stays]
        assert now["redacted"] == result.event_id
        assert now["content"] == ""
        assert [now[name] for name in ("data", "nth", "sum", "apart")] == [None] * 4
        by = selections.erased_by(stored(log), id)
        assert by is not None
        assert (by.id, by.kind, by.actor, by.turn_id) == (result.event_id, "redact", "human", None)
        assert (by.data or {})["turn"] == opened
    assert columns(log, end)["redacted"] is None
    assert selections.erased_by(stored(log), end) is None
    assert stored(log).turns([opened])[opened] == []
    assert agent.do(f"/context explain {opened}").data["reason"] == "erased"


def test_an_erasure_cannot_be_restored(agent: Agent) -> None:
    (opened,) = plain(agent, "one")
    redact = agent.do(f"/message remove {opened} --yes").event_id
    with pytest.raises(CommandError, match=r"a redact cannot be taken back; no operation is in force"):
        agent.do(f"/restore {redact}")


def test_erasing_twice_is_refused(log: Log, agent: Agent) -> None:
    (opened,) = plain(agent, "one")
    child, _ = kin(log, agent)
    agent.do(f"/message remove {opened} --yes")
    newest = agent.standing().newest
    for each in (agent, child):
        for line in ("remove {} --yes", "remove {}", "show {}"):
            with pytest.raises(CommandError, match=rf"turn {opened} was erased already, by a human at \d{{4}}-.*Z$"):
                each.do(f"/message {line.format(opened)}")
    assert agent.standing().newest == newest


def test_its_own_open_turn_is_ended_first(log: Log, path: Path, agent: Agent) -> None:
    secrets = Secrets()
    opened = agent.append("user", secrets())
    agent.append_tool_call("f", {"x": secrets()}, call_id="c")
    agent.do(f"/message remove {opened} --yes")
    assert agent.open_turn is None
    assert selections.waiting(stored(log), agent.id) == []
    end = selections.event(stored(log), 3)
    assert end is not None
    assert (end.kind, end.interrupted) == ("turn_ended", True)
    nothing_left(log, path, secrets)
    plain(agent, "and on")
    assert [message.content for message in agent.context().messages] == ["and on", "about and on"]


def test_another_agents_open_turn_is_refused(log: Log, agent: Agent) -> None:
    opened = agent.append("user", "going on")
    child = log.agent(agent.do("/fork").data["child"])
    newest = child.standing().newest
    with pytest.raises(
        CommandError, match=rf"turn {opened} is still open in agent {agent.id[:8]}; wait for its end, then repeat"
    ):
        child.do(f"/message remove {opened} --yes")
    assert child.standing().newest == newest
    agent.end_turn()
    child.do(f"/message remove {opened} --yes")
    assert list(agent.context().messages) == []


def test_the_owner_can_append_after_an_erasure_by_another_agent(log: Log, agent: Agent) -> None:
    """An erasure by another agent does not change the expected head of the next append (SPEC 2)."""
    (opened,) = plain(agent, "one")
    child, _ = kin(log, agent)
    agent.context()
    child.do(f"/message remove {opened} --yes")
    plain(agent, "two")
    assert [message.content for message in agent.context().messages] == ["two", "about two"]
    assert list(examine(log)) == []


@pytest.mark.parametrize("line", ["/message remove {turn} --yes", "/memo remove 1 --yes"])
def test_an_erasure_in_a_batch_says_that_traces_may_stay(log: Log, path: Path, agent: Agent, line: str) -> None:
    secrets = Secrets()
    plain(agent, "before")
    opened = turn(agent, secrets)
    agent.do(f"/memo add {secrets()}")
    with agent.batch():
        assert UNTIL_ALL_CLOSE in agent.do(line.format(turn=opened)).text
    assert list(examine(log)) == []
    agent.do(f"/message remove {opened} --yes" if "memo" in line else "/memo remove 1 --yes")
    nothing_left(log, path, secrets)


@pytest.mark.parametrize("turn_id", [0, 2, 3, 5, 999, 2**63 - 1, 2**63, 2**70])
def test_an_unknown_turn_is_not_removed(log: Log, agent: Agent, turn_id: int) -> None:
    plain(agent, "one")
    plain(log.agent("other"), "elsewhere")
    with pytest.raises(CommandError, match=rf"there is no turn {turn_id} in this conversation; "):
        agent.do(f"/message remove {turn_id} --yes")
    assert log.search("elsewhere")
    assert agent.standing().newest == 3
