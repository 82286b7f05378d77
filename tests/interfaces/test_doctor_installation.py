"""`foldmark doctor` without a session: what of the installation is there, what is wrong, and what to do (SPEC 9)."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest
from command_line import Cli, Outcome

import foldmark
from foldmark.cli import checkup
from foldmark.installation import installs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are shell scripts")

MEMBERS = {"foldmark", "settings", "extras", "keys", "network", "clients", "plugins", "folders", "database", "opens"}


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No keys, no proxies, no clients; return a folder for programs at the beginning of PATH."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in list(os.environ):
        if name.lower().endswith(("_key", "_token", "_proxy", "_certs", "cert_file", "certificate")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return programs


def script(programs: Path, name: str, text: str) -> None:
    file = programs / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def problems(found: Outcome) -> list[str]:
    return [line.removeprefix("  ! ") for line in found.lines if line.startswith("  ! ")]


def data(cli: Cli) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli("doctor", "--json").out)
    return found


def test_a_fresh_machine_has_nothing_wrong(cli: Cli, tmp_path: Path) -> None:
    found = cli("doctor")
    assert (found.code, found.err, problems(found)) == (0, "", [])
    names = [line.split()[0] for line in found.lines]
    assert names == ["foldmark", "settings", "extras", "keys", "network", "clients", "plugins", "folders", "database"]
    assert "none yet; `foldmark chat` starts it" in found.lines[-1]
    assert not (tmp_path / "data").exists()
    assert set(data(cli)) == {*MEMBERS, "problems"}


def test_with_a_database_the_last_line_is_the_verdict(cli: Cli, db: str, log: foldmark.Log) -> None:
    log.agent("default").append("user", "a private word")
    found = cli("doctor")
    assert (found.code, found.lines[-1]) == (0, f"{db}: 1 agent, all is well")
    told = data(cli)
    assert set(told) == {*MEMBERS, "problems", "schema", "bytes", "agents", "findings"}
    assert told["bytes"] > 4096
    assert "private word" not in found.out + json.dumps(told)


@pytest.mark.parametrize(
    ("value", "state", "problem"),
    [
        ("sk-ant-0123456789abcdef", "set", None),
        ("", "not set", None),
        (" \t", "blank", "NAME is blank, which counts as not set. Set it to a key, or unset it."),
        ("sk-ant 0123456789", "invalid", "NAME holds characters that no key has. Set it to the key alone."),
        ("sk-änt-0123456789", "invalid", "NAME holds characters that no key has. Set it to the key alone."),
    ],
)
@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "OPENAI_ADMIN_KEY", "OWN_KEY"])
def test_keys_are_named_and_never_shown(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, state: str, problem: str | None
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config/foldmark").mkdir(parents=True)
    text = '[providers.mine]\nbase_url = "http://localhost:1/v1"\nkey_env = "OWN_KEY"\n'
    (tmp_path / "config/foldmark/config.toml").write_text(text)
    monkeypatch.setenv(name, value)
    found, told = cli("doctor"), data(cli)
    assert {"variable": name, "state": state} in told["keys"]
    assert problems(found) == ([problem.replace("NAME", name)] if problem else [])
    assert found.code == (1 if problem else 0)
    assert not value.strip() or value not in found.out + json.dumps(told, ensure_ascii=False)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://proxy:3128", "http://proxy:3128"),
        ("http://me:hush@proxy:3128/hush?hush", "http://proxy:3128"),
        ("http://me:hu/hush@sh://hush@proxy:3128", "http://proxy:3128"),
        ("me:hush@proxy:3128", "proxy:3128"),
        ("http://me:hush@[::1]:3128", "http://[::1]:3128"),
        ("proxy:3128/hush", "proxy:3128"),
        ("ftp://me:hush@proxy", "ftp://proxy"),
    ],
)
def test_proxies_are_shown_without_credentials(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, address: str, shown: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", address)
    found, told = cli("doctor"), data(cli)
    assert told["network"] == [{"variable": "HTTPS_PROXY", "value": shown}]
    assert "hush" not in found.out + json.dumps(told)
    assert found.code == bool(problems(found))


def test_a_missing_file_of_certificates(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    (problem,) = problems(cli("doctor"))
    assert problem.startswith(f"SSL_CERT_FILE names {tmp_path}/ca.pem, which cannot be read. Correct the path")


@pytest.mark.parametrize(
    ("text", "version", "problem"),
    [
        ('echo "2.1.332 (Claude Code)"', "2.1.332", None),
        ("echo codex-cli 0.145.0-beta+1", "0.145.0-beta+1", None),
        ("echo 1.2.3; exit 3", "1.2.3", None),
        ("exit 0", None, "printed no version"),
        ("printf '\\377\\000\\033[31mno\\n'", None, "printed no version"),
        ("while :; do echo garbage; done", None, "printed no version"),
        ("exec sleep 1000", None, "did not answer within"),
        ("sleep 1000", None, "did not answer within"),
        ("sleep 1000 & sleep 1000", None, "did not answer within"),
    ],
)
def test_clients_are_asked_for_their_versions(
    cli: Cli, bare: Path, monkeypatch: pytest.MonkeyPatch, text: str, version: str | None, problem: str | None
) -> None:
    monkeypatch.setattr(checkup, "PATIENCE", 0.5 if problem and "within" in problem else 60.0)
    script(bare, "codex", text)
    found, told = cli("doctor"), data(cli)
    assert told["clients"][1] == {"name": "codex", "path": str(bare / "codex"), "version": version}
    assert [each["path"] for each in told["clients"]] == [None, str(bare / "codex"), None]
    if problem is None:
        assert (found.code, problems(found)) == (0, [])
    else:
        (told_problem,) = problems(found)
        assert f"`{bare}/codex --version` {problem}" in told_problem
        assert told_problem.endswith("Run it in a terminal to see why, or install codex again.")
        assert found.code == 1


def test_a_client_that_cannot_be_run(cli: Cli, bare: Path) -> None:
    (bare / "claude").write_bytes(b"\x7fELF of another machine")
    (bare / "claude").chmod(0o755)
    (problem,) = problems(cli("doctor"))
    assert "printed no version" in problem


def enabled(home: Path, plugins: Path) -> None:
    """Name the plugin in Claude Code's settings, as its own commands do."""
    file = home / ".claude/settings.json"
    settings = json.loads(file.read_text())
    settings["extraKnownMarketplaces"] = {"foldmark": {"source": {"source": "directory", "path": str(plugins)}}}
    settings["enabledPlugins"] = {"foldmark@foldmark": True}
    file.write_text(json.dumps(settings))


