"""Each message is recorded once, wherever it comes back from, and edits by others are respected."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import foldmark
import forked
from foldmark.core.errors import StoreError
from foldmark.stores.snapshot import SqlSnapshot
from patience import LIMIT
from sampled import DEEP

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import ProcessHistory
    from pydantic_ai.messages import (
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai_played import Played, paired, recorded, run, said

    from foldmark.integrations.pydantic_ai import FoldmarkHistory


@pytest.fixture
def log() -> Any:
    with foldmark.open(":memory:", settings={}) as log:
        yield log


def told(history: FoldmarkHistory) -> list[str]:
    return [event.content for event in history.agent.context().messages]


def through_json(messages: list[ModelMessage]) -> list[ModelMessage]:
    return ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))


def older() -> list[ModelMessage]:
    """Return a foreign history, made without Foldmark."""
    return [
        ModelRequest([UserPromptPart("first")]),
        ModelResponse([TextPart("well"), ToolCallPart("look", {"at": "sea"}, "c1")]),
        ModelRequest([ToolReturnPart("look", "blue", "c1")]),
        ModelResponse([TextPart("blue")]),
        ModelRequest([UserPromptPart("ok")]),
        ModelResponse([TextPart("well")]),
        ModelRequest([UserPromptPart("ok")]),
        ModelResponse([TextPart("well")]),
    ]


def test_an_older_history_is_recorded_first(log: foldmark.Log) -> None:
    history, given = FoldmarkHistory(log), older()
    result = run(Agent(Played().model, capabilities=[history]), "new", message_history=given)
    assert told(history) == [
        "first",
        "well",
        '{"at":"sea"}',
        "blue",
        "blue",
        "ok",
        "well",
        "ok",
        "well",
        "new",
        "answer 1",
    ]
    assert result.all_messages()[:8] == given == FoldmarkHistory(log).messages()[:8]
    assert len({event.turn_id for event in history.agent.context().messages}) == 4


@pytest.mark.parametrize("fresh", [False, True])
def test_a_history_without_its_times_is_known_by_its_texts(log: foldmark.Log, fresh: bool) -> None:
    """A browser may return such a history, rebuilt for every run."""
    history, given = FoldmarkHistory(log), older()
    for number in range(4):
        if fresh:
            history = FoldmarkHistory(log)
        run(Agent(Played([f"answer {number}"]).model, capabilities=[history]), "ok", message_history=given)
        given = [
            *older(),
            *(
                message
                for n in range(number + 1)
                for message in (ModelRequest([UserPromptPart("ok")]), ModelResponse([TextPart(f"answer {n}")]))
            ),
        ]
    assert told(history)[9:] == [text for n in range(4) for text in ("ok", f"answer {n}")]


def test_the_same_words_are_said_again(log: foldmark.Log) -> None:
    history, result = FoldmarkHistory(log), None
    for number in range(3):
        given = through_json(result.all_messages()) if result else None
        result = run(Agent(Played(["ok"]).model, capabilities=[history]), "go on", message_history=given)
        assert told(history) == ["go on", "ok"] * (number + 1)


def test_times_that_do_not_advance(log: foldmark.Log) -> None:
    still = datetime(2026, 1, 1, tzinfo=UTC)
    history = FoldmarkHistory(log)
    for number, text in enumerate(("one", "two", "three")):
        request = ModelRequest([UserPromptPart(text, timestamp=still)], run_id=f"run {number}", timestamp=still)
        for _ in range(2):
            history.record([request], f"run {number}")
        history.do("/clear")
    assert recorded(history.agent) == ["one", "two", "three"]


# It imports Pydantic AI once, and forks a process for each prompt.
PROGRAM = """
import asyncio, os, sys, traceback, warnings
from pathlib import Path
warnings.simplefilter("error")
sys.path.append(sys.argv[1])
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai_played import Played
from foldmark.integrations.pydantic_ai import FoldmarkHistory

