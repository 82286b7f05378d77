"""Commands whose effect the screen carries out: `/copy` and `/theme`."""

import asyncio
from pathlib import Path

import pytest
from driven import driven, sample
from msgspec.structs import replace

import foldmark
from foldmark.log import Log
from foldmark.settings.given import Value


def test_copy_puts_an_answer_on_the_clipboard(log: Log) -> None:
    agent = sample(log)
    evil = agent.append("user", "copy \x1b]52;c;QQ==\x07 this")
    agent.end_turn()

    async def copy() -> None:
        async with driven(agent) as chat:
            await chat.type("/copy")
            await chat.until("Copied message 21: 114 characters.")
            assert chat.app.clipboard.startswith("I looked at it, and the answer to “Now the simple way")
            await chat.type("/copy --code 1")
            await chat.until("Copied code block 1 of message 21: 8 characters.")
            assert chat.app.clipboard == "print(1)"
            await chat.type(f"/copy {evil}")
            await chat.until(f"Copied message {evil}")
            assert chat.app.clipboard == r"copy \x1b]52;c;QQ==\x07 this"

    asyncio.run(copy())


def test_a_document_is_written_from_the_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def export() -> None:
        with foldmark.open(str(tmp_path / "log.db")) as log:
            async with driven(sample(log)) as chat:
                await chat.type("/export --to markdown")
                await chat.until("Wrote the whole history as Markdown to notes.md")
                await chat.type("/export --to json")
                await chat.until("notes.json")

    asyncio.run(export())
    assert (tmp_path / "notes.md").read_text().startswith("# notes")
    assert (tmp_path / "notes.json").exists()


def test_the_theme_is_changed_and_an_unknown_one_refused(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", "15;0")

    async def change() -> None:
        async with driven(sample(log)) as chat:
            await chat.type("/theme light")
            await chat.until('the setting theme = "light" keeps it')
            assert chat.app.theme == "light"
            await chat.type("/theme \x1b[31mpink")
            await chat.until("foldmark: theme must be one of auto, dark, light, not '\\x1b[31mpink'")
            assert chat.app.theme == "light"
            await chat.type("/theme auto")
            await chat.until(lambda: chat.app.theme == "dark")

    asyncio.run(change())


@pytest.mark.parametrize(("setting", "theme"), [("light", "light"), ("auto", "dark")])
def test_the_setting_decides_the_first_theme(
    log: Log, setting: str, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORFGBG", "15;0")
    log.given = replace(log.given, overrides={"theme": Value(setting, "environment FOLDMARK_THEME")})

    async def look() -> None:
        async with driven(sample(log)) as chat:
            assert chat.app.theme == theme

    asyncio.run(look())