def test_what_is_installed_in_claude_code(cli: Cli, tmp_path: Path) -> None:
    home, plugins = tmp_path / "home", tmp_path / "data/foldmark/claude/user"
    home.mkdir()
    assert cli("install", "claude").code == 0
    again = " Run `foldmark install claude`."
    assert problems(cli("doctor")) == [f"Claude Code's settings do not name the plugin.{again}"]
    enabled(home, plugins)
    found, (told,) = cli("doctor"), data(cli)["plugins"]
    assert (found.code, problems(found)) == (0, [])
    assert "for you: plugin with hooks, MCP server, status line, paragraph in CLAUDE.md" in found.out
    assert (told["scope"], told["is_current"], told["is_enabled"], told["folder"]) == ("user", True, True, str(plugins))
    assert stat.S_IMODE((tmp_path / "data/foldmark").stat().st_mode) == 0o700

    (plugins / "foldmark/hooks/hooks.json").write_text("{}")
    (problem,) = problems(cli("doctor"))
    assert re.fullmatch(rf"The plugin's files in .* are not those of Foldmark {foldmark.__version__}\.{again}", problem)
    assert cli("install", "claude").code == 0
    assert problems(cli("doctor")) == []

    program = json.dumps(str(tmp_path / "gone/foldmark"))
    (plugins / "foldmark/hooks/program.js").write_text(f"export const PROGRAM = {program}\n")
    assert problems(cli("doctor"))[0] == f"The hooks run {tmp_path}/gone/foldmark, which is not there.{again}"
    shutil.rmtree(plugins)
    assert problems(cli("doctor")) == [f"The plugin's files in {plugins} are missing or incomplete.{again}"]
    assert cli("install", "claude").code == 0
    assert problems(cli("doctor")) == []

    (home / ".claude/settings.json").write_text("{nonsense")
    (problem,) = problems(cli("doctor"))
    assert problem.startswith(f"Claude Code's settings cannot be read: {home}/.claude/settings.json")


def test_a_project_needs_foldmark_on_the_path(cli: Cli, bare: Path) -> None:
    Path(".git").mkdir()
    assert cli("install", "claude", "--project").code == 0
    assert problems(cli("doctor")) == ["The hooks run foldmark, which is not there. Put foldmark on your PATH."]
    script(bare, "foldmark", "exit")
    found = cli("doctor")
    assert (found.code, problems(found)) == (0, [])
    assert "in this project: plugin with hooks" in found.out


