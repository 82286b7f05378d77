"""Install into Claude Code and uninstall: all steps are planned first, then all or none are carried out [SPEC 8].

An installation records its changes in a small file in Claude Code's folder, so it can be undone byte for byte. The
record is written first, so that even a killed installation can be undone. No text in the record is used as a path or a
command, because the file may come with somebody else's project.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import one_line
from foldmark.sessions.install.changes import (
    FileChange,
    FolderChange,
    InstallError,
    InstallStep,
    alone,
    carry_out,
    look,
)
from foldmark.sessions.install.edits import (
    BEGIN,
    COMMAND,
    PLAIN,
    SKILLS,
    Edited,
    FileKind,
    McpFile,
    PromptFile,
    SettingsFile,
    SkillFile,
    runs,
    shell,
)
from foldmark.sessions.install.json_text import NotMergeableError, check
from foldmark.sessions.install.locations import Places, exists, user_places
from foldmark.sessions.new_file import PREFIX, SUFFIX

_FOLDERS = (".", "skills", *(f"skills/{name}" for name in SKILLS), "commands")
"""Folders that an installation may have to make, below Claude Code's folder, outer ones first."""

_RECORD = "foldmark-install.json"
_NO_FILE = "none"
"""The hash of a file that did not exist."""

_BACKUP = ".foldmark-backup"
_MAX_BACKUPS = 100


class InstallOptions(Struct, frozen=True):
    """Options of an installation. `program` is the path of the `foldmark` script; a project gets its bare name, since
    the path may differ between its people. `mcp` and `prompt` select the MCP server and the paragraph in
    CLAUDE.md."""

    program: str = PLAIN
    mcp: bool = False
    prompt: bool = True
    replace_status_line: bool = False


class FileOutcome(Struct, frozen=True):
    """The outcome for one file; `action` is one of created, changed, restored, deleted, unchanged, kept, left out.

    `notes` are for the person; `before` and `after` are its contents (None: no file). `ours` is True for the record and
    for backups.
    """

    file: Path
    action: str
    notes: tuple[str, ...] = ()
    before: bytes | None = None
    after: bytes | None = None
    ours: bool = False


class InstallPlan(Struct, frozen=True):
    """The outcome for each file, and the steps in order; none if there is nothing to do."""

    done: list[FileOutcome]
    steps: list[InstallStep]


class _Part(Struct, frozen=True):
    """One file of an installation: its name in the record, its path, its editor, and the mode of a new file.

    A removal looks at all parts, an installation only at those that are `wanted`.
    """

    name: str
    path: Path
    kind: FileKind
    wanted: bool = True
    mode: int = 0o644


class _InstalledFile(Struct, frozen=True):
    """The entry of a file in the record.

    `original` is the SHA-256 of the file before Foldmark, `_NO_FILE`, or None if Foldmark's version was changed since.
    `written` and `backups` are the hashes of Foldmark's versions and of the backups. `replaced` is the JSON of a status
    line that was replaced.
    """

    original: str | None
    written: tuple[str, ...]
    replaced: str | None = None
    backups: tuple[str, ...] = ()


class _Record(Struct, frozen=True):
    """The entry of each part by its name, and the folders that were made, relative to the folder of the record."""

    files: dict[str, _InstalledFile] = {}
    folders: tuple[str, ...] = ()
    version: int = 1


def install(places: Places, options: InstallOptions, environment: Mapping[str, str]) -> InstallPlan:
    """Install; write nothing if everything is installed already. Raises InstallError."""
    with alone(places.root or places.folder):
        plan = plan_install(places, options, environment)
        carry_out(plan.steps)
    return plan


def uninstall(places: Places, environment: Mapping[str, str]) -> InstallPlan:
    """Undo an installation, even one that was killed. Raises InstallError."""
    with alone(places.root or places.folder):
        plan = _plan_removal(places, environment)
        for folder in {part.path.parent for part in _parts(places, InstallOptions(), environment)}:
            for unfinished in folder.glob(f"{PREFIX}*{SUFFIX}"):
                with suppress(OSError):
                    os.unlink(unfinished)  # noqa: PTH108 - a link is not followed
        carry_out(plan.steps)
    return plan


