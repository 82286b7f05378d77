"""Report what is installed in Claude Code, without changing anything, for `foldmark doctor`."""

import json
import re
import shutil
from pathlib import Path

from msgspec import Struct

from foldmark.core.errors import FoldmarkError
from foldmark.sessions.install.changes import InstallError
from foldmark.sessions.install.entries import BEGIN, is_own_status_line
from foldmark.sessions.install.json_text import NotMergeableError
from foldmark.sessions.install.locations import PLAIN, Places, exists
from foldmark.sessions.install.plan import declared, settings_in
from foldmark.sessions.install.plugins import FOLDERS, PROGRAM, SERVER, plugin_changes, plugin_files

_PROGRAM_LINE = re.compile(r'PROGRAM = (".*")')


class InstalledPlugin(Struct, frozen=True):
    """What an installation put into Claude Code.

    `program` is the program that its hooks run, None if the plugin does not name one. `is_current` is True if its files
    are those that this Foldmark writes. `is_enabled` is what Claude Code's settings say, None if they do not name the
    plugin; a project's plugins need no entry, and are enabled. `runs_hooks` is False if the settings switch all hooks
    off.
    """

    folder: str
    program: str | None
    is_current: bool
    is_enabled: bool | None
    mcp: bool
    status_line: bool
    paragraph: bool
    runs_hooks: bool

    @property
    def is_program_there(self) -> bool:
        """True if the program that the hooks run exists."""
        return self.program is not None and shutil.which(self.program) is not None


def installed_plugin(places: Places, version: str) -> InstalledPlugin | None:
    """Return what is installed at these places, compared with Foldmark `version`; None if nothing is. Raises
    FoldmarkError if Claude Code's settings cannot be read."""
    try:
        settings = settings_in(places.settings)
    except NotMergeableError as error:
        raise InstallError(f"{places.settings}: {error}") from None
    market, enabled = declared(places)
    has_files = any(exists(places.plugins / folder) for folder in FOLDERS)
    if not has_files and market is None and enabled is None:
        return None
    program = _program(places.plugins / PROGRAM) if has_files else None
    return InstalledPlugin(
        str(places.plugins),
        program,
        program is not None and _is_current(places, program, version),
        True if places.root else enabled,
        exists(places.plugins / SERVER),
        is_own_status_line(settings.get("statusLine")),
        any(BEGIN in _text(path) for path in places.prompts),
        settings.get("disableAllHooks") is not True,
    )


def _program(file: Path) -> str | None:
    found = _PROGRAM_LINE.search(_text(file))
    try:
        program = json.loads(found[1]) if found else None
    except ValueError:
        return None
    return program if isinstance(program, str) else None


def _is_current(places: Places, program: str, version: str) -> bool:
    wanted = plugin_files(program, version, exists(places.plugins / SERVER), catalog=places.root is None)
    try:
        changes = plugin_changes(places.plugins, wanted, places.root)
    except FoldmarkError:
        return False
    return all(change.before == change.after for change in changes) and (places.root is None or program == PLAIN)


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
