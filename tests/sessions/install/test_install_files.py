"""Installing into a home folder or a project without the client; uninstalling restores every file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from install_trees import PROGRAM, WANTED, environment, files, places, tree
from msgspec.structs import replace
from test_install_json_text import texts

from foldmark.core.errors import CommandError
from foldmark.sessions.install.changes import InstallError
from foldmark.sessions.install.locations import project_places, user_places
from foldmark.sessions.install.plan import InstallOptions, InstallPlan, install, uninstall

DATA = ".local/share/foldmark/claude"
OURS = f"{DATA}/user"


def put_in(home: Path, wanted: InstallOptions = WANTED) -> InstallPlan:
    return install(places(home), wanted, environment(home))


def take_out(home: Path) -> InstallPlan:
    return uninstall(places(home), environment(home))


def actions(plan: InstallPlan, folder: Path) -> dict[str, str]:
    return {done.name.removeprefix(f"{folder}/"): done.action for done in plan.done}


def notes(plan: InstallPlan) -> str:
    return "\n".join(note for done in plan.done for note in done.notes)


def test_twice_changes_nothing_and_uninstall_restores(home: Path) -> None:
    before = tree(home)
    made = actions(put_in(home), home)
    assert made == {
        OURS: "created",
        ".claude/settings.json": "unchanged",
        ".claude/CLAUDE.md": "changed",
        f"claude plugin marketplace add {home}/{OURS}": "to run",
        "claude plugin install foldmark@foldmark": "to run",
    }
    installed = tree(home)
    again = put_in(home)
    assert set(actions(again, home).values()) == {"unchanged", "to run"}
    assert not again.changes
    assert tree(home) == installed
    assert actions(take_out(home), home) == {OURS: "deleted", ".claude/CLAUDE.md": "restored"}
    assert files(home) == files_of(before)
    assert not take_out(home).changes


def files_of(before: dict[str, tuple[int, object]]) -> dict[str, tuple[int, object]]:
    return {name: value for name, value in before.items() if value[1] is not None}


def test_an_empty_home(tmp_path: Path) -> None:
    put_in(tmp_path)
    found = json.loads((tmp_path / ".claude/settings.json").read_text())
    assert found == {"statusLine": {"type": "command", "command": f"'{PROGRAM}' statusline"}}
    assert (tmp_path / f"{DATA}/user.json").stat().st_mode & 0o777 == 0o600
    take_out(tmp_path)
    assert list(tree(tmp_path)) == [".local", ".local/share"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=settings().max_examples // 4)
@given(text=texts(), memory=st.binary(max_size=40), again=st.booleans(), replacing=st.booleans())
def test_any_settings_come_back(
    tmp_path_factory: pytest.TempPathFactory, text: str, memory: bytes, again: bool, replacing: bool
) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_bytes(text.encode())
    (home / ".claude/CLAUDE.md").write_bytes(memory)
    before = files(home)
    put_in(home, replace(WANTED, replace_status_line=replacing))
    if again:  # an upgrade moves the program
        put_in(home, replace(WANTED, program="/new/foldmark", version="2.0.0"))
        assert PROGRAM.encode() not in (home / ".claude/settings.json").read_bytes()
    take_out(home)
    assert files(home) == before


@pytest.mark.parametrize("content", [b"", b"\n", b"\xef\xbb\xbf", b"{}", b"{ }\r\n", b'{"hooks": {"Stop": [ ]}}'])
def test_settings_with_next_to_nothing_in_them(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_bytes(content)
    before = files(tmp_path)
    put_in(tmp_path)
    assert not put_in(tmp_path).changes
    take_out(tmp_path)
    assert files(tmp_path) == before


def test_files_that_somebody_changed_since_stay(home: Path) -> None:
    put_in(home, replace(WANTED, replace_status_line=True))
    file, memory = home / ".claude/settings.json", home / ".claude/CLAUDE.md"
    file.write_text(json.dumps({**json.loads(file.read_text()), "model": "opus"}, indent=2))
    memory.write_bytes(memory.read_bytes() + b"Later.\n")
    plan = take_out(home)
    left = json.loads(file.read_text())
    assert left["model"] == "opus"
    assert left["statusLine"] == {"type": "command", "command": "~/.claude/line.sh", "padding": 0}
    assert memory.read_bytes() == b"Be brief.\r\n\xff no UTF-8\r\nno end of line\r\nLater.\n"
    assert actions(plan, home) == {OURS: "deleted", ".claude/settings.json": "changed", ".claude/CLAUDE.md": "changed"}


def test_a_replaced_file_is_a_new_original(home: Path) -> None:
    put_in(home)
    file = home / ".claude/settings.json"
    file.write_bytes(b'{"model": "opus"}')
    before = tree(home)[".claude/settings.json"]
    put_in(home)
    take_out(home)
    assert tree(home)[".claude/settings.json"] == before


def test_a_status_line_is_kept_unless_requested(home: Path) -> None:
    assert "has a status line of its own, which is kept" in notes(put_in(home))
    file = home / ".claude/settings.json"
    original = file.read_bytes()
    assert json.loads(original)["statusLine"]["command"] == "~/.claude/line.sh"
    put_in(home, replace(WANTED, replace_status_line=True))
    assert json.loads(file.read_bytes())["statusLine"]["command"] == f"'{PROGRAM}' statusline"
    put_in(home)
    assert json.loads(file.read_bytes())["statusLine"]["command"] == f"'{PROGRAM}' statusline"
    take_out(home)
    assert file.read_bytes() == original


def test_links_stay_and_their_targets_change(home: Path, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    file = home / ".claude/settings.json"
    file.rename(dotfiles / "claude.json")
    file.symlink_to("../../dotfiles/claude.json")
    before = files(tmp_path)
    put_in(home, replace(WANTED, replace_status_line=True))
    assert file.is_symlink()
    assert b"statusline" in (dotfiles / "claude.json").read_bytes()
    assert (dotfiles / "claude.json").stat().st_mode & 0o777 == 0o600
    assert list(dotfiles.iterdir()) == [dotfiles / "claude.json"]
    take_out(home)
    assert files(tmp_path) == before


@pytest.mark.parametrize("record", [b"", b"\xff", b"[]", b'{"files": {"settings.json": 1}}', b"[" * 100_000])
def test_a_record_that_cannot_be_read_counts_as_none(home: Path, record: bytes) -> None:
    put_in(home)
    (home / f"{DATA}/user.json").write_bytes(record)
    put_in(home)
    take_out(home)
    assert b"foldmark" not in (home / ".claude/CLAUDE.md").read_bytes()
    assert not [name for name in files(home) if "foldmark" in name]


def test_the_paragraph_names_the_thresholds_and_the_steps(tmp_path: Path) -> None:
    """[S4]: the thresholds, the step at each of them, and the order of the steps."""
    put_in(tmp_path)
    told = (tmp_path / ".claude/CLAUDE.md").read_text()
    assert "Reminders reach you at 60%, 75% and 85%." in told
    assert "at 95% it is compacted automatically" in told
    order = told.partition("### Priority Order")[2]
    assert order.index("/trim") < order.index("/rollover") < order.index("Automatic compaction")


def test_parts_that_are_not_wanted(tmp_path: Path) -> None:
    put_in(tmp_path, replace(WANTED, prompt=False, mcp=False))
    assert not (tmp_path / ".claude/CLAUDE.md").exists()
    assert not (tmp_path / OURS / "foldmark/.mcp.json").exists()
    put_in(tmp_path)
    put_in(tmp_path, replace(WANTED, prompt=False, mcp=False))
    assert (tmp_path / ".claude/CLAUDE.md").exists()
    assert (tmp_path / OURS / "foldmark/.mcp.json").exists()
    take_out(tmp_path)
    assert files(tmp_path) == {}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "wörk's place"
    (project / "sub").mkdir(parents=True)
    (project / ".git").mkdir()
    return project


def test_a_project(home: Path, tmp_path: Path, project: Path) -> None:
    """Nothing in a project is about this machine: others run what their PATH has."""
    before = files(tmp_path)
    there = project_places(project / "sub", environment(home))
    assert there.root == project
    plan = install(there, WANTED, environment(home))
    assert actions(plan, project) == {
        ".claude/skills/foldmark": "created",
        ".claude/skills/foldmark-edit": "created",
        ".claude/settings.json": "unchanged",
        "CLAUDE.md": "created",
    }
    assert f"it would hide yours in {home}/.claude/settings.json" in notes(plan)
    plugin = project / ".claude/skills/foldmark"
    hooks = json.loads((plugin / "hooks/hooks.json").read_text())["hooks"]
    assert hooks["Stop"][0]["hooks"][0]["command"] == "foldmark hook || true"
    assert json.loads((plugin / ".mcp.json").read_text())["mcpServers"]["foldmark"]["command"] == "foldmark"
    assert "\nfoldmark trim ${CLAUDE_SESSION_ID}\n" in (plugin / "skills/trim/SKILL.md").read_text()
    assert not (project / ".claude/skills/.claude-plugin").exists()
    assert (project / "CLAUDE.md").read_text().startswith("<!-- foldmark:begin -->\n## Context Management\n")
    written = "".join(path.read_text() for path in project.rglob("*") if path.is_file())
    assert str(project) not in written
    assert PROGRAM not in written
    uninstall(there, environment(home))
    assert files(tmp_path) == before


def test_a_project_s_own_skills_stay(home: Path, project: Path) -> None:
    skill = project / ".claude/skills/deploy/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("Deploy.")
    before = files(project)
    there = project_places(project, environment(home))
    install(there, WANTED, environment(home))
    uninstall(there, environment(home))
    assert files(project) == before


@pytest.mark.parametrize("name", ["SKILL.md", ".claude-plugin/plugin.json"])
def test_another_skill_of_the_name_is_refused_and_stays(home: Path, project: Path, name: str) -> None:
    skill = project / ".claude/skills/foldmark" / name
    skill.parent.mkdir(parents=True)
    skill.write_text("Of our own.")
    before = files(project)
    there = project_places(project, environment(home))
    with pytest.raises(InstallError, match="skills/foldmark is not Foldmark's; nothing was changed"):
        install(there, WANTED, environment(home))
    uninstall(there, environment(home))
    assert files(project) == before


def test_a_project_s_claude_md_may_be_inside(home: Path, project: Path) -> None:
    (project / ".claude").mkdir(parents=True)
    (project / ".claude/CLAUDE.md").write_text("Ours.\n")
    before = files(project)
    there = project_places(project, environment(home))
    install(there, WANTED, environment(home))
    assert not (project / "CLAUDE.md").exists()
    assert "/trim" in (project / ".claude/CLAUDE.md").read_text()
    (project / "CLAUDE.md").symlink_to(".claude/CLAUDE.md")
    assert not install(there, WANTED, environment(home)).changes
    uninstall(there, environment(home))
    (project / "CLAUDE.md").unlink()
    assert files(project) == before


@pytest.mark.parametrize("name", ["CLAUDE.md", ".claude/skills"])
def test_a_project_s_links_do_not_lead_out(home: Path, tmp_path: Path, project: Path, name: str) -> None:
    (project / ".claude").mkdir()
    (project / name).symlink_to(home / ".claude/CLAUDE.md" if name == "CLAUDE.md" else home)
    before = tree(tmp_path)
    with pytest.raises(InstallError, match=r"leads out of the project.*; nothing was changed"):
        install(project_places(project, environment(home)), WANTED, environment(home))
    assert tree(tmp_path) == before


def test_the_home_folder_is_not_a_project(home: Path) -> None:
    with pytest.raises(CommandError, match="is not a project"):
        project_places(home, environment(home))
    (home / "loose").mkdir()
    assert project_places(home / "loose", environment(home)).root == home / "loose"


def test_another_folder_of_claude_code_s(tmp_path: Path) -> None:
    """Two folders of Claude Code's have a marketplace each: a removal from one leaves the other."""
    given = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "cc")}
    there = user_places(tmp_path, given)
    install(there, WANTED, given)
    assert {path.name for path in tmp_path.iterdir()} == {"cc", ".local"}
    put_in(tmp_path)
    usual = places(tmp_path)
    assert there.plugins != usual.plugins
    uninstall(there, given)
    assert (usual.plugins / "foldmark/hooks/hooks.json").is_file()
    assert not there.plugins.exists()
    take_out(tmp_path)
    assert files(tmp_path) == {}


def test_the_usual_folder_by_another_name(home: Path) -> None:
    given = {**environment(home), "CLAUDE_CONFIG_DIR": str(home / ".claude")}
    assert user_places(home, given).plugins == places(home).plugins
