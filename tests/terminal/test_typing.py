"""The prompt: sending, new lines, history and its search, completion, pastes, and waiting lines."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path

import pytest
from driven import Driven, driven, sample
from textual.events import Key, Paste

from foldmark.core.errors import ProviderError
from foldmark.core.request import Piece, Request
from foldmark.log import Agent, Log
from foldmark.providers.offline import OfflineModel
from foldmark.terminal.pasting import PasteParser
from stored import leases

SLOW = OfflineModel(delay=3600)
"""A model that says one word, and the next one long after the end of the test."""


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that keeps typed lines."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = tmp_path / "data" / "foldmark" / "history.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('"older"\n"/mark A"\n"new\\nlines"\n')
    return path


def run(agent: Agent, steps: Callable[[Driven], Coroutine[None, None, None]], *, slow: bool = False) -> None:
    async def talk() -> None:
        async with driven(agent, lambda _: SLOW if slow else OfflineModel()) as chat:
            await steps(chat)

    asyncio.run(talk())


def asked(agent: Agent) -> list[str]:
    return [each.content for each in agent.context().messages if each.kind == "user"]


def test_keys_begin_new_lines_and_enter_sends_them(log: Log, history: Path) -> None:
    async def steps(chat: Driven) -> None:
        await chat.press("a", "ctrl+j", "b", "shift+enter", "c", "alt+enter", "d", "backslash", "enter", "e")
        assert chat.app.chat.prompt.text == "a\nb\nc\nd\ne"
        await chat.press("backslash", "backslash", "enter")
        await chat.until("I am the offline model")
        assert chat.app.chat.prompt.text == ""

    run(agent := log.agent("notes"), steps)
    assert asked(agent) == ["a\nb\nc\nd\ne\\\\"]
    assert json.loads(history.read_text().splitlines()[-1]) == "a\nb\nc\nd\ne\\\\"


def test_keys_that_come_at_once_keep_their_order(log: Log) -> None:
    async def steps(chat: Driven) -> None:
        typed = "ab\x7fc\x1b[Dd\r/mark X\r"
        for event in PasteParser().feed(typed):
            assert isinstance(event, Key)
            chat.app.post_message(event)
        await chat.until("Checkpoint 'X' created")

    run(agent := log.agent("notes"), steps)
    assert asked(agent) == ["adc"]


def test_keys_that_come_at_once_keep_their_order_wherever_the_focus_is(log: Log) -> None:
    async def steps(chat: Driven) -> None:
        await chat.press("tab")
        await chat.until(lambda: chat.app.chat.transcript.has_focus)
        for event in PasteParser().feed("hello \x1b[200~pasted\x1b[201~ there\r"):
            chat.app.post_message(event)
        await chat.until("I am the offline model")
        await chat.press("tab")
        await chat.until(lambda: chat.app.chat.transcript.has_focus)
        chat.app.post_message(Paste("a paste alone"))
        await chat.until(lambda: chat.app.chat.prompt.text == "a paste alone")
        assert chat.app.chat.prompt.editor.has_focus

    run(agent := log.agent("notes"), steps)
    assert asked(agent) == ["hello pasted there"]


def test_the_prompt_grows_to_a_third_of_the_screen(log: Log) -> None:
    async def steps(chat: Driven) -> None:
        editor = chat.app.chat.prompt.editor
        for lines in (1, 4, 10, 10):
            editor.put("\n".join(["x"] * lines))
            await chat.still()
            assert editor.size.height == lines
        editor.put("\n".join(["x"] * 300))
        await chat.pilot.pause()
        assert editor.size.height == 10
        assert chat.app.chat.transcript.size.height > 10

    run(log.agent("notes"), steps)


def test_up_and_down_walk_what_was_typed_in_all_chats(log: Log, history: Path) -> None:
    async def steps(chat: Driven) -> None:
        prompt = chat.app.chat.prompt
        await chat.press("d", "r", "up")
        await chat.until(lambda: prompt.text == "new\nlines")
        await chat.press("up", "up")
        assert prompt.text == "/mark A"
        await chat.press("up", "up", "up")
        assert prompt.text == "older"
        await chat.press("down", "down", "down", "down")
        assert prompt.text == "dr"
        await chat.press("ctrl+r", "e", "w")
        await chat.until("search › ew")
        assert "new\\nlines" in chat.screen
        assert "/mark A" not in chat.screen
        await chat.press("escape")
        assert prompt.text == "dr"
        await chat.press("ctrl+r", "a", "r", "k", "enter")
        assert prompt.text == "/mark A"

    run(log.agent("notes"), steps)


def test_hostile_history_is_shown_as_text(log: Log, history: Path) -> None:
    history.write_text(json.dumps("[red]\x1b[2J\x1b]0;evil\x07‮") + "\n")

    async def steps(chat: Driven) -> None:
        await chat.press("ctrl+r")
        await chat.until(r"[red]\x1b[2J\x1b]0;evil\x07\u202e")
        await chat.press("enter")
        assert chat.app.chat.prompt.text == r"[red]\x1b[2J\x1b]0;evil\x07\u202e"

    run(log.agent("notes"), steps)


def test_tab_completes_commands_and_values_of_the_log(log: Log) -> None:
    async def steps(chat: Driven) -> None:
        prompt = chat.app.chat.prompt
        await chat.press(*"/rew", "tab")
        await chat.until(lambda: prompt.text == "/rewind ")
        await chat.until("BEFORE_PLUGINS  ")
        await chat.until("/rewind [MARK|GID] [--preview] [-- REASON]   Go back to MARK")
        await chat.press("tab")
        assert prompt.text == "/rewind BEFORE_PLUGINS"
        prompt.editor.put("/context d")
        await chat.until("/context diff ID [ID2]")
        await chat.press("down", "enter")
        assert prompt.text == "/context diff "
        prompt.editor.put("/context drop simple")
        await chat.press("tab")
        await chat.until(lambda: prompt.text.removeprefix("/context drop ").isdigit())
        prompt.clear()
        await chat.press(*"/mar")
        await chat.until("/marks")
        await chat.press("escape")
        await chat.until(lambda: "/marks" not in chat.screen)

    run(sample(log), steps)


def test_long_pastes_are_labels_and_are_sent_whole(log: Log, history: Path) -> None:
    long, wide = "\n".join(map(str, range(240))), "x" * 1001

    async def steps(chat: Driven) -> None:
        prompt = chat.app.chat.prompt
        editor = prompt.editor
        for text in (long, wide, long.replace("\n", "\r")):
            editor.post_message(Paste(text))
            await chat.pilot.pause()
        assert prompt.text == "[pasted 240 lines][pasted 1,001 characters][pasted 240 lines, 2]"
        await chat.press("backspace")
        assert prompt.text == "[pasted 240 lines][pasted 1,001 characters]"
        await chat.press("ctrl+z")
        assert prompt.text.endswith("[pasted 240 lines, 2]")
        await chat.press("ctrl+o")
        assert prompt.text == f"[pasted 240 lines][pasted 1,001 characters]{long}"
        await chat.press("ctrl+z")
        assert prompt.text.endswith("[pasted 240 lines, 2]")
        await chat.press("backspace", "space", "b", "enter")
        await chat.until("I am the offline model")
        await chat.press("up")
        assert prompt.text == "[pasted 241 lines]" or prompt.text == "[pasted 240 lines]"

    run(agent := log.agent("notes"), steps)
    assert asked(agent) == [f"{long}{wide} b"]


def test_a_paste_is_one_paste_whatever_is_in_it() -> None:
    hostile = "a\x1b[31mred\x1b[0m\r/exit\r\x1b]0;x\x07\r"
    stream = f"b\x1b[200~{hostile}\x1b[201~c\x1b[200~\x1b[201~"
    for size in (1, 7, 1000):
        parser = PasteParser()
        events = [each for at in range(0, len(stream), size) for each in parser.feed(stream[at : at + size])]
        if size == 1000:  # if a paste comes in pieces, Textual's own parser takes its beginning
            assert [each.text for each in events if isinstance(each, Paste)] == [hostile, ""]
            assert [each.key for each in events if isinstance(each, Key)] == ["b", "c"]


def test_lines_wait_above_the_prompt_and_come_back(log: Log) -> None:
    async def steps(chat: Driven) -> None:
        prompt = chat.app.chat.prompt
        await chat.type("first")
        await chat.until(lambda: chat.app.chat.transcript.streaming)
        await chat.type("second")
        await chat.type("third")
        await chat.type("/marks")
        await chat.until("No checkpoint yet")
        await chat.until("waits  › third   (↑ takes it back)")
        assert "waits  › second" in chat.screen
        assert "waits  › /marks" not in chat.screen
        await chat.press("up")
        assert prompt.text == "third"
        await chat.until("waits  › second   (↑ takes it back)")
        await chat.press("ctrl+c")
        await chat.until("1 waiting line dropped")
        await chat.until("interrupted")
        assert prompt.text == "third"
        await chat.until(lambda: "waits" not in chat.screen)
        prompt.clear()
        await chat.until("/retry asks again")
        await chat.until(lambda: chat.app.idle)
        await chat.press("ctrl+c", "ctrl+c")
        await chat.until(lambda: chat.app.ended)

    run(agent := log.agent("notes"), steps, slow=True)
    assert asked(agent) == ["first"]


def test_the_prompt_names_a_child_and_an_offer(log: Log) -> None:
    agent = sample(log)
    child = log.agent(agent.do("/fork").data["child"])

    async def steps(chat: Driven) -> None:
        await chat.until(f"{child.id[:8]} ❯ ")
        await chat.type("/forget exporters")
        await chat.until("forget ")
        await chat.until("messages? ❯ ")

    run(child, steps)


def test_ctrl_c_withdraws_a_question(log: Log) -> None:
    async def steps(chat: Driven) -> None:
        await chat.type("/message remove 1")
        await chat.until(lambda: chat.app.screen is not chat.app.chat)
        await chat.press("ctrl+c")
        await chat.until("nothing was changed")
        await chat.until(lambda: chat.app.screen is chat.app.chat)

    run(agent := sample(log), steps)
    assert agent.do("/operations").data["operations"][-1]["operation"] != "redact"


def test_ctrl_c_ends_agents_at_work_when_the_chat_ends(log: Log) -> None:
    async def steps(chat: Driven) -> None:
        for line in ("/mark GOAL", "/note Look for it.", "/fork GOAL"):
            await chat.type(line)
        await chat.until("Forked")
        await chat.type("/exit")
        await chat.until("1 agent still at work; Ctrl-C ends that")
        await chat.press("ctrl+c")
        await chat.until(lambda: chat.app.ended)

    run(sample(log), steps, slow=True)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
def test_a_signal_ends_agents_at_work_with_the_chat(log: Log) -> None:
    async def steps(chat: Driven) -> None:
        for line in ("/mark GOAL", "/note Look for it.", "/fork GOAL"):
            await chat.type(line)
        await chat.until("Forked")
        await chat.until(lambda: chat.app.controller.agents.working)
        os.kill(os.getpid(), signal.SIGTERM)
        await chat.until(lambda: chat.app.ended)
        assert chat.app.end() == 128 + signal.SIGTERM

    run(agent := sample(log), steps, slow=True)
    assert leases(log) == []
    (child,) = agent.children
    assert child.open_turn is None


def test_ctrl_c_ends_the_matching_of_a_filter(log: Log) -> None:
    async def steps(chat: Driven) -> None:
        await chat.type("/forget exporters")
        await chat.until(lambda: not chat.app.idle)
        await chat.press("ctrl+c")
        await chat.until("interrupted")
        await chat.until(lambda: chat.app.idle)

    run(agent := sample(log), steps, slow=True)
    assert agent.do("/operations").data["operations"][-1]["operation"] != "filter"


class Failing(OfflineModel):
    """A model that answers only with an error."""

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        if request.purpose == "answer":
            raise ProviderError("offline", "the provider is away")
        yield ""


def test_a_failed_answer_is_followed_by_what_to_do(log: Log) -> None:
    async def talk() -> None:
        async with driven(log.agent("notes"), lambda _: Failing()) as chat:
            await chat.type("hello")
            await chat.until("the provider is away")
            await chat.until("The answer failed or was cut off: /retry asks again")

    asyncio.run(talk())


def test_esc_and_a_letter_right_after_it_are_two_keys() -> None:
    def keys(*pieces: str) -> list[str]:
        parser = PasteParser()
        return [each.key for piece in pieces for each in parser.feed(piece) if isinstance(each, Key)]

    assert keys("\x1b", "hi") == ["escape", "h", "i"]
    assert keys("a\x1b", "f") == ["a", "escape", "f"]
    assert keys("\x1b", "[A") == keys("\x1b[A") == ["up"]


def test_esc_closes_what_is_open_and_else_stops_the_answer(log: Log) -> None:
    async def steps(chat: Driven) -> None:
        prompt = chat.app.chat.prompt
        await chat.press("escape")
        assert "Esc" not in chat.screen
        await chat.type("first")
        await chat.until(lambda: chat.app.chat.transcript.streaming)
        await chat.until("Esc stop")
        await chat.press("f4")
        await chat.until("Scratchpad")
        await chat.press("escape")
        await chat.until(lambda: "Scratchpad" not in chat.screen)
        assert prompt.editor.has_focus
        await chat.press("f4")
        await chat.until("Scratchpad")
        await chat.press(*"/mar")
        await chat.until("/marks")
        await chat.press("escape")
        await chat.until(lambda: "/marks" not in chat.screen)
        await chat.press("escape")
        await chat.until(lambda: "Scratchpad" not in chat.screen)
        assert chat.app.chat.transcript.streaming
        await chat.press("escape")
        await chat.until("(interrupted; the text so far is kept)")
        await chat.until(lambda: "Esc stop" not in chat.screen)
        assert prompt.text == "/mar"

    run(log.agent("notes"), steps, slow=True)


def test_ctrl_q_waits_for_the_end_and_says_so(log: Log) -> None:
    async def steps(chat: Driven) -> None:
        await chat.type("first")
        await chat.until(lambda: chat.app.chat.transcript.streaming)
        await chat.press("ctrl+q")
        await chat.until("leaves when this has ended · ^Q again interrupts it")
        assert not chat.app.ended
        await chat.press("ctrl+q")
        await chat.until(lambda: chat.app.ended)

    run(agent := log.agent("notes"), steps, slow=True)
    assert agent.context().messages[-1].interrupted