def go_on(prompt, kept):
    given = ModelMessagesTypeAdapter.validate_json(kept.read_bytes()) if kept.exists() else None
    with FoldmarkHistory("chat.db") as history:
        played = Played()
        agent = Agent(played.model, system_prompt="Be kind.", capabilities=[history])
        result = asyncio.run(agent.run(prompt, message_history=given))
        kept.write_bytes(result.all_messages_json())
        assert history.messages() == result.all_messages()
        print(played.asked[-1], flush=True)

for line in sys.stdin:
    if os.fork() == 0:
        try:
            go_on(line.strip(), Path("kept.json"))
        except BaseException:
            print(traceback.format_exc(limit=-1).splitlines()[-1], flush=True)
        os._exit(0)
    os.wait()
"""


def test_another_process_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    command: list[str | Path] = [sys.executable, "-c", PROGRAM, Path(__file__).parent]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with forked.Popen(command, cwd=tmp_path, env={"HOME": str(tmp_path)}, text=True, **pipes) as program:

        def process(prompt: str) -> str:
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.write(f"{prompt}\n")
            program.stdin.flush()
            return str(program.stdout.readline()).strip()

        assert process("one") == str(["system: Be kind.", "user: one"])
        with foldmark.open(path, settings={}) as log:
            log.agent("default").do("/mark M")
        assert process("two") == str(["system: Be kind.", "user: one", "assistant: answer 1", "user: two"])
        with FoldmarkHistory(path) as history:
            history.do("/clear M")
        assert process("three") == str(["system: Be kind.", "user: one", "assistant: answer 1", "user: three"])
        assert program.communicate(timeout=LIMIT) == ("", "")
    with foldmark.open(path, settings={}) as log:
        texts = ["Be kind.", "one", "answer 1", "two", "answer 1", "three", "answer 1"]
        assert recorded(log.agent("default")) == texts
        assert [e.content for e in log.agent("default").context().messages][1:] == [
            "one",
            "answer 1",
            "three",
            "answer 1",
        ]


def test_somebody_else_writes_meanwhile(tmp_path: Path) -> None:
    played = Played([("look", {}), "done"])
    with FoldmarkHistory(tmp_path / "chat.db") as history, foldmark.open(tmp_path / "chat.db", settings={}) as other:
        agent = Agent(played.model, capabilities=[history])

        @agent.tool_plain
        def look() -> str:
            theirs = other.agent("default")
            theirs.context()
            theirs.do("/note From somewhere else.")
            return "seen"

        run(agent, "Go")
        assert paired(played.sent[-1])
        assert played.asked[-1] == ["user: From somewhere else.", "call: look", "result: seen"] or (
            sorted(played.asked[-1]) == sorted(["user: Go", "call: look", "user: From somewhere else.", "result: seen"])
        )
        assert paired(history.messages())


def change(messages: list[ModelMessage], what: str) -> list[ModelMessage]:
    """Return a history with an edit by others: another text, fewer messages, a joined message, or new objects."""
    first, answer, *rest = messages
    changed: Any = replace
    match what:
        case "text":
            return [changed(first, parts=[changed(first.parts[0], content="[redacted]")]), answer, *rest]
        case "answer":
            return [first, changed(answer, parts=[changed(answer.parts[0], content="[redacted]")]), *rest]
        case "fewer":
            return rest
        case "joined":
            return [ModelRequest([*first.parts, UserPromptPart("and this")]), answer, *rest]
        case _:
            return through_json(messages)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("what", ["text", "answer", "fewer", "joined", "copy"])
def test_an_edited_history(log: foldmark.Log, what: str, fresh: bool) -> None:
    played, history = Played(), FoldmarkHistory(log)
    result = run(Agent(played.model, capabilities=[history]), "one")
    result = run(Agent(played.model, capabilities=[history]), "two", message_history=result.all_messages())
    history = FoldmarkHistory(log) if fresh else history
    given = change(result.all_messages(), what)
    run(Agent(played.model, capabilities=[history]), "three", message_history=given)
    wanted = ["user: one", "assistant: answer 1", "user: two", "assistant: answer 2", "user: three"]
    wanted = {
        "text": ["user: [redacted]", *wanted[1:]],
        "answer": [wanted[0], "assistant: [redacted]", *wanted[2:]],
        "joined": [*wanted[:4], "user: and this", wanted[4]],
    }.get(what, wanted)
    assert played.asked[-1] == wanted
    assert told(history)[:4] == ["one", "answer 1", "two", "answer 2"]
    assert len(told(history)) == 6 + (what == "joined")


def test_a_notice_is_recorded_once(log: foldmark.Log) -> None:
    messages: list[ModelMessage] = [
        ModelRequest([UserPromptPart("Go")]),
        ModelResponse([ToolCallPart("look", {}, "c1")]),
        ModelRequest([ToolReturnPart("look", "seen", "c1")]),
    ]
    history = FoldmarkHistory(log)
    history.record(messages[:2])
    history.do("/clear")
    history.record(messages)
    (notice,) = told(history)
    assert "Context cleared by the user" in notice
    FoldmarkHistory(log).record(through_json(messages))
    FoldmarkHistory(log).record(messages)
    assert told(history) == [notice]


@pytest.mark.parametrize("line", ["/note Later.", "/undo"])
def test_what_is_to_be_answered_comes_last(log: foldmark.Log, line: str) -> None:
    """This holds even if others have spoken since or the context does not show the prompt."""
    played, history = Played(), FoldmarkHistory(log)
    agent = Agent(played.model, capabilities=[history])
    run(agent, "first")
    prompt = ModelRequest([UserPromptPart("second")])
    history.record([*history.messages(), prompt])
    history.do(line)
    result = run(agent, message_history=[*history.messages()[:2], prompt])
    before = ["user: first", "assistant: answer 1", *(["user: Later."] if line != "/undo" else [])]
    assert played.asked[-1] == [*before, "user: second"]
    assert said(result.all_messages())[-1] == "assistant: answer 2"


def test_a_system_prompt_that_changes(log: foldmark.Log) -> None:
    played, history, hour = Played(), FoldmarkHistory(log), 0

    def agent() -> Agent[None, str]:
        made = Agent(played.model, system_prompt="Be kind.", capabilities=[history])
        made.system_prompt(dynamic=True)(lambda: f"It is {hour} o'clock.")
        return made

    result = None
    for hour in (1, 2, 2, 3):
        result = run(agent(), "go on", message_history=result.all_messages() if result else None)
        assert played.asked[-1][:3] == ["system: Be kind.", f"system: It is {hour} o'clock.", "user: go on"]
        assert len([text for text in played.asked[-1] if text.startswith("system")]) == 2
        assert said(FoldmarkHistory(log).messages()) == said(result.all_messages())
    assert [event.content for event in history.agent.context().messages if event.kind == "system"] == [
        each for hour in (1, 2, 3) for each in ("Be kind.", f"It is {hour} o'clock.")
    ]


def test_another_processor_changes_what_is_sent(log: foldmark.Log) -> None:
    def redact(messages: list[ModelMessage]) -> list[ModelMessage]:
        return [
            ModelRequest([replace(part, content=part.content.replace("4711", "****")) for part in message.parts])  # type: ignore[union-attr]
            if isinstance(message, ModelRequest)
            else message
            for message in messages
        ]

    for order in (0, 1):
        played, history = Played(), FoldmarkHistory(log, f"order {order}")
        capabilities: list[Any] = [history]
        capabilities.insert(order, ProcessHistory(redact))
        agent = Agent(played.model, capabilities=capabilities)
        result = run(agent, "my pin is 4711")
        for _ in range(2):
            result = run(agent, "go on", message_history=result.all_messages())
            assert "user: my pin is ****" in played.asked[-1]
        assert len(told(history)) == 6
        assert ("4711" in told(history)[0]) == (order == 1)


def test_a_failing_store_records_nothing_and_says_so(tmp_path: Path) -> None:
    history = FoldmarkHistory(tmp_path / "chat.db")
    agent = Agent(Played().model, capabilities=[history])
    run(agent, "one")
    history.close()
    with pytest.raises(StoreError):
        run(agent, "two")
    with FoldmarkHistory(tmp_path / "chat.db") as again:
        assert told(again) == ["one", "answer 1"]


def test_a_message_that_cannot_be_recorded_undoes_its_batch(log: foldmark.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    played, history = Played([[("look", {})] * 3, "done", "and on"]), FoldmarkHistory(log)
    agent = Agent(played.model, capabilities=[history])
    real, calls = history.agent.append_tool_result, list[str]()

    def failing(call_id: str, *args: Any, **kwargs: Any) -> int:
        calls.append(call_id)
        if len(calls) % 3 == 0:
            raise StoreError("the disk is full")
        return real(call_id, *args, **kwargs)

    monkeypatch.setattr(history.agent, "append_tool_result", failing)

    @agent.tool_plain
    def look() -> str:
        return "seen"

    with pytest.raises(StoreError):
        run(agent, "Go")
    assert said(history.messages())[:4] == ["user: Go", "call: look", "call: look", "call: look"]
    assert history.agent.open_turn is None
    history.do("/note Something else has its number now.")
    result = run(agent, "Again")
    assert paired(result.all_messages())
    assert "user: Something else has its number now." in said(result.all_messages())
    assert FoldmarkHistory(log).messages() == history.messages() == result.all_messages()


@pytest.fixture
def reads(log: foldmark.Log, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The ids of all events that are read from the log."""
    found: list[int] = []
    events, messages = SqlSnapshot.events, SqlSnapshot.select

    def read(moment: SqlSnapshot, event_ids: Sequence[int]) -> Any:
        found.extend(event_ids)
        return events(moment, event_ids)

    def shown(*args: Any, **kwargs: Any) -> Any:
        for each in messages(*args, **kwargs):
            found.append(each.id)
            yield each

    monkeypatch.setattr(SqlSnapshot, "events", read)
    monkeypatch.setattr(SqlSnapshot, "select", shown)
    return found


