"""Installing into a home folder or a project; uninstalling restores every file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from install_trees import PROGRAM, WANTED, environment, places, tree
from msgspec.structs import replace
from test_install_json_text import texts

from foldmark.core.errors import CommandError
from foldmark.sessions.install.changes import InstallError
from foldmark.sessions.install.edits import EVENTS
from foldmark.sessions.install.locations import project_places, user_places
from foldmark.sessions.install.plan import InstallOptions, InstallPlan, install, uninstall


def put_in(home: Path, wanted: InstallOptions = WANTED) -> InstallPlan:
    return install(places(home), wanted, environment(home))


def take_out(home: Path) -> InstallPlan:
    return uninstall(places(home), environment(home))


def actions(plan: InstallPlan) -> dict[str, str]:
    return {
        done.file.name if done.file.name != "SKILL.md" else done.file.parent.name: done.action for done in plan.done
    }


def notes(plan: InstallPlan) -> str:
    return "\n".join(note for done in plan.done for note in done.notes)


def test_twice_changes_nothing_and_uninstall_restores(home: Path) -> None:
    before = tree(home)
    put_in(home)
    installed = tree(home)
    assert {"settings.json", "CLAUDE.md"} <= {
        Path(name).name for name in installed if installed[name] != before.get(name)
    }
    assert set(actions(put_in(home)).values()) == {"unchanged"}
    assert tree(home) == installed
    take_out(home)
    assert tree(home) == before
    assert not take_out(home).steps


def test_an_empty_home(tmp_path: Path) -> None:
    put_in(tmp_path)
    settings = json.loads((tmp_path / ".claude/settings.json").read_text())
    assert list(settings["hooks"]) == list(EVENTS)
    assert settings["statusLine"] == {"type": "command", "command": f"'{PROGRAM}' statusline"}
    assert (tmp_path / ".claude.json").stat().st_mode & 0o777 == 0o600
    installed = tree(tmp_path)
    put_in(tmp_path)
    assert tree(tmp_path) == installed
    take_out(tmp_path)
    assert tree(tmp_path) == {}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=settings().max_examples // 2)
@given(text=texts().filter(lambda text: "Infinity" not in text), memory=st.binary(max_size=40), again=st.booleans())
def test_any_settings_come_back(
    tmp_path_factory: pytest.TempPathFactory, text: str, memory: bytes, again: bool
) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_bytes(text.encode())
    (home / ".claude/CLAUDE.md").write_bytes(memory)
    before = tree(home)
    put_in(home)
    if again:  # an upgrade moves the program
        put_in(home, replace(WANTED, program="/new/foldmark"))
        assert PROGRAM.encode() not in (home / ".claude/settings.json").read_bytes()
    take_out(home)
    assert tree(home) == before


@pytest.mark.parametrize("content", [b"", b"\n", b"\xef\xbb\xbf", b"{}", b"{ }\r\n", b'{"hooks": {"Stop": [ ]}}'])
def test_settings_with_next_to_nothing_in_them(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_bytes(content)
    before = tree(tmp_path)
    put_in(tmp_path)
    assert not put_in(tmp_path).steps
    take_out(tmp_path)
    assert tree(tmp_path) == before


def test_backups_have_the_mode_and_are_made_once(home: Path) -> None:
    original = (home / ".claude/settings.json").read_bytes()
    put_in(home)
    backup = home / ".claude/settings.json.foldmark-backup"
    assert (backup.read_bytes(), backup.stat().st_mode & 0o777) == (original, 0o600)
    put_in(home, replace(WANTED, program="/new/foldmark"))
    assert backup.read_bytes() == original
    assert not backup.with_name(backup.name + "-2").exists()


def test_a_backup_of_another_content_stays(home: Path) -> None:
    old = home / ".claude/settings.json.foldmark-backup"
    old.write_text("of long ago")
    before = tree(home)
    put_in(home)
    assert old.read_text() == "of long ago"
    take_out(home)
    assert tree(home) == before


def test_a_planted_backup_is_not_followed(home: Path, tmp_path: Path) -> None:
    (home / ".claude/settings.json.foldmark-backup").symlink_to(tmp_path / "elsewhere")
    before = tree(home)
    put_in(home)
    assert not (tmp_path / "elsewhere").exists()
    take_out(home)
    assert tree(home) == before


def test_files_that_somebody_changed_since_stay(home: Path) -> None:
    put_in(home)
    file, skill, memory = (
        home / ".claude/settings.json",
        home / ".claude/skills/trim/SKILL.md",
        home / ".claude/CLAUDE.md",
    )
    file.write_text(json.dumps({**json.loads(file.read_text()), "model": "opus"}, indent=2))
    skill.write_text(skill.read_text() + "\nMore of my own.\n")
    memory.write_bytes(memory.read_bytes() + b"Later.\n")
    plan = take_out(home)
    left = json.loads(file.read_text())
    assert left["model"] == "opus"
    assert list(left["hooks"]) == ["Stop", "PostToolUse"]
    assert "foldmark" not in file.read_text()
    assert memory.read_bytes() == b"Be brief.\r\n\xff no UTF-8\r\nno end of line\r\nLater.\n"
    assert skill.read_text().endswith("More of my own.\n")
    assert not skill.parent.with_name("rollover").exists()
    assert "has changed since" in notes(plan)
    assert actions(plan)["trim"] == "kept"
    assert not list(home.rglob("*.foldmark-backup"))


def test_changes_between_two_installations_are_not_lost(home: Path) -> None:
    put_in(home, replace(WANTED, replace_status_line=True))
    file = home / ".claude/settings.json"
    file.write_bytes(file.read_bytes().replace(b'"zz"', b'"yy"'))
    put_in(home, replace(WANTED, program="/new/foldmark"))
    take_out(home)
    left = json.loads(file.read_bytes())
    assert left["yy"] == 1000
    assert left["statusLine"]["command"] == "~/.claude/line.sh"
    assert b"foldmark" not in file.read_bytes()
    assert not [name for name in tree(home) if "foldmark" in name]


def test_a_replaced_file_gets_its_own_backup(home: Path) -> None:
    put_in(home)
    file = home / ".claude/settings.json"
    file.write_bytes(b'{"model": "opus"}')
    before = tree(home)[".claude/settings.json"]
    put_in(home)
    assert file.with_name("settings.json.foldmark-backup-2").read_bytes() == b'{"model": "opus"}'
    take_out(home)
    assert tree(home)[".claude/settings.json"] == before
    assert not [name for name in tree(home) if "foldmark" in name]


def test_older_entries_are_replaced_not_doubled(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    file = tmp_path / ".claude/settings.json"
    old: dict[str, Any] = {
        "hooks": {"Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "/old/foldmark hook"}]}]}
    }
    old["statusLine"] = {"type": "command", "command": "/old/foldmark.exe statusline"}
    file.write_text(json.dumps(old))
    put_in(tmp_path)
    settings = json.loads(file.read_text())
    assert [hook["command"] for group in settings["hooks"]["Stop"] for hook in group["hooks"]] == [
        f"'{PROGRAM}' hook || true"
    ]
    assert settings["statusLine"]["command"] == f"'{PROGRAM}' statusline"
    file.write_text(json.dumps(old))  # as if the run had been killed, or a person had restored the file
    take_out(tmp_path)
    assert json.loads(file.read_text()) == {}


def test_a_status_line_is_kept_unless_requested(home: Path) -> None:
    assert "has a status line of its own, which is kept" in notes(put_in(home))
    file = home / ".claude/settings.json"
    before = json.loads(file.read_bytes())["statusLine"]
    assert before["command"] == "~/.claude/line.sh"
    put_in(home, replace(WANTED, replace_status_line=True))
    assert json.loads(file.read_bytes())["statusLine"]["command"].endswith("statusline")
    file.write_bytes(file.read_bytes() + b"\n")  # so that the whole file cannot be restored
    take_out(home)
    assert b'"statusLine": {"type": "command", "command": "~/.claude/line.sh", "padding": 0}}\n' in file.read_bytes()


def test_links_stay_and_their_targets_change(home: Path, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    file = home / ".claude/settings.json"
    file.rename(dotfiles / "claude.json")
    file.symlink_to("../../dotfiles/claude.json")
    before = tree(tmp_path)
    put_in(home)
    assert file.is_symlink()
    assert b"hook || true" in (dotfiles / "claude.json").read_bytes()
    assert (dotfiles / "claude.json").stat().st_mode & 0o777 == 0o600
    assert list(dotfiles.iterdir()) == [dotfiles / "claude.json"]
    take_out(home)
    assert tree(tmp_path) == before


def test_a_command_of_that_name_is_kept(home: Path) -> None:
    (home / ".claude/commands").mkdir(parents=True)
    (home / ".claude/commands/fm.md").write_text("my own")
    before = tree(home)
    assert actions(put_in(home))["fm.md"] == "kept"
    assert tree(home)[".claude/commands/fm.md"] == before[".claude/commands/fm.md"]
    take_out(home)
    assert tree(home) == before


def test_skills_commands_and_servers_of_others_are_kept(home: Path) -> None:
    (home / ".claude/skills/trim").mkdir(parents=True)
    (home / ".claude/skills/trim/SKILL.md").write_text("my own")
    (home / ".claude/commands").mkdir()
    (home / ".claude/commands/rollover.md").write_text("my own")
    (home / ".claude.json").write_text('{"mcpServers": {"foldmark": {"command": "docker"}}}')
    before = tree(home)
    plan = put_in(home)
    found = actions(plan)
    assert [found[name] for name in ("trim", "rollover", ".claude.json")] == ["kept", "left out", "kept"]
    assert "it would hide your own /rollover in " in notes(plan)
    assert tree(home)[".claude.json"] == before[".claude.json"]
    take_out(home)
    assert tree(home) == before


def test_foldmarks_entries_are_removed_without_a_record(home: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for each in (home, bare):
        put_in(each)
        (each / ".claude/foldmark-install.json").unlink()
    take_out(home)
    take_out(bare)
    assert list(tree(bare)) == [".claude", ".claude/commands", ".claude/skills"]
    left = {name for name in tree(home) if "foldmark" not in name}
    folders = {".claude", ".claude/commands", ".claude/skills"}
    assert left == {*folders, ".claude.json", ".claude/CLAUDE.md", ".claude/settings.json"}
    assert not [name for name in left if b"foldmark" in bytes(str(tree(home)[name][1]), "utf-8")]


@pytest.mark.parametrize("record", [b"", b"\xff", b"[]", b'{"files": {"settings.json": 1}}', b"[" * 100_000])
def test_a_record_that_cannot_be_read_counts_as_none(home: Path, record: bytes) -> None:
    put_in(home)
    (home / ".claude/foldmark-install.json").write_bytes(record)
    assert not put_in(home).steps
    take_out(home)
    assert b"foldmark" not in (home / ".claude/settings.json").read_bytes()
    assert not (home / ".claude/foldmark-install.json").exists()


def test_the_paragraph_names_the_thresholds_and_the_steps(tmp_path: Path) -> None:
    """[S4]: the thresholds, the step at each of them, and the order of the steps."""
    put_in(tmp_path)
    told = (tmp_path / ".claude/CLAUDE.md").read_text()
    assert "Reminders reach you at 60%, 75% and 85%." in told
    assert "at 95% it is compacted automatically" in told
    order = told.partition("### Priority Order")[2]
    assert order.index("/trim") < order.index("/rollover") < order.index("Automatic compaction")


def test_parts_that_are_not_wanted(tmp_path: Path) -> None:
    put_in(tmp_path, InstallOptions(PROGRAM, prompt=False))
    assert not (tmp_path / ".claude/CLAUDE.md").exists()
    assert not (tmp_path / ".claude.json").exists()
    put_in(tmp_path)
    assert (tmp_path / ".claude/CLAUDE.md").exists()
    take_out(tmp_path)
    assert tree(tmp_path) == {}


def test_a_project(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "work"
    (project / "sub").mkdir(parents=True)
    (project / ".git").mkdir()
    before = tree(tmp_path)
    there = project_places(project / "sub", environment(home))
    assert there.root == project
    plan = install(there, WANTED, environment(home))
    settings = json.loads((project / ".claude/settings.json").read_text())
    assert settings["hooks"]["Stop"][0]["hooks"][0]["command"] == "foldmark hook || true"
    assert "statusLine" not in settings
    assert f"it would hide yours in {home}/.claude/settings.json" in notes(plan)
    assert json.loads((project / ".mcp.json").read_text())["mcpServers"]["foldmark"]["command"] == "foldmark"
    assert "\nfoldmark trim ${CLAUDE_SESSION_ID}\n" in (project / ".claude/skills/trim/SKILL.md").read_text()
    assert (project / "CLAUDE.md").read_text().startswith("<!-- foldmark:begin -->\n## Context Management\n")
    uninstall(there, environment(home))
    assert tree(tmp_path) == before


def test_a_project_s_claude_md_may_be_inside(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "work"
    (project / ".claude").mkdir(parents=True)
    (project / ".claude/CLAUDE.md").write_text("Ours.\n")
    before = tree(project)
    there = project_places(project, environment(home))
    install(there, WANTED, environment(home))
    assert not (project / "CLAUDE.md").exists()
    assert "/trim" in (project / ".claude/CLAUDE.md").read_text()
    (project / "CLAUDE.md").symlink_to(".claude/CLAUDE.md")
    assert not install(there, WANTED, environment(home)).steps
    uninstall(there, environment(home))
    (project / "CLAUDE.md").unlink()
    assert tree(project) == before


def test_a_project_s_links_do_not_lead_out(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "work"
    project.mkdir()
    (project / "CLAUDE.md").symlink_to(home / ".claude/CLAUDE.md")
    before = tree(tmp_path)
    with pytest.raises(InstallError, match="leads out of the project"):
        install(project_places(project, environment(home)), WANTED, environment(home))
    assert tree(tmp_path) == before


def test_a_record_from_elsewhere_names_no_other_file(home: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    entry = {"original": "none", "written": ["0" * 64]}
    record = {"files": {"../../victim": entry}, "folders": ["../..", "..", "../../empty"], "version": 1}
    (tmp_path / "empty").mkdir()
    (home / ".claude/foldmark-install.json").write_text(json.dumps(record))
    take_out(home)
    assert (tmp_path / "victim").read_text() == "precious"
    assert (tmp_path / "empty").is_dir()


def test_the_home_folder_is_not_a_project(home: Path) -> None:
    with pytest.raises(CommandError, match="is not a project"):
        project_places(home, environment(home))
    (home / "loose").mkdir()
    assert project_places(home / "loose", environment(home)).root == home / "loose"


def test_another_folder_of_claude_code_s(tmp_path: Path) -> None:
    given = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "cc")}
    install(user_places(tmp_path, given), WANTED, given)
    assert {path.name for path in tmp_path.iterdir()} == {"cc"}
    assert "foldmark" in json.loads((tmp_path / "cc/.claude.json").read_text())["mcpServers"]
    uninstall(user_places(tmp_path, given), given)
    assert tree(tmp_path) == {}
