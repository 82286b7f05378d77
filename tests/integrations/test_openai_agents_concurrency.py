"""Concurrent use of one session by tasks, threads, session objects and processes. Nothing is lost, and the items of one
list stay together [SPEC 2]. The SDK's own session must pass the same tests."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sdk_sessions import KINDS, now, run, session, texts, user

import forked
from foldmark.log.doctor import examine
from patience import LIMIT
from sampled import DEEP

if TYPE_CHECKING:
    from agents import Agent
    from agents.testing import ScriptedModel, assistant_message

kinds = pytest.mark.parametrize("kind", KINDS)

LENGTH = 4
LISTS = 15 if DEEP else 6


def listed(name: str, number: int) -> list[dict[str, Any]]:
    return [user(f"{name} {number} {place}") for place in range(LENGTH)]


def check(talk: Any, expected: dict[str, int], *, ordered: bool = True) -> None:
    """Assert that every list is complete and in one piece and, if `ordered`, that each writer's lists are in order."""
    found = texts(now(talk.get_items()))
    lists = [found[at : at + LENGTH] for at in range(0, len(found), LENGTH)]
    wanted = {
        f"{name} {number}": texts(listed(name, number)) for name, count in expected.items() for number in range(count)
    }
    assert {each[0].rpartition(" ")[0]: each for each in lists} == wanted
    assert len(lists) == len(wanted)
    if ordered:
        for name, count in expected.items():
            numbers = [int(each[0].split()[1]) for each in lists if each[0].startswith(f"{name} ")]
            assert numbers == list(range(count))
    if hasattr(talk, "agent"):
        assert list(examine(talk.log)) == []


@kinds
def test_tasks(kind: str, tmp_path: Path) -> None:
    async def all_at_once(talk: Any) -> None:
        await asyncio.gather(*(talk.add_items(listed(f"task{n}", 0)) for n in range(20)))

    with session(kind, tmp_path) as talk:
        now(all_at_once(talk))
        check(talk, {f"task{n}": 1 for n in range(20)})


@kinds
def test_threads_with_loops_of_their_own(kind: str, tmp_path: Path) -> None:
    with session(kind, tmp_path) as one, session(kind, tmp_path) as two, ThreadPoolExecutor(6) as threads:

        def write(name: int) -> None:
            for number in range(5):
                now((one if name % 2 else two).add_items(listed(f"thread{name}", number)))

        list(threads.map(write, range(6)))
        check(one, {f"thread{n}": 5 for n in range(6)})
        check(two, {f"thread{n}": 5 for n in range(6)})


def test_processes(tmp_path: Path) -> None:
    writer = Path(__file__).with_name("sdk_writer.py")
    with ExitStack() as stack:
        talks = [stack.enter_context(session(kind, tmp_path)) for kind in KINDS]
        children = forked.Popen(
            [sys.executable, str(writer), str(tmp_path), str(LISTS), str(LENGTH), "process0", "process1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert children.stdout is not None
        assert [children.stdout.readline() for _ in range(4)] == ["ready\n"] * 4
        assert children.stdin is not None
        children.stdin.write("go" * 2)
        children.stdin.flush()
        for number in range(LISTS):
            for talk in talks:
                now(talk.add_items(listed("here", number)))
        _, errors = children.communicate(timeout=LIMIT)
        assert (children.returncode, errors) == (0, "")
        for talk in talks:
            check(talk, dict.fromkeys(("process0", "process1", "here"), LISTS))


@kinds
def test_popping_at_once_gives_each_item_to_one(kind: str, tmp_path: Path) -> None:
    async def pop_all(*sessions: Any) -> list[Any]:
        return await asyncio.gather(*(sessions[n % len(sessions)].pop_item() for n in range(15)))

    with session(kind, tmp_path) as one, session(kind, tmp_path) as two:
        now(one.add_items([user(str(n)) for n in range(12)]))
        popped = [item for item in now(pop_all(one, two)) if item is not None]
        assert sorted(texts(popped), key=int) == [str(n) for n in range(12)]
        assert now(one.get_items()) == now(two.get_items()) == []


@kinds
def test_runs_side_by_side(kind: str, tmp_path: Path) -> None:
    async def several(talk: Any) -> None:
        agents = [Agent(name=str(n), model=ScriptedModel([[assistant_message(f"answer {n}")]])) for n in range(8)]
        await asyncio.gather(*(run("run", agent, f"question {agent.name}", session=talk) for agent in agents))

    with session(kind, tmp_path) as talk:
        now(several(talk))
        found = texts(now(talk.get_items()))
        assert sorted(found) == sorted([*(f"answer {n}" for n in range(8)), *(f"question {n}" for n in range(8))])


@kinds
def test_clearing_among_others(kind: str, tmp_path: Path) -> None:
    """Afterwards the session holds only complete lists, those added after the last clear."""

    async def mixed(one: Any, two: Any) -> None:
        await one.add_items(listed("first", 0))
        wanted = [(one if n % 2 else two).add_items(listed(f"task{n}", 0)) for n in range(10)]
        await asyncio.gather(*wanted[:5], one.clear_session(), *wanted[5:], two.get_items())
        await one.add_items(listed("last", 0))

    with session(kind, tmp_path) as one, session(kind, tmp_path) as two:
        now(mixed(one, two))
        found = texts(now(two.get_items()))
        assert found[-LENGTH:] == texts(listed("last", 0))
        names = [text.rpartition(" ")[0] for text in found]
        assert all(names.count(name) == LENGTH for name in names)
        assert not set(texts(listed("first", 0))) & set(found)
