"""One turn (SPEC 3, 4, 6): text, tool calls, results, and the parts that are kept when it is cut short."""

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

import foldmark
from answering import answered_by
from foldmark import Agent, CommandError, ConflictError, Log
from foldmark.core import request as requests
from foldmark.core.config import Config
from foldmark.core.errors import ContextFullError, DamagedError, FoldmarkError, ProviderError, StoreError
from foldmark.core.request import Request, ToolCall, ToolSpec
from foldmark.log import Result
from foldmark.log.doctor import examine
from foldmark.operations.effects import Asking
from foldmark.runtime.loop import ATTEMPTS, NO_TOOLS, ONLY_WORDS, PREVIEW_FIRST, Shown, turn
from patience import LIMIT
from planning_talk import IN_CHAT, Talk
from scripted import ScriptedProvider
from stored import connection, stored

Piece: TypeAlias = str | ToolCall | Exception | Callable[[], Awaitable[None] | None]


class Scripted(ScriptedProvider):
    """A model that plays its steps: texts, calls, failures, and functions that run in between."""

    def __init__(self, *steps: list[Piece]) -> None:
        self.steps, self.requests = list(steps), list[Request]()

    async def answer(self, request: Request) -> AsyncGenerator[requests.Piece, None]:
        self.requests.append(request)
        for piece in self.steps.pop(0):
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, str | ToolCall):
                yield piece
            elif (waiting := piece()) is not None:
                await waiting


class OwnTool(NamedTuple):
    """A custom tool of a test."""

    spec: ToolSpec
    run: Callable[[Any], str]
    together: bool = False

    def __call__(self, agent: Agent, args: Any, asking: Asking) -> str:
        return self.run(args)


class Seen:
    """Records the text and the calls that an interface is shown."""

    def __init__(self) -> None:
        self.text, self.calls = "", list[ToolCall]()

    @property
    def show(self) -> Shown:
        return Shown(self._text, self.calls.append)

    def _text(self, piece: str) -> None:
        self.text += piece


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def log(path: Path) -> Iterator[Log]:
    with foldmark.open(path) as log:
        yield log
        assert list(examine(log)) == []
        assert [agent.open_turn for agent in log.agents()] == [None] * len(log.agents())


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("default")


def play(
    agent: Agent, text: str | None, *steps: list[Piece], asking: Asking | None = None, shown: Shown | None = None
) -> Scripted:
    provider = Scripted(*steps)
    asyncio.run(turn(agent, provider, text, shown or Seen().show, asking or Asking()))
    return provider


def shape(agent: Agent) -> list[tuple[str, str]]:
    return [(message.kind, message.content) for message in agent.context().messages]


def ends(log: Log, agent: Agent) -> list[bool]:
    """Return for each ended turn whether it was interrupted."""
    events = stored(log).events(range(1, agent.standing().record.head + 1))
    return [event.interrupted for event in events if event.kind == "turn_ended"]


def own_tools(log: Log, tools: dict[str, Callable[[Any], str]]) -> None:
    """Add custom tools to those of the log."""
    for name, run in tools.items():
        log.add_tool(OwnTool(ToolSpec(name, f"Runs {name}.", {"type": "object", "properties": {}}), run))


# Recorded events


def test_text_in_pieces(log: Log, agent: Agent) -> None:
    seen, provider = Seen(), Scripted(["Hel", "", "lo\ud800", " there"])
    asyncio.run(turn(agent, provider, "Hi", seen.show))
    assert seen.text == "Hello\ud800 there"
    assert shape(agent) == [("user", "Hi"), ("assistant", "Hello\ufffd there")]
    user, answer = agent.context().messages
    assert (user.actor, answer.actor, user.turn_id, answer.turn_id) == ("human", "model", user.id, user.id)
    assert ends(log, agent) == [False]


def test_an_answer_of_nothing(log: Log, agent: Agent) -> None:
    play(agent, "Hi", [])
    assert shape(agent) == [("user", "Hi")]
    assert ends(log, agent) == [False]


def test_the_users_text_is_recorded_before_the_model_is_asked(agent: Agent) -> None:
    there: list[Any] = []
    play(agent, "Hi", [lambda: there.extend(shape(agent)), "Hello"])
    assert there == [("user", "Hi")]


