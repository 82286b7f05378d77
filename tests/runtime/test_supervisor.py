"""The supervisor (SPEC 6), as programs use it: repeatedly, from several tasks, and ended from outside."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

import foldmark
from foldmark import Agent, Log
from foldmark.commands import context
from foldmark.core import selections
from foldmark.core.request import Piece, Request, ToolCall, ToolSpec
from foldmark.log.doctor import examine
from foldmark.runtime import supervisor, unprompted
from foldmark.runtime.supervisor import ContextChangedError, NoAudience, TurnInterruptedError
from foldmark.runtime.unprompted import WAKES
from patience import LIMIT
from sampled import DEEP
from stored import leases, stored


class Played:
    """A model whose answer depends on the newest message of the request."""

    def __init__(self, answer: Callable[[Request, str], Piece]) -> None:
        self._answer, self.requests = answer, 0

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        self.requests += 1
        await asyncio.sleep(0)
        yield self._answer(request, str(request.body["messages"][-1]))

    async def count(self, request: Request) -> int:
        return 1


class Stalled:
    """A model that begins an answer and never ends it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        yield "Wait"
        self.asked.set()
        await asyncio.Event().wait()

    async def count(self, request: Request) -> int:
        return 1


class Heard(NoAudience):
    """An audience that records which agents had mail that did not wake them."""

    def __init__(self) -> None:
        self.agents: list[str] = []

    def mail(self, agent: Agent) -> None:
        self.agents.append(agent.id)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with foldmark.open(tmp_path / "log.db", settings={"model": "openai/gpt-5"}) as log:
        yield log
        assert list(examine(log)) == []
        assert leases(log) == []
        assert [agent.open_turn for agent in log.agents()] == [None] * len(log.agents())


class Add:
    """A custom tool of a test."""

    spec = ToolSpec("add", "Adds.", {"type": "object", "properties": {}})
    together = True

    def __call__(self, agent: Agent, args: object, asking: object) -> str:
        return "2"


def test_again_and_again_in_one_event_loop(log: Log) -> None:
    log.add_tool(Add())
    agent = log.agent("default")

    def answer(_: Request, newest: str) -> Piece:
        return ToolCall(f"c{len(agent.context().messages)}", "add", {}) if "go" in newest else "Done."

    async def program() -> str:
        for _ in range(2):
            async with foldmark.supervise(log, lambda _: Played(answer)) as agents:
                await agents.say(agent, "go")
        return await asyncio.to_thread(lambda: "the loop's own threads work")

    assert asyncio.run(program()) == "the loop's own threads work"
    assert [message.content for message in agent.context().messages if message.kind == "tool_result"] == ["2", "2"]


def test_two_tasks_talk_to_one_agent_one_after_the_other(log: Log) -> None:
    agent = log.agent("default")

    async def program() -> None:
        async with foldmark.supervise(log, lambda _: Played(lambda *_: "Yes.")) as agents:
            await asyncio.gather(*(agents.say(agent, f"text {number}") for number in range(4)))

    asyncio.run(program())
    messages = [(message.kind, message.turn_id) for message in agent.context().messages]
    assert [kind for kind, _ in messages] == ["user", "assistant"] * 4
    assert [messages[n][1] == messages[n + 1][1] for n in range(0, 8, 2)] == [True] * 4


@pytest.mark.parametrize("how", ["kill", "interrupt", "cancel"])
def test_a_caller_learns_that_somebody_else_ended_its_turn(log: Log, how: str) -> None:
    root = log.agent("default")
    agent = log.agent(root.do("/fork").data["child"])

    async def program() -> None:
        model = Stalled()
        async with foldmark.supervise(log, lambda _: model) as agents:
            said = asyncio.create_task(agents.say(agent, "Hello"))
            await model.asked.wait()
            if how == "kill":
                root.do(f"/kill {agent.id}")
            elif how == "interrupt":
                await agents.interrupt(agent)
            else:
                agents.cancel_all()
            with pytest.raises(TurnInterruptedError, match="is dead" if how == "kill" else "what was received is kept"):
                await said

    asyncio.run(program())
    assert [(each.content, each.interrupted) for each in agent.context().messages] == [("Hello", False), ("Wait", True)]


