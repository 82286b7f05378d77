"""The checks of the installation by `foldmark doctor`: what is there, and what is wrong with it.

What exists (extras, keys, clients, plugins, folders) is asked where it is defined. No check holds the value of a key or
a text of a conversation.
"""

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from shlex import quote
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from foldmark import __version__
from foldmark.app import Setup, known_keys
from foldmark.core.errors import CommandError, FoldmarkError, ProviderError
from foldmark.core.wording import one_line
from foldmark.installation import installs, requirements
from foldmark.sending.models import connected
from foldmark.settings.given import Settings
from foldmark.settings.user_folders import config_folder, data_folder, default_database, home, state_folder
from foldmark.stores.addresses import scheme, shown

if TYPE_CHECKING:
    from foldmark.sessions.install.examining import InstalledPlugin
    from foldmark.sessions.install.locations import Places

PATIENCE = 5.0
"""Seconds that the clients may take to print their versions, all at the same time."""

_MOST_BYTES = 4096
"""Maximum bytes of a client's answer that are read."""

_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")
_REQUIREMENT = re.compile(r"([\w.-]+)[^>]*(?:>=([\d.]+))?")
_NO_CREDENTIALS = re.compile(r"(?i)(?:[a-z][a-z0-9+.-]*://)?")
_ALL = "all"
"""The extra that only repeats others."""


class Problem(Struct, frozen=True):
    """What is wrong, and what to do next, each as a sentence. An error says both; its `remedy` is empty."""

    text: str
    remedy: str = ""


class Check(Struct):
    """The result of a check: its name, a text for a person, members for JSON, and what is wrong."""

    name: str
    text: str = "cannot be read"
    data: dict[str, Any] = {}
    problems: list[Problem] = []

    @property
    def lines(self) -> list[str]:
        """The text, and below it a line for each problem."""
        said = (f"{each.text}{'' if each.text[-1:] in '.?!' else '.'} {each.remedy}" for each in self.problems)
        return [f"{self.name:<9} {self.text}", *(f"  ! {each.rstrip()}" for each in said)]

    def shows(self, text: str, value: Any, **more: Any) -> None:
        """Set the text, and the member of the check's name with `more` ones."""
        self.text, self.data = text, {self.name: value, **more}

    def problem(self, text: str, remedy: str = "") -> None:
        """Add a problem."""
        self.problems.append(Problem(text, remedy))


def checks(setup: Setup) -> Iterator[Check]:
    """Yield the result of each check, without keys. An error becomes a problem, and prevents no other check. The last
    one opens the database."""
    secrets = known_keys()
    for name, look in _CHECKS.items():
        check = Check(name, data={name: None})
        try:
            look(check, setup)
        except (FoldmarkError, OSError) as error:
            check.problem(f"{error.strerror or error}: {error.filename}" if isinstance(error, OSError) else str(error))
        problems = [Problem(secrets.hidden(each.text), secrets.hidden(each.remedy)) for each in check.problems]
        yield Check(name, secrets.hidden(check.text), secrets.hidden_in(check.data), problems)


def _program(check: Check, _: Setup) -> None:
    from apsw import sqlite_lib_version

    from foldmark.sessions.install.locations import NoProgramError, installed_program

    try:
        program = installed_program()
    except NoProgramError:
        program = None
    if not os.path.isabs(home(os.environ)):  # noqa: PTH117 - "~" of a user without a home folder
        check.problem("You have no home folder.", "Set HOME to a folder that you may write.")
    data = {
        "version": __version__,
        "program": program,
        "on_path": shutil.which("foldmark") is not None,
        "python": platform.python_version(),
        "sqlite": sqlite_lib_version(),
        "system": platform.platform(),
    }
    where = f" · {program}" if program else ""
    where += "" if data["on_path"] else " (not on the PATH)"
    text = f"{__version__}{where} · Python {data['python']} · SQLite {data['sqlite']} · {data['system']}"
    check.shows(text, data)


