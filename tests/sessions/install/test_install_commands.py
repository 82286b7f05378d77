"""`foldmark install` and `foldmark uninstall`, run as processes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from install_trees import files, tree
from test_install_files import files_of

import forked
from foldmark import __version__
from foldmark.sessions.install.plugins import skill_template

SCRIPT = Path(sys.executable).with_name("foldmark")
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="Foldmark is not installed beside this Python")


def foldmark(
    home: Path, *arguments: str, cwd: Path | None = None, script: Path = SCRIPT, path: Path | None = None
) -> tuple[int, str, str]:
    done = forked.run(
        [str(script), *arguments],
        cwd=cwd or home,
        env={"HOME": str(home), "PATH": f"{path}:/usr/bin:/bin" if path else "/usr/bin:/bin", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def client(folder: Path, says: str = "", code: int = 0) -> Path:
    """Return a folder for the PATH with a stand-in for `claude` that notes its arguments in `asked`."""
    folder.mkdir()
    program = folder / "claude"
    program.write_text(f"#!/bin/sh\necho \"$@\" >> '{folder}/asked'\necho '{says}'\nexit {code}\n")
    program.chmod(0o755)
    return folder


def test_there_and_back(home: Path) -> None:
    before = tree(home)
    code, out, err = foldmark(home, "install", "claude")
    assert (code, err) == (0, "")
    market = home / ".local/share/foldmark/claude/user"
    assert f"to run     claude plugin marketplace add {market}\nto run     claude plugin install foldmark@fold" in out
    assert "claude is not on your PATH: run these commands where it is, then restart Claude Code.\n" in out
    servers = json.loads((market / "foldmark/.mcp.json").read_text())["mcpServers"]
    assert servers["foldmark"] == {"type": "stdio", "command": str(SCRIPT), "args": ["mcp"]}
    hooks = json.loads((market / "foldmark/hooks/hooks.json").read_text())["hooks"]
    assert hooks["SessionEnd"] == [{"hooks": [{"type": "command", "command": f"{SCRIPT} hook || true", "timeout": 60}]}]
    manifest = json.loads((market / "foldmark/.claude-plugin/plugin.json").read_text())
    assert manifest["version"] == __version__
    installed = tree(home)
    code, out, _ = foldmark(home, "install", "claude", "--user")
    assert (code, tree(home)) == (0, installed)
    assert "unchanged" in out
    code, out, _ = foldmark(home, "uninstall", "claude")
    assert (code, files(home)) == (0, files_of(before))
    assert "restored" in out
    code, out, _ = foldmark(home, "uninstall", "claude")
    assert (code, out) == (0, f"Foldmark is not installed in {home}/.claude\n")


def test_the_client_s_commands_are_run(home: Path, tmp_path: Path) -> None:
    path = client(tmp_path / "bin")
    market = home / ".local/share/foldmark/claude/user"
    code, out, _ = foldmark(home, "install", "claude", path=path)
    assert code == 0
    assert f"run        claude plugin marketplace add {market}\n" in out
    assert "Restart Claude Code. There, /hooks shows the hooks" in out
    asked = (path / "asked").read_text().splitlines()
    assert asked == [f"plugin marketplace add {market}", "plugin install foldmark@foldmark"]
    settings = json.loads((home / ".claude/settings.json").read_text())
    source = {"source": {"source": "directory", "path": str(market)}}
    settings |= {"extraKnownMarketplaces": {"foldmark": source}, "enabledPlugins": {"foldmark@foldmark": True}}
    (home / ".claude/settings.json").write_text(json.dumps(settings))
    assert "Everything is installed already; nothing was written." in foldmark(home, "install", "claude", path=path)[1]
    assert (path / "asked").read_text().splitlines() == asked
    _, out, _ = foldmark(home, "uninstall", "claude", "--json", path=path)
    (command,) = [each for each in json.loads(out) if "command" in each]
    assert command == {"command": "claude plugin marketplace remove foldmark --scope user", "action": "run"}
    assert (path / "asked").read_text().splitlines()[2:] == ["plugin marketplace remove foldmark --scope user"]


def test_a_failing_client_is_quoted(home: Path, tmp_path: Path) -> None:
    """What was written stays, so that a second run continues; `uninstall` takes it back."""
    before = files(home)
    code, out, err = foldmark(home, "install", "claude", path=client(tmp_path / "bin", "Adding…✘ No disk.", 1))
    assert (code, out) == (1, "")
    market = home / ".local/share/foldmark/claude/user"
    assert err == (
        f"foldmark: `claude plugin marketplace add {market}` failed: No disk.; repeat it, or take back what was done "
        "with `foldmark uninstall claude`\n"
    )
    assert foldmark(home, "uninstall", "claude")[0] == 0
    assert files(home) == before


def test_a_removal_without_the_client_says_what_is_left(home: Path) -> None:
    """Its settings are put right by hand; its own files need the client."""
    before, settings = files(home), home / ".claude/settings.json"
    foldmark(home, "install", "claude")
    value = json.loads(settings.read_text())
    settings.write_text(json.dumps({**value, "enabledPlugins": {"foldmark@foldmark": True}}))
    _, out, _ = foldmark(home, "uninstall", "claude")
    assert "to run     claude plugin marketplace remove foldmark --scope user\n" in out
    assert "claude is not on your PATH: run this command where it is" in out
    assert files(home) == before


def test_json(home: Path) -> None:
    _, out, _ = foldmark(home, "install", "claude", "--json")
    market = ".local/share/foldmark/claude/user"
    (commands, made) = ([each for each in json.loads(out) if kind in each] for kind in ("command", "file"))
    assert {each["file"].removeprefix(f"{home}/"): each["action"] for each in made} == {
        market: "created",
        ".claude/settings.json": "unchanged",
        ".claude/CLAUDE.md": "changed",
    }
    assert commands == [
        {"command": f"claude plugin marketplace add {home}/{market}", "action": "to run"},
        {"command": "claude plugin install foldmark@foldmark", "action": "to run"},
    ]
    _, out, _ = foldmark(home, "uninstall", "claude", "--json")
    assert json.loads(out) == [
        {"file": f"{home}/{market}", "action": "deleted"},
        {"file": f"{home}/.claude/CLAUDE.md", "action": "restored"},
    ]


@pytest.mark.parametrize("named", [[], ["claude"]])
def test_print_writes_nothing(home: Path, tmp_path: Path, named: list[str]) -> None:
    before, path = tree(home), client(tmp_path / "bin")
    code, out, _ = foldmark(home, "install", *named, "--print", "--mcp", "--replace-statusline", path=path)
    assert (code, tree(home)) == (0, before)
    assert f"+++ {home}/.claude/settings.json" in out
    market = home / ".local/share/foldmark/claude/user"
    assert f"--- /dev/null\n+++ {market}/foldmark/skills/trim/SKILL.md" in out
    assert f"would be created {market}\n" in out
    assert f"would be changed {home}/.claude/settings.json" in out
    assert "would run  claude plugin install foldmark@foldmark\n" in out
    assert "Nothing was written" in out
    _, out, _ = foldmark(home, "install", "--print", "--json")
    first = json.loads(out)[0]
    assert first["action"] == "created"
    assert "hook || true" in first["difference"]
    assert not (path / "asked").exists()


def test_a_project_of_the_working_folder(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "deep/er").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", project], check=True)
    before = files(tmp_path)
    code, out, _ = foldmark(home, "install", "claude", "--project", cwd=project / "deep/er")
    assert code == 0
    assert f"Restart Claude Code, in {project}" in out
    assert "claude plugin" not in out
    assert {name for name in files(home) if not name.startswith(".local")} == {
        name.removeprefix("home/") for name in before if name.startswith("home/")
    }
    assert str(SCRIPT) not in "".join(path.read_text() for path in (project / ".claude").rglob("*") if path.is_file())
    assert foldmark(home, "uninstall", "claude", "--project", cwd=project)[0] == 0
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (
            ["install", "codex"],
            2,
            "cannot install for 'codex'; available: claude. `foldmark live codex` needs no installation",
        ),
        (["install", "cluade"], 2, "cannot install for 'cluade'; available: claude"),
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
    told = f'{home}/.claude/settings.json: it has the key "a" twice in one object; nothing was changed. '
    assert err == f"foldmark: {told}Correct that, then repeat\n"


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 2\n", "#!/no/such/python\n", None])
def test_a_missing_or_old_script_blocks_nothing(home: Path, tmp_path: Path, script: str | None) -> None:
    """An older Foldmark without `hook` exits with 2, which would block the person's prompt."""
    other = tmp_path / "with space" / "foldmark"
    other.parent.mkdir()
    shutil.copy(SCRIPT, other)
    foldmark(home, "install", "claude", script=other)
    hooks = home / ".local/share/foldmark/claude/user/foldmark/hooks/hooks.json"
    command = json.loads(hooks.read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    assert str(other) in command
    other.unlink()
    if script is not None:
        other.write_text(script)
        other.chmod(0o755)
    assert subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", ["trim", "rollover"])
def test_every_name_in_the_skills_exists(name: str, home: Path) -> None:
    """The text after the name of a skill reaches the model, with the options that accept it."""
    text = skill_template(name)
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
    text = (tmp_path / ".claude/skills/foldmark/skills/rollover/SKILL.md").read_text()
    command = next(part for part in text.split("```bash\n")[1:] if "mktemp" in part).split("```")[0]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TMPDIR": str(tmp_path), "CLAUDE_SESSION_ID": "abc"}
    names = set(tmp_path.iterdir())
    subprocess.run(["/bin/sh", "-c", command], env=environment, check=True)
    assert said.read_text() == "600\nrollover abc --summary-file\n[your summary]\n"
    assert set(tmp_path.iterdir()) == names | {said}
