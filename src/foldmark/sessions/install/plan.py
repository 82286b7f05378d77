"""Install into Claude Code and uninstall. Everything is planned first, so that an obstacle changes nothing [SPEC 8].

The client's own commands install the plugins for a user. A project has them in `.claude/skills`, where the client finds
them by itself, on every machine (docs/development/decisions/0042). Files that a plugin cannot replace are edited by
hand. A record in Foldmark's data folder holds their originals. It is written first, so that even a killed installation
can be undone byte for byte.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import one_line
from foldmark.sessions.install.changes import (
    CLIENT,
    ClientCommand,
    FileChange,
    InstallError,
    look,
    refuse_protected,
)
from foldmark.sessions.install.entries import BEGIN, FileKind, PromptFile, SettingsFile, is_own_status_line, is_same
from foldmark.sessions.install.json_text import NotMergeableError, blank, check
from foldmark.sessions.install.locations import MARKET, PLAIN, Places, exists, user_places
from foldmark.sessions.install.plugins import FOLDERS, PLUGIN, PLUGINS, SERVER, plugin_changes, plugin_files
from foldmark.sessions.new_file import PREFIX, SUFFIX
from foldmark.settings import user_folders
from foldmark.stores.folders import make_folder
from foldmark.wires.lenient_json import member

_REMOVE = ("plugin", "marketplace", "remove", MARKET, "--scope", "user")
"""Claude Code uninstalls the plugins of a marketplace together with it."""

_UNKNOWN = "not found"
"""What it says of a marketplace that only its settings name, as on a new machine; these are edited by hand then."""


class InstallOptions(Struct, frozen=True):
    """Options of an installation. `program` is the path of the `foldmark` script; a project gets its bare name, since
    the path may differ between its people. `version` is Foldmark's. `mcp` and `prompt` select the MCP server and the
    paragraph in CLAUDE.md."""

    program: str = PLAIN
    version: str = ""
    mcp: bool = False
    prompt: bool = True
    replace_status_line: bool = False


class InstallOutcome(Struct, frozen=True):
    """The outcome for a file, for a folder with plugins, or for a command of Claude Code.

    `action` is one of created, changed, restored, deleted and unchanged for a file or folder; it is run, or to run if
    the client is not on the PATH, for a command. `notes` are for the person.
    """

    name: str
    action: str
    notes: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    is_command: bool = False


class InstallPlan(Struct, frozen=True):
    """All outcomes, the changes of files in order, and the commands to run."""

    done: list[InstallOutcome]
    changes: list[FileChange]
    commands: list[ClientCommand]


class _Part(Struct, frozen=True):
    """A file that is edited by hand: its name in the record, its path, and its editor."""

    name: str
    path: Path
    kind: FileKind


class _Record(Struct, frozen=True):
    """The content of each file before Foldmark by the part's name; None if there was no file."""

    files: dict[str, bytes | None] = {}


def install(places: Places, options: InstallOptions, environment: Mapping[str, str]) -> InstallPlan:
    """Install; write nothing if everything is installed already. Raises InstallError.

    After an error midway, a second installation continues, and a removal takes back what was done.
    """
    with _undoable(places):
        plan = plan_install(places, options, environment)
        if plan.changes:
            make_folder(Path(user_folders.data_folder(environment)))  # other users must not read it
        for change in plan.changes:
            change.make()
        for command in plan.commands:
            command.run(environment)
    return plan


def uninstall(places: Places, environment: Mapping[str, str]) -> InstallPlan:
    """Undo an installation, even one that was killed. Raises InstallError.

    The client goes first: settings can be restored once its own entries have left them.
    """
    with _undoable(places):
        plan = _plan_removal(places, environment)
        for command in plan.commands:
            command.run(environment, accepted=_UNKNOWN)
        after = _plan_removal(places, environment) if plan.commands else plan
        for change in after.changes:
            change.make()
        _tidy(places)
    commands = [done for done in plan.done if done.is_command]
    return replace(after, done=[*commands, *(done for done in after.done if not done.is_command)])