def _settings(check: Check, setup: Setup) -> None:
    from foldmark.settings.access import missing_key

    given = setup.given
    model, source = given.config({}).model, given.source("model", {}, {})
    if model != "offline":
        try:
            connected(model, given, attempts=1)
            if variable := missing_key(model.partition("/")[0], os.environ, given):
                check.problem(f"{model} needs a key.", f"Set {variable}, or choose another model.")
        except ProviderError as error:
            check.problem(f"{model} cannot be asked: {error}", "Correct that, or choose another model.")
    file = Path(config_folder(os.environ), "config.toml")
    used = f"{file} · " if file.exists() else ""
    data = {"file": str(file) if used else None, "model": model, "source": source}
    check.shows(f"{used}new conversations use {model} ({source})", data)


def _extras(check: Check, _: Setup) -> None:
    """Compare the requirements in the metadata of the package with what is installed."""
    try:
        required = requirements()
    except PackageNotFoundError:
        check.shows("unknown, because Foldmark runs without being installed", None)
        return
    missing: dict[str, list[str]] = {}
    for extra, requirement in ((extra, each) for extra, listed in required.items() for each in listed):
        if extra == _ALL or not (found := _REQUIREMENT.match(requirement)):
            continue
        package, least = found.groups()
        version, lacking = _installed_version(package), missing.setdefault(extra, [])
        if version is None:
            lacking.append(package)
        elif least and _numbers(version) < _numbers(least):
            text = f"{package} {version} is too old: Foldmark needs {least} or newer."
            check.problem(text, f"Update it: {installs(extra)}." if extra else "Install Foldmark again.")
    if lacking := missing.pop("", []):
        check.problem(f"{', '.join(lacking)}, which Foldmark needs, is not installed.", "Install Foldmark again.")
    there = [extra for extra, lacking in missing.items() if not lacking]
    others = [extra for extra, lacking in missing.items() if lacking]
    text = ", ".join(there) or "none"
    if others:
        text += f" · not installed: {', '.join(others)} ({installs(others[0])})"
    check.shows(text, [{"name": extra, "installed": not each, "missing": each} for extra, each in missing.items()])


def _installed_version(package: str) -> str | None:
    try:
        return distribution(package).version
    except PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def _keys(check: Check, setup: Setup) -> None:
    from foldmark.settings.access import key_states

    given = Settings()
    with suppress(FoldmarkError):  # reported by the check of the settings
        given = setup.given
    states = key_states(os.environ, given)
    by_state: dict[str, list[str]] = {}
    for name, state in states.items():
        by_state.setdefault(state, []).append(name)
    for name in by_state.get("blank", []):
        check.problem(f"{name} is blank, which counts as not set.", "Set it to a key, or unset it.")
    for name in by_state.get("invalid", []):
        check.problem(f"{name} holds characters that no key has.", "Set it to the key alone.")
    text = f"set: {', '.join(by_state.get('set', [])) or 'none'}"
    if others := by_state.get("not set", []):
        text += f" · not set: {', '.join(others)}"
    check.shows(text, [{"variable": name, "state": state} for name, state in states.items()])


def _network(check: Check, _: Setup) -> None:
    """Check the proxies and the files of certificates that the environment names."""
    from foldmark.live.addresses import CERTIFICATES, outward
    from foldmark.providers.sdk import http

    found = {name: value for name, value in outward(os.environ).items() if value}
    for name, value in found.items():
        if name in CERTIFICATES and not os.access(value, os.R_OK):
            check.problem(f"{name} names {value}, which cannot be read.", "Correct the path, or unset the variable.")
    try:
        http()
    except (ImportError, OSError):  # without an extra that sends anything; with certificates as above
        pass
    except ProviderError as error:
        # The reason for any other problem may repeat the password in the address.
        text = str(error) if error.kind == "sdk" else "A proxy cannot be used."
        check.problem(text, "Correct ALL_PROXY, HTTPS_PROXY and HTTP_PROXY, or unset them.")
    seen = {name: value if name in CERTIFICATES else without_credentials(value) for name, value in found.items()}
    text = ", ".join(f"{name}={value}" for name, value in seen.items()) or "no proxy, no certificates of your own"
    check.shows(text, [{"variable": name, "value": value} for name, value in seen.items()])


