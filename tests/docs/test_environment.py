"""The table of environment variables in docs/claude-code-install.md names exactly those that the code reads."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
USUAL = {"HOME", "PATH", "USERPROFILE", "LOCALAPPDATA"}
"""Variables that every program reads."""

NAME = r"[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]"


def test_the_table_of_variables() -> None:
    table = (ROOT / "docs/claude-code-install.md").read_text(encoding="utf-8").partition("\n## Environment\n")[2]
    told = {
        name
        for row in table.splitlines()
        for name in re.findall(rf"`({NAME})`", row.split("|")[1] if "|" in row else "")
    }
    code = [path.read_text(encoding="utf-8") for path in (ROOT / "src/foldmark").rglob("*.py")]
    assert told, "there is a table"
    for name in told:
        assert any(f'"{name}"' in text for text in code), name
    rooms = (ROOT / "src/foldmark/sessions", ROOT / "src/foldmark/formats")
    sessions = [path.read_text(encoding="utf-8") for room in rooms for path in room.rglob("*.py")]
    asked = {name for text in sessions for name in re.findall(rf'environ(?:ment)?(?:\.get\(|\[)"({NAME})"', text)}
    assert {"FOLDMARK_ARCHIVE", "CLAUDE_CONFIG_DIR"} <= asked
    settings = {name for name in asked if name.startswith(("FOLDMARK_SYNC", "IKIGAI_"))}
    assert asked - USUAL - settings <= told
