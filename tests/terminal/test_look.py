"""The layout of the screens in terminals of every size, and the signs that tell everything apart without colours."""

import asyncio
from concurrent.futures import Future
from pathlib import Path

import pytest
from driven import Driven, driven, sample
from rich.cells import cell_len
from rich.segment import Segment
from textual.widgets import OptionList

from foldmark.chat.approvals import Approval
from foldmark.log import Agent, Log
from foldmark.operations.effects import Permission
from foldmark.terminal.columns import PROSE, WIDEST
from foldmark.terminal.dialogs import ApprovalDialog, Asked
from foldmark.terminal.palette import CommandPalette

ANSWER = f"""# Importing tags

{"The parser drops the last tag. " * 10}

| file | lines |
| --- | ---: |
| tags.py | 20 |

```
{"-" * 130}
```
"""
SIZES = [(80, 24), (120, 36), (160, 45)]


def answered(log: Log) -> Agent:
    """Return the sample conversation with a turn of several calls and a long answer."""
    agent = sample(log)
    agent.append("user", "Explain it in full, and compare both files. " * 4)
    for number, path in enumerate(("src/export/registry.py", "tags.py", "csv.py")):
        agent.append_tool_call("read_file", {"path": path}, call_id=f"more_{number}")
        agent.append_tool_result(f"more_{number}", "EXPORTERS = {}\n" * 30)
    agent.append("assistant", ANSWER)
    agent.end_turn()
    return agent


def asked(chat: Driven, arguments: dict[str, str]) -> None:
    """Open the dialog of an edit."""
    permission = Permission("edit", "call edit", arguments, "every use of edit")
    chat.app.push_screen(ApprovalDialog(Asked(Approval(chat.app.chat.agent, permission), Future())))


@pytest.mark.parametrize("size", SIZES)
def test_sizes_end_in_one_column_and_prose_is_never_too_wide(log: Log, size: tuple[int, int]) -> None:
    async def look() -> None:
        async with driven(answered(log), size=size) as chat:
            await chat.still()
            drawn = [strip.text.rstrip() for item in chat.app.chat.transcript._items for strip in item.strips]
            sizes = [line for line in drawn if line.strip()[:1] in ("▌", "▾", "▸") and line[-1].isalnum()]
            assert len(sizes) >= 8
            further = [line for line in sizes if " turn " not in line and "▌" in line]  # of a long prompt
            assert {cell_len(line) for line in sizes if line not in further} == {size[0] - 2}
            prose = [line for line in drawn if "parser drops" in line or line.startswith(" ▌ ")]
            texts = [line.partition("  turn ")[0].rstrip() for line in prose]
            assert max(map(cell_len, texts)) <= PROSE + 3  # the indentation
            assert (("-" * 130) in "\n".join(drawn)) is (size[0] == 160)  # code takes the whole width
            assert "\n\n\n" not in "\n".join(drawn)

    asyncio.run(look())


def test_the_rows_of_turns_and_of_a_review_end_where_the_eye_still_follows(log: Log) -> None:
    async def look() -> None:
        async with driven(sample(log), size=(200, 30)) as chat:
            await chat.press("f2")
            await chat.until("▾ Sent")
            await chat.still()
            lines = chat.screen.split("\n")
            assert cell_len(lines[0]) == WIDEST - 1
            assert max(map(cell_len, lines[1:5])) < WIDEST
            await chat.press("escape")
            await chat.type("/forget messages 4, 14, 20")
            await chat.until("[x] 3 ")
            await chat.still()
            rows = [line for line in chat.screen.split("\n") if line.startswith(" [x] ")]
            assert {cell_len(row) for row in rows} == {WIDEST - 1}

    asyncio.run(look())


def test_the_dialog_of_operations_names_the_key_that_carries_one_out(log: Log) -> None:
    async def look() -> None:
        async with driven(sample(log)) as chat:
            await chat.press("tab", "home", "enter")
            await chat.until("drop this turn")
            await chat.until("Enter carry out Esc back")
            await chat.press("down", "down", "down", "down", "enter")
            await chat.until("Turn 1 left the context.")

    asyncio.run(look())


