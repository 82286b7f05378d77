"""The folder that a session of Claude Code's was started in: its program looks for the session by this [SPEC 8]."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from foldmark.sessions.claude.folders import project_folder
from foldmark.sessions.lenient_json import NotJsonError, decode
from foldmark.sessions.session_file import SessionFile, SessionRecord

_ENDS = (256 << 10, 16 << 20)
_LINES, _BEGINNING = 2000, 16 << 20
"""How much of the beginning is looked at: lines, and bytes."""


def working_folder(path: Path, newest: Mapping[str, Any] | None = None) -> Path | None:
    """The folder that a session works in, None if it does not say; `newest` is `newest_record`, if it is known.

    An agent may have changed to another one since it was started: the folder counts whose name the sessions' folder
    has, and only if none has that the last one. Raises SessionFileError, OSError.
    """
    home, last = path.parent.name, folder_in(newest_record(path) if newest is None else newest)
    if last is not None and project_folder(last) == home:
        return last
    others: dict[Path, None] = {}
    for each in _folders(path):
        if each not in others and project_folder(each) == home:
            return each
        others[each] = None
    return last or next(iter(others), None)


def newest_record(path: Path) -> dict[str, Any]:
    """The last message that names a folder, as far as it stands near the end; empty if there is none."""
    return next(_from_the_end(path), {})


def folder_in(record: Mapping[str, Any]) -> Path | None:
    """The folder that a record names; None for what cannot be one."""
    cwd = record.get("cwd")
    return Path(cwd) if isinstance(cwd, str) and os.path.isabs(cwd) and "\0" not in cwd else None  # noqa: PTH117


def existing(folder: Path | None) -> Path | None:
    """Return the folder if it is there, otherwise None; never raises."""
    return folder if folder is not None and os.path.isdir(folder) else None  # noqa: PTH112


def _folders(path: Path) -> Iterator[Path]:
    """The folders that the first records of a session name."""
    with SessionFile(path) as file:
        for number, record in enumerate(file.lines()):
            if number == _LINES or file.whole[1] > _BEGINNING:
                return
            if (
                isinstance(record, SessionRecord)
                and isinstance(record.value, dict)
                and (cwd := folder_in(record.value))
            ):
                yield cwd


def _from_the_end(path: Path) -> Iterator[dict[str, Any]]:
    with SessionFile(path) as file:
        size = file.size
    for length in _ENDS:
        with path.open("rb") as end:
            end.seek(max(0, size - length))
            lines = end.read(length).split(b"\n")
        for line in reversed(lines[1:] if size > length else lines):
            try:
                record = decode(line)
            except NotJsonError:
                continue
            if isinstance(record, dict) and record.get("type") in ("user", "assistant") and folder_in(record):
                yield record