def plan_install(places: Places, options: InstallOptions, environment: Mapping[str, str]) -> InstallPlan:
    """Plan an installation: first the record, then folders, backups and files, so that it can always be undone.

    Raises InstallError.
    """
    found, record = _read_record(places)
    done: list[FileOutcome] = []
    backups: list[FileChange] = []
    changes: list[FileChange] = []
    entries = dict(record.files)
    for part in filter(lambda part: part.wanted, _parts(places, options, environment)):
        file = look(part.path, part.mode, places.root)
        entry = record.files.get(part.name)
        is_own = entry is not None and _hash(file.before) in entry.written
        with _naming(part.path):
            text = _text(file.before)
            edited = part.kind.put_in(text, is_own)
            change = file.to(_content(edited.text))
            is_fresh = text is None or part.kind.take_out(text, None).text == text
        if change.after == change.before:
            kept = "left out" if change.after is None else "kept"
            done.append(FileOutcome(part.path, kept if edited.kept else "unchanged", edited.notes))
            continue
        changes.append(change)
        done.append(_outcome(change, "created" if change.before is None else "changed", edited.notes))
        entries[part.name] = _entry(change, entry, is_own, is_fresh, edited.replaced)
        if is_fresh and change.before is not None and (backup := _new_backup(change)):
            backups.append(backup)
    if not changes:
        return InstallPlan(done, [])
    needed = {change.file.parent for change in changes} | {places.folder}
    missing = [name for name in _FOLDERS if not exists(places.folder / name)]
    made = [name for name in missing if any(folder.is_relative_to(places.folder / name) for folder in needed)]
    names = tuple(name for name in _FOLDERS if name in made or name in record.folders)
    content = msgspec.json.format(msgspec.json.encode(_Record(entries, names)), indent=2) + b"\n"
    written = found.to(content)
    done += [_outcome(change, "created", ours=True) for change in backups]
    done.append(_outcome(written, "created" if found.before is None else "changed", ours=True))
    folders = [FolderChange(places.folder / name) for name in made]
    outer = 1 if "." in made else 0  # the folder of the record
    return InstallPlan(done, [*folders[:outer], written, *folders[outer:], *backups, *changes])


def _plan_removal(places: Places, environment: Mapping[str, str]) -> InstallPlan:
    """Plan a removal: files first, then backups, folders and the record, so that it can be repeated if interrupted."""
    found, record = _read_record(places)
    done: list[FileOutcome] = []
    changes: list[FileChange] = []
    backups: list[FileChange] = []
    seen: set[Path] = set()
    parts = _parts(places, InstallOptions(), environment)
    for part in sorted(parts, key=lambda part: part.name not in record.files):
        file = look(part.path, part.mode, places.root)
        entry = record.files.get(part.name)
        copies = _backups_of(part.path, entry) if entry else []
        backups += copies
        if file.before is None or file.real in seen:  # one CLAUDE.md may be a link to the other
            continue
        seen.add(file.real)
        with _naming(part.path):
            action, edited = _without(part, file.before, entry, copies)
        change = file.to(_content(edited.text))
        if change.after != change.before:
            changes.append(change)
            done.append(_outcome(change, action, edited.notes))
        elif edited.kept and entry:
            done.append(FileOutcome(part.path, "kept", edited.notes))
    done += [_outcome(change, "deleted", ours=True) for change in backups]
    emptied = {change.file.parent for change in changes}
    skills = {name for name in _FOLDERS if "/" in name and places.folder / name in emptied}
    names = [name for name in reversed(_FOLDERS) if name in record.folders or name in skills]
    steps: list[InstallStep] = [*changes, *backups, *(FolderChange(places.folder / name, True) for name in names)]
    if found.before is not None:
        deleted = found.to(None)
        done.append(_outcome(deleted, "deleted", ours=True))
        steps.insert(len(steps) - (1 if "." in names else 0), deleted)
    return InstallPlan(done, steps)


def _parts(places: Places, options: InstallOptions, environment: Mapping[str, str]) -> list[_Part]:
    """Return all parts that an installation may have."""
    program = PLAIN if places.root else options.program
    settings = SettingsFile(program, _shadowed_status_line(places, environment), options.replace_status_line)
    parts = [_Part("settings.json", places.settings, settings)]
    for name in SKILLS:
        command = places.command(name)
        skill = SkillFile(name, shell(program), str(command) if exists(command) else None)
        parts.append(_Part(f"skills/{name}/SKILL.md", places.skill(name), skill))
    parts.append(_Part(f"commands/{COMMAND}.md", places.command(COMMAND), SkillFile(COMMAND, shell(program))))
    prompt = _prompt(places) if options.prompt else None
    for name, path in zip(("CLAUDE.md", ".claude/CLAUDE.md"), places.prompts, strict=False):
        parts.append(_Part(name, path, PromptFile(shell(program)), path == prompt))
    private = 0o644 if places.root else 0o600  # the user's file also holds personal data of Claude Code
    return [*parts, _Part(places.mcp.name, places.mcp, McpFile(program), options.mcp, private)]


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
        line = check((look(settings, 0).before or b"{}").decode()).get("statusLine")
    except (FoldmarkError, UnicodeDecodeError):
        return None
    return str(settings) if isinstance(line, dict) and not runs(line.get("command"), "statusline") else None


