"""Agents that run in parallel, with real SDKs against a provider on the loopback interface (SPEC 3, 6; S0).

The models are played; everything else is real: the runtime, the requests (the server refuses invalid ones) and the
log that they leave.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import cycle, product
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from plan import Answer, Fail, Part, Reply, Say, Stalled, Use, Wire
from playing import TOLD, Asked, Followed, Listening, asked, database, models, of, say, slash, until, wait_until
from server import Loopback
from talking import ALL, Seen, connect, messages, missing
from wire_anthropic import AnthropicWire
from wire_openai import OpenAIWire, ResponsesWire

from foldmark import Agent, CommandError, Log
from foldmark.core import selections
from foldmark.core.errors import ProviderError
from foldmark.request.standing import end_of
from foldmark.runtime import supervisor
from foldmark.runtime.background import Background
from foldmark.runtime.loop import turn
from foldmark.runtime.supervisor import Supervisor
from patience import LIMIT
from planning_talk import IN_CHAT
from sampled import DEEP, sampled
from stored import stored

WIRES: list[Wire] = [AnthropicWire(), OpenAIWire(), ResponsesWire()]
all_wires = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.provider)
every_wire = pytest.mark.parametrize("wire", ALL, ids=lambda wire: wire.provider)

_IN_TURN = cycle(WIRES)


def some_wire() -> pytest.MarkDecorator:
    """Parametrize a test of the runtime, to which the wires are alike: the tests take turns with them. A deep run plays
    each test over each wire."""
    return pytest.mark.parametrize("wire", WIRES if DEEP else [next(_IN_TURN)], ids=lambda wire: wire.provider)


OAUTH = "Research OAuth2 implementation patterns. Report via /send."
SESSIONS = "Research session-based auth patterns. Report via /send."


def short(agent: Agent) -> str:
    """Return the agent's id as mail and receipts show it."""
    return agent.id[:8]


def delivered(log: Log, agent: Agent) -> list[tuple[int, str]]:
    """Return (id, sender) of all mail that reached the agent's log, in log order."""
    carried = [(event.data or {}).get("mail", ()) for event in of(log, "user", agent=agent)]
    return [(each["id"], each["from"]) for mail in carried for each in mail]


# [S0] Parallel research


class Research:
    """The example of [S0], played: a parent delegates two tasks, one call per answer, and fetches the reports."""

    def __init__(self, wire: Wire, *, at_once: bool = False) -> None:
        self.wire, self.at_once = wire, at_once
        self.heard = list[Asked]()

    def __call__(self, body: Any) -> Answer:
        heard = asked(self.wire, body)
        self.heard.append(heard)
        return self._parent(heard) if heard.who is None else self._child(heard)

    def _parent(self, heard: Asked) -> Answer:
        kind, text = heard.newest
        if kind == "user" and ("mail" in text.lower() or TOLD in text) and "[Mail from" not in text:
            return slash("check-mail")
        if any("[Mail from" in each for _, each in heard.texts[-3:]):
            return say("Both ", "are ", "told." if heard.said("sessions expire") and heard.said("use PKCE") else "due.")
        if self.at_once and not heard.calls:
            both = f"AUTH: {OAUTH}\nSESSION: {SESSIONS}"
            names = ("AUTH_RESEARCH", "SESSION_RESEARCH")
            return slash(*(f"{command} {name}" for name in names for command in ("mark", "fork")), text=both)
        steps: dict[int, Answer] = {
            0: slash("mark AUTH_RESEARCH", text="Two things are to be found out."),
            1: slash("fork AUTH_RESEARCH", text=OAUTH),
            2: slash("mark SESSION_RESEARCH"),
            3: slash("fork SESSION_RESEARCH", text=SESSIONS),
        }
        return steps.get(heard.calls, say("Two children ", "are at work."))

    def _child(self, heard: Asked) -> Answer:
        if heard.calls:
            return say("I have reported.")
        finding = "use PKCE" if heard.said("mark 'AUTH_RESEARCH'") else "sessions expire"
        return slash(f"send {heard.parent} I found out: {finding}.", text="I look it up.")