def test_a_review_shows_its_outcome_and_its_answers_in_a_small_terminal(log: Log) -> None:
    async def look() -> None:
        async with driven(sample(log), size=(80, 24)) as chat:
            await chat.type("/forget messages 4, 14, 20")
            await chat.until("Anything else you type there is an ordinary message and ends this review.")
            await chat.press("right")  # the messages of a range do not hide it
            await chat.still()
            for text in ("next request ~", "Enter takes a line out", "Anything else you type", "[x] 4 ", "[x] 2 "):
                assert text in chat.screen

    asyncio.run(look())


def test_an_edit_names_its_file_before_the_diff(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tags.py").write_text("one\ntwo\nthree\n")
    monkeypatch.chdir(tmp_path)  # the whole path may be longer than a line

    async def look() -> None:
        async with driven(sample(log)) as chat:
            asked(chat, {"old_string": "two", "new_string": "2", "path": "tags.py"})
            await chat.until("2 + 2")
            shown = chat.screen.partition("│ path: tags.py ")[2].split("\n")
            assert ["│ 2 - two " in shown[1], "│ 2 + 2 " in shown[2]] == [True, True]

    asyncio.run(look())


# Without colours


def colourless(chat: Driven) -> set[str]:
    """Return the text of each line of the screen with the attributes that a terminal without colours has."""
    kept = []
    for row in chat.lines:
        parts = [(each.text, _attributes(each)) for strip in row for each in strip if each.text.strip()]
        kept.append(" ".join(f"{'/'.join(sorted(attributes))}:{text.strip()}" for text, attributes in parts))
    return {*kept}


def _attributes(segment: Segment) -> set[str]:
    style = segment.style
    names = ("bold", "reverse", "strike", "underline")
    return {name for name in names if style is not None and getattr(style, name)}


def test_signs_and_attributes_tell_everything_apart_without_colours(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def look() -> None:
        async with driven(sample(log)) as chat:
            assert chat.app.no_color
            await chat.type("/context drop 99999")
            await chat.until("✕ ")  # an error
            for sign in ("▌ Run the whole", "▾ bash", "⚑ BEFORE_PLUGINS", "✂ turn 7 dropped"):
                await chat.press("tab", "home", "escape") if sign not in chat.screen else None
                await chat.until(sign)
            await chat.press("tab", "home")
            await chat.until("▌▌ Why does")  # the cursor
            await chat.press("f2", "space")
            await chat.until("[x] ▸  1")
            await chat.until("▌[ ] ▸ 12")
            await chat.press("escape", "escape", "ctrl+p")
            await chat.until(lambda: isinstance(chat.app.screen, CommandPalette))
            await chat.until("/mark")
            await chat.still()
            options = chat.app.screen.query_one(OptionList)
            assert options.highlighted == 0
            bold = [line for line in colourless(chat) if "bold:" in line and ("/mark " in line or "/clear " in line)]
            assert len(bold) == 1, bold
            assert "Set a checkpoint" in bold[0]
            await chat.press("escape")
            asked(chat, {"old_string": "a\nb", "new_string": "a\nc"})
            await chat.until("- b")
            await chat.until("+ c")

    asyncio.run(look())


def test_the_parts_of_the_bar_are_told_apart_without_colours(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def look() -> None:
        async with driven(sample(log)) as chat:
            await chat.until("■ tools")
            bar = chat.app.chat.meter.query("Bar").first()
            bar.focus()
            await chat.still()
            row = chat.screen.split("\n")[1].strip()
            parts = bar.pieces  # type: ignore[attr-defined]
            assert row.count("▉") == len([piece for piece in parts if piece.share.kind != "free"])
            assert row.endswith("─" * parts[-1].columns)
            assert any("reverse:" in line and "system" in line for line in colourless(chat))

    asyncio.run(look())