@pytest.mark.parametrize("line", ["/rewind", "/clear", "/restore 1"])
def test_a_command_of_another_process_is_told_as_what_it_did(log: Log, line: str) -> None:
    agent = log.agent("default")
    agent.do("/mark BEFORE")

    async def program() -> None:
        model = Stalled()
        async with foldmark.supervise(log, lambda _: model) as agents:
            said = asyncio.create_task(agents.say(agent, "Hello"))
            await model.asked.wait()
            with log.store.write() as transaction:
                lease = transaction.lease(agent.id)
                assert lease is not None
                # As `foldmark do` does before it records its operation.
                transaction.lend(agent.id, replace(lease, interrupt=True))
            agents._look_once()
            await asyncio.wait(list(agents._tasks.values()))
            with foldmark.open(log.store.address, settings={}) as other:
                other.agent("default").do(line)
            did = {"/rewind": "Rewound to 'BEFORE'", "/clear": "Context cleared"}.get(line, "The context was changed")
            with pytest.raises(ContextChangedError, match=f"^{did} in another process; .* stays in the log$"):
                await said

    asyncio.run(program())
    agent.context()


def test_a_kill_by_another_process_is_seen_when_it_is_committed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 10 * LIMIT)  # longer than any wait of this test
    agent, model = log.agent("default"), Stalled()
    agent.do("/mark GOAL")
    child = log.agent(str(agent.do("/fork GOAL").data["child"]))
    child.append("user", "Work.")

    async def work() -> None:
        async with foldmark.supervise(log, lambda _: model) as agents:
            turn = asyncio.create_task(agents.say(child, None))
            await model.asked.wait()
            with foldmark.open(log.store.address, settings={}) as other:
                other.agent("default").do(f"/kill {child.id[:8]}")
            with pytest.raises(TurnInterruptedError, match="killed"):
                await asyncio.wait_for(turn, LIMIT)

    asyncio.run(work())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_killed_child_keeps_what_it_has_streamed(log: Log, elsewhere: bool) -> None:
    agent, model = log.agent("default"), Stalled()
    agent.do("/mark M")
    agent.do("/note Count the tables.")

    async def program() -> None:
        async with foldmark.supervise(log, lambda _: model) as agents:
            child = agent.do("/fork M").data["child"]
            await model.asked.wait()
            with foldmark.open(log.store.address, settings={}) as other:
                (other if elsewhere else log).agent("default").do(f"/kill {child}")
            await agents.settled()

    asyncio.run(program())
    (child,) = agent.children
    answer = child.context().messages[-1]
    assert (answer.kind, answer.content, answer.interrupted) == ("assistant", "Wait", True)
    with pytest.raises(foldmark.CommandError, match="is dead"):
        child.append("assistant", "More.")


def test_a_full_fork_waits_for_its_first_message(log: Log) -> None:
    agent, played = log.agent("default"), Played(lambda _, newest: "Done.")
    agent.do("/note Deploy to production now.")

    async def program() -> None:
        async with foldmark.supervise(log, lambda _: played) as agents:
            forked = agent.do("/fork")
            byte = agent.do("/fork", actor="model")
            await agents.settled()
            assert played.requests == 0
            child, other = (log.agent(each.data["child"]) for each in (forked, byte))
            assert forked.text.splitlines()[1] == (
                f"It waits for its first message: `foldmark chat {child.id[:8]}` goes there."
            )
            assert byte.text.splitlines()[1] == f"It waits for its first message: send {other.id[:8]} MESSAGE."
            states = [each["state"] for each in agent.do("/agents").data["agents"]]
            assert states == ["idle", *["waits for its first message"] * 2]
            agent.do(f"/send {other.id} Go on.")
            await agents.settled()
            assert played.requests == 1
            await agents.say(child, "Describe the deployment instead.")

    asyncio.run(program())
    child, other = agent.children
    said = [message.content for message in child.context().messages]
    assert said == ["Deploy to production now.", "Describe the deployment instead.", "Done."]
    assert [each.content[:25] for each in other.context().messages][1:] == ["[Foldmark: Mail has come ", "Done."]


def test_a_child_that_waits_is_run_when_a_person_says_so(log: Log) -> None:
    agent, played = log.agent("default"), Played(lambda _, newest: "Done.")
    agent.do("/note We use tabs.")
    agent.do("/mark M")
    agent.do("/note Count the tables.")
    goal, full = (log.agent(agent.do(line).data["child"]) for line in ("/fork M", "/fork"))
    assert agent.do(f"/run {goal.id}").data == {"runs": goal.id}, "no supervisor runs here"

    async def program() -> None:
        async with foldmark.supervise(log, lambda _: played) as agents:
            agents.attended = agent.id  # a chat runs nothing because it was opened
            await agents.settled()
            assert played.requests == 0
            for child in (goal, full):
                assert agent.do(f"/run {child.id[:8]}").text == f"{child.id[:8]} runs; /agents shows it."
                await agents.settled()
            for line, why in (
                (f"/run {goal.id}", "has nothing to answer; /send"),
                ("/run default", "the agent itself; /retry"),
            ):
                with pytest.raises(foldmark.CommandError, match=why):
                    agent.do(line)
            agent.do(f"/kill {full.id}")
            with pytest.raises(foldmark.CommandError, match=r"is dead: .*; it cannot be run"):
                agent.do(f"/run {full.id}")

    asyncio.run(program())
    assert [message.content for message in goal.context().messages] == ["Count the tables.", "Done."]
    assert played.requests == 2