@some_wire()
@pytest.mark.parametrize("attended", [False, True], ids=["alone", "attended"])
def test_parallel_research(tmp_path: Path, wire: Wire, attended: bool) -> None:
    played, audience = Research(wire), Listening()

    async def talk(parent: Agent, url: str) -> None:
        async with Supervisor(parent.log, models(wire, url), audience) as agents:
            agents.attended = parent.id if attended else None
            await agents.say(parent, "How should people sign in? Research both ways in parallel.")
            if attended:
                await agents.settled()
                await until(lambda: audience.mailed, "the person is told of the mail")
                assert len(selections.unread(stored(parent.log), parent.id)) == 2
                await agents.say(parent, "Any mail?")
            await until(lambda: len(delivered(parent.log, parent)) == 2, "both reports are fetched")
            await agents.settled()

    with database(tmp_path / "log.db", wire) as parent:
        with Loopback(wire, played) as server:
            asyncio.run(talk(parent, server.url))
            assert server.refusals == []
        log, (one, two) = parent.log, parent.children

        # The parent marked, spoke and forked, twice; its children's mail names the sender.
        said = [(event.kind, event.content) for event in of(log, "assistant", agent=parent)]
        assert [text for _, text in said][:4] == [
            "Two things are to be found out.",
            OAUTH,
            SESSIONS,
            "Two children are at work.",
        ]
        assert said[-1][1] == "Both are told."
        assert [(event.kind, event.actor) for event in of(log, "mark", "fork", agent=parent)] == [
            *(("mark", "model"), ("fork", "model")) * 2
        ]
        assert list(parent.context().marks) == ["AUTH_RESEARCH", "SESSION_RESEARCH"]
        mail = delivered(log, parent)
        assert sorted(sender for _, sender in mail) == sorted((one.id, two.id))
        assert len({number for number, _ in mail}) == 2
        assert selections.unread(stored(log), parent.id) == []
        shown = "\n".join(event.content for event in of(log, "user", agent=parent))
        assert shown.count("I found out: use PKCE.") == shown.count("I found out: sessions expire.") == 1
        assert f"[Mail from {short(one)} " in shown
        assert f"[Mail from {short(two)} " in shown
        told = [event for event in of(log, "user", agent=parent) if event.content.startswith(TOLD)]
        assert (told == []) == attended
        if attended:
            assert set(audience.mailed) == {parent.id}
            assert parent.id not in audience.begun

        # Each child was born with its parent's words, and with nothing else of the parent.
        for child, goal, mark in ((one, OAUTH, "AUTH_RESEARCH"), (two, SESSIONS, "SESSION_RESEARCH")):
            birth, *rest = messages(child)
            assert birth[0] == "user"
            assert (
                f"You are agent {short(child)}, a child of agent {short(parent)}, forked from its mark '{mark}'"
                in birth[1]
            )
            assert birth[1].endswith(f"\n> {goal}")
            assert [kind for kind, _ in rest] == ["assistant", "tool_call", "tool_result", "assistant"]
            assert (rest[0][1], rest[2][1], rest[3][1]) == (
                "I look it up.",
                f"Sent to {short(parent)}.",
                "I have reported.",
            )
            requests = [heard for heard in played.heard if heard.who == short(child)]
            assert [heard.calls for heard in requests] == [0, 1]
            assert [heard.parent for heard in requests] == [short(parent)] * 2
            for heard in requests:
                assert [text for kind, text in heard.texts if kind == "user"] == [birth[1]]
            assert list(child.context().marks) == []
        ends = of(log, "turn_ended")
        assert not any(event.interrupted for event in ends)
        assert sorted(agent for agent, error in audience.over if error is None and agent != parent.id) == sorted(
            [one.id, two.id]
        )


@some_wire()
def test_research_that_is_handed_on_in_one_answer(tmp_path: Path, wire: Wire) -> None:
    """Both forks are in one answer: each child gets the whole text, and its mark says which part is its own."""
    played = Research(wire, at_once=True)

    async def talk(parent: Agent, url: str) -> None:
        async with Supervisor(parent.log, models(wire, url)) as agents:
            await agents.say(parent, "How should people sign in? Research both ways in parallel.")
            await until(lambda: len(delivered(parent.log, parent)) == 2, "both reports are fetched")
            await agents.settled()

    with database(tmp_path / "log.db", wire) as parent:
        with Loopback(wire, played) as server:
            asyncio.run(talk(parent, server.url))
            assert server.refusals == []
        quoted = f"\n> AUTH: {OAUTH}\n> SESSION: {SESSIONS}"
        births = [messages(child)[0][1] for child in parent.children]
        assert [quoted in birth for birth in births] == [True, True]
        assert ["from its mark 'AUTH_RESEARCH'" in birth for birth in births] == [True, False]
        assert sorted(sender for _, sender in delivered(parent.log, parent)) == sorted(c.id for c in parent.children)


# Many at once


def delegate(parent: Agent, number: int) -> list[Agent]:
    """Fork children as a person does: mark, goal, fork."""
    for each in range(number):
        parent.do("/mark GOAL")
        parent.do(f"/note Task number {each}.")
        parent.do("/fork GOAL")
    return parent.children[-number:]


