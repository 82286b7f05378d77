"""`@path` in a prompt: its completion, and the files that go with the message."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from driven import Driven, prompts, run

from foldmark.chat import path_completion
from foldmark.chat.path_completion import paths
from foldmark.core.request import Piece, Request
from foldmark.log import Log
from foldmark.runtime.loop import Shown, turn
from foldmark.terminal.dialogs import Question
from foldmark.text.attachment import attachment
from foldmark.text.mentions import BegunMention, begun, mentions
from scripted import ScriptedProvider

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with files, one of them hidden and one ignored by git."""
    here = tmp_path / "work"
    (here / "src" / "deep").mkdir(parents=True)
    (here / "src" / "deep" / "controller.py").write_text("class Controller: ...\n")
    (here / "src" / "wide.py").write_text("x = 1\n")
    (here / "a b.txt").write_text("with spaces\n")
    (here / "app.py").write_text("print('app')\n")
    (here / ".hidden").write_text("hidden\n")
    (here / "build").mkdir()
    (here / "build" / "app.o").write_text("object\n")
    (here / "picture.txt").write_bytes(PNG)
    monkeypatch.chdir(here)
    return here


def test_a_mention_begins_a_word_and_loses_punctuation() -> None:
    text = 'See @a.py, (@b/c.md) and @"d e.txt"; not user@host, "@x or \\@y. @'
    assert list(mentions(text)) == [["a.py,", "a.py"], ["b/c.md)", "b/c.md"], ["d e.txt"]]
    assert begun("see @a/b") == BegunMention(4, "a/b")
    assert begun('see @"a b') == BegunMention(4, "a b")
    assert begun("user@host") is None
    assert begun("see @a b") is None


def test_paths_are_completed_without_the_hidden_and_the_ignored(folder: Path, log: Log) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    Path(".gitignore").write_text("build\n")
    assert paths(log, "", 50) == ["a b.txt", "app.py", "picture.txt", "src/"]
    assert paths(log, "ap", 50) == ["app.py"]
    assert paths(log, "SRC/", 50) == []
    assert paths(log, "src/", 50) == ["src/deep/", "src/wide.py"]
    assert paths(log, "contr", 50) == ["src/deep/controller.py"]
    assert paths(log, "build/", 50) == ["build/app.o"]
    assert paths(log, ".h", 50) == [".hidden"]
    assert paths(log, "nowhere/", 50) == []
    assert paths(log, "a\0", 50) == []


def test_the_completion_of_paths_runs_no_program_of_the_repository(folder: Path, log: Log) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    Path("hook.sh").write_text(f"#!/bin/sh\ntouch {folder}/ran\n")
    Path("hook.sh").chmod(0o755)
    subprocess.run(["git", "config", "core.fsmonitor", f"{folder}/hook.sh"], check=True)
    assert "app.py" in paths(log, "", 50)
    assert not Path("ran").exists()


def test_the_walk_below_ends_in_time(folder: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_completion, "SECONDS", -1.0)
    assert paths(log, "controller", 50) == []