def plan_install(places: Places, options: InstallOptions, environment: Mapping[str, str]) -> InstallPlan:
    """Plan an installation, with the record first, so that it can always be undone. Raises InstallError."""
    record, known = _record(places)
    originals = dict(known)
    market, enabled = declared(places)
    needed: list[tuple[str, ...]] = [] if places.root or enabled is not None else [("plugin", "install", PLUGIN)]
    if not places.root and (market is None or os.path.realpath(market) != os.path.realpath(places.plugins)):
        needed.insert(0, ("plugin", "marketplace", "add", str(places.plugins)))
    commands, told = _commands(needed, environment)
    changes = _plugins(places, options)
    done = _folder_outcomes(places, changes)
    for part in _parts(places, options, environment):
        change, base = _without(part, known, places)
        with _naming(part):
            text, notes = part.kind.put_in(_text(change.before))
        if part.name not in known or base == change.before:  # a file without anything of Foldmark's is a new original
            originals[part.name] = base
        changes.append(replace(change, after=_content(text)))
        done.append(InstallOutcome(str(part.path), changes[-1].action, notes, (changes[-1],)))
    changes = [change for change in changes if change.after != change.before]
    if changes or commands:
        changes.insert(0, replace(record, after=msgspec.json.encode(_Record(originals))))
    refuse_protected(changes)
    return InstallPlan([*done, *told], changes, commands)


def _plan_removal(places: Places, environment: Mapping[str, str]) -> InstallPlan:
    """Plan a removal, with the record last, so that it can be repeated if it is interrupted. Raises InstallError."""
    record, known = _record(places)
    commands, done = _commands([] if declared(places) == (None, None) else [_REMOVE], environment)
    changes = _plugins(places, None)
    done += _folder_outcomes(places, changes)
    for part in sorted(_parts(places), key=lambda part: part.name not in known):
        change, base = _without(part, known, places)
        change = replace(change, after=base)
        if change.after != change.before and change.real not in [other.real for other in changes]:
            is_exact = base is not None and base == known.get(part.name)
            changes.append(change)
            done.append(InstallOutcome(str(part.path), "restored" if is_exact else change.action, (), (change,)))
    if record.before is not None:
        changes.append(replace(record, after=None))
    refuse_protected(changes)
    return InstallPlan(done, changes, commands)


def _tidy(places: Places) -> None:
    """Remove files that a killed process left unfinished, and folders that are empty now."""
    own = [places.plugins / name for name in FOLDERS]
    folders = {*own, *(path for folder in own for path in folder.rglob("*") if path.is_dir()), places.plugins}
    inner_first = sorted({*folders, places.folder}, key=lambda folder: -len(folder.parts))
    for folder in (*inner_first, *places.record.parents[:2], *((places.root,) if places.root else ())):
        for unfinished in folder.glob(f"{PREFIX}*{SUFFIX}"):
            unfinished.unlink()
        with suppress(OSError):  # it is not empty
            if folder != places.root:
                folder.rmdir()


def _plugins(places: Places, options: InstallOptions | None) -> list[FileChange]:
    """Return the changes that write the plugins, or remove them if there are no options. Raises InstallError."""
    wanted: dict[str, bytes] = {}
    if options:
        program, mcp = PLAIN if places.root else options.program, options.mcp or exists(places.plugins / SERVER)
        wanted = plugin_files(program, options.version, mcp, catalog=places.root is None)
    return plugin_changes(places.plugins, wanted, places.root)


def _folder_outcomes(places: Places, changes: Sequence[FileChange]) -> list[InstallOutcome]:
    """Return an outcome for each folder with plugins."""
    done = []
    for folder in [places.plugins / name for name in PLUGINS] if places.root else [places.plugins]:
        inside = tuple(change for change in changes if change.file.is_relative_to(folder))
        kinds = {change.action for change in inside}
        if inside:
            done.append(InstallOutcome(str(folder), kinds.pop() if len(kinds) == 1 else "changed", (), inside))
    return done


def _parts(
    places: Places, options: InstallOptions | None = None, environment: Mapping[str, str] | None = None
) -> list[_Part]:
    """Return the files that an installation edits by hand or, without options, that one may have edited."""
    program = options.program if options and places.root is None else PLAIN
    shadowed = _shadowed_status_line(places, environment or {}) if options else None
    settings = SettingsFile(program, shadowed, options is not None and options.replace_status_line)
    prompts = {*places.prompts} if options is None else {_prompt(places)} if options.prompt else set()
    names = zip(("CLAUDE.md", ".claude/CLAUDE.md"), places.prompts, strict=False)
    return [
        _Part("settings.json", places.settings, settings),
        *(_Part(name, path, PromptFile(program)) for name, path in names if path in prompts),
    ]