class Crowd:
    """Children whose first requests must all arrive before any is answered; they report and end."""

    def __init__(self, wire: Wire, number: int) -> None:
        self.wire, self.together = wire, Barrier(number)
        self.first = Counter[str]()

    def __call__(self, body: Any) -> Answer:
        heard = asked(self.wire, body)
        if heard.who is None:
            return say("Good.")
        if heard.calls:
            return say("I ", "have ", "reported.")
        self.first[heard.who] += 1
        self.together.wait(LIMIT)
        text = next(text for kind, text in heard.texts if kind == "user")
        report = Use("c", "slash", {"command": "send", "args": f"{heard.parent} Done: {text}"})
        return Reply((Say(("I am ", "working ", "on it, ", "slowly, ", "word ", "by ", "word.")), report), "calls")


def descriptors() -> int:
    """Return the number of open files. Objects from before `gc.freeze()` are not scanned for garbage: that takes a
    quarter of a second late in a run."""
    gc.collect()
    there = Path("/proc/self/fd")
    return len(list(there.iterdir())) if there.is_dir() else 0


EACH_WHERE = [(where, wire) for wire in WIRES for where in ("this thread", "background")]


@pytest.mark.parametrize(("where", "wire"), sampled(EACH_WHERE, 2))
def test_twenty_children_at_once(tmp_path: Path, wire: Wire, where: str) -> None:
    number = 20

    async def work(parent: Agent, url: str) -> None:
        async with Supervisor(parent.log, models(wire, url)) as agents:
            agents.attended = parent.id
            delegate(parent, number)
            await until(lambda: len(agents.working) == number, "all are at work")
            await agents.settled()
        # The SDKs leave the end of their streams to the event loop, which ends them at once.
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()}, "no task is left")

    with database(tmp_path / "log.db", wire) as parent:
        asyncio.run(asyncio.sleep(0))  # leftovers of a first event loop do not count
        parent.log.store.watch().close()  # SQLite keeps the file open for the next watch until the store is closed
        gc.freeze()
        threads, open_before = set(threading.enumerate()), descriptors()
        played = Crowd(wire, number)
        with Loopback(wire, played, pause=0.002) as server:
            if where == "background":
                Background(work(parent, server.url), lambda: None).result()
            else:
                asyncio.run(work(parent, server.url))
            assert server.refusals == []
            assert not played.together.broken
            wait_until(lambda: server.connections == 0, "all connections are closed")
        assert set(threading.enumerate()) == threads
        assert descriptors() == open_before
        assert parent.log.listeners == []

        children = parent.children
        assert played.first == {short(child): 1 for child in children}
        mail = selections.unread(stored(parent.log), parent.id)
        assert sorted(each.sender for each in mail) == sorted(child.id for child in children)
        assert sorted(each.content for each in mail) == sorted(f"Done: Task number {n}." for n in range(number))
        for each, child in enumerate(children):
            assert messages(child)[0] == ("user", f"Task number {each}.")
            assert [kind for kind, _ in messages(child)] == [
                "user",
                "assistant",
                "tool_call",
                "tool_result",
                "assistant",
            ]
        assert not any(event.interrupted for event in of(parent.log, "turn_ended", "assistant"))
        parent.context()
        parent.do("/check-mail")
        assert len(delivered(parent.log, parent)) == number
        assert parent.do("/check-mail").text == "No mail."


@all_wires
def test_the_parent_talks_on_while_many_children_wait_for_their_provider(tmp_path: Path, wire: Wire) -> None:
    """The parent's turn does not wait for theirs, and the end of the program ends them all."""
    number = 20 if DEEP else 8

    def played(body: Any) -> Answer:
        return say("At once.") if asked(wire, body).who is None else Stalled((Say(("Half of ", "it")),))

    async def talk(parent: Agent, server: Loopback, followed: Followed) -> None:
        async with Supervisor(parent.log, followed) as agents:
            agents.attended = parent.id
            delegate(parent, number)
            await until(lambda: followed.texts == ["Half of it"] * number, "all children have begun to speak")
            assert server.connections == number
            await agents.say(parent, "Are you there?")
            assert len(agents.working) == number

    with database(tmp_path / "log.db", wire) as parent:
        threads = set(threading.enumerate())
        with Loopback(wire, played) as server:
            followed = Followed(wire, server.url)
            asyncio.run(talk(parent, server, followed))
            wait_until(lambda: server.connections == 0, "all connections are closed")
            assert server.refusals == []
        assert set(threading.enumerate()) == threads
        assert messages(parent)[-1] == ("assistant", "At once.")
        for child in parent.children:
            (said,) = of(parent.log, "assistant", agent=child)
            assert (said.content, said.interrupted) == ("Half of it", True)
            assert [event.interrupted for event in of(parent.log, "turn_ended", agent=child)] == [True]


