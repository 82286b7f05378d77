"""The places of coding agents' sessions, and the choice of one (SPEC 8)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from session_records import REAL

from foldmark.formats.claude.claude_format import ClaudeFormat, claude_folder, project_folder
from foldmark.formats.codex import CodexFormat, codex_folder
from foldmark.formats.places import NoSessionError, find, session_path

ONE, TWO, OTHER = (f"{digit * 8}-1111-4222-8333-444444444444" for digit in "aab")
TWO = TWO.replace("1111", "9999")


class Home:
    """A home folder with sessions."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "home"
        self.environment = {"HOME": str(self.path)}
        self.work = folder / "work"
        self.work.mkdir()

    def claude(self, id: str, cwd: Path | None = None, written: float = 1000) -> Path:
        return self._file(
            ClaudeFormat().folder(self.environment) / project_folder(cwd or self.work) / f"{id}.jsonl", written
        )

    def codex(self, id: str, written: float = 1000) -> Path:
        name = f"rollout-2026-01-02T03-04-05-{id}.jsonl"
        return self._file(codex_folder(self.environment) / "sessions" / "2026" / "01" / "02" / name, written)

    def _file(self, path: Path, written: float) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}\n")
        os.utime(path, (written, written))
        return path

    def fails(self, named: str | None, **environment: str) -> str:
        with pytest.raises(NoSessionError) as caught:
            find(named, self.work, {**self.environment, **environment})
        assert caught.value.exit_code == 2
        assert "\n" not in str(caught.value)
        return str(caught.value)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# -- folders --------------------------------------------------------------------------------------------------


def test_the_folders_of_both_programs() -> None:
    home = {"HOME": "/h"}
    assert (claude_folder(home), codex_folder(home)) == (Path("/h/.claude"), Path("/h/.codex"))
    assert claude_folder({"USERPROFILE": "/u"}) == Path("/u/.claude")
    assert claude_folder({**home, "CLAUDE_CONFIG_DIR": "/elsewhere"}) == Path("/elsewhere")
    assert codex_folder({**home, "CODEX_HOME": "/other"}) == Path("/other")
    assert claude_folder({**home, "CLAUDE_CONFIG_DIR": ""}) == Path("/h/.claude")
    assert claude_folder({}) == Path("~/.claude").expanduser()


@pytest.mark.parametrize(
    ("cwd", "name"),
    [
        ("/nowhere/My_Project.v2/a b", "-nowhere-My-Project-v2-a-b"),
        ("/nowhere/~x+@Ä/日本", "-nowhere--x------"),
        ("/nowhere/🚀", "-nowhere---"),
        ("/nowhere/a\u0308", "-nowhere--"),
        ("/nowhere/²٣", "-nowhere---"),
        ("/", "-"),
    ],
)
def test_folder_names(cwd: str, name: str) -> None:
    assert project_folder(cwd) == name


@pytest.mark.skipif(not REAL.exists(), reason="the real sessions are not here")
@pytest.mark.parametrize(
    ("sample", "name"),
    [
        ("agentcmd-three", "-Users-jnarowski-Dev-sourceborn-src-agent-workflows-monorepo-v2"),
        ("episodic-memory-large", "-Users-testuser-Documents-GitHub-projects-example-project--worktrees-streaming"),
        (
            "traceforge-demo",
            "-home-dave01-wsl-repos-codeplane-demos-demo-issue-tracker-api--codeplane-worktrees-add-contributing-constants",
        ),
    ],
)
def test_folder_names_of_real_sessions(sample: str, name: str) -> None:
    records = [json.loads(line) for line in (REAL / f"{sample}.jsonl").read_bytes().splitlines()]
    assert {project_folder(record["cwd"]) for record in records if record.get("cwd")} == {name}


def test_a_link_is_the_folder_that_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert project_folder(tmp_path / "link") == project_folder(tmp_path / "real")


def test_a_long_name_is_cut_and_given_a_hash() -> None:
    long = "/n" + "x" * 199
    assert project_folder(long[:200]) == "-" + long[1:200]
    # Claude Code's hash: 31 * value + unit as a signed 32-bit number; its absolute value in base 36.
    value = 0
    for char in long:
        value = (31 * value + ord(char) + (1 << 31)) % (1 << 32) - (1 << 31)
    digits, value = "", abs(value)
    while value:
        digits, value = "0123456789abcdefghijklmnopqrstuvwxyz"[value % 36] + digits, value // 36
    assert project_folder(long) == f"-{long[1:200]}-{digits}"