@contextmanager
def _naming(part: _Part) -> Iterator[None]:
    """Name the file in an error of its editor."""
    try:
        yield
    except NotMergeableError as error:
        raise InstallError(f"{one_line(str(part.path))}: {error}") from None


def _without(part: _Part, originals: Mapping[str, bytes | None], places: Places) -> tuple[FileChange, bytes | None]:
    """Return a file as it is, and its content without Foldmark: its original if nobody else changed what it says.
    Raises InstallError."""
    found = look(part.path, 0o644, places.root)
    if found.before is None:
        return found, None
    text, original = _text(found.before) or "", _text(originals.get(part.name))
    with _naming(part):
        left = part.kind.take_out(text, original)
    if part.name in originals and is_same(left, original):
        return found, originals[part.name]
    is_ours = left != text and original is None and blank(left.strip("{} \t\r\n"))
    return found, None if is_ours else _content(left)


def declared(places: Places) -> tuple[str | None, bool | None]:
    """Return the folder of Foldmark's marketplace in the user's settings, and whether they enable the plugin, None if
    they do not name it."""
    try:
        settings = settings_in(places.settings) if places.root is None else {}
    except NotMergeableError:  # reported when the file is edited
        return None, None
    folder, enabled = (
        member(settings, "extraKnownMarketplaces", MARKET, "source", "path"),
        member(settings, "enabledPlugins", PLUGIN),
    )
    return folder if isinstance(folder, str) else None, None if enabled is None else enabled is not False


def settings_in(path: Path) -> dict[str, Any]:
    """Return what a settings file says. Raises InstallError and NotMergeableError."""
    return check(_text(look(path, 0).before) or "{}")


def _commands(
    needed: Sequence[tuple[str, ...]], environment: Mapping[str, str]
) -> tuple[list[ClientCommand], list[InstallOutcome]]:
    """Return the commands that can be run here, and an outcome for each needed one."""
    path = environment.get("PATH")
    program = shutil.which(CLIENT, path=path) if path else None
    commands = [ClientCommand(program or CLIENT, words) for words in needed]
    told = [InstallOutcome(str(each), "run" if program else "to run", is_command=True) for each in commands]
    return commands if program else [], told


def _prompt(places: Places) -> Path:
    """Return the CLAUDE.md that has the paragraph already, otherwise an existing one, otherwise the usual one."""
    prompts = [path for path in places.prompts if exists(path)]
    own = [path for path in prompts if BEGIN.encode() in (look(path, 0).before or b"")]
    return (*own, *prompts, *places.prompts)[0]


def _shadowed_status_line(places: Places, environment: Mapping[str, str]) -> str | None:
    """Return the user's settings file if a project's status line would hide the person's own status line in it."""
    if places.root is None:
        return None
    settings = user_places(places.root, environment).settings
    try:
        line = settings_in(settings).get("statusLine")
    except FoldmarkError:
        return None
    return str(settings) if isinstance(line, dict) and not is_own_status_line(line) else None


def _record(places: Places) -> tuple[FileChange, dict[str, bytes | None]]:
    """Return the file of the record, and the originals in it; none if it cannot be read."""
    found = look(places.record, 0o600)
    try:
        return found, msgspec.json.decode(found.before or b"{}", type=_Record).files
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return found, {}


@contextmanager
def _undoable(places: Places) -> Iterator[None]:
    """Say how to go on after an error midway."""
    try:
        yield
    except InstallError as error:
        raise InstallError(f"{error}; nothing was changed. Correct that, then repeat") from None
    except (OSError, FoldmarkError) as error:
        why = f"{error.strerror}: {one_line(str(error.filename))}" if isinstance(error, OSError) else str(error)
        project = " --project" if places.root else ""
        remedy = f"repeat it, or take back what was done with `foldmark uninstall claude{project}`"
        raise InstallError(f"{why}; {remedy}") from None


def _text(content: bytes | None) -> str | None:
    """Return the text of a file. Bytes that are not UTF-8 become lone surrogates, which `_content` turns back."""
    return None if content is None else content.decode("utf-8", "surrogateescape")


def _content(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")