@some_wire()
def test_children_that_have_said_nothing_leave_no_turn(tmp_path: Path, wire: Wire) -> None:
    """The end of the program has nothing to record of them: the text that they were born with opens no turn."""
    number, gate = 4, Event()

    def played(body: Any) -> Answer:
        assert gate.wait(LIMIT)
        return say("Too late.")

    async def begin(parent: Agent, server: Loopback) -> None:
        async with Supervisor(parent.log, models(wire, server.url)) as agents:
            agents.attended = parent.id
            delegate(parent, number)
            await until(lambda: len(server.asked) == number, "all children are asked")

    with database(tmp_path / "log.db", wire) as parent:
        with Loopback(wire, played) as server:
            asyncio.run(begin(parent, server))
            gate.set()
            assert server.refusals == []
        for child in parent.children:
            assert len(messages(child)) == 1
            assert of(parent.log, "assistant", "turn_ended", agent=child) == []


def test_children_beyond_the_limit_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them is killed while it waits: its provider never gets a request."""
    monkeypatch.setattr(supervisor, "AT_ONCE", 3)
    wire, gate, most = OpenAIWire(), Event(), list[int]()
    heard = Counter[str]()

    def played(body: Any) -> Answer:
        who = asked(wire, body).who
        assert who is not None
        heard[who] += 1
        assert gate.wait(LIMIT)
        return say("Done.")

    async def talk(parent: Agent, server: Loopback) -> None:
        async with Supervisor(parent.log, models(wire, server.url)) as agents:
            agents.attended = parent.id
            children = delegate(parent, 8)
            await until(lambda: len(agents.working) == 8 and len(server.asked) == 3, "three are asked, the rest waits")
            parent.do(f"/kill {short(children[-1])}")
            await until(lambda: len(agents.working) == 7, "one is gone")
            most.append(len(server.asked))
            gate.set()
            await agents.settled()

    with database(tmp_path / "log.db", wire) as parent:
        with Loopback(wire, played) as server:
            asyncio.run(talk(parent, server))
            assert server.refusals == []
        *others, dead = parent.children
        assert most == [3]
        assert heard == {short(child): 1 for child in others}
        assert [messages(child)[-1] for child in others] == [("assistant", "Done.")] * 7
        assert len(messages(dead)) == 1


# Killed


class Family:
    """A child that forks a grandchild and then, like the grandchild, never finishes its answer; and another child that
    continues when `go_on` is set."""

    def __init__(self, wire: Wire) -> None:
        self.wire, self.go_on = wire, Event()

    def __call__(self, body: Any) -> Answer:
        heard = asked(self.wire, body)
        if heard.who is None:
            return say("Good.")
        if heard.said("Task number 1."):
            self.go_on.wait(LIMIT)
            return say("I am ", "still here.")
        if not heard.calls and not heard.said("forked"):
            return slash("mark SUB", "fork SUB", text="A part of it.")
        return Stalled((Say(("Half of ", "the answer")),))


BY_WHOM = ("human", "model")


@pytest.mark.parametrize(("by", "wire"), list(product(BY_WHOM, WIRES) if DEEP else zip(cycle(BY_WHOM), WIRES)))
def test_killed_in_the_middle_of_a_request_with_descendants(tmp_path: Path, wire: Wire, by: str) -> None:
    played, audience = Family(wire), Listening()

    async def talk(parent: Agent, server: Loopback) -> None:
        followed = Followed(wire, server.url)
        async with Supervisor(parent.log, followed, audience) as agents:
            agents.attended = parent.id
            doomed, other = delegate(parent, 2)
            await until(lambda: server.connections == 3 and len(doomed.children) == 1, "both wait, and the other")
            (grandchild,) = doomed.children
            await until(lambda: len(agents.working) == 3, "three are at work")
            await until(lambda: followed.texts.count("Half of the answer") == 2, "both are half said")
            text = await asyncio.to_thread(lambda: parent.do(f"/kill {short(doomed)}", actor=by).text)
            assert text == f"Killed {short(doomed)} and 1 descendant; its log stays."
            await until(lambda: server.connections == 1, "the connections of both are closed")
            await until(lambda: agents.working == [other.id], "the other one goes on")
            for dead in (doomed, grandchild):
                with pytest.raises(CommandError, match="nothing was sent"):
                    other.do(f"/send {short(dead)} Are you there?")
            played.go_on.set()
            await agents.settled()

    with database(tmp_path / "log.db", wire) as parent:
        with Loopback(wire, played) as server:
            asyncio.run(talk(parent, server))
            assert server.refusals == []
        doomed, other = parent.children
        (grandchild,) = doomed.children
        for dead in (doomed, grandchild):
            last = of(parent.log, "assistant", agent=dead)[-1]
            assert (last.content, last.interrupted) == ("Half of the answer", True)
            assert of(parent.log, "turn_ended", agent=dead)[-1].interrupted
        assert messages(other)[-1] == ("assistant", "I am still here.")
        assert selections.unread(stored(parent.log), parent.id) == []


@all_wires
def test_a_model_kills_a_child_in_its_own_turn(tmp_path: Path, wire: Wire) -> None:
    """It forks in one answer and kills the child in the next."""

    def played(body: Any) -> Answer:
        heard = asked(wire, body)
        if heard.who is not None:
            return Stalled((Say(("I be",)),))
        children = [
            text.split("Child: ")[1][:8] for kind, text in heard.texts if kind == "result" and "Child: " in text
        ]
        if not heard.calls:
            return slash("mark T", "fork T", text="Somebody has to look.")
        return slash(f"kill {children[0]}") if heard.calls == 2 else say("It is over.")

    async def talk(parent: Agent, server: Loopback) -> None:
        async with Supervisor(parent.log, models(wire, server.url)) as agents:
            await agents.say(parent, "Try something.")
            await agents.settled()
            await until(lambda: server.connections == 0, "the connection is closed")

    with database(tmp_path / "log.db", wire) as parent:
        with Loopback(wire, played) as server:
            asyncio.run(talk(parent, server))
            assert server.refusals == []
        (child,) = parent.children
        assert messages(parent)[-1] == ("assistant", "It is over.")
        assert end_of(stored(parent.log), child.id) is not None


def test_killed_while_its_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends with the agent; its output so far is kept."""
    monkeypatch.chdir(tmp_path)
    wire = OpenAIWire()

    def played(body: Any) -> Answer:
        use = Use("b", "bash", {"command": "echo begun; echo $$ > pid; exec sleep 1000"})
        return Reply((Say(("I run it.",)), use), "calls")

    async def talk(parent: Agent, url: str) -> None:
        async with Supervisor(parent.log, models(wire, url)) as agents:
            agents.attended = parent.id
            (child,) = delegate(parent, 1)
            await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip(), "it runs")
            parent.do(f"/kill {short(child)}")
            await agents.settled()  # long before the command would end

    with database(tmp_path / "log.db", wire) as parent:
        parent.configure("tool_approval", "always")
        with Loopback(wire, played) as server:
            asyncio.run(talk(parent, server.url))
            assert (server.refusals, len(server.asked)) == ([], 1)
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)
        (child,) = parent.children
        kind, result = messages(child)[-1]
        assert kind == "tool_result"
        assert result.startswith("begun")