def test_a_long_history_is_read_once(log: foldmark.Log, reads: list[int]) -> None:
    messages: list[ModelMessage] = []
    turns = 500 if DEEP else 100
    for n in range(turns):
        messages += [ModelRequest([UserPromptPart(f"prompt {n}")]), ModelResponse([TextPart(f"answer {n}")])]
    FoldmarkHistory(log).record(messages)
    history, given = FoldmarkHistory(log), through_json(messages)
    agent = Agent(Played().model, capabilities=[history])
    reads.clear()
    result = run(agent, "new", message_history=given)
    assert len(reads) < 2 * len(messages) + 100
    reads.clear()
    for _ in range(3):
        result = run(agent, "new", message_history=through_json(result.all_messages()))
    assert len(reads) < 100
    assert len(history.agent.context().messages) == 2 * turns + 8


def test_a_long_run_reads_what_is_new(log: foldmark.Log, reads: list[int]) -> None:
    """The number of events read in a step does not grow with the number of recorded events."""
    history, messages = FoldmarkHistory(log), list[ModelMessage]()
    messages.append(ModelRequest([UserPromptPart("Go")], run_id="run"))
    steps, count = [], 200 if DEEP else 60
    for n in range(count):
        messages.append(ModelResponse([ToolCallPart("look", {}, f"c{n}")], run_id="run"))
        messages.append(ModelRequest([ToolReturnPart("look", "seen", f"c{n}")], run_id="run"))
        reads.clear()
        history.record(messages, "run")
        assert history.messages()[-1] is messages[-1]
        steps.append(len(reads))
    assert len(history.agent.context().messages) == 2 * count + 1
    assert max(steps[count // 2 :]) <= max(steps[: count // 2])
    assert max(steps) < 20


def test_texts_of_a_coding_agent_are_sent_as_a_users_and_recorded_once(log: foldmark.Log) -> None:
    agent = log.agent("default")
    agent.append("client", "A file has changed.")
    agent.append("user", "first")
    agent.append("assistant", "well")
    agent.end_turn()
    played = Played()
    first = run(Agent(played.model, capabilities=[FoldmarkHistory(log)]), "second")
    assert said(played.sent[0]) == ["user: A file has changed.", "user: first", "assistant: well", "user: second"]
    run(Agent(played.model, capabilities=[FoldmarkHistory(log)]), "third", message_history=first.all_messages())
    assert recorded(log.agent("default")).count("A file has changed.") == 1
