"""A conversation in a real terminal, with a model on the loopback interface behind its real SDK, and with tools,
marks, a review and a restart; in a deep run also with the list of turns and a child that asks, which other tests show
in an application without a terminal."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from plan import Reply, Say, Use
from playing import asked, say
from server import Loopback
from tmux import Tmux, environment
from wire_anthropic import AnthropicWire

import foldmark
from foldmark.log.doctor import examine
from sampled import DEEP

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

WIRE = AnthropicWire()
MODEL = "anthropic/claude-sonnet-4-5"
TASK = "Look for the cause. Report when you have it."
QUOTED = re.compile(r"^\[(\d+)\] (?:user|assistant): .*(?:plugin|system|lunch)", re.MULTILINE)
"""The messages to forget, as a matching request quotes them."""


def played(body: Any) -> Reply:
    """Return the model's reply to the newest text or result in the request."""
    heard = asked(WIRE, body)
    kind, text = heard.newest
    if kind == "result":
        return say("That is ", "done.")
    if "Which of the messages match?" in text:
        return say(json.dumps([int(id) for each in heard.texts for id in QUOTED.findall(each[1])]))
    if "talk of lunch" in text:
        wanted = {"action": "preview", "criteria": "the plugin system, and talk of lunch", "mode": "forget"}
        return Reply((Use("c-filter", "filter_context", wanted),), "calls")
    if "list the files" in text:
        return Reply((Say(("I look. ",)), Use("c-list", "list_files", {"path": "."})), "calls")
    if heard.who is not None:
        return Reply((Use("c-bash", "bash", {"command": "echo from the child > found.txt"}),), "calls")
    return say("About ", text.split()[-1], ": **yes**.")


def test_a_day_in_the_application(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "tags.py").write_text("def tags(text): return text.split(',')\n")
    with Loopback(WIRE, played) as server:
        env = environment(
            tmp_path, tmp_path / "log.db", ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="test-key-7f3a91c2"
        )
        program = (str(Path(sys.executable).parent / "foldmark"), "chat", "notes", "--model", MODEL)
        with Tmux(tmp_path / "work", *program, env=env) as screen:
            _talk(screen)
        with Tmux(tmp_path / "work", *program, env=env) as screen:
            screen.until("notes", "BEFORE", "simple way")
            screen.press("C-q")
            screen.until("ended with 0")
    assert not server.refusals
    assert not DEEP or (tmp_path / "work" / "found.txt").read_text() == "from the child\n"
    with foldmark.open(tmp_path / "log.db", create=False) as log:
        agent = log.agent("notes")
        context = agent.context()
        texts = [message.content for message in context.messages if message.kind == "user"]
        assert [text for text in texts if not text.startswith("[")] == [
            "Please list the files",
            "Where is lunch",
            *(f"Now the simple way {number}" for number in range(3)),
            *([TASK] if DEEP else []),
        ]
        assert list(context.marks) == ["BEFORE"]
        assert len(agent.children) == DEEP
        assert list(examine(log)) == []


def _talk(screen: Tmux) -> None:
    screen.until("notes", MODEL.partition("/")[2])
    screen.line("Please list the files")
    screen.until("list_files", "That is done.")
    screen.line("/mark BEFORE")
    screen.until("BEFORE")
    for deed in (_undo, _forget_one_of_two, _drop_and_restore, _delegate) if DEEP else (_forget_one_of_two,):
        deed(screen)
    screen.press("C-q")
    screen.until("ended with 0")


def _undo(screen: Tmux) -> None:
    screen.line("Try it in Rust")
    screen.until("About Rust: yes.")
    screen.line("/undo -- led nowhere")
    screen.until("led nowhere", "/restore")


def _forget_one_of_two(screen: Tmux) -> None:
    screen.line("Where is lunch")
    screen.until("About lunch: yes.")
    for number in range(3):
        screen.line(f"Now the simple way {number}")
        screen.until(f"About {number}: yes.")
    screen.line("Try a plugin system")
    screen.until("About system: yes.")
    screen.line("/forget the plugin system, and talk of lunch")
    screen.until("[x] 1", "[x] 2", "Anything else you type")
    screen.press("Enter")  # the first range is about lunch
    screen.until("[ ] 1", "[x] 2")
    screen.press("End", "Enter")
    screen.until("left the context")
    screen.gone("Anything else you type")


def _drop_and_restore(screen: Tmux) -> None:
    screen.line("What a detour")
    screen.until("About detour: yes.")
    screen.press("F2")
    screen.until("What a detour", "Please list the files")
    screen.press("o")
    screen.until("▾ newest")
    _drop_newest(screen)
    screen.press("u")
    screen.until("What a detour")
    _drop_newest(screen)
    screen.press("Escape")
    screen.gone("Turns · next request")


def _drop_newest(screen: Tmux) -> None:
    screen.press("Home")
    screen.until("▌[ ] 46")
    screen.press("d")
    screen.until("Enter does it")
    screen.press("Enter")
    screen.gone("What a detour")


def _delegate(screen: Tmux) -> None:
    screen.line(f"/note {TASK}")
    screen.until("Look for the cause")
    screen.line("/fork BEFORE")
    shown = screen.until("asks to use bash", "F8 answers")
    screen.press("F8")
    screen.until("echo from the child", "always")
    screen.press("y")
    screen.gone("asks to use bash")
    found = re.search(r"gent ([0-9a-f]{8}) asks", shown)
    assert found is not None
    screen.line("/wait")
    screen.until("are idle")
    screen.line(f"/switch {found[1]}")
    screen.until("That is done.", "child")
    screen.line("/switch notes")
    screen.until("Now the simple way")