# A model that clears or rewinds during its own turn


def go_on(
    path: Path, wire: Wire, *steps: Reply, tools: dict[str, Callable[[Any], str]] | None = None
) -> tuple[list[str], list[tuple[str, str]]]:
    """Run a turn in which the model plays the steps. Return the user texts of each request, and the context."""
    from talking import own_tools

    with database(path, wire) as agent:
        own_tools(agent.log, tools or {})
        agent.append("user", "An earlier question.")
        agent.append("assistant", "An earlier answer.")
        agent.end_turn()
        with Loopback(wire, steps) as server:
            asyncio.run(turn(agent, connect(wire, server.url), "What is the time in Ulm?", Seen().show))
            assert (server.refusals, server.left) == ([], 0)
            told = ["\n".join(text for kind, text in wire.texts(each.body) if kind == "user") for each in server.asked]
        return told, messages(agent)


@every_wire
def test_a_model_that_clears(tmp_path: Path, wire: Wire) -> None:
    told, left = go_on(tmp_path / "log.db", wire, slash("clear", text="I start afresh."), say("It is noon."))
    assert "An earlier question." in told[0]
    assert "An earlier question." not in told[1]
    assert "[Foldmark: Context cleared at your request." in told[1]
    assert "[Foldmark: With that call you had said:]\n> I start afresh." in told[1]
    assert "gone as well, begins:]\n> What is the time in Ulm?" in told[1]
    assert [kind for kind, _ in left] == ["user", "assistant"]
    assert left[-1][1] == "It is noon."


@every_wire
def test_a_model_that_rewinds_to_its_mark(tmp_path: Path, wire: Wire) -> None:
    look = Reply((Say(("The wrong clock?",)), Use("l", "look", {"at": "clock"})), "calls")
    steps = [slash("mark TRY"), look, slash("clear TRY", text="The clock has stopped."), say("It is noon.")]
    told, left = go_on(tmp_path / "log.db", wire, *steps, tools={"look": lambda _: "a stopped clock"})
    assert "What is the time in Ulm?" in told[3]
    assert "gone as well" not in told[3]
    assert "[Foldmark: Rewound to 'TRY' at your request." in told[3]
    assert "[Foldmark: With that call you had said:]\n> The clock has stopped." in told[3]
    assert "a stopped clock" not in str(left)
    assert left[-1] == ("assistant", "It is noon.")


