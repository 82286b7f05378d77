"""Texts in columns: paths are relative to their folder, and cut in their middle."""

from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from foldmark.chat.display.pages import Pages, Place, read
from foldmark.chat.display.transcript import ToolCallGroup, about
from foldmark.chat.display.turns import context_turns
from foldmark.log import Log
from foldmark.sessions.conversion.importing import import_session
from foldmark.terminal.columns import fitted

SAMPLE = str(files("foldmark") / "samples" / "notes-cli.jsonl")


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 10, "short"),
        ("a text without a path", 10, "a text wi…"),
        ("read_file src/foldmark/terminal/scrollback/drawing.py", 40, "read_file src/foldma…rollback/drawing.py"),
        ("bash cat /etc/hosts and much more text after it", 20, "bash cat /etc/hosts…"),
        ("漢字漢字漢字", 7, "漢字漢…"),
        ("src/a.py", 4, "src…"),
    ],
)
def test_a_text_is_fitted(text: str, width: int, shown: str) -> None:
    assert fitted(text, width) == shown


@given(st.text(), st.integers(1, 60))
def test_no_text_is_too_wide(text: str, width: int) -> None:
    assert cell_len(fitted(text, width)) <= width
    assert cell_len(fitted(f"read {text}/{text}", width)) <= width


def test_a_path_in_the_folder_is_relative() -> None:
    assert about('{"path": "/w/app/src/a.py"}', "/w/app") == "src/a.py"
    assert about('{"path": "/w/app2/src/a.py"}', "/w/app") == "/w/app2/src/a.py"
    assert about('{"path": "/w/app/src/a.py"}') == "/w/app/src/a.py"


def test_the_paths_of_an_imported_session_are_relative_to_its_folder(log: Log) -> None:
    agent = log.agent(import_session(log, SAMPLE).agent_id)
    (page,) = read(agent, Place("beginning"), Pages()).kept
    named = [call.about for entry in page.entries if isinstance(entry, ToolCallGroup) for call in entry.calls]
    assert any(each.endswith(".py") for each in named)
    assert not any(each.startswith("/home/sam/jot") for each in named)
    rows = context_turns(agent).rows
    assert not any("/home/sam/jot/" in row.title for row in rows if row.tool == "Read")
