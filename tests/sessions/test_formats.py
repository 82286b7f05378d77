"""All coding agents' sessions are read through `SessionFormat`, also in the format of another package [SPEC 8].

Here it is that of Shoebox, which keeps its sessions in a database. examples/coding_agent has one for JSON lines.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

import forked
from foldmark.formats.session_format import SessionFormat, built_in, format_named, format_of

PACKAGE = Path(__file__).with_name("shoebox_sessions.py")
ID = "shoe-1"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The format as an installed package."""
    target = tmp_path_factory.mktemp("installed")
    shutil.copy(PACKAGE, target)
    about = target / "shoebox_sessions-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shoebox-sessions\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[foldmark.session_formats]\nshoebox = shoebox_sessions:ShoeboxFormat\n")
    return target


class Shoebox:
    """A home with one Shoebox session."""

    def __init__(self, folder: Path, installed: Path | None) -> None:
        self.site, self.database = installed, folder / ".shoebox" / "sessions.sqlite"
        self.database.parent.mkdir()
        self.path = self.database / ID
        self.environment = {
            **os.environ,
            "HOME": str(folder),
            "FOLDMARK_DB": str(folder / "log.db"),
            "FOLDMARK_ARCHIVE": str(folder / "archive"),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(installed or ""), os.environ.get("PYTHONPATH")))),
        }
        self._write("CREATE TABLE sessions (id TEXT, cwd TEXT)")
        self._write(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session TEXT, at TEXT, role TEXT, text TEXT, tool TEXT, "
            "arguments TEXT, call TEXT)"
        )
        self._write("INSERT INTO sessions VALUES (?, ?)", ID, str(folder / "work"))
        self.say("user", text="Where do we keep the marmalade?")
        self.say("call", tool="look", arguments='{"shelf": "upper"}', call="c1")
        self.say("result", text="three jars", call="c1")
        self.say("assistant", text="On the upper shelf.")

    def say(self, role: str, **values: str) -> None:
        names = ", ".join(values)
        self._write(
            f"INSERT INTO messages (session, at, role, {names}) VALUES (?, ?, ?, {', '.join('?' * len(values))})",
            *(ID, "2026-01-02T03:04:05Z", role, *values.values()),
        )

    def _write(self, sql: str, *values: str) -> None:
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute(sql, values)

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        program = "import sys; from foldmark.cli import main; sys.exit(main())"
        words = [sys.executable, "-c", program, *map(str, arguments)]
        return forked.run(words, site=self.site, env=self.environment, capture_output=True, text=True)

    def data(self, *arguments: str | Path) -> dict[str, object]:
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found


def test_the_session_of_an_installed_format_is_imported_and_imported_again(tmp_path: Path, installed: Path) -> None:
    shoebox = Shoebox(tmp_path, installed)
    first = shoebox.data("import", ID)  # by its id, which the format locates
    assert first["messages"] == {"user": 1, "tool_call": 1, "tool_result": 1, "assistant": 1}
    assert first["turns"] == 1
    shoebox.say("user", text="And the tea?")
    again = shoebox.data("import", shoebox.path)  # by its path
    assert (again["conversation"], again["again"]) == (first["conversation"], True)
    assert again["messages"] == {"user": 1}


def test_the_session_of_an_installed_format_is_archived_and_searched(tmp_path: Path, installed: Path) -> None:
    shoebox = Shoebox(tmp_path, installed)
    assert shoebox.data("sync")["new"] == 1
    archived = tmp_path / "archive" / "shoebox" / f"{ID}.jsonl"
    assert b"marmalade" in archived.read_bytes()
    assert shoebox.data("sync")["unchanged"] == 1
    shoebox.say("user", text="And the tea?")
    assert shoebox.data("sync")["grown"] == 1
    found = shoebox.run("search", "marmalade")
    assert f"Shoebox session {ID}" in found.stdout
    assert ID in shoebox.run("sessions").stdout
    # A copy in the archive still belongs to its format.
    assert shoebox.data("import", archived, "--as", "copy")["turns"] == 2


def test_an_unsupported_command_is_refused_in_one_line(tmp_path: Path, installed: Path) -> None:
    shoebox = Shoebox(tmp_path, installed)
    (tmp_path / "summary.md").write_text("On the upper shelf.")
    rollover = ["rollover", ID, "--summary-file", str(tmp_path / "summary.md")]
    for words, done in (
        (["trim", ID], "trimmed"),
        (["doctor", "--session", ID], "examined"),
        (rollover, "rolled over"),
    ):
        told = shoebox.run(*words)
        assert told.returncode == 1
        assert f"sessions of Shoebox cannot be {done} by Foldmark" in told.stderr
        assert "Traceback" not in told.stderr
    assert "there is no session gone" in shoebox.run("import", shoebox.database / "gone").stderr


def test_without_the_package_its_sessions_are_left_alone(tmp_path: Path, installed: Path) -> None:
    shoebox = Shoebox(tmp_path, installed)
    shoebox.data("sync")
    shoebox.site, shoebox.environment["PYTHONPATH"] = None, os.environ.get("PYTHONPATH", "")
    told = shoebox.run("import", shoebox.path)
    assert told.returncode == 1
    assert "Traceback" not in told.stderr
    assert shoebox.data("sync")["problems"] == []
    assert (tmp_path / "archive" / "shoebox" / f"{ID}.jsonl").exists()


def test_a_format_that_fails_is_named(tmp_path: Path, installed: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(installed, broken)
    (broken / "shoebox_sessions.py").write_text("raise RuntimeError('no shoes')\n")
    told = Shoebox(tmp_path, broken).run("import", ID)
    assert told.returncode == 2
    where = "shoebox_sessions:ShoeboxFormat, installed as foldmark.session_formats 'shoebox',"
    assert told.stderr.startswith(f"foldmark: {where} fails: RuntimeError('no shoes')")


def imported(environment: Mapping[str, str], code: str) -> set[str]:
    """Return the modules that are loaded after some code has run."""
    code = f"import sys\n{code}\nprint(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True).stdout.split()
    )


def test_packages_are_looked_up_only_when_no_built_in_format_fits(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\n"
        "from foldmark.formats.places import session_path\n"
        "from foldmark.sessions.archive.storing import place\n"
        "session_path(Path('/x/y.jsonl')), place(Path('/x/y.jsonl'))"
    )
    found = imported(os.environ, code)
    assert "foldmark.formats.claude" in found
    assert not found & {"importlib.metadata", "foldmark.sessions.doctor", "foldmark.sessions.trim", "apsw"}


def test_each_built_in_format_is_found_by_its_name() -> None:
    assert [each.name for each in built_in()] == ["claude", "codex"]
    for each in built_in():
        assert format_named(each.name) is each
    assert format_of(Path("/x/y.jsonl")).name == "claude"
    rollout = "/x/rollout-2026-01-02T03-04-05-aaaaaaaa-1111-4222-8333-444444444444.jsonl"
    assert format_of(Path(rollout)).name == "codex"


@pytest.mark.parametrize("each", built_in(), ids=lambda each: each.name)
def test_everything_that_a_format_names_is_there(each: SessionFormat) -> None:
    members = [name for name in vars(type(each)) if not name.startswith("_")]
    assert {"messages", "trim_kind", "diagnose", "new_lines"} <= set(members)
    for name in members:
        getattr(each, name)