@every_wire
def test_a_model_that_clears_after_parallel_tools(tmp_path: Path, wire: Wire) -> None:
    """The `slash` calls run last; the other tools' results leave with the rest and are no orphans."""
    uses: list[Part] = [Use("s", "slash", {"command": "clear"})]
    uses += [Use(f"l{n}", "look", {"at": f"place-{n}"}) for n in range(3)]
    uses += [Use("m", "slash", {"command": "mark", "args": "NEW"})]
    step = Reply((Say(("I look and clear.",)), *uses), "calls")
    told, left = go_on(
        tmp_path / "log.db", wire, step, say("It is noon."), tools={"look": lambda args: f"seen {args['at']}"}
    )
    assert "Context cleared at your request." in told[1]
    assert "Checkpoint 'NEW' created." in told[1]
    assert "> I look and clear." in told[1]
    assert told[1].count("What is the time in Ulm?") == 1
    assert [kind for kind, _ in left] == ["user", "user", "assistant"]


@every_wire
def test_a_model_that_rewinds_to_one_mark_twice(tmp_path: Path, wire: Wire) -> None:
    first, second = (slash("clear TRY", text=f"Attempt {n} failed.") for n in (1, 2))
    told, left = go_on(tmp_path / "log.db", wire, slash("mark TRY"), first, second, say("It is noon."))
    assert "2 times in this turn" not in told[2]
    assert "Attempt 1 failed." in told[2]
    assert "Rewound to 'TRY' at your request, 2 times in this turn now: try something else." in told[3]
    assert "Attempt 2 failed." in told[3]
    assert told[3].count("What is the time in Ulm?") == 1
    assert left[-1] == ("assistant", "It is noon.")


REPEATED = ("clear", "clear TRY", "mark TRY, clear TRY", "clear, mark TRY")


@pytest.mark.parametrize(("command", "wire"), list(product(REPEATED, ALL) if DEEP else zip(cycle(REPEATED), ALL)))
def test_a_model_that_repeats_itself_until_a_reminder(tmp_path: Path, wire: Wire, command: str) -> None:
    """The model sees its attempts only in the notice, which is enough to end the loop."""

    def played(body: Any) -> Answer:
        heard = asked(wire, body)
        if heard.said("times in this turn"):
            return say("I give up on that way.")
        if command == "clear TRY" and not heard.calls:
            return slash("mark TRY")
        return slash(*command.split(", "), text="This did not work; once more.")

    with database(tmp_path / "log.db", wire) as agent:
        with Loopback(wire, played) as server:
            asyncio.run(turn(agent, connect(wire, server.url), "What is the time in Ulm?", Seen().show))
            assert server.refusals == []
            assert len(server.asked) <= 5
        assert messages(agent)[-1] == ("assistant", "I give up on that way.")
        assert missing(messages(agent), [("user", "What is the time in Ulm?")]) is None


# A provider that fails


class Failing:
    """A child whose provider fails; its parent reads the mail and, if `stubborn`, asks it once to try again."""

    def __init__(self, wire: Wire, *, stubborn: bool) -> None:
        self.wire, self.stubborn = wire, stubborn
        self.asked = Counter[str]()

    def __call__(self, body: Any) -> Answer:
        heard = asked(self.wire, body)
        self.asked["parent" if heard.who is None else "child"] += 1
        if heard.who is not None:
            return Fail("request")
        if heard.newest[1].startswith(TOLD):
            return slash("check-mail")
        mailed = [text for kind, text in heard.texts if "[Mail from " in text]
        asked_again = sum(text == "Trying again." for _, text in heard.texts)
        if self.stubborn and mailed and not asked_again:
            child = mailed[-1].split("[Mail from ")[1][:8]
            return slash(f"send {child} Please try again.", text="Trying again.")
        return say("I see.")


@some_wire()
@pytest.mark.parametrize("stubborn", [False, True], ids=["once", "again"])
def test_a_provider_that_fails_a_child(tmp_path: Path, wire: Wire, stubborn: bool) -> None:
    played, audience = Failing(wire, stubborn=stubborn), Listening()
    reports = 2 if stubborn else 1

    async def talk(parent: Agent, url: str) -> None:
        async with Supervisor(parent.log, models(wire, url), audience) as agents:
            await agents.say(parent, "Hello?")
            delegate(parent, 1)
            await until(lambda: len(delivered(parent.log, parent)) == reports, "the parent knows")
            await agents.settled()
            await asyncio.sleep(0.1)
            await agents.settled()

    with database(tmp_path / "log.db", wire) as parent:
        with Loopback(wire, played) as server:
            asyncio.run(talk(parent, server.url))
            assert server.refusals == []
        (child,) = parent.children
        assert played.asked["child"] == reports
        mail = [event.content for event in of(parent.log, "user", agent=parent) if (event.data or {}).get("mail")]
        assert len(mail) == reports
        assert all(
            f"[Mail from {short(child)} at " in each and "\nMy turn ended with an error: " in each for each in mail
        )
        assert messages(child)[0] == ("user", "Task number 0.")
        # At the first failure the child had no turn of its own: the text that it was born with opens none.
        assert [event.interrupted for event in of(parent.log, "turn_ended", agent=child)] == [True] * (reports - 1)
        assert sum(error is not None for _, error in audience.over) == reports
        assert selections.unread(stored(parent.log), parent.id) == []