def without_credentials(address: str) -> str:
    """Return the address of a proxy without the name and the password in it, and without a path."""
    before, at, after = address.rpartition("@")
    if not at:
        begin = _NO_CREDENTIALS.match(address)
        start = begin.end() if begin else 0
        return address[:start] + re.split(r"[/?#]", address[start:])[0]
    begin = _NO_CREDENTIALS.match(before)
    return (begin[0] if begin else "") + re.split(r"[/?#]", after)[0]


def _clients(check: Check, _: Setup) -> None:
    """Check the coding agents on the PATH. All are asked for their versions at the same time."""
    from foldmark.live.live_agent import agent_named, agent_names

    rows, texts = list[dict[str, Any]](), list[str]()
    paths = dict[str, str | None]()
    for name in agent_names():
        try:
            paths[name] = shutil.which(agent_named(name).program)
        except FoldmarkError as error:
            check.problem(f"{error}.", "Install its package in another version, or remove it.")
    answers: dict[str, str | None] = {}
    asked = [Asked(path) for path in paths.values() if path]
    until = monotonic() + PATIENCE
    for each in asked:
        each.thread.join(max(0.0, until - monotonic()))
        answers[each.path] = each.end()
    for name, path in paths.items():
        if path is None:
            rows.append({"name": name, "path": None, "version": None})
            texts.append(f"no {name}")
            continue
        answer = answers[path]
        version = found[0] if answer and (found := _VERSION.search(answer)) else None
        rows.append({"name": name, "path": path, "version": version})
        texts.append(f"{name} {version or 'of an unknown version'} ({path})")
        if version is None:
            silent = f"did not answer within {PATIENCE:.0f} seconds" if answer is None else "printed no version"
            check.problem(f"`{path} --version` {silent}.", f"Run it in a terminal to see why, or install {name} again.")
    check.shows(", ".join(texts), rows)