def test_sessions_of_subagents_are_listed_apart(home: Home) -> None:
    one = home.claude(ONE)
    sub = one.with_suffix("") / "subagents" / "agent-1.jsonl"
    sub.parent.mkdir(parents=True)
    sub.write_bytes(b"{}\n")
    codex = home.codex(OTHER)
    codex.with_name("notes.jsonl").write_bytes(b"")
    assert list(ClaudeFormat().sessions(home.environment)) == [one]
    assert list(ClaudeFormat().subagents(home.environment)) == [sub]
    assert list(CodexFormat().sessions(home.environment)) == [codex]
    assert list(ClaudeFormat().sessions({"HOME": "/nowhere"})) == []


def test_the_file_name_decides_the_program() -> None:
    codex = session_path(Path(f"/x/rollout-2026-01-02T03-04-05-{ONE}.jsonl"))
    assert (codex.kind, codex.id) == ("codex", ONE)
    claude = session_path(Path(f"/x/{ONE}.jsonl"))
    assert (claude.kind, claude.id) == ("claude", ONE)
    assert session_path(Path("/x/rollout-notes.jsonl")).kind == "claude"
    assert session_path(codex.path, "claude").id == codex.path.stem


# -- choice of a session --------------------------------------------------------------------------------------


def test_a_session_is_found_by_its_file(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.claude(ONE)
    assert find(str(path), "/", {}).path == path
    monkeypatch.chdir(path.parent)
    found = find(f"{ONE}.jsonl", "/", {})
    assert (found.path, found.id, found.kind) == (path, ONE, "claude")
    (home.work / "link.jsonl").symlink_to(path)
    assert find(str(home.work / "link.jsonl"), "/", {}).path == home.work / "link.jsonl"
    (path.parent / "plain").write_bytes(b"{}\n")
    assert find("plain", "/", {}).path == path.parent / "plain"
    # The name of a file is accepted even if there is no such file; reading it then reports the error.
    assert find("gone.jsonl", "/", {}).path == path.parent / "gone.jsonl"
    assert find("gone/it", "/", {}).path == path.parent / "gone" / "it"


def test_a_session_is_found_by_its_id_or_a_prefix(home: Home) -> None:
    one, other, codex = home.claude(ONE), home.claude(OTHER, Path("/elsewhere")), home.codex(TWO)
    for named, path in ((ONE, one), (ONE[:10], one), (OTHER[:1], other), (TWO, codex), (TWO[:12], codex)):
        assert find(named, home.work, home.environment).path == path
    assert find(TWO, home.work, home.environment).kind == "codex"


def test_a_whole_id_precedes_a_prefix(home: Home) -> None:
    short = home.claude("aaaa")
    home.claude(ONE)
    assert find("aaaa", home.work, home.environment).path == short


def test_the_newer_of_two_files_of_a_session_is_found(home: Home) -> None:
    home.claude(ONE, written=2000)
    newer = home.claude(ONE, Path("/elsewhere"), written=3000)
    assert find(ONE, home.work, home.environment).path == newer


def test_the_session_of_the_environment_is_found(home: Home) -> None:
    one, codex = home.claude(ONE, Path("/elsewhere")), home.codex(OTHER)
    home.claude(TWO, written=9000)
    assert find(None, home.work, {**home.environment, "CLAUDE_CODE_SESSION_ID": ONE}).path == one
    assert find(None, home.work, {**home.environment, "CODEX_THREAD_ID": OTHER}).path == codex


def test_without_a_name_the_newest_session_of_the_folder_is_found(home: Home) -> None:
    home.claude(OTHER, Path("/elsewhere"), written=9000)
    home.claude(ONE, written=3000)
    newest = home.claude(TWO, written=4000)
    assert find(None, home.work, home.environment).path == newest
    elsewhere = find(None, "/elsewhere", home.environment)
    assert (elsewhere.id, elsewhere.kind) == (OTHER, "claude")


def test_an_unknown_session_is_refused(home: Home) -> None:
    assert "there is no Claude Code session of " in home.fails(None)
    home.claude(ONE)
    assert "no session 'cccc'" in home.fails("cccc")
    assert "(1 sessions in " in home.fails("cccc")
    assert "no session ''" in home.fails("")
    assert f"no session '{OTHER}'" in home.fails(None, CLAUDE_CODE_SESSION_ID=OTHER)
    assert home.fails("x\n\x1b[31m").startswith("there is no file and no session 'x\\n\\x1b[31m'")
    assert len(home.fails("y" * 9000)) < 600


def test_an_ambiguous_prefix_is_refused(home: Home) -> None:
    home.claude(ONE)
    home.codex(TWO)
    told = home.fails("aaaaaaaa")
    assert "several session ids begin with" in told
    assert ONE in told
    assert TWO in told