@some_wire()
def test_a_provider_that_fails_everybody(tmp_path: Path, wire: Wire) -> None:
    """The child's failure is mailed; the parent, woken by the mail, fails too, and nothing more happens."""
    audience = Listening()

    async def talk(parent: Agent, server: Loopback) -> None:
        async with Supervisor(parent.log, models(wire, server.url), audience) as agents:
            with pytest.raises(ProviderError):
                await agents.say(parent, "Hello?")
            delegate(parent, 1)
            await until(lambda: len(audience.over) == 2, "the child failed, and its parent")
            await agents.settled()
            for _ in range(3):  # the supervisor looks again and finds no news for anyone
                agents._look_once()
                await asyncio.sleep(0.02)
            assert agents.working == []

    with database(tmp_path / "log.db", wire) as parent:
        with Loopback(wire, lambda body: Fail("request")) as server:
            asyncio.run(talk(parent, server))
            assert len(server.asked) == 3
        assert len(selections.unread(stored(parent.log), parent.id)) == 1
        assert messages(parent)[0] == ("user", "Hello?")


# When mail comes


class Mailing:
    """A parent that answers once `may` is set and, if `reads`, fetches its mail; its children are idle."""

    def __init__(self, wire: Wire, *, reads: bool = True) -> None:
        self.wire, self.reads = wire, reads
        self.may, self.heard = Event(), list[Asked]()
        self.may.set()

    def __call__(self, body: Any) -> Answer:
        heard = asked(self.wire, body)
        if heard.who is not None:
            return say("I am idle.")
        self.heard.append(heard)
        assert self.may.wait(LIMIT)
        return slash("check-mail") if self.reads and heard.newest[1].startswith(TOLD) else say("Noted.")

    @property
    def told(self) -> int:
        """The number of notices of mail in the parent's newest request."""
        return sum(text.startswith(TOLD) for _, text in self.heard[-1].texts) if self.heard else 0


def mailing(
    path: Path, wire: Wire, played: Mailing, test: Callable[[Supervisor, Agent, Agent], Coroutine[Any, Any, None]]
) -> None:
    """Run `test`, which sends mail, with a parent and an idle child."""

    async def talk(parent: Agent, url: str) -> None:
        async with Supervisor(parent.log, models(wire, url)) as agents:
            await agents.say(parent, "Hello.")  # mail wakes only an agent that was asked something here
            played.heard.clear()
            (child,) = delegate(parent, 1)
            await until(lambda: len(messages(child)) == 2, "the child has answered")
            await agents.settled()
            await test(agents, parent, child)
            await agents.settled()

    with database(path, wire) as parent, Loopback(wire, played) as server:
        asyncio.run(talk(parent, server.url))
        assert server.refusals == []


@some_wire()
def test_mail_that_comes_during_a_turn_is_told_after_it(tmp_path: Path, wire: Wire) -> None:
    played = Mailing(wire)

    async def test(agents: Supervisor, parent: Agent, child: Agent) -> None:
        played.may.clear()
        saying = asyncio.create_task(agents.say(parent, "Go."))
        await until(lambda: played.heard, "the parent is asked")
        child.do(f"/send {short(parent)} News.", actor="model")
        await asyncio.sleep(0.05)
        assert messages(parent)[-1] == ("user", "Go.")
        played.may.set()
        await saying
        await until(lambda: delivered(parent.log, parent), "the mail is fetched")

    mailing(tmp_path / "log.db", wire, played, test)
    first, second, third = played.heard
    assert not first.said(TOLD)
    assert second.newest[1].startswith(TOLD)
    assert third.said("]\nNews.")


