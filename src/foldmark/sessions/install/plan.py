"""What an installation or its removal would do, worked out before anything is done [SPEC 8]."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from foldmark.core.wording import one_line
from foldmark.sessions.install import record as records
from foldmark.sessions.install.changes import (
    FileChange,
    FoundFile,
    InstallError,
    InstallStep,
    NewFolder,
    OldFolder,
    look,
)
from foldmark.sessions.install.json_text import NotMergeableError
from foldmark.sessions.install.kinds import Edited, InstallPart
from foldmark.sessions.install.parts import ANY, FOLDERS, Wanted, all_parts, wanted_parts
from foldmark.sessions.install.record import NO_FILE, InstalledFile, InstallRecord, hashed
from foldmark.sessions.install.where import Places, exists

BACKUP = ".foldmark-backup"
_MOST_BACKUPS = 100


class FileOutcome(Struct, frozen=True):
    """What becomes of one file; `action` is one of created, changed, restored, deleted, unchanged, kept, left out.

    `notes` say what a person should know; `before` and `after` are its contents (None: no file). `ours` is what an
    installation keeps for its removal: the record, and backups.
    """

    file: Path
    action: str
    notes: tuple[str, ...] = ()
    before: bytes | None = None
    after: bytes | None = None
    ours: bool = False


class InstallPlan(Struct, frozen=True):
    """What becomes of each file, and the steps that do it, in order; none if there is nothing to do."""

    done: list[FileOutcome]
    steps: list[InstallStep]


def plan_install(places: Places, wanted: Wanted, environment: Mapping[str, str]) -> InstallPlan:
    """The record first, then folders, backups, and the files themselves: so it can be taken back wherever it stops.

    Raises InstallError.
    """
    file, found, record = _record(places)
    done: list[FileOutcome] = []
    backups: list[FileChange] = []
    changes: list[FileChange] = []
    entries = dict(record.files)
    for part in wanted_parts(places, wanted, environment):
        there = look(part.path, part.mode, places.root)
        entry = record.files.get(part.name)
        ours = entry is not None and hashed(there.content) in entry.written
        with _named(part.path):
            edited = part.kind.put_in(_text(there.content), ours)
            after = _content(edited.text)
            text = _text(there.content)
            fresh = text is None or part.kind.take_out(text, None).text == text
        if after == there.content:
            kept = "left out" if after is None else "kept"
            done.append(FileOutcome(part.path, kept if edited.kept else "unchanged", edited.notes))
            continue
        change = FileChange(part.path, there.real, there.content, after, there.mode)
        changes.append(change)
        done.append(_done(change, "created" if there.content is None else "changed", edited.notes))
        entries[part.name] = _entry(change, entry, ours, fresh, edited.replaced)
        if fresh and there.content is not None and (backup := _new_backup(change)):
            backups.append(backup)
    if not changes:
        return InstallPlan(done, [])
    needed = {change.file.parent for change in changes} | {places.folder}
    missing = [name for name in FOLDERS if not exists(places.folder / name)]
    made = [name for name in missing if any(folder.is_relative_to(places.folder / name) for folder in needed)]
    names = tuple(name for name in FOLDERS if name in made or name in record.folders)
    told = FileChange(file, found.real, found.content, records.encode(InstallRecord(entries, names)), found.mode)
    done += [_done(change, "created", ours=True) for change in backups]
    done.append(_done(told, "created" if found.content is None else "changed", ours=True))
    folders = [NewFolder(places.folder / name) for name in made]
    outer = 1 if "." in made else 0  # the record lies in it
    return InstallPlan(done, [*folders[:outer], told, *folders[outer:], *backups, *changes])


def plan_removal(places: Places, environment: Mapping[str, str]) -> InstallPlan:
    """Files first, then backups, folders, and the record: where it stops, it can be done again. Raises InstallError."""
    file, found, record = _record(places)
    done: list[FileOutcome] = []
    changes: list[FileChange] = []
    backups: list[FileChange] = []
    seen: set[Path] = set()
    for part in sorted(all_parts(places, ANY, environment), key=lambda part: part.name not in record.files):
        there = look(part.path, part.mode, places.root)
        entry = record.files.get(part.name)
        copies = _backups_of(part.path, entry) if entry else []
        backups += copies
        if there.content is None or there.real in seen:  # one CLAUDE.md may be a link to the other
            continue
        seen.add(there.real)
        with _named(part.path):
            action, edited = _without(part, there.content, entry, copies)
        after = _content(edited.text)
        if after == there.content:
            if edited.kept and entry:
                done.append(FileOutcome(part.path, "kept", edited.notes))
            continue
        change = FileChange(part.path, there.real, there.content, after, there.mode)
        changes.append(change)
        done.append(_done(change, action, edited.notes))
    done += [_done(change, "deleted", ours=True) for change in backups]
    skills = {
        name for name in FOLDERS if "/" in name and places.folder / name in {each.file.parent for each in changes}
    }
    names = [name for name in reversed(FOLDERS) if name in record.folders or name in skills]
    steps: list[InstallStep] = [*changes, *backups, *(OldFolder(places.folder / name) for name in names)]
    if found.content is not None:
        kept = FileChange(file, found.real, found.content, None, found.mode)
        done.append(_done(kept, "deleted", ours=True))
        steps.insert(len(steps) - (1 if "." in names else 0), kept)
    return InstallPlan(done, steps)


def _without(
    part: InstallPart, content: bytes, entry: InstalledFile | None, backups: list[FileChange]
) -> tuple[str, Edited]:
    """The action, and what becomes of one file: as it was, if only we have changed it; otherwise ours is taken out."""
    text = _text(content) or ""
    if entry and hashed(content) == entry.original:
        return "unchanged", Edited(text)
    if entry and hashed(content) in entry.written:
        if entry.original == NO_FILE:
            return "deleted", Edited(None)
        for backup in backups:
            if hashed(backup.before) == entry.original:
                return "restored", Edited(_text(backup.before))
    edited = part.kind.take_out(text, entry.replaced if entry else None)
    if edited.text is None:
        return "deleted", edited
    if entry is None and edited.text != text and edited.text.strip() in ("", "{}"):
        return "deleted", Edited(None)
    why = "has changed since" if entry else "has no record of what it was"
    return "changed", edited._replace(notes=edited.notes or (f"{why}: only what is Foldmark's was taken out",))


def _entry(
    change: FileChange, known: InstalledFile | None, ours: bool, fresh: bool, replaced: str | None
) -> InstalledFile:
    """The entry of a file that is changed; `ours`: it is as Foldmark left it; `fresh`: nothing of ours is in it."""
    before, after = hashed(change.before), hashed(change.after)
    known = known or InstalledFile(None, ())
    if fresh:
        backups = known.backups if change.before is None else tuple(dict.fromkeys((*known.backups, before)))
        return InstalledFile(before, (after,), replaced, backups)
    written = tuple(dict.fromkeys((*known.written, after))) if ours else (after,)
    return InstalledFile(known.original if ours else None, written, replaced or known.replaced, known.backups)


def _new_backup(change: FileChange) -> FileChange | None:
    """The backup to make of a file beside it, under a name that is free; None if there is one like it."""
    for path in _backups(change.file):
        if path.is_symlink() or path.is_dir():
            continue
        found = look(path, change.mode)
        if found.content == change.before:
            return None
        if found.content is None:
            return FileChange(path, path, None, change.before, change.mode)
    raise InstallError(f"there are {_MOST_BACKUPS} backups of {one_line(str(change.file))}; nothing was changed")


def _backups_of(file: Path, entry: InstalledFile) -> list[FileChange]:
    """The removal of the backups that an entry tells of, as far as they are there and whole."""
    removals = []
    for path in _backups(file) if entry.backups else ():
        if not path.is_symlink() and path.is_file() and hashed((found := look(path, 0)).content) in entry.backups:
            removals.append(FileChange(path, path, found.content, None, found.mode))
    return removals


def _backups(file: Path) -> Iterator[Path]:
    yield file.with_name(file.name + BACKUP)
    for number in range(2, _MOST_BACKUPS + 1):
        yield file.with_name(f"{file.name}{BACKUP}-{number}")


def _record(places: Places) -> tuple[Path, FoundFile, InstallRecord]:
    file = places.folder / records.NAME
    found = look(file, 0o600, places.root)
    return file, found, records.decode(found.content)


def _done(change: FileChange, action: str, notes: tuple[str, ...] = (), ours: bool = False) -> FileOutcome:
    return FileOutcome(change.file, action, notes, change.before, change.after, ours)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except NotMergeableError as error:
        raise InstallError(f"{one_line(str(path))}: {error}; nothing was changed") from None
    except RecursionError:
        raise InstallError(f"{one_line(str(path))}: it is nested too deeply; nothing was changed") from None


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "surrogateescape")


def _content(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")