def test_a_program_starts_a_child_by_saying_nothing(log: Log) -> None:
    agent, played = log.agent("default"), Played(lambda _, newest: "Done.")
    agent.append("user", "Hello")
    agent.append("assistant", "Hi")
    agent.end_turn()
    child = log.agent(agent.do("/fork").data["child"])

    async def program() -> None:
        async with foldmark.supervise(log, lambda _: played) as agents:
            await agents.say(child, None)

    asyncio.run(program())
    birth, answer = child.context().messages[2:]
    assert birth.content.startswith(f"[Foldmark: You are agent {child.id[:8]}")
    assert answer.content == "Done."


def test_delegations_made_before_are_run_once_somebody_is_there(log: Log) -> None:
    parent, played = log.agent("default"), Played(lambda _, newest: "Done.")
    parent.do("/mark M")
    parent.do("/note Count the tables.")
    forked = [parent.do("/fork M") for _ in range(3)]
    first, second, dead = (log.agent(each.data["child"]) for each in forked)
    assert [each.text.splitlines()[1:] for each in forked] == [
        [f"It waits to be run: a chat that is open now runs it; otherwise /run {child.id[:8]} does."]
        for child in (first, second, dead)
    ]
    parent.do(f"/kill {dead.id}")
    away = log.agent("put away")
    away.do("/mark M")
    away.do("/note Count the views.")
    away.do("/fork M")
    away.do("/session archive put away")

    async def program() -> None:
        async with foldmark.supervise(log, lambda _: played) as agents:
            assert len(parent.do("/fork M").text.splitlines()) == 1, "it is run at once"
            await agents.say(first, "You have got the goal.")
            await agents.settled()

    asyncio.run(program())
    assert [message.content for message in second.context().messages] == ["Count the tables.", "Done."]
    assert [message.content for message in first.context().messages][1:] == ["You have got the goal.", "Done."]
    assert [message.content for message in dead.context().messages] == ["Count the tables."]
    assert not away.children[0].standing().record.head
    asked = played.requests
    asyncio.run(program_of_nothing(log, played))
    assert played.requests == asked, "nobody is run twice"


async def program_of_nothing(log: Log, played: Played) -> None:
    async with foldmark.supervise(log, lambda _: played) as agents:
        await agents.settled()


def test_a_chat_runs_what_is_delegated_in_its_own_conversation_while_it_is_open(log: Log) -> None:
    mine, other, played = log.agent("mine"), log.agent("other"), Played(lambda _, newest: "Done.")

    def delegate(log: Log) -> None:
        for name in ("mine", "other"):
            for line in ("/mark M", "/note Count the tables.", "/fork M"):
                log.agent(name).do(line)

    async def program() -> None:
        delegate(log)
        async with foldmark.supervise(log, lambda _: played) as agents:
            agents.attended = mine.id
            await agents.settled()
            assert played.requests == 0
            with foldmark.open(log.store.address, settings={}) as shell:
                delegate(shell)
            await agents.settled()

    asyncio.run(program())
    begun = [[child.standing().record.head > 0 for child in agent.children] for agent in (mine, other)]
    assert begun == [[False, True], [False, False]]


def test_a_fork_that_cannot_be_run_is_tried_once(log: Log) -> None:
    agent = log.agent("default")
    agent.do("/mark M")
    agent.do("/note Count the tables.")
    agent.do("/fork M")
    agent.children[0].configure("model", "nobody/nothing")

    async def program() -> None:
        async with foldmark.supervise(log, lambda _: Stalled()) as agents:
            for _ in range(3):
                await agents.settled()

    asyncio.run(program())
    (mail,) = selections.unread(stored(log), agent.id)
    assert mail.content.startswith("My turn ended with an error: ")
    assert [record.id for record in stored(log).agents(unstarted=True)] == [agent.children[0].id]


def test_a_caller_that_cancels_its_wait_gets_a_cancellation(log: Log) -> None:
    agent = log.agent("default")

    async def program() -> None:
        model = Stalled()
        async with foldmark.supervise(log, lambda _: model) as agents:
            said = asyncio.create_task(agents.say(agent, "Hello"))
            await model.asked.wait()
            said.cancel()
            with pytest.raises(asyncio.CancelledError):
                await said

    asyncio.run(program())


