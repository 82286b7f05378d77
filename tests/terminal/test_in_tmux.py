"""A conversation in a real terminal: a model on the loopback interface is asked over its real SDK, with tools,
marks, edits and a restart."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from plan import Reply, Say, Use
from playing import asked, say
from server import Loopback
from tmux import Tmux
from wire_anthropic import AnthropicWire

import foldmark

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

WIRE = AnthropicWire()
MODEL = "anthropic/claude-sonnet-4-5"


def played(body: Any) -> Reply:
    """What the model says, by what it reads last."""
    heard = asked(WIRE, body)
    kind, text = heard.newest
    if kind == "result":
        return say("That is ", "done.")
    if "list the files" in text:
        return Reply((Say(("I look. ",)), Use("c-list", "list_files", {"path": "."})), "calls")
    return say("About ", text.split()[-1], ": **yes**.")


def test_a_day_in_the_application(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "tags.py").write_text("def tags(text): return text.split(',')\n")
    with Loopback(WIRE, played) as server:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path / "home"),
            "LC_ALL": "C.UTF-8",
            "TERM": "tmux-256color",
            "FOLDMARK_DB": str(tmp_path / "log.db"),
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "test-key-7f3a91c2",
        }
        program = (str(Path(sys.executable).parent / "foldmark"), "chat", "notes", "--model", MODEL)
        with Tmux(tmp_path / "work", *program, env=env) as screen:
            _talk(screen)
        with Tmux(tmp_path / "work", *program, env=env) as screen:
            screen.until("notes", "BEFORE", "simple way")
            screen.press("C-q")
            screen.until("ended with 0")
    assert not server.refusals
    with foldmark.open(tmp_path / "log.db", create=False) as log:
        context = log.agent("notes").context()
        texts = [message.content for message in context.messages if message.kind == "user"]
        assert (texts, list(context.marks)) == (["Please list the files", "Now the simple way"], ["BEFORE"])


def _talk(screen: Tmux) -> None:
    screen.until("notes", MODEL.partition("/")[2])
    screen.line("Please list the files")
    screen.until("list_files", "That is done.")
    screen.line("/mark BEFORE")
    screen.until("BEFORE")
    screen.line("Try a plugin system")
    screen.until("About system: yes.")
    screen.line("/undo -- led nowhere")
    screen.until("led nowhere", "/restore")
    screen.line("Now the simple way")
    screen.until("About way: yes.")
    screen.press("C-q")
    screen.until("ended with 0")
