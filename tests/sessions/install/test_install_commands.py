"""`foldmark install` and `foldmark uninstall`, run as processes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from install_trees import tree

import forked
from foldmark.sessions.install.edits import template

SCRIPT = Path(sys.executable).with_name("foldmark")
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="Foldmark is not installed beside this Python")


def foldmark(home: Path, *arguments: str, cwd: Path | None = None, script: Path = SCRIPT) -> tuple[int, str, str]:
    done = forked.run(
        [str(script), *arguments],
        cwd=cwd or home,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def test_there_and_back(home: Path) -> None:
    before = tree(home)
    code, out, err = foldmark(home, "install", "claude")
    assert (code, err) == (0, "")
    assert "Restart Claude Code" in out
    assert "/hooks" in out
    servers = json.loads((home / ".claude.json").read_text())["mcpServers"]
    assert servers["foldmark"] == {"type": "stdio", "command": str(SCRIPT), "args": ["mcp"]}
    hooks = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    assert hooks["SessionEnd"] == [{"hooks": [{"type": "command", "command": f"{SCRIPT} hook || true", "timeout": 60}]}]
    installed = tree(home)
    code, out, _ = foldmark(home, "install", "claude", "--user")
    assert (code, tree(home)) == (0, installed)
    assert "Everything is installed already; nothing was written." in out
    code, out, _ = foldmark(home, "uninstall", "claude")
    assert (code, tree(home)) == (0, before)
    assert "restored" in out
    code, out, _ = foldmark(home, "uninstall", "claude")
    assert (code, out) == (0, f"Foldmark is not installed in {home}/.claude\n")


def test_json(home: Path) -> None:
    _, out, _ = foldmark(home, "install", "claude", "--json")
    made = {each["file"].removeprefix(f"{home}/"): each["action"] for each in json.loads(out)}
    assert made == {
        ".claude/settings.json": "changed",
        ".claude/skills/trim/SKILL.md": "created",
        ".claude/skills/rollover/SKILL.md": "created",
        ".claude/commands/fm.md": "created",
        ".claude/CLAUDE.md": "changed",
        ".claude.json": "changed",
        ".claude/settings.json.foldmark-backup": "created",
        ".claude/CLAUDE.md.foldmark-backup": "created",
        ".claude.json.foldmark-backup": "created",
        ".claude/foldmark-install.json": "created",
    }
    _, out, _ = foldmark(home, "uninstall", "claude", "--json")
    actions = {each["file"].removeprefix(f"{home}/"): each["action"] for each in json.loads(out)}
    assert {name for name, action in actions.items() if action == "restored"} == {
        ".claude/settings.json",
        ".claude/CLAUDE.md",
        ".claude.json",
    }
    assert actions.keys() == made.keys()


@pytest.mark.parametrize("named", [[], ["claude"]])
def test_print_writes_nothing(home: Path, named: list[str]) -> None:
    before = tree(home)
    code, out, _ = foldmark(home, "install", *named, "--print", "--mcp")
    assert (code, tree(home)) == (0, before)
    assert f"+++ {home}/.claude/settings.json" in out
    assert f"--- /dev/null\n+++ {home}/.claude/skills/trim/SKILL.md" in out
    assert f"would be changed {home}/.claude/settings.json" in out
    assert "Nothing was written" in out
    _, out, _ = foldmark(home, "install", "--print", "--json")
    first = json.loads(out)[0]
    assert first["action"] == "changed"
    assert "hook || true" in first["difference"]


def test_a_project_of_the_working_folder(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "deep/er").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", project], check=True)
    before = tree(tmp_path)
    code, out, _ = foldmark(home, "install", "claude", "--project", cwd=project / "deep/er")
    assert code == 0
    assert f"Restart Claude Code, in {project}" in out
    assert tree(home) == {name[5:]: value for name, value in before.items() if name.startswith("home/")}
    assert "foldmark hook || true" in (project / ".claude/settings.json").read_text()
    assert str(SCRIPT) not in "".join(path.read_text() for path in (project / ".claude").rglob("*.*"))
    assert foldmark(home, "uninstall", "claude", "--project", cwd=project)[0] == 0
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["install", "codex"], 2, "cannot install for 'codex'; available: claude"),
        (["uninstall", "codex"], 2, "cannot uninstall for 'codex'; available: claude"),
        (["install"], 2, "name the program: `foldmark install claude`"),
        (["uninstall"], 2, "name the program: `foldmark uninstall claude`"),
        (["install", "claude", "--user", "--project"], 2, "--user and --project exclude each other"),
        (["install", "claude", "--project"], 2, "is not a project"),
    ],
)
def test_wrong_requests(home: Path, arguments: list[str], code: int, why: str) -> None:
    before = tree(home)
    found, _, err = foldmark(home, *arguments)
    assert (found, err.count("\n")) == (code, 1)
    assert why in err
    assert tree(home) == before


def test_broken_settings_are_one_line(home: Path) -> None:
    (home / ".claude/settings.json").write_bytes(b'{"a": 1,\n "a": 2}')
    code, _, err = foldmark(home, "install", "claude")
    assert code == 1
    assert (
        err == f'foldmark: {home}/.claude/settings.json: it has the key "a" twice in one object; nothing was changed\n'
    )


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 2\n", "#!/no/such/python\n", None])
def test_a_missing_or_old_script_blocks_nothing(home: Path, tmp_path: Path, script: str | None) -> None:
    """An older Foldmark without `hook` exits with 2, which would block the person's prompt."""
    other = tmp_path / "with space" / "foldmark"
    other.parent.mkdir()
    shutil.copy(SCRIPT, other)
    foldmark(home, "install", "claude", script=other)
    command = json.loads((home / ".claude/settings.json").read_text())["hooks"]["Stop"][-1]["hooks"][0]["command"]
    assert str(other) in command
    other.unlink()
    if script is not None:
        other.write_text(script)
        other.chmod(0o755)
    assert subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", ["trim", "rollover"])
def test_every_name_in_the_skills_exists(name: str, home: Path) -> None:
    """The text after the name of a skill reaches the model, with the options that accept it."""
    text = template(name)
    named = set(re.findall(r"--[a-z-]+", text.partition("---\n\n")[2])) - {"--resume"}
    _, options, _ = foldmark(home, name, "--help")
    assert all(f"{option} " in options for option in named)
    assert named == {"trim": {"--profile", "--threshold", "--tools"}, "rollover": {"--issue", "--summary-file"}}[name]
    assert text.count("$ARGUMENTS") == 1


def test_the_commands_in_the_skills_run_in_a_shell(home: Path, tmp_path: Path) -> None:
    """The rollover skill's command passes the summary in a private file and removes this file."""
    said = tmp_path / "said"
    program = tmp_path / "foldmark"
    program.write_text(f'#!/bin/sh\nstat -c %a "$4" > {said}; echo "$1 $2 $3" >> {said}; cat "$4" >> {said}\n')
    program.chmod(0o755)
    foldmark(home, "install", "claude", "--project", cwd=tmp_path)
    text = (tmp_path / ".claude/skills/rollover/SKILL.md").read_text()
    command = next(part for part in text.split("```bash\n")[1:] if "mktemp" in part).split("```")[0]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TMPDIR": str(tmp_path), "CLAUDE_SESSION_ID": "abc"}
    names = set(tmp_path.iterdir())
    subprocess.run(["/bin/sh", "-c", command], env=environment, check=True)
    assert said.read_text() == "600\nrollover abc --summary-file\n[your summary]\n"
    assert set(tmp_path.iterdir()) == names | {said}
