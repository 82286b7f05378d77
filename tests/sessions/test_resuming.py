"""The command that resumes a session in Claude Code and Codex, even if its folder was moved or deleted [SPEC 8]."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest
import rollout_records as codex
from session_records import jsonl, user

from foldmark.formats.claude.claude_format import project_folder
from foldmark.formats.places import session_path
from foldmark.formats.session_format import resume_command

ID = "99999999-2222-4333-8444-555555555555"


class Place:
    """Claude Code's folder and a working folder."""

    def __init__(self, folder: Path) -> None:
        self.environment = {"CLAUDE_CONFIG_DIR": str(folder / "claude")}
        self.work = folder / "the work"
        self.work.mkdir()
        self.home = folder / "claude" / "projects" / project_folder(self.work)
        self.home.mkdir(parents=True)

    def shell(self, path: Path, *records: Any, prompt: tuple[str, ...] = ()) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jsonl(*records))
        return resume_command(session_path(path), self.environment, *prompt).shell


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_claude_resumes_by_id_in_the_folder_of_the_session(place: Place) -> None:
    shell = place.shell(place.home / f"{ID}.jsonl", user("x", cwd=str(place.work)), prompt=("go on",))
    assert shlex.split(shell) == ["cd", str(place.work), "&&", "claude", "--resume", ID, "go on"]


@pytest.mark.parametrize("name", [f"../-elsewhere/{ID}.jsonl", f"../../{ID}.jsonl", "my session.jsonl"])
def test_claude_resumes_by_path_outside_of_its_folder(name: str, place: Place) -> None:
    path = Path(os.path.normpath(place.home / name))
    words = shlex.split(place.shell(path, user("x", cwd=str(place.work))))
    assert words == ["cd", str(place.work), "&&", "claude", "--resume", str(path)]


@pytest.mark.parametrize("cwd", ["/nowhere/at/all", "relative", "", 5, None, "/" + "x" * 5000, "/a\0b", "/\ud800"])
def test_a_session_in_a_missing_folder_is_resumed_by_its_path(cwd: Any, place: Place) -> None:
    path = place.home / f"{ID}.jsonl"
    assert place.shell(path, user("x", cwd=cwd)) == f"claude --resume {path}"


def test_a_session_is_resumed_in_the_folder_it_was_started_in(place: Place) -> None:
    there = place.work / "sub"
    there.mkdir()
    records = [user("x", cwd=str(each)) for each in (there, place.work, there)]
    assert place.shell(place.home / f"{ID}.jsonl", *records) == f"cd '{place.work}' && claude --resume {ID}"


def test_a_file_that_cannot_be_read(place: Place) -> None:
    path = place.home / f"{ID}.jsonl"
    assert resume_command(session_path(path), place.environment).words == ("claude", "--resume", str(path))
    rollout = path.with_name(codex.name())
    assert resume_command(session_path(rollout), place.environment).shell == f"codex resume {codex.ID}"


def test_codex(place: Place, tmp_path: Path) -> None:
    path = tmp_path / codex.name()
    assert place.shell(path, codex.meta(cwd=str(place.work))) == f"cd '{place.work}' && codex resume {codex.ID}"
    assert place.shell(path, codex.meta(cwd="/nowhere"), prompt=("a b",)) == f"codex resume {codex.ID} 'a b'"
    assert place.shell(path, codex.meta(source="exec")) == f"codex exec resume {codex.ID}"