@some_wire()
def test_mail_read_in_the_turn_of_its_arrival_is_not_announced(tmp_path: Path, wire: Wire) -> None:
    played = Mailing(wire)

    async def test(agents: Supervisor, parent: Agent, child: Agent) -> None:
        played.may.clear()
        saying = asyncio.create_task(agents.say(parent, "Go."))
        await until(lambda: played.heard, "the parent is asked")
        child.do(f"/send {short(parent)} News.", actor="model")
        await asyncio.to_thread(parent.do, "/check-mail", actor="model")
        played.may.set()
        await saying
        await asyncio.sleep(0.05)
        assert agents.working == []
        assert len(delivered(parent.log, parent)) == 1

    mailing(tmp_path / "log.db", wire, played, test)
    assert len(played.heard) == 1


@some_wire()
def test_mail_waits_for_the_end_of_a_planning_conversation(
    tmp_path: Path, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.01)
    played = Mailing(wire)

    async def test(agents: Supervisor, parent: Agent, child: Agent) -> None:
        parent.context()
        parent.do("/forget the weather", asking=IN_CHAT)
        child.do(f"/send {short(parent)} News.", actor="model")
        for _ in range(3):
            agents._look_once()
            await asyncio.sleep(0.02)
        assert (agents.working, played.heard) == ([], [])
        parent.context()
        parent.do("/cancel")
        parent.end_turn()
        await until(lambda: delivered(parent.log, parent), "the mail is fetched")

    mailing(tmp_path / "log.db", wire, played, test)


@some_wire()
def test_mail_is_announced_once(tmp_path: Path, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that leaves its mail unread is told of it once, and again only of new mail."""
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.01)
    played = Mailing(wire, reads=False)

    async def test(agents: Supervisor, parent: Agent, child: Agent) -> None:
        for number in (1, 2):
            child.do(f"/send {short(parent)} News {number}.", actor="model")
            await until(lambda: played.told == number, "the parent is told")  # noqa: B023 - awaited in the loop
            await agents.settled()
            await asyncio.sleep(0.1)
            await agents.settled()
            assert len(played.heard) == number
        await agents.say(parent, "Anything else?")
        await asyncio.sleep(0.1)
        assert len(played.heard) == 3

    mailing(tmp_path / "log.db", wire, played, test)


@some_wire()
def test_agents_that_thank_each_other_come_to_rest(tmp_path: Path, wire: Wire) -> None:
    """Each answers mail with mail, as models do, until it has nothing new to say; new mail alone wakes an agent."""
    turns = 3
    asks = Counter[str]()

    def played(body: Any) -> Answer:
        heard = asked(wire, body)
        asks["parent" if heard.who is None else "child"] += 1
        newest = heard.newest[1]
        if newest.startswith(TOLD):
            return slash("check-mail")
        mailed = sum(text.count("[Mail from ") for _, text in heard.texts)
        sent = sum(text.startswith("Sent to ") for kind, text in heard.texts if kind == "result")
        if heard.who is None:
            if mailed > sent and sent < turns:
                child = next(text for _, text in heard.texts if "[Mail from " in text).split("[Mail from ")[1][:8]
                return slash(f"send {child} Thank you {sent}.")
            return say("Enough.")
        return slash(f"send {heard.parent} You are welcome {sent}.") if mailed >= sent else say("Good.")

    async def talk(parent: Agent, url: str) -> None:
        async with Supervisor(parent.log, models(wire, url)) as agents:
            await agents.say(parent, "Go.")
            delegate(parent, 1)
            await until(lambda: len(delivered(parent.log, parent)) == turns + 1, "they are done")
            await agents.settled()
            await asyncio.sleep(0.05)
            await agents.settled()

    with database(tmp_path / "log.db", wire) as parent:
        with Loopback(wire, played) as server:
            asyncio.run(talk(parent, server.url))
            assert server.refusals == []
        (child,) = parent.children
        assert len(delivered(parent.log, child)) == turns
        assert asks["parent"] <= 1 + 3 * (turns + 1)
        assert asks["child"] <= 2 + 3 * turns


@some_wire()
def test_a_person_is_told_of_mail_for_an_agent_that_has_said_nothing_here(tmp_path: Path, wire: Wire) -> None:
    """Its child was forked by commands alone, and its model has not been asked yet."""
    audience = Listening()

    def played(body: Any) -> Answer:
        heard = asked(wire, body)
        return say("Reported.") if heard.calls else slash(f"send {heard.parent} Found.")

    async def talk(parent: Agent, url: str) -> None:
        async with Supervisor(parent.log, models(wire, url), audience) as agents:
            agents.attended = parent.id
            delegate(parent, 1)
            await until(lambda: audience.mailed == [parent.id], "the person is told")
            await agents.settled()
            assert audience.mailed == [parent.id]

    with database(tmp_path / "log.db", wire) as parent:
        with Loopback(wire, played) as server:
            asyncio.run(talk(parent, server.url))
            assert server.refusals == []
        assert parent.id not in audience.begun
        assert len(selections.unread(stored(parent.log), parent.id)) == 1
