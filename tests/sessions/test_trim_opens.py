"""A trim opens the session's file once, and the archive opens it once [SPEC 8]."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rollout_records import call as codex_call
from rollout_records import jsonl as codex_jsonl
from rollout_records import meta, name, output, said, tokens
from session_records import assistant, call, jsonl, result, user

LONG = "a line of a result\n" * 100
CLAUDE = jsonl(
    user("Look.", "u1", cwd="/", sessionId="s"),
    assistant([call("c1", "Read")], "u2", "u1", usage={"input_tokens": 90_000}, cwd="/", sessionId="s"),
    user([result("c1", LONG)], "u3", "u2", cwd="/", sessionId="s"),
)
CODEX = codex_jsonl(meta(), said("Look."), codex_call("c1"), output("c1", LONG), tokens(90_000))
PROGRAM = """
import sys
path, *sys.argv[1:] = sys.argv[1:]
opened = []
sys.addaudithook(lambda event, given: opened.append(1) if event == "open" and given[0] == path else None)
from foldmark.cli import main
assert main() == 0
print(len(opened))
"""


@pytest.mark.parametrize(("way", "most"), [((), 2), (("--profile", "deep", "--spare", "1"), 2), (("--dry-run",), 1)])
@pytest.mark.parametrize(("file", "content"), [("0a1b2c3d-0000-4000-8000-000000000001.jsonl", CLAUDE), (name(), CODEX)])
def test_how_often_a_trim_opens_its_session(
    file: str, content: bytes, way: tuple[str, ...], most: int, tmp_path: Path
) -> None:
    path = tmp_path / "sessions" / file
    path.parent.mkdir()
    path.write_bytes(content * 1)
    words = [str(path), "trim", str(path), *way]
    environment = {**os.environ, "HOME": str(tmp_path), "FOLDMARK_ARCHIVE": str(tmp_path / "archive")}
    environment["FOLDMARK_SYNC_EXCLUDE"] = str(tmp_path / "elsewhere")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    *told, opened = done.stdout.splitlines()
    cut = not way or "--dry-run" in way
    assert any(line.startswith("Context: ~") for line in told) == cut, "with one result spared, nothing is left to cut"
    assert int(opened) == (most if cut else 1)