def _without(
    part: _Part, content: bytes, entry: _InstalledFile | None, backups: list[FileChange]
) -> tuple[str, Edited]:
    """Return the action and the edit of one file: its original if only Foldmark changed it, otherwise the file without
    Foldmark's entries."""
    text = _text(content) or ""
    if entry and _hash(content) == entry.original:
        return "unchanged", Edited(text)
    if entry and _hash(content) in entry.written:
        if entry.original == _NO_FILE:
            return "deleted", Edited(None)
        for backup in backups:
            if _hash(backup.before) == entry.original:
                return "restored", Edited(_text(backup.before))
    edited = part.kind.take_out(text, entry.replaced if entry else None)
    if edited.text is None:
        return "deleted", edited
    if entry is None and edited.text != text and edited.text.strip() in ("", "{}"):
        return "deleted", Edited(None)
    why = "has changed since" if entry else "has no record of its original"
    return "changed", edited._replace(notes=edited.notes or (f"{why}: only Foldmark's entries were removed",))


def _entry(
    change: FileChange, known: _InstalledFile | None, is_own: bool, is_fresh: bool, replaced: str | None
) -> _InstalledFile:
    """Return the new entry of a file. `is_own`: it was as Foldmark left it; `is_fresh`: it had nothing of
    Foldmark's."""
    before, after = _hash(change.before), _hash(change.after)
    known = known or _InstalledFile(None, ())
    if is_fresh:
        backups = known.backups if change.before is None else tuple(dict.fromkeys((*known.backups, before)))
        return _InstalledFile(before, (after,), replaced, backups)
    written = tuple(dict.fromkeys((*known.written, after))) if is_own else (after,)
    return _InstalledFile(known.original if is_own else None, written, replaced or known.replaced, known.backups)


def _new_backup(change: FileChange) -> FileChange | None:
    """Return the backup to make next to a file, under a free name; None if there is an equal one."""
    for path in _backup_paths(change.file):
        if path.is_symlink() or path.is_dir():
            continue
        found = look(path, change.mode)
        if found.before == change.before:
            return None
        if found.before is None:
            return FileChange(path, path, None, change.before, change.mode)
    raise InstallError(f"there are {_MAX_BACKUPS} backups of {one_line(str(change.file))}; nothing was changed")


def _backups_of(file: Path, entry: _InstalledFile) -> list[FileChange]:
    """Return the removals of the unchanged backups that an entry names."""
    paths = [path for path in _backup_paths(file) if not path.is_symlink() and path.is_file()] if entry.backups else []
    return [found.to(None) for path in paths if _hash((found := look(path, 0)).before) in entry.backups]


def _backup_paths(file: Path) -> Iterator[Path]:
    yield file.with_name(file.name + _BACKUP)
    for number in range(2, _MAX_BACKUPS + 1):
        yield file.with_name(f"{file.name}{_BACKUP}-{number}")


def _read_record(places: Places) -> tuple[FileChange, _Record]:
    """Return the record's file and its content, empty if it cannot be read."""
    found = look(places.folder / _RECORD, 0o600, places.root)
    try:
        return found, msgspec.json.decode(found.before or b"{}", type=_Record)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return found, _Record()


def _outcome(change: FileChange, action: str, notes: tuple[str, ...] = (), ours: bool = False) -> FileOutcome:
    return FileOutcome(change.file, action, notes, change.before, change.after, ours)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the file's name to errors about its content."""
    try:
        yield
    except NotMergeableError as error:
        raise InstallError(f"{one_line(str(path))}: {error}; nothing was changed") from None
    except RecursionError:
        raise InstallError(f"{one_line(str(path))}: it is nested too deeply; nothing was changed") from None


def _hash(content: bytes | None) -> str:
    return _NO_FILE if content is None else hashlib.sha256(content).hexdigest()


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "surrogateescape")


def _content(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")