def test_tab_completes_a_path_and_the_files_go_with_the_message(log: Log) -> None:
    async def act(chat: Driven) -> None:
        prompt = chat.app.chat.prompt
        await chat.press(*"see @ap")
        await chat.until("\n app.py")
        await chat.press("tab")
        await chat.until(lambda: prompt.text == "see @app.py ")
        await chat.press(*"@src")
        await chat.until("\n src/")
        await chat.press("tab")
        await chat.until(lambda: prompt.text == "see @app.py @src/")
        await chat.until("\n src/deep/")
        await chat.press("down", "enter")
        await chat.until(lambda: prompt.text == "see @app.py @src/wide.py ")
        await chat.press(*"@a")
        await chat.until("\n a b.txt")
        await chat.press("tab")
        await chat.until(lambda: prompt.text == 'see @app.py @src/wide.py @"a b.txt" ')
        prompt.editor.put(prompt.text + "@picture.txt @alice user@app.py @property")
        await chat.press("enter")
        await chat.until("I am the offline model")

    run(agent := log.agent("notes"), act)
    messages = log.agent("notes").context().messages
    assert prompts(agent) == [
        'see @app.py @src/wide.py @"a b.txt" @picture.txt @alice user@app.py @property',
        "File app.py:\n```\nprint('app')\n```",
        "File src/wide.py:\n```\nx = 1\n```",
        "File a b.txt:\n```\nwith spaces\n```",
        "File picture.txt:",
    ]
    assert {each.turn_id for each in messages} == {messages[0].id}
    assert (messages[4].data or {})["blocks"][0]["source"]["media_type"] == "image/png"
    agent = log.agent("notes")
    agent.do("/undo")
    assert prompts(agent) == []


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("src", "src is no file"),
        ("build/app.o", "app.o is empty"),
        ("latin", "latin is neither text in UTF-8"),
        ("huge.txt", "huge.txt has 2,000,001 bytes"),
    ],
)
def test_a_file_that_cannot_be_attached_gives_the_line_back(log: Log, folder: Path, named: str, why: str) -> None:
    Path("build/app.o").write_text("")
    Path("latin").write_bytes(b"caf\xe9")
    Path("huge.txt").write_bytes(b"a" * 2_000_001)

    async def act(chat: Driven) -> None:
        await chat.type(f"look at @{named} now")
        await chat.until(why)
        await chat.until(lambda: chat.app.chat.prompt.text == f"look at @{named} now")

    run(agent := log.agent("notes"), act)
    assert prompts(agent) == []


def test_a_file_with_secrets_is_asked_about(log: Log) -> None:
    Path(".env").write_text("KEY=1\n")

    async def act(chat: Driven) -> None:
        await chat.type("use @.env")
        await chat.until(lambda: isinstance(chat.app.screen, Question))
        await chat.until("Attach .env, which may hold secrets?")
        await chat.press("enter")
        await chat.until(lambda: chat.app.chat.prompt.text == "use @.env")
        await chat.press("enter")
        await chat.until(lambda: isinstance(chat.app.screen, Question))
        await chat.press("y", "enter")
        await chat.until("I am the offline model")

    run(agent := log.agent("notes"), act)
    assert prompts(log.agent(agent.name or "")) == ["use @.env", "File .env:\n```\nKEY=1\n```"]


def test_an_attached_text_counts_as_part_of_the_message(log: Log) -> None:
    Path("long.txt").write_text("word " * 170_000)

    async def act(chat: Driven) -> None:
        await chat.type("sum up @long.txt")
        await chat.until(lambda: isinstance(chat.app.screen, Question))
        await chat.until("This text with 1 file has ~212,")
        await chat.press("enter")
        await chat.until(lambda: chat.app.chat.prompt.text == "sum up @long.txt")

    run(agent := log.agent("notes"), act)
    assert prompts(agent) == []


def test_the_same_prompt_after_a_failure_attaches_nothing_twice(log: Log) -> None:
    class Failing(ScriptedProvider):
        async def answer(self, request: Request) -> AsyncGenerator[Piece]:
            yield "Half"
            raise OSError

    agent = log.agent("notes")
    file = attachment("app.py", b"print(1)\n")

    async def fail() -> None:
        with pytest.raises(OSError):  # noqa: PT011 - the one of the model
            await turn(agent, Failing(), "see @app.py", Shown(lambda _: None, lambda _: None), files=[file])

    asyncio.run(fail())
    assert len(prompts(agent)) == 2

    async def act(chat: Driven) -> None:
        await chat.type("see @app.py")
        await chat.until("I am the offline model")

    run(agent, act)
    assert prompts(log.agent("notes")) == ["see @app.py", "File app.py:\n```\nprint(1)\n```"]


def test_a_folder_with_many_files_is_read_within_bounds(log: Log, folder: Path) -> None:
    big = folder / "big"
    big.mkdir()
    for number in range(3_000):
        os.close(os.open(big / f"f{number}", os.O_CREAT))
    assert paths(log, "big/f29", 5) == ["big/f29", "big/f290", "big/f2900", "big/f2901", "big/f2902"]
