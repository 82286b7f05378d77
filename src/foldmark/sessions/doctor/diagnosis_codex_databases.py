"""Where Codex's databases and a rollout differ, and what becomes of it [SPEC 8].

The findings describe Codex 0.169, whose sessions were changed, moved and archived, then resumed and listed.
"""

import os
from collections.abc import Iterator
from typing import IO

from foldmark.core.wording import count, one_line
from foldmark.sessions.codex.databases import CopiedHistory, ListedThread, UnreadableError, history, thread
from foldmark.sessions.codex.rollouts import LONGEST_HEAD
from foldmark.sessions.doctor.findings import Finding
from foldmark.sessions.formats import SessionPath
from foldmark.sessions.lenient_json import NotJsonError, decode


def databases_compared(session: SessionPath) -> Iterator[Finding]:
    """Yield what Codex's databases say otherwise than the rollout; nothing where they say nothing of it."""
    try:
        known = thread(session)
    except UnreadableError as error:
        yield Finding("note", None, str(error))
    else:
        if known and os.path.realpath(known.path) != os.path.realpath(session.path):
            yield _elsewhere(known)
            return  # what is shown is the other file's
        if known and known.archived:
            told = f"the session is archived in Codex's {known.database.name}"
            yield Finding("note", None, f"{told}; `codex unarchive {session.id}` before resuming it")
    try:
        if (shown := history(session)) is not None:
            yield from _shown(session, shown)
    except UnreadableError as error:
        yield Finding("note", None, str(error))


def _elsewhere(known: ListedThread) -> Finding:
    """Report a rollout that lies elsewhere: Codex reads only the file that its list of sessions names."""
    name, path = known.database.name, one_line(str(known.path))
    if known.path.exists():
        told = f"Codex's {name} names another file for this session, {path}: Codex goes on with that one"
        return Finding("loses", None, told)
    told = f"Codex's {name} says that the session is in {path}, where it is not: Codex cannot resume it"
    return Finding("stops", None, f"{told}; put the file back there")


def _shown(session: SessionPath, shown: CopiedHistory) -> Iterator[Finding]:
    """Report what Codex shows wrongly: it copied the rollout up to some byte, and does not copy changes before that."""
    name, size = shown.database.name, session.path.stat().st_size
    anew = f"close Codex and move {name} away: Codex makes it anew from the rollouts"
    if shown.end > size:
        told = f"Codex's {name} was read from this file up to byte {shown.end:,}, and the file has {size:,}"
        ending = "what is said next reaches the model, and Codex does not show it"
        yield Finding("loses", None, f"{told}: {ending}; {anew}")
        return
    with session.path.open("rb") as file:
        wrong = [
            turn
            for turn, at in shown.turns.items()
            if at is not None and (at >= size or turn.encode() not in _line_at(file, at))
        ]
        file.seek(max(0, shown.end - 1))
        at_end = not shown.end or file.read(1) == b"\n"
        ordinal = _ordinal(_line_at(file, shown.end)) if at_end and shown.end < size else shown.ordinal
    if wrong or not at_end or ordinal not in (None, shown.ordinal):
        told = f"the file was changed after Codex's {name} was made from it"
        if wrong:
            told += f" ({count(len(wrong), 'turn')} of {len(shown.turns)} stand elsewhere now, or nowhere)"
        yield Finding("loses", None, f"{told}: Codex shows other turns than the model is sent; {anew}")
    elif shown.end < size:
        told = f"Codex's {name} lacks the last {size - shown.end:,} bytes of the file"
        yield Finding("note", None, f"{told}: Codex reads them when it opens the session")


def _line_at(file: IO[bytes], at: int) -> bytes:
    """Return the line that begins at byte `at`; nothing where none begins."""
    file.seek(max(0, at - 1))
    if at and file.read(1) != b"\n":
        return b""
    return file.readline(LONGEST_HEAD)


def _ordinal(line: bytes) -> int | None:
    try:
        record = decode(line)
    except NotJsonError:
        return None
    ordinal = record.get("ordinal") if isinstance(record, dict) else None
    return ordinal if type(ordinal) is int else None