class Asked:
    """A program that was asked for its version. It may hang, print anything, and start other programs."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._output: bytes | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # A program that was left over may keep the pipe open, so the reading thread is not waited for.
        self.thread = Thread(target=self._read, daemon=True)
        try:
            self._process = subprocess.Popen(
                [path, "--version"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:  # it is not executable after all
            self._output = b""
        self.thread.start()

    def _read(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._output = self._process.stdout.read(_MOST_BYTES)

    def end(self) -> str | None:
        """End the program and those that it started, and return what it printed; None if it printed nothing in time."""
        output = self._output
        if self._process is not None:
            with suppress(OSError):
                if sys.platform == "win32":
                    self._process.kill()
                else:
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self.thread.join(1)
            if not self.thread.is_alive() and self._process.stdout is not None:
                self._process.stdout.close()
        return None if output is None else output.decode("utf-8", "replace")


def _plugins(check: Check, _: Setup) -> None:
    from foldmark.sessions.install.examining import installed_plugin
    from foldmark.sessions.install.locations import project_places, user_places

    places: dict[str, Places] = {"user": user_places(Path(), os.environ)}
    with suppress(OSError, CommandError):  # the working folder was removed, or is no project
        places["project"] = project_places(Path.cwd(), os.environ)
    rows, texts = [], []
    for scope, its in places.items():
        again = f"Run `foldmark install claude{' --project' if scope == 'project' else ''}`."
        try:
            found = installed_plugin(its, __version__)
        except FoldmarkError as error:
            check.problem(f"Claude Code's settings cannot be read: {error}.", "Correct that file.")
            continue
        if found is None:
            continue
        rows.append({"scope": scope, **to_builtins(found)})
        parts = {
            "plugin with hooks": found.program is not None,
            "MCP server": found.mcp,
            "status line": found.status_line,
            "paragraph in CLAUDE.md": found.paragraph,
            "disableAllHooks is set, so no hook runs": not found.runs_hooks,
            "disabled in Claude Code (/plugin enables it)": found.is_enabled is False,
        }
        where = "for you" if scope == "user" else "in this project"
        texts.append(f"Claude Code, {where}: {', '.join(part for part, is_there in parts.items() if is_there)}")
        if found.program is not None and not found.is_program_there:
            named = one_line(found.program)
            remedy = again if os.path.isabs(named) else f"Put {named} on your PATH."  # noqa: PTH117 - a name or a path
            check.problem(f"The hooks run {named}, which is not there.", remedy)
        for text in _plugin_problems(found):
            check.problem(text, again)
    check.shows(" · ".join(texts) or "none (`foldmark install claude`)", rows)


def _plugin_problems(found: "InstalledPlugin") -> Iterator[str]:
    if found.program is None:
        yield f"The plugin's files in {found.folder} are missing or incomplete."
    elif not found.is_current:
        yield f"The plugin's files in {found.folder} are not those of Foldmark {__version__}."
    if found.program is not None and found.is_enabled is None:
        yield "Claude Code's settings do not name the plugin."


def _folders(check: Check, _: Setup) -> None:
    """Check who may read Foldmark's folders, and whether this user may write to them."""
    rows, texts, unmade = [], [], dict[str, str]()
    folders = {"data": data_folder, "state": state_folder, "settings": config_folder}
    for name, folder_of in folders.items():
        folder = Path(folder_of(os.environ))
        is_there = folder.is_dir()
        nearest = next((each for each in (folder, *folder.parents) if each.exists()), folder)
        is_writable = nearest.is_dir() and os.access(nearest, os.W_OK)
        # Settings hold no keys and no texts.
        is_private = name == "settings" or not is_there or sys.platform == "win32" or not folder.stat().st_mode & 0o077
        facts = {"exists": is_there, "writable": is_writable, "private": is_private}
        rows.append({"name": name, "folder": str(folder), **facts})
        texts.append(f"{name} {folder}{'' if is_there else ' (not yet made)'}")
        if not is_private:
            check.problem(f"Other users may read {folder}.", f"Run `chmod 700 {quote(str(folder))}`.")
        if name == "settings":  # only read, and only if they are there
            continue
        if not nearest.is_dir():
            unmade[f"{nearest} is not a folder."] = "Set HOME, or the XDG_ variable for it, to a folder."
        elif not is_writable:
            unmade[f"You may not write to {nearest}."] = "Allow it; until then nothing is recorded there."
    for text, remedy in unmade.items():  # each once
        check.problem(text, remedy)
    check.shows(" · ".join(texts), rows)


def _database(check: Check, setup: Setup) -> None:
    """Check that the database can be opened."""
    try:
        name = shown(setup.db)
    except FoldmarkError:
        check.shows("unknown, because the settings that may name it are invalid", None, opens=False)
        return
    if not setup.has_database and setup.db == default_database(os.environ):
        check.shows(f"{name} · none yet; `foldmark chat` starts it", name, opens=False)
        return
    check.shows(f"{name} · cannot be opened", name, opens=False)
    facts = _database_facts(setup.db)
    check.data |= facts
    with setup.log(create=False):
        pass
    size = f" · {facts['bytes'] / 1e6:,.1f} MB · schema {facts['schema']}" if facts else ""
    check.shows(f"{name}{size}", name, opens=True, **facts)


def _database_facts(address: str) -> dict[str, Any]:
    """Return the size of a database in a file, and its schema before it is opened. Raises StoreError."""
    if scheme(address) or not Path(address).is_file():
        return {}
    from foldmark.stores.sqlite.file import connect_to_read, explained, schema_of

    with explained(address), closing(connect_to_read(address)) as db:
        schema = schema_of(db, address)
    parts = [Path(f"{address}{ending}") for ending in ("", "-wal")]
    return {"schema": schema, "bytes": sum(part.stat().st_size for part in parts if part.exists())}


_CHECKS: dict[str, Callable[[Check, Setup], None]] = {
    "foldmark": _program,
    "settings": _settings,
    "extras": _extras,
    "keys": _keys,
    "network": _network,
    "clients": _clients,
    "plugins": _plugins,
    "folders": _folders,
    "database": _database,
}