def test_folders_that_others_may_read(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "data/foldmark"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    found = cli("doctor")
    (problem,) = problems(found)
    assert (found.code, problem) == (1, f"Other users may read {folder}. Run `chmod 700 {folder}`.")
    folder.chmod(0o700)
    assert cli("doctor").code == 0


def test_a_file_in_the_place_of_a_folder(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    found = cli("doctor")
    assert f"{tmp_path}/data is not a folder. Set HOME, or the XDG_ variable for it, to a folder." in problems(found)
    assert found.code == 1


@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_may_only_be_read(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "data/foldmark"
    folder.mkdir(parents=True)
    folder.chmod(0o500)
    assert problems(cli("doctor")) == [
        f"You may not write to {folder}. Allow it; until then nothing is recorded there."
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a text and no database" * 200, "is not a Foldmark database"),
        (b"", "is empty"),
        (None, "there is no database at"),
    ],
)
def test_a_database_that_cannot_be_opened(cli: Cli, db: str, content: bytes | None, problem: str) -> None:
    if content is not None:
        Path(db).write_bytes(content)
    found, told = cli("doctor"), data(cli)
    (said,) = problems(found)
    assert problem in said
    assert found.code == 1
    assert (told["opens"], [each["check"] for each in told["problems"]]) == (False, ["database"])


def test_an_address_is_shown_without_its_password(cli: Cli) -> None:
    address = "postgresql://me:s3cretpw@127.0.0.1:1/x"
    found, told = cli("--db", address, "doctor"), cli("--db", address, "doctor", "--json")
    (problem,) = problems(found)
    assert "postgresql://me@127.0.0.1:1/x" in problem
    assert "s3cretpw" not in found.out + told.out + found.err + told.err
    assert not re.search(r"[?!.]\.$", problem)


def test_a_database_of_a_newer_foldmark(cli: Cli, db: str) -> None:
    foldmark.open(db).close()
    connection = apsw.Connection(db)
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    (problem,) = problems(cli("doctor"))
    assert "was written by a newer Foldmark (schema 999" in problem


def test_invalid_settings_prevent_no_other_check(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDMARK_MODEL", "nope/x")
    found = cli("doctor")
    (problem,) = problems(found)
    assert "FOLDMARK_MODEL" in problem
    assert found.lines[-1].startswith("database  unknown, because the settings")
    assert data(cli)["settings"] is None


def test_the_model_of_new_conversations(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDMARK_MODEL", "anthropic/claude-x")
    assert problems(cli("doctor")) == [
        "anthropic/claude-x needs a key. Set ANTHROPIC_API_KEY, or choose another model."
    ]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    assert cli("doctor").code == 0
    monkeypatch.setitem(sys.modules, "anthropic", None)  # as if it were not installed
    (problem,) = problems(cli("doctor"))
    assert problem.startswith(
        "anthropic/claude-x cannot be asked: The SDK for Anthropic is not installed; this installs it: "
    )


def test_extras_come_from_the_metadata_of_the_package(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "packages/foldmark-0.0.1.dist-info"
    folder.mkdir(parents=True)
    text = (
        "Metadata-Version: 2.4\nName: foldmark\nVersion: 0.0.1\n"
        "Requires-Dist: click>=8.2\nRequires-Dist: msgspec>=999.1\n"
        "Requires-Dist: apsw[x]>=3.1; extra == 'one'\nRequires-Dist: not-there-at-all>=2; extra == 'two'\n"
        "Requires-Dist: apsw>=3.1; extra == 'two'\nRequires-Dist: not-there-at-all>=2; extra == 'all'\n"
    )
    (folder / "METADATA").write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    found, told = cli("doctor"), data(cli)
    assert told["extras"] == [
        {"name": "one", "installed": True, "missing": []},
        {"name": "two", "installed": False, "missing": ["not-there-at-all"]},
    ]
    assert f"extras    one · not installed: two ({installs('two')})" in found.lines
    (problem,) = problems(found)
    assert re.match(r"msgspec [\d.]+ is too old: Foldmark needs 999\.1 or newer\. Install Foldmark again\.", problem)


def test_a_person_without_a_home_folder(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "")
    monkeypatch.setenv("USERPROFILE", "nowhere")
    found = cli("doctor")
    assert "You have no home folder. Set HOME to a folder that you may write." in problems(found)
    assert found.code == 1


def test_a_working_folder_that_was_removed(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert cli("doctor").code == 0
