"""The lines of an approval question: a diff with the numbers of the file's lines (SPEC 4.1)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import foldmark
from foldmark.chat.approvals import Approval, ApprovalLine
from foldmark.operations.effects import Permission
from foldmark.tools.working.paths import work_in


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[foldmark.Agent]:
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "a.py").write_bytes(b"import x\r\n\r\none = 1\r\ntwo = 2\r\n\r\npass\r\npass\r\n")
    os.mkfifo(folder / "pipe")
    with foldmark.open(":memory:", settings={}) as log:
        work_in(log, folder)
        yield log.agent("notes")


def lines(agent: foldmark.Agent, **arguments: Any) -> list[ApprovalLine]:
    """Return the lines of the difference."""
    found = Approval(agent, Permission("edit", "call edit", arguments)).lines()
    return [line for line in found if line.sign != " " or line.number is not None]


def test_removed_lines_have_their_old_numbers_and_added_ones_their_new(agent: foldmark.Agent) -> None:
    assert lines(
        agent, file_path="a.py", old_string="one = 1\ntwo = 2\n", new_string="zero = 0\none = 1\nthree = 3\n"
    ) == [
        ApprovalLine("+", "zero = 0", 3),
        ApprovalLine(" ", "one = 1", 3),
        ApprovalLine("-", "two = 2", 4),
        ApprovalLine("+", "three = 3", 5),
        ApprovalLine(" ", "", 5),
    ]


def test_each_of_several_edits_has_its_place(agent: foldmark.Agent) -> None:
    edits = [{"oldText": "two", "newText": "2"}, {"oldText": "import x", "newText": "import y"}]
    assert [(line.sign, line.number) for line in lines(agent, path="a.py", edits=edits)] == [
        ("-", 4),
        ("+", 4),
        ("-", 1),
        ("+", 1),
    ]


@pytest.mark.parametrize(
    "path", ["a.py", "none.py", "pipe", "/dev/zero", ".", "", "x" * 5000, "\0", "../../../../proc/self/mem", 7]
)
def test_without_one_place_there_are_no_numbers(agent: foldmark.Agent, path: Any) -> None:
    """`pass` stands twice in the file; the other paths name no regular file of text."""
    found = lines(agent, path=path, old_string="pass", new_string="return")
    assert found == [ApprovalLine("-", "pass"), ApprovalLine("+", "return")]