def test_without_a_text_it_goes_on_in_the_open_turn(log: Log, agent: Agent) -> None:
    first = agent.append("user", "Hi")
    provider = play(agent, None, ["Hello"])
    assert [message.turn_id for message in agent.context().messages] == [first, first]
    assert provider.requests[0].body["messages"][-1]["content"] == "Hi"
    assert ends(log, agent) == [False]


def test_a_turn_that_a_crash_left_open_is_closed_first(log: Log, agent: Agent) -> None:
    cut = agent.append("user", "Cut off")
    agent.append_tool_call("read", {}, call_id="c", dialect="openai")
    provider = play(agent, "Again", ["Hello"])
    assert ends(log, agent) == [True, False]
    assert agent.context().messages[-1].turn_id != cut
    sent = provider.requests[0].body["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "user"]


# Tools


def test_parallel_calls_and_their_results(log: Log, agent: Agent) -> None:
    ran: list[int] = []

    def tool(args: Any) -> str:
        ran.append(args["n"])
        return f"result {args['n']}"

    own_tools(log, {"look": tool})
    seen = Seen()
    calls: list[Piece] = [ToolCall(f"c{n}", "look", {"n": n}) for n in (1, 2, 3)]
    provider = Scripted(["I look.", *calls, " Three times."], ["Found."])
    asyncio.run(turn(agent, provider, "go", seen.show))
    assert ran == [1, 2, 3]
    assert seen.calls == calls
    assert shape(agent) == [
        ("user", "go"),
        ("assistant", "I look. Three times."),
        *(("tool_call", f'{{"n":{n}}}') for n in (1, 2, 3)),
        *(("tool_result", f"result {n}") for n in (1, 2, 3)),
        ("assistant", "Found."),
    ]
    messages = list(agent.context().messages)
    assert [message.answers for message in messages[5:8]] == [message.id for message in messages[2:5]]
    assert {message.dialect for message in messages[2:8]} == {"openai"}
    assert {message.turn_id for message in messages} == {messages[0].id}
    assert [m["content"] for m in provider.requests[1].body["messages"] if m["role"] == "tool"] == [
        *("result 1", "result 2", "result 3")
    ]


def test_calls_are_recorded_before_they_run(log: Log, path: Path, agent: Agent) -> None:
    """Another program can read them already, so a crash in the tool loses no call."""

    def tool(args: Any) -> str:
        with foldmark.open(path) as other:
            return ",".join(message.kind for message in other.agent("default").context().messages)

    own_tools(log, {"look": tool})
    play(agent, "go", [ToolCall("c1", "look", {}), ToolCall("c2", "look", {})], ["ok"])
    assert shape(agent)[3] == ("tool_result", "user,tool_call,tool_call")
    assert shape(agent)[4] == ("tool_result", "user,tool_call,tool_call,tool_result")


@pytest.mark.parametrize("call_id", ["", "same", "\ud800", "x" * 500])
def test_calls_with_one_id(log: Log, agent: Agent, call_id: str) -> None:
    """Some models give all calls the same id, or none. Each result still belongs to its own call."""
    own_tools(log, {"look": lambda args: f"result {args}"})
    calls: list[Piece] = [ToolCall(call_id, "look", n) for n in (1, 2, 3)]
    provider = play(agent, "go", calls, [ToolCall(call_id, "look", 4)], ["ok"])
    messages = list(agent.context().messages)
    called = {message.id: message.content for message in messages if message.kind == "tool_call"}
    answered = [(called[m.answers], m.content) for m in messages if m.kind == "tool_result" and m.answers]
    assert answered == [(str(n), f"result {n}") for n in (1, 2, 3, 4)]
    sent = provider.requests[-1].body["messages"]
    ids = [each["id"] for message in sent for each in message.get("tool_calls") or []]
    assert len(set(ids)) == 4
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ids


def test_errors_of_tools_come_back_as_error_results(log: Log, agent: Agent) -> None:
    def unanswered(args: Any) -> str:
        raise FoldmarkError("the model answered with nothing")

    own_tools(log, {"ask": unanswered})
    calls: list[Piece] = [
        *(ToolCall("c1", "nope", {}), ToolCall("c2", "filter_context", {"action": "apply"}), ToolCall("c3", "ask", {})),
        *(ToolCall("c4", "slash", None), ToolCall("c5", "slash", {"command": "mark", "args": "A\ud800 B"})),
    ]
    play(agent, "go", calls, ["I see."])
    results = [message for message in agent.context().messages if message.kind == "tool_result"]
    assert [(message.data or {}).get("is_error") for message in results] == [True] * 5
    assert [message.content[:35] for message in results] == [
        "Error: there is no tool 'nope'; ava",
        "Error: no planning conversation is ",
        "Error: the model answered with noth",
        "Error: slash takes an object with c",
        "Error: unexpected argument 'B'; usa",
    ]
    assert shape(agent)[-1] == ("assistant", "I see.")


def test_a_database_that_fails_ends_the_turn(log: Log, agent: Agent) -> None:
    """The result cannot be recorded, but the end of the turn can."""
    fails = iter([True])

    def failing(args: Any) -> str:
        connection(log).set_commit_hook(lambda: next(fails, False))
        return "seen"

    own_tools(log, {"look": failing})
    with pytest.raises(StoreError):
        play(agent, "go", ["I look.", ToolCall("c1", "look", {})], ["never"])
    assert shape(agent) == [("user", "go"), ("assistant", "I look."), ("tool_call", "{}")]
    assert ends(log, agent) == [True]


def test_data_that_a_tool_cannot_read_does_not_end_the_turn(log: Log, agent: Agent) -> None:
    def failing(args: Any) -> str:
        raise DamagedError("event 7 is damaged")

    own_tools(log, {"look": failing})
    play(agent, "go", ["I look.", ToolCall("c1", "look", {})], ["I see."])
    assert shape(agent)[-2:] == [("tool_result", "Error: event 7 is damaged"), ("assistant", "I see.")]
    assert ends(log, agent) == [False]


def test_tools_run_in_a_thread_of_their_own(log: Log, agent: Agent) -> None:
    """The event loop is not blocked meanwhile."""
    went_on = threading.Event()

    def tool(args: Any) -> str:
        assert went_on.wait(LIMIT)
        return "ok"

    own_tools(log, {"wait": tool})

    async def both() -> None:
        running = asyncio.create_task(turn(agent, Scripted([ToolCall("c", "wait", {})], ["done"]), "go", Seen().show))
        while not [message for message in agent.context().messages if message.kind == "tool_call"]:
            await asyncio.sleep(0)
        went_on.set()
        await running

    asyncio.run(both())
    assert shape(agent)[-1] == ("assistant", "done")


def test_a_turn_has_an_end(log: Log, agent: Agent) -> None:
    steps: list[list[Piece]] = [[ToolCall(f"c{n}", "nope", {})] for n in range(Config().turn_steps)]
    seen, provider = Seen(), Scripted(*steps, ["never"])
    asyncio.run(turn(agent, provider, "go", seen.show))
    assert len(provider.requests) == Config().turn_steps
    assert provider.steps == [["never"]]
    told = '[Foldmark: the turn was ended after 50 steps, the maximum set by turn_steps; "go on" continues it.]'
    assert shape(agent)[-1] == ("assistant", told)
    assert seen.text == shape(agent)[-1][1]
    assert ends(log, agent) == [False]


# Cut short


def cancelled(agent: Agent, started: threading.Event, *steps: list[Piece], times: int = 1, then: Any = None) -> None:
    """Cancel the turn `times` times once `started` is set, then call `then`."""

    async def run() -> None:
        running = asyncio.create_task(turn(agent, Scripted(*steps), "go", Seen().show))
        while not started.is_set():
            await asyncio.sleep(0.001)
        for _ in range(times):
            running.cancel()
            await asyncio.sleep(0.01)
        if then is not None:
            then()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(run())


def test_cancelled_in_the_middle_of_the_text(log: Log, agent: Agent) -> None:
    started = threading.Event()

    async def long() -> None:
        started.set()
        await asyncio.sleep(60)

    cancelled(agent, started, ["Half of ", "the ", long, "answer"])
    assert shape(agent) == [("user", "go"), ("assistant", "Half of the ")]
    assert agent.context().messages[-1].interrupted
    assert ends(log, agent) == [True]


def test_calls_of_an_answer_that_was_cut_short_are_not_kept(log: Log, agent: Agent) -> None:
    started = threading.Event()

    async def long() -> None:
        started.set()
        await asyncio.sleep(60)

    cancelled(agent, started, ["I look.", ToolCall("c", "look", {}), long])
    assert shape(agent) == [("user", "go"), ("assistant", "I look.")]
    assert ends(log, agent) == [True]


@pytest.mark.parametrize("times", [1, 3])
def test_cancelled_while_a_tool_runs(log: Log, agent: Agent, times: int) -> None:
    """The turn stays open until the running tool ends; its result is kept, and no other tool begins."""
    started, finish, ran = threading.Event(), threading.Event(), []

    def tool(args: Any) -> str:
        ran.append(args)
        started.set()
        assert finish.wait(LIMIT)
        assert agent.open_turn is not None
        return agent.do("/mark M", actor="model").text

    own_tools(log, {"work": tool})
    calls: list[Piece] = ["I work.", ToolCall("c1", "work", 1), ToolCall("c2", "work", 2)]
    cancelled(agent, started, calls, ["never"], times=times, then=finish.set)
    assert ran == [1]
    assert shape(agent) == [
        *(("user", "go"), ("assistant", "I work."), ("tool_call", "1"), ("tool_call", "2")),
        ("tool_result", "Checkpoint 'M' created."),
    ]
    assert ends(log, agent) == [True]
    sent = agent.request("openai", "gpt-5").body["messages"]
    assert [message.get("content") for message in sent if message["role"] == "tool"] == [
        *("Checkpoint 'M' created.", "[Interrupted: this call has no result.]")
    ]


@pytest.mark.parametrize(
    "error", [FoldmarkError("the provider is not there"), OSError("connection reset"), KeyError(1)]
)
def test_a_provider_that_fails(log: Log, agent: Agent, error: Exception) -> None:
    with pytest.raises(type(error)):
        play(agent, "go", [ToolCall("c", "nope", {})], ["Half ", error])
    assert shape(agent)[0] == ("user", "go")
    assert shape(agent)[-1] == ("assistant", "Half ")
    assert agent.context().messages[-1].interrupted
    assert ends(log, agent) == [True]
    play(agent, "again", ["Now it works."])
    assert shape(agent)[-1] == ("assistant", "Now it works.")


def test_a_provider_that_fails_at_once(log: Log, agent: Agent) -> None:
    with pytest.raises(FoldmarkError):
        play(agent, "go", [FoldmarkError("no key")])
    assert shape(agent) == [("user", "go")]
    assert ends(log, agent) == [True]


def test_an_interface_that_fails(log: Log, agent: Agent) -> None:
    def broken(piece: str) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        asyncio.run(turn(agent, Scripted(["Hel", "lo"]), "go", Shown(broken, lambda _: None)))
    assert shape(agent) == [("user", "go"), ("assistant", "Hel")]
    assert ends(log, agent) == [True]


# Together with another writer


def elsewhere(path: Path, text: str) -> Callable[[], None]:
    def write() -> None:
        with foldmark.open(path) as other:
            other.agent("default").append("user", text)

    return write


def test_another_writer_in_the_middle_of_an_answer(log: Log, path: Path, agent: Agent) -> None:
    play(agent, "go", ["Half ", elsewhere(path, "me too"), "and half"])
    assert shape(agent) == [("user", "go"), ("user", "me too"), ("assistant", "Half and half")]
    assert ends(log, agent) == [False]


def test_another_writer_while_a_tool_runs(log: Log, path: Path, agent: Agent) -> None:
    ran = []

    def tool(args: Any) -> str:
        ran.append(1)
        if len(ran) == 1:
            elsewhere(path, "me too")()
        return agent.do("/mark M", actor="model").text

    own_tools(log, {"work": tool})
    play(agent, "go", [ToolCall("c", "work", {})], ["ok"])
    assert ("tool_result", "Checkpoint 'M' created.") in shape(agent)
    assert shape(agent)[-1] == ("assistant", "ok")
    assert "M" in agent.context().marks
    assert len(ran) == 2


def test_another_writer_who_never_rests(log: Log, path: Path, agent: Agent) -> None:
    ran = []

    def tool(args: Any) -> str:
        ran.append(1)
        elsewhere(path, "me too")()
        agent.do("/mark M", actor="model")
        raise AssertionError("it was written in spite of the other")

    own_tools(log, {"work": tool})
    with pytest.raises(ConflictError):
        play(agent, "go", [ToolCall("c", "work", {})], ["never"])
    assert len(ran) == ATTEMPTS
    assert ends(log, agent) == [True]
    assert shape(agent)[0] == ("user", "go")


def test_somebody_else_has_ended_the_turn_and_opened_another(log: Log, path: Path, agent: Agent) -> None:
    """The new turn belongs to the other program, so this one leaves it open."""

    def other() -> None:
        with foldmark.open(path) as two:
            theirs = two.agent("default")
            theirs.end_turn(interrupted=True)
            theirs.append("user", "mine now")

    play(agent, "go", ["Hello", other])
    assert ends(log, agent) == [True]
    assert agent.open_turn is not None
    assert shape(agent)[-1] == ("assistant", "Hello")
    agent.end_turn()


# A whole planning conversation with a scripted model


FOUND = ToolCall("p", "filter_context", {"action": "preview"})


class Told:
    """Records the results that Foldmark shows in a turn, and the texts of the model, each in order."""

    def __init__(self) -> None:
        self.results, self.texts = list[Result](), list[str]()
        self.show = Shown(self.texts.append, lambda _: None, lambda _: None, result=self.results.append)

    @property
    def lines(self) -> list[str]:
        return [result.text.partition("\n")[0] for result in self.results]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def planned(tmp_path: Path) -> Iterator[Talk]:
    """A conversation with two turns, the first one about tables; each step is a new program."""
    with Talk(tmp_path / "planned.db", restarts=True) as talk:
        talk.exchange("Which tables?", "Two tables.")
        talk.exchange("And the weather?", "Dry.")
        yield talk


def asked(talk: Talk, told: Told) -> list[int]:
    """Make an offer to forget the first turn, and return the ids of all messages before it."""
    ids = talk.ids
    talk.agent.do(f"/forget messages {ids[0]}-{ids[1]}", asking=IN_CHAT)
    play(talk.agent, None, [FOUND], ["I found 2 messages."], shown=told.show)
    assert talk.planning is not None
    return ids


def test_a_yes_is_carried_out_and_no_model_is_asked(planned: Talk, told: Told) -> None:
    ids = asked(planned, told)
    (offer,) = told.results
    assert offer.text.startswith("Forget 2 messages (~")
    assert offer.data["ids"] == ids[:2]
    provider = play(planned.agent, "Yes, proceed", shown=told.show)
    assert provider.requests == []
    done = told.results[-1]
    assert done.text.startswith("Done. 2 messages about “messages ")
    assert (done.data["operation"], done.data["actor"]) == ("filter", "human")
    assert planned.ids == ids[2:]
    assert planned.planning is None
    assert planned.agent.open_turn is None
    after = planned.exchange("What now?", "Go on.")
    assert planned.ids == ids[2:] + after


def test_a_no_is_carried_out_and_no_model_is_asked(planned: Talk, told: Told) -> None:
    ids = asked(planned, told)
    assert play(planned.agent, "no, thanks", shown=told.show).requests == []
    assert told.lines[-1].startswith("Cancelled. Nothing was forgotten")
    assert planned.ids == ids
    assert planned.ids + planned.exchange("What now?", "Go on.") == planned.ids


def test_a_choice_that_was_not_offered_leaves_the_offer_open(planned: Talk, told: Told) -> None:
    ids = asked(planned, told)
    before = planned.agent.standing().newest
    with pytest.raises(CommandError, match="there is no range 2; there is only range 1"):
        play(planned.agent, "all but 2", shown=told.show)
    assert planned.agent.standing().newest == before
    play(planned.agent, "only 1", shown=told.show)
    assert planned.ids == ids[2:]


def test_another_preview_refines_the_offer(planned: Talk, told: Told) -> None:
    ids = asked(planned, told)
    other = ToolCall("q", "filter_context", {"action": "preview", "criteria": f"messages {ids[2]}-{ids[3]}"})
    play(planned.agent, "I mean the other one", [other], ["Then these."], shown=told.show)
    assert told.results[-1].data["ids"] == ids[2:]
    play(planned.agent, "ok", shown=told.show)
    assert planned.ids == ids[:2]


def test_anything_else_ends_planning_before_that_message(planned: Talk, told: Told) -> None:
    ids = asked(planned, told)
    provider = play(planned.agent, "Leave that: we use port 8080", ["Port 8080, then."], shown=told.show)
    assert len(provider.requests) == 1
    sent = [message["content"] for message in provider.requests[0].body["messages"]]
    assert "Which tables?" in sent  # the whole history
    assert told.lines[-1] == "Planning has ended; nothing was forgotten."
    assert planned.planning is None
    assert planned.texts[len(ids) :] == ["Leave that: we use port 8080", "Port 8080, then."]
    assert planned.ids[: len(ids)] == ids
    play(planned.agent, "yes", ["Good."], shown=told.show)
    assert planned.texts[len(ids) :] == ["Leave that: we use port 8080", "Port 8080, then.", "yes", "Good."]
    assert len(told.results) == 2


def test_work_in_the_turn_that_ends_planning_is_not_held_up_by_it(planned: Talk, told: Told) -> None:
    """A child cannot be forked while a planning conversation is open."""
    ids = asked(planned, told)
    fork = ToolCall("f", "slash", {"command": "fork", "args": ""})
    play(planned.agent, "Leave that, fork a child", [fork], ["Forked."], shown=told.show)
    assert planned.texts[len(ids)] == "Leave that, fork a child"
    said = planned.ids[len(ids)]
    (child,) = planned.agent.children
    assert [message.id for message in child.context().messages] == [*ids, said]
    assert told.lines[-1] == "Planning has ended; nothing was forgotten."


def test_an_interrupted_answer_ends_planning_as_well(planned: Talk, told: Told) -> None:
    ids = asked(planned, told)
    with pytest.raises(FoldmarkError, match="connection lost"):
        play(planned.agent, "Leave that", ["Y", FoldmarkError("connection lost")], shown=told.show)
    assert planned.planning is None
    assert planned.texts[len(ids) :] == ["Leave that", "Y"]
    assert told.lines[-1] == "Planning has ended; nothing was forgotten."


def test_a_model_that_answers_in_words_is_asked_once_more(planned: Talk, told: Told) -> None:
    ids = planned.ids
    planned.agent.do("/forget tables", asking=IN_CHAT)
    provider = play(planned.agent, None, ["Which tables do you mean?"], [FOUND], ["These."], shown=told.show)
    assert len(provider.requests) == 3
    assert provider.requests[1].body["messages"][-1]["content"] == PREVIEW_FIRST
    (offer,) = told.results
    assert "matched by words" not in offer.text
    play(planned.agent, "yes", shown=told.show)
    assert planned.ids == ids[2:]


@pytest.mark.parametrize(("mode", "left"), [("forget", slice(2, 4)), ("remember", slice(0, 2))])
def test_words_again_are_followed_by_a_local_preview(planned: Talk, told: Told, mode: str, left: slice) -> None:
    ids = planned.ids
    planned.agent.do(f"/{mode} tables", asking=IN_CHAT)
    words: list[Piece] = ["Done. I have forgotten everything about tables."]
    assert len(play(planned.agent, None, words, words, shown=told.show).requests) == 2
    (offer,) = told.results
    assert offer.data["ids"] == ids[:2]
    assert offer.data["matched_locally"] is True
    assert f"(matched by words: {ONLY_WORDS})" in offer.text
    assert planned.ids[: len(ids)] == ids
    assert play(planned.agent, "yes", shown=told.show).requests == []
    assert planned.ids == ids[left]
    assert planned.agent.open_turn is None


@pytest.mark.parametrize(("mode", "left"), [("forget", slice(2, 4)), ("remember", slice(0, 2))])
def test_without_tools_no_model_is_asked(planned: Talk, told: Told, mode: str, left: slice) -> None:
    ids = planned.ids
    planned.agent.do("/config set tools=none")
    planned.agent.do(f"/{mode} tables", asking=IN_CHAT)
    assert play(planned.agent, None, shown=told.show).requests == []
    (offer,) = told.results
    assert offer.data["ids"] == ids[:2]
    assert f"(matched by words: {NO_TOOLS})" in offer.text
    for text in ("show me first", "also the weather", "yes, go"):
        assert play(planned.agent, text, shown=told.show).requests == []
    assert told.lines[1] == told.lines[0]
    assert "yes or no?" in told.results[2].text
    assert planned.ids == ids[left]


def test_without_tools_and_matches_nothing_stays_open(planned: Talk, told: Told) -> None:
    ids = planned.ids
    planned.agent.do("/config set tools=none")
    planned.agent.do("/forget zebras", asking=IN_CHAT)
    play(planned.agent, None, shown=told.show)
    assert told.lines == ["Nothing matches “zebras”, and nothing has changed. Try other words."]
    assert planned.planning is None
    assert planned.ids == ids


def test_a_model_that_cannot_be_asked_is_no_obstacle(planned: Talk, told: Told) -> None:
    ids = planned.ids
    planned.agent.do("/forget tables", asking=IN_CHAT)
    play(planned.agent, None, [ProviderError("request", "this model has no tools")], shown=told.show)
    (offer,) = told.results
    assert offer.data["ids"] == ids[:2]
    assert "(matched by words: this model has no tools)" in offer.text
    play(planned.agent, "yes", shown=told.show)
    assert planned.ids == ids[2:]


def test_a_question_about_the_offer_keeps_it_open(planned: Talk, told: Told) -> None:
    """The model answers it; if it does not preview again, Foldmark shows the offer again."""
    ids = asked(planned, told)
    provider = play(planned.agent, "show me what you will forget first", ["Two messages."], shown=told.show)
    assert len(provider.requests) == 1
    assert "".join(told.texts).endswith("Two messages.")
    first, again = (re.sub(r"~[\d,]+", "~", each.text) for each in told.results[:2])
    assert again == first  # the sizes are those of another request
    with pytest.raises(FoldmarkError, match="connection lost"):
        play(planned.agent, "which ones?", [FoldmarkError("connection lost")], shown=told.show)
    assert play(planned.agent, "Yes, forget these 2 messages", shown=told.show).requests == []
    assert planned.ids == ids[2:]


DOUBTFUL = ("Yes, and then fix the parser", "fine, but keep the first one", "Yes, forget these 5 messages", "forget it")


@pytest.mark.parametrize("text", DOUBTFUL)
def test_a_doubtful_answer_asks_once(planned: Talk, told: Told, text: str) -> None:
    ids = asked(planned, told)
    assert play(planned.agent, text, shown=told.show).requests == []
    assert "yes or no?" in told.results[-1].text
    assert planned.ids[: len(ids)] == ids
    provider = play(planned.agent, text, ["I fix it."], shown=told.show)
    assert len(provider.requests) == 1
    assert told.lines[-1] == "Planning has ended; nothing was forgotten."
    assert planned.ids[: len(ids)] == ids
    assert planned.texts[len(ids) :] == [text, "I fix it."]


def test_a_yes_after_a_doubtful_answer_carries_the_offer_out(planned: Talk, told: Told) -> None:
    ids = asked(planned, told)
    play(planned.agent, DOUBTFUL[0], shown=told.show)
    assert play(planned.agent, "yes", shown=told.show).requests == []
    assert planned.ids == ids[2:]


def test_no_request_above_the_window_is_sent_while_planning_is_open(planned: Talk, told: Told) -> None:
    """The request about the offer alone is small; once that has ended, the whole context is too long."""
    full(planned)
    planned.exchange("z" * 400_000, "z")
    ids = asked(planned, told)
    provider = Scripted(["Which parser?"], ["never"])
    with pytest.raises(ContextFullError):
        asyncio.run(turn(planned.agent, provider, "Leave that, fix the parser", told.show))
    (alone,) = provider.requests
    assert alone.tokens < planned.agent.window
    assert told.lines[-1] == "Planning has ended; nothing was forgotten."
    assert planned.ids[: len(ids)] == ids
    assert planned.agent.open_turn is None


def test_a_text_that_is_too_long_is_not_recorded_while_planning_is_open(planned: Talk, told: Told) -> None:
    asked(planned, told)
    before = planned.agent.standing().newest
    with pytest.raises(ContextFullError):
        play(planned.agent, "Look: " + "x" * 900_000)
    assert planned.agent.standing().newest == before
    assert play(planned.agent, "no", shown=told.show).requests == []


def test_a_preview_without_matches_makes_no_offer(planned: Talk, told: Told) -> None:
    ids = planned.ids
    planned.agent.do("/forget zebras", asking=IN_CHAT)
    play(planned.agent, None, [FOUND], ["Nothing there."], shown=told.show)
    assert told.lines == ["Nothing matches “zebras”, and nothing has changed. Try other words."]
    play(planned.agent, "yes", ["Yes?"], shown=told.show)
    assert planned.texts[len(ids) :] == ["yes", "Yes?"]


def full(planned: Talk) -> None:
    """Fill the context to over 80% of the model's window."""
    planned.agent.do("/context budget 0")
    planned.exchange("x" * 330_000, "y" * 330_000)


def test_in_ephemeral_mode_the_planning_answer_is_thrown_away(planned: Talk, told: Told) -> None:
    """The model gave it without the history, and is asked again with the history [SPEC 4.2]."""
    full(planned)
    ids = asked(planned, told)
    told.texts.clear()
    provider = play(
        planned.agent, "Leave that: which tables?", ["Which do you mean?"], ["Two tables."], shown=told.show
    )
    alone, whole = ([message["content"] for message in each.body["messages"]] for each in provider.requests)
    assert "Which tables?" not in alone
    assert alone[-1] == "Leave that: which tables?"
    assert "Leave that: which tables?" in whole
    assert "Which tables?" in whole
    assert not any(text.startswith("/forget") for text in whole if text)
    assert [text for text in planned.texts[len(ids) :] if "Foldmark" not in text] == [alone[-1], "Two tables."]
    assert "".join(told.texts) == "Two tables."
    assert told.lines[-1] == "Planning has ended; nothing was forgotten."


def test_in_ephemeral_mode_a_preview_refines_the_offer(planned: Talk, told: Told) -> None:
    full(planned)
    ids = asked(planned, told)
    other = ToolCall("q", "filter_context", {"action": "preview", "criteria": f"messages {ids[2]}-{ids[3]}"})
    provider = play(planned.agent, "The other one", ["I look. ", other], ["Then these."], shown=told.show)
    assert [each.manifest.edge.why for each in provider.requests] == ["planning", "planning"]
    assert "".join(told.texts).endswith("I look. Then these.")
    play(planned.agent, "ok", shown=told.show)
    assert planned.ids == [*ids[:2], *ids[4:]]


def test_a_model_that_has_a_yes_may_apply_it_in_the_loop(planned: Talk, told: Told) -> None:
    """A program has recorded the yes. Until the turn ends, the model still sees the planning conversation."""
    ids = asked(planned, told)
    planned.says("Yes, proceed")
    apply = ToolCall("a", "filter_context", {"action": "apply", "mode": "forget", "message_ids": ids[:2]})
    provider = play(planned.agent, None, [apply], ["Done. I've forgotten those 2 messages."], shown=told.show)
    last = [message["content"] for message in provider.requests[-1].body["messages"]]
    assert f"/forget messages {ids[0]}-{ids[1]}" in last
    assert "Which tables?" not in last
    assert last[-1].startswith('{"filter_event_id":')
    assert planned.ids == ids[2:]
    assert planned.planning is None
    after = planned.exchange("What now?", "Go on.")
    assert planned.ids == ids[2:] + after


def test_cancelled_in_the_turn_of_the_filter(planned: Talk, told: Told) -> None:
    """The applied filter stays; the rest of the interrupted turn leaves with the planning conversation."""
    ids = asked(planned, told)
    planned.says("Yes")
    apply = ToolCall("a", "filter_context", {"action": "apply"})
    with pytest.raises(FoldmarkError, match="connection lost"):
        play(planned.agent, None, [apply], ["Do", FoldmarkError("connection lost")])
    assert planned.ids == ids[2:]
    assert planned.agent.open_turn is None
    assert planned.ids + planned.exchange("What now?", "Go on.") == planned.ids


def test_matching_reports_its_progress(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with Talk(tmp_path / "planned.db") as talk:
        talk.exchange("Which tables?", "Two tables.")
        talk.agent.do("/model openai/gpt-5")
        talk.agent.do("/forget tables", asking=IN_CHAT)
        answered_by(lambda request: "[]")
        asking = Asking(progress=lambda done, total: told.append((done, total)))
        play(talk.agent, None, [ToolCall("p", "filter_context", {"action": "preview"})], ["Nothing."], asking=asking)
        assert told == [(0, 1), (1, 1)]
        talk.agent.do("/cancel")


def test_a_model_that_matches_nonsense_is_an_error_result(tmp_path: Path) -> None:
    with Talk(tmp_path / "planned.db") as talk:
        talk.exchange("Which tables?", "Two tables.")
        talk.agent.do("/model openai/gpt-5")
        talk.agent.do("/forget tables", asking=IN_CHAT)
        answered_by(lambda request: "Hard to say, 3 of them.")
        play(talk.agent, None, [FOUND], ["It did not work."], ["Nor now."])
        result, last, *_, offered = list(talk.agent.context().messages)[-5:]
        assert result.content.startswith("Error: the model was asked for a list of message ids")
        assert last.content == "It did not work."
        assert offered.content.startswith("[Foldmark: this is what was offered.]\nForget 2 messages")