def test_agents_that_thank_each_other_are_not_woken_for_ever(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    wakes = WAKES if DEEP else 6
    monkeypatch.setattr(unprompted, "WAKES", wakes)
    root = log.agent("default")
    root.do("/mark M")
    root.do("/note Be polite.")

    def thanks(request: Request, newest: str) -> Piece:
        body = json.dumps(request.body["messages"])
        child = re.search(r"You are agent (\w{8}), a child of agent (\w{8})", body)
        to = child[2] if child else root.children[0].id[:8]
        if "Mail has come" in newest:
            return ToolCall(f"check-{len(body)}", "slash", {"command": "check-mail"})
        if "message from" in newest or "[Mail from" in newest:
            return ToolCall(f"send-{len(body)}", "slash", {"command": "send", "args": f"{to} Thank you!"})
        return "Done."

    heard, model = Heard(), Played(thanks)

    async def program() -> None:
        async with foldmark.supervise(log, lambda _: model, heard) as agents:
            child = log.agent(root.do("/fork M", actor="model").data["child"])
            await agents.say(root, "Hello.")
            child.do(f"/send {root.id} Hi!")
            await agents.settled()

    asyncio.run(program())
    assert 3 * wakes < model.requests < 10 * wakes
    assert len(heard.agents) == 1
    assert sum(len(selections.unread(stored(log), agent.id)) for agent in log.agents()) == 1


def test_a_conversation_that_is_deleted_ends_its_agents(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    other, root = log.agent("other"), log.agent("default")
    root.do("/mark M")
    root.do("/note Wait.")

    async def program() -> None:
        model = Stalled()
        async with foldmark.supervise(log, lambda _: model) as agents:
            root.do("/fork M")
            await model.asked.wait()
            assert len(agents.working) == 1
            other.do("/session delete default --yes")
            await asyncio.wait_for(agents.settled(), LIMIT)

    asyncio.run(program())
    assert caplog.text == ""


def test_models_fork_so_deep_and_so_often(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "AGENTS", 7)
    agent = root = log.agent("default")
    root.append("user", "Delegate.")

    def fork(agent: Agent) -> Agent:
        agent.call_tool("slash", {"command": "fork"})
        return agent.children[-1]

    for _ in range(context.GENERATIONS):
        agent = fork(agent)
    with pytest.raises(foldmark.CommandError, match="agents of generation 4 cannot fork; do it yourself"):
        fork(agent)
    fork(root)
    last = fork(root)
    with pytest.raises(foldmark.CommandError, match="has 7 living agents, the maximum; `kill` ends one"):
        fork(root)
    root.call_tool("slash", {"command": "kill", "args": last.id[:8]})
    fork(root)
    agent.do("/fork")  # a person may fork
    root.end_turn()


@pytest.mark.parametrize("tool", [object(), print, type("Wrong", (), {"spec": "x", "__call__": lambda *_: ""})()])
def test_an_object_that_is_not_a_tool_is_not_added(log: Log, tool: Any) -> None:
    with pytest.raises(foldmark.CommandError, match="a tool must have a `spec` and be callable"):
        log.add_tool(tool)
    log.add_tool(Add())
    with pytest.raises(foldmark.CommandError, match="there is a tool 'add' already"):
        log.add_tool(Add())
    log.remove_tool("add")
    assert "add" not in [spec.name for spec in log.tools()]


def test_an_agent_that_cannot_be_run_is_an_error(log: Log, tmp_path: Path) -> None:
    agent = log.agent("default")

    async def program() -> None:
        agents = foldmark.supervise(log, lambda _: Played(lambda *_: "Yes."))
        with pytest.raises(foldmark.CommandError, match="inside of `async with"):
            await agents.say(agent, "Hello")
        async with agents:
            with pytest.raises(foldmark.CommandError, match="no turn of conversation 'default' is open; give a text"):
                await agents.say(agent, None)
            with (
                foldmark.open(tmp_path / "other.db") as other,
                pytest.raises(foldmark.CommandError, match="belongs to another log"),
            ):
                await agents.say(other.agent("default"), "Hello")

    asyncio.run(program())
    assert not agent.context().messages


def test_a_text_is_kept_when_there_is_no_model_to_answer_it(log: Log) -> None:
    agent = log.agent("default")

    def nobody(name: str) -> NoReturn:
        raise KeyError(name)

    async def program() -> None:
        async with foldmark.supervise(log, nobody) as agents:
            with pytest.raises(KeyError):
                await agents.say(agent, "Hello")
            agent.do("/mark M")
            agent.do("/note Do it.")
            agent.do("/fork M")
            await agents.settled()

    asyncio.run(program())
    assert [each.content for each in agent.context().messages if each.actor == "human"] == ["Hello", "Do it."]
    assert agent.do("/check-mail").text.endswith("My turn ended with an error: KeyError: 'openai/gpt-5'")
